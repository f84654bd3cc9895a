"""What is left of the monitor in the smallest windows: one sentence."""

from __future__ import annotations

from textwrap import wrap
from typing import TYPE_CHECKING

from grpo_top.snapshot import Status
from grpo_top.text import safe
from grpo_top.ui.glyphs import STATUS_ROLES
from grpo_top.ui.panels.said import said_of
from grpo_top.ui.widgets.view_rows import ViewRows

if TYPE_CHECKING:
    from grpo_top.ui.glyphs import Glyphs
    from grpo_top.ui.view import View
    from grpo_top.ui.widgets.strips import Run


class Sentence(ViewRows):
    """The first cause, or that there is none."""

    DEFAULT_CSS = "Sentence { height: 1fr; }"

    def rows_of(self, view: View, width: int, height: int, glyphs: Glyphs) -> list[list[Run]]:
        """The sentence, wrapped."""
        status, text = sentence(view)
        if view.snapshot.run.recording:
            text = f"recording: {text}"
        lines = wrap(glyphs.plain(text), max(width - 2, 1)) or [""]
        role = f"{STATUS_ROLES[status]} bold"
        rows: list[list[Run]] = [[(f"{glyphs.mark(status)} ", role), (lines[0], "text bold")]]
        return [*rows, *([("  ", ""), (line, "text bold")] for line in lines[1:])][:height]


def sentence(view: View) -> tuple[Status, str]:
    """How the run stands and why."""
    if view.error:
        return Status.FAIL, f"reading stopped: {safe(view.error)}"
    if view.step is None:
        if not view.snapshot.sources:
            return Status.UNKNOWN, "no log found yet; `grpo-top demo` shows a recorded run"
        return Status.UNKNOWN, "no step has been read yet"
    first = view.first_cause()
    if first is not None:
        return view.status(first.id), f"{first.id} since step {first.onset}: {said_of(view, first)}"
    return Status.OK, f"all quiet at step {view.step}"
