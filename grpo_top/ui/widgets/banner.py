"""The banner: the first cause in one sentence and what to do first, or that all is quiet."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from grpo_top import numbers
from grpo_top.snapshot import Finding, Status
from grpo_top.text import safe
from grpo_top.ui.glyphs import STATUS_ROLES
from grpo_top.ui.panels.facts import since
from grpo_top.ui.panels.said import consequences, coverage_words, ended, said_of, unjudged_parts
from grpo_top.ui.widgets.runs import ends, width_of
from grpo_top.ui.widgets.view_rows import ViewRows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from grpo_top.ui.glyphs import Glyphs
    from grpo_top.ui.view import View
    from grpo_top.ui.widgets.strips import Run

    Row = list[Run]

_NARROW = 110
_TEXT, _TEXT_NARROW = 21, 19
"""Columns at which the sentences begin, where there is room or the id leaves them."""


class Banner(ViewRows):
    """Two rows, three in windows that have no list of findings beside the panels."""

    def __init__(self, where: Sequence[str] = ()) -> None:
        super().__init__()
        self._where = tuple(where)
        self._key = ""

    def show_key(self, key: str) -> None:
        """Say which key leads to the first cause's evidence from where one is."""
        self._key = key

    async def on_click(self) -> None:
        """Open the evidence of the first cause, else the findings."""
        first = None if self.view is None else self.view.first_cause()
        if self.view is not None and self.view.step is not None:
            await self.run_action("app.findings" if first is None else f"app.findings({first.id!r})")

    def rows_of(self, view: View, width: int, height: int, glyphs: Glyphs) -> list[Row]:
        """The rows, each as wide as the banner so that its tint is a block."""
        return banner_rows(view, width, height, self._key, self._where, glyphs)


def banner_rows(
    view: View, width: int, height: int, key: str, where: Sequence[str], glyphs: Glyphs
) -> list[Row]:
    """What the banner says, by what is the matter."""
    if view.error:
        said: list[Row] = [
            [(f" {glyphs.fail} Reading stopped   ", "fail bold"), (safe(view.error), "bright bold")],
            [("   what was read so far stands; start grpo-top again to read on", "dim")],
        ]
    elif view.step is None:
        said = _nothing_yet(view, where, glyphs)
    elif (first := view.first_cause()) is not None:
        return _first_cause(view, first, width, height, key, glyphs)
    else:
        said = _quiet(view, width, height, glyphs)
    return [ends(row, [], width, glyphs.ellipsis) for row in said[:height]]


class _Tone(NamedTuple):
    """The colours of a banner: a failing one stands on a tint of its own."""

    role: str
    ground: str

    def on(self, text: str, role: str) -> Run:
        """A text over the banner's ground."""
        return text, f"{role} on {self.ground}" if self.ground else role


def _first_cause(view: View, first: Finding, width: int, height: int, key: str, glyphs: Glyphs) -> list[Row]:
    """What it is; what to do first; in a third row what it explains, else what to do next."""
    status = Status.FAIL if view.status(first.id) is Status.FAIL else Status.WARN
    tone = _Tone(STATUS_ROLES[status], "fail_bg" if status is Status.FAIL else "")
    narrow = width < _NARROW
    others = consequences(view, first)
    todo = [ended(safe(each).partition(". ")[0]) for each in first.try_next]
    said = said_of(view, first)
    column = len(first.id) + 7 if narrow else max(_TEXT, len(first.id) + 8)
    right = [tone.on(key, "accent bold"), tone.on("" if narrow else " evidence", "dim"), tone.on(" ", "text")]
    since = "" if "since step" in first.summary else f"since {'' if narrow else 'step '}{view.since(first)}"
    rows = [_head(first, said, status, since, tone, column, narrow, glyphs)]
    if width_of(rows[0]) + width_of(right) >= width:
        rows = [
            _head(first, said, status, "", tone, column, narrow, glyphs)
        ]  # the list and its panel say it, too
    if narrow:
        label = tone.on(f"{glyphs.bar} first cause{' of' if others else ':'}", tone.role)
        room = width - len(label[0]) - 1
        leads = _named(view, others, room, tone, glyphs, brief=True)
        rows.append([label, *(leads or [tone.on(f" {''.join(todo[:1])}", "text")])])
    else:
        rows.append(
            _labelled("first cause", tone.role, [tone.on("".join(todo[:1]), "text")], tone, column, glyphs)
        )
        if others:
            named = _named(view, others, width - column - 1, tone, glyphs)
            rows.append(_labelled("explains", "dim", named, tone, column, glyphs))
        else:
            rows.append(_labelled("", "dim", [tone.on("".join(todo[1:2]), "dim")], tone, column, glyphs))
    counts = _counts(others, tone, glyphs) if height < 3 and not narrow else []
    if width_of([*rows[1], *counts]) < width - 2:
        rows[1], counts = [*rows[1], tone.on("  ", "text"), *counts], []
    ends_of_rows = [right if key else [], counts, []]
    return [_tinted(row, end, width, tone, glyphs) for row, end in zip(rows, ends_of_rows, strict=False)][
        :height
    ]


