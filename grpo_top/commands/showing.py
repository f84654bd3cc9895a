"""`grpo-top` and `demo`: the screen, or what `check` prints where there is none."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from grpo_top.commands.checking import check, print_check
from grpo_top.commands.opening import OK, Wrong, for_run, read, require_places, settings_of, where_of

if TYPE_CHECKING:
    import argparse


def monitor(options: argparse.Namespace) -> int:
    """Show a run until the user leaves."""
    if not _on_a_terminal():
        options.json, options.series, options.fail_on, options.all = False, False, "fail", False
        options.follow, options.seconds, options.on_finding = False, None, None
        return check(options)
    require_places([place for place in options.where[:1] if _is_mistyped(place)])
    from grpo_top.endpoint_options import fleets_of, network_of, samplers_of
    from grpo_top.ui.launch import run

    settings = settings_of(options)
    try:
        network, fleets = network_of(options), fleets_of(options)
        if options.reference is not None:
            from grpo_top.reference import wanted

            wanted(options.reference)
    except ValueError as error:
        raise Wrong(str(error)) from error
    return run(
        where_of(options),
        settings,
        format_name=options.format,
        ascii_only=options.ascii,
        theme=options.theme,
        network=network,
        samplers=samplers_of(options, live=True),
        fleets=fleets,
        which=options.run,
        one_run=options.one_run,
        settings_of=lambda found: settings_of(for_run(options, found)),
        since=options.since,
        reference=options.reference,
    )


def _is_mistyped(place: str) -> bool:
    """Whether a place is not there and reads like a verb."""
    from grpo_top.first_run import did_you_mean
    from grpo_top.options import VERBS

    return not os.path.lexists(place) and "`" in did_you_mean(place, VERBS)


def _on_a_terminal() -> bool:
    """Whether there is a screen: Textual draws on standard error, and what is piped onwards is no screen either."""
    return sys.stdout.isatty() and sys.stderr.isatty() and os.environ.get("TERM") != "dumb"


def demo(options: argparse.Namespace) -> int:
    """Show a recording that plays."""
    import tempfile
    from pathlib import Path

    from grpo_top.demo.player import Player, play_all
    from grpo_top.demo.recordings import RECORDINGS, find
    from grpo_top.leaving import at_last

    if options.list:
        for recording in RECORDINGS:
            print(f"{recording.name:<16} {recording.what}")
        return OK
    try:
        recording = find(options.fault)
    except ValueError as error:
        raise Wrong(str(error)) from error
    settings = settings_of(options)
    temporary = tempfile.TemporaryDirectory(prefix="grpo-top-demo-")
    with temporary as name, at_last(temporary.cleanup):
        directory = Path(name)
        if not _on_a_terminal():
            play_all(recording, directory)
            options.where, options.format, options.run, options.one_run = [name], None, None, False
            return print_check(read(options), as_json=False, series=False, fail_on="never")
        from grpo_top.ui.launch import run

        player = Player(recording, directory, options.speed)
        player.start()
        try:
            return run([name], settings, format_name=None, ascii_only=options.ascii, theme=options.theme)
        finally:
            player.stop()
