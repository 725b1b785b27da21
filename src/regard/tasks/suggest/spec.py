"""The task `suggest`: what goes in, what comes out, its options. Does not import torch."""

from __future__ import annotations

from pydantic import Field as Option

from regard.spec import Field, TaskSpec
from regard.tasks.generate.spec import SPEC as GENERATE
from regard.utils.config import Config


class SuggestConfig(Config):
    """Options of prediction."""

    n: int = Option(5, ge=1, description="Number of words.")


SPEC = TaskSpec(
    name="suggest",
    summary="Suggest the next words of a text, or the rest of a word.",
    noun="a language model",
    inputs=(Field("text", "text", "The text so far; after a space the next word is suggested."),),
    outputs=(
        Field("word", "text", "The most probable word; empty if there is none."),
        Field("score", "number", "Its probability."),
        Field("scores", "scores", "The most probable words with their probabilities."),
    ),
    read_config=GENERATE.read_config,
    predict_config=SuggestConfig,
    reader="regard.tasks.corpus:SuggestReader",
    predictor="regard.tasks.suggest.predictor:Suggester",
    needs=GENERATE.needs,
    default_architecture=GENERATE.default_architecture,
    uses="generate",
    metrics=GENERATE.metrics,
    views=GENERATE.views,
    example=("The old ",),
    data_help=GENERATE.data_help,
    data_example=GENERATE.data_example,
)
