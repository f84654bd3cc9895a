"""A run that is served: what goes over the line for a rollout, and what the server holds."""

from __future__ import annotations

import gzip
import subprocess
import urllib.request
from typing import TYPE_CHECKING

import orjson

from tests.bench.figures import Figure
from tests.bench.inputs import write_run
from tests.bench.processes import grpo_top, peak_memory

if TYPE_CHECKING:
    from pathlib import Path


def wire(folder: Path, quick: bool) -> list[Figure]:
    """Ask `grpo-top serve` for the whole log of a run, packed, as a grpo-top does."""
    log = folder / "run" / "rollouts.jsonl"
    log.parent.mkdir()
    write_run(log, 10_000 if quick else 100_000)
    server = subprocess.Popen(grpo_top("serve", str(log), "--port", "0"), stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    packed, lines = _whole_log(server.stdout.readline().split()[-1])
    memory = peak_memory(server.pid)
    server.terminate()
    server.stdout.close()
    server.wait()
    rollouts = lines.count(b'"kind":"rollout"')
    return [
        Figure(
            "a rollout over the wire",
            packed / rollouts,
            "bytes",
            None,
            f"{log.stat().st_size / rollouts:,.0f} bytes in the log, {len(lines) / rollouts:.0f} unpacked",
        ),
        Figure("`serve`: peak memory", memory / 1e6, "MB", None, f"{rollouts:,} rollouts"),
    ]


def _whole_log(url: str) -> tuple[int, bytes]:
    """Bytes of all answers as they came, and the lines in them."""
    about, _ = _get(f"{url}/end")
    id_ = orjson.loads(about)["log"]
    packed, lines, offset = 0, [], 0
    while True:
        body, size = _get(f"{url}/records?log={id_}&offset={offset}&wait=5")
        *_, last = body.splitlines()
        beat = orjson.loads(last)
        packed += size
        lines.append(body)
        offset = beat["offset"]
        if beat["ended"] and offset == beat["size"]:
            return packed, b"".join(lines)


def _get(url: str) -> tuple[bytes, int]:
    """The body of an answer, unpacked, and how many bytes it was."""
    request = urllib.request.Request(url, headers={"Accept-Encoding": "gzip"})
    with urllib.request.urlopen(request) as answer:
        body = answer.read()
        return (gzip.decompress(body) if answer.headers["Content-Encoding"] == "gzip" else body), len(body)
