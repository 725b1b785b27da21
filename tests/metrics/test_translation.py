"""BLEU, chrF and the alignment error rate: numbers computed by hand, sacreBLEU's own functions, properties."""

from __future__ import annotations

import math

import pytest
import sacrebleu
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.metrics.translation import Score, alignment_error_rate, bleu, chrf
from regard.utils.errors import UsageError

HYPOTHESES = ["The cat sleeps on the mat .", "He did not cross the street.", "A red house!"]
REFERENCES = ["The cat is sleeping on the mat.", "He didn't cross the street.", "A red house!"]


def test_bleu_by_hand() -> None:
    # 6 words against 6: 5 of 6 words match, 4 of 5 pairs, 3 of 4 triples, 2 of 3 fours; equal length.
    score = bleu(["a b c d e f"], ["a b c d e g"], tokenize="none")
    assert score.value == pytest.approx(100 * (5 / 6 * 4 / 5 * 3 / 4 * 2 / 3) ** 0.25)
    # Two words too few of six: the brevity penalty alone.
    assert bleu(["a b c d"], ["a b c d e f"], tokenize="none").value == pytest.approx(100 * math.exp(-0.5))


def test_scores_are_those_of_sacrebleu() -> None:
    assert bleu(HYPOTHESES, REFERENCES).value == sacrebleu.corpus_bleu(HYPOTHESES, [REFERENCES]).score
    lowered = sacrebleu.corpus_bleu(HYPOTHESES, [REFERENCES], lowercase=True, tokenize="intl").score
    assert bleu(HYPOTHESES, REFERENCES, tokenize="intl", lowercase=True).value == lowered
    assert chrf(HYPOTHESES, REFERENCES).value == sacrebleu.corpus_chrf(HYPOTHESES, [REFERENCES]).score


def test_perfect_and_nothing() -> None:
    assert bleu(REFERENCES, REFERENCES).value == pytest.approx(100)
    assert chrf(REFERENCES, REFERENCES).value == pytest.approx(100)
    assert bleu(["", "", ""], REFERENCES).value == 0
    assert chrf(["", "", ""], REFERENCES).value == 0


def test_repr_shows_name_value_and_signature() -> None:
    shown = repr(bleu(HYPOTHESES, REFERENCES))
    assert shown.startswith("BLEU ")
    assert "(nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:" in shown
    assert "case:lc" in bleu(HYPOTHESES, REFERENCES, lowercase=True).signature
    assert "nc:6|nw:0" in chrf(HYPOTHESES, REFERENCES).signature
    assert repr(Score("BLEU", 34.2071, "nrefs:1")) == "BLEU 34.21 (nrefs:1)"


@pytest.mark.parametrize("metric", [bleu, chrf])
def test_invalid_arguments(metric: object) -> None:
    assert callable(metric)
    for hypotheses, references, argument, value in (
        (HYPOTHESES[:2], REFERENCES, "hypotheses", 2),
        ([], [], "hypotheses", 0),
        (["a"], "a", "references", "a"),
    ):
        with pytest.raises(UsageError) as caught:
            metric(hypotheses, references)
        assert (caught.value.argument, caught.value.value) == (argument, value)


def test_unknown_bleu_tokenizer() -> None:
    with pytest.raises(UsageError) as caught:
        bleu(HYPOTHESES, REFERENCES, tokenize="13b")
    assert (caught.value.value, caught.value.hint) == ("13b", "13a")


links = st.frozensets(st.tuples(st.integers(0, 4), st.integers(0, 6)), max_size=11)


def test_alignment_error_rate_by_hand_over_two_sentences() -> None:
    predicted = [{(0, 0), (1, 1), (2, 3)}, {(0, 1), (1, 0)}]
    sure = [{(0, 0), (1, 1)}, {(0, 1)}]
    possible = [{(2, 3)}, {(5, 5)}]
    # |A| = 5, |S| = 3, |A∩S| = 3, |A∩P| = 4 (sure links are possible).
    assert alignment_error_rate(predicted, sure, possible) == pytest.approx(1 - 7 / 8)
    assert alignment_error_rate(predicted, sure) == pytest.approx(1 - 6 / 8)


def test_alignment_error_rate_of_nothing() -> None:
    assert alignment_error_rate([set()], [set()]) == 0.0
    assert alignment_error_rate([set()], [{(0, 0)}]) == 1.0
    assert alignment_error_rate([{(0, 0)}], [set()]) == 1.0


@settings(deadline=None)
@given(st.lists(st.tuples(links, links, links), min_size=1, max_size=5))
def test_bounds_of_the_alignment_error_rate(sentences: list[tuple[frozenset[tuple[int, int]], ...]]) -> None:
    predicted, sure, possible = ([row[place] for row in sentences] for place in range(3))
    assert 0.0 <= alignment_error_rate(predicted, sure, possible) <= 1.0
    assert alignment_error_rate(sure, sure, possible) == 0.0
    assert alignment_error_rate(predicted, sure, possible) <= alignment_error_rate(predicted, sure)
    # Without possible links it is 1 - F1.
    hits, num_predicted, num_sure = (
        sum(map(len, rows)) for rows in ([a & b for a, b in zip(predicted, sure, strict=True)], predicted, sure)
    )
    if hits:
        precision, recall = hits / num_predicted, hits / num_sure
        f1 = 2 * precision * recall / (precision + recall)
        assert alignment_error_rate(predicted, sure) == pytest.approx(1 - f1)


def test_invalid_alignments() -> None:
    for lists, value, allowed in (
        ([[set(), set()], [set()]], 2, (1,)),
        ([[set()], [set()], [set()] * 3], 1, (3,)),
        ([[], []], 0, None),
    ):
        with pytest.raises(UsageError) as caught:
            alignment_error_rate(*lists)
        assert (caught.value.argument, caught.value.value, caught.value.allowed) == ("predicted", value, allowed)
