"""The task `answer`: what goes in, what comes out, its options. Does not import torch."""

from __future__ import annotations

from pydantic import Field as Option

from regard.data.squad import PASSAGES, QUESTIONS
from regard.spec import Field
from regard.tasks.encoder.config import EncoderTraining, RowReading, encoder_recipe, encoder_task
from regard.training.run import Recipe, TrainRequest
from regard.utils.config import Config, field_default
from regard.utils.errors import UsageError


class AnswerTraining(RowReading, EncoderTraining):
    """Options of `regard train answer`."""

    max_seq_len: int = field_default(EncoderTraining, "max_seq_len", 384)


class AnswerConfig(Config):
    """Options of prediction."""

    stride: int = Option(128, ge=0, description="Number of tokens by which the windows of a long passage overlap.")
    max_answer_tokens: int = Option(30, ge=1, description="Maximum length of an answer, in tokens.")
    n_best: int = Option(1, ge=1, description="Number of answers to return, best first.")
    no_answer_threshold: float | None = Option(
        None,
        description="Return no answer if the score of 'no answer' exceeds that of the best answer by more than this "
        "(default: always answer; training on data with unanswerable questions finds the best threshold).",
    )


def answer_recipe(request: TrainRequest) -> Recipe:
    """The defaults of encoder tasks; raise if the stride is so large that a window has no new tokens."""
    training = AnswerTraining(**request.given)
    stride = AnswerConfig(**request.given_predict).stride
    if "stride" in request.given_predict and stride >= training.max_seq_len:
        raise UsageError(
            f"--stride {stride} must be less than --max-seq-len {training.max_seq_len}. Lower --stride, so that each "
            "window adds tokens.",
            argument="stride",
            value=stride,
        )
    return encoder_recipe(request)


SPEC = encoder_task(
    name="answer",
    summary="Answer a question with a span of a passage.",
    noun="a question-answering model",
    inputs=(
        Field("question", "text", "The question.", columns=QUESTIONS),
        Field("passage", "document", "The passage with the answer: a text, a file, or - for stdin.", columns=PASSAGES),
    ),
    outputs=(
        Field("text", "text", "The answer; empty if the model returns no answer."),
        Field("start", "number", "Index of the answer's first character in the passage."),
        Field("end", "number", "Index after the answer's last character."),
        Field("score", "number", "The probability of the answer."),
        Field("null_score_diff", "number", "Score of giving no answer minus the score of the best answer."),
        Field("best", "spans", "The n_best answers, best first."),
        Field("id", "text", "The id of the question, if the file has ids.", optional=True),
    ),
    read_config=RowReading,
    input_options=frozenset({"skip_bad_rows"}),
    train_config=AnswerTraining,
    predict_config=AnswerConfig,
    reader="regard.tasks.answer.reader:AnswerReader",
    objective="regard.tasks.answer.objective:AnswerObjective",
    predictor="regard.tasks.answer.predictor:QuestionAnswerer",
    recipe="regard.tasks.answer.spec:answer_recipe",
    needs=frozenset({"question_answering"}),
    head="question_answering",
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
