"""Rollouts as columns: the same rollouts as one by one."""

from __future__ import annotations

from array import array

from hypothesis import given
from hypothesis import strategies as st

from grpo_top.bundle import Bundle, Components, Places, bundled, joined, one_by_one, transposed
from grpo_top.records import Location, Rollout, Step

ROLLOUTS = st.lists(
    st.builds(
        Rollout,
        step=st.integers(0, 3),
        group=st.sampled_from(["a", "b", None]),
        reward=st.sampled_from([0.0, 1.0, None]),
        index=st.none() | st.integers(0, 3),
        completion=st.none() | st.text(max_size=3),
        location=st.builds(Location, st.integers(0, 99), st.integers(0, 9), st.integers(0, 2)),
    ),
    min_size=1,
    max_size=6,
)
PARTS = st.lists(ROLLOUTS, min_size=1, max_size=4)


@given(ROLLOUTS, st.integers(-6, 6), st.integers(-6, 6))
def test_a_bundle_is_a_sequence_of_its_rollouts(rollouts: list[Rollout], start: int, stop: int) -> None:
    bundle = bundled(rollouts)
    assert list(bundle) == rollouts
    assert [bundle[place] for place in range(len(bundle))] == rollouts
    assert bundle[-1] == rollouts[-1]
    assert list(bundle[start:stop]) == rollouts[start:stop]
    assert bundle.steps == tuple(rollout.step for rollout in rollouts)


@given(PARTS)
def test_parts_that_are_joined_hold_all_rollouts_in_order(parts: list[list[Rollout]]) -> None:
    whole = [rollout for part in parts for rollout in part]
    assert list(joined(parts)) == list(joined(list(map(bundled, parts)))) == whole


@given(ROLLOUTS, st.integers(0, 4))
def test_those_that_are_wanted_are_left(rollouts: list[Rollout], first: int) -> None:
    left = bundled(rollouts).those([rollout.step >= first for rollout in rollouts])
    assert list(left) == [rollout for rollout in rollouts if rollout.step >= first]


@given(ROLLOUTS)
def test_what_was_read_can_be_had_one_by_one(rollouts: list[Rollout]) -> None:
    step = Step(1, {})
    assert list(one_by_one([step, bundled(rollouts), step])) == [step, *rollouts, step]


@given(st.lists(st.integers(1, 4), min_size=1, max_size=3), st.integers(-6, 6), st.integers(-6, 6))
def test_components_of_all_are_a_sequence_of_those_of_each(sizes: list[int], start: int, stop: int) -> None:
    said = [{"accuracy": float(number), "format": 0.5} for number in range(sum(sizes))]
    parts, first = [], 0
    for size in sizes:
        columns = {name: array("d", [one[name] for one in said[first : first + size]]) for name in said[0]}
        rewards = Components(columns, size)
        parts.append(Bundle({"step": [1] * size, "rewards": rewards}, Places(*([[0] * size] * 3))))
        first += size
    whole = joined(parts)
    assert list(whole.column("rewards")) == [rollout.rewards for rollout in whole] == said
    assert list(whole.column("rewards")[start:stop]) == said[start:stop]
    other = bundled([Rollout(1, "a", 0.5, rewards={"format": 0.1}), Rollout(1, "a", 0.5)])
    assert list(joined([whole, other]).column("rewards")) == [*said, {"format": 0.1}, None]


def test_a_field_that_no_rollout_has_takes_nothing() -> None:
    bundle = bundled([Rollout(1, "a", 0.5)] * 3)
    assert isinstance(bundle, Bundle)
    assert "completion" not in bundle.columns
    assert bundle.column("completion") == (None, None, None)


OBJECTS = st.lists(
    st.dictionaries(st.sampled_from("abcd"), st.integers(0, 2), max_size=4), min_size=1, max_size=5
)


@given(OBJECTS)
def test_mappings_are_transposed_whether_they_have_the_same_keys_or_not(
    objects: list[dict[str, int]],
) -> None:
    found = transposed(objects)
    assert found.keys() == {key for one in objects for key in one}
    assert all(list(values) == [one.get(key) for one in objects] for key, values in found.items())
    assert transposed(objects, "a").get("a", "none") == found.get("a", "none")
