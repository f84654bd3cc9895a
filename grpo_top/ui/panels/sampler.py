"""Stage 4: do rollouts get sampled as the run record says?"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from grpo_top import numbers
from grpo_top.detectors.sampler import FEW_BUDGETS
from grpo_top.encode import SPLIT_EVAL
from grpo_top.records import SAMPLING_ORDER
from grpo_top.snapshot import Status
from grpo_top.text import safe
from grpo_top.ui.panels.facts import EMPTY, Headline, PanelFacts, border, note, seen
from grpo_top.ui.widgets.chart import ChartSpec, Limit

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from grpo_top.records import Sampling, SamplingValue
    from grpo_top.snapshot import SamplerFacts as Asked
    from grpo_top.ui.view import View

    Ints = NDArray[np.int64]

KEY, STAGE, TITLE = "sampler", 4, "Sampler config"
DETECTORS = ("SAMPLER_DRIFT", "NONDETERMINISTIC_REPLAY")
NAMED = 4
"""Samplers that are named in one line at most."""
_DENSE = 4
"""Cells a rollout up to which combinations are counted in one array instead of being sorted."""
_WORDS = {
    Status.UNKNOWN: "not judged",
    Status.OK: "as intended",
    Status.WATCH: "differs",
    Status.INFO: "differs",
}


class Setting(NamedTuple):
    """One row of the table."""

    name: str
    intended: str
    deployed: str
    since: str
    """First step of the deployed value, `≤60` where it was so when the server was first asked, or `?`."""
    status: Status
    """OK as intended, unknown where one side is; else how the drift is judged."""


@dataclass(frozen=True, slots=True, eq=False)
class SamplerFacts(PanelFacts):
    """The table of settings, and what it means for the rollouts."""

    settings: tuple[Setting, ...] = ()
    """What drifted on top."""
    charted: str = ""
    """The setting whose series the chart shows."""
    hit: tuple[str, str] = ("", "")
    """How many rollouts, and what is the matter with them."""
    samplers: str = ""
    hashes: tuple[str, ...] = ()
    """Hash of the deployed config, after that of the one before it where it changed."""


@dataclass(frozen=True, eq=False)
class Deployed:
    """The configs that rollouts were sampled with: one element a step and config, the most frequent of a step first."""

    steps: Ints
    ids: Ints
    """Id of the config, -1 where it is unknown."""
    configs: tuple[Sampling, ...]
    rollouts: Ints | None = None
    """How many rollouts each is of."""

    def first(self, name: str) -> SamplingValue | None:
        """The value that was deployed first: what a setting is compared with that the run record leaves out."""
        by_id = self._values(name)
        known = np.array([value is not None for value in by_id])[self.ids]
        return by_id[self.ids[known.argmax()]] if known.any() else None

    def series(self, name: str, reference: SamplingValue | None) -> tuple[Ints, list[SamplingValue | None]]:
        """The value at each step: one that differs from the reference where any rollout's does.

        Many `max_tokens` on one step are budgets of requests, as the detector has it: the largest stands for them.
        """
        by_id = self._values(name)
        return self._by_step[0], [by_id[id_] for id_ in self._chosen(name, reference).tolist()]

    def numbers(self, name: str, reference: SamplingValue | None) -> tuple[Ints, NDArray[np.float64]]:
        """The same as numbers: NaN where it is none."""
        plain = [value if isinstance(value, int | float) else np.nan for value in self._values(name)]
        return self._by_step[0], np.array(plain, float)[self._chosen(name, reference)]

    def held(
        self, name: str, reference: SamplingValue | None, step: int
    ) -> tuple[SamplingValue | None, int | None]:
        """The value at a step, or at the last one before it, and since which step it stands; None where unknown."""
        steps = self._by_step[0]
        at = int(np.searchsorted(steps, step, side="right")) - 1
        if at < 0:
            return None, None
        by_id, chosen = self._values(name), self._chosen(name, reference)[: at + 1]
        value = by_id[chosen[at]]
        other = np.array([known is None or not same(known, value) for known in by_id])[chosen[:at]]
        since = int(np.flatnonzero(other)[-1]) + 1 if other.any() else 0
        return value, None if value is None else int(steps[since])

    def _values(self, name: str) -> list[SamplingValue | None]:
        """The setting in each config, and None for the unknown one: what an id points at."""
        return [*(config.get(name) for config in self.configs), None]

    def _chosen(self, name: str, reference: SamplingValue | None) -> Ints:
        """The config that stands for each step."""
        by_id = self._values(name)
        wrong = np.array([value is not None and not same(value, reference) for value in by_id])
        steps, first, configs = self._by_step
        chosen = self.ids[first]
        differing = wrong[self.ids]
        chosen[np.searchsorted(steps, self.steps[differing])] = self.ids[differing]
        if name == "max_tokens":
            budgets = np.array([value if isinstance(value, int | float) else -1 for value in by_id])
            for place in np.flatnonzero(configs > FEW_BUDGETS).tolist():
                of = self.ids[first[place] : first[place] + configs[place]]
                if len(np.unique(budgets[of])) > FEW_BUDGETS:
                    chosen[place] = of[budgets[of].argmax()]
        return chosen

    @cached_property
    def _by_step(self) -> tuple[Ints, Ints, Ints]:
        """Each step once, where its configs begin, and how many they are."""
        steps, first, configs = np.unique(self.steps, return_index=True, return_counts=True)
        return steps, first, configs


def same(value: SamplingValue | None, other: SamplingValue | None) -> bool:
    """Whether two settings are equal, as numbers where they are numbers; what is unknown differs from nothing."""
    if value is None or other is None:
        return True
    if isinstance(value, str) or isinstance(other, str):
        return value == other
    return abs(value - other) <= 1e-9 * max(abs(value), abs(other), 1.0)


def is_right(name: str, default: SamplingValue, wanted: SamplingValue | None) -> bool:
    """Whether a server's default is as wanted; its max_tokens is a cap, and a larger one changes nothing."""
    if name == "max_tokens" and isinstance(default, int | float) and isinstance(wanted, int | float):
        return default >= wanted
    return same(default, wanted)


