"""The facts of one rollout, always in the same order: what is not logged stays in its place and says so."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import zip_longest
from typing import TYPE_CHECKING

import numpy as np

from grpo_top.records import SAMPLING_ORDER
from grpo_top.snapshot import Status
from grpo_top.text import first_line, safe
from grpo_top.ui import numbers
from grpo_top.ui.glyphs import STATUS_ROLES
from grpo_top.ui.rollouts.layout import cell, joined, meter, on
from grpo_top.ui.rollouts.preview import (
    error_part,
    ordinal,
    parsed_part,
    place_words,
    policy_versions,
    version,
    versions,
)
from grpo_top.ui.rollouts.rollout_rows import drift
from grpo_top.ui.widgets.runs import ends, filled

if TYPE_CHECKING:
    from grpo_top.records import SamplingValue
    from grpo_top.ui.glyphs import Glyphs
    from grpo_top.ui.rollouts.subject import Subject
    from grpo_top.ui.rollouts.texts import Whole
    from grpo_top.ui.view import View
    from grpo_top.ui.widgets.runs import Row

_NARROW = 44
_METERS = 54
"""From this width on numbers have bars beside them."""
_COMPONENTS = 6
_NOT_LOGGED = ("not logged", "info")


@dataclass(frozen=True, slots=True)
class Facts:
    """Makes the rows of one rollout's facts."""

    view: View
    subject: Subject
    whole: Whole | None
    glyphs: Glyphs

    def rows(self, width: int, height: int) -> list[Row]:
        """The facts in `width` cells; blank rows and the group's bars where there is room for them."""
        if width < _NARROW:
            return _packed([self._short(width), self._short_sampling(width)], height)
        sections = [
            self._reward(width),
            self._verifier(),
            self._length(width),
            self._versions(width),
            self._sampling(width),
            self._identity(),
            self._group(width),
        ]
        return _packed(sections, height)

    # ---- sections

    def _reward(self, width: int) -> list[Row]:
        subject, span = self.subject, self.view.snapshot.run.reward_range
        low, high = span or (0.0, 0.0)
        declared = self.view.snapshot.run.reward_range_declared
        bars = width >= _METERS and high > low

        def bar(value: float, role: str) -> Row:
            share = (value - low) / (high - low) if bars and math.isfinite(value) else None
            return [("   ", ""), *meter(share, 20, self.glyphs, role)] if bars else []

        value = self._fact("reward", [(numbers.fixed(subject.reward, 3), "text bold")], strong=True)
        if declared:
            aside: Row = [("of ", "dim"), (f"{high:,g}", "dim")]
            first = ends(
                [*value, *bar(subject.reward, "strip")], [*aside, (" ", "")], width, self.glyphs.ellipsis
            )
        else:
            known = subject.rewards[np.isfinite(subject.rewards)]
            seen = (
                f"  in the group {known.min():.2f}{self.glyphs.dash}{known.max():.2f}" if len(known) else ""
            )
            first = [*value, *bar(subject.reward, "strip"), (seen, "dim")]
        rows = [first]
        for name, number in list(subject.components.items())[:_COMPONENTS]:
            shown: Row = [(numbers.fixed(number, 3), "text")]
            rows.append([*self._fact(f"  {safe(name)}", shown), *bar(number, "series1_steps")])
        if len(subject.components) > _COMPONENTS:
            rows.append(self._fact("", [(f"{len(subject.components) - _COMPONENTS} more components", "dim")]))
        return [*rows, self._advantage()]

    def _advantage(self) -> Row:
        subject = self.subject
        value = float(subject.advantages[subject.place])
        if subject.flat:
            said = "0" if abs(value) < 5e-3 else numbers.change(value, decimals=2)
            return self._fact(
                "advantage", [(said, "warn bold")], [("the group has no spread", "dim")], strong=True
            )
        if math.isnan(value):
            return self._fact("advantage", [_NOT_LOGGED], strong=True)
        rank = subject.rank
        place = "" if rank is None else place_words(rank, len(subject.rows))
        origin = "" if subject.advantage_logged else "computed"
        role = "strip bold" if value > 0 else "text bold"
        parts: list[Row] = [[(place, "dim")], [(origin, "faint")]]
        return self._fact("advantage", [(numbers.change(value, decimals=2), role)], *parts, strong=True)

    def _verifier(self) -> list[Row]:
        subject = self.subject
        rollout = None if self.whole is None else self.whole.rollout
        raw = None if rollout is None else rollout.verifier_raw
        if self.whole is None:
            said: tuple[str, str] = ("", "")
        elif raw is None:
            said = ("gone with the text", "info") if self.whole.gone else _NOT_LOGGED
        else:
            said = (f'"{first_line(raw, 14)}"', "text")
        name, value = self._parsed_reward()
        error = subject.name("verifier_error")
        known = subject.whole("verifier_known") == 1
        none: tuple[str, str] = ("none", "text") if known else (numbers.UNKNOWN, "info")
        return [
            self._fact("", [cell("raw verifier", 18, "dim"), ("parsed reward", "dim")]),
            self._fact(
                "verifier",
                [cell(said[0], 18, said[1]), (numbers.fixed(value, 3), "text"), (f" {name}", "dim")],
                strong=True,
            ),
            self._fact(
                "  error",
                [
                    cell(first_line(error, 17), 18, "fail") if error else cell(none[0], 18, none[1]),
                    *parsed_part(subject),
                ],
            ),
        ]

    def _parsed_reward(self) -> tuple[str, float]:
        """What the run calls success, else the first component, else the reward."""
        success, components = self.view.snapshot.run.success, self.subject.components
        wanted = success.of if success is not None else next(iter(components), "")
        if wanted in components:
            return safe(wanted), components[wanted]
        return "reward", self.subject.reward

    def _length(self, width: int) -> list[Row]:
        subject = self.subject
        tokens, budget = subject.whole("completion_tokens"), subject.budget
        if tokens is None:
            length: Row = [_NOT_LOGGED]
        else:
            length = [
                (numbers.count(tokens), "text bold"),
                (f" of {numbers.count(budget)} tokens" if budget else " tokens", "dim"),
            ]
        bar = (
            meter(tokens / budget, 16, self.glyphs, "strip")
            if budget and tokens is not None and width >= _METERS
            else []
        )
        rows = [self._fact("length", length, bar, strong=True)]
        turns = () if self.whole is None else self.whole.turns
        if sum(turn.number is not None for turn in turns) > 1:
            rows.append(
                self._fact("turns", [(_counted_turns([turn.who for turn in turns if turn.number]), "text")])
            )
        if subject.flag("loop"):
            rows.append(self._fact("", [("it ends in a loop", "warn")]))
        return [*rows, self._fact("ended", *self._ended())]

    def _ended(self) -> list[Row]:
        subject = self.subject
        finish, termination, truncated = (
            subject.name("finish"),
            subject.name("termination"),
            subject.flag("truncated"),
        )
        end: Row = (
            [_NOT_LOGGED] if finish is None else [(first_line(finish, 16), "warn" if truncated else "text")]
        )
        if truncated:
            end += [(" ", ""), (self.glyphs.warn, "warn"), (" cut off", "warn")]
        if finish is None and termination is not None:
            return [[(first_line(termination, 28), "warn" if truncated else "text")]]
        said: Row = [("not logged", "dim") if termination is None else (first_line(termination, 18), "text")]
        return [end, [("termination ", "dim"), *said]]

    def _versions(self, width: int) -> list[Row]:
        subject, glyphs = self.subject, self.glyphs
        tolerance, lag = self.view.snapshot.run.version_lag_tolerance, subject.lag
        mark: Row = [(glyphs.unknown, "info")]
        lag_part: Row = [
            ("lag ", "dim"),
            (numbers.UNKNOWN if lag is None else numbers.count(lag), "text" if lag is not None else "info"),
        ]
        if tolerance is not None:
            lag_part.append((f" of {tolerance:,g}", "dim"))
        if lag is not None:
            within = tolerance is None or lag <= tolerance
            mark = [(glyphs.ok, "ok") if within else (glyphs.warn, "warn bold")]
        parts = [
            policy_versions(subject),
            [("trainer ", "dim"), *version(subject.whole("trainer_version"))],
            lag_part,
        ]
        sampler, seed = subject.name("sampler"), subject.whole("seed")
        return [
            self._marked("policy", parts, mark, width, strong=True),
            self._fact(
                "sampler", [("unnamed", "dim") if sampler is None else (first_line(sampler, 30), "text")]
            ),
            self._marked(
                "seed",
                [[_NOT_LOGGED if seed is None else (str(seed), "text")]],
                [(glyphs.unknown, "info")] if seed is None else [],
                width,
            ),
        ]

    def _sampling(self, width: int) -> list[Row]:
        subject = self.subject
        rows: list[Row] = [
            [
                cell("   sampling", 16, "dim"),
                ("intended", "dim"),
                cell("deployed", 10, "dim", right=True),
                cell("since", 8, "dim", right=True),
            ]
        ]
        names = settings(subject)
        if not names:
            return [*rows, [("   ", ""), _NOT_LOGGED, ("   ", ""), (self.glyphs.unknown, "info")]]
        for name in names:
            deployed = subject.sampling.get(name)
            status = drift(self.view, name, deployed)
            mark, mark_role = self._setting_mark(name, status)
            wrong = status is not None
            since = subject.since(name) if deployed is not None else None
            role = mark_role if wrong else "text"
            row: Row = [
                (" ", ""),
                (mark, mark_role),
                cell(f" {name}", 14, "text bold" if wrong else "text", glyphs=self.glyphs),
                _value_cell(subject.intended.get(name), 8, "text"),
                *_deployed(deployed, status, 10),
                cell("" if since is None else numbers.count(since), 8, role if wrong else "dim", right=True),
            ]
            if wrong and self.view.status("SAMPLER_DRIFT") >= Status.INFO:
                row += [("  ", ""), ("SAMPLER_DRIFT", f"{role} bold")]
            rows.append(
                on(filled(row, width, self.glyphs.ellipsis), "fail_bg") if status is Status.FAIL else row
            )
        return rows

    def _identity(self) -> list[Row]:
        subject = self.subject
        task, family, tier = (subject.name(column) for column in ("task", "family", "tier"))
        about: list[Row] = [
            [_NOT_LOGGED if task is None else (first_line(task, 24), "text")],
            [] if family is None else [("family ", "dim"), (first_line(family, 16), "text")],
            [] if tier is None else [("tier ", "dim"), (first_line(tier, 12), "text")],
        ]
        group = first_line(subject.group_label, 24)
        place = f"{group}, #{numbers.count(subject.index)}" if group else f"#{numbers.count(subject.index)}"
        return [
            self._fact("versions", *versions(subject)),
            self._fact("task", *about),
            self._fact("where", [(first_line(subject.source, 28) or "unknown", "text")], [(place, "dim")]),
        ]

    def _group(self, width: int) -> list[Row]:
        """The group's rewards as bars of four rows."""
        subject = self.subject
        span = self.view.snapshot.run.reward_range
        places = _around(subject.place, len(subject.rows), (width - 3) // 6)
        if len(subject.rows) < 2 or span is None or not span[1] > span[0]:
            return []
        low, high = span
        title = ends(
            [(" group", "text bold")], [("bright: above the mean ", "dim")], width, self.glyphs.ellipsis
        )
        rows: list[Row] = [title]
        rewards, mean = subject.rewards, subject.group_mean
        for level in (3, 2, 1, 0):
            row: Row = [("   ", "")]
            for place in places:
                height = (float(rewards[place]) - low) / (high - low) * 4 - level
                above = mean is not None and rewards[place] - mean > 1e-9
                row += [
                    (" ", ""),
                    (_block(height, self.glyphs) * 4, "strip" if above else "strip0"),
                    (" ", ""),
                ]
            rows.append(row)
        labels: Row = [("   ", "")]
        for place in places:
            here = place == subject.place
            mark = (self.glyphs.selected, "accent bold") if here else (" ", "")
            labels += [
                mark,
                cell(numbers.fixed(float(rewards[place]), 2), 5, "accent bold" if here else "dim"),
            ]
        return [*rows, labels]

    # ---- parts

    def _fact(self, label: str, *parts: Row, strong: bool = False) -> Row:
        return [cell(f" {label}", 15, "text bold" if strong else "dim", glyphs=self.glyphs), *joined(parts)]

    def _marked(self, label: str, parts: list[Row], mark: Row, width: int, *, strong: bool = False) -> Row:
        right: Row = [*mark, (" ", "")] if mark else []
        return ends(self._fact(label, *parts, strong=strong), right, width, self.glyphs.ellipsis)

