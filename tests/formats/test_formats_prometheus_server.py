"""A Prometheus server as a source: recognised by answer, asked once a series and interval, whatever it answers."""

from __future__ import annotations

import math
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from loopback import Asked, Loopback, Says

from grpo_top.formats.base import RunContext
from grpo_top.formats.endpoint import recognise
from grpo_top.formats.fleet_queries import READY, Query, own_query
from grpo_top.formats.kinds import KINDS
from grpo_top.formats.prometheus_server import (
    ABSENT_LOOKS,
    HISTORY,
    INTERVAL,
    FleetSeriesWatcher,
    PrometheusServer,
    root_of,
    sampler_of,
)
from grpo_top.records import FleetLook, FleetPoint, Skipped
from grpo_top.sources.feed import NoAnswer
from grpo_top.sources.http import Network

NOW = 1_700_000_010.0
LAST = 1_700_000_010.0 // INTERVAL * INTERVAL
ONE = (Query("waiting", "sum by (instance) (up)", "count", "high"),)
SCALAR = {"status": "success", "data": {"resultType": "scalar", "result": [NOW, "1"]}}


def part(name: str, values: list[Any], **labels: str) -> dict[str, Any]:
    """One series of an answer."""
    return {"metric": {"grpo_top": name, **labels}, "values": values}


def matrix(*series: dict[str, Any], **more: Any) -> dict[str, Any]:
    """An answer of the query API, as a server writes it."""
    return {"status": "success", "data": {"resultType": "matrix", "result": list(series)}, **more}


def distribution(at: float = LAST, median: str = "2", count: str = "3") -> dict[str, Any]:
    """The distribution at one time."""
    return matrix(
        part("median", [[at, median]]),
        part("count", [[at, count]]),
        part("highest", [[at, "9"]], instance="gpu3:8000"),
        part("lowest", [[at, "0"]], instance="gpu1:8000"),
    )


class Asking:
    """A watcher over a loopback server, asked turn by turn on a clock of its own."""

    def __init__(self, server: Loopback, *queries: Query) -> None:
        self.now = NOW
        self.watcher = FleetSeriesWatcher(server.url, queries or ONE, clock=lambda: self.now)
        self._network = Network()
        self._url = server.url

    def look(self) -> list[Any]:
        return self._network.ask(self.watcher.look, self._url)

    def close(self) -> None:
        self._network.close()


@pytest.fixture
def asking(server):
    found = Asking(server)
    yield found
    found.close()


def asked_of(asked: Asked) -> dict[str, str]:
    return {name: values[0] for name, values in parse_qs(urlsplit(asked.path).query).items()}


def says(server: Loopback, *answers: Any) -> None:
    """One answer after another; the last one stays."""
    left = [answer if isinstance(answer, Says) else Says(answer) for answer in answers]
    server.routes["/api/v1/query_range"] = lambda _: left.pop(0) if len(left) > 1 else left[0]


# ---- who is there


@pytest.mark.parametrize("path", ["", "/prometheus"])
def test_a_server_is_known_by_what_it_answers_to_a_query(server, path):
    server.routes[f"{path}/api/v1/query"] = Says(SCALAR)
    server.routes[path or "/"] = Says("<html>", headers={"Content-Type": "text/html"})
    network = Network()
    kinds = (PrometheusServer(), *KINDS)
    found = network.ask(lambda client: recognise(client, kinds, RunContext()), server.url + path)
    network.close()
    assert isinstance(found, FleetSeriesWatcher)
    assert found._root == server.url + path


