"""Plain text for language models: files or the built-in stories, for generate, suggest, score and fill.

Does not import torch.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.checkpoint.card import CardData
from regard.data.corpus import Corpus, learned_tokenizer
from regard.data.documents import Documents, read_documents
from regard.data.files import ReadResult
from regard.data.sentence_pairs import longest_sentence
from regard.data.synthetic.stories import stories
from regard.tasks.base import Reader, Splits, new_tokenizer
from regard.tasks.encoder.config import ROW_TOKENS
from regard.tokenizers.tokenizer import Tokenizer

STORIES = "built-in stories"
MAX_VALIDATION_TOKENS = 300_000  # scoring more takes long and adds little precision


@dataclass(frozen=True)
class CorpusSplits(Splits[str]):
    """Plain training text, as files or as the documents in `train`, and optional validation files.

    The text is tokenized later, when the tokenizer is known.
    """

    corpus: Corpus | None = None
    validation_corpus: Corpus | None = None

    def sources_of(self, *num_tokens: int) -> tuple[CardData, ...]:
        """Return the training and validation text for the model card, with their token counts."""
        name = STORIES if self.corpus is None else str(self.corpus)
        names = name, f"{name}, the end" if self.validation_corpus is None else str(self.validation_corpus)
        parts = zip(names, ("training", "validation"), num_tokens, strict=True)
        return tuple(CardData(name=name, role=role, num_rows=count) for name, role, count in parts)

    def train_tokenizer(self, texts: Iterable[str], key: dict[str, Any], **options: Any) -> Tokenizer:
        """Train a tokenizer on the files or, without files, on `texts`; that of a large corpus is cached by `key`."""

        def train(texts: Iterable[str]) -> Tokenizer:
            return new_tokenizer(texts, **options)

        return train(texts) if self.corpus is None else learned_tokenizer(self.corpus, key, train)


class CorpusReader(Reader[Any]):
    """Reads plain text from files and folders."""

    def read(self, data: Sequence[Path], validation: Sequence[Path] | None) -> CorpusSplits:
        corpora = [Corpus.find(paths) if paths else None for paths in (data, validation)]
        notes = tuple(note for corpus in corpora if corpus is not None for note in corpus.notes())
        return CorpusSplits((), (), notes=notes, corpus=corpora[0], validation_corpus=corpora[1])

    def builtin(self) -> CorpusSplits:
        return CorpusSplits(stories(), (), notes=(f"data: {STORIES} (no file was given)",))


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


class SuggestReader(GenerateReader):
    """Reads text as `generate` does, but inputs line by line."""

    def read_inputs(self, path: Path, data: bytes | None = None) -> Sequence[str]:
        return Reader.read_inputs(self, path, data)


class ScoreReader(GenerateReader):
    """Reads text as `generate` does, but a file with several documents is one text."""

    def read_inputs(self, path: Path, data: bytes | None = None) -> Sequence[str]:
        return ["".join(super().read_inputs(path, data))]


class FillReader(CorpusReader):
    """Reads text as documents of sentences."""

    def read_test(self, data: Sequence[Path], predictor: Any) -> ReadResult[Documents]:
        """Return the text as one list of documents, in the tokens of the predictor."""
        longest, limit = longest_sentence(min(ROW_TOKENS, predictor.model.config.context_length)), MAX_VALIDATION_TOKENS
        documents = read_documents(Corpus.find(data), predictor.tokenizer, longest=longest)
        remarks = []
        if len(documents.ids) > limit:
            remarks.append(f"scored on the last {limit:,} of {len(documents.ids):,} tokens")
            documents = documents.split(fraction=limit / len(documents.ids), max_tokens=limit)[1]
        return ReadResult([documents], remarks=remarks)
