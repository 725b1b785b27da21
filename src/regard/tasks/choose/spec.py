"""The task `choose`: what goes in, what comes out, its options. Does not import torch."""

from __future__ import annotations

from regard.data.columns import CONTEXTS, ENDINGS
from regard.spec import Field
from regard.tasks.encoder.config import EncoderTraining, RowReading, encoder_task
from regard.utils.config import Config


class ChooseTraining(RowReading, EncoderTraining):
    """Options of `regard train choose`."""


SPEC = encoder_task(
    name="choose",
    summary="Choose the ending that best fits a text.",
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
    read_config=RowReading,
    input_options=frozenset({"skip_bad_rows"}),
    train_config=ChooseTraining,
    predict_config=Config,
    reader="regard.tasks.readers:ChooseReader",
    objective="regard.tasks.encoder.objective:ChooseObjective",
    predictor="regard.tasks.choose.predictor:MultipleChoice",
    needs=frozenset({"multiple_choice", "pairs"}),
    head="multiple_choice",
    metrics=("accuracy",),
    hub_pipeline="multiple-choice",
    hub_classes=("ForMultipleChoice",),
    example=("She opens the door.", ("She closes the door.", "The sea sings.")),
    test_settings={"batch_size": 4, "max_seq_len": 32, "vocab_size": 120},
    data_help="A table (.csv, .tsv, .jsonl) with SWAG's columns: sent1, sent2, ending0, ending1 … label; plain or .gz.",
    data_example="swag.csv",
)
