"""Records on their way to a grpo-top on another machine: grpo-top/1 lines, with short stand-ins for the texts.

A stand-in is a text that measures like the one that it stands for: equal for equal texts and no others, a loop where
that is one. So the columns of a history come out the same at both ends, and the texts stay where they are until
somebody wants to read one. Each line names its source by number; a few kinds beside those of grpo-top/1 say what the
sources are and when one begins anew.
"""

from __future__ import annotations

import json
import math
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, NamedTuple

from grpo_top.completions import measure_texts
from grpo_top.encode import completion_of, logp_difference, prompt_of, task_names
from grpo_top.formats.base import RunContext
from grpo_top.formats.decode import integer, number, parse_record, text
from grpo_top.formats.native import NativeReader
from grpo_top.records import (
    EVAL,
    NOWHERE,
    REQUEST,
    TRAIN,
    Eval,
    FleetLook,
    FleetPoint,
    Grade,
    Location,
    Rollout,
    Run,
    SamplerLook,
    Skipped,
    Step,
)
from grpo_top.text import ends_in_loop, gibberish, text_hash

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from grpo_top.records import Record

SCHEMA = "grpo-top/serve/1"
MOST_SOURCES = 1 << 15
_ROLLOUT = b'{"kind":"rollout",'
LONGEST_ERROR = 1 << 16
"""Characters of a verifier's error that are sent."""
_JUNK, _LOOP = "\x1f" * 32, " " * 12
"""What makes gibberish of a digest before it, and a loop behind it. As white space neither changes its key."""


class Source(NamedTuple):
    """A source, before its first record."""

    number: int
    where: str
    format: str
    role: str
    writer: int
    """Sources of one writer have one number."""


class BeginsAgain(NamedTuple):
    """A source's file began anew."""

    forget: bool
    """What it held falls at once; else as it comes again."""


class LetGo(NamedTuple):
    """So many rollouts were let go at the other end before they were asked for."""

    rollouts: int


class Piece(NamedTuple):
    """What one line says of one source."""

    source: int
    what: Record | Source | BeginsAgain | LetGo


# ---- stand-ins


class Texts(NamedTuple):
    """What is known of the completions of some rollouts, one element a rollout."""

    keys: list[int]
    """As the column `text` of this process; 0 where there is no text."""
    stand_ins: list[str | None]


def texts_of(rollouts: Sequence[Rollout], *, are_stand_ins: bool = False) -> Texts:
    """Measured all at once, which is much quicker than one by one. `are_stand_ins`: they came over the wire already."""
    completions = list(map(completion_of, rollouts))
    known = [one for one in completions if one is not None]
    measured = measure_texts(known)
    found: Iterator[tuple[int, str]] = zip(
        measured.keys, map(_stand_in, known, measured.loops, measured.gibberish), strict=True
    )
    if are_stand_ins:
        found = zip(measured.keys, known, strict=True)
    both = [(0, None) if one is None else next(found) for one in completions]
    return Texts([key for key, _ in both], [short for _, short in both])


def stand_in(completion: str) -> str:
    """The stand-in for one completion."""
    return _stand_in(completion, ends_in_loop(completion), gibberish(completion))


def _stand_in(completion: str, loops: bool, is_gibberish: bool) -> str:
    digits = f"{text_hash(completion) & 0xFFFFFFFFFFFFFFFF:016x}"
    digest = f"{digits[:8]}-{digits[8:]}"  # no loop itself, whatever the digits
    return f"{_JUNK if is_gibberish else ''}{digest}{_LOOP if loops else ''}"


def _digest(text: str) -> str:
    """Equal for equal texts and no others; empty for the empty one."""
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest() if text else ""


# ---- to lines


def source_line(source: Source) -> bytes:
    """A source as a line."""
    number, where, format_, role, writer = source
    return _line(
        {
            "kind": "source",
            "source": number,
            "where": where,
            "format": format_,
            "role": role,
            "writer": writer,
        }
    )


