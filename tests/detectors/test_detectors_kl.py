"""Stage 6: the policy drifts for the right reason, at a measured pace."""

from __future__ import annotations

import pytest
from detector_steps import FAIL, OK, UNKNOWN, WARN, WATCH, Watched, evaluation

from grpo_top.detectors.kl import DETECTORS, KlExploding, KlPinned, KlRatchet
from grpo_top.detectors.updates import ClipSaturation, GradSpikes
from grpo_top.facts import RunState

# ---- KL_EXPLODING


def test_kl_ten_times_above_the_median_before_fails_on_the_third_step():
    watched = Watched(KlExploding)

    found = watched.show_all(kl=[0.05] * 20 + [0.8] * 4)

    assert found[20:] == [WATCH, WATCH, FAIL, FAIL]
    assert watched.verdicts[-1].onset == 21
    assert watched.summary == "kl 0.800, median of the steps before 0.0500"


def test_one_spike_is_a_watch_even_where_its_row_stands_for_many_steps():
    single, averaged = Watched(KlExploding), Watched(KlExploding, span=5)

    assert single.show_all(kl=[0.05] * 20 + [6.0] + [0.05] * 5)[20:] == [WATCH, OK, OK, OK, OK, OK]
    assert averaged.show_all(kl=[0.0002, 4.2, 0.007, 0.01, 0.011, 0.012])[1:] == [WATCH, OK, OK, OK, OK]


def test_slow_growth_is_learning():
    watched = Watched(KlExploding)
    watched.show_all(kl=[0.004 * step for step in range(200)])

    assert not watched.fired


def test_a_high_mean_fails_where_kl_never_was_low():
    watched = Watched(KlExploding)
    watched.show_all(kl=[2.5] * 12)

    assert watched.fired == [10, 11, 12]
    assert watched.summary.endswith("mean of the last 12 steps 2.50")


def test_two_extreme_values_fail_at_once():
    watched = Watched(KlExploding)

    assert watched.show_all(kl=[3.0, 1.0, 12.0, 1.0, 15.0])[-1] == FAIL


def test_reward_hacking_is_named_only_where_reward_rises_and_heldout_falls():
    hacked, broken = Watched(KlExploding), Watched(KlExploding)
    for step in range(1, 31):
        kl = 0.05 if step <= 20 else 1.0
        heldout = [evaluation(step, 0.5 if step <= 20 else 0.3)] if step % 10 == 0 else []
        hacked.show(heldout, kl=kl, reward_mean=0.02 * step)
        broken.show(heldout, kl=kl, reward_mean=0.6 - 0.01 * step)

    assert hacked.summary.endswith("reward rises and held-out falls, which is reward hacking")
    assert "hacking" not in broken.summary


def test_the_coefficient_is_the_last_thing_to_try():
    for detector in DETECTORS[:3]:
        assert "KL coefficient comes last" in detector.page.try_next[-1]


# ---- KL_PINNED


def test_kl_next_to_nothing_with_a_flat_reward_warns_after_forty_steps():
    watched = Watched(KlPinned, run=RunState(config={"beta": 5.0}))
    watched.show_all(kl=[0.0001] * 45, reward_mean=[0.6, 0.62, 0.58] * 15)

    assert watched.fired[0] == 40
    assert watched.summary == "kl at most 1.0e-4 over 40 steps, reward flat at 0.600"
    assert watched.details is not None
    assert watched.details.evidence["config"] == {"beta": 5.0}


def test_a_reward_that_rises_means_that_something_moves():
    watched = Watched(KlPinned)
    watched.show_all(kl=[0.0001] * 60, reward_mean=[0.3 + 0.005 * step for step in range(60)])

    assert not watched.fired


@pytest.mark.parametrize("kl", [0.0, 0.01])
def test_a_kl_that_is_not_computed_or_not_small_is_not_pinned(kl):
    watched = Watched(KlPinned)

    found = watched.show_all(kl=[kl] * 60, reward_mean=[0.6] * 60)

    assert not watched.fired
    assert found[-1] == (UNKNOWN if kl == 0 else OK)


# ---- KL_RATCHET


def ratchet(duplicates: list[float], kl: list[float] | None = None) -> Watched:
    watched = Watched(KlRatchet)
    watched.show_all(
        kl=kl or [0.01 * step for step in range(60)],
        duplicate_frac=duplicates,
        completion_tokens_p50=[9.0] * 60,
    )
    return watched


def test_kl_that_climbs_while_texts_become_copies_warns():
    watched = ratchet([0.4 + 0.009 * step for step in range(60)])

    assert watched.fired
    assert "duplicates" in watched.summary


def test_kl_that_climbs_while_short_answers_repeat_a_little_more_is_learning():
    assert not ratchet([0.3 + 0.006 * step for step in range(60)]).fired


def test_copies_without_a_kl_that_climbs_are_low_diversity_alone():
    assert not ratchet([0.4 + 0.009 * step for step in range(60)], [0.2, 0.21, 0.19] * 20).fired


# ---- CLIP_SATURATION, GRAD_SPIKES


def test_a_clip_fraction_above_a_third_for_twenty_steps_warns():
    watched = Watched(ClipSaturation)
    watched.show_all(clip_frac=[0.1] * 5 + [0.4] * 20)

    assert watched.fired == [25]
    assert watched.summary == "40% of tokens are clipped, limit 30%"


def test_three_spikes_in_the_late_window_warn():
    watched = Watched(GradSpikes)
    norms = [0.1] * 20
    for position in (12, 15, 18):
        norms[position] = 3.0

    found = watched.show_all(grad_norm=norms)

    assert found[12] == WATCH
    assert found[18] == WARN
    assert watched.details is not None
    assert watched.details.evidence["spikes"] == [13, 16, 19]


def test_steps_without_a_gradient_do_not_make_the_others_spikes():
    watched = Watched(GradSpikes)
    watched.show_all(grad_norm=[0.0, 0.0, 0.0, 0.2] * 20)

    assert not watched.fired


def test_spikes_far_above_the_rest_count_over_a_longer_stretch():
    norms = [1.0] * 200
    for step in (50, 100, 150):
        norms[step - 1] = 80.0
    watched = Watched(GradSpikes)

    watched.show_all(grad_norm=norms)

    assert watched.fired[0] == 150
    assert watched.summary == (
        "3 of 200 steps have a gradient norm above 30 × the median 1.00, highest of the last 20 1.00"
    )


def test_spikes_far_above_the_rest_count_over_a_thousand_rows():
    norms = [1.0] * 2000
    for step in (100, 700, 1500, 1650):
        norms[step - 1] = 80.0
    watched = Watched(GradSpikes)

    watched.show_all(grad_norm=norms)

    assert watched.fired[0] == 1650


def test_a_few_spikes_that_are_only_ten_times_the_rest_are_watched_where_they_lie_far_apart():
    norms = [1.0] * 200
    for step in (50, 100, 150):
        norms[step - 1] = 15.0

    assert not Watched(GradSpikes).show_all(grad_norm=norms)[-1] >= WARN
