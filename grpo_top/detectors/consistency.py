"""Stage 2, reward: does the same answer earn the same, wherever it is scored?"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from grpo_top import numbers
from grpo_top.detectors.base import UNKNOWN, Details, Detector, Knob, Page, Streak, Verdict
from grpo_top.detectors.rules import sustained
from grpo_top.detectors.scale import RewardScaleShift
from grpo_top.detectors.tasks import RecentRows, count_different, first_of_equal
from grpo_top.snapshot import WINDOW, Status
from grpo_top.streaming import ShareWindow, Window

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from grpo_top.batch import Batch
    from grpo_top.facts import StepFacts

KEPT_ROLLOUTS = 100_000
KEPT_PAIRS = 25
LONGEST_ROW = 25
"""Steps that a trainer's row can average over."""
SAMPLING_SLACK = 4
"""Standard errors by which a sample's mean is allowed to be off."""
_MIX = np.int64(0x2545F4914F6CDD1D)
"""An odd number: what is multiplied by it is spread over all 64 bits, so that keys do not meet by chance."""
SLOW = 0.25
"""Share of the tolerance that is allowed for each step between two rewards: weights may be annealed."""
SAME_LENGTH, SAME_ERROR = 0.005, 0.1
"""Relative difference of mean lengths up to which rollouts are taken to be all of their step's, if it is no more than
this share of the standard error by which a sample's mean length would be off."""


class Pair(NamedTuple):
    """Two rollouts that should have earned the same."""

    earlier_row: int
    row: int
    earlier_reward: float
    reward: float
    earlier_step: int
    step: int


class Compared:
    """Rollouts whose answer came before, and those of them that earned something else than the first one."""

    def __init__(self) -> None:
        self.window = ShareWindow(WINDOW)
        """Over the newest steps."""
        self.repeats = self.differing = 0
        """The same over the whole run."""
        self.pairs: deque[Pair] = deque(maxlen=KEPT_PAIRS)

    def add(
        self,
        batch: Batch,
        answer: str,
        earlier: NDArray[np.int64],
        rows: NDArray[np.int64],
        step: int,
        tolerance: float,
    ) -> None:
        """Take the rows of one step in, beside those of earlier ones; `answer` is the column of their answers."""
        if not len(rows):
            self.window.add(0, 0, step)
            return
        both, before = np.concatenate((earlier, rows)) if len(earlier) else rows, len(earlier)
        answers = batch.at(answer, both)
        if np.count_nonzero(answers) < len(answers):  # what is 0 is no answer
            before = int(np.count_nonzero(answers[:before]))
            both, answers = both[answers != 0], answers[answers != 0]
        keys = answers ^ (batch.at("task", both) * _MIX + batch.at("reward_version", both)) * _MIX
        different = count_different(keys)
        repeats = len(keys) - before - (different - count_different(keys[:before]))
        found = self._differing(batch, both, keys, different, before, tolerance) if repeats else 0
        self.window.add(found, repeats, step)
        self.repeats += repeats
        self.differing += found

    @property
    def before(self) -> tuple[int, int]:
        """(differing, repeats) of the run before the present window."""
        return self.differing - self.window.hits, self.repeats - self.window.items

    def _differing(
        self,
        batch: Batch,
        rows: NDArray[np.int64],
        keys: NDArray[np.int64],
        different: int,
        before: int,
        tolerance: float,
    ) -> int:
        """How many rollouts, those `before` left out, earned something else than the first one of their key."""
        rewards = batch.at("reward", rows)
        if count_different(keys ^ rewards.view(np.int64) * _MIX) == different:
            return 0  # as in most steps: what is equal earned the same, to the last bit
        firsts = first_of_equal(keys)
        steps = batch.at("step", rows)
        allowed = tolerance * (1 + SLOW * (steps - steps[firsts]))
        differ = np.flatnonzero(np.abs(rewards[firsts] - rewards) > allowed)
        differ = differ[differ >= before]
        newest = differ[-KEPT_PAIRS:]
        both = rows[firsts[newest]], rows[newest]
        told = (batch.at(name, of).tolist() for name in ("reward", "step") for of in both)
        self.pairs.extend(map(Pair._make, zip(*(of.tolist() for of in both), *told, strict=True)))
        return len(differ)


