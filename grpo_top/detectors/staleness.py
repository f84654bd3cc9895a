"""Stage 7, staleness: do sampler and trainer hold the same policy?"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from grpo_top import numbers
from grpo_top.detectors.base import UNKNOWN, Details, Detector, Knob, Page, Streak, Verdict, some_rows
from grpo_top.detectors.mismatch import LogprobMismatch
from grpo_top.detectors.rules import LateShare, SeriesDetector, ordered_rows
from grpo_top.snapshot import WINDOW, Status
from grpo_top.streaming import ShareWindow, Window

if TYPE_CHECKING:
    from collections.abc import Mapping

    from grpo_top.batch import Batch
    from grpo_top.facts import RunState, StepFacts

TOLERANCE = 2.0
"""Versions of lag that are tolerated where the run declares no number."""
_NAMED = 8
_SYNCS = 8


class StaleRollouts(Detector):
    """The batch was sampled by an old policy."""

    id = "STALE_ROLLOUTS"
    stage = 7
    severity = Status.FAIL
    series = ("version_lag_max", "version_lag_mean", "version_lag_min", "stale_dropped")
    needs = ("version_lag_max",)
    sees = frozenset({"version_lag_max", "version_lag_mean", "stale_dropped"})
    knobs = (
        Knob("tolerance", TOLERANCE, "versions of lag that are tolerated where the run declares no number"),
        Knob("sustain", 3, "consecutive steps above it"),
        Knob("often", 0.2, "or share of the last 20 steps above it, where the tolerance is the run's own"),
        Knob("dropped", 0.2, "share of the last 20 steps on which stale rollouts are dropped"),
    )
    page = Page(
        what=(
            "The trainer learns from rollouts of a policy that it has left behind. Within the tolerance that "
            "is a choice: asynchronous training buys speed with it. Beyond it the update is made for another "
            "policy than the one it is applied to, and the reward curve goes flat or uneasy without a cause "
            "in sight."
        ),
        looks_like=(
            "The lag panel's line stands above the tolerance: as a ramp that grows by one a step where a "
            "sync is broken, or as a high plateau where samplers are too slow."
        ),
        decides=(
            "Compares the lag of the stalest rollout of each step, or the mean where only that is logged, "
            "with the run's tolerance. Fires above it on `sustain` steps running: fail where the tolerance "
            "is the run's own, warn where it is `tolerance`, which nobody chose. Fires too when `often` of the "
            "last 20 steps are above the run's own tolerance, by fits and starts, and when stale "
            "rollouts are dropped on `dropped` of the last 20 steps. A negative lag is a fault of the log, "
            "since no sampler is ahead of its trainer: that is a remark. Where rollouts carry no versions, those "
            "that watched samplers say are compared: with each other, and with the step where they count steps."
        ),
        try_next=(
            "Look whether lag grows by one a step; then weights do not arrive at all, see WEIGHT_SYNC_STUCK",
            "Sync weights more often, or let fewer batches be generated ahead",
            "Add samplers, or limit the longest rollouts, until generation keeps up with training",
            (
                "If more lag is meant, declare version_lag_tolerance, and check that the importance "
                "correction is switched on"
            ),
        ),
        mistaken_for=(
            "Versions that are counted otherwise: a sampler that names the version it was started from. An "
            "off-by-one in the log moves every lag by the same number."
        ),
        related=("WEIGHT_SYNC_STUCK", "MIXED_VERSIONS", "LOGPROB_MISMATCH", "CLIP_SATURATION"),
    )
    tolerance: float
    sustain: float
    often: float
    dropped: float

    def __init__(self, settings: Mapping[str, float]) -> None:
        super().__init__(settings)
        self._stale, self._negative = Streak(), Streak()
        self._above, self._drops = ShareWindow(WINDOW), ShareWindow(WINDOW)
        """Steps above the tolerance, and steps on which stale rollouts were dropped."""
        self._lag: float | None = None
        self._verdict = UNKNOWN
        self._rows: tuple[int, ...] = ()

    def observe(self, facts: StepFacts) -> Verdict:
        """Compare a step's lag with the tolerance, and count drops."""
        name = "version_lag_max" if facts.get("version_lag_max") is not None else "version_lag_mean"
        lag, lowest, dropped = facts.get(name), facts.get("version_lag_min"), facts.get("stale_dropped")
        if lag is not None:
            self._lag = lag
            above = lag > tolerance_of(facts.run, self.tolerance)
            self._stale.update(above, facts.step, facts.stands_for(name))
            self._above.add(above, 1, facts.step)
            self._negative.update((lag if lowest is None else lowest) < 0, facts.step)
        if dropped is not None:
            self._drops.add(dropped > 0, 1, facts.step)
        if lag is not None or dropped is not None:
            self._verdict = self._judge(facts.run)
        return self._verdict

    def describe(self, facts: StepFacts) -> Details:
        """How old the samples are, or what is wrong with the log."""
        tolerance = tolerance_of(facts.run, self.tolerance)
        parts = []
        if self._stale.length >= self.sustain:
            told = "declared" if facts.run.version_lag_tolerance is not None else "the default"
            parts.append(f"lag {self._lag:.3g}, tolerance {tolerance:g} ({told})")
        elif self._too_often(facts.run):
            steps = numbers.part_of(self._above.hits, self._above.items)
            parts.append(f"lag above the declared tolerance of {tolerance:g} on {steps} steps")
        if self._drops_too_much():
            parts.append(
                f"stale rollouts dropped on {numbers.part_of(self._drops.hits, self._drops.items)} steps"
            )
        if not parts:
            parts.append("lag below 0: the log counts versions of sampler and trainer differently")
        behind = _behind(facts)
        if behind and self._stale.length >= self.sustain:
            parts[0] += f", by what samplers say of their weights ({', '.join(list(behind)[:3])})"
        evidence = {
            "version_lag_max": facts.get("version_lag_max"),
            "version_lag_mean": facts.get("version_lag_mean"),
            "version_lag_min": facts.get("version_lag_min"),
            "tolerance": tolerance,
            "tolerance_declared": facts.run.version_lag_tolerance is not None,
            "since": self._stale.since if self._stale.length else self._negative.since,
            "steps_with_dropped_samples": self._drops.hits,
            **({"samplers": behind} if behind else {}),
        }
        if facts.batch is not None:
            self._rows = ordered_rows(facts.batch, np.argsort(-_lags(facts.batch), kind="stable"))
        return Details("; ".join(parts), evidence, self._rows)

    def _judge(self, run: RunState) -> Verdict:
        tolerance = tolerance_of(run, self.tolerance)
        if self._stale.length >= self.sustain:
            status = Status.WARN if run.version_lag_tolerance is None else Status.FAIL
            return Verdict(status, self._lag, tolerance, self._stale.since)
        if self._too_often(run):
            return Verdict(Status.FAIL, self._above.share, self.often, self._above.first_hit)
        if self._drops_too_much():
            return Verdict(Status.WARN, self._drops.share, self.dropped, self._drops.first_hit)
        if self._negative.length >= self.sustain:
            return Verdict(Status.INFO, self._lag, 0.0, self._negative.since)
        if self._lag is None:
            return Verdict(
                Status.WATCH if self._drops.hits else Status.UNKNOWN, self._drops.share, self.dropped
            )
        return Verdict(
            Status.WATCH if self._stale.length else Status.OK, self._lag, tolerance, self._stale.since
        )

    def _too_often(self, run: RunState) -> bool:
        if run.version_lag_tolerance is None:
            return False
        return self._above.hits > self.sustain and self._above.share >= self.often

    def _drops_too_much(self) -> bool:
        return self._drops.hits >= self.sustain and self._drops.share >= self.dropped


