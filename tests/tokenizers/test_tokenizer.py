"""Encoding, decoding, spans, merges and files of `Tokenizer`, checked against the `tokenizers` library."""

from __future__ import annotations

import dataclasses
import itertools
import json
import random
from pathlib import Path
from typing import Any

import pytest
import tokenizers
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import decoders, models, pre_tokenizers, trainers

from regard.tokenizers.tokenizer import SpecialTokens, Tokenizer
from regard.tokenizers.training import KINDS, train_tokenizer
from regard.utils.errors import FolderError, UsageError

SENTENCES = [
    "The animal did not cross the street because it was too tired.",
    "The animal did not cross the street because it was too wide.",
    "L'été, les chats dorment près de la fenêtre.",
    "unbelievably believable: she believes 1234 of them!",
    "Hello world!",
    "Hello world!",
]
SPECIAL_NAMES = ["</s>", "<s>", "<pad>", "a </s> b", "<pad><pad>", "x</s>", "<s>Hello</s>", "[PAD]", "[SEP]"]


@pytest.fixture(scope="module")
def trained() -> dict[str, Tokenizer]:
    return {kind: train_tokenizer(SENTENCES, kind=kind, vocab_size=400) for kind in KINDS}


BYTE_LEVEL = train_tokenizer(SENTENCES, kind="byte-bpe", vocab_size=400)
BPE = train_tokenizer(SENTENCES, kind="bpe", vocab_size=400)
CHAR = train_tokenizer(SENTENCES, kind="char")


def test_m1_words_and_marks_are_tokens_and_decode_to_the_input(trained: dict[str, Tokenizer]) -> None:
    words = trained["word"]
    assert words.tokens(words.encode("Hello world!")) == ["Hello", "world", "!"]
    assert words.decode(words.encode("Hello world!")) == "Hello world!"
    for sentence in SENTENCES:
        assert words.decode(words.encode(sentence)) == sentence


@pytest.mark.parametrize("kind", KINDS)
def test_m2_ids_have_no_gaps_and_survive_saving(kind: str, trained: dict[str, Tokenizer], tmp_path: Path) -> None:
    tokenizer = trained[kind]
    tokenizer.save(tmp_path / "tokenizer.json")
    loaded = Tokenizer.load(tmp_path)
    assert loaded == tokenizer
    assert hash(loaded) == hash(tokenizer)
    assert loaded.special_tokens == tokenizer.special_tokens
    assert loaded.kind == tokenizer.kind == kind
    texts = [*SENTENCES, "never seen: Übermut 日本", *SPECIAL_NAMES]
    assert loaded.encode_batch(texts) == tokenizer.encode_batch(texts)
    ids = {i for text in texts for i in tokenizer.encode(text)}
    assert min(ids) >= 0
    assert max(ids) < tokenizer.vocab_size


def test_m2_an_unknown_word_becomes_the_unknown_token_or_subwords(trained: dict[str, Tokenizer]) -> None:
    assert trained["word"].encode("zebra Hello") == [1, *trained["word"].encode("Hello")]
    for kind in ("bpe", "byte-bpe"):
        ids = trained[kind].encode("zebra")
        assert len(ids) > 1
        assert trained[kind].unknown_id not in ids
    assert trained["char"].encode("日") == [trained["char"].unknown_id]


@pytest.mark.parametrize("kind", ["bpe", "byte-bpe"])
def test_m3_merges_file_and_tokenizer_json_give_the_same_ids(
    kind: str, trained: dict[str, Tokenizer], tmp_path: Path
) -> None:
    tokenizer = trained[kind]
    vocab, merges = tokenizer.save_merges(tmp_path)
    tokenizer.save(tmp_path)
    original = tokenizers.Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    byte_fallback = kind == "bpe"
    rebuilt = tokenizers.Tokenizer(models.BPE.from_file(str(vocab), str(merges), byte_fallback=byte_fallback))
    if original.normalizer:
        rebuilt.normalizer = original.normalizer
    rebuilt.pre_tokenizer = original.pre_tokenizer
    for sentence in [*SENTENCES, "日本 été"]:
        expected = tokenizer.encode(sentence)
        assert Tokenizer.load(tmp_path).encode(sentence) == expected
        assert rebuilt.encode(sentence).ids == expected


