"""Plain text for language models, or the built-in stories. Tokenization follows when the tokenizer is known."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.data.corpus import Corpus, Ids, corpus_ids, learned_tokenizer, split_ids
from regard.data.files import ReadResult
from regard.data.synthetic.stories import stories
from regard.tasks.base import Reader, Splits
from regard.tasks.generate.spec import GenerateTraining
from regard.tokenizers.tokenizer import Tokenizer
from regard.tokenizers.training import train_tokenizer
from regard.utils.errors import UsageError

DATASET = "built-in stories"
KINDS = {"char": "char", "bpe": "byte-bpe"}
MAX_CHARACTERS = 1 << 16  # vocabulary of a character tokenizer
MAX_VALIDATION = 300_000  # tokens: scoring more takes long and says little


@dataclass(frozen=True)
class TextSplits(Splits[str]):
    """Text to train on, as files or as the texts of `train`; and files to validate on, if there are any."""

    corpus: Corpus | None = None
    validation_corpus: Corpus | None = None

    def train_tokenizer(self, config: GenerateTraining) -> Tokenizer:
        """The tokenizer of a new model; that of a large corpus is cached."""
        if self.corpus is None:
            return _train_tokenizer(iter([self.text]), config)
        settings = {"tokenizer": config.tokenizer, "vocab_size": config.vocab_size}
        return learned_tokenizer(self.corpus, settings, lambda texts: _train_tokenizer(texts, config))

    def ids(self, tokenizer: Tokenizer, *, val_fraction: float) -> tuple[Ids, Ids]:
        """Training and validation ids, each in one row."""
        found = tokenizer.encode_array(self.text) if self.corpus is None else corpus_ids(self.corpus, tokenizer)
        if self.validation_corpus is not None:
            return found, corpus_ids(self.validation_corpus, tokenizer)
        return split_ids(found, fraction=val_fraction, max_tokens=MAX_VALIDATION)

    @property
    def text(self) -> str:
        """The texts of `train` in one."""
        return "\n\n".join(self.train)

    @property
    def names(self) -> tuple[str, str]:
        """What the training and the validation text are called."""
        name = DATASET if self.corpus is None else str(self.corpus)
        return name, f"{name}, the end" if self.validation_corpus is None else str(self.validation_corpus)


class GenerateReader(Reader[str]):
    """Files and folders of text, plain or JSON lines."""

    def read(self, data: Sequence[Path], validation: Sequence[Path] | None) -> TextSplits:
        corpora = [Corpus.find(paths) if paths else None for paths in (data, validation)]
        notes = tuple(note for corpus in corpora if corpus is not None for note in corpus.notes())
        return TextSplits((), (), (), notes, *corpora)

    def builtin(self) -> TextSplits:
        return TextSplits(stories(), (), (), (f"data: {DATASET} (no file was given)",))

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


def _train_tokenizer(texts: Iterator[str], config: GenerateTraining) -> Tokenizer:
    vocab_size = MAX_CHARACTERS if config.tokenizer == "char" else config.vocab_size
    try:
        return train_tokenizer(texts, kind=KINDS[config.tokenizer], vocab_size=vocab_size)
    except UsageError as error:
        raise UsageError(
            f"--tokenizer {config.tokenizer} with --vocab-size {config.vocab_size}: {error}",
            argument="vocab_size",
            value=config.vocab_size,
        ) from None
