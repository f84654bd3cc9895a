"""Stage 6: is the policy drifting for the wrong reason?"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from grpo_top import numbers
from grpo_top.ui.panels.facts import (
    EMPTY,
    Headline,
    PanelFacts,
    border,
    changed,
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

KEY, STAGE, TITLE = "kl", 6, "KL to reference"
KL = ("KL_EXPLODING", "KL_PINNED", "KL_RATCHET")
DETECTORS = (*KL, "CLIP_SATURATION", "GRAD_SPIKES")


def facts(view: View) -> PanelFacts:
    """KL to the reference policy, and how large the updates are."""
    told = note(view, DETECTORS)
    values = view.values("kl")
    rate = view.at("learning_rate")
    return PanelFacts(
        KEY,
        STAGE,
        TITLE,
        Headline("", numbers.value(view.mean("kl")), worst(view, KL)),
        (
            number("now", numbers.value(view.at("kl"))),
            changed(view, "kl"),
            number("max", numbers.value(float(values.max()) if len(values) else None)),
            late_share(view, "clipped", "clip_frac"),
            late_value(view, "grad", "grad_norm"),
            number("loss", numbers.fixed(view.mean("loss"), 3)),
            number("median", numbers.value(float(np.median(values)) if len(values) else None)),
            number("lr", numbers.value(rate)),
        ),
        chart(view, "kl", replace(EMPTY, limit=limit(view.limit("KL_EXPLODING")), from_zero=True)),
        told,
        border(told),
        _missing(view) if not len(values) else "",
    )


def _missing(view: View) -> str:
    beta = view.snapshot.run.config.get("beta")
    return "no kl in this log" + ("; beta is 0" if beta == 0 else "")
