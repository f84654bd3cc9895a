"""The time bar of a replay: played, to come, unused budget, and what happened where."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rich.cells import cell_len

from grpo_top import numbers
from grpo_top.text import first_line, safe
from grpo_top.ui.widgets.runs import filled, width_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from grpo_top.ui.glyphs import Glyphs
    from grpo_top.ui.rollouts.playing import Playing
    from grpo_top.ui.rollouts.turns import Turn
    from grpo_top.ui.widgets.runs import Row

_APART = 3
"""Blanks between two words under the bar."""
WIDE = 110


@dataclass(frozen=True, slots=True)
class Length:
    """How long a completion is, and could have been."""

    tokens: int | None = None
    budget: int | None = None
    end: str | None = None
    """How it ended, as the log says."""
    truncated: bool | None = None
    loops: Mapping[int, float] = field(default_factory=dict)
    """Where the loop begins in which a turn ends, as a share of its text, by the turn's index."""


def time_rows(playing: Playing, length: Length, width: int, height: int, glyphs: Glyphs) -> list[Row]:
    """The bar, and where there are two rows its labels."""
    head = _head(playing, length, width, glyphs)
    tail = _tail(playing, length, width)
    room = width - width_of(head) - width_of(tail)
    if room < 4 or not playing.turns:
        return [filled(head, width, glyphs.ellipsis)]
    make = _turns if playing.by_turns else _words
    bar, labels = make(playing, length, room, glyphs)
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
    loop = length.loops.get(playing.turn)
    if loop is not None:
        cells[round(loop * share * last)] = (glyphs.lane_once, "warn bold")
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
    after: str = ""
    """What follows it in another role."""


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
    loop = length.loops.get(playing.turn)
    if loop is not None:
        share = end / last if last else 1.0
        labels.append(_Label(round(loop * share * last), "loop", "warn"))
    if whole:
        labels += [_Label(round(tick / whole * last), numbers.count(tick), "dim") for tick in _ticks(whole)]
    return labels


def _ticks(whole: int) -> list[int]:
    """The first token, and the quarters of the budget."""
    return sorted({1, *(round(whole * quarter / 4) for quarter in (1, 2, 3, 4))})


def _turns(playing: Playing, length: Length, room: int, glyphs: Glyphs) -> tuple[Row, list[_Label]]:
    """A segment a turn, as long as its text, its name and reward under it; the end, where it was cut off."""
    names = [turn_name(turn) for turn in playing.turns]
    rewards = [_reward_words(turn, glyphs) for turn in playing.turns]
    end: Row = [(glyphs.lane_end, "warn bold")] if length.truncated else []
    least = [
        max(4, cell_len(name) + cell_len(reward) + _APART)
        for name, reward in zip(names, rewards, strict=True)
    ]
    sizes = _shared(playing.turns, least, room - len(end))
    row: Row = []
    labels: list[_Label] = []
    cell = 0
    if length.truncated:
        labels.append(_Label(sum(sizes) - 7, "cut off", "warn", centred=False))
    for number, size in enumerate(sizes):
        if size < 2:
            continue
        line = size - 1
        rest = (glyphs.meter_rest, "border")
        here = (glyphs.meter, "accent") if number < playing.turn else (glyphs.meter, "text")
        segment = [rest if number > playing.turn else here] * line
        if number in length.loops:
            segment[min(line - 1, round(length.loops[number] * line))] = (glyphs.lane_once, "warn bold")
        if number == playing.turn:
            segment[line // 2] = (glyphs.bullet, "accent bold")
        row += [*_merged(segment), (" ", "")]
        role = (
            "accent bold" if number == playing.turn else "series1" if playing.turns[number].policy else "dim"
        )
        labels.append(_Label(cell, names[number], role, centred=False, after=rewards[number]))
        cell += size
    return [*row[:-1], *end] if end else row, labels


def _reward_words(turn: Turn, glyphs: Glyphs) -> str:
    """` +0.50`: what a turn earned by itself."""
    return "" if turn.reward is None else f" {glyphs.plain(numbers.change(turn.reward, decimals=2))}"


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
    kept: list[tuple[int, str, str, str]] = []
    for label in labels:
        text = safe(label.text)
        size = cell_len(text) + len(label.after)
        start = max(0, min(label.cell - (size // 2 if label.centred else 0), width - size))
        if not text or size > width or any(taken[max(0, start - _APART) : start + size + _APART]):
            continue
        taken[start : start + size] = [True] * size
        kept.append((start, text, label.role, label.after))
    row: Row = []
    used = 0
    for start, text, role, after in sorted(kept):
        row += [(" " * (start - used), ""), (text, role), (after, "text")]
        used = start + cell_len(text) + len(after)
    return row


def _merged(cells: list[tuple[str, str]]) -> Row:
    row: Row = []
    for text, role in cells:
        if row and row[-1][1] == role:
            row[-1] = (row[-1][0] + text, role)
        else:
            row.append((text, role))
    return row
