"""Stage 4, rollouts: are they diverse, sampled as intended, ended for the right reason?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from grpo_top.detectors.endings import TerminationShift
from grpo_top.detectors.entropy import EntropyCollapse, EntropyExplosion
from grpo_top.detectors.replay import NondeterministicReplay
from grpo_top.detectors.sampler import SamplerDrift
from grpo_top.detectors.texts import Gibberish, LowDiversity, RepetitionLoops

if TYPE_CHECKING:
    from grpo_top.detectors.base import Detector

DETECTORS: tuple[type[Detector], ...] = (
    SamplerDrift,
    LowDiversity,
    RepetitionLoops,
    TerminationShift,
    NondeterministicReplay,
    Gibberish,
    EntropyCollapse,
    EntropyExplosion,
)
