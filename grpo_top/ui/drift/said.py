"""What differs, since when, how it got there and what it does, in sentences."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from grpo_top import numbers
from grpo_top.snapshot import WINDOW, Status
from grpo_top.text import safe
from grpo_top.ui.drift.facts import counted, onset, rollouts_of
from grpo_top.ui.drift.samplers import ALL_ROLLOUTS
from grpo_top.ui.drift.table import HOW_TO_ASK
from grpo_top.ui.evidence.layout import Frame
from grpo_top.ui.glyphs import STATUS_ROLES
from grpo_top.ui.panels.sampler import same
from grpo_top.ui.widgets.runs import width_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from grpo_top.records import SamplingValue
    from grpo_top.ui.drift.columns import Column, Columns
    from grpo_top.ui.drift.samplers import Cell, Deployment, Sampler
    from grpo_top.ui.glyphs import Glyphs
    from grpo_top.ui.widgets.strips import Run

    Row = list[Run]

_PARTIES = 6
"""Parties that are spoken of one by one at most."""
_NAMES = 4
"""Names in one sentence at most."""


def said_frame(glyphs: Glyphs, foot: Sequence[Run]) -> Frame:  # noqa: ARG001
    """The box's title, and the key of the rule."""
    rule: Row = [("x", "accent bold"), (" explain SAMPLER_DRIFT", "dim")]
    return Frame([("What differs and since when", "text bold")], rule, foot)


def said_rows(deployment: Deployment, columns: Columns, width: int, glyphs: Glyphs) -> list[Row]:
    """The sentences in lines of `width` cells."""
    rows: list[Row] = []
    for status, sentence, first in _sentences(deployment, columns, glyphs):
        lead = f"{glyphs.mark(status)} " if first else "  "
        rows += _wrapped((lead, STATUS_ROLES[status]), sentence, width)
    return rows


Sentence = tuple[Status, "Row", bool]
"""A verdict, what is said, and whether it is the first of what is said about one thing: then it has the mark."""


def _sentences(deployment: Deployment, columns: Columns, glyphs: Glyphs) -> list[Sentence]:
    found: list[Sentence] = []
    differing = sorted(
        (column for column in columns.columns if column.differing),
        key=lambda column: (-column.status, -len(column.members)),
    )
    parties: dict[object, list[Column]] = {}
    for column in differing:
        alike = tuple((name, cell.value, cell.since, cell.before) for name, cell in column.differing.items())
        parties.setdefault(alike, []).append(column)
    spoken_of = list(parties.values())
    for party in spoken_of[:_PARTIES]:
        found += _differs(deployment, party, glyphs)
        found += _effects(deployment, columns, party)
    if len(spoken_of) > _PARTIES:
        more = sum(len(column.members) for party in spoken_of[_PARTIES:] for column in party)
        found.append((Status.WATCH, [(f"{more:,} more samplers differ in other ways", "dim")], True))
    found += _as_intended(deployment, columns)
    found += _back(deployment, columns, glyphs)
    found += _not_set(deployment, columns)
    found += _unanswered(columns)
    return found


