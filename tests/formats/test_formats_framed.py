"""The two framings of binary logs: whole records are given whatever is cut, and damage costs as little as it can."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tracker_messages import WANDB_HEADER, leveldb_log, tf_record

from grpo_top.formats.framed import Frame, LevelDbLog, TfRecords, crc32c
from grpo_top.records import Skipped

PAYLOADS = [b"", b"a", b"record " * 9, bytes(range(256)) * 300, b"x" * 70_000, b"last"]
FILES = {
    TfRecords: b"".join(map(tf_record, PAYLOADS)),
    LevelDbLog: leveldb_log(WANDB_HEADER, PAYLOADS),
}


def read(framing, data, cuts=()):
    """What comes out of `data` in pieces, and what is left of it."""
    found, start = [], 0
    for end in (*sorted(cuts), len(data)):
        found += framing.feed(data[start:end])
        start = max(start, end)
    return found, framing.rest()


def payloads(found):
    return [frame.payload for frame in found if isinstance(frame, Frame)]


def test_the_checksum_is_that_of_castagnoli():
    assert [crc32c(data) for data in (b"", b"a", b"123456789", bytes(32))] == [
        0,
        0xC1D04330,
        0xE3069283,
        0x8A9136AA,
    ]


@pytest.mark.parametrize("framing", FILES)
def test_all_records_of_a_whole_file_are_given(framing):
    found, rest = read(framing(), FILES[framing])
    assert payloads(found) == PAYLOADS
    assert rest is None


@pytest.mark.parametrize("framing", FILES)
def test_a_record_lies_where_it_says(framing):
    data = FILES[framing]
    for frame in read(framing(), data)[0]:
        at, length = frame.location.offset, frame.location.length
        again = framing()
        if framing is TfRecords:
            assert payloads(again.feed(data[at : at + length])) == [frame.payload]
        else:
            assert at + length <= len(data)


@pytest.mark.parametrize("framing", FILES)
@given(cuts=st.lists(st.integers(0, 300_000), max_size=12))
def test_any_cut_into_pieces_gives_the_same(framing, cuts):
    assert read(framing(), FILES[framing], cuts) == read(framing(), FILES[framing])


@pytest.mark.parametrize("framing", FILES)
@given(end=st.integers(0, 300_000))
def test_of_a_file_that_is_cut_short_what_is_whole_is_given_and_the_rest_said_once(framing, end):
    data = FILES[framing]
    found, rest = read(framing(), data[:end])
    assert payloads(found) == PAYLOADS[: len(found)]
    if end >= len(data):
        assert rest is None
    elif rest is not None:
        assert rest.reason.startswith("record cut short")
        assert rest.offset <= end


@given(place=st.integers(0, 1 << 20), bit=st.integers(0, 7))
def test_a_flipped_bit_costs_one_record_or_all_that_follows_it_in_a_tfrecord_file(place, bit):
    records = [f"record {number:02} ".encode() * 4 for number in range(40)]
    data = bytearray(b"".join(map(tf_record, records)))
    data[place % len(data)] ^= 1 << bit
    found, rest = read(TfRecords(), bytes(data))
    skipped = [record for record in found if isinstance(record, Skipped)]
    assert len(skipped) == 1
    assert rest is None
    kept = payloads(found)
    lost = skipped[0].offset // len(tf_record(records[0]))
    after = records[lost + 1 :] if skipped[0].reason.startswith("damaged record") else []
    assert kept == records[:lost] + after


@given(place=st.integers(7, 1 << 20), bit=st.integers(0, 7))
def test_a_flipped_bit_costs_one_block_of_a_leveldb_log(place, bit):
    records = [f"record {number} ".encode() * 20 for number in range(900)]
    data = bytearray(leveldb_log(WANDB_HEADER, records))
    place = 7 + place % (len(data) - 7)
    data[place] ^= 1 << bit
    found, rest = read(LevelDbLog(), bytes(data))
    kept = payloads(found)
    assert set(kept) <= set(records)
    block = 32 << 10
    in_block = sum(len(record) + 7 for record in kept)
    assert in_block >= len(data) - 3 * block
    assert sum(isinstance(record, Skipped) for record in found) + (rest is not None) <= 2


def test_a_hole_of_zeros_in_a_leveldb_log_is_no_damage():
    first = leveldb_log(WANDB_HEADER, [b"first"])
    data = first + bytes((32 << 10) - len(first)) + leveldb_log(b"", [b"second"])
    found, rest = read(LevelDbLog(), data)
    assert payloads(found) == [b"first", b"second"]
    assert rest is None
    assert read(LevelDbLog(), first + bytes(100))[1] is None


def test_a_record_whose_end_was_never_written_is_said_when_the_next_one_begins():
    whole = leveldb_log(WANDB_HEADER, [b"x" * 60_000])
    data = whole[: 32 << 10] + leveldb_log(b"", [b"next"])
    found, rest = read(LevelDbLog(), data)
    assert [getattr(record, "reason", None) for record in found] == ["record whose end is missing", None]
    assert payloads(found) == [b"next"]
    assert rest is None


def test_a_record_longer_than_is_read_is_let_go_and_the_next_one_read(monkeypatch):
    monkeypatch.setattr("grpo_top.formats.framed.LONGEST", 1000)
    for framing, data in (
        (TfRecords(), tf_record(b"a") + tf_record(bytes(5000)) + tf_record(b"b")),
        (LevelDbLog(), leveldb_log(WANDB_HEADER, [b"a", b"x" * 90_000, b"b"])),
    ):
        found, rest = read(framing, data, range(0, len(data), 700))
        assert payloads(found) == [b"a", b"b"]
        (skipped,) = (record for record in found if isinstance(record, Skipped))
        assert "longer than is read" in skipped.reason
        assert rest is None


@pytest.mark.parametrize("framing", FILES)
@given(data=st.binary(max_size=400))
def test_no_bytes_make_a_framing_fail(framing, data):
    read(framing(), data)
    read(framing(), FILES[framing][:50] + data)
