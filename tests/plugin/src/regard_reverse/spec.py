"""The task `reverse`: write a text backwards."""

from __future__ import annotations

from pydantic import Field as Option

from regard.spec import Field, TaskSpec
from regard.training.config import TrainingConfig
from regard.utils.config import Config


class ReverseReading(Config):
    """How texts are read."""

    skip_bad_rows: bool = Option(False, description="Skip empty lines.")


class ReverseTraining(ReverseReading, TrainingConfig):
    """Options of `regard train reverse`."""

    max_seq_len: int = Option(64, ge=2, description="Longest text in characters; longer ones are truncated.")


class ReverseConfig(Config):
    """Options of prediction."""

    max_new_tokens: int = Option(64, ge=1, description="Longest output, in characters.")


SPEC = TaskSpec(
    name="reverse",
    summary="Write a text backwards.",
    noun="a text reverser",
    inputs=(Field("source", "text", "The text to reverse.", columns=("text",)),),
    outputs=(Field("text", "text", "The reversed text."),),
    read_config=ReverseReading,
    train_config=ReverseTraining,
    predict_config=ReverseConfig,
    reader="regard_reverse.reader:ReverseReader",
    objective="regard_reverse.objective:ReverseObjective",
    predictor="regard_reverse.predictor:Reverser",
    needs=frozenset({"encoder-decoder"}),
    default_architecture="transformer",
    default_preset="tiny",
    metrics=("exact match",),
    views=("attention",),
    data_help="Text files with one text per line.",
    data_example="texts.txt",
    example=("stressed",),
)
