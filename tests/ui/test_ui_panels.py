"""What the panels say of a run, before anything is drawn."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from recorded import snapshot

from grpo_top.config import Settings
from grpo_top.monitor import Monitor
from grpo_top.snapshot import Status
from grpo_top.ui.glyphs import ASCII, UNICODE
from grpo_top.ui.panels import endings, facts, kl, lag, length, reward, sampler, variance
from grpo_top.ui.panels.catalogue import BY_KEY, PANELS, panel_of, panel_of_stage
from grpo_top.ui.panels.metrics import chosen, metric_rows
from grpo_top.ui.panels.said import coverage_words, missing_fields, said_of, unjudged_parts
from grpo_top.ui.view import View
from grpo_top.ui.widgets.panel import panel_rows
from grpo_top.ui.widgets.runs import changed_spans, cut, ends, filled, merged, width_of


def said(panel: facts.PanelFacts) -> dict[str, str]:
    return {number.label: number.text for number in panel.numbers}


@pytest.fixture
def cold() -> View:
    return View(snapshot("sampler_cold"))


@pytest.fixture
def healthy() -> View:
    return View(snapshot("healthy"))


def test_panels_stand_in_triage_order_and_each_has_its_key():
    assert [panel.key for panel in PANELS] == [
        "reward",
        "variance",
        "sampler",
        "diversity",
        "endings",
        "length",
        "kl",
        "lag",
    ]
    assert BY_KEY["kl"].title == "KL to reference"


def test_a_finding_and_a_stage_lead_to_their_panel():
    assert panel_of("SAMPLER_DRIFT") == "sampler"
    assert panel_of("TRUNCATION") == "length"
    assert panel_of("STEP_RESTART") is None
    assert [panel_of_stage(stage) for stage in (0, 3, 8)] == [None, "variance", "reward"]


def test_every_finding_but_those_about_the_log_belongs_to_a_panel(cold):
    without = {
        id_ for id_, track in cold.snapshot.tracks.items() if track.stage > 0 and panel_of(id_) is None
    }

    assert without == set()


def test_no_finding_belongs_to_two_panels():
    ids = [id_ for panel in PANELS for id_ in panel.detectors]

    assert len(ids) == len(set(ids))


def test_numbers_are_the_mean_of_the_last_20_steps(cold):
    numbers = said(reward.facts(cold))

    assert numbers["train"] == "0.940"
    assert numbers["Δ20"] == "+0.021"
    assert numbers["success"] == "9.1%"
    assert (numbers["accuracy"], numbers["format"]) == ("0.740", "0.200")


def test_the_held_out_evaluation_is_the_last_one_up_to_the_cursor(cold):
    assert said(reward.facts(cold))["at step"] == "100"
    assert said(reward.facts(replace(cold, cursor=59)))["at step"] == "40"


def test_numbers_are_compared_with_the_20_steps_before_the_first_cause(cold, healthy):
    assert said(variance.facts(cold))["before"] == "0.288"
    assert "before" not in said(variance.facts(healthy))
    assert said(variance.facts(healthy))["early"] == "0.369"


def test_the_dust_of_binary_fractions_is_no_spread(cold):
    assert said(variance.facts(cold))["format σ"] == "0"


def test_a_drifted_setting_stands_on_top_with_the_step_since_which_it_differs(cold):
    panel = sampler.facts(cold)

    assert panel.settings[0] == sampler.Setting("temperature", "1.0", "0.15", "51", Status.FAIL)
    assert [row.status for row in panel.settings[1:]] == [Status.OK] * 3
    assert panel.headline.text == "DRIFT"
    assert panel.hit == ("1,920 of 1,920", "rollouts since step 51 differ")
    assert len(set(panel.hashes)) == 2
    assert panel.border is Status.FAIL


def test_before_the_drift_the_sampler_is_as_intended(cold):
    panel = sampler.facts(replace(cold, cursor=40))

    assert panel.headline == ("", "as intended", Status.OK)
    assert panel.hit == ("1,280 of 1,280", "rollouts as intended")
    assert len(panel.hashes) == 1


def test_a_setting_counts_as_drifted_where_any_sampler_differs():
    deployed = sampler.Deployed(
        np.array([1, 1, 2, 2]), np.array([0, 0, 0, 1]), ({"temperature": 1.0}, {"temperature": 0.2})
    )

    steps, values = deployed.series("temperature", 1.0)

    assert steps.tolist() == [1, 2]
    assert values == [1.0, 0.2]


def test_a_deployed_config_that_is_not_logged_is_unknown():
    deployed = sampler.Deployed(np.array([1]), np.array([-1]), ())

    assert deployed.series("temperature", 1.0)[1] == [None]


def test_settings_are_equal_as_numbers_and_what_is_unknown_differs_from_nothing():
    assert sampler.same(1, 1.0)
    assert not sampler.same(1.0, 0.15)
    assert not sampler.same("auto", 1.0)
    assert sampler.same(None, 1.0)


def test_where_no_group_is_trainable_the_panel_speaks_of_this_step():
    panel = variance.facts(View(snapshot("verifier_broken"), cursor=56))

    assert panel.headline == ("no trainable group", "6 steps", Status.FAIL)
    assert said(panel)["trainable"] == "0 of 4"
    assert said(panel)["zero-var"] == "100%"


def test_where_the_reward_is_broken_the_panel_speaks_of_this_step():
    panel = reward.facts(View(snapshot("verifier_broken"), cursor=56))

    assert panel.headline == ("this step", "0", Status.FAIL)
    assert said(panel)["20 steps"] == "0.578"
    assert said(panel)["before"] == "0.834"


def test_parse_failures_are_told_by_family_and_as_a_count(healthy):
    numbers = said(endings.facts(healthy))

    assert (numbers["plain"], numbers["carry"]) == ("1.2%", "3.4%")
    assert numbers["failed"] == "14 of 640"
    assert numbers["worst step"] == "31%"


def test_a_reason_that_is_absent_on_a_step_counts_as_none_of_it():
    numbers = said(endings.facts(View(snapshot("verifier_broken"), cursor=56)))

    assert numbers["stop"] == "99%"
    assert numbers["length"] == "1.1%"


def test_length_is_held_against_the_budget(cold):
    panel = length.facts(cold)

    assert said(panel)["budget"] == "32"
    assert panel.chart is not None
    assert panel.chart.limit is not None
    assert panel.chart.limit.value == 32


def test_kl_and_lag_say_what_they_know(cold):
    assert said(kl.facts(cold))["now"] == "0.176"
    assert said(lag.facts(cold))["policy"] == "v109"
    assert said(lag.facts(cold))["mismatch"] == "?"


def test_unknown_numbers_have_the_role_of_the_unknown(cold):
    mismatch = next(number for number in lag.facts(cold).numbers if number.label == "mismatch")

    assert mismatch == ("mismatch", "?", "info")


def test_a_panel_without_its_field_names_the_field():
    without = View(snapshot("healthy", without=("kl",)))

    assert kl.facts(without).missing == "no kl in this log"
    assert reward.facts(without).missing == ""


def test_a_kl_that_is_absent_by_design_says_so():
    picture = snapshot("healthy", without=("kl",))
    without = View(replace(picture, run=replace(picture.run, config={"beta": 0.0})))

    assert kl.facts(without).missing == "no kl in this log; beta is 0"


def test_the_note_is_the_worst_finding_and_colours_the_border(cold):
    panel = BY_KEY["sampler"].facts(cold)

    assert panel.note == ("SAMPLER_DRIFT", Status.FAIL, "since 51")
    assert panel.border is Status.FAIL


def test_a_cleared_finding_tells_its_steps_and_how_often(cold):
    finding = next(f for f in cold.findings() if f.id == "LOW_DIVERSITY")

    assert facts.stood(cold, replace(finding, episodes=((5, 10),))) == "5–10"
    often = replace(finding, episodes=((69, 75), (82, 82), (87, 87)))
    assert facts.stood(cold, often) == "69–87, 3 times"
    assert facts.stood(replace(cold, cursor=83), often) == "69–82, 2 times"


def test_held_before_a_findings_newest_step_its_sentence_says_of_which_step_it_is(cold):
    finding = next(f for f in cold.findings() if f.id == "SAMPLER_DRIFT")
    assert said_of(cold, finding) == finding.summary
    assert said_of(replace(cold, cursor=60), finding) == f"by step {finding.last_step}: {finding.summary}"


def test_names_that_begin_alike_are_told_apart_by_their_ends():
    assert facts.told_apart(["accuracy", "format"]) == {"accuracy": "accuracy", "format": "format"}
    long = ["reward/math/accuracy_func", "reward/math/format_func"]
    assert list(facts.told_apart(long, 14).values()) == ["…accuracy_func", "…format_func"]
    assert list(facts.told_apart(long, 20).values()) == ["…math/accuracy_func", "…math/format_func"]
    assert list(facts.told_apart(["accuracy_of_answers", "format_of_answers"]).values()) == [
        "accuracy_of_answers",
        "format_of_answers",
    ]


def test_before_any_step_every_panel_is_missing_and_nothing_fails():
    view = View(Monitor(["/nowhere"], Settings()).snapshot())

    assert all(panel.facts(view).missing for panel in PANELS)
    assert all(not row.logged for row in metric_rows(view))


def test_rows_stand_in_triage_order(cold):
    stages = [row.stage for row in metric_rows(cold)]

    assert stages == sorted(stages)


def test_18_rows_are_those_of_a_small_window(cold):
    names = [row.name for row in chosen(metric_rows(cold), 18)]

    assert names == [
        "step time",
        "success",
        "reward",
        "verifier errors",
        "zero-variance",
        "group σ",
        "flat component",
        "temperature",
        "duplicates",
        "entropy",
        "parse failures",
        "truncated",
        "length p95",
        "KL",
        "grad norm",
        "version lag",
        "logprob mismatch",
        "held-out",
    ]


def test_what_is_wrong_is_shown_in_however_few_rows(cold):
    assert [row.name for row in chosen(metric_rows(cold), 1)] == ["temperature"]


def test_what_cannot_be_judged_is_said_with_the_field_that_is_missing():
    view = View(snapshot("healthy", without=("kl",)))

    lacking, early = unjudged_parts(view)
    assert lacking.startswith(f"{len(view.snapshot.unknown)} cannot be judged: no ")
    assert "kl" in lacking
    assert lacking.endswith(" in this log")
    assert early.endswith(" more steps")
    assert len(unjudged_parts(view, 50)[0]) <= 50
    assert {"kl", "tier"} <= set(missing_fields(view))
    assert coverage_words(view).startswith("Coverage 8 of 10: ")


@given(
    panel=st.sampled_from(PANELS),
    width=st.integers(4, 140),
    height=st.integers(1, 30),
    cursor=st.none() | st.integers(-5, 200),
    focused=st.booleans(),
    glyphs=st.sampled_from([UNICODE, ASCII]),
)
def test_a_panel_is_never_wider_than_its_box(panel, width, height, cursor, focused, glyphs):
    rows = panel_rows(panel.facts(View(snapshot("sampler_cold"), cursor)), width, height, focused, glyphs)

    assert len(rows) <= height
    if height >= 3 and width >= 12:
        assert {width_of(row) for row in rows} == {width}
    if glyphs is ASCII:
        assert all(text.isascii() for row in rows for text, _ in row)


runs_of_text = st.lists(
    st.tuples(
        st.text("ab ▁●", max_size=6), st.sampled_from(["", "text", "fail", "text on raised", "fail reverse"])
    )
)


@given(runs=runs_of_text, width=st.integers(0, 40))
def test_runs_are_cut_and_filled_to_the_cell(runs, width):
    assert width_of(cut(runs, width)) <= width
    assert width_of(filled(runs, width)) == width
    assert width_of(ends(runs, [("x", "dim")], max(width, 1))) == max(width, 1)


@given(runs=runs_of_text)
def test_merged_runs_have_the_same_text(runs):
    assert "".join(text for text, _ in merged(runs)) == "".join(text for text, _ in runs)


@given(before=runs_of_text, after=runs_of_text)
def test_changed_spans_cover_every_cell_that_differs(before, after):
    width = 40
    old, new = ("".join(text for text, _ in filled(runs, width)) for runs in (before, after))
    covered = {
        cell for start, size in changed_spans(before, after, width) for cell in range(start, start + size)
    }

    assert {cell for cell in range(width) if old[cell] != new[cell]} <= covered
    assert changed_spans(before, before, width) == [] or width_of(before) > width
