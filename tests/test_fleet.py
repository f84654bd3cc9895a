"""What a Prometheus server says of a fleet, from look to Snapshot."""

from __future__ import annotations

import argparse
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from runs import run_record, step_record, write_log

from grpo_top.config import Settings
from grpo_top.endpoint_options import add_endpoints, fleets_of
from grpo_top.fleet import Fleet
from grpo_top.formats.fleet_queries import Fleets
from grpo_top.monitor import Monitor
from grpo_top.records import FleetLook, FleetPoint
from grpo_top.wire_records import PieceReader, record_line


def look(*times: float, name: str = "waiting") -> FleetLook:
    return FleetLook(name, [FleetPoint(at, 3, 2.0, math.nan, 9.0) for at in times], "a", "b", "count", "high")


def test_points_are_kept_in_order_and_each_once():
    fleet = Fleet()
    assert fleet.take(look(10.0, 20.0), None)
    assert not fleet.take(look(20.0), 4)
    assert fleet.take(look(20.0, 30.0), 5)
    (series,) = fleet.facts()
    assert series.times.tolist() == [10.0, 20.0, 30.0]
    assert series.steps.tolist() == [-1, -1, 5]
    assert series.samplers.tolist() == [3, 3, 3]
    assert math.isnan(series.lowest[0])
    assert (series.lowest_sampler, series.highest_sampler) == ("a", "b")


def test_what_the_server_remembered_from_before_the_first_look_is_of_no_step():
    fleet = Fleet()
    fleet.take(look(10.0, 20.0, 30.0), 7)
    assert fleet.facts()[0].steps.tolist() == [-1, -1, 7]


def test_a_snapshot_keeps_its_length_while_the_fleet_goes_on():
    fleet = Fleet()
    fleet.take(look(1.0), 1)
    before = fleet.facts()
    fleet.take(look(2.0), 2)
    fleet.take(look(1.0, name="running"), 2)
    assert len(before) == 1
    assert before[0].times.tolist() == [1.0]
    assert [series.name for series in fleet.facts()] == ["waiting", "running"]


def test_the_monitor_hands_it_over_and_the_run_is_not_taken_for_live_by_it(tmp_path):
    write_log(tmp_path / "log.jsonl", [run_record(), step_record(3, loss=1.0)])
    monitor = Monitor([str(tmp_path)], Settings())
    monitor.read_all()
    heard, version = monitor.ledger.last_record_time, monitor.ledger.version
    monitor._take(monitor._intakes[0], [look(5.0)])
    monitor.poll()
    snapshot = monitor.snapshot()
    assert snapshot.fleet[0].steps.tolist() == [3]
    assert snapshot.version > version
    assert snapshot.last_record_time == heard


@given(
    st.lists(
        st.tuples(st.floats(0, 1e10), st.integers(0, 10**6), *[st.floats(allow_nan=True)] * 3), max_size=4
    ),
    st.text(min_size=1),
    st.text(),
)
def test_it_goes_to_another_machine_as_it_is(points, name, sampler):
    sent = FleetLook(name, [FleetPoint(*point) for point in points], sampler, "", "share", "low")
    came = PieceReader().read(record_line(4, sent).removesuffix(b"\n")).what
    assert repr(came) == repr(sent)


def test_the_command_line_names_servers_and_queries():
    parser = argparse.ArgumentParser()
    add_endpoints(parser)
    given = ["--prometheus", "http://prom:9090/graph", "--query", 'busy=max by (pod) (a{b="c"})']
    found = fleets_of(parser.parse_args(given))
    assert found.urls == ("http://prom:9090/graph",)
    assert [(query.name, query.promql) for query in found.queries] == [("busy", 'max by (pod) (a{b="c"})')]
    assert fleets_of(parser.parse_args([])) == Fleets()
    for wrong in (["--prometheus", "prom:9090"], ["--query", "busy"]):
        with pytest.raises(ValueError, match=wrong[1]):
            fleets_of(parser.parse_args(wrong))


def test_a_server_that_is_down_is_a_state_and_stops_nothing(tmp_path):
    write_log(tmp_path / "log.jsonl", [run_record(), step_record(3, loss=1.0)])
    monitor = Monitor([str(tmp_path)], Settings(), fleets=Fleets(("http://127.0.0.1:9/",)))
    monitor.read_all()
    monitor.watchlist.close()
    snapshot = monitor.snapshot()
    states = {source.where: (source.state, source.note.partition(";")[0]) for source in snapshot.sources}
    assert states["http://127.0.0.1:9"] == ("error", "connection refused")
    assert snapshot.judged_step == 3
    assert snapshot.fleet == ()