def deployed(view: View) -> Deployed:
    """The deployed configs of every step up to the newest; held-out rollouts do not count."""
    rollouts, newest = view.snapshot.rollouts, view.snapshot.judged_step
    columns, configs = rollouts.columns, tuple(rollouts.samplings)
    steps, ids = columns["step"], columns["sampling"]
    unwanted = _where(columns["live"], lambda live: live != 1)
    unwanted = unwanted | _where(columns["split"], lambda split: split == SPLIT_EVAL)
    if unwanted.any():
        wanted = np.broadcast_to(~unwanted, steps.shape)
        steps, ids = steps[wanted], ids[wanted]
    steps, ids, lengths = _alike(steps, ids)
    if newest is not None and (steps > newest).any():
        judged = steps <= newest
        steps, ids, lengths = steps[judged], ids[judged], lengths[judged]
    if not len(steps):
        return Deployed(np.empty(0, np.int64), np.empty(0, np.int64), configs, np.empty(0, np.int64))
    first, last = int(steps.min()), int(steps.max())
    keys = (steps - np.int64(first)) * (len(configs) + 1) + ids + 1
    found, counts = counted(keys, (last - first + 1) * (len(configs) + 1), lengths)
    at, ids = found // (len(configs) + 1) + first, found % (len(configs) + 1) - 1
    order = np.lexsort((-counts, at))
    return Deployed(at[order], ids[order], configs, counts[order])


def _alike(steps: NDArray[Any], ids: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any], Ints]:
    """Rows that are alike and follow each other as one, and how many they are: some for each step of a long run."""
    differ = steps[1:] != steps[:-1]
    if ids.strides[0]:  # else it is one config for all
        differ |= ids[1:] != ids[:-1]
    starts = np.concatenate((np.zeros(min(len(steps), 1), np.int64), np.flatnonzero(differ) + 1))
    return steps[starts], ids[starts], np.diff(starts, append=len(steps))


def _where(column: NDArray[Any], is_so: Callable[[NDArray[Any]], NDArray[np.bool_]]) -> NDArray[np.bool_]:
    """Where a column is so; one element that stands for all where the column is of one value."""
    return is_so(column if column.strides[0] else column[:1])


