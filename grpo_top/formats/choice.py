"""Which run is read where one place holds several, as trackers' folders and databases do."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping
    from pathlib import PurePath

    from grpo_top.formats.base import RunContext

NOT_READ = "another run, not read: give its folder to read it"


class Offer(NamedTuple):
    """One of a tracker's runs."""

    began: float
    name: str
    place: PurePath | None
    """The folder or the file where it is."""
    has_folder: bool
    """Whether that is a folder of its own."""


class Choice:
    """Takes one of a tracker's runs: the one that the user named, else the one that began last when reading began.

    It stays with that one. A run that begins later is another run, and its steps are not mixed in.
    """

    def __init__(self, wanted: str | None) -> None:
        self._wanted = wanted
        self._offers: dict[str, Offer] = {}
        self._folders: dict[PurePath, str] = {}
        self._allowed: Collection[str] | None = None
        self._chosen: str | None = None

    def offer(
        self,
        run: str,
        began: float,
        name: str = "",
        folder: PurePath | None = None,
        within: PurePath | None = None,
    ) -> None:
        """Make a run known.

        Args:
            run: its id.
            began: when; any number that grows from run to run.
            name: what people call it.
            folder: where all its files are, if it has one of its own; else its only file.
            within: the database, or the folder of several runs, that it is in.
        """
        place = within if folder is None else folder
        self._offers[run] = Offer(began, name or run, place, folder is not None)
        if folder is not None:
            self._folders[folder] = run

    @property
    def offers(self) -> Mapping[str, Offer]:
        """Every run by its id, in the order in which they became known."""
        return self._offers

    @property
    def chosen(self) -> str | None:
        """The run that is read; None where there is none yet. Asked when all that is there has been offered."""
        if self._chosen is None:
            found = [run for run in self._offers if self._allowed is None or run in self._allowed]
            self._chosen = max(found, key=self._preference, default=None)
        return self._chosen

    def allow(self, runs: Collection[str]) -> None:
        """Take one of these and no other. What was chosen stays."""
        self._allowed = runs

    def is_read(self, run: str) -> bool:
        """Whether this run is the one that is read."""
        return run == self.chosen

    def run_of(self, path: PurePath) -> str | None:
        """The run in whose folder a file lies, the outermost one; None where it is in none."""
        places = (*reversed(path.parents), path)
        return next((self._folders[place] for place in places if place in self._folders), None)

    def note(self, runs: Iterable[str]) -> str:
        """One line about those runs of a database that are not read; empty where there are none."""
        here = {run: self._offers[run].name for run in runs if run in self._offers}
        chosen = here.pop(self.chosen or "", None)
        if not here:
            return ""
        names = list(here.values())
        listed = ", ".join(names[-3:]) + (", …" if len(names) > 3 else "")
        if chosen is None:
            return f"not read: {listed}; give its path alone to read it"
        return f"{chosen} is read, not {listed}; --run NAME reads another"

    def _preference(self, run: str) -> tuple[bool, float, str]:
        return self._wanted in (run, self._offers[run].name), self._offers[run].began, run


def choice_of(context: RunContext, tracker: str) -> Choice:
    """The one choice that all readers of a tracker share."""
    return context.choices.setdefault(tracker, Choice(context.wanted))


def is_read(context: RunContext, path: PurePath) -> bool:
    """Whether a file is of a run that is read, or of none that has a folder of its own."""
    found = ((choice, choice.run_of(path)) for choice in context.choices.values())
    return all(run is None or choice.is_read(run) for choice, run in found)
