"""A recording is played as a live log: the same lines, in order, each at its time."""

from __future__ import annotations

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grpo_top.demo.player import LEAD, SECONDS_PER_STEP, Player, labelled, play_all, schedule
from grpo_top.demo.recordings import RECORDINGS, find

HEALTHY = find("healthy")


class FakeTime:
    """A clock that only moves while someone waits."""

    def __init__(self) -> None:
        self.now = 100.0

    def clock(self) -> float:
        return self.now

    def pause(self, seconds: float) -> None:
        assert seconds > 0
        self.now += seconds


def played(tmp_path, speed: float) -> FakeTime:
    fake = FakeTime()
    player = Player(HEALTHY, tmp_path, speed, clock=fake.clock, pause=fake.pause)
    player.start()
    assert player.wait(30)
    return fake


@pytest.mark.parametrize("recording", RECORDINGS, ids=lambda recording: recording.name)
def test_what_is_written_is_the_recording_but_for_the_label_on_its_run_record(recording, tmp_path):
    written = play_all(recording, tmp_path).read_bytes().splitlines()
    recorded = recording.lines()

    assert written[1:] == recorded[1:]
    assert json.loads(written[0]) == json.loads(recorded[0]) | {
        "recording": f"recording of a real run: {recording.what}",
        "total_steps": 120,
    }


@pytest.mark.parametrize("speed", [0, float("inf")])
def test_as_fast_as_possible_waits_for_nothing_and_writes_everything(speed, tmp_path):
    fake = played(tmp_path, speed)

    assert fake.now == 100.0
    assert (tmp_path / "rollouts.jsonl").read_bytes().splitlines() == labelled(HEALTHY)


def test_the_lead_is_there_as_soon_as_the_player_has_started(tmp_path):
    player = Player(HEALTHY, tmp_path)
    player.start()
    try:
        text = (tmp_path / "rollouts.jsonl").read_bytes()
        assert text.count(b'"kind": "step"') >= LEAD
        assert text.endswith(b"\n")
        assert not player.finished
    finally:
        player.stop()


@pytest.mark.parametrize("speed", [1, 10])
def test_a_step_takes_its_time_at_every_speed(speed, tmp_path):
    seconds_per_step = SECONDS_PER_STEP / speed
    beats_after_the_lead = 121 - LEAD  # the last evaluation and the trainer's closing record are one more

    assert played(tmp_path, speed).now - 100.0 == pytest.approx(beats_after_the_lead * seconds_per_step)


def test_the_file_grows_step_by_step(tmp_path):
    fake = FakeTime()
    waits = 0

    def pause(seconds: float) -> None:
        nonlocal waits
        waits += 1
        if waits % 50 == 0:
            elapsed = (fake.now - 100.0) / SECONDS_PER_STEP
            steps = player.path.read_bytes().count(b'"kind": "step"')
            assert steps - LEAD == pytest.approx(elapsed, abs=1.01)
        fake.pause(seconds)

    player = Player(HEALTHY, tmp_path, clock=fake.clock, pause=pause)
    player.start()

    assert player.wait(60)
    assert waits > 1000


def test_stop_stops_between_two_lines(tmp_path):
    player = Player(HEALTHY, tmp_path)
    player.start()
    lead = player.path.stat().st_size
    while player.path.stat().st_size == lead:
        time.sleep(0.005)
    player.stop()
    written = player.path.read_bytes()

    assert not player.finished
    assert written.endswith(b"\n")
    assert written.splitlines() == labelled(HEALTHY)[: written.count(b"\n")]
    time.sleep(0.05)
    assert player.path.read_bytes() == written


@pytest.mark.parametrize("speed", [1e-4, 1e-300])
def test_stop_does_not_wait_for_the_next_line_however_far_off(speed, tmp_path):
    player = Player(HEALTHY, tmp_path, speed)
    player.start()
    player.stop()

    assert not player.wait(0)


def test_a_player_that_never_started_can_be_stopped(tmp_path):
    player = Player(HEALTHY, tmp_path)
    player.stop()

    assert not player.finished
    assert list(tmp_path.iterdir()) == []


def test_a_player_plays_once(tmp_path):
    player = Player(HEALTHY, tmp_path, speed=0)
    player.start()
    assert player.wait(30)

    with pytest.raises(RuntimeError, match="once"):
        player.start()


def test_a_directory_that_is_not_there_is_said_at_the_start(tmp_path):
    with pytest.raises(FileNotFoundError):
        Player(HEALTHY, tmp_path / "gone").start()


def test_a_file_that_can_no_longer_be_written_is_said_to_whoever_waits(tmp_path):
    def replace_by_directory() -> float:
        if player.path.is_file():
            player.path.unlink()
            player.path.mkdir()
        return 0.0

    player = Player(HEALTHY, tmp_path, clock=replace_by_directory)
    player.start()
    with pytest.raises(IsADirectoryError):
        player.wait(30)
    assert not player.finished


@pytest.mark.parametrize("speed", [-1, float("nan"), float("-inf")])
def test_a_speed_below_zero_is_refused(speed, tmp_path):
    with pytest.raises(ValueError, match="speed"):
        Player(HEALTHY, tmp_path, speed)


@given(
    lines_per_step=st.lists(st.integers(0, 5), max_size=30), tail=st.integers(0, 5), lead=st.integers(0, 10)
)
def test_the_schedule_keeps_every_line_in_order_and_one_step_a_beat(lines_per_step, tail, lead):
    rollout, step = b'{"kind":"rollout"}', b'{"kind":"step"}'
    lines = [line for count in lines_per_step for line in [*[rollout] * count, step]] + [rollout] * tail
    due = list(schedule(lines, lead))

    assert [line for _, line in due] == lines
    assert [steps for steps, _ in due] == sorted(steps for steps, _ in due)
    closings = [steps for steps, line in due if line == step]
    assert closings == [max(0, number - lead + 1) for number in range(len(lines_per_step))]
