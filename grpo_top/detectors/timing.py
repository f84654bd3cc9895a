"""Stage 0, data: is the run still going, and as fast as it did?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from grpo_top import numbers
from grpo_top.detectors.base import UNKNOWN, Details, Detector, Knob, Page, Passed, Verdict
from grpo_top.snapshot import WINDOW, Status
from grpo_top.streaming import Baseline, Window
from grpo_top.trends import significant_trend

if TYPE_CHECKING:
    from collections.abc import Mapping

    from grpo_top.facts import StepFacts, Stretch


class LogStalled(Detector):
    """Nothing new has come for much longer than a step takes."""

    id = "LOG_STALLED"
    stage = 0
    severity = Status.WARN
    series = ("step_time",)
    knobs = (
        Knob("times", 5, "median step times without a new record"),
        Knob("seconds", 60, "at least this many seconds, however short a step is"),
    )
    page = Page(
        what=(
            "The log has stopped growing although the run is not over. The trainer hangs, waits for its "
            "samplers, or died without a word."
        ),
        looks_like="`quiet for 6 m` where the screen said `live`; the last step does not move.",
        decides=(
            "Live only. Fires when no record has come for `times` the median step time of the last 20 steps, "
            "and for `seconds` at least. Where no step time is logged, the longest pause between records of a "
            "step stands for it. A source that says that it is finished never stalls."
        ),
        try_next=(
            (
                "Look whether the process lives, and what it waits for: a collective that one rank left, a sampler "
                "that answers no more, a disk that is full"
            ),
            "Look at the samplers' queues: one rollout without a limit on turns or tokens holds a whole batch",
            "Set time limits on environments and on the verifier, so that a hang becomes an error that is counted",
        ),
        mistaken_for=(
            "A long evaluation or the writing of a checkpoint: it clears with the next record. A log on a "
            "network file system that is shown late."
        ),
        related=("STEP_TIME_ROT", "VERIFIER_ERRORS", "TERMINATION_SHIFT"),
    )
    times: float
    seconds: float

    def __init__(self, settings: Mapping[str, float]) -> None:
        super().__init__(settings)
        self._step_times = Window(WINDOW)
        self._last_step: int | None = None
        self._idle = 0.0
        """Seconds since the newest record, as last told; the longest pause since the last finished step."""

    def observe(self, facts: StepFacts) -> Verdict:
        """A step was finished: learn how long one takes."""
        took = facts.get("step_time")
        if took is None and self._idle > 0:
            took = self._idle
        if took is not None:
            self._step_times.add(took, facts.step, facts.stands_for("step_time"))
        self._last_step, self._idle = facts.step, 0.0
        return Verdict(Status.OK, 0.0)

    def pass_over(self, stretch: Stretch) -> Passed | None:
        """Steps that come say nothing of a silence."""
        if "step_time" in stretch.names:
            self._step_times.extend(stretch.column("step_time"), stretch.steps)
        elif self._idle > 0:
            return None
        self._last_step, self._idle = stretch.steps[-1], 0.0
        return Passed(Status.OK, [0.0] * len(stretch))

    def idle(self, seconds: float, finished: bool) -> Verdict | None:
        """Compare the silence with what a step usually takes."""
        self._idle = max(self._idle, seconds)
        limit = self._limit()
        if finished or limit is None or self._last_step is None:
            return None
        return Verdict(Status.WARN if seconds > limit else Status.OK, seconds, limit, self._last_step)

    def describe(self, facts: StepFacts) -> Details:
        """How long it has been silent, and how long a step takes."""
        usual = self._step_times.median
        silent, step = numbers.seconds(self._idle), numbers.pace(usual)
        return Details(
            summary=f"no new record for {silent}, a step takes {step}; last step {facts.step}",
            evidence={"silent_seconds": self._idle, "step_seconds": usual, "last_step": facts.step},
        )

    def _limit(self) -> float | None:
        """Seconds of silence that are too long; None while nothing tells how long a step takes."""
        return max(self.seconds, self.times * self._step_times.median) if len(self._step_times) else None


class StepTimeRot(Detector):
    """Steps take longer and longer."""

    id = "STEP_TIME_ROT"
    stage = 0
    severity = Status.INFO
    series = ("step_time",)
    knobs = (
        Knob("threshold", 1.4, "step time now against the run's early median"),
        Knob("trend_steps", 60, "logged rows over which the trend is tested"),
    )
    page = Page(
        what=(
            "A step takes clearly longer than it did early in the run, and it is getting worse. It says nothing "
            "about learning, but something fills up: longer completions, slower environments, memory, a log."
        ),
        looks_like="Seconds a step climb; throughput in tokens falls or, where completions grow, stays.",
        decides=(
            "Remarks when the median step time of the last 20 steps is above `threshold` × the median of steps "
            "3 to 20 and the last `trend_steps` rows have a significant upward trend (Mann-Kendall at 1%)."
        ),
        try_next=(
            "Compare with the completions' length: if both grow alike, nothing is wrong with the machine",
            "Look at the slowest part (generation, verifier, weight transfer) in the trainer's own timings",
            "Watch the environments' and the verifier's memory: restart pools of workers from time to time",
        ),
        mistaken_for="Curricula that move on to longer tasks; a neighbour on the same machine.",
        related=("LOG_STALLED", "LENGTH_HACKING", "TRUNCATION"),
    )
    threshold: float
    trend_steps: float

    def __init__(self, settings: Mapping[str, float]) -> None:
        super().__init__(settings)
        self._early = Baseline(3, WINDOW)
        self._late = Window(WINDOW)
        self._series = Window(int(self.trend_steps))

    def observe(self, facts: StepFacts) -> Verdict:
        """Compare the late median with the early one; the trend is tested only past the limit."""
        took = facts.get("step_time")
        if took is None:
            return UNKNOWN
        steps = facts.stands_for("step_time")
        self._early.add(took, steps)
        self._late.add(took, facts.step, steps)
        self._series.add(took, facts.step)
        if not self._early.ready or self._early.median <= 0:
            return UNKNOWN
        ratio = self._late.median / self._early.median
        if ratio <= self.threshold:
            return Verdict(Status.OK, ratio, self.threshold)
        rising = significant_trend(self._series.values, "up", self._series.steps)
        return Verdict(Status.INFO if rising else Status.OK, ratio, self.threshold, self._series.first_step)

    def pass_over(self, stretch: Stretch) -> Passed | None:
        """Nothing happens while all times are under the limit, and were before the stretch."""
        early = self._early.median
        if "step_time" not in stretch.names or not self._early.ready or early <= 0:
            return None
        highest = max(stretch.extent("step_time")[1], self._late.maximum)
        if highest / early > self.threshold:
            return None
        times = stretch.column("step_time")
        self._series.extend(times, stretch.steps)
        medians = self._late.medians(times, stretch.steps)
        return Passed(Status.OK, [median / early for median in medians])

    def describe(self, facts: StepFacts) -> Details:
        """Early against late."""
        early, late = self._early.median, self._late.median
        return Details(
            summary=f"a step takes {numbers.pace(late)}, {numbers.pace(early)} early in the run",
            evidence={
                "step": facts.step,
                "early_seconds": early,
                "late_seconds": late,
                "ratio": late / early,
            },
        )
