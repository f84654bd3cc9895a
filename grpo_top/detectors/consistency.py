"""Stage 2, reward: does the same answer earn the same, wherever it is scored?"""

from __future__ import annotations

import copy
from collections import deque
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from grpo_top import numbers
from grpo_top.detectors.base import UNKNOWN, Details, Detector, Knob, Page, Streak, Verdict
from grpo_top.detectors.rules import sustained
from grpo_top.snapshot import WINDOW, Status
from grpo_top.streaming import ShareWindow, Window

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from grpo_top.facts import Batch, StepFacts

KEPT_KEYS = 50_000
KEPT_PAIRS = 25
LONGEST_ROW = 25
"""Steps that a trainer's row can average over."""
SAMPLING_SLACK = 4
"""Standard errors by which a sample's mean is allowed to be off."""
_MIX = np.int64(0x2545F4914F6CDD1D)
"""An odd number: what is multiplied by it is spread over all 64 bits, so that keys do not meet by chance."""
SAME_LENGTH = 0.005
"""Relative difference of mean lengths up to which rollouts are taken to be all of their step's."""


class Pair(NamedTuple):
    """Two rollouts that should have earned the same."""

    earlier_row: int
    row: int
    earlier_reward: float
    reward: float
    earlier_step: int
    step: int


class Earned(NamedTuple):
    """What the rollouts of one step earned."""

    step: int
    begin: int
    """Number of its first rollout, counted over the run."""
    new: list[int]
    """Keys that it was the first to have."""
    rewards: NDArray[np.float64]
    rows: NDArray[np.int64]


class EarnedBefore:
    """Compares each rollout with the first one of the same key in the last `steps` steps.

    Holds at most 50,000 keys, the newest: about 10 MB at the very worst, some hundred kB in most runs.
    """

    def __init__(self, steps: int) -> None:
        self._size = steps
        self._first: dict[int, int] = {}
        """Key → number of the first rollout that had it."""
        self._steps: deque[Earned] = deque()
        self._count = 0
        self.window = ShareWindow(steps)
        """Of the rollouts whose key was seen before, those that earned something else."""
        self.repeats = self.differing = 0
        """The same over the whole run."""
        self.pairs: deque[Pair] = deque(maxlen=KEPT_PAIRS)

    def __deepcopy__(self, memo: dict[int, object]) -> EarnedBefore:
        """Keys and what they earned never change, so a copy need only have containers of its own."""
        copied = copy.copy(self)
        copied._first, copied._steps, copied.pairs = self._first.copy(), self._steps.copy(), self.pairs.copy()
        copied.window = copy.deepcopy(self.window, memo)
        return copied

    def take(
        self,
        keys: NDArray[np.int64],
        rewards: NDArray[np.float64],
        rows: NDArray[np.int64],
        step: int,
        tolerance: float,
    ) -> None:
        """Take one step's rollouts in."""
        self._forget(step)
        listed: list[int] = keys.tolist()
        end = self._count + len(listed)
        new = dict(
            zip(reversed(listed), range(end - 1, self._count - 1, -1), strict=True)
        )  # the first one stays
        known = self._first.keys() & new.keys()
        repeats = len(listed) - len(new) + len(known)
        earned = Earned(step, self._count, [], rewards, rows)
        self._steps.append(earned)
        differing = self._compare(earned, listed, new, known, tolerance) if repeats else 0
        for key in known:
            del new[key]
        earned.new.extend(new)
        self._first |= new
        self._count = end
        self.window.add(differing, repeats, step)
        self.repeats += repeats
        self.differing += differing

    @property
    def before(self) -> tuple[int, int]:
        """(differing, repeats) of the run before the present window."""
        return self.differing - self.window.hits, self.repeats - self.window.items

    def _compare(
        self, now: Earned, keys: list[int], new: dict[int, int], known: set[int], tolerance: float
    ) -> int:
        """How many of a step's rollouts earned something else than the first one of their key."""
        firsts = np.array(list(map(new.__getitem__, keys))) - now.begin
        expected = now.rewards[firsts]
        earlier = {key: self._earned(self._first[key]) for key in known}
        if earlier:
            for place, key in enumerate(keys):
                if key in earlier:
                    step, at = earlier[key]
                    expected[place] = step.rewards[at]
        differ = np.flatnonzero(np.abs(expected - now.rewards) > tolerance).tolist()
        for place in differ[-KEPT_PAIRS:]:
            step, at = earlier.get(keys[place], (now, int(firsts[place])))
            self.pairs.append(
                Pair(
                    int(step.rows[at]),
                    int(now.rows[place]),
                    float(step.rewards[at]),
                    float(now.rewards[place]),
                    step.step,
                    now.step,
                )
            )
        return len(differ)

    def _earned(self, number: int) -> tuple[Earned, int]:
        """The step in which a rollout is, and its place there."""
        step = next(step for step in reversed(self._steps) if step.begin <= number)
        return step, number - step.begin

    def _forget(self, step: int) -> None:
        while self._steps and (step - self._steps[0].step >= self._size or len(self._first) > KEPT_KEYS):
            for key in self._steps.popleft().new:
                del self._first[key]


