import re
from pathlib import PurePath

import pytest
from format_reading import batches, fed, of
from hypothesis import given
from hypothesis import strategies as st

from grpo_top.formats.areal import TableReader as ArealReader
from grpo_top.formats.nemo_rl import ResultsReader
from grpo_top.formats.printed_blocks import Block, BlockReader, Heading, Numbers, block_claim, cells
from grpo_top.formats.registry import choose
from grpo_top.formats.skyrl import StepReader
from grpo_top.formats.tinker import TableReader as TinkerReader
from grpo_top.records import Step


class Plain(BlockReader):
    """`# 3`, then `a=1`, until `end`."""

    mark = b"#"
    patience = 3

    def fresh(self) -> "Plain":
        return Plain()

    def heading(self, text: str) -> Heading | None:
        found = re.fullmatch(r"# (\d+)", text)
        return Heading(int(found[1])) if found else None

    def numbers(self, text: str) -> Numbers:
        name, equals, value = text.partition("=")
        return {name: float(value)} if equals else {}

    def ends(self, text: str) -> bool:
        return text == "end"

    def records(self, block: Block) -> list[Step]:
        return [Step(block.heading.step, block.numbers, location=block.location)]


def steps(text: str) -> list[tuple[int, dict[str, float | None]]]:
    return [(step.step, step.metrics) for step in of(Step, fed(Plain(), text.encode()))]


def test_a_block_is_a_heading_its_numbers_and_an_end():
    assert steps("x\n# 3\na=1\nb=2\nend\nc=3\n") == [(3, {"a": 1.0, "b": 2.0})]


def test_the_next_heading_ends_a_block_too():
    assert steps("# 3\na=1\n# 4\nb=2\n") == [(3, {"a": 1.0}), (4, {"b": 2.0})]


def test_a_block_without_numbers_is_none():
    assert steps("# 3\nend\n# 4\n") == []


def test_lines_between_its_numbers_are_let_pass():
    assert steps("# 3\na=1\nnoise\nb=2\nend\n") == [(3, {"a": 1.0, "b": 2.0})]


def test_a_block_that_falls_silent_has_ended():
    assert steps("# 3\na=1\n1\n2\n3\n4\nb=2\nend\n") == [(3, {"a": 1.0})]


def test_a_heading_may_wait_long_for_its_first_number():
    assert steps("# 3\n1\n2\n3\n4\n5\na=1\nend\n") == [(3, {"a": 1.0})]


def test_a_block_lies_where_its_heading_does():
    (step,) = of(Step, fed(Plain(), b"x\n# 3\na=1\nend\n"))
    assert (step.location.offset, step.location.length) == (2, 3)


def test_an_open_block_is_given_in_a_pause_and_again_when_it_has_grown():
    reader = Plain()
    first, second = batches(b"# 3\na=1\nb=2\nend\n", [2])
    assert reader.feed(first) == []
    assert [step.metrics for step in of(Step, reader.idle())] == [{"a": 1.0}]
    assert reader.idle() == []
    assert [step.metrics for step in of(Step, reader.feed(second))] == [{"a": 1.0, "b": 2.0}]


def test_a_table_row_is_cut_at_its_walls():
    assert cells("│ a │ 1 │  │") == ["a", "1", ""]
    assert cells("no row") == []


@pytest.mark.parametrize(
    ("sign", "format_name"),
    [
        (b"skyrl.train.entrypoints", "skyrl"),
        (b"nemo_rl.algorithms", "nemo-rl"),
        (b"tinker_cookbook.rl", "tinker"),
    ],
)
def test_a_log_whose_steps_come_after_a_long_preamble_is_known_by_its_modules(sign, format_name):
    preamble = b"INFO loading " + sign + b"\n" + b"INFO still loading\n" * 4_000
    chosen = choose(PurePath("train.log"), preamble[: 64 << 10])
    assert chosen is not None
    assert (chosen[0].name, chosen[1].role) == (format_name, "console")


def test_binary_files_hold_no_blocks():
    assert block_claim(b"\x00\x01\xff# 3\na=1\nend\n\x00", "x", Plain, b"x") is None


@given(
    st.lists(st.sampled_from(["# 3", "# 4", "a=1", "b=2", "end", "noise", ""]), max_size=14),
    st.sets(st.integers(1, 13)),
)
def test_any_cut_of_the_lines_gives_the_same_records(parts, cuts):
    data = "".join(part + "\n" for part in parts).encode()
    assert fed(Plain(), data, cuts) == fed(Plain(), data)


HOSTILE = ["│ a ", "'a': ", "• A: ", "Step 1", "=", "9", "\x1b]", "{'", "Train step 1/"]


@pytest.mark.timeout(20)
@pytest.mark.parametrize("unit", HOSTILE)
@pytest.mark.parametrize("reader", [ArealReader(), ResultsReader(), StepReader(), TinkerReader()])
def test_no_long_line_holds_the_reader_up(unit, reader):
    opened = b"===== Step 1/2 =====\nTrain step 1/2 done\nStep 1\nStep 1:\n"
    line = unit * (90_000 // len(unit))
    fed(reader.fresh(), opened + line.encode() + b"\n" + line.encode() * 2)
