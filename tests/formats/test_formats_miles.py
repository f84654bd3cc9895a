import json
import shutil
from pathlib import PurePath

import pytest
import runs
from format_reading import fed, lines, of, packed, read
from hypothesis import given
from hypothesis import strategies as st
from runs import read as read_run
from runs import values

from grpo_top.formats.base import RunContext
from grpo_top.formats.miles_metrics import MetricsReader, steps_per_rollout
from grpo_top.formats.miles_samples import (
    KEPT_READERS,
    EventsReader,
    Samples,
    SamplesReader,
    TrajectoryReader,
    samples_of,
)
from grpo_top.formats.names import canonical_values, heldout_value
from grpo_top.formats.registry import choose
from grpo_top.records import Eval, Rollout, Run, Skipped, Step

RUN = "miles-stale_weights"
EVENTS = "dashboard/trajectories/20261130_14.jsonl"


def sample(number: int, group: int = 0, **fields: object) -> dict[str, object]:
    said = [{"role": "user", "content": "2+2?"}, {"role": "assistant", "content": f"4 {number}"}]
    return {
        "sample_index": number,
        "group_index": group,
        "status": "completed",
        "reward": 1.0,
        "prompt": "2+2?",
        "messages": said,
    } | fields


def event(number: int, kind: str, version: str = "", detail: str = "") -> dict[str, object]:
    return {
        "ts": 100.0,
        "kind": kind,
        "sample_index": number,
        "group_index": 0,
        "turn": 1,
        "weight_version": version,
        "detail": detail,
    }


def row(key: str, step: int | None, **metrics: float) -> dict[str, object]:
    return {"ts": 1.0, "step_key": key, "step": step, "metrics": metrics}


# Samples


def test_rollout_ids_count_from_0_and_are_the_steps():
    found = of(Rollout, read("trajectory/48.jsonl", packed(RUN, "trajectory/48.jsonl")))
    assert len(found) == 16
    assert {(rollout.step, rollout.split) for rollout in found} == {(48, "train")}
    assert [rollout.group for rollout in found] == ["6"] * 8 + ["7"] * 8
    assert [rollout.index for rollout in found] == [*range(8)] * 2


@pytest.mark.parametrize(
    ("status", "truncated"), [("truncated", True), ("completed", False), ("aborted", None), ("failed", None)]
)
def test_the_status_says_what_is_truncated(status, truncated):
    (found,) = of(Rollout, read("trajectory/5.jsonl", lines(sample(1, status=status))))
    assert (found.truncated, found.termination) == (truncated, status)


def test_a_reward_of_null_is_unknown():
    (found,) = of(Rollout, read("trajectory/5.jsonl", lines(sample(1, reward=None))))
    assert found.reward is None


def test_evaluations_lie_beside_the_rollouts():
    (found,) = of(Rollout, read("trajectory/eval_40.jsonl", lines(sample(0))))
    assert (found.step, found.split) == (40, "eval")


def test_versions_are_strings_in_the_events_and_nowhere_else():
    context = RunContext()
    read(EVENTS, packed(RUN, EVENTS), context)
    found = of(Rollout, read("trajectory/58.jsonl", packed(RUN, "trajectory/58.jsonl"), context))
    assert {rollout.trainer_version - rollout.policy_version for rollout in found} == {9}
    assert {rollout.finish_reason for rollout in found} == {"stop"}
    alone = of(Rollout, read("trajectory/58.jsonl", packed(RUN, "trajectory/58.jsonl")))
    assert (
        {rollout.policy_version for rollout in alone}
        == {rollout.trainer_version for rollout in alone}
        == {None}
    )


def test_a_sample_that_was_generated_by_several_weights_spans_them():
    context = RunContext()
    made = [event(3, "gen_start", "7"), event(3, "gen_end", "9", "stop"), event(3, "gen_end", "8", "length")]
    assert (
        read("dashboard/trajectories/20261130_15.jsonl", lines(event(3, "attempt_start"), *made), context)
        == []
    )
    (found,) = of(Rollout, read("trajectory/9.jsonl", lines(sample(3)), context))
    assert (found.policy_version, found.policy_version_end, found.trainer_version) == (7, 9, 9)
    assert found.finish_reason == "length"


