"""For custom training loops: writes grpo-top/1 records, one a line, for `grpo-top` to read while they grow.

    from grpo_top.recorder import RolloutLogger

    log = RolloutLogger("runs/a/rollouts.jsonl", group_size=8, sampling={"temperature": 1.0, "max_tokens": 512})
    log.log(step, group, reward, prompt=prompt, completion=completion, policy_version=version)
    log.log_step(step, {"kl": kl, "entropy": entropy, "loss": loss})

With TRL, `trainer.add_callback(GrpoTopCallback(trainer, "runs/a"))` does it all.

It needs orjson alone. A record is one append of a whole line, so that several threads and processes of one machine
may write to one file, and a crash leaves whole lines. Over a network file system give each process a file of its own.
"""

from __future__ import annotations

import importlib
import json
import logging
import math
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import TracebackType
    from typing import Self

    from grpo_top.trl_callback import GrpoTopCallback as GrpoTopCallback  # noqa: PLC0414  see `__getattr__`

SCHEMA = "grpo-top/1"
Number = float | int

_log = logging.getLogger("grpo_top.recorder")


class RolloutLogger:
    """Appends a run's records to one file.

    A disk that is full must not end training: a record that cannot be written is counted in `lost`, and the first
    one is told of through `logging`.

    Args:
        path: the file; its folder is made where there is none. Records of an earlier part of the run stay.
        run, framework, algorithm: what to call it.
        group_size: completions a prompt.
        sampling: the *intended* config, such as `{"temperature": 1.0, "top_p": 1.0, "max_tokens": 512}`.
        version_lag_tolerance: how many policy versions a rollout may lag behind the trainer.
        reward_range: the lowest and the highest reward there can be.
        success: what counts as success: `("reward", 1.0)` or a component's name and the least it must be.
        env_version, reward_version: of the environment and of the reward's code.
        total_steps: how many there will be.
        config: anything else that is worth keeping beside the run.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        run: str | None = None,
        framework: str | None = None,
        algorithm: str | None = "GRPO",
        group_size: int | None = None,
        sampling: Mapping[str, Number] | None = None,
        version_lag_tolerance: Number | None = None,
        reward_range: tuple[Number, Number] | None = None,
        success: tuple[str, Number] | None = None,
        env_version: str | None = None,
        reward_version: str | None = None,
        total_steps: int | None = None,
        config: Mapping[str, Any] | None = None,
    ) -> None:
        self.path = Path(path)
        self.lost = 0
        """Records that could not be written."""
        self._file = _open(self.path)
        self.log_run(
            run=run,
            framework=framework,
            algorithm=algorithm,
            group_size=group_size,
            sampling=sampling,
            version_lag_tolerance=version_lag_tolerance,
            reward_range=reward_range,
            success=None if success is None else {"of": success[0], "at_least": success[1]},
            env_version=env_version,
            reward_version=reward_version,
            total_steps=total_steps,
            config=config,
        )

    def log_run(self, **facts: Any) -> None:
        """What is known of the run, at its start and again where something of it changes; see the class."""
        self._write({"kind": "run", "schema": SCHEMA, **_known(facts)})

    def log(
        self,
        step: int,
        group: str | int,
        reward: Number | None,
        *,
        rewards: Mapping[str, Number | None] | None = None,
        prompt: str | None = None,
        completion: str | None = None,
        messages: Sequence[Mapping[str, Any]] | None = None,
        index: int | None = None,
        split: str | None = None,
        task: str | int | None = None,
        family: str | None = None,
        tier: str | int | None = None,
        verifier_raw: Any = None,
        verifier_error: str | None = None,
        parsed: bool | None = None,
        advantage: Number | None = None,
        prompt_tokens: int | None = None,
        completion_tokens: int | None = None,
        finish_reason: str | None = None,
        truncated: bool | None = None,
        termination: str | None = None,
        policy_version: int | tuple[int, int] | None = None,
        trainer_version: int | None = None,
        sampling: Mapping[str, Number] | None = None,
        sampler: str | None = None,
        seed: int | None = None,
        logprobs_sampler: Sequence[float] | None = None,
        logprobs_trainer: Sequence[float] | None = None,
        tokens: Sequence[str] | None = None,
        env_version: str | None = None,
        reward_version: str | None = None,
    ) -> None:
        """One rollout. What is left out is unknown, which is never taken for zero.

        Args:
            step: the optimizer step that trains on it.
            group: what its siblings share; unique within the step.
            reward: the total that the advantage is made of; None where the verifier gave none.
            rewards: its components by name.
            prompt, completion: its text; or `messages`, turns of `{"role", "content", "tool_calls", "reward"}`.
            index: its number within the group.
            split: `eval` for a held-out rollout.
            task, family, tier: id of the task, kind of task, difficulty.
            verifier_raw, verifier_error: what the verifier printed, and how it failed.
            parsed: whether an answer was found in the text.
            advantage: as the trainer uses it.
            finish_reason: as the engine says it: `stop`, `length`, …; `truncated` where it says only that.
            termination: why the episode ended, in the environment's words.
            policy_version: of the weights that sampled it; first and last where it spans several.
            trainer_version: of the weights that it updates.
            sampling: the *deployed* config: what this request was really sampled with.
            sampler: host or engine.
            logprobs_sampler, logprobs_trainer: of its tokens, by the engine and by the trainer.
            tokens: their texts, one for each log-probability, so that the text itself can be coloured.
        """
        record = {
            "kind": "rollout",
            "step": step,
            "group": group,
            "reward": reward,
            **_known(
                {
                    "rewards": rewards,
                    "prompt": prompt,
                    "completion": completion,
                    "messages": messages,
                    "index": index,
                    "split": split,
                    "task": task,
                    "family": family,
                    "tier": tier,
                    "parsed": parsed,
                    "advantage": advantage,
                    "prompt_tokens": prompt_tokens,
                    "completion_tokens": completion_tokens,
                    "finish_reason": finish_reason,
                    "truncated": truncated,
                    "termination": termination,
                    "policy_version": policy_version,
                    "trainer_version": trainer_version,
                    "sampling": sampling,
                    "sampler": sampler,
                    "seed": seed,
                    "env_version": env_version,
                    "reward_version": reward_version,
                }
            ),
            "time": time.time(),
        }
        if verifier_raw is not None or verifier_error is not None:
            record["verifier"] = _known({"raw": verifier_raw, "error": verifier_error})
        if logprobs_sampler is not None or logprobs_trainer is not None:
            record["logprobs"] = _known(
                {"sampler": logprobs_sampler, "trainer": logprobs_trainer, "tokens": tokens}
            )
        self._write(record)

    def log_step(self, step: int, metrics: Mapping[str, Number | None]) -> None:
        """The trainer's own numbers of one optimizer step, under whatever names: `kl`, `entropy`, `loss`, …"""
        self._write({"kind": "step", "step": step, "metrics": metrics, "time": time.time()})

    def log_eval(self, step: int, metrics: Mapping[str, Number | None], suite: str = "heldout") -> None:
        """One held-out evaluation after `step`: `{"reward": 0.61}` or the like."""
        self._write({"kind": "eval", "step": step, "suite": suite, "metrics": metrics, "time": time.time()})

    def finish(self) -> None:
        """Say that training has ended, and close."""
        self.log_run(finished=True)
        self.close()

    def close(self) -> None:
        """Close the file; nothing is buffered, so that nothing is lost without it."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _write(self, record: dict[str, Any]) -> None:
        line = _line(record)
        try:
            written = os.write(self._file, line)
            while written < len(line):
                written += os.write(self._file, line[written:])
        except OSError as error:
            self.lost += 1
            if self.lost == 1:
                _log.warning("%s: %s; records are lost and training goes on", self.path, error.strerror)


def _open(path: Path) -> int:
    """The file, ready to append; a line that a crash left without its end gets one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
    size = os.fstat(file).st_size
    if size and os.pread(file, 1, size - 1) != b"\n":
        os.write(file, b"\n")
    return file


