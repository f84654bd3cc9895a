"""What holds of every detector of stages 4 to 8, whatever a run does."""

from __future__ import annotations

import copy
import json
import math
from typing import TYPE_CHECKING, Any

import pytest
from detector_steps import INFO, UNKNOWN
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from runs import read, write_log

from grpo_top.detectors import BY_ID, budget, heldout, kl, rollouts, staleness
from grpo_top.facts import EvalPoint, RewardScale, RunState, StepFacts
from grpo_top.snapshot import Status

if TYPE_CHECKING:
    from grpo_top.detectors.base import Detector

DETECTORS = (
    *rollouts.DETECTORS,
    *budget.DETECTORS,
    *kl.DETECTORS,
    *staleness.DETECTORS,
    *heldout.DETECTORS,
)
RUN = RunState(
    sampling={"temperature": 1.0, "max_tokens": 64}, reward_range=(0.0, 1.0), version_lag_tolerance=1
)
SHARES = st.sampled_from([0.0, 0.01, 0.2, 0.5, 0.95, 1.0])
NUMBERS = st.one_of(SHARES, st.floats(-1e6, 1e6), st.sampled_from([1e-12, 3.0, 40.0]))
every_detector = pytest.mark.parametrize("detector", DETECTORS, ids=lambda detector: detector.id)


def series_of(detector: type[Detector]) -> list[str]:
    """Names that it may look at, with what stands in braces."""
    families = {"component_mean": ["correct", "format"], "termination": ["stop", "error"]}
    names = {*detector.series, "reward_mean", "reward_std", "rollouts", "groups", "completion_tokens_mean"}
    return sorted(
        full
        for name in names
        for full in ([f"{name}{{{part}}}" for part in families[name]] if name in families else [name])
    )


def facts_of(rows: list[dict[str, float]]) -> list[StepFacts]:
    scale = RewardScale()
    return [
        StepFacts(
            step,
            RUN,
            scale,
            {name: value for name, value in row.items() if name != "heldout"},
            evals=(EvalPoint("heldout", step, row["heldout"]),) if "heldout" in row else (),
        )
        for step, row in enumerate(rows, 1)
    ]


def told(detector: Detector, facts: StepFacts) -> tuple[Any, ...]:
    """A verdict and, where it fires, what is said of it, as JSON would carry it."""
    verdict = detector.observe(facts)
    if verdict.status < INFO:
        return (verdict,)
    details = detector.describe(facts)
    assert details.summary
    assert len(details.rows) <= 50
    assert details.try_next is None or all(details.try_next)
    return verdict, details.summary, json.dumps(details.evidence, allow_nan=True), details.try_next


@every_detector
@given(data=st.data())
@settings(max_examples=25, suppress_health_check=[HealthCheck.too_slow])
def test_any_numbers_are_judged_and_a_copy_goes_on_as_its_original_does(detector, data):
    names = series_of(detector)
    row = st.dictionaries(st.sampled_from(names), NUMBERS, max_size=len(names))
    block = st.tuples(row, st.integers(1, 12)).map(lambda pair: [pair[0]] * pair[1])
    rows = [row for block in data.draw(st.lists(block, min_size=1, max_size=8)) for row in block]
    original = detector({})
    facts = facts_of(rows)
    half = len(facts) // 2
    for seen in facts[:half]:
        told(original, seen)
    copied = copy.deepcopy(original)

    for seen in facts[half:]:
        said = told(original, seen)

        assert said == told(copied, seen)
        assert said[0].status in Status
        assert said[0].value is None or not math.isinf(said[0].value)


@every_detector
def test_what_is_not_logged_is_unknown(detector):
    shown = detector({})

    for step in range(1, 60):
        facts = StepFacts(step, RUN, RewardScale(), {"loss": 0.1, "learning_rate": 1e-6})
        assert shown.observe(facts).status == UNKNOWN


@every_detector
def test_every_knob_can_be_set(detector):
    knobs = {knob.name: knob.default + 1 for knob in detector.knobs}
    shown = detector(knobs)

    assert {name: getattr(shown, name) for name in knobs} == knobs


