"""Several places are watched together: new files are told once, and waiting ends early when something changes."""

from __future__ import annotations

import sys
import threading
import time
from typing import TYPE_CHECKING

import pytest

from grpo_top.sources import tree as module
from grpo_top.sources.tree import Tree

if TYPE_CHECKING:
    from pathlib import Path


def make(root: Path, *names: str) -> None:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()


def seconds_waited(tree: Tree, timeout: float) -> float:
    begun = time.monotonic()
    tree.wait(timeout)
    return time.monotonic() - begun


def test_a_scan_gives_each_file_once_in_natural_order(tmp_path: Path) -> None:
    make(tmp_path, "b/10.jsonl", "b/9.jsonl", "a.jsonl")
    tree = Tree([str(tmp_path / "b"), str(tmp_path / "a.jsonl"), str(tmp_path)])
    assert [path.name for path in tree.scan()] == ["a.jsonl", "9.jsonl", "10.jsonl"]
    assert tree.scan() == []
    make(tmp_path, "b/12.jsonl", "b/11.jsonl")
    assert [path.name for path in tree.scan()] == ["11.jsonl", "12.jsonl"]


def test_a_file_that_vanished_and_returned_is_not_new(tmp_path: Path) -> None:
    make(tmp_path, "a.jsonl")
    tree = Tree([str(tmp_path)])
    tree.scan()
    (tmp_path / "a.jsonl").unlink()
    assert tree.scan() == []
    make(tmp_path, "a.jsonl")
    assert tree.scan() == []


def test_the_root_is_the_deepest_common_folder(tmp_path: Path) -> None:
    make(tmp_path, "runs/one/a.jsonl", "runs/two/b/c.jsonl")
    tree = Tree([str(tmp_path / "runs/one"), str(tmp_path / "runs/two/b/c.jsonl")])
    tree.scan()
    assert tree.root == tmp_path / "runs"


def test_places_that_match_nothing_are_missing_until_they_do(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    glob, later, empty = f"{tmp_path}/*.jsonl", str(tmp_path / "later"), str(tmp_path / "empty")
    tree = Tree([glob, later, empty])
    tree.scan()
    assert tree.missing == (glob, later)
    (tmp_path / "later").mkdir()
    tree.scan()
    assert tree.missing == (glob,)
    make(tmp_path, "a.jsonl")
    tree.scan()
    assert tree.missing == ()


def test_what_is_left_out_is_told_once_for_all_places(tmp_path: Path) -> None:
    make(tmp_path, "a.pt", *(f"{number}.jsonl" for number in range(5)))
    tree = Tree([str(tmp_path), str(tmp_path)], limit=20)
    tree.scan()
    assert tree.left_out == ("1 pickle file (e.g. a.pt): never loaded, since unpickling runs code",)


def test_the_limit_holds_over_all_places(tmp_path: Path) -> None:
    make(tmp_path, *(f"{number}.jsonl" for number in range(5)))
    tree = Tree([str(tmp_path / f"{number}.jsonl") for number in range(5)], limit=3)
    assert len(tree.scan()) == 3
    assert tree.left_out == (f"2 files (e.g. {tmp_path}/3.jsonl): past the limit of 3",)
    assert tree.scan() == []


def test_waiting_without_a_change_takes_its_time(tmp_path: Path) -> None:
    tree = Tree([str(tmp_path)])
    tree.scan()
    assert seconds_waited(tree, 0.02) >= 0.02
    tree.ring()
    assert seconds_waited(tree, 20) < 10
    tree.close()


def test_a_change_ends_the_waiting_early(tmp_path: Path) -> None:
    if not module._is_local(tmp_path):
        pytest.skip("no file events on this file system")
    make(tmp_path, "alone.jsonl", "run/a.jsonl")
    tree = Tree([str(tmp_path / "run"), str(tmp_path / "alone.jsonl"), f"{tmp_path}/run/*.jsonl"])
    tree.scan()
    assert not tree.tells_at_once
    tree.wait(0)
    assert tree.tells_at_once is sys.platform.startswith("linux")
    for path in (tmp_path / "run/b.jsonl", tmp_path / "alone.jsonl"):
        path.write_text("{}")
        assert seconds_waited(tree, 20) < 10
    tree.close()


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the kernel's events are Linux's")
def test_a_change_in_a_folder_that_came_later_is_told_once_it_has_been_found(tmp_path: Path) -> None:
    tree = Tree([str(tmp_path)])
    tree.scan()
    tree.wait(0)
    make(tmp_path, "deep/a.jsonl")
    assert tree.wait(20) == {tmp_path / "deep"}
    tree.scan()
    assert not tree.tells_at_once
    tree.wait(0)
    (tmp_path / "deep/a.jsonl").write_text("{}")
    assert tree.wait(20) == {tmp_path / "deep/a.jsonl"}
    tree.close()


def test_places_on_other_machines_are_for_the_poll(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_is_local", lambda _folder: False)
    tree = Tree([str(tmp_path)])
    tree.scan()
    tree.wait(0)
    make(tmp_path, "a.jsonl")
    assert not tree.tells_at_once
    assert seconds_waited(tree, 0.02) >= 0.02
    tree.close()


def test_closing_ends_a_wait_that_is_under_way(tmp_path: Path) -> None:
    tree = Tree([str(tmp_path)])
    tree.scan()
    threading.Timer(0.02, tree.close).start()
    assert seconds_waited(tree, 20) < 10


def test_closing_twice_or_before_any_wait_is_fine(tmp_path: Path) -> None:
    tree = Tree([str(tmp_path)])
    tree.close()
    tree.close()
    tree.wait(0)


def test_importing_does_not_load_watchfiles() -> None:
    import subprocess  # noqa: PLC0415

    code = "import sys, grpo_top.sources.tree; print('watchfiles' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == "False\n"
