"""The banner: the first cause in one sentence and what to do first, or that all is quiet."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grpo_top.snapshot import Finding, Status
from grpo_top.text import safe
from grpo_top.ui import numbers
from grpo_top.ui.glyphs import STATUS_ROLES, glyphs_of
from grpo_top.ui.panels.facts import when
from grpo_top.ui.panels.said import consequences, coverage_words, unjudged_words
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
"""Columns at which the sentences begin, where the id leaves them."""


class Banner(ViewRows):
    """Two rows, three in windows that have no list of findings beside the panels."""

    def __init__(self, where: Sequence[str] = ()) -> None:
        super().__init__()
        self._where = tuple(where)
        self._key = ""

    def show_key(self, key: str) -> None:
        """Say which key leads to the first cause's evidence from where one is."""
        self._key = key

    def rows_of(self, view: View, width: int, height: int, glyphs: Glyphs) -> list[Row]:
        """The rows, each as wide as the banner so that its tint is a block."""
        return banner_rows(view, width, height, self._key, self._where, glyphs)

    @property
    def glyphs(self) -> Glyphs:
        """The app's set."""
        return glyphs_of(self.app)


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
        said = _quiet(view, width, glyphs)
    return [ends(row, [], width, glyphs.ellipsis) for row in said[:height]]


def _first_cause(view: View, first: Finding, width: int, height: int, key: str, glyphs: Glyphs) -> list[Row]:
    status = Status.FAIL if view.status(first.id) is Status.FAIL else Status.WARN
    role = STATUS_ROLES[status]
    ground = " on fail_bg" if status is Status.FAIL else ""
    narrow = width < _NARROW
    pad = " " if narrow else "  "
    block = f" {glyphs.mark(status)} {first.id} "
    column = max(_TEXT_NARROW if narrow else _TEXT, 1 + len(pad) - 1 + len(block) + 2)
    loud = f"{role} bold reverse" if status is Status.FAIL else f"{role} bold"
    head: Row = [
        (f"{glyphs.bar}{pad[1:]}", f"{role}{ground}"),
        (block, loud),
        (" " * (column - len(pad) - len(block)), ground and f"text{ground}"),
        (f"{safe(first.summary)}  ", f"bright bold{ground}"),
        (
            "" if "since step" in first.summary else f"since {'' if narrow else 'step '}{first.onset}",
            f"text{ground}",
        ),
    ]
    after: Row = [
        (key, f"accent bold{ground}"),
        ("" if narrow else " evidence", f"dim{ground}"),
        (" ", f"text{ground}"),
    ]
    rows = [_tinted(head, after if key else [], width, ground, glyphs)]
    others = consequences(view, first)
    if narrow:
        rows.append(_tinted(_leads_to(others, role, ground, glyphs), [], width, ground, glyphs))
        return rows[:height]
    margin = f"{glyphs.bar}   "

    def labelled(word: str, word_role: str, runs: Row) -> Row:
        return [
            (margin, f"{role}{ground}"),
            (f"{word:<{column - len(margin)}}", f"{word_role}{ground}"),
            *runs,
        ]

    todo = f"{safe(first.try_next[0]).partition('. ')[0]}." if first.try_next else ""
    explains = _counts(others, ground, glyphs) if height < 3 else []
    second: Row = [(f"{todo}  ", f"text{ground}")]
    if width_of(labelled("first cause", role, [*second, *explains])) <= width:
        second, explains = [*second, *explains], []
    rows.append(_tinted(labelled("first cause", role, second), explains, width, ground, glyphs))
    if others:
        rows.append(
            _tinted(labelled("explains", "dim", _named(others, ground, glyphs)), [], width, ground, glyphs)
        )
    else:
        rows.append(_tinted([(margin, f"{role}{ground}")], [], width, ground, glyphs))
    return rows[:height]


def _tinted(left: Row, right: Row, width: int, ground: str, glyphs: Glyphs) -> Row:
    """A row over the banner's ground from edge to edge."""
    row = ends(left, right, width, glyphs.ellipsis)
    return [(text, role or (f"text{ground}" if ground else "")) for text, role in row]


def _leads_to(others: list[Finding], role: str, ground: str, glyphs: Glyphs) -> Row:
    runs: Row = [(f"{glyphs.bar} first cause", f"{role}{ground}")]
    if others:
        runs.append((" of", f"{role}{ground}"))
    for other in others:
        each = STATUS_ROLES[other.severity]
        runs.append((f" {glyphs.mark(other.severity)} {other.id}", f"{each}{ground}"))
    return runs


def _counts(others: list[Finding], ground: str, glyphs: Glyphs) -> Row:
    if not others:
        return []
    runs: Row = [("explains", f"dim{ground}")]
    for status in (Status.FAIL, Status.WARN, Status.INFO):
        count = sum(other.severity is status for other in others)
        if count:
            runs.append((f" {glyphs.mark(status)} {count}", f"{STATUS_ROLES[status]}{ground}"))
    return [*runs, (" below it", f"dim{ground}")]


def _named(others: list[Finding], ground: str, glyphs: Glyphs) -> Row:
    runs: Row = []
    for other in others:
        role = STATUS_ROLES[other.severity]
        runs += [
            (f"{glyphs.mark(other.severity)} {other.id}", f"{role} bold{ground}"),
            (f" {when(other, True)}   ", f"dim{ground}"),
        ]
    return runs


def _quiet(view: View, width: int, glyphs: Glyphs) -> list[Row]:
    narrow = width < _NARROW
    statuses = [view.status(id_) for id_ in view.snapshot.tracks]
    judged = sum(status is not Status.UNKNOWN for status in statuses)
    passing = sum(status in (Status.OK, Status.INFO) for status in statuses)
    watching = [id_ for id_ in view.snapshot.tracks if view.status(id_) is Status.WATCH]
    room = _TEXT_NARROW if narrow else _TEXT
    label = f" {glyphs.ok} All quiet" if narrow else f"  {glyphs.ok} All quiet"
    if watching:
        label = label.replace(glyphs.ok, glyphs.watch).replace("All quiet", "Watching")
    passed = f"{passing} of {len(statuses)} checks pass at step {view.step}"
    unknown = unjudged_words(view)
    close = f"close to a limit: {', '.join(watching)}" if watching else ""
    if narrow:
        second = close or unknown
        return [
            ends([(f"{label:<{room}}", "warn bold" if watching else "ok bold"), (passed, "text")], [], width),
            [(f"   {second}", "dim")],
        ]
    last = _last_finding(view)
    coverage = coverage_words(view)
    first_row: Row = [
        (f"{label:<{room - 2}}", "warn bold" if watching else "ok bold"),
        (f"{passed}. {unknown}" if judged < len(statuses) else f"{passed}.", "text"),
    ]
    second_row = ". ".join(part for part in (close, last, coverage) if part)
    after: Row = [("f", "accent bold"), (" findings ", "dim")]
    return [
        ends(first_row, after, width, glyphs.ellipsis),
        [(" " * (room - 2), ""), (f"{second_row}.", "dim")],
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
        looked = len(view.snapshot.left_out)
        second = "grpo-top/1, TRL and verl logs are known; a file that appears later is found"
        if looked:
            second = f"{safe(view.snapshot.left_out[0])}; {second}"
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
