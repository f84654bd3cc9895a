"""miles' `dashboard/metrics.jsonl`: one row for each time that something was logged."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from grpo_top.formats.decode import integer, number, numbers, text, timestamp
from grpo_top.formats.jsonl import JsonLinesReader
from grpo_top.records import Eval, Run, Step

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from grpo_top.formats.base import RunContext
    from grpo_top.records import Location, Record

NAME = "miles"
_OF_ROLLOUTS, _FLAT = "rollout/response_len/mean", "rollout/zero_std/count_"


def steps_per_rollout(args: Mapping[str, Any]) -> int:
    """Optimizer steps that are made of one rollout, by the run's arguments; 1 where they do not say."""
    said = integer(args.get("num_steps_per_rollout"))
    if said:
        return max(said, 1)
    sizes = [
        integer(args.get(name))
        for name in ("rollout_batch_size", "n_samples_per_prompt", "global_batch_size")
    ]
    if None in sizes or not sizes[2]:
        return 1
    prompts, samples, batch = (size or 0 for size in sizes)
    return max(prompts * samples // batch, 1)


def with_flat_share(row: dict[str, float | None], groups: int | None) -> dict[str, float | None]:
    """A row with the share of groups without variance, of which the trainer logs counts, and none where there are none.

    `groups`: how many there are in a step, by the run's arguments; None where they do not say.
    """
    if not groups or _OF_ROLLOUTS not in row:
        return row
    flat = sum(value or 0.0 for key, value in row.items() if key.startswith(_FLAT))
    return row | {"rollout/zero_std/frac": flat / groups}


class MetricsReader(JsonLinesReader):
    """Reads rows: two for each rollout, one for each optimizer step (which are counted apart), one an evaluation."""

    def __init__(self, context: RunContext) -> None:
        self._context = context
        self._announced = False

    def fresh(self) -> MetricsReader:
        """A reader that has read nothing."""
        return MetricsReader(self._context)

    def records(self, raw: dict[str, Any], location: Location) -> Iterator[Record]:
        """A step under the number of its rollout, or the evaluations of each data set; rows without a step are none."""
        key, step = text(raw.get("step_key")), integer(raw.get("step"))
        if not isinstance(raw.get("metrics"), dict):
            raise ValueError("metrics line without metrics")
        if key is None or step is None:
            return
        if not self._announced:
            self._announced = True
            yield Run(framework=NAME)
        time = timestamp(raw.get("ts"))
        metrics = {name: value for name, value in numbers(raw["metrics"]).items() if name != key}
        if key.startswith("eval/"):
            for suite, values in evaluations(metrics).items():
                yield Eval(step, values, suite, time, location=location)
            return
        if key == "train/step":
            step //= integer(self._context.notes.get("miles steps per rollout")) or 1
        yield Step(step, metrics, time, writer=f" {key}", location=location)


def evaluations(metrics: Mapping[str, float | None]) -> dict[str, dict[str, float | None]]:
    """Data set → its numbers, as slime and miles name them.

    `eval/NAME` is its mean reward, the others are `eval/NAME/…` and `eval/NAME-…`.
    """
    plain = {key.removeprefix("eval/"): value for key, value in metrics.items()}
    suites: list[str] = []
    for name in sorted((key for key in plain if "/" not in key), key=len):
        if not any(name.startswith(f"{suite}-") for suite in suites):
            suites.append(name)
    found: dict[str, dict[str, float | None]] = {}
    for suite in suites:
        values = {"reward": plain[suite]}
        for key, value in plain.items():
            if key.startswith((f"{suite}-", f"{suite}/")):
                values[key[len(suite) + 1 :]] = value
        if number(plain[suite]) is not None:
            found[suite] = values
    return found
