"""A rollout's sampling settings: what was intended beside what was deployed, and since when."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grpo_top import numbers
from grpo_top.records import SAMPLING_ORDER
from grpo_top.snapshot import Status
from grpo_top.text import first_line
from grpo_top.ui.glyphs import STATUS_ROLES
from grpo_top.ui.rollouts.fact_parts import NOT_LOGGED
from grpo_top.ui.rollouts.layout import cell, on
from grpo_top.ui.rollouts.rollout_rows import drift
from grpo_top.ui.widgets.runs import ends, filled

if TYPE_CHECKING:
    from grpo_top.records import SamplingValue
    from grpo_top.ui.glyphs import Glyphs
    from grpo_top.ui.rollouts.subject import Subject
    from grpo_top.ui.view import View
    from grpo_top.ui.widgets.runs import Row
    from grpo_top.ui.widgets.strips import Run

_VALUE = 10
_SINCE = 8
_WIDE = 54
"""From this width on there is room for the name of the finding."""


def sampling_rows(view: View, subject: Subject, width: int, glyphs: Glyphs) -> list[Row]:
    """The table: mark, setting, intended, deployed, since, and the finding that the difference belongs to."""
    rows: list[Row] = [
        [
            cell("   sampling", 14, "dim"),
            _head("intended"),
            _head("deployed"),
            cell("since", _SINCE, "dim", right=True),
        ]
    ]
    names = settings(subject)
    if not names:
        return [*rows, [("   ", ""), NOT_LOGGED, ("   ", ""), (glyphs.unknown, "info")]]
    for name in names:
        deployed = subject.sampling.get(name)
        status = drift(view, name, deployed)
        since = None if deployed is None else subject.since(name)
        mark, role = _mark(subject, name, status, glyphs)
        value = _deployed(deployed, status)
        row: Row = [
            (" ", ""),
            (mark, role),
            cell(f" {name}", 12, "text" if status is None else "text bold", glyphs=glyphs),
            _value(subject.intended.get(name), "text"),
            *value,
            # A value in reverse has a blank of its own at either side.
            cell(
                "" if since is None else numbers.count(since),
                _SINCE - (len(value) > 1),
                role if status else "dim",
                right=True,
            ),
        ]
        if status is not None and status >= Status.INFO and width >= _WIDE:
            row += [("  ", ""), ("SAMPLER_DRIFT", f"{role} bold")]
        rows.append(_grounded(row, status, width, glyphs))
    return rows


def short_sampling_rows(view: View, subject: Subject, width: int, glyphs: Glyphs) -> list[Row]:
    """The same for a narrow window: setting, intended, deployed, mark."""
    rows: list[Row] = [[cell(" sampling", 12, "dim"), _head("intended"), _head("deployed")]]
    names = settings(subject)
    if not names:
        return [*rows, [(" ", ""), NOT_LOGGED]]
    for name in names:
        deployed = subject.sampling.get(name)
        status = drift(view, name, deployed)
        row: Row = [
            cell(f" {name}", 12, "dim" if status is None else "text bold", glyphs=glyphs),
            _value(subject.intended.get(name), "text"),
            *_deployed(deployed, status),
        ]
        row = ends(row, [_mark(subject, name, status, glyphs), (" ", "")], width, glyphs.ellipsis)
        rows.append(_grounded(row, status, width, glyphs))
    return rows


def settings(subject: Subject) -> list[str]:
    """Names of the settings that are intended or deployed, in the usual order."""
    return [name for name in SAMPLING_ORDER if name in subject.intended or name in subject.sampling]


def _head(text: str) -> Run:
    return cell(text, _VALUE, "dim", right=True)


def _mark(subject: Subject, name: str, status: Status | None, glyphs: Glyphs) -> Run:
    if status is not None:
        return glyphs.mark(status), STATUS_ROLES[status]
    both = name in subject.intended and name in subject.sampling
    return (glyphs.ok, "ok") if both else (glyphs.unknown, "info")


def _deployed(value: SamplingValue | None, status: Status | None) -> list[Run]:
    if status is not Status.FAIL:
        return [_value(value, STATUS_ROLES[status] if status else "text")]
    text = f" {_said(value)} "
    return [(" " * max(0, _VALUE + 1 - len(text)), ""), (text, "fail bold reverse")]


def _value(value: SamplingValue | None, role: str) -> Run:
    return cell(_said(value), _VALUE, "info" if value is None else role, right=True)


def _said(value: SamplingValue | None) -> str:
    return numbers.UNKNOWN if value is None else first_line(numbers.setting(value), _VALUE - 2)


def _grounded(row: Row, status: Status | None, width: int, glyphs: Glyphs) -> Row:
    return on(filled(row, width, glyphs.ellipsis), "fail_bg") if status is Status.FAIL else row
