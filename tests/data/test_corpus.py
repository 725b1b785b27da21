"""Plain text of any size: files that are read or refused, and the cache of ids."""

from __future__ import annotations

import gzip
import itertools
import json
import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.data import corpus as module
from regard.data.corpus import (
    Corpus,
    WindowBatches,
    cache_folder,
    corpus_ids,
    learned_tokenizer,
    split_ids,
    window_starts,
)
from regard.tokenizers.tokenizer import Tokenizer
from regard.tokenizers.training import train_tokenizer
from regard.utils.errors import DataError, UsageError


def documents(*paths: Path) -> list[str]:
    found = [""]
    for text, ends in Corpus.find(paths).chunks():
        found[-1] += text
        if ends:
            found.append("")
    assert found.pop() == ""
    return found


def test_files_folders_and_json_lines(tmp_path: Path) -> None:
    (tmp_path / "b.txt").write_text("Second.\nLine.\n", encoding="utf-8")
    (tmp_path / "a.txt.gz").write_bytes(gzip.compress("Été.".encode()))
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "c.jsonl").write_text('{"text": "One"}\n\n{"text": "Two", "id": 7}\n', encoding="utf-8")
    (tmp_path / "deep" / "picture.png").write_bytes(b"\0\1")
    assert documents(tmp_path) == ["Été.", "Second.\nLine.\n", "One", "Two"]
    assert documents(tmp_path / "deep" / "c.jsonl", tmp_path / "b.txt") == ["One", "Two", "Second.\nLine.\n"]


@pytest.mark.parametrize(
    ("name", "data", "line"),
    [
        ("empty.txt", b"", None),
        ("blank.txt", b" \n\n", None),
        ("binary.txt", b"ab\nc\0d", 2),
        ("latin.txt", b"one\ntw\xf6\n", 2),
        ("half.txt", "one\ntwö".encode()[:-1], 2),
        ("wide.txt", "abc".encode("utf-16"), None),
        ("cut.txt.gz", gzip.compress(b"abc" * 99, mtime=0)[:-9], None),
        ("rows.jsonl", b'{"text": "a"}\n{"txt": "b"}\n', 2),
        ("rows.jsonl", b'{"text": "a"}\nb\n', 2),
        ("rows.jsonl", b'{"text": "a"}\n{"text": "\xf6"}\n', 2),
        ("rows.jsonl", b"[1]\n", 1),
        ("rows.jsonl", b"\n", None),
    ],
)
def test_files_that_are_not_text_are_refused(tmp_path: Path, name: str, data: bytes, line: int | None) -> None:
    (tmp_path / name).write_bytes(data)
    with pytest.raises(DataError) as caught:
        documents(tmp_path / name)
    assert (caught.value.path, caught.value.line) == (tmp_path / name, line)


def test_empty_files_are_ignored_in_a_folder_and_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    for name, data in (
        ("empty.txt", b""),
        ("blank.txt", b" \n\n"),
        ("mark.txt", "\ufeff".encode()),
        ("empty.txt.gz", gzip.compress(b"\n")),
        ("deep/rows.jsonl", b'\n{"text": ""}\n'),
    ):
        (tmp_path / name).write_bytes(data)
    with pytest.raises(DataError):
        Corpus.find([tmp_path])
    (tmp_path / "deep" / "full.txt").write_text("words\n", encoding="utf-8")
    assert documents(tmp_path) == ["words\n"]
    assert Corpus.find([tmp_path]).num_empty == 5
    assert len(Corpus.find([tmp_path]).notes()) == 1
    assert Corpus.find([tmp_path / "deep" / "full.txt"]).notes() == []
    with pytest.raises(DataError) as caught:
        documents(tmp_path / "blank.txt", tmp_path)
    assert caught.value.path == tmp_path / "blank.txt"
    (tmp_path / "wrong.txt").write_bytes(b"\xff")
    with pytest.raises(DataError) as caught:
        documents(tmp_path)
    assert (caught.value.path, caught.value.line) == (tmp_path / "wrong.txt", 1)


def test_missing_files(tmp_path: Path) -> None:
    for path in (tmp_path / "none.txt", tmp_path):
        with pytest.raises(UsageError) as caught:
            Corpus.find([path])
        assert caught.value.path == path
    with pytest.raises(UsageError):
        Corpus.find([])


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0\r\ufeff"), min_size=1).filter(str.strip))
def test_chunks_joined_are_the_text(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    path = tmp_path_factory.mktemp("corpus") / "t.txt"
    path.write_text(text, encoding="utf-8", newline="")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "CHUNK_BYTES", 3)
        assert documents(path) == [text]


def small_corpus(tmp_path: Path) -> Corpus:
    (tmp_path / "a.txt").write_text("the cat sleeps\nthe dog runs\n" * 50, encoding="utf-8")
    (tmp_path / "b.txt").write_text("a bird sings\n" * 20, encoding="utf-8")
    return Corpus.find([tmp_path / "a.txt", tmp_path / "b.txt"])


