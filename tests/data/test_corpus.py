"""Plain text of any size: what is read, what is refused, and ids that are kept between runs."""

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
from regard.data.corpus import Corpus, WindowBatches, corpus_ids, kept_corpus, learned_tokenizer, split_ids, windows
from regard.errors import DataError, UsageError
from regard.text.tokenizer import Tokenizer
from regard.text.training import train_tokenizer


def documents(*paths: Path) -> list[str]:
    found = [""]
    for text, ends in Corpus.find(paths).stretches():
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
    ("name", "data", "message"),
    [
        ("empty.txt", b"", "is empty. Give a file with text in it"),
        ("blank.txt", b" \n\n", "is empty"),
        ("binary.txt", b"ab\nc\0d", r"binary\.txt:2: a NUL byte. This is not a text file"),
        ("latin.txt", b"one\ntw\xf6\n", r"latin\.txt:2: not valid UTF-8 \(byte 0xF6\)"),
        ("wide.txt", "abc".encode("utf-16"), "is UTF-16, not UTF-8"),
        ("cut.txt.gz", gzip.compress(b"abc" * 99, mtime=0)[:-9], "is not a complete gzip file"),
        ("rows.jsonl", b'{"text": "a"}\n{"txt": "b"}\n', r'rows\.jsonl:2: no "text"'),
        ("rows.jsonl", b'{"text": "a"}\nb\n', r"rows\.jsonl:2: not JSON"),
        ("rows.jsonl", b"[1]\n", r'rows\.jsonl:1: no "text"'),
        ("rows.jsonl", b"\n", "is empty"),
    ],
)
def test_what_is_not_text_is_refused(tmp_path: Path, name: str, data: bytes, message: str) -> None:
    (tmp_path / name).write_bytes(data)
    with pytest.raises(DataError, match=message):
        documents(tmp_path / name)


def test_empty_files_of_a_folder_are_passed_over_but_not_one_that_was_named(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    for name, data in (
        ("empty.txt", b""),
        ("blank.txt", b" \n\n"),
        ("mark.txt", "\ufeff".encode()),
        ("empty.txt.gz", gzip.compress(b"\n")),
        ("deep/rows.jsonl", b'\n{"text": ""}\n'),
    ):
        (tmp_path / name).write_bytes(data)
    with pytest.raises(DataError, match="holds nothing but empty files"):
        Corpus.find([tmp_path])
    (tmp_path / "deep" / "full.txt").write_text("words\n", encoding="utf-8")
    assert documents(tmp_path) == ["words\n"]
    assert Corpus.find([tmp_path]).remarks() == ["data: empty files passed over: 5"]
    assert Corpus.find([tmp_path / "deep" / "full.txt"]).remarks() == []
    with pytest.raises(DataError, match=r"blank\.txt is empty"):
        documents(tmp_path / "blank.txt", tmp_path)
    (tmp_path / "wrong.txt").write_bytes(b"\xff")
    with pytest.raises(DataError, match=r"wrong\.txt:1: not valid UTF-8"):
        documents(tmp_path)


def test_what_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="does not exist"):
        Corpus.find([tmp_path / "none.txt"])
    with pytest.raises(UsageError, match="holds no text files"):
        Corpus.find([tmp_path])


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0\r\ufeff"), min_size=1).filter(str.strip))
def test_stretches_put_together_are_the_text(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    path = tmp_path_factory.mktemp("corpus") / "t.txt"
    path.write_text(text, encoding="utf-8", newline="")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "STRETCH", 3)
        assert documents(path) == [text]


def small_corpus(tmp_path: Path) -> Corpus:
    (tmp_path / "a.txt").write_text("the cat sleeps\nthe dog runs\n" * 50, encoding="utf-8")
    (tmp_path / "b.txt").write_text("a bird sings\n" * 20, encoding="utf-8")
    return Corpus.find([tmp_path / "a.txt", tmp_path / "b.txt"])


@pytest.mark.parametrize("kind", ["char", "byte-bpe"])
def test_a_large_corpus_is_cut_once_and_found_again(tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
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

    monkeypatch.setattr(module, "IN_MEMORY", 100)
    monkeypatch.setattr(module, "STRETCH", 64)
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "kept"))
    for _ in range(2):
        tokenizer = learned_tokenizer(corpus, {"kind": kind}, learn)
        assert tokenizer == expected_tokenizer
        ids = corpus_ids(corpus, tokenizer)
        assert isinstance(ids, np.memmap)
        assert ids.tolist() == expected.tolist()
        monkeypatch.setattr(module, "_encoded", None)  # what is kept is not computed again
    assert learned == 2
    corpus.files[0].write_text("other\n" * 50, encoding="utf-8")
    with pytest.raises(TypeError):
        corpus_ids(corpus, tokenizer)
    assert not list((tmp_path / "kept").rglob("*.tmp"))


def test_what_was_kept_longest_ago_makes_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path))
    monkeypatch.setattr(module, "MOST_KEPT", 250)
    folders = {}
    for time, name in enumerate("ab"):
        with kept_corpus({"name": name}) as folder:
            (folder / "ids.npy").write_bytes(bytes(100))
        os.utime(folder, (time, time))
    for name in "ac":  # a is older than b, but used again
        with kept_corpus({"name": name}) as folder:
            (folder / "ids.npy").write_bytes(bytes(100))
            folders[folder.name] = name
    assert {folders.get(path.name) for path in (tmp_path / "corpus").iterdir()} == {"a", "c"}
    with kept_corpus({"name": "e"}) as folder:
        (folder / "ids.npy").write_bytes(bytes(999))
    assert [path.name for path in (tmp_path / "corpus").iterdir()] == [folder.name], "the newest stays in any case"


def test_nowhere_to_keep_ids(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    corpus = small_corpus(tmp_path)
    monkeypatch.setattr(module, "IN_MEMORY", 100)
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "a.txt"))
    tokenizer = train_tokenizer(["the cat"], kind="char", vocab_size=300)
    with pytest.raises(DataError, match="Name a folder with room in the environment variable REGARD_CACHE"):
        corpus_ids(corpus, tokenizer)


def test_the_end_is_held_out() -> None:
    ids = np.arange(100)
    train, held = split_ids(ids, share=0.1, most=1000)
    assert (len(train), held.tolist()) == (90, list(range(90, 100)))
    assert len(split_ids(ids, share=0.5, most=7)[1]) == 7


@given(st.integers(2, 23), st.integers(0, 60), st.integers(0, 3), st.integers(0, 3))
def test_windows_of_an_epoch_do_not_overlap_and_waste_little(context: int, more: int, seed: int, epoch: int) -> None:
    count = context + 1 + more
    starts = sorted(windows(count, context=context, seed=seed, epoch=epoch).tolist())
    assert starts, "there is always something to learn from"
    assert starts[0] >= 0
    assert starts[-1] + context + 1 <= count, "the token after the last must be there"
    assert all(b - a == context for a, b in itertools.pairwise(starts))
    assert count - 1 - len(starts) * context < 2 * context
    again = windows(count, context=context, seed=seed, epoch=epoch)
    assert sorted(again.tolist()) == starts


def test_a_text_shorter_than_the_context() -> None:
    with pytest.raises(DataError, match="the text has 8 tokens, too few for a context of 8"):
        windows(8, context=8, seed=0, epoch=0)


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
