"""What completions alone tell of the sampler: the length at which they are cut, and copies that no chance makes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from grpo_top.detectors.base import UNKNOWN, Verdict
from grpo_top.snapshot import WINDOW, Status
from grpo_top.streaming import Window

if TYPE_CHECKING:
    from grpo_top.batch import Batch
    from grpo_top.facts import StepFacts

CHOICE = 10.0
"""Nats of choice over a completion that rule out equal copies: chance makes one pair in e^10 draws."""
JUMP = 0.3
"""Rise of duplicates above the steps before that is worth a look."""


@dataclass(slots=True)
class HardStop:
    """The one length at which every cut completion ends, while none is longer."""

    length: int | None = None
    since: int | None = None
    steps: int = 0
    """Steps with a cut completion."""
    cut: int = 0

    def update(self, batch: Batch, step: int) -> None:
        """Take the token counts of a step in; a longer completion, or one cut elsewhere, starts afresh."""
        lengths, (shortest, longest) = batch.column("completion_tokens"), batch.extent("completion_tokens")
        cut = batch.flags("truncated").yes
        ends = lengths[cut] if shortest >= 0 else lengths[cut & (lengths >= 0)]
        goes_on = self.length is not None and longest <= self.length and bool((ends == self.length).all())
        if not goes_on:
            one_end = len(ends) > 0 and bool((ends == longest).all())
            self.length, self.since = (longest, step) if one_end else (None, None)
            self.steps = self.cut = 0
        if self.length is not None and len(ends):
            self.steps += 1
            self.cut += len(ends)


class Copies:
    """Groups that become copies of one text although the policy has a choice: a sign of greedy sampling."""

    def __init__(self) -> None:
        self.since: int | None = None
        """First of the steps running on which every group is one text."""
        self._duplicates, self._spread = Window(WINDOW), Window(WINDOW)
        self._varied: int | None = None
        """The last step on which hardly a group was one text."""
        self._entropy: float | None = None
        self._tokens: float | None = None
        self._jumped = False

    def update(self, facts: StepFacts) -> None:
        """Take a step in, with rollouts or without."""
        entropy, tokens = facts.get("entropy"), facts.get("completion_tokens_mean")
        self._entropy = self._entropy if entropy is None else entropy
        self._tokens = self._tokens if tokens is None else tokens
        duplicates, identical = facts.get("duplicate_frac"), facts.get("identical_group_frac")
        if duplicates is None or identical is None or facts.batch is None:
            return
        enough = facts.batch.groups >= 2 and facts.batch.size >= 3 * facts.batch.groups
        if identical == 1.0 and enough and self._varied is not None and self._choice >= CHOICE:
            self.since = facts.step if self.since is None else self.since
        else:
            self.since = None
        if identical <= 0.1 and enough:
            self._varied = facts.step
        self._compare(duplicates, facts)

    def verdict(self) -> Verdict:
        """WARN for copies that the policy's entropy rules out, WATCH for a mere jump of duplicates, else UNKNOWN."""
        if self.since is not None:
            return Verdict(Status.WARN, 1.0, None, self.since)
        return Verdict(Status.WATCH, self._duplicates.last) if self._jumped else UNKNOWN

    def evidence(self) -> dict[str, object]:
        """What was inferred, and from what."""
        return {
            "inferred_from": "groups that are copies of one text",
            "since": self.since,
            "different_texts_at_step": self._varied,
            "entropy": self._entropy,
            "completion_tokens_mean": self._tokens,
            "choice_nats": self._choice,
        }

    @property
    def _choice(self) -> float:
        """Nats of choice that the policy has over a completion; 0 where that is unknown."""
        return 0.0 if self._entropy is None or self._tokens is None else self._entropy * self._tokens

    def _compare(self, duplicates: float, facts: StepFacts) -> None:
        """Whether duplicates have jumped and lengths drawn together, against the late window before."""
        upper, middle = facts.get("completion_tokens_p95"), facts.get("completion_tokens_p50")
        spread = None if upper is None or middle is None else upper - middle
        self._jumped = (
            len(self._duplicates) >= 5
            and duplicates - self._duplicates.mean >= JUMP
            and spread is not None
            and spread <= self._spread.mean / 2
        )
        if not self._jumped:
            self._duplicates.add(duplicates, facts.step)
            if spread is not None:
                self._spread.add(spread, facts.step)