def _differs(deployment: Deployment, party: Sequence[Column], glyphs: Glyphs) -> list[Sentence]:
    """Since when columns that differ in the same way do, in what, and how the values get there."""
    several = len(party) > 1 or len(party[0].members) > 1 or party[0].title == ALL_ROLLOUTS
    said: list[Sentence] = []
    for since, cells in _by_onset(party[0].differing).items():
        first_look = any(cell.first_look for cell in cells.values())
        changed = since is not None and not first_look and since[0] != _first_step(deployment)
        runs: Row = [(_listed([column.title for column in party]), "text bold"), *_who(party)]
        if changed and since is not None:
            synced = all(_synced(column, since[0]) for column in party)
            when = f", when {'their' if several else 'its'} weights were synced" if synced else ""
            runs.append((f" changed at step {glyphs.plain(numbers.span(*since))}{when}: ", "dim"))
        else:
            runs.append((f" differ{'' if several else 's'}", "dim"))
            if since is not None:
                where = "the first look, at step" if first_look else "the first step,"
                runs.append((f" since {where} {glyphs.plain(numbers.span(*since))}", "dim"))
            runs.append((": ", "dim"))
        for place, (name, cell) in enumerate(cells.items()):
            role = STATUS_ROLES[cell.status]
            value = _plain(cell.value, glyphs)
            if changed and cell.before is not None:
                change = f"{name} {_plain(cell.before, glyphs)} {glyphs.arrow} {value}"
            else:
                change = f"{name} {value} ({_plain(cell.reference, glyphs)} {cell.side})"
            runs += [(", " if place else "", "dim"), (change, role)]
        said.append((party[0].status, runs, not said))
    return said + [(party[0].status, runs, False) for runs in _how(deployment, party, glyphs)]


def _how(deployment: Deployment, party: Sequence[Column], glyphs: Glyphs) -> list[Row]:
    """How the values that differ get there."""
    rows: list[Row] = []
    by_origin: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for column in party:
        sources: dict[str, list[str]] = {}
        for name, cell in column.differing.items():
            if cell.origin and cell.default is None:
                sources.setdefault(cell.origin, []).append(name)
        for origin, of in sources.items():
            by_origin.setdefault((origin, tuple(of)), []).append(column.title)
    for (origin, whose), titles in by_origin.items():
        names = list(whose)
        what = "they come from " if len(names) == len(party[0].differing) > 1 else f"{_listed(names)} from "
        where = f"on {_listed(titles)} " if len(titles) < len(party) else ""
        told = f", where a request leaves {'it' if len(names) == 1 else 'them'} out"
        rows.append([(where + what, "dim"), (glyphs.plain(origin), "text bold"), (told, "dim")])
    router = [row for column in party for row in _router(deployment, column, glyphs)]
    said = {name: cell for name, cell in party[0].differing.items() if cell.default is not None}
    if said and not router:
        values = _listed([f"{name} {_plain(cell.value, glyphs)}" for name, cell in said.items()])
        defaults = _listed([_plain(cell.default, glyphs) for cell in said.values()])
        rows.append(
            [
                ("the request says ", "dim"),
                (values, "text bold"),
                (f"; left out, the server would take {defaults}", "dim"),
            ]
        )
    beside = {cell.beside: None for cell in party[0].differing.values() if cell.beside}
    rows += [[(f"that does not matter: {why}", "dim")] for why in beside]
    rows += router
    if not rows and all(member.asked is None for column in party for member in column.members):
        rows.append([(f"what sets it is not known: {HOW_TO_ASK}", "dim")])
    return rows


def _who(party: Sequence[Column]) -> Row:
    """The names of samplers that are shown as a number of them, where they are few."""
    members = [member.name for column in party for member in column.members]
    if len(party) > 1 or not 1 < len(members) <= _NAMES:
        return []
    return [(f" ({', '.join(members)})", "dim")]


def _router(deployment: Deployment, column: Column, glyphs: Glyphs) -> list[Row]:
    """Whether one name stands for samplers that differ."""
    step = deployment.view.step
    if len(column.members) != 1 or step is None or column.title == ALL_ROLLOUTS:
        return []
    member, found = column.members[0], []
    for name in column.differing:
        mixed = deployment.carried.mixed(member.number, step, name)
        if len(mixed) == 2:
            parts = [f"{_plain(value, glyphs)} on {numbers.count(of)}" for value, of in mixed.items()]
            found.append(
                [
                    (f"under this name {name} is ", "dim"),
                    (" and ".join(parts), "text bold"),
                    (f" rollouts of step {step}: a router that mixes two configs", "dim"),
                ]
            )
            break
    if member.takes_turns(step):
        told = "asked again and again, it answers with one config and then with another: a router over two"
        found.append([(told, "dim")])
    return found


