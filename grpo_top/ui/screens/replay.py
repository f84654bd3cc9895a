"""One rollout from its first token to its last, its facts, its siblings, and what sets it apart from the best."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from grpo_top.snapshot import Gone
from grpo_top.ui.glyphs import glyphs_of
from grpo_top.ui.keys import bindings
from grpo_top.ui.rollouts.against import Against
from grpo_top.ui.rollouts.aligned import spoken
from grpo_top.ui.rollouts.facts import Facts
from grpo_top.ui.rollouts.frame import Frame, Shape
from grpo_top.ui.rollouts.opponents import Opponent, first_opponent, opponents
from grpo_top.ui.rollouts.out import rollout_document
from grpo_top.ui.rollouts.pair import PairPage
from grpo_top.ui.rollouts.replay_text import MIDDLE, Sizes, path_row, text_frame
from grpo_top.ui.rollouts.sheet import Page, Sheet, Showing, laid_out, next_way
from grpo_top.ui.rollouts.siblings import siblings_listing, step_groups_listing, strip_frame, strip_rows
from grpo_top.ui.rollouts.subject import Subject
from grpo_top.ui.rollouts.texts import Texts
from grpo_top.ui.rollouts.tokens import tokens_of
from grpo_top.ui.rollouts.turn_rows import Paint, record_text
from grpo_top.ui.rollouts.turns import turns_of
from grpo_top.ui.screens import export
from grpo_top.ui.screens.playing import PlayingScreen
from grpo_top.ui.screens.reading import Found
from grpo_top.ui.screens.replay_keys import REPLAY_KEYS
from grpo_top.ui.widgets.ask_line import AskLine
from grpo_top.ui.widgets.filter_line import Said
from grpo_top.ui.widgets.replay_grid import ReplayGrid
from grpo_top.ui.widgets.time_bar import TimeBar
from grpo_top.ui.widgets.triage_strip import TriageStrip

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual.app import ComposeResult
    from textual.widgets import Input

    from grpo_top.records import Rollout
    from grpo_top.ui.rollouts.out import Document
    from grpo_top.ui.rollouts.texts import Whole
    from grpo_top.ui.view import View
    from grpo_top.ui.widgets.virtual_list import VirtualList

_GROUP = 512
"""Rollouts of a group whose texts are kept for the list of all of them."""
_SEARCHED_AT_ONCE = 1_000_000
"""Characters up to which a text is searched with every key; a longer one when the search is entered."""
ROOMY = 110
"""Columns from which on the time bar has labels."""
_BESIDE = 56
"""Columns below which the facts would be cut to nothing: the text is all there is."""
_FULL = frozenset({Page.PAIR, Page.GROUP})
"""Pages that take the facts' place as well where the window is not wide."""


