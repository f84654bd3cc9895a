"""A finding's evidence in a few words a piece, as `check`, the report and what is copied from the screen say it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from grpo_top import numbers
from grpo_top.detectors import BY_ID
from grpo_top.measures import is_known, measure_of
from grpo_top.text import safe

if TYPE_CHECKING:
    from collections.abc import Iterator

    from grpo_top.snapshot import Finding

SHOWN = 10
"""Pieces of evidence that are said at most; the JSON holds them all."""
LONGEST_WORD = 60
_STEPS = frozenset(("step", "steps", "onset"))
_IN_HEAD = frozenset(("limit", "since"))
"""What a finding's first lines say: its limit, and since when; a window's own first step would read like another."""
LISTED = 3
"""Names of a list that are said."""


def evidence_words(finding: Finding) -> Iterator[str]:
    """A finding's evidence, a few words a piece, safe to print. What its summary says already is not said again."""
    if finding.onset != finding.first_step:
        yield f"seen at step {finding.first_step}"
    evidence = dict(finding.evidence)
    before, now = evidence.get("before"), evidence.get("now")
    if isinstance(before, Mapping) and isinstance(now, Mapping):
        del evidence["before"], evidence["now"]
        if change := _change(before, now):
            yield safe(change)
    series = BY_ID[finding.id].series if finding.id in BY_ID else ()
    shares = bool(series) and measure_of(series[0]).kind == "share"
    said = 0
    for name, value in evidence.items():
        words = "" if _is_said(name, value, finding) else _piece(name, value, shares)
        if words and words not in finding.summary:
            yield safe(words)
            said += 1
        if said == SHOWN:
            return


def _is_said(name: str, value: Any, finding: Finding) -> bool:
    return name in _IN_HEAD or (isinstance(value, str) and value in finding.summary)


def _piece(name: str, value: Any, shares: bool) -> str:
    """`duplicates 97%`; empty where it is unknown, or too much for a line.

    shares: whether the numbers by family, or the like, are shares.
    """
    if isinstance(value, list) and value and all(isinstance(one, Mapping) for one in value):
        return "; ".join(filter(None, (_setting(one) or _inner(one) for one in value[:LISTED])))
    if isinstance(value, Mapping):
        if len(value) > SHOWN:
            return ""
        inner = _theirs(value, shares) if "by_" in name else _inner(value)
        return f"{_name(name)} ({inner})" if inner else ""
    if value is True:
        return _name(name)
    words = _value(name, value)
    return f"{_name(name)} {words}" if words else ""


def _setting(one: Mapping[str, Any]) -> str:
    """`temperature 0.15 on 2,240 of 2,240 rollouts since step 51`, of a setting that is not as intended; else empty."""
    name, deployed, since = one.get("setting"), one.get("deployed"), one.get("since")
    if not isinstance(name, str) or not isinstance(deployed, int | float):
        return ""
    on = f" on {numbers.part_of(one['rollouts'], one['of'])} rollouts" if one.get("of") else ""
    return f"{name} {numbers.setting(deployed)}{on}{f' since step {since}' if since is not None else ''}"


def _inner(value: Mapping[str, Any]) -> str:
    """What lies one deeper."""
    pieces = (_piece(str(key), one, False) for key, one in value.items() if not isinstance(one, Mapping))
    return ", ".join(filter(None, pieces))


def _theirs(value: Mapping[str, Any], shares: bool) -> str:
    """Numbers by a name of the log's own, such as a family's, which stays as it is."""
    said = []
    for key, one in value.items():
        is_share = shares and isinstance(one, float) and 0 <= one <= 1
        if words := numbers.share(one) if is_share else _value("", one):
            said.append(f"{key} {words}")
    return ", ".join(said)


def _change(before: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """`steps 31–50 → 101–120: duplicates 41% → 93%, …`: what moved between two stretches of steps."""
    moved = [
        f"{_name(name)} {was} → {_value(name, now.get(name))}"
        for name, value in before.items()
        if name != "steps" and (was := _value(name, value)) and _value(name, now.get(name)) not in ("", was)
    ]
    steps = [_value("steps", part.get("steps")) for part in (before, now)]
    return f"steps {' → '.join(steps)}: {', '.join(moved)}" if moved and all(steps) else ", ".join(moved)


def _name(name: str) -> str:
    return measure_of(name).label


def _value(name: str, value: Any) -> str:
    """A piece of evidence in a few words; empty where it is unknown, false, or too much for a line."""
    if hasattr(value, "item"):
        value = value.item()
    if isinstance(value, bool) or value is None:
        return ""
    if isinstance(value, int | float):
        if name in _STEPS or name.endswith("_step"):
            return f"{value:.0f}"
        if measure_of(name).kind != "value":
            return measure_of(name).write(value)
        return numbers.count(value) if float(value).is_integer() else numbers.value(value)
    if isinstance(value, str):
        value = value.replace("_", " ") if name == "mostly" else value
        return value if len(value) <= LONGEST_WORD else ""
    if isinstance(value, list) and value and all(isinstance(one, str) for one in value):
        more = f" and {len(value) - LISTED} more" if len(value) > LISTED else ""
        return ", ".join(_name(one) if is_known(one) else one[:LONGEST_WORD] for one in value[:LISTED]) + more
    if isinstance(value, list | tuple) and len(value) <= 2:
        return "–".join(filter(None, (_value(name, one) for one in value)))
    return ""
