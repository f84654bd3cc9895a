"""What the tests of tailing share."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from hypothesis import strategies as st

if TYPE_CHECKING:
    from pathlib import Path

    from grpo_top.sources.files import Tail

# Few letters, so that newlines, halves of characters and look-alike rewrites are common.
CONTENT = st.lists(
    st.sampled_from([b"\n", b"\r\n", b"a", b"bc", "é€😀".encode(), b"\0", b'{"x": 1}', b"\xff"]), max_size=40
).map(b"".join)


def pieces_of(content: bytes) -> st.SearchStrategy[list[bytes]]:
    """Every way to cut `content` into pieces."""
    cuts = st.lists(st.integers(0, len(content)), max_size=8).map(sorted)
    return cuts.map(lambda at: [content[a:b] for a, b in itertools.pairwise([0, *at, len(content)])])


def append(path: Path, data: bytes) -> None:
    with path.open("ab") as file:
        file.write(data)


def drain(tail: Tail, budget: int = 1 << 20) -> list[bytes]:
    """All lines that are there now."""
    lines: list[bytes] = []
    while (found := tail.read(budget)) is not None:
        lines += found.lines
    return lines


def drain_located(tail: Tail, budget: int = 1 << 20) -> list[tuple[int, bytes]]:
    """All lines that are there now, each with the offset that follows from the rule of `Lines`."""
    located: list[tuple[int, bytes]] = []
    while (found := tail.read(budget)) is not None:
        offset = found.offset
        for line in found.lines:
            located.append((offset, line))
            offset += len(line) + 1
    return located