def test_m3_byte_bpe_loads_from_vocab_json_and_merges_txt(trained: dict[str, Tokenizer], tmp_path: Path) -> None:
    tokenizer = trained["byte-bpe"]
    loaded = Tokenizer.from_merges(*tokenizer.save_merges(tmp_path))
    assert loaded.kind == "byte-bpe"
    assert (loaded.pad_id, loaded.unknown_id, loaded.start_id, loaded.end_id) == (0, 1, 2, 3)
    for text in [*SENTENCES, *SPECIAL_NAMES]:
        assert loaded.encode(text) == tokenizer.encode(text)
        assert loaded.decode(loaded.encode(text)) == text


@pytest.mark.parametrize("kind", KINDS)
def test_m5_tokens_cover_the_text(kind: str, trained: dict[str, Tokenizer]) -> None:
    tokenizer = trained[kind]
    for text in [*SENTENCES, "  two  spaces ", "naïve 日本語 👍🏽 end", *SPECIAL_NAMES]:
        spans = tokenizer.token_spans(text)
        assert [span.id for span in spans] == tokenizer.encode(text)
        assert [span.token for span in spans] == tokenizer.tokens(tokenizer.encode(text))
        assert "".join(span.text for span in spans) == text
        assert all(span.text == text[span.start : span.end] for span in spans)


def test_m5_white_space_belongs_to_the_token_after_it(trained: dict[str, Tokenizer]) -> None:
    assert [span.text for span in trained["word"].token_spans("Hello world! ")] == ["Hello", " world", "! "]
    assert [span.text for span in trained["byte-bpe"].token_spans("Hello world!")][-1] == "!"
    # The "▁" before a text is a separate token if no merge includes it. It covers no text.
    spans = trained["bpe"].token_spans("zoo")
    assert spans[0].token == "▁"
    assert spans[0].text == ""
    assert spans[1].text == "z"


@settings(max_examples=150, deadline=None)
@given(st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=40))
def test_m5_tokens_cover_any_text(text: str) -> None:
    for tokenizer in (BYTE_LEVEL, BPE, CHAR):
        spans = tokenizer.token_spans(text)
        assert len(spans) == len(tokenizer.encode(text))
        assert "".join(span.text for span in spans) == text


def test_m6_byte_level_round_trip_on_ten_thousand_strings() -> None:
    generator = random.Random(7)
    ranges = [(0, 0x7F), (0x80, 0x7FF), (0x800, 0xD7FF), (0xE000, 0xFFFF), (0x10000, 0x10FFFF)]

    def fuzz() -> str:
        letters = []
        for _ in range(generator.randrange(0, 23)):
            low, high = generator.choice(ranges)
            letters.append(chr(generator.randint(low, high)))
        if generator.random() < 0.3:
            letters.insert(generator.randrange(len(letters) + 1), generator.choice(SPECIAL_NAMES))
        return "".join(letters)

    texts = [fuzz() for _ in range(10_000)]
    assert BYTE_LEVEL.decode_batch(BYTE_LEVEL.encode_batch(texts)) == texts


