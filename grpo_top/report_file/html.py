"""Blocks as one HTML page: styles and charts inside, no script, nothing fetched."""

from __future__ import annotations

from html import escape
from importlib.resources import files
from typing import TYPE_CHECKING

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
from grpo_top.report_file.svg import svg
from grpo_top.text import safe

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from grpo_top.report_file.blocks import Block


def html(blocks: Iterable[Block], title: str) -> str:
    """A whole page."""
    style = files("grpo_top.report_file").joinpath("page.css").read_text(encoding="utf-8")
    body = "\n".join(part for block in blocks for part in _parts(block))
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">\n'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n"
        '<meta name="viewport" content="width=device-width,initial-scale=1">\n'
        f"<title>{_text(title)}</title>\n<style>\n{style}</style></head>\n<body>\n{body}\n</body></html>\n"
    )


def _parts(block: Block) -> Iterator[str]:
    match block:
        case Heading(level, text, anchor):
            name = f' id="{_text(anchor)}"' if anchor else ""
            yield f"<h{level}{name}>{_text(text)}</h{level}>"
        case Paragraph(text, role):
            yield f'<p class="{role}">{_text(text)}</p>' if role else f"<p>{_text(text)}</p>"
        case Table(header, rows):
            yield "<table><tr>" + "".join(f"<th>{_text(cell)}</th>" for cell in header) + "</tr>"
            for row in rows:
                yield "<tr>" + "".join(f"<td>{_text(cell)}</td>" for cell in row) + "</tr>"
            yield "</table>"
        case Listing(items, ordered):
            tag = "ol" if ordered else "ul"
            yield f"<{tag}>" + "".join(f"<li>{_MARKS.item(item)}</li>" for item in items) + f"</{tag}>"
        case Prose(words):
            yield f"<p>{_MARKS.words(words)}</p>"
        case Charts(charts):
            yield '<div class="charts">'
            for chart in charts:
                caption = f"<figcaption>{_text(chart.title)} <b>{_text(chart.newest)}</b></figcaption>"
                yield f"<figure>{caption}{svg(chart)}</figure>"
            yield "</div>"
        case Verbatim(text):
            yield f"<pre>{escape(safe(text, newlines=True))}</pre>"
        case Fold(summary, inner):
            yield f"<details><summary>{_text(summary)}</summary>"
            for one in inner:
                yield from _parts(one)
            yield "</details>"


def _text(text: str) -> str:
    return escape(safe(text), quote=True)


_MARKS = Marks(
    text=_text,
    code=lambda text: f"<code>{_text(text)}</code>",
    link=lambda text, anchor: f'<a href="#{_text(anchor)}">{_text(text)}</a>',
)
