"""The browser's filter line: terms such as `reward<0.5 family=carry !truncated step=100..120 "the answer" /\\d{5}/`.

All terms must hold. A name with an operator compares a field, and a name alone is a flag, or asks whether the field is
known at all. A comparison or a flag never holds of what is unknown: neither `truncated` nor `!truncated` finds a
rollout whose source does not say how it ended. A word that is no field's name is looked for in prompts and
completions, as are a phrase in quotes and a pattern between slashes.
"""

from __future__ import annotations

import re
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from grpo_top.spelling import meant
from grpo_top.ui.rollouts.fields import (
    ALIASES,
    FIELDS,
    OTHERS,
    Field,
    Term,
    compares,
    is_flag,
    is_in_range,
    is_known,
    is_word,
)
from grpo_top.ui.rollouts.pattern_process import MOST
from grpo_top.ui.rollouts.text_terms import TextTerm

if TYPE_CHECKING:
    from collections.abc import Sequence


class FilterError(ValueError):
    """A term that cannot be: why, and the column at which it begins."""

    def __init__(self, message: str, column: int) -> None:
        super().__init__(message)
        self.column = column


_TERM = re.compile(
    r"""(?P<not>!?)(?P<name>[^\s<>=!"]+)(?:(?P<op><=|>=|!=|<|>|=)(?P<value>"[^"]*"|[^\s"]*))?(?=\s|$)"""
)
_PHRASE = re.compile(r'(?P<not>!?)"(?P<text>[^"]*)"(?=\s|$)')
_PATTERN = re.compile(r"(?P<not>!?)/(?P<text>(?:\\.|[^/\\])*)/(?=\s|$)")
_BLANK = re.compile(r"\s*")
_LONGEST_PATTERN = 500


@dataclass(frozen=True, slots=True)
class Filter:
    """Terms that must all hold. No terms: everything matches."""

    text: str = ""
    terms: tuple[Term, ...] = ()
    """What columns tell at once."""
    texts: tuple[TextTerm, ...] = ()
    """What has to be looked for in the log."""
    others: bool = False
    """Whether it asks for rollouts that were not trained on."""

    def __bool__(self) -> bool:
        return bool(self.terms or self.texts)


def parse(text: str, components: Sequence[str] = ()) -> Filter:
    """The filter that a text spells. FilterError, with its column, at the first term that cannot be."""
    terms: list[Term] = []
    texts: list[TextTerm] = []
    others = False
    at = _skip(text, 0)
    while at < len(text):
        if found := _PHRASE.match(text, at):
            texts.append(_phrase(found))
        elif text[at:].lstrip("!").startswith("/"):
            found = _PATTERN.match(text, at)
            texts.append(_pattern(at, found))
        elif (found := _TERM.match(text, at)) is None:
            word = text[at:].split(maxsplit=1)[0]
            raise FilterError(f'{word} is no term: write a field, a word, "a phrase" or /a pattern/', at)
        elif (field := _field(found, components)) is None:
            texts.append(TextTerm(found["name"], wanted=not found["not"]))
        else:
            terms.append(_term(found, field))
            others = others or field.column in OTHERS
        if sum(term.regex for term in texts) > MOST:
            raise FilterError(f"at most {MOST} patterns are looked for at once", at)
        at = _skip(text, len(text) if found is None else found.end())
    return Filter(text, tuple(terms), tuple(texts), others)


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


def _phrase(found: re.Match[str]) -> TextTerm:
    if not found["text"]:
        raise FilterError("there is nothing between the quotes", found.start())
    return TextTerm(found["text"], wanted=not found["not"])


def _pattern(at: int, found: re.Match[str] | None) -> TextTerm:
    if found is None:
        raise FilterError('no / ends this pattern; what begins with / and is none goes in "quotes"', at)
    pattern = found["text"].replace("\\/", "/")
    begin = found.start("text")
    if not pattern:
        raise FilterError("there is nothing between the slashes", at)
    if len(pattern) > _LONGEST_PATTERN:
        raise FilterError(f"a pattern has at most {_LONGEST_PATTERN} characters", at)
    try:
        with warnings.catch_warnings(action="ignore"):  # of what may mean another thing some day
            re.compile(pattern)
    except re.error as error:
        raise FilterError(
            f"not a pattern: {error.msg}", begin + min(error.pos or 0, len(found["text"]))
        ) from None
    except (OverflowError, RecursionError):
        raise FilterError("not a pattern that can be used", begin) from None
    return TextTerm(pattern, regex=True, wanted=not found["not"])


def _term(found: re.Match[str], field: Field) -> Term:
    name, op, value = found["name"], found["op"], (found["value"] or "").strip('"')
    at = found.start()
    if op is None:
        return (is_flag if field.kind == "flag" else is_known)(field, not found["not"])
    if found["not"]:
        raise FilterError(f"! stands before a name alone; write {name}!={value or 'x'}", at)
    value_at = found.start("value")
    if not value:
        raise FilterError(f"{name}{op} needs a value", value_at)
    if field.kind == "flag":
        raise FilterError(f"{name} is a flag: write {name} or !{name}", at)
    if field.kind == "word":
        if op not in {"=", "!="}:
            raise FilterError(f"{name} is a word: it is compared with = and !=", found.start("op"))
        return is_word(field, frozenset(value.casefold().split(",")), op == "=")
    if ".." in value:
        if op != "=":
            raise FilterError("a range is asked for with =", found.start("op"))
        low, _, high = value.partition("..")
        bounds = (_number(low, -np.inf, value_at), _number(high, np.inf, value_at + len(low) + 2))
        return is_in_range(field, *bounds)
    return compares(field, op, _number(value, None, value_at))


def _field(found: re.Match[str], components: Sequence[str]) -> Field | None:
    """The field of a term's name; None where it is a word to look for."""
    name = found["name"]
    known = FIELDS.get(ALIASES.get(name, name))
    if known is not None:
        return known
    component = name.removeprefix("component.").removeprefix("reward.")
    if component in components:
        return Field("number", "rollout", f"reward.{component}")
    at = found.start("name")
    if component != name:
        raise FilterError(f"there is no component {component}", at)
    if found["op"] is None:
        return None
    near = meant(name, [*FIELDS, *components])
    hint = f"did you mean {near}?" if near else "what is looked for in texts goes in quotes"
    raise FilterError(f"there is no field {name}; {hint}", at)


def _number(text: str, missing: float | None, at: int) -> float:
    if not text and missing is not None:
        return missing
    try:
        return float(text.replace("−", "-"))
    except ValueError:
        raise FilterError(f"{text} is no number", at) from None
