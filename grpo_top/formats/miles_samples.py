"""miles' samples: what three files say of one of them, brought together."""

from __future__ import annotations

from collections import Counter, deque
from typing import TYPE_CHECKING, Any, NamedTuple

from grpo_top.formats.base import Reader
from grpo_top.formats.conversation import conversation, spoken, texts
from grpo_top.formats.decode import integer, number, numbers, text, timestamp
from grpo_top.formats.jsonl import JsonLinesReader
from grpo_top.formats.parquet import parquet_rows
from grpo_top.formats.usual import filled
from grpo_top.records import EVAL, Rollout, Skipped

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from grpo_top.formats.base import RunContext
    from grpo_top.records import Location, Record

KEPT_READERS = 4
"""Trajectory files, the newest, whose samples may still be completed by another file."""
KEPT_SAMPLES = 400_000
"""Samples of which something is known while their text has not come: those of a run that dumps no texts."""
_COLUMNS = ("sample_index", "response_length", "total_length", "loss_mask")


class Known(NamedTuple):
    """What is known of a sample beside its text; None is unknown."""

    completion_tokens: int | None = None
    prompt_tokens: int | None = None
    first_version: int | None = None
    last_version: int | None = None
    finish_reason: str | None = None
    ended: float | None = None


_UNKNOWN = Known()


Key = tuple[int | None, int]
"""A sample: its number, which is its own in the whole run; in an evaluation, also that evaluation's rollout id."""


class Samples:
    """The samples of a run."""

    def __init__(self) -> None:
        self.version = 0
        """Grows with everything that becomes known."""
        self._known: dict[Key, Known] = {}
        self._waiting: deque[TrajectoryReader] = deque()

    def of(self, key: Key) -> Known:
        """What is known of a sample so far."""
        return self._known.get(key, _UNKNOWN)

    def learn(self, key: Key, **facts: Any) -> None:
        """Take facts about a sample in."""
        self.version += 1
        self._known[key] = self.of(key)._replace(**facts)
        if len(self._known) > KEPT_SAMPLES:
            del self._known[next(iter(self._known))]

    def wait(self, reader: TrajectoryReader) -> None:
        """Let a file's samples be completed later, until enough newer files have come; then they are let go."""
        if reader not in self._waiting:
            self._waiting.append(reader)
        if len(self._waiting) > KEPT_READERS:
            for key in self._waiting.popleft().let_go():
                self._known.pop(key, None)


def samples_of(context: RunContext) -> Samples:
    """The samples that a run's readers share."""
    known = context.notes.setdefault("miles samples", Samples())
    return known if isinstance(known, Samples) else Samples()


class EventsReader(JsonLinesReader):
    """Reads lifecycle events: which weights were loaded when a sample was generated, and how it ended."""

    note = "adds to the rollouts which weights sampled them"

    def __init__(self, samples: Samples) -> None:
        self._samples = samples

    def fresh(self) -> EventsReader:
        """A reader that has read nothing."""
        return EventsReader(Samples())

    def records(self, raw: dict[str, Any], location: Location) -> Iterable[Record]:  # noqa: ARG002
        """None of its own; versions are written as strings, empty where they are unknown."""
        sample, kind = integer(raw.get("sample_index")), text(raw.get("kind"))
        if sample is None or kind is None:
            raise ValueError("event without its sample or kind")
        facts: dict[str, Any] = {}
        version = integer(raw.get("weight_version"))
        if version is not None:
            known = self._samples.of((None, sample))
            facts["first_version"] = (
                version if known.first_version is None else min(known.first_version, version)
            )
            facts["last_version"] = (
                version if known.last_version is None else max(known.last_version, version)
            )
        if kind == "gen_end" and raw.get("detail"):
            facts["finish_reason"] = text(raw["detail"])
        if kind == "attempt_end":
            facts["ended"] = timestamp(raw.get("ts"))
        if facts and sample >= 0:
            self._samples.learn((None, sample), **facts)
        return ()


class ColumnsReader(Reader):
    """Reads one `rollout_N.parquet`: the lengths of its samples, counted in tokens that were sampled."""

    note = "adds to the rollouts how long they are"

    def __init__(self, samples: Samples, evaluation: int | None) -> None:
        self._samples = samples
        self._evaluation = evaluation

    def fresh(self) -> ColumnsReader:
        """A reader that has read nothing."""
        return ColumnsReader(Samples(), self._evaluation)

    def whole(self, data: bytes) -> list[Record]:
        """None of its own."""
        try:
            rows = parquet_rows(data, _COLUMNS)
        except ValueError as error:
            return [Skipped(str(error), 0)]
        for row in rows:
            sample, length, total = (integer(row.get(name)) for name in _COLUMNS[:3])
            if sample is None or length is None:
                continue
            mask = row.get("loss_mask")
            sampled = sum(map(bool, mask)) if isinstance(mask, list) and mask else length
            prompt = None if total is None else total - length
            self._samples.learn((self._evaluation, sample), completion_tokens=sampled, prompt_tokens=prompt)
        return []


