"""Stage 5, format and budget: do answers parse and fit?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from grpo_top.detectors.components import ComponentDivergence
from grpo_top.detectors.format import FormatExploit, ParseFailures
from grpo_top.detectors.length import LengthCollapse, LengthHacking
from grpo_top.detectors.truncation import Truncation

if TYPE_CHECKING:
    from grpo_top.detectors.base import Detector

DETECTORS: tuple[type[Detector], ...] = (
    ParseFailures,
    FormatExploit,
    ComponentDivergence,
    Truncation,
    LengthHacking,
    LengthCollapse,
)
