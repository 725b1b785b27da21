"""Labelled pairs → loss."""

from __future__ import annotations

from regard.tasks.encoder.sequence import SequenceObjective
from regard.tasks.pair.predictor import PairClassifier


class PairObjective(SequenceObjective):
    """Learn the labels, or the numbers, of pairs of texts."""

    predictor_class = PairClassifier
