"""tinker-cookbook's `*_logtree.json`: what was said in the few groups of an iteration that are logged in full.

It is the tree of a printed page. Attempts stand in it in the order in which they ended, and after them the trajectories
in theirs, each with its lengths and rewards: which attempt is which is told by the reward, and where several earned the
same, by the order of their lengths.
"""

from __future__ import annotations

import html
import re
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from grpo_top.formats.base import Reader
from grpo_top.formats.conversation import as_message, spoken
from grpo_top.formats.decode import bare, integer, number, parse_record
from grpo_top.records import Skipped

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import PurePath

    from grpo_top.formats.base import RunContext
    from grpo_top.records import Message, Record

KEPT = 8
"""Files, the newest, whose texts are held; those of others are read again where they are asked for."""
ENDING = "_logtree.json"
TEXTS = "tinker texts"
_EPISODE = re.compile(r"Trajectory (?P<number>\d{1,9}) Episode")
_HEADING = re.compile(r"h\d")
_DEEPEST = 60


class Print(NamedTuple):
    """By what a trajectory is known in both files."""

    number: int
    """Its number in the group."""
    lengths: tuple[tuple[int | None, int | None], ...]
    """Tokens of what each of its turns saw, and of what it wrote."""
    reward: float


class Said(NamedTuple):
    """The conversation of one rollout."""

    messages: Sequence[Message]
    prompt: str
    completion: str


Logged = dict[Print, "Said | None"]
"""What was said in each trajectory of a file; None where two of them have the same print."""


def print_of(
    number_: int | None, lengths: Sequence[tuple[int | None, int | None]], reward: float | None
) -> Print | None:
    """The print of a trajectory; None where it cannot be known again."""
    if number_ is None or reward is None or not lengths:
        return None
    return Print(number_, tuple(lengths), round(reward, 3) + 0.0)


def is_logtree(head: bytes) -> bool:
    """Whether a file begins as such a tree."""
    return bare(head[:64]).startswith(b"{") and b'"lt-root"' in head and b'"root"' in head


class LogtreeReader(Reader):
    """Reads one tree, for the reader of its summaries."""

    note = "adds texts to the rollouts of the groups that are logged in full"

    def __init__(self, path: PurePath, texts: Texts) -> None:
        self._path = path
        self._texts = texts

    def fresh(self) -> LogtreeReader:
        """A reader that has read nothing."""
        return LogtreeReader(self._path, Texts())

    def whole(self, data: bytes) -> list[Record]:
        """None of its own."""
        try:
            self._texts.learn(self._path, logged(data))
        except ValueError as error:
            return [Skipped(str(error), 0)]
        return []


class Texts:
    """What the trees of a run hold."""

    def __init__(self) -> None:
        self.version = 0
        """Grows with every tree."""
        self._held: dict[PurePath, Logged | None] = {}

    def learn(self, path: PurePath, found: Logged) -> None:
        """Take a tree's texts in; the oldest are let go."""
        self.version += 1
        self._held.pop(path, None)
        self._held[path] = found
        for old in [*self._held][:-KEPT]:
            self._held[old] = None

    def of(self, path: PurePath, print_: Print | None) -> Said | None:
        """What was said in a trajectory, by the tree at `path`; None where that is not known (yet)."""
        return (self._held.get(path) or {}).get(print_) if print_ else None

    def again(self, path: PurePath, print_: Print | None) -> Said | None:
        """As `of`, with the file read again where its texts were let go."""
        if path in self._held and self._held[path] is None:
            try:
                return logged(Path(path).read_bytes()).get(print_) if print_ else None
            except (OSError, ValueError):
                return None
        return self.of(path, print_)


def texts_of(context: RunContext) -> Texts:
    """The one that a run's readers share."""
    known = context.notes.setdefault(TEXTS, Texts())
    return known if isinstance(known, Texts) else Texts()


def logged(data: bytes) -> Logged:
    """What was said in each trajectory of a tree; ValueError where it is none."""
    root = parse_record(bare(data)).get("root")
    if not isinstance(root, dict):
        raise ValueError("logtree without a root")
    found: Logged = {}
    for title, section in _sections(root, 0):
        if title == "Group Rollout":
            for print_, said in _group(section):
                found[print_] = None if print_ in found else said
    return found


class _Attempt(NamedTuple):
    messages: list[Message]
    reward: float | None

    @property
    def length(self) -> int:
        return sum(len(spoken(turn)) for turn in self.messages if turn.role == "assistant")