def _effects(deployment: Deployment, columns: Columns, party: Sequence[Column]) -> list[Sentence]:
    """How many rollouts some columns have, and how they differ from those of the others."""
    since = onset(columns)
    counts = counted(deployment, since)
    members = [member for column in party for member in column.members]
    total, own = sum(counts.values()), rollouts_of(members, counts)
    if not own or own == total:
        return []
    runs: Row = [
        (f"{'their' if len(members) > 1 else 'its'} {numbers.count(own)} rollouts are ", "dim"),
        (numbers.share(own / total), "text bold"),
        (" of all" if since is None else f" of all since step {since}", "dim"),
    ]
    here, elsewhere = duplicates(deployment, members, since)
    if here is not None and elsewhere is not None:
        runs += [
            ("; duplicates ", "dim"),
            (numbers.share(here), f"{STATUS_ROLES[party[0].status]} bold"),
            (" there, ", "dim"),
            (numbers.share(elsewhere), "text bold"),
            (" on the others", "dim"),
        ]
    return [(party[0].status, runs, False)]


def duplicates(
    deployment: Deployment, members: Sequence[Sampler], since: int | None
) -> tuple[float | None, float | None]:
    """The share of rollouts that another of their group copies, of some samplers and of all others.

    Over the last 20 steps, and not before the drift.
    """
    own = [member.number for member in members]
    found = np.zeros((2, 2), np.int64)
    for batch in deployment.view.batches(WINDOW):
        if batch.duplicates is None or (since is not None and int(batch.column("step")[0]) < since):
            continue
        of = np.isin(batch.column("sampler"), own)
        for place, where in enumerate((of, ~of)):
            found[place] += (int(where.sum()), int(batch.duplicates[where].sum()))
    shares = [float(copies / size) if size else None for size, copies in found.tolist()]
    return shares[0], shares[1]


def _as_intended(deployment: Deployment, columns: Columns) -> list[Sentence]:
    """Which samplers are as they should be."""
    right = [column for column in columns.columns if column.status is Status.OK]
    if not right:
        return []
    names = [column.title for column in right]
    # That something else was before is said of each by `_back`.
    whose = _listed(names)
    rest = " as intended" if deployment.intended else " as they were first seen"
    begun = _first_step(deployment)
    always = not any(_went_astray(deployment, column) for column in right)
    cells = [cell for column in right for cell in column.cells.values() if cell.value is not None]
    looked = [cell.since for cell in cells if cell.first_look and cell.since is not None]
    runs: Row = [(whose, "text"), (rest, "dim")]
    if always and looked and len(looked) == len(cells):
        runs.append((f" since the first look, at step {min(looked)}", "dim"))
    elif always and begun is not None:
        runs.append((f" since step {begun}", "dim"))
    return [(Status.OK, runs, True)]


def _back(deployment: Deployment, columns: Columns, glyphs: Glyphs) -> list[Sentence]:
    """Where a setting differed for a while and does not any more."""
    said: list[Sentence] = []
    for column in columns.columns:
        if len(said) >= _PARTIES:
            break
        for name, (value, first, last) in _went_astray(deployment, column).items():
            if name in column.differing:
                continue
            runs: Row = [
                (column.title, "text bold"),
                (
                    f" had {name} {_plain(value, glyphs)} on steps {glyphs.plain(numbers.span(first, last))}",
                    "dim",
                ),
            ]
            said.append((Status.INFO, runs, True))
    return said


def _went_astray(deployment: Deployment, column: Column) -> dict[str, tuple[SamplingValue, int, int]]:
    """Setting → a value that differed, and from which step to which; of one sampler alone."""
    if len(column.members) != 1:
        return {}
    found: dict[str, tuple[SamplingValue, int, int]] = {}
    for name in deployment.names:
        points, _ = deployment.story(column.members[0], name, deployment.view.step)
        for point, after in pairwise(points):
            if point.value is not None and not same(point.value, deployment.reference.get(name)):
                found[name] = (point.value, point.step, after.step - 1)
    return found


