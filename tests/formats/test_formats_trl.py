import builtins
import json
import math
from statistics import fmean

import pytest
from format_reading import batches, fed, of, opened, read, sample
from hypothesis import given
from hypothesis import strategies as st

from grpo_top.formats.base import RunContext
from grpo_top.formats.names import canonical_values
from grpo_top.formats.trl import ParquetReader, TrainerStateReader, table_rollouts
from grpo_top.formats.trl_console import ConsoleReader
from grpo_top.records import Eval, Location, Message, Rollout, Run, Skipped, Step

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")


def completions(name: str, context: RunContext | None = None) -> list[Rollout]:
    found = read(f"completions/completions_{name[-5:]}.parquet", sample(f"trl/{name}.parquet"), context)
    assert of(Rollout, found) == found
    return found


def table(**columns: object) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table(columns), sink)
    return sink.getvalue().to_pybytes()


def whole(data: bytes, context: RunContext | None = None) -> list[object]:
    return ParquetReader(context or RunContext()).whole(data)


# Completions


def test_completions_give_a_rollout_a_row():
    found = completions("normal_00001")
    assert len(found) == 32
    assert found[1] == Rollout(
        step=1,
        group="0",
        reward=None,
        index=1,
        rewards={"accuracy_reward": 0.0, "format_reward": 0.0},
        split=None,
        prompt="10+39=",
        completion="7 plus 9 2 plus 9 1 plus 9 5 plus 5 3 plus 9",
        advantage=-1.5620441436767578,
        location=Location(1, 0),
    )


def test_completions_agree_with_the_trainers_own_means():
    found = completions("normal_00001")
    assert fmean(rollout.rewards["accuracy_reward"] for rollout in found) == pytest.approx(0.40625, abs=1e-7)
    assert fmean(rollout.rewards["format_reward"] for rollout in found) == pytest.approx(0.53125)


def test_completions_have_no_total_reward_and_no_length():
    assert {
        (rollout.reward, rollout.completion_tokens, rollout.truncated)
        for rollout in completions("normal_00001")
    } == {(None, None, None)}


def test_groups_are_blocks_of_equal_prompts():
    found = completions("normal_00001")
    assert [rollout.group for rollout in found] == [str(group) for group in range(4) for _ in range(8)]
    assert [rollout.index for rollout in found] == list(range(8)) * 4


def test_neighbouring_groups_with_one_prompt_are_cut_apart():
    prompts = ["a"] * 4 + ["b"] * 8 + ["c"] * 4
    found = whole(
        table(step=[1] * 16, prompt=prompts, completion=["x"] * 16, r=[0.5] * 16, advantage=[0.0] * 16)
    )
    assert [rollout.group for rollout in found] == [str(group) for group in range(4) for _ in range(4)]


def test_blocks_of_odd_lengths_are_left_whole():
    prompts = ["a"] * 4 + ["b"] * 6 + ["c"] * 4
    found = whole(
        table(step=[1] * 14, prompt=prompts, completion=["x"] * 14, r=[0.5] * 14, advantage=[0.0] * 14)
    )
    assert [rollout.group for rollout in found] == ["0"] * 4 + ["1"] * 6 + ["2"] * 4


def test_eval_overwrites_completions_of_its_step_so_the_split_is_unknown():
    assert {rollout.split for rollout in completions("normal_00030")} == {None}


def test_reused_generation_repeats_the_completions_under_the_next_step():
    first, again = completions("lowtemp_00001"), completions("lowtemp_00002")
    assert [rollout._replace(step=2) for rollout in first] == again


def test_nan_in_parquet_says_that_the_reward_function_gave_none():
    rewards = [rollout.rewards["accuracy_reward"] for rollout in completions("lowtemp_00001")]
    assert rewards.count(None) == 4
    assert not any(reward is not None and math.isnan(reward) for reward in rewards)


