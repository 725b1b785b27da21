"""The task `classify`: what goes in, what comes out, its options. Does not import torch."""

from __future__ import annotations

from typing import Literal

from pydantic import Field as Option

from regard.data.labelled import TEXTS
from regard.spec import Field, TaskSpec
from regard.tasks.encoder.config import EncoderTraining
from regard.utils.config import Config


class ClassifyReading(Config):
    """How labelled texts are read."""

    text_column: str | None = Option(None, description="Name or number of the column with the texts.")
    label_column: str | None = Option(None, description="Name or number of the column with the labels.")
    label_separator: str | None = Option(
        None, min_length=1, description="Separator between the labels of a text that may have several."
    )
    skip_bad_rows: bool = Option(False, description="Skip unusable rows and list them.")


class ClassifyTraining(ClassifyReading, EncoderTraining):
    """Options of `regard train classify`."""

    class_weights: Literal["none", "balanced"] = Option(
        "none", description="balanced: weight the loss so that all labels count the same."
    )


class ClassifyConfig(Config):
    """Options of prediction."""

    threshold: float = Option(
        0.5, ge=0, le=1, description="Models with several labels: labels with at least this probability are given."
    )


SPEC = TaskSpec(
    name="classify",
    summary="Label a text: one label, or several.",
    noun="a text classifier",
    inputs=(Field("text", "text", "The text to label.", columns=TEXTS),),
    outputs=(
        Field("label", "label", "The label; several are joined by commas."),
        Field("score", "number", "The probability of the label."),
        Field("scores", "scores", "The probability of every label."),
    ),
    read_config=ClassifyReading,
    input_options=frozenset({"text_column"}),
    train_config=ClassifyTraining,
    predict_config=ClassifyConfig,
    reader="regard.tasks.classify.reader:ClassifyReader",
    objective="regard.tasks.classify.objective:ClassifyObjective",
    predictor="regard.tasks.classify.predictor:Classifier",
    recipe="regard.tasks.encoder.config:encoder_recipe",
    needs=frozenset({"sequence_classification"}),
    default_architecture="bert",
    default_preset="tiny",
    head="sequence_classification",
    lora=True,
    fixed=frozenset({"batch_tokens", "pooler", "type_vocab_size"}),
    metrics=("accuracy", "f1", "matthews"),
    views=("attention", "inputs"),
    hub_pipeline="text-classification",
    hub_classes=("ForSequenceClassification",),
    example=("A fine film.",),
    test_settings={"batch_size": 4, "max_seq_len": 16, "vocab_size": 120},
    data_help="A table (.tsv, .csv, .jsonl, or tab-separated text) with texts and labels, plain or .gz.",
    data_example="reviews.csv",
)
