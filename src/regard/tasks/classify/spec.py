"""The task `classify`: what goes in, what comes out, its options. Does not import torch."""

from __future__ import annotations

from typing import Literal

from pydantic import Field as Option

from regard.data.tables import TEXTS
from regard.spec import Field
from regard.tasks.encoder.config import EncoderTraining, RowReading, encoder_task
from regard.utils.config import Config


class ClassifyReading(RowReading):
    """Options for reading labelled texts."""

    text_column: str | None = Option(None, description="Name or number of the column with the texts.")
    label_column: str | None = Option(None, description="Name or number of the column with the labels.")
    label_separator: str | None = Option(
        None, min_length=1, description="Separator between the labels, for texts with several labels."
    )


class ClassifyTraining(ClassifyReading, EncoderTraining):
    """Options of `regard train classify`."""

    class_weights: Literal["none", "balanced"] = Option(
        "none", description="balanced: weight the loss so that all labels have the same total weight."
    )


class ClassifyConfig(Config):
    """Options of prediction."""

    threshold: float = Option(
        0.5, ge=0, le=1, description="Multi-label models: return the labels with at least this probability."
    )


SPEC = encoder_task(
    name="classify",
    summary="Classify a text: one label or several.",
    noun="a text classifier",
    inputs=(Field("text", "text", "The text to label.", columns=TEXTS),),
    outputs=(
        Field("label", "label", "The label, or several labels joined by commas.", optional=True),
        Field("labels", "labels", "The predicted labels as a list.", optional=True),
        Field("score", "number", "The probability of the label.", optional=True),
        Field("scores", "scores", "The probability of every label.", optional=True),
        Field("number", "number", "The predicted number (regression only, instead of labels).", optional=True),
    ),
    read_config=ClassifyReading,
    input_options=frozenset({"text_column"}),
    train_config=ClassifyTraining,
    predict_config=ClassifyConfig,
    reader="regard.tasks.classify.reader:ClassifyReader",
    objective="regard.tasks.encoder.objective:SequenceObjective",
    predictor="regard.tasks.classify.predictor:Classifier",
    needs=frozenset({"sequence_classification"}),
    head="sequence_classification",
    metrics=("accuracy", "f1", "matthews"),
    hub_pipeline="text-classification",
    hub_classes=("ForSequenceClassification",),
    example=("A fine film.",),
    data_help="A table (.tsv, .csv, .jsonl, or tab-separated text) with texts and labels, plain or .gz.",
    data_example="reviews.csv",
)