def test_m6_gpt2_style_file_gives_the_ids_of_the_library(tmp_path: Path) -> None:
    reference = tokenizers.Tokenizer(models.BPE())
    reference.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    reference.decoder = decoders.ByteLevel()
    reference.train_from_iterator(
        SENTENCES,
        trainers.BpeTrainer(
            vocab_size=311,
            special_tokens=["<|endoftext|>"],
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        ),
    )
    reference.enable_truncation(5)
    reference.enable_padding(length=5)
    reference.save(str(tmp_path / "tokenizer.json"))
    loaded = Tokenizer.load(tmp_path / "tokenizer.json")
    reference.no_truncation()
    reference.no_padding()
    assert loaded.kind == "byte-bpe"
    assert loaded.start_id == loaded.end_id == 0
    assert loaded.unknown_id is None
    with pytest.raises(UsageError) as caught:
        _ = loaded.pad_id
    assert (caught.value.argument, caught.value.value) == ("pad", None)
    for text in [*SENTENCES, "Übermut 日本 ", "a  b\n\nc\t"]:
        assert loaded.encode(text) == reference.encode(text).ids
        assert loaded.decode(loaded.encode(text)) == text
    # In a text it is ordinary characters, not the special token.
    assert 0 not in loaded.encode("<|endoftext|>")
    assert loaded.decode(loaded.encode("<|endoftext|>")) == "<|endoftext|>"


def test_m7_three_granularities_have_one_interface(trained: dict[str, Tokenizer]) -> None:
    for sentence in SENTENCES[:3]:
        lengths = [len(trained[kind].encode(sentence)) for kind in ("char", "bpe", "word")]
        assert lengths[0] > lengths[1] > lengths[2]
        assert lengths[0] == len(sentence)
        assert trained["char"].decode(trained["char"].encode(sentence)) == sentence


@pytest.mark.parametrize("kind", KINDS)
def test_m8_tokens_and_ids_map_one_to_one(kind: str, trained: dict[str, Tokenizer]) -> None:
    tokenizer = trained[kind]
    vocabulary = tokenizer.vocabulary()
    assert len(vocabulary) == len(set(vocabulary)) == tokenizer.vocab_size
    assert tokenizer.tokens(range(tokenizer.vocab_size)) == vocabulary
    assert vocabulary[:4] == ["<pad>", "<unk>", "<s>", "</s>"]
    ids = (tokenizer.pad_id, tokenizer.unknown_id, tokenizer.start_id, tokenizer.end_id)
    assert ids == (0, 1, 2, 3)


@settings(max_examples=150, deadline=None)
@given(st.text(alphabet=st.characters(exclude_categories=["Cs"], exclude_characters="▁"), max_size=40))
def test_bpe_restores_any_text_without_the_space_mark(text: str) -> None:
    ids = BPE.encode(text)
    assert BPE.decode(ids) == text
    assert not {0, 1, 2, 3} & set(ids)


@pytest.mark.parametrize("kind", KINDS)
def test_names_of_special_tokens_in_a_text_are_ordinary_characters(kind: str, trained: dict[str, Tokenizer]) -> None:
    tokenizer = trained[kind]
    control = {tokenizer.pad_id, tokenizer.start_id, tokenizer.end_id}
    for text, ids in zip(SPECIAL_NAMES, tokenizer.encode_batch(SPECIAL_NAMES), strict=True):
        assert ids
        assert not control & set(ids)
        assert ids == tokenizer.encode(text)
        if kind in ("bpe", "byte-bpe"):
            assert tokenizer.decode(ids) == text


def test_backends_that_look_up_whole_words_never_return_special_tokens() -> None:
    vocabulary = {"<pad>": 0, "<unk>": 1, "<s>": 2, "</s>": 3, "a": 4}
    backend = tokenizers.Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer = Tokenizer(backend)
    assert tokenizer.encode("a </s> a") == [4, 1, 4]
    assert [span.text for span in tokenizer.token_spans("a </s> a")] == ["a", " </s>", " a"]
    unigram = tokenizers.Tokenizer(
        models.Unigram([("<unk>", 0.0), ("</s>", 0.0), ("<", -9.0), ("/", -9.0), ("s", -9.0)], unk_id=0)
    )
    tokenizer = Tokenizer(unigram)
    assert tokenizer.kind == "unigram"
    assert tokenizer.end_id not in tokenizer.encode("s</s>s")


