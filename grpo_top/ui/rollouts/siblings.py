"""A rollout's group: one row a sibling, or one line of bars; and the groups of its step."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from grpo_top import numbers
from grpo_top.text import first_line
from grpo_top.ui.rollouts.bars import around
from grpo_top.ui.rollouts.catalogue import members_of
from grpo_top.ui.rollouts.fact_parts import reward_span
from grpo_top.ui.rollouts.frame import Frame, Shape
from grpo_top.ui.rollouts.group_rows import family_of, family_width, group_strip, spread_cell, texts_cell
from grpo_top.ui.rollouts.layout import cell, joined
from grpo_top.ui.widgets.strips import reward_strip
from grpo_top.ui.widgets.virtual_list import Listing, cursor_mark

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from grpo_top.ui.glyphs import Glyphs
    from grpo_top.ui.rollouts.subject import Subject
    from grpo_top.ui.rollouts.texts import Glance, Texts
    from grpo_top.ui.view import View
    from grpo_top.ui.widgets.runs import Row

_ARM = 6
"""Cells of an advantage's bar on either side."""


def siblings_listing(subject: Subject, texts: Texts[Glance], glyphs: Glyphs) -> Listing:
    """The list of a rollout's group, itself among them."""
    rows = SiblingRows(subject, texts, glyphs)
    label = first_line(subject.group_label, 32)
    title: Row = [("Siblings", "text bold"), (f"  group {label}" if label else "", "dim")]
    return Listing(
        len(subject.rows), rows.row, rows.header, frame=Frame(title, spread_words(subject, glyphs))
    )


def spread_words(subject: Subject, glyphs: Glyphs) -> Row:
    """`mean 1.019   σ 0.171   4 texts of 8`."""
    std: Row = (
        [("flat", "warn")] if subject.flat else [(glyphs.plain(numbers.fixed(subject.group_std, 3)), "text")]
    )
    parts: list[Row] = [
        [("mean ", "dim"), (glyphs.plain(numbers.fixed(subject.group_mean, 3)), "text")],
        [(f"{glyphs.sigma} ", "dim"), *std],
    ]
    if subject.texts is not None:
        plural = "s" if subject.texts != 1 else ""
        words = f"{numbers.count(subject.texts)} text{plural} of {numbers.count(len(subject.rows))}"
        parts.append([(words, "warn" if subject.flat and subject.texts == 1 else "dim")])
    return joined(parts)


