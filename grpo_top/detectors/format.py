"""Stage 5, format and budget: do answers parse, and does the reward measure more than their form?"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from grpo_top import numbers
from grpo_top.detectors.base import UNKNOWN, Details, Knob, Page, Passed, Streak, Verdict, repeated, some_rows
from grpo_top.detectors.forms import (
    COMPONENTS_KEPT,
    SHARE_EVERY,
    FormAlone,
    FormShare,
    Rise,
    components,
    content_components,
)
from grpo_top.detectors.parts import Parts
from grpo_top.detectors.rules import LateShare, SeriesDetector, ordered_rows, sustained
from grpo_top.snapshot import WINDOW, Status
from grpo_top.streaming import Window

if TYPE_CHECKING:
    from collections.abc import Mapping

    from grpo_top.batch import Batch
    from grpo_top.facts import StepFacts, Stretch

EARLY_STEPS = 10
LEAST_EVALS = 3
NOTHING = 0.1
"""Share of the reward's gain up to which a component has gained nothing."""


class ParseFailures(SeriesDetector):
    """Answers cannot be read."""

    id = "PARSE_FAILURES"
    stage = 5
    severity = Status.FAIL
    series = ("parse_failure_rate",)
    knobs = (
        Knob("threshold", 0.2, "share of the last 20 steps' rollouts whose answer does not parse"),
        Knob("fail", 0.5, "share from which it is a failure"),
        Knob("min_steps", 5, "steps before a share counts of rollouts whose number is not known"),
    )
    page = Page(
        what=(
            "Many answers do not parse. The tag is missing, the JSON is broken, the tool call has the wrong "
            "syntax. Their reward says nothing about the task, and as long as they are many, what the reward "
            "tells apart is form, and form is what is learned."
        ),
        looks_like=(
            "The parse-failure line stays above its limit, and rewards have a lump at the lowest value. "
            "Families differ where their prompts ask for different forms."
        ),
        decides=(
            "Takes the share of rollouts whose answer did not parse over the last 20 steps. Warns from "
            "`threshold` on, fails from `fail` on, where a one-sided 90% bound lies there too (99% with fewer "
            "than `min_steps` steps): 8 rollouts a step are soon above it by chance. "
            "A small base model often starts above the limit and comes below it "
            "within a dozen steps: such a finding clears by itself."
        ),
        try_next=(
            (
                "Read five answers that did not parse beside the raw verifier output: is the answer there in "
                "another form?"
            ),
            (
                "If it is, mend the parser and score old rollouts again: that is the parser's failure and "
                "not the policy's"
            ),
            "If completions are truncated before the closing tag, see TRUNCATION first",
            "Show the form in the prompt, or give a few hundred supervised examples of it before training",
            (
                "Pay for form with a component of its own, and small, so that the rest of the reward stays "
                "about the task"
            ),
        ),
        mistaken_for=(
            "Wrong answers: they parse and are wrong. Verifier errors: there nobody looked at the answer. A "
            "reward of 0 for either is why the three must be logged apart."
        ),
        related=("TRUNCATION", "FORMAT_EXPLOIT", "VERIFIER_ERRORS", "REWARD_STREAK", "BASE_SUCCESS_ZERO"),
    )
    threshold: float
    fail: float
    min_steps: float

    def __init__(self, settings: Mapping[str, float]) -> None:
        super().__init__(settings)
        self._late = LateShare()
        self._worst, self._worst_step = 0.0, 0
        self._parts = Parts()

    def judge(self, value: float, facts: StepFacts) -> Verdict:
        """Take a step's share of answers that do not parse in."""
        if value > self._worst:
            self._worst, self._worst_step = value, facts.step
        self._late.add(value, facts, "parse_failure_rate")
        if facts.batch is not None:
            parsed = facts.batch.flags("parsed")
            self._parts.add(facts.batch, parsed.no, parsed.known)
        failed = self._late.judge(self.fail, self.min_steps, Status.FAIL)
        if failed.status == Status.FAIL:
            return failed
        return self._late.judge(self.threshold, self.min_steps, Status.WARN)

    def describe(self, facts: StepFacts) -> Details:
        """The share, the worst step, and which families fail."""
        share = self._late.mean
        cut = None if facts.batch is None else _cut_share(facts.batch)
        steps = list(self.page.try_next)
        if cut is not None and cut >= 0.5:
            steps.insert(0, steps.pop(2))
        return Details(
            f"{numbers.share(share)} of answers do not parse, limit {numbers.share(self.threshold)}"
            f"{self._parts.words()}",
            {
                "parse_failure_rate": share,
                "since": self._late.onset(self.threshold),
                "worst": self._worst,
                "worst_step": self._worst_step,
                "cut_of_those_that_fail": cut,
                **self._parts.evidence(),
            },
            self.proof(facts, lambda batch: some_rows(batch, batch.column("parsed") == 0)),
            tuple(steps),
        )