def test_lengths_are_those_of_the_columns():
    context = RunContext()
    name = "dashboard_columns/rollout_48.parquet"
    assert read(name, packed(RUN, name), context) == []
    found = of(Rollout, read("trajectory/48.jsonl", packed(RUN, "trajectory/48.jsonl"), context))
    assert found[0].completion_tokens == 9
    assert all(rollout.prompt_tokens > 0 for rollout in found)


def test_evaluations_count_their_samples_from_0_each():
    samples = Samples()
    samples.learn((40, 0), completion_tokens=5)
    samples.learn((None, 0), completion_tokens=7)
    lengths = [
        of(Rollout, fed(TrajectoryReader(samples, rollout, split), lines(sample(0))))[0].completion_tokens
        for rollout, split in ((40, "eval"), (60, "eval"), (3, "train"))
    ]
    assert lengths == [5, None, 7]


def test_what_comes_after_a_samples_text_is_added_to_it():
    samples = Samples()
    reader = TrajectoryReader(samples, 5, "train")
    (first,) = of(Rollout, fed(reader, lines(sample(3))))
    assert first.completion_tokens is None
    assert reader.idle() == []
    samples.learn((None, 3), completion_tokens=9)
    assert reader.idle() == [first._replace(completion_tokens=9)]
    assert reader.idle() == []


def test_texts_are_held_for_the_newest_files_alone():
    samples = Samples()
    readers = [TrajectoryReader(samples, step, "train") for step in range(KEPT_READERS + 1)]
    for number, reader in enumerate(readers):
        fed(reader, lines(sample(number)))
    samples.learn((None, 0), completion_tokens=9)
    samples.learn((None, 1), completion_tokens=9)
    assert readers[0].idle() == []
    assert len(readers[1].idle()) == 1


def test_lengths_that_come_late_replace_and_do_not_double(tmp_path):
    source, directory = runs.unpack_sample(RUN, tmp_path / "from"), tmp_path / "to"
    shutil.copytree(source / "trajectory", directory / "trajectory")
    monitor = runs.Monitor([str(directory)], runs.Settings())
    while monitor.poll():
        pass
    shutil.copytree(source / "dashboard_columns", directory / "dashboard_columns")
    monitor.read_all()
    snapshot = monitor.snapshot(finished=True)
    assert set(runs.values(snapshot, "rollouts").values()) == {16.0}
    lengths = runs.values(snapshot, "completion_tokens_mean")
    newest = sorted(lengths)[-KEPT_READERS:]
    assert all(lengths[step] > 0 for step in newest)


def test_a_sample_that_names_no_rollout_is_skipped():
    found = read("somewhere/details.jsonl", lines(sample(3)))
    assert of(Skipped, found)[0].reason == "sample in a file that is not named after a rollout"


def test_a_rollout_is_replayed_from_its_own_bytes(tmp_path):
    snapshot = runs.read(runs.unpack_sample(RUN, tmp_path))
    for row_number in range(0, snapshot.rollouts.length, 7):
        found = snapshot.read(row_number)
        assert isinstance(found, Rollout)
        assert found.step == snapshot.rollouts.columns["step"][row_number]


def test_samples_with_slimes_own_fields_are_read():
    record = {
        "group_index": 0,
        "index": 4,
        "prompt": "2+2?",
        "response": "So 4",
        "response_length": 12,
        "reward": {"math": 1.0, "format": 0.5},
        "status": "truncated",
        "rollout_id": 6,
        "weight_versions": ["2", "4", "6"],
        "finish_reasons": ["abort", "length"],
    }
    (found,) = of(Rollout, read("rollout_6.jsonl", lines(record)))
    assert (found.step, found.completion, found.completion_tokens) == (6, "So 4", 12)
    assert (found.policy_version, found.policy_version_end, found.trainer_version) == (2, 6, 6)
    assert (found.finish_reason, found.truncated) == ("length", True)
    assert (found.reward, found.rewards) == (None, {"math": 1.0, "format": 0.5})


