"""The whole report as one text, HTML or Markdown."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grpo_top.report_file.content import content
from grpo_top.report_file.html import html
from grpo_top.report_file.markdown import markdown

if TYPE_CHECKING:
    from grpo_top.config import Settings
    from grpo_top.snapshot import Snapshot

MARKDOWN = ".md"


def report(snapshot: Snapshot, settings: Settings, suffix: str) -> str:
    """The report, Markdown where a file's suffix says so: short, to be pasted. HTML holds the pages of all checks."""
    if suffix.lower() == MARKDOWN:
        return markdown(content(snapshot, settings))
    return html(content(snapshot, settings, all_pages=True), f"grpo-top: {snapshot.run.name or 'run'}")