class TrajectoryReader(JsonLinesReader):
    """Reads one `trajectory/N.jsonl`. What other files say later of its samples is added when it comes."""

    def __init__(self, samples: Samples, rollout: int | None, split: str) -> None:
        self._samples = samples
        self._rollout = rollout
        self._split = split
        self._evaluation = rollout if split == EVAL else None
        self._in_group: Counter[str | None] = Counter()
        self._read: list[tuple[Key, Rollout]] = []
        """Samples and rollouts that may still be completed."""
        self._seen_version = 0

    def fresh(self) -> TrajectoryReader:
        """A reader that has read nothing."""
        return TrajectoryReader(Samples(), self._rollout, self._split)

    def records(self, raw: dict[str, Any], location: Location) -> Iterator[Record]:
        """One rollout, with all that is known of it by now."""
        rollout = _rollout(raw, self._rollout, self._split, location)
        rollout = rollout._replace(index=self._in_group[rollout.group])
        self._in_group[rollout.group] += 1
        sample = integer(raw.get("sample_index"))
        if sample is None:
            yield rollout
            return
        key = (self._evaluation, sample)
        self._samples.wait(self)
        self._read.append((key, rollout))
        self._seen_version = self._samples.version
        yield self._completed(key, rollout)

    def idle(self) -> list[Record]:
        """The rollouts again where more is known of them now."""
        if not self._read or self._seen_version == self._samples.version:
            return []
        self._seen_version = self._samples.version
        return [self._completed(key, rollout) for key, rollout in self._read]

    def end(self) -> list[Record]:
        """What is known at the end."""
        return self.idle()

    def let_go(self) -> list[Key]:
        """Forget the texts; the samples that nobody waits for any more."""
        keys = [key for key, _ in self._read]
        self._read = []
        return keys

    def _completed(self, key: Key, rollout: Rollout) -> Rollout:
        known = self._samples.of(key)
        return rollout._replace(
            prompt_tokens=known.prompt_tokens,
            completion_tokens=known.completion_tokens,
            policy_version=known.first_version,
            policy_version_end=known.last_version,
            trainer_version=None if known.first_version is None else self._rollout,
            finish_reason=known.finish_reason,
            time=known.ended,
        )


class SamplesReader(JsonLinesReader):
    """Reads samples with all of their own fields, as JSON lines: slime's, whose own dumps are pickles."""

    def __init__(self, rollout: int | None, split: str) -> None:
        self._rollout = rollout
        self._split = split

    def fresh(self) -> SamplesReader:
        """A reader that has read nothing."""
        return SamplesReader(self._rollout, self._split)

    def records(self, raw: dict[str, Any], location: Location) -> Iterator[Record]:
        """One rollout."""
        step = integer(raw.get("rollout_id", self._rollout))
        versions = [
            found for version in _list(raw.get("weight_versions")) if (found := integer(version)) is not None
        ]
        reasons = [reason for found in _list(raw.get("finish_reasons")) if (reason := text(found))]
        answer, length = text(raw.get("response")), integer(raw.get("response_length"))
        tokens = len(_list(raw.get("tokens")))
        rollout = _rollout(raw, step, self._split, location)
        rollout = rollout._replace(
            completion=answer,
            messages=conversation(raw.get("prompt"), answer) if isinstance(raw.get("prompt"), list) else None,
            prompt_tokens=tokens - length if length is not None and tokens >= length else None,
            completion_tokens=length,
            policy_version=min(versions, default=None),
            policy_version_end=max(versions, default=None),
            trainer_version=step if versions else None,
            finish_reason=reasons[-1] if reasons else None,
            termination=_how_it_went(reasons) or rollout.termination,
            logprobs_sampler=_floats(raw.get("rollout_log_probs")),
        )
        yield filled(rollout, raw)


def _rollout(raw: Mapping[str, Any], step: int | None, split: str, location: Location) -> Rollout:
    """What the fields that both kinds of file have say of a sample."""
    if step is None:
        raise ValueError("sample in a file that is not named after a rollout")
    reward, status = raw.get("reward"), text(raw.get("status"))
    turns = conversation(raw.get("messages"))
    known = status in {"completed", "truncated"}
    return Rollout(
        step=step,
        group=text(raw.get("group_index")),
        reward=_total(reward) if isinstance(reward, dict) else number(reward),
        rewards=_parts(reward) or None,
        split=split,
        prompt=texts(raw.get("prompt")),
        completion="\n".join(spoken(turn) for turn in turns or () if turn.role == "assistant")
        if turns
        else None,
        messages=turns,
        truncated=status == "truncated" if known else None,
        termination=status,
        location=location,
    )


def _parts(reward: object) -> dict[str, float | None]:
    """The parts of a reward that are numbers; what was extracted from the answer (`pred`) is a text."""
    named = reward.items() if isinstance(reward, dict) else ()
    return numbers({name: value for name, value in named if not isinstance(value, str)})


def _total(rewards: Mapping[str, Any]) -> float | None:
    """Which of several rewards is trained on is an argument of the run (`--reward-key`); these are its usual values."""
    named = (rewards.get(name) for name in ("reward", "score", "total"))
    return next((found for value in named if (found := number(value)) is not None), None)


def _how_it_went(reasons: Sequence[str]) -> str | None:
    """How the parts of a sample ended, each way once: `abort then length` where weights were swapped under it."""
    return " then ".join(dict.fromkeys(reasons)) or None


def _floats(values: object) -> list[float] | None:
    found = [value for value in _list(values) if isinstance(value, int | float)]
    return found or None


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []
