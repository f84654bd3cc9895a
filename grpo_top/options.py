"""The options of every verb. Nothing heavy is imported for `--help`."""

from __future__ import annotations

import argparse
import math
from pathlib import Path
from typing import NoReturn

from grpo_top import __version__
from grpo_top.endpoint_options import add_endpoints
from grpo_top.spelling import meant

DESCRIPTIONS = {
    "monitor": "Watch a GRPO run live: what is wrong first, and the rollout that proves it.",
    "demo": "The monitor on a recorded real run, played back live.",
    "check": "Read what is there, print what is wrong first and why, exit: for scripts.",
    "explain": "The page of a detector or a topic; without ID, the list in triage order.",
    "inspect": "What was found where: sources, formats, records, fields present and missing.",
    "serve": "Hand a run to a grpo-top on another machine: read-only HTTP, on loopback unless told otherwise.",
    "config": "Every setting with its value and where that comes from, as a settings file.",
    "completion": "Completion for a shell, to be evaluated where it starts.",
    "report": "Write a run's picture to one file that opens without a network: HTML, or Markdown to paste.",
    "grades": "Hand scores of a run's rollouts, and how far they agree with the pipeline's.",
}
"""Every verb, and what it does; `monitor` is what runs without one."""
VERBS = tuple(DESCRIPTIONS)[1:]
WHERE = "a run directory, a log file, a glob or a URL (default: here)"


class OneLine(argparse.ArgumentParser):
    """Says what is wrong with a command line in one line, and names the nearest option."""

    def error(self, message: str) -> NoReturn:
        """End with status 2."""
        unknown, _, words = message.partition(": ")
        if unknown == "unrecognized arguments":
            name = words.split()[0].partition("=")[0]
            near = meant(name, self._option_string_actions, cutoff=0.7)
            message = f"there is no option {name}" + (f"; did you mean {near}?" if near else "")
        self.exit(2, f"{self.prog}: {message}; `{self.prog} --help` lists the options\n")


def parser(verb: str) -> argparse.ArgumentParser:
    """What reads a verb's options."""
    name = "grpo-top" if verb == "monitor" else f"grpo-top {verb}"
    made = OneLine(
        prog=name,
        usage=" ".join(filter(None, (name, _TAKES.get(verb, "[WHERE ...]"), "[options]"))),
        description=DESCRIPTIONS[verb],
        epilog=_verbs() if verb == "monitor" else None,
        formatter_class=_Fixed,
    )
    if verb in _ADD_TO_RUN:
        _add_run(made)
        _ADD_TO_RUN[verb](made)
    else:
        _ADD[verb](made)
    made.formatter_class = (
        argparse.RawDescriptionHelpFormatter if verb == "monitor" else argparse.HelpFormatter
    )
    return made


