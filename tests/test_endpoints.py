"""A URL is a source like a file: who answers is known by the answer, and what comes is read as it comes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from loopback import Asked, Says, loopback, until
from runs import comparable, group, read, run_record, step_record, values, write_log
from serving import TEXT, recorded, sglang, vllm

from grpo_top.cli import main
from grpo_top.config import Settings
from grpo_top.formats.prometheus import TrainerWatcher
from grpo_top.formats.served import JsonWatcher, LogWatcher
from grpo_top.monitor import Monitor, NothingReadable
from grpo_top.sources.feed import Limits
from grpo_top.sources.http import Network

if TYPE_CHECKING:
    from collections.abc import Callable

    from grpo_top.snapshot import Snapshot

QUICK = Limits(
    connect=0.5, read=0.3, whole=1.0, body=1 << 20, first_wait=0.02, longest_wait=0.05, a_second=1e6
)


@pytest.fixture
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Endpoints are asked a hundred times a second."""
    for watcher in (TrainerWatcher, JsonWatcher, LogWatcher):
        monkeypatch.setattr(watcher, "every", 0.01)
    monkeypatch.setattr("grpo_top.formats.served.WITHOUT_RANGES_SECONDS", 0.01)


def opened(*where: str, **how: Any) -> Monitor:
    return Monitor(list(where), Settings(), network=Network(limits=QUICK), **how)


def watched(*where: str, **how: Any) -> Snapshot:
    """What is found at a URL, read to its end."""
    monitor = opened(*where, **how)
    try:
        monitor.read_all()
        monitor.require_readable()
        return monitor.snapshot(finished=True)
    finally:
        monitor.close()


def polled(monitor: Monitor, holds: Callable[[], object]) -> None:
    """Poll until something holds."""
    until(lambda: (monitor.poll(), holds())[1])


def format_of(snapshot: Snapshot) -> str:
    (source,) = snapshot.sources
    return source.format


def ranged(data: bytes) -> Callable[[Asked], Says]:
    """A server of one file that has Range requests."""

    def answer(asked: Asked) -> Says:
        wanted = asked.headers.get("range")
        if wanted is None:
            return Says(data)
        first, last = (int(part) for part in wanted.removeprefix("bytes=").split("-"))
        if first >= len(data):
            return Says(b"", 416, {"Content-Range": f"bytes */{len(data)}"})
        piece = data[first : last + 1]
        return Says(piece, 206, {"Content-Range": f"bytes {first}-{first + len(piece) - 1}/{len(data)}"})

    return answer


# Who answers


@pytest.mark.parametrize("path", ["", "/", "/metrics", "/v1"])
def test_a_vllm_server_is_known_wherever_it_is_pointed_at(server, path):
    snapshot = watched(vllm(server, metrics=recorded("vllm_010")) + path)
    assert format_of(snapshot) == "vllm"
    assert snapshot.samplers[0].name == server.url.removeprefix("http://")


def test_an_sglang_server_is_known_by_its_metrics_or_without_them_by_its_model(server):
    assert format_of(watched(sglang(server, metrics=recorded("sglang_000")))) == "sglang"
    assert format_of(watched(sglang(server))) == "sglang"


def test_a_router_and_a_ray_agent_tell_of_several_engines(server):
    body = "\n".join(
        f'sglang_num_running_reqs{{worker_addr="http://gpu{gpu}:30000",model_name="m"}} {gpu}.0'
        for gpu in (1, 2)
    )
    server.routes["/engine_metrics"] = Says(body + "\n", headers=TEXT)
    samplers = watched(server.url).samplers
    assert [(each.name, each.gauges["running"]) for each in samplers] == [
        ("http://gpu1:30000", 1.0),
        ("http://gpu2:30000", 2.0),
    ]
    assert "--sampler" in samplers[0].unknown[0]
    agent = 'ray_vllm_num_requests_running{WorkerId="abc",model_name="m"} 4.0\n'
    server.routes = {"/metrics": Says(agent, headers=TEXT)}
    (engine,) = watched(server.url).samplers
    assert (engine.name, engine.engine, engine.gauges) == ("abc", "vllm", {"running": 4.0})


def test_a_routers_own_metrics_say_where_its_engines_are_told_of(server):
    server.routes["/metrics"] = Says("smg_router_requests_total 5.0\n", headers=TEXT)
    snapshot = watched(server.url)
    assert "/engine_metrics at its main URL" in snapshot.sources[0].note


