"""Predictor for text pairs: classification or regression."""

from __future__ import annotations

from typing import Any, Self

from regard.tasks.base import Predictor
from regard.tasks.encoder.predictor import SequencePredictor
from regard.tasks.pair.spec import SPEC


class PairClassifier(SequencePredictor):
    """Pairs of texts → labels or numbers: `judge("One text.", "Another.").label`."""

    spec = SPEC

    @classmethod
    def adapt(cls, other: Predictor[Any]) -> Self | None:
        """Adapt a model whose folder does not say whether its head was trained on texts or on pairs."""
        if not getattr(other, "accepts_pairs", False):
            return None
        predictor = cls.around(other, config=other.config)
        predictor.accepts_pairs = True
        return predictor
