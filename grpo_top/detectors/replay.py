"""Stage 4, rollouts: does the same task and seed give the same episode again?"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

import numpy as np

from grpo_top import numbers
from grpo_top.detectors.base import ROLLOUTS, UNKNOWN, Details, Detector, Knob, Page, Verdict
from grpo_top.snapshot import WINDOW, Status
from grpo_top.streaming import ShareWindow

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from grpo_top.batch import Batch
    from grpo_top.facts import StepFacts

REPLAYS_KEPT = 8192
PAIRS_KEPT = 25


class NondeterministicReplay(Detector):
    """The same task and seed give different episodes under one policy."""

    id = "NONDETERMINISTIC_REPLAY"
    stage = 4
    severity = Status.WARN
    series = ("seed", "policy_version")
    sees = frozenset({ROLLOUTS})
    knobs = (Knob("pairs", 3, "pairs over the last 20 steps that ought to be equal and are not"),)
    page = Page(
        what=(
            "A task that was run twice with everything the same came out otherwise. Seed, policy version and "
            "sampling config were equal, so something that no seed controls decides what happens: in the "
            "environment, in the verifier or in the engine. That is noise in the reward, and it makes "
            "outliers impossible to debug."
        ),
        looks_like=(
            "Two rollouts with equal task, seed, version and config whose completions or rewards differ."
        ),
        decides=(
            "Keeps what the last 20 steps gave for each task, seed, policy version and sampling config. "
            "Fires at `pairs` pairs that differ. Groups whose rollouts all carry one seed are left out: "
            "there the seed belongs to the request, and the engine derives another one for each completion. "
            "Without seeds and versions in the log it cannot judge."
        ),
        try_next=(
            "Replay one pair by hand, at temperature 0, to tell the engine from the environment",
            (
                "Look for what the environment reads besides its seed: time, network, a shared service, the "
                "order of a set"
            ),
            "Check that reset clears everything: run a task after another one and alone",
            (
                "Score one completion ten times: a verifier that asks a model must be asked with a fixed "
                "seed and temperature 0"
            ),
        ),
        mistaken_for=(
            "An engine whose results depend on what else is in the batch: numerics differ in the last digit, "
            "and one token may flip. Then completions differ late and rarely, and rewards hardly at all."
        ),
        related=("REWARD_INCONSISTENT", "TERMINATION_SHIFT", "LOGPROB_MISMATCH"),
    )
    pairs: float

    def __init__(self, settings: Mapping[str, float]) -> None:
        super().__init__(settings)
        self._keys: NDArray[np.uint64] = np.empty(0, np.uint64)
        self._seen: NDArray[np.float64] = np.empty((0, 4))
        """Step, row, reward and text (as a float: equal texts stay equal) of each key."""
        self._late = ShareWindow(WINDOW)
        self._texts = 0
        """Pairs of the newest step that differ in their completions, the rest only in their rewards."""
        self._pairs: list[tuple[int, int, int]] = []
        """Of the newest pairs that differ the step and both rows, the earlier rollout's first; the newest first."""

    def observe(self, facts: StepFacts) -> Verdict:
        """Compare a step's rollouts with each other and with those that are kept."""
        batch = facts.batch
        if batch is None or not (batch.column("seed") >= 0).any():
            return self._judge()
        of = _replayable(batch)
        rewards = np.where(batch.known, batch.reward, np.nan)
        self._forget(facts.step)
        known = len(self._keys)
        self._keys = np.concatenate((self._keys, _key(batch)[of]))
        new = np.column_stack(
            (
                np.full(int(of.sum()), facts.step),
                batch.rows[of],
                rewards[of],
                batch.texts[of].astype(np.float64),
            )
        )
        self._seen = np.concatenate((self._seen, new))
        order = np.argsort(self._keys, kind="stable")
        first, second = order[:-1], order[1:]
        pairs = (self._keys[first] == self._keys[second]) & (second >= known)
        first, second = first[pairs], second[pairs]
        texts = self._seen[first, 3] != self._seen[second, 3]
        differ = texts | (np.abs(self._seen[first, 2] - self._seen[second, 2]) > 1e-9)
        self._late.add(int(differ.sum()), len(differ), facts.step)
        if differ.any():
            self._texts = int(texts.sum())
            pairs = self._seen[np.column_stack((first[differ], second[differ])), 1].astype(np.int64)
            newest = [(facts.step, *pair) for pair in pairs[:PAIRS_KEPT].tolist()]
            self._pairs = [*newest, *self._pairs][:PAIRS_KEPT]
        return self._judge()

    def describe(self, facts: StepFacts) -> Details:
        """How many pairs were equal, and the newest that were not."""
        differ, compared = self._late.hits, self._late.items
        return Details(
            f"{numbers.part_of(differ, compared)} replays of one task, seed and policy came out otherwise",
            {
                "pairs_that_differ": differ,
                "pairs": compared,
                "of_the_newest_in_their_text": self._texts,
                "since": self._late.first_hit,
            },
            tuple(chain.from_iterable(rows for step, *rows in self._pairs if step > facts.step - WINDOW)),
        )

    def _judge(self) -> Verdict:
        if not self._late.items:
            return UNKNOWN
        differ = self._late.hits
        if not differ:
            return Verdict(Status.OK, 0.0, self.pairs)
        status = Status.WARN if differ >= self.pairs else Status.WATCH
        return Verdict(status, differ, self.pairs, self._late.first_hit)

    def _forget(self, step: int) -> None:
        """Let go of what is older than the late window, and of the oldest beyond what is kept."""
        kept = self._seen[:, 0] > step - WINDOW
        kept[: max(0, len(kept) - REPLAYS_KEPT)] = False
        self._keys, self._seen = self._keys[kept], self._seen[kept]


def _replayable(batch: Batch) -> NDArray[np.bool_]:
    """Rollouts that a seed of their own, a task, a version and a text make comparable."""
    seeds = batch.column("seed")
    known = (
        (seeds >= 0) & (batch.column("policy_start") >= 0) & (batch.column("task") >= 0) & (batch.texts != 0)
    )
    lowest, highest = np.full(batch.groups, np.iinfo(np.int64).max), np.full(batch.groups, -1, np.int64)
    np.minimum.at(lowest, batch.group, seeds)
    np.maximum.at(highest, batch.group, seeds)
    of_request = (lowest == highest) & (batch.group_size >= 2)
    replayable: NDArray[np.bool_] = known & ~of_request[batch.group]
    return replayable


def _key(batch: Batch) -> NDArray[np.uint64]:
    """One number a rollout for its task, seed, policy version and sampling config."""
    key = np.zeros(batch.size, np.uint64)
    for name in ("task", "seed", "policy_start", "policy_end", "sampling"):
        key = (key ^ (key >> np.uint64(29))) * np.uint64(0xBF58476D1CE4E5B9)
        key += batch.column(name).astype(np.int64).view(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    return key
