"""The task `score`: what goes in, what comes out, its options. Does not import torch."""

from __future__ import annotations

from pydantic import Field as Option

from regard.spec import Field
from regard.tasks.generate.spec import language_model_task
from regard.utils.config import Config


class ScoreConfig(Config):
    """Options of prediction."""

    per_token: bool = Option(False, description="List every token with its surprisal in bits.")


SPEC = language_model_task(
    name="score",
    summary="Measure how probable a text is: perplexity, bits per byte, surprisal of each token.",
    inputs=(Field("text", "document", "The text to score; its first token is not scored."),),
    outputs=(
        Field("perplexity", "number", "Exponential of the mean loss per token."),
        Field("bits_per_byte", "number", "Surprisal per byte, in bits; comparable between tokenizers."),
        Field("loss", "number", "Mean cross-entropy per token, in nats."),
        Field("num_tokens", "number", "Number of scored tokens."),
        Field("num_bytes", "number", "Number of UTF-8 bytes of the scored tokens."),
        Field("per_token", "records", "With per_token: each token with its surprisal in bits.", optional=True),
    ),
    predict_config=ScoreConfig,
    reader="regard.tasks.score.reader:ScoreReader",
    predictor="regard.tasks.score.predictor:TextScorer",
    uses="generate",
    example=("The old man sleeps.",),
)
