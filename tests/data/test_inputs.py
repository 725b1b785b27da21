"""Inputs of predictions: words, files and stdin."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from regard.data import inputs
from regard.data.inputs import is_file, is_read_from_file, one_input, read_inputs, stdin_lines, text_lines
from regard.spec import Field
from regard.utils.errors import DataError, UsageError

TEXT = Field("text", "text", "A text.")
PAIR = (Field("first", "text", "A text."), Field("second", "text", "A text."))


def _read(path: Path, data: bytes | None) -> Sequence[Any]:
    return text_lines(path.read_bytes() if data is None else data, path)


def test_lines_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes("\ufeffone\r\n\ntwo\u2028three\n".encode())
    assert list(read_inputs([str(path)], [TEXT], _read)) == [["one", "", "two\u2028three"]]
    for data, line in ((b"", None), (b"one\ntw\xf6\n", 2)):
        with pytest.raises(DataError) as caught:
            text_lines(data, path)
        assert (caught.value.path, caught.value.line) == (path, line)


def test_lines_of_stdin_come_in_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inputs, "READ_SIZE", 4)
    monkeypatch.setattr(inputs, "GROUP_LINES", 2)
    stream = io.BytesIO("a\nb\nc\r\nlang\nü".encode())
    groups = list(stdin_lines(stream))
    assert [text for group in groups for text in group] == ["a", "b", "c", "lang", "ü"]
    assert max(map(len, groups)) == 2
    monkeypatch.setattr(inputs, "MAX_LINE", 10)
    with pytest.raises(DataError) as caught:
        list(stdin_lines(io.BytesIO(b"a\n" + b"x" * 20)))
    assert caught.value.line == 2
    with pytest.raises(DataError) as caught:
        list(stdin_lines(io.BytesIO(b"a\nb\n\xff\n")))
    assert caught.value.line == 3


def test_words(tmp_path: Path) -> None:
    assert list(read_inputs(["one", "two"], [TEXT], _read)) == [["one", "two"]]
    assert list(read_inputs(["one", "two"], PAIR, _read)) == [[("one", "two")]]
    for words in (["one", "two", "three"], ["one"]):
        with pytest.raises(UsageError) as caught:
            read_inputs(words, PAIR, _read)
        assert (caught.value.argument, caught.value.value) == ("inputs", len(words))
    path = tmp_path / "a.txt"
    path.write_text("one\n", encoding="utf-8")
    for words in ([str(path), "two"], [str(tmp_path)], ["none.csv"]):
        with pytest.raises(UsageError) as caught:
            read_inputs(words, [TEXT], _read)
        assert caught.value.value == words[0]
    assert not is_file("x" * 10_000)
    assert not is_file("what about a.txt")


def test_fields_with_several_texts_and_documents(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    context, endings = Field("context", "text", "A text."), Field("endings", "texts", "Several texts.")
    assert one_input(["c", "d", "e"], (context, endings)) == ("c", ("d", "e"))
    question, passage = Field("question", "text", "A text."), Field("passage", "document", "A document.")
    path = tmp_path / "passage.txt"
    path.write_text("One line.\nAnother.\n", encoding="utf-8")
    assert one_input(["q", str(path)], (question, passage)) == ("q", "One line.\nAnother.\n")
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"Of stdin.\r\nMore.\n")))
    assert one_input(["q"], (question, passage)) == ("q", "Of stdin.\nMore.")
    with pytest.raises(UsageError) as caught:
        one_input([str(path), "p"], (question, passage))
    assert caught.value.value == str(path), "only a document may be a file"


def test_options_of_reading_apply_to_files(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.touch()
    assert is_read_from_file([str(path)], [TEXT])
    assert not is_read_from_file(["a text"], [TEXT])
    assert not is_read_from_file([str(path), "a text"], [TEXT])
    assert not is_read_from_file([], [TEXT]), "lines of stdin have no columns"
    assert is_read_from_file(["-"], PAIR)
