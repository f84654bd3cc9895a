import copy
import itertools
import json
import random
from itertools import pairwise
from pathlib import PurePath

import pytest
import runs
from format_reading import fed, lines, of, opened, packed, read
from hypothesis import given
from hypothesis import strategies as st

from grpo_top.formats.base import RunContext
from grpo_top.formats.names import canonical_values
from grpo_top.formats.prime_rl import Folder, RolloutsReader
from grpo_top.formats.prime_rl_arrivals import WINDOWS, Arrivals
from grpo_top.formats.prime_rl_console import ConsoleReader
from grpo_top.formats.prime_rl_metrics import MetricsReader
from grpo_top.formats.registry import choose
from grpo_top.records import Rollout, Run, Skipped, Step
from grpo_top.sources.lines import Lines

ALL, SHIPPED = "rollouts/step_{}/train/all/traces.jsonl", "rollouts/step_{}/train/effective/traces.jsonl"
REAL = packed("prime-rl-stale_weights", ALL.format(56)).splitlines()


def episode(number: int, group: str = "g", reward: float = 1.0, **fields: object) -> dict[str, object]:
    found = json.loads(REAL[0]) | {"id": f"e{number}", "group": {"id": group}} | fields
    found["traces"][0] |= {"id": f"t{number}", "rewards": {"accuracy": {"score": reward, "weight": 1.0}}}
    return found


def shipped(record: dict[str, object], advantage: float) -> dict[str, object]:
    found = copy.deepcopy(record)
    found["traces"][0]["info"] = {"advantage": advantage}
    return found


def rollouts(name: str, *records: object, context: RunContext | None = None) -> list[Rollout]:
    return of(Rollout, read(name, lines(*records), context))


# Rollouts


def test_a_real_file_gives_a_rollout_a_line_under_its_folders_step():
    found = of(Rollout, read(ALL.format(56), b"\n".join(REAL)))
    assert len(found) == 16
    assert {(rollout.step, rollout.split) for rollout in found} == {(56, "train")}
    assert len({rollout.group for rollout in found}) == 2
    assert {rollout.advantage for rollout in found} == {None}


def test_groups_are_interleaved_in_the_order_of_arrival():
    found = of(Rollout, read(ALL.format(56), b"\n".join(REAL)))
    groups = [rollout.group for rollout in found]
    assert sum(one != other for one, other in pairwise(groups)) > 1
    assert sorted(rollout.index for rollout in found if rollout.group == groups[0]) == list(range(8))


def test_lag_is_counted_from_the_policy_that_the_batch_trains_to_the_first_that_sampled():
    found = of(Rollout, read(ALL.format(56), b"\n".join(REAL)))
    assert {rollout.trainer_version - rollout.policy_version for rollout in found} == {6}
    assert {json.loads(line)["run"]["work"]["step"] for line in REAL} != {56}


def test_a_rollout_may_span_policies_and_a_frozen_one_has_none():
    record = episode(1)
    record["run"]["work"]["policy"] = {"start": 40, "end": 42}
    (found,) = rollouts(ALL.format(44), record)
    assert (found.policy_version, found.policy_version_end, found.trainer_version) == (40, 42, 43)
    del record["run"]["work"]["policy"]
    (found,) = rollouts(ALL.format(44), record)
    assert (found.policy_version, found.trainer_version) == (None, None)


def test_what_was_intended_and_what_was_deployed_are_two_configs():
    found = read(ALL.format(53), packed("prime-rl-sampler_cold", ALL.format(53)))
    assert of(Run, found)[1].sampling == {"temperature": 1.0, "top_p": 1.0, "max_tokens": 32}
    assert {rollout.sampling["temperature"] for rollout in of(Rollout, found)} == {0.15}


def test_a_call_that_was_sampled_otherwise_than_intended_shows_whichever_of_the_calls_it_is():
    record = episode(1)
    (call,) = record["traces"][0]["calls"]
    other = copy.deepcopy(call)
    other["sampling"]["temperature"] = 0.15
    for calls in ([other, call], [call, other], [call, other, call]):
        record["traces"][0]["calls"] = calls
        (found,) = rollouts(ALL.format(1), record)
        assert found.sampling["temperature"] == 0.15
    other["error"] = {"type": "Timeout"}
    record["traces"][0]["calls"] = [other, call]
    (found,) = rollouts(ALL.format(1), record)
    assert found.sampling["temperature"] == 1.0


