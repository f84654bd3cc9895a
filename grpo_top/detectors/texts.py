"""Stage 4, rollouts: are the texts of a group different, free of loops, and language at all?"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from grpo_top import numbers
from grpo_top.detectors.base import Details, Knob, Page, Streak, Verdict, some_rows
from grpo_top.detectors.rules import (
    FLAT_STEPS,
    Around,
    LateShare,
    SeriesDetector,
    ordered_rows,
    still_disagree,
    sustained,
)
from grpo_top.snapshot import Status
from grpo_top.streaming import Window

if TYPE_CHECKING:
    from collections.abc import Mapping

    from grpo_top.batch import Batch
    from grpo_top.facts import StepFacts

COLD = 0.5
"""A sampling temperature below this is named as what to change first."""


USUAL_SIZE = 8
"""Rollouts in a group for which the limit of short answers was measured."""


def _limit_of(limit: float, batch: Batch | None) -> float:
    """The limit for groups of this size: how many find their like where any two are alike as often as in 8.

    1 where fewer than half a rollout of the step would be left over.
    """
    if batch is None:
        return limit
    others = max(float(np.median(batch.group_size)), 2.0) - 1
    left = (1 - limit) ** (others / (USUAL_SIZE - 1))
    return float(1 - left) if left * batch.size >= 0.5 else 1.0


class LowDiversity(SeriesDetector):
    """Completions of a group repeat each other."""

    id = "LOW_DIVERSITY"
    stage = 4
    severity = Status.WARN
    series = ("duplicate_frac", "completion_tokens_p50", "identical_group_frac", "distinct_texts_mean")
    needs = ("duplicate_frac",)
    knobs = (
        Knob(
            "threshold",
            0.9,
            "share of completions that duplicate another in their group, where answers are short",
        ),
        Knob("long_threshold", 0.5, "the same where the median completion is long"),
        Knob("long_tokens", 64, "tokens from which a median completion is long"),
        Knob("sustain", 5, "consecutive steps above the limit"),
        Knob("copies", 0.99, "share that needs no second step, unless answers are known to be short"),
        Knob("copies_rollouts", 12, "rollouts that such a step must hold"),
    )
    page = Page(
        what=(
            "The completions of a group are copies of each other. Eight copies are one completion that was paid "
            "for eight times: they earn one reward, and where rewards agree there is no advantage. The "
            "effective group size is the number of different texts, not the number of rollouts."
        ),
        looks_like=(
            "Duplicates climb, different texts per group fall towards 1, and groups whose reward strips are "
            "all one height become many. The spread of rewards follows a little later."
        ),
        decides=(
            "Counts the completions of a step that equal another one of their group once white space is "
            "normalised. Fires above `long_threshold` where the median completion has `long_tokens` tokens "
            "or more, above `threshold` where it is shorter or its length is not known, for `sustain` steps "
            "that carry rollouts. Short answers repeat by nature: healthy runs of nine-token answers reach "
            "0.74 in groups of 8. In larger groups a text meets more others, and what is above the limit there by "
            "no more than that is a watch while fewer than 40% of the groups are zero-variance. "
            "Long ones never do, so one step of `copies_rollouts` or more rollouts of which `copies` "
            "are duplicates fires by itself, unless its answers are known to be short."
        ),
        try_next=(
            (
                "Check the deployed sampling config first: temperature, top_p, top_k, and a seed that "
                "requests share"
            ),
            "Raise the sampling temperature, or loosen top_p, top_k and min_p",
            (
                "If the policy itself has narrowed (entropy fell too), go back to an earlier checkpoint with "
                "a lower learning rate"
            ),
            (
                "Ask for more than the answer: a prompt that leaves one short text to say leaves nothing to "
                "compare"
            ),
        ),
        mistaken_for=(
            "Tasks with one short right answer and a policy that knows it: then rewards are high, which "
            "all-pass groups and SATURATED_REWARD show. One request that was written down several times: "
            "each text then appears equally often, which the evidence says."
        ),
        related=("SAMPLER_DRIFT", "ENTROPY_COLLAPSE", "DEGENERATE_GROUPS", "REPETITION_LOOPS"),
    )
    threshold: float
    long_threshold: float
    long_tokens: float
    sustain: float
    copies: float
    copies_rollouts: float

    def __init__(self, settings: Mapping[str, float]) -> None:
        super().__init__(settings)
        self._streak = Streak()
        self._flat = Window(FLAT_STEPS)
        self._around = Around("duplicate_frac", "distinct_texts_mean", "group_reward_std_mean", "entropy")
        self._limit = self.threshold
        self._now: dict[str, float | None] = {}
        """What the newest step with texts is judged by."""

    def judge(self, value: float, facts: StepFacts) -> Verdict:
        """Compare the duplicates with what texts of this length may have."""
        tokens = facts.get("completion_tokens_p50")
        long = tokens is not None and tokens >= self.long_tokens
        self._limit = self.long_threshold if long else self.threshold
        above = value > self._limit
        flat = facts.get("zero_variance_group_frac")
        if flat is not None:
            self._flat.add(flat, facts.step)
        if above and not self._streak.length:
            self._around.mark()
        self._streak.update(above, facts.step, facts.stands_for("duplicate_frac"))
        self._around.add(facts)
        self._now = {name: facts.get(name) for name in self.series}
        only_copies = (
            value >= self.copies
            and (long or tokens is None)
            and (facts.get("rollouts") or 0) >= self.copies_rollouts
        )
        harmless = (
            tokens is not None
            and not long
            and value <= _limit_of(self.threshold, facts.batch)
            and still_disagree(self._flat)
        )
        severity = Status.WATCH if harmless else Status.WARN
        return sustained(self._streak, 1 if only_copies else self.sustain, severity, value, self._limit)

    def describe(self, facts: StepFacts) -> Details:
        """How many copies, of texts how long, and what the sampler was told."""
        texts = self._now["distinct_texts_mean"]
        summary = (
            f"duplicates {numbers.share(self._now['duplicate_frac'])}, limit {numbers.share(self._limit)}"
        )
        evidence: dict[str, object] = {**self._now, "limit": self._limit, "since": self._streak.since}
        steps = list(self.page.try_next)
        if facts.batch is not None:
            size = int(np.median(facts.batch.group_size))
            if texts is not None:
                summary += f", {texts:.1f} different texts in a group of {size}"
            evidence["copies_of_each_text"] = copies = _equal_copies(facts.batch)
            temperature = evidence["temperature"] = _temperature(facts.batch)
            if copies is not None and copies < size:
                steps.insert(
                    0,
                    f"Each text appears exactly {copies} times: look for requests that are sent, seeded or logged "
                    f"{copies} times, for example once a tensor-parallel rank",
                )
            elif temperature is not None and temperature < COLD:
                steps.insert(0, f"Raise the sampling temperature: it is {numbers.setting(temperature)}")
        rows = self.proof(facts, _copied_rows)
        return Details(summary, {**evidence, **self._around.evidence()}, rows, tuple(steps))


class RepetitionLoops(SeriesDetector):
    """Completions end in a loop."""

    id = "REPETITION_LOOPS"
    stage = 4
    severity = Status.WARN
    series = ("repetition_frac",)
    knobs = (
        Knob("threshold", 0.1, "share of the last 20 steps' completions that end in a loop"),
        Knob("min_steps", 5, "steps before a share counts of rollouts whose number is not known"),
    )
    page = Page(
        what=(
            "Completions run into a loop. Their tail says one span of text over and over until the budget "
            "ends it. Such a rollout is truncated, earns what a truncated one earns, and teaches the policy about "
            "budgets rather than about the task."
        ),
        looks_like=(
            "The share of loops climbs together with length and truncation. In the replay, the "
            "text ends in one span over and over."
        ),
        decides=(
            "A completion loops when its tail is three or more repeats of one span, or "
            "128 digits in a row. Fires when `threshold` of the completions of the last 20 steps do, and a "
            "one-sided 90% bound of that share lies there too (99% with fewer than `min_steps` steps)."
        ),
        try_next=(
            (
                "Read three of them: a loop from the first token on means a broken model or prompt, one at "
                "the end a missing end token"
            ),
            (
                "Check the chat template and the stop tokens: a model that is never shown its end token "
                "cannot end"
            ),
            "Check the sampling config: very low temperatures loop, and so do penalties that were dropped",
            "If the reward pays for length, take that out; see LENGTH_HACKING",
            (
                "Go back to a checkpoint before the loops began, with a lower learning rate or a higher KL "
                "coefficient"
            ),
        ),
        mistaken_for=(
            "Tables, lists and code repeat too, but do not end in three equal spans. A budget that is too "
            "small cuts texts that do not loop: that is TRUNCATION alone."
        ),
        related=("TRUNCATION", "LOW_DIVERSITY", "LENGTH_HACKING", "KL_RATCHET", "GIBBERISH"),
    )
    threshold: float
    min_steps: float

    def __init__(self, settings: Mapping[str, float]) -> None:
        super().__init__(settings)
        self._late = LateShare()

    def judge(self, value: float, facts: StepFacts) -> Verdict:
        """Take a step's share of loops in."""
        self._late.add(value, facts, "repetition_frac")
        return self._late.judge(self.threshold, self.min_steps, Status.WARN)

    def describe(self, facts: StepFacts) -> Details:
        """The share, where they end, and some that loop."""
        evidence: dict[str, object] = {
            "repetition_frac": self._late.mean,
            "since": self._late.onset(self.threshold),
            "truncation_rate": facts.get("truncation_rate"),
            "completion_tokens_mean": facts.get("completion_tokens_mean"),
        }
        return Details(
            f"{numbers.share(self._late.mean)} of completions end in a loop, limit {numbers.share(self.threshold)}",
            evidence,
            self.proof(facts, lambda batch: some_rows(batch, batch.column("loop") == 1)),
        )


