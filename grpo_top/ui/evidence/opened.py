"""What an opened panel is made of: its chart, the series under it, and what its tables show."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from grpo_top.measures import measure_of
from grpo_top.ui.panels.catalogue import BY_KEY
from grpo_top.ui.panels.facts import EMPTY, chart, limit
from grpo_top.ui.panels.sampler import SamplerFacts

if TYPE_CHECKING:
    from grpo_top.ui.panels.catalogue import Panel
    from grpo_top.ui.panels.facts import PanelFacts
    from grpo_top.ui.view import View
    from grpo_top.ui.widgets.chart import ChartSpec


@dataclass(frozen=True, slots=True)
class Opened:
    """The parts of one opened panel that are its own."""

    key: str
    title: str
    """Of the chart."""
    series: tuple[str, ...]
    """Which series the chart shows: the first that the log has."""
    judge: str
    """The detector whose rule has a limit for it."""
    companions: tuple[str, ...]
    """What is drawn under it: the first that the log has, and that is not one value throughout."""
    columns: tuple[str, ...]
    """Of the table by family, see `parts.COLUMNS`; `*` stands for the reward's components."""
    worst: tuple[str, ...]
    """Orders of the list of groups, see `worst.ORDERS`; the first is the panel's own."""
    bins: str = ""
    """Which distribution is shown, see `spread.SPREADS`; empty where there is none."""
    limit_word: str = "limit"


OPENED: dict[str, Opened] = {
    opened.key: opened
    for opened in (
        Opened(
            "reward",
            "Mean reward of a step",
            ("reward_mean",),
            "",
            ("success_rate", "reward_std"),
            ("groups", "reward", "*", "success", "errors"),
            ("mean", "errors", "newest"),
            "reward",
        ),
        Opened(
            "variance",
            "Share of groups without spread",
            ("zero_variance_group_frac",),
            "DEGENERATE_GROUPS",
            ("group_reward_std_mean", "reward_std"),
            ("groups", "zero-var", "all-fail", "group σ", "success"),
            ("σ", "mean", "texts", "newest"),
            "σ",
        ),
        Opened(
            "sampler",
            "As deployed",
            (),
            "",
            ("duplicate_frac", "entropy", "completion_tokens_mean"),
            ("groups", "duplicates", "texts", "group σ", "reward"),
            ("texts", "σ", "newest"),
            limit_word="intended",
        ),
        Opened(
            "diversity",
            "Share of completions that copy another one of their group",
            ("duplicate_frac", "entropy"),
            "LOW_DIVERSITY",
            ("entropy", "distinct_texts_mean"),
            ("groups", "duplicates", "texts", "identical", "length"),
            ("texts", "loops", "σ", "newest"),
            "texts",
        ),
        Opened(
            "endings",
            "Share of answers that do not parse",
            ("parse_failure_rate",),
            "PARSE_FAILURES",
            ("success_rate", "truncation_rate"),
            ("rollouts", "unparsed", "truncated", "success", "errors"),
            ("unparsed", "mean", "newest"),
            "endings",
        ),
        Opened(
            "length",
            "Completion tokens: median, and 95th percentile",
            ("completion_tokens_p50", "completion_tokens_mean"),
            "",
            ("truncation_rate", "reward_length_corr"),
            ("rollouts", "length", "p95", "truncated", "success"),
            ("length", "truncated", "newest"),
            "length",
            limit_word="budget",
        ),
        Opened(
            "kl",
            "KL to the reference policy",
            ("kl",),
            "KL_EXPLODING",
            ("grad_norm", "clip_frac", "entropy", "loss"),
            ("groups", "reward", "success", "duplicates", "length"),
            ("newest", "mean", "length"),
        ),
        Opened(
            "lag",
            "Versions between sampling and training, the most of a step",
            ("version_lag_max", "version_lag_mean"),
            "",
            ("mismatch_kl", "logp_abs_diff", "mixed_version_frac", "version_lag_mean"),
            ("rollouts", "lag", "max lag", "reward", "success"),
            ("lag", "mean", "newest"),
            "lag",
            limit_word="tolerance",
        ),
    )
}
"""By the panel's key."""
COMPANION_LIMITS = {"truncation_rate": "TRUNCATION", "entropy": "", "clip_frac": "CLIP_SATURATION"}
"""Which detector's limit is drawn into a companion's chart."""
_UNDER = {"entropy": "the policy's, in nats a token", "group_reward_std_mean": "mean of the groups of a step"}


@dataclass(frozen=True, slots=True, eq=False)
class Plot:
    """A chart with what stands above it."""

    spec: ChartSpec
    title: str
    series: str
    """Which canonical series it shows; empty for a sampling setting."""
    words: str = ""


def main_plot(view: View, opened: Opened, facts: PanelFacts) -> Plot | None:
    """The panel's chart, over the steps that carry its series alone; None where there is none."""
    if facts.chart is None or facts.missing:
        return None
    title, name = opened.title, next((name for name in opened.series if not view.lacks(name)), "")
    if isinstance(facts, SamplerFacts):
        title = f"{facts.charted} {opened.title[0].lower()}{opened.title[1:]}"
    elif opened.series and name != opened.series[0] and opened.key == "diversity":
        title = "Entropy of the policy"
    return Plot(replace(carried(facts.chart), labels=True), title, name)


def companion_plot(view: View, opened: Opened, shown: str) -> Plot | None:
    """The chart under it, on the same axis, of a series that moves if there is one; None where none is logged."""
    known = [name for name in opened.companions if not view.lacks(name) and name != shown]
    if not known:
        return None
    name = next((name for name in known if np.ptp(view.values(name)) > 0), known[0])
    measure = measure_of(name)
    judge = COMPANION_LIMITS.get(name, "")
    spec = chart(
        view,
        name,
        replace(EMPTY, share=measure.kind == "share", limit=limit(view.limit(judge)) if judge else None),
    )
    if spec is None:
        return None
    return Plot(replace(carried(spec), role="series2"), measure.label, name, _UNDER.get(name, ""))


def carried(spec: ChartSpec) -> ChartSpec:
    """A chart of the steps alone that carry its series: one logged every tenth step is a line all the same."""
    known = ~np.isnan(spec.values)
    found = replace(spec, steps=spec.steps[known], values=spec.values[known])
    if spec.second is not None:
        steps, values = spec.second
        known = ~np.isnan(values)
        found = replace(found, second=(steps[known], values[known]))
    return found


def opened_panel(key: str) -> tuple[Panel, Opened]:
    """A panel and its opened form. KeyError where there is no such panel."""
    return BY_KEY[key], OPENED[key]
