"""From a ledger to the Snapshot that is handed over."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from functools import lru_cache
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from grpo_top import triage
from grpo_top.hints import known_framework
from grpo_top.lapsed import LapsedTracks, lapses
from grpo_top.snapshot import WINDOW, Groups, RolloutRef, RunFacts, Series, Snapshot, Status

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from grpo_top.detectors.base import Detector
    from grpo_top.grades import HandScore
    from grpo_top.ledger import Ledger
    from grpo_top.records import Rollout
    from grpo_top.scan import Literal, Looked
    from grpo_top.snapshot import DetectorTrack, Gone, SourceFacts
    from grpo_top.table import SeriesView

_COLUMNS_SEEN = {
    "family": "family",
    "tier": "tier",
    "verifier": "verifier_known",
    "advantage": "advantage",
    "env_version": "env_version",
    "reward_version": "reward_version",
    "sampling": "sampling",
}
"""What coverage calls a column → the column of the history."""


class AllSeries(Mapping[str, Series]):
    """The step table's series, made when asked for, with the evaluations' beside them."""

    def __init__(self, table: SeriesView, evals: Mapping[str, Series]) -> None:
        self._table = table
        self._evals = evals

    def __getitem__(self, name: str) -> Series:
        return self._evals[name] if name in self._evals else self._table[name]

    def origins(self, bases: Collection[str]) -> dict[str, str]:
        """The `Series.origin` of some series by their names without the `{…}` part, without making the series."""
        found = {
            base: self._table.origin(parts[-1]) for base, parts in self._table.parts.items() if base in bases
        }
        for name, series in self._evals.items():
            base = name.partition("{")[0]
            if base in bases:
                found[base] = series.origin
        return found

    def __contains__(self, name: object) -> bool:
        return name in self._evals or name in self._table

    def __iter__(self) -> Iterator[str]:
        return chain(self._table, self._evals)

    def __len__(self) -> int:
        return len(self._table) + len(self._evals)


def picture(
    ledger: Ledger,
    *,
    now: float,
    finished: bool,
    reading: float | None,
    sources: tuple[SourceFacts, ...],
    left_out: tuple[str, ...],
    read: Callable[[int], Rollout | Gone],
    scan: Callable[[NDArray[np.int64], Sequence[Literal]], Iterator[Looked]] | None = None,
    grade: Callable[[int, HandScore], str] = lambda _row, _score: "there is nobody to keep it",
    raw: Callable[[int], bytes | None] = lambda _row: None,
) -> Snapshot:
    """The run's picture as the ledger stands."""
    judge = ledger.judge
    view = ledger.history.view(ledger.bound.too_late)
    table = ledger.table.view()
    series = AllSeries(table, {**ledger.eval_series(), **ledger.hand_scoring.series})
    where = [source.where for source in sources]
    found = judge.findings(lambda rows: _references(ledger, rows, where))
    findings, first = triage.explain(found, judge.state.first_step)
    every = judge.tracks()
    tracks: Mapping[str, DetectorTrack] = every
    needs: Mapping[str, tuple[str, ...]] = every.needs
    statuses = judge.standing
    if lapsed := lapses(judge.detectors, table, len(judge.steps.view())):
        tracks = LapsedTracks(tracks, lapsed)
        needs = {**needs, **{id_: (*needs[id_], *lapse.names) for id_, lapse in lapsed.items()}}
        statuses = bytes(
            Status.UNKNOWN if status == Status.OK and detector.id in lapsed else status
            for detector, status in zip(judge.detectors, statuses, strict=True)
        )
    standing = _standing(judge.detectors, statuses)
    return Snapshot(
        version=ledger.version,
        time=now,
        last_record_time=ledger.last_record_time,
        finished=finished or ledger.finished,
        reading=reading,
        run=_run_facts(ledger, series),
        sources=sources,
        left_out=left_out,
        series=series,
        triage=triage.stages(standing.checks, findings),
        first_cause=first,
        findings=findings,
        watches=standing.watches,
        unknown=tuple((id_, needs[id_]) for id_ in standing.unknown if needs[id_]),
        tracks=tracks,
        coverage=triage.coverage(
            series.origins(triage.ASKED),
            _columns_seen(ledger),
            needs,
            known_framework(ledger.run.framework, [source.format for source in sources]),
        ),
        skipped=tuple(ledger.unreadable.first),
        skipped_count=ledger.unreadable.count,
        rollouts=view,
        groups=Groups(
            judge.groups["step"].length - judge.first_group,
            {name: column.view()[judge.first_group :] for name, column in judge.groups.items()},
        ),
        judged_step=judge.state.step,
        prompts=ledger.history.prompts,
        batch=ledger.batch,
        eval_batch=ledger.eval_batch,
        read=read,
        scan=scan,
        keys=dict(ledger.metrics.keys),
        own=ledger.metrics.own.view(),
        graded=ledger.hand_scoring.graded,
        grade=grade,
        raw=raw,
        samplers=ledger.samplers.facts(),
        fleet=ledger.fleet.facts(),
        defects=tuple(judge.defects.values()),
    )