def again_line(source: int, begins: BeginsAgain) -> bytes:
    """A new beginning as a line."""
    return _line({"kind": "again", "source": source, "forget": begins.forget})


def let_go_line(rollouts: int) -> bytes:
    """Rollouts that are let go as a line."""
    return _line({"kind": "let_go", "source": 0, "rollouts": rollouts})


def is_rollout(line: bytes) -> bool:
    """Whether a line that was made here is a rollout's."""
    return line.startswith(_ROLLOUT)


def record_line(source: int, record: Run | Step | Eval | SamplerLook | FleetLook | Grade | Skipped) -> bytes:
    """A record that is no rollout as a line. A grade's `rollout` is given as its id: `Location(id, 0)`."""
    fields = {name: value for name, value in record._asdict().items() if value is not None}
    fields.pop("location", None)
    match record:
        case Run() if record.success is not None:
            fields["success"] = record.success._asdict()
        case Grade():
            fields["rollout"] = record.rollout._asdict()
    return _line({"kind": _KINDS[type(record)], "source": source, **fields})


def rollout_lines(source: int, rollouts: Sequence[Rollout], ids: Sequence[int], texts: Texts) -> list[bytes]:
    """Rollouts as lines, with stand-ins for their texts. `ids`: by which each can be asked for; -1 by none."""
    every = zip(rollouts, ids, task_names(rollouts), texts.stand_ins, strict=True)
    return [
        _line(
            {"kind": "rollout", "source": source}
            | ({"id": of} if of >= 0 else {})
            | _fields(rollout)
            | _measured(rollout, task, completion)
        )
        for rollout, of, task, completion in every
    ]


def whole_line(rollout: Rollout) -> bytes:
    """One rollout with its texts as a line."""
    messages = rollout.messages
    return _line(
        {
            "kind": "rollout",
            **_fields(rollout),
            "prompt": rollout.prompt,
            "completion": rollout.completion,
            "messages": None if messages is None else [message._asdict() for message in messages],
            "verifier": {"raw": rollout.verifier_raw, "error": rollout.verifier_error},
            "logprobs": {
                "sampler": rollout.logprobs_sampler,
                "trainer": rollout.logprobs_trainer,
                "tokens": rollout.tokens,
            },
        }
    )


_KINDS: dict[type, str] = {
    Run: "run",
    Step: "step",
    Eval: "eval",
    SamplerLook: "sampler",
    FleetLook: "fleet",
    Grade: "grade",
    Skipped: "skipped",
}
SENT = (
    *("step", "group", "reward", "index", "rewards", "task", "family", "tier", "parsed", "advantage"),
    *("prompt_tokens", "completion_tokens", "finish_reason", "truncated", "termination", "trainer_version"),
    *("sampling", "sampler", "seed", "env_version", "reward_version", "time"),
)
"""Fields of a rollout that are sent as they are: a new one stays where it is until it is named here or below."""
SENT_OTHERWISE = (
    *("prompt", "completion", "messages", "verifier_raw", "verifier_error", "logprobs_sampler"),
    *("logprobs_trainer", "tokens", "policy_version", "policy_version_end", "split", "location"),
)


def _fields(rollout: Rollout) -> dict[str, Any]:
    """What is known of a rollout beside its texts."""
    fields = {name: value for name in SENT if (value := getattr(rollout, name)) is not None}
    if rollout.split != TRAIN:
        fields["split"] = rollout.split
    first, last = rollout.policy_version, rollout.policy_version_end
    if last is not None:
        fields["policy_version"] = [first, last]
    elif first is not None:
        fields["policy_version"] = first
    return fields


def _measured(rollout: Rollout, task: str | None, completion: str | None) -> dict[str, Any]:
    """What stands for a rollout's texts."""
    fields: dict[str, Any] = {}
    if task is not None:
        fields["task"] = task
    if completion is not None:
        fields["completion"] = completion
    if rollout.group is None and (prompt := prompt_of(rollout)):
        fields["prompt"] = _digest(prompt)
    raw, error = rollout.verifier_raw, rollout.verifier_error
    if raw is not None or error is not None:
        fields["verifier"] = {
            "raw": None if raw is None else _digest(raw),
            "error": None if error is None else error[:LONGEST_ERROR],
        }
    difference = logp_difference(rollout.logprobs_sampler, rollout.logprobs_trainer)
    if not math.isnan(difference):
        fields["logprobs"] = {"sampler": [difference], "trainer": [0.0]}
    return fields


