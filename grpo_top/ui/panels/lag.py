"""Stage 7: do sampler and trainer hold the same policy?"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from grpo_top import numbers
from grpo_top.ui.panels.facts import (
    EMPTY,
    Headline,
    Number,
    PanelFacts,
    border,
    chart,
    late_share,
    late_value,
    limit,
    note,
    number,
    worst,
)

if TYPE_CHECKING:
    from grpo_top.ui.view import View

KEY, STAGE, TITLE = "lag", 7, "Version lag"
LAG = ("STALE_ROLLOUTS", "WEIGHT_SYNC_STUCK")
DETECTORS = (*LAG, "MIXED_VERSIONS", "LOGPROB_MISMATCH")
MISMATCHES = ("mismatch_kl", "logp_abs_diff")


def tolerance(view: View) -> float | None:
    """How many versions a rollout may be old: as declared, else as the detector has it."""
    declared = view.snapshot.run.version_lag_tolerance
    return view.limit("STALE_ROLLOUTS") if declared is None else declared


def mismatch(view: View) -> str | None:
    """The series that tells how far sampler and trainer disagree on a token; None where none is logged."""
    return next((name for name in MISMATCHES if not view.lacks(name)), None)


def facts(view: View) -> PanelFacts:
    """How old the policy is that rollouts were sampled with."""
    told = note(view, DETECTORS)
    newest = view.values("version_lag_max", 20)
    name = "version_lag_mean" if view.lacks("version_lag_max") else "version_lag_max"
    headline = (
        Headline("mean", numbers.value(view.mean(name)), worst(view, LAG))
        if view.lacks("version_lag_max")
        else Headline("max", numbers.count(float(newest.max()) if len(newest) else None), worst(view, LAG))
    )
    allowed = tolerance(view)
    return PanelFacts(
        KEY,
        STAGE,
        TITLE,
        headline,
        (
            late_value(view, "mean", "version_lag_mean"),
            number("tolerance", numbers.count(allowed)),
            _mismatch(view),
            late_share(view, "mixed", "mixed_version_frac"),
            number("policy", _version(view.at("policy_version"))),
            number("trainer", _version(view.at("trainer_version"))),
            number("dropped", numbers.count(view.at("stale_dropped"))),
            number("logprobs", "none" if mismatch(view) is None else "logged"),
        ),
        chart(view, name, replace(EMPTY, limit=limit(allowed), from_zero=True, mean=False)),
        told,
        border(told),
        "no policy version in this log" if view.lacks(name) and mismatch(view) is None else "",
    )


def _mismatch(view: View) -> Number:
    name = mismatch(view)
    return number("mismatch", numbers.value(None if name is None else view.mean(name)))


def _version(number: float | None) -> str:
    return numbers.UNKNOWN if number is None else f"v{int(number)}"
