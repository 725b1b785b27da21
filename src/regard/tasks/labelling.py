"""What the tasks on BERT have in common: texts framed as rows of ids, rows read in batches, parts that do not learn.

A text is `[CLS] a [SEP]`, a pair `[CLS] a [SEP] b [SEP]`. What is too long is cut off, of a pair the longer side
first. Nothing here knows what a label is.
"""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from regard.checkpoint.card import CardData
from regard.config import to_dict
from regard.data.batches import BatchPlan, row_batches
from regard.errors import UsageError, number_of, some
from regard.metrics.score import Score
from regard.models.bert import Bert, HeadedBert
from regard.models.bert_settings import BertConfig, HeadConfig
from regard.nn.packed import count_weights
from regard.tasks.reading import Reader, alike, in_batches
from regard.tasks.settings import LabelConfig
from regard.tasks.task import FolderContents, Loss, Sample, Usage
from regard.text.tokenizer import Tokenizer

USUAL_SIZE = 0.06  # of the numbers in a table of pieces: BERT's have 0.05


class Row(NamedTuple):
    """The ids of an example, and how many of them belong to the first text."""

    ids: list[int]
    first: int


class Inputs(NamedTuple):
    """Rows side by side, as BERT reads them."""

    ids: Tensor  # (B, T)
    lengths: Tensor | None  # None: nothing is padding
    segments: Tensor | None  # None: there is one text


def frame_texts(tokenizer: Tokenizer, texts: Sequence[str], longest: int) -> list[Row]:
    """Each text between [CLS] and [SEP], its end cut off if it is too long."""
    start, end = tokenizer.start_id, tokenizer.end_id
    rows = ([start, *ids[: longest - 2], end] for ids in tokenizer.encode_batch(texts))
    return [Row(ids, len(ids)) for ids in rows]


def frame_pairs(tokenizer: Tokenizer, pairs: Sequence[tuple[str, str]], longest: int) -> list[Row]:
    """Both texts behind each other; as long as they are too long together, the longer one loses its last token."""
    firsts = tokenizer.encode_batch([first for first, _ in pairs])
    seconds = tokenizer.encode_batch([second for _, second in pairs])
    return [frame_pair(tokenizer, *pair, longest) for pair in zip(firsts, seconds, strict=True)]


def frame_pair(tokenizer: Tokenizer, first: Sequence[int], second: Sequence[int], longest: int) -> Row:
    """The ids of two texts behind each other, between the symbols that frame them."""
    left, right = fit_pair(len(first), len(second), longest - 3)
    opening = [tokenizer.start_id, *first[:left], tokenizer.end_id]
    return Row([*opening, *second[:right], tokenizer.end_id], len(opening))


def fit_pair(first: int, second: int, room: int) -> tuple[int, int]:
    """How many tokens of each text are read: token by token the longer one is cut, of two equal ones the second."""
    if first + second <= room:
        return first, second
    half = room // 2
    if second <= half:
        return room - second, second
    if first <= room - half:
        return first, room - first
    return room - half, half


def row_remarks(
    rows: Sequence[Row], longest: int, what: str, *, pairs: bool, counts: Sequence[int] | None = None
) -> list[str]:
    """What was not read of some rows, and which have nothing to read: of a pair, either of its texts.

    `counts` says how many rows belong to each of `what`; otherwise one does.
    """
    owners = [number for number, count in enumerate(counts or [1] * len(rows), 1) for _ in range(count)]
    of = number_of(len(counts or rows), what)

    def those(fault: Callable[[Row], bool]) -> list[str]:
        return list(dict.fromkeys(str(owner) for owner, row in zip(owners, rows, strict=True) if fault(row)))

    remarks = []
    if cut := those(lambda row: len(row.ids) >= longest):
        remarks.append(f"{len(cut):,} of {of} cut off after {longest} tokens: {what} {some(cut)}.")
    # Beside its words a text has [CLS] and [SEP], or as the second of a pair [SEP] alone.
    if empty := those(lambda row: row.first == 2 or len(row.ids) - row.first == 1):
        fault = "with a text without words" if pairs else "without words"
        remarks.append(f"{len(empty):,} of {of} {fault}: {what} {some(empty)}.")
    return remarks


