"""Every detector, one module a triage stage; a stage that is long has more, and its module names what they hold."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grpo_top.detectors import budget, data, heldout, kl, learnable, reward, rollouts, staleness, variance
from grpo_top.spelling import meant

if TYPE_CHECKING:
    from grpo_top.detectors.base import Detector

ALL: tuple[type[Detector], ...] = (
    *data.DETECTORS,
    *learnable.DETECTORS,
    *reward.DETECTORS,
    *variance.DETECTORS,
    *rollouts.DETECTORS,
    *budget.DETECTORS,
    *kl.DETECTORS,
    *staleness.DETECTORS,
    *heldout.DETECTORS,
)
"""In triage order."""
BY_ID: dict[str, type[Detector]] = {detector.id: detector for detector in ALL}

IN_UNITS_OF_SERIES = frozenset(
    (
        "BASE_SUCCESS_ZERO",
        "CLIP_SATURATION",
        "DEGENERATE_GROUPS",
        "GIBBERISH",
        "KL_PINNED",
        "LENGTH_HACKING",
        "LOW_DIVERSITY",
        "LOW_TRAINABILITY",
        "MIXED_VERSIONS",
        "PARSE_FAILURES",
        "REPETITION_LOOPS",
        "SPARSE_REWARD",
        "TRUNCATION",
        "UNIFORM_COMPONENT",
        "VERIFIER_ERRORS",
    )
)
"""Detectors whose value and `threshold` are both numbers of their first series; the others judge against a baseline."""


def find(id_: str) -> type[Detector]:
    """The detector of that id, however it is written; ValueError that names the nearest id where there is none."""
    wanted = id_.strip().upper().replace("-", "_").replace(" ", "_")
    known = BY_ID.get(wanted)
    if known is not None:
        return known
    close = meant(wanted, BY_ID, cutoff=0.5)
    near = f"; did you mean {close}?" if close else ""
    raise ValueError(f"there is no detector {id_.strip()}{near}")