def test_scoring_that_failed_is_the_verifiers_error_and_other_failures_are_not():
    record = episode(1)
    record["traces"][0] |= {
        "ok": False,
        "errors": [{"type": "JudgeTimeout"}],
        "stop_condition": "scoring_timeout",
    }
    (found,) = rollouts(ALL.format(1), record)
    assert (found.verifier_error, found.termination) == ("JudgeTimeout", "JudgeTimeout")
    record["traces"][0]["stop_condition"] = "agent_timeout"
    (found,) = rollouts(ALL.format(1), record)
    assert found.verifier_error is None


# Token exports


EXPORT = "token_exports/step_3/rank_{}.jsonl"


def export(rank: int = 0, **lists: object) -> dict[str, object]:
    found = {
        "schema_version": 1,
        "step": 3,
        "rank": rank,
        "micro_step": 0,
        "env_name": "add",
        "token_ids": [5, 6, 7],
        "loss_mask": [False, True, True],
        "inference_logprobs": [0.0, -0.5, -1.0],
        "trainer_logprobs": [-6.0, -0.25, -1.25],
        "mismatch_kl": [5.0, 0.25, 0.75],
        "importance_ratio": [1.0, 1.5, 0.5],
        "is_masked": [True, False, True],
        "entropy": [0.5, 0.2, 0.4],
    }
    return found | lists


def test_an_export_gives_a_steps_means_over_the_tokens_that_are_trained_on():
    (step,) = read(EXPORT.format(0), lines(export()))
    assert step.step == 3
    assert canonical_values("prime-rl", step.metrics) == pytest.approx(
        {
            "mismatch_kl": 0.5,
            "logp_abs_diff": 0.25,
            "is_ratio_mean": 1.0,
            "effective_sample_size": 0.8,
            "entropy": 0.3,
            "clip_frac": 0.5,
        }
    )
    assert step.metrics["mismatch_kl/all/max"] == 0.75


def test_the_files_of_all_ranks_are_one_step_and_a_file_that_comes_again_counts_once():
    context = RunContext()
    read(EXPORT.format(0), lines(export(), export()), context)
    read(EXPORT.format(0), lines(export()), context)
    last = read(EXPORT.format(1), lines(export(rank=1, mismatch_kl=[0, 0.0, 0.0])), context)[-1]
    assert last.metrics["mismatch_kl/all/mean"] == 0.25


def test_the_trainers_own_log_stands_above_its_exports(tmp_path):
    (tmp_path / "metrics.jsonl").write_bytes(lines({"step": 3, "time": 1.0, "mismatch_kl/all/mean": 0.125}))
    exported = tmp_path / EXPORT.format(0)
    exported.parent.mkdir(parents=True)
    exported.write_bytes(lines(export()))
    snapshot = runs.read(tmp_path)
    assert runs.values(snapshot, "mismatch_kl")[3] == 0.125
    assert runs.values(snapshot, "logp_abs_diff")[3] == 0.25


def test_what_an_export_leaves_out_is_unknown():
    record = {name: value for name, value in export().items() if name not in {"entropy", "is_masked"}}
    (step,) = read(EXPORT.format(0), lines(record))
    assert not {"entropy/all/mean", "is_masked/mean"} & step.metrics.keys()


def test_an_export_whose_lists_do_not_fit_is_skipped_alone():
    found = read(EXPORT.format(0), lines(export(), export(loss_mask=[True]), export()))
    assert [type(record) for record in found] == [Step, Skipped, Step]


def test_an_environment_that_is_meant_to_sample_otherwise_does_not_drift():
    context = RunContext()
    other = episode(2, env={"name": "code"})
    other["traces"][0]["agent"]["config"]["sampling"]["temperature"] = 0.7
    other["traces"][0]["calls"][0]["sampling"]["temperature"] = 0.7
    found = rollouts(ALL.format(1), episode(1), other, context=context)
    assert [rollout.sampling.get("temperature") for rollout in found] == [1.0, None]


def test_completions_are_cut_where_only_the_finish_reason_says_so():
    found = of(Rollout, read(ALL.format(1), packed("prime-rl-healthy-short", ALL.format(1))))
    cut = [rollout for rollout in found if rollout.truncated]
    assert len(cut) == 4
    assert {rollout.termination for rollout in cut} == {"agent_completed"}


