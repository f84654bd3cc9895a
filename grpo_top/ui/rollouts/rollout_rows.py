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
from grpo_top.ui.rollouts.group_table import HELDOUT, REQUEST, TRAIN
from grpo_top.ui.rollouts.layout import cell
from grpo_top.ui.widgets.virtual_list import Listing, cursor_mark

if TYPE_CHECKING:
    from numpy.typing import NDArray

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
    if key is None or not len(browse.members):
        return Listing(
            0, _no_row, frame=Frame([("Rollouts", "text bold")], focused=focused), empty="no group chosen"
        )
    table, group = browse.catalogue.table, int(browse.groups[browse.group_at])
    rows = RolloutRows(view, browse, texts, glyphs)
    first = texts.get(int(browse.members[0]))
    asked = "" if first is None else first_line(first.prompt, 24)
    prompt = f", {asked}" if asked else ""
    mean, std, flat = float(table["mean"][group]), float(table["std"][group]), int(table["flat"][group]) == 1
    right: Row = [
        ("mean ", "dim"),
        (glyphs.plain(numbers.fixed(mean, 3)), "text"),
        (f"   {glyphs.sigma} ", "dim"),
        ("0", "warn") if flat else (glyphs.plain(numbers.fixed(std, 3)), "text"),
    ]
    kind = {HELDOUT: ("held-out ", "series2"), REQUEST: ("requests ", "dim")}.get(key.kind, ("", ""))
    title: Row = [
        ("Rollouts", "text bold"),
        ("  ", ""),
        kind,
        (f"step {numbers.count(key.step)}{prompt}", "dim"),
    ]
    return Listing(
        count=len(browse.members),
        row=rows.row,
        header=rows.header,
        foot=_remark(int(table["size"][group]), int(table["texts"][group]))
        if flat and key.kind == TRAIN
        else [],
        frame=Frame(title, right, focused=focused),
    )


class RolloutRows:
    """Makes the rows of rollouts."""

    def __init__(self, view: View, browse: Browse, texts: Texts[Glance], glyphs: Glyphs) -> None:
        self._view = view
        self._browse = browse
        self._texts = texts
        self._glyphs = glyphs
        self._columns = view.snapshot.rollouts.columns
        self._names = view.snapshot.rollouts.names
        self._flat = int(browse.catalogue.table["flat"][int(browse.groups[browse.group_at])]) == 1
        self._advantages = _advantages(browse)

    def header(self, width: int) -> Row:  # noqa: ARG002
        """Titles of the columns."""
        text = f"{'#':>4}{'reward':>8}{'adv':>7}{'tok':>5} {'end':<6}{'lag':>3}{'temp':>6}  completion"
        return [(text, "dim")]

    def row(self, position: int, width: int) -> Row:
        """One rollout."""
        row, glyphs = int(self._browse.members[position]), self._glyphs
        other = self._browse.catalogue.narrowed and not bool(self._browse.catalogue.matching[row])
        seen = self._texts.get(row)
        room = max(0, width - 43)
        text = "" if seen is None else first_line(seen.gone or seen.completion or seen.call, room)
        plain = "faint" if other else "dim" if seen is not None and seen.gone else "text"
        cells = [
            cursor_mark(position == self._browse.member, glyphs),
            cell(numbers.count(int(self._columns["index"][row])), 3, "dim", right=True),
            cell(glyphs.plain(numbers.fixed(float(self._columns["reward"][row]), 3)), 8, plain, right=True),
            self._advantage(float(self._advantages[position])),
            self._whole("completion_tokens", row, 5),
            (" ", ""),
            self._end(row),
            self._lag(row),
            self._temperature(row),
            ("  ", ""),
            (text, plain),
        ]
        return [(shown, "faint") for shown, _ in cells] if other else cells

    def _advantage(self, value: float) -> tuple[str, str]:
        if self._flat:
            return cell(
                "0" if abs(value) < 5e-3 else self._glyphs.plain(numbers.change(value, decimals=2)),
                7,
                "warn",
                right=True,
            )
        text = self._glyphs.plain(numbers.change(value, decimals=2))
        return cell(text, 7, "info" if np.isnan(value) else "strip" if value > 0 else "dim", right=True)

    def _whole(self, column: str, row: int, width: int) -> tuple[str, str]:
        value = int(self._columns[column][row])
        if value < 0:
            return cell(numbers.UNKNOWN, width, "info", right=True)
        return cell(numbers.count(value), width, "text", right=True)

    def _end(self, row: int) -> tuple[str, str]:
        name = self._name("finish", row) or self._name("termination", row)
        cut_off = int(self._columns["truncated"][row]) == 1
        return cell(name or numbers.UNKNOWN, 6, "warn" if cut_off else "dim" if name else "info")

    def _name(self, column: str, row: int) -> str | None:
        id_ = int(self._columns[column][row])
        return first_line(self._names[column][id_], 6) if id_ >= 0 else None

    def _lag(self, row: int) -> tuple[str, str]:
        start, trainer = (int(self._columns[name][row]) for name in ("policy_start", "trainer_version"))
        if start < 0 or trainer < 0:
            return cell(numbers.UNKNOWN, 3, "info", right=True)
        lag, tolerance = trainer - start, self._view.snapshot.run.version_lag_tolerance
        beyond = tolerance is not None and lag > tolerance
        return cell(numbers.count(lag), 3, "warn" if beyond else "dim", right=True)

    def _temperature(self, row: int) -> tuple[str, str]:
        id_ = int(self._columns["sampling"][row])
        value = self._view.snapshot.rollouts.samplings[id_].get("temperature") if id_ >= 0 else None
        if value is None:
            return cell(numbers.UNKNOWN, 6, "info", right=True)
        return cell(
            safe(numbers.setting(value)), 6, drift_role(self._view, "temperature", value) or "dim", right=True
        )


def _advantages(browse: Browse) -> NDArray[np.float64]:
    """Those of the group's rollouts: the batch's own, logged or worked out; NaN unknown."""
    key = browse.group_key
    batch = None if key is None else browse.catalogue.batch(key)
    if batch is None or key is None:
        logged: NDArray[np.float64] = browse.catalogue.snapshot.rollouts.columns["advantage"][browse.members]
        return logged
    return batch.advantages()[members_of(batch, key.group)]


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


def _remark(size: int, texts: int) -> list[Row]:
    """What a flat group means, in one line."""
    said = f"{numbers.count(size)} rollouts, "
    said += "one reward" if texts < 0 else f"{numbers.count(texts)} text{'s' if texts != 1 else ''}"
    return [[(f"    {said}: the group teaches nothing", "warn")]]


def _no_row(position: int, width: int) -> Row:  # noqa: ARG001
    return []
