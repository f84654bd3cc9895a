"""Logs of loops that nobody has a format for, as people write them: read with no setting at all.

Each case is one small run of three steps, two groups of two; whatever its shape, the same is read from it.
"""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

import pytest
from format_reading import fed, lines, of, opened, read
from runs import read as read_run
from runs import values

from grpo_top.cli import main
from grpo_top.formats.base import RunContext
from grpo_top.formats.plain_places import place_of
from grpo_top.formats.registry import choose
from grpo_top.records import Rollout, Run, Skipped, Step

if TYPE_CHECKING:
    from collections.abc import Callable

Flat = dict[str, Any]
REWARDS = {
    (1, 0): (1.0, 0.0),
    (1, 1): (1.0, 1.0),
    (2, 0): (0.0, 0.0),
    (2, 1): (0.0, 0.0),
    (3, 0): (1.0, 0.0),
    (3, 1): (0.0, 1.0),
}
MEAN = {1: 0.75, 2: 0.0, 3: 0.5}
FLAT = {1: 0.5, 2: 1.0, 3: 0.0}


def rollouts() -> list[Flat]:
    """The run, one rollout an object."""
    return [
        {
            "step": step,
            "g": group,
            "prompt": f"What is {group} + {step}?",
            "text": f"It is {index}.",
            "reward": reward,
        }
        for (step, group), given in REWARDS.items()
        for index, reward in enumerate(given)
    ]


def groups() -> list[tuple[int, int, list[Flat]]]:
    return [
        (step, group, [row for row in rollouts() if (row["step"], row["g"]) == (step, group)])
        for step, group in REWARDS
    ]


def each(make: Callable[[Flat], object]) -> bytes:
    return lines(*map(make, rollouts()))


def table(delimiter: str) -> bytes:
    out = io.StringIO(newline="")
    rows = [[row["step"], row["prompt"], row["text"], row["reward"]] for row in rollouts()]
    csv.writer(out, delimiter=delimiter).writerows([["step", "prompt", "completion", "reward"], *rows])
    return out.getvalue().encode()


def simple(row: Flat) -> Flat:
    return {"step": row["step"], "prompt": row["prompt"], "completion": row["text"], "reward": row["reward"]}


def without_step(row: Flat) -> Flat:
    return {name: value for name, value in row.items() if name != "step"}


def by_step() -> dict[int, list[Flat]]:
    return {step: [row for row in rollouts() if row["step"] == step] for step in MEAN}


