"""The README's table of what is read is complete."""

from pathlib import Path

import pytest

from grpo_top.formats.registry import FORMATS

README = (Path(__file__).parents[2] / "README.md").read_text()
CALLED = {
    "grpo-top": "grpo-top/1",
    "trl": "TRL",
    "art": "OpenPipe ART",
    "rllm": "rLLM",
    "atropos": "Atropos",
    "tinker": "tinker-cookbook",
    "nemo-rl": "NeMo-RL",
    "skyrl": "SkyRL",
    "areal": "AReaL",
    "openrlhf": "OpenRLHF",
    "requests": "request log",
    "config": "settings in YAML or JSON",
    "jsonl": "any JSON lines",
    "tensorboard": "TensorBoard",
    "wandb": "W&B",
    "mlflow": "MLflow",
    "swanlab": "SwanLab",
}
"""Formats that the README calls otherwise than by their name."""
OF_ANYBODY = {"console", "report", "csv", "parquet"}
"""Formats for what belongs to no row: printed steps of any trainer, and tables beside JSON lines."""


def rows() -> list[list[str]]:
    begin = README.index("| written by |")
    table = README[begin : README.index("\n\n", begin)].splitlines()[2:]
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in table]


@pytest.mark.parametrize("name", [found.name for found in FORMATS if found.name not in OF_ANYBODY])
def test_every_format_has_a_row(name: str) -> None:
    assert [row for row in rows() if CALLED.get(name, name) in row[0]]


def test_every_row_says_what_is_read_what_to_switch_on_and_what_stays_unknown() -> None:
    for row in rows():
        assert len(row) == 4, row
        assert row[0]
        assert row[1]
        assert row[2:] == ["", ""] or all(row[2:]), row