@pytest.mark.parametrize("kind", ["char", "byte-bpe"])
def test_a_large_corpus_is_encoded_once_and_cached(tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    corpus = small_corpus(tmp_path)
    learned = 0

    def learn(texts: object) -> Tokenizer:
        nonlocal learned
        learned += 1
        return train_tokenizer(list(texts), kind=kind, vocab_size=300)  # type: ignore[call-overload]

    expected_tokenizer = learned_tokenizer(corpus, {}, learn)
    expected = corpus_ids(corpus, expected_tokenizer)
    end = expected_tokenizer.end_id
    texts = [path.read_text(encoding="utf-8") for path in corpus.files]
    assert expected.tolist() == [i for text in texts for i in (*expected_tokenizer.encode(text), end)]

    monkeypatch.setattr(module, "MAX_IN_MEMORY", 100)
    monkeypatch.setattr(module, "CHUNK_BYTES", 64)
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "kept"))
    for _ in range(2):
        tokenizer = learned_tokenizer(corpus, {"kind": kind}, learn)
        assert tokenizer == expected_tokenizer
        ids = corpus_ids(corpus, tokenizer)
        assert isinstance(ids, np.memmap)
        assert ids.tolist() == expected.tolist()
        monkeypatch.setattr(module, "_encoded", None)  # cached ids are not computed again
    assert learned == 2
    corpus.files[0].write_text("other\n" * 50, encoding="utf-8")
    with pytest.raises(TypeError):
        corpus_ids(corpus, tokenizer)
    assert {path.name for path in (tmp_path / "kept").rglob("*.*")} == {"ids.bin", "tokenizer.json"}


def test_the_least_recently_used_entries_are_deleted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path))
    monkeypatch.setattr(module, "MAX_CACHE_BYTES", 250)
    folders = {}
    for time, name in enumerate("ab"):
        with cache_folder({"name": name}) as folder:
            (folder / "ids.bin").write_bytes(bytes(100))
        os.utime(folder, (time, time))
    for name in "ac":  # a is older than b, but used again
        with cache_folder({"name": name}) as folder:
            (folder / "ids.bin").write_bytes(bytes(100))
            folders[folder.name] = name
    assert {folders.get(path.name) for path in (tmp_path / "corpus").iterdir()} == {"a", "c"}
    with cache_folder({"name": "e"}) as folder:
        (folder / "ids.bin").write_bytes(bytes(999))
    assert [path.name for path in (tmp_path / "corpus").iterdir()] == [folder.name], "never the newest"


def test_a_cache_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    corpus = small_corpus(tmp_path)
    monkeypatch.setattr(module, "MAX_IN_MEMORY", 100)
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "a.txt"))
    tokenizer = train_tokenizer(["the cat"], kind="char", vocab_size=300)
    with pytest.raises(DataError) as caught:
        corpus_ids(corpus, tokenizer)
    assert caught.value.argument == "REGARD_CACHE"


def test_the_end_is_the_validation_split() -> None:
    ids = np.arange(100)
    train, validation = split_ids(ids, fraction=0.1, max_tokens=1000)
    assert (len(train), validation.tolist()) == (90, list(range(90, 100)))
    assert len(split_ids(ids, fraction=0.5, max_tokens=7)[1]) == 7


@given(st.integers(2, 23), st.integers(0, 60), st.integers(0, 3), st.integers(0, 3))
def test_windows_of_an_epoch_do_not_overlap_and_cover_most(context: int, more: int, seed: int, epoch: int) -> None:
    count = context + 1 + more
    starts = sorted(window_starts(count, context=context, seed=seed, epoch=epoch).tolist())
    assert starts
    assert starts[0] >= 0
    assert starts[-1] + context + 1 <= count, "the last target must exist"
    assert all(b - a == context for a, b in itertools.pairwise(starts))
    assert count - 1 - len(starts) * context < 2 * context
    again = window_starts(count, context=context, seed=seed, epoch=epoch)
    assert sorted(again.tolist()) == starts


def test_a_text_shorter_than_the_context() -> None:
    with pytest.raises(DataError) as caught:
        window_starts(8, context=8, seed=0, epoch=0)
    assert (caught.value.argument, caught.value.value) == ("context_length", 8)


def test_batches_of_windows_and_their_shares() -> None:
    starts = np.arange(0, 70, 7)
    batches = WindowBatches(starts, 4)
    assert list(batches) == [[0, 7, 14, 21], [28, 35, 42, 49], [56, 63]]
    assert batches[-1] == [56, 63]
    with pytest.raises(IndexError):
        batches[3]
    shares = [WindowBatches(starts, 4, rank=rank, world_size=2) for rank in (0, 1)]
    assert [list(share) for share in shares] == [[batches[0], batches[2]], [batches[1], batches[0]]]


def test_json_lines_may_hold_any_text(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text(json.dumps({"text": "a\nb\0c"}) + "\n", encoding="utf-8")
    assert documents(path) == ["a\nb\0c"]