def _not_set(deployment: Deployment, columns: Columns) -> list[Sentence]:
    """Settings of which nothing says what is intended."""
    if not deployment.names:
        told = "no sampling config in this log, and no sampler is asked"
        return [(Status.UNKNOWN, [(f"{told}: {HOW_TO_ASK}", "dim")], True)]
    names = [name for name in deployment.names if name not in deployment.intended]
    if not names:
        return []
    verb = "is" if len(names) == 1 else "are"
    judged = (
        "only differences between samplers are judged" if columns.samplers > 1 else "only changes are judged"
    )
    told = f"{_listed(names, len(names))} {verb} not in the run record: {judged}"
    return [(Status.UNKNOWN, [(told, "dim")], True)]


def _unanswered(columns: Columns) -> list[Sentence]:
    """What could not be asked, and what opens it; the same thing of several samplers once."""
    lines: dict[str, list[str]] = {}
    for column in columns.columns:
        for member in column.members:
            for line in member.asked.unknown if member.asked is not None else ():
                lines.setdefault(line, []).append(member.name)
            if member.asked is not None and member.asked.asked is None:
                lines.setdefault("no answer so far", []).append(member.name)
    said: list[Sentence] = []
    for line, names in lines.items():
        whose = _listed(names) if len(names) <= _NAMES else f"{len(names):,} samplers"
        said.append((Status.UNKNOWN, [(whose, "text"), (f": {safe(line)}", "dim")], True))
    return said


def _by_onset(cells: Mapping[str, Cell]) -> dict[tuple[int, int] | None, dict[str, Cell]]:
    found: dict[tuple[int, int] | None, dict[str, Cell]] = {}
    for name, cell in cells.items():
        since = None if cell.since is None or cell.last_since is None else (cell.since, cell.last_since)
        found.setdefault(since, {})[name] = cell
    return found


def _synced(column: Column, step: int) -> bool:
    """Whether the look that found the change also found other weights."""
    changes = column.members[0].asked.changes if column.members[0].asked is not None else ()
    return any(
        now.step == step and before.weight_version is not None and now.weight_version != before.weight_version
        for before, now in pairwise(changes)
    )


def _first_step(deployment: Deployment) -> int | None:
    steps = deployment.carried.step
    return int(steps.min()) if len(steps) else deployment.view.snapshot.run.first_step


def _plain(value: SamplingValue | None, glyphs: Glyphs) -> str:
    return glyphs.plain(safe(numbers.setting(value)))


def _listed(names: Sequence[str], most: int = _NAMES) -> str:
    """`a, b and c`; past `most` of them `a, b, c and 12 more`."""
    if len(names) > most:
        return f"{', '.join(names[: most - 1])} and {len(names) - most + 1:,} more"
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def _wrapped(lead: Run, sentence: Iterable[Run], width: int) -> list[Row]:
    """A sentence in lines of `width` cells, broken at blanks, the later ones under the first."""
    indent: Run = (" " * width_of([lead]), "")
    rows: list[Row] = []
    row: Row = [lead]
    for word in _words(sentence):
        blank = [(" ", word[0][1])] if len(row) > 1 else []
        if blank and width_of(row) + 1 + width_of(word) > width:
            rows.append(row)
            row, blank = [indent], []
        row += [*blank, *word]
    return [*rows, row]


def _words(sentence: Iterable[Run]) -> list[Row]:
    """A sentence's words; a word may be of several runs, as one with a comma after it is."""
    words: list[Row] = [[]]
    for text, role in sentence:
        first, *later = text.split(" ")
        words[-1] += [(first, role)] if first else []
        words += [[(word, role)] if word else [] for word in later]
    return [word for word in words if word]
