"""A detector's page as text: what `explain` prints and the screen shows."""

from __future__ import annotations

from textwrap import fill
from typing import TYPE_CHECKING

from grpo_top.snapshot import STAGES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from grpo_top.config import Settings
    from grpo_top.detectors.base import Detector

WIDTH = 96


def listing(detectors: Iterable[type[Detector]]) -> str:
    """Every detector in triage order, under the question of its stage."""
    by_stage: dict[int, list[type[Detector]]] = {}
    for detector in detectors:
        by_stage.setdefault(detector.stage, []).append(detector)
    lines = []
    for stage, of_stage in sorted(by_stage.items()):
        name, question = STAGES[stage]
        lines.append(f"{stage} {name}: {question}")
        lines += [
            f"  {detector.id:<25} {detector.severity.word:<5} {_first_sentence(detector.page.what)}"
            for detector in of_stage
        ]
    return "\n".join(lines) + "\n"


def page(detector: type[Detector], settings: Settings, width: int = WIDTH) -> str:
    """One detector's page with the knobs in force and where each value comes from, in lines of `width` cells."""
    return "\n".join(_page(detector, settings, width)) + "\n"


def _page(detector: type[Detector], settings: Settings, width: int) -> Iterator[str]:
    what = detector.page
    name, question = STAGES[detector.stage]
    yield detector.id
    about = f"severity {detector.severity.word} · stage {detector.stage} {name}: {question}"
    yield fill(about, width, subsequent_indent="  ")
    yield fill(f"reads {', '.join(detector.series)}", width, subsequent_indent="  ")
    for heading, text in (
        ("What is happening", what.what),
        ("What it looks like", what.looks_like),
        ("How the detector decides", what.decides),
    ):
        yield ""
        yield heading
        yield _paragraph(text, width)
    yield from _knobs(detector, settings, width)
    yield ""
    yield "What to try, in order"
    for number, step in enumerate(what.try_next, 1):
        yield fill(step, width, initial_indent=f"  {number}. ", subsequent_indent="     ")
    yield ""
    yield "Often mistaken for"
    yield _paragraph(what.mistaken_for, width)
    if what.related:
        yield ""
        yield fill(f"Related: {', '.join(what.related)}", width, subsequent_indent="  ")


def _knobs(detector: type[Detector], settings: Settings, width: int) -> Iterator[str]:
    chosen = settings.knobs.get(detector.id, {})
    yield ""
    yield f"  {'knob':<18} {'value':>8}  meaning"
    for knob in detector.knobs:
        setting = chosen.get(knob.name)
        value = knob.default if setting is None else setting.value
        origin = "" if setting is None else f" (default {knob.default:g}; set in {setting.origin})"
        yield fill(
            f"{knob.meaning}{origin}",
            width,
            initial_indent=f"  {knob.name:<18} {value:>8g}  ",
            subsequent_indent=" " * 31,
        )
    if not settings.enabled(detector.id):
        yield f"  switched off in {chosen['enabled'].origin}"


def _paragraph(text: str, width: int) -> str:
    return "\n\n".join(
        fill(" ".join(part.split()), width, initial_indent="  ", subsequent_indent="  ")
        for part in text.split("\n\n")
    )


def _first_sentence(text: str) -> str:
    sentence = " ".join(text.split()).split(". ")[0].rstrip(".")
    return sentence if len(sentence) <= 100 else sentence[:99] + "…"
