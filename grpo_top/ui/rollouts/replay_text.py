"""What the replay says around its text, and how it shares out the window."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from grpo_top import numbers
from grpo_top.text import first_line
from grpo_top.ui.rollouts.fact_parts import place_words
from grpo_top.ui.rollouts.frame import Frame, Shape
from grpo_top.ui.rollouts.layout import joined
from grpo_top.ui.rollouts.sheet import Page
from grpo_top.ui.widgets.runs import ends, width_of

if TYPE_CHECKING:
    from grpo_top.ui.glyphs import Glyphs
    from grpo_top.ui.rollouts.playing import Playing
    from grpo_top.ui.rollouts.subject import Subject
    from grpo_top.ui.rollouts.texts import Glance
    from grpo_top.ui.widgets.runs import Row

WIDE, MIDDLE = 150, 100
_LEAST_PROMPT = 6
"""Cells below which a prompt says nothing."""
_NAMES = {Page.RECORD: "Record", Page.PAIR: "Best against worst", Page.GROUP: "All completions"}


@dataclass(frozen=True, slots=True)
class Sizes:
    """Cells and rows that each part of the screen gets; 0 rows is not shown."""

    text: int
    """Columns of the text; the facts get the rest."""
    top: int
    """Rows of the text, and of the facts beside it unless they stand beside everything."""
    siblings: int = 0
    against: int = 0
    groups: int = 0
    strip: int = 0
    """Rows of the line of siblings in a narrow window."""
    beside_all: bool = False
    """The facts stand beside the text and everything under it."""


def sizes(width: int, height: int, wanted: int, siblings: int, against: int, groups: int) -> Sizes:
    """How a body of `width` × `height` is shared out.

    The text takes the rows that it `wanted`, as far as there are any; siblings, difference and groups of the step
    want theirs, and are cut or left out, the last one first, where the text needs them.
    """
    if width < MIDDLE:
        strip = 4 if height >= 16 else 3 if height >= 10 else 0
        return Sizes(text=(width + 2) // 2, top=height - strip, strip=strip)
    if width < WIDE:
        kept = min(siblings, height // 2, height - 12)
        kept = kept if kept > 4 else 0
        return Sizes(text=width * 3 // 5, top=height - kept, siblings=kept)
    least = min(max(wanted, 8), max(8, height * 2 // 3))
    shown_groups = groups if height - siblings - against - groups >= least else 0
    shown_against = against if height - against >= 14 else 0
    rest = height - shown_against - shown_groups
    shown_siblings = max(min(siblings, rest - least), min(siblings, 6))
    if rest - shown_siblings < 5:
        shown_siblings = 0
    top = rest - shown_siblings
    return Sizes(width - 60, top, shown_siblings, shown_against, shown_groups, beside_all=True)


def path_row(
    subject: Subject, glance: Glance | None, place: tuple[int, int] | None, width: int, glyphs: Glyphs
) -> Row:
    """`Rollouts › step 110 › 27+13= › #1`, and the keys that lead on; the prompt gives way to all else."""
    keys = joined(_path_keys(subject, place, width), "   " if width >= MIDDLE else "  ")
    step = f"{'held-out ' if subject.evaluation else ''}step {numbers.count(subject.step)}"
    number = f"#{numbers.count(subject.index)}"
    path = f" {glyphs.path} "
    room = width - width_of(keys) - len(f" Rollouts{path}{step}{path}{path}{number} ")
    prompt = "" if glance is None or room < _LEAST_PROMPT else first_line(glance.prompt, min(room, 32))
    left: Row = [(" ", "")]
    for part in ("Rollouts", step, prompt):
        left += [(part, "dim"), (path, "faint")] if part else []
    return ends([*left, (number, "text bold")], keys, width, glyphs.ellipsis)


def _path_keys(subject: Subject, place: tuple[int, int] | None, width: int) -> list[Row]:
    """Where it stands among those that one came with, and the keys that lead on."""
    if width < MIDDLE:
        group = numbers.part_of(subject.place + 1, len(subject.rows))
        return [[(group, "dim")], [("tab", "accent bold"), (" next ", "dim")]]
    keys: list[Row] = []
    if place is not None:
        along = " next, previous" if width >= WIDE else ""
        keys.append(
            [(numbers.part_of(place[0] + 1, place[1]), "dim"), (" n p", "accent bold"), (along, "dim")]
        )
    return [
        *keys,
        [("esc", "accent bold"), (" back", "dim")],
        [("tab", "accent bold"), (" next sibling", "dim")],
        [("d", "accent bold"), (" diff ", "dim")],
    ]


def text_frame(
    subject: Subject, playing: Playing | None, width: int, more: tuple[bool, bool], page: Page
) -> Frame:
    """The border of the text."""
    conversation = playing is not None and playing.by_turns and bool(playing.turns)
    name = _NAMES.get(page) or ("Conversation" if conversation else "Completion")
    if width < MIDDLE:
        return Frame([(name.lower(), "text bold")], shape=Shape.RULE)
    policy = subject.whole("policy_start")
    title: Row = [(name, "text bold")]
    if page is Page.RECORD:
        title.append((f"  {place_words(subject)}", "dim"))
    elif page is Page.TEXT and policy is not None and not conversation:
        title.append((f"  policy v{policy}", "dim"))
    tokens, budget = subject.whole("completion_tokens"), subject.budget
    parts: list[Row] = []
    if playing is not None and conversation and page is Page.TEXT:
        numbered = [turn.number for turn in playing.turns if turn.number is not None]
        at = playing.turns[playing.turn].number or 0
        parts.append([("turn ", "dim"), (str(at), "text bold"), (f" of {len(numbered)}", "dim")])
    if tokens is not None and page in (Page.TEXT, Page.RECORD):
        of = f" of {numbers.count(budget)}" if budget else ""
        parts.append([(f"{numbers.count(tokens)}{of} tokens", "dim")])
    role = "warn" if subject.flag("truncated") else "text"
    if page in (Page.PAIR, Page.GROUP):
        group = first_line(subject.group_label, 24)
        parts.append([(f"group {group}" if group else "", "dim")])
    elif (finish := subject.name("finish")) is not None:
        parts.append([("ended ", "dim"), (first_line(finish, 20), role)])
    elif (termination := subject.name("termination")) is not None:
        parts.append([(first_line(termination, 20), role)])
    above, below = more
    bottom = (
        "more above and below"
        if above and below
        else "more above"
        if above
        else "more below"
        if below
        else ""
    )
    return Frame(title, joined(parts), [(bottom, "dim")] if bottom else [], focused=True)