def test_a_server_is_known_by_its_own_metrics_and_is_no_trainer(server):
    own = "# TYPE prometheus_build_info gauge\n" + 'prometheus_build_info{version="2.42.0"} 1\nstep 3\n'
    server.routes["/metrics"] = Says(own, headers={"Content-Type": "text/plain"})
    network = Network()
    kinds = (PrometheusServer(), *KINDS)
    found = network.ask(lambda client: recognise(client, kinds, RunContext()), server.url)
    network.close()
    assert isinstance(found, FleetSeriesWatcher)
    assert found._root == server.url


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[1]",
        b'{"status":"error"}',
        b'{"status":"success","data":[]}',
        b'{"loss":1.0}',
        b"step 1\n",
    ],
)
def test_what_is_none_is_not_taken_for_one(server, body):
    server.routes["/"] = Says(body)
    network = Network()
    with pytest.raises(NoAnswer):
        network.ask(lambda client: recognise(client, (PrometheusServer(),), RunContext()), server.url)
    network.close()


def test_a_url_as_a_browser_has_it_names_the_server():
    for path in ("", "/", "/graph", "/query", "/metrics", "/api/v1/query?query=1"):
        assert root_of(f"http://prom:9090{path}") == "http://prom:9090"
    assert root_of("https://host/prometheus/graph?g0.expr=up") == "https://host/prometheus"


# ---- what is asked


def test_one_request_is_made_for_each_series_and_interval(server, asking):
    says(server, distribution())
    asking.look()
    (first,) = server.asked
    assert asked_of(first)["step"] == "15"
    assert float(asked_of(first)["end"]) == LAST
    assert float(asked_of(first)["start"]) == LAST - HISTORY

    assert asking.look() == []
    assert len(server.asked) == 1

    asking.now += 2 * INTERVAL
    says(server, distribution(LAST + 2 * INTERVAL))
    asking.look()
    assert len(server.asked) == 2
    assert float(asked_of(server.asked[1])["start"]) == LAST + INTERVAL
    assert float(asked_of(server.asked[1])["end"]) == LAST + 2 * INTERVAL


def test_a_query_asks_for_four_series_however_many_samplers_there_are():
    promql = Query("busy", "my_gauge").over_samplers()
    assert promql == (
        'label_replace(quantile(0.5, ((my_gauge) >= -Inf)), "grpo_top", "median", "", "")'
        ' or label_replace(count(((my_gauge) >= -Inf)), "grpo_top", "count", "", "")'
        ' or label_replace(topk(1, ((my_gauge) >= -Inf)), "grpo_top", "highest", "", "")'
        ' or label_replace(bottomk(1, ((my_gauge) >= -Inf)), "grpo_top", "lowest", "", "")'
    )


def test_what_the_server_has_nothing_of_is_asked_for_again_only_now_and_then(server, asking):
    says(server, matrix())
    for _ in range(ABSENT_LOOKS + 2):
        assert asking.look() == []
        asking.now += INTERVAL
    assert len(server.asked) == 2
    assert asking.watcher.note == "it knows no sampler of vLLM or SGLang; --query NAME=PROMQL asks for others"


def test_ready_queries_have_names_of_their_own_and_fit_into_a_url():
    assert len({query.name for query in READY}) == len(READY)
    assert max(len(query.over_samplers()) for query in READY) < 6000
    assert all("vllm:" in query.promql for query in READY)


def test_a_query_of_the_user_is_a_name_and_an_expression():
    assert own_query('busy = max by (pod) (a{b="c"})') == Query("busy", 'max by (pod) (a{b="c"})')
    for text in ("busy", "=up", "busy=", ""):
        with pytest.raises(ValueError, match="a query is NAME=PROMQL"):
            own_query(text)


# ---- what is answered


def test_an_answer_is_the_distribution_over_all_samplers(server, asking):
    says(server, distribution())
    assert asking.look() == [
        FleetLook("waiting", [FleetPoint(LAST, 3, 2.0, 0.0, 9.0)], "gpu1:8000", "gpu3:8000", "count", "high")
    ]
    assert asking.watcher.note == ""


def test_who_is_at_an_end_is_who_was_there_last(server, asking):
    says(
        server,
        matrix(
            part("count", [[1, "2"], [2, "2"]]),
            part("highest", [[1, "7"]], instance="a"),
            part("highest", [[2, "5"]], instance="b"),
            part("lowest", [[1, "1"]], instance="c"),
        ),
    )
    (look,) = asking.look()
    assert (look.lowest, look.highest) == ("", "b")
    assert [point.highest for point in look.points] == [7.0, 5.0]
    assert math.isnan(look.points[1].lowest)


