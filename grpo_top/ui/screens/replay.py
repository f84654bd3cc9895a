"""One rollout from its first token to its last, its facts, its siblings, and what sets it apart from the best."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual.containers import Grid

from grpo_top.text import safe
from grpo_top.ui.glyphs import glyphs_of
from grpo_top.ui.keys import BACK_KEY, HELP_KEY, Key, bindings
from grpo_top.ui.rollouts.against import Against
from grpo_top.ui.rollouts.facts import Facts
from grpo_top.ui.rollouts.frame import Frame, Shape
from grpo_top.ui.rollouts.loops import loop_start
from grpo_top.ui.rollouts.playing import TICKS_PER_SECOND, Playing, playing
from grpo_top.ui.rollouts.replay_text import Sizes, path_row, sizes, text_frame
from grpo_top.ui.rollouts.siblings import siblings_listing, step_groups_listing, strip_frame, strip_rows
from grpo_top.ui.rollouts.subject import Subject
from grpo_top.ui.rollouts.timeline import Length
from grpo_top.ui.rollouts.turn_rows import Paint, against_section, page, record_page, record_text
from grpo_top.ui.screens.reading import ReadingScreen
from grpo_top.ui.widgets.filter_line import Said
from grpo_top.ui.widgets.framed_rows import FramedRows
from grpo_top.ui.widgets.time_bar import TimeBar
from grpo_top.ui.widgets.triage_strip import TriageStrip
from grpo_top.ui.widgets.virtual_list import VirtualList
from grpo_top.ui.widgets.wrapped_text import WrappedText

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual.app import ComposeResult

    from grpo_top.ui.rollouts.document import Fixed, Passage
    from grpo_top.ui.rollouts.texts import Whole
    from grpo_top.ui.view import View


class ReplayScreen(ReadingScreen):
    """A rollout, played.

    Args:
        row: its row in the Snapshot's rollouts.
        rows: the rollouts that one goes through with `n` and `p`, such as the evidence of a finding.
    """

    DEFAULT_CSS = """
    ReplayScreen Said.path { height: 1; }
    ReplayScreen Grid { height: 1fr; grid-size: 2; }
    """
    KEYS: ClassVar[tuple[Key, ...]] = (
        Key("space", "play", "space", "play", "play and pause; at the end, from the beginning"),
        Key("comma", "step(-1)", ", .", "step", "one word, or one turn, back or on"),
        Key("full_stop", "step(1)"),
        Key("1,2,3,4,5,6,7,8,9", "speed", "1–9", "speed", "how fast it plays", rank=2),
        Key("home", "ends(-1)", "home end", "ends", "to the first word or turn; to the last one", rank=3),
        Key("end", "ends(1)"),
        Key("tab", "sibling(1)", "tab", "sibling", "the next rollout of its group; shift+tab the one before"),
        Key("shift+tab", "sibling(-1)"),
        Key("d", "diff", "d", "diff", "hold it against the best of its siblings, or not"),
        Key("r", "raw", "r", "raw", "the record as JSON", rank=1),
        Key("c", "copy", "c", "copy", "copy the text, or the record", rank=1),
        Key("n", "along(1)", "n p", "", "the next or previous one of those that one came with"),
        Key("p", "along(-1)"),
        Key("N", "group(1)", "N P", "", "the next or previous group of the step"),
        Key("P", "group(-1)"),
        Key("up,k", "scroll(-1)", "↑↓", "", "scroll the text"),
        Key("down,j", "scroll(1)"),
        Key("pageup", "scroll_page(-1)", "pgup pgdn", "", "scroll by a page"),
        Key("pagedown", "scroll_page(1)"),
        BACK_KEY,
        HELP_KEY,
    )
    BINDINGS = bindings([key for key in KEYS if key.action != "speed"]) + [
        (str(speed), f"speed({speed})", "how fast it plays") for speed in range(1, 10)
    ]

    def __init__(self, row: int, rows: Sequence[int] = ()) -> None:
        super().__init__()
        self._row = row
        self._rows = list(rows)
        self._subject: Subject | None = None
        self._playing: Playing | None = None
        self._against: Against | None = None
        self._opened: tuple[object, ...] = ()
        self._loop: float | None = None
        self._diff, self._raw = True, False
        self._record: tuple[int, str] | None = None

    def body(self) -> ComposeResult:
        """The path; the text and the facts beside it; the group under it; the time bar."""
        self._path = Said()
        self._path.add_class("path")
        self._text, self._facts = WrappedText(), FramedRows()
        self._siblings, self._groups = VirtualList(name="siblings"), VirtualList(name="groups")
        self._difference, self._strip = FramedRows(), FramedRows()
        self._time = TimeBar()
        yield self._path
        self._grid = Grid()
        with self._grid:
            yield self._text
            yield self._facts
            yield self._siblings
            yield self._difference
            yield self._groups
            yield self._strip
        yield self._time

    def on_mount(self) -> None:
        """The one timer: it stands still while nothing is played."""
        self._timer = self.set_interval(1 / TICKS_PER_SECOND, self._tick, pause=True)

    def show(self, view: View) -> None:
        """Draw a view; what is played goes on where it is."""
        if (
            self._subject is None
            or self._subject.snapshot is not view.snapshot
            or self._subject.row != self._row
        ):
            self._subject = Subject(view.snapshot, self._row, self._subject)
        self.draw()
        self.fetch()

    def draw(self) -> None:
        """Draw everything."""
        subject, view, glyphs = self._subject, self.grpo_top.view, glyphs_of(self.app)
        width = self.size.width
        if subject is None or not width:
            return
        self.glances.want_nothing()
        whole = self.wholes.get(self._row)
        self._compare(view, subject, whole)
        if self._playing is None and whole is not None:
            self._take_position(subject, whole)
        self._open(subject, whole)
        self._siblings.show(siblings_listing(subject, self.glances, glyphs), subject.place)
        groups = step_groups_listing(view, subject, self.glances, glyphs)
        self._groups.show(groups, subject.group)
        shared = self._lay_out(self._groups.wanted_rows if subject.batch is not None else 0)
        facts = Facts(view, subject, whole, glyphs)
        narrow = not shared.siblings and not shared.beside_all and shared.strip > 0
        frame = (
            Frame([("facts", "text bold")], shape=Shape.SIDE)
            if narrow
            else Frame([("Facts", "text bold")], [("as logged", "dim")])
        )
        self._facts.show(frame, facts.rows)
        self._strip.show(strip_frame(subject, glyphs), lambda wide, _: strip_rows(subject, wide, glyphs))
        self._draw_difference()
        place = (
            (self._rows.index(self._row), len(self._rows))
            if self._row in self._rows and len(self._rows) > 1
            else None
        )
        self._path.show(path_row(subject, self.glances.get(self._row), place, width, glyphs))
        self._draw_played()

    def on_resize(self) -> None:
        """Share the window out anew."""
        self.call_after_refresh(self._redraw)

    def on_virtual_list_chosen(self, message: VirtualList.Chosen) -> None:
        """Go to the rollout, or the group, that was clicked."""
        if self._subject is None:
            return
        if message.list is self._siblings:
            self._go(self._subject.rows[max(0, min(message.position, len(self._subject.rows) - 1))])
        else:
            self.action_group(message.position - self._subject.group)

    def action_play(self) -> None:
        """Play or pause."""
        if self._playing is not None:
            self._play(self._playing.toggled())

    def action_step(self, by: int) -> None:
        """One word or turn on, or back."""
        if self._playing is not None:
            self._play(self._playing.step(by).stopped())

    def action_speed(self, speed: int) -> None:
        """Play faster or slower."""
        if self._playing is not None:
            self._play(self._playing.at_speed(speed))

    def action_ends(self, which: int) -> None:
        """To the beginning or the end."""
        if self._playing is not None:
            self._play(self._playing.to_end() if which > 0 else self._playing.to_start().stopped())

    def action_sibling(self, by: int) -> None:
        """To another rollout of the group, round and round."""
        if self._subject is not None:
            rows = self._subject.rows
            self._go(rows[(self._subject.place + by) % len(rows)])

    def action_along(self, by: int) -> None:
        """To another one of those that one came with."""
        if not self._rows:
            return
        at = self._rows.index(self._row) + by if self._row in self._rows else 0
        if 0 <= at < len(self._rows):
            self._go(self._rows[at])

    def action_group(self, by: int) -> None:
        """To another group of the step, to the same place in it."""
        subject = self._subject
        if subject is None or subject.batch is None or not by:
            return
        row = subject.row_in_group(subject.group + by)
        if row is not None:
            self._go(row)

    def action_scroll(self, by: int) -> None:
        """Scroll the text."""
        self._text.scroll(by)
        self._draw_played()

    def action_scroll_page(self, by: int) -> None:
        """Scroll by a page."""
        self.action_scroll(by * self._text.page)

    def action_diff(self) -> None:
        """Show the difference, or not."""
        self._diff = not self._diff
        self._redraw()

    def action_raw(self) -> None:
        """Show the record instead of the text, or the text again."""
        self._raw = not self._raw
        self._redraw()

    def action_copy(self) -> None:
        """Copy the record where it is shown, else what was said."""
        whole = self.wholes.get(self._row)
        if whole is None or whole.rollout is None:
            self.notify("there is no text to copy", severity="warning", markup=False)
            return
        said = "\n\n".join(turn.text for turn in whole.turns)
        self.app.copy_to_clipboard(safe(self._record_text(whole) if self._raw else said, newlines=True))
        self.notify("copied the record" if self._raw else "copied the text", markup=False)

    # ---- inside

    def _redraw(self) -> None:
        self.draw()
        self.fetch()

    def _go(self, row: int) -> None:
        """Show another rollout."""
        self._row, self._playing, self._against = row, None, None
        self._timer.pause()
        self.show(self.grpo_top.view)

    def _take_position(self, subject: Subject, whole: Whole) -> None:
        """Take the position in a text that has been read."""
        self._playing = playing(whole.turns)
        text = self._playing.text
        at = loop_start(text) if subject.flag("loop") and not self._playing.by_turns else None
        self._loop = at / len(text) if at is not None and text else None

    def _play(self, position: Playing) -> None:
        """Take another position, and draw what it changes."""
        self._playing = position
        if position.running:
            self._timer.resume()
        else:
            self._timer.pause()
        turn, offset = position.turn, position.current[0]
        self._text.reveal(turn, offset)
        self._draw_played()

    def _tick(self) -> None:
        if self._playing is not None:
            self._play(self._playing.tick())

    def _draw_played(self) -> None:
        """Draw what playing changes: the text, the time bar."""
        subject, position = self._subject, self._playing
        if subject is None:
            return
        glyphs, width = glyphs_of(self.app), self.size.width
        frame = text_frame(subject, position, width, self._text.more(), raw=self._raw)
        paint = Paint(position, glyphs) if position is not None and not self._raw else None
        self._text.show(frame, paint)
        tokens, budget = subject.whole("completion_tokens"), subject.budget
        end = subject.name("finish") or subject.name("termination")
        if position is not None:
            self._time.show(position, Length(tokens, budget, end, subject.flag("truncated"), self._loop))

    def _compare(self, view: View, subject: Subject, whole: Whole | None) -> None:
        """Compare it with the best sibling, once both have been read."""
        if not self._diff or whole is None or whole.rollout is None or self._against is not None:
            return
        best = subject.best()
        other = None if best is None else self.wholes.get(best)
        if best is not None and other is not None and other.rollout is not None:
            self._against = Against(view, subject, whole, Subject(view.snapshot, best), other)

    def _open(self, subject: Subject, whole: Whole | None) -> None:
        """Lay out another page, where what it shows is another thing."""
        wide = self.size.width >= 150
        against = None if wide or not self._diff else self._against
        what = (self._row, whole is None, self._raw, against is not None, self.size.width)
        if what == self._opened:
            return
        same = bool(self._opened) and self._opened[0] == self._row and self._opened[2] == self._raw
        self._opened = what
        glyphs = glyphs_of(self.app)

        def make(width: int) -> list[Fixed | Passage]:
            if self._raw and whole is not None and whole.rollout is not None:
                return record_page(self._record_text(whole), glyphs)
            pieces = page(subject, whole, width, glyphs)
            return pieces if against is None else [*pieces, *against_section(against, width, glyphs)]

        self._text.open(make, keep_place=same)

    def _record_text(self, whole: Whole) -> str:
        if self._record is None or self._record[0] != self._row:
            self._record = (self._row, record_text(whole.rollout) if whole.rollout is not None else "")
        return self._record[1]

    def _draw_difference(self) -> None:
        against, glyphs = self._against, glyphs_of(self.app)
        off = [("d", "accent bold"), (" off", "dim")]
        if against is None:
            title = [("Against the best sibling", "text bold")]
            self._difference.show(
                Frame(title, off),
                lambda _width, _height: [[(" every known reward of the group is the same", "dim")]],
            )
            return
        first, _, number = against.title.partition(", ")
        frame = Frame([(first.capitalize(), "text bold"), (f"  {number}", "dim")], off)
        self._difference.show(frame, lambda width, height: against.dock(width, height, glyphs))

    def _lay_out(self, groups: int) -> Sizes:
        """Give each part its place in the grid."""
        width = self.size.width
        around = 3 + (width >= 100) + (2 if width >= 110 else 1)
        height = max(1, self.size.height - around)
        wanted = self._text.height_for(max(20, width - 60), max(4, height)) if width >= 150 else 0
        inner, glyphs = max(20, width - 62), glyphs_of(self.app)
        against = (
            0
            if not self._diff
            else 3
            if self._against is None
            else 2 + self._against.dock_height(inner, glyphs)
        )
        shared = sizes(width, height, wanted, self._siblings.wanted_rows, against, groups)
        self.query_one(TriageStrip).display = width >= 100
        self._time.styles.height = 2 if width >= 110 else 1
        rows = [shared.top]
        for widget, size in (
            (self._siblings, shared.siblings),
            (self._difference, shared.against),
            (self._groups, shared.groups),
            (self._strip, shared.strip),
        ):
            widget.display = size > 0
            widget.styles.column_span = 1 if shared.beside_all else 2
            if size > 0:
                rows.append(size)
        grid = self._grid.styles
        grid.grid_columns = (shared.text, width - shared.text)
        grid.grid_rows = tuple(rows)
        self._facts.styles.row_span = len(rows) if shared.beside_all else 1
        return shared
