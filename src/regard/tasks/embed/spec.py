"""The task `embed`: what goes in, what comes out, its options. Does not import torch.

It needs no training: the hidden states of any encoder can be pooled into a vector.
"""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field as Option
from pydantic import model_validator

from regard.data.tables import TEXTS
from regard.spec import Field, TaskSpec
from regard.utils.config import Config
from regard.utils.errors import UsageError

Pooling = Literal["mean", "cls", "max"]


class EmbedReading(Config):
    """Options for reading texts and, for evaluation, pairs with similarities."""

    text_column: str | None = Option(None, description="Name or number of the column with the texts.")
    first_column: str | None = Option(
        None, description="Evaluation: name or number of the column with the first texts."
    )
    second_column: str | None = Option(
        None, description="Evaluation: name or number of the column with the second texts."
    )
    label_column: str | None = Option(
        None, description="Evaluation: name or number of the column with the similarities."
    )
    skip_bad_rows: bool = Option(False, description="Evaluation: skip unusable rows and list them.")


class EmbedConfig(Config):
    """Options of embedding."""

    pooling: Pooling = Option("mean", description="How token vectors are pooled: mean, cls (the first token), or max.")
    normalize: bool = Option(True, description="Scale vectors to length 1, so that a dot product is a cosine.")
    max_seq_len: int | None = Option(
        None,
        ge=3,
        description="Maximum length in tokens; longer texts are truncated (default: the model's maximum).",
    )
    similarity: bool = Option(False, description="Return cosine similarities instead of vectors.")
    similar_to: tuple[str, ...] = Option(
        (),
        description="With --similarity: texts to compare with, or a file with such texts (default: the input texts).",
        json_schema_extra={"file": "lines"},
    )
    tokens: bool = Option(False, description="Return one vector per token instead of one per text.")
    layer: int | None = Option(
        None,
        ge=0,
        description="With --tokens: layer whose output is returned; 0 for the embeddings (default: the last).",
    )

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.tokens and self.similarity:
            raise UsageError("--tokens conflicts with --similarity. Remove one of them.", argument="tokens")
        if self.similar_to and not self.similarity:
            raise UsageError("--similar-to needs --similarity.", argument="similar_to", value=self.similar_to)
        if self.layer is not None and not self.tokens:
            raise UsageError("--layer needs --tokens.", argument="layer", value=self.layer)
        return self


SPEC = TaskSpec(
    name="embed",
    summary="Turn texts into vectors that are close for similar meanings.",
    noun="an encoder for embeddings",
    inputs=(Field("text", "text", "The text to embed.", columns=TEXTS),),
    outputs=(
        Field("vector", "vector", "The embedding of the text.", optional=True),
        Field("tokens", "tokens", "With tokens: the tokens of the text.", optional=True),
        Field("token_texts", "tokens", "With tokens: the part of the text that each token covers.", optional=True),
        Field("vectors", "vectors", "With tokens: the vector of each token.", optional=True),
        Field("similarity", "numbers", "With similarity: the cosine similarity to each other text.", optional=True),
    ),
    read_config=EmbedReading,
    input_options=frozenset({"text_column"}),
    predict_config=EmbedConfig,
    reader="regard.tasks.embed.reader:EmbedReader",
    predictor="regard.tasks.embed.predictor:Embedder",
    needs=frozenset({"encoder"}),
    default_architecture="bert",
    uses="fill",
    head=("none", "nsp"),
    metrics=("pearson", "spearman"),
    views=("attention", "inputs"),
    hub_pipeline="sentence-similarity",
    hub_classes=("BertModel", "ForNextSentencePrediction"),
    example=("The cat sleeps.",),
    formats=(".npy", ".csv", ".jsonl"),
    data_help="For evaluation, a table (.tsv, .csv, .jsonl) with two texts and a number in each row, plain or .gz.",
    data_example="pairs.tsv",
)
