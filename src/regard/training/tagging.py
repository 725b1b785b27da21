"""From tagged sentences to a tagger: read, check the tags, hold some out, train.

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
from regard.data.batches import hold_out
from regard.data.files import Reading, skipped_rows
from regard.data.labelled import refuse_unseen, require_two_labels
from regard.data.tagged import Tagged, read_tagged
from regard.data.world.tagging import named_entities
from regard.errors import UsageError, number_of
from regard.metrics.score import Score
from regard.models.bert_settings import HeadConfig
from regard.tasks.settings import LabelConfig
from regard.training.encoders import Request, card_of, held_remark, only_file, overlap_remark, refuse_without_file
from regard.training.options import RunOptions

if TYPE_CHECKING:
    from regard.tasks.tag import Tagger
    from regard.training.runs import Run

WORLD = "the built-in world's names"


@dataclass(frozen=True, kw_only=True)
class TagFiles:
    """Which files, and how they are read."""

    data: Path | None = None
    validation: Path | None = None
    tag_column: str | None = None
    repair_tags: bool = False
    skip_bad_rows: bool = False

    def read(self, path: Path) -> Reading[Tagged]:
        return read_tagged(
            path, tag_column=self.tag_column, repair_tags=self.repair_tags, skip_bad_rows=self.skip_bad_rows
        )


def train_tags(
    data: Sequence[Path] | None,
    out: Path,
    *,
    validation: Sequence[Path] | None = None,
    tag_column: str | None = None,
    repair_tags: bool = False,
    skip_bad_rows: bool = False,
    size: str | None = None,
    from_: Path | str | None = None,
    lora: bool = False,
    settings: Mapping[str, Any] | None = None,
    options: RunOptions | None = None,
) -> Run[Tagger]:
    """Train a tagger on a file of CoNLL columns or CoNLL-U, or on the built-in world's names."""
    options = options or RunOptions()
    files = TagFiles(
        data=only_file(data, "training", "tags are read from one"),
        validation=only_file(validation, "validation", "tags are read from one"),
        tag_column=tag_column,
        repair_tags=repair_tags,
        skip_bad_rows=skip_bad_rows,
    )
    request = Request.check(settings or {}, out, size=size, from_=from_, lora=lora, options=options)
    if request.config.class_weights != "none":
        raise UsageError("--class-weights are for texts with one label each, not for tags.")
    found = _read(files, request.config)
    budget = request.budget(len(found.train), out, resume=options.resume)
    from regard.tasks.labelling import layer_rates
    from regard.tasks.tag import TagTask, make_tagger_model
    from regard.training.runs import carry_out

    with output_folder(out, resume=options.resume, force=options.force):
        texts = [" ".join(one.words) for one in found.train]
        ready = request.model_for(found.head, make_tagger_model, texts, seed=budget.config.seed)
        config = ready.config(request.config)
        task = TagTask(
            model=ready.model,
            tokenizer=ready.tokenizer,
            head=found.head,
            sentences=(found.train, found.validation),
            config=config,
            data=found.card,
        )
        # A long sentence is several rows, and how many is known only now.
        budget = request.budget(len(task.train), out, resume=options.resume)
        return carry_out(
            task,
            budget,
            out,
            options,
            described=ready.described,
            remarks=[*found.remarks, *ready.remarks, *_windows_remark(task.train, found.train, config)],
            beginning=ready.beginning,
            rates=layer_rates(ready.model.bert, config.layer_decay),
        )


def _windows_remark(rows: Sequence[object], sentences: Sequence[object], config: LabelConfig) -> list[str]:
    more = len(rows) - len(sentences)
    if not more:
        return []
    windows = number_of(more, "more window")
    return [f"length: sentences beyond --max-tokens {config.max_tokens} are read in {windows}, none is cut"]


def score_tag_file(model: Tagger, files: TagFiles) -> tuple[list[Score], list[str]]:
    """The scores of a tagger on a file, and what there is to say about the file."""
    from regard.tasks.tag import commonest_baseline, score_tags

    assert files.data is not None, "a file to score on"
    reading = _known_only(files.read(files.data), files.data, model.head, skip_bad_rows=files.skip_bad_rows)
    held = reading.examples
    found = model([one.words for one in held])
    scores = score_tags([one.tags for one in found], [one.tags for one in held], model.head.labels)
    scores += commonest_baseline(model.commonest, held, model.head.labels)
    return scores, [*reading.remarks, *skipped_rows(reading.bad)]


# --- Data --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Data:
    train: Sequence[Tagged]
    validation: Sequence[Tagged]
    head: HeadConfig
    card: tuple[CardData, ...]
    remarks: tuple[str, ...]


def _read(files: TagFiles, config: LabelConfig) -> _Data:
    if files.data is None:
        files_only = {
            "--validation": files.validation,
            "--tag-column": files.tag_column,
            "--repair-tags": files.repair_tags,
            "--skip-bad-rows": files.skip_bad_rows,
        }
        refuse_without_file(files_only)
        train, held = named_entities("train"), named_entities("validation")
        card: tuple[CardData, ...] = (
            CardData(name=WORLD, role="training", num_rows=len(train)),
            CardData(name=WORLD, role="validation", num_rows=len(held)),
        )
        return _Data(train, held, _head(train), card, (f"data: {WORLD} (no file was given)",))
    reading = files.read(files.data)
    head = _head(reading.examples)
    require_two_labels(head.labels, files.data, len(reading.examples))
    remarks = [*reading.remarks, *skipped_rows(reading.bad)]
    card = card_of(reading, "training")
    if files.validation is not None:
        checking = files.read(files.validation)
        checking = _known_only(checking, files.validation, head, skip_bad_rows=files.skip_bad_rows)
        remarks += [*checking.remarks, *skipped_rows(checking.bad)]
        remarks += overlap_remark(*([one.words for one in side.examples] for side in (reading, checking)))
        return _Data(reading.examples, checking.examples, head, card + card_of(checking, "validation"), tuple(remarks))
    sentences = reading.examples
    words, tags = [one.words for one in sentences], [one.tags for one in sentences]
    train, held = ([sentences[n] for n in part] for part in hold_out(words, tags, share=config.validation_share))
    remarks.append(held_remark(len(held), "sentence"))
    return _Data(train, held, head, card, tuple(remarks))


def _known_only(reading: Reading[Tagged], path: Path, head: HeadConfig, *, skip_bad_rows: bool) -> Reading[Tagged]:
    return refuse_unseen(reading, path, head.labels, lambda one: one.tags, skip_bad_rows=skip_bad_rows)


def _head(sentences: Sequence[Tagged]) -> HeadConfig:
    labels = sorted({tag for one in sentences for tag in one.tags})
    return HeadConfig(kind="tokens", labels=tuple(labels))
