"""The evidence that a detector attached, of whatever shape, laid out: settings, tables, numbers before and after."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from grpo_top import numbers
from grpo_top.measures import Measure, is_known, kind_of, measure_of
from grpo_top.text import cells, first_line
from grpo_top.ui.evidence.layout import Column, table
from grpo_top.ui.widgets.runs import cut, width_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from grpo_top.snapshot import Snapshot
    from grpo_top.ui.evidence.layout import Row
    from grpo_top.ui.glyphs import Glyphs
    from grpo_top.ui.widgets.strips import Run

    Write = Callable[[str, Any], str]

_STEPS = ("since", "step", "first_step", "last_step", "steps", "onset", "from_step", "version")
"""Names of numbers that are no quantities: they are written without a unit and as they are."""
_NO_SHARES = (
    "reward",
    "std",
    "kl",
    "entropy",
    "temperature",
    "lag",
    "length",
    "corr",
    "tokens",
    "seconds",
    "_seen",
)
"""Words in the name of a fraction that is none of a share's."""
_OWN = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")
"""How detectors name their own numbers."""
_LONGEST = 60
"""Cells of one value at most."""
_LABEL = 22
"""Cells of the column of names at most."""
_ROWS = 12
"""Rows of a table in the evidence at most."""

Pair = tuple[str, list["Run"]]


def evidence_rows(
    evidence: Mapping[str, Any], snapshot: Snapshot, width: int, glyphs: Glyphs, *, shares: bool = False
) -> list[Row]:
    """The rows of a finding's evidence, but for what `followed` shows: series before and after.

    `shares` says that the detector judges a share, so that its other fractions are shares too.
    """
    rows: list[Row] = []
    loose: list[Pair] = []
    write = partial(_write, glyphs=glyphs, shares=shares)
    for name, value in evidence.items():
        if name in {"before", "now"} and isinstance(value, Mapping):
            continue
        if name == "settings" and _is_table(value):
            rows += _settings(value, snapshot, width, glyphs)
        elif _is_table(value):
            rows += [[(_label(name, glyphs), "dim")], *_plain_table(value, width, write, glyphs)]
        elif isinstance(value, Mapping):
            rows += _pairs_under(name, value, snapshot, width, write, glyphs)
        elif value is not None:
            loose.append((_label(name, glyphs), [(write(name, value), "text bold")]))
    rows += flow(loose, width, glyphs)
    if not _are_series(evidence, snapshot):
        rows += _before_and_now(evidence, snapshot, width, write, glyphs)
    return [cut(row, width, glyphs.ellipsis) for row in rows]


def series_of(evidence: Mapping[str, Any]) -> list[str]:
    """The series that the evidence compares before and after."""
    parts = [evidence.get(name) for name in ("before", "now")]
    names = [name for part in parts if isinstance(part, Mapping) for name in part if name != "steps"]
    return list(dict.fromkeys(str(name) for name in names))


def flow(pairs: Iterable[Pair], width: int, glyphs: Glyphs, lead: Sequence[Run] = ()) -> list[Row]:
    """Names and values one after another, three blanks between, on as many rows as they need."""
    rows: list[Row] = []
    row: Row = list(lead)
    indent = width_of(lead)
    empty = True
    for name, value in pairs:
        size = cells(name) + 1 + width_of(value)
        if not empty and width_of(row) + 3 + size > width:
            rows.append(row)
            row, empty = [(" " * indent, "")] if indent else [], True
        row += [*([] if empty else [("   ", "")]), (f"{name} ", "dim"), *value]
        empty = False
    return [cut(row, width, glyphs.ellipsis) for row in (rows if empty else [*rows, row])]


def _settings(
    settings: Sequence[Mapping[str, Any]], snapshot: Snapshot, width: int, glyphs: Glyphs
) -> list[Row]:
    """Settings that differ, the deployed value in reverse; under them those that are as intended."""
    declared = any(setting.get("intended") is not None for setting in settings)
    columns = [
        Column("setting", least=13),
        Column("intended" if declared else "before", right=True),
        Column("deployed", right=True),
        Column("since", right=True, rank=1),
        Column("rollouts", rank=2),
    ]
    body: list[list[list[Run]]] = []
    for setting in settings:
        reference = setting.get("intended") if declared else setting.get("before")
        deployed = numbers.setting(setting.get("deployed"))
        body.append(
            [
                [(first_line(str(setting.get("setting", "?")), 20), "text bold")],
                [(glyphs.plain(first_line(numbers.setting(reference), 16)), "text")],
                [(f" {glyphs.plain(first_line(deployed, 16))} ", "fail reverse bold")],
                [(glyphs.plain(numbers.count(setting.get("since"))), "fail")],
                [(_whose(setting, glyphs), "text")],
            ]
        )
    rows = table(columns, body, width, glyphs)
    as_intended = _as_intended([str(setting.get("setting")) for setting in settings], snapshot)
    if as_intended:
        pairs: list[Pair] = [(name, [(numbers.setting(value), "dim")]) for name, value in as_intended]
        rows += flow([*pairs, ("as intended", [])], width, glyphs)
    return rows


def _whose(setting: Mapping[str, Any], glyphs: Glyphs) -> str:
    """`1,920 of 1,920, 288 held-out`, and on which samplers where it is not all of them."""
    if setting.get("rollouts") is None:
        return ""
    said = numbers.part_of(setting["rollouts"], setting.get("of"))
    if setting.get("heldout_rollouts"):
        said += f", {numbers.count(setting['heldout_rollouts'])} held-out"
    samplers = [first_line(str(name), 24) for name in setting.get("samplers") or ()]
    return glyphs.plain(said) + (f", {', '.join(samplers)}" if samplers else "")


