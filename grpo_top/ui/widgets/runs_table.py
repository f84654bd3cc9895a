"""The table of runs as rows: state, step, reward, first cause and freshness of each, and more of the selected one."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from rich.cells import cell_len

from grpo_top import numbers
from grpo_top.snapshot import Status
from grpo_top.standing import QUIET_SECONDS
from grpo_top.text import first_line, safe
from grpo_top.ui.evidence.layout import Column, on_ground, table
from grpo_top.ui.glyphs import STATUS_ROLES
from grpo_top.ui.panels.said import ended
from grpo_top.ui.widgets.runs import cut, ends, filled
from grpo_top.ui.widgets.spark import spark
from grpo_top.ui.widgets.title import last_written

if TYPE_CHECKING:
    from collections.abc import Sequence

    from grpo_top.overview import RunState
    from grpo_top.ui.glyphs import Glyphs
    from grpo_top.ui.widgets.strips import Run

    Row = list[Run]

DETAIL_ROWS = 4
"""Under the table, in windows of at least ROWS_FOR_DETAIL rows."""
ROWS_FOR_DETAIL = 14
_SPARK, _SPARK_WIDE = 16, 28
_LEAST_CAUSE = 18
"""Cells that the first cause keeps: others leave before it is cut."""
_NARROW, _WIDE = 70, 150
_NO_TRAINER = frozenset(("grpo-top", "jsonl", "csv", "console", "requests"))
"""Formats that any trainer's log may have."""
_HOUR, _DAY = 3_600.0, 86_400.0
_QUIET = {
    Status.OK: "all quiet",
    Status.WATCH: "a limit is crossed, not for long enough yet",
    Status.UNKNOWN: "nothing to judge yet",
    Status.WARN: "warn",
    Status.FAIL: "fail",
}
"""What is said of a run that has no first cause."""
_WORDS = {
    Status.FAIL: "FAIL",
    Status.WARN: "WARN",
    Status.WATCH: "watch",
    Status.INFO: "ok",
    Status.OK: "ok",
}


def title_row(
    where: Sequence[str], states: Sequence[RunState], now: float, width: int, glyphs: Glyphs, error: str = ""
) -> Row:
    """The program, the place, how many runs there are and how they stand, when one of them last wrote."""
    place = safe(" ".join(where))
    if len(place) > width // 4:
        place = f"{glyphs.ellipsis}{place[-(width // 4) :].partition('/')[2] or place[-(width // 4) :]}"
    left: Row = [
        (" grpo-top", "accent bold"),
        ("  ", ""),
        (place, "text bold"),
        (f"  {len(states)} runs", "dim"),
    ]
    middle: Row = []
    for status in (Status.FAIL, Status.WARN):
        count = sum(state.status is status for state in states)
        if count:
            middle.append((f"{glyphs.mark(status)} {count} {status.word}   ", f"{STATUS_ROLES[status]} bold"))
    unread = sum(not state.read for state in states)
    if error:
        middle.append((f"{glyphs.fail} reading stopped: {first_line(error, 60)}   ", "fail bold"))
    elif unread and width >= _NARROW:
        middle.append((f"reading {len(states) - unread + 1} of {len(states)}   ", "accent"))
    newest = max((state.written for state in states if state.written is not None), default=None)
    return ends(left, [*middle, (last_written(newest, now), "dim"), (" ", "")], width, glyphs.ellipsis)


def table_rows(
    states: Sequence[RunState],
    shown: Sequence[int],
    selected: int,
    now: float,
    width: int,
    glyphs: Glyphs,
) -> list[Row]:
    """A heading, and one row for each of those states that are `shown`."""
    sparks = _SPARK_WIDE if width >= _WIDE else _SPARK
    cells = [_cells(states[at], now, sparks, glyphs) for at in shown]
    rows = table(_columns(states, width, sparks), cells, width - 3, glyphs)
    heading: Row = [("  ", ""), *((text, "dim") for text, _ in rows[0])]
    chosen = [at == selected for at in shown]
    return [
        heading,
        *(_selectable(row, one, width, glyphs) for row, one in zip(rows[1:], chosen, strict=True)),
    ]


def detail_rows(state: RunState, width: int, glyphs: Glyphs) -> list[Row]:
    """What the selected run's first cause is, what to do first, and what reads it."""
    first = state.first_cause
    if state.error:
        mark, role, said = glyphs.fail, "fail bold", "cannot be read"
        rows: list[Row] = [[("    ", ""), (first_line(state.error, width), "text")], []]
    elif first is None:
        status = Status.OK if state.status is Status.INFO else state.status
        mark, role, rows = glyphs.mark(status), STATUS_ROLES[status], [[], []]
        said = _QUIET[status] if state.read else "not read yet"
    else:
        mark, role, said = glyphs.mark(first.severity), f"{STATUS_ROLES[first.severity]} bold", first.id
        todo = ended(safe(first.try_next[0]).partition(". ")[0]) if first.try_next else ""
        rows = [
            [("    ", ""), (safe(first.summary), "bright bold")],
            [("    ", ""), (glyphs.plain(todo), "text")],
        ]
    head: Row = [("  ", ""), (f"{mark} {said}", role)]
    if first is not None:
        head.append((f"  since step {first.onset}", "text"))
        head.append((f"   explains {', '.join(state.explains)}" if state.explains else "", "dim"))
    command: Row = [("    ", ""), ("read by  ", "dim"), (safe(state.run.command()), "dim")]
    return [cut(row, width, glyphs.ellipsis) for row in (head, *rows, command)]


