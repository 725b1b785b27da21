"""A trained classifier of text pairs, or a regression on them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Self

from regard.spec import TaskSpec
from regard.tasks.base import Predictor
from regard.tasks.data import Text
from regard.tasks.encoder.batching import EncodedExample, encode_pairs
from regard.tasks.encoder.sequence import SequencePredictor
from regard.tasks.pair.spec import SPEC
from regard.utils.errors import UsageError


class PairClassifier(SequencePredictor):
    """Pairs of texts → labels or numbers: `judge("One text.", "Another.").label`."""

    spec: ClassVar[TaskSpec] = SPEC

    def encode(self, texts: Sequence[Text]) -> list[EncodedExample]:
        self.require_pairs()
        for text in texts:
            if not isinstance(text, tuple) or len(text) != 2 or not all(isinstance(side, str) for side in text):
                raise UsageError("this model takes pairs: give two texts at a time.", argument="inputs")
        return encode_pairs(self.tokenizer, [(text[0], text[1]) for text in texts], self.max_seq_len)

    @classmethod
    def adapt(cls, other: Predictor[Any]) -> Self | None:
        """Adapt a model whose folder does not say whether its head was trained on texts or on pairs."""
        if not getattr(other, "accepts_pairs", False):
            return None
        predictor = cls.around(other, config=other.config)
        predictor.accepts_pairs = True
        return predictor
