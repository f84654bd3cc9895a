"""What `grpo-top grades` prints: a run's hand scores, how far they agree with the pipeline's, and as JSON."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from grpo_top import numbers
from grpo_top.grades import compared, judged, score_words, values_of
from grpo_top.text import first_line, safe

if TYPE_CHECKING:
    from grpo_top.grades import Agreement, Compared, Graded
    from grpo_top.snapshot import RewardRule, Snapshot

SCHEMA = "grpo-top/grades/1"


def grades_text(snapshot: Snapshot) -> str:
    """The run's hand scores as text."""
    given = [graded for graded in snapshot.graded if graded.score is not None]
    name = safe(snapshot.run.name) or "this run"
    if not given:
        return f"{name}: no hand scores; `g` in the replay draws 20 rollouts to score\n"
    rule = snapshot.run.reward_rule
    pairs = compared(given, snapshot.rollouts, rule)
    found, _ = judged(pairs)
    lines = [f"{name}: {agreement_words(found)}", *table_lines(found, rule), ""]
    head = ("step", "group", "#", "hand", "pipeline", "", "note")
    rows = [head, *(_row(snapshot, graded, one) for graded, one in pairs)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(head))]
    for row in rows:
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
        lines.append(f"  {'  '.join(cells)}".rstrip())
    return "\n".join(lines) + "\n"


def agreement_words(found: Agreement) -> str:
    """`20 hand scores, 13 of 20 agree with the pipeline's (65%), kappa 0.31`."""
    plural = "s" if found.scored != 1 else ""
    words = f"{numbers.count(found.scored)} hand score{plural}"
    if found.share is None:
        return f"{words}, and no score of the pipeline's to hold them against"
    share = numbers.share(found.share)
    kappa = "not defined, one side only ever says one thing" if found.kappa is None else f"{found.kappa:.2f}"
    agree = numbers.part_of(found.agree, found.compared)
    return f"{words}, {agree} agree with the pipeline's ({share}), kappa {kappa.replace('-', numbers.MINUS)}"


def table_lines(found: Agreement, rule: RewardRule | None) -> list[str]:
    """Right and wrong by passed and failed, and what passing means."""
    (both, hand), (pipeline, neither) = found.table
    if rule is None or not found.compared:
        return []
    sign = "at least" if rule.inclusive else "above"
    return [
        f"  {'':<14}{'passed':>8}{'failed':>8}   passed: {safe(rule.of)} {sign} {rule.limit:g}",
        f"  {'hand right':<14}{both:>8}{hand:>8}",
        f"  {'hand wrong':<14}{pipeline:>8}{neither:>8}",
    ]


def grades_object(snapshot: Snapshot) -> dict[str, Any]:
    """The same as one JSON object."""
    given = [graded for graded in snapshot.graded if graded.score is not None]
    rule = snapshot.run.reward_rule
    pairs = compared(given, snapshot.rollouts, rule)
    found, _ = judged(pairs)
    values = values_of(snapshot.rollouts, rule)
    return {
        "schema": SCHEMA,
        "run": snapshot.run.name,
        "rule": None if rule is None else rule._asdict(),
        "scored": found.scored,
        "compared": found.compared,
        "agree": found.agree,
        "agreement": found.share,
        "kappa": found.kappa,
        "table": {
            "right": dict(zip(("passed", "failed"), found.table[0], strict=True)),
            "wrong": dict(zip(("passed", "failed"), found.table[1], strict=True)),
        },
        "scores": [
            {
                "where": _where(snapshot, graded.row),
                "step": graded.step,
                "group": _group(snapshot, graded),
                "index": int(snapshot.rollouts.columns["index"][graded.row]),
                "score": graded.score,
                "pipeline": value if math.isfinite(value := float(values[graded.row])) else None,
                "passed": one.passed,
                "agrees": one.agrees,
                "note": graded.note,
                "time": graded.time,
            }
            for graded, one in pairs
        ],
    }


def _row(snapshot: Snapshot, graded: Graded, one: Compared) -> tuple[str, ...]:
    value = float(values_of(snapshot.rollouts, snapshot.run.reward_rule)[graded.row])
    passed = "no score" if one.passed is None else "passed" if one.passed else "failed"
    pipeline = passed if one.passed is None else f"{passed} {numbers.value(value)}"
    index = int(snapshot.rollouts.columns["index"][graded.row])
    agrees = "" if one.agrees is None else "agrees" if one.agrees else "DISAGREES"
    return (
        str(graded.step),
        first_line(_group(snapshot, graded), 20),
        str(index),
        score_words(graded.score),
        pipeline,
        agrees,
        first_line(graded.note, 60),
    )


def _group(snapshot: Snapshot, graded: Graded) -> str:
    for batch in (snapshot.batch(graded.step), snapshot.eval_batch(graded.step)):
        if batch is not None and len(at := (batch.rows == graded.row).nonzero()[0]):
            return batch.group_label(int(batch.group[at[0]]))
    return ""


def _where(snapshot: Snapshot, row: int) -> str:
    source = int(snapshot.rollouts.columns["source"][row])
    return snapshot.sources[source].where if 0 <= source < len(snapshot.sources) else ""
