import json
import math
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grpo_top.formats.decode import (
    bare,
    head_records,
    integer,
    number,
    numbers,
    parse,
    text,
    timestamp,
    written,
)

plain_json = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=10,
)


@given(plain_json)
def test_what_json_writes_is_read_back(value):
    assert parse(json.dumps(value).encode()) == value


@pytest.mark.parametrize("spelling", ["NaN", "Infinity", "-Infinity"])
def test_bare_nonfinite_numbers_are_read_as_what_they_say(spelling):
    found = parse(b'{"loss": %s}' % spelling.encode())["loss"]
    assert found == float(spelling) or math.isnan(found)


def test_integers_of_any_length_are_read():
    assert number(parse(b"1" + b"0" * 400)) == math.inf
    assert number(parse(b"-1" + b"0" * 10_000)) == -math.inf
    assert parse(b"18446744073709551616") == 18446744073709551616


def test_of_equal_keys_the_last_wins():
    assert parse(b'{"a": 1, "a": NaN, "a": 2}') == {"a": 2}


def test_lone_surrogates_become_characters_that_can_be_written():
    found = parse(b'{"completion": "\\ud83d", "ok": "\\ud83d\\ude00"}')
    assert found["completion"].encode() == b"?"
    assert found["ok"] == "😀"


def test_bytes_that_are_no_utf8_become_replacement_characters():
    assert parse(b'{"completion": "a\xffb"}') == {"completion": "a\ufffdb"}


@pytest.mark.parametrize(
    "line", [b"", b"{", b'{"a": 1', b"{'a': 1}", b"step 3", b'{"a": 1}{"b": 2}', b"\x00\x01"]
)
def test_what_is_no_json_gives_a_short_reason(line):
    with pytest.raises(ValueError, match=r"\A[^\n]{1,80}\Z"):
        parse(line)


def test_what_is_nested_too_deeply_gives_a_reason():
    with pytest.raises(ValueError, match="nested too deeply"):
        parse(b"[" * 100_000 + b"]" * 100_000)


@given(st.binary(max_size=200))
def test_no_bytes_do_worse_than_a_reason(line):
    with suppress(ValueError):
        parse(line)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (3, 3.0),
        (0.5, 0.5),
        (True, 1.0),
        ("0.4062", 0.4062),
        ("np.float64(0.41)", 0.41),
        ("np.int32(2)", 2.0),
        ("tensor(0.5, device='cuda:0')", 0.5),
        ("-inf", -math.inf),
        ("Infinity", math.inf),
        ("np.float32(-inf)", -math.inf),
        (10**400, math.inf),
        (None, None),
        ("True", None),
        ("12/500", None),
        ("1_000", None),
        ("", None),
        ([1], None),
        ({}, None),
    ],
)
def test_number_reads_every_spelling(value, expected):
    assert number(value) == expected


@pytest.mark.parametrize("value", ["NaN", "nan", "np.float64(nan)", math.nan])
def test_number_keeps_nan(value):
    assert math.isnan(number(value))


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (3, 3),
        (3.0, 3),
        ("12", 12),
        (2.5, None),
        (True, None),
        (None, None),
        (math.inf, None),
        (2**63, None),
        (-(2**63), -(2**63)),
    ],
)
def test_integer_takes_whole_numbers_that_a_column_can_hold(value, expected):
    assert integer(value) == expected


def test_text_takes_strings_and_numbers_that_name_something():
    assert [text(value) for value in ("g1", 3, None, True, ["g"])] == ["g1", "3", None, None, None]


def test_written_gives_structures_as_json_and_nothing_for_what_is_empty():
    assert written({"type": "timeout"}) == '{"type": "timeout"}'
    assert [written(value) for value in ("", None, False, [], 0)] == [None, None, None, None, "0"]


def test_timestamp_reads_seconds_and_dates():
    assert timestamp(1760000000) == 1760000000
    assert timestamp("2026-03-01T11:00:27+00:00") == 1772362827
    assert [timestamp(value) for value in ("yesterday", None, math.nan, [])] == [None] * 4


def test_numbers_leaves_out_what_is_none():
    assert numbers({"loss": "0.1", "kl": None, "note": "x", "ok": True}) == {
        "loss": 0.1,
        "kl": None,
        "ok": 1.0,
    }
    assert numbers([1, 2]) == {}


def test_bare_strips_what_is_no_part_of_a_line():
    assert bare(b"\xef\xbb\xbf{}\r") == b"{}"
    assert bare(b"\x00\x00\x00{} ") == b"{}"


def test_a_head_gives_its_first_records_without_the_one_that_is_cut():
    assert head_records(b'{"step": 1}\nnoise\n{"step": 2}\n{"st') == ({"step": 1}, {"step": 2})


def test_a_first_record_longer_than_the_head_gives_the_fields_that_were_reached():
    assert head_records(b'{"step": 3, "input": "2+2", "output": "' + b"a" * 1000) == (
        {"step": 3, "input": "2+2", "output": None},
    )
    assert head_records(b'{"step": 3, "inp') == ({"step": 3},)