def _line(fields: Mapping[str, Any]) -> bytes:
    # Python's own encoder writes what JSON has not and records may hold: NaN, endless integers, lone surrogates.
    return json.dumps(fields, separators=(",", ":"), default=_plain).encode() + b"\n"


def _plain(value: Any) -> Any:
    """What an array or its scalar holds; anything else as text."""
    return value.tolist() if hasattr(value, "tolist") else str(value)


# ---- from lines


class PieceReader:
    """Reads the lines of a log, whoever wrote them: ValueError, with a short reason, for one that is none."""

    def __init__(self) -> None:
        self._native = NativeReader(RunContext())

    def read(self, line: bytes) -> Piece:
        """What a line says."""
        raw = parse_record(line)
        number = integer(raw.get("source"))
        if number is None or not 0 <= number < MOST_SOURCES:
            raise ValueError("line without the number of its source")
        return Piece(number, self._what(raw, number))

    def rollout(self, line: bytes) -> Rollout:
        """The rollout of a line that holds its texts."""
        raw = parse_record(line)
        found = self._native.record(raw, NOWHERE)
        if not isinstance(found, Rollout):
            raise ValueError("not a rollout")
        return _of_split(found, raw)

    def _what(self, raw: dict[str, Any], number: int) -> Record | Source | BeginsAgain | LetGo:
        kind = raw.get("kind")
        if kind == "source":
            where, format_, role = (text(raw.get(name)) or "" for name in ("where", "format", "role"))
            return Source(number, where, format_, role, integer(raw.get("writer")) or 0)
        if kind == "again":
            return BeginsAgain(raw.get("forget") is True)
        if kind == "let_go":
            return LetGo(max(0, integer(raw.get("rollouts")) or 0))
        if kind == "skipped":
            return Skipped(
                text(raw.get("reason")) or "", integer(raw.get("offset")) or 0, integer(raw.get("line"))
            )
        if kind == "fleet":
            return _fleet(raw)
        id_ = integer(raw.get("id"))
        record = self._native.record(raw, NOWHERE if id_ is None else Location(id_, 0))
        match record:
            case Rollout():
                return _of_split(record, raw)
            case Step():
                return record._replace(rank=_rank(raw), writer=text(raw.get("writer")) or "")
            case Eval():
                return record._replace(rank=_rank(raw))
        return record


def _fleet(raw: Mapping[str, Any]) -> FleetLook:
    name, lowest, highest, unit, worse = (
        text(raw.get(field)) or "" for field in ("name", "lowest", "highest", "unit", "worse")
    )
    points: list[FleetPoint] = []
    given = raw.get("points")
    for point in given if isinstance(given, list) else []:
        values = [number(value) for value in point] if isinstance(point, list) else []
        known = [math.nan if value is None else value for value in values]
        if not name or len(known) != len(FleetPoint._fields) or not math.isfinite(known[0] + known[1]):
            raise ValueError("fleet record without a name, or with a point that is none")
        points.append(FleetPoint(known[0], int(known[1]), known[2], known[3], known[4]))
    return FleetLook(name, points, lowest, highest, unit, worse)


_SPLITS = (TRAIN, EVAL, REQUEST)


def _of_split(rollout: Rollout, raw: Mapping[str, Any]) -> Rollout:
    """With a split that grpo-top/1 has not: those of an engine's requests, and unknown."""
    split = raw.get("split", TRAIN)
    return rollout if split == rollout.split else rollout._replace(split=split if split in _SPLITS else None)


def _rank(raw: Mapping[str, Any]) -> int:
    found = integer(raw.get("rank"))
    return 1 if found is None else found
