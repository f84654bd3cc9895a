"""What `check` prints, whole, for the recorded runs; and what its lines hold whatever the run.

Written anew, to be looked at before they are committed, by `python tests/test_report.py`.
"""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from runs import DATA, RECORDED, group, read, recorded_lines, rollout, run_record, step_record, write_log

from grpo_top.check_text import check_text
from grpo_top.evidence_text import evidence_words
from grpo_top.flowchart import QUESTIONS, flow_chart
from grpo_top.outcome import outcome

if TYPE_CHECKING:
    from grpo_top.snapshot import Snapshot

GOLDEN = DATA / "reports"


def recorded(name: str, directory: Path) -> Snapshot:
    log = directory / "rollouts.jsonl"
    log.write_bytes(b"\n".join(recorded_lines(name)) + b"\n")
    return read(log)


@pytest.mark.parametrize("name", RECORDED)
def test_a_recorded_runs_report_reads_as_it_was_last_looked_at(name: str, tmp_path: Path) -> None:
    assert check_text(recorded(name, tmp_path)) == (GOLDEN / f"{name}.txt").read_text()


@pytest.mark.parametrize("name", RECORDED)
def test_no_line_is_longer_than_a_log_shows(name: str) -> None:
    text = (GOLDEN / f"{name}.txt").read_text()
    assert max(map(len, text.splitlines())) <= 110
    assert "\x1b" not in text


def test_what_is_wrong_first_and_what_to_do_about_it_come_before_all_else(tmp_path: Path) -> None:
    lines = check_text(recorded("verifier_broken", tmp_path)).splitlines()
    assert lines[1].startswith(
        "first cause  FAIL REWARD_STREAK, since step 51: every reward is 0 since step 51"
    )
    assert [line[:13].strip() for line in lines[2:7]] == ["", "do first", "", "explains", ""]


def test_a_run_without_a_finding_says_how_much_was_looked_at_and_one_without_steps_that_nothing_was(
    tmp_path: Path,
) -> None:
    text = check_text(recorded("healthy", tmp_path)).splitlines()[1]
    assert text == "no finding stands; 46 of 50 checks could be made"
    empty = write_log(tmp_path / "empty" / "log.jsonl", [run_record(run=None)])
    assert check_text(read(empty), "my-folder").splitlines()[:2] == [
        "my-folder  trl · grpo",
        "nothing can be judged yet: none of the checks could be made",
    ]


def test_a_narrow_terminal_has_each_answer_of_the_chart_on_lines_of_its_own(tmp_path: Path) -> None:
    lines = check_text(recorded("truncation", tmp_path), width=80).splitlines()
    assert max(map(len, lines)) <= 80
    at = lines.index("  5 answers that do not parse or fit?        YES")
    assert lines[at + 1] == (
        "      TRUNCATION: 100% of completions are truncated, limit 30%, budget 8 tokens"
    )
    assert lines[at + 2] == "      → stop here first"


def test_evidence_is_said_in_the_readers_words_and_a_logs_own_names_stay_as_they_are(tmp_path: Path) -> None:
    first, *_ = recorded("sampler_cold", tmp_path).findings
    assert "steps 31–50 → 101–120: duplicates 41% → 93%" in ", ".join(evidence_words(first))
    made = replace(
        first,
        id="TRUNCATION",
        summary="90% of completions are truncated, limit 30%",
        onset=first.first_step,
        evidence={
            "since": first.first_step,
            "truncation_rate": 0.9,
            "limit": 0.3,
            "by_family": {"word_problems": 0.95, "plain": 0.0},
            "errors_by_name": {"time_out": 1120},
            "mastered": True,
            "not_known": None,
        },
    )
    assert list(evidence_words(made)) == [
        "truncated 90%",
        "by family (word_problems 95%, plain 0%)",
        "errors by name (time_out 1,120)",
        "mastered",
    ]


