"""From questions about passages to a model that answers them: read, hold some passages out, train.

Whatever can be wrong with a request is found before torch is loaded, and whatever can be wrong with data before
anything is trained.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.checkpoint.card import CardData
from regard.checkpoint.output import output_folder
from regard.config import from_dict
from regard.data.batches import split_validation
from regard.data.files import skipped_rows
from regard.data.squad import Question, read_questions
from regard.data.world.passages import questions
from regard.errors import UsageError, number_of
from regard.metrics.score import Score
from regard.models.bert_settings import BertConfig, HeadConfig
from regard.nn.lora_settings import LoRAConfig
from regard.tasks.settings import LabelConfig, SpanConfig
from regard.training.encoders import Request, card_of, held_remark, only_file, overlap_remark, refuse_without_file
from regard.training.options import RunOptions, sort_settings
from regard.training.settings import TrainingConfig

if TYPE_CHECKING:
    from regard.tasks.answer import Answerer, AnswerTask
    from regard.training.runs import Run

WORLD = "the built-in world's passages"
USUAL = {"max_tokens": 384}  # a passage is longer than a sentence: other than for labels
MOST_HELD_OUT = 400  # passages; more take time from training and make its scores no truer
ONE_FILE = "questions are read from one"


def train_answers(
    data: Sequence[Path] | None,
    out: Path,
    *,
    validation: Sequence[Path] | None = None,
    skip_bad_rows: bool = False,
    size: str | None = None,
    from_: Path | str | None = None,
    lora: bool = False,
    settings: Mapping[str, Any] | None = None,
    options: RunOptions | None = None,
) -> Run[Answerer]:
    """Train a model that answers questions, on a SQuAD file or on the built-in world's passages."""
    options = options or RunOptions()
    spans, others = _span_settings(settings or {})
    request = Request.check({**USUAL, **others}, out, size=size, from_=from_, lora=lora, options=options)
    _check(request.config, spans, settings or {})
    found = _read(
        only_file(data, "training", ONE_FILE),
        only_file(validation, "validation", ONE_FILE),
        request.config,
        skip_bad_rows=skip_bad_rows,
    )
    budget = request.budget(len(found.train), out, resume=options.resume)
    from regard.tasks.answer import AnswerTask, make_answerer_model
    from regard.tasks.labelling import layer_rates
    from regard.training.runs import carry_out

    with output_folder(out, resume=options.resume, force=options.force):
        texts = list(dict.fromkeys(text for one in found.train for text in (one.passage, one.question)))
        ready = request.model_for(HeadConfig(kind="spans"), make_answerer_model, texts, seed=budget.config.seed)
        config = ready.config(request.config)
        task = AnswerTask(
            model=ready.model,
            tokenizer=ready.tokenizer,
            questions=(found.train, found.validation),
            config=config,
            spans=spans,
            data=found.card,
        )
        # A long passage is several rows, and how many is known only now.
        budget = request.budget(len(task.train), out, resume=options.resume)
        return carry_out(
            task,
            budget,
            out,
            options,
            described=ready.described,
            remarks=[*found.remarks, *ready.remarks, *_remarks(task, config)],
            beginning=ready.beginning,
            rates=layer_rates(ready.model.bert, config.layer_decay),
        )


def score_answer_file(model: Answerer, path: Path, *, skip_bad_rows: bool = False) -> tuple[list[Score], list[str]]:
    """The scores of a model on a SQuAD file, and what there is to say about the file."""
    from regard.tasks.answer import baselines, score

    reading = read_questions(path, skip_bad_rows=skip_bad_rows)
    held = reading.examples
    answers = model([(one.question, one.passage) for one in held])
    scores = score(held, answers, model.config.threshold) + baselines(held)
    return scores, [*reading.remarks, *skipped_rows(reading.bad)]


# --- Settings ----------------------------------------------------------------------------------------------


def _span_settings(settings: Mapping[str, Any]) -> tuple[SpanConfig, dict[str, Any]]:
    """How passages are read, and all other settings."""
    parts = sort_settings(settings, (SpanConfig, BertConfig, TrainingConfig, LabelConfig, LoRAConfig))
    spans = parts[SpanConfig]
    return from_dict(SpanConfig, spans), {name: value for name, value in settings.items() if name not in spans}


def _check(config: LabelConfig, spans: SpanConfig, given: Mapping[str, Any]) -> None:
    if config.class_weights != "none":
        raise UsageError("--class-weights are for texts with one label each, not for answers.")
    if "stride" in given and spans.stride >= config.max_tokens:
        raise UsageError(
            f"--stride {spans.stride} must be less than --max-tokens {config.max_tokens}: parts of a passage share so "
            "many tokens, and each has to bring new ones."
        )


def _remarks(task: AnswerTask, config: LabelConfig) -> list[str]:
    remarks = []
    if more := len(task.train) - len(task.questions[0]):
        windows = number_of(more, "more window")
        remarks.append(f"length: passages beyond --max-tokens {config.max_tokens} are read in {windows}, none is cut")
    if lost := task.unreachable:
        remarks.append(f"length: {number_of(lost, 'question')} whose answer no window holds as a whole; raise --stride")
    return remarks


# --- Data --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Data:
    train: Sequence[Question]
    validation: Sequence[Question]
    card: tuple[CardData, ...]
    remarks: tuple[str, ...]


def _read(data: Path | None, validation: Path | None, config: LabelConfig, *, skip_bad_rows: bool) -> _Data:
    if data is None:
        refuse_without_file({"--validation": validation, "--skip-bad-rows": skip_bad_rows})
        train, held = questions("train"), questions("validation")
        card: tuple[CardData, ...] = (
            CardData(name=WORLD, role="training", num_rows=len(train)),
            CardData(name=WORLD, role="validation", num_rows=len(held)),
        )
        return _Data(train, held, card, (f"data: {WORLD} (no file was given)",))
    reading = read_questions(data, skip_bad_rows=skip_bad_rows)
    remarks = [*reading.remarks, *skipped_rows(reading.bad)]
    card = card_of(reading, "training")
    if validation is not None:
        checking = read_questions(validation, skip_bad_rows=skip_bad_rows)
        remarks += [*checking.remarks, *skipped_rows(checking.bad)]
        remarks += overlap_remark(*([one.passage for one in side.examples] for side in (reading, checking)))
        return _Data(reading.examples, checking.examples, card + card_of(checking, "validation"), tuple(remarks))
    train, held = held_out(reading.examples, share=config.validation_share)
    passages = len({one.passage for one in held})
    remarks.append(held_remark(len(held), "question", f" about {number_of(passages, 'passage')}"))
    return _Data(train, held, card, tuple(remarks))


def held_out(asked: Sequence[Question], *, share: float) -> tuple[list[Question], list[Question]]:
    """Questions for training and for validation: about other passages, where there is more than one."""
    passages = list(dict.fromkeys(one.passage for one in asked))
    if len(passages) < 2:
        train, held = split_validation(len(asked), share=share)
        return [asked[number] for number in train], [asked[number] for number in held]
    _, drawn = split_validation(len(passages), share=share, maximum=MOST_HELD_OUT)
    chosen = {passages[number] for number in drawn}
    return [one for one in asked if one.passage not in chosen], [one for one in asked if one.passage in chosen]
