"""Completion: the shells themselves are asked what they would offer."""

from __future__ import annotations

import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

from grpo_top.cli import VERBS, main
from grpo_top.options import DESCRIPTIONS

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def bash(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    assert main(["completion", "bash"]) == 0
    script = tmp_path / "grpo-top.bash"
    script.write_text(capsys.readouterr().out)
    return script


def offered(script: Path, *words: str) -> set[str]:
    """What bash offers for the last of these words."""
    line = " ".join(f"'{word}'" for word in words)
    ask = (
        f"source {script}; cd {script.parent}; COMP_WORDS=({line}); COMP_CWORD={len(words) - 1}; "
        'COMPREPLY=(); _grpo_top; printf "%s\\n" "${COMPREPLY[@]}"'
    )
    ran = subprocess.run(["bash", "-c", ask], capture_output=True, text=True, check=True)
    assert ran.stderr == ""
    return set(ran.stdout.split())


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash")
def test_bash_offers_verbs_files_options_and_values(bash: Path) -> None:
    assert offered(bash, "grpo-top", "") >= {*VERBS, "grpo-top.bash"}
    assert offered(bash, "grpo-top", "ins") == {"inspect"}
    assert {"--json", "--follow", "--fail-on"} <= offered(bash, "grpo-top", "check", "--")
    assert "--json" not in offered(bash, "grpo-top", "--")
    assert offered(bash, "grpo-top", "check", "--fail-on", "") == {"warn", "fail", "never"}
    assert "sampler_cold" in offered(bash, "grpo-top", "demo", "--fault", "")
    assert offered(bash, "grpo-top", "explain", "KL_") >= {"KL_EXPLODING", "KL_PINNED"}
    assert {"trl", "verl"} <= offered(bash, "grpo-top", "run", "--format", "")


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_take_their_script(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out
    assert all(verb in script for verb in VERBS)
    if shutil.which(shell) is None:
        pytest.skip(f"no {shell} to check the script with")
    subprocess.run([shell, "-n" if shell == "zsh" else "--no-execute"], input=script, text=True, check=True)


def test_every_verb_is_described() -> None:
    assert {*DESCRIPTIONS} == {"monitor", *VERBS}