def test_conversational_prompts_keep_their_turns():
    found = completions("lowtemp_00001")[0]
    assert (found.prompt, found.completion) == ("10+39=", "<answer>49</answer>")
    assert found.messages == [Message("user", "10+39="), Message("assistant", "<answer>49</answer>")]


def test_log_extra_text_is_no_reward():
    assert list(completions("normal_00001")[0].rewards) == ["accuracy_reward", "format_reward"]


def numeric_extra() -> bytes:
    return table(
        step=[1, 1],
        prompt=["a", "a"],
        completion=["x", "y"],
        accuracy=[0.0, 1.0],
        margin=[49.0, 49.0],
        advantage=[-1.0, 1.0],
    )


def test_log_extra_number_is_no_reward_where_the_log_has_named_the_rewards():
    context = RunContext()
    TrainerStateReader(context).whole(state([{"step": 1, "rewards/accuracy/mean": 0.5, "reward": 0.5}]))
    assert [rollout.rewards for rollout in whole(numeric_extra(), context)] == [
        {"accuracy": 0.0},
        {"accuracy": 1.0},
    ]


def test_log_extra_number_cannot_be_told_from_a_reward_before_that():
    assert list(whole(numeric_extra())[0].rewards) == ["accuracy", "margin"]


def test_log_extra_integer_is_no_reward():
    data = table(step=[1], prompt=["a"], completion=["x"], accuracy=[0.5], answer=[49], advantage=[0.0])
    assert whole(data)[0].rewards == {"accuracy": 0.5}


def test_a_row_is_replayed_from_the_whole_file():
    data = sample("trl/lowtemp_00007.parquet")
    reader = opened("completions_00007.parquet", data)
    for rollout in reader.whole(data):
        assert reader.replay(data, rollout.location) == rollout
    assert reader.replay(data, Location(10_000, 0)) is None


@pytest.mark.parametrize("length", [8, 1000, 5700])
def test_a_parquet_file_that_is_cut_is_skipped_with_a_reason(length):
    (found,) = whole(sample("trl/normal_00001.parquet")[:length])
    assert isinstance(found, Skipped)
    assert found.reason.startswith("not a readable parquet file")


def test_a_table_without_steps_is_skipped_once():
    assert whole(table(prompt=["a"] * 5, completion=["x"] * 5)) == [
        Skipped("parquet table without a step column", 0)
    ]


def test_without_pyarrow_one_line_says_what_to_install(monkeypatch):
    real = builtins.__import__

    def without(name, *rest, **options):
        if name.startswith("pyarrow"):
            raise ImportError(name)
        return real(name, *rest, **options)

    monkeypatch.setattr(builtins, "__import__", without)
    assert whole(sample("trl/normal_00001.parquet")) == [
        Skipped("parquet files need the extra: pip install 'grpo-top[parquet]'", 0)
    ]


ROW = {"step": 3, "prompt": "2+2", "completion": "4", "accuracy": 1.0, "gold": "4", "advantage": 0.5}


def test_completions_exported_as_json_lines_are_read():
    data = b"".join(json.dumps(ROW | {"completion": text}).encode() + b"\n" for text in "45")
    first, second = read("completions.jsonl", data)
    assert (first.step, first.group, first.reward, first.rewards, first.split) == (
        3,
        None,
        None,
        {"accuracy": 1.0},
        None,
    )
    assert second.location.offset == data.index(b"\n") + 1
    assert opened("completions.jsonl", data).replay(data[: first.location.length], first.location) == first


def exported(rows: list[dict[str, object]]) -> list[dict[str, float | None] | None]:
    data = b"".join(json.dumps(row).encode() + b"\n" for row in rows)
    return [record.rewards for record in read("completions.jsonl", data)]


@pytest.mark.parametrize("solution", ["136", 136, 136.0, None, ["136"]])
def test_a_solution_that_an_export_puts_before_the_rewards_is_none_and_hides_none(solution):
    row = {
        "step": 3,
        "prompt": "p",
        "completion": "4",
        "solution": solution,
        "accuracy": 1.0,
        "advantage": 0.5,
    }
    assert exported([row, row]) == [{"accuracy": 1.0}, {"accuracy": 1.0}]