def _as_intended(wrong: Sequence[str], snapshot: Snapshot) -> list[tuple[str, Any]]:
    """Settings of the run record that every config seen deploys."""
    seen = snapshot.rollouts.samplings
    return [
        (name, value)
        for name, value in (snapshot.run.sampling or {}).items()
        if name not in wrong and seen and all(sampling.get(name) == value for sampling in seen)
    ]


def _plain_table(body: Sequence[Mapping[str, Any]], width: int, write: Write, glyphs: Glyphs) -> list[Row]:
    names = list(dict.fromkeys(name for row in body for name in row))
    columns = [
        Column(
            _label(name, glyphs),
            right=all(_is_number(row.get(name)) for row in body),
            rank=place,
            least=13 if not place else 0,
        )
        for place, name in enumerate(names)
    ]
    written = [[[(write(name, row.get(name)), "text")] for name in names] for row in body[:_ROWS]]
    rows = table(columns, written, width, glyphs)
    if len(body) > _ROWS:
        rows.append([(f"and {numbers.count(len(body) - _ROWS)} more", "dim")])
    return rows


def _pairs_under(
    name: str, value: Mapping[str, Any], snapshot: Snapshot, width: int, write: Write, glyphs: Glyphs
) -> list[Row]:
    """Named numbers in the row of the name that they are under."""
    if not value:
        return []
    label = _label(name, glyphs)
    lead: list[Run] = [(f"{label:<{min(_LABEL, max(len(label) + 1, 13))}}", "dim")]
    named = {*snapshot.run.families, *snapshot.run.components}
    pairs: list[Pair] = []
    for key, inner in list(value.items())[:_ROWS]:
        own = _OWN.fullmatch(str(key)) is not None and key not in named
        label = _label(key, glyphs) if own else first_line(str(key), 30)
        pairs.append((label, [(write(str(key) if own else name, inner), "text bold")]))
    return flow(pairs, width, glyphs, lead)


def _before_and_now(
    evidence: Mapping[str, Any], snapshot: Snapshot, width: int, write: Write, glyphs: Glyphs
) -> list[Row]:
    """Numbers before and now that are no series of the run."""
    before, now = (evidence.get(name) for name in ("before", "now"))
    if not isinstance(before, Mapping) or not isinstance(now, Mapping):
        single = before if isinstance(before, Mapping) else now
        if not isinstance(single, Mapping):
            return []
        return _pairs_under("now", single, snapshot, width, write, glyphs)
    columns = [Column("", least=13)]
    columns += [
        Column(_steps_of(part, name), right=True) for name, part in (("before", before), ("now", now))
    ]
    body = [
        [
            [(_label(name, glyphs), "text")],
            [(write(name, before.get(name)), "text")],
            [(write(name, now.get(name)), "text bold")],
        ]
        for name in series_of(evidence)
    ]
    return table(columns, body, width, glyphs) if body else []


def _steps_of(part: Mapping[str, Any], name: str) -> str:
    steps = part.get("steps")
    if isinstance(steps, Sequence) and len(steps) == 2:
        return numbers.span(int(steps[0]), int(steps[1]))
    return name


def _are_series(evidence: Mapping[str, Any], snapshot: Snapshot) -> bool:
    return all(name in snapshot.series for name in series_of(evidence))


def _is_table(value: object) -> bool:
    return (
        isinstance(value, Sequence)
        and not isinstance(value, str)
        and bool(value)
        and all(isinstance(row, Mapping) for row in value)
    )


def _is_number(value: object) -> bool:
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool))


def _label(name: str, glyphs: Glyphs) -> str:
    label = measure_of(name).label if is_known(name) else first_line(str(name), 40).replace("_", " ")
    return glyphs.plain(label)


def _write(name: str, value: Any, *, glyphs: Glyphs, shares: bool) -> str:
    """A value of the evidence by its name; what came from a log is made safe."""
    if hasattr(value, "item"):
        value = value.item()
    write = partial(_write, glyphs=glyphs, shares=shares)
    match value:
        case None:
            return numbers.UNKNOWN
        case bool():
            return "yes" if value else "no"
        case str():
            return first_line(value, _LONGEST) or '""'
        case int() if name in _STEPS:
            return glyphs.plain(numbers.signed(str(value)))
        case int():
            return glyphs.plain(numbers.count(value))
        case float():
            return glyphs.plain(_number(name, value, shares))
        case Mapping():
            return ", ".join(f"{first_line(str(key), 20)} {write(name, of)}" for key, of in value.items())
        case Sequence():
            if name == "steps" and len(value) == 2 and all(isinstance(step, int) for step in value):
                return glyphs.plain(numbers.span(*value))
            said = ", ".join(write(name, inner) for inner in value[:_ROWS])
            return f"{said}{glyphs.ellipsis}" if len(value) > _ROWS else said or "none"
        case _:
            return first_line(str(value), _LONGEST)


def _number(name: str, value: float, shares: bool) -> str:
    kind = kind_of(name)
    if kind == "value" and math.isfinite(value):
        plain = is_known(name) or name == "mean" or any(word in name for word in _NO_SHARES)
        if shares and 0 <= value <= 1 and not plain:
            kind = "share"
        elif abs(value) >= 2 and value == round(value):
            kind = "count"
    return Measure("", kind).write(value)
