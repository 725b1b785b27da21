"""The task `tag`: what goes in, what comes out, its options. Does not import torch."""

from __future__ import annotations

from pydantic import Field as Option

from regard.data.labelled import TEXTS
from regard.spec import Field, TaskSpec
from regard.tasks.encoder.config import EncoderTraining
from regard.utils.config import Config


class TagReading(Config):
    """How tagged sentences are read."""

    tag_column: str | None = Option(
        None,
        description="Column with the tags: a number from 2 on (default: the last); in CoNLL-U a name (default: upos).",
    )
    repair_tags: bool = Option(
        False, description="Read an entity that starts with I- as if it started with B-, as conlleval does."
    )
    text_column: str | None = Option(
        None, description="For tables of texts to tag: name or number of the column with the texts."
    )
    skip_bad_rows: bool = Option(False, description="Skip unusable sentences and list them.")


class TagTraining(TagReading, EncoderTraining):
    """Options of `regard train tag`."""


class TagConfig(Config):
    """Options of prediction: none."""


SPEC = TaskSpec(
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
    predict_config=TagConfig,
    reader="regard.tasks.tag.reader:TagReader",
    objective="regard.tasks.tag.objective:TagObjective",
    predictor="regard.tasks.tag.predictor:Tagger",
    recipe="regard.tasks.encoder.config:encoder_recipe",
    needs=frozenset({"token_classification"}),
    default_architecture="bert",
    default_preset="tiny",
    head="token_classification",
    lora=True,
    fixed=frozenset({"batch_tokens", "pooler", "type_vocab_size", "text_column"}),
    metrics=("entity_f1", "accuracy"),
    views=("attention", "inputs"),
    hub_pipeline="token-classification",
    hub_classes=("ForTokenClassification",),
    example=("Anna sees Paris.",),
    test_settings={"batch_size": 4, "max_seq_len": 16, "vocab_size": 120},
    formats=(".txt", ".jsonl", ".csv", ".conll"),
    data_help="Sentences in CoNLL columns (word first, tag last) or CoNLL-U (.conllu), plain or .gz.",
    data_example="train.conll",
)
