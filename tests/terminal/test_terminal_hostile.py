"""What a model writes is data: of a hostile log no byte that acts reaches a real terminal, nor the user's pager."""

from __future__ import annotations

import json
import re
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from terminal import Tmux

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [
    pytest.mark.terminal,
    pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed"),
]

ROOT = Path(__file__).parent.parent.parent
MARK = "EVIL"
"""Stands in every payload, so that what comes through is recognised wherever it is."""
HOSTILE = {
    "clear": f"\x1b[2J{MARK}\x1b[31;5m",
    "clipboard": f"\x1b]52;c;{MARK}\x07",
    "title": f"\x1b]0;{MARK}\x1b\\",
    "c1": f"\x9b31m{MARK}\x90q\x9c\x9d0;{MARK}\x9c",
    "keys": f"\x1bP$q{MARK}\x1b\\\x1b[6n\x05",
    "controls": "".join(map(chr, range(0x20))) + "\x7f",
    "markup": f"[/x] [bold]{MARK}[/bold] [@click=app.quit]{MARK}[/] [link=x]",
    "bidi": f"\u202e{MARK}\u2066d\u2069\u200f",
    "hidden": f"zero\u200bwidth{MARK}\ufeff\u00ad\u2060\U000e0041\ufe0f\u3164",
    "lines": f"a\rb\x0bc\x0cd\x85e\u2028{MARK}\u2029",
    "surrogate": f"lone \ud800{MARK}\udfff",
    "wide": f"日本語のテキスト👩\u200d💻{MARK}e\u0301\u0301\u0301",
    "long": f"{MARK}" + "x" * 1_000_000,
}
INVALID = (
    b'{"kind":"rollout","step":1,"group":"bad","reward":1,"completion":"EVIL\xff\xfe\xc0\x80\xed\xa0\x80"}'
)

ACTS = {
    "a C0 control but those of escape sequences": re.compile(rb"[\x00-\x06\x10-\x1a\x1c-\x1f\x7f]"),
    "a C1 control": re.compile(rb"\xc2[\x80-\x9f]"),
    "a bidi or zero-width character": re.compile(
        rb"\xe2\x80[\x8b-\x8f\xa8-\xae]|\xe2\x81[\xa0-\xaf]|\xef\xbb\xbf|\xc2\xad|\xf3\xa0|\xef\xb8[\x80-\x8f]"
    ),
    "bytes that are no UTF-8": re.compile(rb"\xff|\xfe|\xc0\x80|\xed[\xa0-\xbf]"),
    "a payload within an escape sequence": re.compile(rb"\x1b[\]P_^X][^\x07\x1b]*EVIL"),
    "the payload's own clear, status or answerback": re.compile(rb"\x1b\[31;5m|\x1b\[6n|\x05"),
}
"""None of it is ever sent by grpo-top itself."""


def records() -> Iterator[bytes]:
    evil = "".join(text for name, text in HOSTILE.items() if name != "long")
    run = {"kind": "run", "schema": "grpo-top/1", "run": f"r{evil}", "group_size": len(HOSTILE)}
    yield json.dumps(run).encode()
    for index, text in enumerate(HOSTILE.values()):
        fields = {
            "prompt": f"{evil}\n{text}",
            "completion": f"{text}\n{evil}",
            "task": f"t{evil}",
            "family": f"f{evil}",
            "verifier": {"raw": text, "error": evil},
            "rewards": {f"acc{evil}": 0.5},
            "finish_reason": f"s{evil}",
            "termination": evil,
            "sampler": evil,
            "sampling": {"temperature": 0.5},
            "env_version": evil,
            "reward_version": evil,
        }
        own = {"kind": "rollout", "step": 1, "group": f"g{evil}", "index": index, "reward": index / 20}
        yield json.dumps({**own, **fields}).encode()
    yield INVALID
    for step in (1, 2):
        yield json.dumps(
            {"kind": "step", "step": step, "metrics": {"loss": 0.1, f"loss{evil}": 0.1}}
        ).encode()


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A log of what a model might write, or somebody who knows that it is read in a terminal."""
    path = tmp_path / "run" / "rollouts.jsonl"
    path.parent.mkdir()
    path.write_bytes(b"\n".join(records()) + b"\n")
    return path


def test_the_log_holds_all_of_what_must_not_come_through() -> None:
    raw = "".join(HOSTILE.values()).encode("utf-8", "surrogatepass") + INVALID
    assert [what for what, pattern in ACTS.items() if pattern.search(raw) is None] == []


def test_no_byte_that_acts_reaches_the_terminal_or_the_pager(log: Path, tmp_path: Path) -> None:
    sent = tmp_path / "sent"
    pager = tmp_path / "pager.sh"
    pager.write_text('#!/bin/sh\ncat "$1"\necho "page ends"\nread answer\n')
    pager.chmod(0o700)
    terminal = Tmux(
        tmp_path, {"TMPDIR": str(tmp_path), "PAGER": str(pager), "PYTHONPATH": str(ROOT)}, 120, 40
    )
    try:
        terminal.record(sent)
        terminal.start([sys.executable, "-m", "grpo_top", str(log)])
        terminal.wait_for("s rollouts", 20)
        terminal.keys("s")
        terminal.wait_for("Groups", 10)
        terminal.keys("Enter", "Enter")
        terminal.wait_for("Rollouts", 10)
        terminal.wait_for("Preview", 10)
        terminal.keys(*["Down"] * len(HOSTILE))
        terminal.keys("e")
        terminal.wait_for("page ends", 10)
        terminal.keys("Enter")
        terminal.wait_for("Preview", 10)
        terminal.keys("/", "E", "V", "I", "L", "Enter")
        terminal.wait_for("14 of 14 rollouts", 10)
        terminal.keys("c", "Enter")
        terminal.wait_for("Siblings", 10)
        terminal.keys("f")
        terminal.wait_for("Findings", 10)
        terminal.keys("q")
        terminal.wait_until(lambda: terminal.at_prompt, 10, "the shell's prompt is back")
    finally:
        terminal.close()
    seen = sent.read_bytes()
    assert seen.count(MARK.encode()) > 20
    assert "␛".encode() in seen
    assert "⟨U+202E⟩".encode() in seen
    for what, pattern in ACTS.items():
        found = pattern.search(seen)
        assert found is None, (what, seen[max(0, found.start() - 60) : found.end() + 60])
