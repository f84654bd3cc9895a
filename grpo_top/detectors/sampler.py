"""Stage 4, rollouts: does the fleet sample as the run record says?"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import numpy as np

from grpo_top import numbers
from grpo_top.detectors.base import OK, UNKNOWN, Details, Detector, Knob, Page, Verdict, some_rows
from grpo_top.detectors.inferred import Copies, HardStop
from grpo_top.detectors.rules import Around, budget_of
from grpo_top.detectors.servers import ServerDefaults, same
from grpo_top.records import SAMPLING_ORDER
from grpo_top.snapshot import WINDOW, Status

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from grpo_top.batch import Batch
    from grpo_top.facts import StepFacts
    from grpo_top.records import Sampling, SamplingValue

_Name = TypeVar("_Name")

NAMES_KEPT = 8
"""Different values, and samplers, that the evidence of one setting names at most."""
FEW_BUDGETS = 2
"""A step with more different `max_tokens` than this holds budgets of single requests, not settings of samplers."""
MOST_REQUESTS = 0.5
"""Share of an engine's requests that must differ where evaluations, which sample as they like, are among them."""
FORGOTTEN = 2 * WINDOW
"""Batches without a setting from which on what it last was says nothing of what it is."""
ROWS_OF_ONSET = 25
"""Rollouts that prove it are the first ones, at most this many, then those of the newest step."""


class Config(NamedTuple):
    """One recorded sampling config of a step, and how many of its rollouts it is of."""

    number: int
    sampling: Sampling
    rollouts: int


@dataclass(slots=True)
class Drift:
    """One setting that is not what it should be."""

    since: int
    reference: SamplingValue
    declared: bool
    """Whether the reference is the run record's; else it is what was deployed first."""
    steps: int = 0
    differing: int = 0
    """Train rollouts since then that were sampled otherwise."""
    rollouts: int = 0
    """Train rollouts since then that say how they were sampled."""
    heldout: int = 0
    """Held-out rollouts since then that were sampled otherwise."""
    deployed: dict[SamplingValue, int] = field(default_factory=dict)
    """Values that differ, and how often each was seen."""
    samplers: dict[str, int] = field(default_factory=dict)
    """Samplers that differ, where they are named, and their rollouts."""

    @property
    def value(self) -> SamplingValue:
        """The value that was seen most often."""
        return max(self.deployed, key=lambda value: self.deployed[value])

    @property
    def partial(self) -> bool:
        """Whether some of the rollouts were sampled as they should."""
        return self.differing < self.rollouts

    def words(self, name: str) -> str:
        """`temperature 0.15 deployed, 1.0 intended`."""
        told = f"{name} {numbers.setting(self.value)} deployed, {numbers.setting(self.reference)} "
        told += "intended" if self.declared else f"before step {self.since}"
        if self.partial:
            told += f", on {numbers.part_of(self.differing, self.rollouts)} rollouts"
            if self.samplers:
                told += f" (sampler {', '.join(self.samplers)})"
        return told

    def evidence(self, name: str) -> dict[str, object]:
        """One row of the table of settings."""
        return {
            "setting": name,
            "intended": self.reference if self.declared else None,
            "before": None if self.declared else self.reference,
            "deployed": self.value,
            "deployed_too": [value for value in self.deployed if value != self.value],
            "since": self.since,
            "rollouts": self.differing,
            "of": self.rollouts,
            "heldout_rollouts": self.heldout,
            "samplers": list(self.samplers),
        }