class RewardInconsistent(Detector):
    """One answer, several rewards."""

    id = "REWARD_INCONSISTENT"
    stage = 2
    severity = Status.FAIL
    series = ("reward_mean", "distinct_texts_mean")
    needs = ("rollouts", "distinct_texts_mean")
    knobs = (
        Knob("threshold", 5, "pairs of rollouts within 20 steps that should have earned the same"),
        Knob("tolerance", 0.01, "share of the reward range by which two rewards of one step may differ"),
        Knob("repeats", 66, "answers that came again before raw verifier output is taken to fix the reward"),
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
            "whose rewards differ by more than `tolerance` of the range, and a quarter of that more for each step "
            "between them, so that weights that are annealed slowly pass. Raw output is only compared where it "
            "fixed the reward before: of `repeats` or more answers that came again at most 1% differed. "
            "Rollouts with a verifier error are left to VERIFIER_ERRORS.\n\n"
            "Fires too when rewards leave their scale under one reward_version: 5 rewards, and 2% of those of 20 "
            "steps, outside a declared range in which all lay on the first 10 steps; or half of the rewards of 3 "
            "steps running beyond everything that 20 steps and 256 rollouts had shown, by a quarter of that range."
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
            "Rewards that depend on more than the answer: bonuses for being rare in "
            "the group, penalties for time. Say so with a new reward_version, or raise `tolerance`."
        ),
        related=("RUN_RECORD_CHANGED", "VERIFIER_ERRORS", "REWARD_COLLAPSE", "NONDETERMINISTIC_REPLAY"),
    )
    threshold: float
    tolerance: float
    repeats: float

    def __init__(self, settings: Mapping[str, float]) -> None:
        super().__init__(settings)
        self._begin()
        self._version: str | None = None

    def _begin(self) -> None:
        self._recent = RecentRows(WINDOW, KEPT_ROLLOUTS)
        self._by_text, self._by_raw = Compared(), Compared()
        self._scale = RewardScaleShift()
        self._by_scale = False
        """Whether the newest verdict is that of the scale."""
        self._verdict = UNKNOWN

    def observe(self, facts: StepFacts) -> Verdict:
        """Compare this step's rollouts with those of the steps before."""
        if facts.run.reward_version != self._version:
            self._version = facts.run.reward_version
            self._begin()
        if facts.batch is not None and np.count_nonzero(facts.batch.texts):
            self._take(facts.batch, facts)
            worst = self._worst()
            pairs = worst.window.hits
            status = Status.FAIL if pairs >= self.threshold else Status.WATCH if pairs else Status.OK
            self._verdict = Verdict(status, float(pairs), self.threshold, worst.window.first_hit)
        scale = self._scale.judge(facts)
        self._by_scale = scale.status > max(self._verdict.status, Status.OK)
        return scale if self._by_scale else self._verdict

    def describe(self, facts: StepFacts) -> Details:
        """How many pairs there are, what the newest earned, and both rollouts of each; else how the scale moved."""
        if self._by_scale:
            return self._scale.describe(facts)
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
        rows = _comparable(batch)
        tasks = batch.column("task") if rows is batch.rows else batch.at("task", rows)
        earlier, again = self._recent.take(tasks, rows, facts.step)
        # Texts that differ within the step are to be found again only where their task is.
        texts = again if batch.texts_differ else rows
        self._by_text.add(batch, "text", earlier, texts, facts.step, tolerance)
        self._by_raw.add(batch, "verifier_raw", earlier, rows, facts.step, tolerance)

    def _worst(self) -> Compared:
        """The comparison that found more, raw output only where it fixed the reward before."""
        differing, repeats = self._by_raw.before
        raw_fixes = repeats >= self.repeats and differing <= 0.01 * repeats
        if raw_fixes and self._by_raw.window.hits > self._by_text.window.hits:
            return self._by_raw
        return self._by_text


def _comparable(batch: Batch) -> NDArray[np.int64]:
    """The rows of which reward and task are known, and the verifier did not fail."""
    failed, unknown = batch.extent("verifier_error")[1] >= 0, batch.extent("task")[0] < 0
    if batch.all_known and not failed and not unknown:
        return batch.rows
    usable = batch.known & (batch.column("task") >= 0) & (batch.column("verifier_error") < 0)
    rows: NDArray[np.int64] = batch.rows[usable]
    return rows


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
        self._lengths: NDArray[np.int64] | None = None
        """Of the last step that had rollouts."""
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
        if facts.batch is not None:
            self._lengths = facts.batch.column("completion_tokens").copy()

    def of_row(self, facts: StepFacts) -> Expected | None:
        """What the trainer's row of this step should show, None where not all its rollouts are there."""
        steps = 1 if self._last_row is None else facts.step - self._last_row
        expected = self._expected(steps, facts.trainer.get("completion_tokens_mean"))
        self._last_row = facts.step
        self._reward.clear()
        self._tokens.clear()
        self._lengths = None
        return expected

    def _expected(self, steps: int, logged_tokens: float | None) -> Expected | None:
        rewards, tokens = self._reward, self._tokens
        if len(rewards) != steps:
            return None
        if logged_tokens is None or len(tokens) != steps:
            return Expected(rewards.mean, SAMPLING_SLACK * self._standard_error / steps**0.5)
        off, lengths = abs(tokens.mean - logged_tokens), self._lengths
        if lengths is None or off > SAME_LENGTH * max(tokens.mean, 1.0):
            return None
        chance = SAME_ERROR * (float(lengths.std()) / len(lengths) ** 0.5) / steps**0.5
        return Expected(rewards.mean, 0.0) if off <= chance else None


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
            "length is the trainer's too, nearer than a sample of them comes by chance, or, where it logs none, "
            "the difference is more than a sample of that size can be off. A trainer that logs every n steps "
            "is compared with the mean over those n."
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
            if expected is None:
                self._streak.update(False, facts.step)
                self._verdict = UNKNOWN
            elif limits is not None and limits[1] > limits[0]:
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
