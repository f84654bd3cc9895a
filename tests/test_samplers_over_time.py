"""What a sampler did between two looks, and which weights it holds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from runs import group, run_record, values, write_log
from serving import vllm, vllm_metrics, watched

from grpo_top.config import Settings
from grpo_top.monitor import Monitor
from grpo_top.records import SamplerLook, Step
from grpo_top.samplers import Samplers, grown
from grpo_top.snapshot import Status

if TYPE_CHECKING:
    from grpo_top.snapshot import Snapshot

CUSTOM = {"framework": "my-loop"}
"""A trainer of which nothing is known: it may leave settings out of its requests."""


# Counters


def look(counters: dict[str, float], **more: Any) -> SamplerLook:
    return SamplerLook("a", counters=counters, **more)


def test_what_happened_between_looks_is_of_the_step_that_was_being_sampled():
    samplers = Samplers()
    samplers.take(look({"finish{stop}": 90.0, "finish{length}": 10.0}), 4)
    samplers.take(
        look(
            {
                "finish{stop}": 96.0,
                "finish{length}": 12.0,
                "finish{abort}": 5.0,
                "completion_tokens_sum": 800.0,
                "completion_tokens_count": 8.0,
            }
        ),
        4,
    )
    series = samplers.at(5).series
    assert series["truncation_rate"] == pytest.approx(0.25)
    assert (series["termination{stop}"], series["completion_tokens_mean"]) == (0.75, 100.0)
    assert samplers.at(4).series == {}
    assert samplers.facts()[0].finished == {"stop": 6.0, "length": 2.0, "abort": 5.0}


def test_counters_that_fell_are_those_of_a_restarted_server():
    assert grown({"a": 100.0, "b": 5.0}, {"a": 3.0, "b": 5.0, "c": 1.0}) == {"a": 3.0, "b": 5.0, "c": 1.0}
    assert grown({"a": 100.0}, {"a": 103.0, "b": 2.0}) == {"a": 3.0, "b": 2.0}


@settings(max_examples=50)
@given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 20), st.booleans()), max_size=30))
def test_differences_add_up_to_all_that_was_counted_whatever_restarts(lives):
    """No request is lost or counted twice, save those between the last look and a restart, which nobody saw."""
    samplers, now, expected = Samplers(), {"finish{stop}": 0, "finish{length}": 0}, 0
    samplers.take(look({name: float(value) for name, value in now.items()}), 0)
    for stop, length, restarts in lives:
        if restarts:
            now = dict.fromkeys(now, 0)
        before = dict(now)
        now = {"finish{stop}": now["finish{stop}"] + stop, "finish{length}": now["finish{length}"] + length}
        seen = samplers.facts()[0]
        assert seen.name == "a"
        expected += sum(now.values()) - sum(before.values())
        samplers.take(look({name: float(value) for name, value in now.items()}), 0)
    requests = samplers.at(1).requests
    counted = sum(requests.finished.values()) if requests else 0
    # A restart is not seen where the new counters have already passed the old ones.
    assert counted <= expected
    if not any(restarts for _, _, restarts in lives):
        assert counted == expected


def test_where_rollouts_say_how_they_ended_counters_are_not_needed(server, tmp_path):
    rollouts = [
        record for step in (1, 2, 3) for record in group(step, str(step), (0.0, 1.0), finish_reason="stop")
    ]
    run = write_log(tmp_path / "log.jsonl", [run_record(**CUSTOM), *rollouts])
    url = vllm(server, metrics=vllm_metrics(stop=5, length=5))
    assert values(watched(url, where=[run]), "truncation_rate") == {1: 0.0, 2: 0.0, 3: 0.0}


def test_a_trainer_without_rollouts_gets_endings_from_counters(tmp_path):
    monitor = Monitor([], Settings())
    ledger = monitor.ledger
    for step in (1, 2, 3):
        ledger.add_step(Step(step, {"reward": 0.5}), "w", "grpo-top")
        counters = {"finish{stop}": 6.0 * step, "finish{length}": 2.0 * step}
        ledger.add_look(look(counters, engine="vllm"), 0)
    ledger.judge_finished(ended=True)
    snapshot = monitor.snapshot(finished=True)
    assert values(snapshot, "truncation_rate")[3] == pytest.approx(0.25)
    assert snapshot.series["truncation_rate"].origin == "samplers"


# Weights


def versions(*moves: tuple[int, str, str], upto: int = 40) -> Samplers:
    """Samplers whose looks at a step found a version."""
    samplers = Samplers()
    for step, name, version in moves:
        samplers.take(SamplerLook(name, weight_version=version), step)
    return samplers


def test_a_sampler_that_holds_older_weights_than_another_is_behind():
    samplers = versions((10, "a", "10"), (10, "b", "10"), (20, "a", "20"))
    assert samplers.at(20).series["version_lag_max"] == 10.0
    assert samplers.at(20).series["version_lag_min"] == 0.0
    assert samplers.at(15).series["version_lag_max"] == 0.0


def test_versions_that_count_steps_tell_how_far_all_samplers_are_behind():
    samplers = versions(*((step, "a", f"v{step + 3}") for step in range(1, 10)))
    assert "version_lag_max" not in samplers.at(9).series
    assert samplers.at(15).series["version_lag_max"] == 6.0
    assert samplers.at(15).series["trainer_version"] == 18.0


def test_versions_that_count_syncs_say_nothing_of_steps():
    samplers = versions(*((10 * sync, "a", str(sync)) for sync in range(1, 6)))
    assert samplers.at(59).series == {"policy_version": 5.0}


def test_a_trainer_that_went_back_has_its_samplers_begin_again():
    samplers = versions((10, "a", "10"), (11, "a", "11"), (12, "a", "5"), (13, "a", "6"))
    assert samplers.at(13).series["policy_version"] == 6.0


def judged(moves: dict[int, str], steps: int = 30) -> Snapshot:
    """A run of which only step numbers are known, and one sampler's weights from steps on."""
    monitor = Monitor([], Settings())
    version = "default"
    for step in range(1, steps + 1):
        monitor.ledger.add_step(Step(step, {"reward": 0.5}), "w", "grpo-top")
        version = moves.get(step, version)
        monitor.ledger.add_look(SamplerLook("a", weight_version=version, engine="vllm"), 0)
        monitor.ledger.judge_finished()
    monitor.ledger.judge_finished(ended=True)
    return monitor.snapshot(finished=True)