def freshness_of(state: RunState, now: float, glyphs: Glyphs) -> Run:
    """Live, quiet, finished, or when it was last written."""
    if state.error:
        return "", "dim"
    if not state.read:
        return (f"reading {numbers.share(state.reading)}", "accent") if state.reading else ("", "dim")
    if state.finished:
        return "finished", "text"
    if state.written is None:
        return "gone", "warn"
    age = max(now - state.written, 0.0)
    if age < max(QUIET_SECONDS, 2 * (state.step_seconds or 0.0)):
        return f"{glyphs.ok} live", "ok"
    if age < _DAY:
        said = f"quiet {numbers.seconds(age - age % (_HOUR if age >= _HOUR else 60 if age >= 60 else 10))}"
        return said, "warn" if age < _HOUR else "dim"
    return time.strftime("%Y-%m-%d", time.localtime(state.written)), "dim"


def _columns(states: Sequence[RunState], width: int, sparks: int) -> list[Column]:
    """The columns, as wide as all runs need and not only those that are seen: nothing moves while one scrolls."""
    most = max(20, width // 4)
    names = max((cell_len(_name_text(state)) for state in states), default=0)
    steps = max((len(_step_text(state)) for state in states), default=0)
    trainers = max((cell_len(_trainer(state)) for state in states), default=0)
    return [
        Column("state", least=7),
        Column("run", least=min(max(names, 12), most), most=most),
        Column("trainer", rank=6, least=min(trainers, 16), most=16),
        Column("step", right=True, rank=1, least=max(steps, 4)),
        Column("reward", right=True, rank=2, least=6),
        Column("", rank=5, least=sparks, most=sparks),
        Column("written", rank=3, least=11),
        Column("since", right=True, rank=4, least=5),
        Column("first cause", least=_LEAST_CAUSE),
    ]


def _cells(state: RunState, now: float, cells_of_spark: int, glyphs: Glyphs) -> list[Row]:
    done, slash, total = _step_text(state).partition("/")
    step: Row = [(done, "text"), (slash + total, "dim")]
    reward = "" if state.reward is None else numbers.value(state.reward)
    spark_row: Row = [("", "dim")]
    if state.steps is not None and state.rewards is not None:
        row = spark(state.steps, state.rewards, cells_of_spark, glyphs=glyphs)
        spark_row = row.runs("series1_steps")
    first = state.first_cause
    if state.error:
        cause: Row = [(first_line(state.error, 80), "fail")]
    elif first is None:
        cause = [("", "dim")]
    else:
        role = STATUS_ROLES[first.severity]
        more = f"  explains {len(state.explains)} more" if state.explains else ""
        cause = [(first.id, f"{role} bold"), (more, "dim")]
    return [
        _state(state, glyphs),
        _name(state),
        [(_trainer(state), "dim")],
        step,
        [(reward, "text")],
        spark_row,
        [freshness_of(state, now, glyphs)],
        [("" if first is None else str(first.onset), "text")],
        cause,
    ]


def _name(state: RunState) -> Row:
    role = "text bold" if state.status is Status.FAIL else "text"
    name, gap, id_ = _name_text(state).partition("  ")
    return [(name, role), (gap + id_, "dim")]


def _name_text(state: RunState) -> str:
    """What it is called here; the name that a tracker's run has in its log before the id that its folder has."""
    own, here = safe(state.name), safe(state.run.name)
    return here if state.run.root is not None or not own or own in here else f"{own}  {here}"


def _step_text(state: RunState) -> str:
    if state.step is None:
        return ""
    return str(state.step) if state.total_steps is None else f"{state.step}/{state.total_steps}"


def _trainer(state: RunState) -> str:
    """What trains it, as far as that is known before it is read."""
    formats = (name for name in state.run.formats if name not in _NO_TRAINER)
    return safe(state.framework or ("" if state.read else next(formats, "")))


def _state(state: RunState, glyphs: Glyphs) -> Row:
    if state.error:
        return [(f"{glyphs.fail} error", "fail bold")]
    if not state.read:
        return [(f"{glyphs.path} …" if state.reading is not None else "", "accent")]
    word = _WORDS.get(state.status, "")
    if state.status is Status.UNKNOWN:
        return [(f"{glyphs.unknown} ", "info"), ("no step" if state.step is None else "?", "dim")]
    if state.status is Status.FAIL:
        return [(f"{glyphs.mark(state.status)} {word}", "fail bold")]
    loud = state.status is Status.WARN
    mark = glyphs.mark(Status.OK if state.status is Status.INFO else state.status)
    role = STATUS_ROLES[Status.OK if state.status is Status.INFO else state.status]
    return [(f"{mark} ", role), (word, f"{role} bold" if loud else "text" if role == "ok" else role)]


def _selectable(row: Row, chosen: bool, width: int, glyphs: Glyphs) -> Row:
    if not chosen:
        return [("  ", ""), *row]
    return on_ground(filled([(f"{glyphs.selected} ", "accent bold"), *row], width, glyphs.ellipsis), "raised")
