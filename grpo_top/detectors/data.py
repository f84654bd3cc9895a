"""Stage 0, data: can the log be trusted?"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from grpo_top import numbers
from grpo_top.detectors.base import (
    OK,
    UNKNOWN,
    Details,
    Detector,
    Knob,
    Page,
    Passed,
    Streak,
    Verdict,
    some_rows,
)
from grpo_top.detectors.integrity import GroupIntegrity
from grpo_top.detectors.timing import LogStalled, StepTimeRot
from grpo_top.snapshot import WINDOW, Status

if TYPE_CHECKING:
    from collections.abc import Mapping

    from grpo_top.batch import Batch
    from grpo_top.facts import StepFacts, Stretch


@dataclass(slots=True)
class Logged:
    """The rows that carry one metric, and those of them that are not finite."""

    rows: int = 0
    broken: deque[tuple[int, int]] = field(default_factory=deque)
    """Number and step of each such row among the newest 20."""
    running: Streak = field(default_factory=Streak)
    """Such rows in a row."""
    last_finite: float | None = None

    def add(self, finite: float | None, step: int) -> None:
        """Take a row in; None: it is not finite."""
        self.rows += 1
        if self.broken and self.broken[0][0] <= self.rows - WINDOW:
            self.broken.popleft()
        if finite is None:
            self.broken.append((self.rows, step))
            self.running.update(True, step)
            return
        self.last_finite = finite
        if self.running.length:
            self.running.update(False, step)


class NonfiniteMetric(Detector):
    """NaN or infinity where a number should be, more than once."""

    id = "NONFINITE_METRIC"
    stage = 0
    severity = Status.FAIL
    series = ("loss", "grad_norm", "kl", "entropy", "reward_mean")
    needs = ("reward_mean",)
    knobs = (
        Knob("sustain", 2, "logged rows running on which one metric is not finite"),
        Knob("share", 0.2, "share of the last 20 logged rows on which it is not finite"),
    )
    page = Page(
        what=(
            "A loss, gradient norm, KL, entropy or reward is NaN or infinite. Whatever was averaged with it is "
            "lost, and an optimizer step taken with it writes NaN into the weights: from then on every number "
            "is wrong, whether it looks like one or not."
        ),
        looks_like=(
            "A gap in a chart where the log does have a row; `not finite` beside a metric. Often one metric "
            "goes first (KL, or the reward), the loss a step later, and completions turn into one repeated "
            "character soon after."
        ),
        decides=(
            "Fires when one of the metrics is not finite on `sustain` logged rows running, or on `share` of the "
            "last 20. A single row is only watched: trainers skip one bad batch and go on. A metric that is not "
            "logged, or logged as null, is unknown and never counts."
        ),
        try_next=(
            (
                "Stop, and go back to a checkpoint from before the first row that is not finite: weights that took "
                "in a NaN do not recover"
            ),
            (
                "Find the metric that went first: it names the culprit (reward: the scorer; KL: log-probabilities "
                "of tokens that one side cannot produce; gradient norm: precision or learning rate)"
            ),
            (
                "Keep logits, log-probabilities and the loss in 32 bits, and clip the log-ratio before it is "
                "exponentiated"
            ),
            "Let the scorer raise where it cannot score; a division by zero must not become a reward",
            "Lower the learning rate or lengthen the warm-up if the gradient norm grew before it broke",
        ),
        mistaken_for=(
            "An empty or fully masked batch, whose mean is NaN by arithmetic alone: one row, then numbers "
            "again. A KL that is not logged because its coefficient is 0."
        ),
        related=("KL_EXPLODING", "GRAD_SPIKES", "REWARD_COLLAPSE", "GIBBERISH"),
    )
    sustain: float
    share: float

    def __init__(self, settings: Mapping[str, float]) -> None:
        super().__init__(settings)
        self._metrics = {name: Logged() for name in self.series}

    def observe(self, facts: StepFacts) -> Verdict:
        """Count, for each metric, the rows that carry it and those that are not finite."""
        logged, values, nonfinite = [], facts.values, facts.nonfinite
        for name, metric in self._metrics.items():
            finite = values.get(name)
            if finite is not None or name in nonfinite:
                logged.append(metric)
                metric.add(finite, facts.step)
        if not logged:
            return UNKNOWN
        worst = max([len(metric.broken) for metric in self._metrics.values()]) / WINDOW
        broken = self._broken() if worst else {}
        if broken:
            return Verdict(Status.FAIL, worst, self.share, min(broken.values()))
        isolated = worst > 0 and any(metric.running.length for metric in logged)
        return Verdict(Status.WATCH if isolated else Status.OK, worst, self.share)

    def pass_over(self, stretch: Stretch) -> Passed | None:
        """Nothing happens while all is finite and was on the last rows."""
        logged = [(name, metric) for name, metric in self._metrics.items() if name in stretch.names]
        if not logged or any(metric.broken or metric.running.length for metric in self._metrics.values()):
            return None
        for name, metric in logged:
            metric.rows += len(stretch)
            metric.last_finite = stretch.column(name)[-1]
        return Passed(Status.OK, [0.0] * len(stretch))

    def describe(self, facts: StepFacts) -> Details:
        """Which metrics, since when, and which of them went first."""
        broken = self._broken()
        order = sorted(broken, key=lambda name: (broken[name], self.series.index(name)))
        running = max(self._metrics[name].running.length for name in order)
        how_long = f"{running} rows running" if running >= self.sustain else "again and again"
        infinite = None if facts.batch is None else np.isinf(facts.batch.reward)
        return Details(
            summary=f"{_words(order)} not finite since step {broken[order[0]]}, {how_long}",
            evidence={
                name: {
                    "first_step": broken[name],
                    "rows_running": self._metrics[name].running.length,
                    "rows_of_last_20": len(self._metrics[name].broken),
                    "last_finite": self._metrics[name].last_finite,
                }
                for name in order
            },
            rows=() if facts.batch is None or infinite is None else some_rows(facts.batch, infinite),
        )

    def _broken(self) -> dict[str, int]:
        """Metrics that meet the rule, and the first step on which each was not finite."""
        found = {}
        for name, metric in self._metrics.items():
            streak, hits = metric.running, len(metric.broken)
            if streak.length >= self.sustain or hits >= self.share * WINDOW:
                since = streak.since if streak.length > hits or not hits else metric.broken[0][1]
                found[name] = since if since is not None else 0
        return found


class UnreadableLines(Detector):
    """Records of the log that could not be read."""

    id = "UNREADABLE_LINES"
    stage = 0
    severity = Status.WARN
    series = ()
    knobs = (
        Knob("threshold", 1, "unreadable records since the step before that are worth a remark"),
        Knob("share", 0.5, "of the records since the step before, past which that is a warning"),
        Knob("min_records", 10, "unreadable records that a warning takes"),
    )
    page = Page(
        what=(
            "Some records of the log could not be read. They break off, are welded to the next one, or hold "
            "something else; they are skipped and counted, and the next one is read all the same."
        ),
        looks_like="`skipped` beside a source. Groups that lack a rollout, steps that lack a group.",
        decides=(
            "Remarks on every step before which `threshold` or more records could not be read, and warns where these "
            "are `min_records` or more and past a `share` of all: what is left says little of the run then. A last "
            "line that is still being written is waited for and does not count."
        ),
        try_next=(
            "Look at the first of them, `grpo-top inspect` names file, line and reason",
            "If several processes append to one file, give each its own: long lines of two writers mix",
            "If lines end in the middle, the disk was full or the writer was killed: flush after every record",
        ),
        mistaken_for="Lines of plain text between the records of a console log, which nobody counts.",
        related=("GROUP_INTEGRITY", "STEP_RESTART"),
    )
    threshold: float
    share: float
    min_records: float

    def __init__(self, settings: Mapping[str, float]) -> None:
        super().__init__(settings)
        self._count = 0
        self._first: int | None = None

    def observe(self, facts: StepFacts) -> Verdict:
        """Count what was skipped since the step before."""
        if not facts.unreadable:
            return Verdict(Status.OK, 0, self.threshold)
        self._count += facts.unreadable
        self._first = facts.step if self._first is None else self._first
        if facts.unreadable < self.threshold:
            return Verdict(Status.OK, facts.unreadable, self.threshold, facts.step)
        known = 1 + (0 if facts.batch is None else facts.batch.size)
        most = (
            facts.unreadable > self.share * (facts.unreadable + known)
            and facts.unreadable >= self.min_records
        )
        return Verdict(Status.WARN if most else Status.INFO, facts.unreadable, self.threshold, facts.step)

    def describe(self, facts: StepFacts) -> Details:
        """How many there were, here and in all."""
        here, total = facts.unreadable, self._count
        several = f", {numbers.count(total)} in all since step {self._first}" if total > here else ""
        return Details(
            summary=f"{numbers.count(here)} records could not be read before step {facts.step}{several}",
            evidence={"unreadable": here, "unreadable_in_all": total, "first_step": self._first},
        )


class StepRestart(Detector):
    """The writer went back to an earlier step."""

    id = "STEP_RESTART"
    stage = 0
    severity = Status.INFO
    series = ()
    knobs = ()
    page = Page(
        what=(
            "The log goes back: after a later step an earlier one is written again. The run was resumed from a "
            "checkpoint, or two runs write into one place. Where a step was written twice the later record "
            "counts."
        ),
        looks_like="The step counter jumps back; curves have a seam at the step of the checkpoint.",
        decides=(
            "Remarks on the step at which the writer went back. What is written again takes the place of what was "
            "there."
        ),
        try_next=(
            "Nothing, if you resumed the run",
            "If you did not, look for a second process that writes into this directory",
            (
                "After a resume compare the sampler's policy version with the trainer's: an optimizer state or a "
                "set of weights that was not restored shows as a jump of KL or gradient norm at the seam"
            ),
        ),
        mistaken_for="Rollouts of an asynchronous trainer, which arrive out of order within a few steps.",
        related=("RUN_RECORD_CHANGED", "STALE_ROLLOUTS"),
    )

    def observe(self, facts: StepFacts) -> Verdict:
        """Whether the writer went back to this step."""
        if facts.restarted_from is None:
            return OK
        return Verdict(Status.INFO, float(facts.restarted_from - facts.step), onset=facts.step)

    def describe(self, facts: StepFacts) -> Details:
        """From where to where."""
        before = facts.restarted_from or facts.step
        return Details(
            summary=f"the log went back from step {before} to step {facts.step}",
            evidence={
                "reached": before,
                "resumed_at": facts.step,
                "steps_written_again": before - facts.step,
            },
        )


class RunRecordChanged(Detector):
    """What the run says of itself changed while it ran."""

    id = "RUN_RECORD_CHANGED"
    stage = 0
    severity = Status.WARN
    series = ()
    knobs = (
        Knob("hold", WINDOW, "steps for which a change is shown: as long as windows mix before and after"),
    )
    page = Page(
        what=(
            "What the run says of itself changed while it ran. The environment's version, the reward's version, "
            "the intended sampling or the group size is another than it was at the beginning: numbers from "
            "before and after the change do not measure the same thing, and a curve drawn through both is two "
            "curves."
        ),
        looks_like="A step in the reward that no other series explains; a new version in the rollouts.",
        decides=(
            "Fires on a change in the run record, or where rollouts carry a version that none did before, and "
            "stays for `hold` steps, as long as windows of 20 steps hold both."
        ),
        try_next=(
            "If it was meant, start a new run from the checkpoint: held-out numbers then belong to one version",
            "If it was not, pin environment, verifier and sampler config to versions, and log them on every rollout",
            "Judge every finding that begins at this step as caused by the change until shown otherwise",
        ),
        mistaken_for="A field that appears late: unknown before, known now is no change.",
        related=("SAMPLER_DRIFT", "REWARD_INCONSISTENT", "REWARD_COLLAPSE"),
    )
    hold: float

    def __init__(self, settings: Mapping[str, float]) -> None:
        super().__init__(settings)
        self._seen: dict[str, set[str]] = {"env_version": set(), "reward_version": set()}
        self._latest: tuple[tuple[str, str, str], ...] = ()
        self._at = 0

    def observe(self, facts: StepFacts) -> Verdict:
        """Take in what the run record and the rollouts say at this step."""
        changes = [tuple(change) for change in facts.changes]
        changes += [change for change in self._by_rollouts(facts.batch) if change not in changes]
        if changes:
            self._latest, self._at = tuple((what, old, new) for what, old, new in changes), facts.step
        if not self._latest or facts.step - self._at >= self.hold:
            return OK
        return Verdict(Status.WARN, float(len(self._latest)), onset=self._at)

    def describe(self, facts: StepFacts) -> Details:
        """What changed into what, and when."""
        what = "; ".join(f"{name} {old} → {new}" for name, old, new in self._latest)
        ago = facts.step - self._at
        return Details(
            summary=f"{what} at step {self._at}",
            evidence={
                "step": self._at,
                "steps_ago": ago,
                "changes": [{"what": name, "before": old, "after": new} for name, old, new in self._latest],
            },
        )

    def _by_rollouts(self, batch: Batch | None) -> list[tuple[str, str, str]]:
        """Versions that rollouts carry for the first time, though others were seen before."""
        if batch is None:
            return []
        found = []
        for what, seen in self._seen.items():
            names = {batch.names(what)[number] for number in batch.distinct(what) if number >= 0}
            if seen and not names <= seen:
                before = ", ".join(sorted(seen)[-3:])
                found += [(what, before, name) for name in sorted(names - seen)]
            seen.update(names)
        return found


def _words(names: list[str]) -> str:
    """Metrics as a list in words, with its verb."""
    plain = [name.removesuffix("_mean").replace("_", " ") for name in names]
    if len(plain) == 1:
        return f"{plain[0]} is"
    return f"{', '.join(plain[:-1])} and {plain[-1]} are"


DETECTORS: tuple[type[Detector], ...] = (
    NonfiniteMetric,
    UnreadableLines,
    StepRestart,
    LogStalled,
    StepTimeRot,
    RunRecordChanged,
    GroupIntegrity,
)