SHAPES: dict[str, tuple[str, bytes]] = {
    "other words": (
        "log.jsonl",
        each(lambda r: {"iter": r["step"], "prompt_id": r["g"], "score": r["reward"], "response": r["text"]}),
    ),
    "an answer and R": (
        "log.jsonl",
        each(lambda r: {"train_iter": r["step"], "question": r["prompt"], "answer": r["text"], "R": r["reward"]}),
    ),
    "camel case": (
        "log.jsonl",
        each(lambda r: {"globalStep": r["step"], "groupId": r["g"], "Completion": r["text"], "Reward": r["reward"]}),
    ),
    "whether it is correct": (
        "log.jsonl",
        each(
            lambda r: {"update": r["step"], "problem": r["prompt"], "solution": r["text"], "correct": r["reward"] > 0}
        ),
    ),
    "objects within": (
        "log.jsonl",
        each(
            lambda r: {
                "meta": {"step": r["step"]},
                "input": {"prompt": r["prompt"], "id": r["g"]},
                "output": {"text": r["text"]},
                "reward": {"total": r["reward"], "format": 0.5},
            }
        ),
    ),
    "parts of the reward alone": (
        "log.jsonl",
        each(
            lambda r: {
                "step": r["step"],
                "prompt": r["prompt"],
                "completion": r["text"],
                "rewards": {"correct": r["reward"] - 0.5, "format": 0.5},
            }
        ),
    ),
    "events": (
        "log.jsonl",
        each(lambda r: {"event": "rollout", "step": r["step"], "data": without_step(simple(r))}),
    ),
    "settings first, rows of numbers between": (
        "log.jsonl",
        lines(
            {"type": "config", "lr": 1e-6, "temperature": 0.7},
            *({"type": "rollout", **simple(row)} for row in rollouts()),
            *({"type": "step", "step": step, "loss": 0.1} for step in MEAN),
        ),
    ),
    "a group a line": (
        "log.jsonl",
        lines(
            *(
                {
                    "step": step,
                    "prompt": rows[0]["prompt"],
                    "completions": [row["text"] for row in rows],
                    "rewards": [row["reward"] for row in rows],
                }
                for step, _, rows in groups()
            )
        ),
    ),
    "a group a line, without what was asked": (
        "log.jsonl",
        lines(
            *(
                {"step": step, "responses": [row["text"] for row in rows], "scores": [row["reward"] for row in rows]}
                for step, _, rows in groups()
            )
        ),
    ),
    "a group's samples": (
        "log.jsonl",
        lines(
            *(
                {"step": step, "group_id": group, "samples": [{"text": r["text"], "reward": r["reward"]} for r in rows]}
                for step, group, rows in groups()
            )
        ),
    ),
    "a step's groups": (
        "log.jsonl",
        lines(
            *(
                {
                    "step": wanted,
                    "groups": [
                        {"completions": [row["text"] for row in rows], "rewards": [row["reward"] for row in rows]}
                        for step, _, rows in groups()
                        if step == wanted
                    ],
                }
                for wanted in MEAN
            )
        ),
    ),
    "a step's groups in lists of lists": (
        "log.jsonl",
        lines(
            *(
                {
                    "step": wanted,
                    "prompts": [rows[0]["prompt"] for step, _, rows in groups() if step == wanted],
                    "completions": [[row["text"] for row in rows] for step, _, rows in groups() if step == wanted],
                    "rewards": [[row["reward"] for row in rows] for step, _, rows in groups() if step == wanted],
                }
                for wanted in MEAN
            )
        ),
    ),
    "a column for each reward function": (
        "log.jsonl",
        each(
            lambda r: {
                "step": r["step"],
                "prompt": r["prompt"],
                "completion": r["text"],
                "accuracy_reward_func": r["reward"] - 0.5,
                "format_reward_func": 0.5,
            }
        ),
    ),
    "a step's rollouts": (
        "log.jsonl",
        lines(*({"step": step, "loss": 0.1, "rollouts": list(map(simple, rows))} for step, rows in by_step().items())),
    ),
    "a step's columns": (
        "log.jsonl",
        lines(
            *(
                {
                    "step": step,
                    "prompts": [row["prompt"] for row in rows],
                    "completions": [row["text"] for row in rows],
                    "rewards": [row["reward"] for row in rows],
                }
                for step, rows in by_step().items()
            )
        ),
    ),
    "a list": ("rollouts.json", json.dumps([*map(simple, rollouts())]).encode()),
    "a list over many lines": ("rollouts.json", json.dumps([*map(simple, rollouts())], indent=2).encode()),
    "a list in an object": (
        "run.json",
        json.dumps({"run": "x", "rollouts": [*map(simple, rollouts())]}, indent=1).encode(),
    ),
    "an object by step": (
        "run.json",
        json.dumps({f"step_{step}": [*map(simple, rows)] for step, rows in by_step().items()}).encode(),
    ),
    "a table as W&B keeps it": (
        "completions.table.json",
        json.dumps(
            {"columns": [*simple(rollouts()[0])], "data": [[*simple(row).values()] for row in rollouts()]}
        ).encode(),
    ),
    "CSV": ("rollouts.csv", table(",")),
    "TSV": ("rollouts.tsv", table("\t")),
    "a table as Markdown": (
        "log.txt",
        "".join(
            f"| {' | '.join(map(str, cells))} |\n"
            for cells in [[*simple(rollouts()[0])], ["---"] * 4, *([*simple(row).values()] for row in rollouts())]
        ).encode(),
    ),
}  # fmt: skip


