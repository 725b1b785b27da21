"""Predictor for tagging words, with its results and scores.

Words are split into tokens; the first token of a word carries its tag. A text that is longer than the model's context
is read in overlapping windows, and each word takes its tag from the window in which it is furthest from an edge.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from regard.data.tagged import Tagged, marks_entities
from regard.metrics.entities import entities, entity_f1, majority_tags
from regard.metrics.labels import accuracy
from regard.metrics.score import Score, Scores
from regard.nn.hooks import Trace
from regard.tasks.base import Notify, Result
from regard.tasks.encoder.predictor import EncodedExample, HeadPredictor, predict_logits
from regard.tasks.tag.spec import SPEC
from regard.tokenizers.tokenizer import Tokenizer
from regard.utils.errors import UsageError, shorten_list

_WORD = re.compile(r"\w+(?:['’\-]\w+)*|[^\w\s]")  # a word keeps its inner apostrophes and hyphens


class SentenceWindow(NamedTuple):
    """A window of consecutive words of a sentence."""

    example: EncodedExample
    first: int  # index of the window's first word in the sentence
    places: list[int]  # the position of each word's first token among the ids


@dataclass(frozen=True, repr=False)
class TaggedWords(Result):
    """The words of a text, with the tag of each word and its probability."""

    words: tuple[str, ...]
    tags: tuple[str, ...]
    scores: tuple[float, ...]

    recorded = ("words", "tags", "scores")
    shown = ("words", "tags")
    digits = 6

    @property
    def entities(self) -> list[tuple[str, str]]:
        """The entities that the tags mark, as (type, text); empty if the tags are parts of speech."""
        if not marks_entities(self.tags):
            return []
        return [(entity.type, " ".join(self.words[entity.start : entity.end])) for entity in entities(self.tags)]

    def record(self) -> dict[str, Any]:
        return {**super().record(), "entities": [{"type": type_, "text": text} for type_, text in self.entities]}

    def rows(self) -> list[dict[str, Any]]:
        """The rows of a table: one for each word."""
        words = zip(self.words, self.tags, self.scores, strict=True)
        return [{"word": word, "tag": tag, "score": round(score, self.digits)} for word, tag, score in words]

    def __str__(self) -> str:
        return " ".join(f"{word}/{tag}" for word, tag in zip(self.words, self.tags, strict=True))


def split_words(text: str) -> list[str]:
    """The words and punctuation marks of a text."""
    return _WORD.findall(text)


def sentence_windows(
    tokenizer: Tokenizer, sentences: Sequence[Sequence[str]], max_seq_len: int
) -> list[list[SentenceWindow]]:
    """Split each sentence into windows of at most `max_seq_len` ids; adjacent windows overlap by half.

    All words are tokenized in one call, because the overhead of a call exceeds the cost of tokenizing a word.
    """
    subwords = iter(tokenizer.encode_batch([word for words in sentences for word in words]))
    return [_windows(tokenizer, [next(subwords) for _ in words], max_seq_len) for words in sentences]


def _windows(tokenizer: Tokenizer, words: Sequence[list[int]], max_seq_len: int) -> list[SentenceWindow]:
    unknown, max_len = tokenizer.unknown_id, max_seq_len - 2
    # A word without tokens, such as a special space, becomes the unknown token; very long words are truncated.
    subwords = [(ids or [unknown if unknown is not None else tokenizer.end_id])[:max_len] for ids in words]
    windows: list[SentenceWindow] = []
    begin = 0
    while True:
        end, used = begin, 0
        while end < len(subwords) and used + len(subwords[end]) <= max_len:
            used += len(subwords[end])
            end += 1
        ids, places = [tokenizer.start_id], []
        for subword in subwords[begin:end]:
            places.append(len(ids))
            ids += subword
        ids.append(tokenizer.end_id)
        windows.append(SentenceWindow(EncodedExample(ids, len(ids)), begin, places))
        if end >= len(subwords):
            return windows
        begin += max(1, (end - begin) // 2)


class Tagger(HeadPredictor[TaggedWords]):
    """Texts → a tag for each word: `tagger("Anna sees Paris.").entities`."""

    spec = SPEC

    def _predict(self, inputs: list[Any], config: Any, notify: Notify) -> list[TaggedWords]:
        """Tag each input: a text, which is split into words, or a list of words."""
        sentences = [_words(text) for text in inputs]
        windows = sentence_windows(self.tokenizer, sentences, self.max_seq_len)
        examples = [window.example for several in windows for window in several]
        logits = iter(predict_logits(self.model, examples, self.tokenizer.pad_id))
        return [
            self._join(words, [(window, next(logits)) for window in several])
            for words, several in zip(sentences, windows, strict=True)
        ]

    def _join(self, words: Sequence[str], windows: Sequence[tuple[SentenceWindow, Tensor]]) -> TaggedWords:
        """Merge the windows of a sentence: use each word's tag from the window in which it is furthest from an edge."""
        if not words:
            return TaggedWords((), (), ())
        best = [(-1, windows[0][1][0])] * len(words)
        for window, logits in windows:
            last = len(window.places) - 1
            for number, place in enumerate(window.places):
                # The start and the end of the sentence do not count as edges, because no context is missing there.
                left = number if window.first else len(words)
                right = last - number if window.first + last < len(words) - 1 else len(words)
                if min(left, right) > best[window.first + number][0]:
                    best[window.first + number] = (min(left, right), logits[place])
        scores, indices = torch.stack([logits for _, logits in best]).softmax(dim=-1).max(dim=-1)
        tags = tuple(self.head.labels[index] for index in indices.tolist())
        return TaggedWords(tuple(words), tags, tuple(scores.tolist()))

    def input_of(self, example: Tagged) -> list[str]:
        return list(example.words)

    def score(self, examples: Sequence[Tagged], results: Sequence[TaggedWords], config: Any = None) -> Scores:
        gold = [sentence.tags for sentence in examples]
        scores = tag_scores([result.tags for result in results], gold, self.head.labels)
        return Scores(scores + self.majority_baseline(examples))

    def majority_baseline(self, examples: Sequence[Tagged]) -> list[Score]:
        """The scores of always predicting the most common training tag (if unknown, the most common in `examples`).

        The word list baseline is not available here, because a model folder does not contain its training words.
        """
        (tag,) = self.majority_label or (majority_tag(examples),)
        name = "the majority tag" if self.majority_label else "this file's own majority tag"
        predicted = [[tag] * len(sentence.words) for sentence in examples]
        scores = tag_scores(predicted, [sentence.tags for sentence in examples], self.head.labels)
        return [score.as_baseline(name, f"always:{tag}") for score in scores]

    def trace(self, *inputs: Any, grad: bool = False) -> Trace:
        """All attention over a text; for a long text, over its first window."""
        (windows,) = sentence_windows(self.tokenizer, [_words(inputs[0])], self.max_seq_len)
        return self.trace_example(windows[0].example, grad=grad)

    def encode_results(self, results: Sequence[TaggedWords], suffix: str) -> str | bytes:
        if suffix != ".conll":
            return super().encode_results(results, suffix)
        pairs = (zip(result.words, result.tags, strict=True) for result in results)
        return "\n".join("".join(f"{word}\t{tag}\n" for word, tag in sentence) for sentence in pairs)

    @property
    def summary(self) -> str:
        return f"A text goes in, each of its words gets one of these tags: {shorten_list(self.head.labels)}."


