"""Hand scores: rollouts one after another without the pipeline's score, and at the end how far both agree."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from textual.containers import Horizontal

from grpo_top import numbers
from grpo_top.grades import RIGHT, SESSION, WRONG
from grpo_top.ui.glyphs import glyphs_of
from grpo_top.ui.keys import BACK_KEY, HELP_KEY, Key, bindings
from grpo_top.ui.rollouts.document import Fixed
from grpo_top.ui.rollouts.frame import Frame
from grpo_top.ui.rollouts.replay_text import MIDDLE
from grpo_top.ui.rollouts.sitting import Said as Score
from grpo_top.ui.rollouts.sitting import Sitting, hand_score, sitting
from grpo_top.ui.rollouts.sitting_rows import Outcome, asked_rows
from grpo_top.ui.rollouts.subject import Subject
from grpo_top.ui.rollouts.turn_rows import unscored_page
from grpo_top.ui.screens.browser import BrowserScreen
from grpo_top.ui.screens.reading import ReadingScreen
from grpo_top.ui.widgets.ask_line import AskLine
from grpo_top.ui.widgets.filter_line import Said
from grpo_top.ui.widgets.framed_rows import FramedRows
from grpo_top.ui.widgets.triage_strip import TriageStrip
from grpo_top.ui.widgets.wrapped_text import WrappedText

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual.app import ComposeResult

    from grpo_top.ui.rollouts.document import Passage
    from grpo_top.ui.rollouts.texts import Whole
    from grpo_top.ui.view import View
    from grpo_top.ui.widgets.wrapped_text import Make

_SCROLL = (
    Key("up,k", "scroll(-1)", "↑↓", "", "scroll"),
    Key("down,j", "scroll(1)"),
    Key("pageup", "scroll_page(-1)", "pgup pgdn", "", "scroll by a page"),
    Key("pagedown", "scroll_page(1)"),
)
_ASKED = (
    Key("1", "score(1)", "1", "right", "it is right"),
    Key("0", "score(0)", "0", "wrong", "it is wrong"),
    Key("v", "ask('number')", "v", "a number", "a number, on the scale of what the run counts as success"),
    Key("s", "skip", "s", "skip", "it cannot be said; it is not counted"),
    Key("n", "ask('note')", "n", "note", "a few words that are kept with the score"),
    Key("u", "again", "u", "one back", "the one before again, to say something else of it"),
)
_ENDED = (
    Key("enter", "disagreements", "enter", "disagreements", "the rollouts of which both say another thing"),
    Key("g", "begin", "g", f"{SESSION} more", "score others"),
    Key("u", "again", "u", "one back", "the last one again"),
)
_LEAVE = BACK_KEY._replace(action="leave", what="end the sitting, or leave; what was given stays given")


class GradingScreen(ReadingScreen):
    """A sitting: up to 20 rollouts, then the agreement over all hand scores of the run."""

    DEFAULT_CSS = """
    GradingScreen Said.path { height: 1; }
    GradingScreen #both { height: 1fr; }
    GradingScreen WrappedText { width: 1fr; }
    GradingScreen .asked { width: 48; }
    """
    NAME = "hand scores"
    OF_ROWS = True
    KEYS = (*_ASKED, *_ENDED[:2], *_SCROLL, _LEAVE, HELP_KEY)
    BINDINGS = bindings(KEYS)

    def __init__(self) -> None:
        super().__init__()
        self._sitting: Sitting | None = None
        self._before: dict[int, Score] = {}
        """What was said in this screen's earlier sittings: the run's own scores may not hold it yet."""
        self._ended = False
        self._asking = ""
        self._wrong = ""
        """What is the matter with the number that was written."""
        self._kept = ""
        """Why scores cannot be kept; empty while they are."""
        self._opened: tuple[object, ...] = ()

    def body(self) -> ComposeResult:
        """The path; the text, and beside it what one can say; the line for a number or a note."""
        self._path = Said()
        self._path.add_class("path")
        self._text, self._asked, self._line = WrappedText(), FramedRows(), AskLine("number")
        self._asked.add_class("asked")
        yield self._path
        with Horizontal(id="both"):
            yield self._text
            yield self._asked
        yield self._line

    def keys(self) -> Sequence[Key]:
        """What can be said of a rollout, or what there is to do at the end."""
        leave = _LEAVE._replace(word="leave" if self._at_end else "end")
        return (*(_ENDED if self._at_end else _ASKED), *_SCROLL, leave, HELP_KEY)

    def show(self, view: View) -> None:
        """Draw; the rollouts are those that were drawn when the sitting began."""
        if self._sitting is None:
            self._sitting = sitting(view.snapshot, self._before)
        self.draw()
        self.fetch()

    def draw(self) -> None:
        """Draw the rollout that one is at, or the agreement."""
        now, view, glyphs = self._sitting, self.grpo_top.view, glyphs_of(self.app)
        if now is None or not self.size.width:
            return
        self.query_one(TriageStrip).display = self.size.width >= MIDDLE
        self._asked.display = not self._at_end
        self._asked.styles.width = 48 if self.size.width >= MIDDLE else 34
        place = "the end" if self._at_end else numbers.part_of(now.at + 1, len(now.rows))
        self._path.show(
            [(" Hand scores", "dim"), (f" {glyphs.path} ", "faint"), (place, "text bold")],
            [("esc", "accent bold"), (" leave " if self._at_end else " end ", "dim")],
        )
        row = now.row
        if self._at_end or row is None:
            self._draw_end(now, view)
        else:
            whole = self.wholes.get(row)
            self._open((row, whole is None, self.size.width), lambda _: self._pieces(whole))
            self._text.show(Frame([("Rollout", "text bold")], focused=True), None)
            subject = Subject(view.snapshot, row)
            self._asked.show(
                Frame([("Your score", "text bold")]),
                lambda width, _: asked_rows(now, subject, self._kept, width, glyphs),
            )
        self._line.show([(self._wrong, "warn")] if self._wrong else [])

    def on_resize(self) -> None:
        """Draw at the new width."""
        self.call_after_refresh(self.draw)

    def on_input_submitted(self) -> None:
        """Take the number, or the note."""
        text, now = self._line.input.value.strip(), self._sitting
        if now is None:
            return
        if self._asking == "note":
            now.note = text
        elif (number := _number(text)) is None:
            self._wrong = "write a number, such as 0.5"
            self.draw()
            return
        self._close_line()
        if self._asking == "number":
            self._say(number)
        else:
            self.draw()

    def action_score(self, score: int) -> None:
        """It is right, or wrong."""
        self._say(RIGHT if score else WRONG)

    def action_skip(self) -> None:
        """It cannot be said."""
        self._say(None)

    def action_ask(self, what: str) -> None:
        """Write a number, or a note."""
        now = self._sitting
        if now is None or self._at_end:
            return
        self._asking = what
        self._line.ask(what, now.note if what == "note" else "")
        self.draw()

    def action_again(self) -> None:
        """Back to the one before."""
        if self._sitting is not None:
            if not self._ended or self._sitting.row is None:
                self._sitting.back()
            self._ended = False
            self._redraw()

    def action_begin(self) -> None:
        """Another sitting."""
        if self._at_end and self._sitting is not None:
            self._before |= self._sitting.said
            self._sitting, self._ended = None, False
            self.show(self.grpo_top.view)
            self.refresh_keys()

    def action_disagreements(self) -> None:
        """Open the disagreements."""
        now = self._sitting
        if now is None or not self._at_end:
            return
        rows = self._outcome(now, self.grpo_top.view).disagreements
        if rows:
            self.app.push_screen(BrowserScreen(rows=rows, title="hand scores that disagree"))
        else:
            self.notify("there is no disagreement", markup=False)

    def action_scroll(self, by: int) -> None:
        """Scroll the text."""
        self._text.scroll(by)

    def action_scroll_page(self, by: int) -> None:
        """Scroll by a page."""
        self._text.scroll(by * self._text.page)

    async def action_leave(self) -> None:
        """Out of the line; to the end, where something was said; out of the screen."""
        if self._line.editing:
            self._close_line()
            self.draw()
        elif not self._at_end and self._sitting is not None and self._sitting.said:
            self._ended = True
            self._redraw()
        else:
            await self.grpo_top.action_back()

    # ---- inside

    @property
    def _at_end(self) -> bool:
        return self._ended or (self._sitting is not None and self._sitting.row is None)

    def _redraw(self) -> None:
        self.draw()
        self.fetch()
        self.refresh_keys()

    def _say(self, score: float | None) -> None:
        """Take what is said of the rollout that one is at, and keep it."""
        now, view = self._sitting, self.grpo_top.view
        if now is None or self._at_end or (row := now.row) is None:
            return
        whole = self.wholes.get(row)
        if whole is None:
            return  # it has not been read, so nobody can have judged it
        if whole.rollout is None:
            if score is not None:
                self.notify("there is no text to score; s skips it", severity="warning", markup=False)
                return
        else:
            given = hand_score(view.snapshot, row, whole.rollout, Score(score, now.note), view.now)
            self._kept = view.snapshot.grade(row, given)
        now.say(score)
        self._redraw()

    def _draw_end(self, now: Sitting, view: View) -> None:
        glyphs = glyphs_of(self.app)
        rows = (
            self._outcome(now, view).rows(view, now, self._kept, glyphs)
            if now.rows or view.snapshot.graded
            else [[(" no rollout has both a text to read and a score to compare", "info")]]
        )
        pieces: list[Fixed | Passage] = [Fixed((row,)) for row in rows]
        self._open(("end", len(now.said), view.key, self.size.width), lambda _: pieces)
        count = sum(one.score is not None for one in self._all(now, view).values())
        title = f"{numbers.count(count)} hand score{'s' if count != 1 else ''}"
        self._text.show(Frame([(title, "text bold")], focused=True), None)

    def _outcome(self, now: Sitting, view: View) -> Outcome:
        return Outcome(view.snapshot, self._all(now, view))

    def _all(self, now: Sitting, view: View) -> dict[int, Score]:
        """What was said of each rollout of the run, now or earlier."""
        earlier = {one.row: Score(one.score, one.note) for one in view.snapshot.graded}
        return earlier | self._before | now.said

    def _pieces(self, whole: Whole | None) -> list[Fixed | Passage]:
        if whole is None:
            return [Fixed(([(" reading", "dim")],))]
        return unscored_page(whole, glyphs_of(self.app))

    def _open(self, what: tuple[object, ...], make: Make) -> None:
        if what != self._opened:
            same = self._opened[:1] == what[:1]
            self._opened = what
            self._text.open(make, keep_place=same)

    def _close_line(self) -> None:
        self._line.input.value, self._wrong = "", ""
        self.set_focus(None)


def _number(text: str) -> float | None:
    try:
        number = float(text.replace(numbers.MINUS, "-").replace(",", "."))
    except ValueError:
        return None
    return number if math.isfinite(number) else None
