"""A whole training, from files to a model folder: read, prepare, train, score, write, report.

The loop knows no task and the task knows no loop; here they meet. `settings` are flat: each goes to the config
that has a field of its name, and a name that no config has raises with the nearest one.
"""

from __future__ import annotations

import dataclasses
import platform
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

from regard.checkpoint.atomic import is_edited_card
from regard.checkpoint.card import Card, CardData, CardScore, model_card
from regard.checkpoint.folder import CARD, own_tensors, write_model
from regard.checkpoint.output import clear_output, output_folder
from regard.checkpoint.training_state import last_good_checkpoint
from regard.config import from_dict, to_dict
from regard.data.batches import split_validation
from regard.data.pairs import BadRow, Pair, Reading, read_pairs
from regard.data.world.translation import sentences
from regard.errors import DataError, FolderError, UsageError, unknown
from regard.generation.search import SearchConfig
from regard.metrics.translation import Score
from regard.models.transformer import PRESETS, TransformerConfig
from regard.tasks.task import Sample
from regard.tasks.translate import TranslateConfig, TranslateTask, Translator, Vocabularies, make_model
from regard.training.choices import Choice, choose_device
from regard.training.loop import BUDGET, InterruptedRunError, Position, Trainer
from regard.training.memory import keep_freed_memory
from regard.training.progress import Progress, Silent
from regard.training.recipes import RECIPES, translation_recipe
from regard.training.report import write_report
from regard.training.settings import TrainingConfig

DEFAULT_MINUTES = 10.0
SIZES = tuple(PRESETS)
WORLD = "the built-in world"
NOT_SET = ("vocab_size", "source_vocab_size", "architecture")  # follow from data and task
LISTED = 20  # bad rows that are named one by one


@dataclass(frozen=True)
class TranslationRun:
    """What came out of a training."""

    translator: Translator
    folder: Path
    position: Position
    scores: Sequence[Score]
    samples: Sequence[Sample]
    scored_on: str


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
    recipe: str = "default",
    device: str = "auto",
    save_every: float = 60.0,
    resume: bool = False,
    force: bool = False,
    progress: Progress | None = None,
    settings: Mapping[str, Any] | None = None,
) -> TranslationRun:
    """Train a translator on pairs from files, or on the built-in world if no files are given."""
    progress = progress or Silent()
    if size not in SIZES:
        raise unknown("size", size, SIZES)
    if recipe not in RECIPES:
        raise unknown("recipe", recipe, RECIPES)
    if not save_every > 0:
        raise UsageError(f"save_every must be more than 0 seconds, not {save_every}.")
    parts = sort_settings(settings or {}, (TransformerConfig, TrainingConfig, TranslateConfig, SearchConfig))
    bundle = translation_recipe(
        recipe,
        size,
        width=parts[TransformerConfig].get("width"),
        warmup_steps=parts[TrainingConfig].get("warmup_steps"),
    )
    training = {**bundle.training, **parts[TrainingConfig]}
    budget = ""
    if training.get("steps") is None and training.get("minutes") is None:
        training |= (_earlier_budget(out) if resume else {}) or {"minutes": DEFAULT_MINUTES}
        spent = f"{training['minutes']:g} minutes" if training.get("minutes") else f"{training['steps']:,} steps"
        budget = f"budget: {spent} (neither --steps nor --minutes was given)"
    training_config = from_dict(TrainingConfig, training)
    task_config = from_dict(TranslateConfig, parts[TranslateConfig])
    chosen_device = choose_device(device)
    pairs = _read(data, validation, columns=columns, reverse=reverse, skip_bad_rows=skip_bad_rows)
    with output_folder(out, resume=resume, force=force):
        vocabularies = Vocabularies.train(pairs.train, task_config)
        model = make_model(vocabularies, {**bundle.model, **parts[TransformerConfig]}, seed=training_config.seed)
        task = TranslateTask(
            model=model.to(chosen_device.value),
            vocabularies=vocabularies,
            train=pairs.train,
            validation=pairs.validation,
            config=task_config,
            data=pairs.card,
            label_smoothing=training_config.label_smoothing,
            search=from_dict(SearchConfig, parts[SearchConfig]),
        )
        choices = [str(choice) for choice in (chosen_device, _threads(), keep_freed_memory())] + list(pairs.remarks)
        choices += [budget] if budget else []
        for count, role in zip(task.left_out, ("training", "validation"), strict=True):
            if count:
                choices.append(f"left out: {count:,} {role} pairs longer than {task_config.max_length} pieces")
        for line in (_describe(task), *choices):
            progress.say(line)
        identity = {**to_dict(task.model.config), **to_dict(task_config), "examples": task.examples()}
        trainer = Trainer(task, training_config, out, save_every=save_every, progress=progress, identity=identity)
        if force:  # an earlier run goes only when nothing is left that could be wrong with this one
            clear_output(out)
        described = {"recipe": recipe, "size": size, "reverse": reverse}
        return _train_and_write(trainer, task, choices, described, resume=resume)


