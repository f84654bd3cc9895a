"""A finding names the family or tier in which it sits, where it sits in one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from detector_steps import findings
from runs import rollout, run_record

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

STEPS = 30


def log(
    fields: Callable[[str, int], dict[str, Any]],
    families: tuple[str, ...] = ("easy", "carry"),
    kind: str = "family",
) -> list[dict[str, Any]]:
    """Two groups of 4 a step and part; `fields` makes a rollout's fields from its part and its index."""
    records = [run_record(group_size=4, reward_range=[0, 1])]
    for step in range(1, STEPS + 1):
        for part in families:
            for number in range(2):
                for index in range(4):
                    made = {"reward": index % 2, "completion": f"{step} {part} {number} {index}", kind: part}
                    made |= fields(part, index)
                    records.append(rollout(step, f"{part}{number}", index, made.pop("reward"), **made))
    return records


FAULTS: dict[str, Callable[[str, int], dict[str, Any]]] = {
    "PARSE_FAILURES": lambda part, index: {"parsed": part != "carry" or index == 0},
    "TRUNCATION": lambda part, index: {"finish_reason": "length" if part == "carry" and index else "stop"},
    "VERIFIER_ERRORS": lambda part, index: {
        "verifier": {"raw": str(index), "error": "timeout" if part == "carry" and index else None}
    },
    "TERMINATION_SHIFT": lambda part, index: {
        "termination": "env_error" if part == "carry" and index else "done"
    },
    "DEGENERATE_GROUPS": lambda part, index: {"reward": 0.0 if part == "carry" else index % 2},
}


@pytest.mark.parametrize("kind", ["family", "tier"])
@pytest.mark.parametrize("id_", FAULTS)
def test_it_names_the_one_in_which_it_sits(id_: str, kind: str, tmp_path: Path) -> None:
    found = findings(tmp_path, log(FAULTS[id_], kind=kind))[id_]
    share = 1.0 if id_ == "DEGENERATE_GROUPS" else 0.75
    assert found.summary.endswith(f", in {kind} carry ({share:.0%}, elsewhere 0%)")
    assert found.evidence["sits_in"] == {kind: "carry", "share": share, "elsewhere": 0.0}
    assert found.evidence[f"by_{kind}"] == {"easy": 0.0, "carry": share}


@pytest.mark.parametrize("id_", FAULTS)
def test_what_is_in_every_family_sits_in_none(id_: str, tmp_path: Path) -> None:
    found = findings(tmp_path, log(lambda _, index: FAULTS[id_]("carry", index)))[id_]
    assert "family" not in found.summary
    assert "sits_in" not in found.evidence


@pytest.mark.parametrize("id_", FAULTS)
def test_a_run_with_one_family_does_not_name_it(id_: str, tmp_path: Path) -> None:
    found = findings(tmp_path, log(FAULTS[id_], families=("carry",)))[id_]
    assert "family" not in found.summary


def test_of_many_families_the_smallest_are_pooled(tmp_path: Path) -> None:
    many = ("carry", *(f"f{number}" for number in range(20)))
    found = findings(tmp_path, log(lambda _, index: {"parsed": index == 0}, families=many))["PARSE_FAILURES"]
    by_family = found.evidence["by_family"]
    assert len(by_family) == 13
    assert by_family["others"] == pytest.approx(0.75)


def test_rare_success_is_told_by_family(tmp_path: Path) -> None:
    made = log(lambda part, index: {"reward": 0.0})
    for record in made[1:9]:
        record["reward"] = 1.0 if record["family"] == "easy" else 0.0
    found = findings(tmp_path, made)["SPARSE_REWARD"]
    assert found.evidence["by_family"] == {"easy": 0.0, "carry": 0.0}


def fallen(families: set[str]) -> list[dict[str, Any]]:
    """A log whose rewards fall to 0 from step 21 on, in some families."""
    made = log(lambda part, index: {"reward": 0.5 + index / 10})
    for record in made[1:]:
        if record["step"] > 20 and record["family"] in families:
            record["reward"] = 0.0
    return made


def test_a_reward_that_falls_in_one_family_names_it(tmp_path: Path) -> None:
    found = findings(tmp_path, fallen({"carry"}))["REWARD_COLLAPSE"]
    assert found.summary.endswith(", in family carry (0.650 → 0)")
    assert found.evidence["sits_in"] == {"family": "carry", "before": pytest.approx(0.65), "now": 0.0}
    assert found.evidence["by_family"]["easy"] == {"before": pytest.approx(0.65), "now": pytest.approx(0.65)}


def test_a_reward_that_falls_in_every_family_names_none(tmp_path: Path) -> None:
    found = findings(tmp_path, fallen({"carry", "easy"}))["REWARD_COLLAPSE"]
    assert "family" not in found.summary
    assert "sits_in" not in found.evidence