def test_pickles_are_no_format_of_ours():
    assert choose(PurePath("rollout_data/3.pt"), b"PK\x03\x04" + bytes(100)) is None


# Metrics


def test_a_step_is_two_rows_of_the_rollout_and_one_of_the_trainer():
    found = read("dashboard/metrics.jsonl", packed(RUN, "dashboard/metrics.jsonl"))
    first = [step for step in of(Step, found) if step.step == 48]
    assert [step.writer for step in first] == [" rollout/step", " rollout/step", " train/step"]
    merged = {}
    for step in first:
        merged |= canonical_values("miles", step.metrics)
    assert merged["reward_mean"] == pytest.approx(0.65)
    assert {"kl", "entropy", "loss", "grad_norm", "version_lag_max", "mismatch_kl"} <= merged.keys()


def test_counts_of_flat_groups_appear_only_where_there_are_some():
    assert canonical_values("miles", {"rollout/zero_std/count_0.5": 1.0}) == {}
    shares = {"rollout/zero_std/all_zero_percentage": 25.0, "rollout/zero_std/all_one_percentage": 50.0}
    assert canonical_values("miles", shares) == {"zero_variance_group_frac": 0.75}


def test_an_evaluation_gives_the_mean_reward_of_each_data_set():
    metrics = {
        "eval/add": 0.8,
        "eval/add/response_len/mean": 9.0,
        "eval/add-truncated_ratio": 0.1,
        "eval/step": 60,
    }
    found = of(
        Eval, read("dashboard/metrics.jsonl", lines(row("eval/step", 60, **metrics, **{"eval/add-b": 0.1})))
    )
    assert [(record.step, record.suite, heldout_value(record.metrics)) for record in found] == [
        (60, "add", 0.8)
    ]
    assert found[0].metrics["truncated_ratio"] == 0.1


def test_optimizer_steps_are_brought_to_the_rollout_that_they_learn_from():
    assert (
        steps_per_rollout({"rollout_batch_size": 32, "n_samples_per_prompt": 8, "global_batch_size": 64}) == 4
    )
    assert steps_per_rollout({"num_steps_per_rollout": 2}) == 2
    assert steps_per_rollout({"rollout_batch_size": 32}) == 1
    context = RunContext()
    meta = {"run_name": "x", "start_ts": 1.0, "args": {"num_steps_per_rollout": 4}, "schema_version": 1}
    read("dashboard/meta.json", json.dumps(meta, indent=1).encode(), context)
    rows = [row("train/step", step, **{"train/loss": 0.1}) for step in (0, 3, 4, 11)]
    found = of(Step, read("dashboard/metrics.jsonl", lines(*rows), context))
    assert [step.step for step in found] == [0, 0, 1, 2]


def test_rows_without_a_step_are_let_pass():
    found = read(
        "dashboard/metrics.jsonl",
        lines(row("rollout/step", 1, **{"rollout/raw_reward": 1.0}), row(None, None)),
    )
    assert [type(record) for record in found] == [Run, Step]


def test_meta_tells_what_was_intended():
    (found,) = read("dashboard/meta.json", packed(RUN, "dashboard/meta.json"))
    assert (found.run, found.algorithm, found.group_size) == ("add-stale-weights", "grpo", 8)
    assert found.sampling == {"temperature": 1.0, "top_p": 1.0, "max_tokens": 32}


@pytest.mark.parametrize("name", ["dashboard/topology.jsonl", "dashboard/phases/20261130_14.jsonl"])
def test_machines_and_timings_are_known_and_not_read(name):
    assert choose(PurePath(name), b'{"ts": 1.0, "engines": []}\n')[1].feed == "none"