def test_the_chart_asks_one_question_a_stage_and_names_the_first_cause(tmp_path: Path) -> None:
    answers = flow_chart(recorded("sampler_cold", tmp_path))
    assert [answer.question for answer in answers] == list(QUESTIONS)
    assert [answer.stage for answer in answers] == list(range(9))
    (yes,) = [answer for answer in answers if answer.answer == "YES"]
    assert yes.says.startswith("SAMPLER_DRIFT: temperature 0.15 deployed, 1.0 intended")
    assert yes.then.startswith("stop here first. ")


def test_what_is_not_logged_is_unknown_and_never_no(tmp_path: Path) -> None:
    log = write_log(tmp_path / "log.jsonl", [step_record(step, reward=0.5, kl=0.01) for step in range(1, 30)])
    answers = {answer.stage: answer for answer in flow_chart(read(log))}
    assert (answers[7].answer, answers[8].answer) == ("?", "?")
    assert answers[7].says.startswith("not logged: policy versions")
    assert (answers[6].answer, answers[6].says) == ("no?", "KL 0.0100, 3 of 5 checks not made")


def test_a_short_run_has_too_few_steps_for_a_question(tmp_path: Path) -> None:
    log = write_log(tmp_path / "log.jsonl", [run_record(), *group(1, "a", [0.0, 1.0])])
    assert flow_chart(read(log))[1].says == "too few steps so far"


def test_the_outcome_counts_trainable_groups_and_names_the_component_that_told_nothing_apart(
    tmp_path: Path,
) -> None:
    records = [run_record()]
    for step in range(1, 41):
        for name, correct in (("a", (0.0, 0.0)), ("b", (0.0, 1.0))):
            records += [
                rollout(step, name, index, value + 0.5, rewards={"correct": value, "style": 0.5})
                for index, value in enumerate(correct)
            ]
    came_to = outcome(read(write_log(tmp_path / "log.jsonl", records)))
    assert (came_to.groups, came_to.trainable, came_to.ratio) == (80, 40, 0.5)
    assert [(part.name, part.uniform, part.groups, part.role) for part in came_to.components] == [
        ("style", 80, 80, "bottleneck"),
        ("correct", 40, 80, "bottleneck"),
    ]
    assert [part.share_of_spread for part in came_to.components] == [0.0, 1.0]


def test_a_component_that_rose_to_its_top_is_learned_and_no_bottleneck(tmp_path: Path) -> None:
    records = [run_record()]
    for step in range(1, 61):
        for index in range(2):
            form = 1.0 if step > 20 else index * step / 20
            rewards = {"correct": float(index), "format": form}
            records.append(rollout(step, "a", index, sum(rewards.values()), rewards=rewards))
    came_to = outcome(read(write_log(tmp_path / "log.jsonl", records)))
    assert {part.name: part.role for part in came_to.components} == {"format": "learned", "correct": ""}


def test_without_rollouts_the_outcome_is_what_the_trainer_logs(tmp_path: Path) -> None:
    log = write_log(
        tmp_path / "log.jsonl", [step_record(step, frac_reward_zero_std=0.25) for step in range(1, 20)]
    )
    snapshot = read(log)
    assert (outcome(snapshot).groups, outcome(snapshot).ratio) == (0, 0.75)
    assert "trainable groups 75%, as the trainer logs them" in check_text(snapshot)


def test_what_a_model_wrote_does_not_reach_the_terminal(tmp_path: Path) -> None:
    name = "\x1b[31mred"
    records = [run_record(run=name)]
    for step in range(1, 12):
        records += [
            rollout(step, name, index, float(index), rewards={name: 1.0}, family=name, termination="error")
            for index in range(2)
        ]
    text = check_text(read(write_log(tmp_path / "log.jsonl", records)))
    assert "\x1b" not in text
    assert "␛[31mred" in text


def main() -> None:
    """Write the reports of the recorded runs anew."""
    GOLDEN.mkdir(exist_ok=True)
    for name in RECORDED:
        with tempfile.TemporaryDirectory() as directory:
            (GOLDEN / f"{name}.txt").write_text(check_text(recorded(name, Path(directory))))


if __name__ == "__main__":
    main()