class FormatExploit(SeriesDetector):
    """Parse failures vanish and reward rises, but nothing else does."""

    id = "FORMAT_EXPLOIT"
    stage = 5
    severity = Status.WARN
    series = ("parse_failure_rate", "reward_mean", "component_mean", "heldout")
    needs = ("parse_failure_rate", "reward_mean")
    knobs = (
        Knob("high", 0.2, "parse-failure rate above which it must have been, over the first 10 steps"),
        Knob("low", 0.02, "rate under which it must have fallen over the last 20 steps"),
        Knob("rise", 0.05, "share of the reward range by which reward must have risen"),
        Knob("sustain", 5, "consecutive steps"),
        Knob("stalled", 60, "rows without a gain of content over which form alone must have risen"),
        Knob("form_rise", 0.3, "share of its own range by which a form component must have risen over them"),
        Knob("share", 0.8, "share of the reward from which it is remarked that form earns most of it"),
    )
    page = Page(
        what=(
            "The policy has learned to satisfy the parser and nothing else. Answers that could not be read "
            "are readable now, reward is up, and yet neither the components that judge content nor held-out "
            "tasks have moved. The form is what was paid for."
        ),
        looks_like=(
            "Parse failures fall to nothing within some steps, reward jumps by about what the form pays, and "
            "the line of the content component stays where it was."
        ),
        decides=(
            "Fires when the parse-failure rate was above `high` over the first 10 steps and is under `low` "
            "over the last 20, the mean reward has risen by `rise` of the reward range, and no component "
            "that pays for content has gained a tenth of that, for `sustain` steps. Which components pay for "
            "form is told by their names. Three or more held-out evaluations are asked too: where the last "
            "one is above the first, it does not fire. Fires too, later in a run, when a form component rises "
            "by `form_rise` of its range, and by `rise` of the reward range, while content, which had risen "
            "before, has gained nothing for `stalled` rows. Without content components or evaluations it "
            "cannot judge. Remarks, and no more, where the reward is a sum of its components (least squares over "
            "60 rows or more tell their weights) and form earns `share` of it over the last 20 rows, twice 10 "
            "rows apart."
        ),
        try_next=(
            "Read ten answers that earn well: are they empty in a correct form?",
            "Make form a condition rather than a reward: no form, no reward; form alone, no reward either",
            "Lower the weight of the form's component now that it is mastered",
            "Select checkpoints on held-out results only",
        ),
        mistaken_for=(
            "The usual start of a run, in which form is learned first and content follows some steps later. "
            "Content components that depend on parsing rise with it, which this rule takes as progress."
        ),
        related=("PARSE_FAILURES", "COMPONENT_DIVERGENCE", "UNIFORM_COMPONENT", "HELDOUT_FLAT"),
    )
    high: float
    low: float
    rise: float
    sustain: float
    stalled: float
    form_rise: float
    share: float

    def __init__(self, settings: Mapping[str, float]) -> None:
        super().__init__(settings)
        self._steps = 0
        self._early: dict[str, tuple[float, int]] = {}
        """Sum and number of each series' values over the first steps."""
        self._late: dict[str, Window] = {}
        self._heldout: dict[str, tuple[float, float, int]] = {}
        """Suite → the first evaluation, the newest one, and how many there were."""
        self._streak, self._alone_streak = Streak(), Streak()
        self._alone = FormAlone()
        self._form, self._mostly_form = FormShare(), Streak()

    def observe(self, facts: StepFacts) -> Verdict:
        """Take evaluations and components in, whatever else the step carries."""
        for point in facts.evals:
            if point.suite in self._heldout or len(self._heldout) < COMPONENTS_KEPT:
                first, _, number = self._heldout.get(point.suite, (point.value, 0.0, 0))
                self._heldout[point.suite] = (first, point.value, number + 1)
        verdict = super().observe(facts)
        if not self._alone.knows_any and not components(facts):
            return verdict  # what follows is about components
        self._alone.add(facts)
        rise = self._form_alone(facts)
        self._alone_streak.update(rise is not None, facts.step)
        self._form.add(facts, self._alone.late)
        share = self._form.share
        self._mostly_form.update(share is not None and share >= self.share, facts.step)
        if verdict.status >= Status.WARN:
            return verdict
        if rise is not None:
            verdict = sustained(self._alone_streak, self.sustain, Status.WARN, rise.now - rise.before, None)
        if verdict.status < Status.WARN and self._mostly_form.length > SHARE_EVERY:
            return Verdict(Status.INFO, share, self.share, self._mostly_form.since)
        return verdict

    def pass_over(self, stretch: Stretch) -> Passed | None:
        """Nothing happens where neither parsing nor components are logged."""
        logged = self.series[0] in stretch.names or stretch.has_parts("component_mean")
        if (
            logged
            or self._alone.knows_any
            or self._form.share is not None
            or self._verdict.status >= Status.INFO
        ):
            return None
        return repeated(self._verdict, stretch)

    def judge(self, value: float, facts: StepFacts) -> Verdict:
        """Compare the late window with the first steps."""
        self._steps += 1
        if self._steps > EARLY_STEPS and self._before("parse_failure_rate") <= self.high:
            return Verdict(Status.OK, value, self.low)
        named = {
            name: at for name in ("parse_failure_rate", "reward_mean") if (at := facts.get(name)) is not None
        }
        for name, at in {**named, **content_components(facts)}.items():
            if self._steps <= EARLY_STEPS:
                total, number = self._early.get(name, (0.0, 0))
                self._early[name] = (total + at, number + 1)
            elif name in self._early:
                self._late.setdefault(name, Window(WINDOW)).add(at, facts.step)
        content = [name for name in self._late if name not in ("parse_failure_rate", "reward_mean")]
        heldout = [(first, last) for first, last, number in self._heldout.values() if number >= LEAST_EVALS]
        if not self._late or not (content or heldout):
            return UNKNOWN
        rate = self._late["parse_failure_rate"]
        exploited = (
            rate.full
            and rate.mean < self.low
            and (gain := self._gain("reward_mean")) >= self.rise * _range(facts)
            and all(self._gain(name) <= NOTHING * gain for name in content)
            and all(last <= first for first, last in heldout)
        )
        self._streak.update(exploited, facts.step)
        return sustained(self._streak, self.sustain, Status.WARN, rate.mean, self.low)

    def describe(self, facts: StepFacts) -> Details:
        """What fell, what rose, and what did not."""
        rise, mostly = self._form_alone(facts), self._mostly_form
        sudden = max(self._streak.length, self._alone_streak.length) >= self.sustain
        if mostly.length > SHARE_EVERY and not sudden:
            return Details(
                f"{numbers.share(self._form.share)} of the reward is earned by the form of answers, since step "
                f"{mostly.since}",
                {"form_share": self._form.share, "since": mostly.since},
                self.proof(facts, _best_first),
                (self.page.try_next[2], self.page.try_next[1], self.page.try_next[3]),
            )
        if rise is not None and self._streak.length < self.sustain:
            return Details(
                f"{rise.name} {numbers.value(rise.before)} → {numbers.value(rise.now)} since step {rise.since}, while "
                "no component that pays for content has gained anything",
                {"component": rise.name, "before": rise.before, "now": rise.now, "since": rise.since},
                self.proof(facts, _best_first),
            )
        now = {name: window.mean for name, window in self._late.items()}
        before = {name: self._before(name) for name in now}
        failures, reward = "parse_failure_rate", "reward_mean"
        return Details(
            f"parse failures {numbers.share(before[failures])} → {numbers.share(now[failures])}, reward "
            f"{numbers.value(before[reward])} → {numbers.value(now[reward])}, content no better",
            {
                "early": before,
                "now": now,
                "heldout": {suite: list(of[:2]) for suite, of in self._heldout.items()},
                "since": self._streak.since,
            },
            self.proof(facts, _best_first),
        )

    def _form_alone(self, facts: StepFacts) -> Rise | None:
        evaluated = [(first, last) for first, last, number in self._heldout.values() if number >= LEAST_EVALS]
        if any(last > first for first, last in evaluated):
            return None
        return self._alone.risen(self.stalled, self.form_rise, self.rise * _range(facts))

    def _before(self, name: str) -> float:
        total, number = self._early[name]
        return total / number

    def _gain(self, name: str) -> float:
        return self._late[name].mean - self._before(name) if name in self._late else 0.0


def _cut_share(batch: Batch) -> float | None:
    """Of the rollouts that did not parse, the share that was cut; None where that is not known."""
    cut = batch.column("truncated")[batch.column("parsed") == 0]
    cut = cut[cut >= 0]
    return float((cut == 1).mean()) if len(cut) else None


def _best_first(batch: Batch) -> tuple[int, ...]:
    return ordered_rows(batch, np.argsort(-batch.reward, kind="stable"))


def _range(facts: StepFacts) -> float:
    limits = facts.scale.range(facts.run)
    return 1.0 if limits is None or limits[1] <= limits[0] else limits[1] - limits[0]
