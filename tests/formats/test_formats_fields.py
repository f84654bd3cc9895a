"""JSON lines and CSV of any loop: which field is which, by its usual names or as the user has set it."""

from __future__ import annotations

import csv
import io
from pathlib import Path, PurePath

import pytest
from format_reading import fed, lines, of
from hypothesis import given, settings
from hypothesis import strategies as st
from runs import read, values

from grpo_top.cli import main
from grpo_top.config import Settings
from grpo_top.formats.base import RunContext
from grpo_top.formats.plain import Plain, PlainReader
from grpo_top.formats.plain_csv import Csv, CsvReader
from grpo_top.formats.plain_fields import Fields
from grpo_top.formats.registry import choose, with_fields
from grpo_top.records import Eval, Rollout, Skipped, Step

MAPPING = {
    "reward": "meta.score",
    "completion": "out.text",
    "group": "meta.gid",
    "components.format": "scores.fmt",
    "policy_version_end": "versions.last",
    "policy_version": "versions.first",
    "sampling.temperature": "temp",
    "verifier_error": "grader.problem",
}
RECORD = {
    "iter": 3,
    "meta": {"score": "0.5", "gid": "a"},
    "out": {"text": "four"},
    "scores": {"fmt": 1},
    "versions": {"first": 7, "last": 9},
    "temp": 0.7,
    "grader": {"problem": "timed out"},
    "left": "over",
}


def table(*rows: list[object], delimiter: str = ",", end: str = "\r\n") -> bytes:
    out = io.StringIO(newline="")
    csv.writer(out, delimiter=delimiter, lineterminator=end).writerows(rows)
    return out.getvalue().encode()


def csv_rows(data: bytes, cuts: tuple[int, ...] = ()) -> list[object]:
    return list(fed(CsvReader(RunContext()), data, cuts))


# by their usual names


@pytest.mark.parametrize("reward", ["reward", "score", "total_reward"])
@pytest.mark.parametrize("prompt", ["prompt", "question"])
@pytest.mark.parametrize("completion", ["completion", "output", "response"])
def test_usual_names_are_known_in_json_lines_and_in_csv(reward: str, prompt: str, completion: str) -> None:
    record = {"step": 2, prompt: "2+2?", completion: "4", reward: 1.0, "group_id": 7}
    wanted = (2, "2+2?", "4", 1.0, "7")
    data = {"x.jsonl": lines(record), "x.csv": table([*record], [*record.values()])}
    for name, content in data.items():
        chosen = choose(PurePath(name), content)
        assert chosen is not None
        format_, claim = chosen
        (found,) = fed(format_.reader(PurePath(name), claim, RunContext()), content)
        assert isinstance(found, Rollout)
        assert (found.step, found.prompt, found.completion, found.reward, found.group) == wanted


def test_parts_of_the_reward_and_settings_beside_it_are_found_by_their_names() -> None:
    record = {"step": 1, "completion": "x", "reward": 1.5, "format_reward": 0.5, "reward/accuracy": 1}
    others = {"reward_std": 0.1, "reward_model": "judge-7b", "temperature": 0.9, "top_p": 1.0}
    (found,) = fed(PlainReader(RunContext()), lines(record | others))
    assert isinstance(found, Rollout)
    assert found.rewards == {"format": 0.5, "accuracy": 1.0}
    assert found.sampling == {"temperature": 0.9, "top_p": 1.0}


def test_an_evaluation_is_told_by_the_split() -> None:
    record = {"step": 1, "completion": "x", "reward": 1.0}
    found = of(
        Rollout, fed(PlainReader(RunContext()), lines(record | {"split": "val"}, record | {"phase": "train"}))
    )
    assert [rollout.split for rollout in found] == ["eval", "train"]


# as the user has set it


