"""Read plain text for language models."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from regard.data.corpus import Corpus
from regard.data.files import ReadResult
from regard.tasks.corpus import CorpusReader


class GenerateReader(CorpusReader):
    """Reads each document of a corpus as one text."""

    def read_test(self, data: Sequence[Path], predictor: Any) -> ReadResult[str]:
        corpus = Corpus.find(data)
        return ReadResult(list(_documents(corpus)), remarks=corpus.notes())

    def read_inputs(self, path: Path, data: bytes | None = None) -> Sequence[str]:
        """Return the documents of a file; a text file is one document."""
        return list(_documents(Corpus.find([path])))


def _documents(corpus: Corpus) -> Iterator[str]:
    parts: list[str] = []
    for text, ends in corpus.chunks():
        parts.append(text)
        if ends:
            yield "".join(parts)
            parts = []