class ReplayScreen(PlayingScreen, export.Exporting):
    """A rollout, played.

    Args:
        row: its row in the Snapshot's rollouts.
        rows: the rollouts that one goes through with `n` and `p`, such as the evidence of a finding.
    """

    DEFAULT_CSS = """
    ReplayScreen Said.path { height: 1; }
    """
    NAME = "replay"
    OF_ROWS = True
    KEYS = REPLAY_KEYS
    BINDINGS = bindings([key for key in REPLAY_KEYS if key.action != "speed"]) + [
        (str(speed), f"speed({speed})", "how fast it plays") for speed in range(1, 10)
    ]

    def __init__(self, row: int, rows: Sequence[int] = ()) -> None:
        super().__init__()
        self._row = row
        self._rows = list(rows)
        self._showing = Showing()
        self._subject: Subject | None = None
        self._opponent: Opponent | None = None
        self._against: Against | None = None
        self._pair: PairPage | None = None
        self._spoken: Texts[str] = Texts(_spoken, _GROUP)
        self._record: tuple[int, str | None] = (-1, None)
        """Row, and its record once that has been read."""
        self._opened: tuple[object, ...] = ()

    def body(self) -> ComposeResult:
        """The path; the text and the facts beside it; the group under it; the time bar."""
        self._path = Said()
        self._path.add_class("path")
        self._search = AskLine()
        self._parts = ReplayGrid()
        self._text = self._parts.text
        self._time = TimeBar()
        yield self._path
        yield self._search
        yield self._parts
        yield self._time

    def show(self, view: View) -> None:
        """Draw a view; what is played goes on where it is."""
        subject = self._subject
        if subject is None or subject.snapshot is not view.snapshot or subject.row != self._row:
            self._subject = Subject(view.snapshot, self._row, subject)
            if subject is None or subject.row != self._row:
                self._opponent = first_opponent(self._subject)
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
        if self.playing is None and whole is not None:
            self.begin(subject, whole)
        self._open(subject, whole)
        self._parts.members.show(siblings_listing(subject, self.glances, glyphs), subject.place)
        groups = step_groups_listing(view, subject, self.glances, glyphs)
        self._parts.groups.show(groups, subject.group)
        shared = self._lay_out()
        facts = Facts(view, subject, whole, glyphs)
        narrow = not shared.siblings and not shared.beside_all and shared.strip > 0
        frame = (
            Frame([("facts", "text bold")], shape=Shape.SIDE)
            if narrow
            else Frame([("Facts", "text bold")], [("as logged", "dim")])
        )
        self._parts.facts.show(frame, facts.rows)
        self._parts.strip.show(
            strip_frame(subject, glyphs), lambda wide, _: strip_rows(subject, wide, glyphs)
        )
        self._draw_difference()
        along = self._row in self._rows and len(self._rows) > 1
        place = (self._rows.index(self._row), len(self._rows)) if along else None
        self._path.show(path_row(subject, self.glances.get(self._row), place, width, glyphs))
        self._draw_played()

    def fetch(self) -> None:
        """Read what was asked for while drawing."""
        super().fetch()
        self._start(self._spoken)
        whole = self.wholes.get(self._row)
        if self._showing.page is Page.RECORD and self._record[0] != self._row and whole is not None:
            self._record = self._row, None
            self.run_worker(partial(self._read_record, self._row, whole), thread=True, group="record")

    def on_resize(self) -> None:
        """Share the window out anew."""
        self.call_after_refresh(self._redraw)

    def on_virtual_list_chosen(self, message: VirtualList.Chosen) -> None:
        """Go to the rollout, or the group, that was clicked."""
        if self._subject is None:
            return
        if message.list is self._parts.members:
            self._go(self._subject.rows[max(0, min(message.position, len(self._subject.rows) - 1))])
        else:
            self.action_group(message.position - self._subject.group)

    def on_input_changed(self, event: Input.Changed) -> None:
        """Search for what is being written, where that takes no time."""
        document = self._text.document
        if not event.value or document is None or document.size <= _SEARCHED_AT_ONCE:
            self._look_for(event.value)

    def on_input_submitted(self) -> None:
        """Search, and give the keys back."""
        if self._search.input.value != self._text.inside.text:
            self._look_for(self._search.input.value)
        self.set_focus(None)
        self._draw_played()

    def action_sibling(self, by: int) -> None:
        """To another rollout of the group, round and round."""
        if self._subject is not None:
            rows = self._subject.rows
            self._go(rows[(self._subject.place + by) % len(rows)])

    def action_next(self, by: int) -> None:
        """To the next or previous hit of a search; without one, along the evidence, or to the next group."""
        if self._text.inside.hits:
            self._text.next_hit(by)
            self._draw_played()
        elif by > 0:
            self.action_along(1)
        else:
            self.action_group(1)

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
        self._choose(replace(self._showing, diff=not self._showing.diff, page=Page.TEXT))

    def action_opponent(self) -> None:
        """Hold it against the next of those that it can be held against."""
        if self._subject is None or not (known := opponents(self._subject)):
            return
        at = known.index(self._opponent) if self._opponent in known else -1
        self._opponent, self._against = known[(at + 1) % len(known)], None
        self._choose(replace(self._showing, diff=True, page=Page.TEXT))

    def action_page(self, name: str) -> None:
        """Show another page, or the text again."""
        page = Page(name)
        self._choose(replace(self._showing, page=Page.TEXT if self._showing.page is page else page))

    def action_tokens(self) -> None:
        """Colour tokens in the next way, or not."""
        whole = self.wholes.get(self._row)
        if whole is not None:
            way = next_way(tokens_of(whole), self._showing.tokens)
            self._choose(replace(self._showing, tokens=way, page=Page.TEXT))

    def action_loops(self) -> None:
        """Mark loops, and go to where the first one begins; or not."""
        self._choose(replace(self._showing, loops=not self._showing.loops, page=Page.TEXT))

    def action_search(self) -> None:
        """Write what to search for."""
        self._search.ask(value=self._text.inside.text)
        self._redraw()

    async def action_leave(self) -> None:
        """Back one layer: out of the search, out of another page than the text, out of the replay."""
        if self._search.editing or self._text.inside.text:
            self._search.input.value = ""
            self.set_focus(None)
            self._look_for("")
            self._redraw()
        elif self._showing.page is not Page.TEXT:
            self._choose(replace(self._showing, page=Page.TEXT))
        else:
            await self.grpo_top.action_back()

    def action_copy(self) -> None:
        """Copy the record where it is shown, else what was said."""
        whole = self.wholes.get(self._row)
        if self._showing.page is Page.RECORD:
            export.copy(self, "the record", self._record[1] or "")
        else:
            turns = () if whole is None else whole.turns
            export.copy(self, "the text", "\n\n".join(turn.text for turn in turns))

    def document(self) -> Document:
        """The rollout."""
        return rollout_document(self.grpo_top.view.snapshot, self._row)

    # ---- inside

    def _redraw(self) -> None:
        self.draw()
        self.fetch()

    def _choose(self, showing: Showing) -> None:
        self._showing = showing
        self._redraw()

    def _go(self, row: int) -> None:
        """Show another rollout."""
        self._row, self._against, self._pair = row, None, None
        self.halt()
        self.show(self.grpo_top.view)

    def draw_played(self, turn: int, offset: int) -> None:
        """Draw another position; what was played last is to be in sight."""
        self._text.reveal(turn, offset)
        self._draw_played()

    def _draw_played(self) -> None:
        """Draw what playing, scrolling and searching change: the text, the time bar, the search."""
        subject, position, page = self._subject, self.playing, self._showing.page
        if subject is None:
            return
        frame = text_frame(subject, position, self.size.width, self._text.more(), page)
        paint = Paint(position, glyphs_of(self.app)) if position is not None and page is Page.TEXT else None
        self._text.show(frame, paint)
        inside = self._text.inside
        self._search.show([(inside.words(), "text")] if inside.text else [])
        if position is not None:
            self._time.show(position, self.length)

    def _compare(self, view: View, subject: Subject, whole: Whole | None) -> None:
        """Compare it with its opponent, and the best with the worst, once their texts have been read."""
        opponent = self._opponent
        if self._showing.diff and opponent is not None and self._against is None:
            other = self.wholes.get(opponent.row)
            if (
                whole is not None
                and whole.rollout is not None
                and other is not None
                and other.rollout is not None
            ):
                self._against = Against(
                    view, subject, whole, Subject(view.snapshot, opponent.row), other, opponent
                )
        if (
            self._showing.page is Page.PAIR
            and self._pair is None
            and (rows := subject.extremes()) is not None
        ):
            best, worst = map(self.wholes.get, rows)
            if best is not None and worst is not None:
                sides = Subject(view.snapshot, rows[0]), Subject(view.snapshot, rows[1])
                self._pair = PairPage(sides, (best, worst))

    def _sheet(self) -> Sheet:
        """The page that is chosen."""
        if self._subject is None:
            raise RuntimeError("nothing has been shown yet")
        whole = self.wholes.get(self._row)
        inline = self._showing.diff and self.size.width < 150
        record = self._record[1] if self._record[0] == self._row else None
        return Sheet(
            self._subject,
            whole,
            self._showing,
            glyphs_of(self.app),
            self._against if inline else None,
            record,
            self._pair,
            self._spoken.get,
        )

    def _open(self, subject: Subject, whole: Whole | None) -> None:
        """Lay out another page, where what it shows is another thing."""
        sheet = self._sheet()
        read = (
            sum(self._spoken.get(row) is not None for row in subject.rows)
            if self._showing.page is Page.GROUP
            else len(sheet.record or "")
        )
        what = (
            (self._row, self._showing.page),
            *(whole is None, self._showing, sheet.against, sheet.pair, read, self.size.width),
        )
        if what == self._opened:
            return
        same = bool(self._opened) and self._opened[0] == what[0]
        self._opened = what
        self._text.open(sheet.pieces, keep_place=same)
        self._text.mark(sheet.markers())

    def _look_for(self, text: str) -> None:
        self._text.look_for(text)
        self._draw_played()

    def _read_record(self, row: int, whole: Whole) -> None:
        """In a thread: the line that a rollout was read from, else what was understood of it."""
        line = self.grpo_top.view.snapshot.raw(row)
        if whole.rollout is not None:
            text = record_text(whole.rollout) if line is None else laid_out(line)
            self.post_message(Found(partial(self._keep_record, row, text)))

    def _keep_record(self, row: int, text: str) -> None:
        self._record = row, text

    def _draw_difference(self) -> None:
        against, glyphs = self._against, glyphs_of(self.app)
        keys = [("d", "accent bold"), (" off", "dim"), ("   D", "accent bold"), (" next", "dim")]
        if against is None:
            title = [("Against the best sibling", "text bold")]
            why = "" if self._subject is None or self._opponent is not None else self._subject.no_best
            self._parts.difference.show(
                Frame(title, keys),
                lambda _width, _height: [[(f" {why}", "dim")]],
            )
            return
        first, _, number = against.title.rpartition(", ")
        frame = Frame([(first[0].upper() + first[1:], "text bold"), (f"  {number}", "dim")], keys)
        self._parts.difference.show(frame, lambda width, height: against.dock(width, height, glyphs))

    def _lay_out(self) -> Sizes:
        """Give each part its place."""
        width = self.size.width
        around = 3 + (width >= MIDDLE) + (2 if width >= ROOMY else 1) + self._search.has_class("-shown")
        self.query_one(TriageStrip).display = width >= MIDDLE
        self._time.styles.height = 2 if width >= ROOMY else 1
        full = self._showing.page in _FULL or width < _BESIDE
        return self._parts.share_out(
            width,
            max(1, self.size.height - around),
            difference=self._showing.diff and self._showing.page is Page.TEXT,
            against=self._against,
            members=self._showing.page is not Page.GROUP,
            groups=self._subject is not None and self._subject.batch is not None,
            full=full,
        )


def _spoken(rollout: Rollout | Gone) -> str:
    return rollout.reason if isinstance(rollout, Gone) else spoken(turns_of(rollout))