class _Fixed(argparse.HelpFormatter):
    """Tries out each option as it is added. To ask the terminal's width for that would load all of shutil."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, width=80)


_TAKES = {"completion": "SHELL", "explain": "[ID]", "demo": ""}
"""What stands between a verb and its options; places where it is not here."""


def _explain(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "id",
        nargs="?",
        metavar="ID",
        help="a detector, or triage, symptoms, logging or practice; without it, the list in triage order",
    )
    _add_settings(parser)


def _completion(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", choices=("bash", "zsh", "fish"), metavar="SHELL", help="bash, zsh or fish")


def _config(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "where",
        nargs="*",
        metavar="WHERE",
        help="the run directory whose settings file counts (default: here)",
    )
    _add_settings(parser)


def _demo(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--fault", metavar="NAME", default="sampler_cold", help="which recording (default: sampler_cold)"
    )
    parser.add_argument(
        "--speed", metavar="X", type=_above_zero, default=1.0, help="how many times quicker (default: 1)"
    )
    parser.add_argument("--list", action="store_true", help="name the recordings and end")
    _add_debug(parser)
    _add_screen(parser)
    _add_settings(parser)


def _add_run(parser: argparse.ArgumentParser) -> None:
    """What every verb takes that reads a run."""
    parser.add_argument("where", nargs="*", metavar="WHERE", help=WHERE)
    parser.add_argument("--format", metavar="NAME", help="read everything as this format, when sniffing errs")
    _add_debug(parser)
    _add_settings(parser)
    _add_which_run(parser)
    add_endpoints(parser)


def _monitor(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--version", action="version", version=f"grpo-top {__version__}")
    _add_since(parser)
    _add_reference(parser)
    _add_screen(parser)


def _check(parser: argparse.ArgumentParser) -> None:
    _add_since(parser)
    _add_reference(parser)
    _add_all(parser)
    parser.add_argument("--json", action="store_true", help="one JSON object, grpo-top/check/1")
    parser.add_argument("--series", action="store_true", help="with --json: every series as well")
    parser.add_argument(
        "--fail-on",
        choices=("warn", "fail", "never"),
        default="fail",
        help="when to exit with 1 (default: fail)",
    )
    parser.add_argument(
        "--follow",
        action="store_true",
        help="go on reading, and print a line for each change of a finding",
    )
    parser.add_argument(
        "--for",
        metavar="SECONDS",
        type=_above_zero,
        dest="seconds",
        help="with --follow: for so long once all is read (default: until the run ends)",
    )
    parser.add_argument(
        "--on-finding",
        metavar="COMMAND",
        help="with --follow: a shell command that gets each new warning or failure as JSON on standard input",
    )


def _inspect(parser: argparse.ArgumentParser) -> None:
    _add_since(parser)
    _add_all(parser)


def _report(parser: argparse.ArgumentParser) -> None:
    _add_since(parser)
    _add_reference(parser)
    parser.add_argument(
        "--out",
        metavar="FILE",
        type=Path,
        required=True,
        help="what to write, by its name: FILE.html or FILE.md",
    )


def _serve(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--host", default="127.0.0.1", help="address to listen on; any but loopback needs a token"
    )
    parser.add_argument("--port", type=_port, default=8722, help="0: any that is free (default: 8722)")
    parser.add_argument(
        "--token-file",
        metavar="FILE",
        type=Path,
        help="what readers must send as `Authorization: Bearer TOKEN`; else GRPO_TOP_TOKEN, if that is set",
    )
    parser.add_argument(
        "--spool",
        metavar="SIZE",
        type=_bytes,
        help="what is kept of the records in TMPDIR at most, as 500M or 4G: past it the oldest rollouts "
        "are let go (default: 2G)",
    )


def _grades(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="one JSON object, grpo-top/grades/1")


_ADD = {"explain": _explain, "completion": _completion, "config": _config, "demo": _demo}
"""Verbs that read no run → what adds their options."""
_ADD_TO_RUN = {
    "monitor": _monitor,
    "check": _check,
    "inspect": _inspect,
    "report": _report,
    "serve": _serve,
    "grades": _grades,
}
"""Verbs that read a run → what adds those that are theirs."""


def _verbs() -> str:
    """Every verb and what it does, below the options of the monitor."""
    from textwrap import fill  # noqa: PLC0415

    lines = [
        fill(DESCRIPTIONS[verb], 78, initial_indent=f"  {verb:<12}", subsequent_indent=" " * 14)
        for verb in VERBS
    ]
    return "\n".join(["verbs, each with a --help of its own:", *lines])


def _step(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text} is no step: a whole number from 0 up")
    return int(text)


def _above_zero(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0 < number < math.inf:
        raise argparse.ArgumentTypeError(f"{text} is no number above 0")
    return number


def _port(text: str) -> int:
    if not text.isdecimal() or int(text) > 65_535:
        raise argparse.ArgumentTypeError(
            f"{text} is no port: a whole number up to 65535, 0 for any that is free"
        )
    return int(text)


def _bytes(text: str) -> int:
    number, unit = text[:-1], "KMGT".find(text[-1:].upper()) + 1
    if not unit or not number.isdecimal() or not int(number):
        raise argparse.ArgumentTypeError(f"{text} is no size: a whole number with K, M, G or T behind it")
    return int(number) << 10 * unit


def _add_debug(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--debug",
        action="store_true",
        help="log what grpo-top does to a file in your state directory (no secrets, no texts of rollouts)",
    )
    parser.add_argument(
        "--debug-texts", action="store_true", help="with --debug: errors in full, which may quote rollouts"
    )


def _add_settings(parser: argparse.ArgumentParser) -> None:
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


def _add_which_run(parser: argparse.ArgumentParser) -> None:
    which = parser.add_mutually_exclusive_group()
    which.add_argument(
        "--run", metavar="NAME", help="of several runs, the one of that name, folder or tracker's id"
    )
    which.add_argument(
        "--one-run", action="store_true", help="everything that is there is one run, whatever it looks like"
    )


def _add_since(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--since", metavar="STEP", type=_step, help="read from this step on, as if the run began there"
    )


def _add_reference(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--reference",
        metavar="RUN",
        help="another run behind this one, by step; self:FROM-TO: an earlier part of this one",
    )


def _add_all(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--all", action="store_true", help="of several runs, take each, one after another")


def _add_screen(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--ascii", action="store_true", help="plain ASCII marks, boxes and charts")
    parser.add_argument(
        "--theme", choices=("dark", "light", "ansi"), help="colours (default: dark, ansi where there are few)"
    )
