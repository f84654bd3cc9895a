"""grpo-top/1: the project's own log, one record a line; what a custom training loop writes.

The shapes are those of `grpo_top.records`; each line says what it is under `kind`. Rollout lines are read by the
hundred thousand, so their path is written for speed: one parse, one look at each field.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, ClassVar

import orjson

from grpo_top.formats.base import Claim, Format, Reader
from grpo_top.formats.conversation import conversation, texts
from grpo_top.formats.decode import (
    LARGEST,
    bare,
    head_records,
    integer,
    number,
    numbers,
    parse_record,
    text,
    timestamp,
    written,
)
from grpo_top.records import (
    EVAL,
    SCHEMA,
    TRAIN,
    Eval,
    Grade,
    Location,
    Rollout,
    Run,
    SamplerLook,
    Skipped,
    Step,
    Success,
    normal_sampling,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import PurePath

    from grpo_top.formats.base import RunContext
    from grpo_top.records import Record, Sampling
    from grpo_top.sources.lines import Lines

_KINDS = ("rollout", "step", "eval", "run", "sampler", "grade")
_SAMPLINGS_KEPT = 256
_new = tuple.__new__
"""Makes a named tuple from all of its fields in order, at a seventh of what calling its class costs."""


class Native(Format):
    """Reads grpo-top/1 logs."""

    name: ClassVar[str] = "grpo-top"
    surest: int = 99
    rollouts_hint: ClassVar[str] = "write `rollout` records: see the README"

    def claim(self, path: PurePath, head: bytes) -> Claim | None:
        """Lines with a `kind` that grpo-top/1 has."""
        confidence = max(map(_confidence, head_records(head)), default=0)
        return Claim(confidence, "lines", "rollouts", f"grpo-top {path}", 3) if confidence else None

    def reader(self, path: PurePath, claim: Claim, context: RunContext) -> NativeReader:  # noqa: ARG002
        """A reader of grpo-top/1 lines."""
        return NativeReader(context)


def _confidence(record: Mapping[str, Any]) -> int:
    kind = record.get("kind")
    if kind not in _KINDS:
        return 0
    if str(record.get("schema", "")).startswith("grpo-top/"):
        return 99
    needed = {"rollout": {"step", "reward"}, "step": {"step", "metrics"}, "eval": {"step", "metrics"}}
    return 90 if needed.get(kind, {"schema"}) <= record.keys() else 30


class NativeReader(Reader):
    """Reads grpo-top/1 lines."""

    def __init__(self, context: RunContext) -> None:
        self._context = context
        self._samplings: dict[tuple[tuple[str, Any], ...], Sampling | None] = {}
        self._last_sampling: tuple[dict[str, Any], Sampling | None] = ({}, None)
        self._others: dict[object, Callable[[dict[str, Any], Location], Record]] = {
            "run": self._run,
            "step": _step,
            "eval": _eval,
            "sampler": _sampler,
            "grade": _grade,
        }

    def fresh(self) -> NativeReader:
        """A reader that has read nothing."""
        return NativeReader(self._context)

    def feed(self, lines: Lines) -> list[Record]:
        """One record a line; a line that is none gives a `Skipped`, an empty one nothing."""
        found: list[Record] = []
        take, loads, read_rollout = found.append, orjson.loads, self._rollout
        offset, line_number = lines.offset, lines.first_number
        for line in lines.lines:
            length = len(line)
            try:
                if not length:
                    continue
                try:
                    raw = loads(line)
                    kind = raw["kind"]
                except (orjson.JSONDecodeError, KeyError, TypeError):
                    if not bare(line):
                        continue
                    raw = parse_record(bare(line))
                    kind = raw.get("kind")
                location = _new(Location, (offset, length, 0))
                take(read_rollout(raw, location) if kind == "rollout" else self.record(raw, location))
            except ValueError as error:
                take(Skipped(str(error), offset, line_number))
            finally:
                offset += length + 1
                line_number += 1
        return found

    def record(self, raw: dict[str, Any], location: Location) -> Record:
        """The record that an object stands for; ValueError with a short reason where it stands for none."""
        kind = raw.get("kind")
        if kind == "rollout":
            return self._rollout(raw, location)
        read = self._others.get(kind) if isinstance(kind, str) else None
        if read is None:
            raise ValueError("record without a kind" if kind is None else f"unknown kind {kind!r:.40}")
        return read(raw, location)

    def _rollout(self, raw: dict[str, Any], location: Location) -> Rollout:
        get = raw.get
        step = get("step")
        if type(step) is not int or step > LARGEST:
            step = _step_number(raw, "rollout")
        reward = get("reward")
        if type(reward) is not float and reward is not None:
            reward = _reward(reward)
        rewards = get("rewards")
        if type(rewards) is dict:
            for component in rewards.values():
                if type(component) is not float:
                    rewards = numbers(rewards)
                    break
        else:
            rewards = None
        group, prompt, completion = get("group"), get("prompt"), get("completion")
        verifier, logprobs = get("verifier"), get("logprobs")
        index, parsed, truncated = get("index"), get("parsed"), get("truncated")
        policy, policy_end = get("policy_version"), None
        if type(policy) is list:
            policy, policy_end = (policy[0], policy[-1]) if policy else (None, None)
        messages = get("messages")
        if type(messages) is list or type(prompt) is list or type(completion) is list:
            messages = conversation(messages) if type(messages) is list else conversation(prompt, completion)
            prompt, completion = texts(prompt), texts(completion)
        else:
            messages = None
        raw_verifier = error = None
        if type(verifier) is dict:
            raw_verifier, error = verifier.get("raw"), verifier.get("error")
        sampler_logprobs = trainer_logprobs = tokens = None
        if type(logprobs) is dict:
            tokens = _tokens(logprobs.get("tokens"))
            sampler_logprobs, trainer_logprobs = (
                _floats(logprobs.get("sampler")),
                _floats(logprobs.get("trainer")),
            )
        advantage, sampling, seconds = get("advantage"), get("sampling"), get("time")
        # Each `value` is looked at where it stands: calling a function for it would take twice the time.
        return _new(
            Rollout,
            (
                step,
                group if type(group) is str else text(group),
                reward,
                index if type(index) is int else integer(index),
                rewards,
                EVAL if get("split") == EVAL else TRAIN,
                value if (value := get("task")) is None or type(value) is str else text(value),
                value if (value := get("family")) is None or type(value) is str else text(value),
                value if (value := get("tier")) is None or type(value) is str else text(value),
                prompt if prompt is None or type(prompt) is str else text(prompt),
                completion if completion is None or type(completion) is str else text(completion),
                messages,
                raw_verifier if type(raw_verifier) is str else written(raw_verifier),
                None if error is None else written(error),
                parsed if type(parsed) is bool else None,
                advantage if advantage is None or type(advantage) is float else number(advantage),
                None if (value := get("prompt_tokens")) is None else _integer(value),
                None if (value := get("completion_tokens")) is None else _integer(value),
                value if (value := get("finish_reason")) is None or type(value) is str else text(value),
                truncated if type(truncated) is bool else None,
                value if (value := get("termination")) is None or type(value) is str else text(value),
                None if policy is None else _integer(policy),
                None if policy_end is None else _integer(policy_end),
                None if (value := get("trainer_version")) is None else _integer(value),
                self._sampling(sampling) if type(sampling) is dict else None,
                value if (value := get("sampler")) is None or type(value) is str else text(value),
                None if (value := get("seed")) is None else _integer(value),
                sampler_logprobs,
                trainer_logprobs,
                value if (value := get("env_version")) is None or type(value) is str else text(value),
                value if (value := get("reward_version")) is None or type(value) is str else text(value),
                None if seconds is None else timestamp(seconds),
                location,
                tokens,
            ),
        )

    def _sampling(self, raw: dict[str, Any]) -> Sampling | None:
        """`normal_sampling`, remembered: a run's lines repeat a handful of configs, and mostly the last one."""
        if raw != self._last_sampling[0]:
            self._last_sampling = raw, self._remembered_sampling(raw)
        return self._last_sampling[1]

    def _remembered_sampling(self, raw: dict[str, Any]) -> Sampling | None:
        key = tuple(raw.items())
        try:
            return self._samplings[key]
        except TypeError:
            return normal_sampling(raw)
        except KeyError:
            if len(self._samplings) >= _SAMPLINGS_KEPT:
                self._samplings.clear()
            self._samplings[key] = found = normal_sampling(raw)
            return found

    def _run(self, raw: dict[str, Any], _: Location) -> Run:
        schema = raw.get("schema", SCHEMA)
        if schema != SCHEMA:
            raise ValueError(f"schema {schema!r:.40} is not {SCHEMA}")
        framework = text(raw.get("framework"))
        if framework:
            self._context.framework = framework
        config, drops_flat = raw.get("config"), raw.get("drops_flat_groups")
        return Run(
            run=text(raw.get("run")),
            framework=framework,
            algorithm=text(raw.get("algorithm")),
            group_size=integer(raw.get("group_size")),
            sampling=normal_sampling(_mapping(raw.get("sampling"))),
            version_lag_tolerance=number(raw.get("version_lag_tolerance")),
            reward_range=_reward_range(raw.get("reward_range")),
            success=_success(raw.get("success")),
            env_version=text(raw.get("env_version")),
            reward_version=text(raw.get("reward_version")),
            total_steps=integer(raw.get("total_steps")),
            config=config if isinstance(config, dict) else None,
            finished=raw.get("finished") if isinstance(raw.get("finished"), bool) else None,
            drops_flat_groups=drops_flat if isinstance(drops_flat, bool) else None,
            recording=text(raw.get("recording")),
        )