class SiblingRows:
    """Makes the rows of siblings: with their completions, or with their tool calls where they make some."""

    def __init__(self, subject: Subject, texts: Texts[Glance], glyphs: Glyphs) -> None:
        self._subject = subject
        self._texts = texts
        self._glyphs = glyphs
        self._reach = _largest(subject.advantages)
        self._top = float(np.nanmax(subject.rewards)) if np.isfinite(subject.rewards).any() else np.nan
        tops = np.flatnonzero((subject.rewards == self._top) & (not subject.flat))
        self._best = subject.rows[int(tops[0])] if len(tops) else -1
        seen = [texts.get(row) for row in subject.rows[:64]]
        self._tools = any(glance is not None and glance.call for glance in seen)
        self._turns = any(glance is not None and glance.turns > 1 for glance in seen)

    def header(self, width: int) -> Row:  # noqa: ARG002
        """Titles of the columns."""
        if self._turns:
            says = f"{'tool call':<26}{'tool says':<20}answer" if self._tools else "last words"
            text = f"{'#':>5}{'reward':>8}{'adv':>7}   {'turns':>7}{'tok':>5}  {says}"
        else:
            text = f"{'#':>5}{'reward':>8}{'advantage':>11}{'':18}{'tok':>5}  {'end':<7}completion"
        return [(text, "dim")]

    def row(self, position: int, width: int) -> Row:
        """One sibling."""
        subject, glyphs = self._subject, self._glyphs
        row = subject.rows[position]
        here = position == subject.place
        reward, advantage = float(subject.rewards[position]), float(subject.advantages[position])
        columns = subject.snapshot.rollouts.columns
        above = advantage > 1e-9
        seen = self._texts.get(row)
        start: Row = [
            cursor_mark(here, glyphs),
            cell(numbers.count(int(columns["index"][row])), 4, "dim", right=True),
            cell(glyphs.plain(numbers.fixed(reward, 3)), 8, "text bold" if here else "text", right=True),
        ]
        said = cell(
            _signed(advantage, glyphs, flat=subject.flat),
            7 if self._turns else 11,
            self._role(advantage),
            right=True,
        )
        tokens = int(columns["completion_tokens"][row])
        tok = cell(
            numbers.UNKNOWN if tokens < 0 else numbers.count(tokens),
            5,
            "info" if tokens < 0 else "text",
            right=True,
        )
        if not self._turns:
            finish = int(columns["finish"][row])
            end = (
                numbers.UNKNOWN
                if finish < 0
                else first_line(subject.snapshot.rollouts.names["finish"][finish], 6)
            )
            cut_off = int(columns["truncated"][row]) == 1
            return [
                *start,
                said,
                ("     ", ""),
                *self._bar(advantage),
                tok,
                ("  ", ""),
                cell(end, 7, "warn" if cut_off else "info" if finish < 0 else "dim"),
                *self._completion(seen, row, width - 56),
            ]
        level = self._level(reward)
        turns = "" if seen is None else numbers.count(seen.turns) if seen.turns else numbers.UNKNOWN
        return [
            *start,
            said,
            ("  ", ""),
            (level, "strip" if above else "strip0"),
            cell(turns, 7, "text", right=True),
            tok,
            ("  ", ""),
            *self._tool(seen, reward, width - 36),
        ]

    def _role(self, advantage: float) -> str:
        if np.isnan(advantage):
            return "info"
        if self._subject.flat:
            return "warn"
        return "strip" if advantage > 1e-9 else "text"

    def _bar(self, advantage: float) -> Row:
        """An advantage as a bar from the middle."""
        glyphs = self._glyphs
        length = (
            0 if not np.isfinite(advantage) or not self._reach else round(abs(advantage) / self._reach * _ARM)
        )
        rest, bar = glyphs.meter_rest * (_ARM - length), glyphs.meter * length
        empty = (glyphs.meter_rest * _ARM, "border")
        middle = (glyphs.lane_once, "border")
        if advantage > 0:
            return [empty, middle, (bar, "strip"), (rest, "border")]
        return [(rest, "border"), (bar, "text"), middle, empty]

    def _level(self, reward: float) -> str:
        low = min(0.0, float(np.nanmin(self._subject.rewards))) if np.isfinite(reward) else 0.0
        reach = self._top - low
        if not np.isfinite(reward) or not np.isfinite(reach):
            return self._glyphs.no_value
        share = (reward - low) / reach if reach > 0 else 1.0
        return self._glyphs.spark[min(6, max(0, round(share * 6)))]

    def _completion(self, seen: Glance | None, row: int, room: int) -> Row:
        if seen is None:
            return []
        best = row == self._best
        text = first_line(seen.gone or seen.completion or seen.call, max(1, room - (9 if best else 1)))
        return [(text, "dim" if seen.gone else "text"), *([("   best", "ok")] if best else [])]

    def _tool(self, seen: Glance | None, reward: float, room: int) -> Row:
        if seen is None:
            return []
        if seen.gone:
            return [(first_line(seen.gone, room), "dim")]
        best = reward == self._top and not self._subject.flat
        answer = seen.verifier_raw if seen.verifier_raw is not None else seen.completion
        role = "ok bold" if best else "text"
        if not self._tools:
            return [(first_line(answer, max(1, room - 1)), role)]
        call: tuple[str, str] = (
            ("no call", "dim")
            if not seen.call
            else (first_line(seen.call, 24), "warn" if seen.call_broken else "text")
        )
        return [
            cell(call[0], 26, call[1]),
            cell(first_line(seen.says, 18), 20, "dim"),
            (first_line(answer, max(1, room - 47)), role),
        ]


def _signed(advantage: float, glyphs: Glyphs, *, flat: bool) -> str:
    return "0" if flat and abs(advantage) < 5e-3 else glyphs.plain(numbers.change(advantage, decimals=2))


def _largest(values: NDArray[np.float64]) -> float:
    finite = np.abs(values[np.isfinite(values)])
    return float(finite.max()) if len(finite) else 0.0


def strip_frame(subject: Subject, glyphs: Glyphs) -> Frame:
    """The rule over a narrow window's line of siblings."""
    words = [
        (f"  {text}" if number == 0 else text, role)
        for number, (text, role) in enumerate(spread_words(subject, glyphs))
    ]
    title: Row = [
        (f"group {first_line(subject.group_label, 24)}", "text bold"),
        *[(text.replace("   ", "  "), role) for text, role in words],
    ]
    return Frame(title, shape=Shape.RULE)