def _words(text: Any) -> list[str]:
    if isinstance(text, str):
        return split_words(text)
    if not isinstance(text, Sequence) or not all(isinstance(word, str) for word in text):
        raise UsageError("an input of a tagger must be a str or a list of str.", argument="inputs", value=text)
    return list(text)


# --- Scores ------------------------------------------------------------------------------------------------


def tag_scores(
    predicted: Sequence[Sequence[str]], gold: Sequence[Sequence[str]], labels: Sequence[str] = ()
) -> list[Score]:
    """Entity F1 if tags mark entities, and the accuracy over words.

    `labels` are the model's tags: if they mark entities, entity F1 is also returned for a file in which all tags are O.
    """
    predictions, references = ([tag for tags in side for tag in tags] for side in (predicted, gold))
    words = Score("accuracy", accuracy(predictions, references).value, f"words:{len(references)}")
    return [entity_f1(predicted, gold), words] if marks_entities({*references, *labels}) else [words]


def word_list_baseline(train: Sequence[Tagged], validation: Sequence[Tagged]) -> list[Score]:
    """The scores of each word's most common training tag; unknown words get the most common tag overall."""
    known = majority_tags([(sentence.words, sentence.tags) for sentence in train])
    predicted = [[known.get(word, known[""]) for word in sentence.words] for sentence in validation]
    scores = tag_scores(predicted, [sentence.tags for sentence in validation])
    return [score.as_baseline("a word list", "majority tag") for score in scores]


def majority_tag(sentences: Sequence[Tagged]) -> str:
    return majority_tags([(sentence.words, sentence.tags) for sentence in sentences])[""]
