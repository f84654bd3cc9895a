"""Whole lines, cut apart or not."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from grpo_top.sources.lines import Lines

LINES = st.lists(st.binary(max_size=5).map(lambda line: line.replace(b"\n", b"")), max_size=6)


@given(LINES)
def test_lines_are_the_same_whether_they_come_cut_or_uncut(lines: list[bytes]) -> None:
    data = b"".join(line + b"\n" for line in lines)
    for found in (Lines(7, lines, 3), Lines.uncut(7, data, 3)):
        assert (found.offset, found.first_number, found.count) == (7, 3, len(lines))
        assert list(found.lines) == lines
        assert found.data == data
        assert found.ends == [place for place, byte in enumerate(data) if byte == 10]
