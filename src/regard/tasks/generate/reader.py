"""Plain text for language models, or the built-in stories; also the readers of `suggest` and `score`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from regard.data.corpus import Corpus
from regard.data.files import ReadResult
from regard.tasks.base import Reader
from regard.tasks.data import CorpusReader


class GenerateReader(CorpusReader):
    """Files and folders of text, plain or JSON lines."""

    def read_test(self, data: Sequence[Path], predictor: Any) -> ReadResult[str]:
        corpus = Corpus.find(data)
        return ReadResult(list(_documents(corpus)), remarks=corpus.notes())

    def read_inputs(self, path: Path, data: bytes | None = None) -> Sequence[str]:
        """The documents of a file; a text file is one."""
        return list(_documents(Corpus.find([path])))


def _documents(corpus: Corpus) -> Iterator[str]:
    parts: list[str] = []
    for text, ends in corpus.chunks():
        parts.append(text)
        if ends:
            yield "".join(parts)
            parts = []


class SuggestReader(GenerateReader):
    """Reads text as `generate` does, but inputs line by line."""

    def read_inputs(self, path: Path, data: bytes | None = None) -> Sequence[str]:
        return Reader.read_inputs(self, path, data)


class ScoreReader(GenerateReader):
    """Reads text as `generate` does, but a file with several documents is one text."""

    def read_inputs(self, path: Path, data: bytes | None = None) -> Sequence[str]:
        return ["".join(super().read_inputs(path, data))]