# Whatever is cut, the same records

LINES = [
    lines(sample(1)),
    lines(sample(2, group=1, messages=3)),
    lines(row("train/step", 1, **{"train/loss": 0.1})),
    lines(row("eval/step", 1, **{"eval/a": 0.1})),
    lines(event(1, "gen_end", "4", "stop")),
    b'{"sample_index": 1',
    b"[]",
    b"",
]


@given(st.lists(st.sampled_from(LINES), max_size=8), st.sets(st.integers(1, 7)))
def test_any_cut_of_the_lines_gives_the_same_records(parts, cuts):
    data = b"".join(part.strip() + b"\n" for part in parts)
    made = (
        lambda: TrajectoryReader(Samples(), 3, "train"),
        lambda: SamplesReader(3, "train"),
        lambda: EventsReader(Samples()),
        lambda: MetricsReader(RunContext()),
    )
    for make in made:
        assert fed(make(), data, cuts) == fed(make(), data)


def test_garbage_between_samples_loses_itself_alone():
    data = lines(sample(1)) + lines(sample(2))[:30] + b"\n" + lines(sample(3))
    found = read("trajectory/3.jsonl", data)
    assert [type(record) for record in found] == [Rollout, Skipped, Rollout]


def test_the_readers_of_a_run_share_its_samples():
    context = RunContext()
    assert samples_of(context) is samples_of(context)


def test_parts_that_ended_otherwise_than_the_last_are_how_a_sample_went():
    """Partial rollouts of slime: weights were swapped under a sample, and it was generated on."""
    raw = sample(3) | {
        "index": 3,
        "response": "4",
        "response_length": 2,
        "tokens": [1, 2, 3, 4, 5],
        "rollout_id": 6,
        "status": "truncated",
        "weight_versions": ["2", "4", "6"],
        "finish_reasons": ["abort", "abort", "length"],
        "rollout_log_probs": [-0.5, -0.25],
    }
    (found,) = fed(SamplesReader(6, "train"), lines(raw))
    assert (found.termination, found.finish_reason, found.truncated) == ("abort then length", "length", True)
    assert (found.policy_version, found.policy_version_end) == (2, 6)
    assert (found.prompt_tokens, found.completion_tokens, found.logprobs_sampler) == (3, 2, [-0.5, -0.25])


def test_of_several_rewards_the_total_is_the_one_that_is_called_so():
    (found,) = fed(
        SamplesReader(6, "train"), lines(sample(3) | {"reward": {"score": 0.5, "acc": 1, "pred": "4"}})
    )
    assert (found.reward, found.rewards) == (0.5, {"score": 0.5, "acc": 1.0})


def test_events_of_several_hours_are_one_story():
    context = RunContext()
    read("dashboard/trajectories/20261130_14.jsonl", lines(event(3, "gen_start", "7")), context)
    read("dashboard/trajectories/20261130_15.jsonl", lines(event(3, "gen_end", "8", "stop")), context)
    (found,) = of(Rollout, read("trajectory/9.jsonl", lines(sample(3)), context))
    assert (found.policy_version, found.policy_version_end, found.finish_reason) == (7, 8, "stop")


def test_counts_of_flat_groups_are_a_share_where_the_arguments_say_how_many_groups_there_are(tmp_path):
    row = {"rollout/response_len/mean": 9.0, "rollout/zero_std/count_0.0": 3, "rollout/zero_std/count_1.0": 1}
    lines = [
        "  rollout_batch_size .............................. 8",
        f"rollout 1: {row}",
        "rollout 2: {'x': 1}",
    ]
    lines.append(f"rollout 3: { {'rollout/response_len/mean': 9.0} }")
    (tmp_path / "train.log").write_text("\n".join(lines) + "\n")
    assert values(read_run(tmp_path), "zero_variance_group_frac") == {1: 0.5, 3: 0.0}
