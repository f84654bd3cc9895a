"""A tracker's row as steps and evaluations, under the names that the trainer itself has for its numbers."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from grpo_top.formats.decode import integer
from grpo_top.formats.trl_rows import row_records
from grpo_top.records import Eval, Step

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from grpo_top.records import Location

RANK = 1
"""A tracker has the precision of a log."""

Row = dict[str, float | None]

_STEPS = (
    "train/global_step",
    "trainer/global_step",
    "training/global_step",
    "global_step",
    "training_step",
    "rollout/step",
    "train/step",
    "eval/step",
    "progress/batch",
    "step",
    "trainer/step",
    "trainer_step",
    "train_step",
    "optimizer_step",
    "update_step",
    "policy_step",
    "rollout_step",
    "iteration",
    "iter",
)
"""Names under which trainers log their own step."""
_COUNTERS = frozenset((*_STEPS, "train/epoch", "epoch"))
"""What says when and not what: a row of nothing else is no step's."""
_EVALUATION = ("eval/", "eval_", "val/", "validation/", "test/", "eval-rollout/")


def own_step(row: Row) -> int | None:
    """The trainer's own step in a row; None where it is not in there."""
    return next((step for key in _STEPS if (step := integer(row.get(key))) is not None), None)


def only_counts(row: Row) -> bool:
    """Whether a row says when and nothing else."""
    return row.keys() <= _COUNTERS


def records_of(framework: str | None, step: int, row: Row, location: Location) -> Iterator[Step | Eval]:
    """The step and the evaluations of what was logged at once."""
    return _SPLITS.get(framework or "", _plain)(step, row, location)


def _parted(row: Row) -> tuple[Row, Row]:
    """Training numbers, and those of evaluations without their prefix."""
    train: Row = {}
    evaluated: Row = {}
    for key, value in row.items():
        prefix = next((prefix for prefix in _EVALUATION if key.startswith(prefix)), None)
        if key in _COUNTERS:
            continue
        if prefix is None:
            train[key] = value
        else:
            evaluated[key.removeprefix(prefix)] = value
    return train, evaluated


def _plain(step: int, row: Row, location: Location) -> Iterator[Step | Eval]:
    train, evaluated = _parted(row)
    if train:
        yield Step(step, train, rank=RANK, location=location)
    if evaluated:
        yield Eval(step, evaluated, rank=RANK, location=location)


def _by_suite(step: int, row: Row, location: Location) -> Iterator[Step | Eval]:
    """Evaluations are called `eval/SUITE/NAME`; `eval/SUITE` alone is what the suite's rewards come to."""
    train, evaluated = _parted(row)
    if train:
        yield Step(step, train, rank=RANK, location=location)
    suites: dict[str, Row] = {}
    for key, value in evaluated.items():
        suite, slash, name = key.partition("/")
        suites.setdefault("heldout" if suite == "all" else suite, {})[name if slash else "reward"] = value
    for suite, values in suites.items():
        yield Eval(step, values, suite, rank=RANK, location=location)


def _like_trl(step: int, row: Row, location: Location) -> Iterator[Step | Eval]:
    """TRL's own names are bare, or begin with `eval_` at an evaluation; the trackers' callbacks write slashes."""
    train, evaluated = _parted(row)
    bare = {key.removeprefix("train/"): value for key, value in train.items()}
    for part in (bare, {f"eval_{key}": value for key, value in evaluated.items()}):
        if part:
            yield from row_records(step, part, RANK, location)


def _areal(step: int, row: Row, location: Location) -> Iterator[Step | Eval]:
    """AReaL's trackers count its steps from 0, its printed tables and its trainer's words from 1."""
    return _plain(step + 1, row, location)


def _openrlhf(step: int, row: Row, location: Location) -> Iterator[Step | Eval]:
    from grpo_top.formats import openrlhf  # noqa: PLC0415  a run is of one framework

    train, evaluated = _parted(row)
    if train:
        yield Step(step, train, rank=RANK, location=location)
    yield from openrlhf.evaluations(step, evaluated, RANK, location)


def _as_in_its_own_files(module: str) -> Callable[[int, Row, Location], Iterator[Step | Eval]]:
    """The way in which a framework's own metrics file is read. MLflow takes no `@`, so that it is spelled there."""

    def records(step: int, row: Row, location: Location) -> Iterator[Step | Eval]:
        spelled = {key.replace("_at_", "@") if key.startswith("val-") else key: row[key] for key in row}
        split = import_module(f"grpo_top.formats.{module}").metric_rows  # a run is of one framework
        found = split(step, spelled, RANK, location)
        return (record for record in found if isinstance(record, Step | Eval))

    return records


_SPLITS: dict[str, Callable[[int, Row, Location], Iterator[Step | Eval]]] = {
    "areal": _areal,
    "openrlhf": _openrlhf,
    "skyrl": _as_in_its_own_files("skyrl"),
    "tinker": _as_in_its_own_files("tinker"),
    "verl": _as_in_its_own_files("verl"),
    **dict.fromkeys(("trl", "ms-swift", "unsloth", "axolotl"), _like_trl),
    **dict.fromkeys(("prime-rl", "rllm", "slime", "miles"), _by_suite),
}
