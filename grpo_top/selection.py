"""Which of the files that were found are read: those of one run, where there are several."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grpo_top.formats.stored import DatabaseReader
from grpo_top.intake import Intake
from grpo_top.runs import FoundRun, Runs, is_trackers

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from grpo_top.endpoints import Endpoint
    from grpo_top.formats.base import Claim, Format, RunContext
    from grpo_top.remote import Part

_LISTED = 20
"""Lines about one kind of thing that is not read."""


class Selection:
    """Takes the files of the run that is wanted, else of the newest, and stays with that run.

    Args:
        context: what the readers of the run share.
        wanted: the run's name, its folder's, or a tracker's name or id of it.
        one_run: everything that is there is of one run, whatever it looks like.
    """

    def __init__(self, context: RunContext, wanted: str | None, one_run: bool) -> None:
        self.runs = Runs(context)
        self.run: FoundRun | None = None
        """The run that is read."""
        self._context = context
        self.wanted = wanted
        self._one_run = one_run
        self._new: list[_Found] = []
        """Files that were found since the last `take`."""
        self._aside: list[_Found] = []
        """Files that are not read."""
        self._databases: list[Intake] = []
        """Where a tracker's runs may begin without a new file."""

    def add(self, path: Path, where: str, format_: Format, claim: Claim) -> None:
        """Take a file in that a format reads. `where`: its name for people."""
        found = _Found(path, where, format_, claim, self._context)
        self._new.append(found)
        if found.database is not None:
            self._databases.append(found.database)
        self.runs.note(path, format_.name, claim)

    def beside(self, path: Path, format_: Format, claim: Claim) -> None:
        """Take a file in that is not read itself: of a tracker's run it may tell when that was last written."""
        if is_trackers(format_.name):
            self.runs.note(path, format_.name, claim)

    def take(self, top: Path, read: Sequence[Intake | Endpoint | Part]) -> list[Intake]:
        """Those files that are to be read from now on, beside those that are `read`. All lie below `top`."""
        considered, self._new = self._new, []
        if self.runs.update(top) and not self._one_run:
            considered, self._aside = [*self._aside, *considered], []
            self.run = self._same_run(read) or self._first_run()
            for tracker, choice in self._context.choices.items():
                tracked = self.run.tracked if self.run else ()
                choice.allow({one.id for one in tracked if one.tracker == tracker})
        taken: list[Intake] = []
        for found in considered:
            if self._is_of_run(found):
                taken.append(found.intake(len(read) + len(taken)))
            else:
                self._aside.append(found)
        return taken

    def ask_again(self) -> None:
        """Have databases that are not read tell of runs that have begun since."""
        for database in self._databases:
            if isinstance(database.reader, DatabaseReader):
                database.reader.introduce(database.path)

    @property
    def several(self) -> bool:
        """Whether there is more than one run."""
        return not self._one_run and len(self.runs.all) > 1

    @property
    def is_chosen(self) -> bool:
        """Whether the run that is read is the one that was asked for."""
        return self.wanted is not None and self.run is not None and self.run.is_called(self.wanted)

    def left_out(self) -> tuple[str, ...]:
        """A line for each run that is not read, and for each file that is beside several."""
        if not self.several:
            return ()
        others = [run for run in self.runs.all if run != self.run]
        lines = [f"{run.name}: another run, not read; read by {run.command()}" for run in others[:_LISTED]]
        if len(others) > _LISTED:
            lines.append(f"{len(others) - _LISTED} more runs, not read")
        beside = [found for found in self._aside if not self.runs.of(*found.of)]
        return (
            *lines,
            *(f"{found.where}: beside several runs, of none of them" for found in beside[:_LISTED]),
        )

    def _is_of_run(self, found: _Found) -> bool:
        if not self.several:
            return True
        return self.run is not None and self.run.key in self.runs.of(*found.of)

    def _same_run(self, read: Sequence[Intake | Endpoint | Part]) -> FoundRun | None:
        """The run that is read, as it is found now: its folder may have turned out to be a deeper one."""
        for intake in read:
            if not isinstance(intake, Intake):
                continue  # an endpoint is of the run that is watched, whatever it is
            format_name = intake.format.name
            keys = self.runs.of(intake.path, format_name, intake.claim)
            if len(keys) > 1:
                chosen = self._context.choices[format_name].chosen
                keys = frozenset(filter(None, (self.runs.of_tracked(format_name, chosen or ""),)))
            if keys:
                return self.runs.with_key(next(iter(keys)))
        return None

    def _first_run(self) -> FoundRun | None:
        """The run that is wanted; else the one that began last, or was last written where that is not said."""
        found = self.runs.all
        wanted = [run for run in found if self.wanted is not None and run.is_called(self.wanted)]
        if len(wanted) == 1 or len(found) < 2:
            return next(iter(wanted or found), None)
        said = all(run.tracked for run in found)
        written = self.runs.written()

        def age(run: FoundRun) -> tuple[float, float, str]:
            began = max(tracked.began for tracked in run.tracked) if said else 0.0
            return began, written.get(run.key, 0.0), run.name

        return max(found, key=age)


class _Found:
    """A file that a format reads, whether or not it is of the run that is read."""

    def __init__(self, path: Path, where: str, format_: Format, claim: Claim, context: RunContext) -> None:
        self.of = path, format_.name, claim
        self.where = where
        self._format = format_
        self._context = context
        # A tracker's readers tell of the runs that they could read.
        self._intake = self._make() if is_trackers(format_.name) else None

    @property
    def database(self) -> Intake | None:
        """The file, where it is a tracker's database."""
        is_one = self._intake is not None and isinstance(self._intake.reader, DatabaseReader)
        return self._intake if is_one else None

    def intake(self, number: int) -> Intake:
        """The file as a source."""
        intake = self._intake or self._make()
        intake.number = number
        return intake

    def _make(self) -> Intake:
        path, _, claim = self.of
        return Intake(-1, path, self.where, self._format, claim, self._context)
