"""Stage 5: do answers parse, and how do rollouts end?"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from grpo_top import numbers
from grpo_top.snapshot import WINDOW, Status
from grpo_top.ui.panels.facts import (
    EMPTY,
    Headline,
    Number,
    PanelFacts,
    border,
    chart,
    early_share,
    limit,
    note,
    number,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from grpo_top.ui.view import View

    Column = NDArray[np.int64]

KEY, STAGE, TITLE = "endings", 5, "Parse and endings"
DETECTORS = ("PARSE_FAILURES", "FORMAT_EXPLOIT", "COMPONENT_DIVERGENCE", "TERMINATION_SHIFT")
SHARE = "parse_failure_rate"
ERRORS = ("error", "crash", "timeout", "abort")
"""Reasons that are counted together as errors where they appear inside a reason's name."""
_FAMILIES = 2


def facts(view: View) -> PanelFacts:
    """The share of answers that do not parse, and why rollouts end."""
    told = note(view, DETECTORS)
    missing = view.lacks(SHARE) and not reasons(view)
    if view.lacks(SHARE):
        headline = Headline("parse failures", numbers.UNKNOWN, Status.UNKNOWN)
    else:
        headline = Headline("parse failures", numbers.share(view.mean(SHARE)), view.status("PARSE_FAILURES"))
    values = view.values(SHARE)
    families, parsed = _late_columns(view)
    return PanelFacts(
        KEY,
        STAGE,
        TITLE,
        headline,
        (
            *_endings(view),
            *_by_family(view, families, parsed),
            early_share(view, SHARE),
            number("worst step", numbers.share(float(values.max()) if len(values) else None)),
            number("failed", _failed(parsed)),
        ),
        chart(view, SHARE, replace(EMPTY, share=True, limit=limit(view.limit("PARSE_FAILURES")))),
        told,
        border(told),
        "no parse results and no finish reasons in this log" if missing else "",
    )


def reasons(view: View) -> list[str]:
    """Why rollouts end, as this run names it."""
    prefix = "termination{"
    names = [name for name in view.snapshot.series if name.startswith(prefix) and not view.lacks(name)]
    return [name[len(prefix) : -1] for name in names]


def late_shares(view: View, known: list[str]) -> dict[str, float]:
    """The 20-step mean share of each reason; on a step that has reasons, one that is not among them is 0."""
    columns = []
    for reason in known:
        series = view.series(f"termination{{{reason}}}")
        if series is not None:
            columns.append(series.values[series.steps <= (view.step or 0)][-WINDOW:])
    late = np.array(columns)
    late = late[:, np.isfinite(late).any(axis=0)]
    shares = np.nan_to_num(late).mean(axis=1) if late.shape[1] else np.zeros(len(columns))
    return dict(zip(known, shares.tolist(), strict=True))


def _endings(view: View) -> tuple[Number, ...]:
    known = reasons(view)
    if not known:
        return (number("endings", numbers.UNKNOWN),)
    means = late_shares(view, known)
    errors = [reason for reason in known if any(word in reason.lower() for word in ERRORS)]
    plain = [reason for reason in ("stop", "length") if reason in means]
    others = sorted(set(known) - {*plain, *errors}, key=lambda reason: -means[reason])
    shown = (*plain, *others)[:4]
    return (
        *(number(reason, numbers.share(means[reason])) for reason in shown),
        number("error", numbers.share(sum(means[reason] for reason in errors))),
    )


def _by_family(view: View, families: Column, parsed: Column) -> tuple[Number, ...]:
    """Failures of the late window by family, where there are a few."""
    names = view.snapshot.run.families
    if not 1 < len(names) <= _FAMILIES:
        return ()
    rows = []
    for family, name in enumerate(names):
        of = parsed[(families == family) & (parsed >= 0)]
        rows.append(number(name, numbers.share(float((of == 0).mean()) if len(of) else None)))
    return tuple(rows)


def _failed(parsed: Column) -> str:
    known = parsed[parsed >= 0]
    return numbers.part_of(int((known == 0).sum()), len(known)) if len(known) else numbers.UNKNOWN


def _late_columns(view: View) -> tuple[Column, Column]:
    """Family and parse result of each rollout of the late window."""
    batches = view.batches()
    if not batches:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    rows = np.concatenate([batch.rows for batch in batches])
    columns = view.snapshot.rollouts.columns
    return columns["family"][rows], columns["parsed"][rows]
