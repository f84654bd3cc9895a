"""The time bar of a replay: played, to come, unused budget, and what happened where."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.cells import cell_len

from grpo_top import numbers
from grpo_top.text import first_line, safe
from grpo_top.ui.widgets.runs import filled, width_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from grpo_top.ui.glyphs import Glyphs
    from grpo_top.ui.rollouts.playing import Playing
    from grpo_top.ui.rollouts.turns import Turn
    from grpo_top.ui.widgets.runs import Row

WIDE = 110


@dataclass(frozen=True, slots=True)
class Length:
    """How long a completion is, and could have been."""

    tokens: int | None = None
    budget: int | None = None
    end: str | None = None
    """How it ended, as the log says."""
    truncated: bool | None = None
    loop: float | None = None
    """Where the loop begins in which it ends, as a share of the text; None: in none."""


def time_rows(playing: Playing, length: Length, width: int, height: int, glyphs: Glyphs) -> list[Row]:
    """The bar, and where there are two rows its labels."""
    head = _head(playing, length, width, glyphs)
    tail = _tail(playing, length, width)
    room = width - width_of(head) - width_of(tail)
    if room < 4 or not playing.turns:
        return [filled(head, width, glyphs.ellipsis)]
    bar, labels = _turns(playing, room, glyphs) if playing.by_turns else _words(playing, length, room, glyphs)
    rows = [filled([*head, *bar, *tail], width, glyphs.ellipsis)]
    if height > 1:
        before = width_of(head)
        rows.append(
            filled([(" " * before, ""), *_placed(labels, room + width_of(tail))], width, glyphs.ellipsis)
        )
    return rows


def _head(playing: Playing, length: Length, width: int, glyphs: Glyphs) -> Row:
    """State, speed and position. As wide as it gets while it plays, so that the bar stays where it is."""
    (what, at), of = _position(playing, length)
    mark = (glyphs.selected if playing.running else " ", "accent bold")
    speed = f"{glyphs.times}{playing.speed}"
    if width < WIDE:
        about = "~" if what.startswith("near") else ""
        row: Row = [
            (" ", ""),
            mark,
            (f" {speed}", "accent"),
            ("  ", ""),
            (f"{about}{at}", "text bold"),
            (f"/{of}", "dim"),
        ]
        most = 8 + 2 * len(of)
    else:
        state = (" play  ", "accent bold") if playing.running else (" paused", "dim")
        row = [
            (" ", ""),
            mark,
            state,
            (f" {speed}   ", "text"),
            (f"{what} ", "dim"),
            (at, "text bold"),
            (f" of {of}", "dim"),
        ]
        most = 31 + 2 * len(of)
    return filled(row, most + 2, glyphs.ellipsis)


def _position(playing: Playing, length: Length) -> tuple[tuple[str, str], str]:
    """What is counted and where it stands, and how many there are of it."""
    if playing.by_turns:
        counted = [turn.number for turn in playing.turns if turn.number is not None]
        turn = playing.turns[playing.turn].number if playing.turns else None
        return ("turn", "0" if turn is None else str(turn)), str(len(counted))
    size = len(playing.text)
    if length.tokens is None:
        return ("character", numbers.count(playing.played)), numbers.count(size)
    token = round(playing.share * length.tokens)
    exact = token in {0, length.tokens}
    return ("token" if exact else "near token", numbers.count(token)), numbers.count(length.tokens)


def _tail(playing: Playing, length: Length, width: int) -> Row:
    if playing.by_turns or length.budget is None or length.tokens is None:
        return [(" ", "")]
    gap = "         " if width >= WIDE else "  "
    return [(f" budget {numbers.count(length.budget)}{gap}", "limit")]


def _words(playing: Playing, length: Length, room: int, glyphs: Glyphs) -> tuple[Row, list[_Label]]:
    """The bar by words, to the token budget where both are known; and the labels under it."""
    last = room - 1
    tokens, budget = length.tokens, length.budget
    known = tokens is not None and budget is not None and tokens > 0
    whole = max(budget or 0, tokens or 0) if known else 0
    share = tokens / whole if known and tokens is not None else 1.0
    end = round(share * last)
    at = round(playing.share * share * last)
    cells: list[tuple[str, str]] = [(glyphs.meter_rest, "border")] * room
    for cell in range(end + 1):
        cells[cell] = (glyphs.meter, "accent") if cell <= at else (glyphs.meter, "dim")
    if length.loop is not None:
        cells[round(length.loop * share * last)] = (glyphs.lane_once, "warn bold")
    cells[last] = (glyphs.lane_end, "limit")
    cells[end] = (glyphs.lane_end, "warn bold" if length.truncated else "text")
    cells[at] = (glyphs.bullet, "accent bold")
    return _merged(cells), _word_labels(playing, length, whole, last, (at, end))


@dataclass(frozen=True, slots=True)
class _Label:
    """A word under a cell of the bar."""

    cell: int
    text: str
    role: str
    centred: bool = True


def _word_labels(
    playing: Playing, length: Length, whole: int, last: int, cells: tuple[int, int]
) -> list[_Label]:
    at, end = cells
    tokens = length.tokens
    ended = first_line(length.end, 12) if length.end else ""
    if length.truncated:
        ended = f"{ended}, cut off" if ended and ended != "length" else "cut off"
    if not whole or tokens is None:
        labels = [_Label(end, ended, "warn" if length.truncated else "dim")]
    else:
        labels = [
            _Label(
                end,
                f"{numbers.count(tokens)} {ended}".strip(),
                "warn" if length.truncated else "text",
                centred=False,
            )
        ]
        token = round(playing.share * tokens)
        if 0 < token < tokens:
            labels.append(_Label(at, numbers.count(token), "accent"))
    if length.loop is not None:
        share = end / last if last else 1.0
        labels.append(_Label(round(length.loop * share * last), "loop", "warn"))
    if whole:
        labels += [_Label(round(tick / whole * last), numbers.count(tick), "dim") for tick in _ticks(whole)]
    return labels


def _ticks(whole: int) -> list[int]:
    """The first token, and the quarters of the budget."""
    return sorted({1, *(round(whole * quarter / 4) for quarter in (1, 2, 3, 4))})


def _turns(playing: Playing, room: int, glyphs: Glyphs) -> tuple[Row, list[_Label]]:
    """A segment a turn, as long as its text, and its name under it."""
    names = [turn_name(turn) for turn in playing.turns]
    sizes = _shared(playing.turns, [cell_len(name) + 1 for name in names], room)
    row: Row = []
    labels: list[_Label] = []
    cell = 0
    for number, size in enumerate(sizes):
        if size < 2:
            continue
        line = size - 1
        if number < playing.turn:
            row.append((glyphs.meter * line, "accent"))
        elif number > playing.turn:
            row.append((glyphs.meter_rest * line, "border"))
        else:
            before = line // 2
            row += [
                (glyphs.meter * before, "text"),
                (glyphs.bullet, "accent bold"),
                (glyphs.meter * (line - before - 1), "text"),
            ]
        row.append((" ", ""))
        role = (
            "accent bold" if number == playing.turn else "series1" if playing.turns[number].policy else "dim"
        )
        labels.append(_Label(cell, names[number], role, centred=False))
        cell += size
    return row, labels


def turn_name(turn: Turn) -> str:
    """`2 tool`; the prompt's turns have no number."""
    who = first_line(turn.who, 12)
    return who if turn.number is None else f"{turn.number} {who}"


