"""What the browser selects: evidence of every kind, what was not trained on, and the groups in any order."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import orjson
import pytest
from rollout_screens import Shown, filtered, line_with, read, shown
from runs import RECORDED, recorded_lines, unpack_sample
from runs import read as read_files

from grpo_top.encode import SPLIT_EVAL, SPLIT_REQUEST
from grpo_top.ui.rollouts.browse import Browse
from grpo_top.ui.rollouts.catalogue import ORDERS
from grpo_top.ui.rollouts.filters import parse
from grpo_top.ui.rollouts.group_table import HELDOUT, REQUEST
from grpo_top.ui.screens.browser import BrowserScreen
from grpo_top.ui.screens.replay import ReplayScreen

if TYPE_CHECKING:
    from pathlib import Path

    from grpo_top.snapshot import Snapshot

WIDE = (160, 45)


def rollout(step: int, group: str, index: int, reward: float | None, **fields: Any) -> dict[str, Any]:
    own = {"kind": "rollout", "step": step, "group": group, "index": index, "reward": reward}
    return {**own, "completion": f"{group} {index}", **fields}


def mixed_records() -> list[dict[str, Any]]:
    """Some steps of training, and an evaluation."""
    found: list[dict[str, Any]] = [{"kind": "run", "schema": "grpo-top/1", "run": "mixed", "group_size": 2}]
    for step in (1, 2):
        found += [rollout(step, "a", index, float(index), family="f") for index in range(2)]
        found.append({"kind": "step", "step": step, "metrics": {"loss": 0.1}})
    found += [rollout(2, "held", index, 0.5, split="eval", prompt="held-out?") for index in range(3)]
    return [*found, rollout(3, "a", 0, 1.0), {"kind": "step", "step": 3, "metrics": {"loss": 0.1}}]


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Snapshot:
    """With two requests of an engine that sampled step 2."""
    directory = tmp_path_factory.mktemp("mixed")
    asked = {"rid": "a", "text": "asked", "sampling_params": {"temperature": 0.7}}
    request = {
        "request_parameters": json.dumps(asked),
        "id": "a",
        "weight_version": "1",
        "completion_tokens": 2,
    }
    ended = {
        "finish_reason": {"type": "stop"},
        "prompt_tokens": 3,
        "output_token_logprobs": [[-0.5, 100, None]],
    }
    log = directory / "engine0" / "sglang-request-metrics-20261129_10.log"
    log.parent.mkdir()
    log.write_bytes(b"".join(orjson.dumps(request | ended | {"id": id_}) + b"\n" for id_ in "ab"))
    return read(directory, mixed_records())


def rows_of_split(snapshot: Snapshot, split: int) -> tuple[int, ...]:
    return tuple(np.flatnonzero(snapshot.rollouts.columns["split"] == split).tolist())


def listed(browse: Browse) -> set[int]:
    """Every rollout of every group that is listed."""
    keys = [browse.catalogue.key(int(group)) for group in browse.groups]
    return {int(row) for key in keys for row in browse.catalogue.members(key)}


# ---- evidence


@pytest.mark.parametrize(
    "name", ["sampler_cold", "verifier_broken", "openpipe-art-run", "sglang-sampler_cold"]
)
def test_every_rollout_that_proves_a_finding_has_its_group_in_the_browser(tmp_path: Path, name: str) -> None:
    if name in RECORDED:
        (tmp_path / "rollouts.jsonl").write_bytes(b"\n".join(recorded_lines(name)) + b"\n")
        snapshot = read_files(tmp_path)
    else:
        snapshot = read_files(unpack_sample(name, tmp_path))
    assert any(finding.rollouts for finding in snapshot.findings)
    for finding in snapshot.findings:
        rows = tuple(reference.row for reference in finding.rollouts)
        browse = Browse(snapshot, rows)
        assert set(rows) <= listed(browse)
        assert set(browse.walk(1000)) == set(rows)
        assert set(browse.scope) == {reference.step for reference in finding.rollouts}


def test_evidence_of_an_evaluation_is_a_group_of_held_out_rollouts(mixed: Snapshot) -> None:
    rows = rows_of_split(mixed, SPLIT_EVAL)
    browse = Browse(mixed, rows[:1])
    assert listed(browse) == set(rows)
    assert browse.group_key is not None
    assert (browse.group_key.step, browse.group_key.kind) == (2, HELDOUT)
    assert browse.catalogue.matching[list(rows)].tolist() == [True, False, False]


def test_requests_are_no_groups_of_training_and_each_can_be_opened(mixed: Snapshot) -> None:
    rows = rows_of_split(mixed, SPLIT_REQUEST)
    everything = Browse(mixed)
    everything.mark_all()
    assert not set(rows) & listed(everything)
    browse = Browse(mixed, rows)
    assert [browse.catalogue.key(int(group)).kind for group in browse.groups] == [REQUEST] * 2
    assert listed(browse) == set(rows)


def test_what_was_not_trained_on_is_listed_where_a_filter_asks_for_it(mixed: Snapshot) -> None:
    browse = Browse(mixed)
    browse.narrow(parse("heldout reward=0.5"))
    assert listed(browse) == set(rows_of_split(mixed, SPLIT_EVAL))
    browse.narrow(parse("request"))
    assert listed(browse) == set(rows_of_split(mixed, SPLIT_REQUEST))
    browse.narrow(parse("!heldout !request step=2"))
    assert listed(browse) == {2, 3}


def test_a_run_of_which_only_evaluations_are_logged_lists_those(tmp_path: Path) -> None:
    records = [rollout(5, "held", index, 0.5, split="eval") for index in range(3)]
    snapshot = read(tmp_path, [mixed_records()[0], *records])
    assert listed(Browse(snapshot)) == {0, 1, 2}


async def test_held_out_evidence_is_shown_and_replayed(mixed: Snapshot) -> None:
    held, asked = rows_of_split(mixed, SPLIT_EVAL), rows_of_split(mixed, SPLIT_REQUEST)
    app = Shown(mixed, lambda: BrowserScreen(rows=(held[1], asked[0]), title="LEAKAGE"))
    async with app.run_test(size=WIDE) as pilot:
        screen = await shown(pilot)
        assert "1 of 2" in screen[-2]
        assert line_with([line[37:96] for line in screen], "◆ held-").startswith("┃▸    2  ◆ held-")
        assert "Rollouts  held-out step 2, held-out?" in screen[3]
        assert line_with([line[37:96] for line in screen], "request")
        replay = await shown(pilot, "enter", "enter")
        assert isinstance(pilot.app.screen, ReplayScreen)
        assert any("held 1" in line for line in replay)
        await shown(pilot, "escape", "escape", "down")
        assert "Rollouts  requests step 2, asked" in (await shown(pilot))[3]
        assert any("asked" in line for line in await shown(pilot, "enter", "enter"))


# ---- orders


def test_groups_are_ordered_by_what_their_rollouts_have(tmp_path: Path) -> None:
    records: list[dict[str, Any]] = [mixed_records()[0]]
    shapes = {
        "a": {"completion": "same", "completion_tokens": 5, "family": "Beta", "task": "t3"},
        "b": {"completion_tokens": 9, "finish_reason": "length", "family": "alpha", "task": "t1"},
        "c": {"policy_version": 1, "trainer_version": 5, "task": "t2"},
    }
    for group, fields in shapes.items():
        records += [rollout(1, group, index, index * len(group), **fields) for index in range(2)]
    snapshot = read(tmp_path, [*records, {"kind": "step", "step": 1, "metrics": {"loss": 0.1}}])
    browse = Browse(snapshot)
    first: dict[str, list[str]] = {}
    for order in ORDERS:
        assert browse.order == order
        first[order.name] = ["abc"[group] for group in browse.groups]
        browse.next_order()
    assert browse.order == ORDERS[0]
    assert first["tokens"] == ["b", "a", "c"]
    assert first["duplicate"][0] == "a"
    assert first["truncated"] == ["b", "a", "c"]
    assert first["lag"] == ["c", "a", "b"]
    assert first["task"] == ["b", "c", "a"]
    assert first["family"] == ["b", "a", "c"]
    browse.order = next(order for order in ORDERS if order.name == "tokens")
    browse.turn_order()
    assert ["abc"[group] for group in browse.groups] == ["a", "b", "c"]
    assert browse.order_words == "length, shortest first"


async def test_a_wide_window_tells_how_groups_ended_how_many_were_cut_off_and_how_they_lag(
    tmp_path: Path,
) -> None:
    records: list[dict[str, Any]] = [mixed_records()[0]]
    for group, rewards in (("none", (0.0, 0.0)), ("all", (1.0, 1.0)), ("some", (0.0, 1.0))):
        fields = {
            "finish_reason": "length" if group == "some" else "stop",
            "policy_version": 3,
            "trainer_version": 7,
        }
        records += [
            rollout(1, group, index, reward, prompt=group, **fields) for index, reward in enumerate(rewards)
        ]
    snapshot = read(tmp_path, [*records, {"kind": "step", "step": 1, "metrics": {"loss": 0.1}}])
    async with Shown(snapshot, BrowserScreen).run_test(size=(80, 24)) as pilot:
        screen = await shown(pilot, "enter")
        assert screen[3].split()[-4:] == ["outcome", "trunc", "lag", "┃"]
        assert line_with(screen[3:], " none ").split()[-4:] == ["all-fail", "·", "4", "┃"]
        assert line_with(screen[3:], " all ").split()[-4:] == ["all-pass", "·", "4", "┃"]
        assert line_with(screen[3:], " some ").split()[-4:] == ["mixed", "2/2", "4", "┃"]
        narrowed = await filtered(pilot, "truncated")
        assert "1 of 3 groups" in narrowed[2]
        await pilot.resize_terminal(200, 60)
        wide = await shown(pilot)
        assert "texts  outcome  trunc lag" in wide[5]
        assert any("mixed      2/2   4" in line for line in wide[5:])
