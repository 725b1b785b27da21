"""Trained vocabularies, checked against examples by hand, and invalid arguments of training."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from regard.tokenizers.tokenizer import BERT_SPECIAL_TOKENS, SpecialTokens, Tokenizer
from regard.tokenizers.training import KINDS, train_tokenizer
from regard.utils.errors import DataError, UsageError

TEXTS = ["low lower lowest", "new newer newest", "wide wider widest", "the low new wide thing"] * 3


def test_m3_bpe_three_merges() -> None:
    # Gage's example: aa → Z, ab → Y, ZY → X leaves X d X a c.
    tokenizer = train_tokenizer(["aaabdaaabac"], kind="byte-bpe", vocab_size=4 + 256 + 3)
    assert tokenizer.vocab_size == 263
    assert tokenizer.vocabulary()[-3:] == ["aa", "ab", "aaab"]
    assert tokenizer.tokens(tokenizer.encode("aaabdaaabac")) == ["aaab", "d", "aaab", "a", "c"]
    [steps] = tokenizer.derivation("aaabdaaabac")
    assert steps[0] == "a a a b d a a a b a c"
    assert steps[-1] == "aaab d aaab a c"


def test_m3_wordpiece_prefixes_the_later_tokens_of_a_word() -> None:
    tokenizer = train_tokenizer(TEXTS, kind="wordpiece", vocab_size=60)
    assert tokenizer.tokens(tokenizer.encode("low")) == ["low"]
    tokens = tokenizer.tokens(tokenizer.encode("lowing"))
    assert len(tokens) > 1
    assert not tokens[0].startswith("##")
    assert all(token.startswith("##") for token in tokens[1:])
    assert tokenizer.decode(tokenizer.encode("lowing")) == "lowing"


def test_m3_every_whole_word_of_a_wordpiece_vocabulary_is_one_token() -> None:
    tokenizer = train_tokenizer(TEXTS, kind="wordpiece", vocab_size=80)
    whole = [token for token in tokenizer.vocabulary()[4:] if not token.startswith("##")]
    assert {"low", "new", "wide"} <= set(whole)
    assert all(tokenizer.tokens(tokenizer.encode(word)) == [word] for word in whole)


def test_bpe_tokens_include_the_space_before_a_word() -> None:
    tokenizer = train_tokenizer(TEXTS, kind="bpe", vocab_size=350)
    assert tokenizer.tokens(tokenizer.encode("low new")) == ["▁low", "▁new"]
    assert tokenizer.tokens(tokenizer.encode("low.")) == ["▁low", "<0x2E>"]


def test_letters_digits_and_punctuation_never_share_a_token() -> None:
    tokenizer = train_tokenizer(["no. 123456 no. 123456 (no.)"] * 5, kind="bpe", vocab_size=400)
    tokens = tokenizer.tokens(tokenizer.encode("no. 123456"))
    assert tokens == ["▁no", ".", "▁1", "2", "3", "4", "5", "6"]


@pytest.mark.parametrize("kind", KINDS)
def test_lowercase_applies_to_training_and_encoding(kind: str) -> None:
    tokenizer = train_tokenizer(["Été LOW low"], kind=kind, vocab_size=300, lowercase=True)
    assert tokenizer.encode("ÉTÉ Low") == tokenizer.encode("été low")
    assert tokenizer.decode(tokenizer.encode("ÉTÉ Low")) == "été low"


def test_min_frequency() -> None:
    words = train_tokenizer(["a b b"], kind="word", min_frequency=2)
    assert words.encode("a b") == [1, 4]
    characters = train_tokenizer(["abb"], kind="char", min_frequency=2)
    assert characters.encode("ab") == [1, 4]
    never = train_tokenizer(["low low"], kind="byte-bpe", min_frequency=3, vocab_size=500)
    assert never.vocab_size == 260


def test_a_word_vocabulary_has_the_most_frequent_words() -> None:
    tokenizer = train_tokenizer(["a a a b b c"], kind="word", vocab_size=6)
    assert tokenizer.vocabulary()[4:] == ["a", "b"]


def test_contractions_and_brackets_decode_to_the_same_text() -> None:
    text = "I don't know (really), it's well-known... isn't it?"
    for kind in ("word", "wordpiece"):
        tokenizer = train_tokenizer([text], kind=kind, vocab_size=200)
        assert tokenizer.decode(tokenizer.encode(text)) == text


@pytest.mark.parametrize("kind", KINDS)
def test_training_does_not_depend_on_hash_seeds(kind: str) -> None:
    # Each process has another hash seed.
    program = (
        "import hashlib, random\n"
        "from regard.tokenizers.training import train_tokenizer\n"
        "draw = random.Random(3)\n"
        "words = [''.join(draw.choices('abcdefgé', k=draw.randint(1, 6))) for _ in range(301)]\n"
        "texts = [' '.join(draw.choices(words, k=7)) for _ in range(211)]\n"
        f"tokenizer = train_tokenizer(texts, kind={kind!r}, vocab_size=401)\n"
        "print(hashlib.sha256(tokenizer.to_json().encode()).hexdigest())\n"
    )
    found = {
        subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
        for _ in range(2)
    }
    assert len(found) == 1
    assert len(found.pop().strip()) == hashlib.sha256().digest_size * 2


def test_texts_may_be_a_generator() -> None:
    def texts() -> Iterator[str]:
        yield from TEXTS

    for kind in KINDS:
        assert train_tokenizer(texts(), kind=kind, vocab_size=300) == train_tokenizer(TEXTS, kind=kind, vocab_size=300)


@pytest.mark.parametrize("kind", ["char", "bpe", "byte-bpe", "wordpiece"])
def test_a_vocab_size_below_the_number_of_characters_is_refused(kind: str) -> None:
    with pytest.raises(UsageError) as caught:
        train_tokenizer(TEXTS, kind=kind, vocab_size=7)
    assert (caught.value.argument, caught.value.value) == ("vocab_size", 7)
    smallest = int(str(caught.value.hint))
    assert train_tokenizer(TEXTS, kind=kind, vocab_size=smallest).vocab_size == smallest
    with pytest.raises(UsageError) as caught:
        train_tokenizer(TEXTS, kind=kind, vocab_size=smallest - 1)
    assert (caught.value.value, caught.value.hint) == (smallest - 1, str(smallest))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("texts", [[], [""], ["", "  ", "\n\t"]])
def test_empty_texts_are_refused(kind: str, texts: list[str]) -> None:
    with pytest.raises(DataError) as caught:
        train_tokenizer(texts, kind=kind)
    assert caught.value.argument == "texts"


@pytest.mark.parametrize(
    ("texts", "options", "argument", "value", "hint"),
    [
        (TEXTS, {"kind": "wordpeice"}, "kind", "wordpeice", "wordpiece"),
        (TEXTS, {"kind": "word", "vocab_size": 4}, "vocab_size", 4, "5"),
        (TEXTS, {"min_frequency": 0}, "min_frequency", 0, None),
        ("low lower", {}, "texts", "low lower", None),
        (["fine", 3], {}, "texts[1]", 3, None),
    ],
)
def test_invalid_arguments_are_refused(
    texts: Any, options: dict[str, Any], argument: str, value: object, hint: str | None
) -> None:
    with pytest.raises(UsageError) as caught:
        train_tokenizer(texts, **options)
    assert (caught.value.argument, caught.value.value, caught.value.hint) == (argument, value, hint)


@pytest.mark.parametrize("name", ["PAD", "", "<", "< pad>", "123", "▁pad", "<12>"])
def test_special_tokens_that_could_be_ordinary_text_are_refused(name: str) -> None:
    with pytest.raises(UsageError) as caught:
        train_tokenizer(TEXTS, special_tokens=SpecialTokens(pad=name))
    assert (caught.value.argument, caught.value.value) == ("pad", name)


@pytest.mark.parametrize("name", ["<s>", None])
def test_special_tokens_must_be_different_and_not_none(name: str | None) -> None:
    with pytest.raises(UsageError) as caught:
        train_tokenizer(TEXTS, special_tokens=SpecialTokens(end=name))
    assert (caught.value.argument, caught.value.value) == ("end", name)


def test_special_tokens_of_bert(tmp_path: Path) -> None:
    made = train_tokenizer(["a cat sat"] * 3, kind="wordpiece", vocab_size=40, special_tokens=BERT_SPECIAL_TOKENS)
    assert made.vocabulary()[:5] == ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    assert made.mask_id == 4
    assert Tokenizer.load(made.save(tmp_path / "tokenizer.json")).special_tokens == BERT_SPECIAL_TOKENS
    assert made.mask_id not in made.encode("[MASK]"), "in a text it is ordinary characters"
    plain = train_tokenizer(["a cat"], kind="word", vocab_size=9)
    with pytest.raises(UsageError) as caught:
        _ = plain.mask_id
    assert (caught.value.argument, caught.value.value) == ("mask", None)
