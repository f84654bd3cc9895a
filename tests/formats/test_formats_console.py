from pathlib import PurePath

import pytest
from format_reading import fed, of, read
from hypothesis import given
from hypothesis import strategies as st

from grpo_top.formats.base import RunContext
from grpo_top.formats.console import (
    Bar,
    ConsoleReader,
    console_rows,
    is_text,
    printed_dicts,
    progress_bar,
    segments,
    strip_ansi,
)
from grpo_top.formats.names import canonical_values, heldout_value
from grpo_top.formats.registry import choose
from grpo_top.formats.trl_console import ConsoleReader as TrlConsoleReader
from grpo_top.formats.verl import ConsoleReader as VerlConsoleReader
from grpo_top.records import Eval, Run, Step

OPENRLHF = (
    "(PPORayActorGroup pid=9127) [2025-05-14 09:26:11] INFO     ppo_trainer.py:128   ✨ Global step 86: "
    "{'policy_loss': -0.00695125, 'kl': 0.0379522, 'reward': 0.530959, 'truncated': 0.03, 'entropy_loss': None}"
)
SLIME = (
    "(RolloutManager pid=6640) [2026-02-11 09:10:05] rollout.py:1193 - perf 3: "
    "{'rollout/response_len/mean': 900.0, 'rollout/raw_reward': 0.31, 'rollout/zero_std/count_0': 4}"
)
PRIME = (
    "Generating rollouts (train): 100%|██████████| 128/128 [00:07<00:00, 17.17it/s]\r"
    "02:14:11 SUCCESS Step 4 | Time: 8.46s | Reward: 0.9300 | Throughput: 5263.6 tokens/s | Max. Off-Policy Level: 1"
)


def test_colours_links_and_cursor_movements_are_taken_away():
    assert strip_ansi("\x1b[36m(a)\x1b[0m \x1b]8;;http://x\x07b\x1b]8;;\x07\x1b[A\x1b[Kc") == "(a) bc"


@given(st.text())
def test_text_without_escapes_is_left_alone(text):
    assert strip_ansi(text.replace("\x1b", "")) == text.replace("\x1b", "")


def test_a_line_is_what_it_showed_one_after_another():
    assert segments(b"\r  1%|a\r      \r{'loss': 1}") == ["  1%|a", "{'loss': 1}"]


def test_a_progress_bar_is_read_with_its_description():
    assert progress_bar("Loading weights: 100%|██████| 26/26 [00:00<00:00]") == Bar(
        "Loading weights:", 26, 26
    )
    assert progress_bar("  1%|▏  | 12/150 [00:06<52:28]") == Bar("", 12, 150)
    assert progress_bar("100% of 12/150 [done]") is None


def test_a_printed_dict_is_read_as_it_is_spelled():
    text = """x {'a': '0.1', "b": nan, 'c': None, 'd': np.int32(5), 'e': tensor(1, device='cuda:0'), 'f': -1e-05} y"""
    assert printed_dicts(text) == [
        {
            "a": "0.1",
            "b": "nan",
            "c": None,
            "d": "np.int32(5)",
            "e": "tensor(1, device='cuda:0')",
            "f": "-1e-05",
        }
    ]


def test_braces_that_are_no_dict_are_let_pass():
    assert printed_dicts("{} {1, 2} {x: 1} \\boxed{4} {'unfinished': 1") == []


@pytest.mark.parametrize(
    ("line", "step", "expected"),
    [
        (
            OPENRLHF,
            86,
            {"loss": -0.00695125, "kl": 0.0379522, "reward_mean": 0.530959, "truncation_rate": 0.03},
        ),
        (SLIME, 3, {"completion_tokens_mean": 900.0, "reward_mean": 0.31}),
        (PRIME, 4, {"step_time": 8.46, "reward_mean": 0.93, "version_lag_max": 1.0}),
    ],
)
def test_lines_that_name_their_step_are_read_whoever_printed_them(line, step, expected):
    (found,) = of(Step, read("train.log", line.encode()))
    assert (found.step, found.rank) == (step, 0)
    assert canonical_values(None, found.metrics) == expected


def test_an_evaluation_is_told_from_a_step():
    (found,) = fed(ConsoleReader(), b"eval 12: {'eval/math': 0.4}")
    assert isinstance(found, Eval)
    assert found.step == 12


def test_slimes_evaluations_are_one_a_data_set():
    line = "eval 12: {'eval/aime': 0.25, 'eval/aime-truncated_ratio': 0.5, 'eval/math': 0.5}"
    found = of(Eval, fed(ConsoleReader(), line.encode()))
    assert [(one.suite, heldout_value(one.metrics)) for one in found] == [("aime", 0.25), ("math", 0.5)]
    assert found[0].metrics["truncated_ratio"] == 0.5


def test_whose_words_they_are_is_said_once():
    found = fed(ConsoleReader(), f"{SLIME}\n{SLIME}".encode())
    assert [type(record) for record in found] == [Run, Step, Step]
    assert found[0].framework == "slime"


@pytest.mark.parametrize(
    "text",
    [
        "Step 3 of the recipe: mix",
        "step 4 | done",
        "step 5: {}",
        "see step 2: {'role': 'user'}",
        "| Step | Reward |\n|---|---|\n| 3 | 0.5 |",
    ],
)
def test_prose_and_tables_are_no_steps(text):
    assert not [row for row in console_rows(text) if row.metrics]
    assert choose(PurePath("notes.log"), text.encode()) is None


def test_binary_files_are_no_logs():
    assert is_text(b"\x00\x00 a log after a crash")
    assert not is_text(b":W&B\x00\x01" + OPENRLHF.encode())
    assert choose(PurePath("run.wandb"), b":W&B\x00\x01" + OPENRLHF.encode()) is None


@given(
    st.lists(st.sampled_from([OPENRLHF, SLIME, PRIME, "text", "", "{'a': 1}"]), max_size=8),
    st.sets(st.integers(1, 7)),
)
def test_any_cut_of_the_lines_gives_the_same_records(parts, cuts):
    data = "".join(part + "\n" for part in parts).encode()
    assert fed(ConsoleReader(), data, cuts) == fed(ConsoleReader(), data)


@given(st.binary(max_size=300))
def test_no_bytes_are_too_wrong_to_read_on(data):
    assert isinstance(fed(ConsoleReader(), data + b"\n" + SLIME.encode())[-1], Step)


HOSTILE = ["{'", "12%|", "step 1: {'", "step 1 | a", "'a': ", "9", "step ", "\"'a", "\x1b]", "step:1 -"]


@pytest.mark.timeout(20)
@pytest.mark.parametrize("unit", HOSTILE)
@pytest.mark.parametrize("reader", [ConsoleReader(), TrlConsoleReader(RunContext()), VerlConsoleReader()])
def test_no_long_line_holds_the_reader_up(unit, reader):
    line = "{'" + unit * (200_000 // len(unit)) + "}%| step:1 - a:1 | "
    fed(reader.fresh(), line.encode())
