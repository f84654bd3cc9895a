"""Stage 3: does each group disagree?"""

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
    chart,
    compared_value,
    late_share,
    late_value,
    limit,
    note,
    number,
    spread,
)

if TYPE_CHECKING:
    from grpo_top.ui.view import View

KEY, STAGE, TITLE = "variance", 3, "Group variance"
DETECTORS = (
    "DEGENERATE_GROUPS",
    "NO_TRAINABLE_GROUPS",
    "UNIFORM_COMPONENT",
    "ADV_COLLAPSE",
    "REWARD_STD_DEATH",
    "LOW_TRAINABILITY",
    "TRAINABILITY_DECLINE",
    "SATURATED_REWARD",
    "SPARSE_REWARD",
    "NO_UPDATE",
    "REWARD_PLATEAU",
)
SHARE = "zero_variance_group_frac"


def flattest_component(view: View) -> str | None:
    """The reward component that most groups agree on over the late window; None without components."""
    shares = {name: view.mean(f"component_zero_variance{{{name}}}") for name in view.snapshot.run.components}
    known = {name: share for name, share in shares.items() if share is not None}
    return max(known, key=lambda name: known[name]) if known else None


def steps_without_trainable(view: View) -> int:
    """How many of the newest steps running have no group with spread."""
    values = view.values("trainable_ratio")
    some = np.flatnonzero(values > 0)
    return len(values) - (int(some[-1]) + 1 if len(some) else 0)


def facts(view: View) -> PanelFacts:
    """The share of groups without spread and what they are. Where no group has any, this step's own values."""
    told = note(view, DETECTORS)
    dead = view.status("NO_TRAINABLE_GROUPS") is Status.FAIL
    if dead:
        headline = Headline("no trainable group", f"{steps_without_trainable(view)} steps", Status.FAIL)
    else:
        headline = Headline(
            "zero-variance", numbers.share(view.mean(SHARE)), view.status("DEGENERATE_GROUPS")
        )
    return PanelFacts(
        KEY,
        STAGE,
        TITLE,
        headline,
        _this_step(view) if dead else _late(view),
        chart(view, SHARE, replace(EMPTY, share=True, limit=limit(view.limit("DEGENERATE_GROUPS")))),
        told,
        border(told),
        "no group rewards in this log" if view.lacks(SHARE) else "",
    )


def _late(view: View) -> tuple[Number, ...]:
    zero = view.mean(SHARE)
    flattest = flattest_component(view)
    rows = [
        late_share(view, "all-fail", "all_fail_group_frac"),
        late_share(view, "all-pass", "all_pass_group_frac"),
        number("mixed", numbers.share(None if zero is None else 1 - zero)),
        number("group σ", spread(view.mean("group_reward_std_mean"))),
        compared_value(view, "group_reward_std_mean"),
    ]
    if flattest is not None:
        uniform = view.status("UNIFORM_COMPONENT") >= Status.WARN
        text = spread(view.mean(f"component_std_mean{{{flattest}}}"))
        rows.append(number(f"{flattest} σ", text, "warn bold" if uniform else "text"))
    rows += [late_value(view, "adv σ", "adv_std"), late_share(view, "trainable", "trainable_ratio")]
    return tuple(rows)


def _this_step(view: View) -> tuple[Number, ...]:
    zero, ratio = view.at(SHARE), view.at("trainable_ratio")
    groups = view.at("groups")
    trainable = numbers.share(ratio)
    if ratio is not None and groups is not None:
        trainable = numbers.part_of(round(ratio * groups), round(groups))
    return (
        number("zero-var", numbers.share(zero), "fail bold"),
        number("all-fail", numbers.share(view.at("all_fail_group_frac"))),
        number("mixed", numbers.share(None if zero is None else 1 - zero)),
        number("group σ", spread(view.at("group_reward_std_mean")), "fail bold"),
        compared_value(view, "group_reward_std_mean"),
        number("adv σ", spread(view.at("adv_std"))),
        number("trainable", trainable),
        number("identical", numbers.share(view.at("identical_group_frac"))),
    )