def _head(
    first: Finding,
    said: str,
    status: Status,
    since: str,
    tone: _Tone,
    column: int,
    narrow: bool,
    glyphs: Glyphs,
) -> Row:
    margin = glyphs.bar if narrow else f"{glyphs.bar} "
    block = f" {glyphs.mark(status)} {first.id} "
    loud = f"{tone.role} bold reverse" if status is Status.FAIL else f"{tone.role} bold"
    return [
        tone.on(margin, tone.role),
        (block, loud) if status is Status.FAIL else tone.on(block, loud),
        tone.on(" " * (column - len(margin) - len(block)), "text"),
        tone.on(said, "bright bold"),
        tone.on(f"  {since}" if since else "", "text"),
    ]


def _labelled(word: str, role: str, runs: Row, tone: _Tone, column: int, glyphs: Glyphs) -> Row:
    """A row of the banner that begins under the id's mark."""
    margin = f"{glyphs.bar}   "
    return [tone.on(margin, tone.role), tone.on(f"{word:<{column - len(margin)}}", role), *runs]


def _tinted(left: Row, right: Row, width: int, tone: _Tone, glyphs: Glyphs) -> Row:
    """A row over the banner's ground from edge to edge."""
    return [
        (text, role) if role else tone.on(text, "text")
        for text, role in ends(left, right, width, glyphs.ellipsis)
    ]


def _counts(others: list[Finding], tone: _Tone, glyphs: Glyphs) -> Row:
    """How many findings it explains, by severity."""
    if not others:
        return []
    runs: Row = [tone.on("explains", "dim")]
    for status in (Status.FAIL, Status.WARN, Status.INFO):
        count = sum(other.severity is status for other in others)
        if count:
            runs.append(tone.on(f" {glyphs.mark(status)} {count}", STATUS_ROLES[status]))
    return [*runs, tone.on(" below it", "dim")]


def _named(
    view: View, others: list[Finding], room: int, tone: _Tone, glyphs: Glyphs, *, brief: bool = False
) -> Row:
    """The findings that it explains, by name: as many as there is room for, and how many more."""
    runs: Row = []
    for number, other in enumerate(others):
        role = STATUS_ROLES[other.severity]
        name = f"{glyphs.mark(other.severity)} {other.id}"
        if brief:
            more = [tone.on(f" {name}", role)]
        else:
            more = [tone.on(name, f"{role} bold"), tone.on(f" {since(view, other)}   ", "dim")]
        left = len(others) - number
        if width_of([*runs, *more]) + (len(f" +{left - 1}") if left > 1 else 0) > room:
            return [*runs, tone.on(f" +{left}" if brief else f"+{left}", "dim")]
        runs += more
    return runs


def _quiet(view: View, width: int, height: int, glyphs: Glyphs) -> list[Row]:
    """How many checks pass; what cannot be judged and why; what is close to a limit, was, or is not logged."""
    narrow = width < _NARROW
    statuses = list(view.statuses.values())
    passing = sum(status in (Status.OK, Status.INFO) for status in statuses)
    watching = [id_ for id_, status in view.statuses.items() if status is Status.WATCH]
    room = _TEXT_NARROW if narrow else _TEXT - 2
    label = f" {glyphs.ok} All quiet" if narrow else f"  {glyphs.ok} All quiet"
    if watching:
        label = label.replace(glyphs.ok, glyphs.watch).replace("All quiet", "Watching")
    lead: Run = (f"{label:<{room}}", "warn bold" if watching else "ok bold")
    passed = f"{passing} of {len(statuses)} checks pass at step {view.step}"
    close = f"close to a limit: {', '.join(watching)}" if watching else ""
    lacking, early = unjudged_parts(view, width - (4 if narrow else room + 2))
    counted = f"{passed}, {early}" if early else passed
    if narrow:
        return [ends([lead, (counted, "text")], [], width), [(f"   {close or lacking}", "dim")]]
    after: Row = [("f", "accent bold"), (" findings ", "dim")]
    rest = [part for part in (close, _last_finding(view), coverage_words(view)) if part]
    if height < 3 and lacking:
        lacking, _ = unjudged_parts(view, width - room - len(f"{counted}.  .") - width_of(after))
        counted = f"{counted}. {lacking}"
    below = [". ".join(rest)] if height < 3 or not lacking else [lacking, ". ".join(rest)]
    return [
        ends([lead, (f"{counted}.", "text")], after, width, glyphs.ellipsis),
        *([(" " * room, ""), (f"{line}.", "dim")] for line in below),
    ]


def _last_finding(view: View) -> str:
    past = [finding for finding in view.findings() if finding.severity >= Status.WARN]
    if not past:
        return ""
    last = max(past, key=lambda finding: finding.last_step)
    first, end = last.episodes[-1]
    steps = f"step {first}" if first == end else f"steps {first} to {end}"
    return f"last finding: {last.id}, {steps}, cleared"


def _nothing_yet(view: View, where: Sequence[str], glyphs: Glyphs) -> list[Row]:
    places = ", ".join(safe(place) for place in where) or "the given place"
    sources = view.snapshot.sources
    if not sources:
        second = "a file that appears later is found"
        return [
            [
                (f"  {glyphs.unknown} No data yet   ", "info bold"),
                (f"looking for a trainer's log in {places}", "text"),
            ],
            [(" " * 19, ""), (second, "dim")],
        ]
    names = ", ".join(safe(source.where) for source in sources[:4])
    read = f"{numbers.count(sum(source.records for source in sources))} records so far"
    return [
        [(f"  {glyphs.unknown} No step yet   ", "info bold"), (f"reading {names}", "text")],
        [(" " * 19, ""), (f"{read}; a step is judged once a later one begins", "dim")],
    ]