def strip_rows(subject: Subject, width: int, glyphs: Glyphs) -> list[Row]:
    """The group in two rows: index and reward, and a bar under each."""
    places = around(subject.place, len(subject.rows), max(1, (width - 1) // 9))
    mean, span = subject.group_mean, reward_span(subject.snapshot.run) or (0.0, _largest(subject.rewards))
    indices = subject.snapshot.rollouts.columns["index"]
    names: Row = []
    bars: Row = []
    for place in places:
        reward = float(subject.rewards[place])
        here = place == subject.place
        above = mean is not None and reward - mean > 1e-9
        number = numbers.count(int(indices[subject.rows[place]]))
        names += [
            cell((glyphs.selected if here else "") + number, 4, "accent bold" if here else "dim", right=True),
            cell(
                glyphs.plain(numbers.fixed(reward, 2)),
                5,
                "text bold" if here else "strip" if above else "dim",
                right=True,
            ),
        ]
        ((bar, role),) = reward_strip([reward], *span, mean, glyphs)
        bars += [("     ", ""), (bar * 4, role)]
    return [names, bars]


def step_groups_listing(view: View, subject: Subject, texts: Texts[Glance], glyphs: Glyphs) -> Listing:
    """The groups of a rollout's step."""
    rows = StepGroupRows(view, subject, texts, glyphs)
    batch = subject.batch
    title: Row = [(f"Groups of step {numbers.count(subject.step)}", "text bold")]
    frame = Frame(title, [("N P", "accent bold"), (" next, previous", "dim")])
    return Listing(
        0 if batch is None else batch.groups, rows.row, rows.header, foot=[[], rows.total()], frame=frame
    )


class StepGroupRows:
    """Makes the rows of a step's groups."""

    def __init__(self, view: View, subject: Subject, texts: Texts[Glance], glyphs: Glyphs) -> None:
        self._view = view
        self._subject = subject
        self._texts = texts
        self._glyphs = glyphs
        self._family = family_width(view)

    def header(self, width: int) -> Row:  # noqa: ARG002
        """Titles of the columns."""
        family = f"{'family':<{self._family}}" if self._family else ""
        return [
            (
                f"   {'group':<8}{'prompt':<10}{family}{'rewards':<8}{'mean':>8}{self._glyphs.sigma:>8}  texts answers",
                "dim",
            )
        ]

    def row(self, position: int, width: int) -> Row:
        """One group: its answers, the most frequent first."""
        batch, glyphs = self._subject.batch, self._glyphs
        if batch is None:
            return []
        here = position == self._subject.group
        at = members_of(batch, position)
        first = self._texts.get(int(batch.rows[at[0]]))
        flat = bool(batch.flat[position])
        texts = -1 if batch.distinct_texts is None else int(batch.distinct_texts[position])
        start: Row = [
            cursor_mark(here, glyphs),
            ("  ", ""),
            cell(first_line(batch.group_label(position), 7), 8, "text" if here else "dim"),
            cell("" if first is None else first_line(first.prompt, 9), 10, "text"),
            *([cell(family_of(batch, position), self._family, "dim")] if self._family else []),
            *group_strip(self._view, batch, position, 8, glyphs),
            cell(glyphs.plain(numbers.fixed(float(batch.group_mean[position]), 3)), 8, "text", right=True),
            spread_cell(float(batch.group_std[position]), flat, 8),
            ("  ", ""),
            texts_cell(texts, len(at), 3, flat),
            ("   ", ""),
        ]
        return [*start, *self._answers(batch.rows[at], width - 61)]

    def total(self) -> Row:
        """The step as a whole."""
        batch, step = self._subject.batch, self._subject.step
        if batch is None:
            return []
        series = self._view.series("reward_mean")
        mean = float(batch.reward[batch.known].mean()) if batch.known.any() else None
        judged = int(batch.judged.sum())
        tokens = batch.column("completion_tokens")
        known = tokens[tokens >= 0]
        policy = batch.column("policy_end")
        policy = policy[policy >= 0]
        parts: list[Row] = [
            [
                (f" step {numbers.count(step)} ", "dim"),
                ("reward ", "dim"),
                (self._glyphs.plain(numbers.fixed(mean, 3)), "text"),
            ],
            [("flat groups ", "dim"), (numbers.part_of(int(batch.flat.sum()), judged), "text")],
            [("policy ", "dim"), (f"v{int(policy.max())}", "text")] if len(policy) else [],
            [
                (
                    f"{numbers.count(batch.size)} rollouts"
                    + (f", {numbers.count(int(known.sum()))} tokens" if len(known) else ""),
                    "dim",
                )
            ],
        ]
        return joined(parts) if series is not None or mean is not None else []

    def _answers(self, rows: NDArray[np.int64], room: int) -> Row:
        """What the verifier read in the group's completions, and how often."""
        raws = self._subject.snapshot.rollouts.columns["verifier_raw"][rows]
        known = raws != 0
        found, first, counts = np.unique(raws[known], return_index=True, return_counts=True)
        parts: list[Row] = []
        for place in np.lexsort((first, -counts)).tolist()[:6]:
            seen = self._texts.get(int(rows[known][first[place]]))
            if seen is None or seen.verifier_raw is None:
                continue
            answer = first_line(seen.verifier_raw, 12)
            parts.append([(answer, "text"), (f" {self._glyphs.times}{counts[place]}", "dim")])
        shown = joined(parts, "  ")
        return shown if len(found) and room > 8 else []
