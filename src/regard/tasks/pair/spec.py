"""The task `pair`: what goes in, what comes out, its options. Does not import torch."""

from __future__ import annotations

from typing import Literal

from pydantic import Field as Option

from regard.spec import Field
from regard.tasks.classify.spec import SPEC as CLASSIFY
from regard.tasks.classify.spec import ClassifyTraining
from regard.tasks.encoder.config import EncoderTraining, RowReading, encoder_task
from regard.utils.config import field_default


class PairReading(RowReading):
    """Options for reading labelled pairs."""

    first_column: str | None = Option(None, description="Name or number of the column with the first texts.")
    second_column: str | None = Option(None, description="Name or number of the column with the second texts.")
    label_column: str | None = Option(None, description="Name or number of the column with the labels.")


class PairTraining(PairReading, EncoderTraining):
    """Options of `regard train pair`."""

    regression: bool = Option(False, description="Regression: the labels are numbers, such as similarities.")
    class_weights: Literal["none", "balanced"] = field_default(ClassifyTraining, "class_weights", "none")


SPEC = encoder_task(
    name="pair",
    summary="Classify a pair of texts: a label, or a number such as their similarity.",
    noun="a text-pair classifier",
    inputs=(Field("first", "text", "The first text."), Field("second", "text", "The second text.")),
    outputs=CLASSIFY.outputs,
    read_config=PairReading,
    input_options=frozenset({"first_column", "second_column"}),
    train_config=PairTraining,
    predict_config=CLASSIFY.predict_config,
    reader="regard.tasks.pair.reader:PairReader",
    objective="regard.tasks.encoder.objective:SequenceObjective",
    predictor="regard.tasks.pair.predictor:PairClassifier",
    needs=frozenset({"sequence_classification", "pairs"}),
    head="sequence_classification",
    metrics=("accuracy", "f1", "matthews", "pearson", "spearman"),
    hub_pipeline="text-classification",
    example=("A man sleeps.", "A person is asleep."),
    data_help="A table (.tsv, .csv, .jsonl, or tab-separated text) with two texts and a label per row, plain or .gz.",
    data_example="pairs.tsv",
)
