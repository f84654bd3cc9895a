"""The wire format of protocol buffers is read without a schema, and nothing in it can crash the reader."""

import struct
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tracker_messages import field

from grpo_top.formats.wire import double, fields, messages, numbers, signed, texts


def test_fields_come_in_order_with_their_numbers():
    message = field(1, "name") + field(300, 7) + field(5, 0.5) + field(1, "again")
    assert list(fields(message)) == [(1, b"name"), (300, 7), (5, struct.pack("<d", 0.5)), (1, b"again")]


@given(st.integers(-(2**63), 2**63 - 1))
def test_integers_of_any_size_and_sign_are_read(value):
    ((_, found),) = fields(field(3, value))
    assert signed(found) == value


def test_a_float_may_have_four_bytes_or_eight():
    assert double(struct.pack("<f", 0.25)) == double(struct.pack("<d", 0.25)) == 0.25
    with pytest.raises(ValueError, match="number that is none"):
        double(b"abc")


def test_messages_lie_in_messages():
    inner = field(1, "key") + field(2, 12)
    message = field(4, inner) + field(4, inner) + field(9, 1)
    assert [(texts(found), numbers(found)) for found in messages(message, 4)] == [({1: "key"}, {2: 12})] * 2


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (b"\x0a\x05ab", "a field that is cut short"),
        (b"\x08\x80", "an integer that is cut short"),
        (b"\x08" + b"\xff" * 12, "an endless integer"),
        (b"\x0b\x00", "a field of unknown kind 3"),
        (b"\x0d\x00", "a field that is cut short"),
    ],
)
def test_what_is_no_message_is_refused_with_a_reason(message, reason):
    with pytest.raises(ValueError, match=reason):
        list(fields(message))


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(message):
    with suppress(ValueError):
        for _, value in fields(message):
            assert isinstance(value, int | bytes)