class _Standing(NamedTuple):
    """How the detectors stand."""

    checks: tuple[triage.Check, ...]
    watches: tuple[str, ...]
    """Ids of those that watch; likewise below."""
    unknown: tuple[str, ...]


@lru_cache(maxsize=8)
def _standing(detectors: tuple[Detector, ...], statuses: bytes) -> _Standing:
    """Kept, since from one picture to the next it hardly ever changes."""
    checks = tuple(
        triage.Check(detector.id, detector.stage, Status(status), detector.expected, detector.in_logs)
        for detector, status in zip(detectors, statuses, strict=True)
    )
    watches, unknown = (
        tuple(check.id for check in checks if check.status == status)
        for status in (Status.WATCH, Status.UNKNOWN)
    )
    return _Standing(checks, watches, unknown)


def _run_facts(ledger: Ledger, series: Mapping[str, Series]) -> RunFacts:
    run, state, history = ledger.run, ledger.judge.state, ledger.history
    steps = ledger.table.steps
    sizes = ledger.judge.groups["size"].view()[-64:]
    latest = ledger.judge.groups["step"].view()
    return RunFacts(
        name=run.name or "",
        framework=run.framework,
        algorithm=run.algorithm,
        first_step=int(steps[0]) if len(steps) else None,
        last_step=int(steps[-1]) if len(steps) else None,
        steps=len(steps),
        rollouts=int(np.nansum(series["rollouts"].values)) if "rollouts" in series else 0,
        groups=len(latest),
        evals=ledger.evals.count(),
        group_size=run.group_size or (int(np.bincount(sizes).argmax()) if len(sizes) else None),
        groups_per_step=len(latest) - int(np.searchsorted(latest, latest[-1])) if len(latest) else None,
        total_steps=run.total_steps,
        step_seconds=_recent_median(series, "step_time"),
        sampling=run.sampling,
        version_lag_tolerance=run.version_lag_tolerance,
        reward_range=state.scale.range(run),
        reward_range_declared=run.reward_range is not None,
        success=run.success,
        success_rule=state.scale.rule(run),
        reward_rule=state.scale.reward_rule(run),
        env_version=run.env_version,
        reward_version=run.reward_version,
        config=run.config,
        recording=run.recording,
        components=tuple(history.components),
        families=tuple(history.names["family"].names),
    )


def _recent_median(series: Mapping[str, Series], name: str) -> float | None:
    if name not in series:
        return None
    values = series[name].values
    known = [value for value in values[-2 * WINDOW :].tolist() if math.isfinite(value)]
    if len(known) < WINDOW:
        known = values[np.isfinite(values)].tolist()
    ordered = sorted(known[-WINDOW:])
    half = len(ordered) // 2
    return (ordered[half] + ordered[~half]) / 2 if ordered else None


def _references(ledger: Ledger, rows: Sequence[int], where: list[str]) -> tuple[RolloutRef, ...]:
    if not rows:
        return ()
    rows = [row for row in rows if row >= ledger.history.first]
    columns, wanted = ledger.history.columns, list(rows)
    names = ("step", "group", "source", "index")
    steps, groups, sources, indices = (columns[name].view()[wanted].tolist() for name in names)
    labels = {step: ledger.history.group_labels(step) for step in set(steps)}
    return tuple(
        RolloutRef(
            where=where[source] if source < len(where) else "",
            step=step,
            group=labels[step][group] if group < len(labels[step]) else str(group),
            index=index,
            row=row,
        )
        for step, group, source, index, row in zip(steps, groups, sources, indices, rows, strict=True)
    )


def _columns_seen(ledger: Ledger) -> dict[str, str]:
    found = {}
    for name, column in _COLUMNS_SEEN.items() if ledger.history.length else ():
        values = ledger.history.columns[column].view()[ledger.history.first :]
        # The end and the beginning tell: a field that a source carries is on nearly every record.
        values = np.concatenate([values[:2000], values[-2000:]])
        seen = (
            np.isfinite(values).any()
            if values.dtype.kind == "f"
            else (values > (0 if column == "verifier_known" else -1)).any()
        )
        if seen:
            found[name] = "log"
    if "sampling" not in found and any(sampler.sampling for sampler in ledger.samplers.facts()):
        found["sampling"] = triage.FROM_SAMPLERS
    for name in ("env_version", "reward_version"):
        if getattr(ledger.run, name) is not None:
            found[name] = "log"
    return found
