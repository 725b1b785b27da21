"""The encoder alone: BERT. It reads a text in both directions, and gives every token a vector that knows the rest.

"BERT: Pre-training of Deep Bidirectional Transformers" (Devlin et al. 2018). What goes in is the sum of three tables:
which piece, which of the two texts, which place. A post-norm encoder with GELU follows. On top stand small heads, which
know no encoder: two to learn from plain text (guess hidden words; does the second text follow the first?) and one for
each kind of task. This file knows ids, not text, and nothing of losses or training.

| here | transformers | shape |
|---|---|---|
| embedding.weight | embeddings.word_embeddings | (N, D) |
| embedding.segments.weight | embeddings.token_type_embeddings | (segments, D) |
| embedding.positions.weight | embeddings.position_embeddings | (context, D) |
| encoder.i.self_attention.query_key_value | attention.self.query, key, value | (3 · H · Dh, D) |
| encoder.i.self_attention.output | attention.output.dense | (D, H · Dh) |
| encoder.i.feed_forward.widen, narrow | intermediate.dense, output.dense | (hidden, D), (D, hidden) |
| pooler | pooler.dense | (D, D) |

A text is `[CLS] a [SEP]`, a pair of texts `[CLS] a [SEP] b [SEP]`: `b [SEP]` has segment 1, what comes before it 0.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import NamedTuple, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.errors import UsageError
from regard.models.bert_settings import BertConfig, HeadConfig
from regard.nn import masks
from regard.nn.blocks import Block, Residual
from regard.nn.dropout import Dropout
from regard.nn.feed_forward import ACTIVATIONS, FeedForward
from regard.nn.multihead import MultiHeadAttention
from regard.nn.norms import LayerNorm
from regard.nn.positions import Learned
from regard.nn.taps import Tap, is_watched

DEVIATION = 0.02  # of fresh weights


class Bert(nn.Module):
    """ids in, a vector for every token out; `pool` makes one vector of a text."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.config = config
        self.embedding = Embedding(config)
        self.encoder = nn.ModuleList(make_block(config, f"encoder.{i}") for i in range(config.layers))
        self.pooler = nn.Linear(config.width, config.width) if config.pooler else None
        initialise(self)

    def forward(
        self,
        ids: Tensor,
        lengths: Tensor | None = None,
        segments: Tensor | None = None,
        *,
        at_first: bool = False,
        places: Tensor | None = None,
    ) -> Tensor:
        """ids (B, T) → hidden states (B, T, D).

        Who needs few of them saves a part of the last block: `at_first` gives those of the first tokens alone, (B, 1,
        D), and `places` those at some of the B·T places, (P, D).

        Row b has `lengths[b]` real ids, and padding behind them, which nobody attends to; None says that all are real.
        `segments` (B, T) tells to which of the texts an id belongs; None says that there is one text.
        """
        keep = masks.everything()
        if lengths is not None:
            keep = masks.lengths(lengths).ready(ids.shape[1], ids.shape[1], ids.device)
        x: Tensor = self.embedding(ids, segments)
        *blocks, last = cast(Iterable[Block], self.encoder)
        for block in blocks:
            x = block(x, keep)
        if places is not None:
            return last.at(places, x, keep)
        return last.at_first(x, keep) if at_first else last(x, keep)

    def pool(self, hidden: Tensor) -> Tensor:
        """hidden states (B, T, D) → what the first token, [CLS], gathered of the text: (B, D)."""
        if self.pooler is None:
            raise UsageError("this BERT has no pooler: it was trained for tokens only. Average its vectors instead.")
        return torch.tanh(self.pooler(hidden[:, 0]))


