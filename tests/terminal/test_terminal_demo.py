"""The demo in a real terminal, as a user meets it first: it opens, drills down and leaves cleanly."""

from __future__ import annotations

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
DEMO = [sys.executable, "-m", "grpo_top", "demo", "--fault", "sampler_cold", "--speed", "20"]


@pytest.fixture
def scratch(tmp_path) -> Path:
    """Where the program makes its temporary files."""
    directory = tmp_path / "scratch"
    directory.mkdir()
    return directory


@pytest.fixture
def terminal(scratch) -> Iterator[Tmux]:
    terminal = Tmux(ROOT, {"TMPDIR": str(scratch)}, columns=120, rows=40)
    yield terminal
    terminal.close()


def test_the_demo_opens_drills_down_to_a_rollout_and_quits(terminal, scratch):
    terminal.start(DEMO)
    terminal.wait_for("Group variance", 20)
    assert terminal.alternate_screen

    terminal.wait_for("SAMPLER_DRIFT", 30)
    terminal.keys("s")
    terminal.wait_for("Groups", 10)
    terminal.keys(
        "Enter", "Enter", "Enter"
    )  # from the step to its groups, to the rollouts of one, to one of them
    terminal.wait_for("Siblings", 10)
    terminal.wait_for("<answer>", 10)

    terminal.keys("q")
    terminal.wait_until(lambda: terminal.at_prompt, 10, "the shell's prompt is back")
    assert list(scratch.iterdir()) == []


def test_the_demo_can_be_left_while_it_plays(terminal, scratch):
    terminal.start([*DEMO[:-1], "1"])
    terminal.wait_for("Group variance", 20)
    terminal.keys("q")

    terminal.wait_until(lambda: terminal.at_prompt, 10, "the shell's prompt is back")
    assert list(scratch.iterdir()) == []
