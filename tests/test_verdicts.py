"""Findings: how they begin, clear and return, and that going back gives what going forward gave."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from hypothesis import given
from hypothesis import strategies as st

from grpo_top.detectors.base import Details, Detector, Knob, Page, Streak, Verdict
from grpo_top.facts import RewardScale, RunState, StepFacts
from grpo_top.snapshot import RolloutRef, Status
from grpo_top.verdicts import Judge

if TYPE_CHECKING:
    from grpo_top.snapshot import Finding


class AboveOne(Detector):
    """Fires when `x` has been above 1 on two steps running."""

    id = "ABOVE_ONE"
    stage = 3
    severity = Status.WARN
    series = ("x",)
    knobs: ClassVar[tuple[Knob, ...]] = (Knob("threshold", 1.0, "limit"), Knob("sustain", 2, "steps"))
    page = Page("x is high", "", "", ("lower it",), "", ())
    threshold: float
    sustain: float

    def __init__(self, settings: dict[str, float]) -> None:
        super().__init__(settings)
        self.streak = Streak()

    def observe(self, facts: StepFacts) -> Verdict:
        value = facts.get("x")
        if value is None:
            return Verdict(Status.UNKNOWN)
        length = self.streak.update(value > self.threshold, facts.step)
        status = Status.WARN if length >= self.sustain else Status.WATCH if length else Status.OK
        return Verdict(status, value, self.threshold, self.streak.since)

    def describe(self, facts: StepFacts) -> Details:
        return Details(f"x {facts.values['x']:g} at step {facts.step}")


def facts(step: int, x: float | None) -> StepFacts:
    return StepFacts(step, RunState(), RewardScale(), {} if x is None else {"x": x})


def judge(values: list[float | None], knobs: dict[str, float] | None = None) -> Judge:
    found = Judge([AboveOne], {"ABOVE_ONE": knobs or {}})
    for step, value in enumerate(values, 1):
        found.observe(facts(step, value))
    return found


def findings(found: Judge) -> list[Finding]:
    return found.findings(lambda row: RolloutRef("", 0, "", None, row))


def test_a_finding_begins_where_its_rule_is_met_and_says_where_the_streak_began() -> None:
    (finding,) = findings(judge([0, 2, 2, 2]))
    assert (finding.first_step, finding.onset, finding.last_step) == (3, 2, 4)
    assert finding.active


def test_a_finding_clears_after_five_steps_on_the_good_side_and_keeps_its_last_step() -> None:
    (finding,) = findings(judge([2, 2, 2, 0, 0, 0, 0]))
    assert finding.active
    (finding,) = findings(judge([2, 2, 2, 0, 0, 0, 0, 0]))
    assert not finding.active
    assert finding.episodes == ((2, 3),)


def test_a_finding_that_returns_is_the_same_one_with_a_new_episode() -> None:
    (finding,) = findings(judge([2, 2, 0, 0, 0, 0, 0, 2, 2]))
    assert finding.episodes == ((2, 2), (9, 9))


def test_a_limit_crossed_for_a_step_does_not_let_a_finding_flicker() -> None:
    (finding,) = findings(judge([2, 2, 0, 0, 0, 2, 0, 0, 0, 0, 2, 0]))
    assert finding.active
    assert len(finding.episodes) == 1


def test_a_series_that_stops_does_not_clear_a_finding() -> None:
    (finding,) = findings(judge([2, 2, *[None] * 20]))
    assert finding.active


def test_clear_is_a_knob_of_every_detector() -> None:
    (finding,) = findings(judge([2, 2, 0], {"clear": 1}))
    assert not finding.active


def test_every_verdict_is_kept_for_looking_back() -> None:
    track = judge([0, 2, 2, 0]).tracks()["ABOVE_ONE"]
    assert track.status.tolist() == [Status.OK, Status.WATCH, Status.WARN, Status.WARN]
    assert track.values.tolist() == [0, 2, 2, 0]
    assert track.threshold == 1.0


def test_a_detector_whose_series_was_never_seen_says_what_it_needs() -> None:
    found = judge([None, None])
    assert found.tracks()["ABOVE_ONE"].needs == ("x",)


@given(
    st.lists(st.one_of(st.none(), st.sampled_from([0.0, 2.0])), min_size=1, max_size=150),
    st.lists(st.integers(1, 150), max_size=4),
)
def test_going_back_and_judging_again_gives_what_going_forward_gave(
    values: list[float | None], back: list[int]
) -> None:
    straight = judge(values)
    found = judge(values)
    for step in back:
        found.rewind(step)
        reached = found.state.step or 0
        assert reached < step
        for again in range(reached + 1, len(values) + 1):
            found.observe(facts(again, values[again - 1]))
    assert findings(found) == findings(straight)
    assert found.tracks()["ABOVE_ONE"].status.tolist() == straight.tracks()["ABOVE_ONE"].status.tolist()
