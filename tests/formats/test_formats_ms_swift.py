import json
import math
from pathlib import PurePath
from statistics import fmean

import pytest
from format_reading import fed, lines, of, opened, packed, read
from hypothesis import given
from hypothesis import strategies as st
from runs import read as run_of
from runs import unpack_sample

from grpo_top.config import Settings
from grpo_top.formats.base import RunContext
from grpo_top.formats.ms_swift import CompletionsReader, LoggingReader
from grpo_top.formats.names import canonical_values
from grpo_top.formats.registry import choose
from grpo_top.monitor import Monitor
from grpo_top.records import Eval, Location, Rollout, Run, Skipped, Step

FOLDER = "v0-20261130-102902"
ROW = {
    "loss": 0.1,
    "reward": 0.5,
    "reward_std": 0.3,
    "rewards/Close/mean": 0.5,
    "global_step/max_steps": "12/500",
    "elapsed_time": "18s",
    "percentage": "2.40%",
    "train_speed(s/it)": 0.3,
}
TABLE = {
    "step": ["1"] * 4,
    "prompt": ["1+1=", "1+1=", "2+2=", "2+2="],
    "completion": ["2", "3", "4", "5"],
    "Close": [1.0, 0.5, 1.0, 0.0],
    "Tags": [0.0, 1.0, None, math.nan],
    "advantages": [0.5, -0.5, 0.7, -0.7],
    "entropy": [0.1, 0.2, 0.3, 0.4],
}


def sample(name: str) -> bytes:
    return packed("ms-swift", f"{FOLDER}/{name}")


def with_args() -> RunContext:
    context = RunContext()
    opened("args.json", sample("args.json"), context).whole(sample("args.json"))
    return context


def logging(*records: dict[str, object]) -> list[object]:
    return read("logging.jsonl", lines(*records))


def completions(*records: dict[str, object], context: RunContext | None = None) -> list[object]:
    return read("completions.jsonl", lines(*records), context)


# logging.jsonl


def test_the_step_is_a_string_with_the_number_of_steps():
    found = logging(ROW)
    assert of(Step, found)[0].step == 12
    assert of(Run, found) == [Run(framework="ms-swift", total_steps=500)]


def test_numbers_in_words_are_no_metrics():
    (step,) = of(Step, logging(ROW))
    assert step.metrics.keys() == ROW.keys() - {"global_step/max_steps", "elapsed_time", "percentage"}


def test_megatron_calls_it_iteration():
    row = {name: value for name, value in ROW.items() if name != "global_step/max_steps"}
    assert of(Step, logging(row | {"iteration": "3/40"}))[0].step == 3


def test_a_logging_file_is_read_to_its_end():
    found = read("logging.jsonl", sample("logging.jsonl"))
    assert [step.step for step in of(Step, found)] == list(range(1, 61))
    assert [(evaluation.step, evaluation.suite) for evaluation in of(Eval, found)] == [
        (20, "heldout"),
        (40, "heldout"),
        (60, "heldout"),
    ]
    assert of(Run, found) == [
        Run(framework="ms-swift", total_steps=60),
        Run(framework="ms-swift", total_steps=60, finished=True),
    ]
    assert of(Skipped, found) == []


def test_the_long_last_line_repeats_the_log_and_is_no_row():
    last = sample("logging.jsonl").splitlines()[-1]
    assert len(last) > 50_000
    assert fed(LoggingReader(RunContext()), last) == [Run(framework="ms-swift", finished=True)]


def test_training_that_goes_on_after_its_end_is_not_finished():
    found = logging(ROW, ROW | {"train_runtime": 1.0}, ROW | {"global_step/max_steps": "13/500"})
    assert [run.finished for run in of(Run, found)] == [None, True, False]


def test_reward_std_is_the_mean_std_within_groups_and_not_that_of_the_batch():
    (step,) = of(Step, logging(ROW))
    values = canonical_values("ms-swift", step.metrics)
    assert values["group_reward_std_mean"] == 0.3
    assert "reward_std" not in values


def test_entropy_has_no_plain_name():
    assert canonical_values("ms-swift", {"entropy/mean": 0.7})["entropy"] == 0.7


def test_a_row_without_a_step_is_skipped():
    assert [type(record) for record in fed(LoggingReader(RunContext()), lines({"loss": 1.0}, ROW))] == [
        Skipped,
        Run,
        Step,
    ]


