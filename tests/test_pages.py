"""Every detector's page: the same parts, the same words, and nothing that does not exist."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from grpo_top.cli import VERBS
from grpo_top.config import Settings
from grpo_top.detectors import ALL, BY_ID
from grpo_top.pages import WIDTH, listing, page

if TYPE_CHECKING:
    from grpo_top.detectors.base import Detector

PARTS = (
    "What is happening",
    "What it looks like",
    "How the detector decides",
    "What to try, in order",
    "Often mistaken for",
)

every_page = pytest.mark.parametrize("detector", ALL, ids=lambda detector: detector.id)


@every_page
def test_a_page_has_the_same_parts_as_every_other(detector: type[Detector]) -> None:
    lines = page(detector, Settings()).splitlines()
    assert lines[0] == detector.id
    assert [line for line in lines if line in PARTS] == list(PARTS)
    assert max(map(len, lines)) <= WIDTH
    assert len(detector.page.try_next) >= 2


@every_page
def test_a_page_names_every_knob_and_no_other(detector: type[Detector]) -> None:
    named = set(re.findall(r"`([a-z_]+)`", detector.page.decides))
    assert {knob.name for knob in detector.knobs} <= named
    assert len({knob.name for knob in detector.knobs}) == len(detector.knobs)


@every_page
def test_a_page_names_only_detectors_and_commands_that_exist(detector: type[Detector]) -> None:
    text = " ".join(page(detector, Settings(), width=10_000).split())
    assert set(re.findall(r"\b[A-Z]+_[A-Z_]+\b", text)) <= BY_ID.keys()
    assert set(re.findall(r"grpo-top (\w+)", text)) <= set(VERBS)
    assert set(detector.page.related) <= BY_ID.keys() - {detector.id}


@every_page
def test_a_page_keeps_to_one_word_for_one_thing(detector: type[Detector]) -> None:
    text = " ".join(page(detector, Settings(), width=10_000).split())
    assert re.findall(r"late window|learnt|W-mean|zvf|(?:rollouts?|pair) below|!", text) == []
    assert not any(step.endswith(".") for step in detector.page.try_next)
    assert len(detector.page.what.split(". ")[0]) <= 100


def test_the_list_holds_every_detector_under_its_stages_question() -> None:
    lines = listing(ALL).splitlines()
    assert [line.split()[0] for line in lines if line.startswith("  ")] == [detector.id for detector in ALL]
    assert len([line for line in lines if not line.startswith("  ")]) == 9