def test_family_parsing_and_lengths_are_the_environments_own():
    found = of(Rollout, read(ALL.format(1), packed("prime-rl-healthy-short", ALL.format(1))))
    assert {rollout.family for rollout in found} == {"plain"}
    assert {rollout.parsed for rollout in found} == {True, False}
    assert sum(rollout.completion_tokens for rollout in found) == 16 * 18.6875


def test_evaluations_carry_no_tokens_and_a_config_with_max_tokens_alone():
    name = "rollouts/step_21/eval/all/traces.jsonl"
    found = of(Rollout, read(name, packed("prime-rl-evaluated", name)))
    assert {(rollout.step, rollout.split) for rollout in found} == {(21, "eval")}
    assert {tuple(rollout.sampling.items()) for rollout in found} == {(("max_tokens", 32),)}
    assert {rollout.logprobs_sampler for rollout in found} == {None}


def test_the_copies_of_an_evaluation_are_not_read():
    name = "rollouts/step_21/eval/effective/traces.jsonl"
    assert choose(PurePath(name), packed("prime-rl-evaluated", name))[1].feed == "none"


# What shipped


def test_what_ships_takes_the_place_of_what_arrived_and_adds_the_advantage():
    context = RunContext()
    arrived = rollouts(ALL.format(3), episode(1), episode(2), context=context)
    copies = rollouts(SHIPPED.format(3), shipped(episode(2), 0.5), context=context)
    assert [(rollout.group, rollout.index) for rollout in arrived] == [("g", 0), ("g", 1)]
    assert [(rollout.step, rollout.index, rollout.advantage) for rollout in copies] == [(3, 1, 0.5)]


def test_a_copy_may_hold_some_of_an_episodes_traces_alone():
    context = RunContext()
    both, second = episode(1), episode(2)["traces"][0]
    both["traces"].append(second)
    arrived = rollouts(ALL.format(3), both, context=context)
    assert [rollout.index for rollout in arrived] == [0, 1]
    (found,) = rollouts(SHIPPED.format(3), shipped(both | {"traces": [second]}, 0.5), context=context)
    assert (found.index, found.advantage, found.location.part) == (1, 0.5, 0)


def test_a_copy_that_is_read_before_its_rollout_waits_for_it():
    context = RunContext()
    rollouts(ALL.format(3), episode(1), context=context)
    assert rollouts(SHIPPED.format(4), shipped(episode(2), 0.5), context=context) == []
    (found,) = rollouts(ALL.format(3), episode(2), context=context)
    assert (found.advantage, found.trainer_version) == (0.5, 3)


def test_copies_without_the_file_of_all_rollouts_are_read_as_rollouts():
    (found,) = rollouts(SHIPPED.format(3), shipped(episode(1), 0.5))
    assert (found.step, found.advantage) == (3, 0.5)


def test_the_filter_prunes_single_rollouts_so_groups_are_those_of_all(tmp_path):
    directory = runs.unpack_sample("prime-rl-healthy-short", tmp_path)
    counts = [len((directory / name.format(3)).read_bytes().splitlines()) for name in (ALL, SHIPPED)]
    assert counts == [16, 15]
    snapshot = runs.read(directory)
    assert runs.values(snapshot, "rollouts") == {1: 16, 2: 16, 3: 16}
    batch = snapshot.batch(3)
    assert sum(batch.advantage == batch.advantage) == 15  # NaN is unknown
    assert snapshot.rollouts.length == 48 + 47


def test_a_group_that_arrives_over_two_batches_stays_whole_in_the_first():
    context = RunContext()
    first = rollouts(ALL.format(3), episode(1), episode(2), context=context)
    second = rollouts(ALL.format(4), episode(3), episode(4, group="h"), context=context)
    assert [(rollout.step, rollout.group, rollout.index) for rollout in (*first, *second)] == [
        (3, "g", 0),
        (3, "g", 1),
        (3, "g", 2),
        (4, "h", 0),
    ]


def test_lag_of_what_ships_later_is_counted_to_the_batch_that_it_trains():
    context = RunContext()
    rollouts(ALL.format(3), episode(1), context=context)
    (found,) = rollouts(SHIPPED.format(5), shipped(episode(1), 0.5), context=context)
    assert (found.step, found.trainer_version) == (3, 4)


