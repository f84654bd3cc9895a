"""Where nothing was found: what was looked for, where, and which three commands are most likely wanted next."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from grpo_top.sources.urls import is_url
from grpo_top.spelling import meant

if TYPE_CHECKING:
    from collections.abc import Sequence

LOOKED_FOR = (
    "logs of TRL, verl, prime-rl, verifiers, ART, rLLM, Atropos, miles, ms-swift, tinker, NeMo-RL, SkyRL",
    "logs of AReaL, OpenRLHF and torchforge",
    "TensorBoard, W&B (offline), trackio, MLflow and SwanLab; request logs of vLLM and SGLang",
    "JSON lines, JSON, CSV and Parquet with a step and a reward; grpo-top/1, which any training loop can write",
)
_LISTED = 2_000
"""Names of a folder in which a mistyped one is looked for at most."""


class Next(NamedTuple):
    """A command that is likely wanted next."""

    command: str
    why: str


def looked_at(place: str) -> str:
    """What a place that was looked at is, in words."""
    if is_url(place):
        return "it has not answered yet"
    if any(sign in place for sign in "*?["):
        return "a glob that matches no log"
    path = Path(place)
    if path.is_dir():
        return "a directory with no log that is known"
    return "a file, and no log that is known" if path.exists() else "no such file or directory"


def next_commands(where: Sequence[str]) -> tuple[Next, Next, Next]:
    """The three most likely, the likeliest first."""
    import shlex  # noqa: PLC0415  mostly there is something

    demo = Next("grpo-top demo", "a recorded real run with a fault, live: no training needed")
    other = Next("grpo-top PATH", "where your trainer writes: its directory, or the log")
    missing = [place for place in where if looked_at(place) == "no such file or directory"]
    for place in missing:
        if near := nearest(place):
            return Next(f"grpo-top {shlex.quote(near)}", f"it is there, and {place} is not"), demo, other
    if missing:
        return other, demo, Next("grpo-top --help", "what else PATH can be, and all options")
    unread = " ".join(map(shlex.quote, where))
    return demo, other, Next(f"grpo-top inspect {unread}", "how each file there was taken")


def nearest(place: str) -> str | None:
    """A file or folder beside a place that is not there, whose name is much like it; None where there is none."""
    path = Path(place)
    try:
        names = [entry.name for entry, _ in zip(path.parent.iterdir(), range(_LISTED), strict=False)]
    except OSError:
        return None
    found = meant(path.name, names, cutoff=0.8)
    return str(path.parent / found) if found else None


def did_you_mean(place: str, verbs: Sequence[str]) -> str:
    """What a place that is not there may have been meant for; empty where nothing is like it."""
    if verb := meant(place, verbs, cutoff=0.75):
        return f"; did you mean `grpo-top {verb}`?"
    near = None if is_url(place) else nearest(place)
    return f"; did you mean {near}?" if near else ""


_ADVICE = (
    ("answers 401", "give its key in GRPO_TOP_HEADERS, or with --header @FILE"),
    ("answers 403", "its key, in GRPO_TOP_HEADERS or from --header @FILE, must be one that may read it"),
    ("answers 404", "look at the URL's path"),
    ("answers 5", "look at the server's own log"),
    ("connection refused", "look whether the server runs, and at the port"),
    ("no such host", "look at the host's name"),
    ("no answer for", "look whether it can be reached from this machine"),
    ("answers nothing that is known", "known are vLLM, SGLang, Prometheus text, logs, and `grpo-top serve`"),
)
"""What an endpoint's error says → what to do about it."""


def advice(error: str) -> str:
    """What to do about an endpoint that cannot be read; empty where that is not known."""
    return next((f"; {what}" for sign, what in _ADVICE if sign in error), "")