def require_two_segments(config: BertConfig) -> None:
    """A model tells two texts from each other by their segments, of which it needs two."""
    if config.segments < 2:
        raise UsageError(
            "this BERT has one segment, pairs need two: it cannot tell a second text from the first. Take a BERT that "
            "was trained with pairs (type_vocab_size 2)."
        )


def as_inputs(rows: Sequence[Row], pad_id: int, device: torch.device) -> Inputs:
    """Rows padded to the longest."""
    longest = max(len(row.ids) for row in rows)
    ids = torch.tensor([[*row.ids, *[pad_id] * (longest - len(row.ids))] for row in rows], device=device)
    lengths = [len(row.ids) for row in rows]
    segments = None
    if any(row.first < len(row.ids) for row in rows):
        kinds = [[0] * row.first + [1] * (len(row.ids) - row.first) for row in rows]
        segments = torch.tensor([[*kind, *[0] * (longest - len(kind))] for kind in kinds], device=device)
    return Inputs(ids, None if min(lengths) == longest else torch.tensor(lengths, device=device), segments)


def read_rows(model: HeadedBert, rows: Sequence[Row], pad_id: int) -> list[Tensor]:
    """What the model says to each row, in evaluation mode; rows of like length are read together."""
    device = next(model.parameters()).device
    found: list[Tensor | None] = [None] * len(rows)
    read = Reader(model.bert)

    @torch.inference_mode()
    def run(batch: list[int]) -> Tensor:
        return model.answers(read(*as_inputs([rows[number] for number in batch], pad_id, device))).float().cpu()

    for batch, outputs in in_batches(run, [len(row.ids) for row in rows], model):
        for number, output in zip(batch, outputs, strict=True):
            found[number] = output
    return [output for output in found if output is not None]


# --- What learns -------------------------------------------------------------------------------------------


M = TypeVar("M", bound=nn.Module)


