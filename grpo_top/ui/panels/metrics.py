"""The run's metrics as rows, for windows that have no room for panels: one line a metric, in triage order."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from grpo_top import numbers
from grpo_top.snapshot import WINDOW, Status
from grpo_top.text import safe
from grpo_top.ui.panels import lag, length, reward, sampler, variance
from grpo_top.ui.panels.facts import FLAT, told_apart, worst

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from grpo_top.ui.view import View


@dataclass(frozen=True, slots=True, eq=False)
class MetricRow:
    """One row's facts."""

    key: str
    stage: int
    name: str
    panel: str | None
    """The panel that it opens; None for the log's own."""
    status: Status
    value: str
    change: str
    steps: NDArray[np.int64]
    values: NDArray[np.float64]
    """Up to the view's step; empty where it is not logged."""
    limit: float | None = None
    limit_text: str = ""
    above: bool = True
    """Whether past the limit is above it."""
    share: bool = False
    points: bool = False
    """Held-out evaluations: single points and no mean."""
    rank: int = 0
    """0 is shown in 24 rows; the higher, the more rows it takes until it is seen."""
    behind: str = ""
    """The reference's value of the same steps; empty without one."""
    parted: int | None = None
    """The step at which the reference parts, once the view is there."""

    @property
    def logged(self) -> bool:
        """Whether there is anything to show."""
        return len(self.steps) > 0


class _Metric(NamedTuple):
    """A row that follows from one series."""

    stage: int
    name: str
    series: str
    kind: str
    panel: str | None
    detectors: tuple[str, ...] = ()
    limited_by: str = ""
    above: bool = True
    rank: int = 0


_WRITE = {"share": numbers.share, "value": numbers.value, "count": numbers.count, "seconds": numbers.pace}


_NOT_LOGGED = 2
"""Rows of what is not logged that are shown beside others of their rank."""


def metric_rows(view: View) -> list[MetricRow]:
    """Every row in triage order."""
    rows: list[MetricRow] = []
    for row in _ROWS:
        rows += [_row(view, row)] if isinstance(row, _Metric) else row(view)
    return rows


def chosen(rows: list[MetricRow], room: int) -> list[MetricRow]:
    """As many rows as there is room for: what is wrong, then by rank; in triage order all the same.

    Beyond the first `_NOT_LOGGED`, rows of what is not logged come after all that is.
    """
    absent = [at for at, row in enumerate(rows) if not row.logged and row.status <= Status.INFO]
    late = set(absent[_NOT_LOGGED:])
    order = sorted(
        range(len(rows)),
        key=lambda at: (-max(rows[at].status, Status.INFO), at in late, rows[at].rank, at),
    )
    kept = set(order[: max(room, 0)])
    return [row for at, row in enumerate(rows) if at in kept]


def _row(view: View, metric: _Metric) -> MetricRow:
    limit = view.limit(metric.limited_by) if metric.limited_by else None
    share = metric.kind == "share"
    text = "" if limit is None else f"{limit * 100:g}%" if share else f"{limit:g}"
    return _of(
        view,
        metric.series,
        key=metric.name,
        stage=metric.stage,
        name=metric.name,
        panel=metric.panel,
        status=worst(view, metric.detectors) if metric.detectors else Status.OK,
        write=metric.kind,
        limit=limit,
        limit_text=text if metric.above or not text else f"≥{text}",
        above=metric.above,
        rank=metric.rank,
    )


def _of(
    view: View,
    series: str | None,
    *,
    key: str,
    stage: int,
    name: str,
    panel: str | None,
    status: Status,
    write: str,
    limit: float | None = None,
    limit_text: str = "",
    above: bool = True,
    rank: int = 0,
) -> MetricRow:
    steps, values = _known(view, series)
    mean = None if series is None else view.mean(series)
    change = None if series is None else view.change(series)
    share = write == "share"
    behind, parted = ("", None) if series is None else _behind(view, series, write)
    return MetricRow(
        key,
        stage,
        name,
        panel,
        status,
        _WRITE[write](mean) if len(steps) else "–",
        "" if change is None else numbers.change(change, share, None if share else 2),
        steps,
        values,
        limit,
        limit_text,
        above,
        share,
        rank=rank,
        behind=behind,
        parted=parted,
    )


