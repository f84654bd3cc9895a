"""Stage 2, reward: does a person who reads rollouts come to the pipeline's scores?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from grpo_top import numbers
from grpo_top.detectors.base import UNKNOWN, Details, Detector, Knob, Page, Verdict
from grpo_top.snapshot import Status

if TYPE_CHECKING:
    from collections.abc import Mapping

    from grpo_top.facts import StepFacts


class HandScoreMismatch(Detector):
    """People who scored rollouts by hand do not agree with the pipeline."""

    id = "HAND_SCORE_MISMATCH"
    stage = 2
    severity = Status.FAIL
    series = ("hand_scores", "hand_score_agreement")
    needs = ("hand_scores",)
    in_logs = False
    knobs = (
        Knob("threshold", 0.9, "share of hand scores that agree with the pipeline's"),
        Knob("scores", 10, "hand scores, at least"),
    )
    page = Page(
        what=(
            "Hand scores do not agree with the pipeline's. Rollouts that you scored without seeing the pipeline's "
            "score earned something else: the reward that is optimized is not the one you mean, and everything "
            "below this stage is a consequence."
        ),
        looks_like="Right answers with reward 0, wrong ones that are paid: seen only by reading rollouts.",
        decides=(
            "Fires when at least `scores` rollouts were scored by hand and fewer than `threshold` of the scores "
            "agree with the pipeline's: right with what counts as success, wrong with what does not, any other number "
            "with what lies within a tenth of the range of rewards. At each step the rollouts up to it count. 20 hand "
            "scores are a good check (`g` in the replay draws them); without any this cannot be judged."
        ),
        try_next=(
            "Sort the disagreements by kind: style of answer, units, rounding, partial credit, language",
            "Repair extraction first: most disagreements are right answers that were not found",
            "Score the same 20 rollouts again with the repaired scorer, and start the run anew",
        ),
        mistaken_for="Tasks whose answer is a matter of taste: let two people score and compare them first.",
        related=("REWARD_INCONSISTENT", "REWARD_STREAK", "PARSE_FAILURES"),
    )
    threshold: float
    scores: float
    clear = 1  # a score that is given counts at once

    def __init__(self, settings: Mapping[str, float]) -> None:
        super().__init__(settings)
        self._since: int | None = None
        """The first step with a disagreement."""

    def observe(self, facts: StepFacts) -> Verdict:
        """Compare the share of agreement, once there are enough hand scores."""
        count, agreement = facts.get("hand_scores"), facts.get("hand_score_agreement")
        if count is None or agreement is None:
            return UNKNOWN
        if agreement < 1 and self._since is None:
            self._since = facts.step
        if count < self.scores:
            return UNKNOWN
        fires = agreement < self.threshold
        return Verdict(Status.FAIL if fires else Status.OK, agreement, self.threshold, self._since)

    def describe(self, facts: StepFacts) -> Details:
        """How many hand scores there are, and how many agree."""
        count, agreement = facts.get("hand_scores") or 0.0, facts.get("hand_score_agreement")
        return Details(
            summary=f"{numbers.share(agreement)} of {numbers.count(count)} hand scores agree with the pipeline's",
            evidence={"hand_scores": count, "agreement": agreement, "disagree": len(facts.disagreements)},
            rows=facts.disagreements,
        )