def test_decode_skips_special_tokens(trained: dict[str, Tokenizer]) -> None:
    for tokenizer in trained.values():
        ids = tokenizer.encode("Hello world!")
        framed = [tokenizer.start_id, *ids, tokenizer.end_id, tokenizer.pad_id, tokenizer.pad_id]
        assert tokenizer.decode(framed) == "Hello world!"
        assert tokenizer.decode_batch([framed, []]) == ["Hello world!", ""]
        assert tokenizer.tokens(framed)[0] == "<s>"
        assert tokenizer.tokens(framed)[-1] == "<pad>"


@pytest.mark.parametrize("kind", ["bpe", "byte-bpe"])
def test_derivation_starts_with_characters_and_ends_with_the_tokens(kind: str, trained: dict[str, Tokenizer]) -> None:
    tokenizer = trained[kind]
    for text in [*SENTENCES, "unbelievable 日本 zoo", " two  spaces"]:
        words = tokenizer.derivation(text)
        assert [token for steps in words for token in steps[-1].split(" ")] == tokenizer.tokens(tokenizer.encode(text))
        for steps in words:
            for before, after in itertools.pairwise(steps):
                assert len(after.split(" ")) == len(before.split(" ")) - 1
                assert after.replace(" ", "") == before.replace(" ", "")


@settings(max_examples=100, deadline=None)
@given(st.text(alphabet="abcdehilnstv é€日", max_size=30))
def test_derivation_agrees_with_encoding(text: str) -> None:
    for tokenizer in (BYTE_LEVEL, BPE):
        ends = [token for steps in tokenizer.derivation(text) for token in steps[-1].split(" ")]
        assert ends == tokenizer.tokens(tokenizer.encode(text))


@pytest.mark.parametrize("kind", ["char", "word", "wordpiece"])
def test_kinds_without_merges_are_refused(kind: str, trained: dict[str, Tokenizer], tmp_path: Path) -> None:
    tokenizer = trained[kind]
    for use_merges in (lambda: tokenizer.derivation("Hello"), lambda: tokenizer.save_merges(tmp_path)):
        with pytest.raises(UsageError) as caught:
            use_merges()
        assert (caught.value.argument, caught.value.value) == ("kind", kind)
        assert caught.value.allowed == ("bpe", "byte-bpe")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("method", "given", "argument", "value"),
    [
        ("decode", [-1], "ids", -1),
        ("tokens", [BYTE_LEVEL.vocab_size], "ids", BYTE_LEVEL.vocab_size),
        ("encode", "ab\ud800", "text", "\ud800"),
        ("encode", 3, "text", 3),
        ("words", "\ud800", "text", "\ud800"),
        ("encode_batch", ["fine", "\udfff"], "texts[1]", "\udfff"),
        ("encode_with_spans", ["a", None], "texts[1]", None),
        ("encode_batch", "Hello", "texts", "Hello"),
    ],
)
def test_invalid_ids_and_texts_are_refused(method: str, given: Any, argument: str, value: object) -> None:
    with pytest.raises(UsageError) as caught:
        getattr(BYTE_LEVEL, method)(given)
    assert (caught.value.argument, caught.value.value) == (argument, value)


def test_the_message_names_the_position_of_a_lone_surrogate() -> None:
    with pytest.raises(UsageError, match=r"text contains the lone surrogate U\+D800 at index 2"):
        BYTE_LEVEL.encode("ab\ud800")


def test_custom_special_tokens_are_recognized_after_loading(tmp_path: Path) -> None:
    special_tokens = SpecialTokens(pad="[FILL]", unknown="[WHAT]", start="[GO]", end="[STOP]")
    tokenizer = train_tokenizer(SENTENCES, kind="wordpiece", vocab_size=300, special_tokens=special_tokens)
    tokenizer.save(tmp_path)
    assert Tokenizer.load(tmp_path).special_tokens == special_tokens
    assert Tokenizer.load(tmp_path, special_tokens) == tokenizer
    other = dataclasses.replace(special_tokens, pad="<none>")
    with pytest.raises(UsageError) as caught:
        _ = Tokenizer.load(tmp_path, other).pad_id
    assert (caught.value.argument, caught.value.value) == ("pad", "<none>")