class SamplerDrift(Detector):
    """Rollouts are sampled otherwise than the run record says, or than each other."""

    id = "SAMPLER_DRIFT"
    stage = 4
    severity = Status.FAIL
    series = ("sampling", "truncation_rate", "duplicate_frac")
    needs = ("sampling",)
    knobs = (
        Knob("share", 0.01, "share of a step's rollouts that must be sampled otherwise"),
        Knob("sustain", 1, "steps on which a setting must differ"),
        Knob("stop_cut", 16, "inferred: completions that are truncated at one length below the budget"),
        Knob("stop_steps", 3, "inferred: steps that hold such completions"),
    )
    page = Page(
        what=(
            "The rollouts are not sampled as the run record says. A setting of the inference engine has "
            "another value than the one that was chosen: on the whole fleet, on one sampler of several, or "
            "from some step on. Averages hide it. The loss stays finite, and a colder sampler even raises "
            "the reward, because the policy is asked for its favourite answer only. What is lost is what "
            "GRPO learns from: the disagreement within a group."
        ),
        looks_like=(
            "The sampler panel shows a row whose intended and deployed values differ, and since when. "
            "Downstream, duplicates rise and the spread within groups sinks (temperature, top_p, top_k, "
            "min_p), or completions end early and parse failures rise (max_tokens)."
        ),
        decides=(
            "Where rollouts carry the config that they were sampled with, each setting is compared with the "
            "intended one. It fails once `share` of a step's rollouts differ, on `sustain` steps. A setting "
            "that the run record does not name is compared with the value that was deployed first, so that a "
            "change, or a disagreement between samplers, is seen all the same. Held-out rollouts do not "
            "count: an evaluation may sample as it likes. Where rollouts do not say it and an engine's request "
            "log does, its requests are compared; if the run evaluates, half of them must differ. Where requests "
            "carry budgets of their own, only the largest max_tokens of a step is compared.\n\n"
            "Of inference servers that are watched (--sampler), what they would sample with where a request leaves "
            "a setting out is compared with the intended value, with each other, and with the first look: fail. A "
            "default that is not neutral and that the run record does not name is a warning. Where rollouts record "
            "the setting, or the trainer is known to pass it with each request, the default does not matter: that "
            "is a remark. From the engine's histogram of max_tokens it "
            "fails when no request may have asked for the intended one.\n\n"
            "Two things are inferred. Completions that are all truncated at one length below the intended "
            "max_tokens, with none longer, mean that another budget is in force: fail at `stop_cut` of them "
            "over `stop_steps` steps. Where no sampling config is logged at all, groups that turn into "
            "copies of one text while the policy's entropy leaves a choice over that length were not sampled "
            "from it: warn. A mere jump of duplicates with a drop in the spread of lengths is a watch, never "
            "more."
        ),
        try_next=(
            (
                "Ask the server what it resolves where a request leaves a setting out: the model's "
                "generation_config.json fills it in"
            ),
            "Pass every setting with each request, and restart the sampler that differs",
            "Go on from a checkpoint before the drift",
            "If the deployed value is meant, write it into the run record",
        ),
        mistaken_for=(
            "Tasks that became too easy or too hard: they flatten groups too, but leave the texts different. "
            "Entropy collapse: there the policy itself has narrowed, and entropy fell before duplicates "
            "rose."
        ),
        related=(
            "LOW_DIVERSITY",
            "DEGENERATE_GROUPS",
            "TRUNCATION",
            "ENTROPY_COLLAPSE",
            "RUN_RECORD_CHANGED",
        ),
    )
    share: float
    sustain: float
    stop_cut: float
    stop_steps: float

    def __init__(self, settings: Mapping[str, float]) -> None:
        super().__init__(settings)
        self._drifts: dict[str, Drift] = {}
        self._deployed_first: dict[str, SamplingValue] = {}
        """Settings that the run record does not name, as they were when first seen."""
        self._first_step: int | None = None
        self._compared: tuple[list[int], Sampling | None] = ([], None)
        """The configs of the newest step, and the one that was intended."""
        self._recorded: dict[str, int] = {}
        """Setting that rollouts carry → the last batch of them that did."""
        self._batches = 0
        self._evaluates = False
        """Whether the run evaluates, so that an engine's requests are not all from training."""
        self._stop = HardStop()
        self._copies = Copies()
        self._around = Around(
            "duplicate_frac",
            "distinct_texts_mean",
            "group_reward_std_mean",
            "zero_variance_group_frac",
            "truncation_rate",
            "reward_mean",
        )
        self._rows: tuple[int, ...] = ()
        self._verdict = UNKNOWN
        """By the rollouts."""
        self._defaults = ServerDefaults()
        self._by_servers = False
        """Whether the newest verdict is that of the servers' defaults."""

    def observe(self, facts: StepFacts) -> Verdict:
        """Compare what a step was sampled with, and what its samplers would sample with, with the intended config."""
        recorded = self._observe_rollouts(facts)
        if not facts.servers.all and facts.servers.requests is None:
            self._by_servers = False
            return self._verdict
        self._defaults.update(facts, recorded)
        defaults = self._defaults.verdict()
        self._by_servers = defaults.status > self._verdict.status
        return defaults if self._by_servers else self._verdict

    def _observe_rollouts(self, facts: StepFacts) -> set[str]:
        """Compare a step's rollouts with the intended config, else see what they tell by themselves.

        Returns:
            The settings that they record.
        """
        recorded: set[str] = set()
        batch, requests = facts.batch, facts.requests
        self._evaluates = self._evaluates or bool(facts.evals) or facts.eval_batch is not None
        if batch is not None:
            self._first_step = facts.step if self._first_step is None else self._first_step
            configs, share = _configs(batch), self.share
            self._stop.update(batch, facts.step)
            if requests is not None and (batch is requests or not configs):
                configs, batch = _configs(requests), requests
                share = max(share, MOST_REQUESTS) if self._evaluates else share
            recorded.update(*(config.sampling for config in configs))
            self._batches += 1
            self._recorded |= dict.fromkeys(recorded, self._batches)
            for name in self._worth_comparing(configs, facts):
                self._compare(name, configs, batch, facts, share)
        if not self._recorded:
            self._copies.update(facts)
        if batch is not None:
            self._verdict = self._judge(facts)
            self._around.add(facts)
        return recorded

    def describe(self, facts: StepFacts) -> Details:
        """The settings that differ and what followed; else what was inferred, and from what."""
        if self._by_servers:
            return self._defaults.describe()
        if self._drifts:
            return self._describe_drifts(facts)
        if self._stops_early(facts):
            return self._describe_stop(facts)
        return Details(
            f"every group is one text since step {self._copies.since}, and no sampling config is logged",
            {**self._copies.evidence(), **self._around.evidence()},
            _newest(facts),
            (
                "Log the sampling config with each rollout, or ask the server for its defaults",
                (
                    "Look at what ran before that step: an evaluation that samples greedily and leaves its settings "
                    "in force is the usual cause"
                ),
                f"Go on from a checkpoint before step {self._copies.since}",
            ),
        )

    def _judge(self, facts: StepFacts) -> Verdict:
        if self._drifts:
            longest = max(self._drifts.values(), key=lambda drift: (drift.steps, drift.differing))
            status = Status.FAIL if longest.steps >= self.sustain else Status.WATCH
            onset = min(drift.since for drift in self._drifts.values())
            return Verdict(status, longest.differing / longest.rollouts, self.share, onset)
        if self._stops_early(facts):
            enough = self._stop.cut >= self.stop_cut and self._stop.steps >= self.stop_steps
            status = Status.FAIL if enough else Status.WATCH
            return Verdict(status, self._stop.length, budget_of(facts), self._stop.since)
        if not self._recorded:
            return self._copies.verdict()
        # A setting that is intended and on no rollout may be another one: what is compared does not speak for it.
        intended = facts.run.sampling or self._recorded
        newest = min(self._recorded.get(name, -FORGOTTEN) for name in intended)
        return OK if self._batches - newest < FORGOTTEN else UNKNOWN

    def _worth_comparing(self, configs: list[Config], facts: StepFacts) -> tuple[str, ...]:
        """The settings to compare: none where all is as on the step before, and that was as it should be."""
        now = ([config.number for config in configs], facts.run.sampling)
        before, self._compared = self._compared, now
        return () if not configs or (now == before and not self._drifts) else SAMPLING_ORDER

    def _compare(
        self, name: str, configs: list[Config], batch: Batch, facts: StepFacts, share: float
    ) -> None:
        found: dict[SamplingValue, int] = {}
        for config in configs:
            if name in config.sampling:
                value = config.sampling[name]
                found[value] = found.get(value, 0) + config.rollouts
        if not found:
            return
        if name == "max_tokens" and len(found) > FEW_BUDGETS:
            found = {max(value for value in found if not isinstance(value, str)): sum(found.values())}
        reference = (facts.run.sampling or {}).get(name)
        declared = reference is not None
        if reference is None:
            reference = self._deployed_first.setdefault(name, max(found, key=lambda value: found[value]))
        wrong = {value: rollouts for value, rollouts in found.items() if not same(value, reference)}
        total = sum(found.values())
        if not wrong or sum(wrong.values()) < share * total:
            self._drifts.pop(name, None)
            return
        drift = self._drifts.get(name)
        if drift is None or not same(drift.reference, reference):
            if not self._drifts:
                self._around.mark()
                self._rows = ()
            drift = self._drifts[name] = Drift(facts.step, reference, declared)
        drift.steps += 1
        drift.rollouts += total
        for value, rollouts in wrong.items():
            drift.differing += rollouts
            _count(drift.deployed, value, rollouts)
        where = np.zeros(batch.size, np.bool_)
        for config in configs:
            if config.sampling.get(name) in wrong:
                where |= batch.column("sampling") == config.number
        self._attach(drift, name, where, batch, facts.eval_batch)

    def _attach(
        self, drift: Drift, name: str, where: NDArray[np.bool_], batch: Batch, heldout: Batch | None
    ) -> None:
        """Note which rollouts and samplers differ."""
        if len(self._rows) < ROWS_OF_ONSET:
            self._rows = (*self._rows, *some_rows(batch, where, ROWS_OF_ONSET - len(self._rows)))
        samplers, rollouts = np.unique(batch.column("sampler")[where], return_counts=True)
        for sampler, of in zip(samplers.tolist(), rollouts.tolist(), strict=True):
            if sampler >= 0:
                _count(drift.samplers, batch.names("sampler")[sampler], of)
        for config in _configs(heldout) if heldout is not None else ():
            if name in config.sampling and not same(config.sampling[name], drift.reference):
                drift.heldout += config.rollouts

    def _describe_drifts(self, facts: StepFacts) -> Details:
        drifts = sorted(self._drifts.items(), key=lambda item: (item[1].since, -item[1].differing))
        name, first = drifts[0]
        whom = f"sampler {', '.join(first.samplers)}" if first.partial and first.samplers else "the sampler"
        steps = [
            f"Pass {name} {numbers.setting(first.reference)} with each request, and restart {whom}",
            self.page.try_next[0],
            f"If {numbers.setting(first.value)} is meant, write it into the run record",
        ]
        if self._first_step is not None and first.since > self._first_step:
            steps.insert(2, f"Go on from a checkpoint before step {first.since}")
        newest = () if first.partial else _newest(facts)
        return Details(
            "; ".join(drift.words(name) for name, drift in drifts[:3]),
            {
                "settings": [drift.evidence(name) for name, drift in drifts],
                **(self._defaults.evidence() if self._defaults.found else {}),
                **self._around.evidence(),
            },
            tuple(dict.fromkeys((*self._rows, *newest)))[:50],
            tuple(steps),
        )

    def _stops_early(self, facts: StepFacts) -> bool:
        budget, length = budget_of(facts), self._stop.length
        return budget is not None and length is not None and length <= min(budget - 2, 0.95 * budget)

    def _describe_stop(self, facts: StepFacts) -> Details:
        stop, budget = self._stop, budget_of(facts)
        cut, length = numbers.count(stop.cut), numbers.count(stop.length)
        row = {"setting": "max_tokens", "intended": budget, "deployed": stop.length, "since": stop.since}
        rows: tuple[int, ...] = ()
        if facts.batch is not None:
            rows = some_rows(facts.batch, facts.batch.column("completion_tokens") == stop.length)
        return Details(
            f"{cut} completions are truncated at {length} tokens and none is longer, {numbers.count(budget)} intended",
            {
                "settings": [row],
                "inferred_from": "the length of cut completions",
                "cut_completions": stop.cut,
                "steps": stop.steps,
                **self._around.evidence(),
            },
            rows,
        )


def _configs(batch: Batch) -> list[Config]:
    numbers_ = batch.distinct("sampling")
    found = []
    for number in numbers_:
        if number >= 0:
            alone = len(numbers_) == 1
            rollouts = batch.size if alone else int(np.count_nonzero(batch.column("sampling") == number))
            found.append(Config(number, batch.sampling(number), rollouts))
    return found


def _count(of: dict[_Name, int], name: _Name, more: int) -> None:
    if name in of or len(of) < NAMES_KEPT:
        of[name] = of.get(name, 0) + more


def _newest(facts: StepFacts) -> tuple[int, ...]:
    """Rollouts of this step, all of them alike."""
    return (
        ()
        if facts.batch is None
        else some_rows(facts.batch, np.ones(facts.batch.size, np.bool_), ROWS_OF_ONSET)
    )
