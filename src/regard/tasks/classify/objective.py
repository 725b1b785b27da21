"""Labelled texts → loss."""

from __future__ import annotations

from regard.tasks.classify.predictor import Classifier
from regard.tasks.encoder.sequence import SequenceObjective


class ClassifyObjective(SequenceObjective):
    """Learn the labels of texts."""

    predictor_class = Classifier
