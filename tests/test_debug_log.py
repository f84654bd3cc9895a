"""`--debug`: a rotated log of what happened, without secrets, and without what a model wrote unless that is wanted."""

from __future__ import annotations

import logging
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from runs import group, run_record, write_log

from grpo_top import debug_log
from grpo_top.defects import described, quoting
from grpo_top.sources.feed import Feed

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parent.parent


@pytest.fixture
def no_log_stays() -> Iterator[None]:
    yield
    log = logging.getLogger("grpo_top")
    for handler in list(log.handlers):
        log.removeHandler(handler)
        with suppress(ValueError):  # one test closes its file before
            handler.close()
    quoting().disabled = True


def _happens() -> None:
    fields: dict[str, int] = {}
    try:
        fields["what a model wrote\n\x1b[2J2026-01-01 a line of its own"] += 1
    except KeyError as error:
        described("the reader", error, "is off")
    feed: Feed[bytes] = Feed("http://user:hidden@host:1/x?token=hidden")
    feed.failed("connection refused", 0.0)
    feed.failed("connection refused", 0.0)
    feed.answered()


@pytest.mark.parametrize("texts", [False, True])
def test_the_log_tells_of_defects_and_endpoints_in_lines_of_its_own(
    texts: bool, tmp_path: Path, no_log_stays: None
) -> None:
    path = debug_log.begin("check", texts=texts, path=tmp_path / "state" / "debug.log")
    _happens()
    lines = path.read_text().splitlines()
    said = "\n".join(lines)
    assert "check" in lines[0]
    assert "the reader is off: KeyError at test_debug_log.py:" in said
    assert said.count("http://host:1/x does not answer: connection refused") == 1
    assert "http://host:1/x answers" in said
    assert "hidden" not in said
    assert ("what a model wrote" in said) is texts
    assert "\x1b" not in said
    assert all(line.startswith("20") and " MainThread: " in line for line in lines)
    assert len(lines) == 4 + texts


def test_it_is_rotated_and_a_full_disk_is_no_trouble(
    tmp_path: Path, no_log_stays: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(debug_log, "LARGEST", 2000)
    path = debug_log.begin("monitor", texts=False, path=tmp_path / "debug.log")
    for _ in range(200):
        logging.getLogger("grpo_top.app").info("something happens")
    names = sorted(file.name for file in tmp_path.iterdir())
    assert names == ["debug.log", "debug.log.1", "debug.log.2", "debug.log.3"]
    assert all(file.stat().st_size <= 2000 for file in tmp_path.iterdir())
    assert path.exists()
    (handler,) = (one for one in logging.getLogger("grpo_top").handlers if hasattr(one, "stream"))
    handler.stream.close()
    logging.getLogger("grpo_top.app").info("this is not written: its file is closed")
    assert capsys.readouterr().err == ""


def test_the_command_line_says_where_the_log_is_or_why_there_is_none(tmp_path: Path) -> None:
    write_log(tmp_path / "run" / "log.jsonl", [run_record(), *group(1, "a", (0, 1))])
    (tmp_path / "no-directory").touch()
    for state, said in (("state", "is logged in"), ("no-directory", "cannot be logged: ")):
        done = subprocess.run(
            [sys.executable, "-m", "grpo_top", "check", str(tmp_path / "run"), "--debug"],
            cwd=ROOT,
            env={"XDG_STATE_HOME": str(tmp_path / state), "HOME": str(tmp_path), "PATH": ""},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0
        assert said in done.stderr
    log = tmp_path / "state" / "grpo-top" / "debug.log"
    assert f"{tmp_path}/run/log.jsonl is live" in log.read_text()
