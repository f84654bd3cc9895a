"""Which formats there are, and which of them reads a file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grpo_top.formats.late import Late
from grpo_top.formats.plain import Plain
from grpo_top.spelling import meant

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import PurePath

    from grpo_top.formats.base import Claim, Format

TENSORBOARD = "tensorboard"

TRACKERS: tuple[Format, ...] = (
    Late(TENSORBOARD, 95, "tensorboard:TensorBoard"),
    Late("wandb", 99, "wandb:Wandb", places=("run-",)),
    Late("trackio", 90, "trackio:Trackio", keys=("harness", "project")),
    Late("mlflow", 90, "mlflow:MlFlow", places=("meta.yaml",)),
    Late("swanlab", 99, "swanlab:SwanLab", places=("run-",)),
)
FORMATS: tuple[Format, ...] = (
    Late("grpo-top", 99, "native:Native", keys=("kind",)),
    Late("trl", 90, "trl:Trl", keys=("completion", "log_history")),
    Late("verl", 90, "verl:Verl", keys=("data", "input")),
    Late(
        *("prime-rl", 95, "prime_rl:PrimeRl"),
        keys=("task", "example_id", "time", "token_ids", "schema_version"),
        words=(b'"max_off_policy_steps"', b'"orchestrator"'),
    ),
    Late(
        *("verifiers", 92, "verifiers:Verifiers"),
        keys=("task", "example_id"),
        words=(b'"rollouts_per_example"', b'"taskset"'),
    ),
    Late(
        *("art", 92, "art:Art"),
        keys=("recorded_at", "trajectories"),
        words=(b'"_metrics_builder_state"',),
    ),
    Late("rllm", 92, "rllm:Rllm", keys=("data",), words=(b'"training_step"',)),
    Late("atropos", 90, "atropos:Atropos", keys=("tokens", "messages"), words=(b'"config_general"',)),
    Late(
        *("miles", 92, "miles:Miles"),
        keys=("step_key", "sample_index", "group_index"),
        words=(b'"start_ts"',),
        places=("dashboard",),
    ),
    Late("ms-swift", 90, "ms_swift:MsSwift", keys=("global_step/max_steps", "iteration", "prompt")),
    Late(
        *("tinker", 90, "tinker:Tinker"),
        keys=("traj_idx", "model_name"),
        families=("env/all/", "optim/kl_sample_train", "sampling_client/", "test/env/"),
        words=(b'"lt-root"',),
    ),
    Late("nemo-rl", 90, "nemo_rl:NemoRl", places=("_data_step",)),
    Late(
        *("skyrl", 90, "skyrl:SkyRl"),
        keys=("input_prompt", "trainer/global_step"),
        places=("aggregated_results",),
    ),
    Late("areal", 90, "areal:Areal", keys=("tail_version",)),
    Late("openrlhf", 85, "openrlhf:OpenRlhf"),
    Late("torchforge", 85, "torchforge:TorchForge"),
    Late(
        *("requests", 90, "request_logs:RequestLogs"),
        keys=("request_parameters",),
        words=(
            *(b"request.finished", b"Finish: obj=", b"request.received", b"Receive: obj="),
            *(b"params: SamplingParams(", b"enable-log-requests", b"log_requests=True"),
        ),
    ),
    Late(
        *("config", 60, "config_files:ConfigFiles"),
        families=(
            *("swift_version", "num_generations", "actor_rollout_ref", "grpo", "gconfig"),
            *("generator", "base_model", "n_samples_per_prompt"),
        ),
    ),
    Late("console", 25, "console:Console"),
    Late("report", 18, "printed_reports:Reports"),
    Plain(),
    Late("csv", 40, "plain_csv:Csv"),
    Late("parquet", 30, "plain_parquet:PlainParquet"),
    *TRACKERS,
)
"""In the order in which equal claims are settled: the first wins."""


def choose(
    path: PurePath, head: bytes, only: str | None = None, formats: Sequence[Format] = FORMATS
) -> tuple[Format, Claim] | None:
    """The format with the highest claim on a file and that claim; None where no format reads it.

    `head` is the file's first bytes (up to 64 kB). `only` names the one format that may claim; ValueError
    where there is none of that name. `formats`: see `with_fields`.
    """
    if only is not None:
        name = named(only).name
        formats = [found for found in formats if found.name == name]
    best: tuple[Format, Claim] | None = None
    for found in formats:
        # Most files are claimed surely by one of the first: asking all the others takes ten times as long.
        if best is not None and found.surest <= best[1].confidence:
            continue
        claim = found.claim(path, head)
        if claim is not None and (best is None or claim.confidence > best[1].confidence):
            best = found, claim
    return best


def with_fields(fields: Mapping[str, str]) -> tuple[Format, ...]:
    """All formats, where the user has set which of the file's names is which field: see `plain_fields.Fields`."""
    if not fields:
        return FORMATS
    from grpo_top.formats.plain_csv import Csv  # noqa: PLC0415  as `Late`
    from grpo_top.formats.plain_parquet import PlainParquet  # noqa: PLC0415  as `Late`

    plain: tuple[Format, ...] = (Plain(fields), Csv(fields), PlainParquet(fields))
    own = {found.name: found for found in plain}
    return tuple(own.get(found.name, found) for found in FORMATS)


def named(name: str) -> Format:
    """The format of that name; ValueError, with the nearest name, where there is none."""
    by_name = {found.name: found for found in FORMATS}
    if name in by_name:
        found = by_name[name]
        return found.itself if isinstance(found, Late) else found
    near = meant(name.lower(), by_name)
    hint = f"did you mean {near}?" if near else f"there are: {', '.join(by_name)}"
    raise ValueError(f"no format is called {name!r}; {hint}")
