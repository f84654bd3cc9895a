"""`explain`, `inspect`, `report` and `grades`: one text each."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from grpo_top.commands.opening import OK, Wrong, each_run, read, settings_of, where_of

if TYPE_CHECKING:
    import argparse

    from grpo_top.runs import FoundRun
    from grpo_top.snapshot import Snapshot


def explain(options: argparse.Namespace) -> int:
    """A detector's page, or the list."""
    from grpo_top.detectors import ALL
    from grpo_top.pages import explained, listing

    settings = settings_of(options)
    if options.id is None:
        sys.stdout.write(listing(ALL))
        return OK
    try:
        sys.stdout.write(explained(options.id, settings))
    except ValueError as error:
        raise Wrong(str(error)) from error
    return OK


def config(options: argparse.Namespace) -> int:
    """Every setting and where its value comes from."""
    from grpo_top.config_text import config_text
    from grpo_top.detectors import ALL

    options.where = where_of(options)
    sys.stdout.write(config_text(settings_of(options), ALL))
    return OK


def completion(options: argparse.Namespace) -> int:
    """The script that completes the command line in a shell."""
    from grpo_top.completion import SHELLS, script
    from grpo_top.demo.recordings import RECORDINGS
    from grpo_top.detectors import BY_ID
    from grpo_top.formats.registry import FORMATS
    from grpo_top.topics import TOPICS

    words = {
        "explain": (*BY_ID, *TOPICS),
        "completion": SHELLS,
        "--fault": tuple(recording.name for recording in RECORDINGS),
        "--format": tuple(found.name for found in FORMATS),
    }
    sys.stdout.write(script(options.shell, words))
    return OK


def inspect(options: argparse.Namespace) -> int:
    """What was found where."""
    from grpo_top.report import inspect_text

    def show(snapshot: Snapshot, _: FoundRun | None = None) -> int:
        sys.stdout.write(inspect_text(snapshot))
        return OK

    return each_run(options, show) if options.all else show(read(options))


def report(options: argparse.Namespace) -> int:
    """Write the report to a file."""
    from grpo_top.report_file.whole import report as whole
    from grpo_top.writing import write_whole

    out = options.out
    if out.suffix.lower() not in (".html", ".htm", ".md"):
        raise Wrong(f"--out {out}: the name must end in .html or .md, which says what to write")
    written = whole(read(options), settings_of(options), out.suffix)
    try:
        size = write_whole(out, written)
    except OSError as error:
        raise Wrong(
            f"--out {out}: {error.strerror}; give a file in a folder that can be written to"
        ) from error
    print(f"{out}: {size:,} bytes")
    return OK


def grades(options: argparse.Namespace) -> int:
    """The hand scores of a run."""
    from grpo_top.grades_text import grades_object, grades_text

    snapshot = read(options)
    if options.json:
        import orjson

        sys.stdout.write(orjson.dumps(grades_object(snapshot)).decode() + "\n")
    else:
        sys.stdout.write(grades_text(snapshot))
    return OK
