"""Stage 7, staleness: do sampler and trainer give the same tokens the same probability?"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from grpo_top import numbers
from grpo_top.detectors.base import UNKNOWN, Details, Detector, Knob, Page, Streak, Verdict
from grpo_top.detectors.rules import ordered_rows
from grpo_top.snapshot import Status

if TYPE_CHECKING:
    from collections.abc import Mapping

    from grpo_top.facts import StepFacts

MEASURES = ("mismatch_kl", "logp_abs_diff", "is_ratio_mean", "effective_sample_size")
LENGTHS = "logp_length_mismatch_frac"


class Reading(NamedTuple):
    """One measure of the mismatch at a step, against its limit."""

    value: float
    limit: float
    times: float
    """How many times over its limit it is; 1 or less is fine."""


class LogprobMismatch(Detector):
    """The inference engine and the trainer disagree about the same tokens."""

    id = "LOGPROB_MISMATCH"
    stage = 7
    severity = Status.FAIL
    series = (*MEASURES, LENGTHS)
    needs = ("logp_abs_diff",)
    sees = frozenset({*MEASURES, LENGTHS})
    knobs = (
        Knob("kl", 0.01, "KL between sampler and trainer, in nats a token"),
        Knob("difference", 0.05, "mean absolute difference of log-probabilities, in nats a token"),
        Knob("low_ratio", 0.8, "mean importance ratio under which it is off"),
        Knob("high_ratio", 1.25, "mean importance ratio above which it is off"),
        Knob("sample_size", 0.3, "effective sample size, as a share of the rollouts"),
        Knob("fail", 10, "times a limit from which it is a failure"),
        Knob("sustain", 3, "consecutive steps"),
    )
    page = Page(
        what=(
            "Sampler and trainer give the same tokens different log-probabilities. They ought to hold the "
            "same weights. A little of it is rounding. More of it means that the update corrects for a "
            "policy that did not sample: wrong weights, another precision, another temperature, another "
            "tokenisation."
        ),
        looks_like=(
            "A mean difference well above 0.01 nats a token, an importance ratio away from 1, clipping that "
            "is high from the first step."
        ),
        decides=(
            "Fires when, on `sustain` steps running, the mismatch KL is above `kl`, or the mean absolute "
            "difference above `difference`, or the mean importance ratio outside `low_ratio` to "
            "`high_ratio`, or the effective sample size below `sample_size`. It fails from `fail` times a "
            "limit on. Arrays of log-probabilities whose lengths differ are a failure at once: then tokens "
            "are compared with their neighbours."
        ),
        try_next=(
            (
                "Compare at one policy version: if fresh rollouts agree and old ones do not, it is staleness, "
                "see STALE_ROLLOUTS"
            ),
            (
                "Check that both sides take the log-probability at the same temperature, and before or after "
                "the same filters"
            ),
            (
                "Use one precision for the last layers on both sides, and the same kernels for what is "
                "sampled and scored"
            ),
            "Check tokens, not text: re-tokenising a completion may give other tokens",
            (
                "Use the importance correction that your framework documents, and read its notes after every "
                "upgrade of either side"
            ),
        ),
        mistaken_for=(
            "A ratio over whole sequences: it is the product over all tokens, so a difference of 0.01 nats a "
            "token makes a factor of e over a hundred tokens. Then the ratio is off while the difference a "
            "token is small, and weights are in sync."
        ),
        related=(
            "STALE_ROLLOUTS",
            "WEIGHT_SYNC_STUCK",
            "CLIP_SATURATION",
            "SAMPLER_DRIFT",
            "ENTROPY_EXPLOSION",
        ),
    )
    kl: float
    difference: float
    low_ratio: float
    high_ratio: float
    sample_size: float
    fail: float
    sustain: float

    def __init__(self, settings: Mapping[str, float]) -> None:
        super().__init__(settings)
        self._off = {name: Streak() for name in MEASURES}
        self._far_off = {name: Streak() for name in MEASURES}
        self._now: dict[str, Reading] = {}
        self._lengths: float | None = None
        self._lengths_since: int | None = None
        self._verdict = UNKNOWN
        self._rows: tuple[int, ...] = ()

    def observe(self, facts: StepFacts) -> Verdict:
        """Compare each measure that the step carries with its limit."""
        seen = False
        for name in MEASURES:
            value = facts.get(name)
            if value is None:
                continue
            seen = True
            reading = self._now[name] = self._read(name, value)
            steps = facts.stands_for(name)
            self._off[name].update(reading.times > 1, facts.step, steps)
            self._far_off[name].update(reading.times >= self.fail, facts.step, steps)
        lengths = facts.get(LENGTHS)
        if lengths is not None or (seen and facts.batch is not None):
            self._lengths = lengths
            self._lengths_since = None if lengths is None else (self._lengths_since or facts.step)
            seen = True
        if seen:
            self._verdict = self._judge()
        return self._verdict

    def describe(self, facts: StepFacts) -> Details:
        """What is off, by how much, and what the number means over a whole completion."""
        off = [name for name in MEASURES if self._off[name].length >= self.sustain]
        parts = []
        if self._lengths is not None:
            parts.append(
                f"{numbers.share(self._lengths)} of rollouts have log-probability arrays of different lengths"
            )
        parts += [_words(name, self._now[name]) for name in off]
        tokens = facts.get("completion_tokens_mean")
        by_length = self._by_length(off, tokens)
        if by_length is not None:
            parts.append(by_length)
        rows = self._rows
        if facts.batch is not None:
            difference = np.nan_to_num(facts.batch.column("logp_diff"), nan=-1.0, posinf=np.inf)
            if (difference >= 0).any():
                rows = self._rows = ordered_rows(facts.batch, np.argsort(-difference, kind="stable"))
        since = [streak.since for streak in self._off.values() if streak.since is not None]
        return Details(
            "; ".join(parts) or "sampler and trainer disagree",
            {
                **{name: reading.value for name, reading in self._now.items()},
                "length_mismatch_frac": self._lengths,
                "off": off,
                "since": min(since, default=self._lengths_since),
                "completion_tokens_mean": tokens,
                "effect_of_length": by_length is not None,
            },
            rows,
            self.page.try_next[1:] if by_length is not None else None,
        )

    def _judge(self) -> Verdict:
        if self._lengths is not None:
            return Verdict(Status.FAIL, self._lengths, 0.0, self._lengths_since)
        for severity, streaks in ((Status.FAIL, self._far_off), (Status.WARN, self._off)):
            held = [name for name in MEASURES if streaks[name].length >= self.sustain]
            if held:
                worst = max(held, key=lambda name: self._now[name].times)
                onset = min(since for name in held if (since := streaks[name].since) is not None)
                return Verdict(severity, self._now[worst].value, self._now[worst].limit, onset)
        if not self._now:
            return UNKNOWN
        worst = max(self._now, key=lambda name: self._now[name].times)
        reading = self._now[worst]
        status = Status.WATCH if any(streak.length for streak in self._off.values()) else Status.OK
        return Verdict(status, reading.value, reading.limit, self._off[worst].since)

    def _read(self, name: str, value: float) -> Reading:
        if name == "mismatch_kl":
            return Reading(value, self.kl, abs(value) / self.kl)
        if name == "logp_abs_diff":
            return Reading(value, self.difference, value / self.difference)
        if name == "effective_sample_size":
            return Reading(value, self.sample_size, _over(self.sample_size, value))
        if value < 1:
            return Reading(value, self.low_ratio, _over(self.low_ratio, value))
        return Reading(value, self.high_ratio, value / self.high_ratio)

    def _by_length(self, off: list[str], tokens: float | None) -> str | None:
        """What a small difference a token makes over a completion, where that alone explains the ratio."""
        difference = self._now.get("logp_abs_diff")
        if "is_ratio_mean" not in off or "logp_abs_diff" in off or difference is None or tokens is None:
            return None
        whole = difference.value * tokens
        if whole < abs(math.log(max(self._now["is_ratio_mean"].value, 1e-9))):
            return None
        return (
            f"that is the effect of length: {numbers.value(difference.value)} a token adds up to "
            f"{numbers.value(whole)} nats over {numbers.count(tokens)} tokens"
        )


def _over(limit: float, value: float) -> float:
    """How many times a value lies under its limit."""
    return limit / value if value > 0 else math.inf


def _words(name: str, reading: Reading) -> str:
    value, limit = numbers.value(reading.value), numbers.value(reading.limit)
    return {
        "mismatch_kl": f"KL between sampler and trainer {value}, limit {limit}",
        "logp_abs_diff": f"log-probabilities differ by {value} a token, limit {limit}",
        "is_ratio_mean": f"mean importance ratio {value}, limit {limit}",
        "effective_sample_size": f"effective sample size {value}, limit {limit}",
    }[name]
