"""Baselines of scores, and the note if a model does not exceed them."""

from __future__ import annotations

import re

from regard.metrics.score import Score, no_better


def test_a_baseline_names_its_score() -> None:
    baseline = Score("accuracy", 60.0, "n:5").as_baseline("the majority", "always:good")
    assert baseline == Score("accuracy of the majority", 60.0, "always:good|n:5", baseline_of="accuracy")
    assert Score("F1", 10.0, "n:5").as_baseline("silence").signature == "n:5"


def test_a_note_if_a_model_is_no_better() -> None:
    common = Score("accuracy", 60.0, "n:5").as_baseline("the majority")
    assert no_better([Score("accuracy", 80.0, "n:5"), Score("F1 of spam", 10.0, "n:5"), common]) == ""
    note = no_better([Score("accuracy", 60.0, "n:5"), common])
    assert re.findall(r"\d+\.\d+", note) == ["60.00", "60.00"], "the score and its baseline"


def test_only_the_first_score_with_a_baseline_counts() -> None:
    scores = [Score("accuracy", 90.0, ""), Score("macro F1", 40.0, "")]
    baselines = [Score("accuracy", 80.0, "").as_baseline("x"), Score("macro F1", 45.0, "").as_baseline("x")]
    assert no_better([*scores, *baselines]) == ""
    silent = Score("F1", 50.0, "").as_baseline("silence")
    assert no_better([Score("F1", 50.0, ""), Score("F1", 40.0, "").as_baseline("the first sentence"), silent])


def test_no_note_for_a_perfect_score() -> None:
    perfect = Score("accuracy", 100.0, "")
    assert no_better([perfect, perfect.as_baseline("the majority")]) == ""


def test_a_baseline_without_its_score_is_ignored() -> None:
    assert no_better([Score("accuracy", 10.0, ""), Score("entity F1", 50.0, "").as_baseline("a word list")]) == ""
