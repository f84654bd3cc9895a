"""What is said of one rollout, in parts of a line: in the same words by the preview and by the facts."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from grpo_top import numbers
from grpo_top.batch import FLAT_STD
from grpo_top.grades import SESSION, compare, score_words, values_of
from grpo_top.text import first_line, safe

if TYPE_CHECKING:
    from collections.abc import Sequence

    from grpo_top.snapshot import RunFacts, Snapshot
    from grpo_top.ui.glyphs import Glyphs
    from grpo_top.ui.rollouts.opponents import Opponent
    from grpo_top.ui.rollouts.subject import Subject
    from grpo_top.ui.rollouts.texts import Whole
    from grpo_top.ui.view import View
    from grpo_top.ui.widgets.runs import Row
    from grpo_top.ui.widgets.strips import Run

NOT_LOGGED: Run = ("not logged", "info")
_ABOUT = 0.05
"""Trainers differ in how they take the spread: so much of a difference says nothing."""
_NO_ADVANTAGE = 5e-3
"""What rounds to 0 with two decimals."""


def reward_span(run: RunFacts) -> tuple[float, float] | None:
    """The range that rewards are drawn over: as declared, else what has been seen, and 0 where it is never below."""
    if run.reward_range is None or run.reward_range_declared:
        return run.reward_range
    low, high = run.reward_range
    return min(low, 0.0), high


def ordinal(rank: int, size: int) -> str:
    """`1st`, `7th`, `last`."""
    if rank == size:
        return "last"
    ending = {1: "st", 2: "nd", 3: "rd"}.get(rank % 10, "th") if rank % 100 not in {11, 12, 13} else "th"
    return f"{rank}{ending}"


def rank_words(subject: Subject) -> str:
    """`7th of 8`; empty where its rank is unknown."""
    size = len(subject.rows)
    return "" if subject.rank is None else f"{ordinal(subject.rank, size)} of {numbers.count(size)}"


def advantage_run(subject: Subject, glyphs: Glyphs) -> Run:
    """Its advantage: amber where the group has no spread."""
    value = float(subject.advantages[subject.place])
    if math.isnan(value):
        return NOT_LOGGED
    if subject.flat:
        return (
            "0" if abs(value) < _NO_ADVANTAGE else glyphs.plain(numbers.change(value, decimals=2))
        ), "warn bold"
    return glyphs.plain(numbers.change(value, decimals=2)), "strip bold" if value > 0 else "text bold"


def advantage_origin(subject: Subject, glyphs: Glyphs) -> Row:
    """Whether its advantage was worked out here; where it is logged, what the group's rewards make of it."""
    shown, computed = float(subject.advantages[subject.place]), subject.advantage_computed
    if subject.flat or not math.isfinite(shown):
        return []
    if not subject.advantage_logged:
        return [("computed", "faint")]
    if not math.isfinite(computed):
        return [("as logged", "faint")]
    centred = subject.reward - (subject.group_mean or 0.0)
    if abs(shown - centred) <= _ABOUT * max(1.0, abs(shown)) < abs(shown - computed):
        return [(glyphs.plain(f"logged: not divided by {glyphs.sigma}"), "dim")]
    return [("logged, recomputed ", "faint"), (glyphs.plain(numbers.change(computed, decimals=2)), "dim")]


def spread_part(found: tuple[float, float] | None, glyphs: Glyphs) -> Row:
    """From where to where a component reaches in the group."""
    if found is None:
        return []
    low, high = found
    if high - low <= FLAT_STD:
        return [("flat", "warn")]
    return [(glyphs.plain(f"{numbers.fixed(low, 2)}{glyphs.dash}{numbers.fixed(high, 2)}"), "dim")]


def again_part(found: Sequence[Opponent], glyphs: Glyphs) -> Row:
    """With what it should have come out the same, and did not."""
    if not found:
        return []
    more = f" and {len(found) - 1} more" if len(found) > 1 else ""
    return [(f"{glyphs.warn} not as {found[0].title}{more}", "warn")]


def place_words(subject: Subject) -> str:
    """Where in its file the record lies."""
    offset, length, part = (
        int(subject.snapshot.rollouts.columns[name][subject.row]) for name in ("offset", "length", "part")
    )
    if offset < 0:
        return "no place is known"
    if not length:
        return f"row {offset:,}, as it was read"
    return f"at byte {offset:,}, {length:,} bytes" + (f", part {part + 1}" if part else "")


def hand_score_part(snapshot: Snapshot, subject: Subject) -> list[Row]:
    """What a person gave it, else how to come to give scores; and how many there are."""
    given = sum(graded.score is not None for graded in snapshot.graded)
    count: Row = [
        (f"{numbers.count(given)} of {SESSION}" if given < SESSION else numbers.count(given), "text")
    ]
    graded = subject.graded
    if graded is None or graded.score is None:
        return [[("g", "accent bold"), (f" score {SESSION} unseen", "dim")], count]
    said: Row = [(score_words(graded.score), "text bold")]
    rule = snapshot.run.reward_rule
    found = compare(graded.score, float(values_of(snapshot.rollouts, rule)[subject.row]), rule)
    verdict = "" if found.agrees is None else "as the pipeline" if found.agrees else "not as the pipeline"
    return [said, [(verdict, "dim" if found.agrees else "warn")], [*count, (" scored", "dim")]]


