"""Which files are of one run: real frameworks' folders, whole and beside each other, and the layouts people make."""

from __future__ import annotations

import tarfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from runs import DATA, SAMPLES

from grpo_top.formats.registry import choose
from grpo_top.places import Ground, Kind, Piece, grounds, home_of, is_part

if TYPE_CHECKING:
    from collections.abc import Iterable

TOP = Path("/logs")
ROLLOUTS, METRICS, STATE = Kind("verl", "rollouts"), Kind("verl", "metrics"), Kind("trl", "metrics")
CONSOLE, REQUESTS, CONFIG = Kind("console", "console"), Kind("requests", "requests"), Kind("tinker", "config")


def roots(found: Iterable[Ground]) -> list[str]:
    return sorted(str(ground.root.relative_to(TOP)) for ground in found)


def split(*files: tuple[str, Kind], writer: str = "") -> list[str]:
    """The runs' folders below TOP of files of these kinds."""
    return roots(grounds({Piece(home_of(TOP / name, writer, TOP), kind) for name, kind in files}, TOP))


@pytest.mark.parametrize(
    "name",
    [
        *(
            "rollouts",
            "val_rollouts",
            "rollout_data",
            "train",
            "eval",
            "logs",
            "tensorboard",
            "checkpoint-20",
        ),
        *("step_12", "global_step_40_evals", "iteration_000003", "train_step_3_epoch_0", "rank0", "worker-7"),
        *("Rollouts", "dumped_evals", "wandb", "attempt_1"),
    ],
)
def test_a_folder_that_is_called_after_what_is_in_it_is_part_of_a_run(name: str) -> None:
    assert is_part(name)


@pytest.mark.parametrize(
    "name",
    [
        "healthy",
        "exp_001",
        "run_1",
        "v0-20261130-102902",
        "trial0",
        "sampler_cold",
        "12",
        "seed1",
        "",
        "2026-11-30",
    ],
)
def test_any_other_name_is_a_name_of_its_own(name: str) -> None:
    assert not is_part(name)


def packed_heads(name: str) -> list[tuple[str, bytes]]:
    """The files of a sample with their first bytes."""
    with tarfile.open(DATA / "samples" / f"{name}.tar.xz") as archive:
        return [
            (member.name, opened.read(64 << 10))
            for member in archive
            if member.isfile() and (opened := archive.extractfile(member)) is not None
        ]


def claimed(name: str) -> list[tuple[str, str, Kind]]:
    """The files of a sample that are read, trackers' apart: name, writer as it is below TOP, kind."""
    found = []
    for file, head in packed_heads(name):
        chosen = choose(TOP / file, head)
        if chosen is not None and chosen[1].feed != "none" and not chosen[1].run:
            found.append((file, chosen[1].writer, Kind(chosen[0].name, chosen[1].role)))
    return found


def pieces_of(files: list[tuple[str, str, Kind]], folder: Path) -> set[Piece]:
    """The same files in another folder."""
    return {
        Piece(home_of(folder / file, writer.replace(str(TOP), str(folder)), TOP), kind)
        for file, writer, kind in files
    }


@pytest.mark.parametrize("name", SAMPLES)
def test_a_real_frameworks_folder_is_one_run_and_two_beside_each_other_are_two(name: str) -> None:
    files = claimed(name)
    assert roots(grounds(pieces_of(files, TOP), TOP)) == ["."]
    for one, other in (("first", "second"), ("sweep/lr_1e-5", "sweep/lr_1e-6"), ("a", "old/b")):
        pieces = pieces_of(files, TOP / one) | pieces_of(files, TOP / other)
        found = [Path(root) for root in roots(grounds(pieces, TOP))]
        assert len(found) == 2
        assert found[0].is_relative_to(one)
        assert Path(other).is_relative_to(found[1])


def test_a_runs_own_tree_is_one_run() -> None:
    assert split(
        ("metrics.jsonl", METRICS),
        ("console.log", CONSOLE),
        ("rollout_data/1.jsonl", ROLLOUTS),
        ("validation_data/20.jsonl", ROLLOUTS),
        ("checkpoint-10/trainer_state.json", STATE),
        ("checkpoint-20/trainer_state.json", STATE),
        ("logs/trainer/stdout.log", CONSOLE),
        ("logs/orchestrator/stdout.log", CONSOLE),
        ("project/experiment.jsonl", Kind("verl-file", "metrics")),
    ) == ["."]


