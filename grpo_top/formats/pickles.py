"""What to switch on instead, where a trainer's rollouts are pickles: loading one would run the code in it."""

from __future__ import annotations

import re

_NEVER = "never loaded, since unpickling runs code"
_SKYRL = (
    "SkyRL dumps training rollouts as nothing else: trainer.logger=tensorboard for the numbers, and "
    "trainer.dump_eval_results=true (the default) for evaluations; log rollouts as JSON lines from your generator"
)
_SLIME = (
    "slime: --use-tensorboard for the numbers, and --custom-rollout-log-function-path with a function that appends "
    "each sample's to_dict() as a line of JSON; miles: --dump-details DIR writes trajectory/N.jsonl"
)
_INSTEAD = (
    (r"global_step_\d+_training_input\.pkl|(?:^|/)dumped_data/", _SKYRL),
    (r"(?:^|/)(?:rollout_data|train_data)/(?:eval_)?\d+\.pt|(?:^|[/_])(?:rollout|eval)_?\d+\.pt", _SLIME),
)


def explained(left_out: str) -> str:
    """A line about what is not read; where it names a trainer's pickled rollouts, with what to switch on instead."""
    if _NEVER not in left_out:
        return left_out
    found = next((instead for name, instead in _INSTEAD if re.search(name, _example(left_out))), None)
    return left_out if found is None else f"{left_out}. {found}"


def _example(left_out: str) -> str:
    """The name in `12 pickle files (e.g. a/b.pt): …`."""
    return left_out.partition("(e.g. ")[2].partition("): ")[0]
