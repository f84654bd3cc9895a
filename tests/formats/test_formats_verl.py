import json
import math
from pathlib import PurePath
from pprint import pformat
from statistics import fmean

import pytest
from format_reading import fed, of, opened, read, sample
from hypothesis import given
from hypothesis import strategies as st

from grpo_top.config import Settings
from grpo_top.formats.names import canonical_values
from grpo_top.formats.registry import choose
from grpo_top.formats.verl import ConsoleReader, DumpReader, MetricsReader
from grpo_top.monitor import Monitor
from grpo_top.records import Eval, Rollout, Run, Skipped, Step

RECORD = {"input": "user\n2+2?\nassistant\n", "output": "4", "gts": "4", "score": 1.0, "step": 7}


def dumped(name: str, *records: dict[str, object]) -> list[object]:
    return read(name, b"".join(json.dumps(record).encode() + b"\n" for record in records))


# Rollout dumps


def test_what_a_dump_says_beside_its_own_fields_is_taken_and_is_no_part_of_the_reward():
    """Forks and reward functions add such fields: they are read for what everyone means by them."""
    extras = {
        "acc": 0.0,
        "data_source": "openai/gsm8k",
        "finish_reason": "length",
        "response_length": 512,
        "param_version_start": 4,
        "param_version_end": 6,
        "extra_info": {"task_id": 17, "difficulty": "hard"},
        "seed": 3,
    }
    (found,) = dumped("7.jsonl", RECORD | extras)
    assert found.rewards == {"acc": 0.0}
    assert (found.family, found.task, found.tier, found.seed) == ("openai/gsm8k", "17", "hard", 3)
    assert (found.finish_reason, found.completion_tokens) == ("length", 512)
    assert (found.policy_version, found.policy_version_end) == (4, 6)


def test_prompts_and_answers_may_be_conversations():
    asked = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "2+2?"}]
    (found,) = dumped("7.jsonl", RECORD | {"output": [{"role": "assistant", "content": "4"}]})
    assert found.completion == "4"
    assert choose(PurePath("7.jsonl"), json.dumps(RECORD | {"input": asked}).encode())[0].name == "verl"


def test_a_resumed_run_writes_its_dumps_anew_and_the_new_ones_take_their_place(tmp_path):
    dump = tmp_path / "rollout_data" / "7.jsonl"
    dump.parent.mkdir()
    other = [
        RECORD | {"output": answer, "score": score} for answer, score in (("5", 0.0), ("4", 1.0), ("6", 0.0))
    ]
    dump.write_text("".join(json.dumps(record) + "\n" for record in other))
    monitor = Monitor([str(tmp_path)], Settings())
    while monitor.poll(1.0):
        pass
    dump.write_text("".join(json.dumps(RECORD | {"output": answer}) + "\n" for answer in "44"))
    while monitor.poll(1.0):
        pass
    batch = monitor.snapshot().batch(7)
    assert batch.reward.tolist() == [1.0, 1.0]


@pytest.mark.parametrize(
    ("run", "mean"), [("healthy", 0.496875), ("length_runaway", 0.4109375), ("v1", 0.41875)]
)
def test_a_dump_gives_a_rollout_a_line(run, mean):
    found = read("rollout_data/1.jsonl", sample(f"verl/{run}_1.jsonl.gz"))
    assert len(of(Rollout, found)) == len(found) == 64
    assert fmean(rollout.reward for rollout in found) == pytest.approx(mean, abs=1e-7)
    assert {(rollout.step, rollout.split) for rollout in found} == {(1, "train")}


def test_classic_dump_has_no_uid_so_groups_are_equal_inputs():
    found = read("rollout_data/1.jsonl", sample("verl/healthy_1.jsonl.gz"))
    assert {rollout.group for rollout in found} == {None}
    assert len({rollout.prompt for rollout in found}) == 8


def test_two_groups_with_equal_prompt_text_cannot_be_told_apart_in_a_classic_dump():
    found = read("rollout_data/9.jsonl", sample("verl/length_runaway_9.jsonl.gz"))
    assert len({(rollout.group, rollout.prompt) for rollout in found}) == 7


def test_v1_uid_gives_group_and_number():
    found = read("rollout_data/1.jsonl", sample("verl/v1_1.jsonl.gz"))
    assert found[1].group == "6c6656af-68a4-9b74-473f-2a838b85393f"
    assert [rollout.index for rollout in found] == list(range(8)) * 8
    assert len({rollout.group for rollout in found}) == 8


