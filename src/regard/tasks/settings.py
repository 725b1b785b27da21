"""How each task makes examples of its data. Without torch, which only the tasks themselves need."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from regard.errors import UsageError, unknown

CLASSIFY, PAIR = "classify", "pair"  # the tasks of a head for sequences
NUMBER = "number"  # what the single output of a regression is called


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
    validation_share: float = 0.1  # of the text, at its end, held out (300,000 tokens at most)
    window: int | None = None  # tokens that are learned from at once, if fewer than the context

    def __post_init__(self) -> None:
        if self.window is not None and self.window < 1:
            raise UsageError(f"window must be at least 1, not {self.window}.")
        if not 0 < self.validation_share < 1:
            raise UsageError(f"validation_share must lie between 0 and 1, as 0.1 does, not {self.validation_share}.")


@dataclass(frozen=True, kw_only=True)
class FillConfig:
    pieces: int = 8000  # how many pieces of words the vocabulary learns at most
    lowercase: bool = True  # read capitals as small letters, as BERT's uncased models do
    next_sentence: bool = True  # learn, too, whether one stretch of text follows another
    whole_words: bool = False  # hide all pieces of a word or none
    validation_share: float = 0.1  # of the text, at its end, held out (300,000 pieces at most)
    window: int | None = None  # pieces that are read at once, if fewer than the context

    def __post_init__(self) -> None:
        if self.window is not None and self.window < 8:
            raise UsageError(f"window must be at least 8, room for two sentences and their symbols, not {self.window}.")
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


@dataclass(frozen=True, kw_only=True)
class LabelConfig:
    # how often all examples are seen, where neither --steps nor --minutes says how long: 3 if not set, but a new model
    # needs more of few examples: as many as make 300 steps, 40 at most
    epochs: float | None = None
    batch_rows: int = 32  # examples of a batch, of like length
    # how many tokens of an example are read at once; of two texts the longer one is cut first, while the words of a
    # sentence and the passage of a question go on in further windows
    max_tokens: int = 128
    pieces: int = 8000  # how many pieces the vocabulary of a new model learns at most
    # which parts of a model that was begun with stay as they are: nothing, embeddings, encoder (all but the head), or a
    # number: the embeddings and so many layers from below
    freeze: str = "nothing"
    layer_decay: float = 1.0  # each layer learns at this part of the rate of the one above it; 1 is the same for all
    # balanced: rare labels count as much as common ones, in the validation loss, too
    class_weights: Literal["none", "balanced"] = "none"
    validation_share: float = 0.1  # of the examples, held out where no --validation is given

    def __post_init__(self) -> None:
        for name in ("batch_rows", "pieces"):
            if getattr(self, name) < 1:
                raise UsageError(f"{name} must be at least 1, not {getattr(self, name)}.")
        if self.max_tokens < 4:
            raise UsageError(f"max_tokens must be at least 4, for [CLS], [SEP] and some text, not {self.max_tokens}.")
        if self.epochs is not None and not self.epochs > 0:
            raise UsageError(f"epochs must be more than 0, not {self.epochs}.")
        if not 0 < self.layer_decay <= 1:
            raise UsageError(f"layer_decay must be above 0 and at most 1, not {self.layer_decay}.")
        if not 0 < self.validation_share < 1:
            raise UsageError(f"validation_share must lie between 0 and 1, as 0.1 does, not {self.validation_share}.")
        if self.class_weights not in ("none", "balanced"):
            raise unknown("class_weights", str(self.class_weights), ("none", "balanced"))
        if self.freeze not in FREEZE and not self.freeze.isdecimal():
            raise unknown("freeze", self.freeze, (*FREEZE, "a number of layers"))


FREEZE = ("nothing", "embeddings", "encoder")


@dataclass(frozen=True, kw_only=True)
class SpanConfig:
    """How passages are read for answers; kept in the model's folder."""

    stride: int = 128  # how many tokens a part of a long passage shares with the part before it
    max_answer_tokens: int = 30  # no answer is longer than this
    n_best: int = 1  # how many of the best answers are given
    # no answer is given where "none" scores higher than the best one by more than this; without it there always is one.
    # Where some questions of the data have no answer, training chooses what gives the best F1 on its validation part
    threshold: float | None = None

    def __post_init__(self) -> None:
        if self.stride < 0:
            raise UsageError(f"stride must be at least 0, not {self.stride}.")
        for name in ("max_answer_tokens", "n_best"):
            if getattr(self, name) < 1:
                raise UsageError(f"{name} must be at least 1, not {getattr(self, name)}.")
        if self.threshold is not None and math.isnan(self.threshold):
            raise UsageError("threshold must be a number, as 0 is: the difference of two scores.")
