"""SQuAD's scores: numbers computed by hand, and a second implementation of the official definitions."""

from __future__ import annotations

import itertools
import unicodedata
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.metrics.spans import (
    best_thresholds,
    exact_match,
    first_sentence,
    normalize,
    overlap_f1,
    score_answers,
)
from regard.utils.errors import UsageError

WORDS = ("the", "a", "An", "Denver", "broncos", "Broncos.", "U.S.", "(", "1,066", "anthem", "«the»", "a\u00a0the")
answers = st.lists(st.sampled_from(WORDS), max_size=5).map(" ".join)
PUNCTUATION = set("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~")


def official_words(answer: str) -> list[str]:
    """Lowercase words without punctuation and articles, letter by letter."""
    letters = "".join(letter for letter in answer.lower() if letter not in PUNCTUATION)
    runs = ["".join(run) for _, run in itertools.groupby(letters, key=str.isalnum)]
    return "".join(" " if run in ("a", "an", "the") else run for run in runs).split()


@given(st.one_of(answers, st.text("aAnN tThHeE.'-_«é½1\t\n\u00a0", max_size=14)))
def test_normalize_against_a_second_implementation(answer: str) -> None:
    assert normalize(answer) == " ".join(official_words(answer))


@pytest.mark.parametrize(
    ("answer", "left"),
    [
        ("The  Eiffel Tower!", "eiffel tower"),
        ("a U.S. anthem", "us anthem"),
        ("theatre and an ant", "theatre and ant"),
        ("«Élan»", "«élan»"),
        ("the", ""),
        ("a-the b", "athe b"),
        (" \t\n", ""),
    ],
)
def test_normalizing(answer: str, left: str) -> None:
    assert normalize(answer) == left


def test_by_hand() -> None:
    assert exact_match("the Denver Broncos", ["Broncos", "Denver  Broncos."]) == 1
    # {denver, broncos, of, 1998} and {denver, broncos}: precision 2/4, recall 2/2.
    assert overlap_f1("Denver Broncos of 1998", ["Carolina", "the Denver Broncos"]) == pytest.approx(2 / 3)
    # A word counts as often as both sides have it.
    assert overlap_f1("new new york", ["new york new york"]) == pytest.approx(2 * 3 / 7)
    assert (exact_match("", []), overlap_f1("", []), overlap_f1("x", [])) == (1, 1, 0)


def _slow_f1(answer: str, gold: str, *, v2: bool) -> Fraction:
    """Cross out common words one by one."""
    given, actual = official_words(answer), official_words(gold)
    if v2 and not (given and actual):
        return Fraction(given == actual)
    left, shared = list(actual), 0
    for word in given:
        if word in left:
            left.remove(word)
            shared += 1
    if not shared:
        return Fraction(0)
    precision, recall = Fraction(shared, len(given)), Fraction(shared, len(actual))
    return 2 * precision * recall / (precision + recall)


@given(st.lists(st.tuples(answers, st.lists(answers, min_size=1, max_size=3)), min_size=1, max_size=5))
def test_v1_against_a_second_implementation(questions: list[tuple[str, list[str]]]) -> None:
    predicted = {str(number): answer for number, (answer, _) in enumerate(questions)}
    golds = {str(number): texts for number, (_, texts) in enumerate(questions)}
    scores = score_answers(predicted, golds)
    wanted = [max(_slow_f1(answer, gold, v2=False) for gold in texts) for answer, texts in questions]
    assert scores.f1.value == pytest.approx(float(100 * sum(wanted) / len(wanted)))
    same = [any(official_words(answer) == official_words(gold) for gold in texts) for answer, texts in questions]
    assert scores.exact.value == pytest.approx(100 * sum(same) / len(same))
    assert "v1.1" in scores.exact.signature


