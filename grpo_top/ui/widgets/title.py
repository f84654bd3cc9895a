"""The title line: which run, how far, how fresh."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, NamedTuple

from grpo_top import numbers
from grpo_top.standing import QUIET_SECONDS, down, gone, held, standing
from grpo_top.text import safe
from grpo_top.ui.lens import words
from grpo_top.ui.widgets.runs import cut, width_of
from grpo_top.ui.widgets.view_rows import ViewRows

if TYPE_CHECKING:
    from grpo_top.ui.glyphs import Glyphs
    from grpo_top.ui.view import View
    from grpo_top.ui.widgets.strips import Run

_BAR = 14
_MINUTE, _HOUR, _DAY = 60.0, 3600.0, 86_400.0
_AGE_STEPS = ((_MINUTE, 10.0), (_HOUR, _MINUTE), (_DAY, 600.0))
"""Ages below the first number are told in whole steps of the second, longer ones in hours: never more than it is."""


class Freshness(NamedTuple):
    """How fresh the data is, in a word and an age; texts that change seldom, so that an idle screen is idle."""

    role: str
    mark: str
    word: str
    detail: str = ""


class _Level(NamedTuple):
    """How much a title says: one column a thing that is dropped where there is no room."""

    gap: int
    long: bool
    bar: bool
    sources: bool
    eta: bool
    age: bool
    clock: bool
    pace: bool
    what: bool


_LEVELS = (
    _Level(3, True, True, True, True, True, True, True, True),
    _Level(3, True, False, False, True, True, True, True, True),
    _Level(2, True, False, False, False, True, True, True, True),
    _Level(2, False, False, False, False, False, True, True, True),
    _Level(1, False, False, False, False, False, True, True, True),
    _Level(1, False, False, False, False, False, False, True, True),
    _Level(1, False, False, False, False, False, False, True, False),
    _Level(1, False, False, False, False, False, False, False, False),
)
"""From everything to the least."""
_FIRST_WIDTH = (150, 110, 96, 90)
"""Widths below which the first levels are not even tried: the texts stay where they are while numbers grow."""
_STEP_COLUMN = (58, 48, 40, 40, 32)


def freshness(view: View, glyphs: Glyphs) -> Freshness:
    """Live, quiet, reading, gone or finished."""
    snapshot = view.snapshot
    state = standing(snapshot, view.now).state
    if view.error:
        return Freshness("fail bold", glyphs.fail, "reading stopped")
    if snapshot.reading is not None:
        return Freshness("accent", glyphs.path, f"reading {numbers.share(snapshot.reading)}")
    if state == "gone":
        return Freshness("warn bold", glyphs.warn, "source gone")
    if snapshot.defects:
        rules = "1 rule" if len(snapshot.defects) == 1 else f"{len(snapshot.defects)} rules"
        return Freshness("fail bold", glyphs.fail, f"{rules} off")
    if state == "finished":
        return Freshness("text", glyphs.ok, "finished")
    if failing := len(down(snapshot)):
        return Freshness("warn bold", glyphs.warn, f"{failing} of {len(snapshot.sources)} sources down")
    if snapshot.last_record_time is None:
        return Freshness("info", glyphs.unknown, "waiting")
    age = max(view.now - snapshot.last_record_time, 0.0)
    if state == "live":
        return Freshness("ok", glyphs.ok, "live", f"{_age(age)} ago")
    return Freshness("warn", glyphs.watch, f"quiet for {_age(age)}")


def partial(view: View, said: Freshness) -> str:
    """What keeps the picture from being whole, unless `said` says so: sources that are down or gone."""
    snapshot = view.snapshot
    failing, lost = len(down(snapshot)), len(gone(snapshot))
    parts = [
        f"{failing} down" if failing and "down" not in said.word else "",
        f"{lost} gone" if lost and "gone" not in said.word else "",
    ]
    return ", ".join(filter(None, parts))


def _age(seconds: float) -> str:
    """An age in steps that grow with it."""
    if seconds < 1:
        return f"{seconds:.1f} s"
    if seconds < QUIET_SECONDS:
        return f"{seconds:.0f} s"
    step = next((step for longest, step in _AGE_STEPS if seconds < longest), _HOUR)
    return numbers.seconds(seconds - seconds % step)


def last_written(newest: float | None, now: float) -> str:
    """When the newest record was written, or on which day: a clock that moves with the run alone.

    Where that is not the time it is now, the word before it says so.
    """
    if newest is None:
        return ""
    try:
        then = time.localtime(newest)
    except (OverflowError, OSError, ValueError):  # no clock shows that
        return ""
    age = abs(now - newest)
    return time.strftime("%H:%M" if age < _MINUTE else "last %H:%M" if age < _DAY else "last %Y-%m-%d", then)


class TitleLine(ViewRows):
    """One line."""

    DEFAULT_CSS = "TitleLine { background: $surface; }"

    def rows_of(self, view: View, width: int, height: int, glyphs: Glyphs) -> list[list[Run]]:  # noqa: ARG002
        """The line, with what fits."""
        return [title_runs(view, width, glyphs)]


def title_runs(view: View, width: int, glyphs: Glyphs) -> list[Run]:
    """The title in `width` cells: the first level of detail that fits."""
    for number, level in enumerate(_LEVELS):
        if number < len(_FIRST_WIDTH) and width < _FIRST_WIDTH[number]:
            continue
        left, middle, right = (
            _left(view, level, glyphs),
            _middle(view, level, glyphs),
            _right(view, level, glyphs),
        )
        start = max(_STEP_COLUMN[min(number, len(_STEP_COLUMN) - 1)], width_of(left) + level.gap)
        if number >= len(_STEP_COLUMN):
            start = width_of(left) + level.gap
        rest = width - start - width_of(middle) - width_of(right)
        if rest >= level.gap:
            return [*left, (" " * (start - width_of(left)), ""), *middle, (" " * rest, ""), *right]
    room = width - width_of(right) - 1
    return [*cut([*left, (" ", ""), *middle], max(room, 0), glyphs.ellipsis), (" ", ""), *right]


def _left(view: View, level: _Level, glyphs: Glyphs) -> list[Run]:
    run = view.snapshot.run
    gap = " " * min(level.gap, 2)
    runs: list[Run] = [(" grpo-top", "accent bold")]
    if run.name:
        runs += [(gap, ""), (safe(run.name), "text bold")]
    if run.recording:
        runs += [(gap, ""), (" recording ", "info reverse")]
    sizes = _sizes(view, level, glyphs)
    if level.long:
        named = [safe(part) for part in (run.framework, (run.algorithm or "").upper()) if part]
        text = f" {glyphs.separator} ".join([*named, *([sizes] if sizes else [])])
    else:
        text = " ".join([*([safe(run.framework)] if run.framework else []), *([sizes] if sizes else [])])
    if text and level.what:
        runs += [(gap, ""), (text, "dim")]
    return runs


def _sizes(view: View, level: _Level, glyphs: Glyphs) -> str:
    run = view.snapshot.run
    if run.group_size is None or run.groups_per_step is None:
        return ""
    if level.bar:
        return f"{run.groups_per_step} groups {glyphs.times} {run.group_size}"
    space = " " if level.long else ""
    return f"{run.groups_per_step}{space}{glyphs.times}{space}{run.group_size}"


def _middle(view: View, level: _Level, glyphs: Glyphs) -> list[Run]:
    run = view.snapshot.run
    step = view.snapshot.judged_step if view.snapshot.judged_step is not None else run.last_step
    if step is None:
        return []
    total = run.total_steps
    runs: list[Run] = [("step ", "dim"), (str(step), "text bold")]
    if total is not None:
        runs.append((f"/{total}", "dim"))
        if level.bar:
            runs += [(" ", ""), *_bar(view.step or 0, step, total, glyphs)]
    if run.since is not None:
        runs.append((f" from {run.since}", "info"))
    if set_beyond := words(view):
        runs += [(" " * min(level.gap, 2), ""), (glyphs.plain(set_beyond), "accent")]
    if view.cursor is not None or not level.pace:
        return runs
    gap = " " * level.gap
    if run.step_seconds is not None:
        time_text, _, unit = numbers.pace(run.step_seconds).partition(" ")
        runs += [(gap, ""), (time_text, "text"), (f" {unit}/step", "dim")]
        if total is not None and level.eta and total > step:
            left = (total - step) * run.step_seconds
            runs += [(gap, ""), ("ETA ", "dim"), (numbers.seconds(left), "text")]
    return runs


def _bar(at: int, step: int, total: int, glyphs: Glyphs) -> list[Run]:
    """How far the run is, to the half of a cell, and where the cursor is."""
    played, done = (min(round(number * _BAR / total), _BAR) for number in (at, step))
    return [
        (glyphs.meter * played, "accent"),
        (glyphs.meter * (done - played), "series1_steps"),
        (glyphs.meter_rest * (_BAR - done), "border"),
    ]


def _first_held(step: int, level: _Level, glyphs: Glyphs, gap: str) -> list[Run]:
    """From which step on rollouts are held, where older ones were let go; at every width."""
    if level.sources:
        return [(f", rollouts from step {step}", "dim")]
    return [(gap, ""), (f"{'rollouts ' if level.clock else ''}{glyphs.at_least}{step}", "dim")]


def _right(view: View, level: _Level, glyphs: Glyphs) -> list[Run]:
    gap = " " * level.gap
    narrow = " " * max(level.gap - 1, 1)
    runs: list[Run] = []
    if view.cursor is not None:
        newest = view.snapshot.judged_step or 0
        runs.append((f" paused at step {view.cursor} ", "accent reverse"))
        if level.age:
            ahead = newest - view.cursor
            runs += [(gap, ""), (f"live is {ahead:,} step{'' if ahead == 1 else 's'} on", "dim")]
    else:
        fresh = freshness(view, glyphs)
        runs += [(f"{fresh.mark} ", fresh.role), (fresh.word, fresh.role)]
        if level.age and fresh.detail:
            runs += [(narrow, ""), (fresh.detail, "dim")]
        if level.sources:
            count = len(view.snapshot.sources)
            runs += [(gap, ""), (f"{count} source{'' if count == 1 else 's'}", "dim")]
        if (kept := held(view.snapshot)) is not None:
            runs += _first_held(kept[1], level, glyphs, narrow)
        if lost := partial(view, fresh):
            runs += [(narrow, ""), (lost, "warn bold")]
    if level.clock and (last := last_written(view.snapshot.last_record_time, view.now)):
        runs += [("  " if level.gap < 3 else gap, ""), (last, "dim")]
    return [*runs, (" ", "")]
