"""The list of the runs in one place, for a user who has to say which: name, framework, last step, when written."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

from grpo_top.bundle import one_by_one
from grpo_top.intake import Intake
from grpo_top.reading import Reading
from grpo_top.records import EVAL, REQUEST, Rollout, Step
from grpo_top.text import safe

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from grpo_top.bundle import Read
    from grpo_top.endpoints import Endpoint
    from grpo_top.remote import Part
    from grpo_top.runs import FoundRun, Runs

MOST_BYTES = 512 << 20
"""Read for all runs together, the newest first; the last step of those that come after is not looked for."""
_ADDS_NOTHING = frozenset(("rollouts", "traces", "results"))
"""Roles that are read only where there is room for all of a run's files."""


class ListedRun(NamedTuple):
    """One line of the list."""

    run: FoundRun
    framework: str
    last_step: int | None
    """None where the run has no step yet, or is too large to be read for a list."""
    written: float | None
    """Seconds since the epoch."""


class _Glance(Reading):
    """Reads a run for its last step and its framework alone."""

    def __init__(
        self, run: FoundRun, format_name: str | None, fields: Mapping[str, str], most_bytes: int
    ) -> None:
        super().__init__(run.where, format_name=format_name, wanted=run.pick, fields=fields)
        self.last_step: int | None = None
        self.look()
        if self.bytes > most_bytes:
            self._order = [intake for intake in self._order if intake.claim.role not in _ADDS_NOTHING]
        if self.bytes > most_bytes:
            self._order = []

    @property
    def bytes(self) -> int:
        """Size of what would be read."""
        files = [intake.path for intake in self._order if isinstance(intake, Intake)]
        return sum(path.stat().st_size for path in files if path.exists())

    @property
    def framework(self) -> str | None:
        """The trainer, where its files say so."""
        return self._context.framework

    def _take(self, intake: Intake | Endpoint | Part, records: Sequence[Read]) -> None:  # noqa: ARG002
        for record in one_by_one(records):
            if isinstance(record, Rollout) and record.split in (EVAL, REQUEST):
                continue
            if isinstance(record, Step | Rollout) and record.step > (self.last_step or -1):
                self.last_step = record.step

    def _begin_again(self, intake: Intake | Endpoint | Part) -> None:
        pass


def listed(
    runs: Runs,
    format_name: str | None = None,
    fields: Mapping[str, str] | None = None,
    most_bytes: int = MOST_BYTES,
) -> Iterator[ListedRun]:
    """The runs with what a user needs to tell them apart, the one that was written last first.

    format_name, fields: as `Reading` takes them.
    """
    written = runs.written()
    for run in sorted(runs.all, key=lambda run: (-written.get(run.key, 0.0), run.name)):
        glance = _Glance(run, format_name, fields or {}, most_bytes)
        most_bytes -= glance.bytes
        glance.read_all()
        yield ListedRun(
            run,
            glance.framework or next(iter(run.formats), "?"),
            glance.last_step,
            written.get(run.key),
        )


def runs_text(found: Sequence[ListedRun], verb: str) -> str:
    """The list, a run a line; `verb` is the one that the user has typed."""
    rows = [("name", "framework", "last step", "last written", "read by")]
    rows += [
        (
            safe(one.run.name),
            safe(one.framework),
            "?" if one.last_step is None else f"{one.last_step:,}",
            "?" if one.written is None else datetime.fromtimestamp(one.written).strftime("%Y-%m-%d %H:%M"),
            safe(one.run.command(verb)),
        )
        for one in found
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    lines = (
        f"  {name:<{widths[0]}}  {framework:<{widths[1]}}  {step:>{widths[2]}}  {written:<{widths[3]}}  {command}"
        for name, framework, step, written, command in rows
    )
    return "".join(line.rstrip() + "\n" for line in lines)
