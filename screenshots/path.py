"""The way from the first cause to the rollout that proves it, as an animated SVG: one picture a scene, in text."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from rich.segment import Segment
from rich.style import Style
from svg import HIGH, WIDE, document, row

if TYPE_CHECKING:
    from collections.abc import Sequence

    from svg import Palette
    from textual.strip import Strip

    from grpo_top.ui.theme import Palette as Colours


class Scene(NamedTuple):
    """What is pressed, how long it is looked at, and what there is to see."""

    keys: tuple[str, ...]
    seconds: float
    shown: str
    """The key as it is written."""
    what: str


STORY = (
    Scene(
        (), 5.0, "grpo-top demo", "the first cause stands on top: the sampler runs at 0.15 where 1.0 is meant"
    ),
    Scene(
        ("enter",),
        5.0,
        "enter",
        "its evidence: what changed at step 51, what to try, which rollouts prove it",
    ),
    Scene(("enter", "end"), 5.0, "enter", "one of them: how it was sampled, its reward, and its group"),
    Scene(
        ("tab", "end"),
        4.0,
        "tab",
        "its siblings: one text, one reward, no advantage. Nothing is left to learn from",
    ),
)


def recording(frames: Sequence[tuple[Scene, Sequence[Strip]]], palette: Palette, colours: Colours) -> str:
    """All scenes one after another, for ever. Rows that several scenes share are drawn once."""
    rows: dict[str, str] = {}
    scenes, css = [], [".f{visibility:hidden}"]
    total = sum(scene.seconds for scene, _ in frames)
    begun = 0.0
    width, height = frames[0][1][0].cell_length, len(frames[0][1]) + 2
    for number, (scene, strips) in enumerate(frames):
        drawn = [*(row(strip, palette) for strip in strips), "", row(_caption(scene, colours), palette)]
        uses = "".join(
            f'<use href="#{rows.setdefault(one, f"r{len(rows)}")}" y="{at * HIGH}"/>'
            for at, one in enumerate(drawn)
            if one
        )
        scenes.append(f'<g class="f" style="animation:f{number} {total:g}s step-end infinite">{uses}</g>')
        first, last = 100 * begun / total, 100 * (begun + scene.seconds) / total
        css.append(f"@keyframes f{number}{{0%{{visibility:{'visible' if not number else 'hidden'}}}")
        css.append(f"{first:.2f}%{{visibility:visible}}{last:.2f}%{{visibility:hidden}}}}")
        begun += scene.seconds
    defined = "".join(f'<g id="{name}">{one}</g>\n' for one, name in rows.items())
    body = f"<defs>\n{defined}</defs>\n" + "\n".join(scenes)
    title = "grpo-top: from the first cause to the rollout that proves it"
    return document(body, palette, width * WIDE, height * HIGH, title, "".join(css))


def _caption(scene: Scene, colours: Colours) -> list[Segment]:
    return [
        Segment("  "),
        Segment(f" {scene.shown} ", Style(color=colours.accent, bold=True, reverse=True)),
        Segment(f"  {scene.what}", Style(color=colours.text)),
    ]
