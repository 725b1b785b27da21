"""From beginnings with several endings to a model that knows which fits: read, hold some out, train."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.checkpoint.card import CardData
from regard.checkpoint.output import output_folder
from regard.data.batches import hold_out
from regard.data.endings import Choice, read_endings
from regard.data.files import Reading, skipped_rows
from regard.data.labelled import without
from regard.errors import UsageError, number_of
from regard.metrics.score import Score
from regard.training.encoders import Request, card_of, held_remark, length_remark, overlap_remark
from regard.training.options import RunOptions

if TYPE_CHECKING:
    from regard.tasks.choose import Chooser
    from regard.training.runs import Run


def train_chooser(
    data: Path,
    out: Path,
    *,
    validation: Path | None = None,
    skip_bad_rows: bool = False,
    size: str | None = None,
    from_: Path | str | None = None,
    lora: bool = False,
    settings: Mapping[str, Any] | None = None,
    options: RunOptions | None = None,
) -> Run[Chooser]:
    """Train a model that chooses among endings, on a table such as SWAG's."""
    options = options or RunOptions()
    request = Request.check(settings or {}, out, size=size, from_=from_, lora=lora, options=options)
    if request.config.class_weights != "none":
        raise UsageError("--class-weights balanced is for texts with one label each, not for endings.")
    found = _read(data, validation, share=request.config.validation_share, skip_bad_rows=skip_bad_rows)
    budget = request.budget(len(found.choices[0]), out, resume=options.resume)
    from regard.tasks.choose import HEAD, ChooseTask, make_chooser_model
    from regard.tasks.labelling import layer_rates
    from regard.training.runs import carry_out

    with output_folder(out, resume=options.resume, force=options.force):
        words = [" ".join((one.first, *one.endings)) for one in found.choices[0]]
        ready = request.model_for(HEAD, make_chooser_model, words, seed=budget.config.seed)
        config = ready.config(request.config)
        doing = ChooseTask(
            model=ready.model, tokenizer=ready.tokenizer, choices=found.choices, config=config, data=found.card
        )
        return carry_out(
            doing,
            budget,
            out,
            options,
            described=ready.described,
            remarks=[*found.remarks, *ready.remarks, *length_remark(doing.train, config, "endings")],
            beginning=ready.beginning,
            rates=layer_rates(ready.model.bert, config.layer_decay),
        )


def score_endings(model: Chooser, path: Path, *, skip_bad_rows: bool = False) -> tuple[list[Score], list[str]]:
    """The scores of a model on a table of endings, and what there is to say about the table."""
    from regard.tasks.choose import score_choices

    reading = read_endings(path, skip_bad_rows=skip_bad_rows)
    found = model([(one.first, one.endings) for one in reading.examples])
    gold = [one.right for one in reading.examples if one.right is not None]
    return score_choices([one.place for one in found], gold, model.commonest), skipped_rows(reading.bad)


@dataclass(frozen=True)
class _Data:
    """The choices of training and of validation."""

    choices: tuple[list[Choice], list[Choice]]
    card: tuple[CardData, ...]
    remarks: tuple[str, ...]


def _read(data: Path, validation: Path | None, *, share: float, skip_bad_rows: bool) -> _Data:
    reading = read_endings(data, skip_bad_rows=skip_bad_rows)
    counts = Counter(len(one.endings) for one in reading.examples)
    endings = counts.most_common(1)[0][0]
    reading = _alike(reading, data, endings, skip_bad_rows=skip_bad_rows)
    card, remarks = card_of(reading, "training"), [f"data: {endings} endings a row", *skipped_rows(reading.bad)]
    if validation is None:
        train, held = _held_out(reading, share=share)
        remarks.append(held_remark(len(held), "example"))
        return _Data((train, held), card, tuple(remarks))
    checking = read_endings(validation, skip_bad_rows=skip_bad_rows)
    checking = _alike(checking, validation, endings, skip_bad_rows=skip_bad_rows)
    remarks += [*skipped_rows(checking.bad), *overlap_remark(_texts(reading.examples), _texts(checking.examples))]
    return _Data((reading.examples, checking.examples), card + card_of(checking, "validation"), tuple(remarks))


def _alike(reading: Reading[Choice], path: Path, endings: int, *, skip_bad_rows: bool) -> Reading[Choice]:
    """`reading`, in which there must be as many endings everywhere: they are learned side by side."""

    def fault(one: Choice) -> str | None:
        count = len(one.endings)
        return None if count == endings else f"{number_of(count, 'ending')} where {endings} are expected"

    return without(reading, path, fault, skip_bad_rows=skip_bad_rows)


def _held_out(reading: Reading[Choice], *, share: float) -> tuple[list[Choice], list[Choice]]:
    """Choices for training and for validation; what begins alike stays together."""
    firsts = [one.first for one in reading.examples]
    parts = hold_out(firsts, [()] * len(firsts), share=share)
    train, held = ([reading.examples[number] for number in part] for part in parts)
    return train, held


def _texts(choices: Sequence[Choice]) -> list[tuple[str, ...]]:
    return [(one.first, *one.endings) for one in choices]