def _step(raw: dict[str, Any], location: Location) -> Step:
    return Step(
        _step_number(raw, "step"), _metrics(raw, "step"), timestamp(raw.get("time")), location=location
    )


def _eval(raw: dict[str, Any], location: Location) -> Eval:
    metrics = {key.removeprefix("eval_"): value for key, value in _metrics(raw, "eval").items()}
    suite = text(raw.get("suite")) or "heldout"
    return Eval(_step_number(raw, "eval"), metrics, suite, timestamp(raw.get("time")), location=location)


def _sampler(raw: dict[str, Any], _: Location) -> SamplerLook:
    name = text(raw.get("sampler"))
    if name is None:
        raise ValueError("sampler record without a sampler")
    return SamplerLook(
        name,
        normal_sampling(_mapping(raw.get("sampling"))),
        text(raw.get("weight_version")),
        _known_numbers(raw.get("counters")),
        timestamp(raw.get("time")),
        text(raw.get("engine")),
        text(raw.get("model")),
        {name: origin for name, origin in (_mapping(raw.get("origins")) or {}).items() if text(origin)}
        or None,
        _known_numbers(raw.get("gauges")),
        tuple(line for line in _list(raw.get("unknown")) if isinstance(line, str)),
    )


def _known_numbers(values: object) -> dict[str, float] | None:
    return {key: value for key, value in numbers(values).items() if value is not None} or None


