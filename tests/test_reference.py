"""`--reference`: what is laid behind a run, and where the two part."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from runs import recorded_lines

from grpo_top.behind import Behind
from grpo_top.check_text import check_text
from grpo_top.cli import main
from grpo_top.config import Settings
from grpo_top.monitor import Monitor
from grpo_top.reference import LEAST_STEPS, Partings, Reference, part, parting, wanted
from grpo_top.reference_text import reference_lines
from grpo_top.report import check_object
from grpo_top.report_file.content import content
from grpo_top.report_file.html import html
from grpo_top.snapshot import Series

if TYPE_CHECKING:
    from pathlib import Path

    from grpo_top.snapshot import Snapshot


def series(values, first: int = 1) -> Series:
    return Series("x", "trainer", np.arange(first, first + len(values)), np.asarray(values, np.float64))


def noise(seed: int, count: int, around: float = 0.5, spread: float = 0.02) -> np.ndarray:
    return around + spread * np.random.default_rng(seed).standard_normal(count)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    top = tmp_path_factory.mktemp("runs")
    for name in ("healthy", "verifier_broken"):
        (top / name).mkdir()
        (top / name / "rollouts.jsonl").write_bytes(b"\n".join(recorded_lines(name)) + b"\n")
    return top


@pytest.fixture(scope="module")
def broken(recorded: Path) -> Snapshot:
    where, own = [str(recorded / "verifier_broken")], Settings()
    monitor = Monitor(where, own, reference=Behind(str(recorded / "healthy"), where, own))
    monitor.read_all()
    return monitor.snapshot(finished=True)


# ---- where two series part


def test_a_jump_is_named_at_its_own_step() -> None:
    here, there = noise(1, 100), noise(2, 100)
    here[60:] += 0.4

    found = parting(series(here), series(there))

    assert found is not None
    assert found.step == 61
    assert found.here == pytest.approx(0.9, abs=0.05)
    assert found.there == pytest.approx(0.5, abs=0.05)


def test_a_slow_drift_is_named_near_its_beginning() -> None:
    here, there = noise(1, 120, spread=0.001), noise(2, 120, spread=0.001)
    here[60:] += np.arange(60) * 0.01

    found = parting(series(here), series(there))

    assert found is not None
    assert 58 <= found.step <= 75


@given(seed=st.integers(0, 10_000), steps=st.integers(0, 300))
@settings(max_examples=20, deadline=None)
def test_two_runs_of_one_process_do_not_part(seed: int, steps: int) -> None:
    assert parting(series(noise(seed, steps)), series(noise(seed + 1, steps))) is None


@given(
    values=st.lists(st.floats(width=64, allow_nan=True, allow_infinity=True), min_size=30, max_size=60),
    others=st.lists(st.floats(width=64, allow_nan=True, allow_infinity=True), min_size=30, max_size=60),
)
@settings(max_examples=20, deadline=None)
def test_any_numbers_can_be_compared(values: list[float], others: list[float]) -> None:
    found = parting(series(values), series(others, first=5))
    assert found is None or 5 <= found.step <= 60


def test_what_lasts_only_a_few_steps_is_no_parting() -> None:
    here, there = noise(1, 100), noise(2, 100)
    here[40:44] += 0.5

    assert parting(series(here), series(there)) is None


def test_steps_that_only_one_of_them_has_do_not_count() -> None:
    here, there = np.full(60, 0.2), np.full(60, 0.4)

    assert parting(series(here), series(there, first=100)) is None
    assert parting(series(here), series(there, first=61 - LEAST_STEPS)).step == 61 - LEAST_STEPS
    assert parting(series(here), series(there, first=62 - LEAST_STEPS)) is None


@given(seed=st.integers(0, 10_000), jump=st.integers(0, 90), parts=st.lists(st.integers(1, 40), max_size=8))
@settings(max_examples=30, deadline=None)
def test_runs_that_grow_part_where_whole_ones_do(seed: int, jump: int, parts: list[int]) -> None:
    here, there = noise(seed, 120), noise(seed + 1, 120)
    here[jump:] += 0.3
    memory = Partings()
    for end in (*np.cumsum(parts).tolist(), 120):
        grown = series(here[:end]), series(there[:end])
        found = memory.find("x", *grown)
        assert (found and found.step) == ((whole := parting(*grown)) and whole.step)
    here[5:60] = 0.9  # rewritten
    rewritten = series(here), series(there)
    assert memory.find("x", *rewritten) == parting(*rewritten)


def test_an_earlier_part_is_counted_on_from_a_later_step() -> None:
    whole = {"x": series(np.arange(100.0))}

    moved = part(whole, 11, 20, at=51)["x"]

    assert moved.steps.tolist() == list(range(51, 61))
    assert moved.values.tolist() == [float(value) for value in range(10, 20)]


def test_what_is_wanted_is_a_place_or_a_part_of_the_run(tmp_path: Path) -> None:
    assert wanted("self:5-40") == ("", 5, 40)
    assert wanted(str(tmp_path)).where == str(tmp_path)
    assert wanted("https://box:8722").where == "https://box:8722"
    for text, said in (
        ("self:40-5", "self:FROM-TO"),
        ("self:", "self:FROM-TO"),
        ("nowhere", "no such file, directory or URL"),
    ):
        with pytest.raises(ValueError, match=said):
            wanted(text)


# ---- two recorded runs, of which one was broken at step 51


def test_the_step_at_which_a_run_parts_from_another_is_told(broken: Snapshot) -> None:
    text = check_text(broken)
    found = check_object(broken)["reference"]
    page = html(content(broken, Settings()), "report")

    assert "reference healthy, laid behind this run by step" in text
    assert "they part at step 51: reward mean 0 here, 0.850 there" in text
    assert found["name"] == "healthy"
    assert found["parts"][0]["series"] == "reward_mean"
    assert {parted["step"] for parted in found["parts"]} == {51}
    assert "duplicate_frac" in found["alike"]
    assert '<polyline class="reference"' in page
    assert "they part at step 51: reward mean 0 here" in page


def test_a_run_does_not_part_from_itself(broken: Snapshot) -> None:
    same = Reference("same", broken.series, broken.series)

    assert same.partings() == {}
    assert "they part in none of" in "\n".join(reference_lines(same))


@pytest.mark.parametrize(("since", "step"), [(None, 51), (60, 60)])
def test_an_earlier_part_of_the_run_is_laid_behind_what_came_after(
    recorded: Path, since: int | None, step: int
) -> None:
    where, own = [str(recorded / "verifier_broken")], Settings()
    monitor = Monitor(where, own, since=since, reference=Behind("self:10-45", where, own, since))
    monitor.read_all()

    found = monitor.snapshot(finished=True).reference

    assert found is not None
    assert found.name == "steps 10–45"
    assert found.series["reward_mean"].steps.tolist() == list(range(since or 46, (since or 46) + 36))
    assert found.parting("reward_mean").step == step


def test_a_reference_that_grows_is_followed_and_its_end_is_no_end(recorded: Path, tmp_path: Path) -> None:
    lines = recorded_lines("healthy")
    log = tmp_path / "rollouts.jsonl"
    log.write_bytes(b"\n".join(lines[:400]) + b"\n")
    run = tmp_path / "run.jsonl"
    run.write_bytes(b"\n".join(lines[:40]) + b"\n")
    where, own = [str(run)], Settings()
    monitor = Monitor(where, own, reference=Behind(str(log), where, own))
    while monitor.poll(0.5):
        pass
    before = monitor.snapshot()
    with log.open("ab") as file:
        file.write(b"\n".join(lines[400:900]) + b"\n")
    while monitor.poll(0.5):
        pass
    after = monitor.snapshot()
    monitor.close()

    assert after.version > before.version
    assert len(after.reference.series["reward_mean"].steps) > len(
        before.reference.series["reward_mean"].steps
    )
    assert after.reference.partings() == {}


@pytest.mark.parametrize(
    ("reference", "said"),
    [
        ("", "several runs (healthy, verifier_broken): name the folder of one"),
        ("empty", "no log of a known trainer or tracker among 0 files"),
        ("nowhere", "no such file, directory or URL"),
    ],
)
def test_a_reference_that_cannot_be_read_is_one_line_and_status_2(
    recorded: Path, reference: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    place = recorded / reference
    if reference == "empty":
        place = recorded.parent / "empty-place"
        place.mkdir(exist_ok=True)

    status = main(["check", str(recorded / "healthy"), "--reference", str(place)])

    told = capsys.readouterr().err
    assert status == 2
    assert told.startswith(f"grpo-top: --reference {place}: ")
    assert said in told
    assert told.count("\n") == 1
