"""What is said of the findings as a whole, in words: consequences, what cannot be judged, what is not logged."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grpo_top.snapshot import Status

if TYPE_CHECKING:
    from grpo_top.snapshot import Finding
    from grpo_top.ui.view import View

_WORDS = {
    "logp_abs_diff": "logprobs",
    "mismatch_kl": "logprobs",
    "is_ratio_mean": "logprobs",
    "effective_sample_size": "logprobs",
    "seed": "seeds",
    "seeds": "seeds",
    "hand_scores": "hand scores",
    "heldout": "held-out evaluations",
    "sampling": "sampling config",
    "termination": "endings",
    "grad_norm": "grad norm",
    "clip_frac": "clip fraction",
    "policy_version": "policy versions",
    "version_lag_max": "policy versions",
    "version_lag_mean": "policy versions",
}
"""How a series is called in a sentence, where its own name is not a word."""


def consequences(view: View, first: Finding) -> list[Finding]:
    """The findings that stand and that the first cause explains, in triage order."""
    return [f for f in view.findings() if f.caused_by == first.id and view.is_active(f)]


def unjudged(view: View) -> dict[str, str]:
    """Checks that cannot be judged for want of a field → the field, as a word."""
    found = {}
    for id_, series in view.snapshot.unknown:
        name = next((each for each in series if view.lacks(each)), None)
        if name is not None and view.status(id_) is Status.UNKNOWN:
            base = name.partition("{")[0]
            found[id_] = _WORDS.get(base, base.replace("_", " "))
    return found


def unjudged_words(view: View) -> str:
    """`3 cannot be judged: no logprobs, seeds or hand scores in this log.`"""
    lacking = unjudged(view)
    unknown = [id_ for id_ in view.snapshot.tracks if view.status(id_) is Status.UNKNOWN]
    early = sum(id_ not in lacking for id_ in unknown)
    parts = []
    if lacking:
        parts.append(
            f"{len(lacking)} cannot be judged: no {_listed(list(dict.fromkeys(lacking.values())))} in this log."
        )
    if early:
        parts.append(f"{early} need{'s' if early == 1 else ''} more steps.")
    return " ".join(parts)


def missing_fields(view: View) -> list[str]:
    """The fields of the ten things to log that this log has not."""
    ending = ": not logged"
    return [
        part.removesuffix(ending)
        for item in view.snapshot.coverage
        for part in item.origin.split(", ")
        if part.endswith(ending)
    ]


def coverage_words(view: View) -> str:
    """`Coverage 9 of 10: tier is not logged`."""
    items = view.snapshot.coverage
    logged = sum(item.status != "missing" for item in items)
    missing = missing_fields(view)
    said = f"Coverage {logged} of {len(items)}"
    if not missing:
        return said
    return f"{said}: {_listed(missing, 'and')} {'is' if len(missing) == 1 else 'are'} not logged"


def _listed(words: list[str], last: str = "or", most: int = 5) -> str:
    """Words as a list in a sentence; a long one ends in how many more there are."""
    if len(words) > most:
        return f"{', '.join(words[: most - 1])} {last} {len(words) - most + 1} more"
    return f" {last} ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)