class MixedVersions(SeriesDetector):
    """Rollouts were sampled by several policies in turn."""

    id = "MIXED_VERSIONS"
    stage = 7
    severity = Status.WARN
    series = ("mixed_version_frac",)
    knobs = (
        Knob("threshold", 0.05, "share of the last 20 steps' rollouts that span two policy versions or more"),
        Knob("min_steps", 5, "steps before a share counts of rollouts whose number is not known"),
        Knob("tolerance", TOLERANCE, "versions that a rollout may span where the run declares no tolerance"),
    )
    page = Page(
        what=(
            "Weights were swapped while rollouts were being generated: one text comes from two policies or "
            "more. Trainers that continue partial rollouts do this on purpose. It matters when a rollout "
            "spans more versions than the run tolerates, and when the log-probabilities that are kept are "
            "not those of the policy that said each token."
        ),
        looks_like=(
            "A share of mixed rollouts above a few percent; in the replay, a policy version `v102–v105` "
            "instead of `v105`."
        ),
        decides=(
            "Remarks when `threshold` of the rollouts of the last 20 steps span two versions or more. Warns "
            "when as many span more than the run's tolerance of lag (`tolerance` where none is declared). "
            "A one-sided 90% bound of the share must lie there too (99% with fewer than `min_steps` steps)."
        ),
        try_next=(
            (
                "If partial rollouts are meant, check that each token keeps the log-probability of the "
                "version that said it"
            ),
            "If not, pause generation while weights are swapped, or abort and sample again",
            "Cut the longest rollouts: they are the ones that live through several versions",
        ),
        mistaken_for="Stale rollouts: those come from one old policy. A rollout can be both.",
        related=("STALE_ROLLOUTS", "LOGPROB_MISMATCH", "TERMINATION_SHIFT"),
    )
    threshold: float
    min_steps: float
    tolerance: float

    def __init__(self, settings: Mapping[str, float]) -> None:
        super().__init__(settings)
        self._mixed, self._past = LateShare(), LateShare()
        self._widest = 0

    def judge(self, value: float, facts: StepFacts) -> Verdict:
        """Take a step's share of mixed rollouts in, and the share that spans too much."""
        self._mixed.add(value, facts, "mixed_version_frac")
        if facts.batch is not None:
            past = 0.0
            if value > 0:
                start = facts.batch.column("policy_start")
                span = (facts.batch.column("policy_end") - start)[start >= 0]
                if len(span):
                    self._widest = int(span.max())
                    past = float((span > tolerance_of(facts.run, self.tolerance)).mean())
            self._past.add(past, facts, "mixed_version_frac")
        far = self._past.judge(self.threshold, self.min_steps, Status.WARN)
        return (
            far
            if far.status == Status.WARN
            else self._mixed.judge(self.threshold, self.min_steps, Status.INFO)
        )

    def describe(self, facts: StepFacts) -> Details:
        """How many rollouts span how many versions."""
        past = self._past.mean
        tolerance = tolerance_of(facts.run, self.tolerance)
        summary = f"{numbers.share(self._mixed.mean)} of rollouts span two policy versions or more"
        if past >= self.threshold:
            summary += f", {numbers.share(past)} more than the {tolerance:g} that are tolerated"
        return Details(
            summary,
            {
                "mixed_version_frac": self._mixed.mean,
                "past_tolerance_frac": None if math.isnan(past) else past,
                "widest_span": self._widest,
                "tolerance": tolerance,
                "since": self._mixed.onset(self.threshold),
            },
            self.proof(
                facts,
                lambda batch: some_rows(batch, batch.column("policy_end") > batch.column("policy_start")),
            ),
        )


