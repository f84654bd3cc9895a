"""What is in the wheel that a user installs, and that it runs where it is installed."""

from __future__ import annotations

import subprocess
import sys
import venv
import zipfile
from importlib.metadata import Distribution, PathDistribution, distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from grpo_top import __version__
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
def installed(wheel, tmp_path_factory) -> Path:
    """An environment of its own, which holds the wheel and what it declares to need, and no more.

    What it needs comes from the environment that the tests run in: no index is asked, so that none can be down.
    """
    pytest.importorskip("pip", reason="there is no pip to install the wheel with")
    directory = tmp_path_factory.mktemp("installed")
    venv.create(directory, symlinks=True, with_pip=False)
    python = directory / "bin" / "python"
    options = ("--no-index", "--no-deps", "--no-cache-dir", "--no-compile", "--quiet")
    command = [sys.executable, "-m", "pip", "--python", python, "install", *options, wheel]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stderr
    (site,) = directory.glob("lib/python*/site-packages")
    (facts,) = site.glob("grpo_top-*.dist-info")
    for needed in _needed(PathDistribution(facts), set(), {}).values():
        for name in {file.parts[0] for file in needed.files or ()} - {"..", "__pycache__"}:
            (site / name).symlink_to(Path(str(needed.locate_file(name))))
    return directory


def _needed(
    package: Distribution, extras: set[str], found: dict[str, Distribution]
) -> dict[str, Distribution]:
    """The packages that a package needs, and those that they need, by name."""
    for wanted in map(Requirement, package.requires or ()):
        name = canonicalize_name(wanted.name)
        marker = wanted.marker
        needed = marker is None or any(marker.evaluate({"extra": extra}) for extra in extras | {""})
        if needed and name not in found:
            found[name] = distribution(name)
            _needed(found[name], wanted.extras, found)
    return found


def _run(installed: Path, name: str, *arguments: str) -> str:
    """What an installed command prints in a directory that is not the project's."""
    command = [installed / "bin" / name, *arguments]
    done = subprocess.run(command, cwd=installed, capture_output=True, text=True, timeout=100, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


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


def test_the_installed_wheel_runs_on_what_it_declares_to_need_and_on_nothing_else(installed):
    assert _run(installed, "grpo-top", "--version") == f"grpo-top {__version__}\n"
    assert _run(installed, "grpo-top", "explain", "DEGENERATE_GROUPS").startswith("DEGENERATE_GROUPS\n")

    demo = _run(installed, "grpo-top", "demo")
    assert "FAIL SAMPLER_DRIFT" in demo
    assert "first cause" in demo

    imports = "import grpo_top.ui.app, grpo_top.serve, grpo_top.sources.client, grpo_top.recorder as last"
    where = _run(installed, "python", "-c", f"{imports}; print(last.__file__)")
    assert Path(where.strip()).is_relative_to(installed)