def _behind(view: View, name: str, write: str) -> tuple[str, int | None]:
    """The reference's mean of the last 20 steps up to the view's, and where the two part."""
    reference, step = view.snapshot.reference, view.step
    series = None if reference is None else reference.series.get(name)
    if reference is None or series is None or step is None:
        return "", None
    upto = series.values[series.steps <= step]
    late = upto[np.isfinite(upto)][-WINDOW:]
    parted = reference.parting(name)
    value = _WRITE[write](float(late.mean()) if len(late) else None)
    return value, None if parted is None or parted.step > step else parted.step


def _known(view: View, name: str | None) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """A series up to the view's step; empty where it has no value."""
    series = None if name is None else view.series(name)
    if series is None or view.step is None or name is None or view.lacks(name):
        return np.empty(0, np.int64), np.empty(0)
    upto = series.steps <= view.step
    return series.steps[upto], series.values[upto]


def _components(view: View) -> list[MetricRow]:
    return [
        _of(
            view,
            f"component_mean{{{name}}}",
            key=f"component {name}",
            stage=2,
            name=safe(shown),
            panel="reward",
            status=Status.OK,
            write="value",
            rank=1,
        )
        for name, shown in told_apart(view.snapshot.run.components, 16).items()
    ]


def _flat_component(view: View) -> list[MetricRow]:
    """The component that most groups agree on, and how many do."""
    name = variance.flattest_component(view)
    series = None if name is None else f"component_zero_variance{{{name}}}"
    limit = view.limit("UNIFORM_COMPONENT")
    row = _of(
        view,
        series,
        key="flat component",
        stage=3,
        name="flat component",
        panel="variance",
        status=view.status("UNIFORM_COMPONENT"),
        write="share",
        limit=limit,
        limit_text="" if limit is None else f"{limit * 100:g}%",
        rank=0 if name is not None else 3,
    )
    return [replace(row, value=row.value if name is None else safe(name), change="")]


def _setting(view: View) -> list[MetricRow]:
    """The sampling setting that drifted, else the first one."""
    facts = sampler.facts(view)
    if not facts.settings or facts.chart is None:
        return [
            MetricRow(
                "setting",
                4,
                "sampler config",
                "sampler",
                view.status("SAMPLER_DRIFT"),
                "–",
                "",
                _NO_STEPS,
                _NO_VALUES,
            )
        ]
    first = next(row for row in facts.settings if row.name == facts.charted)
    upto = facts.chart.steps <= (view.step or 0)
    intended = None if facts.chart.limit is None else facts.chart.limit.value
    values = facts.chart.values[upto]
    known = values[np.isfinite(values)]
    return [
        MetricRow(
            "setting",
            4,
            first.name,
            "sampler",
            max(first.status, view.status("SAMPLER_DRIFT")),
            first.deployed,
            "",
            facts.chart.steps[upto],
            values,
            intended,
            first.intended,
            above=intended is None or not len(known) or bool(known[-1] > intended + FLAT),
        )
    ]


def _length(view: View) -> list[MetricRow]:
    budget = length.budget(view)
    return [
        _of(
            view,
            "completion_tokens_mean" if view.lacks("completion_tokens_p95") else "completion_tokens_p95",
            key="length p95",
            stage=5,
            name="length" if view.lacks("completion_tokens_p95") else "length p95",
            panel="length",
            status=worst(view, ("LENGTH_HACKING", "LENGTH_COLLAPSE")),
            write="count",
            limit=budget,
            limit_text="" if budget is None else numbers.count(budget),
        )
    ]


def _lag(view: View) -> list[MetricRow]:
    tolerance = lag.tolerance(view)
    return [
        _of(
            view,
            "version_lag_mean" if view.lacks("version_lag_max") else "version_lag_max",
            key="version lag",
            stage=7,
            name="version lag",
            panel="lag",
            status=worst(view, lag.LAG),
            write="value",
            limit=tolerance,
            limit_text="" if tolerance is None else numbers.count(tolerance),
        )
    ]


def _mismatch(view: View) -> list[MetricRow]:
    limit = view.limit("LOGPROB_MISMATCH")
    return [
        _of(
            view,
            lag.mismatch(view),
            key="logprob mismatch",
            stage=7,
            name="logprob mismatch",
            panel="lag",
            status=view.status("LOGPROB_MISMATCH"),
            write="value",
            limit=limit,
            limit_text="" if limit is None else f"{limit:g}",
        )
    ]


