"""A rollout's log-probabilities token by token: which are the worst, and where in the text they lie."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from grpo_top import numbers
from grpo_top.text import safe
from grpo_top.ui.rollouts.document import Fixed, Passage
from grpo_top.ui.rollouts.layout import cell, joined, told
from grpo_top.ui.rollouts.marks import Span, Spans

if TYPE_CHECKING:
    from collections.abc import Sequence

    from grpo_top.records import Rollout
    from grpo_top.ui.glyphs import Glyphs
    from grpo_top.ui.rollouts.marks import Marker
    from grpo_top.ui.rollouts.texts import Whole
    from grpo_top.ui.rollouts.turns import Turn
    from grpo_top.ui.widgets.runs import Row

WORST = 5
_LEVELS = ("text", "limit", "warn", "fail bold")
_BY_DIFFERENCE = (math.log(1.1), math.log(2), math.log(10))
"""Nats: the two give a token probabilities that are 1.1, 2 and 10 times apart."""
_BY_PROBABILITY = (-math.log(0.5), -math.log(0.1), -math.log(0.01))
"""Nats: the sampler gave a token less than 50%, 10%, 1%."""
_STRIP_ROWS = 2
_TOKEN_CELLS = 16
_WIDE = 60
"""Cells from which on the head is one row."""


class By(Enum):
    """What tokens are coloured by."""

    DIFFERENCE = "|sampler − trainer|"
    SAMPLER = "sampler log-probability"


class Token(NamedTuple):
    """One token of the completion; values are log-probabilities, NaN unknown."""

    number: int
    """From 1."""
    sampler: float
    trainer: float
    text: str | None

    def size(self, by: By) -> float:
        """How remarkable it is, in nats, 0 at least; NaN unknown."""
        return abs(self.sampler - self.trainer) if by is By.DIFFERENCE else -self.sampler


@dataclass(frozen=True, slots=True)
class Tokens:
    """The tokens of one rollout."""

    tokens: tuple[Token, ...]
    ways: tuple[By, ...]
    """What they can be coloured by."""
    problem: str
    """Why nothing can be coloured, else empty."""
    unplaced: str
    """Why the text itself cannot be coloured, else empty."""
    spans: tuple[tuple[int, int, int, int], ...]
    """(token's place, turn, start, end): where the tokens lie in what the policy's turns say."""

    def worst(self, by: By, count: int = WORST) -> list[Token]:
        """The most remarkable tokens, the worst first."""
        known = [token for token in self.tokens if not math.isnan(token.size(by))]
        return sorted(known, key=lambda token: (-token.size(by), token.number))[:count]

    def mean(self, by: By) -> float | None:
        """The mean over all tokens that are known."""
        known = [size for token in self.tokens if math.isfinite(size := token.size(by))]
        return math.fsum(known) / len(known) if known else None


def tokens_of(whole: Whole) -> Tokens:
    """The tokens that a rollout's record gives log-probabilities of."""
    rollout = whole.rollout
    sampler, trainer = (
        (None, None) if rollout is None else (rollout.logprobs_sampler, rollout.logprobs_trainer)
    )
    if rollout is None or (sampler is None and trainer is None):
        return Tokens((), (), "no log-probabilities are logged", "", ())
    if sampler is None:
        return Tokens((), (), "only the trainer's log-probabilities are logged", "", ())
    if trainer is not None and len(sampler) != len(trainer):
        counts = (
            f"{numbers.count(len(sampler))} of the sampler's, {numbers.count(len(trainer))} of the trainer's"
        )
        return Tokens((), (), f"log-probabilities do not match: {counts}; nothing is coloured", "", ())
    texts, unplaced = _texts(rollout, len(sampler))
    theirs = trainer if trainer is not None else [math.nan] * len(sampler)
    tokens = tuple(
        Token(number, own, other, None if texts is None else texts[number - 1])
        for number, (own, other) in enumerate(zip(sampler, theirs, strict=True), 1)
    )
    spans = () if texts is None else _placed(texts, whole.turns)
    if texts is not None and not spans:
        unplaced = "the token texts do not spell what the policy said: the text is not coloured"
    ways = (By.SAMPLER,) if trainer is None else (By.DIFFERENCE, By.SAMPLER)
    return Tokens(tokens, ways, "", unplaced, spans)


def token_marker(tokens: Tokens, by: By) -> Marker:
    """Colours what the policy's turns say."""
    of_turn: dict[int, list[Span]] = {}
    for place, turn, start, end in tokens.spans:
        level = _level(tokens.tokens[place].size(by), by)
        if level:
            of_turn.setdefault(turn, []).append(Span(start, end, _LEVELS[level]))

    def marker(_: int, piece: Fixed | Passage) -> Spans | None:
        if isinstance(piece, Passage) and piece.said and piece.turn in of_turn:
            return Spans(of_turn[piece.turn])
        return None

    return marker


def token_section(tokens: Tokens, by: By, width: int, glyphs: Glyphs) -> list[Fixed | Passage]:
    """The tokens as a strip, and the worst of them, for the top of a page."""
    if tokens.problem:
        return [Fixed((*told(f"tokens   {glyphs.plain(tokens.problem)}", width, "info"), []))]
    mean = tokens.mean(by)
    mean = None if mean is None else mean if by is By.DIFFERENCE else -mean
    said = f"mean {glyphs.plain(numbers.fixed(mean, 3))}"
    name: Row = [(" tokens", "dim"), (f"  {glyphs.plain(by.value)}", "text bold")]
    counted: Row = [(numbers.count(len(tokens.tokens)), "text"), (f" tokens   {said}", "dim")]
    heads: list[Row] = [joined([name, counted])] if width >= _WIDE else [name, [(" ", ""), *counted]]
    rows = [*heads, *_strip(tokens, by, width, glyphs), _legend(by, glyphs)]
    if tokens.unplaced:
        rows += told(glyphs.plain(tokens.unplaced), width, "info")
    rows += _worst_rows(tokens, by, glyphs)
    return [Fixed((*rows, []))]


def _texts(rollout: Rollout, count: int) -> tuple[Sequence[str] | None, str]:
    texts = rollout.tokens
    if texts is None:
        return None, "no token texts are logged: the text is not coloured"
    if len(texts) != count:
        return None, f"{numbers.count(len(texts))} token texts for {numbers.count(count)} log-probabilities"
    return texts, ""


def _placed(texts: Sequence[str], turns: Sequence[Turn]) -> tuple[tuple[int, int, int, int], ...]:
    """Where the tokens lie in the policy's turns; empty unless they spell every one of them.

    Tokens between the turns, such as an end of turn, lie nowhere.
    """
    spelled = "".join(texts)
    found: list[tuple[int, int, int, int]] = []
    at = place = begin = 0
    for number, turn in enumerate(turns):
        if not turn.policy or not turn.text:
            continue
        start = spelled.find(turn.text, at)
        if start < 0:
            return ()
        end = start + len(turn.text)
        while place < len(texts) and begin < end:
            last = begin + len(texts[place])
            if last > start:
                found.append((place, number, max(begin, start) - start, min(last, end) - start))
            if last > end:
                break
            begin, place = last, place + 1
        at = end
    return tuple(found)


def _level(size: float, by: By) -> int:
    limits = _BY_DIFFERENCE if by is By.DIFFERENCE else _BY_PROBABILITY
    return 0 if math.isnan(size) else sum(size >= limit for limit in limits)


def _strip(tokens: Tokens, by: By, width: int, glyphs: Glyphs) -> list[Row]:
    """One cell a token, as high as it is remarkable; of more than fit, a cell shows the worst of its neighbours."""
    sizes = [token.size(by) for token in tokens.tokens]
    if not sizes:
        return []
    room = max(8, width - 4)
    share = max(1, -(-len(sizes) // (room * _STRIP_ROWS)))
    top = math.log(10) if by is By.DIFFERENCE else -math.log(0.01)
    rows: list[Row] = []
    cells = [sizes[start : start + share] for start in range(0, len(sizes), share)]
    for start in range(0, len(cells), room):
        row: Row = [(" ", ""), (glyphs.turn, "border"), (" ", "")]
        for few in cells[start : start + room]:
            known = [size for size in few if not math.isnan(size)]
            if not known:
                row.append((glyphs.no_value, "faint"))
                continue
            worst = max(known)
            height = min(len(glyphs.spark) - 1, int(min(worst / top, 1.0) * (len(glyphs.spark) - 1)))
            level = _level(worst, by)
            row.append((glyphs.spark[height], _LEVELS[level] if level else "dim"))
        rows.append(row)
    if share > 1:
        rows[-1].append((f" {numbers.count(share)} tokens a cell", "faint"))
    return rows


def _legend(by: By, glyphs: Glyphs) -> Row:
    words = (
        [
            f"{glyphs.times}{text} apart" if text == "10" else f"{glyphs.times}{text}"
            for text in ("1.1", "2", "10")
        ]
        if by is By.DIFFERENCE
        else ["below 50%", "10%", "1%"]
    )
    parts: list[Row] = [
        [(glyphs.spark[at], role), (f" {word}", role)]
        for at, word, role in zip((1, 3, 6), words, _LEVELS[1:], strict=True)
    ]
    return [(" ", ""), *joined(parts)]


def _worst_rows(tokens: Tokens, by: By, glyphs: Glyphs) -> list[Row]:
    """The worst tokens, one a row; what is no worse than usual is not listed."""
    worst = [token for token in tokens.worst(by) if _level(token.size(by), by)]
    if not worst:
        return [[(" no token is remarkable", "dim")]]
    both = By.DIFFERENCE in tokens.ways
    texts = any(token.text is not None for token in worst)
    head = f" {'worst':<8}{'token' if texts else '':<{_TOKEN_CELLS if texts else 0}}{'sampler':>9}"
    rows: list[Row] = [[(head + (f"{'trainer':>9}{'apart':>9}" if both else f"{'chance':>9}"), "dim")]]
    for token in worst:
        role = _LEVELS[_level(token.size(by), by)]
        text = (
            ("?", "info") if token.text is None else (safe(token.text.replace("\n", "\u240a")), "text bold")
        )
        values = [token.sampler, token.trainer] if both else [token.sampler]
        row: Row = [
            cell(f" {numbers.count(token.number)}", 9, "dim"),
            *([cell(text[0], _TOKEN_CELLS - 1, text[1]), (" ", "")] if texts else []),
            *(cell(glyphs.plain(numbers.fixed(value, 3)), 9, "text", right=True) for value in values),
        ]
        apart = _apart(token, both, glyphs)
        rows.append([*row, cell(apart, 9, role, right=True)])
    return rows


def _apart(token: Token, both: bool, glyphs: Glyphs) -> str:
    """How many times apart the two probabilities are, or how likely the token was."""
    if not both:
        return numbers.share(math.exp(min(token.sampler, 0.0)))
    size = abs(token.sampler - token.trainer)
    return (
        "not finite" if not math.isfinite(size) else f"{glyphs.times}{numbers.value(math.exp(min(size, 50)))}"
    )
