"""The vocabulary: the six kinds of record that every source is turned into.

Nothing past the format adapters knows a framework's name or file layout. A field that a source does not
carry is `None`: unknown, which is never zero, never "ok" and never an alarm. A number that is not finite
stays the float it is (`nan`, `inf`): it is counted and shown, and never averaged in.

The records are named tuples and not dataclasses because one is made for each rollout that is read, and a
named tuple is both immutable and the cheapest object to make.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

TRAIN, EVAL = "train", "eval"
REQUEST = "request"
"""In place of a split: a rollout as an inference engine's log shows it, from whoever asked, without a reward."""
SCHEMA = "grpo-top/1"

SamplingValue = float | int | str
Sampling = dict[str, SamplingValue]


class Location(NamedTuple):
    """Where a record lies, so that its text can be read again when it is asked for."""

    offset: int
    """Byte offset of its line (in the decompressed stream), or row number in a table file."""
    length: int
    """Bytes of its line without the newline; 0 where `offset` is a row number."""
    part: int = 0
    """Which of several rollouts that one line holds (columnar or grouped formats)."""


NOWHERE = Location(-1, 0)


class Success(NamedTuple):
    """What a run counts as success: `of` is `reward` or a component's name."""

    of: str
    at_least: float


class Run(NamedTuple):
    """What is known of the run as a whole; read again whenever something in it changes. Absent = unknown."""

    run: str | None = None
    framework: str | None = None
    algorithm: str | None = None
    group_size: int | None = None
    sampling: Sampling | None = None
    """The intended sampling config, under the names of `normal_sampling`."""
    version_lag_tolerance: float | None = None
    reward_range: tuple[float, float] | None = None
    success: Success | None = None
    env_version: str | None = None
    reward_version: str | None = None
    total_steps: int | None = None
    config: Mapping[str, Any] | None = None
    finished: bool | None = None
    """True where the source itself says that training has ended."""
    drops_flat_groups: bool | None = None
    """True where groups without variance never reach the log: their share is then unknown, not 0."""
    recording: str | None = None
    """A label for the screen where this is a recording played back, not a live run."""
    some_rollouts: bool | None = None
    """True where the log holds a few of each step's rollouts: groups are in pieces, and the trainer's numbers stand."""


class Message(NamedTuple):
    """One turn of a conversation."""

    role: str
    content: str
    tool_calls: Sequence[Mapping[str, Any]] = ()
    reward: float | None = None


class Rollout(NamedTuple):
    """One trajectory. `prompt`, `completion` and `messages` are measured and then let go: only `location` is kept."""

    step: int
    group: str | None
    """The source's own group id; None where groups are equal prompts of one step."""
    reward: float | None
    index: int | None = None  # type: ignore[assignment]  # hides tuple.index, which nobody calls on a record
    rewards: Mapping[str, float | None] | None = None
    split: str | None = TRAIN
    """`train`, `eval` or `request`; None where the source cannot say (the trainer's own numbers then decide)."""
    task: str | None = None
    family: str | None = None
    tier: str | None = None
    prompt: str | None = None
    completion: str | None = None
    messages: Sequence[Message] | None = None
    verifier_raw: str | None = None
    verifier_error: str | None = None
    parsed: bool | None = None
    advantage: float | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    finish_reason: str | None = None
    """`stop`, `length`, … as the engine says it; `length` is truncation."""
    truncated: bool | None = None
    """Said by the source, or None: then `finish_reason` decides."""
    termination: str | None = None
    policy_version: int | None = None
    """First policy version that sampled it."""
    policy_version_end: int | None = None
    """Last policy version that sampled it, where it spans several."""
    trainer_version: int | None = None
    sampling: Sampling | None = None
    """The deployed sampling config, under the names of `normal_sampling`."""
    sampler: str | None = None
    seed: int | None = None
    logprobs_sampler: Sequence[float] | None = None
    logprobs_trainer: Sequence[float] | None = None
    env_version: str | None = None
    reward_version: str | None = None
    time: float | None = None
    location: Location = NOWHERE
    tokens: Sequence[str] | None = None
    """The completion's tokens as text, one for each log-probability."""