@pytest.mark.parametrize("shape", SHAPES)
def test_the_same_run_is_read_from_every_shape(tmp_path: Path, shape: str) -> None:
    name, data = SHAPES[shape]
    (tmp_path / name).write_bytes(data)
    snapshot = read_run(tmp_path)
    assert (snapshot.run.rollouts, snapshot.run.steps, snapshot.skipped_count) == (12, 3, 0)
    assert values(snapshot, "reward_mean") == MEAN
    assert values(snapshot, "zero_variance_group_frac") == FLAT


@pytest.mark.parametrize("shape", SHAPES)
def test_every_rollout_is_found_again_with_its_text(shape: str) -> None:
    name, data = SHAPES[shape]
    reader = opened(name, data)
    whole = name.endswith(".json")
    found = of(Rollout, reader.whole(data) if whole else fed(reader, data))
    assert [rollout.completion for rollout in found] == [row["text"] for row in rollouts()]
    for rollout in found:
        where = rollout.location
        piece = data if whole else data[where.offset : where.offset + where.length]
        assert reader.replay(piece, where) == rollout


@pytest.mark.parametrize(
    "name",
    [
        *("rollouts/step_{}.jsonl", "step_{}/rollouts.jsonl", "rollouts/{}.jsonl", "iter_{:04d}.jsonl"),
        *("out/samples/global_step{}.json", "rollouts_{}.json"),
    ],
)
def test_a_file_for_each_step_says_the_step_in_its_name(tmp_path: Path, name: str) -> None:
    for step, rows in by_step().items():
        path = tmp_path / name.format(step)
        path.parent.mkdir(parents=True, exist_ok=True)
        bare = [without_step(simple(row)) for row in rows]
        path.write_bytes(json.dumps(bare).encode() if path.suffix == ".json" else lines(*bare))
    snapshot = read_run(tmp_path)
    assert (snapshot.run.rollouts, snapshot.run.steps) == (12, 3)
    assert values(snapshot, "zero_variance_group_frac") == FLAT
    assert "the name of the file" in snapshot.sources[0].note


@pytest.mark.parametrize("name", ["rollouts.parquet", "step_{}.parquet"])
def test_a_table_of_rollouts_is_read_by_its_columns(tmp_path: Path, name: str) -> None:
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    for step, rows in by_step().items() if "{}" in name else [(0, rollouts())]:
        found = [*map(simple, rows)] if step == 0 else [without_step(simple(row)) for row in rows]
        pq.write_table(pa.Table.from_pylist(found), tmp_path / name.format(step))
    snapshot = read_run(tmp_path)
    assert (snapshot.run.rollouts, snapshot.run.steps) == (12, 3)
    assert values(snapshot, "zero_variance_group_frac") == FLAT
    assert snapshot.read(0).completion == "It is 0."


def test_a_table_of_something_else_is_named_and_gives_nothing(tmp_path: Path) -> None:
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    pq.write_table(
        pa.Table.from_pylist([{"prompt": "a", "completion": "b"}]), tmp_path / "completions.parquet"
    )
    snapshot = read_run(tmp_path)
    assert (snapshot.run.rollouts, snapshot.skipped_count) == (0, 0)
    assert "not those of rollouts" in snapshot.sources[0].note


def test_numbers_beside_a_steps_rollouts_are_the_steps(tmp_path: Path) -> None:
    name, data = SHAPES["a step's rollouts"]
    (tmp_path / name).write_bytes(data)
    assert values(read_run(tmp_path), "loss") == dict.fromkeys(MEAN, 0.1)


def test_rewards_without_texts_or_groups_are_no_rollouts_and_no_numbers_of_the_step(tmp_path: Path) -> None:
    rows = [{"step": step, "kl": 0.1, "rewards": [0, 1], "lengths": [5, 6]} for step in (1, 2)]
    (tmp_path / "x.jsonl").write_bytes(lines(*rows))
    snapshot = read_run(tmp_path)
    assert values(snapshot, "kl") == {1: 0.1, 2: 0.1}
    assert "reward_mean" not in snapshot.series


