"""Which formats there are, and which of them reads a file."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING

from grpo_top.formats.areal import Areal
from grpo_top.formats.art import Art
from grpo_top.formats.atropos import Atropos
from grpo_top.formats.config_files import ConfigFiles
from grpo_top.formats.console import Console
from grpo_top.formats.miles import Miles
from grpo_top.formats.mlflow import MlFlow
from grpo_top.formats.ms_swift import MsSwift
from grpo_top.formats.native import Native
from grpo_top.formats.nemo_rl import NemoRl
from grpo_top.formats.openrlhf import OpenRlhf
from grpo_top.formats.plain import Plain
from grpo_top.formats.plain_csv import Csv
from grpo_top.formats.plain_parquet import PlainParquet
from grpo_top.formats.prime_rl import PrimeRl
from grpo_top.formats.printed_reports import Reports
from grpo_top.formats.request_logs import RequestLogs
from grpo_top.formats.rllm import Rllm
from grpo_top.formats.skyrl import SkyRl
from grpo_top.formats.swanlab import SwanLab
from grpo_top.formats.tensorboard import TensorBoard
from grpo_top.formats.tinker import Tinker
from grpo_top.formats.torchforge import TorchForge
from grpo_top.formats.trackio import Trackio
from grpo_top.formats.trl import Trl
from grpo_top.formats.verifiers import Verifiers
from grpo_top.formats.verl import Verl
from grpo_top.formats.wandb import Wandb

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import PurePath

    from grpo_top.formats.base import Claim, Format

TRACKERS: tuple[Format, ...] = (TensorBoard(), Wandb(), Trackio(), MlFlow(), SwanLab())
FORMATS: tuple[Format, ...] = (
    Native(),
    Trl(),
    Verl(),
    PrimeRl(),
    Verifiers(),
    Art(),
    Rllm(),
    Atropos(),
    Miles(),
    MsSwift(),
    Tinker(),
    NemoRl(),
    SkyRl(),
    Areal(),
    OpenRlhf(),
    TorchForge(),
    RequestLogs(),
    ConfigFiles(),
    Console(),
    Reports(),
    Plain(),
    Csv(),
    PlainParquet(),
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
    plain: tuple[Format, ...] = (Plain(fields), Csv(fields), PlainParquet(fields)) if fields else ()
    own = {found.name: found for found in plain}
    return tuple(own.get(found.name, found) for found in FORMATS)


def named(name: str) -> Format:
    """The format of that name; ValueError, with the nearest name, where there is none."""
    by_name = {found.name: found for found in FORMATS}
    if name in by_name:
        return by_name[name]
    near = get_close_matches(name.lower(), by_name, n=1)
    hint = f"did you mean {near[0]}?" if near else f"there are: {', '.join(by_name)}"
    raise ValueError(f"no format is called {name!r}; {hint}")