def test_a_uid_of_another_shape_is_the_group():
    (found,) = dumped("12.jsonl", RECORD | {"uid": "p_7", "advantage": 0.5})
    assert (found.group, found.index, found.advantage) == ("p_7", None, 0.5)


def test_numpy_scalars_in_reward_extras_are_quoted_strings():
    found = read("rollout_data/9.jsonl", sample("verl/length_runaway_9.jsonl.gz"))
    assert {rollout.rewards["overlong_reward"] for rollout in found} <= {-1.0, 0.0}
    assert {rollout.rewards["overlong"] for rollout in found} <= {1.0, 0.0}


def test_reward_extras_that_are_no_numbers_are_no_components():
    (found,) = dumped(
        "7.jsonl",
        RECORD | {"acc": 1.0, "format_ok": True, "pred": "4", "request_id": 12, "note": "x", "n": None},
    )
    assert found.rewards == {"acc": 1.0, "format_ok": 1.0}


def test_a_dump_without_steps_takes_its_name():
    (found,) = dumped("rollouts/12.jsonl", {name: value for name, value in RECORD.items() if name != "step"})
    assert found.step == 12


def test_a_dump_without_any_step_is_skipped():
    record = {name: value for name, value in RECORD.items() if name != "step"}
    assert [type(found) for found in dumped("rollouts/last.jsonl", record)] == [Skipped]


@pytest.mark.parametrize("folder", ["val_rollouts", "validation_data", "eval", "run-val"])
def test_a_folder_for_validation_holds_evaluation_rollouts(folder):
    assert dumped(f"{folder}/40.jsonl", RECORD)[0].split == "eval"


@pytest.mark.parametrize("folder", ["rollout_data", "value_rollouts", "intervals", "latest"])
def test_any_other_folder_holds_training_rollouts(folder):
    assert dumped(f"{folder}/40.jsonl", RECORD)[0].split == "train"


@pytest.mark.parametrize(
    ("score", "reason"), [("good", "rollout whose score is a str"), ([1], "rollout whose score is a list")]
)
def test_a_score_that_is_none_is_skipped(score, reason):
    assert dumped("7.jsonl", RECORD, RECORD | {"score": score}, RECORD)[1].reason == reason


def test_a_score_that_is_missing_is_unknown():
    assert dumped("7.jsonl", RECORD | {"score": None})[0].reward is None


def test_a_prompt_longer_than_the_head_is_still_recognised():
    record = RECORD | {"output": "a" * 100_000}
    assert len(dumped("7.jsonl", record, record)) == 2
    assert len(dumped("7.jsonl", record | {"input": "a" * 100_000})) == 1


def test_all_dumps_of_a_folder_have_one_writer():
    data = json.dumps(RECORD).encode()
    claims = [choose(PurePath(name), data)[1].writer for name in ("a/1.jsonl", "a/10.jsonl", "b/1.jsonl")]
    assert claims[0] == claims[1] != claims[2]


def test_a_rollout_is_replayed_from_its_own_bytes():
    data = sample("verl/v1_1.jsonl.gz")
    reader = opened("rollout_data/1.jsonl", data)
    for found in fed(reader, data):
        where = found.location
        assert reader.replay(data[where.offset : where.offset + where.length], where) == found


# Metrics


@pytest.mark.parametrize("run", ["healthy", "length_runaway", "v1"])
def test_the_file_logger_gives_a_step_a_line_and_its_evaluations(run):
    found = read(f"grpo-demo/tiny_{run}.jsonl", sample(f"verl/{run}_metrics.jsonl.gz"))
    assert found[0] == Run(framework="verl")
    assert [step.step for step in of(Step, found)] == list(range(1, 41))
    assert [(evaluation.step, evaluation.suite) for evaluation in of(Eval, found)] == [
        (n, "arith") for n in (10, 20, 30, 40)
    ]


def test_validation_numbers_are_split_by_data_source():
    data = {
        "actor/lr": 1e-6,
        "val-core/openai/gsm8k/acc/mean@4": 0.4,
        "val-core/openai/gsm8k/acc/best@4/mean": 0.6,
        "val-aux/openai/gsm8k/reward/mean@4": 0.5,
        "val-core/math/acc/mean@1": 0.2,
        "val-aux/num_turns/mean": 2.0,
    }
    _, step, *evaluations = dumped("m.jsonl", {"step": 10, "data": data})
    assert step.metrics == {"actor/lr": 1e-6}
    assert {found.suite: found.metrics for found in evaluations} == {
        "openai/gsm8k": {
            "acc/mean@4": 0.4,
            "acc/best@4/mean": 0.6,
            "reward/mean@4": 0.5,
            "num_turns/mean": 2.0,
        },
        "math": {"acc/mean@1": 0.2, "num_turns/mean": 2.0},
    }


