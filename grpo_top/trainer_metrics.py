"""The trainer's own numbers: those that are read as canonical series, and the rest under the trainer's names."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from grpo_top.encode import LARGEST
from grpo_top.formats.names import canonical_keys, canonical_values
from grpo_top.table import TRAINER, StepTable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from grpo_top.records import Step

MOST_OWN = 400
"""Names that are kept as they are; a trainer that logs a number for each layer has thousands."""
KEY_SETS = 256
"""Different sets of keys of rows that are remembered."""
PRINTED = 0
"""Rank of a number that was printed, and rounded."""


class TrainerMetrics:
    """Reads the trainer's rows by the names tables, and above them by what the user has set.

    Args:
        names: a trainer's key → the series that it is, from the table `[names]`.
    """

    def __init__(self, names: Mapping[str, str]) -> None:
        self.keys: dict[str, str | None] = {}
        """The trainer's keys → the series that each is read as, None where it is none."""
        self.own = StepTable()
        """What is read as no series, under the trainer's keys."""
        self._by_user = names
        self._kept: set[str] = set()
        self._unread: dict[tuple[str, ...], list[str]] = {}
        """A row's keys → those of them that are read as no series."""

    def take(self, framework: str | None, record: Step) -> dict[str, float]:
        """The canonical numbers of a row; the others are kept. What is not finite stays."""
        metrics = record.metrics
        mapped = {}
        if self._by_user:
            mapped = {key: self._by_user[key] for key in self._by_user.keys() & metrics.keys()}
            metrics = {key: value for key, value in metrics.items() if key not in mapped}
        if not record.metrics.keys() <= self.keys.keys():
            self.keys |= canonical_keys(framework, metrics)
            self.keys |= mapped
            self._unread = {}
        values = canonical_values(framework, metrics)
        for key, series in mapped.items():
            if (value := record.metrics[key]) is not None:
                values[series] = value
        self._keep(record)
        return {
            series: value if -LARGEST <= value <= LARGEST else math.inf for series, value in values.items()
        }

    def _keep(self, record: Step) -> None:
        metrics, keys = record.metrics, tuple(record.metrics)
        unread = self._unread.get(keys)
        if unread is None:
            if len(self._unread) > KEY_SETS:
                self._unread.clear()
            unread = self._unread[keys] = [key for key in keys if self.keys[key] is None]
        found = {
            key: value if -LARGEST <= value <= LARGEST else math.inf
            for key in unread
            if (value := metrics[key]) is not None and self._has_room(key)
        }
        if found and record.rank == PRINTED:
            known = self.own.of_origin(record.step, TRAINER)
            found = {key: value for key, value in found.items() if key not in known}
        if found:
            self.own.set(record.step, TRAINER, found)

    def _has_room(self, key: str) -> bool:
        if key not in self._kept and len(self._kept) < MOST_OWN:
            self._kept.add(key)
        return key in self._kept