def test_a_record_is_read_by_the_names_that_the_user_has_set() -> None:
    (found,) = fed(PlainReader(RunContext(), Fields(MAPPING)), lines(RECORD))
    assert isinstance(found, Rollout)
    assert (found.step, found.group, found.reward, found.completion) == (3, "a", 0.5, "four")
    assert (found.rewards, found.sampling) == ({"format": 1.0}, {"temperature": 0.7})
    assert (found.policy_version, found.policy_version_end) == (7, 9)
    assert found.verifier_error == "timed out"


def test_a_file_that_no_format_knows_is_read_once_its_fields_are_named() -> None:
    assert choose(PurePath("x.jsonl"), lines(RECORD)) is None
    chosen = choose(PurePath("x.jsonl"), lines(RECORD), formats=with_fields(MAPPING))
    assert chosen is not None
    assert (chosen[0].name, chosen[1].role) == ("jsonl", "rollouts")


def test_what_the_user_has_named_stands_above_every_other_format() -> None:
    record = {"step": 1, "data": {"critic/score/mean": 0.5}, "mine": 0.25, "completion": "x"}
    chosen = choose(PurePath("x.jsonl"), lines(record), formats=with_fields({"reward": "mine"}))
    assert chosen is not None
    assert chosen[0].name == "jsonl"
    other = choose(PurePath("x.jsonl"), lines({"step": 1, "data": {"critic/score/mean": 0.5}}))
    assert other is not None
    assert other[0].name == "verl"


def test_a_name_with_dots_in_it_comes_before_a_path() -> None:
    record = {"step": 1, "completion": "x", "a.b": 1.0, "a": {"b": 2.0}}
    (found,) = fed(PlainReader(RunContext(), Fields({"reward": "a.b"})), lines(record))
    assert isinstance(found, Rollout)
    assert found.reward == 1.0


def test_numbers_of_a_step_are_named_as_well() -> None:
    fields = Fields({"kl": "stats.kl_div", "step": "t"})
    (found,) = fed(PlainReader(RunContext(), fields), lines({"t": 4, "stats": {"kl_div": 0.1}, "loss": 2.0}))
    assert isinstance(found, Step)
    assert (found.step, found.metrics) == (4, {"kl": 0.1, "loss": 2.0})


def test_inspect_shows_how_each_field_was_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "x.jsonl").write_bytes(lines(*({**RECORD, "iter": step} for step in range(1, 4))))
    table_ = "".join(f'"{field}" = "{own}"\n' for field, own in MAPPING.items())
    (tmp_path / "grpo-top.toml").write_text(f"[fields]\n{table_}")
    assert main(["inspect", str(tmp_path)]) == 0
    said = " ".join(capsys.readouterr().out.split())
    for part in (
        "reward ← meta.score",
        "completion ← out.text",
        "step ← iter",
        "components.format ← scores.fmt",
    ):
        assert part in said
    assert "not read: left" in said


def test_a_file_of_records_that_nobody_knows_is_named_with_what_helps(tmp_path: Path) -> None:
    (tmp_path / "x.jsonl").write_bytes(lines(RECORD))
    (line,) = read(tmp_path).left_out
    assert line == "x.jsonl: no known format; [fields] in grpo-top.toml says which of its fields is which"


# CSV


def test_a_table_of_numbers_is_steps() -> None:
    for delimiter in ",;\t":
        data = table(["global_step", "kl", "loss"], [1, 0.5, ""], [2, "nan", 3], delimiter=delimiter)
        chosen = choose(PurePath("x.csv"), data)
        assert chosen is not None
        assert (chosen[0].name, chosen[1].role) == ("csv", "metrics")
        found = of(Step, csv_rows(data))
        assert [(step.step, step.metrics["loss"]) for step in found] == [(1, None), (2, 3.0)]


def test_a_text_in_quotes_may_go_on_over_lines_and_is_found_again() -> None:
    answer = 'one\n"two", three\r\nfour'
    data = table(["step", "completion", "reward"], [1, answer, 0.5], [1, "x", 1])
    reader = CsvReader(RunContext())
    found = of(Rollout, fed(reader, data))
    assert [rollout.completion for rollout in found] == [answer, "x"]
    for rollout in found:
        where = rollout.location
        assert reader.replay(data[where.offset : where.offset + where.length], where) == rollout


