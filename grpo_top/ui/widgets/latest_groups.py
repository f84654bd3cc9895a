"""The rail's lower box: the newest groups, their rewards as strips."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING

import numpy as np

from grpo_top import numbers
from grpo_top.records import Rollout
from grpo_top.snapshot import Gone
from grpo_top.text import first_line
from grpo_top.ui.rollouts.texts import Texts
from grpo_top.ui.widgets.panel import boxed
from grpo_top.ui.widgets.strips import fit, reward_strip
from grpo_top.ui.widgets.view_rows import ViewRows

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from textual import events
    from textual.worker import Worker

    from grpo_top.batch import Batch
    from grpo_top.snapshot import Snapshot
    from grpo_top.ui.glyphs import Glyphs
    from grpo_top.ui.view import View
    from grpo_top.ui.widgets.strips import Run

    Row = list[Run]

_STEP, _MEAN, _SIGMA, _TEXTS = 4, 6, 7, 7
_LEAST_PROMPT, _MOST_STRIP = 9, 16
_KEPT, _CHARACTERS = 512, 200
_SLICE_SECONDS = 0.25
"""Prompts that come within this time are drawn together: each drawing is of the whole box."""
_ABOVE = 2
"""Rows above the first group: the border and the header."""


class LatestGroups(ViewRows):
    """The newest groups up to the view's step, drawn once their prompts are there.

    Those that the Snapshot does not hold are read in a thread.
    """

    def __init__(self) -> None:
        super().__init__()
        self._prompts: Texts[str] = Texts(_prompt, _KEPT)
        self._coming: View | None = None
        """The view to draw when its prompts are there."""
        self._reading: Worker[None] | None = None
        self._shown: list[int] = []
        """Rows of the table of groups, as they are drawn."""
        self._strips: dict[tuple[int, float, float, int], Row] = {}
        """Reward strips by group, what it holds, and their width: most of them are seen many times."""

    def show(self, view: View) -> None:
        """Draw a view: once its prompts are there, or at once where a slow disk still reads those of another."""
        if self.view is not None and view.snapshot.epoch != self.view.snapshot.epoch:
            self._prompts, self._strips = (
                Texts(_prompt, _KEPT),
                {},
            )  # rows are other rollouts, groups other ones
        self._coming = view
        columns, prompts = view.snapshot.groups.columns, view.snapshot.prompts
        for at in _newest(view, self.size.height - 3):
            row = int(columns["first_row"][at])
            if self._prompts.get(row) is None and (prompt := prompts.get(row)) is not None:
                self._prompts.keep([(row, first_line(prompt, _CHARACTERS))])
        waits = self.view is not None and (self._reading is None or self._reading.is_finished)
        if not (self._read_prompts(view) and waits):
            super().show(view)

    def rows_of(self, view: View, width: int, height: int, glyphs: Glyphs) -> list[Row]:
        """The box."""
        inner = width - 4
        columns = view.snapshot.groups.columns
        newest = self._shown = _newest(view, height - 3)
        size = max((int(columns["size"][at]) for at in newest), default=0)
        room = inner - _STEP - 1 - _MEAN - _SIGMA - _TEXTS
        strip = min(max(size, 7), _MOST_STRIP, max(room - _LEAST_PROMPT, 7))
        prompt = max(room - strip, 0)
        rows: list[Row] = [
            [
                (f"{'step':>{_STEP}} {'prompt':<{prompt}}{'rewards':<{strip}}", "dim"),
                (f"{'mean':>{_MEAN}}{glyphs.sigma:>{_SIGMA}}{'texts':>{_TEXTS}}", "dim"),
            ]
        ]
        if not newest:
            rows = [[(f"{glyphs.unknown} ", "info"), ("no rollouts in this log", "dim")]]
        before = None
        for at in newest:
            step = int(columns["step"][at])
            rows.append(self._row(view, at, step != before, prompt, strip, glyphs))
            before = step
        self._read_prompts(view)
        title = "Latest groups" if view.cursor is None else f"Groups to step {view.cursor}"
        right: Row = [("s", "accent bold"), (" rollouts", "dim")]
        return boxed(rows, width, height, [(title, "text bold")], right, [], "border", False, glyphs)

    async def on_click(self, event: events.Click) -> None:
        """Open the rollouts of a group."""
        at, view = event.y - _ABOVE, self.view
        if view is not None and 0 <= at < len(self._shown):
            columns, row = view.snapshot.groups.columns, self._shown[at]
            await self.run_action(f"app.group({int(columns['step'][row])},{int(columns['group'][row])})")

    def _row(self, view: View, at: int, first: bool, prompt: int, strip: int, glyphs: Glyphs) -> Row:
        columns = view.snapshot.groups.columns
        flat = int(columns["flat"][at]) == 1
        mean, sigma = float(columns["mean"][at]), float(columns["std"][at])
        size, texts = int(columns["size"][at]), int(columns["texts"][at])
        text = self._prompts.get(int(columns["first_row"][at])) or ""
        spread = "flat" if flat else numbers.fixed(sigma, 3)
        different = numbers.UNKNOWN if texts < 0 else numbers.ratio(texts, size)
        return [
            (f"{int(columns['step'][at]) if first else '':>{_STEP}} ", "dim"),
            (fit(first_line(text, prompt - 1), prompt, ellipsis=glyphs.ellipsis), "dim" if flat else "text"),
            *self._strip(view, at, mean, sigma, strip, glyphs),
            (f"{numbers.fixed(mean, 2):>{_MEAN}}", "dim" if flat else "text"),
            (f"{spread:>{_SIGMA}}", "warn" if flat else "text"),
            (f"{different:>{_TEXTS}}", "warn" if texts == 1 else "dim"),
        ]

    def _strip(self, view: View, at: int, mean: float, sigma: float, width: int, glyphs: Glyphs) -> Row:
        key = (at, mean, sigma, width)
        if key not in self._strips:
            if len(self._strips) > _KEPT:
                self._strips.clear()
            columns = view.snapshot.groups.columns
            batch = view.batch(int(columns["step"][at]))
            self._strips[key] = _strip(view, batch, int(columns["group"][at]), mean, width, glyphs)
        return self._strips[key]

    def _read_prompts(self, view: View) -> bool:
        """Read what was asked for in vain, in a thread, and draw it then; whether there is anything to read."""
        wanted = self._prompts.take_wanted()
        if not wanted:
            return False

        def take(found: list[tuple[int, str]]) -> None:
            self.app.call_from_thread(self._keep, found)

        def read() -> None:
            self._prompts.read(wanted, _reader(view.snapshot, wanted), take, _SLICE_SECONDS)

        self._reading = self.run_worker(read, thread=True, group="prompts")
        return True

    def _keep(self, found: list[tuple[int, str]]) -> None:
        self._prompts.keep(found)
        if self._coming is not None:
            super().show(self._coming)


def _reader(snapshot: Snapshot, rows: Sequence[int]) -> Callable[[int], Rollout | Gone]:
    """Reads one of some rows: those of files were read together, in a quarter of the time."""
    together: dict[int, Rollout | Gone] = {}
    if snapshot.scan is not None:
        for looked in snapshot.scan(np.array(rows, np.int64), ()):
            together.update(looked.found)

    def read(row: int) -> Rollout | Gone:
        found = together.get(row)
        return found if isinstance(found, Rollout) else snapshot.read(row)

    return read


def _prompt(rollout: Rollout | Gone) -> str:
    """What a rollout was asked, in one line."""
    if isinstance(rollout, Gone):
        return rollout.reason
    if rollout.prompt is not None:
        return first_line(rollout.prompt, _CHARACTERS)
    asked = [message.content for message in rollout.messages or () if message.role == "user"]
    return first_line(asked[0], _CHARACTERS) if asked else ""


def _newest(view: View, most: int) -> list[int]:
    """Rows of the table of groups: the newest step's first, each step's groups in their order."""
    if view.step is None or most <= 0:
        return []
    steps = view.snapshot.groups.columns["step"]  # ascending, as they were judged
    known = bisect_right(steps, view.step)
    if not known:
        return []
    begin = bisect_left(steps, steps[known - min(most, known)])
    late = sorted(range(begin, known), key=lambda at: -int(steps[at]))  # stable
    return late[:most]


def _strip(view: View, batch: Batch | None, group: int, mean: float, width: int, glyphs: Glyphs) -> Row:
    if batch is None:
        return [(" " * width, "")]
    rewards = batch.reward[batch.group == group].tolist()
    low, high = view.snapshot.run.reward_range or (0.0, 1.0)
    shown = rewards if len(rewards) <= width else rewards[: width - 1]
    cells = reward_strip(shown, low, high, None if np.isnan(mean) else mean, glyphs)
    if len(rewards) > width:
        cells.append((glyphs.ellipsis, "dim"))
    return [*cells, (" " * (width - len(cells)), "")]
