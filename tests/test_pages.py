"""Every detector's page: the same parts, the same words, and nothing that does not exist."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from grpo_top.cli import VERBS
from grpo_top.config import Settings
from grpo_top.detectors import ALL, BY_ID
from grpo_top.page_links import links
from grpo_top.pages import WIDTH, explained, listing, page, topic_page
from grpo_top.topics import TOPICS
from grpo_top.triage import CAUSES, TEN_THINGS

if TYPE_CHECKING:
    from grpo_top.detectors.base import Detector
    from grpo_top.topics import Topic

PARTS = (
    "What is happening",
    "What it looks like",
    "How the detector decides",
    "What to try, in order",
    "Often mistaken for",
    "Read next",
)
IDS = re.compile(r"\b[A-Z]+(?:_[A-Z]+)+\b|\bTRUNCATION\b|\bGIBBERISH\b|\bLEAKAGE\b")

every_page = pytest.mark.parametrize("detector", ALL, ids=lambda detector: detector.id)


@every_page
def test_a_page_has_the_same_parts_as_every_other(detector: type[Detector]) -> None:
    lines = page(detector, Settings()).splitlines()
    assert lines[0] == detector.id
    assert [line for line in lines if line in PARTS] == list(PARTS)
    assert max(map(len, lines)) <= WIDTH == 80
    assert len(detector.page.try_next) >= 2
    assert all(part.strip() for part in detector.page[:3])
    assert detector.page.related


@every_page
def test_a_page_names_every_knob_and_no_other(detector: type[Detector]) -> None:
    named = set(re.findall(r"`([a-z_]+)`", detector.page.decides))
    assert {knob.name for knob in detector.knobs} <= named
    assert len({knob.name for knob in detector.knobs}) == len(detector.knobs)


@every_page
def test_a_page_names_only_detectors_and_commands_that_exist(detector: type[Detector]) -> None:
    text = " ".join(page(detector, Settings(), width=10_000).split())
    assert set(re.findall(r"\b[A-Z]+_[A-Z_]+\b", text)) <= BY_ID.keys()
    assert set(re.findall(r"grpo-top ([a-z]+)", text)) <= set(VERBS)
    assert set(detector.page.related) <= BY_ID.keys() - {detector.id}


@every_page
def test_a_page_keeps_to_one_word_for_one_thing(detector: type[Detector]) -> None:
    text = " ".join(page(detector, Settings(), width=10_000).split())
    assert (
        re.findall(
            r"late window|learnt|W-mean|zvf|(?:rollouts?|pair) below|!|flat groups?|trajector|samples\b|weight version"
            r"|\b(?:are|was|were|is) cut\b(?! wrongly)|cut (?:completion|answer)s?\b",
            text,
        )
        == []
    )
    assert not any(step.endswith(".") for step in detector.page.try_next)
    assert len(detector.page.what.split(". ")[0]) <= 100


@every_page
def test_a_page_leads_to_its_causes_its_effects_and_the_page_to_read_next(detector: type[Detector]) -> None:
    to = links(detector)
    named = [*to.causes, *to.effects, *to.related]
    assert len(set(named)) == len(named)
    assert set(named) <= BY_ID.keys() - {detector.id}
    assert {id_ for id_ in named if detector.id in CAUSES.get(id_, ())} == set(to.causes)
    assert set(to.effects) == CAUSES.get(detector.id, set())
    assert set(detector.page.related) <= set(named)
    *_, end = page(detector, Settings()).split("\nRead next\n")
    assert f"`grpo-top explain {to.read_next}`" in end
    assert set(named) <= set(IDS.findall(end))


@pytest.mark.parametrize("topic", TOPICS.values(), ids=TOPICS)
def test_a_topic_names_only_detectors_commands_and_topics_that_exist(topic: Topic) -> None:
    text = topic_page(topic)
    assert max(map(len, text.splitlines())) <= WIDTH
    assert set(IDS.findall(text)) <= BY_ID.keys()
    assert set(re.findall(r"grpo-top ([a-z]+)", text)) <= set(VERBS)
    assert set(re.findall(r"explain ([a-z]+)", text)) <= TOPICS.keys()


def test_every_detector_is_a_stage_of_the_chart_and_belongs_to_a_symptom() -> None:
    for name in ("triage", "symptoms"):
        assert set(IDS.findall(topic_page(TOPICS[name]))) == BY_ID.keys()


def test_the_ten_things_to_log_are_each_explained() -> None:
    assert [part.heading for part in TOPICS["logging"].parts] == [
        f"{number}. {item.name}" for number, item in enumerate(TEN_THINGS, 1)
    ]
    assert len(TEN_THINGS) == 10


@pytest.mark.parametrize(
    ("asked", "found"),
    [("degenerate-groups", "DEGENERATE_GROUPS"), ("  Truncation ", "TRUNCATION"), ("Triage", "triage")],
)
def test_a_page_is_found_however_its_name_is_written(asked: str, found: str) -> None:
    assert explained(asked, Settings()).splitlines()[0] == found


@pytest.mark.parametrize(
    ("asked", "hint"),
    [
        ("DEGENERATE_GROUP", "did you mean DEGENERATE_GROUPS?"),
        ("symptom", "did you mean symptoms?"),
        ("train: 0it", "it is spoken of in NO_TRAINABLE_GROUPS"),
        ("xyzzy", "`grpo-top explain` lists all"),
        ("", "`grpo-top explain` lists all"),
    ],
)
def test_a_page_that_is_not_there_names_the_nearest_or_where_to_look(asked: str, hint: str) -> None:
    with pytest.raises(ValueError, match=re.escape(hint)):
        explained(asked, Settings())


def test_the_list_holds_every_detector_under_its_stages_question_and_the_topics() -> None:
    text = listing(ALL)
    lines = text.splitlines()
    assert max(map(len, lines)) <= WIDTH
    named = [line.split()[0] for line in lines if re.match(r"  \S", line)]
    assert [name for name in named if name in BY_ID] == [detector.id for detector in ALL]
    assert named[-len(TOPICS) :] == list(TOPICS)
    assert [line[0] for line in lines if not line.startswith(" ")] == [*"012345678", "t"]
