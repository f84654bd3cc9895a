"""`check --follow`: no screen, one line for each change of a verdict, until the run or the time is over."""

from __future__ import annotations

import queue
import time
from typing import TYPE_CHECKING, Any

import orjson

from grpo_top.alarms import CLEARED, FOUND, WORSE, Changes, Command
from grpo_top.monitor import LiveMonitor
from grpo_top.report import finding_object
from grpo_top.snapshot import Status
from grpo_top.text import safe

if TYPE_CHECKING:
    from collections.abc import Callable

    from grpo_top.alarms import Change
    from grpo_top.monitor import Monitor
    from grpo_top.snapshot import Snapshot

SCHEMA = "grpo-top/change/1"
AFTER_THE_END = 5.0
"""Seconds that are waited after the run says that it has ended: its last evaluation comes then."""


def follow(
    monitor: Monitor,
    write: Callable[[str], None],
    complain: Callable[[str], None],
    *,
    as_json: bool = False,
    seconds: float | None = None,
    command: str | None = None,
) -> Snapshot:
    """Follow a run; the last Snapshot.

    Args:
        monitor: what reads it.
        write, complain: take the lines for standard output and standard error.
        as_json: a JSON object a line, for programs.
        seconds: how long, from when all that was there has been read; None until the run has ended.
        command: is told of each finding that begins or grows worse, from warnings up, as JSON on standard input.
    """
    newest: queue.SimpleQueue[Snapshot] = queue.SimpleQueue()
    live = LiveMonitor(monitor, newest.put)
    changes = Changes()
    told = None if command is None else Command(command, complain)
    end = ended = None
    snapshot = monitor.snapshot()
    live.start()
    try:
        while live.is_alive():
            snapshot = _next(newest, snapshot)
            now = time.monotonic()
            if snapshot.reading is None:
                for change in changes.of(snapshot):
                    write(_json(change, snapshot) if as_json else _line(change, snapshot.time))
                    if told is not None and _is_news(change):
                        told.tell(_json(change, snapshot).encode())
            if end is None and seconds is not None and live.caught_up:
                end = now + seconds
            ended = (ended or now) if snapshot.finished else None
            if (end is not None and now >= end) or (ended is not None and now - ended > AFTER_THE_END):
                break
    except BaseException:
        if told is not None:
            told.end()
        raise
    finally:
        live.stop()
        if told is not None:
            told.close()
    if live.error is not None:
        raise live.error
    return snapshot


def _next(newest: queue.SimpleQueue[Snapshot], before: Snapshot) -> Snapshot:
    """The newest Snapshot that came within a moment, else the one before."""
    try:
        before = newest.get(timeout=0.25)
        while True:
            before = newest.get_nowait()
    except queue.Empty:
        return before


def _is_news(change: Change) -> bool:
    return change.event in (FOUND, WORSE) and change.finding.severity >= Status.WARN


def _line(change: Change, at: float) -> str:
    """`14:02:11 step 51  FAIL  SAMPLER_DRIFT  temperature 0.15 deployed, 1.0 intended; first cause`."""
    finding = change.finding
    clock = time.strftime("%H:%M:%S", time.localtime(at))
    state = "cleared" if change.event == CLEARED else finding.severity.word.upper()
    step = "?" if change.step is None else str(change.step)
    cause = f"; follows from {finding.caused_by}" if finding.caused_by else ""
    cause = "; first cause" if change.first_cause else cause
    return f"{clock} step {step:<6} {state:<8}{finding.id:<24} {safe(finding.summary)}{cause}"


def _json(change: Change, snapshot: Snapshot) -> str:
    found: dict[str, Any] = {
        "schema": SCHEMA,
        "event": change.event,
        "run": snapshot.run.name or None,
        "step": change.step,
        "time": snapshot.time,
        "first_cause": change.first_cause,
        "finding": finding_object(change.finding),
    }
    return orjson.dumps(found).decode()