def counted(keys: Ints, cells: int, times: Ints | None = None) -> tuple[Ints, Ints]:
    """The different keys, ascending, and how often each comes: once where it stands, or so many `times`.

    Keys are below `cells`: where that is few, unsorted.
    """
    if cells > _DENSE * len(keys):
        found, of = np.unique(keys, return_inverse=True)
        return found, np.bincount(of, times).astype(np.int64)
    every = np.bincount(keys, times)
    found = np.flatnonzero(every)
    return found, every[found].astype(np.int64)


def facts(view: View) -> SamplerFacts:
    """Intended against deployed, setting by setting, and the series of what drifted."""
    told = note(view, DETECTORS)
    status = view.status("SAMPLER_DRIFT")
    intended: Sampling = view.snapshot.run.sampling or {}
    known = deployed(view)
    carried = {name for config in known.configs for name in config}
    asked = {name for sampler in view.snapshot.samplers for name in _default(sampler, view.step)[0] or {}}
    names = [name for name in SAMPLING_ORDER if name in carried or (name in intended and name not in asked)]
    rows = [_setting(view, name, intended.get(name), known, status) for name in names]
    rows += _asked_settings(view, intended, set(names), status)
    rows.sort(key=lambda row: SAMPLING_ORDER.index(row.name))
    rows.sort(key=lambda row: -row.status if row.status >= Status.WATCH else 0)
    charted = next((row.name for row in rows if row.status >= Status.WATCH), rows[0].name if rows else "")
    drifted = [row for row in rows if row.status >= Status.WATCH]
    status = max(status, Status.WATCH) if drifted else status
    return SamplerFacts(
        KEY,
        STAGE,
        TITLE,
        Headline("", _WORDS.get(status, "DRIFT"), status),
        chart=_chart(view, charted, intended.get(charted), known),
        note=told,
        border=border(told),
        missing="" if rows else _missing(view),
        settings=tuple(rows),
        charted=charted,
        hit=_hit(view, intended, [row for row in drifted if row.name in carried], known),
        samplers=_samplers(view, intended),
        hashes=_hashes(view, known),
    )


def config_hash(sampling: Sampling) -> str:
    """Five hexadecimal digits that tell sampling configs apart; 1 and 1.0 are one value."""
    plain = {name: value if isinstance(value, str) else float(value) for name, value in sampling.items()}
    text = json.dumps(plain, sort_keys=True)
    return hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()[:5]


def _setting(
    view: View, name: str, intended: SamplingValue | None, known: Deployed, judged: Status
) -> Setting:
    wanted = known.first(name) if intended is None else intended
    value, since = known.held(name, wanted, view.step or 0)
    status = Status.OK if same(value, wanted) else max(judged, Status.WATCH)
    return Setting(
        name,
        safe(numbers.setting(intended)),
        safe(numbers.setting(value)),
        numbers.UNKNOWN if since is None else str(since),
        Status.UNKNOWN if value is None else status,
    )


def _chart(view: View, name: str, intended: SamplingValue | None, known: Deployed) -> ChartSpec | None:
    steps, values = known.numbers(name, intended)
    if not np.isfinite(values).any():
        return None
    limit = Limit(float(intended), "off", "fail") if isinstance(intended, int | float) else None
    drawn = replace(EMPTY, steps=steps, values=values, limit=limit, mean=False, labels=False)
    return seen(view, drawn)


def _hit(view: View, intended: Sampling, drifted: list[Setting], known: Deployed) -> tuple[str, str]:
    """How many train rollouts are sampled otherwise since the first drift, else how many as intended."""
    if view.step is None or known.rollouts is None or not known.configs or not intended:
        return "", ""
    since = min((int(row.since) for row in drifted), default=None)
    wanted = (known.ids >= 0) & (known.steps <= view.step)
    if since is not None:
        wanted &= known.steps >= since
    right = np.array([all(same(config.get(k), v) for k, v in intended.items()) for config in known.configs])
    as_intended = int(known.rollouts[wanted & right[known.ids]].sum())
    total = int(known.rollouts[wanted].sum())
    if since is None:
        return numbers.part_of(as_intended, total), "rollouts as intended"
    return numbers.part_of(total - as_intended, total), f"rollouts since step {since} differ"