class WeightSyncStuck(SeriesDetector):
    """New weights no longer reach the sampler."""

    id = "WEIGHT_SYNC_STUCK"
    stage = 7
    severity = Status.FAIL
    series = ("policy_version", "trainer_version")
    knobs = (
        Knob("tolerance", TOLERANCE, "versions of lag that are tolerated where the run declares no number"),
        Knob("more", 3, "trainer versions beyond the tolerance without a new policy version in the rollouts"),
    )
    page = Page(
        what=(
            "The trainer goes on, and its samplers do not notice. The newest policy version that any rollout "
            "carries has stood still, so either weights are no longer sent, or they are sent and not loaded."
        ),
        looks_like=(
            "Policy and trainer version part: the trainer's climbs, the policy's is a flat line, and lag is "
            "a ramp."
        ),
        decides=(
            "Follows the newest policy version seen in rollouts. Fires when it has not moved while the "
            "trainer made as many versions as the run's tolerance of lag (`tolerance` where none is "
            "declared) and `more` on top. A trainer version that goes back is a restart, and the count "
            "begins again. Where rollouts carry no version, the weights that watched samplers say they hold are "
            "followed against the trainer's steps, with twice the usual distance between two syncs as the least "
            "limit; weights that were never seen to move are a warning."
        ),
        try_next=(
            (
                "Look at the sampler's log around the last version that it took: a failed load is often a "
                "warning there and no more"
            ),
            "Ask the server which weights it holds: its /weight_info or /model_info says so",
            "Check the schedule of the sync: one that counts updates where you meant steps syncs seldom",
            "Restart the samplers from the newest checkpoint, and drop what they had queued",
        ),
        mistaken_for=(
            "A version that is only counted at the start of a sampler process. Slow samplers: their versions "
            "move, only late, which is STALE_ROLLOUTS alone."
        ),
        related=("STALE_ROLLOUTS", "LOGPROB_MISMATCH", "NO_UPDATE"),
    )
    tolerance: float
    more: float

    def __init__(self, settings: Mapping[str, float]) -> None:
        super().__init__(settings)
        self._newest: float | None = None
        self._moved_at: float | None = None
        """The trainer's version when the newest policy version was first seen."""
        self._since: int | None = None
        """The first step after that."""
        self._trainer: float | None = None
        self._of_servers = False
        """Whether versions are those that samplers say, and the trainer's is its step."""
        self._between = Window(_SYNCS)
        """Steps between two moves of the samplers' weights."""

    def judge(self, value: float, facts: StepFacts) -> Verdict:
        """Ask whether the newest policy version has moved while the trainer did."""
        of_servers = "policy_version" in facts.servers.series
        trainer = float(facts.step) if of_servers else facts.get("trainer_version")
        if trainer is None:
            return UNKNOWN
        went_back = (self._trainer is not None and trainer < self._trainer) or of_servers != self._of_servers
        self._trainer, self._of_servers = trainer, of_servers
        if self._newest is None or self._moved_at is None or value > self._newest or went_back:
            if of_servers and self._newest is not None and self._moved_at is not None and not went_back:
                self._between.add(trainer - self._moved_at, facts.step)
            self._newest, self._moved_at, self._since = value, trainer, None
            return Verdict(Status.OK, 0.0, self._limit(facts.run))
        stood = trainer - self._moved_at
        if stood > 0 and self._since is None:
            self._since = facts.step
        limit = self._limit(facts.run)
        # Weights that were never seen to move may be named once, when the server starts.
        stuck = Status.WARN if of_servers and not len(self._between) else Status.FAIL
        return Verdict(stuck if stood >= limit else Status.OK, stood, limit, self._since)

    def describe(self, facts: StepFacts) -> Details:
        """Which version stands still, and how far the trainer has gone on."""
        stood = (self._trainer or 0.0) - (self._moved_at or 0.0)
        who = "all samplers hold weights" if self._of_servers else "rollouts stay at policy version"
        return Details(
            f"{who} {numbers.count(self._newest)} while the trainer made {numbers.count(stood)} more"
            + (" steps" if self._of_servers else ""),
            {
                "policy_version": self._newest,
                "trainer_version": self._trainer,
                "trainer_versions_since": stood,
                "limit": self._limit(facts.run),
                "since": self._since,
            },
            self.proof(facts, lambda batch: ordered_rows(batch, np.argsort(-_lags(batch), kind="stable"))),
        )

    def _limit(self, run: RunState) -> float:
        limit = tolerance_of(run, self.tolerance) + self.more
        if not self._of_servers:
            return limit
        return max(limit, 2 * self._between.mean) if len(self._between) else 3 * limit


def tolerance_of(run: RunState, default: float) -> float:
    """Versions of lag that a run tolerates: its own number, else the default."""
    return default if run.version_lag_tolerance is None else run.version_lag_tolerance


def _behind(facts: StepFacts) -> dict[str, int]:
    """Samplers that hold the oldest weights, and which; none where the rollouts say their own versions."""
    if "version_lag_max" not in facts.servers.series:
        return {}
    versions = {server.name: server.version for server in facts.servers.all if server.version is not None}
    oldest = min(versions.values(), default=0)
    return dict([(name, version) for name, version in versions.items() if version == oldest][:_NAMED])


def _lags(batch: Batch) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Trainer version minus the version that began each rollout; -1 unknown."""
    start, trainer = (
        batch.column("policy_start").astype(np.int64),
        batch.column("trainer_version").astype(np.int64),
    )
    return np.where((start >= 0) & (trainer >= 0), trainer - start, -1)


DETECTORS: tuple[type[Detector], ...] = (StaleRollouts, MixedVersions, WeightSyncStuck, LogprobMismatch)
