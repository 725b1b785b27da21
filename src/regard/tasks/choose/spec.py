"""The task `choose`: what goes in, what comes out, its options. Does not import torch."""

from __future__ import annotations

from pydantic import Field as Option

from regard.data.multiple_choice import CONTEXTS, ENDINGS
from regard.spec import Field, TaskSpec
from regard.tasks.encoder.config import EncoderTraining
from regard.utils.config import Config


class ChooseReading(Config):
    """How contexts and endings are read."""

    skip_bad_rows: bool = Option(False, description="Skip unusable rows and list them.")


class ChooseTraining(ChooseReading, EncoderTraining):
    """Options of `regard train choose`."""


class ChooseConfig(Config):
    """Options of prediction: none."""


SPEC = TaskSpec(
    name="choose",
    summary="Choose the ending that fits a text best.",
    noun="a multiple-choice model",
    inputs=(
        Field("context", "text", "The text before the ending.", columns=CONTEXTS),
        Field("endings", "texts", "Two or more endings to choose from.", columns=ENDINGS),
    ),
    outputs=(
        Field("choice_index", "number", "The index of the chosen ending, from 0."),
        Field("text", "text", "The chosen ending."),
        Field("scores", "numbers", "The probability of each ending."),
    ),
    read_config=ChooseReading,
    input_options=frozenset({"skip_bad_rows"}),
    train_config=ChooseTraining,
    predict_config=ChooseConfig,
    reader="regard.tasks.choose.reader:ChooseReader",
    objective="regard.tasks.choose.objective:ChooseObjective",
    predictor="regard.tasks.choose.predictor:MultipleChoice",
    recipe="regard.tasks.encoder.config:encoder_recipe",
    needs=frozenset({"multiple_choice", "pairs"}),
    default_architecture="bert",
    default_preset="tiny",
    head="multiple_choice",
    lora=True,
    fixed=frozenset({"batch_tokens", "pooler", "type_vocab_size"}),
    metrics=("accuracy",),
    views=("attention", "inputs"),
    hub_pipeline="multiple-choice",
    hub_classes=("ForMultipleChoice",),
    example=("She opens the door.", ("She closes the door.", "The sea sings.")),
    test_settings={"batch_size": 4, "max_seq_len": 32, "vocab_size": 120},
    data_help="A table (.csv, .tsv, .jsonl) with SWAG's columns: sent1, sent2, ending0, ending1 … label; plain or .gz.",
    data_example="swag.csv",
)