def test_a_straggler_is_no_restart_and_the_groups_are_whole(tmp_path):
    for step, made in (
        (3, [episode(1), episode(2)]),
        (4, [episode(3), episode(4, group="h"), episode(5, group="h")]),
    ):
        for name, records in ((ALL, made), (SHIPPED, [shipped(record, 0.5) for record in made[::-1]])):
            path = tmp_path / name.format(step)
            path.parent.mkdir(parents=True)
            path.write_bytes(lines(*records))
    snapshot = runs.read(tmp_path)
    assert runs.values(snapshot, "rollouts") == {3: 3, 4: 2}
    assert runs.values(snapshot, "groups") == {3: 1, 4: 1}
    assert "STEP_RESTART" not in {finding.id for finding in snapshot.findings}


def test_a_batch_without_any_reward_spread_never_ships_and_all_its_groups_count(tmp_path):
    path = tmp_path / ALL.format(51)
    path.parent.mkdir(parents=True)
    path.write_bytes(lines(*(episode(number, f"g{number // 8}", 0.2) for number in range(160))))
    snapshot = runs.read(tmp_path)
    assert runs.values(snapshot, "groups") == {51: 20}
    assert runs.values(snapshot, "zero_variance_group_frac") == {51: 1.0}


def test_groups_of_old_batches_are_let_go():
    arrivals = Arrivals()
    reader = RolloutsReader(Folder(1, "train", "all", ""), arrivals)
    (first,) = of(Rollout, fed(reader, lines(episode(1))))
    later = first._replace(step=2 + WINDOWS, group="h")
    arrivals.placed(later, "t")
    assert arrivals.shipped(first, "t1", alone=False) is None


def test_other_agents_traces_are_no_rollouts():
    record = episode(1)
    judge = copy.deepcopy(record["traces"][0])
    judge["agent"]["trainable"] = False
    record["traces"].insert(0, judge)
    (found,) = rollouts(ALL.format(1), record)
    assert (found.location.part, found.index) == (0, 0)


def test_a_rollout_is_replayed_wherever_it_arrived(tmp_path):
    (tmp_path / "rollouts").mkdir()
    directory = runs.unpack_sample("prime-rl-stale_weights", tmp_path)
    snapshot = runs.read(directory)
    for row in range(snapshot.rollouts.length):
        found = snapshot.read(row)
        assert isinstance(found, Rollout)
        assert found.step == snapshot.rollouts.columns["step"][row]
        assert found.messages[-1].content == found.completion


@pytest.mark.parametrize("seed", [1, 2])
def test_a_run_that_is_followed_equals_the_run_that_was_read(seed, tmp_path):
    source, directory = runs.unpack_sample("prime-rl-stale_weights", tmp_path / "from"), tmp_path / "to"
    written = []
    metrics = (source / "metrics.jsonl").read_bytes().splitlines(keepends=True)
    for step in range(51, 57):
        for name in (ALL, SHIPPED):
            data = (source / name.format(step)).read_bytes()
            written += [(name.format(step), line) for line in data.splitlines(keepends=True)]
        written += [("metrics.jsonl", line) for line in metrics if json.loads(line)["step"] == step]
    chance = random.Random(seed)
    monitor = runs.Monitor([str(directory)], runs.Settings(), clock=itertools.count().__next__)
    directory.mkdir()
    for name, line in written:
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        cut = chance.randrange(len(line))
        for piece in (line[:cut], line[cut:]):
            with path.open("ab") as file:
                file.write(piece)
            if chance.random() < 0.1:
                monitor.poll()
    monitor.read_all()
    followed, expected = runs.comparable(monitor.snapshot(finished=True)), runs.comparable(runs.read(source))
    series, expected_series = followed.pop("series"), expected.pop("series")
    assert followed == expected
    assert series.keys() == expected_series.keys()
    for name, found in series.items():  # the order of a sum may differ in its last digit
        assert found["values"] == pytest.approx(expected_series[name]["values"]), name


# Older layouts


