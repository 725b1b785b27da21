"""Plain text for language models: files or the built-in stories, for generate, suggest, score and fill.

Does not import torch.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.checkpoint.card import CardData
from regard.data.corpus import Corpus, learned_tokenizer
from regard.data.synthetic.stories import stories
from regard.tasks.base import Reader, Splits, new_tokenizer
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
        """Train a tokenizer on the files or, without files, on `texts`. For a large corpus, cache it under `key`."""

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
