"""What `serve` keeps is bounded: past a limit the oldest rollouts are let go, and whoever asks for them is told."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from loopback import until
from runs import group, read, run_record, step_record, values, write_log
from served_runs import Served, served
from test_remote import watching

from grpo_top.check_text import check_text
from grpo_top.cli import main
from grpo_top.records import Location, Rollout
from grpo_top.report import check_object
from grpo_top.snapshot import Gone
from grpo_top.spool import Place, Spool
from grpo_top.standing import held
from grpo_top.ui.glyphs import UNICODE
from grpo_top.ui.view import View
from grpo_top.ui.widgets.title import title_runs

if TYPE_CHECKING:
    from pathlib import Path

STEPS = 60
LIMIT = 20_000
"""A part of what this run's records take, and enough that a few segments are held."""


@settings(max_examples=30)
@given(
    st.lists(st.lists(st.tuples(st.booleans(), st.integers(1, 40)), max_size=6), max_size=40),
    st.integers(100, 2000),
    st.integers(1, 200),
)
def test_what_is_no_rollout_is_never_let_go_and_rollouts_go_oldest_first(
    appended: list[list[tuple[bool, int]]], limit: int, read_at_once: int
) -> None:
    spool = Spool(limit, lambda line: line.startswith(b"r"), lambda count: b"gone %d\n" % count)
    rollouts: list[bytes] = []
    others: list[bytes] = []
    for lines in appended:
        written = []
        for is_rollout, length in lines:
            number = len(rollouts if is_rollout else others)
            line = b"%s%d %s\n" % (b"r" if is_rollout else b"o", number, b"x" * length)
            (rollouts if is_rollout else others).append(line)
            written.append(line)
        own = [line for line in written if line.startswith(b"r")]
        ids = spool.add_places([Place(0, 0, 0, Location(len(line), 1)) for line in own])
        assert len(ids) == len(own)
        spool.append(written)
    past, position, found = spool.past, 0, b""
    while position < past.size:
        lines = spool.read_past(past, position, read_at_once)
        position, found = position + len(lines), found + lines
    position = past.offset
    while lines := spool.read(position, read_at_once):
        position, found = position + len(lines), found + lines
    assert position == spool.size == sum(map(len, (*rollouts, *others)))
    came = found.splitlines(keepends=True)
    told = sum(int(line.split()[1]) for line in came if line.startswith(b"gone"))
    assert told == past.rollouts == spool.first_id
    assert [line for line in came if line.startswith(b"o")] == others
    assert [line for line in came if line.startswith(b"r")] == rollouts[past.rollouts :]
    for id_, line in enumerate(rollouts):
        place = spool.place(id_)
        assert (place is None) == (id_ < spool.first_id)
        assert place is None or place.location.offset == len(line)
    if past.offset > 1:
        with pytest.raises(ValueError, match="no line"):
            spool.read(past.offset - 1, 10)


def _run(folder: Path, steps: int) -> Path:
    records = [run_record(group_size=3)]
    for step in range(1, steps + 1):
        records += [
            *group(step, f"{step}", (0, 1, 1), prompt=f"task {step}"),
            step_record(step, kl=step / 10),
        ]
    return write_log(folder / "log.jsonl", records)


def _read_there(service: Served) -> None:
    """Returns once all has been read where the run is served: who reads along may get what is let go later."""
    read: set[str] = set()
    deadline = time.monotonic() + 10
    while (log := service.log("/end")) not in read:
        assert time.monotonic() < deadline
        if service.get(f"/records?log={log}&wait=1").lines[-1]["ended"]:
            read.add(log)


def test_who_comes_late_has_the_trainers_numbers_whole_and_is_told_which_rollouts_lack(
    tmp_path: Path,
) -> None:
    _run(tmp_path, STEPS)
    here = read(tmp_path)
    with served(tmp_path, spool=LIMIT) as service, watching(service.url) as monitor:
        _read_there(service)
        monitor.read_all()
        there = monitor.snapshot(finished=True)
        first = int(there.rollouts.columns["step"][0])
        assert 1 < first < STEPS
        lack = 3 * STEPS - there.rollouts.length
        assert there.let_go == lack > 0
        assert values(there, "kl") == values(here, "kl")
        late = {step: value for step, value in values(here, "reward_mean").items() if step > first}
        assert late.items() <= values(there, "reward_mean").items()
        text = there.read(there.rollouts.length - 1)
        assert isinstance(text, Rollout)
        assert text.completion == f"{STEPS} 2"

        note = f"{lack} older rollouts were let go where the run is served"
        assert f"not whole: {note}" in check_text(there)
        assert check_object(there)["standing"]["notes"][0].startswith(note)
        assert held(there) == (there.rollouts.length, first)
        for width, said in (
            (48, f" ≥{first}"),
            (80, f"rollouts ≥{first}"),
            (160, f"rollouts from step {first}"),
        ):
            assert said in "".join(
                text for text, _ in title_runs(View(there, None, there.time), width, UNICODE)
            )
        with served(service.url) as relay, watching(relay.url) as further:
            _read_there(relay)
            further.read_all()
            beyond = further.snapshot(finished=True)
            assert beyond.let_go == 3 * STEPS - beyond.rollouts.length > 0


def test_who_was_there_from_the_beginning_keeps_all_and_is_told_what_cannot_be_read_again(
    tmp_path: Path,
) -> None:
    whole = _run(tmp_path / "whole", STEPS).read_bytes().splitlines(keepends=True)
    a_part = 4 * STEPS // 5
    run = tmp_path / "run"
    run.mkdir()
    with served(run, spool=LIMIT) as service, watching(service.url) as monitor:
        for first in range(0, len(whole), a_part):  # never so much that it is let go before it is asked for
            with (run / "log.jsonl").open("ab") as log:
                log.writelines(whole[first : first + a_part])
            there = sum(b'"rollout"' in line for line in whole[: first + a_part])
            until(lambda there=there: (monitor.poll(), monitor.ledger.history.length >= there)[1])
        picture = monitor.snapshot()
        assert (picture.rollouts.length, picture.let_go, held(picture)) == (3 * STEPS, 0, None)
        old, new = picture.read(0), picture.read(3 * STEPS - 1)
        assert isinstance(old, Gone)
        assert "let go by the grpo-top that serves the run" in old.reason
        assert isinstance(new, Rollout)
        assert service.get(f"/records?log={service.log()}&offset=1").status == 416


@pytest.mark.parametrize("size", ["2", "G", "-1G", "2 G", "0M", "many"])
def test_a_size_that_is_none_is_wrong(size: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["serve", ".", f"--spool={size}"])
    assert "is no size: a whole number with K, M, G or T behind it" in capsys.readouterr().err
