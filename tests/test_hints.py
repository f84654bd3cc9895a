"""What would log a missing thing: a setting of the framework, else a field of grpo-top/1 records."""

from __future__ import annotations

import pytest

from grpo_top.config import RUN_KEYS
from grpo_top.formats.registry import FORMATS
from grpo_top.hints import HINTS, IN_RECORDS, hint, hints, known_framework
from grpo_top.triage import TEN_THINGS, coverage

THINGS = {field.name for item in TEN_THINGS for field in item.fields}


def test_every_thing_to_log_has_a_place_in_grpo_tops_own_records() -> None:
    assert IN_RECORDS.keys() == THINGS


@pytest.mark.parametrize("framework", HINTS)
def test_a_frameworks_row_names_things_to_log_and_a_format_that_is_read(framework: str) -> None:
    assert HINTS[framework].keys() <= THINGS
    assert framework in {known.name for known in FORMATS} | {"slime"}


def test_a_framework_names_its_own_setting() -> None:
    assert hint("trl", "reward").startswith("log_completions=True")
    assert hint("verl", "reward") == "trainer.rollout_data_dir=DIR"


def test_what_a_frameworks_files_cannot_carry_goes_into_grpo_tops_own_records() -> None:
    assert hint("trl", "family") == "in grpo-top/1 records: `family` on each `rollout` record"
    assert hint(None, "kl") == "in grpo-top/1 records: `kl` in each `step` record's metrics"


def test_a_framework_that_writes_another_ones_files_has_its_hints() -> None:
    assert hint("Unsloth", "reward") == hint("trl", "reward")


def test_a_setting_that_logs_several_things_is_named_once() -> None:
    assert hints("verl", ["reward", "zero-variance groups"]) == (
        "reward, zero-variance groups: trainer.rollout_data_dir=DIR",
    )


def test_a_run_that_does_not_say_its_framework_is_known_by_its_files() -> None:
    assert known_framework(None, ["tensorboard", "verl"]) == "verl"
    assert known_framework("trl", ["verl"]) == "trl"
    assert known_framework(None, ["native"]) is None


def test_what_is_missing_comes_with_its_hints_and_what_is_there_with_none() -> None:
    items = {item.item: item for item in coverage({"kl": "trainer", "entropy": "trainer"}, {}, {}, "trl")}
    assert items["KL and entropy"].hints == ()
    assert items["held-out evaluation at a fixed cadence"].hints == (
        'held-out: eval_strategy="steps", eval_steps=20, and an eval_dataset',
    )


def test_the_setting_for_success_is_one_that_the_config_knows() -> None:
    assert "success" in RUN_KEYS
