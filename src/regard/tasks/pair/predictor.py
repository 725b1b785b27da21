"""A trained classifier of text pairs, or a regression on them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Self

from regard.spec import TaskSpec
from regard.tasks.base import Predictor
from regard.tasks.classify.predictor import Classifier
from regard.tasks.encoder.batching import EncodedExample, encode_pairs
from regard.tasks.encoder.labels import Text
from regard.tasks.encoder.sequence import SequencePredictor
from regard.tasks.pair.spec import SPEC
from regard.utils.errors import UsageError


class PairClassifier(SequencePredictor):
    """Pairs of texts → labels or numbers: `judge("One text.", "Another.").label`."""

    spec: ClassVar[TaskSpec] = SPEC

    def encode(self, texts: Sequence[Text]) -> list[EncodedExample]:
        self.require_pairs()
        pairs = [text for text in texts if isinstance(text, tuple) and len(text) == 2 and all(map(_is_text, text))]
        if len(pairs) < len(texts):
            raise UsageError("this model takes pairs: give two texts at a time.", argument="inputs")
        return encode_pairs(self.tokenizer, pairs, self.max_seq_len)

    @classmethod
    def adapt(cls, other: Predictor[Any]) -> Self | None:
        """A folder of another tool does not say whether its head was trained on texts or on pairs."""
        if isinstance(other, Classifier) and other.accepts_pairs:
            return cls(
                other.model,
                other.tokenizer,
                head=other.head,
                config=other.config,
                max_seq_len=other.max_seq_len,
                accepts_pairs=True,
            )
        return None


def _is_text(value: object) -> bool:
    return isinstance(value, str)
