"""Word senses, by a word's vectors in sentences → a View: accuracy by layer, and a map for every layer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from regard.utils.errors import UsageError, unknown
from regard.views.picture import MUTED, Picture, text_width
from regard.views.report import SERIES_COLOURS, draw_chart
from regard.views.view import View

STATIC = "static"  # the layer below all: the table alone, before a position or a neighbor is added
MOST_DRAWN = 300  # sentences of a word on the map
NEAREST = 5  # that are named for each

Numbers = npt.NDArray[np.float32]


@dataclass(frozen=True)
class LayerSenses:
    """How well one layer's vectors tell the senses of a word apart."""

    name: str  # "static", "0" for the embeddings with their positions, "1" and so on for the blocks
    accuracy: float  # share of sentences whose nearest other one has the same sense
    cosines: npt.NDArray[np.float64]  # (senses, senses): the mean between two different sentences
    within: float  # mean cosine of two sentences of one sense
    across: float  # and of two sentences of different senses
    farthest: float  # the largest Euclidean distance between two vectors: 0 where all are the same
    places: Numbers = field(repr=False)  # (sentences, 2): the map
    nearest: npt.NDArray[np.int64] = field(repr=False)  # (sentences, NEAREST) by cosine, the nearest first
    similarities: Numbers = field(repr=False)  # (sentences, NEAREST)


@dataclass(frozen=True)
class WordSenses:
    """A word in many sentences: what it means there, and what each layer makes of it."""

    word: str
    senses: tuple[str, ...]
    texts: tuple[str, ...]
    meant: tuple[str, ...]  # the sense in each text
    starts: tuple[int, ...]  # where the word stands in each
    majority: float  # share of sentences with the most frequent sense
    layers: tuple[LayerSenses, ...]

    def layer(self, name: str | int) -> LayerSenses:
        found = next((layer for layer in self.layers if layer.name == str(name)), None)
        if found is None:
            raise unknown("layer", str(name), [layer.name for layer in self.layers])
        return found

    @property
    def best(self) -> LayerSenses:
        """The layer with the highest accuracy; of equal ones, that which parts the senses most."""
        return max(self.layers, key=lambda layer: (layer.accuracy, layer.within - layer.across))

    def __repr__(self) -> str:
        best = self.best
        return f"WordSenses({self.word!r}, {len(self.texts)} sentences, {best.accuracy:.1%} at layer {best.name})"


@dataclass(frozen=True)
class Senses:
    """Words with several meanings, by layer of a model."""

    words: tuple[WordSenses, ...]

    def __post_init__(self) -> None:
        if not self.words:
            raise UsageError("a view of senses needs at least one word.")

    def word(self, name: str) -> WordSenses:
        found = next((word for word in self.words if word.word == name), None)
        if found is None:
            raise unknown("word", name, [word.word for word in self.words])
        return found

    @property
    def names(self) -> list[str]:
        """The layers, from below."""
        return [layer.name for layer in self.words[0].layers]

    def accuracy(self, layer: str | int) -> float:
        """Over the sentences of all words."""
        return self._mean([word.layer(layer).accuracy for word in self.words])

    @property
    def majority(self) -> float:
        """Accuracy of always choosing a word's most frequent sense."""
        return self._mean([word.majority for word in self.words])

    def _mean(self, shares: Sequence[float]) -> float:
        counts = [len(word.texts) for word in self.words]
        return sum(share * count for share, count in zip(shares, counts, strict=True)) / sum(counts)

    def numbers(self) -> dict[str, Any]:
        return {
            "sentences": sum(len(word.texts) for word in self.words),
            "majority": self.majority,
            "accuracy": {name: self.accuracy(name) for name in self.names},
            "words": [_word_numbers(word) for word in self.words],
        }

    def lines(self) -> list[str]:
        """The accuracy by layer as a table, then the mean cosines between senses where they are told apart best."""
        total = sum(len(word.texts) for word in self.words)
        names = [word.word for word in self.words]
        widths = [max(8, len(name)) for name in names]
        title = f"{total:,} sentences: accuracy of the nearest sentence's sense, in %; mean cosines"
        head = "  ".join(name.rjust(width) for name, width in zip(names, widths, strict=True))
        rows = [title, f"{'layer':<10}{head}  {'all':>8}  {'within':>8}  {'across':>8}"]

        def row(name: str, shares: Sequence[float], together: float, *more: float) -> str:
            cells = [f"{100 * share:>{width}.1f}" for share, width in zip(shares, widths, strict=True)]
            return f"{name:<10}" + "  ".join([*cells, f"{100 * together:>8.1f}", *(f"{one:>8.3f}" for one in more)])

        rows.append(row("majority", [word.majority for word in self.words], self.majority))
        for name in self.names:
            layers = [word.layer(name) for word in self.words]
            means = [self._mean([getattr(layer, kind) for layer in layers]) for kind in ("within", "across")]
            rows.append(row(name, [layer.accuracy for layer in layers], self.accuracy(name), *means))
        for word in self.words:
            cosines = [
                f"{one}–{other} {word.best.cosines[i, j]:.3f}"
                for i, one in enumerate(word.senses)
                for j, other in enumerate(word.senses)
                if i <= j
            ]
            rows.append(f"{word.word}, layer {word.best.name}: {', '.join(cosines)}")
        return rows


