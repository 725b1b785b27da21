"""BERT: an encoder-only Transformer that computes a vector for every token, and its task heads.

"BERT: Pre-training of Deep Bidirectional Transformers" (Devlin et al. 2018). The input is the sum of three embeddings:
token, token type (first or second text) and position. A post-norm encoder with GELU follows. Two heads are trained on
plain text (masked tokens, next sentence). The other heads, one per kind of task, are trained on labels. This file works
on ids, not on text, and contains no losses and no training.

| here | transformers | shape |
|---|---|---|
| embedding.weight | embeddings.word_embeddings | (V, D) |
| embedding.token_types.weight | embeddings.token_type_embeddings | (type_vocab_size, D) |
| embedding.positions.weight | embeddings.position_embeddings | (context_length, D) |
| encoder.i.self_attention.qkv_proj | attention.self.query, key, value | (3 · H · Dh, D) |
| encoder.i.self_attention.out_proj | attention.output.dense | (D, H · Dh) |
| encoder.i.feed_forward.up_proj, down_proj | intermediate.dense, output.dense | (d_ff, D), (D, d_ff) |
| pooler | pooler.dense | (D, D) |

A text becomes `[CLS] a [SEP]`, a pair of texts `[CLS] a [SEP] b [SEP]`. `b [SEP]` has token type 1, the rest 0.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.models.bert.config import BertConfig
from regard.models.heads import HEAD_KINDS, MLM_KINDS, NSP_KINDS, HeadConfig, check_kind
from regard.nn import masks
from regard.nn.blocks import Block, Residual
from regard.nn.hooks import HookPoint, has_hooks
from regard.nn.init import Linear, new_parameter, weights_are_empty
from regard.nn.layers import ACTIVATIONS, Dropout, FeedForward, LayerNorm
from regard.nn.multihead import MultiHeadAttention
from regard.nn.positions import LearnedPositions
from regard.utils.errors import UsageError

STD = 0.02  # standard deviation of initial weights


class Bert(nn.Module):
    """The BERT encoder: ids → a vector for every token. `pool` returns one vector per text."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.config = config
        self.embedding = BertEmbedding(config)
        self.encoder = nn.ModuleList(make_block(config, f"encoder.{i}") for i in range(config.num_layers))
        self.pooler = Linear(config.d_model, config.d_model) if config.pooler else None
        initialize(self)

    def forward(
        self,
        ids: Tensor,
        lengths: Tensor | None = None,
        type_ids: Tensor | None = None,
        *,
        attention_mask: Tensor | None = None,
        at_first: bool = False,
        places: Tensor | None = None,
    ) -> Tensor:
        """ids (B, T) → hidden states (B, T, D).

        To mask padding, give `lengths` (B,), the number of tokens per row, or `attention_mask` (B, T), as in Hugging
        Face: 1 for a token, 0 for padding. `type_ids` (B, T) is 0 for ids of the first text and 1 for the second
        (default: all 0).

        With `at_first`, return only the output at the first token, (B, 1, D). With `places`, return only the outputs at
        these P of the B·T positions, (P, D). Both options skip part of the computation in the last block.
        """
        mask = masks.no_mask()
        if lengths is not None:
            mask = mask & masks.lengths(lengths)
        if attention_mask is not None:
            mask = mask & masks.padding(attention_mask)
        mask = mask.materialize(ids.shape[1], ids.shape[1], ids.device)
        x: Tensor = self.embedding(ids, type_ids)
        *blocks, last = cast(Iterable[Block], self.encoder)
        for block in blocks:
            x = block(x, mask)
        if places is not None:
            return last.forward_at(places, x, mask)
        return last.forward_first(x, mask) if at_first else last(x, mask)

    def pool(self, hidden: Tensor) -> Tensor:
        """hidden states (B, T, D) → the pooled output at the first token, [CLS]: (B, D)."""
        if self.pooler is None:
            message = "this BERT has no pooler. Average its hidden states instead."
            raise UsageError(message, argument="pooler", value=False)
        return torch.tanh(self.pooler(hidden[:, 0]))