def severity(snapshot: Snapshot, id_: str) -> Status | None:
    return next((found.severity for found in snapshot.findings if found.id == id_ and found.active), None)


def test_weights_that_no_longer_move_are_stuck():
    snapshot = judged({step: str(step) for step in range(1, 12)})
    assert severity(snapshot, "WEIGHT_SYNC_STUCK") == Status.FAIL
    assert severity(snapshot, "STALE_ROLLOUTS") == Status.WARN  # no tolerance is declared
    stuck = next(found for found in snapshot.findings if found.id == "WEIGHT_SYNC_STUCK")
    assert stuck.summary == "all samplers hold weights 11 while the trainer made 19 more steps"


def test_weights_that_move_every_step_or_every_ten_are_not():
    for moves in ({step: str(step) for step in range(1, 31)}, {step: str(step) for step in range(1, 31, 10)}):
        snapshot = judged(moves)
        assert severity(snapshot, "WEIGHT_SYNC_STUCK") is None
        assert severity(snapshot, "STALE_ROLLOUTS") is None


def test_weights_that_were_never_seen_to_move_are_a_warning_after_long():
    assert severity(judged({1: "1"}), "WEIGHT_SYNC_STUCK") == Status.WARN
    assert severity(judged({1: "1"}, steps=12), "WEIGHT_SYNC_STUCK") is None