def test_a_trainers_gauges_are_rows_of_its_log(server, often):
    step = 0

    def metrics(_: Asked) -> Says:
        nonlocal step
        step += 1
        lines = [
            "# HELP trainer_step Current step",
            "# TYPE trainer_step gauge",
            f"trainer_step {step}",
            f"trainer_loss {step / 10}",
            "trainer_entropy 0.5",
            "trainer_mismatch_kl NaN",
            "trainer_grad_norm +Inf",
            "process_open_fds 7.0",
            'python_info{version="3.12"} 1.0',
        ]
        return Says("\n".join(lines) + "\n", headers=TEXT)

    server.routes["/metrics"] = metrics
    monitor = opened(f"{server.url}/metrics")
    try:
        polled(monitor, lambda: monitor.ledger.table.length)
        polled(monitor, lambda: monitor.ledger.table.length >= 3)
        monitor.ledger.judge_finished(ended=True)
        snapshot = monitor.snapshot()
    finally:
        monitor.close()
    assert format_of(snapshot) == "prometheus"
    loss = values(snapshot, "loss")
    assert all(value == pytest.approx(at / 10) for at, value in loss.items())
    assert snapshot.keys.keys() == {"loss", "entropy", "mismatch_kl", "grad_norm"}
    assert any(found.id == "NONFINITE_METRIC" for found in snapshot.findings)


def test_an_exporters_spelling_of_a_trainers_key_is_read_as_the_key(server):
    body = 'miles_metric_train_kl_loss{run_name="r"} 0.25\nmiles_metric_train_step{run_name="r"} 7\n'
    server.routes["/metrics"] = Says(body + "miles_metric_rollout_raw_reward 0.5\n", headers=TEXT)
    snapshot = watched(server.url)
    assert snapshot.run.last_step == 7
    assert snapshot.keys["train/kl_loss"] == "kl"


def test_gauges_without_a_step_are_counted_unless_a_log_says_the_steps(server, tmp_path):
    server.routes["/metrics"] = Says("trainer_loss 0.5\n", headers=TEXT)
    snapshot = watched(server.url)
    assert snapshot.run.last_step == 1
    assert snapshot.sources[0].note == "no gauge says the step: its rows are counted"
    run = write_log(tmp_path / "log.jsonl", [run_record(), step_record(5, loss=0.1)])
    snapshot = watched(str(run), server.url)
    assert values(snapshot, "loss") == {5: 0.1}
    assert snapshot.sources[1].note.endswith("not read beside the run's own log")


@pytest.mark.parametrize(
    "body",
    [
        {"step": 3, "loss": 0.5, "reward": 0.25},
        {"step": 3, "metrics": {"loss": 0.5, "reward": 0.25}},
        [{"step": 2, "loss": 0.6, "reward": 0.2}, {"step": 3, "loss": 0.5, "reward": 0.25}],
        [{"name": "step", "value": 3}, {"name": "loss", "value": 0.5}, {"name": "reward", "value": 0.25}],
    ],
)
def test_a_json_object_or_list_of_metrics_is_read(server, body):
    server.routes["/now"] = Says(body, headers={"Content-Type": "application/json"})
    snapshot = watched(f"{server.url}/now")
    assert values(snapshot, "loss")[3] == 0.5
    assert values(snapshot, "reward_mean")[3] == 0.25


def test_json_that_changes_is_read_on_and_what_is_the_same_once(server, often):
    step = 1
    server.routes["/now"] = lambda _: Says({"step": step, "loss": step / 4})
    monitor = opened(f"{server.url}/now")
    try:
        polled(monitor, lambda: monitor.ledger.table.length == 1)
        step = 2
        polled(monitor, lambda: monitor.ledger.table.length == 2)
        assert monitor.watchlist.endpoints[0].records == 2
    finally:
        monitor.close()


@pytest.mark.parametrize(
    "body",
    [
        "<html><body>hello</body></html>",
        "",
        "\x00\x01\x02",
        "[1, 2",
        '{"a": "b"}',
        "null",
        "a 1 2 3 4\n%%%\n",
    ],
)
def test_what_is_nothing_of_this_is_said_to_be_nothing(server, body):
    server.routes["/x"] = Says(body, headers={"Content-Type": "text/html"})
    with pytest.raises(NothingReadable, match=r"/x: it answers nothing that is known"):
        watched(f"{server.url}/x")


# A log behind a URL


def a_log() -> list[dict[str, Any]]:
    return [
        run_record(),
        *(record for step in range(1, 30) for record in group(step, f"{step}", (0.0, 1.0, 0.0, 1.0))),
        *(step_record(step, loss=step / 100) for step in range(1, 30)),
    ]


@pytest.mark.parametrize("has_ranges", [True, False])
def test_a_log_behind_a_url_gives_what_the_file_gives(server, tmp_path, monkeypatch, has_ranges):
    monkeypatch.setattr("grpo_top.formats.served.PIECE_BYTES", 1000)
    log = write_log(tmp_path / "rollouts.jsonl", a_log())
    data = log.read_bytes()
    server.routes["/runs/rollouts.jsonl"] = ranged(data) if has_ranges else Says(data)
    snapshot = watched(f"{server.url}/runs/rollouts.jsonl")
    assert comparable(snapshot) == comparable(read(log))
    assert ("no Range requests" in snapshot.sources[0].note) != has_ranges
    if has_ranges:
        assert len([asked for asked in server.asked if "range" in asked.headers]) > 10


