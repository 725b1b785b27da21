"""The task `suggest`: what goes in, what comes out, its options. Does not import torch."""

from __future__ import annotations

from pydantic import Field as Option

from regard.spec import Field
from regard.tasks.generate.spec import language_model_task
from regard.utils.config import Config


class SuggestConfig(Config):
    """Options of prediction."""

    n: int = Option(5, ge=1, description="Number of words.")


SPEC = language_model_task(
    name="suggest",
    summary="Suggest the next words of a text, or the rest of a word.",
    inputs=(Field("text", "text", "The text so far; if it ends with a space, the next word is suggested."),),
    outputs=(
        Field("word", "text", "The most probable word; empty if there is no suggestion."),
        Field("score", "number", "Its probability."),
        Field("scores", "scores", "The most probable words with their probabilities."),
    ),
    predict_config=SuggestConfig,
    reader="regard.tasks.suggest.reader:SuggestReader",
    predictor="regard.tasks.suggest.predictor:Suggester",
    uses="generate",
    example=("The old ",),
)
