"""Config of the head on top of an encoder. Does not import torch."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, Self

from pydantic import Field, model_validator

from regard.utils.config import Config
from regard.utils.errors import UsageError, suggest_name

HEAD_KINDS = (  # supported by architectures in regard; an architecture in another package may support more
    "none",
    "mlm",
    "nsp",
    "pretraining",  # mlm and nsp
    "sequence_classification",
    "token_classification",
    "question_answering",
    "multiple_choice",
)
ProblemType = Literal["single_label_classification", "multi_label_classification", "regression"]
MLM_KINDS = ("mlm", "pretraining")
NSP_KINDS = ("nsp", "pretraining")
LABELLED = ("sequence_classification", "token_classification")


class HeadConfig(Config):
    """Config of a head, which a model folder stores next to the config of the model."""

    kind: str = Field(
        "none",
        description="Kind of head, such as token_classification; each architecture has its own list of allowed kinds.",
    )
    labels: tuple[str, ...] = Field((), description="Label of each output, for classification.")
    problem_type: ProblemType = Field(
        "single_label_classification",
        description="Prediction per sequence: one label, several, or a number.",
    )

    @model_validator(mode="after")
    def _labels_fit(self) -> Self:
        if self.kind in HEAD_KINDS and bool(self.labels) != (self.kind in LABELLED):
            raise UsageError(
                f"{' and '.join(LABELLED)} need labels, other heads have none; {self.kind} got {len(self.labels)}.",
                argument="labels",
                value=self.labels,
            )
        return self


def check_kind(head: HeadConfig | None, supported: Iterable[str], architecture: str) -> None:
    """Raise if an architecture does not support this kind of head. No head is the kind `none`."""
    kind, names = "none" if head is None else head.kind, sorted(supported)
    if kind not in names:
        message = f"{architecture} does not support the head {kind!r}. Supported: {', '.join(names)}."
        raise UsageError(message, argument="kind", value=kind, allowed=names, hint=suggest_name(kind, names))
