"""Text with gaps, and what a BERT makes of it: its loss and its guesses, in training and on text that it never saw.

A row is text with some words hidden, usually two stretches of it, of which the second follows the first or comes from
another document. Nothing here learns.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor

from regard.data.batches import BatchPlan
from regard.data.documents import Documents
from regard.data.masking import Masked, Vocabulary, mask_rows, row_keys
from regard.data.sentence_pairs import ALONE, ELSEWHERE, Rows, Table, plan_rows, write_rows
from regard.errors import UsageError
from regard.metrics.guessing import Guesser
from regard.metrics.score import Score
from regard.models.bert import BertForPretraining, MaskedWordHead
from regard.nn.loss import linear_cross_entropy
from regard.text.tokenizer import Tokenizer

HELD_OUT_SEED = 1_000_003  # held-out rows are cut and masked alike in every run
READ_TOGETHER = 1 << 13  # padded tokens of held-out text in one pass
LOGITS_TOGETHER = 1 << 12  # hidden words whose logits exist at a time

Numbers = npt.NDArray[Any]


class Read(NamedTuple):
    """What a model made of rows, and what it has to guess."""

    hidden: Tensor  # (B, T, D)
    targets: Tensor  # (B · T,) the ids as they were
    follows: npt.NDArray[np.int64]  # (B,)


@dataclass(frozen=True)
class Gaps:
    """Documents whose words are hidden as a row's number, a seed and an epoch say."""

    documents: Documents
    tokenizer: Tokenizer
    whole_words: bool = False

    @cached_property
    def vocabulary(self) -> Vocabulary:
        return Vocabulary.of(self.tokenizer)

    def rows(self, rows: Rows, numbers: npt.NDArray[np.int64], *, seed: int, epoch: int) -> tuple[Table, Masked]:
        """Rows as they are, and as a model reads them."""
        table = write_rows(
            self.documents.ids,
            rows[numbers],
            start_id=self.tokenizer.start_id,
            end_id=self.tokenizer.end_id,
            pad_id=self.tokenizer.pad_id,
        )
        keys = row_keys(numbers, seed=seed, epoch=epoch)
        return table, mask_rows(table.ids, keys, self.vocabulary, whole_words=self.whole_words)


class HeldOut:
    """Text that is not learned from, cut into rows and hidden alike every time it is read."""

    def __init__(
        self, documents: Documents, tokenizer: Tokenizer, *, window: int, pairs: bool, whole_words: bool = False
    ) -> None:
        self.gaps = Gaps(documents, tokenizer, whole_words)
        # A pair that is not a true one needs another document.
        pairs = pairs and len(documents) > 1
        self.rows = plan_rows(documents, window=window, seed=HELD_OUT_SEED, epoch=0, pairs=pairs)

    def read(self, model: BertForPretraining, *, most: int | None = None) -> Iterator[tuple[Table, Masked, Read]]:
        """Rows as a model reads them, some at a time, from short to long; of `most` tokens, if not of all."""
        count = len(self.rows)
        if most is not None:
            count = max(1, int(np.searchsorted(np.cumsum(self.rows.lengths), most)))
        lengths = self.rows.lengths[:count]
        for part in BatchPlan(max_tokens=READ_TOGETHER, shuffle=False).batches(lengths, 0):  # type: ignore[arg-type]
            table, masked = self.gaps.rows(self.rows, np.array(part), seed=HELD_OUT_SEED, epoch=0)
            yield table, masked, read_rows(model, table, masked.ids)

    @torch.no_grad()
    def loss(self, model: BertForPretraining, *, most: int | None = None, hidden: bool = False) -> float:
        """Mean cross-entropy of the words that were chosen, masked or not, as in training; or of `hidden` ones only."""
        total, count = 0.0, 0
        for _, masked, found in self.read(model, most=most):
            places = torch.from_numpy(np.flatnonzero(masked.hidden if hidden else masked.chosen)).to(
                found.hidden.device
            )
            total += word_loss(model, found, places).item() * len(places)
            count += len(places)
        return total / max(1, count)

    @torch.no_grad()
    def guess(self, model: BertForPretraining) -> Guessed:
        """What a model guesses for the words that [MASK] hides; what was left to see is not asked for."""
        words, befores, guesses, losses, told = [], [], [], [], []
        for table, masked, found in self.read(model):
            at = np.flatnonzero(masked.hidden)
            places = torch.from_numpy(at).to(found.hidden.device)
            for some in torch.split(places, LOGITS_TOGETHER):
                logits = word_head(model)(found.hidden.flatten(0, 1)[some], model.bert.embedding.weight)
                losses.append(F.cross_entropy(logits, found.targets[some], reduction="none").double().cpu().numpy())
                guesses.append(logits.argmax(dim=-1).cpu().numpy())
            words.append(table.ids.ravel()[at])
            befores.append(table.ids.ravel()[at - 1])  # [CLS] stands before all, so there is one
            asked = np.flatnonzero(found.follows != ALONE)
            if model.follows is not None and len(asked):
                logits, right = sentence_logits(model, found, asked)
                told.append((logits.argmax(dim=-1) == right).cpu().numpy())
        return Guessed(*(_joined(part) for part in (words, befores, guesses, losses, told)))


