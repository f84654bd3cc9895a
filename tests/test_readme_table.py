"""The README's table of what is caught is the one that the detectors give.

Written anew by `python tests/test_readme_table.py`.
"""

from __future__ import annotations

from pathlib import Path

from grpo_top.detectors import ALL
from grpo_top.pages import readme_table

README = Path(__file__).parents[1] / "README.md"
BEGIN, END = "<!-- detectors: begin -->\n", "<!-- detectors: end -->"


def test_the_readmes_table_is_that_of_the_detectors() -> None:
    text = README.read_text()
    assert text[text.index(BEGIN) + len(BEGIN) : text.index(END)] == readme_table(ALL)


def test_every_detector_has_a_row_with_its_meaning_and_what_it_needs() -> None:
    rows = readme_table(ALL).splitlines()[2:]
    assert len(rows) == len(ALL)
    for detector, row in zip(ALL, rows, strict=True):
        stage, name, meaning, needs = (cell.strip() for cell in row.strip("|").split("|"))
        assert stage.startswith(str(detector.stage))
        assert name == f"`{detector.id}`"
        assert meaning
        assert not meaning.endswith("…")
        assert needs


def main() -> None:
    """Write the table into the README."""
    text = README.read_text()
    README.write_text(text[: text.index(BEGIN) + len(BEGIN)] + readme_table(ALL) + text[text.index(END) :])


if __name__ == "__main__":
    main()
