"""Plain text for pre-training, or the built-in stories. Tokenization follows when the tokenizer is known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.data.corpus import Corpus
from regard.data.documents import Documents, documents_of, read_documents
from regard.data.files import ReadResult
from regard.data.sentence_pairs import longest_sentence
from regard.data.synthetic.stories import stories
from regard.tasks.base import Reader, Splits
from regard.tasks.encoder.config import ROW_TOKENS
from regard.tokenizers.tokenizer import Tokenizer

DATASET = "built-in stories"
MAX_HELD_OUT = 300_000  # validation tokens


@dataclass(frozen=True)
class TextSplits(Splits[Any]):
    """Text to train on, as files or as one text for each document; and files to validate on, if there are any."""

    corpus: Corpus | None = None
    validation_corpus: Corpus | None = None

    def documents(self, tokenizer: Tokenizer, *, longest: int, val_fraction: float) -> tuple[Documents, Documents]:
        """Training and validation documents, in sentences of at most `longest` tokens."""
        if self.corpus is None:
            found = documents_of(self.train, tokenizer, longest=longest)
        else:
            found = read_documents(self.corpus, tokenizer, longest=longest)
        if self.validation_corpus is not None:
            return found, read_documents(self.validation_corpus, tokenizer, longest=longest)
        return found.split(fraction=val_fraction, max_tokens=MAX_HELD_OUT)

    @property
    def names(self) -> tuple[str, str]:
        """What the training and the validation text are called."""
        name = DATASET if self.corpus is None else str(self.corpus)
        return name, f"{name}, the end" if self.validation_corpus is None else str(self.validation_corpus)


class FillReader(Reader[Any]):
    """Files of text, documents and sentences in their order."""

    def read(self, data: Sequence[Path], validation: Sequence[Path] | None) -> TextSplits:
        corpora = [Corpus.find(paths) if paths else None for paths in (data, validation)]
        notes = tuple(note for corpus in corpora if corpus is not None for note in corpus.notes())
        return TextSplits((), (), (), notes, *corpora)

    def builtin(self) -> TextSplits:
        return TextSplits(stories(), (), (), (f"data: {DATASET} (no file was given)",))

    def read_test(self, data: Sequence[Path], predictor: Any) -> ReadResult[Documents]:
        """The text as one list of documents, in the tokens of the predictor."""
        longest = longest_sentence(min(ROW_TOKENS, predictor.model.config.context_length))
        documents = read_documents(Corpus.find(data), predictor.tokenizer, longest=longest)
        remarks = []
        if len(documents.ids) > MAX_HELD_OUT:
            remarks.append(f"scored on the last {MAX_HELD_OUT:,} of {len(documents.ids):,} tokens")
            documents = documents.split(fraction=MAX_HELD_OUT / len(documents.ids), max_tokens=MAX_HELD_OUT)[1]
        return ReadResult([documents], remarks=remarks)
