"""Predictor for text classification."""

from __future__ import annotations

from regard.tasks.classify.spec import SPEC
from regard.tasks.encoder.predictor import SequencePredictor


class Classifier(SequencePredictor):
    """Texts → labels: `classifier("A fine film.").label`."""

    spec = SPEC