class Embedding(nn.Module):
    """What a token is, to which text it belongs and where it stands: three vectors, added and normalised."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(config.vocab_size, config.width))
        self.sparse = False  # whether a gradient names the rows that it has, as in nn.Embedding
        self.segments = nn.Embedding(config.segments, config.width)
        self.positions = Learned(config.width, length=config.context)
        self.norm = LayerNorm(config.width, epsilon=config.norm_epsilon)
        self.dropout = Dropout(config.dropout)
        self.tap = Tap()

    def forward(self, ids: Tensor, segments: Tensor | None = None) -> Tensor:
        segment = self.segments.weight[0] if segments is None else self.segments(segments)
        x = self.positions(F.embedding(ids, self.weight, sparse=self.sparse and self.training) + segment)
        out: Tensor = self.tap(self.dropout(self.norm(x)))
        return out


def make_block(config: BertConfig, address: str) -> Block:
    return Block(
        self_attention=MultiHeadAttention(
            config.width,
            heads=config.heads_at.get(f"{address}.self", config.heads),
            head_width=config.head_width,
            dropout=config.attention_dropout,
        ),
        feed_forward=FeedForward(config.width, hidden=config.hidden, activation=config.activation),
        make_residual=lambda: Residual(
            LayerNorm(config.width, epsilon=config.norm_epsilon), placement="post", dropout=config.dropout
        ),
    )


# --- Heads: from hidden states to answers --------------------------------------------------------------------


class MaskedWordHead(nn.Module):
    """Which piece stood here? Logits over the vocabulary, by the same table that turned pieces into vectors."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.activation = config.activation
        self.dense = nn.Linear(config.width, config.width)
        self.norm = LayerNorm(config.width, epsilon=config.norm_epsilon)
        self.bias = nn.Parameter(torch.zeros(config.vocab_size))
        initialise(self)

    def transform(self, hidden: Tensor) -> Tensor:
        """hidden states (…, D) → what is compared with every row of the table: (…, D)."""
        out: Tensor = self.norm(ACTIVATIONS[self.activation](self.dense(hidden)))
        return out

    def forward(self, hidden: Tensor, table: Tensor) -> Tensor:
        """hidden states (…, D) and the table of pieces (N, D) → logits (…, N)."""
        return F.linear(self.transform(hidden), table, self.bias)


class NextSentenceHead(nn.Module):
    """Does the second text follow the first? pooled (B, D) → logits of "yes" and of "no" (B, 2)."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.output = nn.Linear(config.width, 2)
        initialise(self)

    def forward(self, pooled: Tensor) -> Tensor:
        out: Tensor = self.output(pooled)
        return out


class SequenceHead(nn.Module):
    """What is this text, or pair of texts? pooled (B, D) → a number for each of `outputs` answers (B, outputs)."""

    def __init__(self, config: BertConfig, outputs: int) -> None:
        super().__init__()
        self.dropout = _head_dropout(config)
        self.output = nn.Linear(config.width, outputs)
        initialise(self)

    def forward(self, pooled: Tensor) -> Tensor:
        out: Tensor = self.output(self.dropout(pooled))
        return out


class TokenHead(nn.Module):
    """What is each token? hidden states (B, T, D) → logits (B, T, outputs)."""

    def __init__(self, config: BertConfig, outputs: int) -> None:
        super().__init__()
        self.dropout = _head_dropout(config)
        self.output = nn.Linear(config.width, outputs)
        initialise(self)

    def forward(self, hidden: Tensor) -> Tensor:
        out: Tensor = self.output(self.dropout(hidden))
        return out


class SpanHead(nn.Module):
    """Where does the answer begin, and where does it end? hidden states (B, T, D) → two logits a token (B, T, 2)."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.output = nn.Linear(config.width, 2)
        initialise(self)

    def forward(self, hidden: Tensor) -> Tensor:
        out: Tensor = self.output(hidden)
        return out


def _head_dropout(config: BertConfig) -> Dropout:
    return Dropout(config.dropout if config.head_dropout is None else config.head_dropout)


# --- BERT with a head --------------------------------------------------------------------------------------


class Guesses(NamedTuple):
    """What pre-training asks for; None where the model has no head for it."""

    words: Tensor | None  # logits of the piece at every position (B, T, N)
    follows: Tensor | None  # logits of "the second text follows the first" and of "it does not" (B, 2)


class BertForPretraining(nn.Module):
    """BERT as it learns from plain text: hidden words, next sentences, or both."""

    def __init__(self, config: BertConfig, *, words: bool = True, follows: bool = True) -> None:
        super().__init__()
        self.config = dataclasses.replace(config, pooler=follows)
        self.bert = Bert(self.config)
        self.words = MaskedWordHead(config) if words else None
        self.follows = NextSentenceHead(config) if follows else None

    def forward(self, ids: Tensor, lengths: Tensor | None = None, segments: Tensor | None = None) -> Guesses:
        hidden = self.bert(ids, lengths, segments)
        return Guesses(
            words=self.words(hidden, self.bert.embedding.weight) if self.words is not None else None,
            follows=self.follows(self.bert.pool(hidden)) if self.follows is not None else None,
        )


