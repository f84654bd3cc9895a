"""What is imported when, and by whom: a start is quick, and the monitor runs where there is no screen."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import grimp
import pytest

ROOT = Path(__file__).parent.parent
SCREEN = {"textual", "rich"}

TINY_LOG = [
    {"kind": "run", "schema": "grpo-top/1", "run": "tiny", "group_size": 2},
    {"kind": "rollout", "step": 1, "group": "a", "index": 0, "reward": 1.0, "completion": "4"},
    {"kind": "rollout", "step": 1, "group": "a", "index": 1, "reward": 0.0, "completion": "5"},
    {"kind": "step", "step": 1, "metrics": {"kl": 0.01}},
]


def python(code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)


def loaded_after(code: str, *arguments: str) -> set[str]:
    """Names of the packages that a fresh process holds after `code`."""
    done = python(f"{code}\nimport json, sys; print(json.dumps(list(sys.modules)))", *arguments)
    assert done.returncode == 0, done.stderr
    return {name.partition(".")[0] for name in json.loads(done.stdout.splitlines()[-1])}


def loaded_after_command(*arguments: str) -> set[str]:
    """Names of the packages that a process holds after `grpo-top` with these arguments, if it succeeds."""
    return loaded_after(
        "import sys\n"
        "from grpo_top.cli import main\n"
        "try:\n"
        "    status = main(sys.argv[1:])\n"
        "except SystemExit as leaving:\n"
        "    status = leaving.code\n"
        "assert not status, status",
        *arguments,
    )


def module_names(*, screen: bool) -> list[str]:
    """Modules of the package: those of the screen, or all others but `__main__`, which would run, and what is for
    a trainer's process, where transformers is installed.
    """
    paths = (path.relative_to(ROOT).with_suffix("") for path in sorted((ROOT / "grpo_top").rglob("*.py")))
    names = (".".join(path.parts).removesuffix(".__init__") for path in paths)
    return [
        name
        for name in names
        if (name.split(".")[1:2] == ["ui"]) is screen and not name.endswith((".__main__", ".trl_callback"))
    ]


@pytest.fixture(scope="module")
def graph() -> grimp.ImportGraph:
    return grimp.build_graph(
        "grpo_top", include_external_packages=True, exclude_type_checking_imports=True, cache_dir=None
    )


def importers(graph: grimp.ImportGraph, package: str) -> set[str]:
    """Modules in which an import of `package` stands, be it at the top or inside a function."""
    return graph.find_modules_that_directly_import(package) if package in graph.modules else set()


def test_the_command_line_loads_neither_screen_nor_client_nor_numpy():
    assert loaded_after("import grpo_top.cli").isdisjoint({*SCREEN, "httpx", "numpy", "pyarrow"})


def test_asking_for_the_version_loads_neither_screen_nor_client_nor_numpy():
    assert loaded_after_command("--version").isdisjoint({*SCREEN, "httpx", "numpy", "pyarrow"})


def test_the_version_is_the_packages():
    done = python("import grpo_top; print(grpo_top.__version__)")
    asked = python("from grpo_top.cli import main; raise SystemExit(main(['--version']))")

    assert done.stdout.strip() in asked.stdout.split()


def test_a_check_of_a_log_loads_neither_screen_nor_client(tmp_path):
    log = tmp_path / "rollouts.jsonl"
    log.write_text("".join(json.dumps(record) + "\n" for record in TINY_LOG))

    assert loaded_after_command("check", str(log)).isdisjoint({*SCREEN, "httpx"})


def test_all_modules_but_the_screens_are_loaded_without_screen_or_client():
    names = module_names(screen=False)
    loaded = loaded_after(
        "import importlib, sys\nfor name in sys.argv[1:]: importlib.import_module(name)", *names
    )

    assert "grpo_top.monitor" in names
    assert loaded.isdisjoint({*SCREEN, "httpx"})


def test_only_the_screen_imports_textual_and_rich(graph):
    found = importers(graph, "textual") | importers(graph, "rich")

    assert found
    assert found <= set(module_names(screen=True))


def test_only_the_endpoints_import_the_http_client(graph):
    assert importers(graph, "httpx") <= {f"grpo_top.sources.{name}" for name in ("http", "client", "pools")}


def test_only_the_server_speaks_http_itself(graph):
    assert importers(graph, "h11") == {"grpo_top.server"}


def test_no_module_can_unpickle(graph):
    assert not {module for name in ("pickle", "dill", "joblib", "torch") for module in importers(graph, name)}


def test_the_contracts_of_the_architecture_hold():
    """In a process of its own: the linter sets up logging anew, which would turn every other logger off here."""
    code = "import sys; from importlinter.cli import lint_imports; sys.exit(lint_imports(no_cache=True))"
    done = python(code)

    assert done.returncode == 0, done.stdout
