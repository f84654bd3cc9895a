"""The panels in triage order, and which of them a stage or a finding belongs to."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from grpo_top.ui.panels import diversity, endings, kl, lag, length, reward, sampler, variance

if TYPE_CHECKING:
    from collections.abc import Callable

    from grpo_top.ui.panels.facts import PanelFacts
    from grpo_top.ui.view import View


class Panel(NamedTuple):
    """A panel's identity; what it says comes from `facts`."""

    key: str
    stage: int
    title: str
    detectors: tuple[str, ...]
    """Ids of the findings that make it what it is."""
    facts: Callable[[View], PanelFacts]


PANELS: tuple[Panel, ...] = tuple(
    Panel(module.KEY, module.STAGE, module.TITLE, module.DETECTORS, module.facts)
    for module in (reward, variance, sampler, diversity, endings, length, kl, lag)
)
"""Left to right, top to bottom; never in another order."""
BY_KEY: dict[str, Panel] = {panel.key: panel for panel in PANELS}
_OF_STAGE = {
    1: "reward",
    2: "reward",
    3: "variance",
    4: "sampler",
    5: "endings",
    6: "kl",
    7: "lag",
    8: "reward",
}


def panel_of_stage(stage: int) -> str | None:
    """The first panel of a stage; None for the log itself, which has none."""
    return _OF_STAGE.get(stage)


def next_of_stage(stage: int, current: str) -> str | None:
    """The panel of a stage after the current one, else its first; None for the log itself, which has none."""
    keys = [panel.key for panel in PANELS if panel.stage == stage]
    if current in keys:
        return keys[(keys.index(current) + 1) % len(keys)]
    return panel_of_stage(stage)


def panel_of(id_: str) -> str | None:
    """The panel that a finding belongs to; None for findings about the log itself."""
    return next((panel.key for panel in PANELS if id_ in panel.detectors), None)
