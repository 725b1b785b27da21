"""The synthetic labelled data: the same for the same seed, disjoint splits, and gold that can be checked."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from regard.data.labelled import LabelledPair
from regard.data.synthetic.labelled import (
    SENSES,
    TOPICS,
    inferences,
    named_entities,
    opinions,
    questions,
    sense_sentences,
    similarities,
)
from regard.metrics.entities import broken_tags, entities
from regard.utils.errors import UsageError

KINDS: dict[str, tuple[Callable[..., list[Any]], Callable[[Any], Any]]] = {
    "opinions": (opinions, lambda example: example.text),
    "inferences": (inferences, lambda example: example.first),
    "similarities": (similarities, lambda example: example.first),
    "named_entities": (named_entities, lambda example: example.words),
    "questions": (questions, lambda example: example.passage),
}


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_seed_gives_the_same_and_splits_share_nothing(kind: str) -> None:
    draw, key = KINDS[kind]
    first = draw("train", count=60)
    assert first == draw("train", count=60)
    assert first[:20] == draw("train", count=20)
    assert first != draw("train", count=60, seed=1)
    splits = [{key(example) for example in draw(split, count=30)} for split in ("train", "validation", "test")]
    assert [len(split) for split in splits] == [30, 30, 30]
    assert not (splits[0] & splits[1] or splits[0] & splits[2] or splits[1] & splits[2])
    # Another seed cannot bring a training text into the test set.
    assert splits[2].isdisjoint(key(example) for example in draw("train", count=90, seed=7))


@pytest.mark.parametrize("kind", KINDS)
def test_wrong_requests(kind: str) -> None:
    draw, _ = KINDS[kind]
    with pytest.raises(UsageError) as caught:
        draw("tst")
    assert (caught.value.argument, caught.value.value, caught.value.hint) == ("split", "tst", "test")
    with pytest.raises(UsageError) as caught:
        draw("train", count=-1)
    assert (caught.value.argument, caught.value.value) == ("count", -1)


def test_the_sentiment_is_that_of_the_last_judgement() -> None:
    good = {word for topic in TOPICS for word in topic["positive"]}
    bad = {word for topic in TOPICS for word in topic["negative"]}
    found = opinions("train", count=500)
    for example in found:
        judgements = re.findall(rf"(not|never|at all)? ?\b({'|'.join(good | bad)})\b", example.text)
        turned, word = judgements[-1]
        assert example.labels == ("positive" if (word in good) != bool(turned) else "negative",), example.text
    counts = Counter(example.labels for example in found)
    assert min(counts.values()) > 200
    # More than half of the texts have both positive and negative words, or a negation.
    mixed = sum(bool(re.search(r"\b(not|never|but|although)\b", example.text, re.IGNORECASE)) for example in found)
    assert mixed > 250


def test_inferences_hold() -> None:
    found = inferences("train", count=300)
    assert min(Counter(pair.label for pair in found).values()) > 70
    for pair in found:
        negated = " did not " in pair.second
        assert negated == (pair.label == "contradicts"), pair
        if pair.label == "entails":
            # Entailed sentences have no other words.
            assert set(pair.second[:-1].lower().split()) <= set(pair.first[:-1].lower().split()), pair
            assert pair.first != pair.second


def test_similarities_are_graded() -> None:
    found = similarities("train", count=300)
    assert all(
        isinstance(pair, LabelledPair) and isinstance(pair.label, float) and 0 <= pair.label <= 5 for pair in found
    )
    for pair in found:
        if pair.first == pair.second:
            assert pair.label == 5
    assert len({pair.label for pair in found}) > 20


def test_tags_fit_their_words() -> None:
    types = Counter()
    for sentence in named_entities("train", count=600):
        assert broken_tags(sentence.tags) == []
        for entity in entities(sentence.tags):
            types[entity.type] += 1
            assert all(word[0].isupper() or word.isdecimal() for word in sentence.words[entity.start : entity.end])
    assert set(types) == {"person", "institution", "date"}


def test_answers_are_in_their_passages() -> None:
    found = questions("train", count=300)
    assert len({question.id for question in found}) == 300
    assert {question.question.split()[0] for question in found} == {"Who", "What", "Where", "When"}
    for question in found:
        [(start, text)] = question.answers
        assert question.passage[start : start + len(text)] == text
        sentence = next(part for part in re.findall(r"[^.]*\.", question.passage) if text in part)
        assert text in sentence
        assert question.question.endswith("?")
    some = questions("train", count=300, impossible=0.4)
    without = [question for question in some if question.impossible]
    assert 80 < len(without) < 160
    assert all(question.answers == () for question in without)


@pytest.mark.parametrize("word", SENSES)
def test_senses(word: str) -> None:
    found = sense_sentences(word)
    counts = Counter(sentence.sense for sentence in found)
    assert set(counts) == set(SENSES[word])
    assert min(counts.values()) >= 20
    for sentence in found:
        assert sentence.text[sentence.start : sentence.start + len(word)] == word
        assert len(re.findall(rf"\b{word}\b", sentence.text)) == 1
    validation = sense_sentences(word, "test")
    assert min(Counter(sentence.sense for sentence in validation).values()) >= 20
    assert {s.text for s in validation}.isdisjoint(s.text for s in found)
    assert sense_sentences(word, "validation") == sense_sentences(word, "validation")


def test_unknown_words_and_too_many_sentences() -> None:
    with pytest.raises(UsageError) as caught:
        sense_sentences("banks")
    assert (caught.value.value, caught.value.hint) == ("banks", "bank")
    with pytest.raises(UsageError) as caught:
        sense_sentences("bank", "validation", count=100_000)
