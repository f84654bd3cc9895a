"""TRL's printed rows: `{'loss': '0.1135', 'reward': '0.9375', …}`, without a step number.

The number comes from the row itself, from the progress bar before it, from the header `Step 12` of the
completions table after it, or from counting rows. What follows the first row shows which of these a log offers:
until then that row waits, and where tables are printed each row waits for its own.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from grpo_top.formats.base import Claim, Reader
from grpo_top.formats.console import PRINTED, console_rows, is_text, printed_dicts, progress_bar, segments
from grpo_top.formats.decode import bare, integer, numbers
from grpo_top.formats.trl_rows import NAME, is_grpo, row_records
from grpo_top.records import Location, Run

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import PurePath

    from grpo_top.formats.base import RunContext
    from grpo_top.records import Record
    from grpo_top.sources.lines import Lines

_HEADER = re.compile(r"─ Step (?P<step>\d{1,12}) ─")
_LONG_PREAMBLE = 60_000
"""Bytes of a head that is all warnings and loading bars, so that rows may yet come."""
_PATIENCE = 5
"""Other texts that a waiting row lets pass before it goes on without a table."""
_ROW_KEYS = frozenset(("loss", "train_runtime", "eval_loss", "reward", "eval_reward"))
_OF_ROLLOUTS = frozenset(("prompt", "completion", "response", "question"))
"""What makes a printed dict a rollout, not a row of numbers."""


def console_claim(path: PurePath, head: bytes) -> Claim | None:
    """A claim on text that holds a printed row which tells of rewards, or may after a long preamble."""
    if not is_text(head):
        return None
    parts = (part for line in head.split(b"\n") if b"{'" in line for part in segments(line))
    rows = [row for part in parts for row in _own_rows(part)]
    if any(map(is_grpo, rows)):
        confidence = 85
    elif rows:
        confidence = 15
    elif len(head) > _LONG_PREAMBLE and (b"GRPO" in head or b"/trl/" in head):
        confidence = 25
    else:
        return None
    return Claim(confidence, "lines", "console", f"{NAME} console {path}", 4)


def _own_rows(part: str) -> list[dict[str, str | None]]:
    """Rows that no `step 12:` precedes, as other trainers' do."""
    return [] if any(console_rows(part)) else _printed_rows(part)


def _printed_rows(part: str) -> list[dict[str, str | None]]:
    rows = printed_dicts(part)
    return [row for row in rows if not _ROW_KEYS.isdisjoint(row) and _OF_ROLLOUTS.isdisjoint(row)]


class _Row(NamedTuple):
    """A printed row."""

    printed: dict[str, str | None]
    location: Location
    bar: int | None
    """What the progress bar has shown since the row before; None where it has not moved."""

    @property
    def trained(self) -> bool:
        """Whether it is a training step's, not an evaluation's or the closing one."""
        return "train_runtime" not in self.printed and not any(
            key.startswith("eval_") for key in self.printed
        )


