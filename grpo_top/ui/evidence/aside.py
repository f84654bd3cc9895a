"""The box between the table by family and the groups: a distribution, the settings, or the panel's numbers."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from grpo_top.ui.evidence.layout import Frame
from grpo_top.ui.evidence.spread import spread_frame, spread_rows
from grpo_top.ui.panels.sampler import SamplerFacts
from grpo_top.ui.widgets.panel import number_runs
from grpo_top.ui.widgets.sampler_table import sampler_rows

if TYPE_CHECKING:
    from grpo_top.ui.evidence.layout import Row
    from grpo_top.ui.evidence.pool import Pool
    from grpo_top.ui.evidence.spread import Bins
    from grpo_top.ui.evidence.windows import Windows
    from grpo_top.ui.glyphs import Glyphs
    from grpo_top.ui.panels.facts import PanelFacts
    from grpo_top.ui.view import View

WIDTH, WIDTH_OF_SETTINGS = 34, 50


def width_of_aside(facts: PanelFacts) -> int:
    """Cells that the box takes where it stands beside others."""
    return WIDTH_OF_SETTINGS if isinstance(facts, SamplerFacts) else WIDTH


def aside(
    view: View,
    facts: PanelFacts,
    kind: str,
    bins: Bins | None,
    windows: Windows,
    pools: tuple[Pool, Pool],
    width: int,
    glyphs: Glyphs,
) -> tuple[Frame, list[Row]]:
    """The box's frame, and its rows in lines of `width` cells."""
    if bins is not None:
        return spread_frame(kind, glyphs), spread_rows(view, kind, bins, windows, pools, width, glyphs)
    if isinstance(facts, SamplerFacts):
        rows = len(facts.settings) + 4
        return Frame([("Settings", "text bold")]), sampler_rows(
            replace(facts, chart=None), width, rows, glyphs
        )
    room = min(width, WIDTH - 4)
    return Frame([("Numbers", "text bold")], [("20 steps", "dim")]), [
        number_runs(number, room, glyphs) for number in facts.numbers
    ]
