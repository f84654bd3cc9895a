"""Atropos' evaluations (`data_dir_to_save_evals`): `metrics.json` and `samples.jsonl`, written anew by each evaluation.

They name no step: an evaluation belongs to the one that the groups had reached when it was read. What a sample holds is
up to the environment; the usual words are taken.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from grpo_top.formats.base import Reader
from grpo_top.formats.conversation import conversation, spoken
from grpo_top.formats.decode import bare, integer, number, numbers, parse_record, text
from grpo_top.formats.jsonl import JsonLinesReader
from grpo_top.formats.usual import filled
from grpo_top.records import EVAL, Eval, Rollout, Skipped

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from grpo_top.formats.base import RunContext
    from grpo_top.records import Location, Record

_REACHED = "atropos step"
_TASK = "atropos|"
_SCORES = ("score", "reward", "correct", "is_correct", "accuracy")


def note_step(context: RunContext, step: int) -> None:
    """Remember how far the groups have come."""
    context.notes[_REACHED] = step


def is_evaluation(head: bytes) -> bool:
    """Whether a file begins as an evaluation's metrics."""
    return bare(head[:4096]).startswith(b"{") and b'"config_general"' in head and _TASK.encode() in head


def is_sample(record: Mapping[str, Any]) -> bool:
    """Whether an object is an evaluation's sample: a conversation with a score, of no step."""
    turns = record.get("messages")
    return isinstance(turns, list) and "step" not in record and _score(record) is not None


class EvaluationReader(Reader):
    """Reads `metrics.json`."""

    def __init__(self, context: RunContext) -> None:
        self._context = context

    def fresh(self) -> EvaluationReader:
        """A reader that has read nothing."""
        return EvaluationReader(self._context)

    def whole(self, data: bytes) -> list[Record]:
        """One evaluation for each task, under its name."""
        try:
            results = parse_record(bare(data)).get("results")
        except ValueError as error:
            return [Skipped(str(error), 0)]
        tasks = results if isinstance(results, dict) else {}
        return [
            Eval(
                _step(self._context),
                {key.removeprefix("eval/"): value for key, value in numbers(metrics).items()},
                name.split("|")[1],
            )
            for name, metrics in tasks.items()
            if name.startswith(_TASK)
        ]


class SamplesReader(JsonLinesReader):
    """Reads `samples.jsonl`: a conversation and its score a line."""

    def __init__(self, context: RunContext) -> None:
        self._context = context

    def fresh(self) -> SamplesReader:
        """A reader that has read nothing."""
        return SamplesReader(self._context)

    def records(self, raw: dict[str, Any], location: Location) -> Iterator[Record]:
        """One rollout."""
        turns = conversation(raw.get("messages"))
        if not turns:
            raise ValueError("sample without messages")
        asked = next((place for place, turn in enumerate(turns) if turn.role == "assistant"), len(turns))
        rollout = Rollout(
            step=_step(self._context),
            group=None,
            reward=_score(raw),
            split=EVAL,
            family=text(raw.get("category")),
            prompt="\n".join(turn.content for turn in turns[:asked]),
            completion="\n".join(spoken(turn) for turn in turns[asked:] if turn.role == "assistant"),
            messages=turns,
            location=location,
        )
        yield filled(rollout, raw)


def _step(context: RunContext) -> int:
    return integer(context.notes.get(_REACHED)) or 0


def _score(raw: Mapping[str, Any]) -> float | None:
    return next((found for name in _SCORES if (found := number(raw.get(name))) is not None), None)
