"""A rollout, a group or a finding taken out of the screen: as JSON with nothing left out, or as Markdown to be read."""

from __future__ import annotations

import json
import math
import re
import unicodedata
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from grpo_top import numbers
from grpo_top.evidence_text import evidence_words
from grpo_top.report import finding_object
from grpo_top.report_file.blocks import Heading, Listing, Paragraph, Table, Verbatim
from grpo_top.report_file.markdown import markdown
from grpo_top.snapshot import Gone
from grpo_top.text import safe
from grpo_top.ui.rollouts.subject import Subject
from grpo_top.ui.rollouts.turns import turns_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from grpo_top.records import Rollout
    from grpo_top.report_file.blocks import Block
    from grpo_top.snapshot import Finding, Snapshot

_NO_NAME = re.compile(r"[^0-9A-Za-z._-]+")
_LONGEST_NAME = 60
_ONE_OF_THE_LIST = ("index", "reward", "advantage", "tokens", "ended", "lag")
_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})


@dataclass(frozen=True, slots=True)
class Document:
    """Something that can be written to a file, or shown in a pager. Making it reads texts, and may wait for a disk."""

    what: str
    """In a sentence: `the group 110t-3`. As it was logged: who shows it makes it safe."""
    stem: str
    """A file's name without its ending: letters, digits, `.`, `_` and `-` alone."""
    make_object: Callable[[], dict[str, Any]]
    make_blocks: Callable[[], Iterable[Block]]

    def as_json(self) -> str:
        """Everything, exactly; characters that hide or that a terminal acts on as `\\\\u` escapes."""
        return _visible(json.dumps(_plain(self.make_object()), indent=2, ensure_ascii=False)) + "\n"

    def as_markdown(self) -> str:
        """To be read; characters that hide, or that a terminal acts on, as symbols."""
        return markdown(self.make_blocks())


def rollout_document(snapshot: Snapshot, row: int) -> Document:
    """One rollout with its texts."""
    subject = Subject(snapshot, row)
    return Document(
        f"the rollout #{subject.index} of step {subject.step}",
        file_stem(snapshot, f"step{subject.step}", subject.group_label, str(subject.index)),
        lambda: rollout_object(subject, snapshot.read(row)),
        lambda: _rollout_blocks(subject, snapshot.read(row), 1),
    )


def group_document(snapshot: Snapshot, rows: Sequence[int]) -> Document:
    """The rollouts of one group with their texts."""
    subjects = [Subject(snapshot, row) for row in rows]
    first = subjects[0]
    return Document(
        f"the group {first.group_label or '?'} of step {first.step}",
        file_stem(snapshot, f"step{first.step}", first.group_label),
        lambda: _group_object(subjects),
        lambda: _group_blocks(subjects),
    )


def finding_document(snapshot: Snapshot, finding: Finding) -> Document:
    """A finding with the rollouts that prove it."""
    subjects = [Subject(snapshot, ref.row) for ref in finding.rollouts]
    return Document(
        f"the finding {finding.id}",
        file_stem(snapshot, finding.id),
        lambda: {
            "kind": "finding",
            "run": snapshot.run.name,
            **finding_object(finding),
            "rollouts": _objects(subjects),
        },
        lambda: _finding_blocks(finding, subjects),
    )


def rollout_object(subject: Subject, found: Rollout | Gone) -> dict[str, Any]:
    """A rollout under the names of grpo-top/1, with where it lies; what is unknown is left out."""
    if isinstance(found, Gone):
        known = _columns_object(subject) | {"gone": found.reason}
    else:
        fields = found._asdict()
        verifier = {"raw": fields.pop("verifier_raw"), "error": fields.pop("verifier_error")}
        versions = (fields.pop("policy_version"), fields.pop("policy_version_end"))
        del fields["location"]
        known = fields | {
            "index": subject.index,
            "verifier": verifier if any(verifier.values()) else None,
            "policy_version": versions[0] if versions[1] in (None, versions[0]) else list(versions),
            "messages": [
                {
                    name: part
                    for name, part in message._asdict().items()
                    if part or name in ("role", "content")
                }
                for message in found.messages or ()
            ]
            or None,
        }
    whole = subject.whole("offset"), subject.whole("part")
    return {
        "kind": "rollout",
        "run": subject.snapshot.run.name or None,
        "where": {"file": subject.source, "offset": whole[0], "part": whole[1]},
        **{name: value for name, value in known.items() if value is not None},
    }


def _columns_object(subject: Subject) -> dict[str, Any]:
    """What is still known of a rollout whose text is gone."""
    advantage = float(subject.advantages[subject.place])
    return {
        "step": subject.step,
        "group": subject.group_label or None,
        "index": subject.index,
        "reward": subject.reward,
        "rewards": subject.components or None,
        "advantage": None if math.isnan(advantage) else advantage,
        "task": subject.name("task"),
        "family": subject.name("family"),
        "tier": subject.name("tier"),
        "parsed": subject.flag("parsed"),
        "prompt_tokens": subject.whole("prompt_tokens"),
        "completion_tokens": subject.whole("completion_tokens"),
        "finish_reason": subject.name("finish"),
        "truncated": subject.flag("truncated"),
        "termination": subject.name("termination"),
        "policy_version": subject.whole("policy_start"),
        "trainer_version": subject.whole("trainer_version"),
        "sampling": subject.sampling or None,
        "sampler": subject.name("sampler"),
        "seed": subject.whole("seed"),
        "env_version": subject.name("env_version"),
        "reward_version": subject.name("reward_version"),
    }


