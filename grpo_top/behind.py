"""What `--reference` names, read beside the run: by a monitor of its own, in the thread of the run's monitor."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from grpo_top.config import Setting, Settings
from grpo_top.detectors import BY_ID
from grpo_top.monitor import Monitor, NothingReadable
from grpo_top.numbers import span
from grpo_top.reference import Partings, Reference, part, wanted
from grpo_top.sources.urls import is_url
from grpo_top.text import safe

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from grpo_top.reference import Wanted
    from grpo_top.snapshot import Series


class Behind:
    """What is laid behind a run.

    Args:
        text: `--reference` as the user gave it: another run, or `self:FROM-TO` for an earlier part of this one.
        where, settings, since, run: of the run that is read, as `Monitor` takes them. Its reference is read by the
            same names, and not judged.

    Raises:
        ValueError: it is no place and no part of a run.
    """

    def __init__(
        self,
        text: str,
        where: Sequence[str],
        settings: Settings,
        since: int | None = None,
        run: str | None = None,
    ) -> None:
        self._text = text
        self._wanted = wanted(text)
        self._since = since or 0
        self._monitor: Monitor | None = None
        """None where the part lies in the run's own history."""
        place = self._wanted.where
        if place:
            self._monitor = Monitor([place], _unjudged(settings))
        elif self._since > self._wanted.first:
            self._monitor = Monitor(where, _unjudged(settings, own=True), run=run)
        self._problem = ""
        self._partings = Partings()
        self._series: Mapping[str, Series] = {}
        self._version = -1

    def poll(self, seconds: float) -> bool:
        """Read for at most about `seconds`; whether anything new came."""
        monitor = self._monitor
        if monitor is None or self._problem:
            return False
        came = monitor.poll(seconds)
        if monitor.selection.several and not monitor.selection.is_chosen:
            names = ", ".join(safe(found.name) for found in monitor.selection.runs.all[:4])
            self._problem = f"several runs ({names}): name the folder of one"
        return came or bool(self._problem)

    def read_all(self) -> None:
        """Read everything that is there. ValueError where nothing of it can be read."""
        if self._monitor is None:
            return
        self._monitor.look()
        self.poll(0)
        try:
            if not self._problem:
                self._monitor.read_all()
                self._monitor.require_readable()
        except NothingReadable as error:
            self._problem = str(error)
        if self._problem:
            raise ValueError(f"--reference {self._text}: {self._problem}")

    def under(self, series: Mapping[str, Series]) -> Reference:
        """What lies behind a run with these series."""
        monitor, found = self._monitor, self._wanted
        if monitor is None:
            own: Mapping[str, Series] = part(series, found.first, found.last, found.last + 1)
        else:
            if monitor.ledger.version != self._version:
                self._version = monitor.ledger.version
                self._series = monitor.snapshot().series
            at = max(found.last + 1, self._since)
            own = self._series if found.where else part(self._series, found.first, found.last, at)
        return Reference(
            _name(found),
            own,
            series,
            self._text,
            None if monitor is None else monitor.reading,
            self._problem or ("no log there yet" if monitor is not None and not monitor.files else ""),
            self._partings,
        )

    def close(self) -> None:
        """Watch nothing more."""
        if self._monitor is not None:
            self._monitor.close()


def _name(found: Wanted) -> str:
    """What it is called on the screen: the folder's name, a file's with its folder."""
    if not found.where:
        return f"steps {span(found.first, found.last)}"
    if is_url(found.where):
        return found.where.partition("://")[2].rstrip("/")
    path = Path(found.where).resolve()
    return path.name if path.is_dir() else f"{path.parent.name}/{path.name}"


def _unjudged(settings: Settings, *, own: bool = False) -> Settings:
    """Settings by which a run is read under the same names, with every rule off. `own`: it is the same run."""
    run = {name: value for name, value in settings.run.items() if own or name != "name"}
    off = {id_: {"enabled": Setting(0.0, "--reference")} for id_ in BY_ID}
    return Settings(off, run, settings.fields, settings.names)
