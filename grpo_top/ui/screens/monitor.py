"""The monitor: the whole run at a glance, in as many panels as the window has room for."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from textual.containers import Horizontal, Vertical

from grpo_top.ui.keys import (
    CHART_KEYS,
    COMMANDS_KEY,
    FINDINGS_KEY,
    HELP_KEY,
    PAUSED_KEYS,
    QUIT_KEY,
    ROLLOUTS_KEY,
    RUNS_KEY,
    TIME_KEYS,
    Key,
    bindings,
)
from grpo_top.ui.panels.catalogue import PANELS, next_of_stage, panel_of
from grpo_top.ui.screens.base import RunScreen
from grpo_top.ui.widgets.banner import Banner
from grpo_top.ui.widgets.findings_list import FindingsList
from grpo_top.ui.widgets.first_run import FirstRun
from grpo_top.ui.widgets.fleet_box import FleetBox
from grpo_top.ui.widgets.footer import KeyLine
from grpo_top.ui.widgets.latest_groups import LatestGroups
from grpo_top.ui.widgets.metric_table import MetricTable
from grpo_top.ui.widgets.panel import PanelBox
from grpo_top.ui.widgets.sentence import Sentence
from grpo_top.ui.widgets.title import TitleLine
from grpo_top.ui.widgets.triage_strip import TriageStrip

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual.app import ComposeResult
    from textual.widget import Widget

    from grpo_top.ui.panels.facts import PanelFacts
    from grpo_top.ui.view import View

COLUMNS = 2
_AROUND = 3
"""Rows of title, triage strip and footer."""
_FLEET_BELOW = 6
"""Rows of the fleet at most, where it stands below the panels."""
_LEAST_GROUPS = 8
"""Rows of the latest groups at least, where the fleet stands above them."""
_STEPS_UNTIL_FEWER = 20
"""Steps that rows of the findings stay after they were needed last."""


class Layout(NamedTuple):
    """What a window of a size shows."""

    kind: str
    """`panels`, `rows` or `sentence`."""
    banner: int = 0
    """Rows of the banner."""
    stack: int = 0
    """Columns of each of the two stacks of panels."""
    rail: int = 0
    """Columns of the rail at their right; 0 is none."""


def layout_of(width: int, height: int) -> Layout:
    """Panels where there is room for them, else rows, else one sentence.

    A rail takes 46 columns, and from there on what the stacks leave beyond 57 each, up to 70.
    """
    if width < 40 or height < 12:
        return Layout("sentence")
    if width < 110 or height < 36:
        return Layout("rows", banner=2)
    if width < 150:
        return Layout("panels", banner=3, stack=width // 2)
    rail = min(max(width - 2 * 57, 46), 70)
    stack = (width - rail) // 2
    return Layout("panels", banner=2, stack=stack, rail=width - 2 * stack)


def stack_heights(rows: int, facts: Sequence[PanelFacts]) -> list[int]:
    """How many rows each panel of a stack takes: equal shares, so that both stacks line up.

    A panel without its field takes one row; the charts of its stack share what it leaves.
    """
    share, odd = divmod(rows, len(facts))
    heights = [share + (index < odd) for index in range(len(facts))]
    missing = [index for index, fact in enumerate(facts) if fact.missing]
    charts = [index for index, fact in enumerate(facts) if not fact.missing and fact.chart and fact.numbers]
    charts = charts or [index for index in range(len(facts)) if index not in missing]
    spare = sum(heights[index] - 1 for index in missing) if charts else 0
    for index in missing:
        heights[index] = 1
    for place, index in enumerate(charts):
        heights[index] += spare // len(charts) + (place < spare % len(charts))
    return heights


class MonitorScreen(RunScreen):
    """All panels of a run, or its metrics in rows where there is no room for them."""

    CSS = """
    MonitorScreen #left, MonitorScreen #right, MonitorScreen #rail { height: 1fr; }
    """

    _MOVES = (
        Key("up,k", "go(0,-1)", "↑↓←→", "panel", "move the focus"),
        Key("down,j", "go(0,1)"),
        Key("left,h", "go(-1,0)"),
        Key("right,l", "go(1,0)"),
    )
    _OPEN = (Key("enter", "open", "enter", "open", "open the panel whole; on the first cause, its evidence"),)
    _OTHERS = (
        FINDINGS_KEY,
        ROLLOUTS_KEY,
        Key("slash", "app.search", "/", "search", "search prompts, completions and fields"),
    )
    _MORE = (
        *(Key(str(stage), f"stage({stage})") for stage in range(9)),
        Key("m", "app.metrics", "m", "", "the trainer's other numbers, under its own names"),
        Key("p", "open_panel", "p", "", "open the panel whole, the first cause's too"),
        Key("F", "app.panel('fleet')", "F", "", "the fleet of samplers, where a Prometheus server is asked"),
    )
    _STAGES = Key(
        "0", "stage(0)", "0–8", "stage", "go to a stage's panel; 0, the log itself, to the findings", 1
    )
    NAME = "monitor"
    KEYS = (
        *_MOVES,
        *_OPEN,
        *_OTHERS,
        *TIME_KEYS,
        *CHART_KEYS,
        _STAGES,
        *_MORE,
        HELP_KEY,
        COMMANDS_KEY,
        QUIT_KEY,
    )
    BINDINGS = bindings(KEYS)

    def __init__(self) -> None:
        super().__init__()
        self._layout: Layout | None = None
        self._focus = PANELS[0].key
        self._fleet_below = 0
        """Rows of the fleet below the panels."""
        self._findings_rows = 0
        """Rows of the findings in the rail, and the last step that needed so many."""
        self._findings_needed = 0
        self._moved = False
        """Whether the focus was moved by hand; until then it follows the first cause."""
        self._facts: list[PanelFacts] = []
        """What the panels say, and the view that it is said of: moving the focus changes none of it."""
        self._panels_of: View | None = None

    def body(self) -> ComposeResult:
        """Banner, and below it panels, rows or a sentence; which of them is seen depends on the size."""
        yield Banner(self.grpo_top.where)
        with Horizontal(id="grid"):
            with Vertical(id="left"):
                yield from (PanelBox(panel.key) for panel in PANELS[0::COLUMNS])
            with Vertical(id="right"):
                yield from (PanelBox(panel.key) for panel in PANELS[1::COLUMNS])
            with Vertical(id="rail"):
                yield FindingsList()
                yield FleetBox("fleet-beside")
                yield LatestGroups()
        yield FirstRun(self.grpo_top.where)
        yield MetricTable()
        yield FleetBox("fleet-below")
        yield Sentence()

    def show(self, view: View) -> None:
        """Draw what the window has room for."""
        first = view.first_cause()
        cause = None if first is None else panel_of(first.id)
        if not self._moved:
            self._focus = cause or PANELS[0].key
        kind = "" if self._layout is None else self._layout.kind
        self._show_fleet(view, kind)
        self.query_one("#grid").display = kind == "panels" and view.step is not None
        self.query_one(MetricTable).display = kind == "rows" and view.step is not None
        first_run = self.query_one(FirstRun)
        first_run.display = view.step is None and not view.snapshot.sources and kind != "sentence"
        if first_run.display:
            first_run.show(view)
        if kind == "sentence":
            self.query_one(Sentence).show(view)
        elif kind == "rows":
            self.query_one(MetricTable).show_selected(view, None if self._moved else self._focus)
        elif kind == "panels":
            self._show_panels(view)
        banner = self.query_one(Banner)
        banner.show_key("" if first is None else "enter" if self._on_cause(view) else "f")
        banner.show(view)

    def keys(self) -> Sequence[Key]:
        """Paused, the keys that move in time come first; while there is no step, those alone that lead anywhere."""
        runs = (RUNS_KEY,) if self.grpo_top.has_runs else ()
        if self.grpo_top.view.step is None:
            known = (FINDINGS_KEY,) if self.grpo_top.view.snapshot.sources else ()
            return (*known, *runs, HELP_KEY, COMMANDS_KEY, QUIT_KEY)
        rows = self._in_rows
        moves = self._MOVES[0]._replace(shown="↑↓", word="row") if rows else self._MOVES[0]
        if self.grpo_top.view.cursor is not None:
            quiet = moves._replace(word="")
            return (
                *PAUSED_KEYS,
                *self._OPEN,
                *self._OTHERS,
                quiet,
                *CHART_KEYS,
                self._STAGES._replace(word=""),
                *self._MORE,
                *runs,
                HELP_KEY,
                QUIT_KEY,
            )
        return (
            moves,
            *self._OPEN,
            *self._OTHERS,
            *TIME_KEYS,
            *CHART_KEYS,
            self._STAGES,
            *self._MORE,
            *runs,
            HELP_KEY,
            COMMANDS_KEY,
            QUIT_KEY,
        )

    def on_resize(self) -> None:
        """Arrange what the new size has room for."""
        layout = layout_of(*self.size)
        self._findings_rows = 0
        self._panels_of = None
        if layout != self._layout:
            self._layout = layout
            self.query_one(Sentence).display = layout.kind == "sentence"
            for around in (TitleLine, TriageStrip, Banner, KeyLine):
                self.query_one(around).display = layout.kind != "sentence"
            self.query_one(Banner).styles.height = layout.banner
            for side in ("#left", "#right"):
                self.query_one(side).styles.width = layout.stack
            rail = self.query_one("#rail")
            rail.display = layout.rail > 0
            rail.styles.width = max(layout.rail, 1)
        self.present(self.grpo_top.view)

    def action_go(self, across: int, down: int) -> None:
        """Move the focus, as far as there is something."""
        self._moved = True
        if self._in_rows:
            self.query_one(MetricTable).move(down)
        else:
            at = next(index for index, panel in enumerate(PANELS) if panel.key == self._focus)
            row, column = divmod(at, COLUMNS)
            row = min(max(row + down, 0), len(PANELS) // COLUMNS - 1)
            column = min(max(column + across, 0), COLUMNS - 1)
            self._focus = PANELS[row * COLUMNS + column].key
        self.show(self.grpo_top.view)

    def action_stage(self, stage: int) -> None:
        """Move the focus to a stage's next panel; the log itself has none, so that its findings are shown."""
        panel = next_of_stage(stage, self._focus)
        if panel is None:
            self.grpo_top.action_findings()
            return
        self._moved = True
        self._focus = panel
        if self._in_rows:
            self.query_one(MetricTable).select_stage(stage)
        self.show(self.grpo_top.view)

    def action_choose(self, panel: str) -> None:
        """Move the focus to a panel, and open it."""
        self._moved, self._focus = True, panel
        self.show(self.grpo_top.view)
        self.action_open()

    def action_open(self) -> None:
        """Open the evidence of the first cause where the focus is on it, else the panel whole."""
        view = self.grpo_top.view
        first = view.first_cause()
        if first is not None and self._on_cause(view):
            self.grpo_top.action_findings(first.id)
        else:
            self.action_open_panel()

    def action_open_panel(self) -> None:
        """Open the panel whole; the log's own rows lead to the findings."""
        panel = self._panel()
        if panel is None:
            self.grpo_top.action_findings()
        else:
            self.grpo_top.action_panel(panel)

    @property
    def _in_rows(self) -> bool:
        return self._layout is not None and self._layout.kind == "rows"

    def _panel(self) -> str | None:
        """The panel that has the focus, or that the row with the focus belongs to."""
        if not self._in_rows:
            return self._focus
        row = self.query_one(MetricTable).selected_row
        return None if row is None else row.panel

    def _on_cause(self, view: View) -> bool:
        """Whether the focus is where the first cause is."""
        first = view.first_cause()
        if first is None:
            return False
        return self._panel() == panel_of(first.id)

    def _show_panels(self, view: View) -> None:
        moved = self._panels_of is not None and view.shows_what(self._panels_of)
        if not moved:
            self._panels_of, self._facts = view, [panel.facts(view) for panel in PANELS]
        facts = self._facts
        layout = layout_of(*self.size)
        total = self.size.height - _AROUND - layout.banner - self._fleet_below
        boxes = list(self.query(PanelBox))
        by_key = {box.name: box for box in boxes}
        for side in range(COLUMNS):
            stack = facts[side::COLUMNS]
            for fact, height in zip(stack, stack_heights(total, stack), strict=True):
                box = by_key[fact.key]
                _set_height(box, height)
                box.show_facts(fact, fact.key == self._focus)
        if layout.rail and not moved:
            findings = self.query_one(FindingsList)
            height = self._rail_split(findings.wanted_height(view, layout.rail, max(total // 3, 6)), view)
            _set_height(findings, height)
            findings.show(view)
            fleet = self.query_one("#fleet-beside", FleetBox)
            rows = fleet.wanted_height(view, max(total - height - _LEAST_GROUPS, 0))
            _show_box(fleet, rows, view)
            groups = self.query_one(LatestGroups)
            _set_height(groups, total - height - rows)
            groups.show(view)

    def _rail_split(self, wanted: int, view: View) -> int:
        """Rows of the findings: more at once, fewer once they have not been needed for some steps.

        Watches come and go with every step, and all that is below would move up and down with them.
        """
        step = view.step or 0
        if wanted >= self._findings_rows or abs(step - self._findings_needed) >= _STEPS_UNTIL_FEWER:
            self._findings_rows, self._findings_needed = wanted, step
        return self._findings_rows

    def _show_fleet(self, view: View, kind: str) -> None:
        """The fleet below what shows the run, where there is no rail for it; whole where there is no run."""
        layout = layout_of(*self.size)
        below = self.query_one("#fleet-below", FleetBox)
        most = 0 if kind == "sentence" or layout.rail else 1 if kind == "rows" else _FLEET_BELOW
        if view.step is None and kind != "sentence":
            most = self.size.height - _AROUND - layout.banner
        self._fleet_below = below.wanted_height(view, most)
        _show_box(below, self._fleet_below, view)


def _show_box(box: FleetBox, rows: int, view: View) -> None:
    box.display = rows > 0
    if rows:
        _set_height(box, rows)
        box.show(view)


def _set_height(widget: Widget, height: int) -> None:
    """Set a height, only where it is another: it lays the screen out anew."""
    known = widget.styles.height
    if known is None or known.value != height:
        widget.styles.height = height
