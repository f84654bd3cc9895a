"""Texts measured together: the same as each of them measured by itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from grpo_top.completions import measure_texts, text_key
from grpo_top.text import ends_in_loop, folded, gibberish, normalised

if TYPE_CHECKING:
    from collections.abc import Callable

ODD = (
    " \n\t\r\x0b\x0c\x1c\x1f\x00\x7f\x85\xa0\u1680\u2000\u200a\u200b\u2028\u202f\u205f\u3000"
    "\ufffd\ue000\uf8ff\ud800ab<[｜’。"
)
CHARACTERS = st.one_of(st.characters(exclude_categories=()), st.sampled_from(list(ODD)))
TEXTS = st.one_of(
    st.text(CHARACTERS, max_size=60),
    st.builds(lambda text, times: text * times, st.text(CHARACTERS, max_size=12), st.integers(1, 30)),
    st.builds(
        lambda token, times, rest: token * times + rest,
        st.sampled_from(["<pad>", "[PAD]", "<｜a b｜>", "<|endoftext|>\n"]),
        st.integers(1, 5),
        st.text(CHARACTERS, max_size=40),
    ),
)


@given(st.lists(TEXTS, max_size=8))
@example([])
@example(["", " ", "\n\n", "a"])
@example(["a\u00a0b", "a b", "a\nb"])
@example(["x" * 200_000, "", "y z", "x" * 200_000])
def test_texts_measured_together_are_measured_as_one_by_one(texts: list[str]) -> None:
    measures = measure_texts(texts)
    assert measures.loops == [ends_in_loop(text) for text in texts]
    assert measures.gibberish == [gibberish(text) for text in texts]
    assert measures.keys == [text_key(text) for text in texts]


PADDING = (
    *(
        "<｜a b｜>",
        "<|pad|>",
        "<endoftext>",
        "<|end_of_text|>",
        "<|finetune_right_pad_id|>",
        "<|vision_pad|>",
    ),
    *("<|image_pad|>", "<eos>", "<bos>", "<unk>", "<mask>", "<s>", "</s>", "<|im_end|>", "<|im_start|>"),
    *("<|eot_id|>", "<|reserved_special_token_7|>", "<extra_id_0>", "<unused3>", "[PAD]", "[UNK]", "[MASK]"),
)


@pytest.mark.parametrize("token", [*PADDING, "<ſ>", "</ſ>", "<ımage_pad>"])
@pytest.mark.parametrize("written", [str, str.lower, str.upper])
def test_no_padding_token_is_overlooked_among_other_texts(token: str, written: Callable[[str], str]) -> None:
    texts = ["a < b, x[0]", f"{written(token)} ok {written(token)}", "<think> a </think>"]
    assert measure_texts(texts).gibberish == [gibberish(text) for text in texts] == [False, True, False]


@given(TEXTS, TEXTS)
@example("a  b\n", "a b")
@example("a\u3000b", "a b")
@example("ab", "a b")
def test_keys_are_equal_exactly_where_texts_are_with_white_space_folded(one: str, other: str) -> None:
    first, second = measure_texts([one, other]).keys
    assert (first == second) == (normalised(one) == normalised(other))
    assert first != 0


@given(TEXTS)
def test_a_folded_text_is_the_normalised_one_in_utf_8(text: str) -> None:
    assert folded(text) == normalised(text).encode("utf-8", "surrogatepass")
