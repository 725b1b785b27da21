"""SentencePiece models converted to tokenizers and back give the ids of `MarianTokenizer` in transformers.

The models are trained on random words, so the tests need no downloads.
"""

from __future__ import annotations

import io
import json
import random
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import sentencepiece
import tokenizers
import transformers
from hypothesis import given
from hypothesis import strategies as st
from sentencepiece import sentencepiece_model_pb2
from tokenizers import Regex, models, normalizers, pre_tokenizers

from regard.tokenizers.sentencepiece import spm_from_tokenizer, spm_ids, tokenizer_from_spm
from regard.tokenizers.tokenizer import SpecialTokens, Tokenizer
from regard.tokenizers.training import train_tokenizer
from regard.utils.errors import FolderError, UsageError

SPECIAL_TOKENS = SpecialTokens(start="<pad>")
TWO_TABLES = [normalizers.Lowercase(), normalizers.Lowercase()]
CONSONANTS = "bcdfghjklmnprstvwz"
ODD_TEXTS = [
    "",
    "   ",
    " a  b\u00a0c\t d ",
    "line\nline\r\nline",
    "ﬁ ½ ² ＡＢＣ ① ～",
    "e\u0301te\u0301 and Été",
    "北京 北 京京 北œ œ œœ x北京x 北京大",
    "漢字 ß ßa aß ßß",
    "👩‍🚀 ok",
    "▁a ▁ b a▁b",
    "\u200bzero\u200dwidth",
    "12,345.67 1234567890",
    "aaaaaaaaaaaa ........ ??!!",
]


def invent_words(rng: random.Random, vowels: str, count: int = 250) -> list[str]:
    def word() -> str:
        return "".join(rng.choice(CONSONANTS) + rng.choice(vowels) for _ in range(rng.randint(1, 4)))

    return [word() for _ in range(count)]


def invent_sentence(rng: random.Random, words: list[str]) -> str:
    chosen = rng.choices(words, weights=[1 / (i + 1) for i in range(len(words))], k=rng.randint(1, 12))
    if rng.random() < 0.3:
        chosen[0] = chosen[0].capitalize()
    if rng.random() < 0.3:
        chosen.insert(rng.randrange(len(chosen)), str(rng.randint(0, 99_999)))
    return " ".join(chosen) + rng.choice([".", "!", " ?", "...", ""])


def train_spm(texts: list[str], kind: str, **settings: Any) -> bytes:
    stream = io.BytesIO()
    settings = {"vocab_size": 230, "normalization_rule_name": "nmt_nfkc", "minloglevel": 2, **settings}
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(texts), model_writer=stream, model_type=kind, **settings
    )
    return stream.getvalue()


def pieces_of(spm: bytes, *kinds: int) -> list[str]:
    model = sentencepiece_model_pb2.ModelProto.FromString(spm)
    return [piece.piece for piece in model.pieces if piece.type in (kinds or (1,))]


def changed(spm: bytes, change: Any) -> bytes:
    model = sentencepiece_model_pb2.ModelProto.FromString(spm)
    change(model)
    return model.SerializeToString()


@dataclass
class SentencePieceSample:
    """Source and target models with different letters, their joint vocabulary, and the tokenizer of transformers."""

    kind: str
    source: bytes
    target: bytes
    vocabulary: dict[str, int]
    texts: list[str]
    oracle: Any

    def ours(self, side: str) -> Tokenizer:
        spm = self.source if side == "source" else self.target
        return tokenizer_from_spm(spm, self.vocabulary, special_tokens=SPECIAL_TOKENS, path=f"{side}.spm")

    def theirs(self, side: str, text: str) -> list[int]:
        encoded = self.oracle(text) if side == "source" else self.oracle(text_target=text)
        ids: list[int] = encoded["input_ids"]
        assert ids[-1] == self.vocabulary["</s>"]
        return ids[:-1]


