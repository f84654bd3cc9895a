"""What a custom loop's records leave to be told by where they lie: a file's step and split, a rollout's number."""

from __future__ import annotations

import re
from itertools import takewhile
from typing import TYPE_CHECKING, Any, NamedTuple

from grpo_top.formats.decode import integer
from grpo_top.places import is_part
from grpo_top.records import EVAL, TRAIN

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import PurePath


class Place(NamedTuple):
    """What a file's name, or its folder's, says of its records."""

    step: int | None
    split: str
    within: PurePath | None = None
    """The folder of the run's files of this kind."""


NO_PLACE = Place(None, TRAIN)
_STEP = re.compile(
    r"(?:.*[-_.])?(?:global_?step|train_?step|step|iteration|iter|update|epoch|round|rollouts?|rollout_batch|completions?"
    r"|trajector(?:y|ies)|generations?|samples|responses|batch)[-_=.]?(?P<step>\d{1,9})(?:[-_.](?!of\b)[a-z_]+)?"
    r"(?:[-_.]?(?:rank|worker|gpu|node|proc)[-_]?\d{1,6})?",
    re.IGNORECASE,
)
_NUMBER = re.compile(r"\d{1,9}")
_OF_ROLLOUTS = re.compile(
    r"(?:.*[-_])?(?:rollouts?|completions?|trajectories|generations|samples|responses|steps)",
    re.IGNORECASE,
)
_WORDS = re.compile(r"[a-z]+")
_EVALUATION = frozenset(
    ("eval", "evals", "evaluation", "evaluations", "val", "valid", "validation", "heldout")
)
"""Not `test`: people try a loop out in files of that name."""


def place_of(path: PurePath) -> Place:
    """The step and the split by names like `step_12.jsonl`, `rollouts/12.json`, `eval/step_30/samples.jsonl`."""
    stem = path.name.partition(".")[0]
    names = (stem, path.parent.name, path.parent.parent.name)
    own = takewhile(is_part, names[1:])
    split = EVAL if any(map(_is_evaluation, (stem, *own))) else TRAIN
    for level, name in enumerate(names[:2]):
        found = _STEP.fullmatch(name)
        if found is not None:
            return Place(int(found["step"]), split, path.parents[level])
        if _NUMBER.fullmatch(name) and _OF_ROLLOUTS.fullmatch(names[level + 1]):
            return Place(int(name), split, path.parents[level])
    return Place(None, split)


def _is_evaluation(name: str) -> bool:
    words = set(_WORDS.findall(name.lower()))
    return is_part(name) and not words.isdisjoint(_EVALUATION)


class Numbering:
    """Tells whether what is called an index numbers a group's rollouts, or something else, as a data set's rows."""

    def __init__(self) -> None:
        self._is_another = False
        self._step: int | None = None
        self._last: dict[object, tuple[int, bool]] = {}
        """Group of the step → its last index, and whether it had others before."""

    def index(self, rollout: Mapping[str, Any]) -> int | None:
        """The rollout's index in its group; None where what it gives is none."""
        given = integer(rollout.get("index"))
        if given is None:
            return None
        if rollout["step"] != self._step:
            self._step, self._last = rollout["step"], {}
        group = rollout.get("group") or str(rollout.get("prompt") or rollout.get("messages"))
        last, several = self._last.get(group, (None, False))
        self._is_another = self._is_another or (last == given and not several)
        if self._is_another:
            given = None if last is None else last + 1  # what was given so far must stay another one's
        if given is not None:
            self._last[group] = given, last is not None
        return given