class RewardInconsistent(Detector):
    """One answer, several rewards."""

    id = "REWARD_INCONSISTENT"
    stage = 2
    severity = Status.FAIL
    series = ("reward_mean", "distinct_texts_mean")
    needs = ("rollouts", "distinct_texts_mean")
    knobs = (
        Knob("threshold", 5, "pairs of rollouts within 20 steps that should have earned the same"),
        Knob("tolerance", 0.01, "share of the reward range by which two rewards may differ"),
        Knob("repeats", 20, "answers that came again before raw verifier output is taken to fix the reward"),
    )
    page = Page(
        what=(
            "One answer earned different rewards. The same completion of the same task earned one reward here and "
            "another there, although the reward's version did not change; or the verifier's raw output is what it "
            "was, and another reward is made of it. The reward is then not a function of the answer, and the policy "
            "learns noise, or the fault."
        ),
        looks_like=(
            "Two equal completions in one group with different bars. Raw output beside a parsed reward that "
            "does not fit it any more, from one step on."
        ),
        decides=(
            "Compares each train rollout with the first one of the same task and completion in the last 20 "
            "steps, and with the first one of the same task and raw verifier output. Fires on `threshold` pairs "
            "whose rewards differ by more than `tolerance` of the range. Raw output is only compared where it "
            "fixed the reward before: of `repeats` or more answers that came again at most 1% differed. "
            "Rollouts with a verifier error are left to VERIFIER_ERRORS."
        ),
        try_next=(
            "Score both rollouts of an attached pair by hand: which of the two rewards is right?",
            "If all pairs lie across one step, look for what was deployed then, and give the reward a new version",
            (
                "If pairs lie inside a step, the scorer is not deterministic: fix seeds and temperature of a judge, "
                "or average several of its scores"
            ),
            "If scorers run in several processes, check that all of them run the same code",
        ),
        mistaken_for=(
            "Rewards that depend on more than the answer: weights that are annealed, bonuses for being rare in "
            "the group, penalties for time. Say so with a new reward_version, or raise `tolerance`."
        ),
        related=("RUN_RECORD_CHANGED", "VERIFIER_ERRORS", "REWARD_COLLAPSE", "NONDETERMINISTIC_REPLAY"),
    )
    threshold: float
    tolerance: float
    repeats: float

    def __init__(self, settings: Mapping[str, float]) -> None:
        super().__init__(settings)
        self._by_text = EarnedBefore(WINDOW)
        self._by_raw = EarnedBefore(WINDOW)
        self._version: str | None = None
        self._verdict = UNKNOWN

    def observe(self, facts: StepFacts) -> Verdict:
        """Compare this step's rollouts with those of the steps before."""
        if facts.run.reward_version != self._version:
            self._version = facts.run.reward_version
            self._by_text, self._by_raw = EarnedBefore(WINDOW), EarnedBefore(WINDOW)
            self._verdict = UNKNOWN
        if facts.batch is not None and (facts.batch.texts != 0).any():
            self._take(facts.batch, facts)
            worst = self._worst()
            pairs = worst.window.hits
            status = Status.FAIL if pairs >= self.threshold else Status.WATCH if pairs else Status.OK
            self._verdict = Verdict(status, float(pairs), self.threshold, worst.window.first_hit)
        return self._verdict

    def describe(self, facts: StepFacts) -> Details:  # noqa: ARG002
        """How many pairs there are, what the newest earned, and both rollouts of each."""
        worst = self._worst()
        pairs = list(worst.pairs)[::-1]
        newest = pairs[0]
        what = "the same completion" if worst is self._by_text else "the same raw verifier output"
        across = sum(pair.step != pair.earlier_step for pair in pairs)
        return Details(
            summary=(
                f"{what} earned {numbers.value(newest.earlier_reward)} at step {newest.earlier_step} and "
                f"{numbers.value(newest.reward)} at step {newest.step}; {worst.window.hits} such pairs in 20 steps"
            ),
            evidence={
                "since": worst.window.first_hit,
                "pairs_with_same_completion": self._by_text.window.hits,
                "completions_that_came_again": self._by_text.window.items,
                "pairs_with_same_raw_output": self._by_raw.window.hits,
                "raw_outputs_that_came_again": self._by_raw.window.items,
                "newest_pairs_across_steps": across,
                "newest_pairs_within_a_step": len(pairs) - across,
            },
            rows=tuple(row for pair in pairs for row in (pair.row, pair.earlier_row)),
        )

    def _take(self, batch: Batch, facts: StepFacts) -> None:
        limits = facts.scale.range(facts.run)
        tolerance = max(self.tolerance * (limits[1] - limits[0]) if limits else 0.0, 1e-9)
        task = batch.column("task").astype(np.int64)
        usable = batch.known & (task >= 0) & (batch.column("verifier_error") < 0)
        context = task * _MIX + batch.column("reward_version")
        for memory, answers in ((self._by_text, batch.texts), (self._by_raw, batch.column("verifier_raw"))):
            chosen = usable & (answers != 0)
            keys = answers[chosen] ^ context[chosen] * _MIX
            memory.take(keys, batch.reward[chosen], batch.rows[chosen], facts.step, tolerance)

    def _worst(self) -> EarnedBefore:
        """The comparison that found more, raw output only where it fixed the reward before."""
        differing, repeats = self._by_raw.before
        raw_fixes = repeats >= self.repeats and differing <= 0.01 * repeats
        if raw_fixes and self._by_raw.window.hits > self._by_text.window.hits:
            return self._by_raw
        return self._by_text


