"""Views of studies: charts of measurements on a model.

- `ranks_view`: the singular values of OV matrices, and the loss by rank
- `transfer_view`: pretrained weights versus training from scratch, by number of labels
- `senses_view`: how well a word's vectors separate its senses: accuracy by layer, and a map for every layer
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations_with_replacement
from statistics import fmean, stdev
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from regard.utils.errors import UsageError, unknown
from regard.views.picture import MUTED, Picture, draw_chart, series_color
from regard.views.view import View

SCRATCH, PRETRAINED = "from scratch", "pretrained"
STATIC = "static"  # the layer below all others: the embedding table alone, without positions
MAX_POINTS = 300  # sentences of a word on the map
NUM_NEIGHBORS = 5  # number of neighbors that are listed for each sentence

Scores = tuple[float, ...]  # one per seed
Vectors = npt.NDArray[np.float32]
T = TypeVar("T")


# --- Ranks --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Ranks:
    """Singular values of each head's W^V · W^O at every attention, and the loss after truncating them."""

    d_model: int  # D: the full matrix is D × D
    head_dim: int  # Dh: the maximum rank
    spectra: Mapping[str, npt.NDArray[Any]]  # address → (H, Dh), the largest first
    ranks: Mapping[str, Sequence[int]]  # address → the rank of each head's product
    losses: Mapping[int, float]  # rank → loss of the text, or of its translation

    def __post_init__(self) -> None:
        for name, values in (("spectra", self.spectra), ("losses", self.losses)):
            if not values:
                raise UsageError(f"{name} is empty. Give at least one.", argument=name)
        for address, spectrum in self.spectra.items():
            if np.ndim(spectrum) != 2 or not np.isfinite(spectrum).all():
                message = f"the spectrum of {address!r} must be finite numbers of shape (heads, head_dim)."
                raise UsageError(message, argument="spectra", value=np.shape(spectrum))

    @property
    def parameter_counts(self) -> dict[str, int]:
        """Parameters of a head's OV matrix: as one matrix, and as two factors."""
        return {"full": self.d_model**2, "factored": 2 * self.d_model * self.head_dim}

    def numbers(self) -> dict[str, Any]:
        attentions = [
            {"address": address, "ranks": list(self.ranks[address]), "singular_values": spectrum.tolist()}
            for address, spectrum in self.spectra.items()
        ]
        return {
            "d_model": self.d_model,
            "head_dim": self.head_dim,
            "parameters_of_a_head": self.parameter_counts,
            "attentions": attentions,
            "losses": [{"rank": rank, "loss": loss} for rank, loss in self.losses.items()],
        }

    def lines(self) -> list[str]:
        """The loss by rank as text."""
        return [f"rank {rank:>4}  loss {loss:.4f}" for rank, loss in self.losses.items()]


def ranks_view(ranks: Ranks, *, title: str) -> View:
    """A view of the spectra, one attention at a time, and of the loss by rank."""
    counts, d_model, head_dim = ranks.parameter_counts, ranks.d_model, ranks.head_dim
    highest = max(max(by_head) for by_head in ranks.ranks.values())
    explanation = (
        f"A head's OV matrix is {d_model} × {d_model}, the product of {d_model} × {head_dim} (W^V) and "
        f"{head_dim} × {d_model} (W^O): {counts['factored']:,} numbers instead of {counts['full']:,}, and a rank of "
        f"at most {head_dim}. The highest rank here is {highest}."
    )
    spectra = []
    for address, spectrum in ranks.spectra.items():
        points = [[[rank, float(value)] for rank, value in enumerate(values, 1)] for values in spectrum]
        series = [{"name": f"head {head}", "points": of_head} for head, of_head in enumerate(points)]
        spectra.append({"address": address, "title": f"singular values of W^V · W^O, {address}", "series": series})
    losses = {"name": "loss", "points": [[rank, loss] for rank, loss in sorted(ranks.losses.items())]}
    chart = {"title": "loss with all OV matrices truncated to a rank", "series": [losses]}
    data = {"spectra": spectra, "losses": chart}
    return View("ranks", data, title, _draw_ranks, ranks.lines(), ranks.numbers, explanation)


