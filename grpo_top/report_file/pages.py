"""The pages of `grpo-top explain` as blocks: each with an anchor, and linked to each other."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from grpo_top.detectors import ALL, BY_ID
from grpo_top.page_links import links
from grpo_top.report_file.blocks import Block, Code, Fold, Heading, Link, Listing, Paragraph, Prose, Table
from grpo_top.snapshot import STAGES

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from grpo_top.config import Settings
    from grpo_top.detectors.base import Detector

_PIECE = re.compile(r"(`[^`]+`|\b[A-Z_]{4,}\b)")
"""Code, or what may be a detector's id."""


def anchor(id_: str) -> str:
    """What a link to a detector's page names."""
    return f"page-{id_}"


def pages(found: Sequence[str], settings: Settings, *, others: bool) -> Iterator[Block]:
    """The pages of the detectors that found something; those of the others, folded, if they are wanted.

    Without the others it is a short document, in which the pages of what was found are folded.
    """
    rest = [detector for detector in ALL if others and detector.id not in found]
    there = {*found, *(detector.id for detector in rest)}
    if there:
        yield Heading(2, "The pages of what was found" if found else "The pages of the checks", "pages")
    of_found = tuple(block for id_ in found for block in _page(BY_ID[id_], settings, there))
    if others:
        yield from of_found
    elif of_found:
        yield Fold(", ".join(found), of_found)
    if rest:
        told = f"The pages of the {'other ' if found else ''}{len(rest)} checks"
        yield Fold(told, tuple(block for detector in rest for block in _page(detector, settings, there)))


def prose(text: str, there: Collection[str]) -> Prose:
    """A paragraph of a page: code in backticks is code, and a detector whose page is there becomes a link."""
    pieces = [_piece(piece, there) for piece in _PIECE.split(" ".join(text.split())) if piece]
    return Prose(tuple(pieces))


def _piece(piece: str, there: Collection[str]) -> str | Code | Link:
    if piece.startswith("`"):
        return Code(piece.strip("`"))
    return Link(piece, anchor(piece)) if piece in there else piece


def _page(detector: type[Detector], settings: Settings, there: Collection[str]) -> Iterator[Block]:
    what = detector.page
    name, question = STAGES[detector.stage]
    yield Heading(3, detector.id, anchor(detector.id))
    reads = f" Reads {', '.join(f'`{one}`' for one in detector.series)}" if detector.series else ""
    yield prose(f"Severity {detector.severity.word}, stage {detector.stage} {name}: {question}{reads}", there)
    for heading, text in (
        ("What is happening", what.what),
        ("What it looks like", what.looks_like),
        ("How the detector decides", what.decides),
    ):
        yield Heading(4, heading)
        yield from (prose(part, there) for part in text.split("\n\n"))
    yield from _knobs(detector, settings)
    yield Heading(4, "What to try, in order")
    yield Listing([prose(step, there) for step in what.try_next], ordered=True)
    yield Heading(4, "Often mistaken for")
    yield prose(what.mistaken_for, there)
    yield Heading(4, "Read next")
    yield Listing([prose(line, there) for line in _read_next(detector)])


def _read_next(detector: type[Detector]) -> Iterator[str]:
    to = links(detector)
    yield f"{to.read_next}{', which may be its cause' if to.read_next in to.causes else ''}"
    for label, ids in (
        ("May follow from", to.causes),
        ("May lead to", to.effects),
        ("Related", to.related),
    ):
        if ids:
            yield f"{label}: {', '.join(ids)}"


def _knobs(detector: type[Detector], settings: Settings) -> Iterator[Block]:
    chosen = settings.knobs.get(detector.id, {})
    rows = []
    for knob in detector.knobs:
        setting = chosen.get(knob.name)
        origin = "" if setting is None else f" (default {knob.default:g}; set in {setting.origin})"
        value = knob.default if setting is None else setting.value
        rows.append((knob.name, f"{value:g}", f"{knob.meaning}{origin}"))
    if rows:
        yield Table(("knob", "value", "meaning"), rows)
    if not settings.enabled(detector.id):
        yield Paragraph(f"Switched off in {chosen['enabled'].origin}.")