def _train_and_write(
    trainer: Trainer, task: TranslateTask, choices: Sequence[str], described: Mapping[str, Any], *, resume: bool
) -> TranslationRun:
    """`described` are the settings that no config holds."""
    progress, out = trainer.progress, trainer.run_folder
    position = trainer.run(resume=resume)
    try:
        # The model comes first: whatever happens to its scores, it is there.
        _write_model(out, task, trainer.config, (), described)
        progress.say("translating the validation sentences to score them")
        scores, samples = task.evaluate()
        _write_model(out, task, trainer.config, scores, described)
        run = TranslationRun(task.translator(), out, position, scores, samples, task.scored_on)
        write_report(
            out,
            title=out.name,
            scores=scores,
            samples=samples,
            settings=_settings(task, trainer.config, described),
            notes=[*choices, f"scores: on {task.scored_on}"],
            translator=run.translator,
        )
    except KeyboardInterrupt:
        raise InterruptedRunError(
            f"stopped by Ctrl-C after the training, which is saved. Have the model scored with: --out {out} --resume"
        ) from None
    except FolderError as error:
        raise FolderError(
            f"{error} The training is saved: have the model written with --out {out} --resume."
        ) from error
    return run


def sort_settings(settings: Mapping[str, Any], owners: Sequence[type]) -> dict[type, dict[str, Any]]:
    """Give each setting to the config that has a field of its name."""
    fields = {owner: {field.name for field in dataclasses.fields(owner)} for owner in owners}
    parts: dict[type, dict[str, Any]] = {owner: {} for owner in owners}
    for name, value in settings.items():
        owner = next((owner for owner in owners if name in fields[owner]), None)
        if owner is None or name in NOT_SET:
            raise unknown("setting", name, set().union(*fields.values()).difference(NOT_SET))
        parts[owner][name] = value
    return parts


def _earlier_budget(out: Path) -> dict[str, Any]:
    """How long the run that is resumed was meant to be."""
    checkpoint = last_good_checkpoint(out)
    identity = checkpoint.state["identity"] if checkpoint else {}
    return {name: identity[name] for name in BUDGET if identity.get(name) is not None}


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
        remarks = skipped_rows(reading.bad)
        if validation:
            checking = read_pairs(validation, columns=columns, skip_bad_rows=skip_bad_rows)
            train, held = reading.pairs, checking.pairs
            remarks += skipped_rows(checking.bad)
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


def skipped_rows(bad: Sequence[BadRow]) -> list[str]:
    """How many rows were left out, and which."""
    if not bad:
        return []
    more = [f"  … and {len(bad) - LISTED:,} more"] if len(bad) > LISTED else []
    return [f"skipped: {len(bad):,} bad rows", *(f"  {row}" for row in bad[:LISTED]), *more]


def _card_data(reading: Reading, role: str, rows: int) -> tuple[CardData, ...]:
    files = reading.checksums.items()
    return tuple(CardData(name=Path(path).name, role=role, num_rows=rows, sha256=checksum) for path, checksum in files)


def _describe(task: TranslateTask) -> str:
    config = task.model.config
    parameters = sum(param.numel() for param in task.model.parameters())
    return (
        f"model: {parameters / 1e6:.2f} M parameters, {config.encoder_layers}+{config.decoder_layers} layers, "
        f"width {config.width}, {task.vocabularies.target.vocab_size:,} pieces; "
        f"data: {len(task.lengths()):,} training and {len(task.validation):,} validation pairs"
    )


def _threads() -> Choice:
    threads = torch.get_num_threads()
    return Choice("threads", str(threads), f"torch's choice for {platform.machine()}")


def _settings(task: TranslateTask, training: TrainingConfig, described: Mapping[str, Any]) -> dict[str, Any]:
    configs = (training, task.model.config, task.config, task.search)
    return {**described, **{name: value for config in configs for name, value in to_dict(config).items()}}


def _write_model(
    folder: Path,
    task: TranslateTask,
    training: TrainingConfig,
    scores: Sequence[Score],
    described: Mapping[str, Any],
) -> None:
    contents = task.contents()
    card = Card(
        title=folder.name,
        summary=task.summary,
        task=task.name,
        num_parameters=sum(param.numel() for param in task.model.parameters()),
        data=tuple(task.data),
        settings=_settings(task, training, described),
        scores=tuple(CardScore(metric=s.name, value=s.value, on=task.scored_on, signature=s.signature) for s in scores),
        command=f'regard translate {folder} "…"\nregard look {folder} "…" --out look.html',
        python=f'import regard\n\ntranslator = regard.load("{folder.as_posix()}")\ntranslator("…").text',
        versions={package: version(package) for package in ("regard", "torch", "tokenizers")},
        pipeline="translation",
    )
    texts = dict(contents.texts)
    if not is_edited_card(folder, CARD):
        texts[CARD] = model_card(card)
    config = {**contents.config, "training": {**described, **to_dict(training)}}
    write_model(folder, config=config, tensors=own_tensors(task.model), texts=texts, force=True)