def _grade(raw: dict[str, Any], _: Location) -> Grade:
    score = number(raw.get("score"))
    where = _mapping(raw.get("rollout")) or {}
    offset, length = integer(where.get("offset")), integer(where.get("length"))
    if score is None or not math.isfinite(score):
        raise ValueError("grade without a score")
    if offset is None or length is None:
        raise ValueError("grade without the location of its rollout")
    location = Location(offset, length, integer(where.get("part")) or 0)
    return Grade(location, score, text(raw.get("note")) or "", timestamp(raw.get("time")))


def _step_number(raw: dict[str, Any], kind: str) -> int:
    value = raw.get("step")
    found = None if isinstance(value, str) else integer(value)
    if found is None:
        raise ValueError(f"{kind} without a step" if value is None else f"{kind} whose step is no integer")
    return found


def _reward(value: object) -> float:
    found = None if isinstance(value, str) else number(value)
    if found is None:
        raise ValueError(f"rollout whose reward is a {type(value).__name__}")
    return found


def _metrics(raw: dict[str, Any], kind: str) -> dict[str, float | None]:
    metrics = raw.get("metrics")
    if type(metrics) is not dict:
        raise ValueError(f"{kind} without metrics")
    return numbers(metrics)


def _integer(value: object) -> int | None:
    return value if type(value) is int and value < LARGEST else integer(value)


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _mapping(value: object) -> dict[str, Any] | None:
    return value if isinstance(value, dict) else None


def _reward_range(value: object) -> tuple[float, float] | None:
    if not isinstance(value, list) or len(value) != 2:
        return None
    low, high = number(value[0]), number(value[1])
    return (low, high) if low is not None and high is not None and low < high else None


def _success(value: object) -> Success | None:
    raw = _mapping(value) or {}
    of, at_least = raw.get("of"), number(raw.get("at_least"))
    return Success(of, at_least) if isinstance(of, str) and at_least is not None else None


def _tokens(values: object) -> list[str] | None:
    """Texts of tokens; None unless every one is a text."""
    if type(values) is not list or any(type(value) is not str for value in values):
        return None
    return values


def _floats(values: object) -> list[float] | None:
    """Log-probabilities as they are; null inside (a masked token) becomes NaN, so that the length stays."""
    if type(values) is not list:
        return None
    try:
        sum(values)
    except TypeError:
        found = [math.nan if value is None else number(value) for value in values]
        return None if None in found else [value for value in found if value is not None]
    return values