def test_folders_that_hold_the_same_kind_are_runs() -> None:
    assert split(("a/1.jsonl", ROLLOUTS), ("b/1.jsonl", ROLLOUTS)) == ["a", "b"]
    assert split(("a/m.jsonl", METRICS), ("b/m.jsonl", METRICS)) == ["a", "b"]
    assert split(("a/rollouts/step_1/x", ROLLOUTS), ("b/rollouts/step_1/x", ROLLOUTS)) == ["a", "b"]
    assert split(("a/train.log", CONSOLE), ("b/train.log", CONSOLE)) == ["a", "b"]
    assert split(("x/y/a/1", ROLLOUTS), ("x/y/b/1", ROLLOUTS), ("z/1", ROLLOUTS)) == ["x/y/a", "x/y/b", "z"]


def test_folders_that_hold_different_kinds_are_one_run_unless_each_is_whole() -> None:
    other = Kind("trl", "rollouts"), Kind("trl", "metrics")
    assert split(("a/1", ROLLOUTS), ("b/m", METRICS), ("c/x.log", REQUESTS)) == ["."]
    assert split(("a/1", ROLLOUTS), ("a/m", METRICS), ("b/1", other[0]), ("b/m", other[1])) == ["a", "b"]


def test_what_lies_below_the_numbers_of_one_run_is_part_of_it() -> None:
    """Environments with a folder each, below a trainer's own metrics."""
    files = ("metrics.jsonl", METRICS), ("rollouts/gsm8k/1", ROLLOUTS), ("rollouts/math/1", ROLLOUTS)
    assert split(*files) == ["."]
    assert split(*files[1:]) == ["rollouts/gsm8k", "rollouts/math"]


def test_logs_that_only_accompany_a_run_make_none_of_their_own() -> None:
    rollouts = ("rollouts.jsonl", ROLLOUTS)
    assert split(rollouts, ("server-a/x.log", REQUESTS), ("server-b/x.log", REQUESTS)) == ["."]
    assert split(rollouts, ("a/stdout", CONSOLE), ("b/stdout", CONSOLE)) == ["."]
    assert split(("a/x.log", REQUESTS), ("b/x.log", REQUESTS)) == ["a", "b"]


def test_a_run_beside_runs_in_folders_is_one_as_well_and_a_mere_log_there_is_of_none() -> None:
    runs = ("a/1", ROLLOUTS), ("b/1", ROLLOUTS)
    assert split(("0.jsonl", ROLLOUTS), *runs) == [".", "a", "b"]
    assert split(("train.log", CONSOLE), *runs) == ["a", "b"]
    assert split(("1.jsonl", ROLLOUTS), ("second/1.jsonl", ROLLOUTS)) == [".", "second"]


def test_numbered_folders_are_steps_unless_each_has_metrics() -> None:
    assert split(("0/x.jsonl", ROLLOUTS), ("1/x.jsonl", ROLLOUTS)) == ["."]
    assert split(("0/m.jsonl", METRICS), ("1/m.jsonl", METRICS)) == ["0", "1"]
    assert split(("rollouts/0/x", ROLLOUTS), ("rollouts/1/x", ROLLOUTS), ("m", METRICS)) == ["."]


def test_files_of_one_writer_are_of_one_run_wherever_they_lie() -> None:
    files = ("trial/one/x.jsonl", ROLLOUTS), ("trial/two/x.jsonl", ROLLOUTS)
    assert split(*files) == ["trial/one", "trial/two"]
    assert split(*files, writer=f"areal {TOP}/trial") == ["."]


def test_a_config_alone_is_no_run() -> None:
    assert split(("a/config.json", CONFIG), ("b/config.json", CONFIG)) == []
    assert split(("a/config.json", CONFIG), ("b/m.jsonl", METRICS)) == ["."]


names = st.sampled_from(
    ["a", "b", "run_1", "run_2", "rollouts", "step_3", "7", "logs", "eval", "checkpoint-2"]
)
files = st.lists(
    st.tuples(
        st.lists(names, max_size=4).map(lambda parts: "/".join([*parts, "file"])),
        st.sampled_from([ROLLOUTS, METRICS, STATE, CONSOLE, REQUESTS, CONFIG]),
    ),
    max_size=12,
)


@settings(max_examples=60)
@given(files)
def test_every_run_read_alone_is_one_run(found: list[tuple[str, Kind]]) -> None:
    pieces = {Piece(home_of(TOP / name, "", TOP), kind) for name, kind in found}
    runs = grounds(pieces, TOP)
    assert len({ground.root for ground in runs}) == len(runs)
    for ground in runs:
        if not any(other.root != ground.root and other.root.is_relative_to(ground.root) for other in runs):
            inside = {piece for piece in pieces if piece.home.is_relative_to(ground.root)}
            assert len(grounds(inside, ground.root)) == 1
