"""`grpo-top`: reads the command line and hands over to a verb.

Nothing heavy is imported before it is needed: neither Textual, httpx nor numpy for `--version` and `--help`.
"""

from __future__ import annotations

import atexit
import gc
import io
import os
import sys

from grpo_top import __version__

TYPE_CHECKING = (
    False  # as typing's, without its import: `--version` should cost little more than Python itself
)
if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

VERBS = ("demo", "check", "explain", "inspect", "grades", "report", "serve", "config", "completion")


def main(argv: Sequence[str] | None = None) -> int:
    """Run `grpo-top` with these arguments (else the process's); the exit status."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if arguments == ["--version"]:
        print(f"grpo-top {__version__}")
        return 0
    verb = arguments.pop(0) if arguments and arguments[0] in VERBS else "monitor"
    # Python's last looks for garbage, over all that was imported, take 30 ms; the process's end gives all back.
    atexit.register(gc.freeze)
    if verb == "check":
        # Hardly anything of it is garbage in cycles; to look for that among all that is imported takes longer than to
        # judge a few hundred steps.
        gc.set_threshold(200_000)
    # Nothing multiplies matrices here, and to begin NumPy's threads takes as long as to import it.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    from grpo_top import defects
    from grpo_top.commands.opening import FAILED, INTERRUPTED, OK, WRONG, Wrong
    from grpo_top.leaving import told, with_its_terminal
    from grpo_top.options import parser

    for stream in (sys.stdout, sys.stderr):
        if isinstance(
            stream, io.TextIOWrapper
        ):  # what a terminal's encoding has no bytes for is a question mark
            stream.reconfigure(errors="replace")
    try:
        with told(), with_its_terminal():
            options = parser(verb).parse_args(arguments)
            options.verb = verb if verb in ("check", "inspect", "grades", "report") else ""
            if getattr(options, "debug", False):
                _log(verb, options)
            return _run(verb, options)
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        sys.stderr.close()  # the reader of the pipe has gone; there is nobody left to tell
        return OK
    except Wrong as error:
        print(f"grpo-top: {error}", file=sys.stderr)
        return WRONG
    except OSError as error:  # a full disk, a terminal that has gone: the machine's trouble, in one line
        print(f"grpo-top: {_where(error)}{error.strerror or error}", file=sys.stderr)
        return WRONG
    except Exception as error:  # a traceback may quote what a model wrote
        print(f"grpo-top: {defects.defect('this call', error, 'failed')}", file=sys.stderr)
        return FAILED


def _log(verb: str, options: argparse.Namespace) -> None:
    """Begin the log, and say where it is: on standard error, before any screen."""
    from grpo_top import debug_log

    try:
        said = f"what it does is logged in {debug_log.begin(verb, texts=options.debug_texts)}"
    except OSError as error:
        said = f"what it does cannot be logged: {_where(error)}{error.strerror or error}"
    print(f"grpo-top: {said}", file=sys.stderr)


def _where(error: OSError) -> str:
    from grpo_top.text import safe

    return f"{safe(str(error.filename))}: " if error.filename else ""


def _run(verb: str, options: argparse.Namespace) -> int:
    from grpo_top.commands import checking, serving, showing, telling

    verbs = {
        "monitor": showing.monitor,
        "demo": showing.demo,
        "check": checking.check,
        "explain": telling.explain,
        "inspect": telling.inspect,
        "grades": telling.grades,
        "report": telling.report,
        "serve": serving.serve,
        "config": telling.config,
        "completion": telling.completion,
    }
    return verbs[verb](options)