def test_supervised_training_is_left_to_whoever_wants_it_more():
    row = {"loss": 0.1, "token_acc": 0.5, "global_step/max_steps": "12/500"}
    chosen = choose(PurePath("logging.jsonl"), lines(row))
    assert chosen is not None
    assert chosen[1].confidence < 20


# args.json


def test_the_arguments_are_the_intended_config():
    (run,) = read("args.json", sample("args.json"))
    assert (run.framework, run.algorithm, run.group_size, run.total_steps) == ("ms-swift", "grpo", 8, 60)
    assert run.sampling == {
        "max_tokens": 24,
        "temperature": 1.0,
        "top_k": 0,
        "top_p": 1.0,
        "repetition_penalty": 1.0,
        "min_p": 0.0,
    }
    assert run.config["beta"] == 0.04


# completions.jsonl


def test_a_line_is_a_whole_table_one_list_a_column():
    found = completions(TABLE)
    assert [type(record) for record in found] == [Rollout] * 4
    assert [(record.step, record.completion, record.advantage) for record in found] == [
        (1, "2", 0.5),
        (1, "3", -0.5),
        (1, "4", 0.7),
        (1, "5", -0.7),
    ]
    assert [record.location.part for record in found] == [0, 1, 2, 3]


def test_groups_are_blocks_of_equal_prompts():
    assert [(record.group, record.index) for record in completions(TABLE)] == [
        ("0", 0),
        ("0", 1),
        ("1", 0),
        ("1", 1),
    ]


def test_neighbouring_groups_with_one_prompt_are_cut_to_the_group_size():
    table = {
        name: [values[0]] * 16 if name == "prompt" else (values * 4)[:16] for name, values in TABLE.items()
    }
    assert {record.group for record in completions(table, context=with_args())} == {"0", "1"}


def test_reward_columns_end_at_the_advantages():
    assert [record.rewards for record in completions(TABLE)] == [
        {"Close": 1.0, "Tags": 0.0},
        {"Close": 0.5, "Tags": 1.0},
        {"Close": 1.0, "Tags": None},
        {"Close": 0.0, "Tags": None},
    ]


def test_the_total_reward_is_unknown_without_the_weights():
    assert {record.reward for record in completions(TABLE)} == {None}


def test_the_total_reward_is_the_sum_that_the_arguments_say():
    assert [record.reward for record in completions(TABLE, context=with_args())] == [1.0, 1.5, 1.0, 0.0]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"reward_weights": [1.0, 0.5]}, [1.0, 1.0, 1.0, 0.0]),
        ({"reward_weights": [1.0]}, [None] * 4),
        ({"kl_in_reward": True}, [None] * 4),
    ],
)
def test_weights_and_a_penalty_in_the_reward_are_heeded(changes, expected):
    context = RunContext()
    args = json.dumps(json.loads(sample("args.json")) | changes, indent=4).encode()
    opened("args.json", args, context).whole(args)
    assert [record.reward for record in completions(TABLE, context=context)] == expected


def test_a_second_table_of_a_step_is_its_evaluations():
    other = TABLE | {"completion": ["6", "7", "8", "9"]}
    assert [record.split for record in completions(TABLE, other)] == [None] * 4 + ["eval"] * 4


def test_a_table_that_comes_again_is_not_read_twice():
    other = TABLE | {"completion": ["6", "7", "8", "9"]}
    assert len(completions(TABLE, other, other)) == len(completions(TABLE, other, TABLE)) == 8


def test_a_table_before_the_first_step_is_an_evaluations():
    assert {record.split for record in completions(TABLE | {"step": ["0"] * 4})} == {"eval"}


def test_a_completions_file_of_60_steps_holds_64_tables_of_which_one_is_a_repetition():
    data = sample("completions.jsonl")
    found = read("completions.jsonl", data, with_args())
    assert len(data.splitlines()) == 64
    assert len(found) == 63 * 16
    splits = {(record.step, record.split) for record in found}
    assert {step for step, split in splits if split == "eval"} == {20, 40, 60}
    assert {step for step, split in splits if split is None} == set(range(1, 61))
    first = [record.reward for record in found if record.step == 1]
    assert fmean(first) == pytest.approx(0.734375, abs=1e-7)


def test_a_rollout_is_read_again_by_its_part():
    data = sample("completions.jsonl")
    reader = opened("completions.jsonl", data)
    line = data.splitlines()[0]
    again = reader.replay(line, Location(0, len(line), 9))
    assert (again.prompt, again.completion) == ("17+26=", "8 plus 2 3 plus 7 3 plus 7 5 plus 9 4 plus 6")