def _known(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


def _line(record: dict[str, Any]) -> bytes:
    """One line. Numbers that are not finite and halves of surrogate pairs, which orjson has no way to write, take the
    slower way: they must not turn into null, which means unknown. A line without a null holds no such number.
    """
    try:
        line = orjson.dumps(record, _plain, _OPTIONS)
        if b"null" not in line or _finite(record):
            return line
    except TypeError:
        pass
    return json.dumps(record, default=_plain).encode() + b"\n"


def __getattr__(name: str) -> Any:
    """`GrpoTopCallback`, which needs transformers: imported by whoever asks for it."""
    if name == "GrpoTopCallback":
        return importlib.import_module("grpo_top.trl_callback").GrpoTopCallback
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


_OPTIONS = orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_APPEND_NEWLINE | orjson.OPT_NON_STR_KEYS


def _finite(value: object) -> bool:
    """Whether every number in it is finite."""
    if isinstance(value, float):
        return math.isfinite(value)
    if isinstance(value, dict):
        return all(map(_finite, value.values()))
    if isinstance(value, list | tuple):
        return _sum_is_finite(value)
    if isinstance(value, str | int | None):
        return True
    return _finite(_plain(value))


def _sum_is_finite(values: Sequence[Any]) -> bool:
    """As `_finite`, quick for a list of numbers: their sum shows whether one of them is not finite."""
    try:
        return math.isfinite(sum(values)) or all(map(_finite, values))
    except TypeError:
        return all(map(_finite, values))


def _plain(value: Any) -> Any:
    """What an array, a tensor or a scalar of another library holds."""
    if hasattr(value, "tolist"):
        return value.tolist()
    if hasattr(value, "item"):
        return value.item()
    if isinstance(value, Path):
        return str(value)
    raise TypeError(
        f"a {type(value).__name__} cannot be logged: give numbers, strings, lists or dictionaries"
    )
