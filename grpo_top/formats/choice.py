"""Which run is read where one place holds several, as trackers' folders and databases do."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from grpo_top.formats.base import RunContext


class _Offer(NamedTuple):
    began: float
    name: str


class Choice:
    """Takes one run: the one that the user named, else the one that began last when reading began.

    It stays with that one. A run that begins later is another run, and its steps are not mixed in.
    """

    def __init__(self, wanted: str | None) -> None:
        self._wanted = wanted
        self._offers: dict[str, _Offer] = {}
        self._chosen: str | None = None

    def offer(self, run: str, began: float, name: str = "") -> None:
        """Make a run known.

        Args:
            run: its id.
            began: when; any number that grows from run to run.
            name: what people call it.
        """
        self._offers[run] = _Offer(began, name or run)

    @property
    def chosen(self) -> str | None:
        """The run that is read; None where there is none yet. Asked when all that is there has been offered."""
        if self._chosen is None and self._offers:
            self._chosen = max(self._offers, key=self._preference)
        return self._chosen

    def is_read(self, run: str) -> bool:
        """Whether this run is the one that is read."""
        return run == self.chosen

    def note(self, run: str) -> str:
        """One line about a run in a folder of its own that is not read; empty for the one that is."""
        return "" if self.is_read(run) else "another run, not read: give its folder to read it"

    def note_of_others(self) -> str:
        """One line about the other runs of a database; empty where there are none."""
        others = [offer.name for run, offer in self._offers.items() if run != self._chosen]
        if self._chosen is None or not others:
            return ""
        named = ", ".join(others[-3:]) + (", …" if len(others) > 3 else "")
        return (
            f"{self._offers[self._chosen].name} is read, not {named}; "
            f'for another put name = "{others[-1]}" under [run] in grpo-top.toml'
        )

    def _preference(self, run: str) -> tuple[bool, float, str]:
        return self._wanted in (run, self._offers[run].name), self._offers[run].began, run


def choice_of(context: RunContext, tracker: str) -> Choice:
    """The one choice that all readers of a tracker share."""
    known = context.notes.get(f"{tracker} runs")
    if not isinstance(known, Choice):
        known = context.notes[f"{tracker} runs"] = Choice(context.wanted)
    return known