class Step(NamedTuple):
    """The trainer's own numbers for one optimizer step, under the trainer's own names."""

    step: int
    metrics: Mapping[str, float | None]
    """null is unknown (several trainers write null for what is not logged), `nan` and `inf` are not finite."""
    time: float | None = None
    rank: int = 1
    """Precedence where two sources give one number: 0 printed and rounded, 1 a log, 2 the trainer's own state."""
    writer: str = ""
    """Which of several processes wrote it, where they append to one file and each is at a step of its own."""
    location: Location = NOWHERE


class Eval(NamedTuple):
    """One held-out evaluation, numbers under the trainer's own names without an `eval_` prefix."""

    step: int
    metrics: Mapping[str, float | None]
    suite: str = "heldout"
    time: float | None = None
    rank: int = 1
    location: Location = NOWHERE


class SamplerLook(NamedTuple):
    """One look at a live inference server: what it would sample with, and which weights it holds."""

    sampler: str
    sampling: Sampling | None = None
    """What it resolves where a request leaves everything out, under the names of `normal_sampling`."""
    weight_version: str | None = None
    counters: Mapping[str, float] | None = None
    """Totals that only grow, until the server restarts: `requests`, `finish{stop}`, `generation_tokens`, …"""
    time: float | None = None
    engine: str | None = None
    """`vllm`, `sglang`, …"""
    model: str | None = None
    origins: Mapping[str, str] | None = None
    """Setting → how its value gets there, in words: `the model's generation_config.json`."""
    gauges: Mapping[str, float] | None = None
    """What rises and falls: `running`, `waiting`, `cache_use`."""
    unknown: Sequence[str] = ()
    """What could not be asked, and which flag of the server opens it: one line each."""


class FleetPoint(NamedTuple):
    """One number over all samplers of a fleet, at one time. NaN is unknown."""

    time: float
    """Seconds since the epoch."""
    samplers: int
    median: float
    lowest: float
    highest: float


class FleetLook(NamedTuple):
    """What a Prometheus server says of one number over all samplers, since the look before."""

    name: str
    points: Sequence[FleetPoint]
    """Ascending in time."""
    lowest: str = ""
    """Who holds the lowest value of the last point; likewise below."""
    highest: str = ""
    unit: str = ""
    """`share` for fractions of 1, `count` for whole numbers, else what is written after the number."""
    worse: str = ""
    """`high` or `low`: which end is the bad one; empty where either may be."""


class Grade(NamedTuple):
    """A person's score of one rollout."""

    rollout: Location
    score: float
    note: str = ""
    time: float | None = None


class Skipped(NamedTuple):
    """A record that could not be read: where, and why. The next one is read all the same."""

    reason: str
    offset: int
    line: int | None = None


Record = Run | Rollout | Step | Eval | SamplerLook | FleetLook | Grade | Skipped

_SAMPLING_NAMES = {
    "max_new_tokens": "max_tokens",
    "max_completion_length": "max_tokens",
    "max_completion_tokens": "max_tokens",
    "max_response_length": "max_tokens",
    "response_length": "max_tokens",
    "max_generation_tokens": "max_tokens",
}
_PAST_ANY_VOCABULARY = 1 << 24
SAMPLING_ORDER = (
    "temperature",
    "top_p",
    "top_k",
    "min_p",
    "repetition_penalty",
    "presence_penalty",
    "frequency_penalty",
    "max_tokens",
)
"""The parameters that change what is sampled, in the order in which a screen lists them."""


def normal_sampling(raw: Mapping[str, Any] | None) -> Sampling | None:
    """A framework's sampling config under one set of names; None where there is none.

    `top_k` of -1 and 0 both mean "no limit" (vLLM and SGLang write one, Transformers the other) and become 0; so does
    one past any vocabulary, as AReaL and SGLang itself have it.
    Values that are absent, or no number or word, are left out: unknown.
    """
    if not raw:
        return None
    found: Sampling = {}
    for key, value in raw.items():
        name = _SAMPLING_NAMES.get(key, key)
        if name not in SAMPLING_ORDER or value is None or isinstance(value, bool):
            continue
        number = _sampling_number(value)
        if number is not None:
            found[name] = 0 if name == "top_k" and not 0 < number < _PAST_ANY_VOCABULARY else number
    return found or None


def _sampling_number(value: object) -> float | int | None:
    if isinstance(value, int | float):
        return value
    if isinstance(value, str):
        try:
            return float(value)
        except ValueError:
            return None
    return None