def _word_numbers(word: WordSenses) -> dict[str, Any]:
    return {
        "word": word.word,
        "senses": {sense: word.meant.count(sense) for sense in word.senses},
        "majority": word.majority,
        "layers": [
            {
                "layer": layer.name,
                "accuracy": layer.accuracy,
                "within": layer.within,
                "across": layer.across,
                "largest_distance": layer.farthest,
                "cosines": layer.cosines.tolist(),
            }
            for layer in word.layers
        ],
    }


def senses_view(senses: Senses, *, title: str, note: str = "") -> View:
    """A view of accuracy by layer, and of each word's vectors as points, layer by layer."""
    data = {"title": title, "note": note or _note(senses), "words": [_word_data(word) for word in senses.words]}
    return View("senses", data, title, partial(_draw, senses, title))


def _note(senses: Senses) -> str:
    best = max(senses.names, key=senses.accuracy)
    static = f"; the static embedding reaches {100 * senses.accuracy(STATIC):.1f} %" if STATIC in senses.names else ""
    return (
        f"How often a word has the same sense in a sentence and in the nearest other sentence, by the cosine of its "
        f"vectors: {100 * senses.accuracy(best):.1f} % at layer {best}. Always choosing the most frequent sense "
        f"reaches {100 * senses.majority:.1f} %{static}."
    )


def _word_data(word: WordSenses) -> dict[str, Any]:
    drawn = _drawn(len(word.texts))
    place_of = {int(number): place for place, number in enumerate(drawn)}
    texts = [[word.texts[n], word.starts[n], word.senses.index(word.meant[n])] for n in drawn]
    layers = []
    for layer in word.layers:
        near = [
            [
                [
                    place_of.get(int(other), -1),
                    word.texts[other],
                    word.senses.index(word.meant[other]),
                    round(float(x), 3),
                ]
                for other, x in zip(layer.nearest[n], layer.similarities[n], strict=True)
            ]
            for n in drawn
        ]
        layers.append(
            {
                "name": layer.name,
                "accuracy": layer.accuracy,
                "within": layer.within,
                "across": layer.across,
                "places": [[round(float(x), 4), round(float(y), 4)] for x, y in layer.places[drawn]],
                "near": near,
            }
        )
    return {
        "word": word.word,
        "senses": list(word.senses),
        "counts": [word.meant.count(sense) for sense in word.senses],
        "texts": texts,
        "count": len(word.texts),
        "majority": word.majority,
        "chart": _chart(word),
        "layers": layers,
        "best": word.layers.index(word.best),
    }


def _drawn(count: int) -> npt.NDArray[np.int64]:
    """The sentences on the map: all, or so many from the first to the last."""
    return np.unique(np.linspace(0, count - 1, min(count, MOST_DRAWN)).astype(np.int64))


def _chart(word: WordSenses) -> dict[str, Any]:
    """Accuracy over the layers that have a number; the table's own vector and the majority as level lines."""
    blocks = [layer for layer in word.layers if layer.name != STATIC]
    ends = [int(blocks[0].name), int(blocks[-1].name)]
    contextual = [[int(layer.name), 100 * layer.accuracy] for layer in blocks]
    series = [{"name": "nearest neighbor", "points": contextual}]
    static = next((layer for layer in word.layers if layer.name == STATIC), None)
    if static is not None:
        series.append({"name": "static vector", "points": [[end, 100 * static.accuracy] for end in ends]})
    series.append({"name": "majority baseline", "points": [[end, 100 * word.majority] for end in ends]})
    return {"title": f"accuracy for the senses of “{word.word}”, in %", "series": series}


def _draw(senses: Senses, title: str) -> Picture:
    """The first word: its accuracy by layer, and its map where that is highest."""
    word = senses.words[0]
    picture = Picture(900, 430, title)
    picture.text(28, 40, title, size=18, weight=600)
    draw_chart(picture, _chart(word), 28, 70, 394, 320)
    picture.text(422, 406, "layer", size=11, fill=MUTED, anchor="end")
    left, top, size = 478.0, 114.0, 280.0
    picture.text(left, 84, f"“{word.word}” at layer {word.best.name}", weight=600)
    x = left
    for number, sense in enumerate(word.senses):
        picture.rectangle(x, 93, 10, 10, fill=SERIES_COLOURS[number % len(SERIES_COLOURS)], radius=3)
        picture.text(x + 15, 102, sense, size=11)
        x += 30 + text_width(sense, 11)
    places = word.best.places.astype(np.float64)
    low, high = places.min(axis=0), places.max(axis=0)
    spread = float(np.max(high - low)) or 1.0
    for number in _drawn(len(word.texts)):
        dx, dy = (places[number] - (low + high) / 2) / spread * size
        colour = SERIES_COLOURS[word.senses.index(word.meant[number]) % len(SERIES_COLOURS)]
        picture.rectangle(left + 190 + dx - 4, top + size / 2 - dy - 4, 8, 8, fill=colour, radius=4)
    return picture