def test_a_reward_that_is_null_in_some_rows_is_unknown_there():
    before, after = ({"step": 3, "prompt": "p", "completion": "4"}, {"note": "x", "advantage": 0.5})
    rows = [{"a": 1.0, "b": 0.5}, {"a": None, "b": 0.5}, {"a": 1.0, "b": None}]
    assert exported([before | row | after for row in rows]) == rows


# Trainer state


def state(log: list[dict[str, object]], **rest: object) -> bytes:
    return json.dumps({"global_step": 10, "max_steps": 10, "log_history": log} | rest, indent=2).encode()


def test_the_trainer_state_gives_the_run_and_its_steps():
    context = RunContext()
    found = read("trainer_state.json", sample("trl/normal_trainer_state.json.gz"), context)
    assert found[0] == Run(framework="trl", algorithm="grpo", total_steps=150, finished=True)
    steps = of(Step, found)
    assert [step.step for step in steps] == [*range(1, 151), 150]
    assert {step.rank for step in steps} == {2}
    assert context.logging_steps == 1
    assert canonical_values("trl", steps[0].metrics)["reward_std"] == pytest.approx(0.8325049646272581)


def test_evaluations_of_the_trainer_state_lose_their_prefix():
    found = of(Eval, read("state.json", sample("trl/normal_trainer_state.json.gz")))
    assert [evaluation.step for evaluation in found] == [30, 60, 90, 120, 150]
    assert found[0].metrics["reward"] == pytest.approx(1.4414062798023224)
    assert found[0].suite == "heldout"


def test_several_evaluation_sets_are_suites():
    row = {"step": 5, "epoch": 0.1, "eval_math_reward": 0.4, "eval_math_runtime": 2.0}
    (found,) = of(Eval, TrainerStateReader(RunContext()).whole(state([row])))
    assert (found.suite, found.metrics) == ("math", {"reward": 0.4, "runtime": 2.0})


def test_steps_that_reuse_a_generation_have_no_reward_rather_than_a_zero():
    steps = of(Step, read("trainer_state.json", sample("trl/lowtemp_trainer_state.json.gz")))
    assert "reward_mean" in canonical_values("trl", steps[0].metrics)
    assert not canonical_values("trl", steps[1].metrics).keys() & {
        "reward_mean",
        "truncation_rate",
        "completion_tokens_mean",
    }


def test_a_state_with_steps_left_is_not_finished():
    log = [{"step": 5, "reward": 0.5}, {"step": 5, "train_runtime": 3.0}]
    found = TrainerStateReader(RunContext()).whole(state(log, global_step=5))
    assert found[0].finished is None


def test_a_state_with_literal_nan_is_read():
    data = state([{"step": 1, "reward": 0.5, "loss": math.nan, "kl": math.inf}])
    (step,) = of(Step, read("trainer_state.json", data))
    assert math.isnan(step.metrics["loss"])
    assert step.metrics["kl"] == math.inf


def test_a_state_that_is_being_written_is_skipped():
    data = sample("trl/normal_trainer_state.json.gz")[:50_000]
    (found,) = TrainerStateReader(RunContext()).whole(data)
    assert isinstance(found, Skipped)


def test_a_row_of_the_log_without_a_step_is_skipped_alone():
    found = TrainerStateReader(RunContext()).whole(state([{"reward": 0.5}, {"step": 2, "reward": 0.5}]))
    assert [type(record) for record in found] == [Run, Skipped, Step]


@pytest.mark.parametrize("data", [b"[]", b"{}", b'{"log_history": 3}', b'{"log_history": [1, null]}'])
def test_no_shape_of_a_state_is_too_wrong(data):
    assert all(isinstance(record, Run | Skipped) for record in TrainerStateReader(RunContext()).whole(data))


# Printed rows