def _joined(parts: list[Numbers]) -> Numbers:
    return np.concatenate(parts) if parts else np.zeros(0)


@dataclass(frozen=True)
class Guessed:
    """Hidden words, the words before them, what was guessed and its loss; and whether each pair was told rightly."""

    words: Numbers
    befores: Numbers
    guesses: Numbers
    losses: Numbers
    told: Numbers

    @property
    def accuracy(self) -> float:
        """The share of hidden words that were guessed, in hundredths."""
        return 100 * float((self.guesses == self.words).mean()) if len(self.words) else 0.0

    @property
    def loss(self) -> float:
        return float(self.losses.mean()) if len(self.words) else 0.0

    def __add__(self, other: Guessed) -> Guessed:
        names = [field.name for field in fields(self)]
        return Guessed(*(np.concatenate([getattr(self, name), getattr(other, name)]) for name in names))

    def scores(self, unigram: float, bigram: float, *, counted: str = "") -> list[Score]:
        """The scores beside what guessing by frequency achieves, which was `counted` somewhere."""
        found = []
        if len(self.words):
            words, hidden = "masked words", f"{len(self.words):,} masked words"
            common, likely = f"always the most frequent word{counted}", f"likeliest after the true word before{counted}"
            found = [
                Score(words, self.accuracy, f"accuracy in %, {hidden}"),
                Score("unigram baseline", unigram, f"{common}, {hidden}", baseline_of=words),
                Score("bigram baseline", bigram, f"{likely}, {hidden}", baseline_of=words),
                Score("perplexity", math.exp(min(self.loss, 50)), hidden),
            ]
        if len(self.told):
            share = 100 * float(self.told.mean())
            found.append(Score("next sentence", share, f"accuracy in %, {len(self.told):,} pairs; guessing: 50"))
        return found

    def beside(self, guesser: Guesser) -> list[Score]:
        """The scores beside those of somebody who knows how frequent words are in the text that was learned from."""
        return self.scores(guesser.unigram(self.words), guesser.bigram(self.befores, self.words))


def read_rows(model: BertForPretraining, table: Table, ids: npt.NDArray[np.int64]) -> Read:
    """The hidden states of rows, of which `ids` is what the model sees."""
    device = model.bert.embedding.weight.device
    put = [torch.from_numpy(array).to(device) for array in (ids, table.segments, table.lengths, table.ids)]
    # Rows of equal length need no mask, and the fused kernel likes that.
    lengths = put[2] if int(table.lengths.min()) < ids.shape[1] else None
    return Read(model.bert(put[0], lengths, put[1]), put[3].flatten(), table.follows)


def word_loss(model: BertForPretraining, found: Read, places: Tensor) -> Tensor:
    """The cross-entropy at the hidden words: logits of the others are never computed."""
    if not len(places):
        return found.hidden.sum() * 0
    head = word_head(model)
    hidden = head.transform(found.hidden.flatten(0, 1)[places])
    return linear_cross_entropy(hidden, model.bert.embedding.weight, found.targets[places], bias=head.bias)[0]


def sentence_logits(model: BertForPretraining, found: Read, asked: npt.NDArray[np.int64]) -> tuple[Tensor, Tensor]:
    """Logits of "it follows" and "it does not" for the rows `asked`, and which of the two is right."""
    assert model.follows is not None
    rows = found.hidden[:, :1][torch.from_numpy(asked).to(found.hidden.device)]  # [CLS] alone is pooled
    logits: Tensor = model.follows(model.bert.pool(rows))
    right = torch.from_numpy((found.follows[asked] == ELSEWHERE).astype(np.int64)).to(rows.device)
    return logits, right


def word_head(model: BertForPretraining) -> MaskedWordHead:
    if model.words is None:
        raise UsageError(
            "this BERT has no head for masked words, so it cannot fill gaps. Train one with `regard train fill`."
        )
    return model.words
