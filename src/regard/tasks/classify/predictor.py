"""A trained text classifier."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from regard.spec import TaskSpec
from regard.tasks.classify.spec import SPEC
from regard.tasks.data import Text
from regard.tasks.encoder.batching import EncodedExample, encode_texts
from regard.tasks.encoder.sequence import SequencePredictor
from regard.utils.errors import UsageError


class Classifier(SequencePredictor):
    """Texts → labels: `classifier("A fine film.").label`."""

    spec: ClassVar[TaskSpec] = SPEC

    def encode(self, texts: Sequence[Text]) -> list[EncodedExample]:
        singles = [text for text in texts if isinstance(text, str)]
        if len(singles) < len(texts):
            raise UsageError("this model takes single texts: give each as a str.", argument="inputs")
        return encode_texts(self.tokenizer, singles, self.max_seq_len)