class BertEmbedding(nn.Module):
    """The embedding layer: the sum of token, token type and position embeddings, followed by a LayerNorm."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.weight = new_parameter(config.vocab_size, config.d_model)
        self.sparse = False  # if True, gradients are sparse in training, as in nn.Embedding
        self.token_types = nn.Embedding(config.type_vocab_size, config.d_model)
        self.positions = LearnedPositions(config.d_model, length=config.context_length)
        self.norm = LayerNorm(config.d_model, eps=config.norm_eps)
        self.dropout = Dropout(config.dropout)
        self.hook = HookPoint()

    def forward(self, ids: Tensor, type_ids: Tensor | None = None) -> Tensor:
        types = self.token_types.weight[0] if type_ids is None else self.token_types(type_ids)
        x = self.positions(F.embedding(ids, self.weight, sparse=self.sparse and self.training) + types)
        out: Tensor = self.hook(self.dropout(self.norm(x)))
        return out


def make_block(config: BertConfig, address: str) -> Block:
    return Block(
        self_attention=MultiHeadAttention(
            config.d_model,
            num_heads=config.num_heads_by_layer.get(f"{address}.self", config.num_heads),
            head_dim=config.head_dim,
            dropout=config.attention_dropout,
        ),
        feed_forward=FeedForward(config.d_model, d_ff=config.d_ff, activation=config.activation),
        make_residual=lambda: Residual(
            LayerNorm(config.d_model, eps=config.norm_eps), placement="post", dropout=config.dropout
        ),
    )


# --- Heads: from hidden states to logits --------------------------------------------------------------------


class MLMHead(nn.Module):
    """The head for masked language modeling. Its output matrix is the token embedding table."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.activation = config.activation
        self.dense = Linear(config.d_model, config.d_model)
        self.norm = LayerNorm(config.d_model, eps=config.norm_eps)
        self.bias = nn.Parameter(torch.zeros(config.vocab_size))
        initialize(self)

    def transform(self, hidden: Tensor) -> Tensor:
        """hidden states (…, D) → the vectors that are multiplied by the embedding table: (…, D)."""
        out: Tensor = self.norm(ACTIVATIONS[self.activation](self.dense(hidden)))
        return out

    def forward(self, hidden: Tensor, table: Tensor) -> Tensor:
        """hidden states (…, D) and the token embedding table (V, D) → logits (…, V)."""
        return F.linear(self.transform(hidden), table, self.bias)


class Head(nn.Module):
    """A linear layer on top of the encoder, after dropout: (…, D) → (…, outputs)."""

    def __init__(self, config: BertConfig, outputs: int, *, dropout: float = 0.0) -> None:
        super().__init__()
        self.dropout = Dropout(dropout)
        self.output = Linear(config.d_model, outputs)
        initialize(self)

    def forward(self, hidden: Tensor) -> Tensor:
        out: Tensor = self.output(self.dropout(hidden))
        return out


# --- BERT with a head --------------------------------------------------------------------------------------


class PretrainingOutput(NamedTuple):
    """The logits of the pretraining heads. A field is None if the model does not have that head."""

    mlm: Tensor | None  # logits over the vocabulary at every position (B, T, V)
    nsp: Tensor | None  # logits of "follows" and "does not follow" (B, 2)


class BertForPretraining(nn.Module):
    """BERT for pretraining on plain text: masked tokens, next sentence prediction, or both."""

    def __init__(self, config: BertConfig, *, mlm: bool = True, nsp: bool = True) -> None:
        super().__init__()
        self.config = config.replace(pooler=nsp)
        self.bert = Bert(self.config)
        self.mlm = MLMHead(config) if mlm else None
        self.nsp = Head(config, 2) if nsp else None

    def forward(
        self,
        ids: Tensor,
        lengths: Tensor | None = None,
        type_ids: Tensor | None = None,
        *,
        attention_mask: Tensor | None = None,
    ) -> PretrainingOutput:
        hidden = self.bert(ids, lengths, type_ids, attention_mask=attention_mask)
        return PretrainingOutput(
            mlm=self.mlm(hidden, self.bert.embedding.weight) if self.mlm is not None else None,
            nsp=self.nsp(self.bert.pool(hidden)) if self.nsp is not None else None,
        )


