"""Blocks as Markdown: what a pull request, an issue or a chat message takes. Charts become rows of sparks."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

from grpo_top.report_file.blocks import (
    Charts,
    Fold,
    Heading,
    Listing,
    Marks,
    Paragraph,
    Prose,
    Table,
    Verbatim,
)
from grpo_top.text import safe

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from grpo_top.report_file.blocks import Block, Chart

_SPARKS = "▁▂▃▄▅▆▇"
_SPARK_CELLS = 40
_MARKUP = re.compile(r"([\\`*_{}\[\]<>#|~!&])")


def markdown(blocks: Iterable[Block]) -> str:
    """A whole document."""
    return "\n".join(line for block in blocks for line in _lines(block)) + "\n"


def _lines(block: Block) -> Iterator[str]:
    match block:
        case Heading(level, text, anchor):
            if anchor:
                yield f'<a id="{anchor}"></a>\n'
            yield f"{'#' * level} {_text(text)}"
        case Paragraph(text, role):
            yield f"**{_text(text)}**" if role in ("fail", "warn") else _text(text)
        case Table(header, rows):
            yield _row(header)
            yield _row(["---"] * len(header), plain=True)
            yield from map(_row, rows)
        case Listing(items, ordered):
            yield from (
                f"{f'{n}.' if ordered else '-'} {_MARKS.item(item)}" for n, item in enumerate(items, 1)
            )
        case Prose(words):
            yield _MARKS.words(words)
        case Charts(charts):
            yield from _lines(
                Table(
                    ("series", "over the run", "lowest", "highest", "now"),
                    [_spark_row(one) for one in charts],
                )
            )
            return
        case Verbatim(text):
            text = safe(text, newlines=True)
            fence = "`" * max(3, 1 + max(map(len, re.findall("`+", text)), default=0))
            yield from (f"{fence}text", text.rstrip("\n"), fence)
        case Fold(summary, inner):
            yield from ("<details>", f"<summary>{_text(summary)}</summary>", "")
            for one in inner:
                yield from _lines(one)
            yield "</details>"
    yield ""


def _row(cells: Iterable[str], plain: bool = False) -> str:
    return "| " + " | ".join(cell if plain else _text(cell) for cell in cells) + " |"


def _spark_row(chart: Chart) -> tuple[str, ...]:
    values = chart.values[np.isfinite(chart.values)]
    low, high = float(values.min()), float(values.max())
    columns = np.array_split(values, min(_SPARK_CELLS, len(values)))
    levels = [0.0 if high == low else (float(part.mean()) - low) / (high - low) for part in columns]
    sparks = "".join(_SPARKS[min(int(level * len(_SPARKS)), len(_SPARKS) - 1)] for level in levels)
    return chart.title, sparks, f"{low:.3g}", f"{high:.3g}", chart.newest


def _text(text: str) -> str:
    return _MARKUP.sub(r"\\\1", safe(text))


_MARKS = Marks(
    text=_text, code=lambda text: f"`{safe(text)}`", link=lambda text, anchor: f"[{_text(text)}](#{anchor})"
)