ROWS = [str({"loss": "0.1", "reward": reward, "kl": "0"}) for reward in ("0.5", "0.6", "0.7")]


def printed(text: str, context: RunContext | None = None) -> list[tuple[int, float | None]]:
    found = of(Step, fed(ConsoleReader(context or RunContext()), text.encode()))
    return [(step.step, step.metrics.get("reward")) for step in found]


def bar(done: int, total: int = 150) -> str:
    return f"\r  1%|█▏        | {done}/{total} [00:06<52:28,  6.31s/it]"


@pytest.mark.parametrize("run", ["normal", "lowtemp"])
def test_printed_rows_agree_with_the_trainer_state(run):
    logged = {
        step.step: step.metrics
        for step in of(Step, read("s.json", sample(f"trl/{run}_trainer_state.json.gz")))
    }
    steps = of(Step, read("stdout.log", sample(f"trl/{run}_stdout.log.gz")))
    assert [step.step for step in steps] == sorted([*logged, max(logged)])
    assert {step.rank for step in steps} == {0}
    for step in steps:
        for key, value in step.metrics.items():
            assert value == pytest.approx(logged[step.step].get(key, value), rel=1e-3, abs=1e-9)


def test_printed_evaluations_belong_to_the_step_before_them():
    evaluations = of(Eval, read("stdout.log", sample("trl/normal_stdout.log.gz")))
    assert [(found.step, found.metrics["reward"]) for found in evaluations][:2] == [(30, 1.441), (60, 1.657)]


def test_the_closing_row_says_that_training_has_ended():
    assert of(Run, read("stdout.log", sample("trl/normal_stdout.log.gz")))[-1].finished is True


def test_the_progress_bar_before_a_row_gives_its_step():
    text = "".join(
        f"{bar(step)}\r            \r{row}\n" for step, row in zip((61, 62, 63), ROWS, strict=True)
    )
    assert printed(text) == [(61, 0.5), (62, 0.6), (63, 0.7)]


def test_the_progress_bar_of_an_evaluation_does_not_count():
    loading = f"Loading weights: {bar(26, 26)[1:]}"
    text = (
        f"{bar(1)}\r{ROWS[0]}\n{bar(3, 4)}{bar(4, 4)}\n{bar(2)}\r{ROWS[1]}\n{loading}\n{bar(3)}\r{ROWS[2]}\n"
    )
    assert [step for step, _ in printed(text)] == [1, 2, 3]


def test_the_progress_bar_tells_how_many_steps_there_are():
    found = of(Run, fed(ConsoleReader(RunContext()), f"{bar(1)}\r{ROWS[0]}\n".encode()))
    assert found[-1].total_steps == 150


def test_a_bar_on_an_earlier_line_counts():
    assert printed(f"{bar(7)}\n{ROWS[0]}\n{bar(8)}\n{ROWS[1]}\n") == [(7, 0.5), (8, 0.6)]


def test_rows_held_back_by_a_buffer_are_counted_since_the_bar_says_nothing_of_them():
    assert printed(bar(7) + "\n" + "\n".join(ROWS) + "\n") == [(1, 0.5), (2, 0.6), (3, 0.7)]


def test_a_bar_that_falls_back_is_a_training_that_was_started_again():
    text = "".join(f"{bar(step)}\r{ROWS[0]}\n" for step in (74, 75, 61, 62))
    assert [step for step, _ in printed(text)] == [74, 75, 61, 62]


def test_the_header_of_the_completions_table_gives_the_step():
    text = "".join(
        f"{row}\n╭──────── Step {step} ────────╮\n│ ┏━━━┓ │\n╰────╯\n"
        for step, row in zip((10, 20, 30), ROWS, strict=True)
    )
    assert printed(text) == [(10, 0.5), (20, 0.6), (30, 0.7)]


def test_without_bar_and_header_rows_are_counted():
    assert printed("\n".join(ROWS) + "\n") == [(1, 0.5), (2, 0.6), (3, 0.7)]