def test_a_run_that_went_on_may_write_its_heading_again() -> None:
    data = table(["step", "kl"], [1, 0.5], ["step", "kl"], [2, 0.5])
    assert [type(record) for record in csv_rows(data)] == [Step, Step]


@pytest.mark.parametrize("garbage", [b"x", b"1,2,3,4,5", b'"', b'a"b,c', b"\xff\xfe,,"])
def test_a_row_that_is_none_is_lost_alone(garbage: bytes) -> None:
    data = table(["step", "completion", "reward"], *([step, "a\nb", 1] for step in range(1, 6)))
    rows = data.split(b"\r\n")
    broken = b"\r\n".join([*rows[:3], garbage, *rows[3:]])
    found = csv_rows(broken)
    assert [rollout.step for rollout in of(Rollout, found)] == [1, 2, 3, 4, 5]
    assert len(of(Skipped, found)) == 1


def test_a_last_row_without_a_newline_may_be_cut_and_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_bytes(b"step,kl\n1,0.5\n2,0.2")
    snapshot = read(tmp_path)
    assert values(snapshot, "kl") == {1: 0.5}
    assert snapshot.sources[0].note == "its last line is not whole yet"


@settings(max_examples=30)
@given(
    st.lists(st.tuples(st.integers(0, 9), st.text('ab\n\r",;', max_size=6), st.floats(0, 1)), max_size=6),
    st.sets(st.integers(1, 12)),
)
def test_any_cut_into_lines_gives_the_same_records(
    rows: list[tuple[int, str, float]], cuts: set[int]
) -> None:
    data = table(["step", "completion", "reward"], *map(list, rows))
    whole = csv_rows(data)
    assert csv_rows(data, tuple(cuts)) == whole
    assert len(of(Rollout, whole)) == len(rows)


@settings(max_examples=40)
@given(st.binary(max_size=200))
def test_no_bytes_make_a_reader_or_a_claim_fail(data: bytes) -> None:
    heading = b"step,completion,reward\n"
    for content in (data, heading + data, b"step,kl\n" + data + b"\n\r,\r\n", b"PAR1,\r\n" + data):
        Csv().claim(PurePath("x.csv"), content)
        Plain(MAPPING).claim(PurePath("x.jsonl"), content)
        csv_rows(content)


def test_an_evaluation_in_a_table_is_one() -> None:
    found = csv_rows(table(["step", "loss", "eval/accuracy"], [1, 0.5, 0.75]))
    assert of(Eval, found)[0].metrics == {"accuracy": 0.75}


# names of metrics


def test_a_metric_that_no_table_knows_is_kept_under_its_own_name(tmp_path: Path) -> None:
    (tmp_path / "m.jsonl").write_bytes(
        lines(*({"step": step, "kl": 0.1, "my/number": step} for step in (1, 2)))
    )
    snapshot = read(tmp_path)
    assert snapshot.own["my/number"].values.tolist() == [1.0, 2.0]
    assert "kl" not in snapshot.own
    assert "my/number" not in snapshot.series


def test_a_metric_is_the_series_that_the_user_says(tmp_path: Path) -> None:
    (tmp_path / "m.jsonl").write_bytes(lines({"step": 1, "kl": 0.1, "my/kl": 0.2, "entropy": 1.0}))
    snapshot = read(tmp_path, settings=Settings(names={"my/kl": "kl", "entropy": "loss"}))
    assert values(snapshot, "kl") == {1: 0.2}
    assert values(snapshot, "loss") == {1: 1.0}
    assert "entropy" not in snapshot.series
    assert snapshot.keys == {"kl": "kl", "my/kl": "kl", "entropy": "loss"}
    assert not snapshot.own
