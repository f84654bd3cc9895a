"""Stage 5: do answers fit into the token budget?"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from grpo_top import numbers
from grpo_top.ui.panels.facts import (
    EMPTY,
    Headline,
    PanelFacts,
    border,
    changed,
    chart,
    late_value,
    note,
    number,
)
from grpo_top.ui.widgets.chart import Limit

if TYPE_CHECKING:
    from grpo_top.ui.view import View

KEY, STAGE, TITLE = "length", 5, "Length and truncation"
DETECTORS = ("TRUNCATION", "LENGTH_HACKING", "LENGTH_COLLAPSE")
SHARE = "truncation_rate"


def budget(view: View) -> float | None:
    """The intended number of completion tokens at most."""
    value = (view.snapshot.run.sampling or {}).get("max_tokens")
    return float(value) if isinstance(value, int | float) else None


def facts(view: View) -> PanelFacts:
    """Median and 95th percentile of the length against the budget, and the share that is cut off."""
    told = note(view, DETECTORS)
    most = budget(view)
    longest = view.values("completion_tokens_max", 20)
    middle = "completion_tokens_mean" if view.lacks("completion_tokens_p50") else "completion_tokens_p50"
    upper = view.series("completion_tokens_p95")
    correlation = view.mean("reward_length_corr")
    return PanelFacts(
        KEY,
        STAGE,
        TITLE,
        Headline("truncated", numbers.share(view.mean(SHARE)), view.status("TRUNCATION")),
        (
            number("p50", numbers.count(view.mean("completion_tokens_p50")), "series1"),
            number("p95", numbers.count(view.mean("completion_tokens_p95")), "series2"),
            number("max", numbers.count(float(longest.max()) if len(longest) else None)),
            number("budget", numbers.count(most)),
            number(
                "len corr",
                numbers.UNKNOWN if correlation is None else numbers.change(correlation, decimals=2),
            ),
            late_value(view, "mean", "completion_tokens_mean"),
            changed(view, "completion_tokens_mean", decimals=2),
            number("tok/step", numbers.count(view.mean("tokens"))),
        ),
        chart(
            view,
            middle,
            replace(
                EMPTY,
                second=None if upper is None else (upper.steps, upper.values),
                limit=None if most is None else Limit(most),
                from_zero=True,
            ),
        ),
        told,
        border(told),
        "no lengths in this log" if view.lacks(middle) and view.lacks(SHARE) else "",
    )