class Gibberish(SeriesDetector):
    """Completions are not language."""

    id = "GIBBERISH"
    stage = 4
    severity = Status.WARN
    series = ("gibberish_frac",)
    knobs = (
        Knob("threshold", 0.1, "share of the last 20 steps' completions that are not language"),
        Knob("min_steps", 5, "steps before a share counts of rollouts whose number is not known"),
    )
    page = Page(
        what=(
            "Completions are mostly noise. They consist of replacement or control characters, padding "
            "tokens, or symbols without words. Either the policy broke, or what is written down is not what "
            "the model said."
        ),
        looks_like=(
            "Rollouts whose text is unreadable in the replay. Parse failures near 100%, entropy often far "
            "from where it was."
        ),
        decides=(
            "Each completion is looked at once, for the share of its characters that no language writes. "
            "Fires when `threshold` of the completions of the last 20 steps are such, and a one-sided 90% bound "
            "of that share lies there too (99% with fewer than `min_steps` steps)."
        ),
        try_next=(
            (
                "If it is there at the first step, training did not do it: check that tokenizer, vocabulary "
                "and weights belong together, and how weights are loaded into the inference engine"
            ),
            "If it began later, look at the steps before: gradient spikes, NaN, an exploding KL",
            (
                "Decode some token ids by hand with the model's own tokenizer, to tell a broken policy from "
                "a broken log"
            ),
            "Go back to the last checkpoint whose completions read well",
        ),
        mistaken_for=(
            "Code, formulae and languages with other scripts: these are letters and symbols of a kind that "
            "the measure knows. Text that ends in the middle of a character is one odd character, not "
            "many."
        ),
        related=(
            "REPETITION_LOOPS",
            "ENTROPY_EXPLOSION",
            "KL_EXPLODING",
            "PARSE_FAILURES",
            "NONFINITE_METRIC",
        ),
    )
    threshold: float
    min_steps: float

    def __init__(self, settings: Mapping[str, float]) -> None:
        super().__init__(settings)
        self._late = LateShare()
        self._first_step: int | None = None
        self._began_with: float | None = None
        """The share at the first step that has texts."""

    def judge(self, value: float, facts: StepFacts) -> Verdict:
        """Take a step's share of gibberish in."""
        if self._first_step is None:
            self._first_step, self._began_with = facts.step, value
        self._late.add(value, facts, "gibberish_frac")
        return self._late.judge(self.threshold, self.min_steps, Status.WARN)

    def describe(self, facts: StepFacts) -> Details:
        """The share, and whether training can have done it."""
        began = self._began_with or 0.0
        at_once = began > self.threshold
        summary = f"{numbers.share(self._late.mean)} of completions are not language"
        if at_once:
            summary += (
                f"; {numbers.share(began)} already at step {self._first_step}, so training did not cause it"
            )
        return Details(
            summary,
            {
                "gibberish_frac": self._late.mean,
                "since": self._late.onset(self.threshold),
                "first_step": self._first_step,
                "gibberish_frac_at_first_step": began,
                "caused_by_training": not at_once,
            },
            self.proof(facts, lambda batch: some_rows(batch, batch.column("gibberish") == 1)),
            (self.page.try_next[0], self.page.try_next[2]) if at_once else self.page.try_next[1:],
        )


def _copied_rows(batch: Batch) -> tuple[int, ...]:
    """Rollouts that have a copy, those of the groups with the fewest texts first."""
    if batch.distinct_texts is None or batch.duplicates is None:
        return ()
    order = np.argsort(batch.distinct_texts[batch.group], kind="stable")
    return ordered_rows(batch, order[batch.duplicates[order]])


def _equal_copies(batch: Batch) -> int | None:
    """How often each text of a group appears, where that is the same number, 2 or more, for every one of them."""
    if batch.distinct_texts is None:
        return None
    _, counts = np.unique(np.stack((batch.group, batch.texts)), axis=1, return_counts=True)
    return int(counts[0]) if counts[0] >= 2 and (counts == counts[0]).all() else None


def _temperature(batch: Batch) -> float | None:
    """The temperature that most rollouts were sampled at; None unknown."""
    ids = batch.column("sampling")
    ids = ids[ids >= 0]
    if not len(ids):
        return None
    value = batch.sampling(int(np.bincount(ids).argmax())).get("temperature")
    return None if value is None or isinstance(value, str) else float(value)