@pytest.fixture(scope="module", params=["unigram", "bpe"])
def sample(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> SentencePieceSample:
    rng = random.Random(7)
    english, french = invent_words(rng, "aeiouéü"), invent_words(rng, "aeioœñàß北京")
    sides = [[invent_sentence(rng, words) for _ in range(1200)] for words in (english, french)]
    source, target = (train_spm(texts, request.param) for texts in sides)
    pieces = list(dict.fromkeys(pieces_of(source) + pieces_of(target)))
    rng.shuffle(pieces)
    vocabulary = {token: i for i, token in enumerate(["</s>", "<unk>", *pieces, ">>fr<<", ">>de<<", "<pad>"])}
    folder = write_folder(tmp_path_factory.mktemp("marian"), source, target, vocabulary)
    texts = [invent_sentence(rng, words) for words in (english, french) for _ in range(150)] + ODD_TEXTS
    texts += ["".join(rng.sample(text, len(text))) for text in texts]  # letters in a random order
    texts += [f">>fr<<{space}{texts[0]}" for space in ("", " ", "  ")]
    oracle = transformers.MarianTokenizer.from_pretrained(folder)
    return SentencePieceSample(request.param, source, target, vocabulary, texts, oracle)


def write_folder(folder: Path, source: bytes, target: bytes, vocabulary: dict[str, int]) -> Path:
    (folder / "source.spm").write_bytes(source)
    (folder / "target.spm").write_bytes(target)
    (folder / "vocab.json").write_text(json.dumps(vocabulary), encoding="utf-8")
    (folder / "tokenizer_config.json").write_text("{}", encoding="utf-8")
    return folder


# --- Reading ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("side", ["source", "target"])
def test_ids_and_texts_are_those_of_transformers(sample: SentencePieceSample, side: str) -> None:
    tokenizer = sample.ours(side)
    encoded = tokenizer.encode_batch(sample.texts)
    for text, ids in zip(sample.texts, encoded, strict=True):
        assert ids == sample.theirs(side, text), text
        expected = sample.oracle.decode(ids, skip_special_tokens=True, use_source_tokenizer=side == "source")
        assert tokenizer.decode(ids) == expected
    assert len(sample.texts) > 600


@given(text=st.text(st.sampled_from(" abceé▁ßœ北京漢1.ﬁÀ\u00a0"), max_size=20))
def test_any_mix_of_known_and_foreign_characters_gives_the_same_ids(sample: SentencePieceSample, text: str) -> None:
    if sample.kind == "bpe" and "北京" in text:
        return  # known difference: a BPE model encodes a foreign run as unknown
    for side in ("source", "target"):
        assert sample.ours(side).encode(text) == sample.theirs(side, text)


def test_both_sides_decode_the_whole_vocabulary(sample: SentencePieceSample) -> None:
    ordered = sorted(sample.vocabulary, key=sample.vocabulary.__getitem__)
    for side in ("source", "target"):
        tokenizer = sample.ours(side)
        assert tokenizer.vocabulary() == ordered
        assert (tokenizer.end_id, tokenizer.unknown_id) == (0, 1)
        assert tokenizer.pad_id == tokenizer.start_id == len(ordered) - 1
        for i, token in enumerate(ordered[2:-1], start=2):
            assert tokenizer.decode([i]) == token.replace("▁", " ").strip()


def test_a_foreign_run_is_one_lookup(sample: SentencePieceSample) -> None:
    tokenizer = sample.ours("source")
    mark, ids = sample.vocabulary["▁"], sample.vocabulary
    assert tokenizer.encode("œ") == [mark, ids["œ"]]
    assert tokenizer.encode("œœ") == [mark, ids["<unk>"]]
    assert tokenizer.encode("漢字漢字") == [mark, ids["<unk>"]]


def test_names_of_special_tokens_in_a_text_are_ordinary_characters(sample: SentencePieceSample) -> None:
    tokenizer = sample.ours("source")
    special = {sample.vocabulary["</s>"], sample.vocabulary["<pad>"]}
    assert special.isdisjoint(tokenizer.encode("a </s> b <pad>"))


def test_a_saved_tokenizer_gives_the_same_ids(sample: SentencePieceSample, tmp_path: Path) -> None:
    tokenizer = sample.ours("source")
    loaded = Tokenizer.load(tokenizer.save(tmp_path / "tokenizer.json"), SPECIAL_TOKENS)
    assert loaded == tokenizer
    assert loaded.encode_batch(sample.texts) == tokenizer.encode_batch(sample.texts)


def test_byte_fallback_and_white_space_settings() -> None:
    rng = random.Random(3)
    texts = [invent_sentence(rng, invent_words(rng, "aeiou", 60)) for _ in range(300)]
    for kind in ("unigram", "bpe"):
        spm = train_spm(
            texts,
            kind,
            vocab_size=400,
            byte_fallback=True,
            normalization_rule_name="identity",
            remove_extra_whitespaces=False,
            add_dummy_prefix=False,
            hard_vocab_limit=False,
        )
        vocabulary = {
            token: i for i, token in enumerate(["<pad>", "</s>", "<unk>", *pieces_of(spm, 1), *pieces_of(spm, 6)])
        }
        tokenizer = tokenizer_from_spm(spm, vocabulary, special_tokens=SPECIAL_TOKENS, path="x.spm")
        tried = [*texts[:50], " a  b ", "é漢", "a\tb", ""]
        assert tokenizer.encode_batch(tried) == spm_ids(spm, vocabulary, tried, unknown=2)
        assert tokenizer.decode(tokenizer.encode("ba é漢 be")) == "ba é漢 be"
        again = spm_from_tokenizer(tokenizer, tried)
        assert spm_ids(again, vocabulary, tried, unknown=2) == tokenizer.encode_batch(tried)


def test_a_user_defined_symbol_of_a_unigram_model_is_one_token() -> None:
    rng = random.Random(5)
    texts = [invent_sentence(rng, invent_words(rng, "aeiou", 60)) for _ in range(300)]
    spm = train_spm(texts, "unigram", vocab_size=120, user_defined_symbols=["<break>"])
    vocabulary = {token: i for i, token in enumerate(["</s>", "<unk>", "<pad>", *pieces_of(spm, 1, 4)])}
    tried = ["a <break> b", "a<break>b", "<break>", texts[0]]
    tokenizer = tokenizer_from_spm(spm, vocabulary, special_tokens=SPECIAL_TOKENS, path="x.spm")
    assert tokenizer.encode_batch(tried) == spm_ids(spm, vocabulary, tried, unknown=1)


def test_a_vocabulary_may_have_unused_ids(sample: SentencePieceSample) -> None:
    vocabulary = {token: i + (i > 5) for token, i in sample.vocabulary.items()}
    tokenizer = tokenizer_from_spm(sample.source, vocabulary, special_tokens=SPECIAL_TOKENS, path="source.spm")
    text = sample.texts[0]
    assert tokenizer.encode(text) == [i + (i > 5) for i in sample.ours("source").encode(text)]
    assert len(tokenizer.vocabulary()) == len(vocabulary) + 1


# --- Bad input ----------------------------------------------------------------------------------------------


def refused(data: bytes, vocabulary: dict[str, Any]) -> FolderError:
    with pytest.raises(FolderError) as caught:
        tokenizer_from_spm(data, vocabulary, special_tokens=SPECIAL_TOKENS, path="source.spm")
    return caught.value


@pytest.mark.parametrize("data", [b"", b"no sentencepiece model", bytes(range(256))])
def test_a_damaged_file_is_refused(data: bytes) -> None:
    assert refused(data, {"<unk>": 0}).path == Path("source.spm")


def test_a_truncated_file_is_refused(sample: SentencePieceSample) -> None:
    assert refused(sample.source[:1000], sample.vocabulary).path == Path("source.spm")


def test_all_unsupported_settings_are_named(sample: SentencePieceSample) -> None:
    def change(model: Any) -> None:
        model.trainer_spec.treat_whitespace_as_suffix = True
        model.trainer_spec.model_type = 4
        model.normalizer_spec.escape_whitespaces = False

    error = refused(changed(sample.source, change), sample.vocabulary)
    assert error.value == ["model_type char", "treat_whitespace_as_suffix", "escape_whitespaces false"]


def test_user_defined_symbols_of_a_bpe_model_are_refused(sample: SentencePieceSample) -> None:
    def change(model: Any) -> None:
        model.trainer_spec.model_type = 2
        model.pieces.add(piece="<break>", score=0.0, type=4)

    (setting,) = refused(changed(sample.source, change), sample.vocabulary).value
    assert "<break>" in setting


def test_a_vocabulary_of_another_model_is_refused(sample: SentencePieceSample) -> None:
    error = refused(sample.source, {"</s>": 0, "<unk>": 1, "<pad>": 2, "qqq": 3})
    assert (error.argument, error.path) == ("vocabulary", Path("source.spm"))


@pytest.mark.parametrize(
    ("change", "argument", "value"),
    [
        ({"extra": 1}, "extra", 1),
        ({"extra": -1}, "extra", -1),
        ({"extra": "3"}, "extra", "3"),
        ({"extra": 10**9}, "vocabulary", 10**9),
        ({"<pad>": None}, "<pad>", None),
    ],
)
def test_a_vocabulary_with_invalid_ids_is_refused(
    sample: SentencePieceSample, change: dict[str, Any], argument: str, value: object
) -> None:
    error = refused(sample.source, {**sample.vocabulary, **change})
    assert (error.argument, error.value, error.path) == (argument, value, Path("source.spm"))


def test_a_missing_special_token_is_named(sample: SentencePieceSample) -> None:
    error = refused(sample.source, {token: i for token, i in sample.vocabulary.items() if token != "<pad>"})
    assert (error.argument, error.value) == ("special_tokens", "<pad>")


def test_byte_fallback_with_foreign_tokens_is_refused(sample: SentencePieceSample) -> None:
    def change(model: Any) -> None:
        model.trainer_spec.byte_fallback = True
        for byte in range(256):
            model.pieces.add(piece=f"<0x{byte:02X}>", score=0.0, type=6)

    error = refused(changed(sample.source, change), sample.vocabulary)
    assert error.argument == "byte_fallback"
    assert "œ" in error.value


# --- Writing ------------------------------------------------------------------------------------------------


def not_convertible(tokenizer: Tokenizer) -> UsageError:
    with pytest.raises(UsageError) as caught:
        spm_from_tokenizer(tokenizer)
    return caught.value


def test_a_converted_model_converts_back_to_the_same_ids(sample: SentencePieceSample) -> None:
    for side in ("source", "target"):
        tokenizer = sample.ours(side)
        again = spm_from_tokenizer(tokenizer, sample.texts)
        assert spm_ids(again, sample.vocabulary, sample.texts, unknown=1) == tokenizer.encode_batch(sample.texts)
        twice = tokenizer_from_spm(again, sample.vocabulary, special_tokens=SPECIAL_TOKENS, path="again.spm")
        assert twice.encode_batch(sample.texts) == tokenizer.encode_batch(sample.texts)


@pytest.mark.parametrize("lowercase", [False, True])
@pytest.mark.parametrize("vocab_size", [330, 500])
def test_a_tokenizer_trained_here_becomes_a_sentencepiece_model(lowercase: bool, vocab_size: int) -> None:
    rng = random.Random(vocab_size)
    words = [*invent_words(rng, "aeiouéÉÜ"), "don't", "1", "7", "Ñandú"]
    texts = [" ".join(rng.choices(words, k=9)) + rng.choice(".!?") for _ in range(400)]
    tokenizer = train_tokenizer(texts, vocab_size=vocab_size, lowercase=lowercase)
    vocabulary = {token: i for i, token in enumerate(tokenizer.vocabulary())}
    tried = [*texts[:100], " two  spaces ", "漢字 İ Σ", "a\nb"]
    assert spm_ids(spm_from_tokenizer(tokenizer), vocabulary, tried, unknown=1) == tokenizer.encode_batch(tried)


def test_rules_about_digits_are_detected() -> None:
    """Either no token has several digits, or the error names a number that SentencePiece splits differently."""
    rng = random.Random(1)
    texts = [" ".join(str(rng.randint(0, 999)) for _ in range(9)) for _ in range(400)]
    tokenizer = train_tokenizer(texts, vocab_size=600)
    if any(len(token) > 1 and token.isdigit() for token in tokenizer.vocabulary()):
        assert not_convertible(tokenizer).value.replace(" ", "").isdigit()
    else:
        spm_from_tokenizer(tokenizer, texts)


def test_a_text_with_different_tokens_is_named() -> None:
    """SentencePiece cannot express a pre-tokenizer that splits numbers into digits."""
    tokens = ["<unk>", "▁", *"0123456789", "21"]
    model = models.BPE({token: i for i, token in enumerate(tokens)}, [("2", "1")], unk_token="<unk>", fuse_unk=True)
    backend = tokenizers.Tokenizer(model)
    backend.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    tokenizer = Tokenizer(backend, SpecialTokens(pad=None, start=None, end=None))
    spm_from_tokenizer(tokenizer)  # without this pre-tokenizer the conversion works
    backend.pre_tokenizer = pre_tokenizers.Split(Regex("[0-9]"), behavior="isolated")
    tokenizer = Tokenizer(backend, tokenizer.special_tokens)
    error = not_convertible(tokenizer)
    assert error.argument == "text"
    assert "21" in error.value
    assert tokenizer.encode("21") == [1, 4, 3]


@pytest.mark.parametrize("kind", ["char", "word", "byte-bpe", "wordpiece"])
def test_other_kinds_are_refused(kind: str) -> None:
    tokenizer = train_tokenizer(["a small text of words"] * 3, kind=kind, vocab_size=300)
    error = not_convertible(tokenizer)
    assert (error.argument, error.value, error.allowed) == ("kind", kind, ("bpe", "unigram"))


@pytest.mark.parametrize(
    ("normalizer", "argument", "value"),
    [
        (normalizers.NFKD(), "normalizer", "NFKD"),
        (None, "normalizer", None),
        (normalizers.Sequence([normalizers.Replace(" ", "▁"), *TWO_TABLES]), "normalizer", ["Lowercase", "Lowercase"]),
        (normalizers.Replace(" ", "▁"), "unknown", None),
    ],
)
def test_unsupported_normalizers_and_special_tokens_are_refused(normalizer: Any, argument: str, value: object) -> None:
    backend = tokenizers.Tokenizer(models.BPE({"a": 0, "b": 1}, []))
    if normalizer is not None:
        backend.normalizer = normalizer
    error = not_convertible(Tokenizer(backend, SpecialTokens(pad=None, unknown=None, start=None, end=None)))
    assert (error.argument, error.value) == (argument, value)


def test_byte_fallback_without_all_byte_tokens_is_refused() -> None:
    backend = tokenizers.Tokenizer(models.BPE({"<unk>": 0, "<0x00>": 1}, [], unk_token="<unk>", byte_fallback=True))
    backend.normalizer = normalizers.Replace(" ", "▁")
    error = not_convertible(Tokenizer(backend, SpecialTokens(pad=None, start=None, end=None)))
    assert (error.argument, len(error.value)) == ("byte_fallback", 255)


def test_merges_with_a_prefix_are_refused() -> None:
    model = models.BPE({"<unk>": 0, "a": 1, "@b": 2}, [], continuing_subword_prefix="@", unk_token="<unk>")
    backend = tokenizers.Tokenizer(model)
    backend.normalizer = normalizers.Replace(" ", "▁")
    error = not_convertible(Tokenizer(backend, SpecialTokens(pad=None, start=None, end=None)))
    assert (error.argument, error.value) == ("continuing_subword_prefix", "@")
