"""Writes a report of the run from the screen, beside everything else that goes on."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from grpo_top.report_file.whole import report
from grpo_top.text import safe
from grpo_top.ui.rollouts.out import file_stem
from grpo_top.ui.rollouts.places import proposed_path, usual_places
from grpo_top.ui.screens.naming import NamingScreen
from grpo_top.writing import write_whole

if TYPE_CHECKING:
    from grpo_top.config import Settings
    from grpo_top.snapshot import Snapshot
    from grpo_top.ui.app import GrpoTop

HTML, MARKDOWN = ".html", ".md"


def write_report(app: GrpoTop, suffix: str = HTML) -> None:
    """Ask where to, and write it there: HTML or Markdown, as the name says."""
    view = app.view
    run = [Path(place) for place in app.where]
    run += [Path(source.path).parent for source in view.snapshot.sources]
    path = proposed_path(
        file_stem(view.snapshot, "report"), run, (*usual_places(), Path(tempfile.gettempdir()))
    )

    def take(chosen: Path | None) -> None:
        if chosen is not None:
            app.run_worker(_write(app, view.snapshot, app.settings, chosen), group="out")

    app.push_screen(
        NamingScreen("a report of the run", path.with_suffix(suffix), run, (HTML, MARKDOWN)), take
    )


async def _write(app: GrpoTop, snapshot: Snapshot, settings: Settings, path: Path) -> None:
    where = safe(str(path.absolute()))
    app.notify(f"writing {where}", markup=False, timeout=2)
    try:
        size = await asyncio.to_thread(_written, snapshot, settings, path)
    except OSError as error:
        app.notify(f"{where} is not written: {error.strerror or error}", severity="error", markup=False)
        return
    app.notify(f"the report is in {where}, {size:,} bytes", markup=False)


def _written(snapshot: Snapshot, settings: Settings, path: Path) -> int:
    """Write the report; its size in bytes."""
    return write_whole(path, report(snapshot, settings, path.suffix))
