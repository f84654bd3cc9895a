"""What a sitting of hand scores shows beside the text, and at its end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grpo_top import numbers
from grpo_top.grades import RIGHT, WRONG, agreement, compare, score_words, values_of
from grpo_top.snapshot import Status
from grpo_top.text import first_line, safe
from grpo_top.ui.glyphs import STATUS_ROLES
from grpo_top.ui.rollouts.layout import cell, told

if TYPE_CHECKING:
    from collections.abc import Mapping

    from grpo_top.grades import Agreement, Compared
    from grpo_top.snapshot import RewardRule, Snapshot
    from grpo_top.ui.glyphs import Glyphs
    from grpo_top.ui.rollouts.sitting import Said, Sitting
    from grpo_top.ui.rollouts.subject import Subject
    from grpo_top.ui.view import View
    from grpo_top.ui.widgets.runs import Row

ID = "HAND_SCORE_MISMATCH"


def asked_rows(sitting: Sitting, subject: Subject, kept: str, width: int, glyphs: Glyphs) -> list[Row]:
    """What one can say, what is known of the rollout without its score, and how far one has come."""
    rule = subject.snapshot.run.reward_rule
    of = "reward" if rule is None else first_line(rule.of, 16)
    rows: list[Row] = [
        *told("the pipeline's score is hidden until the end", width, "dim"),
        [],
        _choice("1", "right"),
        _choice("0", "wrong"),
        _choice("v", f"a number, as {of} is"),
        _choice("s", "skip: cannot be said"),
        _choice("n", "note"),
        _choice("u", "the one before again"),
        [],
    ]
    if sitting.note:
        rows += [[(" note      ", "dim"), (first_line(sitting.note, max(8, width - 12)), "text")], []]
    rows += [_fact(label, value) for label, value in _facts(subject)]
    rows += [[], [(" so far    ", "dim"), *_strip(sitting, glyphs)]]
    rows.append(_fact("", f"{numbers.part_of(sitting.scored, len(sitting.rows))} scored"))
    if kept:
        rows += [[], *told(f"{glyphs.warn} not kept beyond this session: {safe(kept)}", width, "warn")]
    return rows


class Outcome:
    """What all hand scores of a run say.

    Args:
        snapshot: the run.
        said: row → what was said of it, earlier sittings' scores among them.
    """

    def __init__(self, snapshot: Snapshot, said: Mapping[int, Said]) -> None:
        self._snapshot = snapshot
        self._rule: RewardRule | None = snapshot.run.reward_rule
        values = values_of(snapshot.rollouts, self._rule)
        self._values = {row: float(values[row]) for row in said}
        self._said = said
        self.compared: dict[int, Compared] = {
            row: compare(one.score, self._values[row], self._rule)
            for row, one in said.items()
            if one.score is not None
        }
        steps = snapshot.rollouts.columns["step"]
        self.disagreements = tuple(
            sorted(
                (row for row, found in self.compared.items() if found.agrees is False),
                key=lambda row: (int(steps[row]), row),
            )
        )

    def agreement(self, rows: list[int] | None = None) -> Agreement:
        """Over all scores, or those of some rows."""
        return agreement(found for row, found in self.compared.items() if rows is None or row in rows)

    def rows(self, view: View, sitting: Sitting, kept: str, glyphs: Glyphs) -> list[Row]:
        """Agreement, confusion, kappa, and each disagreement."""
        found = self.agreement()
        rows: list[Row] = [*self._verdict(found, view, glyphs), []]
        now = self.agreement(list(sitting.said))
        if now.scored != found.scored:
            agree = numbers.part_of(now.agree, now.compared)
            rows += [[(f" of {numbers.count(now.scored)} given now, {agree} agree", "dim")], []]
        rows += [*self._table(found), []]
        if kept:
            rows += [[(f" {glyphs.warn} not kept beyond this session: ", "warn"), (safe(kept), "dim")], []]
        if not self.disagreements:
            words = "no score disagrees" if found.compared else "there is nothing to compare"
            return [*rows, [(f" {words}", "dim")]]
        plural = "s" if len(self.disagreements) != 1 else ""
        rows.append([(f" {numbers.count(len(self.disagreements))} disagreement{plural}", "text bold")])
        head = f"   {'step':>6}  {'family':<12}{'#':>3}  {'hand':<10}{'pipeline':<18}note"
        return [*rows, [(head, "dim")], *(self._row(row, glyphs) for row in self.disagreements)]

    def _verdict(self, found: Agreement, view: View, glyphs: Glyphs) -> list[Row]:
        if found.share is None:
            plural = "s" if found.scored != 1 else ""
            return [
                [(f" {numbers.count(found.scored)} score{plural}, none that can be compared", "text bold")]
            ]
        limit = view.limit(ID)
        low = limit is not None and found.share < limit
        enough = found.compared >= 10
        status = Status.FAIL if low and enough else Status.WATCH if low else Status.OK
        kappa = numbers.UNKNOWN if found.kappa is None else glyphs.plain(numbers.fixed(found.kappa, 2))
        of = numbers.part_of(found.agree, found.compared)
        first: Row = [
            (f" {glyphs.mark(status)} ", STATUS_ROLES[status]),
            (f"{of} agree", "text bold"),
            (" with the pipeline's   ", "dim"),
            (numbers.share(found.share), "text bold"),
        ]
        if limit is not None:
            first.append((f"   limit {numbers.share(limit)}", "limit"))
        second: Row = [("   kappa ", "dim"), (kappa, "info" if found.kappa is None else "text bold")]
        if found.kappa is None:
            second.append(("   one side only ever says one thing", "dim"))
        return [first, second]

    def _table(self, found: Agreement) -> list[Row]:
        if not found.compared or self._rule is None:
            return []
        (both, hand), (pipeline, neither) = found.table
        sign = "at least" if self._rule.inclusive else "above"
        head: Row = [(f"   {'pipeline':<12}{'passed':>8}{'failed':>8}", "dim"),
                     (f"   passed: {safe(self._rule.of)} {sign} {self._rule.limit:g}", "faint")]  # fmt: skip
        return [
            head,
            _counts("hand right", (both, "text"), (hand, "fail bold" if hand else "dim")),
            _counts("hand wrong", (pipeline, "fail bold" if pipeline else "dim"), (neither, "text")),
        ]

    def _row(self, row: int, glyphs: Glyphs) -> Row:
        columns, said = self._snapshot.rollouts.columns, self._said[row]
        family = int(columns["family"][row])
        name = "" if family < 0 else self._snapshot.rollouts.names["family"][family]
        passed = "passed" if self.compared[row].passed else "failed"
        value = glyphs.plain(numbers.value(self._values[row]))
        return [
            ("   ", ""),
            cell(numbers.count(int(columns["step"][row])), 6, "text", right=True),
            ("  ", ""),
            cell(first_line(name, 11), 12, "dim"),
            cell(numbers.count(int(columns["index"][row])), 3, "dim", right=True),
            ("  ", ""),
            cell(score_words(said.score), 10, "text bold"),
            cell(f"{passed} {value}", 18, "fail"),
            (first_line(said.note, 60), "dim"),
        ]


def _choice(key: str, words: str) -> Row:
    return [(f"  {key}", "accent bold"), (f"  {words}", "text")]


def _fact(label: str, value: str) -> Row:
    return [cell(f" {label}", 11, "dim"), (value, "text")]


def _facts(subject: Subject) -> list[tuple[str, str]]:
    tokens, budget = subject.whole("completion_tokens"), subject.budget
    length = "" if tokens is None else f"{numbers.count(tokens)} tokens"
    if tokens is not None and budget:
        length = f"{numbers.count(tokens)} of {numbers.count(budget)} tokens"
    ended = subject.name("finish") or subject.name("termination")
    found = [
        ("task", first_line(subject.name("task") or "", 28)),
        ("family", first_line(subject.name("family") or "", 20)),
        ("tier", first_line(subject.name("tier") or "", 20)),
        ("step", numbers.count(subject.step)),
        ("length", length),
        ("ended", first_line(ended or "", 20)),
    ]
    return [(label, value) for label, value in found if value]


def _strip(sitting: Sitting, glyphs: Glyphs) -> Row:
    """One cell for each: right, wrong, a number, skipped, where one is, to come."""
    row: Row = []
    for place, rollout in enumerate(sitting.rows):
        said = sitting.said.get(rollout)
        if place == sitting.at:
            row.append((glyphs.selected, "accent bold"))
        elif said is None:
            row.append((glyphs.separator, "faint"))
        elif said.score is None:
            row.append(("s", "dim"))
        else:
            row.append(({RIGHT: "1", WRONG: "0"}.get(said.score, "v"), "text"))
    return row


def _counts(label: str, first: tuple[int, str], second: tuple[int, str]) -> Row:
    return [
        (f"   {label:<12}", "dim"),
        cell(numbers.count(first[0]), 8, first[1], right=True),
        cell(numbers.count(second[0]), 8, second[1], right=True),
    ]
