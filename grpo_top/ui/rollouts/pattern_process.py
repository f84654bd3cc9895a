"""Tries patterns on texts in a process of its own, which is ended where one text takes it too long.

Python's patterns can take longer than anybody lives, and hold up every thread of their process while they do.
"""

from __future__ import annotations

import inspect
import json
import os
import select
import subprocess
import sys
from typing import TYPE_CHECKING

from grpo_top.ui.rollouts import pattern_helper
from grpo_top.ui.rollouts.pattern_helper import LENGTH

if TYPE_CHECKING:
    from collections.abc import Sequence

MOST = 8
"""Patterns that are tried at once: a bit of a byte each."""
SECONDS, SECONDS_A_MEGABYTE = 0.5, 0.5
"""Which a text, and each megabyte of it, may take."""
UNKNOWN = -1
"""In place of bits: the text took too long."""
_REQUEST = 1 << 20
"""Bytes of a request, unless one text has more."""
_START_SECONDS = 10.0


class TooSlow(Exception):
    """More texts than are put up with took too long."""


class PatternProcess:
    """Patterns, each with whether the case of letters does not matter. A context: the process ends with it.

    Args:
        most_slow: texts that take too long before TooSlow is raised.
    """

    def __init__(self, patterns: Sequence[tuple[str, bool]], most_slow: int = 3) -> None:
        self.slow = 0
        """Texts that took too long."""
        self._patterns = list(patterns)[:MOST]
        self._most_slow = most_slow
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> PatternProcess:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def found(self, texts: Sequence[str]) -> list[int]:
        """For each text a bit for each pattern that is found in it, or UNKNOWN.

        OSError where there can be no process, TooSlow after too many texts that took too long.
        """
        encoded = [text.encode("utf-8", "surrogatepass") for text in texts]
        results: list[int] = []
        while len(results) < len(encoded):
            results += self._ask(encoded[len(results) :])
        return results

    def interrupt(self) -> None:
        """Let what is being asked end in an OSError. Safe from any thread."""
        process = self._process
        if process is not None:
            process.kill()

    def close(self) -> None:
        """End the process; the next question starts another."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()
            for stream in (process.stdin, process.stdout):
                if stream is not None:
                    stream.close()

    def _ask(self, texts: Sequence[bytes]) -> list[int]:
        """What is found in the first of the texts: in as many as one request holds, or up to one that is too slow."""
        few, size = 0, 0
        while few < len(texts) and (not few or size + len(texts[few]) <= _REQUEST):
            size += len(texts[few]) + LENGTH
            few += 1
        first = self._process is None
        process = self._process or self._started()
        if process.stdin is None or process.stdout is None:
            raise OSError("the process for patterns cannot be talked to")
        request = b"".join(len(text).to_bytes(LENGTH, "big") + text for text in texts[:few])
        process.stdin.write(len(request).to_bytes(LENGTH, "big") + request)
        process.stdin.flush()
        answers: list[int] = []
        while len(answers) < few:
            seconds = SECONDS + SECONDS_A_MEGABYTE * len(texts[len(answers)]) / 1e6
            ready, _, _ = select.select([process.stdout], [], [], seconds + (_START_SECONDS if first else 0))
            first = False
            if not ready:
                self._give_up()
                return [*answers, UNKNOWN]
            answer = os.read(process.stdout.fileno(), few)
            if not answer:
                raise OSError("the process for patterns has ended")
            answers += answer
        return answers

    def _give_up(self) -> None:
        """On one text."""
        self.close()
        self.slow += 1
        if self.slow >= self._most_slow:
            raise TooSlow

    def _started(self) -> subprocess.Popen[bytes]:
        # By its text and not by its path: the package may lie in an archive.
        command = [sys.executable, "-I", "-S", "-c", inspect.getsource(pattern_helper)]
        process = subprocess.Popen(  # noqa: S603  our own code on the interpreter that runs
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        self._process = process
        if process.stdin is not None:
            process.stdin.write(json.dumps(self._patterns).encode() + b"\n")
        return process
