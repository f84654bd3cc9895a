"""For TRL's GRPOTrainer: one line that logs all that grpo-top judges by.

    from grpo_top.trl_callback import GrpoTopCallback

    trainer.add_callback(GrpoTopCallback(trainer, "runs/a"))

It needs nothing but what training itself has. It looks at what two methods of the trainer take and return; where a
version of TRL has them no more, it says so at once and not in the middle of training.
"""

from __future__ import annotations

import hashlib
import inspect
import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any

from transformers import TrainerCallback

from grpo_top.recorder import RolloutLogger

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_log = logging.getLogger("grpo_top.recorder")

_SAMPLING = ("temperature", "top_p", "top_k", "min_p", "repetition_penalty")
_OWN_FIELDS = {
    "task": ("task", "task_id", "id", "index"),
    "family": ("family", "category", "domain", "data_source"),
    "tier": ("tier", "difficulty", "level"),
}
"""Field of a rollout → columns of the dataset, or names that a reward function gave to `log_extra`; the first wins."""
_OF_REWARD_FUNCTIONS = ("parsed", "termination", "verifier_error")
"""Names that a reward function may give to `log_extra` to fill these fields; any other becomes verifier output."""


class GrpoTopCallback(TrainerCallback):  # type: ignore[misc]  # transformers has no types here
    """Logs each rollout, step and evaluation of a trainer to `path`: a file for each process.

    An error while logging never ends training: the first one is told of through `logging`, all are counted in
    `errors`.

    Args:
        trainer: the GRPOTrainer that it is added to.
        path: folder for the log; it may be the trainer's output directory.
        facts: what `RolloutLogger` takes beside the path: `reward_range`, `success`, `env_version`, `run`, …
            The reward's version is by default a hash of its functions' code.

    Raises:
        TypeError: the trainer has not got the methods that are looked at.
    """

    def __init__(self, trainer: Any, path: str | Path, **facts: Any) -> None:
        for method in ("_calculate_rewards", "_generate_and_score_completions"):
            if not callable(getattr(trainer, method, None)):
                raise TypeError(
                    f"{type(trainer).__name__} has no {method}: this version of TRL is not known. "
                    "Set log_completions=True and point grpo-top at the output directory instead"
                )
        self.errors = 0
        self._trainer = trainer
        self._rank = int(trainer.accelerator.process_index)
        self._generation = 0
        self._scored: _Scored | None = None
        known = {
            "group_size": trainer.num_generations,
            "sampling": _intended(trainer.args),
            "reward_version": _reward_version(trainer),
            **facts,
        }
        main = known if self._rank == 0 else {}
        self._logger = RolloutLogger(Path(path) / f"grpo-top-{self._rank:03d}.jsonl", framework="trl", **main)
        self._calculate_rewards = trainer._calculate_rewards
        self._generate_and_score = trainer._generate_and_score_completions
        trainer._calculate_rewards = self._see_rewards
        trainer._generate_and_score_completions = self._see_rollouts

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """How long it will be is known now."""
        if self._rank == 0:
            self._logger.log_run(total_steps=state.max_steps if state.max_steps > 0 else None)

    def on_log(
        self, args: Any, state: Any, control: Any, logs: Mapping[str, Any] | None = None, **_: Any
    ) -> None:
        """The trainer's own numbers, of a step or of an evaluation."""
        if self._rank or not logs:
            return
        if "train_runtime" in logs:
            return  # the summary at the end, averages over all steps
        numbers = {
            name: value for name, value in logs.items() if isinstance(value, int | float) or value is None
        }
        held_out = {
            name.removeprefix("eval_"): value for name, value in numbers.items() if name.startswith("eval_")
        }
        if held_out:
            self._logger.log_eval(state.global_step, held_out)
        else:
            self._logger.log_step(state.global_step, numbers)

    def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Say that it has ended; an evaluation after it is still logged."""
        if self._rank == 0:
            self._logger.log_run(finished=True)

    def _see_rewards(
        self, inputs: Any, prompts: Any, completions: Any, ids: Any, *more: Any, **named: Any
    ) -> Any:
        rewards = self._calculate_rewards(inputs, prompts, completions, ids, *more, **named)
        extra = getattr(self._trainer, "_pending_extra_logs", {})
        self._scored = _Scored(
            inputs, prompts, completions, ids, rewards, {k: list(v) for k, v in extra.items()}
        )
        return rewards

    def _see_rollouts(self, *given: Any, **named: Any) -> Any:
        output = self._generate_and_score(*given, **named)
        scored, self._scored = self._scored, None
        try:
            if scored is not None:
                self._log_rollouts(scored, output)
        except Exception as error:
            self.errors += 1
            if self.errors == 1:
                _log.warning("rollouts could not be logged, and training goes on: %r", error)
        return output

    def _log_rollouts(self, scored: _Scored, output: Mapping[str, Any]) -> None:
        trainer, state = self._trainer, self._trainer.state
        training = bool(trainer.model.training)
        size = (
            trainer.num_generations
            if training
            else getattr(trainer, "num_generations_eval", trainer.num_generations)
        )
        count = len(scored.prompts)
        first = self._rank * count
        by_function = scored.rewards[first : first + count].tolist()
        weights = trainer.reward_weights.tolist()
        advantages = output["advantages"].reshape(count, -1)[:, 0].tolist()
        prompt_tokens = output["prompt_mask"].sum(1).tolist()
        deployed = _deployed(trainer)
        ends = _end_tokens(trainer)
        self._generation += 1
        for row in range(count):
            ids = scored.ids[row]
            named = dict(zip(trainer.reward_func_names, map(_known, by_function[row]), strict=True))
            values = [
                None if value is None else value * weight
                for value, weight in zip(named.values(), weights, strict=True)
            ]
            known = [value for value in values if value is not None]
            cut = len(ids) > 0 and int(ids[-1]) not in ends
            self._logger.log(
                state.global_step + int(training),
                f"{'' if training else 'eval '}{self._generation}.{(first + row) // size}",
                sum(known) if known else None,
                rewards=named,
                index=(first + row) % size,
                split=None if training else "eval",
                advantage=advantages[row],
                prompt_tokens=prompt_tokens[row],
                completion_tokens=len(ids),
                finish_reason="length" if cut else "stop",
                policy_version=state.global_step,
                trainer_version=state.global_step,
                sampling=deployed,
                sampler=f"rank {self._rank}",
                **_texts(scored.prompts[row], scored.completions[row]),
                **_columns(scored, row),
                **_log_probabilities(output, row, len(ids)),
            )


class _Scored:
    """What the reward functions were given and what they returned."""

    def __init__(
        self,
        inputs: Sequence[Mapping[str, Any]],
        prompts: Sequence[Any],
        completions: Sequence[Any],
        ids: Sequence[Sequence[int]],
        rewards: Any,
        extra: Mapping[str, Sequence[Any]],
    ) -> None:
        self.inputs, self.prompts, self.completions, self.ids = inputs, prompts, completions, ids
        self.rewards = rewards
        """(rollouts of all processes, reward functions); NaN where a function gave None."""
        self.extra = extra


def _intended(args: Any) -> dict[str, float]:
    """The sampling config that the arguments ask for."""
    found = {name: getattr(args, name, None) for name in _SAMPLING}
    found["max_tokens"] = getattr(args, "max_completion_length", None)
    return {name: value for name, value in found.items() if value is not None}


def _reward_version(trainer: Any) -> str:
    """Eight hexadecimal digits that change when the code of a reward function does."""
    code = [_code(function) for function in trainer.reward_funcs]
    return hashlib.sha256("\n".join(code).encode()).hexdigest()[:8]


def _code(function: Any) -> str:
    try:
        return inspect.getsource(function)
    except (OSError, TypeError):  # a reward model, or what was typed in
        return str(getattr(getattr(function, "config", None), "_name_or_path", type(function).__name__))


def _deployed(trainer: Any) -> dict[str, float]:
    """What the completions are really sampled with: of the generation config where this process generates itself."""
    source = (
        trainer if getattr(trainer, "use_vllm", False) else getattr(trainer, "generation_config", trainer)
    )
    found = {name: getattr(source, name, None) for name in _SAMPLING}
    found["max_tokens"] = getattr(source, "max_new_tokens", None) or getattr(
        trainer, "max_completion_length", None
    )
    return {name: value for name, value in found.items() if value is not None}


def _end_tokens(trainer: Any) -> set[int]:
    """Tokens that end a completion by its own choice, under the names of this version of TRL or of an older one."""
    tokenizer = getattr(trainer, "_tokenizer", None) or trainer.processing_class
    found = getattr(trainer, "eos_token_ids", None) or [
        getattr(trainer, "eos_token_id", tokenizer.eos_token_id)
    ]
    return {*found, getattr(trainer, "pad_token_id", tokenizer.pad_token_id)}


def _texts(prompt: Any, completion: Any) -> dict[str, Any]:
    """Plain text, or the turns of a conversation."""
    if isinstance(prompt, str) and isinstance(completion, str):
        return {"prompt": prompt, "completion": completion}
    turns = [*_turns(prompt, "user"), *_turns(completion, "assistant")]
    return {"messages": turns}


def _turns(part: Any, role: str) -> list[Any]:
    return part if isinstance(part, list) else [{"role": role, "content": part}]


def _columns(scored: _Scored, row: int) -> dict[str, Any]:
    """What the dataset and the reward functions say of a rollout."""
    extra = {name: values[row] for name, values in scored.extra.items() if row < len(values)}
    asked = scored.inputs[row]
    found: dict[str, Any] = {}
    for field, names in _OWN_FIELDS.items():
        value = next(
            (place[name] for name in names for place in (extra, asked) if place.get(name) is not None), None
        )
        if value is not None:
            found[field] = str(value)
    for name in _OF_REWARD_FUNCTIONS:
        if (value := extra.pop(name, None)) is not None:
            found[name] = value if name == "parsed" else str(value)
    if extra:
        found["verifier_raw"] = {
            name: value if _is_plain(value) else str(value) for name, value in extra.items()
        }
    return found


def _log_probabilities(output: Mapping[str, Any], row: int, length: int) -> dict[str, Any]:
    """Of the sampler and of the trainer, where both are known."""
    sampler, trainer = output.get("sampling_per_token_logps"), output.get("old_per_token_logps")
    if sampler is None or trainer is None:
        return {}
    return {
        "logprobs_sampler": sampler[row][:length].tolist(),
        "logprobs_trainer": trainer[row][:length].tolist(),
    }


def _known(value: float) -> float | None:
    """A function that gave no reward leaves NaN."""
    return None if value != value else value  # noqa: PLR0124


def _is_plain(value: object) -> bool:
    return isinstance(value, str | int | float | bool | None)