def test_counted_rows_are_as_far_apart_as_the_trainer_state_says():
    assert [step for step, _ in printed("\n".join(ROWS), RunContext(logging_steps=10))] == [10, 20, 30]


def test_a_row_may_say_its_step_itself():
    assert printed("{'loss': 0.1, 'reward': 0.5, 'global_step/max_steps': '12/500'}\n") == [(12, 0.5)]
    assert printed("{'loss': 0.1, 'reward': 0.5, 'step': 7}\n") == [(7, 0.5)]


def test_numbers_of_older_versions_are_no_strings_and_have_older_names():
    row = (
        "{'loss': 0.0, 'grad_norm': nan, 'rewards/accuracy_reward': 0.1598, 'reward': 0.7115,"
        " 'reward_std': 0.5313, 'completion_length': 387.5, 'kl': None, 'epoch': 0.01}"
    )
    (step,) = of(Step, read("train.log", row.encode()))
    assert math.isnan(step.metrics["grad_norm"])
    values = canonical_values("trl", step.metrics)
    assert values["component_mean{accuracy_reward}"] == 0.1598
    assert values["completion_tokens_mean"] == 387.5
    assert values["group_reward_std_mean"] == 0.5313
    assert "kl" not in values


def test_colours_and_prefixes_do_not_hide_a_row():
    text = f"\x1b[32m[rank0]:\x1b[0m 2026-03-01 11:00:27 INFO {ROWS[0]}\x1b[K\r\n"
    assert printed(text) == [(1, 0.5)]


def test_dicts_that_are_no_rows_are_let_pass():
    assert printed("{'role': 'user'}\nconfig {'lr': 0.1}\n" + ROWS[0]) == [(1, 0.5)]


@given(
    st.lists(
        st.sampled_from(
            [
                *ROWS,
                bar(1),
                bar(2) + "\r" + ROWS[1],
                bar(4, 4),
                "╭── Step 5 ──╮",
                "{'eval_reward': '0.4'}",
                "text",
                "{'train_runtime': 3.0}",
                "",
            ]
        ),
        max_size=14,
    ),
    st.sets(st.integers(1, 13)),
)
def test_any_cut_of_the_lines_gives_the_same_records(parts, cuts):
    data = "".join(part + "\n" for part in parts).encode()
    assert fed(ConsoleReader(RunContext()), data, cuts) == fed(ConsoleReader(RunContext()), data)


def test_a_real_log_gives_the_same_records_line_by_line():
    data = sample("trl/normal_stdout.log.gz")
    everything = range(len(data.split(b"\n")))
    assert len(batches(data, everything)) > 1000
    assert fed(ConsoleReader(RunContext()), data, everything) == fed(ConsoleReader(RunContext()), data)


def test_a_step_that_reuses_a_generation_takes_as_long_as_it_says():
    found = of(Step, read("trainer_state.json", sample("trl/lowtemp_trainer_state.json.gz")))
    values = {step.step: canonical_values("trl", step.metrics) for step in found}
    assert values[2]["step_time"] < values[1]["step_time"] / 2
    assert "reward_mean" not in values[2]


def test_a_table_of_before_rewards_had_columns_holds_the_total():
    early = {"step": "3", "prompt": "2+2?", "completion": "4", "reward": 0.5}
    (found,) = table_rollouts([early], RunContext())
    assert (found.step, found.reward, found.rewards) == (3, 0.5, None)
    (found,) = table_rollouts([early | {"advantage": 0.1}], RunContext())
    assert (found.reward, found.rewards) == (None, {"reward": 0.5})


def test_a_column_that_log_extra_adds_is_taken_where_its_name_says_what_it_is():
    data = table(step=[1], prompt=["a"], completion=["x"], r=[0.5], finish_reason=["length"], advantage=[0.0])
    (found,) = whole(data)
    assert (found.rewards, found.finish_reason) == ({"r": 0.5}, "length")