def _samplers(view: View, intended: Sampling) -> str:
    """How many samplers there are, and which: those whose answers differ from what is intended, else all."""
    asked = view.snapshot.samplers
    if asked:
        differ = [
            sampler.name
            for sampler in asked
            if any(
                not is_right(name, value, intended.get(name))
                for name, value in (_default(sampler, view.step)[0] or {}).items()
            )
        ]
        if differ:
            verb = "differs" if len(differ) == 1 else "differ"
            return f"{len(differ):,} of {len(asked):,} servers asked {verb}{_named(differ)}"
        told = f"{_counted(len(asked), 'server')} asked"
        if not any(_default(sampler, view.step)[0] for sampler in asked):
            gated = next((line for sampler in asked for line in sampler.unknown), "")
            return f"{told}: {safe(gated)}" if gated else told
        return told + _named([sampler.name for sampler in asked])
    batch = None if view.step is None else view.snapshot.batch(view.step)
    if batch is None:
        return ""
    found = np.unique(batch.column("sampler")).tolist()
    names = [batch.names("sampler")[number] for number in found if number >= 0]
    return f"{_counted(len(names), 'sampler')}{_named(names)}" if names else "1 sampler, unnamed"


def _counted(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def _named(names: list[str]) -> str:
    """Names after a colon; the first ones alone where they are many."""
    more = [f"{len(names) - NAMED:,} more"] if len(names) > NAMED else []
    return f": {', '.join([*map(safe, map(shown_name, names[:NAMED])), *more])}"


def _asked_settings(view: View, intended: Sampling, carried: set[str], judged: Status) -> list[Setting]:
    """What the servers that are asked would sample with, for settings that rollouts do not carry.

    Where they disagree, a value that differs from what is intended is shown: the one of most of them.
    """
    found: dict[str, dict[SamplingValue, list[str]]] = {}
    for sampler in view.snapshot.samplers:
        sampling, since = _default(sampler, view.step)
        for name, value in (sampling or {}).items():
            if name in SAMPLING_ORDER and name not in carried:
                found.setdefault(name, {}).setdefault(value, []).append(since)
    rows = []
    for name, values in found.items():
        wanted = intended.get(name)
        value = max(values, key=lambda value: (not is_right(name, value, wanted), len(values[value])))
        right = is_right(name, value, wanted) and (wanted is not None or len(values) == 1)
        since = min(values[value], key=lambda text: (len(text), text))
        status = Status.OK if right else max(judged, Status.WATCH)
        rows.append(
            Setting(
                name,
                safe(numbers.setting(wanted)),
                safe(numbers.setting(value)),
                since or numbers.UNKNOWN,
                status,
            )
        )
    return rows


def _default(sampler: Asked, step: int | None) -> tuple[Sampling | None, str]:
    """What a server resolved at a step where a request leaves everything out, and since when."""
    changes = [change for change in sampler.changes if step is None or change.step <= step]
    if not changes:
        return (None if sampler.changes else sampler.sampling), ""
    newest = changes[-1]
    begun = next(
        (place for place in range(len(changes), 0, -1) if changes[place - 1].sampling != newest.sampling), 0
    )
    since = changes[begun].step
    return newest.sampling, f"≤{since}" if begun == 0 else str(since)


def _missing(view: View) -> str:
    """Why there is nothing to show."""
    asked = view.snapshot.samplers
    if not asked:
        return "no sampling config in this log"
    gated = next((line for sampler in asked for line in sampler.unknown), "")
    return safe(gated) or f"{_counted(len(asked), 'server')} asked, no answer says how it samples"


def shown_name(name: str) -> str:
    """A server's address without what all have in common; any other name as it is."""
    return name.removeprefix("http://").removeprefix("https://").rstrip("/").removesuffix("/v1")


def _hashes(view: View, known: Deployed) -> tuple[str, ...]:
    step = view.step
    if step is None:
        return ()
    up_to = (known.ids >= 0) & (known.steps <= step)
    steps, first = np.unique(known.steps[up_to], return_index=True)
    ids = known.ids[up_to][first]
    if not len(steps):
        return ()
    now = int(ids[-1])
    earlier = ids[ids != now]
    before = [] if not len(earlier) else [int(earlier[-1])]
    return tuple(config_hash(known.configs[id_]) for id_ in (*before, now))
