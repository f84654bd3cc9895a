"""What ends a wait: a change in a folder, a ring, the end; and where nothing is told, the time alone."""

from __future__ import annotations

import sys
import threading
import time
from typing import TYPE_CHECKING

import pytest

from grpo_top.sources import wake as module
from grpo_top.sources.wake import KernelEvents, PlainSleep, Wake, WatchedFolders, new_wake

if TYPE_CHECKING:
    from pathlib import Path

linux_only = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="the kernel's events are Linux's"
)
LONG = 20.0


def seconds_waited(wake: Wake, timeout: float) -> float:
    begun = time.monotonic()
    wake.wait(timeout)
    return time.monotonic() - begun


@linux_only
def test_the_kernel_tells_at_once_which_files_have_changed(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    wake = KernelEvents()
    wake.watch([tmp_path, tmp_path / "deep"])
    (tmp_path / "a.jsonl").write_text("1\n")
    (tmp_path / "deep" / "b ü.jsonl").write_text("2\n")
    assert wake.wait(LONG) == {tmp_path / "a.jsonl", tmp_path / "deep" / "b ü.jsonl"}
    with (tmp_path / "a.jsonl").open("a") as file:
        file.write("3\n")
    assert wake.wait(LONG) == {tmp_path / "a.jsonl"}
    (tmp_path / "a.jsonl").rename(tmp_path / "a.old")
    assert wake.wait(LONG) == {tmp_path / "a.jsonl", tmp_path / "a.old"}
    assert wake.wait(0) == set()


@linux_only
def test_folders_are_watched_from_when_they_are_told_and_stay_so(tmp_path: Path) -> None:
    wake = KernelEvents()
    wake.watch([tmp_path])
    (tmp_path / "later").mkdir()
    assert wake.wait(LONG) == {tmp_path / "later"}
    wake.watch([tmp_path, tmp_path / "later"])
    assert wake.at_once
    (tmp_path / "later" / "a").touch()
    assert wake.wait(LONG) == {tmp_path / "later" / "a"}


@linux_only
def test_a_folder_that_cannot_be_watched_is_for_the_poll(tmp_path: Path) -> None:
    wake = KernelEvents()
    wake.watch([tmp_path, tmp_path / "nowhere"])
    assert not wake.at_once
    wake.watch([tmp_path])
    assert wake.at_once


@linux_only
def test_where_events_were_lost_the_poll_is_trusted_alone(tmp_path: Path) -> None:
    wake = KernelEvents()
    wake.watch([tmp_path])
    lost = module._EVENT.pack(-1, module._OVERFLOW, 0, 0)
    assert list(wake._files(lost)) == []
    assert not wake.at_once


@pytest.mark.parametrize("kind", [new_wake, PlainSleep, WatchedFolders])
def test_a_ring_ends_the_next_wait_and_the_end_every_one(kind: type[Wake]) -> None:
    wake = kind()
    assert 0.02 <= seconds_waited(wake, 0.02) < LONG
    wake.ring()
    wake.ring()
    assert seconds_waited(wake, LONG) < LONG / 2
    threading.Timer(0.02, wake.close).start()
    assert seconds_waited(wake, LONG) < LONG / 2
    assert seconds_waited(wake, LONG) < LONG / 2
    wake.close()
    wake.ring()


def test_without_events_of_the_kernel_a_wait_is_a_sleep(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def used_up() -> Wake:
        raise OSError("too many users of inotify")

    monkeypatch.setattr(module, "KernelEvents", used_up)
    monkeypatch.setattr(module.sys, "platform", "linux")
    wake = new_wake()
    wake.watch([tmp_path])
    assert not wake.at_once
    assert seconds_waited(wake, 0.02) >= 0.02


def test_elsewhere_watchfiles_ends_the_wait_and_is_given_the_highest_folders(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[Path] = []

    def watch(*folders: Path, **_: object) -> list[set[object]]:
        given.extend(folders)
        return [set()]

    monkeypatch.setitem(sys.modules, "watchfiles", type("watchfiles", (), {"watch": staticmethod(watch)}))
    monkeypatch.setattr(module.sys, "platform", "darwin")
    wake = new_wake()
    wake.watch([tmp_path, tmp_path / "deep"])
    assert seconds_waited(wake, LONG) < LONG / 2
    assert given == [tmp_path]
    wake.close()


@pytest.mark.parametrize("broken", [None, type("watchfiles", (), {"watch": None})])
def test_without_watchfiles_a_wait_is_a_sleep(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broken: object
) -> None:
    monkeypatch.setitem(sys.modules, "watchfiles", broken)
    wake = WatchedFolders()
    wake.watch([tmp_path])
    assert seconds_waited(wake, 0.02) >= 0.02
    wake.close()
