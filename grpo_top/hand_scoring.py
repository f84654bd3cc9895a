"""Hand scores judged: apart from the steps, since one that is given now may be of any of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grpo_top.detectors.hand_scores import HandScoreMismatch
from grpo_top.facts import StepFacts
from grpo_top.gradebook import Gradebook, grade_series, said_by_step
from grpo_top.grades import compared

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from grpo_top.facts import RunState
    from grpo_top.grades import Graded, HandScore
    from grpo_top.history import History
    from grpo_top.snapshot import Series
    from grpo_top.verdicts import Judge


class HandScoring:
    """The hand scores of one run, and what they say.

    Args:
        kept: scores of any runs, as the store holds them.
    """

    def __init__(self, kept: Iterable[HandScore] = ()) -> None:
        self.book = Gradebook(kept)
        self.graded: tuple[Graded, ...] = ()
        """Scores of this run's rollouts, by step."""
        self.series: Mapping[str, Series] = {}
        """What they say up to each judged step."""
        self._judged_at = -1
        """The ledger's version when they were last judged."""

    def judge(self, history: History, judge: Judge, run: RunState, version: int) -> None:
        """Judge anew, where anything has changed since; every step by the run as it is declared now."""
        self.book.find_logged(history)
        if not self.book or self._judged_at == version:
            return
        self._judged_at = version
        view, scale = history.view(), judge.state.scale
        self.graded = tuple(self.book.graded(view, run.name or ""))
        said = said_by_step(compared(self.graded, view, scale.reward_rule(run)))
        facts = [StepFacts(one.step, run, scale, one.values, disagreements=one.disagreements) for one in said]
        judge.judge_apart(HandScoreMismatch.id, facts)
        self.series = grade_series(said, judge.steps.view())