def _objects(subjects: Iterable[Subject]) -> list[dict[str, Any]]:
    return [rollout_object(subject, subject.snapshot.read(subject.row)) for subject in subjects]


def _group_object(subjects: Sequence[Subject]) -> dict[str, Any]:
    first = subjects[0]
    return {
        "kind": "group",
        "run": first.snapshot.run.name or None,
        "step": first.step,
        "group": first.group_label or None,
        "mean": first.group_mean,
        "std": first.group_std,
        "distinct_texts": first.texts,
        "rollouts": _objects(subjects),
    }


def _rollout_blocks(subject: Subject, found: Rollout | Gone, level: int) -> Iterator[Block]:
    group = f", group {subject.group_label}" if subject.group_label else ""
    yield Heading(level, f"Rollout {subject.index} of step {subject.step}{group}")
    yield Paragraph(f"{subject.source}, offset {subject.whole('offset')}")
    facts = [
        ("reward", numbers.value(subject.reward)),
        *((name, numbers.value(part)) for name, part in subject.components.items()),
        ("advantage", numbers.value(float(subject.advantages[subject.place]))),
        ("tokens", numbers.count(subject.whole("completion_tokens"))),
        ("ended", subject.name("finish") or subject.name("termination") or numbers.UNKNOWN),
        ("policy version", numbers.count(subject.whole("policy_start"))),
        ("lag", numbers.count(subject.lag)),
    ]
    yield Table([name for name, _ in facts], [[text for _, text in facts]])
    if subject.sampling:
        yield Listing([f"{name} {value}" for name, value in subject.sampling.items()])
    if isinstance(found, Gone):
        yield Paragraph(f"Its text cannot be read any more: {found.reason}")
        return
    for name, text in (("verifier", found.verifier_raw), ("verifier error", found.verifier_error)):
        if text is not None:
            yield Heading(level + 1, name)
            yield Verbatim(text)
    yield from _turn_blocks(found, level + 1)


def _turn_blocks(rollout: Rollout, level: int) -> Iterator[Block]:
    for turn in turns_of(rollout):
        number = "" if turn.number is None or not rollout.messages else f" {turn.number}"
        yield Heading(level, f"{turn.who}{number}")
        if turn.text or not turn.calls:
            yield Verbatim(turn.text)
        for call in turn.calls:
            yield Paragraph(f"calls {call.name}" + (f"; {call.problem}" if call.problem else ""))
            yield Verbatim(call.arguments)


def _group_blocks(subjects: Sequence[Subject]) -> Iterator[Block]:
    first = subjects[0]
    yield Heading(1, f"Group {first.group_label or '?'} of step {first.step}")
    flat = ": no spread, it teaches nothing" if first.flat else ""
    spread = f"{numbers.value(first.group_mean)}, σ {numbers.value(first.group_std)}{flat}"
    yield Paragraph(f"{numbers.count(len(subjects))} rollouts, mean {spread}")
    yield Table(_ONE_OF_THE_LIST, [_line_of(subject) for subject in subjects])
    for subject in subjects:
        yield from _rollout_blocks(subject, subject.snapshot.read(subject.row), 2)


def _line_of(subject: Subject) -> list[str]:
    return [
        str(subject.index),
        numbers.value(subject.reward),
        numbers.value(float(subject.advantages[subject.place])),
        numbers.count(subject.whole("completion_tokens")),
        subject.name("finish") or subject.name("termination") or numbers.UNKNOWN,
        numbers.count(subject.lag),
    ]


def _finding_blocks(finding: Finding, subjects: Sequence[Subject]) -> Iterator[Block]:
    yield Heading(1, f"{finding.severity.word}: {finding.id}{'' if finding.active else ', cleared'}")
    yield Paragraph(f"{finding.summary}.")
    spans = ", ".join(numbers.span(first, last) for first, last in finding.episodes)
    yield Paragraph(f"Steps {spans}; onset {finding.onset}.")
    if told := list(evidence_words(finding)):
        yield Listing(told)
    if finding.try_next:
        yield Paragraph("What to try, in order:")
        yield Listing(finding.try_next, ordered=True)
    for subject in subjects:
        yield from _rollout_blocks(subject, subject.snapshot.read(subject.row), 2)


def file_stem(snapshot: Snapshot, *parts: str) -> str:
    """The parts as a file's name, the run's first."""
    clean = [_NO_NAME.sub("-", part)[:_LONGEST_NAME].strip("-.") for part in (snapshot.run.name, *parts)]
    return "-".join(filter(None, clean)) or "rollout"


def _plain(value: Any) -> Any:
    """A value as JSON can carry it: what is not finite becomes a word, since JSON has no number for it."""
    if isinstance(value, dict):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    if hasattr(value, "item"):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value if value is None or isinstance(value, str | int | float | bool) else str(value)


def _visible(text: str) -> str:
    """JSON in which no character hides or acts on a terminal; it says the same."""
    if text.isascii():
        return text.replace("\x7f", "\\u007f")
    return "".join(_escaped(character) for character in text)


def _escaped(character: str) -> str:
    if character == "\n" or (character.isascii() and character != "\x7f"):
        return character
    if unicodedata.category(character) not in _HIDDEN and safe(character) == character:
        return character
    code = ord(character)
    if code < 0x10000:
        return f"\\u{code:04x}"
    high, low = divmod(code - 0x10000, 0x400)
    return f"\\u{0xD800 + high:04x}\\u{0xDC00 + low:04x}"
