"""The task `pair`: what goes in, what comes out, its options. Does not import torch."""

from __future__ import annotations

from typing import Literal

from pydantic import Field as Option

from regard.spec import Field, TaskSpec
from regard.tasks.classify.spec import SPEC as CLASSIFY
from regard.tasks.classify.spec import ClassifyConfig
from regard.tasks.encoder.config import EncoderTraining
from regard.utils.config import Config


class PairReading(Config):
    """How labelled pairs are read."""

    first_column: str | None = Option(None, description="Name or number of the column with the first texts.")
    second_column: str | None = Option(None, description="Name or number of the column with the second texts.")
    label_column: str | None = Option(None, description="Name or number of the column with the labels.")
    skip_bad_rows: bool = Option(False, description="Skip unusable rows and list them.")


class PairTraining(PairReading, EncoderTraining):
    """Options of `regard train pair`."""

    regression: bool = Option(False, description="Labels are numbers to predict, such as similarities.")
    class_weights: Literal["none", "balanced"] = Option(
        "none", description="balanced: weight the loss so that all labels count the same."
    )


SPEC = TaskSpec(
    name="pair",
    summary="Judge two texts: a label, or a number such as their similarity.",
    noun="a text-pair classifier",
    inputs=(Field("first", "text", "The first text."), Field("second", "text", "The second text.")),
    outputs=CLASSIFY.outputs,
    read_config=PairReading,
    input_options=frozenset({"first_column", "second_column"}),
    train_config=PairTraining,
    predict_config=ClassifyConfig,
    reader="regard.tasks.pair.reader:PairReader",
    objective="regard.tasks.pair.objective:PairObjective",
    predictor="regard.tasks.pair.predictor:PairClassifier",
    recipe=CLASSIFY.recipe,
    needs=frozenset({"sequence_classification", "pairs"}),
    default_architecture="bert",
    default_preset="tiny",
    head="sequence_classification",
    lora=True,
    fixed=CLASSIFY.fixed,
    metrics=("accuracy", "f1", "matthews", "pearson", "spearman"),
    views=CLASSIFY.views,
    hub_pipeline="text-classification",
    example=("A man sleeps.", "Somebody is asleep."),
    test_settings=CLASSIFY.test_settings,
    data_help="A table (.tsv, .csv, .jsonl, or tab-separated text) with two texts and a label per row, plain or .gz.",
    data_example="pairs.tsv",
)
