"""How each task makes examples of its data. Without torch, which only the tasks themselves need."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from regard.errors import UsageError, unknown


@dataclass(frozen=True, kw_only=True)
class TranslateConfig:
    tokenizer: Literal["bpe", "byte-bpe", "wordpiece", "word", "char"] = "bpe"  # what a piece is
    pieces: int = 8000  # how many pieces the vocabulary learns at most
    separate_vocabularies: bool = False  # one vocabulary for each language instead of a joint one
    piece_dropout: float = 0.0  # share of BPE merges left out at random in training; more is better for few data
    word_dropout: float = 0.0  # share of written pieces hidden from the decoder in training: it must look at the source
    max_length: int = 256  # pairs with a side of more pieces than this, the end included, are left out and counted

    def __post_init__(self) -> None:
        for name in ("piece_dropout", "word_dropout"):
            if not 0 <= getattr(self, name) < 1:
                raise UsageError(f"{name} must be at least 0 and below 1, not {getattr(self, name)}.")


@dataclass(frozen=True, kw_only=True)
class GenerateConfig:
    tokens: Literal["char", "bpe"] = "bpe"  # what is read and written at a time: characters, or pieces of words
    pieces: int = 4000  # how many pieces the vocabulary learns at most
    validation_share: float = 0.1  # of the text, at its end, held out (2 million tokens at most)
    window: int | None = None  # tokens that are learned from at once, if fewer than the context

    def __post_init__(self) -> None:
        if self.window is not None and self.window < 1:
            raise UsageError(f"window must be at least 1, not {self.window}.")
        if not 0 < self.validation_share < 1:
            raise UsageError(f"validation_share must lie between 0 and 1, as 0.1 does, not {self.validation_share}.")


@dataclass(frozen=True, kw_only=True)
class EmbedConfig:
    pooling: Literal["mean", "cls", "max"] = "mean"  # how the tokens' vectors become the text's: mean, first, largest
    normalise: bool = True  # scale vectors to length 1, so that a product of two is the cosine between them
    max_tokens: int | None = None  # how many tokens of a text are read; as many as the model can if not set

    def __post_init__(self) -> None:
        if self.pooling not in ("mean", "cls", "max"):
            raise unknown("pooling", str(self.pooling), ("mean", "cls", "max"))
        if self.max_tokens is not None and self.max_tokens < 3:
            raise UsageError(
                f"max_tokens must be at least 3, for a token between [CLS] and [SEP], not {self.max_tokens}."
            )
