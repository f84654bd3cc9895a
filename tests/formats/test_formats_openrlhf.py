import math
from pathlib import PurePath

from format_reading import fed, of, packed, read
from hypothesis import given
from hypothesis import strategies as st

from grpo_top.formats.names import canonical_values, heldout_value
from grpo_top.formats.openrlhf import ConsoleReader
from grpo_top.formats.registry import choose
from grpo_top.records import Eval, Run, Step

STEP = "INFO 11-30 10:24:34 ppo_trainer.py:551] ✨ Global step 7: {'policy_loss': 0.1, 'kl': nan, 'entropy_loss': None}"
EVAL = (
    "INFO 11-30 10:30:00 ppo_trainer.py:598] ✨ Evaluation completed in 0:01:02, global_step 40, eval_metrics: "
    "{'eval_math/aime_pass4': 0.6, 'eval_math/aime_pass1': 0.4, 'eval_response_length_mean': 120.0, "
    "'eval_num_samples': 32.0}"
)


def console(text: str) -> list[object]:
    return fed(ConsoleReader(), text.encode())


def test_a_printed_dict_is_a_step():
    found = read("console.log", packed("openrlhf", "console.log"))
    steps = of(Step, found)
    assert [step.step for step in steps] == list(range(1, 41))
    values = canonical_values("openrlhf", steps[0].metrics)
    assert (values["reward_mean"], values["truncation_rate"], values["kl"]) == (0.9375, 0.4375, 0.0)
    assert values["group_reward_std_mean"] == 0.6684646073820164
    assert of(Run, found) == [Run(framework="openrlhf")]


def test_none_is_unknown_and_nan_is_not_finite():
    (step,) = of(Step, console(STEP))
    assert step.metrics["entropy_loss"] is None
    assert math.isnan(step.metrics["kl"])


def test_the_file_and_line_before_the_sparkle_do_not_matter():
    for prefix in ("(PPOTrainer pid=91) ", "\x1b[36m(PPOTrainer pid=91)\x1b[0m [2026-11-30] ", ""):
        text = prefix + STEP.partition("✨ ")[2]
        assert [step.step for step in of(Step, console(text))] == [7]


def test_an_evaluation_is_told_with_its_step_and_data_set():
    (found,) = of(Eval, console(EVAL))
    assert (found.step, found.suite) == (40, "math/aime")
    assert found.metrics == {"pass4": 0.6, "pass1": 0.4, "response_length_mean": 120.0, "num_samples": 32.0}
    assert heldout_value(found.metrics) == 0.4


def test_several_data_sets_are_several_evaluations():
    text = "Eval at step 8: {'eval_a_pass1': 0.1, 'eval_b_pass1': 0.2, 'eval_num_samples': 9.0}"
    assert [(record.suite, record.metrics) for record in of(Eval, console(text))] == [
        ("a", {"pass1": 0.1}),
        ("b", {"pass1": 0.2}),
        ("heldout", {"num_samples": 9.0}),
    ]


def test_a_sample_that_is_printed_is_no_step():
    assert console("INFO ppo_trainer.py:224] Sample: ['What is Global step 3: {x}?', 0.5]") == []


def test_another_trainers_global_step_is_left_to_the_general_reader():
    chosen = choose(PurePath("train.log"), b"Global step 3: {'my_loss': 0.1}\n")
    assert chosen is not None
    assert chosen[0].name == "console"


LINES = [STEP, EVAL, STEP[:90], "Sample: ['a', 0.5]", "global_step 3", "\r", ""]


@given(st.lists(st.sampled_from(LINES), max_size=12), st.sets(st.integers(1, 11)))
def test_any_cut_of_the_lines_gives_the_same_records(parts, cuts):
    data = "".join(part + "\n" for part in parts).encode()
    assert repr(fed(ConsoleReader(), data, cuts)) == repr(fed(ConsoleReader(), data))


@given(st.binary(max_size=300))
def test_no_bytes_are_too_wrong_to_read_on(data):
    assert isinstance(fed(ConsoleReader(), data + b"\n" + STEP.encode())[-1], Step)


def test_what_is_logged_as_none_is_no_number_of_a_tracker_either():
    found = read("train.log", b"Global step 3: {'policy_loss': 0.1, 'entropy_loss': None, 'actor_lr': 1e-06}")
    (step,) = of(Step, found)
    assert canonical_values("openrlhf", step.metrics) == {"loss": 0.1, "learning_rate": 1e-06}