def test_the_validation_of_early_versions_is_one_number_of_each_data_source():
    data = {"actor/lr": 1e-6, "critic/kl": 0.1, "val/test_score/openai/gsm8k": 0.4}
    _, step, evaluation = dumped("m.jsonl", {"step": 10, "data": data | {"critic/score/mean": 0.5}})
    assert "val/test_score/openai/gsm8k" not in step.metrics
    assert (evaluation.suite, evaluation.metrics) == ("openai/gsm8k", {"score": 0.4})


def test_validation_before_training_is_no_step():
    assert [
        type(record) for record in dumped("m.jsonl", {"step": 0, "data": {"val-core/a/acc/mean@1": 0.1}})
    ] == [Run, Eval]


def test_null_in_the_metrics_file_is_unknown():
    _, step = dumped("m.jsonl", {"step": 30, "data": {"actor/grad_norm": None, "critic/score/mean": 0.5}})
    assert step.metrics["actor/grad_norm"] is None
    assert canonical_values("verl", step.metrics) == {"reward_mean": 0.5}


def test_critic_score_is_the_reward_and_not_critic_rewards():
    metrics = {"critic/rewards/mean": 0.3, "critic/score/mean": 0.5}
    assert canonical_values("verl", metrics) == {"reward_mean": 0.5}
    assert canonical_values("verl", {"critic/rewards/mean": 0.3}) == {"reward_mean": 0.3}


def test_clip_ratio_is_the_truncation_rate_unless_rows_are_padded_to_the_longest():
    metrics = {"response_length/clip_ratio": 0.25}
    assert canonical_values("verl", metrics) == {"truncation_rate": 0.25}
    v1 = metrics | {"training/off_policy/trajectory_staleness/mean": 0.0}
    assert canonical_values("verl", v1) == {"version_lag_mean": 0.0}


# Console


def test_the_console_agrees_with_the_metrics_file():
    printed = read("console.log", sample("verl/healthy_console.log.gz"))
    logged = read("m.jsonl", sample("verl/healthy_metrics.jsonl.gz"))
    assert [step.metrics for step in of(Step, printed)] == [step.metrics for step in of(Step, logged)]
    assert [found.metrics for found in of(Eval, printed)] == [found.metrics for found in of(Eval, logged)]
    assert {step.rank for step in of(Step, printed)} == {0}


def console(text: str) -> list[object]:
    return fed(ConsoleReader(), text.encode())


def test_numpy_numbers_are_unwrapped_and_nan_stays_on_the_console():
    (step,) = of(
        Step,
        console(
            "step:30 - critic/score/mean:np.float64(0.41) - num_turns/max:np.int32(2) - actor/grad_norm:nan\n"
        ),
    )
    assert (step.step, step.metrics["critic/score/mean"], step.metrics["num_turns/max"]) == (30, 0.41, 2.0)
    assert math.isnan(step.metrics["actor/grad_norm"])


def test_the_settings_that_are_printed_first_say_what_is_meant_to_be_sampled():
    settings = {
        "actor_rollout_ref": {
            "model": {"path": "Qwen/{x}", "note": "it's " * 30},
            "rollout": {
                "n": 5,
                "response_length": 512,
                "temperature": 0.8,
                "top_k": -1,
                "val_kwargs": {"n": 1},
            },
        },
        "algorithm": {"adv_estimator": "grpo"},
        "trainer": {"total_training_steps": 200},
    }
    printed = "".join(
        f"\x1b[36m(TaskRunner pid=71)\x1b[0m {line}\n(WorkerDict pid=72) {{'unrelated': 1}}\n"
        for line in pformat(settings).splitlines()
    )
    step = "(TaskRunner pid=71) step:1 - critic/score/mean:0.5 - actor/pg_loss:0.1\n"
    found = read("train.log", (printed + step).encode())
    run = of(Run, found)[0]
    assert (run.framework, run.algorithm, run.group_size, run.total_steps) == ("verl", "grpo", 5, 200)
    assert run.sampling == {"max_tokens": 512, "temperature": 0.8, "top_k": 0}
    assert [record.step for record in of(Step, found)] == [1]


