"""Word senses, by a word's vectors in sentences → a View: accuracy by layer, and a map for every layer."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import combinations_with_replacement
from typing import Any

import numpy as np
import numpy.typing as npt

from regard.utils.errors import UsageError, unknown
from regard.views.picture import MUTED, Picture, draw_chart, series_color
from regard.views.view import View

STATIC = "static"  # the layer below all others: the embedding table alone, without positions
MAX_POINTS = 300  # sentences of a word on the map
NUM_NEIGHBORS = 5  # that are listed for each sentence

Vectors = npt.NDArray[np.float32]


@dataclass(frozen=True)
class LayerSenses:
    """How well the vectors of one layer separate the senses of a word."""

    name: str  # "static", "0" for the embeddings with their positions, "1" and so on for the blocks
    accuracy: float  # share of sentences whose nearest other sentence has the same sense
    cosines: npt.NDArray[np.float64]  # (senses, senses): the mean between two different sentences
    within: float  # mean cosine of two sentences with the same sense
    across: float  # mean cosine of two sentences with different senses
    max_distance: float  # the largest Euclidean distance between two vectors: 0 if all are the same
    positions: Vectors = field(repr=False)  # (sentences, 2) on the map
    nearest: npt.NDArray[np.int64] = field(repr=False)  # (sentences, NUM_NEIGHBORS) by cosine, the nearest first
    similarities: Vectors = field(repr=False)  # (sentences, NUM_NEIGHBORS)

    def scores(self) -> dict[str, float]:
        return {"accuracy": self.accuracy, "within": self.within, "across": self.across}


@dataclass(frozen=True)
class WordSenses:
    """A word in many sentences: its sense in each, and how each layer represents it."""

    word: str
    senses: tuple[str, ...]
    texts: tuple[str, ...]
    labels: tuple[str, ...]  # the sense in each text
    starts: tuple[int, ...]  # first character of the word in each text
    majority: float  # share of sentences with the most frequent sense
    layers: tuple[LayerSenses, ...]

    def layer(self, name: str | int) -> LayerSenses:
        layers = {layer.name: layer for layer in self.layers}
        if str(name) not in layers:
            raise unknown("layer", str(name), layers)
        return layers[str(name)]

    @property
    def best(self) -> LayerSenses:
        """The layer with the highest accuracy; of equal ones, the one that separates the senses most."""
        return max(self.layers, key=lambda layer: (layer.accuracy, layer.within - layer.across))

    def __repr__(self) -> str:
        best = self.best
        return f"WordSenses({self.word!r}, {len(self.texts)} sentences, {best.accuracy:.1%} at layer {best.name})"

    def numbers(self) -> dict[str, Any]:
        return {
            "word": self.word,
            "senses": {sense: self.labels.count(sense) for sense in self.senses},
            "majority": self.majority,
            "layers": [
                {
                    "layer": layer.name,
                    **layer.scores(),
                    "max_distance": layer.max_distance,
                    "cosines": layer.cosines.tolist(),
                }
                for layer in self.layers
            ],
        }


@dataclass(frozen=True)
class Senses:
    """Words with several senses, by layer of a model."""

    words: tuple[WordSenses, ...]

    def __post_init__(self) -> None:
        if not self.words:
            raise UsageError("a view of senses needs at least one word.", argument="words")

    def word(self, name: str) -> WordSenses:
        words = {word.word: word for word in self.words}
        if name not in words:
            raise unknown("word", name, words)
        return words[name]

    @property
    def names(self) -> list[str]:
        """The names of the layers, the lowest first."""
        return [layer.name for layer in self.words[0].layers]

    def accuracy(self, layer: str | int) -> float:
        """Over the sentences of all words."""
        return self._mean(word.layer(layer).accuracy for word in self.words)

    @property
    def majority(self) -> float:
        """Accuracy of always choosing a word's most frequent sense."""
        return self._mean(word.majority for word in self.words)

    def _mean(self, by_word: Iterable[float]) -> float:
        return float(np.average(list(by_word), weights=[len(word.texts) for word in self.words]))

    def numbers(self) -> dict[str, Any]:
        return {
            "sentences": sum(len(word.texts) for word in self.words),
            "majority": self.majority,
            "accuracy": {name: self.accuracy(name) for name in self.names},
            "words": [word.numbers() for word in self.words],
        }

    def lines(self) -> list[str]:
        """The accuracy by layer as a table, then the mean cosines between senses at the best layer of each word."""
        widths = [max(8, len(word.word)) for word in self.words]

        def row(name: str, by_word: Sequence[str], *totals: str) -> str:
            cells = [cell.rjust(width) for cell, width in zip(by_word, widths, strict=True)]
            return f"{name:<10}" + "  ".join([*cells, *(total.rjust(8) for total in totals)])

        def percents(accuracies: Iterable[float]) -> list[str]:
            return [f"{100 * accuracy:.1f}" for accuracy in accuracies]

        total = sum(len(word.texts) for word in self.words)
        lines = [
            f"{total:,} sentences: accuracy of the nearest sentence's sense, in %; mean cosines",
            row("layer", [word.word for word in self.words], "all", "within", "across"),
            row("majority", percents(word.majority for word in self.words), *percents([self.majority])),
        ]
        for name in self.names:
            layers = [word.layer(name) for word in self.words]
            means = (self._mean(layer.within for layer in layers), self._mean(layer.across for layer in layers))
            totals = (*percents([self.accuracy(name)]), *(f"{mean:.3f}" for mean in means))
            lines.append(row(name, percents(layer.accuracy for layer in layers), *totals))
        for word in self.words:
            pairs = combinations_with_replacement(enumerate(word.senses), 2)
            cosines = [f"{a}–{b} {word.best.cosines[i, j]:.3f}" for (i, a), (j, b) in pairs]
            lines.append(f"{word.word}, layer {word.best.name}: {', '.join(cosines)}")
        return lines