def raw_verifier(whole: Whole | None, width: int) -> Run:
    """What the verifier gave back, as it was logged."""
    if whole is None:
        return "", ""
    if whole.rollout is None:
        return "gone with the text", "info"
    raw = whole.rollout.verifier_raw
    return NOT_LOGGED if raw is None else (f'"{first_line(raw, width)}"', "text")


def parsed_reward(view: View, subject: Subject) -> tuple[str, float]:
    """What the run calls success, else the first component, else the reward: its name and value."""
    success, components = view.snapshot.run.success, subject.components
    wanted = success.of if success is not None else next(iter(components), "")
    return (safe(wanted), components[wanted]) if wanted in components else ("reward", subject.reward)


def parsed_part(subject: Subject) -> Row:
    """Whether the answer was parsed."""
    parsed = subject.flag("parsed")
    word = numbers.UNKNOWN if parsed is None else "yes" if parsed else "no"
    return [("parsed ", "dim"), (word, "info" if parsed is None else "text" if parsed else "warn")]


def error_run(subject: Subject, width: int) -> Run:
    """The verifier's error; `none` where it says that there was none."""
    error = subject.name("verifier_error")
    if error is not None:
        return first_line(error, width), "fail"
    return ("none", "text") if subject.whole("verifier_known") == 1 else (numbers.UNKNOWN, "info")


def length_part(subject: Subject) -> Row:
    """Tokens, of the budget where that is known."""
    tokens, budget = subject.whole("completion_tokens"), subject.budget
    if tokens is None:
        return [NOT_LOGGED]
    of = f" of {numbers.count(budget)} tokens" if budget else " tokens"
    return [(numbers.count(tokens), "text bold"), (of, "dim")]


def end_part(subject: Subject, glyphs: Glyphs) -> Row:
    """Why it ended: the engine's reason, else the environment's."""
    end = subject.name("finish") or subject.name("termination")
    cut_off = subject.flag("truncated")
    said: Row = [NOT_LOGGED] if end is None else [(first_line(end, 28), "warn" if cut_off else "text")]
    return [*said, (f" {glyphs.warn} cut off", "warn")] if cut_off else said


def version(value: int | None) -> Row:
    """`v109`, or `?`."""
    return [(numbers.UNKNOWN, "info")] if value is None else [(f"v{value}", "text")]


def policy_part(view: View, subject: Subject, glyphs: Glyphs, *, long: bool) -> list[Row]:
    """The policy's and the trainer's version, and the lag between them."""
    policy, trainer, lag = (
        policy_versions(subject, glyphs),
        subject.whole("trainer_version"),
        lag_part(view, subject),
    )
    if subject.whole("policy_start") is None and trainer is None:
        return [[NOT_LOGGED]]
    return [policy, [("trainer ", "dim"), *version(trainer)], lag if long else lag[:2]]


def policy_versions(subject: Subject, glyphs: Glyphs) -> Row:
    """The version that sampled it, or the first and last where it spans several."""
    start, end = subject.whole("policy_start"), subject.whole("policy_end")
    if start is not None and end is not None and end != start:
        return [(f"v{start}{glyphs.dash}{end}", "text")]
    return version(start)


def lag_part(view: View, subject: Subject) -> Row:
    """`lag 0 of 2`: of what is tolerated, where that is declared."""
    lag, tolerance = subject.lag, view.snapshot.run.version_lag_tolerance
    said: Run = (numbers.UNKNOWN, "info") if lag is None else (numbers.count(lag), "text")
    return [("lag ", "dim"), said, ("" if tolerance is None else f" of {tolerance:,g}", "dim")]


def lag_mark(view: View, subject: Subject, glyphs: Glyphs) -> Run:
    """Whether the lag is within what is declared as tolerated."""
    lag, tolerance = subject.lag, view.snapshot.run.version_lag_tolerance
    if lag is None:
        return glyphs.unknown, "info"
    return (glyphs.warn, "warn bold") if tolerance is not None and lag > tolerance else (glyphs.ok, "ok")


def seed_run(subject: Subject) -> Run:
    """The seed that it was sampled with."""
    seed = subject.whole("seed")
    return NOT_LOGGED if seed is None else (str(seed), "text")


def versions(subject: Subject) -> list[Row]:
    """Versions of the environment and of the reward."""
    parts: list[Row] = []
    for label, column in (("env", "env_version"), ("reward", "reward_version")):
        name = subject.name(column)
        said: Run = (numbers.UNKNOWN, "info") if name is None else (first_line(name, 16), "text")
        parts.append([(f"{label} ", "dim"), said])
    return parts
