"""What holds of every detector: its page is whole, and no series makes it crash, forget or remember wrongly."""

from __future__ import annotations

import copy
import json
import math
from itertools import cycle
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grpo_top.detectors import ALL, BY_ID, find
from grpo_top.facts import EvalPoint, RewardScale, RunState, StepFacts
from grpo_top.records import Success
from grpo_top.snapshot import STAGES, Status
from grpo_top.verdicts import Judge

if TYPE_CHECKING:
    from grpo_top.detectors.base import Detector

every_detector = pytest.mark.parametrize("detector", ALL, ids=lambda detector: detector.id)
SERIES = sorted({name for detector in ALL for name in detector.series})


def test_detectors_stand_in_the_order_of_triage() -> None:
    stages = [detector.stage for detector in ALL]
    assert stages == sorted(stages)
    assert set(stages) == set(range(len(STAGES)))


def test_every_id_is_one_detectors() -> None:
    assert len(BY_ID) == len(ALL)


def test_a_detector_is_found_however_its_id_is_written() -> None:
    assert find(" degenerate-groups ").id == "DEGENERATE_GROUPS"
    with pytest.raises(ValueError, match=r"no detector DEGENRATE_GROUP; did you mean DEGENERATE_GROUPS\?"):
        find("DEGENRATE_GROUP")
    with pytest.raises(ValueError, match=r"no detector xyzzy$"):
        find("xyzzy")


@every_detector
def test_a_page_has_all_its_parts(detector: type[Detector]) -> None:
    page = detector.page
    for part in (page.what, page.looks_like, page.decides, page.mistaken_for):
        assert part.strip() == part
        assert part.endswith((".", "?"))
        assert "  " not in part
    assert len(page.try_next) >= 2
    for step in page.try_next:
        assert step[0].isupper() or not step[0].isalpha()
        assert not step.endswith(".")
    assert set(page.related) <= set(BY_ID) - {detector.id}
    assert page.related


@every_detector
def test_a_page_names_every_knob_that_it_speaks_of(detector: type[Detector]) -> None:
    for knob in detector.knobs:
        assert knob.meaning
        assert f"`{knob.name}`" in detector.page.decides, f"{detector.id}.{knob.name}"


@every_detector
def test_a_knob_that_is_set_takes_its_defaults_place(detector: type[Detector]) -> None:
    for knob in detector.knobs:
        assert getattr(detector({}), knob.name) == knob.default
        assert getattr(detector({knob.name: 7.0}), knob.name) == 7.0


@every_detector
def test_nothing_is_known_from_a_step_that_carries_nothing(detector: type[Detector]) -> None:
    judge = detector({})
    for step in range(1, 40):
        verdict = judge.observe(StepFacts(step, RunState(), RewardScale(), {}))
        assert verdict.status <= Status.OK
        if detector.series:
            assert verdict.status == Status.UNKNOWN or detector.id == "LOG_STALLED"


SPECIAL = (0.0, 1.0, 0.5, 1e-9, 1e6, -1.0)
values = st.one_of(st.sampled_from(SPECIAL), st.floats(0, 1), st.floats(-1e4, 1e4, allow_nan=False))
runs = st.builds(
    RunState,
    group_size=st.sampled_from([None, 1, 8]),
    reward_range=st.sampled_from([None, (0.0, 1.0), (0.0, 0.0)]),
    success=st.sampled_from([None, Success("reward", 1.0), Success("accuracy", 1.0)]),
    version_lag_tolerance=st.sampled_from([None, 0.0, 2.0]),
)


@st.composite
def log(draw: st.DrawFn) -> list[StepFacts]:
    """Some dozens of steps on which series come, stay, jump and stop."""
    run, scale = draw(runs), RewardScale()
    carried = draw(
        st.lists(st.sampled_from([*SERIES, "component_mean{a}", "component_mean{b}"]), max_size=12)
    )
    level = {name: draw(values) for name in carried}
    steps, step = [], draw(st.integers(0, 30))
    for _ in range(draw(st.integers(1, 45))):
        step += draw(st.sampled_from([1, 1, 1, 10]))
        for name in carried:
            if draw(st.integers(0, 9)) == 0:
                level[name] = draw(values)
        missing = set(draw(st.lists(st.sampled_from(carried), max_size=3))) if carried else set()
        known = {name: value for name, value in level.items() if name not in missing}
        steps.append(
            StepFacts(
                step,
                run,
                scale,
                known,
                nonfinite=tuple(sorted(missing))[:1],
                trainer=known,
                gaps=dict.fromkeys(list(known)[:1], 10),
                evals=(EvalPoint("heldout", step, draw(values)),) if draw(st.booleans()) else (),
                unreadable=draw(st.sampled_from([0, 0, 3])),
                restarted_from=draw(st.sampled_from([None, None, None, step + 5])),
            )
        )
    return steps


@every_detector
@given(steps=log())
@settings(max_examples=25)
def test_no_log_makes_it_crash_and_a_copy_goes_on_as_the_original(
    detector: type[Detector], steps: list[StepFacts]
) -> None:
    original = detector({})
    copied = original
    for number, facts in enumerate(steps):
        if number == len(steps) // 2:
            copied = copy.deepcopy(original)
        verdict = original.observe(facts)
        if copied is not original:
            assert repr(copied.observe(facts)) == repr(verdict)
        assert verdict.status <= detector.severity
        if verdict.status >= Status.INFO:
            details = original.describe(facts)
            assert details.summary
            assert not details.summary.endswith(".")
            assert "nan" not in details.summary.lower().split()
            json.dumps(details.evidence, allow_nan=True)
            assert len(details.rows) <= 50
        assert verdict.value is None or not math.isnan(verdict.value) or verdict.status <= Status.OK


@pytest.mark.parametrize(
    "detector", [one for one in ALL if one.sees is not None], ids=lambda detector: detector.id
)
@given(steps=log())
@settings(max_examples=10)
def test_a_step_that_carries_nothing_that_it_sees_need_not_be_shown_to_it(
    detector: type[Detector], steps: list[StepFacts]
) -> None:
    shown, spared, verdict = detector({}), detector({}), None
    assert detector.sees is not None
    for facts in steps:
        if verdict is None or not detector.sees.isdisjoint(facts.values):
            verdict = spared.observe(facts)
        assert repr(shown.observe(facts)) == repr(verdict)


@given(steps=log(), sizes=st.lists(st.integers(1, 20), min_size=1))
@settings(max_examples=25, deadline=None)
def test_steps_that_are_judged_together_are_judged_as_one_by_one(
    steps: list[StepFacts], sizes: list[int]
) -> None:
    together, alone = Judge(ALL, {}), Judge(ALL, {})
    for facts in steps:
        alone.observe(facts)
    left, size = steps, cycle(sizes)
    while left:
        count = min(next(size), together.room(len(left)))
        together.observe_together(left[:count], len(left[count:]))
        left = left[count:]
    assert said(together) == said(alone)


def said(judge: Judge) -> list[str]:
    """Every verdict at every step, and every finding."""
    rows = [
        repr((track.id, track.status.tolist(), track.values.tolist())) for track in judge.tracks().values()
    ]
    return [*rows, *map(repr, judge.findings(lambda _: ()))]
