"""A detector's rule in one sentence with the knobs in force, and its value beside its limit."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

import numpy as np

from grpo_top import numbers
from grpo_top.detectors import BY_ID, IN_UNITS_OF_SERIES
from grpo_top.measures import Measure, kind_of, measure_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from grpo_top.config import Settings
    from grpo_top.detectors.base import Detector, Knob
    from grpo_top.snapshot import DetectorTrack, Finding
    from grpo_top.ui.view import View

_SAYS = re.compile(r"(?:Fires(?: too)?|Fails|Warns|Remarks|It fails) (?:when |once |where |at |on )?")
_REFERS = re.compile(r"(?:above |below )?(?:it|they|them)\b")
"""A sentence that begins so is not understood without the one before it."""
_KNOB = re.compile(r"`(\w+)`")
_ONE = re.compile(r"\b1 (?:consecutive )?(?:steps|rows|groups|rollouts)\b")


def sentences(text: str, count: int) -> str:
    """The first sentences of a text."""
    parts = " ".join(text.split()).split(". ")
    said = ". ".join(parts[:count])
    return said if said.endswith(".") else f"{said}."


def rule(detector: type[Detector], settings: Settings) -> str:
    """When it fires, with the numbers of its knobs: the page's sentence that says so, else its first one."""
    parts = [part.rstrip(".") for part in " ".join(detector.page.decides.split()).split(". ")]
    at = next((place for place, part in enumerate(parts) if _SAYS.match(part)), 0)
    said = _SAYS.sub("", parts[at], count=1).split("; ")[0]
    if at and _REFERS.match(said):
        said = f"{parts[at - 1]}. {parts[at]}"
    chosen = settings.values(detector.id)
    knobs = {knob.name: knob for knob in detector.knobs}

    def value(match: re.Match[str]) -> str:
        knob = knobs.get(match[1])
        return match[0] if knob is None else _write(knob, knobs, chosen.get(knob.name, knob.default))

    return _ONE.sub(lambda match: match[0][:-1], _KNOB.sub(value, said))


def _write(knob: Knob, knobs: Mapping[str, Knob], value: float) -> str:
    """A knob's value: in percent where it, or the threshold that it stands for, is a share."""
    meaning = knobs.get("threshold", knob).meaning if knob.name.endswith("threshold") else knob.meaning
    share = 0 < value < 1 and ("share" in meaning or "rate" in meaning)
    return numbers.share(value) if share else f"{value:g}"


def value_at(view: View, track: DetectorTrack) -> float | None:
    """The value that a detector judged at the view's step."""
    row = int(np.searchsorted(track.steps, view.step or 0, side="right")) - 1
    if row < 0 or np.isnan(track.values[row]):
        return None
    return float(track.values[row])


def now_and_limit(view: View, id_: str) -> tuple[str, str, str] | None:
    """What a detector reads, its value at the view's step, and its limit; None where they have no common unit."""
    track = view.snapshot.tracks.get(id_)
    value = None if track is None else value_at(view, track)
    if track is None or track.threshold is None or value is None or id_ not in IN_UNITS_OF_SERIES:
        return None
    measure = measure_of(BY_ID[id_].series[0])
    return measure.label, measure.write(value), write_limit(measure, track.threshold)


def judged_numbers(finding: Finding) -> tuple[str, str] | None:
    """The value that made a finding, and the limit that it was held against, in one unit; None where it has none."""
    if finding.value is None or finding.threshold is None:
        return None
    detector = BY_ID.get(finding.id)
    series = detector.series[0] if detector is not None and detector.series else ""
    if finding.id in IN_UNITS_OF_SERIES:
        measure = measure_of(series)
    else:
        share = kind_of(series) == "share" and abs(finding.value) <= 1 and abs(finding.threshold) <= 1
        whole = finding.value == round(finding.value) and finding.threshold == round(finding.threshold)
        measure = Measure("", "share" if share else "count" if whole else "value")
    return measure.write(finding.value), write_limit(measure, finding.threshold)


def write_limit(measure: Measure, limit: float) -> str:
    """A limit with the digits that it has, because it is exact."""
    if measure.kind == "value" and math.isfinite(limit) and (not limit or 1e-3 <= abs(limit) < 1e4):
        return numbers.signed(f"{limit:.6g}")
    return measure.write(limit)