def fresh(build: Callable[[], M], *, seed: int) -> M:
    """What `build` makes, with fresh weights; the same seed gives the same ones, and disturbs no other numbers."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return build()


def freeze(bert: Bert, what: str, *, learning: Sequence[nn.Module] = ()) -> None:
    """Let a part of an encoder stay as it is, but for parts of it that are `learning` in any case; so does the head."""
    if what == "encoder":
        bert.requires_grad_(False)
    elif what != "nothing":
        _freeze_below(bert, what)
    for part in learning:
        part.requires_grad_(True)


def _freeze_below(bert: Bert, what: str) -> None:
    """The embeddings, and so many layers as `what` says if it is a number."""
    layers = int(what) if what.isdecimal() else 0
    if layers > len(bert.encoder):
        raise UsageError(f"--freeze {layers} is more than the {len(bert.encoder)} layers that this model has.")
    bert.embedding.requires_grad_(False)
    for block in bert.encoder[:layers]:
        block.requires_grad_(False)


def layer_rates(bert: Bert, decay: float) -> dict[Tensor, float]:
    """The part of the rate at which each weight learns, where that is not the whole rate.

    With a `decay` below 1 the last layer learns a step less than the head, the embeddings the least. A table of pieces
    with larger numbers than usual learns more: a norm follows, so only their proportions matter, and steps of the usual
    length would hardly move a piece.
    """
    count, tables = len(bert.encoder), bert.embedding
    size = tables.weight.detach().square().mean().sqrt().item()
    larger = max(1.0, size / USUAL_SIZE)
    if decay == larger == 1:
        return {}
    rates: dict[Tensor, float] = dict.fromkeys(tables.parameters(), decay ** (count + 1))
    rates[tables.weight] *= larger
    for place, block in enumerate(bert.encoder):
        rates |= dict.fromkeys(block.parameters(), decay ** (count - place))
    return rates


# --- The task, as the training loop sees it ----------------------------------------------------------------


class Product(Protocol):
    """What a user holds when the training is over."""

    head: HeadConfig

    def contents(self) -> FolderContents: ...

    def usage(self, folder: Path) -> Usage: ...


P = TypeVar("P", bound=Product)


class RowTask(ABC, Generic[P]):
    """Rows with answers and a model that learns them. What an answer is, each task says for itself."""

    name: str
    summary: str
    product: P
    counted = "examples"
    perplexes = False  # a loss of labels, or of numbers
    rows_each = 1  # rows of an example, which stand one after the other

    def __init__(
        self,
        *,
        model: nn.Module,
        tokenizer: Tokenizer,
        train: Sequence[Row],
        validation: Sequence[Row],
        config: LabelConfig,
        data: Sequence[CardData],
        scored_on: str,
    ) -> None:
        self.model, self.tokenizer, self.config, self.data = model, tokenizer, config, data
        self.train, self.validation = train, validation
        self.scored_on = scored_on

    @abstractmethod
    def outcome(self, outputs: Tensor, indices: Sequence[int], *, held: bool) -> Loss:
        """The loss of outputs for the training (or the held-out) rows at `indices`."""

    @abstractmethod
    def due(self, *, held: bool) -> bytes:
        """What the model has to answer to the training (or the held-out) rows, for their checksum."""

    @abstractmethod
    def evaluate(self) -> tuple[list[Score], list[Sample]]: ...

    def result(self) -> P:
        self.model.eval()
        return self.product

    def contents(self) -> FolderContents:
        return self.product.contents()

    def usage(self, folder: Path) -> Usage:
        return self.product.usage(folder)

    def batches(self, plan: BatchPlan, epoch: int) -> list[list[int]]:
        lengths, rows = self._lengths(self.train), self.config.batch_rows
        return row_batches(lengths, rows=rows, seed=plan.seed, epoch=epoch, rank=plan.rank, world_size=plan.world_size)

    def size(self, index: int) -> tuple[int, int]:
        return (max(len(row.ids) for row in self._rows(self.train, index)),) * 2

    def _rows(self, rows: Sequence[Row], index: int) -> Sequence[Row]:
        """Those of an example."""
        return rows[index * self.rows_each : (index + 1) * self.rows_each]

    def _lengths(self, rows: Sequence[Row]) -> list[int]:
        """How many tokens the longest row of each example has."""
        return [max(len(row.ids) for row in self._rows(rows, n)) for n in range(len(rows) // self.rows_each)]

    def loss(self, indices: Sequence[int]) -> Loss:
        return self._loss(self.train, indices, held=False)

    def _loss(self, rows: Sequence[Row], indices: Sequence[int], *, held: bool) -> Loss:
        device = next(self.model.parameters()).device
        chosen = [row for index in indices for row in self._rows(rows, index)]
        inputs = as_inputs(chosen, self.tokenizer.pad_id, device)
        return self.outcome(self.outputs(inputs, indices, held=held), indices, held=held)

    def outputs(self, inputs: Inputs, indices: Sequence[int], *, held: bool) -> Tensor:
        """What the model says to the training (or the held-out) rows at `indices`, which `inputs` are."""
        out: Tensor = self.model(*inputs)
        return out

    @torch.no_grad()
    def validation_loss(self) -> float:
        losses = [self._loss(self.validation, batch, held=True) for batch in alike(self._lengths(self.validation))]
        return sum(loss.plain.item() * loss.tokens for loss in losses) / sum(loss.tokens for loss in losses)

    def examples(self) -> str:
        train = f"{len(self.train):,} rows, checksum {self._checksum(self.train, held=False)}"
        return f"{train}; {len(self.validation):,} held out, checksum {self._checksum(self.validation, held=True)}"

    def _checksum(self, rows: Sequence[Row], *, held: bool) -> str:
        """Of all that is read and all that is due, and of what the numbers of labels mean."""
        digest = hashlib.sha256(json.dumps(to_dict(self.product.head)).encode())
        for row in rows:
            digest.update(np.asarray([len(row.ids), row.first, *row.ids], dtype="<i4").tobytes())
        digest.update(self.due(held=held))
        return digest.hexdigest()[:12]

    def describe(self) -> str:
        shape: Any = self.model.config
        return (
            f"model: {count_weights(self.model) / 1e6:.2f} M parameters, {shape.layers} layers, width {shape.width}, "
            f"{self.tokenizer.vocab_size:,} tokens; data: {len(self.train) // self.rows_each:,} training and "
            f"{len(self.validation) // self.rows_each:,} validation examples"
        )

    def settings(self) -> dict[str, Any]:
        return {**to_dict(self.model.config), **to_dict(self.config)}

    def answering(self) -> dict[str, Any]:
        return {}