def _shared(turns: Sequence[Turn], least: list[int], room: int) -> list[int]:
    """Cells of each turn: by the length of what is said and called, its name at least, if there is room for that."""
    if sum(least) > room:
        return [room // len(turns)] * len(turns) if len(turns) * 2 <= room else [2] * (room // 2)
    said = [len(turn.text) + sum(len(call.arguments) for call in turn.calls) for turn in turns]
    spare, total = room - sum(least), max(1, sum(said))
    return [at_least + spare * size // total for at_least, size in zip(least, said, strict=True)]


def _placed(labels: list[_Label], width: int) -> Row:
    """Labels in one row: the first ones first, the others where there is room."""
    taken = [False] * width
    kept: list[tuple[int, str, str]] = []
    for label in labels:
        text = safe(label.text)
        size = cell_len(text)
        start = max(0, min(label.cell - (size // 2 if label.centred else 0), width - size))
        if not text or size > width or any(taken[max(0, start - 3) : start + size + 3]):
            continue
        taken[start : start + size] = [True] * size
        kept.append((start, text, label.role))
    row: Row = []
    used = 0
    for start, text, role in sorted(kept):
        row += [(" " * (start - used), ""), (text, role)]
        used = start + cell_len(text)
    return row


def _merged(cells: list[tuple[str, str]]) -> Row:
    row: Row = []
    for text, role in cells:
        if row and row[-1][1] == role:
            row[-1] = (row[-1][0] + text, role)
        else:
            row.append((text, role))
    return row
