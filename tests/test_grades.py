"""Hand scores: which rollouts are drawn, how scores are compared, where they are kept, and what a run makes of them."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

import numpy as np
import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grpo_top.cli import main
from grpo_top.config import Setting, Settings
from grpo_top.grade_store import GradeStore
from grpo_top.grades import RIGHT, WRONG, Compared, HandScore, agreement, compare, content_of, draw
from grpo_top.monitor import Monitor
from grpo_top.records import Message, Rollout
from grpo_top.snapshot import RewardRule, Rollouts, Status

if TYPE_CHECKING:
    from pathlib import Path

    from grpo_top.snapshot import Snapshot

HALF = RewardRule("reward", 0.5, inclusive=True, span=1.0)
STEPS, GROUPS, SIZE = 6, 2, 8


def log(steps: int = STEPS, name: str | None = "run-a") -> list[dict[str, Any]]:
    """A run whose pipeline pays half of the right answers nothing."""
    records: list[dict[str, Any]] = [{"kind": "run", "schema": "grpo-top/1", "reward_range": [0, 1]}]
    if name is not None:
        records[0]["run"] = name
    for step in range(1, steps + 1):
        for group in range(GROUPS):
            for index in range(SIZE):
                right = index != 7
                paid = right and index % 2 == 0
                records.append(
                    {
                        "kind": "rollout",
                        "step": step,
                        "group": f"g{group}",
                        "index": index,
                        "task": f"task {group}",
                        "family": ("plain", "carry")[group],
                        "prompt": f"prompt {group}",
                        "completion": f"answer {step} {index} {'right' if right else 'wrong'}",
                        "reward": float(paid),
                    }
                )
        records.append({"kind": "step", "step": step, "metrics": {"loss": 0.1}})
    return records


def written(directory: Path, records: list[dict[str, Any]]) -> Path:
    directory.mkdir(exist_ok=True)
    (directory / "rollouts.jsonl").write_bytes(b"".join(orjson.dumps(record) + b"\n" for record in records))
    return directory


def monitor(directory: Path, store: GradeStore | None = None) -> Monitor:
    found = Monitor([str(directory)], Settings(), grades=store)
    found.read_all()
    return found


def score_all(snapshot: Snapshot, rows: list[int]) -> list[str]:
    """Score rollouts as somebody does who reads them; why they could not be kept."""
    reasons = []
    for row in rows:
        rollout = snapshot.read(row)
        assert isinstance(rollout, Rollout)
        score = RIGHT if "right" in (rollout.completion or "") else WRONG
        index = int(snapshot.rollouts.columns["index"][row])
        given_ = HandScore(snapshot.run.name, content_of(rollout), rollout.step, "", index, score)
        reasons.append(snapshot.grade(row, given_))
    return reasons


# ---- comparing


@pytest.mark.parametrize(
    ("score", "value", "found"),
    [
        (RIGHT, 1.0, Compared(right=True, passed=True, agrees=True)),
        (RIGHT, 0.2, Compared(right=True, passed=False, agrees=False)),
        (WRONG, 0.2, Compared(right=False, passed=False, agrees=True)),
        (WRONG, math.nan, Compared(right=False, passed=None, agrees=None)),
        (WRONG, math.inf, Compared(right=False, passed=None, agrees=None)),
        (0.45, 0.55, Compared(right=False, passed=True, agrees=True)),
        (0.9, 0.55, Compared(right=True, passed=True, agrees=False)),
    ],
)
def test_a_verdict_agrees_with_what_passed_and_a_number_with_what_is_near(
    score: float, value: float, found: Compared
) -> None:
    assert compare(score, value, HALF) == found


def test_a_number_agrees_by_its_side_where_no_range_is_known() -> None:
    rule = RewardRule("accuracy", 1.0, inclusive=False)
    assert compare(1.5, 7.0, rule).agrees
    assert not compare(0.5, 7.0, rule).agrees


def test_kappa_is_that_of_the_textbook() -> None:
    pairs = [(True, True)] * 20 + [(True, False)] * 5 + [(False, True)] * 10 + [(False, False)] * 15
    found = agreement(Compared(right, passed, right == passed) for right, passed in pairs)
    assert (found.scored, found.compared, found.agree) == (50, 50, 35)
    assert found.table == ((20, 5), (10, 15))
    assert found.share == 0.7
    assert found.kappa == pytest.approx(0.4)


def test_kappa_is_unknown_where_one_side_says_one_thing_only() -> None:
    assert agreement([Compared(right=True, passed=True, agrees=True)] * 20).kappa is None
    assert agreement([]).kappa is None
    assert agreement([Compared(right=True, passed=None, agrees=None)]).share is None


@settings(max_examples=40)
@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=30))
def test_kappa_lies_between_minus_one_and_one_and_is_one_only_in_full_agreement(
    pairs: list[tuple[bool, bool]],
) -> None:
    found = agreement(Compared(right, passed, right == passed) for right, passed in pairs)
    if found.kappa is not None:
        assert -1 - 1e-9 <= found.kappa <= 1 + 1e-9
        assert math.isclose(found.kappa, 1) == (found.agree == found.compared)


def test_the_content_is_what_was_asked_said_and_called_with_white_space_folded() -> None:
    plain = Rollout(1, "g", 0.0, prompt="a", completion="b  c\n")
    assert content_of(plain) == content_of(plain._replace(step=2, reward=1.0, completion="b c"))
    assert content_of(plain) != content_of(plain._replace(prompt="ab", completion=" c"))
    talks = [Message("assistant", "", ({"name": "f", "arguments": '{"a": 1}'},)), Message("tool", "2")]
    other = [talks[0]._replace(tool_calls=({"name": "f", "arguments": '{"a": 2}'},)), talks[1]]
    assert content_of(plain._replace(messages=talks)) != content_of(plain._replace(messages=other))
    assert len(content_of(plain._replace(completion="\ud800"))) == 16


# ---- drawing


def test_rollouts_are_drawn_over_families_and_rewards_and_the_same_ones_again(tmp_path: Path) -> None:
    snapshot = monitor(written(tmp_path / "run", log(40))).snapshot()
    rows = draw(snapshot.rollouts, snapshot.run.reward_rule, seed=3)
    columns = snapshot.rollouts.columns
    strata = [(int(columns["family"][row]), float(columns["reward"][row])) for row in rows]
    assert len(set(rows)) == 20
    assert {stratum: strata.count(stratum) for stratum in strata} == {
        (family, reward): 5 for family in (0, 1) for reward in (0.0, 1.0)
    }
    assert rows == draw(snapshot.rollouts, snapshot.run.reward_rule, seed=3)
    assert rows != draw(snapshot.rollouts, snapshot.run.reward_rule, seed=4)
    assert not set(rows) & set(draw(snapshot.rollouts, snapshot.run.reward_rule, seed=3, without=set(rows)))


def test_no_answer_is_drawn_twice_and_none_that_the_pipeline_gave_no_score(tmp_path: Path) -> None:
    records = log(1)
    for record in records[1:-1]:
        record["completion"] = f"answer {record['index'] % 3}"
        record["reward"] = None if record["group"] == "g1" else record["reward"]
    snapshot = monitor(written(tmp_path / "run", records)).snapshot()
    rows = draw(snapshot.rollouts, snapshot.run.reward_rule, seed=0)
    assert len(rows) == 3
    assert {snapshot.batch(1).group[row] for row in rows} == {0}  # type: ignore[union-attr]


def test_of_very_many_rollouts_those_of_a_rare_family_are_drawn_too() -> None:
    count = 120_000
    numbers = np.arange(count)
    columns = {name: np.zeros(count, np.int64) for name in ("split", "family", "task")}
    columns |= {"live": np.ones(count, np.int8), "text": numbers + 1, "offset": numbers}
    columns["reward"] = (numbers % 100) / 100
    columns["family"][70_000:70_005] = 1
    rollouts = Rollouts(count, columns, {}, {}, [])
    rows = draw(rollouts, HALF, seed=0)
    assert len(set(rows)) == 20
    assert {70_000, 70_001, 70_002, 70_003, 70_004} & set(rows)
    assert rows == draw(rollouts, HALF, seed=0)


def test_of_a_run_without_texts_nothing_is_drawn(tmp_path: Path) -> None:
    records = [{key: value for key, value in record.items() if key != "completion"} for record in log(1)]
    snapshot = monitor(written(tmp_path / "run", records)).snapshot()
    assert draw(snapshot.rollouts, snapshot.run.reward_rule, seed=0) == []


# ---- keeping


def test_what_is_kept_is_read_again_and_bad_lines_are_passed_over(tmp_path: Path) -> None:
    store = GradeStore(tmp_path / "state" / "scores.jsonl")
    assert store.load() == []
    scores = [
        HandScore("run", "0123456789abcdef", 7, "g", 3, 0.5, "a \x1b note\ud800".replace("\ud800", "")),
        HandScore("", "fedcba9876543210", 0, "", 0, None, time=1.5),
    ]
    assert [store.keep(score) for score in scores] == ["", ""]
    with store.path.open("ab") as file:
        file.write(
            b'not json\n[1]\n{"content": 1}\n{"content": "c", "step": 1, "index": 0, "score": "x"}\n{"cut'
        )
    assert store.load() == scores


def test_a_directory_that_cannot_be_written_says_so_and_the_run_is_judged_all_the_same(
    tmp_path: Path,
) -> None:
    (tmp_path / "file").write_text("in the way")
    store = GradeStore(tmp_path / "file" / "scores.jsonl")
    watching = monitor(written(tmp_path / "run", log()), store)
    snapshot = watching.snapshot()
    reasons = score_all(snapshot, draw(snapshot.rollouts, snapshot.run.reward_rule, seed=0))
    assert all(reason.startswith(str(store.path)) for reason in reasons)
    watching.poll()
    assert len(watching.snapshot().graded) == 20


# ---- a run's verdict


def test_hand_scores_reach_the_detector_at_once_and_after_a_restart_and_when_the_log_has_moved(
    tmp_path: Path,
) -> None:
    store = GradeStore(tmp_path / "scores.jsonl")
    watching = monitor(written(tmp_path / "run", log()), store)
    before = watching.snapshot()
    assert dict(before.unknown)["HAND_SCORE_MISMATCH"] == ("hand_scores",)
    score_all(before, draw(before.rollouts, before.run.reward_rule, seed=0))
    watching.poll()
    now = watching.snapshot()
    (found,) = [finding for finding in now.findings if finding.id == "HAND_SCORE_MISMATCH"]
    assert found.active
    assert found.severity is Status.FAIL
    assert found.summary.endswith("of 20 hand scores agree with the pipeline's")
    texts = [now.read(reference.row) for reference in found.rollouts]
    assert texts
    assert all("right" in (text.completion or "") and not text.reward for text in texts)  # type: ignore[union-attr]
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "run" / "rollouts.jsonl").rename(tmp_path / "elsewhere" / "renamed.jsonl")
    again = monitor(tmp_path / "elsewhere", GradeStore(store.path)).snapshot()
    assert again.graded == now.graded
    assert [(f.id, f.onset, f.episodes, f.summary) for f in again.findings] == [
        (f.id, f.onset, f.episodes, f.summary) for f in now.findings
    ]
    assert list(again.series["hand_scores"].values) == list(now.series["hand_scores"].values)
    assert list(again.tracks[found.id].status) == list(now.tracks[found.id].status)


def test_a_late_rollout_leaves_the_verdict_as_if_it_had_been_in_time(tmp_path: Path) -> None:
    store = GradeStore(tmp_path / "scores.jsonl")
    records = log()
    first = monitor(written(tmp_path / "run", records), store)
    score_all(first.snapshot(), draw(first.snapshot().rollouts, HALF, seed=0))
    late = [*records[:1], *records[5:], *records[1:5]]
    in_time, out_of_time = (
        monitor(written(tmp_path / name, lines), store).snapshot()
        for name, lines in (("a", records), ("b", late))
    )
    tracks = [found.tracks["HAND_SCORE_MISMATCH"].status.tolist() for found in (in_time, out_of_time)]
    assert tracks[0] == tracks[1]
    assert len(in_time.graded) == len(out_of_time.graded) == 20


def test_scores_of_another_run_are_not_counted(tmp_path: Path) -> None:
    store = GradeStore(tmp_path / "scores.jsonl")
    first = monitor(written(tmp_path / "run", log()), store)
    score_all(first.snapshot(), draw(first.snapshot().rollouts, HALF, seed=0))
    assert not monitor(written(tmp_path / "other", log(name="run-b")), store).snapshot().graded
    assert monitor(written(tmp_path / "unnamed", log(name=None)), store).snapshot().graded


def test_a_detector_that_is_switched_off_leaves_the_scores_as_they_are(tmp_path: Path) -> None:
    store = GradeStore(tmp_path / "scores.jsonl")
    off = Settings(knobs={"HAND_SCORE_MISMATCH": {"enabled": Setting(0.0, "a test")}})
    watching = Monitor([str(written(tmp_path / "run", log()))], off, grades=store)
    watching.read_all()
    score_all(watching.snapshot(), draw(watching.snapshot().rollouts, HALF, seed=0))
    watching.poll()
    assert len(watching.snapshot().graded) == 20
    assert "HAND_SCORE_MISMATCH" not in watching.snapshot().tracks


def test_the_score_that_was_given_last_holds(tmp_path: Path) -> None:
    store = GradeStore(tmp_path / "scores.jsonl")
    watching = monitor(written(tmp_path / "run", log()), store)
    snapshot = watching.snapshot()
    rollout = snapshot.read(0)
    assert isinstance(rollout, Rollout)
    for score in (RIGHT, None, WRONG):
        snapshot.grade(0, HandScore("run-a", content_of(rollout), rollout.step, "g0", 0, score))
        watching.poll()
    assert [(one.row, one.score) for one in watching.snapshot().graded] == [(0, WRONG)]
    assert [one.score for one in monitor(tmp_path / "run", store).snapshot().graded] == [WRONG]


def test_grades_that_the_log_holds_are_taken_too(tmp_path: Path) -> None:
    records = log()
    lines = [orjson.dumps(record) + b"\n" for record in records]
    grades = []
    offset = 0
    for record, line in zip(records, lines, strict=True):
        if record["kind"] == "rollout" and record["step"] < 3:
            where = {"offset": offset, "length": len(line) - 1}
            score = float("right" in record["completion"])
            grades.append({"kind": "grade", "rollout": where, "score": score, "note": "by a person"})
        offset += len(line)
    grades.append({"kind": "grade", "rollout": {"offset": 10**9, "length": 1}, "score": 1.0})
    snapshot = monitor(written(tmp_path / "run", [*records, *grades])).snapshot()
    assert len(snapshot.graded) == 32
    assert snapshot.graded[0].note == "by a person"
    assert "HAND_SCORE_MISMATCH" in {finding.id for finding in snapshot.findings}


# ---- the command


def test_grades_prints_the_scores_and_how_far_they_agree(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = written(tmp_path / "run", log())
    assert main(["grades", str(run)]) == 0
    assert "no hand scores" in capsys.readouterr().out
    watching = monitor(run, GradeStore())
    snapshot = watching.snapshot()
    score_all(snapshot, draw(snapshot.rollouts, snapshot.run.reward_rule, seed=0))
    try:
        assert main(["grades", str(run)]) == 0
        text = capsys.readouterr().out
        assert main(["grades", str(run), "--json"]) == 0
        found = json.loads(capsys.readouterr().out)
        assert main(["check", str(run), "--fail-on", "fail"]) == 1
        assert "HAND_SCORE_MISMATCH" in capsys.readouterr().out
    finally:
        GradeStore().path.unlink()
    assert text.startswith("run-a: 20 hand scores, ")
    assert "kappa" in text
    assert "hand right" in text
    assert "DISAGREES" in text
    assert found["scored"] == 20
    assert found["agree"] == sum(score["agrees"] for score in found["scores"])
    assert {score["where"] for score in found["scores"]} == {"rollouts.jsonl"}
