"""What grpo-top writes is whole, or what was there before; what cannot be kept is said, and nothing is broken by it."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import watchfiles
from runs import group, run_record, write_log

from grpo_top.cli import main
from grpo_top.grade_store import GradeStore
from grpo_top.grades import HandScore
from grpo_top.sources.tree import Tree
from grpo_top.writing import write_whole

FULL = Path("/dev/full")
needs_full = pytest.mark.skipif(not FULL.exists(), reason="there is no /dev/full")
SCORE = HandScore("run", "content", 1, "a", 0, 1.0, "", None)


def test_a_file_is_replaced_as_a_whole_through_a_link_too(tmp_path: Path) -> None:
    real, link = tmp_path / "real.md", tmp_path / "link.md"
    real.write_text("before")
    link.symlink_to(real)
    assert write_whole(link, "after ü") == 8
    assert real.read_text(encoding="utf-8") == "after ü"
    assert link.is_symlink()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link.md", "real.md"]


def test_a_full_disk_leaves_what_was_there_and_no_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write_log(tmp_path / "log.jsonl", [run_record(), *group(1, "a", (0, 1))])
    out = tmp_path / "report.md"
    out.write_text("before")

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(type(tmp_path), "replace", full)
    assert main(["report", str(tmp_path / "log.jsonl"), "--out", str(out)]) == 2
    assert "No space left on device" in capsys.readouterr().err
    assert out.read_text() == "before"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["log.jsonl", "report.md"]


@needs_full
def test_a_hand_score_that_cannot_be_kept_says_why(tmp_path: Path) -> None:
    assert GradeStore(FULL).keep(SCORE) == "/dev/full: No space left on device"
    (tmp_path / "file").touch()
    assert (
        GradeStore(tmp_path / "file" / "scores.jsonl").keep(SCORE)
        == f"{tmp_path}/file/scores.jsonl: File exists"
    )
    assert GradeStore(tmp_path / "file" / "scores.jsonl").load() == []


@needs_full
def test_what_cannot_be_printed_is_one_line_and_no_finding(tmp_path: Path) -> None:
    write_log(tmp_path / "log.jsonl", [run_record(), *group(1, "a", (0, 1))])
    with FULL.open("wb") as full:
        command = [sys.executable, "-m", "grpo_top", "check", str(tmp_path)]
        done = subprocess.run(
            command, stdout=full, stderr=subprocess.PIPE, text=True, timeout=60, check=False
        )
    assert done.returncode == 2
    assert done.stderr == "grpo-top: No space left on device\n"


def test_without_events_the_poll_finds_what_is_new(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = threading.Event()

    def none_left(*_: object, **__: object) -> None:
        asked.set()
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(watchfiles, "watch", none_left)
    monkeypatch.setattr(sys, "platform", "darwin")  # where there are the kernel's own events, they are asked
    tree = Tree([str(tmp_path)])
    (tmp_path / "sub").mkdir()
    tree.scan()
    tree.wait(0.01)
    assert asked.wait(5)
    (tmp_path / "sub" / "new.jsonl").touch()
    tree.wait(0.01)
    assert [path.name for path in tree.scan()] == ["new.jsonl"]
    tree.close()