def test_from_ray_a_line_is_a_rollout_whose_steps_count_from_0():
    row = {"gen_step": 4, "prompt": "1+1=", "completion": "2", "reward": 1.0, "advantages": 0.0}
    (found,) = completions(row)
    assert (found.step, found.group, found.reward, found.rewards, found.advantage) == (
        5,
        None,
        1.0,
        None,
        0.0,
    )


def test_a_table_longer_than_the_head_is_known_all_the_same():
    table = {"step": ["1", "1"], "prompt": ["a" * 70_000] * 2, "completion": ["b"] * 2, "R": [1.0, 0.0]}
    assert len(completions(table)) == 2


@pytest.mark.parametrize("step", [None, "last", [None, None, None, None], []])
def test_a_table_without_a_step_is_skipped(step):
    found = fed(CompletionsReader(RunContext()), lines(TABLE | {"step": step}, TABLE))
    assert [type(record) for record in found] == [Skipped] + [Rollout] * 4


# The console


def test_printed_rows_are_ms_swifts_though_trl_prints_them():
    context = RunContext()
    found = read("console.log", packed("ms-swift", "console.log"), context)
    assert context.framework == "ms-swift"
    assert [step.step for step in of(Step, found) if "reward" in step.metrics] == list(range(1, 61))
    assert {step.rank for step in of(Step, found)} == {0}
    assert len(of(Eval, found)) == 3


# Whatever is cut, the same records

LINES = [
    json.dumps(ROW).encode(),
    json.dumps(TABLE).encode(),
    json.dumps(TABLE | {"completion": ["6", "7", "8", "9"]}).encode(),
    json.dumps(TABLE | {"step": ["2"] * 4}).encode(),
    json.dumps(TABLE)[:50].encode(),
    b'{"step": ["1"], "prompt": 3}',
    b'{"last_model_checkpoint": "x"}',
    b"[]",
    b"\r",
    b"",
]


@given(st.lists(st.sampled_from(LINES), max_size=12), st.sets(st.integers(1, 11)))
def test_any_cut_of_the_lines_gives_the_same_records(parts, cuts):
    data = b"".join(part + b"\n" for part in parts)
    for reader in (LoggingReader(RunContext()), CompletionsReader(RunContext())):
        assert repr(fed(reader.fresh(), data, cuts)) == repr(fed(reader.fresh(), data))


def test_garbage_between_records_loses_itself_alone():
    table, row = json.dumps(TABLE).encode(), json.dumps(ROW).encode()
    found = fed(
        CompletionsReader(RunContext()), b"\n".join([table, table[:60], table.replace(b'"1"', b'"2"')])
    )
    assert [type(record) for record in found] == [Rollout] * 4 + [Skipped] + [Rollout] * 4
    found = fed(LoggingReader(RunContext()), b"\n".join([row, row[:30], row]))
    assert [type(record) for record in found] == [Run, Step, Skipped, Step]


# The whole run


def test_the_trainer_state_beside_it_is_read_with_ms_swifts_words(tmp_path):
    unpack_sample("ms-swift", tmp_path)
    monitor = Monitor([str(tmp_path)], Settings())
    monitor.read_all()
    logged = monitor.ledger.table.of_origin(1, "trainer")
    assert logged["group_reward_std_mean"] == pytest.approx(0.7405785322189331)
    assert "reward_std" not in logged


def test_evaluations_of_a_run_are_held_out_and_not_trained_on(tmp_path):
    snapshot = run_of(unpack_sample("ms-swift", tmp_path))
    assert snapshot.run.rollouts == 60 * 16
    assert [step for step in range(1, 61) if snapshot.eval_batch(step) is not None] == [20, 40, 60]
    assert snapshot.run.evals == 3


def test_columns_that_a_version_adds_are_taken_by_their_usual_names():
    table = {
        "step": ["3", "3"],
        "prompt": [[{"role": "user", "content": "2+2?"}]] * 2,
        "completion": ["4", "5"],
        "accuracy": [1.0, 0.0],
        "advantages": [0.7, -0.7],
        "finish_reason": ["stop", "length"],
        "seed": [1, 2],
    }
    found = of(Rollout, read("completions.jsonl", json.dumps(table).encode()))
    assert [(one.prompt, one.finish_reason, one.seed) for one in found] == [
        ("2+2?", "stop", 1),
        ("2+2?", "length", 2),
    ]
    assert found[0].rewards == {"accuracy": 1.0}
