"""The browser's third column: one row a rollout of the group at the cursor."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from grpo_top import numbers
from grpo_top.snapshot import Status
from grpo_top.text import first_line, safe
from grpo_top.ui.glyphs import STATUS_ROLES
from grpo_top.ui.rollouts.catalogue import members_of
from grpo_top.ui.rollouts.frame import Frame
from grpo_top.ui.rollouts.group_rows import name_of
from grpo_top.ui.rollouts.layout import cell
from grpo_top.ui.widgets.virtual_list import Listing, cursor_mark

if TYPE_CHECKING:
    from grpo_top.facts import Batch
    from grpo_top.records import SamplingValue
    from grpo_top.ui.glyphs import Glyphs
    from grpo_top.ui.rollouts.browse import Browse
    from grpo_top.ui.rollouts.texts import Glance, Texts
    from grpo_top.ui.view import View
    from grpo_top.ui.widgets.runs import Row


def rollouts_listing(
    view: View, browse: Browse, texts: Texts[Glance], glyphs: Glyphs, *, focused: bool
) -> Listing:
    """The list of a group's rollouts."""
    key = browse.group_key
    batch = None if key is None else browse.catalogue.batch(key.step)
    if key is None or batch is None:
        return Listing(
            0, _no_row, frame=Frame([("Rollouts", "text bold")], focused=focused), empty="no group chosen"
        )
    rows = RolloutRows(view, browse, batch, key.group, texts, glyphs)
    first = texts.get(int(browse.members[0]))
    prompt = "" if first is None else f", {first_line(first.prompt, 24)}"
    mean, std, flat = batch.group_mean[key.group], batch.group_std[key.group], bool(batch.flat[key.group])
    right: Row = [
        ("mean ", "dim"),
        (glyphs.plain(numbers.fixed(float(mean), 3)), "text"),
        (f"   {glyphs.sigma} ", "dim"),
        ("0", "warn") if flat else (glyphs.plain(numbers.fixed(float(std), 3)), "text"),
    ]
    title: Row = [("Rollouts", "text bold"), (f"  step {numbers.count(key.step)}{prompt}", "dim")]
    return Listing(
        count=len(browse.members),
        row=rows.row,
        header=rows.header,
        foot=_remark(batch, key.group),
        frame=Frame(title, right, focused=focused),
    )


class RolloutRows:
    """Makes the rows of rollouts."""

    def __init__(
        self, view: View, browse: Browse, batch: Batch, group: int, texts: Texts[Glance], glyphs: Glyphs
    ) -> None:
        self._view = view
        self._browse = browse
        self._batch = batch
        self._texts = texts
        self._glyphs = glyphs
        self._at = members_of(batch, group)
        self._flat = bool(batch.flat[group])
        self._advantages = batch.advantages()
        self._columns = {
            name: batch.column(name)
            for name in (
                "index",
                "completion_tokens",
                "truncated",
                "policy_start",
                "trainer_version",
                "sampling",
            )
        }

    def header(self, width: int) -> Row:  # noqa: ARG002
        """Titles of the columns."""
        text = f"{'#':>4}{'reward':>8}{'adv':>7}{'tok':>5} {'end':<6}{'lag':>3}{'temp':>6}  completion"
        return [(text, "dim")]

    def row(self, position: int, width: int) -> Row:
        """One rollout."""
        at, glyphs = int(self._at[position]), self._glyphs
        row = int(self._batch.rows[at])
        here = position == self._browse.member
        other = self._browse.catalogue.narrowed and not bool(self._browse.catalogue.matching[row])
        seen = self._texts.get(row)
        room = max(0, width - 43)
        text = "" if seen is None else first_line(seen.gone or seen.completion or seen.call, room)
        plain = "faint" if other else "dim" if seen is not None and seen.gone else "text"
        cells = [
            cursor_mark(here, glyphs),
            cell(numbers.count(int(self._columns["index"][at])), 3, "dim", right=True),
            cell(glyphs.plain(numbers.fixed(float(self._batch.reward[at]), 3)), 8, plain, right=True),
            self._advantage(at),
            self._whole("completion_tokens", at, 5),
            (" ", ""),
            self._end(at),
            self._lag(at),
            self._temperature(at),
            ("  ", ""),
            (text, plain),
        ]
        return [(shown, "faint") for shown, _ in cells] if other else cells

    def _advantage(self, at: int) -> tuple[str, str]:
        value = float(self._advantages[at])
        if self._flat:
            return cell(
                "0" if abs(value) < 5e-3 else self._glyphs.plain(numbers.change(value, decimals=2)),
                7,
                "warn",
                right=True,
            )
        text = self._glyphs.plain(numbers.change(value, decimals=2))
        return cell(text, 7, "info" if np.isnan(value) else "strip" if value > 0 else "dim", right=True)

    def _whole(self, column: str, at: int, width: int) -> tuple[str, str]:
        value = int(self._columns[column][at])
        if value < 0:
            return cell(numbers.UNKNOWN, width, "info", right=True)
        return cell(numbers.count(value), width, "text", right=True)

    def _end(self, at: int) -> tuple[str, str]:
        name = name_of(self._batch, "finish", at, 6) or name_of(self._batch, "termination", at, 6)
        cut_off = int(self._columns["truncated"][at]) == 1
        return cell(name or numbers.UNKNOWN, 6, "warn" if cut_off else "dim" if name else "info")

    def _lag(self, at: int) -> tuple[str, str]:
        start, trainer = (int(self._columns[name][at]) for name in ("policy_start", "trainer_version"))
        if start < 0 or trainer < 0:
            return cell(numbers.UNKNOWN, 3, "info", right=True)
        lag, tolerance = trainer - start, self._view.snapshot.run.version_lag_tolerance
        beyond = tolerance is not None and lag > tolerance
        return cell(numbers.count(lag), 3, "warn" if beyond else "dim", right=True)

    def _temperature(self, at: int) -> tuple[str, str]:
        id_ = int(self._columns["sampling"][at])
        value = self._batch.sampling(id_).get("temperature") if id_ >= 0 else None
        if value is None:
            return cell(numbers.UNKNOWN, 6, "info", right=True)
        return cell(
            safe(numbers.setting(value)), 6, drift_role(self._view, "temperature", value) or "dim", right=True
        )


def drift_role(view: View, name: str, deployed: SamplingValue | None) -> str | None:
    """The role of a deployed value that is not the intended one; None where both agree or one is unknown."""
    status = drift(view, name, deployed)
    return None if status is None else STATUS_ROLES[status]


def drift(view: View, name: str, deployed: SamplingValue | None) -> Status | None:
    """How SAMPLER_DRIFT stands, where a deployed value is not the intended one; `watch` while it has not fired."""
    intended = (view.snapshot.run.sampling or {}).get(name)
    if intended is None or deployed is None or intended == deployed:
        return None
    return max(view.status("SAMPLER_DRIFT"), Status.WATCH)


def _remark(batch: Batch, group: int) -> list[Row]:
    """What a flat group means, in one line."""
    if not bool(batch.flat[group]):
        return []
    size = int(batch.group_size[group])
    texts = -1 if batch.distinct_texts is None else int(batch.distinct_texts[group])
    said = f"{numbers.count(size)} rollouts, "
    said += "one reward" if texts < 0 else f"{numbers.count(texts)} text{'s' if texts != 1 else ''}"
    return [[(f"    {said}: the group teaches nothing", "warn")]]


def _no_row(position: int, width: int) -> Row:  # noqa: ARG001
    return []
