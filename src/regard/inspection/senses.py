"""Same word, other meaning: the vector that a word has in each sentence, layer by layer.

In the table of an encoder a word has one vector, whatever it means. Each block mixes in what stands around it, and the
vectors part by sense. How far is measured without learning anything: does the sentence whose vector is nearest, by
cosine, mean the word in the same sense? Beside that stands what always naming the most frequent sense would reach.

| layer | a word's vector, the mean over its tokens |
|---|---|
| static | its rows of the token embedding table, the same in every sentence |
| 0 | what enters the first block: with position and segment, normalized |
| i | what leaves block i |
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from regard.data.senses import find_word, read_senses, synthetic_senses
from regard.data.synthetic.senses import SenseSentence
from regard.nn.hooks import observe
from regard.tasks.embed.predictor import Embedder
from regard.tasks.encoder.batching import EncodedExample, collate
from regard.tasks.encoder.inference import length_batches
from regard.tokenizers.tokenizer import Tokenizer
from regard.utils.errors import DataError, UsageError, shorten_list, unknown
from regard.views.senses import NEAREST, STATIC, LayerSenses, Senses, WordSenses

Vectors = npt.NDArray[np.float32]
Units = npt.NDArray[np.float64]

SAME = 2e-7  # cosines that differ by less are equal: the vectors were rounded
AT_ONCE = 1024  # sentences that are compared with all others in one product


@dataclass(frozen=True)
class Neighbor:
    """A sentence near another one, and how the word is meant in it."""

    text: str
    sense: str
    cosine: float


def senses(model: Any, sentences: Path | str | None = None, *, skip_bad_rows: bool = False) -> Senses:
    """For each layer of an encoder: how often the nearest sentence uses a word in the same sense.

    `model` is the predictor of an encoder, with any head. `sentences` is a table with the columns word, sense and
    sentence; without it the built-in sentences with bank, spring and run are used.
    `regard.views.senses.senses_view` draws the result.
    """
    examples = synthetic_senses() if sentences is None else read_senses(sentences, skip_bad_rows=skip_bad_rows).examples
    return word_senses(model, examples)


def embedder_of(model: Any) -> Embedder:
    """The encoder of a predictor, whatever its head."""
    embedder = model if isinstance(model, Embedder) else Embedder.adapt(model)
    if embedder is None:
        raise UsageError(f"senses needs an encoder, not {model!r}.", argument="model")
    return embedder


def word_senses(model: Any, sentences: Sequence[SenseSentence]) -> Senses:
    """What each layer of an encoder makes of words with several senses; each word is compared with itself only."""
    embedder = embedder_of(model)
    if not sentences:
        raise UsageError("there are no sentences to compare: give some of a word with at least two senses.")
    vectors = word_vectors(embedder, sentences)
    words = list(dict.fromkeys(one.word for one in sentences))
    found = []
    for word in words:
        numbers = [number for number, one in enumerate(sentences) if one.word == word]
        found.append(_compared(word, [sentences[n] for n in numbers], {k: v[numbers] for k, v in vectors.items()}))
    return Senses(tuple(found))


def nearest_sentences(
    model: Any,
    text: str,
    sentences: Sequence[SenseSentence],
    *,
    word: str | None = None,
    layer: str | int | None = None,
    count: int = NEAREST,
) -> list[Neighbor]:
    """The sentences whose word is nearest to the same word in `text`, at a layer or after the last block."""
    embedder = embedder_of(model)
    known = list(dict.fromkeys(one.word for one in sentences))
    word = _word_in(text, known) if word is None else word.lower()
    start = find_word(word, text)
    if word not in known:
        raise unknown("word", word, known)
    if start is None:
        raise UsageError(f"the word {word!r} is not in {text!r}: give a sentence with it, written as it stands there.")
    among = [one for one in sentences if one.word == word and one.text != text]
    if count < 1 or not among:
        raise UsageError(f"of {len(among)} other sentences with {word!r} no {count} can be shown.")
    vectors = word_vectors(embedder, [SenseSentence(text, word, start, ""), *among])
    name = str(embedder.bert.config.num_layers if layer is None else layer)
    if name not in vectors:
        raise unknown("layer", name, vectors)
    units = _units(vectors[name])
    cosines = units[1:] @ units[0]
    order = np.argsort(-cosines, kind="stable")[:count]
    return [Neighbor(among[n].text, among[n].sense, float(cosines[n])) for n in order]


def _word_in(text: str, known: Sequence[str]) -> str:
    there = [word for word in known if find_word(word, text) is not None]
    if len(there) != 1:
        found = f"has {', '.join(there)}: say which with --word" if there else "has none of them"
        raise UsageError(f"a sentence should have one of the words {shorten_list(known)}, and {text!r} {found}.")
    return there[0]


# Vectors ----------------------------------------------------------------------------------------------------


def word_vectors(embedder: Embedder, sentences: Sequence[SenseSentence]) -> dict[str, Vectors]:
    """Layer → the vector of each sentence's word, (sentences, D): the mean over its tokens."""
    bert, tokenizer = embedder.bert, embedder.tokenizer
    framed = [_framed(tokenizer, one, embedder.max_seq_len) for one in sentences]
    rows, spans = [row for row, _, _ in framed], [(first, last) for _, first, last in framed]
    blocks = {
        str(layer): "embedding" if not layer else f"encoder.{layer - 1}" for layer in range(len(bert.encoder) + 1)
    }
    found = {name: np.empty((len(rows), bert.config.d_model), dtype=np.float32) for name in (STATIC, *blocks)}
    table = bert.embedding.weight
    for batch in length_batches([len(row) for row in rows]):
        examples = [EncodedExample(rows[number], len(rows[number])) for number in batch]
        ids, lengths, _ = collate(examples, tokenizer.pad_id, table.device)
        with torch.inference_mode(), observe(bert, *blocks.values()) as seen:
            bert(ids, lengths)
            layers = {STATIC: torch.nn.functional.embedding(ids, table), **{k: seen[a] for k, a in blocks.items()}}
            for name, hidden in layers.items():
                for place, number in enumerate(batch):
                    first, last = spans[number]
                    found[name][number] = hidden[place, first:last].float().mean(dim=0).cpu().numpy()
    return found


