"""Pages as text: what `explain` prints and the screen shows."""

from __future__ import annotations

from textwrap import TextWrapper
from typing import TYPE_CHECKING

from grpo_top.detectors import ALL, BY_ID, find
from grpo_top.page_links import links
from grpo_top.snapshot import STAGES
from grpo_top.spelling import meant
from grpo_top.topics import TOPICS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from grpo_top.config import Settings
    from grpo_top.detectors.base import Detector
    from grpo_top.topics import Topic

WIDTH = 80


def fill(text: str, width: int, initial_indent: str = "", subsequent_indent: str = "") -> str:
    """A paragraph in lines of `width` cells; words keep their hyphens."""
    wrapper = TextWrapper(
        width,
        initial_indent=initial_indent,
        subsequent_indent=subsequent_indent,
        break_on_hyphens=False,
        break_long_words=False,
    )
    return wrapper.fill(text)


def explained(name: str, settings: Settings) -> str:
    """The page of a detector or a topic, however its name is written; ValueError that names the nearest."""
    wanted = name.strip().lower()
    if wanted in TOPICS:
        return topic_page(TOPICS[wanted])
    try:
        return page(find(name), settings)
    except ValueError as error:
        told, _, near = str(error).partition("; ")
        raise ValueError(f"{told}; {_where_else(wanted, near)}") from error


def _where_else(words: str, near: str) -> str:
    """The nearest name, or the pages that speak of these words where they are none, or the lists."""
    if topic := meant(words, TOPICS, cutoff=0.7):
        return f"did you mean {topic}?"
    is_name = words.replace("_", "").replace("-", "").isalpha()
    if (speak := [one.id for one in ALL if words and words in _said(one)]) and not (is_name and near):
        return f"it is spoken of in {', '.join(speak[:3])}"
    return near or "`grpo-top explain` lists all, `grpo-top explain symptoms` says which fits what you see"


def _said(detector: type[Detector]) -> str:
    return " ".join(f"{detector.page.what} {detector.page.looks_like}".split()).lower()


def listing(detectors: Iterable[type[Detector]]) -> str:
    """Every detector in triage order, under the question of its stage; then the topics."""
    by_stage: dict[int, list[type[Detector]]] = {}
    for detector in detectors:
        by_stage.setdefault(detector.stage, []).append(detector)
    lines = []
    for stage, of_stage in sorted(by_stage.items()):
        name, question = STAGES[stage]
        lines.append(fill(f"{stage} {name}: {question}", WIDTH, subsequent_indent="  "))
        lines += [
            _in_list(f"{detector.id:<24} {detector.severity.word:<4}", _first_sentence(detector.page.what))
            for detector in of_stage
        ]
    lines.append("topics")
    lines += [_in_list(f"{topic.name:<29}", topic.what) for topic in TOPICS.values()]
    return "\n".join(lines) + "\n"


def _in_list(name: str, what: str) -> str:
    return fill(what, WIDTH, initial_indent=f"  {name} ", subsequent_indent=" " * 32)


def topic_page(topic: Topic, width: int = WIDTH) -> str:
    """A topic's page in lines of `width` cells."""
    lines = [topic.name, fill(topic.what, width)]
    for part in topic.parts:
        lines += ["", fill(part.heading, width, subsequent_indent="  ")]
        lines += [fill(line, width, initial_indent="  ", subsequent_indent="    ") for line in part.lines]
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
    "truncation_rate": "finish reason, or the share that is truncated",
    "verifier_error_rate": "verifier errors",
    "version_lag_max": "policy and trainer version, or lag",
    "zero_variance_group_frac": "rewards by group, or the zero-variance share",
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
    yield ""
    yield "Read next"
    yield from _links(detector, width)


def _links(detector: type[Detector], width: int) -> Iterator[str]:
    to = links(detector)
    near = BY_ID[to.read_next]
    why = ", which may be its cause" if near.id in to.causes else ""
    yield fill(
        f"`grpo-top explain {near.id}`{why}: {_first_sentence(near.page.what)}",
        width,
        initial_indent="  ",
        subsequent_indent="  ",
    )
    for label, ids in (
        ("may follow from", to.causes),
        ("may lead to", to.effects),
        ("related", to.related),
    ):
        if ids:
            yield fill(", ".join(ids), width, initial_indent=f"  {label:<16}", subsequent_indent=" " * 18)


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
