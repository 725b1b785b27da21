"""Texts → vectors, with any encoder: the hidden states of all tokens, pooled into one vector."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor

from regard.metrics.labels import overlap_baseline, pearson, spearman
from regard.metrics.score import Scores
from regard.nn.hooks import observe
from regard.tasks.base import LabelledExample, Notify, Predictor
from regard.tasks.embed.spec import SPEC, EmbedConfig, Pooling
from regard.tasks.encoder.inference import BufferedEncoder, in_batches
from regard.tasks.encoder.predictor import EncodedExample, EncoderPredictor, collate, encode_texts, input_notes
from regard.utils.config import Config
from regard.utils.errors import UsageError

Vectors = npt.NDArray[np.float32]


@dataclass(frozen=True, eq=False, repr=False)
class Embedding:
    """A text and its vector."""

    text: str
    vector: Vectors  # (D,)

    def record(self) -> dict[str, Any]:
        return {"text": self.text, "vector": _numbers(self.vector)}

    def row(self) -> dict[str, Any]:
        return {"text": self.text, **_columns(self.vector)}

    def __str__(self) -> str:
        return json.dumps(self.record(), ensure_ascii=False)

    def __repr__(self) -> str:
        return f"Embedding({self.text[:40]!r}, shape={self.vector.shape})"


@dataclass(frozen=True, eq=False, repr=False)
class TokenVectors:
    """A text with a vector for every token, [CLS] and [SEP] included."""

    text: str
    tokens: tuple[str, ...]  # as written in the vocabulary
    spans: tuple[tuple[int, int], ...]  # (start, end) of each token in the text; start = end for [CLS] and [SEP]
    vectors: Vectors  # (T, D)

    @property
    def token_texts(self) -> tuple[str, ...]:
        """The part of the text that each token covers."""
        return tuple(self.text[start:end] for start, end in self.spans)

    def record(self) -> dict[str, Any]:
        return {
            "text": self.text,
            "tokens": list(self.tokens),
            "token_texts": list(self.token_texts),
            "vectors": [_numbers(vector) for vector in self.vectors],
        }

    def rows(self) -> list[dict[str, Any]]:
        parts = zip(self.tokens, self.token_texts, self.vectors, strict=True)
        return [{"text": self.text, "token": t, "token_text": part, **_columns(vector)} for t, part, vector in parts]

    def __len__(self) -> int:
        return len(self.tokens)

    def __str__(self) -> str:
        return json.dumps(self.record(), ensure_ascii=False)

    def __repr__(self) -> str:
        return f"TokenVectors({self.text[:40]!r}, {len(self)} tokens × {self.vectors.shape[1]})"


@dataclass(frozen=True, eq=False, repr=False)
class Similarity:
    """A text and its cosine similarity to each of the other texts."""

    text: str
    others: tuple[str, ...]
    scores: Vectors  # (others,)

    @property
    def score(self) -> float:
        """The highest of the cosine similarities."""
        return float(self.scores.max())

    def record(self) -> dict[str, Any]:
        return {"text": self.text, "similarity": _numbers(self.scores)}

    def row(self) -> dict[str, Any]:
        cosines = zip(self.others, self.scores.tolist(), strict=True)
        # One column per text; a space distinguishes the text "text" from the first column.
        return {"text": self.text, **{other + " " * (other == "text"): _digits(value) for other, value in cosines}}

    def __str__(self) -> str:
        return "\t".join(f"{value:.4f}" for value in self.scores.tolist())

    def __repr__(self) -> str:
        return f"Similarity({self.text[:40]!r}, score={self.score:.4f}, {len(self.scores)} texts)"


EmbedResult = Embedding | TokenVectors | Similarity


class Embedder(EncoderPredictor[EmbedResult]):
    """Texts → vectors: `embedder("The cat sleeps.").vector`, or `embedder.vectors(texts)` as one array."""

    spec = SPEC
    summary = "A text goes in, a vector comes out; the vectors of similar texts point in similar directions."
    config: EmbedConfig

    def __init__(self, model: Any, tokenizer: Any, **options: Any) -> None:
        super().__init__(model, tokenizer, **options)
        if self.config.max_seq_len is not None:
            self.max_seq_len = min(self.config.max_seq_len, self.max_seq_len)

    def _predict(self, inputs: list[str], config: EmbedConfig, notify: Notify) -> list[EmbedResult]:
        texts, options = inputs, dict[str, Any](max_seq_len=config.max_seq_len, notify=notify)
        if config.tokens:
            return [self.tokens(text, layer=config.layer, **options) for text in texts]
        options["pooling"] = config.pooling
        if config.similarity:
            others = config.similar_to or tuple(texts)
            cosines = self.similarity(texts, config.similar_to or None, **options)
            return [Similarity(text, others, row) for text, row in zip(texts, cosines, strict=True)]
        vectors = self.vectors(texts, normalize=config.normalize, **options)
        return [Embedding(text, vector) for text, vector in zip(texts, vectors, strict=True)]

    def needs_all_inputs(self, config: Config) -> bool:
        return bool(getattr(config, "similarity", False))

    def vectors(self, texts: str | Sequence[str], *, notify: Notify | None = None, **options: Any) -> Vectors:
        """Return a float32 array with one row per text, or one vector for one str; `options` as in the task embed."""
        config = self.config.replace(**options)
        if isinstance(texts, str):
            vector: Vectors = self.vectors([texts], notify=notify, **options)[0]
            return vector
        examples = self.encode(texts, config.max_seq_len, notify=notify)
        vectors = np.empty((len(examples), self.bert.config.d_model), dtype=np.float32)
        encoder, pad_id = BufferedEncoder(self.bert), self.tokenizer.pad_id

        @torch.inference_mode()
        def run(batch: list[int]) -> Tensor:
            ids, lengths, _ = collate([examples[index] for index in batch], pad_id, self.device)
            pooled = pool(encoder(ids, lengths), lengths, config.pooling)
            return F.normalize(pooled, dim=-1) if config.normalize else pooled

        for batch, rows in in_batches(run, [len(example.ids) for example in examples], self.bert):
            vectors[batch] = rows.float().cpu().numpy()
        return vectors

    @torch.inference_mode()
    def tokens(
        self, text: str, *, layer: int | None = None, max_seq_len: int | None = None, notify: Notify | None = None
    ) -> TokenVectors:
        """Return one vector per token of a text: the output of the last layer or of `layer` (0: embeddings)."""
        EmbedConfig(max_seq_len=max_seq_len)
        num_layers = self.bert.config.num_layers
        if layer is not None and not 0 <= layer <= num_layers:
            raise UsageError(
                f"layer must be from 0 (the embeddings) to {num_layers} (the last layer), got {layer}.",
                argument="layer",
                value=layer,
            )
        (example,) = self.encode([text], max_seq_len, notify=notify)
        address = "embedding" if layer == 0 else f"encoder.{(layer or num_layers) - 1}"
        with observe(self.bert, address) as observed:
            self.bert(torch.tensor([example.ids], device=self.device))
        found = self.tokenizer.token_spans(text)[: len(example.ids) - 2]
        # Remove the white space that a span has before its token.
        inner = [(span.end - len(span.text.lstrip()), span.end) for span in found]
        spans = ((0, 0), *inner, (len(text), len(text)))
        vectors = observed[address][0].float().cpu().numpy()
        return TokenVectors(text, tuple(self.tokenizer.tokens(example.ids)), spans, vectors)

    def similarity(
        self, first: str | Sequence[str], second: str | Sequence[str] | None = None, **options: Any
    ) -> Vectors:
        """Cosine similarities (first, second) of the texts in `first` and `second` (default: `first` again)."""
        options |= {"normalize": True}
        vectors = self.vectors([first] if isinstance(first, str) else first, **options)
        if second is None:
            return vectors @ vectors.T
        return vectors @ self.vectors([second] if isinstance(second, str) else second, **options).T

    def encode(
        self, texts: Sequence[str], max_seq_len: int | None = None, *, notify: Notify | None = None
    ) -> list[EncodedExample]:
        """The ids of each text, truncated to `max_seq_len`."""
        limit = min(max_seq_len or self.max_seq_len, self.bert.config.context_length)
        examples = encode_texts(self.tokenizer, texts, limit)
        if notify is not None:
            for line in input_notes(examples, limit, "text"):
                notify(line)
        return examples

    def evaluate(self, examples: Sequence[LabelledExample], config: Config | None = None) -> Scores:
        """Correlation of cosine similarities with gold similarities (STS-B, SICK); the baseline counts shared words."""
        chosen = self.config if config is None else EmbedConfig(**dict(config))
        pairs = [example.text for example in examples if isinstance(example.text, tuple)]
        gold = [float(example.gold) for example in examples if not isinstance(example.gold, tuple)]
        index = {text: number for number, text in enumerate(dict.fromkeys(text for pair in pairs for text in pair))}
        vectors = self.vectors(list(index), pooling=chosen.pooling, max_seq_len=chosen.max_seq_len, normalize=True)
        firsts, seconds = (vectors[[index[pair[side]] for pair in pairs]] for side in (0, 1))
        cosines = (firsts * seconds).sum(axis=1, dtype=np.float64)
        found = (pearson(cosines, gold), spearman(cosines, gold))
        measured = [replace(s, signature=f"cosine|pooling:{chosen.pooling}|{s.signature}") for s in found]
        return Scores([*measured, *overlap_baseline(pairs, gold)])

    def encode_results(self, results: Sequence[EmbedResult], suffix: str) -> str | bytes:
        if suffix != ".npy":
            return super().encode_results(results, suffix)
        rows = [getattr(result, "vector", getattr(result, "scores", None)) for result in results]
        if any(isinstance(result, TokenVectors) for result in results):
            raise UsageError(
                "--tokens gives arrays of different lengths, which one .npy file cannot store. Write .jsonl or .csv.",
                argument="out",
                value=suffix,
                allowed=(".jsonl", ".csv"),
            )
        array = io.BytesIO()
        np.save(array, np.array(rows))
        return array.getvalue()

    def embedder(self) -> Self:
        return self

    @classmethod
    def adapt(cls, other: Predictor[Any]) -> Self | None:
        if isinstance(other, cls):
            return other
        return cls.around(other) if cls.spec.needs <= other.capabilities else None

    def _outputs(self) -> str:
        return f"{self.bert.config.d_model} dimensions, {self.config.pooling} pooling, {self.max_seq_len} tokens"


def pool(hidden: Tensor, lengths: Tensor | None, pooling: Pooling) -> Tensor:
    """Pool hidden states (B, T, D) into one vector per text (B, D); `lengths` (B,) excludes padding."""
    if pooling == "cls":
        return hidden[:, 0]
    if lengths is None:
        return hidden.amax(dim=1) if pooling == "max" else hidden.mean(dim=1)
    padding = (torch.arange(hidden.shape[1], device=hidden.device) >= lengths[:, None])[..., None]  # (B, T, 1)
    if pooling == "max":
        return hidden.masked_fill(padding, float("-inf")).amax(dim=1)
    return hidden.masked_fill(padding, 0.0).sum(dim=1) / lengths[:, None]


def _digits(value: float) -> str:
    return f"{value:.9g}"  # all digits of a float32


def _numbers(vector: Vectors) -> list[float]:
    return [float(_digits(value)) for value in vector.tolist()]


def _columns(vector: Vectors) -> dict[str, str]:
    return {str(column): _digits(value) for column, value in enumerate(vector.tolist())}