def _framed(tokenizer: Tokenizer, one: SenseSentence, longest: int) -> tuple[list[int], int, int]:
    """[CLS] … [SEP], and from where to where the word's tokens stand; of a long text, what is around the word."""
    spans = tokenizer.token_spans(one.text)
    end = one.start + len(one.word)
    inside = [
        place
        for place, span in enumerate(spans)
        # White space before a token belongs to it, but is no part of a word.
        if span.end - len(span.text.lstrip()) < end and span.end > one.start and span.text.strip()
    ]
    if not inside:
        raise DataError(f"the tokens of this model leave nothing of {one.word!r} in {one.text[:60]!r}: remove it.")
    first, last, room = inside[0], inside[-1] + 1, longest - 2
    begin = min(max(0, (first + last - room) // 2), max(0, len(spans) - room))
    ids = [span.id for span in spans[begin : begin + room]]
    return [tokenizer.start_id, *ids, tokenizer.end_id], first - begin + 1, min(last - begin, room) + 1


# Comparing --------------------------------------------------------------------------------------------------


def _compared(word: str, sentences: Sequence[SenseSentence], vectors: dict[str, Vectors]) -> WordSenses:
    meant = tuple(one.sense for one in sentences)
    senses = tuple(dict.fromkeys(meant))
    if len(senses) < 2 or min(map(meant.count, senses)) < 2:
        raise DataError(f"{word!r} needs two senses and two sentences of each; it has {shorten_list(senses)}.")
    # The most frequent first, so that of equally near sentences those of the commoner sense count.
    order = sorted(senses, key=lambda sense: (-meant.count(sense), sense))
    labels = np.array([order.index(sense) for sense in meant])
    return WordSenses(
        word=word,
        senses=senses,
        texts=tuple(one.text for one in sentences),
        meant=meant,
        starts=tuple(one.start for one in sentences),
        majority=meant.count(order[0]) / len(meant),
        layers=tuple(_layer(name, found, labels, order, senses) for name, found in vectors.items()),
    )


def _layer(
    name: str, vectors: Vectors, labels: npt.NDArray[np.int64], order: Sequence[str], senses: Sequence[str]
) -> LayerSenses:
    """One layer's vectors compared; label 0 is the most frequent sense, and `order` names them all."""
    units = _units(vectors)
    count, shown = len(units), min(NEAREST, len(units) - 1)
    nearest = np.empty((count, shown), dtype=np.int64)
    similarities = np.empty((count, shown), dtype=np.float32)
    sums = np.zeros((len(order), len(order)))
    member = (labels[:, None] == np.arange(len(order))).astype(np.float64)
    right = 0
    for rows, cosines in _products(units):
        sums += member[rows].T @ np.where(np.isneginf(cosines), 0, cosines) @ member
        best = cosines.max(axis=1, keepdims=True)
        told = np.where(cosines >= best - SAME, labels[None, :], len(order)).min(axis=1)
        right += int((told == labels[rows]).sum())
        nearest[rows] = np.argsort(-cosines, axis=1, kind="stable")[:, :shown]
        similarities[rows] = np.take_along_axis(cosines, nearest[rows], axis=1)
    sizes = member.sum(axis=0)
    pairs = np.outer(sizes, sizes) - np.diag(sizes)
    same = np.eye(len(order), dtype=bool)
    as_named = [order.index(sense) for sense in senses]
    return LayerSenses(
        name=name,
        accuracy=right / count,
        cosines=(sums / pairs)[np.ix_(as_named, as_named)],
        within=float(sums[same].sum() / pairs[same].sum()),
        across=float(sums[~same].sum() / pairs[~same].sum()),
        farthest=_farthest(vectors),
        places=_map(units),
        nearest=nearest,
        similarities=similarities,
    )


def _units(vectors: Vectors) -> Units:
    """The directions of vectors: products of these are cosines. A vector of length 0 stays what it is."""
    precise = vectors.astype(np.float64)
    found: Units = precise / np.maximum(np.linalg.norm(precise, axis=1, keepdims=True), 1e-12)
    return found


def _products(units: Units) -> Iterator[tuple[npt.NDArray[np.int64], Units]]:
    """Some sentences at a time: their numbers, and the cosine of each with all others; with itself it is -inf."""
    for begin in range(0, len(units), AT_ONCE):
        rows = np.arange(begin, min(begin + AT_ONCE, len(units)))
        cosines = units[rows] @ units.T
        cosines[np.arange(len(rows)), rows] = -np.inf
        yield rows, cosines


def _farthest(vectors: Vectors) -> float:
    """The largest distance between two vectors; of vectors that are all the same it is exactly 0."""
    if (vectors == vectors[0]).all():
        return 0.0
    precise = vectors.astype(np.float64)
    squares = np.square(precise).sum(axis=1)
    largest = 0.0
    for begin in range(0, len(precise), AT_ONCE):
        part = slice(begin, begin + AT_ONCE)
        distances = squares[part, None] + squares[None, :] - 2 * precise[part] @ precise.T
        largest = max(largest, float(distances.max()))
    return math.sqrt(largest)


def _map(units: Units) -> Vectors:
    """Vectors on a plane: along the two directions in which they differ most (principal components)."""
    centred = units - units.mean(axis=0)
    _, directions = np.linalg.eigh(centred.T @ centred)
    axes = directions[:, -2:][:, ::-1]
    # A direction and its opposite are equally good: the larger end points right, and up.
    signs = np.sign(axes[np.abs(axes).argmax(axis=0), np.arange(axes.shape[1])])
    found: Vectors = (centred @ (axes * signs)).astype(np.float32)
    return found