class BertForSequence(nn.Module):
    """A text, or two, → logits (B, outputs): one for each label, or a single number."""

    def __init__(self, config: BertConfig, outputs: int) -> None:
        super().__init__()
        self.config = dataclasses.replace(config, pooler=True)
        self.bert = Bert(self.config)
        self.head = SequenceHead(config, outputs)

    def forward(self, ids: Tensor, lengths: Tensor | None = None, segments: Tensor | None = None) -> Tensor:
        # The head reads [CLS] alone. A step that learns need not compute the rest, unless somebody looks.
        at_first = self.training and not is_watched(self)
        return self.answers(self.bert(ids, lengths, segments, at_first=at_first))

    def answers(self, hidden: Tensor) -> Tensor:
        """hidden states (B, T, D) → logits (B, outputs)."""
        out: Tensor = self.head(self.bert.pool(hidden))
        return out


class BertForTokens(nn.Module):
    """A text → logits of every token's label (B, T, outputs), or of those at some of the B·T `places` (P, outputs)."""

    def __init__(self, config: BertConfig, outputs: int) -> None:
        super().__init__()
        self.config = dataclasses.replace(config, pooler=False)
        self.bert = Bert(self.config)
        self.head = TokenHead(config, outputs)

    def forward(
        self,
        ids: Tensor,
        lengths: Tensor | None = None,
        segments: Tensor | None = None,
        *,
        places: Tensor | None = None,
    ) -> Tensor:
        if places is not None and is_watched(self):  # whoever looks sees all tokens
            return self.answers(self.bert(ids, lengths, segments).flatten(0, 1)[places])
        return self.answers(self.bert(ids, lengths, segments, places=places))

    def answers(self, hidden: Tensor) -> Tensor:
        """hidden states (B, T, D) → logits (B, T, outputs)."""
        out: Tensor = self.head(hidden)
        return out


class BertForSpans(nn.Module):
    """A question and a passage → how likely the answer begins, and ends, at each token (B, T, 2)."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.config = dataclasses.replace(config, pooler=False)
        self.bert = Bert(self.config)
        self.head = SpanHead(config)

    def forward(self, ids: Tensor, lengths: Tensor | None = None, segments: Tensor | None = None) -> Tensor:
        return self.answers(self.bert(ids, lengths, segments))

    def answers(self, hidden: Tensor) -> Tensor:
        """hidden states (B, T, D) → logits (B, T, 2)."""
        out: Tensor = self.head(hidden)
        return out


HeadedBert = BertForSequence | BertForTokens | BertForSpans
AnyBert = Bert | BertForPretraining | HeadedBert


def make_bert(config: BertConfig, head: HeadConfig) -> AnyBert:
    """The model that a folder describes."""
    if head.kind == "none":
        return Bert(config)
    if head.kind == "sequence":
        return BertForSequence(config, len(head.labels))
    if head.kind == "choice":
        return BertForSequence(config, 1)  # how well an ending fits
    if head.kind == "tokens":
        return BertForTokens(config, len(head.labels))
    if head.kind == "spans":
        return BertForSpans(config)
    return BertForPretraining(config, words="words" in head.kind, follows="follows" in head.kind)


def encoder_of(model: AnyBert) -> Bert:
    """The encoder below whatever head there is."""
    return model if isinstance(model, Bert) else model.bert


def initialise(module: nn.Module) -> None:
    """Matrices and tables normal with a small deviation, cut off at two of them; biases zero: as BERT starts."""
    for part in module.modules():
        if isinstance(part, nn.Linear):
            nn.init.zeros_(part.bias)
        if isinstance(part, nn.Linear | nn.Embedding | Embedding | Learned):
            nn.init.trunc_normal_(part.weight, std=DEVIATION, a=-2 * DEVIATION, b=2 * DEVIATION)
