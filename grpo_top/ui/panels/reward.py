"""Stages 1, 2 and 8: the reward, and whether held-out follows it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from grpo_top import numbers
from grpo_top.snapshot import Status
from grpo_top.ui.panels.facts import (
    EMPTY,
    Headline,
    Number,
    PanelFacts,
    border,
    changed,
    chart,
    compared_value,
    late_share,
    late_value,
    note,
    number,
    told_apart,
    worst,
)

if TYPE_CHECKING:
    from grpo_top.snapshot import Series
    from grpo_top.ui.view import View

KEY, STAGE, TITLE = "reward", 2, "Reward and held-out"
REWARD = (
    "REWARD_STREAK",
    "REWARD_INCONSISTENT",
    "VERIFIER_ERRORS",
    "REWARD_COLLAPSE",
    "LOGGED_REWARD_MISMATCH",
    "HAND_SCORE_MISMATCH",
)
DETECTORS = ("BASE_SUCCESS_ZERO", *REWARD, "HELDOUT_FLAT", "LEAKAGE")


def heldout(view: View) -> Series | None:
    """The held-out evaluations: the default suite, else the first one."""
    names = [name for name in view.snapshot.series if name.startswith("heldout")]
    return view.series("heldout" if "heldout" in names else names[0]) if names else None


def last_heldout(view: View) -> tuple[int, float] | None:
    """Step and value of the last evaluation up to the view's step."""
    series = heldout(view)
    if series is None or view.step is None:
        return None
    known = np.flatnonzero((series.steps <= view.step) & np.isfinite(series.values))
    return (int(series.steps[known[-1]]), float(series.values[known[-1]])) if len(known) else None


def facts(view: View) -> PanelFacts:
    """The reward's mean and its parts. Where a reward finding stands, this step's own values instead."""
    told = note(view, DETECTORS)
    broken = told is not None and told.status is Status.FAIL and told.id in REWARD
    if broken:
        headline = Headline("this step", numbers.value(view.at("reward_mean")), Status.FAIL)
        first = (
            late_value(view, "20 steps", "reward_mean", "series1"),
            compared_value(view, "reward_mean"),
        )
    else:
        headline = Headline("", numbers.value(view.mean("reward_mean")), worst(view, REWARD))
        first = (late_value(view, "train", "reward_mean", "series1"), changed(view, "reward_mean"))
    series = heldout(view)
    spec = EMPTY if series is None else replace(EMPTY, points=(series.steps, series.values))
    return PanelFacts(
        KEY,
        STAGE,
        TITLE,
        headline,
        (*first, *_heldout(view), *_parts(view, now=broken)),
        chart(view, "reward_mean", spec),
        told,
        border(told),
        "no reward in this log" if view.lacks("reward_mean") else "",
    )


def _heldout(view: View) -> tuple[Number, Number]:
    last = last_heldout(view)
    step, value = (None, None) if last is None else last
    return (
        number("◆ held-out", numbers.value(value), "series2"),
        number("at step", numbers.UNKNOWN if step is None else str(step)),
    )


def _parts(view: View, *, now: bool) -> tuple[Number, ...]:
    """Success, verifier errors and the components; of this step alone where `now`, those at 0 standing out."""
    names = told_apart(view.snapshot.run.components)
    if not now:
        return (
            late_share(view, "success", "success_rate"),
            late_share(view, "verifier err", "verifier_error_rate"),
            *(late_value(view, shown, f"component_mean{{{name}}}") for name, shown in names.items()),
        )
    values = [(shown, view.at(f"component_mean{{{name}}}")) for name, shown in names.items()]
    return (
        number("success", numbers.share(view.at("success_rate"))),
        *(
            number(name, numbers.value(value), "fail bold" if value == 0 else "text")
            for name, value in values
        ),
        late_share(view, "verifier err", "verifier_error_rate"),
    )