class Expected(NamedTuple):
    """The mean reward that a trainer's row should show."""

    reward: float
    slack: float
    """By how much it may be off because the rollouts may be a sample of the step's."""


class RowMeans:
    """Rewards and lengths of the rollouts of the steps that a trainer's next row averages over."""

    def __init__(self) -> None:
        self._reward, self._tokens = Window(LONGEST_ROW), Window(LONGEST_ROW)
        self._standard_error = 0.0
        self._last_row: int | None = None

    def add(self, facts: StepFacts) -> None:
        """Take one step's rollouts in."""
        self._reward.add(facts.values["reward_mean"], facts.step)
        tokens = facts.get("completion_tokens_mean")
        if tokens is not None:
            self._tokens.add(tokens, facts.step)
        rollouts = facts.get("rollouts")
        if rollouts:
            self._standard_error = (facts.get("reward_std") or 0.0) / rollouts**0.5

    def of_row(self, facts: StepFacts) -> Expected | None:
        """What the trainer's row of this step should show, None where not all its rollouts are there."""
        steps = 1 if self._last_row is None else facts.step - self._last_row
        expected = self._expected(steps, facts.trainer.get("completion_tokens_mean"))
        self._last_row = facts.step
        self._reward.clear()
        self._tokens.clear()
        return expected

    def _expected(self, steps: int, logged_tokens: float | None) -> Expected | None:
        rewards, tokens = self._reward, self._tokens
        if len(rewards) != steps:
            return None
        if logged_tokens is None or len(tokens) != steps:
            return Expected(rewards.mean, SAMPLING_SLACK * self._standard_error / steps**0.5)
        whole = abs(tokens.mean - logged_tokens) <= SAME_LENGTH * max(tokens.mean, 1.0)
        return Expected(rewards.mean, 0.0) if whole else None


