"""From pairs of sentences to a translator: read, hold some out, train.

Whatever can be wrong with a request or its data is found before torch is loaded.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.checkpoint.card import CardData
from regard.checkpoint.output import check_output, output_folder
from regard.config import from_dict
from regard.data.batches import split_validation
from regard.data.files import skipped_rows
from regard.data.pairs import Pair, Reading, read_pairs
from regard.data.world.translation import sentences
from regard.errors import DataError, UsageError, unknown
from regard.generation.settings import SearchConfig
from regard.models.transformer_settings import PRESETS, TransformerConfig
from regard.tasks.settings import TranslateConfig
from regard.training.options import Budget, RunOptions, sort_settings
from regard.training.recipes import RECIPES, translation_recipe, usual_recipe
from regard.training.settings import TrainingConfig

if TYPE_CHECKING:
    from regard.tasks.translate import Translator
    from regard.training.runs import Run

SIZES = tuple(PRESETS)
WORLD = "the built-in world"


@dataclass(frozen=True)
class _Data:
    train: Sequence[Pair]
    validation: Sequence[Pair]
    card: tuple[CardData, ...]
    remarks: tuple[str, ...] = ()


def train_translation(
    data: Sequence[Path] | None,
    out: Path,
    *,
    validation: Sequence[Path] | None = None,
    columns: tuple[str, str] | None = None,
    reverse: bool = False,
    skip_bad_rows: bool = False,
    size: str = "small",
    recipe: str | None = None,
    settings: Mapping[str, Any] | None = None,
    options: RunOptions | None = None,
) -> Run[Translator]:
    """Train a translator on pairs from files, or on the built-in world if no files are given.

    Without a `recipe` the size's own is used: `paper` for the published ones (transformer-…), else `default`.
    """
    options = options or RunOptions()
    if size not in SIZES:
        raise unknown("size", size, SIZES)
    recipe = usual_recipe(size) if recipe is None else recipe
    if recipe not in RECIPES:
        raise unknown("recipe", recipe, RECIPES)
    parts = sort_settings(settings or {}, (TransformerConfig, TrainingConfig, TranslateConfig, SearchConfig))
    bundle = translation_recipe(
        recipe,
        size,
        width=parts[TransformerConfig].get("width"),
        warmup_steps=parts[TrainingConfig].get("warmup_steps"),
    )
    shape = {**bundle.model, **parts[TransformerConfig]}
    from_dict(TransformerConfig, {**shape, "vocab_size": 1})  # how many pieces there are is not known yet
    check_output(out, resume=options.resume, force=options.force)
    budget = Budget.settle({**bundle.training, **parts[TrainingConfig]}, out, resume=options.resume)
    config = from_dict(TranslateConfig, parts[TranslateConfig])
    search = from_dict(SearchConfig, parts[SearchConfig])
    pairs = _read(data, validation, columns=columns, reverse=reverse, skip_bad_rows=skip_bad_rows)
    from regard.tasks.translate import TranslateTask, Vocabularies, make_model
    from regard.training.runs import carry_out

    with output_folder(out, resume=options.resume, force=options.force):
        vocabularies = Vocabularies.train(pairs.train, config)
        task = TranslateTask(
            model=make_model(vocabularies, shape, seed=budget.config.seed),
            vocabularies=vocabularies,
            train=pairs.train,
            validation=pairs.validation,
            config=config,
            data=pairs.card,
            label_smoothing=budget.config.label_smoothing,
            search=search,
        )
        left_out = [
            f"left out: {count:,} {role} pairs longer than {config.max_length} pieces"
            for count, role in zip(task.left_out, ("training", "validation"), strict=True)
            if count
        ]
        return carry_out(
            task,
            budget,
            out,
            options,
            described={"recipe": recipe, "size": size, "reverse": reverse},
            remarks=[*pairs.remarks, *left_out],
        )


def _read(
    data: Sequence[Path] | None,
    validation: Sequence[Path] | None,
    *,
    columns: tuple[str, str] | None,
    reverse: bool,
    skip_bad_rows: bool,
) -> _Data:
    if not data:
        for flag, given in (("--validation", validation), ("--columns", columns), ("--skip-bad-rows", skip_bad_rows)):
            if given:
                raise UsageError(f"{flag} needs training files beside it; without files the built-in world is used.")
        sets = {split: [Pair(s.source, s.target) for s in sentences(split)] for split in ("train", "validation")}
        roles = {"train": "training", "validation": "validation"}
        card = tuple(CardData(name=WORLD, role=roles[split], num_rows=len(rows)) for split, rows in sets.items())
        found = _Data(sets["train"], sets["validation"], card, (f"data: {WORLD} (no files were given)",))
    else:
        reading = read_pairs(data, columns=columns, skip_bad_rows=skip_bad_rows)
        remarks = [*reading.remarks, *skipped_rows(reading.bad)]
        if validation:
            checking = read_pairs(validation, columns=columns, skip_bad_rows=skip_bad_rows)
            train, held = reading.pairs, checking.pairs
            remarks += [*checking.remarks, *skipped_rows(checking.bad)]
        else:
            train, held = _hold_out(reading.pairs, data)
            remarks.append(f"validation: {len(held):,} pairs held out of the training file (no --validation was given)")
        # Held-out sentences often stand in the order of the file; the few that are scored should not.
        held = random.Random(0).sample(held, len(held))
        card = _card_data(reading, "training", len(train))
        if validation:
            card += _card_data(checking, "validation", len(held))
        found = _Data(train, held, card, tuple(remarks))
    if reverse:
        train, held = ([pair.reversed() for pair in side] for side in (found.train, found.validation))
        found = _Data(train, held, found.card, (*found.remarks, "direction: second language → first"))
    return found


def _hold_out(pairs: Sequence[Pair], files: Sequence[Path]) -> tuple[list[Pair], list[Pair]]:
    """Training and validation pairs. A source that occurs several times goes to one side with all its pairs."""
    sources = list(dict.fromkeys(pair.source for pair in pairs))
    if len(sources) < 2:
        what = "one pair" if len(pairs) == 1 else f"{len(pairs):,} pairs with one and the same source"
        raise DataError(f"{' and '.join(map(str, files))} holds {what}; training needs at least 2, better thousands.")
    held = {sources[i] for i in split_validation(len(sources))[1]}
    return [pair for pair in pairs if pair.source not in held], [pair for pair in pairs if pair.source in held]


def _card_data(reading: Reading, role: str, rows: int) -> tuple[CardData, ...]:
    files = reading.checksums.items()
    return tuple(CardData(name=Path(path).name, role=role, num_rows=rows, sha256=checksum) for path, checksum in files)
