"""The options of every verb. Nothing heavy is imported for `--help`."""

from __future__ import annotations

import argparse
from pathlib import Path

from grpo_top import __version__
from grpo_top.endpoint_options import add_endpoints

DESCRIPTIONS = {
    "monitor": "Watch a GRPO run: its rollouts live, what is wrong first, and the rollout that proves it.",
    "demo": "The monitor on a recorded real run, played back live.",
    "check": "Read what is there, print triage and findings, exit.",
    "explain": "A detector's page; without ID, the list in triage order.",
    "inspect": "What was found where: sources, formats, records, fields present and missing.",
    "serve": "Hand a run to a grpo-top on another machine: read-only HTTP, on loopback unless told otherwise.",
    "config": "Every setting with its value and where that comes from, as a settings file.",
    "completion": "Completion for a shell, to be evaluated where it starts.",
    "report": "Write a run's picture to one file that opens without a network: HTML, or Markdown to paste.",
    "grades": "Hand scores of a run's rollouts, and how far they agree with the pipeline's.",
}
"""Every verb, and what it does; `monitor` is what runs without one."""
_EPILOG = f"Verbs: {', '.join(list(DESCRIPTIONS)[1:])}; `grpo-top VERB --help` tells more of each."


def parser(verb: str) -> argparse.ArgumentParser:
    """What reads a verb's options."""
    name = "grpo-top" if verb == "monitor" else f"grpo-top {verb}"
    made = argparse.ArgumentParser(
        prog=name, description=DESCRIPTIONS[verb], epilog=_EPILOG if verb == "monitor" else None
    )
    if verb == "monitor":
        made.add_argument("--version", action="version", version=f"grpo-top {__version__}")
    if verb == "explain":
        made.add_argument(
            "id", nargs="?", metavar="ID", help="a detector; without it, the list in triage order"
        )
        _add_settings(made)
        return made
    if verb == "completion":
        made.add_argument("shell", choices=("bash", "zsh", "fish"), metavar="SHELL", help="bash, zsh or fish")
        return made
    if verb == "config":
        made.add_argument(
            "where",
            nargs="*",
            metavar="WHERE",
            help="the run directory whose settings file counts (default: here)",
        )
        _add_settings(made)
        return made
    if verb == "demo":
        made.add_argument(
            "--fault", metavar="NAME", default="sampler_cold", help="which recording (default: sampler_cold)"
        )
        made.add_argument(
            "--speed", metavar="X", type=float, default=1.0, help="how many times quicker (default: 1)"
        )
        made.add_argument("--list", action="store_true", help="name the recordings and end")
        _add_debug(made)
        _add_screen(made)
        _add_settings(made)
        return made
    made.add_argument(
        "where", nargs="*", metavar="WHERE", help="a run directory, a log file or a glob (default: here)"
    )
    made.add_argument("--format", metavar="NAME", help="read everything as this format, when sniffing errs")
    _add_debug(made)
    _add_settings(made)
    _add_which_run(made)
    if verb in ("monitor", "check", "inspect", "report"):
        made.add_argument(
            "--since",
            metavar="STEP",
            type=_step,
            help="read from this step on, as if the run began there",
        )
    if verb in ("monitor", "check", "report"):
        made.add_argument(
            "--reference",
            metavar="RUN",
            help="another run behind this one, by step; self:FROM-TO: an earlier part of this one",
        )
    add_endpoints(made)
    if verb in ("check", "inspect"):
        made.add_argument("--all", action="store_true", help="of several runs, take each, one after another")
    if verb == "check":
        made.add_argument("--json", action="store_true", help="one JSON object, grpo-top/check/1")
        made.add_argument("--series", action="store_true", help="with --json: every series as well")
        made.add_argument(
            "--fail-on",
            choices=("warn", "fail", "never"),
            default="fail",
            help="when to exit with 1 (default: fail)",
        )
        made.add_argument(
            "--follow",
            action="store_true",
            help="go on reading, and print a line for each change of a finding",
        )
        made.add_argument(
            "--for",
            metavar="SECONDS",
            type=float,
            dest="seconds",
            help="with --follow: for so long (default: until the run ends)",
        )
        made.add_argument(
            "--on-finding",
            metavar="COMMAND",
            help="with --follow: a shell command that gets each new warning or failure as JSON on standard input",
        )
    if verb == "report":
        made.add_argument(
            "--out",
            metavar="FILE",
            type=Path,
            required=True,
            help="what to write, by its name: FILE.html or FILE.md",
        )
    if verb == "serve":
        made.add_argument(
            "--host", default="127.0.0.1", help="address to listen on; any but loopback needs a token"
        )
        made.add_argument("--port", type=int, default=8722, help="0: any that is free (default: 8722)")
        made.add_argument(
            "--token-file",
            metavar="FILE",
            type=Path,
            help="what readers must send as `Authorization: Bearer TOKEN`; else GRPO_TOP_TOKEN, if that is set",
        )
    if verb == "grades":
        made.add_argument("--json", action="store_true", help="one JSON object, grpo-top/grades/1")
    if verb == "monitor":
        _add_screen(made)
    return made


def _step(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text} is no step: a whole number from 0 up")
    return int(text)


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


def _add_screen(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--ascii", action="store_true", help="plain ASCII marks, boxes and charts")
    parser.add_argument(
        "--theme", choices=("dark", "light", "ansi"), help="colours (default: dark, ansi where there are few)"
    )
