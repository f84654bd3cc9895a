"""First things first: which finding is the first cause, and what follows from it."""

from __future__ import annotations

from grpo_top import triage
from grpo_top.detectors import ALL
from grpo_top.snapshot import Finding, Status


def finding(
    id_: str, stage: int, onset: int, severity: Status = Status.FAIL, *, active: bool = True
) -> Finding:
    return Finding(
        id=id_,
        stage=stage,
        severity=severity,
        active=active,
        first_step=onset,
        last_step=onset,
        onset=onset,
        episodes=((onset, onset),),
        value=None,
        threshold=None,
        summary="",
        evidence={},
        rollouts=(),
        try_next=(),
    )


def first(*findings: Finding) -> str | None:
    return triage.explain(findings)[1]


def test_the_earliest_stage_that_fires_is_the_first_cause() -> None:
    assert first(finding("KL_EXPLODING", 6, 10), finding("VERIFIER_ERRORS", 2, 40)) == "VERIFIER_ERRORS"


def test_a_known_cause_in_a_later_stage_comes_first_when_it_began_no_later() -> None:
    drift, flat = finding("SAMPLER_DRIFT", 4, 51), finding("DEGENERATE_GROUPS", 3, 60, Status.WARN)
    assert first(drift, flat) == "SAMPLER_DRIFT"


def test_a_known_cause_that_began_after_the_effect_does_not_explain_it() -> None:
    drift, flat = finding("SAMPLER_DRIFT", 4, 51), finding("DEGENERATE_GROUPS", 3, 20, Status.WARN)
    assert first(drift, flat) == "DEGENERATE_GROUPS"


def test_sampling_that_differed_from_the_first_step_on_explains_nothing() -> None:
    drift, flat = finding("SAMPLER_DRIFT", 4, 1), finding("DEGENERATE_GROUPS", 3, 1, Status.WARN)
    assert triage.explain((drift, flat), first_step=1)[1] == "DEGENERATE_GROUPS"
    assert triage.explain((drift, flat), first_step=0)[1] == "SAMPLER_DRIFT"


def test_how_a_run_is_set_up_follows_from_nothing_that_happens_in_it() -> None:
    drift, flat = finding("SAMPLER_DRIFT", 4, 1), finding("DEGENERATE_GROUPS", 3, 1, Status.WARN)
    narrow = finding("LOW_DIVERSITY", 4, 1, Status.WARN)
    by_id = {one.id: one.caused_by for one in triage.explain((drift, flat, narrow), first_step=1)[0]}
    assert by_id == {"SAMPLER_DRIFT": None, "DEGENERATE_GROUPS": "LOW_DIVERSITY", "LOW_DIVERSITY": None}


def test_a_fault_of_some_rollouts_does_not_explain_a_failure_of_all() -> None:
    streak = finding("REWARD_STREAK", 2, 51)
    for severity, expected in ((Status.WARN, "REWARD_STREAK"), (Status.FAIL, "PARSE_FAILURES")):
        assert first(streak, finding("PARSE_FAILURES", 5, 5, severity)) == expected


def test_a_policy_that_came_apart_explains_the_reward_that_went_after_it() -> None:
    fallen = finding("REWARD_COLLAPSE", 2, 80)
    for id_, stage in (("ENTROPY_EXPLOSION", 4), ("LOGPROB_MISMATCH", 7), ("KL_EXPLODING", 6)):
        assert first(fallen, finding(id_, stage, 60)) == id_
        assert first(fallen, finding(id_, stage, 90)) == "REWARD_COLLAPSE"


def test_information_is_never_a_cause() -> None:
    assert first(finding("STEP_RESTART", 0, 1, Status.INFO)) is None


def test_what_has_cleared_is_never_a_cause() -> None:
    assert first(finding("PARSE_FAILURES", 5, 5, Status.WARN, active=False)) is None


def test_what_is_downstream_and_began_later_follows_from_the_first_cause() -> None:
    explained, _ = triage.explain(
        (
            finding("TRUNCATION", 5, 3, Status.WARN),
            finding("REWARD_COLLAPSE", 2, 51),
            finding("DEGENERATE_GROUPS", 3, 52),
        )
    )
    assert [found.id for found in explained] == ["REWARD_COLLAPSE", "DEGENERATE_GROUPS", "TRUNCATION"]
    assert [found.caused_by for found in explained] == [None, "REWARD_COLLAPSE", None]


def test_what_follows_from_a_consequence_follows_from_the_first_cause() -> None:
    explained, _ = triage.explain(
        (
            finding("SAMPLER_DRIFT", 4, 51),
            finding("DEGENERATE_GROUPS", 3, 60),
            finding("NO_TRAINABLE_GROUPS", 3, 63),
            finding("BASE_SUCCESS_ZERO", 1, 2, Status.WARN, active=False),
        )
    )
    by_id = {found.id: found.caused_by for found in explained}
    assert by_id["NO_TRAINABLE_GROUPS"] == by_id["DEGENERATE_GROUPS"] == "SAMPLER_DRIFT"
    assert by_id["BASE_SUCCESS_ZERO"] is None


def test_a_stage_is_ok_only_where_every_check_that_could_raise_an_alarm_was_made() -> None:
    states = triage.stages(
        [
            triage.Check("A", 1, Status.OK),
            triage.Check("B", 1, Status.UNKNOWN),
            triage.Check("C", 2, Status.UNKNOWN),
            triage.Check("D", 4, Status.INFO),
            triage.Check("ONLY_REMARKS", 4, Status.UNKNOWN, expected=False),
            triage.Check("NEVER_IN_A_LOG", 4, Status.UNKNOWN, expected=False, in_logs=False),
            triage.Check("E", 5, Status.WATCH),
            triage.Check("F", 5, Status.UNKNOWN),
        ],
        (),
    )
    found = [(state.status, state.so_far, state.partly, state.unknown) for state in states]
    unknown = Status.UNKNOWN
    assert found[1:6] == [
        (unknown, Status.OK, True, ("B",)),
        (unknown, unknown, False, ("C",)),
        (unknown, unknown, False, ()),
        (Status.INFO, Status.INFO, False, ("ONLY_REMARKS",)),
        (Status.WATCH, Status.WATCH, False, ("F",)),
    ]


def test_the_cause_table_names_detectors_that_exist() -> None:
    known = {detector.id for detector in ALL}
    for cause, effects in triage.CAUSES.items():
        assert {cause, *effects} <= known, cause


def test_a_thing_to_log_is_missing_when_any_part_of_it_is() -> None:
    items = triage.coverage(
        {"reward_mean": "rollouts", "kl": "trainer"}, {"family": "log"}, {"X": ("entropy",)}
    )
    by_name = {item.item: item for item in items}
    assert by_name["KL and entropy"].status == "missing"
    assert by_name["KL and entropy"].blinds == ("X",)
    assert "kl: log" in by_name["KL and entropy"].origin


def test_what_is_computed_here_is_derived() -> None:
    items = triage.coverage({"zero_variance_group_frac": "rollouts"}, {}, {})
    assert next(item for item in items if item.item == "zero-variance fraction").status == "derived"
