"""A trained reverser."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import torch

from regard.metrics.score import Score, Scores
from regard.nn.hooks import Trace, capture
from regard.spec import TaskSpec
from regard.tasks.base import Notify, Predictor
from regard.tokenizers.tokenizer import Tokenizer
from regard_reverse.spec import SPEC, ReverseConfig


@dataclass(frozen=True)
class Reversed:
    """A text and what the model made of it."""

    source: str
    text: str

    def record(self) -> dict[str, Any]:
        return {"source": self.source, "text": self.text}

    def __str__(self) -> str:
        return self.text


class Reverser(Predictor[Reversed]):
    """Texts → texts backwards."""

    spec: ClassVar[TaskSpec] = SPEC

    def __init__(self, model: Any, tokenizer: Tokenizer, config: Any = None) -> None:
        self.model, self.tokenizer, self.config = model.eval(), tokenizer, config or ReverseConfig()

    @torch.inference_mode()
    def predict(self, inputs: Sequence[Any], config: Any = None, *, notify: Notify | None = None) -> list[Reversed]:
        return [self._reverse(text, config or self.config) for text in inputs]

    def _reverse(self, text: str, config: Any) -> Reversed:
        source, ids = torch.tensor([encoder_ids(self.tokenizer, text)]), [self.tokenizer.start_id]
        for _ in range(config.max_new_tokens):
            chosen = int(self.model(source, torch.tensor([ids]))[0, -1].argmax())
            if chosen == self.tokenizer.end_id:
                break
            ids.append(chosen)
        return Reversed(text, self.tokenizer.decode(ids[1:]))

    def evaluate(self, examples: Sequence[str], config: Any = None) -> Scores:
        right = [
            result.text == text[::-1] for text, result in zip(examples, self.predict(examples, config), strict=True)
        ]
        return Scores([Score("exact match", 100 * sum(right) / len(right), f"n:{len(right)}")])

    def trace(self, *inputs: Any) -> Trace:
        source, target = encoder_ids(self.tokenizer, inputs[0]), decoder_ids(self.tokenizer, inputs[0][::-1])[:-1]
        tokens = {"encoder": [self.tokenizer.tokens(source)], "decoder": [self.tokenizer.tokens(target)]}
        with torch.no_grad(), capture(self.model, tokens=tokens) as trace:
            self.model(torch.tensor([source]), torch.tensor([target]))
        return trace

    def tokenizer_files(self) -> Mapping[str, str]:
        return {"tokenizer.json": self.tokenizer.to_json()}

    @classmethod
    def load(cls, folder: Any, model: Any) -> Self:
        return cls(model, folder.tokenizer(), ReverseConfig(**folder.config["inference"]))

    def __repr__(self) -> str:
        return f"Reverser({self.tokenizer.vocab_size} characters)"


def encoder_ids(tokenizer: Tokenizer, text: str) -> list[int]:
    return [*tokenizer.encode(text), tokenizer.end_id]


def decoder_ids(tokenizer: Tokenizer, text: str) -> list[int]:
    return [tokenizer.start_id, *tokenizer.encode(text), tokenizer.end_id]