def test_a_rollouts_text_is_asked_for_by_its_bytes_alone(server, tmp_path):
    data = write_log(tmp_path / "rollouts.jsonl", a_log()).read_bytes()
    server.routes["/rollouts.jsonl"] = ranged(data)
    monitor = opened(f"{server.url}/rollouts.jsonl")
    try:
        monitor.read_all()
        snapshot = monitor.snapshot(finished=True)
        found = snapshot.read(5)
        assert (found.completion, found.step) == ("2 1", 2)
        first, last = (
            int(part) for part in server.asked[-1].headers["range"].removeprefix("bytes=").split("-")
        )
        assert json.loads(data[first : last + 1])["completion"] == "2 1"
        server.routes["/rollouts.jsonl"] = Says("", 500)
        assert "500 Internal Server Error" in snapshot.read(5).reason
    finally:
        monitor.close()


@pytest.mark.parametrize("has_ranges", [True, False])
def test_a_log_that_grows_is_followed_and_one_that_begins_anew_is_read_anew(
    server, tmp_path, often, has_ranges
):
    def served(records: list[dict[str, Any]]) -> None:
        data = write_log(tmp_path / "log.jsonl", records).read_bytes()
        server.routes["/log.jsonl"] = ranged(data) if has_ranges else Says(data)

    served([run_record(), step_record(1, loss=0.1)])
    monitor = opened(f"{server.url}/log.jsonl")
    try:
        polled(monitor, lambda: monitor.ledger.table.length == 1)
        served([run_record(), *(step_record(step, loss=step / 10) for step in (1, 2, 3))])
        polled(monitor, lambda: monitor.ledger.table.length == 3)
        served([run_record(run="another"), step_record(1, loss=0.7)])
        polled(monitor, lambda: values(monitor.snapshot(), "loss")[1] == 0.7)
        assert monitor.snapshot().run.name == "another"
    finally:
        monitor.close()


def test_a_log_whose_last_line_is_not_whole_is_read_to_its_end_by_check(server):
    lines = [
        json.dumps(record) for record in (run_record(), step_record(1, loss=0.1), step_record(2, loss=0.2))
    ]
    server.routes["/log.jsonl"] = ranged("\n".join(lines).encode())
    assert values(watched(f"{server.url}/log.jsonl"), "loss") == {1: 0.1, 2: 0.2}


def test_a_log_too_large_to_be_sent_each_time_is_a_state(server):
    line = json.dumps(step_record(1, loss=0.1)) + "\n"
    server.routes["/log.jsonl"] = Says(line * 20_000)
    monitor = opened(f"{server.url}/log.jsonl")
    try:
        monitor.read_all()
        (source,) = monitor.snapshot().sources
        assert (source.state, source.format) == ("error", "grpo-top")
        assert "more than the 1,048,576 that are read" in source.note
    finally:
        monitor.close()


# On the command line


def test_check_of_a_url_that_does_not_answer_is_told_in_one_line(capsys):
    with loopback() as gone:
        url = gone.url
    assert main(["check", url.replace("http://", "http://me:secret@")]) == 2
    said = capsys.readouterr().err
    assert "connection refused" in said
    assert "secret" not in said


def test_check_waits_for_the_first_look_of_a_sampler_and_inspect_shows_it(server, tmp_path, capsys):
    run = write_log(
        tmp_path / "log.jsonl",
        [
            run_record(framework="my-loop", sampling={"temperature": 1.0}),
            *(record for step in (1, 2) for record in group(step, f"{step}", (0.0, 1.0))),
        ],
    )
    url = vllm(server, {"temperature": 0.3})
    assert main(["check", str(run), "--sampler", url]) == 1
    assert "temperature 0.3 is the default, 1.0 intended" in capsys.readouterr().out
    assert main(["inspect", str(run), "--sampler", url]) == 0
    assert server.url in capsys.readouterr().out


@pytest.mark.parametrize(
    ("option", "said"),
    [
        (["--header", "nothing"], "a header is given as"),
        (["--ca-file", "/nowhere"], "--ca-file /nowhere: no such file"),
        (["--sampler", "/nowhere"], "no URL, and no file that lists samplers"),
        (["--sampler", "http://me:secret@host:port"], "http://host:port: "),
    ],
)
def test_an_option_that_cannot_be_used_is_told_in_one_line(tmp_path, capsys, option, said):
    run = write_log(tmp_path / "log.jsonl", [run_record(), step_record(1, loss=0.1)])
    assert main(["check", str(run), *option]) == 2
    assert said in capsys.readouterr().err
