"""The built-in views: what each shows, which models have it, its options. Does not import torch."""

from __future__ import annotations

from pydantic import Field

from regard.spec import ViewSpec
from regard.utils.config import Config


class AttentionOptions(Config):
    """Options of views of a model that may generate."""

    target: str | None = Field(None, description="Output to look at, instead of the model's own (translation).")


class StepsOptions(AttentionOptions):
    """Options of the steps."""

    address: str | None = Field(None, description="Which attention, such as decoder.2.cross (default: the first).")


ATTENTION = ViewSpec(
    name="attention",
    summary="What each token attends to, for every layer and head.",
    build="regard.inspection.views:attention",
    needs=frozenset({"attention"}),
    config=AttentionOptions,
)
STEPS = ViewSpec(
    name="steps",
    summary="How one attention is computed, from the tokens through Q, K and V to the output.",
    build="regard.inspection.views:steps",
    needs=frozenset({"attention"}),
    config=StepsOptions,
)
TARGETS = ViewSpec(
    name="targets",
    summary="What each position of a language model sees, what it has to predict, and its loss.",
    build="regard.inspection.views:targets",
    needs=frozenset({"decoder"}),
)
RANKS = ViewSpec(
    name="ranks",
    summary="The singular values of each head's value matrix, and the loss by their rank.",
    build="regard.inspection.views:ranks",
    needs=frozenset({"generation", "attention"}),
    config=AttentionOptions,
)
INPUTS = ViewSpec(
    name="inputs",
    summary="The token, type and position vectors whose sum enters an encoder.",
    build="regard.inspection.views:inputs",
    needs=frozenset({"encoder", "pairs"}),
)
ANSWER = ViewSpec(
    name="answer",
    summary="Where in the passage a question-answering model sees the answer start and end.",
    build="regard.inspection.views:answer",
    needs=frozenset({"question_answering"}),
)
