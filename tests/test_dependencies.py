"""What is built on: every package has a least version with its reason, and what is installed is no older."""

from __future__ import annotations

import importlib.util
import tomllib
from importlib.metadata import version
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parent.parent
PROJECT = (ROOT / "pyproject.toml").read_text()
DECLARED = tomllib.loads(PROJECT)["project"]
EXTRAS = DECLARED["optional-dependencies"]
NEEDED = [*DECLARED["dependencies"], *EXTRAS["parquet"], *EXTRAS["zstd"]]
"""What comes with grpo-top to its users."""


@pytest.mark.parametrize("line", NEEDED)
def test_what_a_user_installs_has_a_least_version_with_its_reason(line: str) -> None:
    (least,) = [one for one in Requirement(line).specifier if one.operator == ">="]
    (written,) = [row for row in PROJECT.splitlines() if f'"{line}"' in row]
    comment = written.partition("#")[2]
    assert "; " in comment, f"{line}: what it is for; why no older one"
    assert least.version


@pytest.mark.parametrize("line", [*NEEDED, *EXTRAS["test"]])
def test_what_is_installed_is_no_older_than_the_least_version(line: str) -> None:
    wanted = Requirement(line)
    if wanted.name != "grpo-top":
        assert wanted.specifier.contains(version(wanted.name)), line


def test_an_advisory_fails_the_audit_and_what_could_not_be_asked_for_is_said() -> None:
    spec = importlib.util.spec_from_file_location("audit", ROOT / ".ci" / "audit.py")
    assert spec is not None
    assert spec.loader is not None
    audit = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(audit)
    clean = {"name": "numpy", "version": "2.0", "vulns": []}
    holed = {
        "name": "h11",
        "version": "0.14",
        "vulns": [{"id": "CVE-2025-43859", "fix_versions": ["0.16.0"]}],
    }
    skipped = {"name": "orjson", "skip_reason": "not found"}
    assert audit.said({"dependencies": [clean]}) == (
        ["audit: 1 of 1 packages asked for, 0 advisories"],
        False,
    )
    assert audit.said({"dependencies": [clean, skipped]}) == (
        ["audit: 1 of 2 packages asked for, 0 advisories; skipped 1 that it knows nothing of"],
        False,
    )
    lines, known = audit.said({"dependencies": [holed, clean]})
    assert (lines[0], known) == ("h11 0.14: CVE-2025-43859, better in 0.16.0", True)
