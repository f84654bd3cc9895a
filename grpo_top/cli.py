"""Verbs and options. Reads the command line and hands over; the one module that owns standard output and exit statuses.

Nothing heavy is imported before it is needed: neither Textual, httpx nor numpy for `--version` and `--help`.
"""

from __future__ import annotations

import sys

from grpo_top import __version__

TYPE_CHECKING = (
    False  # as typing's, without its import: `--version` should cost little more than Python itself
)
if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Sequence

    from grpo_top.config import Settings
    from grpo_top.snapshot import Snapshot

OK, FOUND, WRONG, INTERRUPTED = 0, 1, 2, 130
"""Exit statuses: nothing at or above --fail-on; something; the command line or the log cannot be read; interrupted."""

VERBS = ("demo", "check", "explain", "inspect")


def main(argv: Sequence[str] | None = None) -> int:
    """Run `grpo-top` with these arguments (else the process's); the exit status."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if arguments == ["--version"]:
        print(f"grpo-top {__version__}")
        return OK
    verb = arguments.pop(0) if arguments and arguments[0] in VERBS else "monitor"
    try:
        options = _parser(verb).parse_args(arguments)
        return _VERBS[verb](options)
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        sys.stderr.close()  # the reader of the pipe has gone; there is nobody left to tell
        return OK
    except _Wrong as error:
        print(f"grpo-top: {error}", file=sys.stderr)
        return WRONG


class _Wrong(Exception):
    """One line for the user; exit status 2."""


def _parser(verb: str) -> argparse.ArgumentParser:
    import argparse

    name = "grpo-top" if verb == "monitor" else f"grpo-top {verb}"
    parser = argparse.ArgumentParser(
        prog=name, description=_DESCRIPTIONS[verb], epilog=_EPILOG if verb == "monitor" else None
    )
    if verb == "monitor":
        parser.add_argument("--version", action="version", version=f"grpo-top {__version__}")
    if verb == "explain":
        parser.add_argument(
            "id", nargs="?", metavar="ID", help="a detector; without it, the list in triage order"
        )
        _add_settings(parser)
        return parser
    if verb == "demo":
        parser.add_argument(
            "--fault", metavar="NAME", default="sampler_cold", help="which recording (default: sampler_cold)"
        )
        parser.add_argument(
            "--speed", metavar="X", type=float, default=1.0, help="how many times quicker (default: 1)"
        )
        parser.add_argument("--list", action="store_true", help="name the recordings and end")
        _add_screen(parser)
        _add_settings(parser)
        return parser
    parser.add_argument(
        "where", nargs="*", metavar="WHERE", help="a run directory, a log file or a glob (default: here)"
    )
    parser.add_argument("--format", metavar="NAME", help="read everything as this format, when sniffing errs")
    _add_settings(parser)
    if verb == "check":
        parser.add_argument("--json", action="store_true", help="one JSON object, grpo-top/check/1")
        parser.add_argument("--series", action="store_true", help="with --json: every series as well")
        parser.add_argument(
            "--fail-on",
            choices=("warn", "fail", "never"),
            default="fail",
            help="when to exit with 1 (default: fail)",
        )
    if verb == "monitor":
        _add_screen(parser)
    return parser


def _add_settings(parser: argparse.ArgumentParser) -> None:
    from pathlib import Path

    parser.add_argument(
        "--config",
        metavar="FILE",
        type=Path,
        help="TOML; else grpo-top.toml in the run directory or the user's config",
    )
    parser.add_argument(
        "--set",
        metavar="ID.knob=value",
        action="append",
        default=[],
        dest="overrides",
        help="set a detector's knob",
    )


def _add_screen(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--ascii", action="store_true", help="plain ASCII marks, boxes and charts")
    parser.add_argument(
        "--theme", choices=("dark", "light", "ansi"), help="colours (default: dark, ansi where there are few)"
    )


def _check(options: argparse.Namespace) -> int:
    snapshot = _read(options)
    return _print_check(snapshot, as_json=options.json, series=options.series, fail_on=options.fail_on)


def _print_check(snapshot: Snapshot, *, as_json: bool, series: bool, fail_on: str) -> int:
    from grpo_top.check_text import check_text
    from grpo_top.report import check_object, worst
    from grpo_top.snapshot import Status

    if as_json:
        import orjson

        sys.stdout.write(orjson.dumps(check_object(snapshot, series=series)).decode() + "\n")
    else:
        sys.stdout.write(check_text(snapshot))
    sys.stdout.flush()
    limit = {"warn": Status.WARN, "fail": Status.FAIL}.get(fail_on)
    return FOUND if limit is not None and worst(snapshot) >= limit else OK


def _monitor(options: argparse.Namespace) -> int:
    if not _on_a_terminal():
        options.json, options.series, options.fail_on = False, False, "fail"
        return _check(options)
    from grpo_top.ui.app import run

    settings = _settings(options)
    return run(
        _where(options), settings, format_name=options.format, ascii_only=options.ascii, theme=options.theme
    )


def _on_a_terminal() -> bool:
    """Whether there is a screen: Textual draws on standard error, and what is piped onwards is no screen either."""
    return sys.stdout.isatty() and sys.stderr.isatty()


def _demo(options: argparse.Namespace) -> int:
    import tempfile
    from pathlib import Path

    from grpo_top.demo.player import Player, play_all
    from grpo_top.demo.recordings import RECORDINGS, find

    if options.list:
        for recording in RECORDINGS:
            print(f"{recording.name:<16} {recording.what}")
        return OK
    try:
        recording = find(options.fault)
    except ValueError as error:
        raise _Wrong(str(error)) from error
    settings = _settings(options)
    with tempfile.TemporaryDirectory(prefix="grpo-top-demo-") as name:
        directory = Path(name)
        if not _on_a_terminal():
            play_all(recording, directory)
            options.where, options.format = [name], None
            return _print_check(_read(options), as_json=False, series=False, fail_on="never")
        from grpo_top.ui.app import run

        player = Player(recording, directory, options.speed)
        player.start()
        try:
            return run([name], settings, format_name=None, ascii_only=options.ascii, theme=options.theme)
        finally:
            player.stop()


def _explain(options: argparse.Namespace) -> int:
    from grpo_top.detectors import ALL, find
    from grpo_top.pages import listing, page

    settings = _settings(options)
    if options.id is None:
        sys.stdout.write(listing(ALL))
        return OK
    try:
        detector = find(options.id.upper())
    except ValueError as error:
        raise _Wrong(str(error)) from error
    sys.stdout.write(page(detector, settings))
    return OK


def _inspect(options: argparse.Namespace) -> int:
    from grpo_top.report import inspect_text

    sys.stdout.write(inspect_text(_read(options)))
    return OK


def _read(options: argparse.Namespace) -> Snapshot:
    """Everything that is there now, read to its end."""
    from grpo_top.monitor import Monitor, NothingReadable

    try:
        monitor = Monitor(_where(options), _settings(options), format_name=options.format)
        monitor.read_all()
        monitor.require_readable()
    except (NothingReadable, ValueError) as error:
        raise _Wrong(str(error)) from error
    return monitor.snapshot(finished=True)


def _where(options: argparse.Namespace) -> list[str]:
    return options.where or ["."]


def _settings(options: argparse.Namespace) -> Settings:
    from pathlib import Path

    from grpo_top.config import ConfigError, Settings, find, load

    where = getattr(options, "where", None) or ["."]
    directory = Path(where[0]) if Path(where[0]).is_dir() else None
    if not options.overrides and options.config is None and find(directory) is None:
        return Settings()  # nothing to check against the detectors, so the first frame need not wait for them
    from grpo_top.detectors import BY_ID

    try:
        return load(BY_ID, options.config, directory, options.overrides)
    except ConfigError as error:
        raise _Wrong(str(error)) from error


_VERBS: dict[str, Callable[[argparse.Namespace], int]] = {
    "monitor": _monitor,
    "demo": _demo,
    "check": _check,
    "explain": _explain,
    "inspect": _inspect,
}
_DESCRIPTIONS = {
    "monitor": "Watch a GRPO run: its rollouts live, what is wrong first, and the rollout that proves it.",
    "demo": "The monitor on a recorded real run, played back live.",
    "check": "Read what is there, print triage and findings, exit.",
    "explain": "A detector's page; without ID, the list in triage order.",
    "inspect": "What was found where: sources, formats, records, fields present and missing.",
}
_EPILOG = "Verbs: demo, check, explain, inspect; `grpo-top VERB --help` tells more of each."
