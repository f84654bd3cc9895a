"""A run of any length without a log: what a monitor would hold of it, made at once."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from grpo_top.config import Settings
from grpo_top.detectors import ALL
from grpo_top.history import StepRows
from grpo_top.ledger import Ledger
from grpo_top.picture import picture
from grpo_top.records import Rollout, Run

if TYPE_CHECKING:
    from grpo_top.snapshot import Gone, Snapshot

GROUPS, SIZE = 40, 8


def long_history(steps: int) -> Snapshot:
    """The picture of a run of so many judged steps, with 40 groups of 8 rollouts in each."""
    ledger = Ledger(Settings())
    ledger.add_run(Run(run="long", framework="trl", group_size=SIZE, reward_range=(0.0, 1.0)))
    chance = np.random.default_rng(7)
    per_step = GROUPS * SIZE
    total = steps * per_step
    rewards = (chance.random(total) < 0.5).astype(np.float64)
    texts = chance.integers(1, 1 << 40, total)
    step_of = np.repeat(np.arange(1, steps + 1), per_step)
    _fill_history(ledger, steps, rewards, texts, step_of)
    _fill_verdicts(ledger, steps, rewards, texts)
    return picture(
        ledger,
        now=0.0,
        finished=False,
        reading=None,
        sources=(),
        left_out=(),
        read=lambda row: _read(row, step_of),
    )


def _fill_history(ledger: Ledger, steps: int, rewards, texts, step_of) -> None:
    history, total = ledger.history, len(rewards)
    groups = np.tile(np.repeat(np.arange(GROUPS), SIZE), steps)
    values = {
        "step": step_of,
        "group": groups,
        "index": np.tile(np.arange(SIZE), steps * GROUPS),
        "reward": rewards,
        "advantage": math.nan,
        "completion_tokens": (texts % 512).astype(np.int32),
        "truncated": (texts % 50 == 0).astype(np.int8),
        "policy_start": step_of - 1 - (texts % 3 == 0),
        "policy_end": step_of - 1 - (texts % 3 == 0),
        "trainer_version": step_of - 1,
        "text": texts,
        "task": (groups + GROUPS * (step_of % 50)).astype(np.int32),
        "family": (groups % 3).astype(np.int16),
        "offset": np.arange(total) * 1000,
        "length": 999,
        "live": 1,
    }
    for name, column in history.columns.items():
        given = values.get(
            name, 0 if name in ("split", "source", "part", "verifier_raw", "verifier_known") else -1
        )
        column.write(0, total, given)
    history.length = total
    history.names["task"].ids([f"task {number}" for number in range(GROUPS * 50)])
    history.names["family"].ids(["carry", "plain", "words"])
    per_step = GROUPS * SIZE
    labels = [f"0g{number}" for number in range(GROUPS)]
    for step in range(1, steps + 1):
        rows = history.steps[step] = StepRows()
        rows.take((step - 1) * per_step, step * per_step)
        rows.labels = {label: number for number, label in enumerate(labels)}
        rows.close()


def _fill_verdicts(ledger: Ledger, steps: int, rewards, texts) -> None:
    judge, groups = ledger.judge, steps * GROUPS
    by_group = rewards.reshape(groups, SIZE)
    std = by_group.std(axis=1)
    values = {
        "step": np.repeat(np.arange(1, steps + 1), GROUPS),
        "group": np.tile(np.arange(GROUPS), steps),
        "first_row": np.arange(groups) * SIZE,
        "size": np.full(groups, SIZE),
        "mean": by_group.mean(axis=1),
        "std": std,
        "flat": (std == 0).astype(np.int8),
        "texts": np.full(groups, SIZE),
        "passed": by_group.sum(axis=1).astype(np.int16),
    }
    for name, column in judge.groups.items():
        column.extend(values[name])
    for step in range(1, steps + 1):
        judge.steps.extend([step])
        judge.statuses.extend(np.ones((1, len(ALL)), np.uint8))
        judge.values.extend(np.full((1, len(ALL)), math.nan))
        ledger.table.row(step)
    judge.state.step, judge.state.judged, judge.state.groups = steps, steps, groups


def _read(row: int, step_of) -> Rollout | Gone:
    return Rollout(int(step_of[row]), None, None, prompt=f"prompt {row}", completion=f"completion {row}")
