"""What a run says of itself: from which step on it holds, and what of it is a change."""

from __future__ import annotations

from grpo_top.declared import RunStates
from grpo_top.facts import RunChange
from grpo_top.records import Run


def test_what_was_unknown_and_is_said_now_holds_for_the_whole_run() -> None:
    states = RunStates({})
    assert states.take(Run(group_size=8), newest=40) == ((), 0)
    assert states.at(1).group_size == 8


def test_what_was_said_otherwise_before_holds_from_the_next_step_on() -> None:
    states = RunStates({})
    states.take(Run(reward_version="r1"), newest=None)
    changes, since = states.take(Run(reward_version="r2"), newest=50)
    assert changes == (RunChange("reward_version", "r1", "r2"),)
    assert since == 51
    assert [states.at(step).reward_version for step in (1, 50, 51, 90)] == ["r1", "r1", "r2", "r2"]
    assert states.latest.reward_version == "r2"


def test_what_is_said_again_is_nothing_new() -> None:
    states = RunStates({})
    states.take(Run(group_size=8, sampling={"temperature": 1.0}), newest=None)
    assert states.take(Run(group_size=8, sampling={"temperature": 1.0}), newest=9) == ((), None)


def test_a_sampling_config_that_says_more_is_no_change_and_holds_for_the_whole_run() -> None:
    states = RunStates({})
    states.take(Run(sampling={"temperature": 1.0}), newest=None)
    assert states.take(Run(sampling={"max_tokens": 64}), newest=9) == ((), 0)
    assert states.at(1).sampling == {"temperature": 1.0, "max_tokens": 64}


def test_what_the_user_declares_stands_above_the_log_and_makes_no_change() -> None:
    states = RunStates({"group_size": 4})
    assert states.take(Run(group_size=8), newest=None) == ((), None)
    assert states.at(1).group_size == 4
    changes, since = states.take(Run(group_size=16), newest=7)
    assert changes == (RunChange("group_size", "8", "16"),)
    assert since is None


def test_what_no_verdict_rests_on_is_taken_without_judging_again() -> None:
    states = RunStates({})
    assert states.take(Run(run="x", framework="trl", total_steps=9, config={"lr": 1}), newest=3) == ((), None)
    assert (states.latest.name, states.latest.total_steps, states.latest.config) == ("x", 9, {"lr": 1})
