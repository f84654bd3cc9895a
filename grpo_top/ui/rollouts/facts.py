"""The facts of one rollout, always in the same order: what is not logged stays in its place and says so."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import zip_longest
from typing import TYPE_CHECKING

import numpy as np

from grpo_top import numbers
from grpo_top.text import first_line, safe
from grpo_top.ui.rollouts import fact_parts as parts
from grpo_top.ui.rollouts.bars import bar_rows
from grpo_top.ui.rollouts.fact_parts import NOT_LOGGED
from grpo_top.ui.rollouts.layout import cell, joined, meter
from grpo_top.ui.rollouts.opponents import counterparts
from grpo_top.ui.rollouts.sampling_rows import sampling_rows, short_sampling_rows
from grpo_top.ui.widgets.runs import ends, width_of

if TYPE_CHECKING:
    from grpo_top.ui.glyphs import Glyphs
    from grpo_top.ui.rollouts.subject import Subject
    from grpo_top.ui.rollouts.texts import Whole
    from grpo_top.ui.view import View
    from grpo_top.ui.widgets.runs import Row

_NARROW = 44
_WIDE = 54
"""From this width on there is room for everything."""
_METER, _LEAST_METER = 20, 6
_COMPONENTS = 6
_LABEL, _SHORT_LABEL = 15, 13
_RAW = 18


@dataclass(frozen=True, slots=True)
class Facts:
    """Makes the rows of one rollout's facts."""

    view: View
    subject: Subject
    whole: Whole | None
    glyphs: Glyphs

    def rows(self, width: int, height: int) -> list[Row]:
        """The facts in `width` cells; blank rows and the group's bars where there is room for them."""
        view, subject, glyphs = self.view, self.subject, self.glyphs
        if width < _NARROW:
            return packed([self._short(width), short_sampling_rows(view, subject, width, glyphs)], height)
        sections = [
            self._reward(width),
            self._verifier(_RAW if width >= _WIDE else _RAW - 4),
            self._length(width),
            self._versions(width),
            sampling_rows(view, subject, width, glyphs),
            self._identity(),
            bar_rows(subject, parts.reward_span(view.snapshot.run), width, glyphs),
            self._hand_score(),
        ]
        return packed(sections, height, spare=-2)

    def _reward(self, width: int) -> list[Row]:
        subject, run = self.subject, self.view.snapshot.run
        low, high = parts.reward_span(run) or (0.0, 0.0)
        aside = ""
        if run.reward_range_declared:
            aside = f"of {high:,g} "
        elif len(known := subject.rewards[np.isfinite(subject.rewards)]):
            aside = f"in the group {known.min():.2f}{self.glyphs.dash}{known.max():.2f} "
        components = list(subject.components.items())[:_COMPONENTS]
        spreads = [parts.spread_part(subject.component_range(name), self.glyphs) for name, _ in components]
        longest = max(len(aside), *(width_of(spread) + 1 for spread in spreads), 0)
        cells = min(_METER, width - _LABEL - 5 - 3 - longest - 2)

        def bar(value: float, role: str) -> Row:
            known = high > low and math.isfinite(value) and cells >= _LEAST_METER
            return (
                [("   ", ""), *meter((value - low) / (high - low), cells, self.glyphs, role)] if known else []
            )

        value = self._fact(
            "reward", [(self.glyphs.plain(numbers.fixed(subject.reward, 3)), "text bold")], strong=True
        )
        rows = [ends([*value, *bar(subject.reward, "strip")], [(aside, "dim")], width, self.glyphs.ellipsis)]
        for (name, number), spread in zip(components, spreads, strict=True):
            shown: Row = [(self.glyphs.plain(numbers.fixed(number, 3)), "text")]
            row = [*self._fact(f"  {safe(name)}", shown), *bar(number, "series1_steps")]
            rows.append(ends(row, [*spread, (" ", "")], width, self.glyphs.ellipsis))
        if len(subject.components) > _COMPONENTS:
            rows.append(self._fact("", [(f"{len(subject.components) - _COMPONENTS} more components", "dim")]))
        return [*rows, self._advantage(width)]

    def _advantage(self, width: int) -> Row:
        subject = self.subject
        rank = parts.rank_words(subject)
        long = width >= _WIDE
        place = (
            "the group has no spread" if subject.flat else f"{rank} in its group" if rank and long else rank
        )
        origin = parts.advantage_origin(subject, self.glyphs) if long else []
        place = rank if subject.advantage_logged and not subject.flat else place
        return self._fact(
            "advantage",
            [parts.advantage_run(subject, self.glyphs)],
            [(place, "dim")],
            origin,
            strong=True,
        )

    def _verifier(self, cells: int) -> list[Row]:
        subject = self.subject
        name, value = parts.parsed_reward(self.view, subject)
        parsed: Row = [(self.glyphs.plain(numbers.fixed(value, 3)), "text"), (f" {name}", "dim")]
        raw, error = parts.raw_verifier(self.whole, cells - 4), parts.error_run(subject, cells - 1)
        return [
            self._fact("", [cell("raw verifier", cells, "dim"), ("parsed reward", "dim")]),
            self._fact("verifier", [cell(raw[0], cells, raw[1]), *parsed], strong=True),
            self._fact("  error", [cell(error[0], cells, error[1]), *parts.parsed_part(subject)]),
        ]

    def _length(self, width: int) -> list[Row]:
        subject = self.subject
        tokens, budget = subject.whole("completion_tokens"), subject.budget
        share = tokens / budget if budget and tokens is not None and width >= _WIDE else None
        rows = [self._fact("length", parts.length_part(subject), meter(share, 16, self.glyphs), strong=True)]
        prompt = subject.whole("prompt_tokens")
        if prompt is not None:
            rows.append(self._fact("  prompt", [(numbers.count(prompt), "text"), (" tokens", "dim")]))
        turns = () if self.whole is None else self.whole.turns
        speakers = [turn.who for turn in turns if turn.number is not None]
        if len(speakers) > 1:
            rows.append(self._fact("turns", [(_counted(speakers), "text")]))
        if subject.flag("loop"):
            rows.append(self._fact("", [("it ends in a loop", "warn")]))
        termination = subject.name("termination")
        after: Row = []
        if subject.name("finish") is not None:
            said = ("not logged", "dim") if termination is None else (first_line(termination, 18), "text")
            after = [("termination ", "dim"), said]
        return [*rows, self._fact("ended", parts.end_part(subject, self.glyphs), after)]

    def _versions(self, width: int) -> list[Row]:
        view, subject, glyphs = self.view, self.subject, self.glyphs
        policy = parts.policy_part(view, subject, glyphs, long=width >= _WIDE)
        sampler, seed = subject.name("sampler"), parts.seed_run(subject)
        again = parts.again_part(counterparts(view.snapshot, subject.row), glyphs)
        return [
            self._marked(
                self._fact("policy", *policy, strong=True),
                parts.lag_mark(view, subject, glyphs),
                width,
            ),
            self._fact(
                "sampler", [("unnamed", "dim") if sampler is None else (first_line(sampler, 30), "text")]
            ),
            self._marked(
                self._fact("seed", [seed], again),
                (glyphs.unknown if seed == NOT_LOGGED else "", "info"),
                width,
            ),
        ]

    def _hand_score(self) -> list[Row]:
        return [self._fact("hand score", *parts.hand_score_part(self.view.snapshot, self.subject))]

    def _identity(self) -> list[Row]:
        subject = self.subject
        task, family, tier = (subject.name(column) for column in ("task", "family", "tier"))
        group, index = first_line(subject.group_label, 24), f"#{numbers.count(subject.index)}"
        return [
            self._fact("versions", *parts.versions(subject)),
            self._fact(
                "task",
                [NOT_LOGGED if task is None else (first_line(task, 24), "text")],
                [] if family is None else [("family ", "dim"), (first_line(family, 16), "text")],
                [] if tier is None else [("tier ", "dim"), (first_line(tier, 12), "text")],
            ),
            self._fact(
                "where",
                [(first_line(subject.source, 28) or "unknown", "text")],
                [(f"{group}, {index}" if group else index, "dim")],
            ),
            self._fact("", [(parts.place_words(subject), "dim")]),
        ]

    def _short(self, width: int) -> list[Row]:
        """The facts of a narrow window, up to the sampling settings."""
        view, subject, glyphs = self.view, self.subject, self.glyphs
        span = view.snapshot.run.reward_range if view.snapshot.run.reward_range_declared else None
        of = "" if span is None else f" of {span[1]:,g}"
        rows = [
            _short(
                "reward",
                (self.glyphs.plain(numbers.fixed(subject.reward, 3)), "text bold"),
                (of, "dim"),
                strong=True,
            )
        ]
        named = [
            (first_line(name, 9), self.glyphs.plain(numbers.fixed(value, 3)))
            for name, value in subject.components.items()
        ]
        for (name, value), other in zip_longest(named[::2], named[1::2]):
            beside: Row = [(f"  {other[0]} ", "dim"), (other[1], "text")] if other else []
            rows.append(_short(f"  {name}", (value, "text"), *beside))
        place = "no spread" if subject.flat else parts.rank_words(subject)
        rows.append(
            _short("advantage", parts.advantage_run(subject, self.glyphs), (f"  {place}", "dim"), strong=True)
        )
        raw, parsed = parts.raw_verifier(self.whole, 10), parts.parsed_reward(view, subject)[1]
        arrow: Row = [(f" {glyphs.arrow} ", "dim"), (self.glyphs.plain(numbers.fixed(parsed, 3)), "text")]
        rows.append(_short("verifier", raw, *arrow))
        if subject.name("verifier_error") is not None:
            rows.append(_short("  error", parts.error_run(subject, 22)))
        rows += [
            _short("length", *parts.length_part(subject)),
            _short("ended", *parts.end_part(subject, glyphs)),
        ]
        policy = _short(
            "policy", *parts.policy_versions(subject, glyphs), ("  ", ""), *parts.lag_part(view, subject)
        )
        seed = parts.seed_run(subject)
        return [
            *rows,
            self._marked(policy, parts.lag_mark(view, subject, glyphs), width),
            self._marked(_short("seed", seed), (glyphs.unknown if seed == NOT_LOGGED else "", "info"), width),
        ]

    def _fact(self, label: str, *said: Row, strong: bool = False, gap: str = "   ") -> Row:
        name = cell(f" {label}", _LABEL - 1, "text bold" if strong else "dim", glyphs=self.glyphs)
        return [name, (" ", ""), *joined(said, gap)]

    def _marked(self, row: Row, mark: tuple[str, str], width: int) -> Row:
        right: Row = [mark, (" ", "")] if mark[0] else []
        return ends(row, right, width, self.glyphs.ellipsis)


def packed(sections: list[list[Row]], height: int, spare: int | None = None) -> list[Row]:
    """Sections with blank rows between them, where they fit; the last are left out where even without they do not.

    The section at `spare` is left out before all others.
    """
    if spare is not None and sum(map(len, sections)) > height:
        sections = [section for place, section in enumerate(sections) if place != len(sections) + spare]
    kept = [section for section in sections if section]
    while len(kept) > 1 and sum(map(len, kept)) > height:
        kept.pop()
    blank = height - sum(map(len, kept))
    rows: list[Row] = []
    for number, section in enumerate(kept):
        if number and blank > 0:
            rows.append([])
            blank -= 1
        rows += section
    return rows


def _short(label: str, *said: tuple[str, str], strong: bool = False) -> Row:
    return [cell(f" {label}", _SHORT_LABEL, "text bold" if strong else "dim"), *said]


def _counted(speakers: list[str]) -> str:
    """`2 policy, 1 tool`."""
    return ", ".join(f"{speakers.count(who)} {first_line(who, 12)}" for who in dict.fromkeys(speakers))
