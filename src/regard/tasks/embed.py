"""Embedding: texts → vectors whose angles say how near they are in meaning.

There is nothing to train here: whatever BERT was trained for, it gives every token a vector that depends on all the
others, and these are pooled into one for the text. What a user holds is an `Embedder`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor

from regard.config import from_dict, to_dict
from regard.errors import UsageError, number_of, some
from regard.models.bert import AnyBert, encoder_of
from regard.models.bert_settings import HeadConfig
from regard.nn.packed import count_weights
from regard.nn.taps import Trace, capture, observe
from regard.tasks.labelling import Row, as_inputs, frame_pair, require_two_segments
from regard.tasks.reading import Reader, in_batches, padded
from regard.tasks.settings import EmbedConfig
from regard.tasks.task import FolderContents, Usage
from regard.text.tokenizer import Tokenizer

NAME = "embed"
TOKENIZER = "tokenizer.json"
Vectors = npt.NDArray[np.float32]
Say = Callable[[str], None]

# What a folder with this head is for.
TASKS = {
    "none": NAME,
    "words": "fill",
    "follows": "fill",
    "words-follows": "fill",
    "sequence": "classify",
    "tokens": "tag",
    "spans": "answer",
    "choice": "pair",
}


@dataclass(frozen=True)
class TokenVectors:
    """A text as the encoder sees it: a vector for every token, the two that frame the text included."""

    text: str
    tokens: tuple[str, ...]  # as the vocabulary writes them
    spans: tuple[tuple[int, int], ...]  # the stretch of the text that each covers; empty for [CLS] and [SEP]
    vectors: Vectors  # (tokens, D)

    @property
    def pieces(self) -> tuple[str, ...]:
        """The text of each token, as it was typed."""
        return tuple(self.text[start:end] for start, end in self.spans)

    def __len__(self) -> int:
        return len(self.tokens)

    def __repr__(self) -> str:
        return f"TokenVectors({self.text[:40]!r}, {len(self)} tokens, width {self.vectors.shape[1]})"


class Embedder:
    """Embeds texts: `embedder.embed(["The cat sleeps.", …])` gives an array with a row for each."""

    task = NAME
    summary = "A BERT encoder: texts go in, vectors come out, near each other for texts that mean the same."

    def __init__(
        self,
        model: AnyBert,
        tokenizer: Tokenizer,
        *,
        head: HeadConfig | None = None,
        config: EmbedConfig | None = None,
    ) -> None:
        self.model, self.tokenizer = model.eval(), tokenizer
        self.bert = encoder_of(model)
        self.head, self.config = head or HeadConfig(), config or EmbedConfig()

    def embed(self, texts: str | Sequence[str], *, say: Say | None = None, **settings: Any) -> Vectors:
        """A float32 array with a row for each text, of length 1; of a single text, its row.

        `settings` are those of EmbedConfig: pooling, normalise, max_tokens. `say` is told what was cut off.
        """
        config = from_dict(EmbedConfig, {**to_dict(self.config), **settings})
        if isinstance(texts, str):
            vector: Vectors = self.embed([texts], say=say, **settings)[0]
            return vector
        rows = self.rows(texts, config.max_tokens, say=say)
        found = np.empty((len(rows), self.bert.config.width), dtype=np.float32)
        read = Reader(self.bert)

        @torch.inference_mode()
        def run(batch: list[int]) -> Tensor:
            ids, lengths = padded([rows[number] for number in batch], self.tokenizer.pad_id, self._device)
            pooled = pool(read(ids, lengths), lengths, config.pooling)
            return F.normalize(pooled, dim=-1) if config.normalise else pooled

        for batch, vectors in in_batches(run, [len(row) for row in rows], self.bert):
            found[batch] = vectors.float().cpu().numpy()
        return found

    __call__ = embed

    @torch.inference_mode()
    def tokens(
        self, text: str, *, layer: int | None = None, max_tokens: int | None = None, say: Say | None = None
    ) -> TokenVectors:
        """A vector for every token of a text, after the last block, or after block `layer`; 0 is before the first."""
        EmbedConfig(max_tokens=max_tokens)  # it may be wrong
        layers = self.bert.config.layers
        if layer is not None and not 0 <= layer <= layers:
            raise UsageError(f"layer must be from 0, the embeddings, to {layers}, the last block, not {layer}.")
        (ids,) = self.rows([text], max_tokens, say=say)
        address = "embedding" if layer == 0 else f"encoder.{(layer or layers) - 1}"
        with observe(self.bert, address) as seen:
            self.bert(torch.tensor([ids], device=self._device))
        pieces = self.tokenizer.pieces(text)[: len(ids) - 2]
        # White space before a piece belongs to it, but is nothing to show.
        inner = [(piece.end - len(piece.text.lstrip()), piece.end) for piece in pieces]
        spans = ((0, 0), *inner, (len(text), len(text)))
        return TokenVectors(text, tuple(self.tokenizer.tokens(ids)), spans, seen[address][0].float().cpu().numpy())

    def similarity(
        self, first: str | Sequence[str], second: str | Sequence[str] | None = None, **settings: Any
    ) -> Vectors:
        """The cosine between each text of `first` and each of `second`, or of `first` itself: (first, second)."""
        rows = [first] if isinstance(first, str) else first
        one = self.embed(rows, **{**settings, "normalise": True})
        if second is None:
            return one @ one.T
        return one @ self.embed([second] if isinstance(second, str) else second, **{**settings, "normalise": True}).T

    def trace(self, text: str | tuple[str, str], *, grad: bool = False) -> Trace:
        """All attention over a text, or over two that stand side by side; of long ones, over their beginning."""
        row = self.row(text)
        shown = {"encoder": [self.tokenizer.tokens(row.ids)]}
        with torch.set_grad_enabled(grad), capture(self.bert, tokens=shown, grad=grad) as trace:
            self.bert(*as_inputs([row], self.tokenizer.pad_id, self._device))
        return trace

    def row(self, text: str | tuple[str, str]) -> Row:
        """A text, or two, as the encoder reads them."""
        if isinstance(text, str):
            ids = [self.tokenizer.start_id, *self.ids(text)[: self.max_tokens - 2], self.tokenizer.end_id]
            return Row(ids, len(ids))
        require_two_segments(self.bert.config)
        return frame_pair(self.tokenizer, self.ids(text[0]), self.ids(text[1]), self.max_tokens)

    def ids(self, text: str) -> list[int]:
        """A text without the symbols that frame it."""
        return self.tokenizer.encode(text)

    def rows(self, texts: Sequence[str], max_tokens: int | None, *, say: Say | None = None) -> list[list[int]]:
        """The ids of each text, framed: [CLS] … [SEP]. What is beyond `max_tokens` is cut off, and told to `say`."""
        longest = min(max_tokens or self.max_tokens, self.bert.config.context)
        start, end = self.tokenizer.start_id, self.tokenizer.end_id
        encoded = self.tokenizer.encode_batch(texts)
        rows = [[start, *ids[: longest - 2], end] for ids in encoded]
        if say is not None:
            lengths = [len(ids) + 2 for ids in encoded]
            if cut := [f"{i} ({n:,} tokens)" for i, n in enumerate(lengths, start=1) if n > longest]:
                say(f"{len(cut):,} of {number_of(len(rows), 'text')} cut off after {longest} tokens: text {some(cut)}.")
            if empty := [str(i) for i, ids in enumerate(encoded, start=1) if not ids]:
                count = f"{len(empty):,} of {number_of(len(rows), 'text')}"
                say(f"{count} without words, and vectors of nothing: text {some(empty)}.")
        return rows

    @property
    def max_tokens(self) -> int:
        """How many tokens of a text are read, its frame included."""
        return min(self.config.max_tokens or self.bert.config.context, self.bert.config.context)

    @property
    def _device(self) -> torch.device:
        return self.bert.embedding.positions.weight.device

    def contents(self) -> FolderContents:
        config = {
            "regard": {"task": TASKS[self.head.kind], "format": 1},
            "model_type": "regard-bert",
            "model": to_dict(self.model.config),
            "head": to_dict(self.head),
            "embedding": to_dict(self.config),
            "symbols": to_dict(self.tokenizer.symbols),
        }
        return FolderContents(config=config, texts={TOKENIZER: self.tokenizer.to_json()})

    def usage(self, folder: Path) -> Usage:
        return Usage(
            command=f"regard embed {folder} texts.txt --out vectors.npy",
            python=f'import regard\n\nembedder = regard.load("{folder.as_posix()}")\nembedder.embed(["…", "…"])',
            pipeline="sentence-similarity",
        )

    def __repr__(self) -> str:
        parameters, config = count_weights(self.model), self.bert.config
        head = f", head for {TASKS[self.head.kind]}" if self.head.kind != "none" else ""
        return (
            f"Embedder({parameters / 1e6:.1f} M parameters, {config.layers} layers, width {config.width}, "
            f"{self.config.pooling} pooling, {self.max_tokens} tokens{head})"
        )


def pool(hidden: Tensor, lengths: Tensor | None, pooling: str) -> Tensor:
    """hidden states (B, T, D), of which `lengths` are real → one vector a text (B, D)."""
    if pooling == "cls":
        return hidden[:, 0]
    if lengths is None:
        return hidden.amax(dim=1) if pooling == "max" else hidden.mean(dim=1)
    padding = (torch.arange(hidden.shape[1], device=hidden.device) >= lengths[:, None])[..., None]  # (B, T, 1)
    if pooling == "max":
        return hidden.masked_fill(padding, float("-inf")).amax(dim=1)
    return hidden.masked_fill(padding, 0.0).sum(dim=1) / lengths[:, None]


class WithEncoder:
    """What answers with a head on a BERT: it still embeds, with the vectors of its encoder, and is stored alike."""

    task: str
    model: AnyBert
    tokenizer: Tokenizer
    head: HeadConfig
    max_tokens: int
    commonest: tuple[str, ...] | None = None  # labels that are commonest in training, if they are known

    @property
    def embedder(self) -> Embedder:
        """The same encoder, for vectors instead of labels."""
        return Embedder(self.model, self.tokenizer, head=self.head, config=EmbedConfig(max_tokens=self.max_tokens))

    def embed(self, texts: str | Sequence[str], *, say: Say | None = None, **settings: Any) -> Vectors:
        return self.embedder.embed(texts, say=say, **settings)

    def tokens(self, text: str, **settings: Any) -> TokenVectors:
        return self.embedder.tokens(text, **settings)

    def trace_row(self, row: Row, *, grad: bool = False) -> Trace:
        """All attention over a row, with what the head makes of it."""
        shown = {"encoder": [self.tokenizer.tokens(row.ids)]}
        device = next(self.model.parameters()).device
        with torch.set_grad_enabled(grad), capture(encoder_of(self.model), tokens=shown, grad=grad) as trace:
            self.model(*as_inputs([row], self.tokenizer.pad_id, device))
        return trace

    def contents(self) -> FolderContents:
        config = {
            "regard": {"task": self.task, "format": 1},
            "model_type": "regard-bert",
            "model": to_dict(self.model.config),
            "head": to_dict(self.head),
            "max_tokens": self.max_tokens,
            "symbols": to_dict(self.tokenizer.symbols),
        }
        if self.commonest is not None:
            config["commonest"] = list(self.commonest)
        return FolderContents(config=config, texts={TOKENIZER: self.tokenizer.to_json()})
