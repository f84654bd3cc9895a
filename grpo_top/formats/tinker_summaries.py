"""tinker-cookbook's rollout summaries, `iteration_000012/train_rollout_summaries.jsonl`: a trajectory a line.

They carry lengths, rewards and how each turn ended; texts only where the environment logs them, or where the group is
one of the few in the iteration's logtree.
"""

from __future__ import annotations

import re
from collections import deque
from typing import TYPE_CHECKING, Any

from grpo_top.formats.base import RunContext
from grpo_top.formats.decode import bare, integer, number, numbers, parse_record, text
from grpo_top.formats.jsonl import JsonLinesReader
from grpo_top.formats.tinker_logtree import ENDING, TEXTS, Print, Said, print_of, texts_of
from grpo_top.formats.usual import filled
from grpo_top.records import EVAL, TRAIN, Message, Rollout

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import PurePath

    from grpo_top.records import Location, Record

_ASKED = frozenset(("problem", "question", "prompt", "query", "input"))
_ANSWERED = frozenset(("response", "completion", "output", "assistant_content", "model_response"))
_CUT = frozenset(("max_tokens", "max_sampled_tokens", "context_overflow"))
"""Reasons to stop that are a token budget's."""
_COUNTS = re.compile(r"/|^num_|_count$|tokens|turns|_len$|masked")
"""Names of an environment's numbers that are no part of a reward."""
BUDGET = "tinker max_tokens"
KEPT_READERS = 4
"""Files, the newest, whose rollouts may still get their texts."""
_ENDING = "_rollout_summaries.jsonl"


def is_summary(record: Mapping[str, Any]) -> bool:
    """Whether an object is a trajectory's summary."""
    return {"iteration", "group_idx", "traj_idx"} <= record.keys()


class SummaryReader(JsonLinesReader):
    """Reads `*_rollout_summaries.jsonl`. Texts that come later are added when they come."""

    def __init__(self, path: PurePath, context: RunContext) -> None:
        self._path = path
        self._context = context
        self._texts = texts_of(context)
        self._tree = path.with_name(path.name.removesuffix(_ENDING) + ENDING)
        self._without_text: list[tuple[Print, Rollout]] = []
        self._seen_version = 0

    def fresh(self) -> SummaryReader:
        """A reader that has read nothing."""
        known = {BUDGET: self._context.notes.get(BUDGET), TEXTS: self._texts}
        return SummaryReader(self._path, RunContext(notes=known))

    def records(self, raw: dict[str, Any], location: Location) -> Iterator[Record]:
        """One rollout, with its texts where they are known by now."""
        rollout, print_ = self._rollout(raw, location), _print(raw)
        said = self._texts.of(self._tree, print_)
        if said is None and print_ is not None and rollout.completion is None:
            _waiting(self._context).add(self)
            self._without_text.append((print_, rollout))
        self._seen_version = self._texts.version
        yield _with(rollout, said)

    def idle(self) -> list[Record]:
        """The rollouts again whose texts are known now."""
        if not self._without_text or self._seen_version == self._texts.version:
            return []
        self._seen_version = self._texts.version
        said = [
            (print_, rollout, self._texts.of(self._tree, print_)) for print_, rollout in self._without_text
        ]
        self._without_text = [(print_, rollout) for print_, rollout, found in said if found is None]
        return [_with(rollout, found) for _, rollout, found in said if found is not None]

    def end(self) -> list[Record]:
        """What is known at the end."""
        return self.idle()

    def let_go(self) -> None:
        """Wait for texts no more."""
        self._without_text = []

    def replay(self, data: bytes, location: Location) -> Rollout | None:
        """The rollout at `location`; texts that were let go are read again."""
        try:
            raw = parse_record(bare(data))
            return _with(self._rollout(raw, location), self._texts.again(self._tree, _print(raw)))
        except ValueError:
            return None

    def _rollout(self, raw: dict[str, Any], location: Location) -> Rollout:
        step = integer(raw.get("iteration"))
        if step is None:
            raise ValueError("rollout without an iteration")
        turns = _turns(raw)
        tags = raw.get("tags")
        named = [tag for tag in tags if isinstance(tag, str)] if isinstance(tags, list) else []
        reason = _stop_reason(turns)
        messages = _conversation(turns)
        rollout = Rollout(
            step=step,
            group=text(raw.get("group_idx")),
            reward=number(raw.get("total_reward")),
            index=integer(raw.get("traj_idx")),
            rewards=_env_metrics([raw.get("trajectory_metrics"), *(turn.get("metrics") for turn in turns)])
            or None,
            split=TRAIN if raw.get("split", TRAIN) == TRAIN else EVAL,
            family=" ".join(named) or None,
            prompt=next((message.content for message in messages if message.role == "user"), None),
            completion=_joined(messages),
            messages=messages or None,
            prompt_tokens=integer(turns[0].get("ob_len")) if turns else None,
            completion_tokens=_total(turns),
            truncated=self._truncated(turns, reason),
            termination=reason,
            policy_version=integer(raw.get("sampling_client_step")),
            trainer_version=step,
            location=location,
        )
        logs = turns[-1].get("logs") if turns else None
        return filled(rollout, logs) if isinstance(logs, dict) else rollout

    def _truncated(self, turns: Sequence[Mapping[str, Any]], reason: str | None) -> bool | None:
        """By the reason to stop; where there is none, by a turn that used the whole budget."""
        if reason is not None:
            return reason in _CUT
        budget = self._context.notes.get(BUDGET)
        lengths = [length for turn in turns if (length := integer(turn.get("ac_len"))) is not None]
        return max(lengths) >= budget if isinstance(budget, int | float) and lengths else None


