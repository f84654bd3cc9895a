"""One row of TRL's log, wherever it was found: in the trainer state or printed."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from grpo_top.records import NOWHERE, Eval, Step

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from grpo_top.records import Location

NAME = "trl"

_ABOUT_ROLLOUTS = ("reward", "completion", "frac_reward_zero_std")
_EVAL_RUNTIME = re.compile(r"eval_(?P<suite>.+)_runtime")
_COUNTERS = frozenset(("step", "epoch"))


def is_grpo(row: Mapping[str, object]) -> bool:
    """Whether a row of a log tells of rewards and completions."""
    return any(key.removeprefix("eval_").startswith(_ABOUT_ROLLOUTS) for key in row)


def row_records(
    step: int, metrics: Mapping[str, float | None], rank: int, location: Location = NOWHERE
) -> Iterator[Step | Eval]:
    """An evaluation where keys say `eval_` (they lose it, the others are left out), else a step.

    With several evaluation sets each key names its set (`eval_math_reward`); the runtime's key tells which.
    """
    evaluated = {key: value for key, value in metrics.items() if key.startswith("eval_")}
    if not evaluated:
        trained = {key: value for key, value in metrics.items() if key not in _COUNTERS}
        yield Step(step, trained, rank=rank, location=location)
    else:
        named = next((match for key in evaluated if (match := _EVAL_RUNTIME.fullmatch(key))), None)
        suite = named["suite"] if named else "heldout"
        prefix = f"eval_{suite}_" if named else "eval_"
        values = {key.removeprefix(prefix).removeprefix("eval_"): value for key, value in evaluated.items()}
        yield Eval(step, values, suite, rank=rank, location=location)
