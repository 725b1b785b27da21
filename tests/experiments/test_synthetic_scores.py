"""Scores on the synthetic dataset, with translators of known scores: the references, and a dictionary."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from regard.data.synthetic import translation
from regard.data.synthetic.translation import pronoun_pairs, sentences, word_for_word
from regard.experiments import demo
from regard.experiments.demo import gold_pair, measure, pronoun_accuracy
from regard.inspection.alignment import AligningHead

COUNT = 60


@pytest.fixture(autouse=True)
def small_dataset(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fewer sentences of the same dataset, and no search for a head: the stand-ins have no attention."""
    monkeypatch.setattr(
        translation, "SPLIT_SIZES", dict(train=COUNT, validation=COUNT, test=COUNT, compositional=COUNT)
    )
    monkeypatch.setattr(demo, "pronoun_pairs", functools.partial(pronoun_pairs, count=20))
    head = AligningHead("decoder.1.cross", 2, "writing", error_rate=0.0)
    monkeypatch.setattr(demo, "choose_head", lambda translator, pairs: head)
    monkeypatch.setattr(demo, "error_rate", lambda translator, pairs, chosen: 0.125)


def stand_in(translate: Callable[[str], str]) -> Any:
    """The part of a translator that `measure` uses: a list of texts in, as many results out."""

    def call(texts: Sequence[str]) -> list[SimpleNamespace]:
        return [SimpleNamespace(text=translate(text)) for text in texts]

    return call


def truth() -> dict[str, str]:
    known = {pair.source: pair.target for split in ("test", "compositional") for pair in sentences(split)}
    return known | {side.source: side.target for couple in pronoun_pairs(count=20) for side in (couple.il, couple.elle)}


def test_the_references_score_100() -> None:
    scores = measure(stand_in(truth().__getitem__))
    assert scores.test.value == pytest.approx(100)
    assert scores.compositional.value == pytest.approx(100)
    assert scores.pronouns == 1.0


def test_a_dictionary_scores_little_and_chooses_pronouns_by_chance() -> None:
    scores = measure(stand_in(word_for_word))
    assert scores.test.value == pytest.approx(scores.dictionary_test.value)
    assert scores.compositional.value == pytest.approx(scores.dictionary_compositional.value)
    assert scores.test.value < 60
    assert scores.compositional.value < 60
    assert scores.pronouns <= 0.5, "one word for *it* is right in one of two at best"


def test_the_wrong_pronoun_is_always_wrong() -> None:
    """Minimal pairs: with il and elle exchanged, everything is wrong; a constant is right half of the time."""
    known = truth()
    exchanged = stand_in(lambda source: "il" if "elle" in re.findall(r"\w+", known[source]) else "elle")
    assert pronoun_accuracy(exchanged) == 0
    assert pronoun_accuracy(stand_in(lambda source: "Elle, puis il.")) == 0.5
    assert pronoun_accuracy(stand_in(lambda source: "Île et ils")) == 0, "neither is the pronoun"


def test_rows_for_tables() -> None:
    rows = measure(stand_in(truth().__getitem__)).rows()
    assert [(what, score) for what, score, _ in rows] == [
        ("BLEU, test", "100.0"),
        ("BLEU, unseen combinations", "100.0"),
        ("it → il/elle", "100.0%"),
        ("alignment error rate", "0.125"),
    ]
    assert rows[0][2].startswith("word for word ")
    assert rows[3][2] == "decoder.1.cross head 2, when writing a token"


def test_gold_pairs_name_the_words_of_both_texts() -> None:
    for pair in sentences("test"):
        gold = gold_pair(pair)
        assert [gold.source[a:b] for a, b in gold.source_words] == list(pair.source_words)
        assert [gold.target[a:b] for a, b in gold.target_words] == list(pair.target_words)
        assert gold.gold == pair.alignment
        assert all(s < len(gold.source_words) and t < len(gold.target_words) for s, t in gold.gold)
