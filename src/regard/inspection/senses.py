"""Word senses: the vector that a word has in each sentence, layer by layer.

In the embedding table of an encoder a word has one vector for all its senses. Each block adds context, which separates
the vectors by sense. The measurement needs no training: does the sentence in which the word's vector has the highest
cosine similarity use the word in the same sense? The baseline is to always choose the most frequent sense.

| layer | vector of a word, the mean over its tokens |
|---|---|
| static | its rows of the token embedding table, the same in every sentence |
| 0 | input of the first block: with position and segment, normalized |
| i | output of block i |
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F

from regard.data.senses import find_word, read_senses, synthetic_senses
from regard.data.synthetic.labelled import SenseSentence
from regard.nn.hooks import observe
from regard.tasks.base import Predictor
from regard.tasks.embed.predictor import Embedder
from regard.tasks.encoder.inference import length_batches
from regard.tasks.encoder.predictor import EncodedExample, collate
from regard.tokenizers.tokenizer import Tokenizer
from regard.utils.errors import DataError, UsageError, shorten_list, unknown
from regard.views.studies import NUM_NEIGHBORS, STATIC, LayerSenses, Senses, Vectors, WordSenses

TIE = 2e-7  # cosines that differ by less count as equal, because of rounding
CHUNK = 1024  # sentences that are compared with all others in one product


@dataclass(frozen=True)
class Neighbor:
    """A sentence, its similarity to another sentence, and the sense of its word."""

    text: str
    sense: str
    cosine: float


def senses(model: Any, sentences: Path | str | None = None, *, skip_bad_rows: bool = False) -> Senses:
    """Measure for each layer of an encoder how often the nearest sentence uses a word in the same sense.

    `model` is the predictor of an encoder, with any head. `sentences` is a table with the columns word, sense and
    sentence; without it the built-in sentences with bank, spring and run are used.
    `regard.views.studies.senses_view` draws the result.
    """
    examples = synthetic_senses() if sentences is None else read_senses(sentences, skip_bad_rows=skip_bad_rows).examples
    return word_senses(model, examples)


def _embedder(model: Any) -> Embedder:
    """Return the encoder of a predictor with any head."""
    embedder = Embedder.adapt(model) if isinstance(model, Predictor) else None
    if embedder is None:
        raise UsageError(f"model must be a predictor with an encoder, got {model!r}.", argument="model")
    return embedder


def word_senses(model: Any, sentences: Sequence[SenseSentence]) -> Senses:
    """How each layer of an encoder represents words with several senses; each word is compared only with itself."""
    embedder = _embedder(model)
    if not sentences:
        message = "sentences is empty. Give sentences with a word that has at least two senses."
        raise UsageError(message, argument="sentences")
    vectors = word_vectors(embedder, sentences)
    words = []
    for word in dict.fromkeys(sentence.word for sentence in sentences):
        indices = [index for index, sentence in enumerate(sentences) if sentence.word == word]
        by_layer = {layer: rows[indices] for layer, rows in vectors.items()}
        words.append(_compare(word, [sentences[index] for index in indices], by_layer))
    return Senses(tuple(words))


def nearest_sentences(
    model: Any,
    text: str,
    sentences: Sequence[SenseSentence],
    *,
    word: str | None = None,
    layer: str | int | None = None,
    count: int = NUM_NEIGHBORS,
) -> list[Neighbor]:
    """The sentences whose word is nearest to the same word in `text`, at a layer (default: the last)."""
    embedder = _embedder(model)
    known = list(dict.fromkeys(sentence.word for sentence in sentences))
    if word is None:
        present = [word for word in known if find_word(word, text) is not None]
        if len(present) != 1:
            problem = f"has {', '.join(present)}. Choose one with --word" if present else "has none of them"
            message = f"the text must have one of the words {shorten_list(known)}; {text!r} {problem}."
            raise UsageError(message, argument="word", allowed=present or known)
        word = present[0]
    word = word.lower()
    if word not in known:
        raise unknown("word", word, known)
    start = find_word(word, text)
    if start is None:
        raise UsageError(f"the word {word!r} is not in {text!r}.", argument="text", value=text)
    others = [sentence for sentence in sentences if sentence.word == word and sentence.text != text]
    if count < 1 or not others:
        message = (
            f"count must be at most the number of other sentences ({len(others)}), got {count}; the word is {word!r}."
        )
        raise UsageError(message, argument="count", value=count)
    vectors = word_vectors(embedder, [SenseSentence(text, word, start, ""), *others])
    name = str(embedder.bert.config.num_layers if layer is None else layer)
    if name not in vectors:
        raise unknown("layer", name, vectors)
    units = _normalize(vectors[name])
    cosines = units[1:] @ units[0]
    order = np.argsort(-cosines, kind="stable")[:count]
    return [Neighbor(others[n].text, others[n].sense, float(cosines[n])) for n in order]


def word_vectors(embedder: Embedder, sentences: Sequence[SenseSentence]) -> dict[str, Vectors]:
    """Return for each layer the vector of each sentence's word, (sentences, D): the mean over its tokens."""
    bert, tokenizer = embedder.bert, embedder.tokenizer
    encoded = [_encode(tokenizer, sentence, embedder.max_seq_len) for sentence in sentences]
    hooks = {"0": "embedding", **{str(block + 1): f"encoder.{block}" for block in range(len(bert.encoder))}}
    vectors = {name: np.empty((len(encoded), bert.config.d_model), dtype=np.float32) for name in (STATIC, *hooks)}
    table = bert.embedding.weight
    for batch in length_batches([len(ids) for ids, _ in encoded]):
        examples = [EncodedExample(encoded[index][0], len(encoded[index][0])) for index in batch]
        ids, lengths, _ = collate(examples, tokenizer.pad_id, table.device)
        with torch.inference_mode(), observe(bert, *hooks.values()) as observed:
            bert(ids, lengths)
            layers = {STATIC: F.embedding(ids, table), **{name: observed[hook] for name, hook in hooks.items()}}
            for name, hidden in layers.items():
                for row, index in enumerate(batch):
                    vectors[name][index] = hidden[row, encoded[index][1]].float().mean(dim=0).cpu().numpy()
    return vectors


