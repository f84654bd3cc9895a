"""Many inference servers that are asked at once: until all have been looked at, and what that costs from then on."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from grpo_top.config import Settings
from grpo_top.monitor import LiveMonitor, Monitor
from tests.bench.figures import Figure
from tests.bench.following import cpu
from tests.bench.inputs import write_run
from tests.bench.processes import python

if TYPE_CHECKING:
    from grpo_top.snapshot import Snapshot

RECORDED = Path(__file__).parent.parent / "data" / "endpoints" / "vllm_010.prom.gz"
SERVER = """
import asyncio, gzip, json, sys
metrics = gzip.open(sys.argv[1]).read()
answers = {b"metrics": metrics, b"models": json.dumps({"data": [{"id": "m", "owned_by": "vllm"}]}).encode(),
           b"render": b'{"token_ids": [1], "sampling_params": {"temperature": 1.0, "top_p": 1.0}}',
           b"weight_info": b'{"weight_version": "1"}'}
async def serve(reader, writer):
    try:
        while line := await reader.readline():
            body = answers.get(line.split()[1].rsplit(b"/", 1)[-1], b"")
            length = 0
            while (header := await reader.readline()) != b"\\r\\n":
                if header.lower().startswith(b"content-length:"):
                    length = int(header.split(b":")[1])
            await reader.readexactly(length)
            kind = b"text/plain; version=0.0.4" if body is metrics else b"application/json"
            status = b"200 OK" if body else b"404 Not Found"
            head = b"HTTP/1.1 %b\\r\\nContent-Type: %b\\r\\nContent-Length: %d\\r\\n\\r\\n"
            writer.write(head % (status, kind, len(body)) + body)
            await writer.drain()
    except (ConnectionError, asyncio.IncompleteReadError):
        pass
    writer.close()
async def main():
    server = await asyncio.start_server(serve, "0.0.0.0", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()
asyncio.run(main())
"""


def samplers(folder: Path, quick: bool) -> list[Figure]:
    """500 servers beside a run of a few steps."""
    count, seconds = (100, 5.5) if quick else (500, 30.0)
    write_run(folder / "rollouts.jsonl", 2_560)
    server = subprocess.Popen(python("-c", SERVER, str(RECORDED)), stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    port = int(server.stdout.readline())
    # An address each, as servers have: all of 127/8 is this machine on Linux; elsewhere they share one.
    hosts = [f"127.0.{number // 250}.{number % 250 + 1}" for number in range(count)]
    hosts = hosts if sys.platform == "linux" else ["127.0.0.1"] * count
    urls = [f"http://{host}:{port}/s{number:03}" for number, host in enumerate(hosts)]
    monitor = Monitor([str(folder)], Settings(), samplers=urls)
    pictures: list[float] = []
    _time_pictures(monitor, pictures)
    live = LiveMonitor(monitor, lambda _: None)
    begin, spent = time.perf_counter(), cpu()
    live.start()
    try:
        while sum(endpoint.looked for endpoint in monitor.watchlist.endpoints) < count:
            if time.perf_counter() - begin > 120:
                raise RuntimeError("not every sampler was looked at")
            time.sleep(0.05)
        looked, first = time.perf_counter() - begin, cpu() - spent
        begin, spent, pictures[:] = time.perf_counter(), cpu(), []
        time.sleep(seconds)
        share = (cpu() - spent) / (time.perf_counter() - begin)
    finally:
        live.stop()
        server.terminate()
        server.wait()
        server.stdout.close()
    if live.error is not None:
        raise live.error
    asked = monitor.watchlist.endpoints[0].format.every
    return [
        Figure(f"{count} samplers: until all have been looked at", looked, "s", None, f"{first:.1f} s CPU"),
        Figure(
            f"{count} samplers: CPU from then on",
            share * 100,
            "%",
            None,
            f"of a core; each is asked every {max(asked, count / 50):.0f} s",
        ),
        Figure(
            f"{count} samplers: the slowest picture",
            max(pictures, default=0.0) * 1e3,
            "ms",
            None,
            f"CPU; of {len(pictures)}",
        ),
    ]


def _time_pictures(monitor: Monitor, into: list[float]) -> None:
    make = monitor.snapshot

    def timed(finished: bool = False) -> Snapshot:
        begin = time.thread_time()
        found = make(finished)
        into.append(time.thread_time() - begin)
        return found

    monitor.snapshot = timed  # type: ignore[method-assign]
