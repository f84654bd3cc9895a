"""What `inspect` prints: sources of one kind on one line, the sampling in force, and what to switch on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runs import group, read, run_record, unpack_sample, write_log

from grpo_top.report import inspect_text

if TYPE_CHECKING:
    from pathlib import Path


def lines_of(directory: Path) -> list[str]:
    return [" ".join(line.split()) for line in inspect_text(read(directory)).splitlines()]


def test_files_that_differ_in_a_number_alone_share_a_line(tmp_path: Path) -> None:
    lines = lines_of(unpack_sample("nemo-rl-truncation", tmp_path))
    assert "exp_001/train_data_step*.jsonl nemo-rl rollouts 64 records in 4 files" in lines
    assert "exp_001/val_data_step4.jsonl nemo-rl rollouts 16 records" in lines


def test_a_run_without_training_rollouts_says_how_to_get_them(tmp_path: Path) -> None:
    lines = lines_of(unpack_sample("skyrl", tmp_path))
    (at,) = [at for at, line in enumerate(lines) if line.startswith("no training rollouts:")]
    hint = " ".join(lines[at : at + 2])
    assert "dump_eval_results" in hint
    assert "pickles, which are never loaded" in hint


def test_a_run_with_training_rollouts_needs_no_hint(tmp_path: Path) -> None:
    lines = lines_of(unpack_sample("tinker-multiturn", tmp_path))
    assert not [line for line in lines if line.startswith("no training rollouts:")]


def test_pickles_are_counted_and_left_alone(tmp_path: Path) -> None:
    unpack_sample("skyrl", tmp_path)
    (tmp_path / "dumped_data").mkdir()
    (tmp_path / "dumped_data" / "global_step_1_training_input.pkl").write_bytes(b"\x80\x05\x95")
    assert [line for line in lines_of(tmp_path) if "1 pickle file" in line and "never loaded" in line]


def test_intended_and_deployed_sampling_stand_beside_each_other(tmp_path: Path) -> None:
    records = [
        record
        for step, temperature in ((1, 1.0), (2, 0.15))
        for record in group(step, "a", (0.0, 1.0), sampling={"temperature": temperature, "top_p": 1.0})
    ]
    write_log(tmp_path / "log.jsonl", [run_record(sampling={"temperature": 1.0}), *records])
    lines = lines_of(tmp_path)
    assert "intended sampling temperature 1.0" in lines
    assert "deployed sampling temperature 1.0 top_p 1.0: 2 rollouts" in lines
    assert "deployed sampling temperature 0.15 top_p 1.0: 2 rollouts" in lines


def test_each_thing_that_is_missing_says_what_it_blinds_and_which_setting_would_log_it(
    tmp_path: Path,
) -> None:
    lines = lines_of(unpack_sample("trl-normal", tmp_path))
    at = lines.index("missing policy version and lag")
    assert lines[at + 2].startswith("blinds NONDETERMINISTIC_REPLAY, STALE_ROLLOUTS")
    assert lines[at + 3].startswith("to log policy version: AsyncGRPOTrainer with report_to=")
    at = lines.index("present KL and entropy")
    assert not lines[at + 2].startswith(("blinds", "to log"))


def test_a_series_names_the_trainers_key_that_it_is_read_from_and_the_others_are_listed(
    tmp_path: Path,
) -> None:
    records = [
        {"kind": "step", "step": step, "metrics": {"frac_reward_zero_std": 0.25, "kl": 0.01, "my_own": 3.0}}
        for step in (1, 2)
    ]
    write_log(tmp_path / "log.jsonl", [run_record(framework="trl"), *records])
    lines = lines_of(tmp_path)
    assert "zero_variance_group_frac trainer 2 values from frac_reward_zero_std" in lines
    assert "read as no series: my_own" in lines


def test_a_number_that_is_computed_from_several_keys_names_them(tmp_path: Path) -> None:
    metrics = {"data/step_num_groups_trainable": 3, "data/step_num_groups_submitted": 4}
    write_log(
        tmp_path / "log.jsonl",
        [run_record(framework="art"), {"kind": "step", "step": 1, "metrics": metrics}],
    )
    (line,) = [line for line in lines_of(tmp_path) if line.startswith("zero_variance_group_frac ")]
    assert line.endswith("from data/step_num_groups_trainable, data/step_num_groups_submitted")


def test_rollout_fields_are_listed_with_how_many_rollouts_carry_them(tmp_path: Path) -> None:
    records = [run_record(), *group(1, "a", (0.0, 1.0), family="easy"), *group(1, "b", (0.0, 1.0))]
    write_log(tmp_path / "log.jsonl", records)
    lines = lines_of(tmp_path)
    at = lines.index("rollout fields")
    assert "reward 100%" in lines[at + 1]
    assert "family 50%" in lines[at + 1]
    assert lines[at + 2].startswith("on no rollout: advantage, prompt_tokens,")


def test_a_log_without_rollouts_has_no_rollout_fields(tmp_path: Path) -> None:
    write_log(tmp_path / "log.jsonl", [{"kind": "step", "step": 1, "metrics": {"kl": 0.1}}])
    assert "none: there are no rollouts" in lines_of(tmp_path)
