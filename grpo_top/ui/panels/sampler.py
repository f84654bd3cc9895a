"""Stage 4: do rollouts get sampled as the run record says?"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from grpo_top import numbers
from grpo_top.records import SAMPLING_ORDER
from grpo_top.snapshot import Status
from grpo_top.text import safe
from grpo_top.ui.panels.facts import EMPTY, Headline, PanelFacts, border, note
from grpo_top.ui.widgets.chart import ChartSpec, Limit

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from grpo_top.records import Sampling, SamplingValue
    from grpo_top.ui.view import View

    Ints = NDArray[np.int64]

KEY, STAGE, TITLE = "sampler", 4, "Sampler config"
DETECTORS = ("SAMPLER_DRIFT", "NONDETERMINISTIC_REPLAY")
_WORDS = {Status.UNKNOWN: "not judged", Status.OK: "as intended", Status.WATCH: "differs"}


class Setting(NamedTuple):
    """One row of the table."""

    name: str
    intended: str
    deployed: str
    since: str
    """First step of the deployed value, or `?`."""
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


@dataclass(frozen=True, slots=True, eq=False)
class Deployed:
    """The configs that rollouts were sampled with, one a group, in the order of steps."""

    steps: Ints
    ids: Ints
    """Id of the config, -1 where it is unknown."""
    configs: tuple[Sampling, ...]

    def series(self, name: str, reference: SamplingValue | None) -> tuple[Ints, list[SamplingValue | None]]:
        """The value at each step: one that differs from the reference where any group's does."""
        by_id = [config.get(name) for config in self.configs]
        wrong = np.array([value is not None and not same(value, reference) for value in by_id] + [False])
        steps, first = np.unique(self.steps, return_index=True)
        chosen = self.ids[first]
        differing = wrong[self.ids]
        chosen[np.searchsorted(steps, self.steps[differing])] = self.ids[differing]
        return steps, [by_id[id_] if id_ >= 0 else None for id_ in chosen.tolist()]


def same(value: SamplingValue | None, other: SamplingValue | None) -> bool:
    """Whether two settings are equal, as numbers where they are numbers; what is unknown differs from nothing."""
    if value is None or other is None:
        return True
    if isinstance(value, str) or isinstance(other, str):
        return value == other
    return abs(value - other) <= 1e-9 * max(abs(value), abs(other), 1.0)


def deployed(view: View) -> Deployed:
    """The deployed configs of every group up to the newest step."""
    groups, rollouts = view.snapshot.groups, view.snapshot.rollouts
    rows = groups.columns["first_row"]
    return Deployed(
        groups.columns["step"].astype(np.int64),
        rollouts.columns["sampling"][rows].astype(np.int64),
        tuple(rollouts.samplings),
    )


def facts(view: View) -> SamplerFacts:
    """Intended against deployed, setting by setting, and the series of what drifted."""
    told = note(view, DETECTORS)
    status = view.status("SAMPLER_DRIFT")
    intended: Sampling = view.snapshot.run.sampling or {}
    known = deployed(view)
    names = [name for name in SAMPLING_ORDER if name in intended or any(name in c for c in known.configs)]
    rows = [_setting(view, name, intended.get(name), known, status) for name in names]
    rows.sort(key=lambda row: -row.status if row.status >= Status.WATCH else 0)
    charted = next((row.name for row in rows if row.status >= Status.WATCH), rows[0].name if rows else "")
    drifted = [row for row in rows if row.status >= Status.WATCH]
    return SamplerFacts(
        KEY,
        STAGE,
        TITLE,
        Headline("", _WORDS.get(status, "DRIFT"), status),
        chart=_chart(view, charted, intended.get(charted), known),
        note=told,
        border=border(told),
        missing="" if names else "no sampling config in this log",
        settings=tuple(rows),
        charted=charted,
        hit=_hit(view, intended, drifted),
        samplers=_samplers(view),
        hashes=_hashes(view, known),
    )


def config_hash(sampling: Sampling) -> str:
    """Five hexadecimal digits that tell sampling configs apart."""
    text = json.dumps(sampling, sort_keys=True)
    return hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()[:5]


def _setting(
    view: View, name: str, intended: SamplingValue | None, known: Deployed, judged: Status
) -> Setting:
    steps, values = known.series(name, intended)
    at = int(np.searchsorted(steps, view.step or 0, side="right")) - 1
    value = values[at] if at >= 0 else None
    begin = at
    while begin > 0 and values[begin - 1] is not None and same(values[begin - 1], value):
        begin -= 1
    if value is None or intended is None:
        status = Status.UNKNOWN if intended is None and value is None else Status.OK
        status = Status.UNKNOWN if value is None else status
    else:
        status = Status.OK if same(value, intended) else max(judged, Status.WATCH)
    return Setting(
        name,
        safe(numbers.setting(intended)),
        safe(numbers.setting(value)),
        numbers.UNKNOWN if value is None else str(int(steps[begin])),
        status,
    )


def _chart(view: View, name: str, intended: SamplingValue | None, known: Deployed) -> ChartSpec | None:
    steps, values = known.series(name, intended)
    plain = [value if isinstance(value, int | float) else np.nan for value in values]
    if not len(steps) or not np.isfinite(plain).any():
        return None
    limit = Limit(float(intended), "off", "fail") if isinstance(intended, int | float) else None
    return replace(
        EMPTY,
        steps=steps,
        values=np.array(plain),
        limit=limit,
        onset=view.onset,
        cursor=view.cursor,
        total_steps=view.snapshot.run.total_steps,
        mean=False,
        labels=False,
    )


def _hit(view: View, intended: Sampling, drifted: list[Setting]) -> tuple[str, str]:
    """How many train rollouts are sampled otherwise since the first drift, else how many as intended."""
    rollouts, step = view.snapshot.rollouts, view.step
    if step is None or not rollouts.samplings or not intended:
        return "", ""
    since = min((int(row.since) for row in drifted), default=None)
    columns = rollouts.columns
    wanted = (columns["live"] == 1) & (columns["split"] != 1) & (columns["step"] <= step)
    if since is not None:
        wanted &= columns["step"] >= since
    ids = columns["sampling"][wanted]
    ids = ids[ids >= 0]
    right = np.array(
        [all(same(config.get(k), v) for k, v in intended.items()) for config in rollouts.samplings]
    )
    as_intended = int(np.count_nonzero(right[ids]))
    if since is None:
        return numbers.part_of(as_intended, len(ids)), "rollouts as intended"
    return numbers.part_of(len(ids) - as_intended, len(ids)), f"rollouts since step {since} differ"


def _samplers(view: View) -> str:
    batch = None if view.step is None else view.snapshot.batch(view.step)
    if batch is None:
        return ""
    found = np.unique(batch.column("sampler")).tolist()
    names = [safe(batch.names("sampler")[number]) for number in found if number >= 0]
    if not names:
        return "1 sampler, unnamed"
    return f"{len(names)} sampler{'s' if len(names) > 1 else ''}: {', '.join(names)}"


def _hashes(view: View, known: Deployed) -> tuple[str, ...]:
    step = view.step
    ids = known.ids[known.steps <= step] if step is not None else known.ids[:0]
    ids = ids[ids >= 0]
    if not len(ids):
        return ()
    now = int(ids[-1])
    earlier = ids[ids != now]
    before = [] if not len(earlier) else [int(earlier[-1])]
    return tuple(config_hash(known.configs[id_]) for id_ in (*before, now))