@pytest.mark.parametrize("name", ["a", "data", "groups", "metrics"])
def test_objects_within_objects_without_end_break_nothing(name: str) -> None:
    deep = b'{"%s": ' % name.encode() * 900 + b"1" + b"}" * 900
    data = lines({"step": 1, "kl": 0.1}) * 5 + b'{"step": 2, "kl": 0.1, "x": ' + deep + b"}\n"
    assert of(Step, read("x.jsonl", data))[-1].metrics == {"kl": 0.1}


def test_samples_that_are_only_shown_are_no_rollouts(tmp_path: Path) -> None:
    rows = [{"step": step, "kl": 0.1, "samples": [{"prompt": "a", "completion": "b"}] * 2} for step in (1, 2)]
    (tmp_path / "x.jsonl").write_bytes(lines(*rows))
    snapshot = read_run(tmp_path)
    assert values(snapshot, "kl") == {1: 0.1, 2: 0.1}
    assert snapshot.run.rollouts == 0


def test_of_a_step_one_rollout_that_cannot_be_read_is_lost_alone() -> None:
    rows = [{"prompt": "a", "completion": str(n), "reward": "bad" if n == 1 else 1.0} for n in range(3)]
    data = lines({"step": 1, "rollouts": rows})
    reader = opened("x.jsonl", data)
    found = fed(reader, data)
    assert [type(record) for record in found] == [Rollout, Skipped, Rollout]
    where = of(Rollout, found)[1].location
    assert reader.replay(data[where.offset : where.offset + where.length], where) == found[2]


def test_rewards_of_groups_alone_are_rollouts_without_a_text(tmp_path: Path) -> None:
    rows = [{"step": step, "loss": 0.1, "group_rewards": [[1, 0], [0, 0]]} for step in (1, 2)]
    numbered = [{"step": step, "group_ids": [0, 0, 1, 1], "rewards": [1, 0, 0, 0]} for step in (1, 2)]
    for name, found in (("lists", rows), ("columns", numbered)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "x.jsonl").write_bytes(lines(*found))
        assert values(read_run(tmp_path / name), "zero_variance_group_frac") == {1: 0.5, 2: 0.5}


def test_a_rollout_without_a_prompt_is_grouped_by_its_task(tmp_path: Path) -> None:
    rows = [
        {"step": row["step"], "task_id": row["g"], "output": row["text"], "score": row["reward"]}
        for row in rollouts()
    ]
    (tmp_path / "x.jsonl").write_bytes(lines(*rows))
    assert values(read_run(tmp_path), "zero_variance_group_frac") == FLAT


def test_an_evaluation_is_told_by_the_folder_or_the_file() -> None:
    for name in ("eval/step_3.jsonl", "step_3/eval.jsonl", "validation_rollouts/3.jsonl"):
        assert place_of(PurePath("run", name))[:2] == (3, "eval"), name
    for name in (
        "train-00001-of-00004.jsonl",
        "rank_0.jsonl",
        "data/3.jsonl",
        "shard-2.jsonl",
        "part_7.json",
    ):
        assert place_of(PurePath("run", name)).step is None, name


