"""A detector's page as text: what `explain` prints and the screen shows."""

from __future__ import annotations

from textwrap import fill
from typing import TYPE_CHECKING

from grpo_top.snapshot import STAGES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from grpo_top.config import Settings
    from grpo_top.detectors.base import Detector

WIDTH = 96


def listing(detectors: Iterable[type[Detector]]) -> str:
    """Every detector in triage order, under the question of its stage."""
    by_stage: dict[int, list[type[Detector]]] = {}
    for detector in detectors:
        by_stage.setdefault(detector.stage, []).append(detector)
    lines = []
    for stage, of_stage in sorted(by_stage.items()):
        name, question = STAGES[stage]
        lines.append(f"{stage} {name}: {question}")
        lines += [
            f"  {detector.id:<25} {detector.severity.word:<5} {_first_sentence(detector.page.what)}"
            for detector in of_stage
        ]
    return "\n".join(lines) + "\n"


_FIELDS = {
    "adv_std": "advantages, or rewards by group",
    "clip_frac": "clip fraction",
    "completion_tokens_mean": "completion length",
    "component_mean": "reward components",
    "distinct_texts_mean": "completions",
    "duplicate_frac": "completions by group",
    "entropy": "entropy",
    "gibberish_frac": "completions",
    "grad_norm": "gradient norm",
    "hand_scores": "hand scores",
    "heldout": "held-out evaluations",
    "kl": "KL to the reference",
    "logp_abs_diff": "log-probabilities of sampler and trainer, or the mismatch as the trainer logs it",
    "mixed_version_frac": "first and last policy version of a rollout",
    "parse_failure_rate": "whether the answer parsed",
    "policy_version": "policy version",
    "repetition_frac": "completions",
    "reward_length_corr": "reward and length of each rollout",
    "reward_mean": "reward",
    "reward_std": "reward spread, or rewards by rollout",
    "rollouts": "rollouts",
    "sampling": "sampling config, intended and deployed",
    "seed": "seed",
    "step_time": "step time",
    "success_rate": "reward of each rollout, or success",
    "task": "task or prompt, of held-out rollouts too",
    "termination": "termination or finish reason",
    "trainer_version": "trainer version",
    "truncation_rate": "finish reason, or the share that is cut",
    "verifier_error_rate": "verifier errors",
    "version_lag_max": "policy and trainer version, or lag",
    "zero_variance_group_frac": "rewards by group, or the share of flat groups",
}
"""A series that a detector needs → what of the log gives it, for a reader who does not know the series."""


def readme_table(detectors: Iterable[type[Detector]]) -> str:
    """The README's table of what is caught: detector, what it means, which fields it needs. Lines of Markdown."""
    lines = ["| stage | detector | what it means | needs |", "|---|---|---|---|"]
    for detector in detectors:
        name = f"{detector.stage} {STAGES[detector.stage][0]}"
        needs = detector.needs or detector.series
        fields = "; ".join(dict.fromkeys(_FIELDS[need] for need in needs)) or "any log"
        lines.append(f"| {name} | `{detector.id}` | {_first_sentence(detector.page.what)} | {fields} |")
    return "\n".join(lines) + "\n"


def page(detector: type[Detector], settings: Settings, width: int = WIDTH) -> str:
    """One detector's page with the knobs in force and where each value comes from, in lines of `width` cells."""
    return "\n".join(_page(detector, settings, width)) + "\n"


def _page(detector: type[Detector], settings: Settings, width: int) -> Iterator[str]:
    what = detector.page
    name, question = STAGES[detector.stage]
    yield detector.id
    about = f"severity {detector.severity.word} · stage {detector.stage} {name}: {question}"
    yield fill(about, width, subsequent_indent="  ")
    if detector.series:
        yield fill(f"reads {', '.join(detector.series)}", width, subsequent_indent="  ")
    for heading, text in (
        ("What is happening", what.what),
        ("What it looks like", what.looks_like),
        ("How the detector decides", what.decides),
    ):
        yield ""
        yield heading
        yield _paragraph(text, width)
    yield from _knobs(detector, settings, width)
    yield ""
    yield "What to try, in order"
    for number, step in enumerate(what.try_next, 1):
        yield fill(step, width, initial_indent=f"  {number}. ", subsequent_indent="     ")
    yield ""
    yield "Often mistaken for"
    yield _paragraph(what.mistaken_for, width)
    if what.related:
        yield ""
        yield fill(f"Related: {', '.join(what.related)}", width, subsequent_indent="  ")


def _knobs(detector: type[Detector], settings: Settings, width: int) -> Iterator[str]:
    chosen = settings.knobs.get(detector.id, {})
    if detector.knobs:
        yield ""
        yield f"  {'knob':<18} {'value':>8}  meaning"
    for knob in detector.knobs:
        setting = chosen.get(knob.name)
        value = knob.default if setting is None else setting.value
        origin = "" if setting is None else f" (default {knob.default:g}; set in {setting.origin})"
        yield fill(
            f"{knob.meaning}{origin}",
            width,
            initial_indent=f"  {knob.name:<18} {value:>8g}  ",
            subsequent_indent=" " * 31,
        )
    if not settings.enabled(detector.id):
        yield f"  switched off in {chosen['enabled'].origin}"


def _paragraph(text: str, width: int) -> str:
    return "\n\n".join(
        fill(" ".join(part.split()), width, initial_indent="  ", subsequent_indent="  ")
        for part in text.split("\n\n")
    )


def _first_sentence(text: str) -> str:
    sentence = " ".join(text.split()).split(". ")[0].rstrip(".")
    return sentence if len(sentence) <= 100 else sentence[:99] + "…"