def test_until_july_2026_a_line_was_a_flat_rollout():
    record = {
        "example_id": 7,
        "prompt": [{"role": "user", "content": "2+2?"}],
        "completion": [{"role": "assistant", "content": "4"}],
        "reward": 1.0,
        "is_truncated": False,
        "stop_condition": "max_turns_reached",
        "metrics": {"correct": 1.0, "num_turns": 1},
        "token_usage": {"input_tokens": 5, "output_tokens": 2},
        "env_name": "math",
        "group_id": "8f2c",
        "policy_version": 10,
        "off_policy_steps": 1,
        "rollout_id": "a1",
        "advantage": -0.25,
    }
    (found,) = rollouts("rollouts/step_12/train_rollouts.jsonl", record)
    assert (found.step, found.split, found.group, found.index) == (12, "train", "8f2c", 0)
    assert (found.policy_version, found.trainer_version, found.advantage) == (10, 11, -0.25)
    assert (found.family, found.completion_tokens, found.rewards) == ("math", 2, {"correct": 1.0})
    (found,) = rollouts("rollouts/step_12/eval_rollouts_math.jsonl", record)
    assert found.split == "eval"


def test_until_august_2026_a_line_was_one_trace_with_its_place_in_info():
    found = episode(1)["traces"][0] | {
        "run": {"type": "train", "id": "r", "step": 40},
        "info": {"env_name": "math", "group_id": "8f2c", "policy_version": 38},
    }
    (found,) = rollouts(ALL.format(41), found)
    assert (found.step, found.group, found.index) == (41, "8f2c", 0)
    assert (found.policy_version, found.trainer_version) == (38, 40)


def test_a_file_of_all_steps_takes_each_lines_own():
    flat = episode(1)["traces"][0] | {
        "kind": "train",
        "env_name": "math",
        "group_id": "a",
        "policy_version": 38,
    }
    (found,) = rollouts("traces/train/all/traces.jsonl", flat)
    assert (found.step, found.trainer_version) == (39, 38)
    evaluated = flat | {"kind": "eval", "eval_step": 20}
    (found,) = rollouts("traces/eval/all/traces.jsonl", evaluated)
    assert (found.step, found.split) == (20, "eval")


def test_a_line_without_any_step_is_skipped():
    found = read("traces/train/all/traces.jsonl", lines(episode(1)["traces"][0] | {"group_id": "a"}))
    assert of(Skipped, found)[0].reason == "rollout without a step"


def test_an_evaluation_in_a_folder_named_after_a_step_is_no_training():
    record = episode(1) | {"run": {"type": "eval", "id": "r"}}
    assert choose(PurePath("evals/step_100/traces.jsonl"), lines(record))[0].name == "verifiers"


# Whatever is cut, the same records

LINES = [
    lines(episode(1)),
    lines(shipped(episode(2, "h"), 0.1)),
    lines({"step": 1, "time": 1.0, "optim/lr": 1e-5, "eval/a/effective/agent/reward/mean": 0.5}),
    b"SUCCESS Step 3 | 1s | Reward 0.5 | Turns 1.0",
    b"Detected 4/8 rollouts (zero_advantage=4), enforced 4",
    b'{"step": 1, "time"',
    b"[]",
    b"",
]


@given(st.lists(st.sampled_from(LINES), max_size=8), st.sets(st.integers(1, 7)))
def test_any_cut_of_the_lines_gives_the_same_records(parts, cuts):
    data = b"".join(part.strip() + b"\n" for part in parts)
    made = (
        lambda: RolloutsReader(Folder.of(PurePath(ALL.format(3))), Arrivals()),
        MetricsReader,
        ConsoleReader,
    )
    for make in made:
        assert fed(make(), data, cuts) == fed(make(), data)


def test_garbage_between_records_loses_itself_alone():
    data = lines(episode(1)) + lines(episode(2))[:80] + b"\n" + lines(episode(3))
    found = read(ALL.format(3), data)
    assert [type(record) for record in found] == [Run, Run, Rollout, Skipped, Rollout]
    assert of(Skipped, found)[0].line == 2


def test_asking_for_a_text_changes_nothing_of_what_is_read():
    data = lines(episode(1), episode(2))
    reader = opened(ALL.format(3), data)
    expected = fed(opened(ALL.format(3), data), data)
    first = data.split(b"\n")[0]
    reader.replay(first, of(Rollout, expected)[0].location)
    reader.fresh().feed(Lines(0, [first], 1))
    assert fed(reader, data) == expected