def _draw_ranks(data: dict[str, Any]) -> Picture:
    picture = Picture(900, 400, data["title"])
    picture.heading(28)
    for number, sentence in enumerate(data["note"].split(": ", 1)):
        picture.text(28, 62 + 16 * number, sentence, size=12, fill=MUTED)
    for x, chart in ((28, data["spectra"][0]), (478, data["losses"])):
        draw_chart(picture, chart, x, 96, 394, 270)
        picture.text(x + 394, 384, "rank", size=11, fill=MUTED, anchor="end")
    return picture


# --- Transfer -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Transfer:
    """Scores of training from pretrained weights and from scratch, with the same examples, seeds and model size."""

    metric: str
    sizes: tuple[int, ...]  # numbers of labeled training examples
    seeds: int
    pretrained: tuple[Scores, ...]  # for each size
    scratch: tuple[Scores, ...]
    majority: float | None  # score of always predicting the most frequent label, if the metric has one
    held_out: int  # examples that are scored

    def __post_init__(self) -> None:
        if not self.sizes:
            raise UsageError("a transfer curve needs at least one number of labels.", argument="sizes")
        for name in ("pretrained", "scratch"):
            if [len(scores) for scores in getattr(self, name)] != [self.seeds] * len(self.sizes):
                message = f"{name} must have {self.seeds} scores for each of {len(self.sizes)} sizes."
                raise UsageError(message, argument=name)

    def __iter__(self) -> Iterator[tuple[int, Scores, Scores]]:
        """(size, scores from scratch, scores of pretrained weights)"""
        return zip(self.sizes, self.scratch, self.pretrained, strict=True)

    def numbers(self) -> dict[str, Any]:
        def side(scores: Scores) -> dict[str, Any]:
            return {"mean": fmean(scores), "scores": list(scores)}

        sizes = [{"labels": size, "from_scratch": side(a), "pretrained": side(b)} for size, a, b in self]
        return {"metric": self.metric, "held_out": self.held_out, "majority": self.majority, "sizes": sizes}

    def table(self) -> list[list[str]]:
        """A row for each number of labels: the mean and the standard deviation over the seeds, and the gain."""

        def cell(scores: Scores) -> str:
            return f"{fmean(scores):.2f}" + (f" ± {stdev(scores):.2f}" if len(scores) > 1 else "")

        return [
            [f"{size:,}", cell(scratch), cell(pretrained), f"{fmean(pretrained) - fmean(scratch):+.2f}"]
            for size, scratch, pretrained in self
        ]

    def lines(self) -> list[str]:
        """The table as text."""
        seeds = "1 seed" if self.seeds == 1 else f"mean ± standard deviation of {self.seeds} seeds"
        rows = [["labels", SCRATCH, PRETRAINED, "gain"], *self.table()]
        lines = [f"{size:>8}  {scratch:>15}  {pretrained:>15}  {gain:>7}" for size, scratch, pretrained, gain in rows]
        baseline = [] if self.majority is None else [f"majority baseline: {self.majority:.2f}"]
        return [f"{self.metric} on {self.held_out:,} held-out examples, {seeds}", *lines, *baseline]


def transfer_view(transfer: Transfer, *, title: str) -> View:
    """A view with both curves over the number of labels, and a table."""
    caption = transfer.lines()[0]
    setup = "Both curves use the same examples, seeds, tokenizer and model size."
    series: list[dict[str, Any]] = []
    for name, side in ((PRETRAINED, transfer.pretrained), (SCRATCH, transfer.scratch)):
        points = [[size, fmean(scores)] for size, scores in zip(transfer.sizes, side, strict=True)]
        deviations = [stdev(scores) if len(scores) > 1 else 0.0 for scores in side]
        spread = [[size, mean - d, mean + d] for (size, mean), d in zip(points, deviations, strict=True)]
        series.append({"name": name, "points": points, "spread": spread})
    if transfer.majority is not None:
        ends = dict.fromkeys((transfer.sizes[0], transfer.sizes[-1]))
        series.append({"name": "majority baseline", "points": [[size, transfer.majority] for size in ends]})
    data = {
        "caption": caption,
        "chart": {"title": f"{transfer.metric} by number of labels", "series": series, "logAcross": True},
        "rows": transfer.table(),
        "columns": ["labels", SCRATCH, PRETRAINED, "gain"],
    }
    note = f"{setup} {caption[0].upper()}{caption[1:]}."
    return View("transfer", data, title, _draw_transfer, transfer.lines(), transfer.numbers, note)


def _draw_transfer(data: dict[str, Any]) -> Picture:
    picture = Picture(720, 440, data["title"])
    picture.heading(28, data["caption"])
    draw_chart(picture, data["chart"], 28, 82, 664, 310)
    picture.text(692, 412, "labels", size=11, fill=MUTED, anchor="end")
    return picture


# --- Senses -------------------------------------------------------------------------------------------------


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

    def numbers(self) -> dict[str, Any]:
        return {**self.scores(), "max_distance": self.max_distance, "cosines": self.cosines.tolist()}


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
        return _find("layer", str(name), {layer.name: layer for layer in self.layers})

    @property
    def best(self) -> LayerSenses:
        """The layer with the highest accuracy; ties are broken by how well the layer separates the senses."""
        return max(self.layers, key=lambda layer: (layer.accuracy, layer.within - layer.across))

    def __repr__(self) -> str:
        best = self.best
        return f"WordSenses({self.word!r}, {len(self.texts)} sentences, {best.accuracy:.1%} at layer {best.name})"

    def numbers(self) -> dict[str, Any]:
        return {
            "word": self.word,
            "senses": {sense: self.labels.count(sense) for sense in self.senses},
            "majority": self.majority,
            "layers": [{"layer": layer.name, **layer.numbers()} for layer in self.layers],
        }


@dataclass(frozen=True)
class Senses:
    """Words with several senses, by layer of a model."""

    words: tuple[WordSenses, ...]

    def __post_init__(self) -> None:
        if not self.words:
            raise UsageError("the senses view needs at least one word.", argument="words")

    def word(self, name: str) -> WordSenses:
        return _find("word", name, {word.word: word for word in self.words})

    @property
    def names(self) -> list[str]:
        """The names of the layers, the lowest first."""
        return [layer.name for layer in self.words[0].layers]

    def accuracy(self, layer: str | int) -> float:
        """The accuracy of a layer over the sentences of all words."""
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


def _find(what: str, name: str, items: Mapping[str, T]) -> T:
    if name not in items:
        raise unknown(what, name, items)
    return items[name]


def senses_view(senses: Senses, *, title: str) -> View:
    """A view of accuracy by layer, and of each word's vectors as points, layer by layer."""
    best = max(senses.names, key=senses.accuracy)
    static = f"; the static embedding reaches {100 * senses.accuracy(STATIC):.1f} %" if STATIC in senses.names else ""
    explanation = (
        f"In {100 * senses.accuracy(best):.1f} % of the sentences, the nearest other sentence (by cosine similarity of "
        f"the word's vectors at layer {best}) uses the word in the same sense. Always choosing the most frequent sense "
        f"reaches {100 * senses.majority:.1f} %{static}."
    )
    data = {"words": [_word_data(word) for word in senses.words]}
    return View("senses", data, title, _draw_senses, senses.lines(), senses.numbers, explanation)


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
    """Return the chart of accuracy by layer, with horizontal lines for the static vector and the majority baseline."""
    accuracies = {layer.name: 100 * layer.accuracy for layer in word.layers}
    static = accuracies.pop(STATIC, None)
    points = [[int(name), accuracy] for name, accuracy in accuracies.items()]
    series = [{"name": "nearest neighbor", "points": points}]
    for name, level in (("static vector", static), ("majority baseline", 100 * word.majority)):
        if level is not None:
            series.append({"name": name, "points": [[points[0][0], level], [points[-1][0], level]]})
    return {"title": f"accuracy for the senses of “{word.word}”, in %", "series": series}


def _draw_senses(data: dict[str, Any]) -> Picture:
    """Draw the accuracy by layer and the map at the best layer of the first word."""
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
