"""Other tools that diagnose such runs, where they are installed: what the same steps cost them.

They are looked for among the commands in the folder that GRPO_TOP_BENCH_PEERS names (a virtual environment's `bin`),
else on the PATH; none of them is needed.
"""

from __future__ import annotations

import math
import os
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import orjson

from grpo_top.config import Settings
from grpo_top.monitor import Monitor
from tests.bench.figures import Figure
from tests.bench.inputs import write_metrics
from tests.bench.processes import grpo_top, in_turn, least

if TYPE_CHECKING:
    from collections.abc import Iterator

STEPS = 2_000
LIVE_TARGET = 30.0
READS_NO_LOG = ("rlwatch",)
LIVE = {
    "rlprobe": """
import json, sys, tempfile, time
from rlprobe.doctor.live import RunWatcher
from rlprobe.recorder import Recorder
rows = [json.loads(line) for line in open(sys.argv[1])]
names = {"reward": "reward_mean", "reward_std": "reward_std", "kl": "kl_mean", "entropy": "entropy_mean",
         "clip_ratio/region_mean": "clip_fraction", "frac_reward_zero_std": "zero_variance_group_frac"}
every, spent, place = int(sys.argv[2]), 0.0, tempfile.mkdtemp()
recorder, watcher = Recorder(place), RunWatcher(place)
for count, row in enumerate(rows, 1):
    recorder.log_step(row["step"], **{theirs: row[ours] for ours, theirs in names.items()})
    recorder.flush()
    if count % every == 0:
        watcher._read_new_records()
        begin = time.thread_time()
        watcher.tick()
        spent += time.thread_time() - begin
print(spent * every)
""",
    "rldoctor": """
import json, logging, sys, time
from rl_doctor.live import LiveMonitor
logging.disable(logging.CRITICAL)
rows = [json.loads(line) for line in open(sys.argv[1])]
every = int(sys.argv[2])
monitor = LiveMonitor(check_every=every)
begin = time.process_time()
for row in rows:
    monitor.log(row, step=row["step"])
print((time.process_time() - begin) * every)
""",
    "rlwatch": """
import json, logging, os, sys, tempfile, time
os.chdir(tempfile.mkdtemp())
logging.disable(logging.CRITICAL)
import rlwatch
rows = [json.loads(line) for line in open(sys.argv[1])]
monitor = rlwatch.attach(framework="manual")
begin = time.process_time()
for row in rows:
    monitor.log_step(row["step"], entropy=row["entropy"], kl_divergence=row["kl"], reward_mean=row["reward"],
                     reward_std=row["reward_std"], loss=row["loss"], grad_norm=row["grad_norm"])
print(time.process_time() - begin, file=sys.stderr)
""",
}
"""Peer → a program that prints what checking after every step takes of the processor: of every n-th step, times n."""
WHOLE = {"rldoctor": ("diagnose",)}
"""Those that read a trainer's own log of metrics → how."""


def metrics_log(folder: Path, quick: bool) -> list[Figure]:
    """`check` on a log of metrics alone, the whole process, against the fastest peer that reads such a log."""
    log = _flat_log(folder, STEPS)
    check = grpo_top("check", "--fail-on", "never", str(log))
    commands = {name: [found, *how, str(log)] for name, how in WHOLE.items() if (found := _find(name))}
    if not commands:
        ((alone,),) = in_turn(1, check)
        detail = f"{STEPS:,} steps: {alone.cpu:.2f} s CPU; no peer that reads such a log is installed"
        return [Figure("check over 2,000 steps of metrics", alone.cpu, "s", None, detail)]
    ours, *theirs = in_turn(2 if quick else 9, check, *commands.values())
    fastest = min(map(least, theirs))
    detail = f"{STEPS:,} steps, CPU of whole processes: {least(ours):.2f} s and {fastest:.2f} s ({', '.join(commands)})"
    return [
        Figure(
            "check over 2,000 steps of metrics, against the fastest peer",
            least(ours) / fastest,
            "x",
            0.7,
            detail,
        )
    ]


def live(folder: Path, quick: bool) -> list[Figure]:
    """A verdict and a picture after every single step of a growing log of metrics."""
    count = 120 if quick else STEPS
    log = _flat_log(folder, count)
    own = min(_own_live(log, folder / "growing.jsonl") for _ in range(1 if quick else 2))
    detail = f"{count:,} steps, polled and pictured after each: {own:.2f} s CPU"
    figures = [Figure("live: a verdict and a picture, a step", own / count * 1e3, "ms", None, detail)]
    unlike = "too few steps: peers take the longer the more there are" if quick else ""
    for name, spent in _peers_live(log, every=25):
        what = f"live: {name}'s CPU over ours, checking as often"
        detail = "not installed" if math.isnan(spent) else f"{spent:.1f} s over the same steps"
        if name in READS_NO_LOG:
            detail += "; called in the trainer's process with the numbers, it reads no log"
        figures.append(Figure(what, spent / own, "x", LIVE_TARGET, detail, at_least=True, unlike=unlike))
    return figures


def _flat_log(folder: Path, steps: int) -> Path:
    """A trainer's rows, with the step among the numbers, as every tool reads them."""
    whole, log = folder / "whole.jsonl", folder / "log" / "metrics.jsonl"
    write_metrics(whole, steps)
    log.parent.mkdir()
    records = [orjson.loads(line) for line in whole.read_bytes().splitlines()[1:]]
    rows = [{"step": record["step"], **record["metrics"]} for record in records]
    log.write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in rows))
    return log


def _own_live(whole: Path, log: Path) -> float:
    import time  # noqa: PLC0415

    pieces = whole.read_bytes().splitlines(keepends=True)
    log.write_bytes(pieces[0])
    monitor = Monitor([str(log)], Settings())
    monitor.poll(1.0)
    begin = time.process_time()
    with log.open("ab", buffering=0) as file:
        for piece in pieces[1:]:
            file.write(piece)
            monitor.poll(1.0)
            monitor.snapshot()
    return time.process_time() - begin


def _peers_live(log: Path, every: int) -> Iterator[tuple[str, float]]:
    """Each peer with the seconds that it takes; NaN where it is not there."""
    for name, program in LIVE.items():
        command = _find(name)
        if command is None:
            yield name, math.nan
            continue
        python = str(Path(command).parent / "python")
        done = subprocess.run(
            [python, "-c", program, str(log), str(every)], capture_output=True, text=True, check=True
        )
        yield name, float((done.stdout.split() or done.stderr.split())[-1])


def _find(name: str) -> str | None:
    return shutil.which(name, path=os.environ.get("GRPO_TOP_BENCH_PEERS"))