def test_a_fully_asynchronous_run_logs_several_rows_a_version(tmp_path):
    rows = [
        {"step": version, "data": data}
        for version in (1, 2, 3)
        for data in (
            {
                "critic/score/mean": 0.5,
                "actor/pg_loss": 0.1,
                "fully_async/count/current_param_version": version,
            },
            {
                "timing_s/param_sync": 0.2,
                "fully_async/rollouter/idle_ratio": 0.1,
                "training/global_step": 4 * version,
            },
            {"val-core/gsm8k/acc/mean@1": 0.4},
        )
    ]
    (tmp_path / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    monitor = Monitor([str(tmp_path)], Settings())
    monitor.read_all()
    seen = monitor.snapshot(finished=True)
    assert seen.run.steps == 3
    assert seen.series["reward_mean"].values.tolist() == [0.5] * 3
    assert "STEP_RESTART" not in {finding.id for finding in seen.findings}
    assert seen.run.evals == 3


def test_rays_coloured_prefix_does_not_hide_a_step():
    (step,) = of(
        Step,
        console("\x1b[36m(TaskRunner pid=48213)\x1b[0m step:20 - actor/entropy:0.232 - actor/lr:2e-06\r\n"),
    )
    assert (step.step, step.metrics) == (20, {"actor/entropy": 0.232, "actor/lr": 2e-06})


def test_a_line_welded_to_another_is_read():
    found = of(
        Step,
        console(
            "(WorkerDict pid=4188) processed 512/2048 rows(TaskRunner pid=4100) step:3 - actor/lr:1 - a/b:2"
        ),
    )
    assert [(step.step, step.metrics) for step in found] == [(3, {"actor/lr": 1.0, "a/b": 2.0})]


def test_training_progress_tells_how_many_steps_there_are():
    bar = "(TaskRunner pid=1) Training Progress:  12%|█▎        | 12/100 [10:00<1:13:20, 50.0s/it]"
    assert of(Run, console(f"{bar}\n{bar}\nstep:12 - actor/lr:1\n")) == [
        Run(framework="verl", total_steps=100)
    ]


def test_other_lines_are_let_pass():
    assert (
        console(
            "ERROR: Failed to decode tool call\nglobal_step:3 - not this\nDumped generations to /x/1.jsonl\n"
        )
        == []
    )


# Whatever is cut, the same records

LINES = [
    json.dumps(RECORD).encode(),
    json.dumps({"step": 1, "data": {"critic/score/mean": 0.5, "val-core/a/acc/mean@1": 0.1}}).encode(),
    b"step:3 - actor/lr:1 - critic/score/mean:0.5",
    b"Training Progress:  12%|#  | 12/100 [10:00<1:13:20]\rstep:4 - actor/lr:2",
    b'{"step": 1, "data"',
    b'{"step": "x", "data": 3}',
    b"[]",
    b"\r",
    b"",
]


@given(st.lists(st.sampled_from(LINES), max_size=10), st.sets(st.integers(1, 9)))
def test_any_cut_of_the_lines_gives_the_same_records(parts, cuts):
    data = b"".join(part + b"\n" for part in parts)
    for reader in (DumpReader(5, "train"), MetricsReader(), ConsoleReader()):
        assert fed(reader.fresh(), data, cuts) == fed(reader.fresh(), data)


def test_garbage_between_records_loses_itself_alone():
    good = json.dumps(RECORD).encode()
    found = fed(DumpReader(None, "train"), b"\n".join([good, good[:30], good[:40] + good, good]))
    assert [type(record) for record in found] == [Rollout, Skipped, Skipped, Rollout]
    assert [record.line for record in of(Skipped, found)] == [2, 3]


def test_dumps_are_read_in_the_order_of_their_steps_and_not_of_their_names(tmp_path):
    for step in (1, 2, 10, 11):
        (tmp_path / f"{step}.jsonl").write_text(json.dumps(RECORD | {"step": step}) + "\n")
    monitor = Monitor([str(tmp_path)], Settings())
    monitor.read_all()
    seen = monitor.snapshot(finished=True)
    assert [source.where for source in seen.sources] == ["1.jsonl", "2.jsonl", "10.jsonl", "11.jsonl"]
    assert "STEP_RESTART" not in {finding.id for finding in seen.findings}