NO_RUNS: dict[str, tuple[str, bytes]] = {
    "questions": ("train.jsonl", lines(*[{"question": "q", "answer": "a", "level": "Level 3"}] * 9)),
    "conversations": ("sft.jsonl", lines(*[{"messages": [{"role": "user", "content": "a"}], "score": 0.9}] * 9)),
    "preferences": ("prefs.jsonl", lines(*[{"prompt": "a", "chosen": "b", "rejected": "c", "score_chosen": 1}] * 9)),
    "ratings": ("rm.jsonl", lines(*[{"id": 1, "prompt": "a", "response": "b", "score": 4.2}] * 9)),
    "ratings of many": (
        "uf.jsonl",
        lines(*[{"instruction": "i", "completions": [{"model": "a", "response": "r", "score": 7.0}]}] * 9),
    ),
    "steps of a proof": ("prm.jsonl", lines(*[{"problem": "q", "steps": ["a", "b"], "step": 3, "score": 0.5}] * 9)),
    "an evaluation's samples": (
        "samples_gsm8k.jsonl",
        lines(*[{"doc_id": 1, "doc": {"question": "q"}, "target": "a", "resps": [["x"]], "exact_match": 1.0}] * 9),
    ),
    "settings": ("config.json", json.dumps({"step": 10, "reward": "acc", "lr": 1e-6, "beta": 0.1}).encode()),
    "results": ("results.json", json.dumps({"results": {"gsm8k": {"acc": 0.5}}, "step": 3}, indent=1).encode()),
    "a fine-tuning log": ("log.jsonl", lines(*[{"epoch": 1, "batch": n, "loss": 0.5, "lr": 1e-5} for n in range(9)])),
    "a shard of a data set": (
        "train-00001-of-00004.json",
        json.dumps([{"prompt": "a", "response": "b", "score": 1}] * 9).encode(),
    ),
    "printed rollouts": ("x.log", b"{'step': 1, 'prompt': 'a', 'completion': 'b', 'reward': 1.0}\n" * 9),
    "a log of anything": ("x.log", b"step 3 took 4.5 s for 3 files\niter 4: 12 files, 3 left\n" * 9),
}  # fmt: skip


@pytest.mark.parametrize("what", NO_RUNS)
def test_what_is_no_run_is_not_taken_for_one(what: str) -> None:
    name, data = NO_RUNS[what]
    assert choose(PurePath(name), data) is None


def test_lengths_and_cuts_are_found_under_their_many_names() -> None:
    for length, cut, value in (
        ("n_tokens", "finish_reason", "length"),
        ("response_len", "hit_max_tokens", True),
        ("num_generated_tokens", "stop_reason", "max_tokens"),
    ):
        (found,) = read("x.jsonl", lines({"step": 1, "completion": "a", "reward": 1, length: 7, cut: value}))
        assert isinstance(found, Rollout)
        assert (found.completion_tokens, found.truncated or found.finish_reason == "length") == (7, True)


def test_an_index_that_numbers_the_data_set_numbers_no_rollouts(tmp_path: Path) -> None:
    rows = [{**simple(row), "index": row["g"]} for row in rollouts()]
    (tmp_path / "x.jsonl").write_bytes(lines(*rows))
    snapshot = read_run(tmp_path)
    assert values(snapshot, "rollouts") == dict.fromkeys(MEAN, 4.0)
    assert values(snapshot, "reward_mean") == MEAN


def test_a_file_that_was_cut_is_read_as_far_as_it_goes() -> None:
    data = json.dumps([*map(simple, rollouts())]).encode()
    reader = opened("rollouts.json", data)
    skipped, *found = reader.whole(data[:-30])
    assert isinstance(skipped, Skipped)
    assert skipped.reason.startswith("not whole: not JSON")
    assert len(found) == 11


def test_settings_before_the_first_step_are_the_runs() -> None:
    found = read("x.jsonl", lines({"temperature": 0.7, "max_tokens": 64}, *map(simple, rollouts())))
    assert found[0] == Run(sampling={"temperature": 0.7, "max_tokens": 64}, config=found[0].config)  # type: ignore[union-attr]
    assert len(of(Rollout, found)) == 12


@pytest.mark.parametrize(
    "shape", ["a step's columns", "a step's rollouts", "a step's groups", "a group a line"]
)
def test_a_line_longer_than_the_head_is_recognised(shape: str) -> None:
    name, data = SHAPES[shape]
    long = data.replace(b"It is", b"It is " + b"very " * 9000)
    chosen = choose(PurePath(name), long[: 64 << 10])
    assert chosen is not None
    assert chosen[1].role == "rollouts"
    assert len(of(Rollout, fed(chosen[0].reader(PurePath(name), chosen[1], RunContext()), long))) == 12


def test_inspect_says_what_each_name_was_read_as(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "x.jsonl").write_bytes(SHAPES["parts of the reward alone"][1])
    assert main(["inspect", str(tmp_path)]) == 0
    assert "reward ← rewards (their sum)" in " ".join(capsys.readouterr().out.split())
