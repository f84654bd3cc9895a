"""A real Prometheus server scrapes 200 simulated samplers, and grpo-top reads the fleet back from it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import shutil
import socket
import subprocess
import threading
import time
import urllib.error
import urllib.request
from typing import TYPE_CHECKING

import numpy as np
import pytest
from loopback import until

from grpo_top.config import Settings
from grpo_top.formats import prometheus_server
from grpo_top.formats.fleet_queries import Fleets, own_query
from grpo_top.monitor import Monitor

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from grpo_top.snapshot import FleetSeries

SAMPLERS = 200
SLOW, FULL = 17, 101
PROMETHEUS = shutil.which("prometheus")

pytestmark = pytest.mark.skipif(
    PROMETHEUS is None, reason="no prometheus here (Debian: apt install prometheus)"
)


class Samplers:
    """vLLM servers' metrics behind one port, each under a path of its own."""

    def __init__(self) -> None:
        self.port = 0
        self._queue = 50
        self._loop = asyncio.new_event_loop()
        self._begun = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        assert self._begun.wait(5)

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(5)
        self._loop.close()

    def metrics(self, number: int) -> str:
        labels = '{engine="0",model_name="m"}'
        self._queue += number == FULL
        tokens = time.monotonic() * (2 if number == SLOW else 100)
        finished = "".join(
            f'vllm:request_success_total{{engine="0",model_name="m",finished_reason="{reason}"}} {count}\n'
            for reason, count in (
                ("stop", 3 * time.monotonic()),
                ("length", time.monotonic() if number == FULL else 0),
            )
        )
        return (
            f"vllm:num_requests_waiting{labels} {self._queue if number == FULL else number % 5}\n"
            f"vllm:num_requests_running{labels} {number % 3 + 30}\n"
            f"vllm:kv_cache_usage_perc{labels} {0.975 if number == FULL else 0.4}\n"
            f"# TYPE vllm:generation_tokens counter\nvllm:generation_tokens_total{labels} {tokens}\n{finished}"
        )

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        server = self._loop.run_until_complete(asyncio.start_server(self._answer, "127.0.0.1", 0))
        self.port = server.sockets[0].getsockname()[1]
        self._begun.set()
        self._loop.run_forever()
        server.close()
        for task in asyncio.all_tasks(self._loop):
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                self._loop.run_until_complete(task)

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            while head := await reader.readuntil(b"\r\n\r\n"):
                body = self.metrics(int(head.split(b" ", 2)[1].rpartition(b"/")[2])).encode()
                kind = "text/plain; version=0.0.4"
                writer.write(
                    f"HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n".encode()
                    + body
                )
                await writer.drain()
        writer.close()


@pytest.fixture
def samplers() -> Iterator[Samplers]:
    found = Samplers()
    yield found
    found.close()


@pytest.fixture
def prometheus(tmp_path: Path, samplers: Samplers) -> Iterator[str]:
    config = tmp_path / "prometheus.yml"
    targets = [
        {
            "targets": [f"127.0.0.1:{samplers.port}"],
            "labels": {"__metrics_path__": f"/{number}", "instance": f"gpu{number}:8000"},
        }
        for number in range(SAMPLERS)
    ]
    jobs = [{"job_name": "vllm", "static_configs": targets}]
    config.write_text(json.dumps({"global": {"scrape_interval": "500ms"}, "scrape_configs": jobs}))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    arguments = [f"--config.file={config}", f"--storage.tsdb.path={tmp_path / 'data'}", "--log.level=error"]
    process = subprocess.Popen(
        [str(PROMETHEUS), *arguments, f"--web.listen-address={address}"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        url = f"http://{address}"
        deadline = time.monotonic() + 20
        while not _is_ready(url):
            assert time.monotonic() < deadline
            assert process.poll() is None
            time.sleep(0.05)
        yield url
    finally:
        process.terminate()
        process.wait(10)


def _is_ready(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/-/ready", timeout=1) as answer:
            return answer.status == 200
    except (urllib.error.URLError, OSError):
        return False


def test_200_samplers_are_read_back_as_distributions(prometheus, monkeypatch):
    monkeypatch.setattr(prometheus_server, "INTERVAL", 0.5)
    monkeypatch.setattr(prometheus_server, "HISTORY", 20.0)
    monkeypatch.setattr(prometheus_server, "ABSENT_LOOKS", 1)
    own = (own_query("twice=2 * max by (instance) (vllm:num_requests_running)"), own_query("wrong=sum("))
    monitor = Monitor([], Settings(), fleets=Fleets((prometheus,), own))

    def fleet() -> dict[str, FleetSeries]:
        time.sleep(0.03)
        monitor.poll()
        return {series.name: series for series in monitor.snapshot().fleet}

    def is_whole() -> bool:
        known = fleet()
        return all(
            name in known and known[name].samplers[-1] == SAMPLERS and len(known[name].times) > 1
            for name in ("waiting", "tokens", "cut at length", "twice")
        )

    try:
        until(is_whole, 30)  # Prometheus begins to scrape 5 s after its start
        found = fleet()
        waiting, tokens, cut = found["waiting"], found["tokens"], found["cut at length"]
        assert (waiting.median[-1], waiting.lowest[-1]) == (2, 0)
        assert waiting.highest[-1] > 50
        assert (np.diff(waiting.highest) >= 0).all()
        assert (np.diff(waiting.times) > 0).all()
        assert waiting.highest_sampler == f"gpu{FULL}:8000"
        assert tokens.lowest_sampler == f"gpu{SLOW}:8000"
        assert tokens.lowest[-1] < 0.1 * tokens.median[-1]
        assert cut.highest_sampler == f"gpu{FULL}:8000"
        assert cut.highest[-1] == pytest.approx(0.25, abs=0.02)
        assert cut.median[-1] == 0
        assert found["cache use"].highest[-1] == 0.975
        assert found["twice"].highest[-1] == 64
        assert "weight syncs" not in found
        (source,) = monitor.snapshot().sources
        assert (source.where, source.format, source.state) == (prometheus, "prometheus server", "live")
        assert source.note.startswith("wrong: bad_data: ")
    finally:
        monitor.watchlist.close()