def senses_view(senses: Senses, *, title: str, note: str = "") -> View:
    """A view of accuracy by layer, and of each word's vectors as points, layer by layer."""
    best = max(senses.names, key=senses.accuracy)
    static = f"; the static embedding reaches {100 * senses.accuracy(STATIC):.1f} %" if STATIC in senses.names else ""
    explanation = (
        f"How often a word has the same sense in a sentence and in the nearest other sentence, by the cosine of its "
        f"vectors: {100 * senses.accuracy(best):.1f} % at layer {best}. Always choosing the most frequent sense "
        f"reaches {100 * senses.majority:.1f} %{static}."
    )
    data = {"words": [_word_data(word) for word in senses.words]}
    return View("senses", data, title, _draw, senses.lines(), senses.numbers, note or explanation)


def _word_data(word: WordSenses) -> dict[str, Any]:
    count = len(word.texts)
    drawn = np.unique(np.linspace(0, count - 1, min(count, MAX_POINTS)).astype(np.int64))
    point_of = {int(sentence): point for point, sentence in enumerate(drawn)}
    sense_of = [word.senses.index(label) for label in word.labels]

    def neighbors(layer: LayerSenses, sentence: int) -> list[list[Any]]:
        pairs = zip(layer.nearest[sentence], layer.similarities[sentence], strict=True)
        return [[point_of.get(int(n), -1), word.texts[n], sense_of[n], round(float(cosine), 3)] for n, cosine in pairs]

    return {
        "word": word.word,
        "senses": list(word.senses),
        "counts": [word.labels.count(sense) for sense in word.senses],
        "texts": [[word.texts[n], word.starts[n], sense_of[n]] for n in drawn],
        "count": count,
        "majority": word.majority,
        "chart": _chart(word),
        "layers": [
            {
                "name": layer.name,
                **layer.scores(),
                "positions": [[round(float(x), 4), round(float(y), 4)] for x, y in layer.positions[drawn]],
                "near": [neighbors(layer, n) for n in drawn],
            }
            for layer in word.layers
        ],
        "best": word.layers.index(word.best),
    }


def _chart(word: WordSenses) -> dict[str, Any]:
    """Accuracy over the numbered layers; the static vector and the majority as horizontal lines."""
    accuracies = {layer.name: 100 * layer.accuracy for layer in word.layers}
    static = accuracies.pop(STATIC, None)
    points = [[int(name), accuracy] for name, accuracy in accuracies.items()]
    series = [{"name": "nearest neighbor", "points": points}]
    for name, level in (("static vector", static), ("majority baseline", 100 * word.majority)):
        if level is not None:
            series.append({"name": name, "points": [[points[0][0], level], [points[-1][0], level]]})
    return {"title": f"accuracy for the senses of “{word.word}”, in %", "series": series}


def _draw(data: dict[str, Any]) -> Picture:
    """The first word: its accuracy by layer, and its map at the best layer."""
    word = data["words"][0]
    layer = word["layers"][word["best"]]
    picture = Picture(900, 430, data["title"])
    picture.heading(28)
    draw_chart(picture, word["chart"], 28, 70, 394, 320)
    picture.text(422, 406, "layer", size=11, fill=MUTED, anchor="end")
    left, top, size = 478.0, 114.0, 280.0
    picture.text(left, 84, f"“{word['word']}” at layer {layer['name']}", weight=600)
    picture.legend(left, 93, word["senses"])
    positions = np.array(layer["positions"], dtype=np.float64)
    low, high = positions.min(axis=0), positions.max(axis=0)
    offsets = (positions - (low + high) / 2) / (float(np.max(high - low)) or 1.0) * size
    for (dx, dy), (_, _, sense) in zip(offsets, word["texts"], strict=True):
        x, y = left + 190 + dx, top + size / 2 - dy
        picture.rectangle(x - 4, y - 4, 8, 8, fill=series_color(sense), radius=4)
    return picture