class LoggedRewardMismatch(Detector):
    """The trainer's mean reward is not that of its rollouts."""

    id = "LOGGED_REWARD_MISMATCH"
    stage = 2
    severity = Status.WARN
    series = ("reward_mean",)
    needs = ("rollouts", "reward_mean")
    knobs = (
        Knob("threshold", 0.01, "share of the reward range by which both differ"),
        Knob("sustain", 3, "comparisons running on which they do, in one direction"),
    )
    page = Page(
        what=(
            "The trainer's mean reward is not that of its rollouts. One of the two is not what you think: the "
            "trainer weights, shapes, clips or penalises rewards after they were logged, it counts other rollouts, "
            "or the rollouts' reward is not the one that it trains on."
        ),
        looks_like="Two reward curves of one run that run beside each other.",
        decides=(
            "Fires when they differ by `threshold` of the reward range on `sustain` comparisons running, always "
            "in the same direction. Compared only where the log holds the step's rollouts whole: their mean "
            "length is the trainer's too, or, where it logs none, the difference is more than a sample of that "
            "size can be off. A trainer that logs every n steps is compared with the mean over those n."
        ),
        try_next=(
            "Look up what the trainer logs as reward: before or after weights, KL penalty, length penalty, clipping",
            "Recompute one step by hand from the attached rollouts",
            "If components have weights, check that they are the ones that you set",
            "Trust the rollouts' number for judging the task, the trainer's for judging what it optimizes",
        ),
        mistaken_for="A log that holds a sample of the rollouts, or those of one process of several.",
        related=("REWARD_INCONSISTENT", "HAND_SCORE_MISMATCH", "UNIFORM_COMPONENT"),
    )
    threshold: float
    sustain: float

    def __init__(self, settings: Mapping[str, float]) -> None:
        super().__init__(settings)
        self._own = RowMeans()
        self._streak = Streak()
        self._logged = self._expected = 0.0
        self._verdict = UNKNOWN

    def observe(self, facts: StepFacts) -> Verdict:
        """Compare, where the trainer logged a reward for steps whose rollouts are all there."""
        if facts.batch is not None and facts.get("reward_mean") is not None:
            self._own.add(facts)
        logged = facts.trainer.get("reward_mean")
        if logged is not None:
            limits, expected = facts.scale.range(facts.run), self._own.of_row(facts)
            if expected is not None and limits is not None and limits[1] > limits[0]:
                self._verdict = self._compare(logged, expected, limits[1] - limits[0], facts.step)
        return self._verdict

    def _compare(self, logged: float, expected: Expected, scale: float, step: int) -> Verdict:
        difference = logged - expected.reward
        if (difference > 0) != (self._logged > self._expected):
            self._streak.update(False, step)
        share = max(abs(difference) - expected.slack, 0.0) / scale
        self._streak.update(share >= self.threshold, step)
        self._logged, self._expected = logged, expected.reward
        return sustained(self._streak, self.sustain, Status.WARN, share, self.threshold)

    def describe(self, facts: StepFacts) -> Details:
        """Both numbers, their difference and their ratio."""
        logged, own = self._logged, self._expected
        return Details(
            summary=(
                f"the trainer logs reward {numbers.value(logged)}, its rollouts average {numbers.value(own)}, "
                f"{self._streak.length} comparisons running"
            ),
            evidence={
                "since": self._streak.since,
                "trainer": logged,
                "rollouts": own,
                "difference": logged - own,
                "ratio": logged / own if own else None,
            },
            rows=() if facts.batch is None else tuple(facts.batch.rows[:20].tolist()),
        )


class HandScoreMismatch(Detector):
    """People who scored rollouts by hand do not agree with the pipeline."""

    id = "HAND_SCORE_MISMATCH"
    stage = 2
    severity = Status.FAIL
    series = ("hand_scores", "hand_score_agreement")
    needs = ("grades",)
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
            "agree with the pipeline's. 20 hand scores are a good check; without any this cannot be judged."
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

    def observe(self, facts: StepFacts) -> Verdict:
        """Compare the share of agreement, once there are enough hand scores."""
        count, agreement = facts.get("hand_scores"), facts.get("hand_score_agreement")
        if count is None or agreement is None or count < self.scores:
            return UNKNOWN
        fires = agreement < self.threshold
        return Verdict(Status.FAIL if fires else Status.OK, agreement, self.threshold)

    def describe(self, facts: StepFacts) -> Details:
        """How many hand scores there are, and how many agree."""
        count, agreement = facts.get("hand_scores") or 0.0, facts.get("hand_score_agreement")
        return Details(
            summary=f"{numbers.share(agreement)} of {numbers.count(count)} hand scores agree with the pipeline's",
            evidence={"hand_scores": count, "agreement": agreement},
        )
