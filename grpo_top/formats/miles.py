"""miles (and slime, which it grew from): the details folder, `--dump-details DIR`.

One sample is told of in three places: `trajectory/N.jsonl` has its text, reward and status, `dashboard_columns/` its
lengths, and `dashboard/trajectories/HOUR.jsonl` which weights sampled it. N is the rollout id, counted from 0, and the
step here. Samples that someone has written as JSON lines, with slime's own fields, are read too; its `.pt` files never.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, ClassVar

from grpo_top.formats.base import Claim, Format, Reader
from grpo_top.formats.decode import bare, head_records, integer, parse_record, text
from grpo_top.formats.miles_metrics import MetricsReader, steps_per_rollout
from grpo_top.formats.miles_samples import (
    ColumnsReader,
    EventsReader,
    SamplesReader,
    TrajectoryReader,
    samples_of,
)
from grpo_top.formats.parquet import MAGIC
from grpo_top.records import EVAL, TRAIN, Run, Skipped, normal_sampling

if TYPE_CHECKING:
    from pathlib import PurePath

    from grpo_top.formats.base import RunContext
    from grpo_top.records import Record

NAME = "miles"

_META = (b'"run_name"', b'"start_ts"', b'"args"', b'"schema_version"')
_NUMBERED = re.compile(r"(?:rollout_)?(?P<eval>eval_)?(?P<rollout>\d{1,12})")
_FIELDS = {
    "metrics": {"ts", "step_key", "step", "metrics"},
    "versions": {"ts", "kind", "sample_index", "group_index", "turn", "weight_version"},
    "rollouts": {"sample_index", "group_index", "status", "reward", "messages"},
    "samples": {"group_index", "index", "response", "status", "reward"},
}
"""Role → the fields that its records have."""
_ORDERS = {"metrics": 2, "versions": 2, "rollouts": 3, "samples": 3}
_OTHERS = frozenset(
    ("phases", "gpu_util", "engine_series", "topology", "gpu_processes", "data_buffer", "lane_catalog")
)
"""What else lies in the dashboard's folder: timings and machines, nothing about learning."""


class Miles(Format):
    """Reads what miles writes."""

    name: ClassVar[str] = NAME
    surest: int = 92
    rollouts_hint: ClassVar[str] = (
        "set --dump-details DIR --use-miles-dashboard (slime's .pt dumps are never loaded)"
    )

    def claim(self, path: PurePath, head: bytes) -> Claim | None:
        """By the fields of the first records, or the columns of a table."""
        if head.startswith(MAGIC):
            placed = path.parent.name == "dashboard_columns" and _NUMBERED.fullmatch(path.stem) is not None
            columns = all(
                word in head for word in (b"sample_index", b"response_length", b"rollout_log_probs")
            )
            return Claim(92, "whole", "lengths", f"{NAME} lengths", 2) if placed or columns else None
        if "dashboard" in path.parts and not _OTHERS.isdisjoint((path.stem, path.parent.name)):
            return Claim(60, "none", "dashboard", NAME)
        if bare(head[:4096]).startswith(b"{") and all(word in head for word in _META):
            return Claim(92, "whole", "config", f"{NAME} config", 1)
        records = head_records(head)
        for role, fields in _FIELDS.items():
            if records and records[0].keys() >= fields and all(record.keys() >= fields for record in records):
                once = role in {"rollouts", "samples"} and _NUMBERED.fullmatch(path.stem) is not None
                writer = f"{NAME} {role} {path.parent if once else path}"
                return Claim(92, "lines", role, writer, _ORDERS[role], anew=once)
        return None

    def reader(self, path: PurePath, claim: Claim, context: RunContext) -> Reader:
        """A reader for the role that was claimed."""
        context.framework = context.framework or NAME
        numbered = _NUMBERED.fullmatch(path.stem)
        rollout = integer(numbered["rollout"]) if numbered else None
        split = EVAL if numbered and numbered["eval"] else TRAIN
        samples = samples_of(context)
        match claim.role:
            case "config":
                return MetaReader(context)
            case "metrics":
                return MetricsReader(context)
            case "versions":
                return EventsReader(samples)
            case "lengths":
                return ColumnsReader(samples, rollout if split == EVAL else None)
            case "samples":
                return SamplesReader(rollout, split)
            case _:
                return TrajectoryReader(samples, rollout, split)


class MetaReader(Reader):
    """Reads `dashboard/meta.json`: what the run was started with."""

    def __init__(self, context: RunContext) -> None:
        self._context = context

    def fresh(self) -> MetaReader:
        """A reader that has read nothing."""
        return MetaReader(self._context)

    def whole(self, data: bytes) -> list[Record]:
        """The run."""
        try:
            found = parse_record(bare(data))
        except ValueError as error:
            return [Skipped(str(error), 0)]
        given = found.get("args")
        args: dict[str, Any] = given if isinstance(given, dict) else {}
        self._context.notes["miles steps per rollout"] = steps_per_rollout(args)
        sampling = {
            name.removeprefix("rollout_").replace("max_response_len", "max_tokens"): value
            for name, value in args.items()
            if name.startswith("rollout_")
        }
        return [
            Run(
                run=text(found.get("run_name")),
                framework=NAME,
                algorithm=text(args.get("advantage_estimator")),
                group_size=integer(args.get("n_samples_per_prompt")),
                sampling=normal_sampling(sampling),
                total_steps=integer(args.get("num_rollout")),
            )
        ]