def test_special_tokens_of_other_tools_are_recognized_by_name_before_id(tmp_path: Path) -> None:
    order = ["<s>", "<pad>", "</s>", "<unk>"]
    backend = tokenizers.Tokenizer(models.WordLevel({name: i for i, name in enumerate(order)}))
    backend.add_special_tokens(order)
    backend.save(str(tmp_path / "tokenizer.json"))
    tokenizer = Tokenizer.load(tmp_path)
    assert [tokenizer.start_id, tokenizer.pad_id, tokenizer.end_id, tokenizer.unknown_id] == [0, 1, 2, 3]


def test_files_load_in_transformers(trained: dict[str, Tokenizer], tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    for kind, tokenizer in trained.items():
        path = tokenizer.save(tmp_path / f"{kind}.json")
        fast = transformers.PreTrainedTokenizerFast(tokenizer_file=str(path), unk_token="<unk>")
        for sentence in SENTENCES:
            assert fast.encode(sentence, add_special_tokens=False) == tokenizer.encode(sentence)


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    for path in (tmp_path / "tokenizer.json", tmp_path / "absent"):
        with pytest.raises(FolderError) as caught:
            Tokenizer.load(path)
        assert caught.value.path == path
    with pytest.raises(FolderError) as caught:
        Tokenizer.from_merges(tmp_path / "vocab.json", tmp_path / "merges.txt")
    assert caught.value.path == tmp_path / "vocab.json"


@pytest.mark.parametrize("num_missing", [1, 1000])
def test_a_truncated_file_is_refused(num_missing: int, trained: dict[str, Tokenizer], tmp_path: Path) -> None:
    content = trained["bpe"].to_json()
    path = tmp_path / "tokenizer.json"
    path.write_text(content[:-num_missing], encoding="utf-8")
    with pytest.raises(FolderError) as caught:
        Tokenizer.load(tmp_path)
    assert caught.value.path == path


@pytest.mark.parametrize("content", [b"", b"{}", b"[]", b"null", b"not json", b"\xff\xfe\x00"])
def test_a_file_that_is_no_tokenizer_is_refused(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    path.write_bytes(content)
    with pytest.raises(FolderError) as caught:
        Tokenizer.load(path)
    assert caught.value.path == path


def test_a_vocabulary_without_its_unknown_token_is_refused(trained: dict[str, Tokenizer], tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    path.write_text(trained["word"].to_json().replace('"unk_token":"<unk>"', '"unk_token":"x"'), "utf-8")
    with pytest.raises(FolderError) as caught:
        Tokenizer.load(path)
    assert (caught.value.argument, caught.value.value, caught.value.path) == ("unk_token", "x", path)
    path = tmp_path / "vocab.txt"
    path.write_text("a\nb\n", encoding="utf-8")
    with pytest.raises(FolderError) as caught:
        Tokenizer.from_vocabulary(path, lowercase=True)
    assert (caught.value.argument, caught.value.path) == ("unk_token", path)
    assert "[UNK]" in (caught.value.allowed or ())


def test_merges_of_another_vocabulary_are_refused(tmp_path: Path) -> None:
    (tmp_path / "merges.txt").write_text("a b\n", encoding="utf-8")
    (tmp_path / "vocab.json").write_text('{"x": 0}', encoding="utf-8")
    with pytest.raises(FolderError) as caught:
        Tokenizer.from_merges(tmp_path / "vocab.json", tmp_path / "merges.txt")
    assert caught.value.path == tmp_path / "merges.txt"


def test_saving_creates_the_folder_and_leaves_no_temporary_files(trained: dict[str, Tokenizer], tmp_path: Path) -> None:
    folder = tmp_path / "new"
    assert trained["bpe"].save_merges(folder) == (folder / "vocab.json", folder / "merges.txt")
    assert trained["bpe"].save(folder) == folder / "tokenizer.json"
    assert sorted(file.name for file in folder.iterdir()) == ["merges.txt", "tokenizer.json", "vocab.json"]
    json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))


def test_a_file_in_place_of_the_folder_is_refused(trained: dict[str, Tokenizer], tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    for save in (trained["bpe"].save_merges, lambda folder: trained["bpe"].save(folder / "tokenizer.json")):
        with pytest.raises(FolderError) as caught:
            save(tmp_path / "file")
        assert caught.value.path is not None
        assert caught.value.path.parent == tmp_path / "file"


def test_a_model_with_a_smaller_vocab_size_does_not_fit(trained: dict[str, Tokenizer]) -> None:
    tokenizer = trained["bpe"]
    tokenizer.fits(tokenizer.vocab_size)
    tokenizer.fits(tokenizer.vocab_size + 3)
    with pytest.raises(FolderError) as caught:
        tokenizer.fits(7)
    assert (caught.value.argument, caught.value.value) == ("vocab_size", 7)


def test_unused_ids_are_named() -> None:
    tokenizer = Tokenizer(tokenizers.Tokenizer(models.WordLevel({"a": 0, "b": 3}, unk_token="a")))
    assert tokenizer.vocab_size == 4
    with pytest.raises(FolderError) as gap:
        tokenizer.vocabulary()
    assert (gap.value.argument, gap.value.value) == ("id", 1)
    with pytest.raises(UsageError) as unused:
        tokenizer.tokens([2])
    assert (unused.value.argument, unused.value.value) == ("ids", 2)


def test_repr_and_equality(trained: dict[str, Tokenizer]) -> None:
    assert repr(trained["byte-bpe"]) == f"Tokenizer(kind='byte-bpe', vocab_size={trained['byte-bpe'].vocab_size})"
    assert trained["bpe"] != trained["char"]
    assert trained["bpe"] != "bpe"


@pytest.mark.parametrize("kind", ["bpe", "byte-bpe", "wordpiece", "word", "char"])
def test_spans_cover_all_characters_but_spaces(kind: str, trained: dict[str, Tokenizer]) -> None:
    tokenizer = trained[kind]
    texts = ["Hello  world!\n", "  </s> Hello", "", "é Hello"]
    for text, (ids, spans) in zip(texts, tokenizer.encode_with_spans(texts), strict=True):
        assert ids == tokenizer.encode(text)
        assert len(spans) == len(ids)
        assert all(text[start:end] == text[start:end].strip() for start, end in spans)
        covered = {index for start, end in spans for index in range(start, end)}
        assert {index for index, character in enumerate(text) if not character.isspace()} <= covered


def byte_level(pre_tokenizer: pre_tokenizers.PreTokenizer) -> Tokenizer:
    backend = tokenizers.Tokenizer(models.BPE())
    backend.pre_tokenizer, backend.decoder = pre_tokenizer, decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=300, initial_alphabet=alphabet, show_progress=False)
    backend.train_from_iterator(["one\ntwo\nthree two\n\none two"] * 9, trainer)
    return Tokenizer(backend)


@pytest.mark.parametrize("lines", ["one\ntwo\nthree\n\n two one", "one", "\n", "\n\nx\n"])
@pytest.mark.parametrize(
    "pre_tokenizer",
    [
        pre_tokenizers.ByteLevel(add_prefix_space=False),
        pre_tokenizers.ByteLevel(add_prefix_space=True),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
    ],
    ids=["plain", "add_prefix_space", "no use_regex"],
)
def test_encode_array_equals_encode(pre_tokenizer: pre_tokenizers.PreTokenizer, lines: str) -> None:
    """Also with add_prefix_space, which adds a space before the text but not before each line."""
    tokenizer = byte_level(pre_tokenizer)
    assert tokenizer.encode_array(lines).tolist() == tokenizer.encode(lines)


def test_prefix_tokens_are_saved_and_loaded(tmp_path: Path) -> None:
    plain = train_tokenizer(["a b c"], kind="char", vocab_size=20)
    assert plain.prefix_ids == ()
    prefixed = plain.with_prefix("<s>")
    assert (plain.prefix_ids, prefixed.prefix_ids) == ((), (plain.start_id,))
    assert Tokenizer.load(prefixed.save(tmp_path)).prefix_ids == (plain.start_id,)
    assert prefixed.encode("a b") == plain.encode("a b")
    with pytest.raises(FolderError) as caught:
        plain.with_prefix("<bos>")
    assert (caught.value.argument, caught.value.value) == ("names", "<bos>")
    named = {"special_tokens": [("<s>", plain.start_id)]}
    backend = tokenizers.Tokenizer.from_str(plain.to_json())
    backend.post_processor = tokenizers.processors.TemplateProcessing(single="<s> $A", **named)
    assert prefixed.to_json() == backend.to_str()
    template = tokenizers.processors.TemplateProcessing(
        single="<s> </s> $A </s>", special_tokens=[("<s>", plain.start_id), ("</s>", plain.end_id)]
    )
    backend = tokenizers.Tokenizer.from_str(plain.to_json())
    backend.post_processor = template
    assert Tokenizer(backend).prefix_ids == (plain.start_id, plain.end_id)


def test_a_missing_folder_is_created_for_merges_but_not_for_a_file(tmp_path: Path) -> None:
    tokenizer = train_tokenizer(["a b c"], vocab_size=300)
    path = tmp_path / "new" / "tokenizer.json"
    with pytest.raises(FolderError) as caught:
        tokenizer.save(path)
    assert caught.value.path == path
    vocab, merges = tokenizer.save_merges(tmp_path / "new" / "merges")
    assert vocab.is_file() and merges.is_file()


@pytest.mark.parametrize("name", ["<lang:fr>", "<s:1>", "<s>:", "$start", "$A:0"])
def test_prefix_tokens_with_the_special_characters_of_a_template(tmp_path: Path, name: str) -> None:
    plain = train_tokenizer(["a b c"], kind="char", vocab_size=20, special_tokens=SpecialTokens(start=name))
    prefixed = plain.with_prefix(name, "</s>")
    assert prefixed.prefix_ids == (plain.start_id, plain.end_id)
    assert Tokenizer.load(prefixed.save(tmp_path)).prefix_ids == prefixed.prefix_ids
    assert prefixed.encode("a b") == plain.encode("a b")


@pytest.mark.parametrize("ends", ["\n", "\r\n"])
@pytest.mark.parametrize("last", [True, False], ids=["final line break", "no final line break"])
def test_only_line_feeds_separate_the_tokens_of_a_vocab_txt(ends: str, last: bool, tmp_path: Path) -> None:
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "\u2028", "\x85", "a\x1cb", "\x0c", "", "cat", "##s"]
    path = tmp_path / "vocab.txt"
    path.write_bytes((ends.join(tokens) + ends * last).encode())
    tokenizer = Tokenizer.from_vocabulary(path, lowercase=True)
    assert tokenizer.vocab_size == len(tokens)
    assert tokenizer.encode("cats") == [tokens.index("cat"), tokens.index("##s")]


def test_a_tokenizer_may_have_several_end_tokens() -> None:
    tokenizer = train_tokenizer(["a b c"], kind="char", vocab_size=20)
    assert tokenizer.end_ids == {tokenizer.end_id}
    more = tokenizer.with_special_tokens(SpecialTokens(other_ends=("<pad>", "<nowhere>")))
    assert more.end_ids == {tokenizer.end_id, tokenizer.pad_id}
