"""The task `tag`: what goes in, what comes out, its options. Does not import torch."""

from __future__ import annotations

from pydantic import Field as Option

from regard.data.tables import TEXTS
from regard.spec import Field
from regard.tasks.encoder.config import EncoderTraining, RowReading, encoder_task
from regard.utils.config import Config


class TagReading(RowReading):
    """Options for reading tagged sentences."""

    tag_column: str | None = Option(
        None,
        description="Number of the column with the tags (default: the last); in CoNLL-U, its name (default: upos).",
    )
    repair_tags: bool = Option(
        False, description="Read an entity that starts with I- as if it started with B-, as conlleval does."
    )
    text_column: str | None = Option(
        None, description="Prediction from a table: name or number of the column with the texts."
    )


class TagTraining(TagReading, EncoderTraining):
    """Options of `regard train tag`."""


SPEC = encoder_task(
    name="tag",
    summary="Tag each word of a text: named entities or parts of speech.",
    noun="a tagger",
    inputs=(Field("text", "text", "The text to tag; it is split into words and punctuation marks.", columns=TEXTS),),
    outputs=(
        Field("words", "tokens", "The words of the text."),
        Field("tags", "labels", "The tag of each word."),
        Field("scores", "numbers", "The probability of each tag."),
        Field("entities", "spans", "The entities that the tags mark, each with its type and text."),
    ),
    read_config=TagReading,
    input_options=frozenset({"text_column", "skip_bad_rows"}),
    train_config=TagTraining,
    predict_config=Config,
    reader="regard.tasks.tag.reader:TagReader",
    objective="regard.tasks.tag.objective:TagObjective",
    predictor="regard.tasks.tag.predictor:Tagger",
    needs=frozenset({"token_classification"}),
    head="token_classification",
    fixed=frozenset({"batch_tokens", "pooler", "type_vocab_size", "text_column"}),
    metrics=("entity_f1", "accuracy"),
    hub_pipeline="token-classification",
    hub_classes=("ForTokenClassification",),
    example=("Anna sees Paris.",),
    formats=(".txt", ".jsonl", ".csv", ".conll"),
    data_help="Sentences in CoNLL columns (word first, tag last) or CoNLL-U (.conllu), plain or .gz.",
    data_example="train.conll",
)