def _encode(tokenizer: Tokenizer, sentence: SenseSentence, max_seq_len: int) -> tuple[list[int], slice]:
    """Return [CLS] … [SEP] and the positions of the word's tokens; a long text is truncated around the word."""
    spans = tokenizer.token_spans(sentence.text)
    end = sentence.start + len(sentence.word)
    inside = [
        index
        for index, span in enumerate(spans)
        # White space before a word belongs to its token, but not to the word.
        if span.end - len(span.text.lstrip()) < end and span.end > sentence.start and span.text.strip()
    ]
    if not inside:
        message = f"the word {sentence.word!r} has no tokens in {sentence.text[:60]!r}. Remove the sentence."
        raise DataError(message, argument="sentences", value=sentence.text)
    first, last, length = inside[0], inside[-1] + 1, max_seq_len - 2
    begin = min(max(0, (first + last - length) // 2), max(0, len(spans) - length))
    ids = [span.id for span in spans[begin : begin + length]]
    return [tokenizer.start_id, *ids, tokenizer.end_id], slice(first - begin + 1, min(last - begin, length) + 1)


def _compare(word: str, sentences: Sequence[SenseSentence], vectors: dict[str, Vectors]) -> WordSenses:
    labels = tuple(sentence.sense for sentence in sentences)
    senses = tuple(dict.fromkeys(labels))
    if len(senses) < 2 or min(map(labels.count, senses)) < 2:
        message = f"{word!r} needs two senses and two sentences of each; it has {shorten_list(senses)}."
        raise DataError(message, argument="sentences", value=senses)
    return WordSenses(
        word=word,
        senses=senses,
        texts=tuple(sentence.text for sentence in sentences),
        labels=labels,
        starts=tuple(sentence.start for sentence in sentences),
        majority=max(map(labels.count, senses)) / len(labels),
        layers=tuple(_compare_layer(name, rows, labels, senses) for name, rows in vectors.items()),
    )


def _compare_layer(name: str, vectors: Vectors, labels: Sequence[str], senses: Sequence[str]) -> LayerSenses:
    # If several sentences are equally near, their most frequent sense counts; it has the lowest priority number.
    by_frequency = sorted(senses, key=lambda sense: (-labels.count(sense), sense))
    priority = np.array([by_frequency.index(label) for label in labels])
    member = np.array([[label == sense for sense in senses] for label in labels], dtype=np.float64)
    units, exact = _normalize(vectors), vectors.astype(np.float64)
    squares = np.square(exact).sum(axis=1)
    nearest = np.empty((len(units), min(NUM_NEIGHBORS, len(units) - 1)), dtype=np.int64)
    similarities = np.empty(nearest.shape, dtype=np.float32)
    sums = np.zeros((len(senses), len(senses)))
    correct, largest = 0, 0.0
    for rows in np.split(np.arange(len(units)), range(CHUNK, len(units), CHUNK)):
        cosines = units[rows] @ units.T
        cosines[np.arange(len(rows)), rows] = 0
        sums += member[rows].T @ cosines @ member
        cosines[np.arange(len(rows)), rows] = -np.inf
        best = cosines.max(axis=1, keepdims=True)
        predicted = np.where(cosines >= best - TIE, priority, len(senses)).min(axis=1)
        correct += int((predicted == priority[rows]).sum())
        nearest[rows] = np.argsort(-cosines, axis=1, kind="stable")[:, : nearest.shape[1]]
        similarities[rows] = np.take_along_axis(cosines, nearest[rows], axis=1)
        distances = squares[rows, None] + squares[None, :] - 2 * exact[rows] @ exact.T
        largest = max(largest, float(distances.max()))
    sizes = member.sum(axis=0)
    pairs = np.outer(sizes, sizes) - np.diag(sizes)
    same = np.eye(len(senses), dtype=bool)
    return LayerSenses(
        name=name,
        accuracy=correct / len(units),
        cosines=sums / pairs,
        within=float(sums[same].sum() / pairs[same].sum()),
        across=float(sums[~same].sum() / pairs[~same].sum()),
        max_distance=0.0 if (vectors == vectors[0]).all() else math.sqrt(largest),  # exactly 0 despite rounding
        positions=_principal_components(units),
        nearest=nearest,
        similarities=similarities,
    )


def _normalize(vectors: Vectors) -> npt.NDArray[np.float64]:
    """Unit vectors, whose products are cosines. A vector of length 0 stays 0."""
    exact = vectors.astype(np.float64)
    units: npt.NDArray[np.float64] = exact / np.maximum(np.linalg.norm(exact, axis=1, keepdims=True), 1e-12)
    return units


def _principal_components(units: npt.NDArray[np.float64]) -> Vectors:
    """Coordinates along the two directions of the largest variance."""
    centered = units - units.mean(axis=0)
    _, directions = np.linalg.eigh(centered.T @ centered)
    axes = directions[:, -2:][:, ::-1]
    # A direction and its opposite are equally good: the sign makes the largest component positive.
    signs = np.sign(axes[np.abs(axes).argmax(axis=0), np.arange(axes.shape[1])])
    return (centered @ (axes * signs)).astype(np.float32)  # type: ignore[no-any-return]
