"""What is said of the findings as a whole, in words: consequences, what cannot be judged, what is not logged."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from grpo_top import triage
from grpo_top.snapshot import Status
from grpo_top.text import first_line

if TYPE_CHECKING:
    from grpo_top.snapshot import DetectorTrack, Finding
    from grpo_top.ui.view import View

_WORDS = {
    "logp_abs_diff": "logprobs",
    "mismatch_kl": "logprobs",
    "is_ratio_mean": "logprobs",
    "effective_sample_size": "logprobs",
    "seed": "seeds",
    "seeds": "seeds",
    "hand_scores": "hand scores",
    "heldout": "held-out evaluations",
    "sampling": "sampling config",
    "termination": "endings",
    "grad_norm": "grad norm",
    "clip_frac": "clip fraction",
    "policy_version": "policy versions",
    "version_lag_max": "policy versions",
    "version_lag_mean": "policy versions",
}
"""How a series is called in a sentence, where its own name is not a word."""
_LONGEST = 400
"""Cells of a finding's sentence at most."""
_LISTED = (5, 4, 3, 2)
"""Words of a list at most, as there is room for them."""


def consequences(view: View, first: Finding) -> list[Finding]:
    """The findings that stand and that the first cause explains, in triage order."""
    return [f for f in view.findings() if view.is_active(f) and follows(view, first, f)]


def ended(text: str) -> str:
    """A sentence with the sign at its end."""
    return text if text.endswith("?") else f"{text.rstrip('.')}."


def said_of(view: View, finding: Finding) -> str:
    """What a finding says: its numbers are of its newest step, which is named where the view is held before it."""
    text = first_line(finding.summary, _LONGEST)
    later = view.cursor is not None and finding.last_step > view.cursor
    return f"by step {finding.last_step}: {text}" if later else text


def watched_since(view: View, track: DetectorTrack) -> int:
    """The first step of the watch that stands at the view's step."""
    row = int(np.searchsorted(track.steps, view.step or 0, side="right")) - 1
    quiet = np.flatnonzero(track.status[: row + 1] < Status.WATCH)
    return int(track.steps[int(quiet[-1]) + 1 if len(quiet) else 0])


def follows(view: View, first: Finding | None, finding: Finding) -> bool:
    """Whether the first cause explains a finding: as triage says of the newest step, as its order is at another."""
    if first is None or finding.id == first.id:
        return False
    if view.cursor is None and finding.active:
        return finding.caused_by == first.id
    return is_below(first, finding.id, finding.stage, view.since(finding))


def is_below(first: Finding | None, id_: str, stage: int, since: int) -> bool:
    """Whether something is downstream of the first cause, if there is one."""
    return first is not None and triage.is_downstream(first, id_, stage, since)


def unjudged(view: View) -> dict[str, str]:
    """Checks that cannot be judged for want of a field → the field, as a word."""
    found = {}
    for id_, series in view.snapshot.unknown:
        name = next((each for each in series if view.lacks(each)), None)
        if name is not None and view.status(id_) is Status.UNKNOWN:
            base = name.partition("{")[0]
            found[id_] = _WORDS.get(base, base.replace("_", " "))
    return found


def unjudged_parts(view: View, room: int | None = None) -> tuple[str, str]:
    """`3 cannot be judged: no logprobs, seeds or hand scores in this log`, and `1 needs more steps`; empty if none.

    As many fields are named as there is `room` for; None is no narrow place.
    """
    fields = unjudged(view)
    unknown = [id_ for id_, status in view.statuses.items() if status is Status.UNKNOWN]
    early = sum(id_ not in fields for id_ in unknown)
    lacking = ""
    if fields:
        names = list(dict.fromkeys(fields.values()))
        said = [f"{len(fields)} cannot be judged: no {_listed(names, most=most)}" for most in _LISTED]
        said = [f"{said[0]} in this log", *said]
        lacking = next((each for each in said if room is None or len(each) <= room), said[-1])
    return lacking, f"{early} need{'s' if early == 1 else ''} more steps" if early else ""


def missing_fields(view: View) -> list[str]:
    """The fields of the ten things to log that this log has not."""
    ending = ": not logged"
    return [
        part.removesuffix(ending)
        for item in view.snapshot.coverage
        for part in item.origin.split(", ")
        if part.endswith(ending)
    ]


def coverage_words(view: View) -> str:
    """`Coverage 9 of 10: tier is not logged`."""
    items = view.snapshot.coverage
    logged = sum(item.status != "missing" for item in items)
    missing = missing_fields(view)
    said = f"Coverage {logged} of {len(items)}"
    if not missing:
        return said
    return f"{said}: {_listed(missing, 'and')} {'is' if len(missing) == 1 else 'are'} not logged"


def _listed(words: list[str], last: str = "or", most: int = _LISTED[0]) -> str:
    """Words as a list in a sentence; a long one ends in how many more there are."""
    if len(words) > most:
        return f"{', '.join(words[: most - 1])} {last} {len(words) - most + 1} more"
    return f" {last} ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)
