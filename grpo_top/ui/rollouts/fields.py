"""What a filter's term can ask of a rollout or of its group, and which of them hold it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from grpo_top.ui.rollouts.columns import Columns

    Mask = NDArray[np.bool_]
    Test = Callable[[Columns], Mask]


class Field(NamedTuple):
    """Something that a term can ask for."""

    kind: str
    """`number`, `word` or `flag`."""
    of: str
    """`rollout` or `group`."""
    column: str
    """Name of the column of `Columns`."""


FIELDS: dict[str, Field] = {
    "reward": Field("number", "rollout", "reward"),
    "advantage": Field("number", "rollout", "advantage"),
    "tokens": Field("number", "rollout", "completion_tokens"),
    "prompt_tokens": Field("number", "rollout", "prompt_tokens"),
    "lag": Field("number", "rollout", "lag"),
    "policy": Field("number", "rollout", "policy_start"),
    "trainer": Field("number", "rollout", "trainer_version"),
    "step": Field("number", "rollout", "step"),
    "index": Field("number", "rollout", "index"),
    "seed": Field("number", "rollout", "seed"),
    "logp_diff": Field("number", "rollout", "logp_diff"),
    "temperature": Field("number", "rollout", "sampling.temperature"),
    "top_p": Field("number", "rollout", "sampling.top_p"),
    "top_k": Field("number", "rollout", "sampling.top_k"),
    "min_p": Field("number", "rollout", "sampling.min_p"),
    "repetition_penalty": Field("number", "rollout", "sampling.repetition_penalty"),
    "max_tokens": Field("number", "rollout", "sampling.max_tokens"),
    "family": Field("word", "rollout", "family"),
    "tier": Field("word", "rollout", "tier"),
    "task": Field("word", "rollout", "task"),
    "end": Field("word", "rollout", "finish"),
    "termination": Field("word", "rollout", "termination"),
    "sampler": Field("word", "rollout", "sampler"),
    "env": Field("word", "rollout", "env_version"),
    "reward_version": Field("word", "rollout", "reward_version"),
    "truncated": Field("flag", "rollout", "truncated"),
    "parsed": Field("flag", "rollout", "parsed"),
    "error": Field("flag", "rollout", "error"),
    "dup": Field("flag", "rollout", "duplicate"),
    "loop": Field("flag", "rollout", "loop"),
    "gibberish": Field("flag", "rollout", "gibberish"),
    "mixed": Field("flag", "rollout", "mixed"),
    "heldout": Field("flag", "rollout", "heldout"),
    "request": Field("flag", "rollout", "request"),
    "std": Field("number", "group", "std"),
    "mean": Field("number", "group", "mean"),
    "texts": Field("number", "group", "texts"),
    "size": Field("number", "group", "size"),
    "passed": Field("number", "group", "passed"),
    "flat": Field("flag", "group", "flat"),
}
"""Fields by name. Components of the reward are fields too: under their own names, or as `component.NAME`."""

ALIASES = {
    "adv": "advantage",
    "tok": "tokens",
    "temp": "temperature",
    "σ": "std",
    "finish": "end",
    "duplicate": "dup",
    "held-out": "heldout",
}
OTHERS = frozenset({"heldout", "request"})
"""Columns of a term by which what was not trained on is listed as well."""


@dataclass(frozen=True, slots=True)
class Term:
    """One condition; `of` says whether its mask is over rollouts or over groups."""

    of: str
    test: Test


def is_flag(field: Field, wanted: bool) -> Term:
    """Whether a flag is set, or is not."""
    return Term(field.of, partial(_is_flag, field.column, wanted))


def is_known(field: Field, wanted: bool) -> Term:
    """Whether a number or a word is there at all, or is not."""
    return Term(field.of, partial(_is_known, field, wanted))


def is_word(field: Field, words: frozenset[str], equal: bool) -> Term:
    """Whether a name is one of some words, in small letters, or is none of them."""
    return Term(field.of, partial(_is_word, field.column, words, equal))


def compares(field: Field, op: str, limit: float) -> Term:
    """Whether a number stands so to a limit."""
    return Term(field.of, partial(_compares, field.column, op, limit))


def is_in_range(field: Field, low: float, high: float) -> Term:
    """Whether a number lies in a range, its ends included."""
    return Term(field.of, partial(_in_range, field.column, low, high))


def _compares(column: str, op: str, limit: float, columns: Columns) -> Mask:
    values = columns.numbers(column)
    known = np.isfinite(values)
    equal = np.isclose(values, limit, rtol=1e-6, atol=1e-9)
    if op in {"=", "!="}:
        return known & (equal if op == "=" else ~equal)
    with np.errstate(invalid="ignore"):
        held = values < limit if op[0] == "<" else values > limit
    return known & ((held | equal) if op.endswith("=") else (held & ~equal))


def _in_range(column: str, low: float, high: float, columns: Columns) -> Mask:
    return _compares(column, ">=", low, columns) & _compares(column, "<=", high, columns)


def _is_flag(column: str, wanted: bool, columns: Columns) -> Mask:
    held: Mask = columns.flags(column) == int(wanted)
    return held


def _is_known(field: Field, wanted: bool, columns: Columns) -> Mask:
    known = (
        columns.words(field.column)[0] >= 0
        if field.kind == "word"
        else np.isfinite(columns.numbers(field.column))
    )
    held: Mask = known == wanted
    return held


def _is_word(column: str, wanted: frozenset[str], equal: bool, columns: Columns) -> Mask:
    ids, names = columns.words(column)
    hits = np.array([name.casefold() in wanted for name in names] + [False])
    held: Mask = (ids >= 0) & (hits[ids] == equal)
    return held
