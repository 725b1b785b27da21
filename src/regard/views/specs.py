"""The built-in views: what each view shows, which models support it, and its options. Does not import torch."""

from __future__ import annotations

from pydantic import Field

from regard.spec import ViewSpec
from regard.utils.config import Config


class TargetOptions(Config):
    """Options of views that may use generated text."""

    target: str | None = Field(None, description="Translation: text to use instead of the model's output.")


class AttentionOptions(TargetOptions):
    """Options of views of one attention layer."""

    address: str | None = Field(
        None, description="Attention layer to show, such as decoder.2.cross (default: chosen by the view)."
    )


def _view(name: str, summary: str, needs: set[str], config: type[Config] | None = None) -> ViewSpec:
    build = f"regard.inspection.views:{name}"
    return ViewSpec(name=name, summary=summary, build=build, needs=frozenset(needs), config=config)


ATTENTION = _view("attention", "What each token attends to, for every layer and head.", {"attention"}, AttentionOptions)
STEPS = _view(
    "steps",
    "How one attention layer is computed, from the tokens through Q, K and V to the output.",
    {"attention"},
    AttentionOptions,
)
TARGETS = _view("targets", "What each position of a language model sees and predicts, and its loss.", {"decoder"})
RANKS = _view(
    "ranks",
    "The singular values of each head's OV matrix, and the loss by rank.",
    {"generation", "attention"},
    TargetOptions,
)
INPUTS = _view(
    "inputs", "The token, type and position vectors whose sum enters an encoder.", {"encoder", "summed_embeddings"}
)
ANSWER = _view(
    "answer",
    "Start and end probabilities of a question-answering model at each token of the passage.",
    {"question_answering"},
)