class BertWithHead(nn.Module):
    """BERT with one head, which uses the pooled output if there is a pooler, else the hidden states."""

    def __init__(self, config: BertConfig, outputs: int, *, pooler: bool, dropout: float | None) -> None:
        super().__init__()
        self.config = config.replace(pooler=pooler)
        self.bert = Bert(self.config)
        self.head = Head(config, outputs, dropout=config.dropout if dropout is None else dropout)

    def forward(
        self,
        ids: Tensor,
        lengths: Tensor | None = None,
        type_ids: Tensor | None = None,
        *,
        attention_mask: Tensor | None = None,
    ) -> Tensor:
        # A pooler uses only [CLS], so training skips the other positions in the last block, unless hooks are active.
        at_first = self.config.pooler and self.training and not has_hooks(self)
        return self.logits(self.bert(ids, lengths, type_ids, attention_mask=attention_mask, at_first=at_first))

    def logits(self, hidden: Tensor) -> Tensor:
        """hidden states (B, T, D) → logits (B, T, outputs), or (B, outputs) of the pooled output."""
        out: Tensor = self.head(self.bert.pool(hidden) if self.config.pooler else hidden)
        return out


class BertForSequenceClassification(BertWithHead):
    """BERT for sequence classification: ids → one logit per label, or one number for regression (B, outputs)."""

    def __init__(self, config: BertConfig, outputs: int) -> None:
        super().__init__(config, outputs, pooler=True, dropout=config.head_dropout)


class BertForTokenClassification(BertWithHead):
    """BERT for token classification: ids → logits at all tokens (B, T, outputs), or only at `places` (P, outputs)."""

    def __init__(self, config: BertConfig, outputs: int) -> None:
        super().__init__(config, outputs, pooler=False, dropout=config.head_dropout)

    def forward(
        self,
        ids: Tensor,
        lengths: Tensor | None = None,
        type_ids: Tensor | None = None,
        *,
        attention_mask: Tensor | None = None,
        places: Tensor | None = None,
    ) -> Tensor:
        if places is not None and has_hooks(self):  # hooks need all positions
            return self.logits(self.bert(ids, lengths, type_ids, attention_mask=attention_mask).flatten(0, 1)[places])
        return self.logits(self.bert(ids, lengths, type_ids, attention_mask=attention_mask, places=places))


class BertForQuestionAnswering(BertWithHead):
    """BERT for question answering: ids → logits that each token starts or ends the answer (B, T, 2)."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__(config, 2, pooler=False, dropout=0.0)


AnyBert = Bert | BertForPretraining | BertWithHead


def build(config: BertConfig, head: HeadConfig | None = None) -> AnyBert:
    """Build a BERT with new weights, with or without a head."""
    check_kind(head, HEAD_KINDS, "bert")
    if head is None or head.kind == "none":
        return Bert(config)
    if head.kind == "sequence_classification":
        return BertForSequenceClassification(config, len(head.labels))
    if head.kind == "multiple_choice":
        return BertForSequenceClassification(config, 1)  # the logit of one ending
    if head.kind == "token_classification":
        return BertForTokenClassification(config, len(head.labels))
    if head.kind == "question_answering":
        return BertForQuestionAnswering(config)
    return BertForPretraining(config, mlm=head.kind in MLM_KINDS, nsp=head.kind in NSP_KINDS)


def encoder_of(model: AnyBert) -> Bert:
    """Return the encoder without its head."""
    return model if isinstance(model, Bert) else model.bert


def initialize(module: nn.Module) -> None:
    """Initialize as in the paper: truncated normal with standard deviation 0.02 for weights, zero for biases."""
    if weights_are_empty():
        return
    for part in module.modules():
        if isinstance(part, nn.Linear):
            nn.init.zeros_(part.bias)
        if isinstance(part, nn.Linear | nn.Embedding | BertEmbedding | LearnedPositions):
            nn.init.trunc_normal_(part.weight, std=STD, a=-2 * STD, b=2 * STD)