def _heldout(view: View) -> list[MetricRow]:
    series, last = reward.heldout(view), reward.last_heldout(view)
    steps, values = (_NO_STEPS, _NO_VALUES) if series is None else _known(view, series.name)
    finite = values[np.isfinite(values)]
    change = float(finite[-1] - finite[-2]) if len(finite) > 1 else None
    return [
        MetricRow(
            "held-out",
            8,
            "held-out",
            "reward",
            worst(view, ("HELDOUT_FLAT", "LEAKAGE")),
            "–" if last is None else numbers.value(last[1]),
            "" if change is None else numbers.change(change, decimals=2),
            steps,
            values,
            points=True,
        )
    ]


_NO_STEPS, _NO_VALUES = np.empty(0, np.int64), np.empty(0)


_ROWS: tuple[_Metric | Callable[[View], list[MetricRow]], ...] = (
    _Metric(0, "step time", "step_time", "seconds", None, ("STEP_TIME_ROT", "LOG_STALLED")),
    _Metric(
        1,
        "success",
        "success_rate",
        "share",
        "reward",
        ("BASE_SUCCESS_ZERO",),
        "BASE_SUCCESS_ZERO",
        above=False,
    ),
    _Metric(2, "reward", "reward_mean", "value", "reward", tuple(set(reward.REWARD) - {"VERIFIER_ERRORS"})),
    _components,
    _Metric(
        2,
        "verifier errors",
        "verifier_error_rate",
        "share",
        "reward",
        ("VERIFIER_ERRORS",),
        "VERIFIER_ERRORS",
    ),
    _Metric(
        3,
        "zero-variance",
        "zero_variance_group_frac",
        "share",
        "variance",
        ("DEGENERATE_GROUPS", "NO_TRAINABLE_GROUPS", "LOW_TRAINABILITY", "TRAINABILITY_DECLINE"),
        "DEGENERATE_GROUPS",
    ),
    _Metric(3, "all-fail", "all_fail_group_frac", "share", "variance", rank=2),
    _Metric(3, "all-pass", "all_pass_group_frac", "share", "variance", rank=2),
    _Metric(
        3,
        "group σ",
        "group_reward_std_mean",
        "value",
        "variance",
        (
            "REWARD_STD_DEATH",
            "ADV_COLLAPSE",
            "SATURATED_REWARD",
            "SPARSE_REWARD",
            "NO_UPDATE",
            "REWARD_PLATEAU",
        ),
    ),
    _flat_component,
    _setting,
    _Metric(4, "duplicates", "duplicate_frac", "share", "diversity", ("LOW_DIVERSITY",), "LOW_DIVERSITY"),
    _Metric(
        4, "loops", "repetition_frac", "share", "diversity", ("REPETITION_LOOPS",), "REPETITION_LOOPS", rank=1
    ),
    _Metric(4, "gibberish", "gibberish_frac", "share", "diversity", ("GIBBERISH",), "GIBBERISH", rank=2),
    _Metric(4, "entropy", "entropy", "value", "diversity", ("ENTROPY_COLLAPSE", "ENTROPY_EXPLOSION")),
    _Metric(
        5,
        "parse failures",
        "parse_failure_rate",
        "share",
        "endings",
        ("PARSE_FAILURES", "FORMAT_EXPLOIT", "COMPONENT_DIVERGENCE"),
        "PARSE_FAILURES",
    ),
    _Metric(5, "stopped", "termination{stop}", "share", "endings", ("TERMINATION_SHIFT",), rank=1),
    _Metric(5, "truncated", "truncation_rate", "share", "length", ("TRUNCATION",), "TRUNCATION"),
    _Metric(5, "length p50", "completion_tokens_p50", "count", "length", rank=1),
    _length,
    _Metric(6, "KL", "kl", "value", "kl", ("KL_EXPLODING", "KL_PINNED", "KL_RATCHET"), "KL_EXPLODING"),
    _Metric(6, "clipped", "clip_frac", "share", "kl", ("CLIP_SATURATION",), "CLIP_SATURATION", rank=1),
    _Metric(6, "grad norm", "grad_norm", "value", "kl", ("GRAD_SPIKES",)),
    _Metric(6, "loss", "loss", "value", "kl", rank=2),
    _lag,
    _Metric(
        7,
        "mixed versions",
        "mixed_version_frac",
        "share",
        "lag",
        ("MIXED_VERSIONS",),
        "MIXED_VERSIONS",
        rank=1,
    ),
    _mismatch,
    _heldout,
)
"""In triage order; a function where a row takes more than one series."""
