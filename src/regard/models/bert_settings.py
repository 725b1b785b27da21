"""The settings of BERT, and its shapes by name; without torch, as those of the Transformer."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from regard.errors import UsageError, number_of, unknown
from regard.nn.kinds import Activation

HeadKind = Literal["none", "words", "follows", "words-follows", "sequence", "tokens", "spans", "choice"]
Answers = Literal["one", "several", "number"]
_COUNTS = ("vocab_size", "context", "segments", "layers", "width", "hidden", "heads", "head_width")
_SHARES = ("dropout", "attention_dropout", "head_dropout")


@dataclass(frozen=True, kw_only=True)
class BertConfig:
    vocab_size: int  # how many pieces the vocabulary has
    context: int = 512  # how many tokens are seen at once
    segments: int = 2  # how many texts can stand side by side, each with a vector of its own
    layers: int = 12  # blocks
    width: int = 768  # length of the vector of each token
    hidden: int = 3072  # inner width of the feed-forward networks
    heads: int = 12  # attention heads in each block
    head_width: int = 64  # length of a head's queries, keys and values
    heads_at: Mapping[str, int] = field(default_factory=dict)  # other head counts, by address: {"encoder.2.self": 3}
    activation: Activation = "gelu"  # of the feed-forward networks
    norm_epsilon: float = 1e-12  # keeps the division finite
    pooler: bool = True  # one more layer over the first token's vector, which sees the whole text
    dropout: float = 0.1  # share of each sublayer's output set to zero in training
    attention_dropout: float = 0.0  # share of attention weights set to zero in training
    # share of what a task's head reads set to zero in training; as dropout if not set
    head_dropout: float | None = None

    def __post_init__(self) -> None:
        for name in _COUNTS:
            if getattr(self, name) < 1:
                raise UsageError(f"{name} must be at least 1, not {getattr(self, name)}.")
        for name in _SHARES:
            share = getattr(self, name)
            if share is not None and not 0 <= share < 1:
                raise UsageError(f"{name} must be at least 0 and below 1, not {share}.")
        if self.activation not in get_args(Activation):
            raise unknown("activation", str(self.activation), get_args(Activation))
        if not 0 < self.norm_epsilon < math.inf:
            raise UsageError(f"norm_epsilon must be a finite number above 0, not {self.norm_epsilon}.")
        for address, heads in self.heads_at.items():
            if address not in self.attentions:
                raise unknown("address in heads_at", address, self.attentions)
            if heads < 1:
                raise UsageError(f"heads_at must leave at least 1 head at {address}, not {heads}.")

    @property
    def attentions(self) -> tuple[str, ...]:
        """The address of every attention, in the order in which they run."""
        return tuple(f"encoder.{i}.self" for i in range(self.layers))


@dataclass(frozen=True, kw_only=True)
class HeadConfig:
    """What stands on the encoder, beside the encoder's own settings in a model folder."""

    kind: HeadKind = "none"  # what it answers: hidden words, whether a sentence follows, or a task's question
    labels: tuple[str, ...] = ()  # of a sequence or of tokens: what each of the outputs means
    answers: Answers = "one"  # of a sequence: one of the labels, any number of them, or a number for each

    def __post_init__(self) -> None:
        for name, kind in (("kind", HeadKind), ("answers", Answers)):
            if getattr(self, name) not in get_args(kind):
                raise unknown(f"{name} of head", str(getattr(self, name)), get_args(kind))
        if bool(self.labels) != (self.kind in ("sequence", "tokens")):
            raise UsageError(f"a head of kind {self.kind!r} cannot have {number_of(len(self.labels), 'label')}.")


def _shape(layers: int, width: int) -> dict[str, Any]:
    """All of BERT's published shapes have heads of 64 numbers and feed-forward networks of four times the width."""
    return dict(layers=layers, width=width, hidden=4 * width, heads=width // 64, head_width=64)


# Shapes by name: the two of the paper (Devlin et al. 2018) and the smaller ones of Turc et al. (2019).
# `vocab_size` comes from the tokenizer; those called bert bring the paper's own.
PRESETS: dict[str, dict[str, Any]] = {
    "tiny": _shape(2, 128),
    "mini": _shape(4, 256),
    "small": _shape(4, 512),
    "medium": _shape(8, 512),
    "base": _shape(12, 768),
    "large": _shape(24, 1024),
    "bert-base": {**_shape(12, 768), "vocab_size": 30_522},
    "bert-large": {**_shape(24, 1024), "vocab_size": 30_522},
}
