"""The browser's filter line: terms over fields, such as `reward<0.5 family=carry truncated step=100..120`.

All terms must hold. What is unknown never matches, whatever is asked: neither `truncated` nor `!truncated` finds a
rollout whose source does not say how it ended.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from difflib import get_close_matches
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from grpo_top.ui.rollouts.columns import Columns

    Mask = NDArray[np.bool_]
    Test = Callable[[Columns], Mask]


class FilterError(ValueError):
    """A term that cannot be: why, and the column at which it begins."""

    def __init__(self, message: str, column: int) -> None:
        super().__init__(message)
        self.column = column


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
    "std": Field("number", "group", "std"),
    "mean": Field("number", "group", "mean"),
    "texts": Field("number", "group", "texts"),
    "size": Field("number", "group", "size"),
    "passed": Field("number", "group", "passed"),
    "flat": Field("flag", "group", "flat"),
}
"""Fields by name. Components of the reward are fields too, under their own names, or as `reward.NAME`."""

ALIASES = {"adv": "advantage", "tok": "tokens", "temp": "temperature", "σ": "std", "finish": "end"}

_TERM = re.compile(
    r"""(?P<not>!?)(?P<name>[^\s<>=!"]+)(?:(?P<op><=|>=|!=|<|>|=)(?P<value>"[^"]*"|[^\s"]*))?(?=\s|$)"""
)
_BLANK = re.compile(r"\s*")


@dataclass(frozen=True, slots=True)
class Term:
    """One condition; `of` says whether its mask is over rollouts or over groups."""

    of: str
    test: Test


@dataclass(frozen=True, slots=True)
class Filter:
    """Terms that must all hold. No terms: everything matches."""

    text: str = ""
    terms: tuple[Term, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.terms)


def parse(text: str, components: Sequence[str] = ()) -> Filter:
    """The filter that a text spells. FilterError, with its column, at the first term that cannot be."""
    terms = []
    at = _skip(text, 0)
    while at < len(text):
        found = _TERM.match(text, at)
        if found is None:
            raise FilterError(
                f"{text[at:].split(maxsplit=1)[0]} is no term: write a field, one of < <= > >= = !=, a value",
                at,
            )
        terms.append(_term(found, components))
        at = _skip(text, found.end())
    return Filter(text, tuple(terms))


def completed(text: str, components: Sequence[str] = ()) -> str:
    """The text with the field that its last word begins written out; unchanged where none begins so."""
    start = len(text) - len(text.rsplit(maxsplit=1)[-1]) if text and not text[-1].isspace() else len(text)
    word = text[start:].lstrip("!")
    if not word:
        return text
    names = [
        name
        for name in (*FIELDS, *filter(str.isidentifier, components))
        if name.startswith(word) and name != word
    ]
    return text[: len(text) - len(word)] + names[0] if names else text


def _skip(text: str, at: int) -> int:
    found = _BLANK.match(text, at)
    return at if found is None else found.end()


def _term(found: re.Match[str], components: Sequence[str]) -> Term:
    name, op, value = found["name"], found["op"], (found["value"] or "").strip('"')
    at = found.start()
    field = _field(name, components, at, bare=op is None)
    if op is None:
        if field.kind != "flag":
            raise FilterError(
                f"{name} needs a comparison, such as {name}{'<0.5' if field.kind == 'number' else '=x'}", at
            )
        return Term(field.of, partial(_is_flag, field.column, not found["not"]))
    if found["not"]:
        raise FilterError(f"! stands before a flag; write {name}!={value or 'x'}", at)
    value_at = found.start("value")
    if not value:
        raise FilterError(f"{name}{op} needs a value", value_at)
    if field.kind == "flag":
        raise FilterError(f"{name} is a flag: write {name} or !{name}", at)
    if field.kind == "word":
        if op not in {"=", "!="}:
            raise FilterError(f"{name} is a word: it is compared with = and !=", found.start("op"))
        return Term(
            field.of, partial(_is_word, field.column, frozenset(value.casefold().split(",")), op == "=")
        )
    if ".." in value:
        if op != "=":
            raise FilterError("a range is asked for with =", found.start("op"))
        low, _, high = value.partition("..")
        bounds = (_number(low, -np.inf, value_at), _number(high, np.inf, value_at + len(low) + 2))
        return Term(field.of, partial(_in_range, field.column, *bounds))
    return Term(field.of, partial(_compares, field.column, op, _number(value, None, value_at)))


def _field(name: str, components: Sequence[str], at: int, *, bare: bool) -> Field:
    known = FIELDS.get(ALIASES.get(name, name))
    if known is not None:
        return known
    component = name.removeprefix("reward.")
    if component in components:
        return Field("number", "rollout", f"reward.{component}")
    near = get_close_matches(name, [*FIELDS, *components], n=1)
    if near:
        raise FilterError(f"there is no field {name}; did you mean {near[0]}?", at)
    if bare:
        raise FilterError(f"{name} is no field, and words are not searched for in texts yet", at)
    raise FilterError(f"there is no field {name}", at)


def _number(text: str, missing: float | None, at: int) -> float:
    if not text and missing is not None:
        return missing
    try:
        return float(text.replace("−", "-"))
    except ValueError:
        raise FilterError(f"{text} is no number", at) from None


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


def _is_word(column: str, wanted: frozenset[str], equal: bool, columns: Columns) -> Mask:
    ids, names = columns.words(column)
    hits = np.array([name.casefold() in wanted for name in names] + [False])
    held: Mask = (ids >= 0) & (hits[ids] == equal)
    return held
