"""The process that tries patterns on texts: a pattern that takes forever takes forever here, and can be ended.

Standard input: a line of JSON, a list of [pattern, any case]; then requests: the number of bytes, and the texts, each
with its number of bytes before it. Standard output: for each text one byte, a bit for each pattern that is found.
Nothing but the standard library: it is started without any other path.
"""

from __future__ import annotations

import json
import os
import re
import signal
import warnings

LENGTH = 4
"""Bytes of a number, the most significant first."""
_INPUT, _OUTPUT = 0, 1


def main() -> None:
    """Answer until the input ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # ctrl+c is for who started it
    warnings.simplefilter("ignore")
    requests = os.fdopen(_INPUT, "rb")
    patterns = [
        re.compile(pattern, re.IGNORECASE if any_case else 0)
        for pattern, any_case in json.loads(requests.readline())
    ]
    while size := requests.read(LENGTH):
        request = memoryview(requests.read(int.from_bytes(size, "big")))
        at = 0
        while at < len(request):
            end = at + LENGTH + int.from_bytes(request[at : at + LENGTH], "big")
            text = str(request[at + LENGTH : end], "utf-8", "surrogatepass")
            found = sum(1 << bit for bit, pattern in enumerate(patterns) if pattern.search(text))
            os.write(_OUTPUT, bytes((found,)))
            at = end


if __name__ == "__main__":
    main()