class ConsoleReader(Reader):
    """Reads printed rows and gives each its step."""

    def __init__(self, context: RunContext) -> None:
        self._context = context
        self._numbers = _StepNumbers()
        self._waiting: _Row | None = None
        self._passed = 0
        self._run = Run()

    def fresh(self) -> ConsoleReader:
        """A reader that has read nothing."""
        return ConsoleReader(self._context)

    def feed(self, lines: Lines) -> list[Record]:
        """Steps and evaluations of these lines; the last row may wait for the next line."""
        found: list[Record] = []
        offset = lines.offset
        for line in lines.lines:
            if b"{'" in line or b"%|" in line or b"Step " in line or self._waiting:
                for part in segments(bare(line)):
                    found.extend(self._part(part, Location(offset, len(line))))
            offset += len(line) + 1
        return found

    def end(self) -> list[Record]:
        """The row that waited for a next line."""
        return list(self._release("end"))

    def _part(self, part: str, location: Location) -> Iterator[Record]:
        bar = progress_bar(part)
        if bar and not bar.what and self._numbers.take_bar(bar.done, bar.total):
            drawn_again = self._waiting is not None and self._waiting.bar is None and bar.done > 0
            yield from self._release("bar", bar.done if drawn_again else None)
            yield from self._announce(total_steps=bar.total)
        if header := _HEADER.search(part):
            self._numbers.take_table(int(header["step"]))
            yield from self._release("table", int(header["step"]))
        rows = _printed_rows(part)
        for printed in rows:
            row = _Row(printed, location, self._numbers.bar_since_row())
            yield from self._release("row" if row.trained else "other")
            if row.trained and self._numbers.must_wait and _stated_step(printed) is None:
                self._waiting, self._passed = row, 0
            else:
                yield from self._take(row)
        if self._waiting and not (bar or rows):
            self._passed += 1
            if self._passed == _PATIENCE:
                yield from self._release("other")

    def _release(self, successor: str, step: int | None = None) -> Iterator[Record]:
        if self._waiting:
            row, self._waiting = self._waiting, None
            self._numbers.settle(successor, row.bar)
            yield from self._take(row, step)

    def _take(self, row: _Row, step: int | None = None) -> Iterator[Record]:
        if "train_runtime" in row.printed:
            yield from self._announce(finished=True)
        else:
            yield from self._announce()
        number = self._numbers.current
        if row.trained:
            stated = _stated_step(row.printed)
            number = self._numbers.next(
                step if stated is None else stated, row.bar, self._context.logging_steps
            )
        yield from row_records(number, numbers(row.printed), PRINTED, row.location)

    def _announce(self, total_steps: int | None = None, finished: bool | None = None) -> Iterator[Record]:
        """The run, where something of it is new."""
        known = Run(
            framework=self._context.framework or NAME,
            total_steps=total_steps or self._run.total_steps,
            finished=finished or self._run.finished,
        )
        if known != self._run:
            self._run = known
            yield known


def _stated_step(printed: dict[str, str | None]) -> int | None:
    """The step that a row says itself: `step`, or `global_step/max_steps` as `12/500`."""
    return integer(
        printed.get("step") or (printed.get("global_step/max_steps") or "").partition("/")[0] or None
    )


class _StepNumbers:
    """Works out which step a training row belongs to."""

    def __init__(self) -> None:
        self.current = 0
        """Step of the last training row."""
        self._source: str | None = None
        """Where numbers come from in this log: `bars`, `tables` or `rows`; None until it has shown."""
        self._bar: int | None = None
        self._bar_total: int | None = None
        self._bar_moved = False
        self._stride: int | None = None

    @property
    def must_wait(self) -> bool:
        """Whether a row's number is only known from what follows it."""
        return self._source in (None, "tables")

    def take_bar(self, done: int, total: int) -> bool:
        """Take the progress bar's number in; False where it is not the training's bar: that is the first seen.

        A bar that falls back is a training that was started again.
        """
        self._bar_total = self._bar_total or total
        if total != self._bar_total:
            return False
        if self._bar is not None and done < self._bar and self._source == "bars":
            self._source, self.current = None, max(done - 1, 0)
        self._bar, self._bar_moved = done, True
        return True

    def bar_since_row(self) -> int | None:
        """What the bar has shown since this was last asked; None where it has shown nothing."""
        moved, self._bar_moved = self._bar_moved, False
        return self._bar if moved else None

    def take_table(self, step: int) -> None:
        """Take the number over a completions table in: it is that of the row before it."""
        if self._source != "bars":
            self._source = "tables"
        self.current = step

    def settle(self, successor: str, bar: int | None) -> None:
        """Learn from what followed a waiting row.

        Rows that follow each other with a bar only before the first were held back by a buffer: the bar says
        nothing of them.
        """
        if self._source is None:
            self._source = "rows" if successor == "row" or (bar is None and successor != "bar") else "bars"

    def next(self, step: int | None, bar: int | None, logging_steps: int | None) -> int:
        """The step of the next training row, `step` where that is known for certain."""
        if step is None and self._source == "bars" and bar is not None and bar > self.current:
            step = bar
        if step is None:
            self._stride = self._stride or logging_steps or 1
            step = self.current + self._stride
        self.current = step
        return step