@given(st.lists(st.tuples(answers, st.lists(answers, max_size=2), st.integers(0, 4)), min_size=1, max_size=7))
def test_v2_against_a_second_implementation(questions: list[tuple[str, list[str], int]]) -> None:
    questions = [*questions, ("", [], 2)]  # at least one without an answer
    predicted = {str(number): answer for number, (answer, _, _) in enumerate(questions)}
    golds = {str(number): texts for number, (_, texts, _) in enumerate(questions)}
    certainty = {str(number): float(sure) for number, (_, _, sure) in enumerate(questions)}
    wanted_f1, wanted_exact = {}, {}
    for name, texts in golds.items():
        left = [text for text in texts if official_words(text)] or [""]
        wanted_f1[name] = max(_slow_f1(predicted[name], gold, v2=True) for gold in left)
        wanted_exact[name] = Fraction(any(official_words(predicted[name]) == official_words(gold) for gold in left))
    scores = score_answers(predicted, golds)
    assert scores.f1.value == pytest.approx(float(100 * sum(wanted_f1.values()) / len(golds)))
    assert scores.exact.value == pytest.approx(float(100 * sum(wanted_exact.values()) / len(golds)))
    # Every prefix of the questions in the order of certainty is tried, each from scratch.
    order = sorted(golds, key=lambda name: certainty[name])
    for wanted, found in zip((wanted_exact, wanted_f1), best_thresholds(predicted, certainty, golds), strict=True):
        lowest = min(certainty.values())
        best, at = Fraction(sum(not texts for texts in golds.values())), 0.0 if lowest > 0 else lowest - 1
        for count in range(1, len(order) + 1):
            loud, quiet = order[:count], order[count:]
            total = Fraction(sum(not golds[name] for name in quiet))
            for name in loud:
                total += wanted[name] if golds[name] else Fraction(not predicted[name])
            if total > best:
                best, at = total, certainty[order[count - 1]]
        assert found.value == at
        assert found.score == pytest.approx(float(100 * best / len(golds)))


def test_v2_by_hand() -> None:
    golds = {"one": ["Paris"], "two": [], "three": ["the Seine", "Seine"], "four": []}
    predicted = {"one": "in Paris", "two": "", "three": "Seine", "four": "London"}
    scores = score_answers(predicted, golds)
    assert scores.exact.value == 50
    assert scores.f1.value == pytest.approx(100 * (2 / 3 + 1 + 1 + 0) / 4)
    assert scores.with_answer == pytest.approx((50, 100 * (2 / 3 + 1) / 2))
    assert scores.without_answer == (50, 50)
    certainty = {"one": 0.1, "two": 0.3, "three": 0.2, "four": 0.9}
    exact, f1 = best_thresholds({**predicted, "two": "Rome"}, certainty, golds)
    assert (exact.value, exact.score) == (0.2, 75)  # both answers kept, both silences right
    assert (f1.value, f1.score) == (0.2, pytest.approx(100 * (2 / 3 + 1 + 1 + 1) / 4))
    kept = {"one": "in Paris", "two": "", "three": "Seine", "four": ""}  # those of at most 0.2
    assert score_answers(kept, golds).f1.value == f1.score


@pytest.mark.parametrize(("moved", "silent"), [(0.0, 0.0), (-0.5, -1.4), (-3.0, -3.9)])
def test_threshold_if_no_answer_is_always_best(moved: float, silent: float) -> None:
    golds: dict[str, list[str]] = {"one": ["Paris"], "two": [], "three": []}
    certainty = {"one": 0.3 + moved, "two": 0.2 + moved, "three": 0.1 + moved}
    for found in best_thresholds(dict.fromkeys(golds, "London"), certainty, golds):
        assert found.value == pytest.approx(silent)
        assert found.value < min(certainty.values())
        assert found.score == pytest.approx(200 / 3)


def test_questions_without_a_prediction_count_as_wrong() -> None:
    scores = score_answers({"one": "a"}, {"one": ["b a"], "two": []})
    assert (scores.exact.value, scores.f1.value) == (0, 0)


def test_invalid_arguments() -> None:
    with pytest.raises(UsageError):
        score_answers({}, {})
    with pytest.raises(UsageError) as error:
        score_answers({"two": "a"}, {"one": ["a"]})
    assert error.value.value == "two"
    with pytest.raises(UsageError) as error:
        best_thresholds({"one": "a", "two": "b"}, {"one": 0.1}, {"one": ["a"], "two": []})
    assert error.value.value == "two"


def test_first_sentence() -> None:
    assert first_sentence("It rains. Again.") == "It rains."
    assert first_sentence("no end") == "no end"


def test_only_ascii_punctuation_is_removed() -> None:
    marks = [chr(code) for code in range(128) if unicodedata.category(chr(code))[0] in "PS"]
    assert normalize("".join(itertools.chain(*((mark, "x") for mark in marks)))) == "x" * len(marks)
