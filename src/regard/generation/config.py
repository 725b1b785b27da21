"""Options of beam search and sampling. Does not import torch."""

from __future__ import annotations

import math
from typing import Annotated, Any, Self

from pydantic import BeforeValidator, Field, field_validator, model_validator

from regard.utils.config import Config
from regard.utils.errors import UsageError

MAX_SEED = 2**63


class SearchConfig(Config):
    """Options of beam search."""

    num_beams: int = Field(5, ge=1, description="Number of beams; 1 is greedy search.")
    length_penalty: float = Field(
        1.0,
        ge=-10,
        le=10,
        description="Divide the log-probability of an output by length ** length_penalty; above 1 favors long output.",
    )
    n_best: int = Field(1, ge=1, description="Number of outputs to return, best first.")
    max_new_tokens: int = Field(256, ge=1, description="Maximum length of the output, in tokens.")
    max_len_a: float | None = Field(
        3.0, gt=0, description="Limit the output to max_len_a × source tokens + max_len_b tokens."
    )
    max_len_b: int = Field(10, ge=0, description="See --max-len-a.")
    min_new_tokens: int = Field(0, ge=0, description="Minimum length of the output, in tokens.")

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.n_best > self.num_beams and "num_beams" not in self.model_fields_set:
            self.__dict__["num_beams"] = self.n_best  # the frozen config is still being built
        n_best, beams, least, most = self.n_best, self.num_beams, self.min_new_tokens, self.max_new_tokens
        if n_best > beams:
            message = f"n_best ({n_best}) exceeds num_beams ({beams}): set num_beams to {n_best} or more."
            raise UsageError(message, argument="n_best", value=n_best)
        if least > most:
            message = f"min_new_tokens ({least}) exceeds max_new_tokens ({most}). Lower min_new_tokens."
            raise UsageError(message, argument="min_new_tokens", value=least)
        return self

    def replace(self, **changes: Any) -> Self:
        """Return a copy with other values; `num_beams` becomes at least `n_best` unless it is given."""
        if "n_best" in changes and "num_beams" not in changes:
            changes["num_beams"] = max(self.num_beams, type(self)(**changes).n_best)
        return super().replace(**changes)

    def score(self, log_prob: float, length: int) -> float:
        """The length-normalized score by which hypotheses are ranked."""
        return log_prob / math.pow(length, self.length_penalty)


class SamplingConfig(Config):
    """Options of sampling."""

    max_new_tokens: int = Field(200, ge=1, description="Maximum length of the continuation, in tokens.")
    temperature: float = Field(0.8, ge=0, description="Divide the logits by this number; 0 is greedy.")
    top_k: int | None = Field(50, ge=1, description="Sample from the k most probable tokens.")
    top_p: float | None = Field(
        None, gt=0, le=1, description="Sample from the most probable tokens whose probabilities sum to p."
    )
    min_p: float | None = Field(
        None, ge=0, le=1, description="Sample from tokens with at least this fraction of the highest probability."
    )
    repetition_penalty: float = Field(
        1.0, gt=0, description="Penalty on tokens that already occurred; above 1 makes them less probable."
    )
    seed: int | None = Field(None, ge=0, lt=MAX_SEED, description="Random seed; the same seed gives the same text.")
    stop: Annotated[tuple[str, ...], BeforeValidator(lambda given: (given,) if isinstance(given, str) else given)] = (
        Field((), description="Strings that end the generation; not part of the output.")
    )

    @field_validator("stop")
    @classmethod
    def _not_empty(cls, texts: tuple[str, ...]) -> tuple[str, ...]:
        if any(not text for text in texts):
            raise UsageError("a stop string is empty. Remove it.", argument="stop", value="")
        return texts

    @property
    def is_greedy(self) -> bool:
        return self.temperature == 0