def test_what_is_no_number_is_unknown_and_never_zero(server, asking):
    says(server, distribution(median="NaN"))
    (look,) = asking.look()
    assert math.isnan(look.points[0].median)
    assert look.points[0].highest == 9.0


def test_points_and_series_of_another_shape_are_skipped_with_a_reason(server, asking):
    bad = [[LAST, 1], [LAST], "x", None, [None, "1"], [LAST, "one"], [True, "1"]]
    says(server, matrix(part("count", [*bad, [LAST, "3"]]), {"metric": {}, "values": []}, {"values": 3}))
    skipped, look = asking.look()
    assert skipped == Skipped("9 values of waiting that are no numbers", 0)
    assert look.points[0].samplers == 3


def test_a_warning_of_a_partial_answer_is_told_and_the_answer_taken(server, asking):
    says(server, {**distribution(), "warnings": ["store 10.0.0.7 is \x1b[31mgone", 3], "infos": ["quiet"]})
    assert len(asking.look()) == 1
    assert asking.watcher.note == "waiting: store 10.0.0.7 is ␛[31mgone"


def test_one_query_that_fails_does_not_stop_the_others(server):
    asking = Asking(server, *ONE, Query("bad", "sum("))
    server.routes["/api/v1/query_range"] = lambda asked: (
        Says(distribution())
        if "(up)" in asked_of(asked)["query"]
        else Says({"status": "error", "errorType": "bad_data", "error": "1:5: parse error"}, 400)
    )
    assert [type(record) for record in asking.look()] == [FleetLook]
    assert asking.watcher.note == "bad: bad_data: 1:5: parse error"
    asking.close()


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (
            Says({"status": "error", "errorType": "timeout", "error": "query timed out"}, 503),
            "timeout: query timed out",
        ),
        (Says("no", 500), "a query answers 500 Internal Server Error"),
        (Says("<html>"), "it answers a query with something else than series"),
        (
            Says({"status": "success", "data": {"resultType": "vector", "result": []}}),
            "something else than series",
        ),
        (Says({"status": "success"}), "something else than series"),
        (Says([1]), "something else than series"),
    ],
)
def test_where_no_query_is_answered_the_reason_is_the_source_s_state(server, asking, answer, why):
    says(server, answer)
    with pytest.raises(NoAnswer, match=why):
        asking.look()


def test_what_was_missed_while_it_did_not_answer_is_asked_for_afterwards(server, asking):
    says(server, distribution())
    asking.look()
    asking.now += 4 * INTERVAL
    says(server, Says("", 500))
    with pytest.raises(NoAnswer):
        asking.look()
    asking.now += INTERVAL
    says(server, distribution(LAST + 5 * INTERVAL))
    asking.look()
    assert float(asked_of(server.asked[-1])["start"]) == LAST + INTERVAL


def test_after_a_look_without_an_answer_less_of_the_past_is_asked_for(server, asking):
    says(server, Says("", 503))
    for _ in range(9):
        with pytest.raises(NoAnswer):
            asking.look()
    spans = [float(asked_of(asked)["end"]) - float(asked_of(asked)["start"]) for asked in server.asked]
    assert spans[:3] == [3600.0, 900.0, 225.0]
    assert spans[-1] == INTERVAL


@pytest.mark.parametrize(
    ("labels", "name"),
    [
        ({"instance": "gpu1:8000"}, "gpu1:8000"),
        ({"instance": "node:8080", "ReplicaId": "r7"}, "node:8080 r7"),
        ({"instance": "router:29000", "worker_addr": "http://w1:30000"}, "http://w1:30000"),
        ({"grpo_top": "highest", "__name__": "x", "pod": "a", "job": "b"}, "job=b, pod=a"),
        ({}, ""),
    ],
)
def test_a_sampler_is_called_by_the_address_that_is_nearest_to_it(labels, name):
    assert sampler_of(labels) == name
