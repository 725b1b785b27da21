"""The task `answer`: what goes in, what comes out, its options. Does not import torch."""

from __future__ import annotations

from pydantic import Field as Option

from regard.data.qa_inputs import PASSAGES, QUESTIONS
from regard.spec import Field, TaskSpec
from regard.tasks.encoder.config import EncoderTraining, encoder_recipe
from regard.training.request import Recipe, TrainRequest
from regard.utils.config import Config, field_default
from regard.utils.errors import UsageError


class AnswerReading(Config):
    """How questions and passages are read."""

    skip_bad_rows: bool = Option(False, description="Skip unusable questions and list them.")


class AnswerTraining(AnswerReading, EncoderTraining):
    """Options of `regard train answer`."""

    max_seq_len: int = field_default(EncoderTraining, "max_seq_len", 384)


class AnswerConfig(Config):
    """Options of prediction."""

    stride: int = Option(128, ge=0, description="Tokens that neighboring windows of a long passage share.")
    max_answer_tokens: int = Option(30, ge=1, description="Longest answer, in tokens.")
    n_best: int = Option(1, ge=1, description="Number of answers to return, best first.")
    no_answer_threshold: float | None = Option(
        None,
        description="Give no answer if its score exceeds that of the best answer by more than this (default: always "
        "answer; training on data with unanswerable questions finds the best threshold).",
    )


def answer_recipe(request: TrainRequest) -> Recipe:
    """The defaults of tasks on an encoder; refuses a stride that leaves no new tokens to a window."""
    training = AnswerTraining(**request.given)
    stride = AnswerConfig(**request.given_predict).stride
    if "stride" in request.given_predict and stride >= training.max_seq_len:
        raise UsageError(
            f"--stride {stride} must be less than --max-seq-len {training.max_seq_len}: each window must add tokens.",
            argument="stride",
            value=stride,
        )
    return encoder_recipe(request)


SPEC = TaskSpec(
    name="answer",
    summary="Answer a question about a passage with a span of the passage.",
    noun="a question-answering model",
    inputs=(
        Field("question", "text", "The question.", columns=QUESTIONS),
        Field(
            "passage",
            "document",
            "The passage that holds the answer; a text, a file, or - for stdin.",
            columns=PASSAGES,
        ),
    ),
    outputs=(
        Field("text", "text", "The answer; empty if there is none."),
        Field("start", "number", "The first character of the answer in the passage."),
        Field("end", "number", "The character after its last one."),
        Field("score", "number", "The probability of the answer."),
        Field(
            "null_score_diff", "number", "By how much the score of giving no answer exceeds that of the best answer."
        ),
        Field("best", "spans", "The n_best answers, best first."),
    ),
    read_config=AnswerReading,
    input_options=frozenset({"skip_bad_rows"}),
    train_config=AnswerTraining,
    predict_config=AnswerConfig,
    reader="regard.tasks.answer.reader:AnswerReader",
    objective="regard.tasks.answer.objective:AnswerObjective",
    predictor="regard.tasks.answer.predictor:QuestionAnswerer",
    recipe="regard.tasks.answer.spec:answer_recipe",
    needs=frozenset({"question_answering"}),
    default_architecture="bert",
    default_preset="tiny",
    head="question_answering",
    lora=True,
    fixed=frozenset({"batch_tokens", "pooler", "type_vocab_size"}),
    metrics=("exact_match", "f1"),
    views=("answer", "attention", "inputs"),
    hub_pipeline="question-answering",
    hub_classes=("ForQuestionAnswering",),
    example=("Who sleeps?", "The cat sleeps in the kitchen."),
    test_settings={"batch_size": 4, "max_seq_len": 32, "vocab_size": 120},
    formats=(".txt", ".jsonl", ".csv", ".json"),
    data_help="Questions with passages and answers in the JSON of SQuAD v1.1 or v2, plain or .gz.",
    data_example="squad.json",
)
