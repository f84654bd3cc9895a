"""`python -m tests.fuzz.patience`: no reader of lines takes long over a line, however it repeats itself.

A pattern that goes back over what it has read takes four times as long over twice the line: it is found by the clock.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

TESTS = Path(__file__).parent.parent
sys.path += [str(TESTS), str(TESTS / "formats")]

import test_formats_every_reader as readers  # noqa: E402  (on the path from here on)

from grpo_top.formats.base import Lines  # noqa: E402

LENGTH = 40_000
LIMIT = 0.25
"""Seconds of processor time: a hundred times what a line of that length takes."""
PARTS = tuple(
    part.encode()
    for part in (
        *(
            " ",
            "a",
            "0",
            "1.",
            "(",
            "[",
            "{",
            "'",
            '"',
            ":",
            "=",
            "|",
            "-",
            ",",
            ";",
            "/",
            "\\",
            "\t",
            "<a>",
            "1_",
        ),
        *(
            " - ",
            "a: ",
            "a:1 - ",
            "'a': 1, ",
            '"a": 1, ',
            "a=1, ",
            "a/",
            "a.b",
            "1e",
            "100%|",
            "│ ",
            "│a",
            ", ",
        ),
        *("\x1b[0m", "step ", "Step 1", "2024-01-01 ", "np.float64(", "tensor(", "{'a': ", "[INFO] "),
    )
)


def main() -> int:
    """Feed every reader lines of one part over and over, after nothing and after the beginning of a real line."""
    slow = []
    names = {type(readers.reader_of(name)): name for name in readers.of_feed("lines")}
    for kind, name in names.items():
        begins = {b""}
        for line in readers.EXAMPLES[name][1].split(b"\n")[:3]:
            begins |= {line, line[: len(line) // 2]}
        for part in PARTS:
            for begin in begins:
                line = begin + part * (LENGTH // len(part))
                reader = readers.reader_of(name)
                start = time.process_time()
                reader.feed(Lines(0, [line], 1))
                spent = time.process_time() - start
                if spent > LIMIT:
                    slow.append(
                        f"{kind.__module__}.{kind.__name__}: {part!r} after {begin[:60]!r}: {spent:.2f} s"
                    )
    sys.stdout.write("\n".join([*slow, f"{len(names)} readers, {len(PARTS)} parts, {len(slow)} slow"]) + "\n")
    return int(bool(slow))


if __name__ == "__main__":
    sys.exit(main())
