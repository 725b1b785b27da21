"""Config of the head on top of an encoder. Does not import torch."""

from __future__ import annotations

from typing import Literal, Self, get_args

from pydantic import Field, model_validator

from regard.utils.config import Config
from regard.utils.errors import UsageError, number_of

HeadKind = Literal[
    "none",
    "mlm",
    "nsp",
    "pretraining",  # mlm and nsp
    "sequence_classification",
    "token_classification",
    "question_answering",
    "multiple_choice",
]
ProblemType = Literal["single_label_classification", "multi_label_classification", "regression"]
HEAD_KINDS: tuple[str, ...] = get_args(HeadKind)
MLM_KINDS = ("mlm", "pretraining")
NSP_KINDS = ("nsp", "pretraining")
LABELLED = ("sequence_classification", "token_classification")


class HeadConfig(Config):
    """Config of a head. A model folder stores it next to the config of the model."""

    kind: HeadKind = Field("none", description="What the head predicts.")
    labels: tuple[str, ...] = Field((), description="The meaning of each output, for classification.")
    problem_type: ProblemType = Field(
        "single_label_classification", description="For sequences: one label, several labels, or a number."
    )

    @model_validator(mode="after")
    def _labels_fit(self) -> Self:
        if bool(self.labels) != (self.kind in LABELLED):
            raise UsageError(
                f"only {' and '.join(LABELLED)} need labels; {self.kind} got {number_of(len(self.labels), 'label')}.",
                argument="labels",
                value=self.labels,
            )
        return self
