"""Streaming: the chunks join to the decoded text for every kind of tokenizer, and no chunk is returned too early."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.generation.streaming import TextStream, decode_after, final_length, text_chunks
from regard.tokenizers.tokenizer import Tokenizer
from regard.tokenizers.training import train_tokenizer
from regard.utils.errors import RegardError

TEXTS = [
    "The animal did not cross the street because it was too tired.",
    "L'animal n'a pas traversé la rue parce qu'il était trop fatigué !",
    "naïve façade 🙂👩‍🔬 日本語の文 don't can't « déjà vu »",
] * 3
KINDS = ["char", "word", "bpe", "byte-bpe", "wordpiece"]


@pytest.fixture(scope="module", params=KINDS)
def tokenizer(request: pytest.FixtureRequest) -> Tokenizer:
    return train_tokenizer(TEXTS, kind=request.param, vocab_size=400)


def push_all(decode: object, ids: Sequence[int], byte_ids: Collection[int] = ()) -> list[str]:
    stream = TextStream(decode, byte_ids)  # type: ignore[arg-type]
    return [*(stream.push(i) for i in ids), stream.finish()]


@given(data=st.data())
def test_chunks_join_to_the_decoded_text(tokenizer: Tokenizer, data: st.DataObject) -> None:
    """Any ids: incomplete characters, subwords without the start of their word, special tokens."""
    ids = data.draw(st.lists(st.integers(0, tokenizer.vocab_size - 1), max_size=30))
    assert "".join(push_all(tokenizer.decode, ids, tokenizer.byte_ids)) == tokenizer.decode(ids)


def test_a_run_of_byte_tokens_is_returned_when_complete() -> None:
    """One byte that is not valid UTF-8 makes the whole run undecodable, including the valid bytes before it."""
    tokenizer = train_tokenizer(TEXTS, kind="bpe", vocab_size=400)
    null, tab, half = (tokenizer.vocabulary().index(f"<0x{byte:02X}>") for byte in (0, 9, 128))
    shown = push_all(tokenizer.decode, [null, tab, half], tokenizer.byte_ids)
    assert shown == ["", "", "", "\ufffd" * 3]


@pytest.mark.parametrize("text", TEXTS[:3])
def test_sentences_are_streamed_in_several_chunks(tokenizer: Tokenizer, text: str) -> None:
    ids = tokenizer.encode(text)
    shown = push_all(tokenizer.decode, ids)
    assert "".join(shown) == tokenizer.decode(ids)
    assert sum(bool(chunk) for chunk in shown) > 4  # and not only at the end
    assert "".join(text_chunks(tokenizer.decode, iter(ids), tokenizer.byte_ids)) == tokenizer.decode(ids)
    assert all(text_chunks(tokenizer.decode, ids))


@given(text=st.text(max_size=20))
def test_incomplete_characters_are_held_back(text: str) -> None:
    """One id for each byte: most prefixes end inside a character."""

    def decode(ids: Sequence[int]) -> str:
        return bytes(ids).decode("utf-8", errors="replace")

    shown = push_all(decode, text.encode())
    assert "".join(shown) == text
    if "\ufffd" not in text:
        assert not any("\ufffd" in chunk for chunk in shown)


def test_a_word_is_returned_once_another_follows() -> None:
    words = {0: "un", 1: "believ", 2: "ably", 3: " good", 4: ".", 5: " Yes"}
    shown = push_all(lambda ids: "".join(words[i] for i in ids), [0, 1, 2, 3, 4, 5])
    assert shown == ["", "", "", "unbelievably", "", " good.", " Yes"]


def test_the_last_word_may_be_rewritten() -> None:
    # Some tokenizers join contractions: "do n't" becomes "don't" with its last token.
    texts = ["do", "do n", "do n'", "don't", "don't go"]
    assert push_all(lambda ids: texts[len(ids) - 1], range(5)) == ["", "do", "", "", "n't", " go"]


@pytest.mark.parametrize(
    ("text", "final"),
    [
        ("", ""),
        ("word", ""),
        ("two words", "two"),
        ("two words ", "two words"),
        ("two  \n", "two"),
        ("a b c", "a b"),
        ("日本", "日本"),
        ("日本\ufffd", "日本"),
        ("日本 abc", "日本"),
        ("  ", ""),
    ],
)
def test_final_length(text: str, final: str) -> None:
    assert text[: final_length(text)] == final


def test_rewriting_returned_text_raises() -> None:
    texts = ["one two three", "something else"]
    stream = TextStream(lambda ids: texts[len(ids) - 1])
    assert stream.push(0) == "one two"
    assert stream.push(1) == ""
    with pytest.raises(RegardError) as caught:
        stream.finish()
    assert (caught.value.argument, caught.value.value) == ("decode", "something else")


def test_no_ids_give_no_chunks() -> None:
    assert list(text_chunks(lambda ids: "", [])) == []


def test_decode_after_keeps_the_space_before_the_first_word() -> None:
    words = ["the", "cat", "sat"]

    def decode(ids: Sequence[int]) -> str:
        return " ".join(words[i] for i in ids)

    assert decode_after(decode, [0, 1])([2, 0]) == " sat the"
    assert decode_after(decode, [])([2, 0]) == "sat the"
