"""What it costs to follow a run: many files that grow at once, a folder of very many files, a burst."""

from __future__ import annotations

import random
import resource
import threading
import time
from typing import TYPE_CHECKING

import orjson

from grpo_top.config import Settings
from grpo_top.monitor import LiveMonitor, Monitor
from tests.bench.figures import Figure
from tests.bench.inputs import RUN, metrics, rollout_records
from tests.bench.processes import resident

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from grpo_top.snapshot import Snapshot


class Follower:
    """A live monitor whose newest picture can be waited for."""

    def __init__(self, where: Path) -> None:
        self.newest: Snapshot | None = None
        self._changed = threading.Condition()
        self._live = LiveMonitor(Monitor([str(where)], Settings()), self._take)
        self._live.start()

    def wait(self, shows: Callable[[Snapshot], bool], seconds: float = 60.0) -> bool:
        """Wait until the newest picture shows something; whether it does."""
        with self._changed:
            return self._changed.wait_for(lambda: self.newest is not None and shows(self.newest), seconds)

    def stop(self) -> None:
        """End the following."""
        self._live.stop()
        if self._live.error is not None:
            raise self._live.error

    def _take(self, snapshot: Snapshot) -> None:
        with self._changed:
            self.newest = snapshot
            self._changed.notify_all()


def many_growing(folder: Path, quick: bool) -> list[Figure]:
    """240 files, to each of which a line is appended every second."""
    seconds, files = (4 if quick else 20), 240
    paths = [folder / f"worker-{number:03}.jsonl" for number in range(files)]
    records = iter(rollout_records(10_000))
    for path in paths:
        path.write_bytes(_lines(records, 2))
    follower = Follower(folder)
    follower.wait(lambda snapshot: snapshot.rollouts.length == 2 * files)
    time.sleep(1.0)
    before = cpu()
    begin = time.perf_counter()
    wrote = 0.0
    for second in range(seconds):
        own = time.thread_time()
        for path in paths:
            with path.open("ab") as file:
                file.write(_lines(records, 1))
        wrote += time.thread_time() - own
        time.sleep(max(0.0, begin + second + 1 - time.perf_counter()))
    time.sleep(1.0)
    share = (cpu() - before - wrote) / seconds
    follower.stop()
    written = files * (2 + seconds)
    seen = follower.newest.rollouts.length if follower.newest else 0
    return [
        Figure("240 files that grow every second", share * 100, "%", 3.0, f"of a core; for {seconds} s"),
        Figure(
            "240 files that grow every second: missed", written - seen, "", 0.0, f"of {written:,} records"
        ),
    ]


def many_files(folder: Path, quick: bool) -> list[Figure]:
    """A folder of 20,000 small files: until all are read, and what following them costs."""
    count = 3_000 if quick else 20_000
    records = iter(rollout_records(10_000, with_texts=False))
    place = folder / "many"
    place.mkdir()
    for number in range(count):
        (place / f"step_{number:06}.jsonl").write_bytes(_lines(records, 1))
    begin = time.perf_counter()
    monitor = Monitor([str(place)], Settings())
    monitor.poll(0.0)
    found = time.perf_counter() - begin
    monitor.read_all()
    read = time.perf_counter() - begin
    for _ in range(50):  # until files count as quiet
        monitor.poll(1.0)
    begin = time.process_time()
    for _ in range(64):
        monitor.poll(1.0)
    poll = (time.process_time() - begin) / 64
    seen = monitor.ledger.history.length
    detail = f"read after {read:.1f} s"
    unlike = "too few to tell" if quick else ""
    return [
        Figure(f"{count:,} files in one folder: until all are found", found, "s", 2.0, detail, unlike=unlike),
        Figure(f"{count:,} files in one folder: missed", count - seen, "", 0.0, "of their records"),
        Figure(f"{count:,} files in one folder: one poll", poll * 1e3, "ms", None, "4 a second at most"),
    ]


def burst(folder: Path, quick: bool) -> list[Figure]:
    """500 steps a second for some seconds: nothing may be lost, and what is kept of a step must stay small."""
    seconds = 2 if quick else 10
    log = folder / "burst.jsonl"
    log.write_bytes(orjson.dumps(RUN) + b"\n")
    follower = Follower(folder)
    chance = random.Random(3)
    begin = time.perf_counter()
    step, half = 0, (0, 0.0)
    with log.open("ab", buffering=0) as file:
        for tick in range(seconds * 20):
            if tick == seconds * 10:
                half = step, resident()
            lines = []
            for _ in range(25):
                step += 1
                lines.append(orjson.dumps({"kind": "step", "step": step, "metrics": metrics(chance, step)}))
            file.write(b"\n".join(lines) + b"\n")
            time.sleep(max(0.0, begin + (tick + 1) / 20 - time.perf_counter()))
    end = time.perf_counter()
    complete = follower.wait(lambda snapshot: snapshot.run.last_step == step)
    behind = time.perf_counter() - end
    grown = (resident() - half[1]) / (step - half[0])
    steps = follower.newest.run.steps if follower.newest else 0
    follower.stop()
    log.unlink()
    lost, what = step - steps if complete else step, "500 steps a second"
    return [
        Figure(f"{what}: lost", lost, "steps", 0.0, f"{step:,} written, {behind:.1f} s behind at the end"),
        Figure(f"{what}: memory of a step", grown, "bytes", None, "over the second half"),
    ]


def _lines(records: object, count: int) -> bytes:
    found = []
    while len(found) < count:
        record = next(records)  # type: ignore[call-overload]
        if record["kind"] == "rollout":
            found.append(orjson.dumps(record))
    return b"\n".join(found) + b"\n"


def cpu() -> float:
    """Processor time of this process so far, in seconds."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime
