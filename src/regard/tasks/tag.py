"""Tagging: sentences → a label for every word.

An example is a sentence of words with a tag each. Words are cut into pieces; the first piece of a word carries its tag,
the others carry none. A sentence that is longer than what is read at once is read in windows that overlap, and each
word takes its tag from the window in which it stands furthest from an edge, so that no word is lost. The loss is the
cross-entropy over words. The metrics are entity F1, as conlleval counts it, where tags speak of entities, and the share
of words with the right tag. What a user holds afterwards is a `Tagger`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, overload

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from regard.checkpoint.card import CardData
from regard.data.tagged import Tagged, speaks_of_entities
from regard.errors import number_of, some
from regard.metrics.entities import commonest_tags, entities, entity_f1
from regard.metrics.labels import accuracy
from regard.metrics.score import Score
from regard.models.bert import BertForTokens
from regard.models.bert_settings import BertConfig, HeadConfig
from regard.nn.packed import count_weights
from regard.nn.taps import Trace
from regard.tasks.embed import WithEncoder
from regard.tasks.labelling import Inputs, Row, RowTask, fresh, read_rows
from regard.tasks.settings import LabelConfig
from regard.tasks.task import Loss, Sample, SampleNames, Usage
from regard.text.tokenizer import Tokenizer

NAME = "tag"
SAMPLES = 8
_WORD = re.compile(r"\w+(?:['’\-]\w+)*|[^\w\s]")  # a word keeps its inner apostrophes and hyphens


class Window(NamedTuple):
    """Some words of a sentence, framed: their ids, and where the first piece of each word stands among them."""

    row: Row
    first: int  # the number of its first word
    places: list[int]  # one a word


@dataclass(frozen=True)
class TaggedWords:
    """A sentence with a tag for each word, and how likely the model holds it."""

    words: tuple[str, ...]
    tags: tuple[str, ...]
    probabilities: tuple[float, ...]

    @property
    def entities(self) -> list[tuple[str, str]]:
        """The entities that the tags speak of, as (type, text); none where tags are parts of speech."""
        if not speaks_of_entities(self.tags):
            return []
        return [(found.type, " ".join(self.words[found.start : found.end])) for found in entities(self.tags)]

    def __str__(self) -> str:
        return " ".join(f"{word}/{tag}" for word, tag in zip(self.words, self.tags, strict=True))


def split_words(text: str) -> list[str]:
    """The words and marks of a text, for whoever has no words yet."""
    return _WORD.findall(text)


def windows(tokenizer: Tokenizer, words: Sequence[str], longest: int) -> list[Window]:
    """A sentence in windows of at most `longest` ids. Each begins half a window after the one before."""
    return all_windows(tokenizer, [words], longest)[0]


def all_windows(tokenizer: Tokenizer, sentences: Sequence[Sequence[str]], longest: int) -> list[list[Window]]:
    """The windows of each sentence. All words are cut into pieces in one call: a call costs more than a word."""
    pieces = iter(tokenizer.encode_batch([word for words in sentences for word in words]))
    return [_windows(tokenizer, [next(pieces) for _ in words], longest) for words in sentences]


def _windows(tokenizer: Tokenizer, encoded: Sequence[list[int]], longest: int) -> list[Window]:
    unknown = tokenizer.unknown_id
    room = longest - 2
    # A word of which nothing is left, such as a strange space, is unknown; one that fills a window is cut.
    pieces = [(ids or [unknown if unknown is not None else tokenizer.end_id])[:room] for ids in encoded]
    found: list[Window] = []
    begin = 0
    while True:
        end, used = begin, 0
        while end < len(pieces) and used + len(pieces[end]) <= room:
            used += len(pieces[end])
            end += 1
        found.append(_window(tokenizer, pieces[begin:end], begin))
        if end >= len(pieces):
            return found
        begin += max(1, (end - begin) // 2)


def _window(tokenizer: Tokenizer, pieces: Sequence[list[int]], begin: int) -> Window:
    ids, places = [tokenizer.start_id], []
    for piece in pieces:
        places.append(len(ids))
        ids += piece
    ids.append(tokenizer.end_id)
    return Window(Row(ids, len(ids)), begin, places)


class Tagger(WithEncoder):
    """Takes sentences and says what each word is. Does not train."""

    task = NAME
    model: BertForTokens

    def __init__(
        self,
        model: BertForTokens,
        tokenizer: Tokenizer,
        *,
        head: HeadConfig,
        max_tokens: int | None = None,
        commonest: tuple[str, ...] | None = None,
    ) -> None:
        """`commonest` is the commonest tag of training, if it is known."""
        self.model, self.tokenizer, self.head, self.commonest = model.eval(), tokenizer, head, commonest
        self.max_tokens = min(max_tokens or model.config.context, model.config.context)
        self.summary = f"A sentence goes in, each of its words gets one of these tags: {some(head.labels)}."

    @overload
    def __call__(self, sentences: str) -> TaggedWords: ...

    @overload
    def __call__(self, sentences: list[Any]) -> list[TaggedWords]: ...

    def __call__(self, sentences: str | list[Any]) -> TaggedWords | list[TaggedWords]:
        """The tags of one text, or of many texts or lists of words. A text is split into words and marks."""
        if isinstance(sentences, str):
            return self([sentences])[0]
        listed = [split_words(one) if isinstance(one, str) else list(one) for one in sentences]
        cut = all_windows(self.tokenizer, listed, self.max_tokens)
        outputs = iter(read_rows(self.model, [window.row for one in cut for window in one], self.tokenizer.pad_id))
        return [
            self._joined(words, [(window, next(outputs)) for window in one])
            for words, one in zip(listed, cut, strict=True)
        ]

    def _joined(self, words: Sequence[str], parts: Sequence[tuple[Window, Tensor]]) -> TaggedWords:
        """The tags of a sentence: of each word from the window in which it stands furthest from an edge."""
        if not words:
            return TaggedWords((), (), ())
        best = [(-1, parts[0][1][0])] * len(words)
        for window, output in parts:
            last = len(window.places) - 1
            for number, place in enumerate(window.places):
                # The edges of the sentence itself are no edges: there is nothing beyond them.
                left = number if window.first else len(words)
                right = last - number if window.first + last < len(words) - 1 else len(words)
                if min(left, right) > best[window.first + number][0]:
                    best[window.first + number] = (min(left, right), output[place])
        chances, chosen = torch.stack([row for _, row in best]).softmax(dim=-1).max(dim=-1)
        tags = tuple(self.head.labels[which] for which in chosen.tolist())
        return TaggedWords(tuple(words), tags, tuple(chances.tolist()))

    def trace(self, text: str, *, grad: bool = False) -> Trace:
        """All attention over a text; of a long one, over its beginning."""
        row = windows(self.tokenizer, split_words(text), self.max_tokens)[0].row
        return self.trace_row(row, grad=grad)

    def usage(self, folder: Path) -> Usage:
        return Usage(
            command=f'regard tag {folder} "…"\nregard evaluate {folder} test.conll',
            python=f'import regard\n\ntagger = regard.load("{folder.as_posix()}")\nprint(tagger("…"))',
            pipeline="token-classification",
        )

    def __repr__(self) -> str:
        return f"Tagger({count_weights(self.model) / 1e6:.1f} M parameters, {some(self.head.labels)})"


# --- Scores ------------------------------------------------------------------------------------------------


def score_tags(
    predicted: Sequence[Sequence[str]], gold: Sequence[Sequence[str]], labels: Sequence[str] = ()
) -> list[Score]:
    """Entity F1 where the tags speak of entities, and always the share of words with the right tag.

    `labels` are those that the model knows: a file in which all words are O speaks of entities, if it does.
    """
    said, due = ([tag for tags in side for tag in tags] for side in (predicted, gold))
    words = accuracy(said, due)
    named = speaks_of_entities({*due, *labels})
    return [*([entity_f1(predicted, gold)] if named else []), Score("accuracy", words.value, f"words:{len(due)}")]


def baseline(train: Sequence[Tagged], held: Sequence[Tagged]) -> list[Score]:
    """What a list of words with the commonest tag of each would reach, unknown ones with the commonest of all."""
    known = commonest_tags([(one.words, one.tags) for one in train])
    said = [[known.get(word, known[""]) for word in one.words] for one in held]
    scores = score_tags(said, [one.tags for one in held])
    return [score.as_baseline("a word list", "commonest tag") for score in scores]


def commonest_baseline(
    commonest: tuple[str, ...] | None, held: Sequence[Tagged], labels: Sequence[str] = ()
) -> list[Score]:
    """What one tag for all words would reach: the commonest of training.

    A folder does not keep the word list of its training. Where it has not kept the tag either, that of `held` is taken,
    and the scores are called so.
    """
    said = commonest[0] if commonest else commonest_tag(held)
    whose = "the commonest tag" if commonest else "this file's own commonest tag"
    scores = score_tags([[said] * len(one.words) for one in held], [one.tags for one in held], labels)
    return [score.as_baseline(whose, f"always:{said}") for score in scores]


def commonest_tag(sentences: Sequence[Tagged]) -> str:
    return commonest_tags([(one.words, one.tags) for one in sentences])[""]


# --- Training ----------------------------------------------------------------------------------------------


class TagTask(RowTask[Tagger]):
    """Tagged sentences with a model that learns them."""

    name = NAME
    model: BertForTokens
    counted = "words"
    sample_names = SampleNames("Words", "Tags", "The model's")

    def __init__(
        self,
        *,
        model: BertForTokens,
        tokenizer: Tokenizer,
        head: HeadConfig,
        sentences: tuple[Sequence[Tagged], Sequence[Tagged]],
        config: LabelConfig,
        data: Sequence[CardData] = (),
    ) -> None:
        """`sentences` are those of training and those of validation."""
        self.head, self.sentences = head, sentences
        common = (commonest_tag(sentences[0]),)
        self.product = Tagger(model, tokenizer, head=head, max_tokens=config.max_tokens, commonest=common)
        self.summary = self.product.summary
        self._cut = tuple(self._windows(side) for side in sentences)
        super().__init__(
            model=model,
            tokenizer=tokenizer,
            train=[window.row for window, _ in self._cut[0]],
            validation=[window.row for window, _ in self._cut[1]],
            config=config,
            data=data,
            scored_on=f"validation, {number_of(len(sentences[1]), 'sentence')}",
        )

    def _windows(self, sentences: Sequence[Tagged]) -> list[tuple[Window, list[int]]]:
        """Every window with the numbers of its words' tags."""
        numbers = {tag: number for number, tag in enumerate(self.head.labels)}
        cut = all_windows(self.product.tokenizer, [one.words for one in sentences], self.product.max_tokens)
        found = []
        for one, parts in zip(sentences, cut, strict=True):
            for window in parts:
                tags = one.tags[window.first : window.first + len(window.places)]
                found.append((window, [numbers[tag] for tag in tags]))
        return found

    def outcome(self, outputs: Tensor, indices: Sequence[int], *, held: bool) -> Loss:
        targets = torch.tensor([tag for index in indices for tag in self._cut[held][index][1]], device=outputs.device)
        loss = F.cross_entropy(outputs, targets)
        return Loss(loss, loss.detach(), len(targets))

    def outputs(self, inputs: Inputs, indices: Sequence[int], *, held: bool) -> Tensor:
        """The logits of words: of their first pieces, and of no others."""
        width = inputs.ids.shape[1]
        windows = (self._cut[held][index][0] for index in indices)
        places = [number * width + place for number, window in enumerate(windows) for place in window.places]
        out: Tensor = self.model(*inputs, places=torch.tensor(places, device=inputs.ids.device))
        return out

    def due(self, *, held: bool) -> bytes:
        # Where words begin counts, too: it is what the tags are for.
        numbers = [n for window, tags in self._cut[held] for n in (len(tags), *window.places, *tags)]
        return np.asarray(numbers, dtype="<i4").tobytes()

    def evaluate(self) -> tuple[list[Score], list[Sample]]:
        held = self.sentences[1]
        found = self.result()([one.words for one in held])
        gold = [one.tags for one in held]
        scores = score_tags([one.tags for one in found], gold) + baseline(self.sentences[0], held)
        # Mistakes teach more than successes: they come first.
        order = sorted(range(len(held)), key=lambda n: (found[n].tags == gold[n], n))[:SAMPLES]
        return scores, [Sample(" ".join(held[n].words), " ".join(gold[n]), " ".join(found[n].tags)) for n in order]

    def traces(self, samples: Sequence[Sample]) -> list[tuple[str, Trace]]:
        text = samples[0].source
        return [(text[:80], self.result().trace(text))]


def make_tagger_model(settings: BertConfig, head: HeadConfig, *, seed: int) -> BertForTokens:
    """A fresh model with a fresh head."""
    return fresh(lambda: BertForTokens(settings, len(head.labels)), seed=seed)