@every_detector
def test_a_page_has_all_its_parts_and_names_its_knobs(detector):
    page = detector.page

    assert all((page.what, page.looks_like, page.decides, page.try_next, page.mistaken_for, page.related))
    assert len(page.what.split(". ")[0]) <= 100
    assert {f"`{knob.name}`" for knob in detector.knobs if f"`{knob.name}`" not in page.decides} == set()
    assert set(page.related) <= BY_ID.keys() - {detector.id}
    assert not any(step.endswith(".") for step in page.try_next)


def test_the_stages_are_complete():
    assert [(detector.id, detector.stage) for detector in DETECTORS] == [
        *[
            (id_, 4)
            for id_ in (
                "SAMPLER_DRIFT",
                "LOW_DIVERSITY",
                "REPETITION_LOOPS",
                "TERMINATION_SHIFT",
                "NONDETERMINISTIC_REPLAY",
                "GIBBERISH",
                "ENTROPY_COLLAPSE",
                "ENTROPY_EXPLOSION",
            )
        ],
        *[
            (id_, 5)
            for id_ in (
                "PARSE_FAILURES",
                "FORMAT_EXPLOIT",
                "COMPONENT_DIVERGENCE",
                "TRUNCATION",
                "LENGTH_HACKING",
                "LENGTH_COLLAPSE",
            )
        ],
        *[(id_, 6) for id_ in ("KL_EXPLODING", "KL_PINNED", "KL_RATCHET", "CLIP_SATURATION", "GRAD_SPIKES")],
        *[(id_, 7) for id_ in ("STALE_ROLLOUTS", "MIXED_VERSIONS", "WEIGHT_SYNC_STUCK", "LOGPROB_MISMATCH")],
        *[(id_, 8) for id_ in ("HELDOUT_FLAT", "LEAKAGE")],
    ]


TEXTS = st.sampled_from(["", "4", "yes yes yes yes yes yes yes", "\ufffd" * 30, "a longer answer", None])
ROLLOUT = st.fixed_dictionaries(
    {"group": st.sampled_from("ab"), "reward": st.sampled_from([0.0, 0.5, 1.0, None, math.nan])},
    optional={
        "completion": TEXTS,
        "split": st.sampled_from(["train", "eval"]),
        "task": st.sampled_from(["t1", "t2", "t3"]),
        "prompt": st.sampled_from(["2+2=", "3+3="]),
        "family": st.sampled_from(["f", "g"]),
        "completion_tokens": st.integers(0, 64),
        "finish_reason": st.sampled_from(["stop", "length", "abort"]),
        "termination": st.sampled_from(["done", "env_error"]),
        "parsed": st.booleans(),
        "policy_version": st.one_of(st.integers(0, 9), st.just([2, 7])),
        "trainer_version": st.integers(0, 9),
        "seed": st.integers(0, 3),
        "sampling": st.sampled_from(
            [{"temperature": 1.0}, {"temperature": 0.2, "max_tokens": 9}, {"top_p": "auto"}, {}]
        ),
        "sampler": st.sampled_from(["gpu1", "gpu2"]),
        "rewards": st.sampled_from([{"correct": 1.0, "format": None}, {"correct": 0.0, "format": 0.5}]),
        "logprobs": st.sampled_from(
            [{"sampler": [-0.1], "trainer": [-0.1]}, {"sampler": [-0.1, -0.2], "trainer": [-0.1]}]
        ),
    },
)


@given(
    st.lists(st.lists(ROLLOUT, max_size=16), min_size=1, max_size=12),
    st.sampled_from([{}, {"sampling": {"temperature": 1.0, "max_tokens": 64}}]),
)
@settings(
    max_examples=40, phases=[Phase.explicit, Phase.generate], suppress_health_check=[HealthCheck.too_slow]
)
def test_any_rollouts_are_judged(tmp_path_factory, steps, run):
    records = [{"kind": "run", "schema": "grpo-top/1", **run}]
    for step, batch in enumerate(steps, 1):
        records += [{"kind": "rollout", "step": step, "index": at, **one} for at, one in enumerate(batch)]
    snapshot = read(write_log(tmp_path_factory.mktemp("run") / "log.jsonl", records))

    for finding in snapshot.findings:
        json.dumps([finding.summary, finding.evidence, finding.try_next])
    assert any(steps) or not snapshot.findings
