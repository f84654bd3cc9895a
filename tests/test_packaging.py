"""What is in the wheel that a user installs."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from grpo_top.demo.recordings import RECORDINGS

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    pytest.importorskip("hatchling", reason="the build backend is not installed: pip install hatchling")
    directory = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(directory)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stderr
    (built,) = directory.iterdir()
    return built


@pytest.fixture(scope="module")
def names(wheel) -> list[str]:
    with zipfile.ZipFile(wheel) as archive:
        return archive.namelist()


def test_the_wheel_holds_every_file_of_the_package(names):
    package = {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "grpo_top").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }

    assert package <= set(names)


def test_the_wheel_says_that_it_is_typed(names):
    assert "grpo_top/py.typed" in names


def test_the_wheel_holds_the_recordings(names):
    assert {f"grpo_top/demo/data/{recording.name}.jsonl.gz" for recording in RECORDINGS} <= set(names)


def test_the_wheel_holds_nothing_but_the_package_and_its_licence(names):
    outside = [name for name in names if not name.startswith("grpo_top/")]

    assert all(name.split("/")[0].endswith(".dist-info") for name in outside)
    assert any(name.endswith("/licenses/LICENSE") for name in outside)
    assert not [name for name in names if "/test" in name]


def test_the_wheel_is_small(wheel):
    assert wheel.stat().st_size < 2_000_000


def test_the_command_is_installed(wheel):
    with zipfile.ZipFile(wheel) as archive:
        (entry_points,) = [name for name in archive.namelist() if name.endswith("/entry_points.txt")]
        assert "grpo-top = grpo_top.cli:main" in archive.read(entry_points).decode()
