"""Stage 4: are the rollouts of a group different, and is the policy still open?"""

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
    compared_share,
    late_share,
    late_value,
    limit,
    note,
    number,
)

if TYPE_CHECKING:
    from grpo_top.ui.view import View

KEY, STAGE, TITLE = "diversity", 4, "Diversity"
DETECTORS = ("LOW_DIVERSITY", "REPETITION_LOOPS", "GIBBERISH", "ENTROPY_COLLAPSE", "ENTROPY_EXPLOSION")
SHARE = "duplicate_frac"


def facts(view: View) -> PanelFacts:
    """The share of copies in a group, and entropy beside it; entropy alone where texts are not logged."""
    told = note(view, DETECTORS)
    entropy = view.values("entropy")
    size = view.snapshot.run.group_size
    no_texts = view.lacks(SHARE)
    if no_texts:
        headline = Headline("entropy", numbers.value(view.mean("entropy")), view.status("ENTROPY_COLLAPSE"))
        plot = chart(view, "entropy")
    else:
        headline = Headline("duplicates", numbers.share(view.mean(SHARE)), view.status("LOW_DIVERSITY"))
        plot = chart(view, SHARE, replace(EMPTY, share=True, limit=limit(view.limit("LOW_DIVERSITY"))))
    return PanelFacts(
        KEY,
        STAGE,
        TITLE,
        headline,
        (
            compared_share(view, SHARE),
            late_share(view, "identical", "identical_group_frac"),
            late_share(view, "loops", "repetition_frac"),
            late_value(view, "entropy", "entropy"),
            changed(view, "entropy"),
            number(
                "texts" if size is None else f"texts of {size}",
                numbers.fixed(view.mean("distinct_texts_mean"), 1),
            ),
            number("min", numbers.value(float(entropy.min()) if len(entropy) else None)),
            number("median len", numbers.count(view.mean("completion_tokens_p50"))),
        ),
        plot,
        told,
        border(told),
        "no completions and no entropy in this log" if no_texts and not len(entropy) else "",
    )