class _Waiting:
    """The readers whose rollouts may still get their texts: those of the newest files."""

    def __init__(self) -> None:
        self._readers: deque[SummaryReader] = deque()

    def add(self, reader: SummaryReader) -> None:
        """Let a reader wait, until enough newer ones have come."""
        if reader not in self._readers:
            self._readers.append(reader)
        if len(self._readers) > KEPT_READERS:
            self._readers.popleft().let_go()


def _waiting(context: RunContext) -> _Waiting:
    known = context.notes.setdefault("tinker waiting", _Waiting())
    return known if isinstance(known, _Waiting) else _Waiting()


def _turns(raw: Mapping[str, Any]) -> list[dict[str, Any]]:
    steps = raw.get("steps")
    return [turn for turn in steps if isinstance(turn, dict)] if isinstance(steps, list) else []


def _print(raw: Mapping[str, Any]) -> Print | None:
    lengths = [(integer(turn.get("ob_len")), integer(turn.get("ac_len"))) for turn in _turns(raw)]
    return print_of(integer(raw.get("traj_idx")), lengths, number(raw.get("total_reward")))


def _with(rollout: Rollout, said: Said | None) -> Rollout:
    """The rollout with what was said in it, where its own line has no texts."""
    if said is None or rollout.completion is not None:
        return rollout
    return rollout._replace(messages=said.messages, prompt=said.prompt, completion=said.completion)


def _stop_reason(turns: Sequence[Mapping[str, Any]]) -> str | None:
    """`metrics["stop/REASON"] = 1` on the last turn; environments need not say it."""
    metrics = turns[-1].get("metrics") if turns else None
    for key, value in metrics.items() if isinstance(metrics, dict) else ():
        if key.startswith("stop/") and number(value):
            return str(key).removeprefix("stop/")
    return None


def _env_metrics(metrics: Sequence[object]) -> dict[str, float | None]:
    """The environment's own numbers, as means over the turns (and the whole, which comes first) that carry them."""
    carried: dict[str, list[float]] = {}
    for of_one in metrics:
        for key, value in numbers(of_one).items():
            if value is not None and not _COUNTS.search(key):
                carried.setdefault(key, []).append(value)
    return {key: sum(values) / len(values) for key, values in carried.items()}


def _total(turns: Sequence[Mapping[str, Any]]) -> int | None:
    lengths = [integer(turn.get("ac_len")) for turn in turns]
    known = [length for length in lengths if length is not None]
    return sum(known) if known and len(known) == len(lengths) else None


def _conversation(turns: Sequence[Mapping[str, Any]]) -> list[Message]:
    """The texts that the environment logs, under the words that are usual; what was asked only where it is new."""
    found: list[Message] = []
    asked = None
    for turn in turns:
        logs = turn.get("logs")
        for key, value in logs.items() if isinstance(logs, dict) else ():
            word = str(key).lower().replace(" ", "_")
            if not isinstance(value, str):
                continue
            if word in _ASKED and value != asked:
                asked = value
                found.append(Message("user", value))
            elif word in _ANSWERED:
                found.append(Message("assistant", value, reward=number(turn.get("reward"))))
    return found


def _joined(messages: Sequence[Message]) -> str | None:
    answers = [message.content for message in messages if message.role == "assistant"]
    return "\n".join(answers) if answers else None