def _group(section: Mapping[str, Any]) -> Iterator[tuple[Print, Said]]:
    attempts: list[_Attempt] = []
    trajectories: list[tuple[Print, float]] = []
    for title, inner in _sections(section, 0, within=True):
        if title == "Prompt":
            attempts.append(_Attempt(_conversation(inner, 0), None))
        elif title == "Policy Response" and attempts:
            attempts[-1].messages.extend(_conversation(inner, 0))
        elif title == "Reward" and attempts:
            attempts[-1] = attempts[-1]._replace(reward=number(_table(inner).get("reward", [None])[0]))
        elif found := _EPISODE.fullmatch(title):
            rows = _table(inner)
            saw, wrote = ([integer(length) for length in rows.get(name, [])] for name in ("ob_len", "ac_len"))
            lengths = list(zip(saw, wrote, strict=False))
            total, own = (number(rows.get(name, [None])[0]) for name in ("total_return", "sum_step_rewards"))
            print_ = print_of(int(found["number"]), lengths, total)
            if print_ and own is not None:
                trajectories.append((print_, own))
    if len(attempts) == len(trajectories):
        yield from _matched(attempts, trajectories)


def _matched(
    attempts: Sequence[_Attempt], trajectories: Sequence[tuple[Print, float]]
) -> Iterator[tuple[Print, Said]]:
    by_reward: dict[float | None, list[_Attempt]] = defaultdict(list)
    for attempt in attempts:
        by_reward[attempt.reward].append(attempt)
    earned: dict[float, list[Print]] = defaultdict(list)
    for print_, own in trajectories:
        earned[own].append(print_)
    for reward, prints in earned.items():
        same = by_reward[reward]
        if len(same) != len(prints):
            continue
        ordered = sorted(prints, key=lambda print_: sum(wrote or 0 for _, wrote in print_.lengths))
        for print_, attempt in zip(ordered, sorted(same, key=lambda one: one.length), strict=True):
            turns = attempt.messages
            answers = [spoken(turn) for turn in turns if turn.role == "assistant"]
            asked = [turn.content for turn in turns if turn.role != "assistant"]
            yield print_, Said(turns, "\n".join(asked), "\n".join(answers))


def _sections(
    node: Mapping[str, Any], depth: int, within: bool = False
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Title and node of each section below a node; those inside a section only where `within` asks for them."""
    for child in _children(node):
        if child.get("tag") == "section":
            title = next((_text(heading) for heading in _children(child) if _is_heading(heading)), "")
            yield title, child
        if depth < _DEEPEST and (within or child.get("tag") != "section"):
            yield from _sections(child, depth + 1, within)


def _conversation(node: Mapping[str, Any], depth: int) -> list[Message]:
    """The messages of the conversations below a node."""
    data = node.get("data")
    found = []
    if isinstance(data, dict) and isinstance(data.get("messages"), list):
        found += [message for turn in data["messages"] if (message := as_message(turn))]
    for child in _children(node) if depth < _DEEPEST else ():
        found += _conversation(child, depth + 1)
    return found


def _table(node: Mapping[str, Any]) -> dict[str, list[str]]:
    """Name → values of the rows of two cells in all tables below a node."""
    found: dict[str, list[str]] = defaultdict(list)
    for row in _tagged(node, "tr", 0):
        texts = [_text(cell) for cell in _children(row) if cell.get("tag") == "td"]
        if len(texts) == 2:
            found[texts[0]].append(texts[1])
    return found


def _tagged(node: Mapping[str, Any], tag: str, depth: int) -> Iterator[dict[str, Any]]:
    for child in _children(node):
        if child.get("tag") == tag:
            yield child
        elif depth < _DEEPEST:
            yield from _tagged(child, tag, depth + 1)


def _is_heading(node: Mapping[str, Any]) -> bool:
    return _HEADING.fullmatch(str(node.get("tag"))) is not None


def _text(node: Mapping[str, Any]) -> str:
    children = node.get("children")
    parts = [part for part in children if isinstance(part, str)] if isinstance(children, list) else []
    return html.unescape("".join(parts))


def _children(node: Mapping[str, Any]) -> list[dict[str, Any]]:
    children = node.get("children")
    return [child for child in children if isinstance(child, dict)] if isinstance(children, list) else []
