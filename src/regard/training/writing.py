"""From plain text to a writer: read, cut into tokens, hold the end out, train.

Whatever can be wrong with a request is found before torch is loaded.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.checkpoint.card import CardData
from regard.checkpoint.output import check_output, output_folder
from regard.config import from_dict
from regard.data.corpus import Corpus, Ids, corpus_ids, learned_tokenizer, split_ids
from regard.data.world.stories import stories
from regard.errors import UsageError, unknown
from regard.generation.settings import SamplingConfig
from regard.models.gpt_settings import PRESETS, GPTConfig
from regard.nn.lora_settings import LoRAConfig
from regard.tasks.settings import GenerateConfig
from regard.text.tokenizer import Tokenizer
from regard.text.training import train_tokenizer
from regard.training.options import Budget, RunOptions, lora_settings, settled_folder, sort_settings
from regard.training.recipes import NOT_FOR_WRITERS, USUAL_SIZE, fine_tuning_recipe, writing_recipe
from regard.training.settings import TrainingConfig

if TYPE_CHECKING:
    from regard.models.gpt import GPT
    from regard.tasks.generate import Writer
    from regard.training.runs import Run

SIZES = tuple(PRESETS)
WORLD = "the built-in world's stories"
KINDS = {"char": "char", "bpe": "byte-bpe"}
MOST_CHARACTERS = 1 << 16
MOST_AT_ONCE = 1024  # tokens of a window where nothing else was said: a model may see more than a batch can hold
MOST_HELD_OUT = 300_000  # tokens: scoring more takes longer than it tells


def train_writer(
    data: Sequence[Path] | None,
    out: Path,
    *,
    validation: Sequence[Path] | None = None,
    size: str | None = None,
    from_: Path | str | None = None,
    lora: bool = False,
    settings: Mapping[str, Any] | None = None,
    options: RunOptions | None = None,
) -> Run[Writer]:
    """Train a language model on text from files, or on the built-in world's stories if no files are given.

    With `from_` a model goes on learning, whole or, with `lora`, in adapters; without it a new one of `size` begins.
    """
    options = options or RunOptions()
    if size is not None and size not in SIZES:
        raise unknown("size", size, SIZES)
    parts = sort_settings(settings or {}, (GPTConfig, TrainingConfig, GenerateConfig, SamplingConfig, LoRAConfig))
    for name in NOT_FOR_WRITERS:
        if parts[TrainingConfig].get(name):
            raise UsageError(
                f"{name} is for translators; a language model learns the plain cross-entropy. Leave it out."
            )
    adapters = lora_settings(parts[LoRAConfig], lora=lora, begins=from_ is not None)
    bundle = writing_recipe(size or USUAL_SIZE)
    shape = {**bundle.model, **parts[GPTConfig]}
    if from_ is None:
        from_dict(GPTConfig, {**shape, "vocab_size": 1})  # how many tokens there are is not known yet
    check_output(out, resume=options.resume, force=options.force)
    tuning = fine_tuning_recipe(lora=lora).training if from_ is not None else {}
    budget = Budget.settle({**bundle.training, **tuning, **parts[TrainingConfig]}, out, resume=options.resume)
    config = from_dict(GenerateConfig, parts[GenerateConfig])
    sampling = from_dict(SamplingConfig, parts[SamplingConfig])
    if validation and not data:
        raise UsageError("--validation needs training files beside it; without files the built-in world is used.")
    corpus, checking = (Corpus.find(files) if files else None for files in (data, validation))
    begun = None
    if from_ is not None:
        begun = _begin(str(from_), out, size=size, parts=parts, config=config)
        config, sampling = begun.config, begun.sampling
    from regard.tasks.generate import GenerateTask, make_gpt
    from regard.training.beginning import Beginning
    from regard.training.runs import carry_out

    with output_folder(out, resume=options.resume, force=options.force):
        remarks = [remark for files in (corpus, checking) if files for remark in files.remarks()]
        remarks += [] if data else [f"data: {WORLD} (no files were given)"]
        tokenizer, train, held, names = _read(corpus, checking, config, begun.tokenizer if begun else None)
        if len(held) > MOST_HELD_OUT:
            remarks.append(f"validation: the first {MOST_HELD_OUT:,} of {len(held):,} tokens, to save time")
            held = held[:MOST_HELD_OUT]
        if begun:
            model, described = begun.model, {}
            beginning = Beginning.of(str(from_), begun.folder, model, lora=adapters, seed=budget.config.seed)
        else:
            model = make_gpt(tokenizer, shape, seed=budget.config.seed)
            beginning, described = None, {"size": size or USUAL_SIZE}
        task = GenerateTask(
            model=model,
            tokenizer=tokenizer,
            train=train,
            validation=held,
            config=config,
            data=(
                CardData(name=names[0], role="training", num_rows=len(train)),
                CardData(name=names[1], role="validation", num_rows=len(held)),
            ),
            sampling=sampling,
        )
        remarks += [beginning.remark(model)] if beginning else []
        return carry_out(task, budget, out, options, described=described, remarks=remarks, beginning=beginning)


@dataclass(frozen=True)
class _Begun:
    """What a folder and the settings given beside it say together."""

    folder: Path
    model: GPT
    tokenizer: Tokenizer
    config: GenerateConfig
    sampling: SamplingConfig


def _begin(
    name: str, out: Path, *, size: str | None, parts: Mapping[type, Mapping[str, Any]], config: GenerateConfig
) -> _Begun:
    """A model to go on with. Its shape and its tokenizer are settled; dropout and the window belong to the training."""
    folder = settled_folder(name, out, {"size": size, **parts[GenerateConfig]}, settled=("size", "tokens", "pieces"))
    from regard.checkpoint.folder import load_into, own_tensors
    from regard.models.gpt import GPT
    from regard.tasks.folders import load_writer
    from regard.training.beginning import refuse_contradictions

    writer = load_writer(folder)
    given, found = parts[GPTConfig], writer.model.config
    refuse_contradictions(given, found, name=name, free=("dropout",), advice=_shorter(given, found))
    model = writer.model
    if given.get("dropout", found.dropout) != found.dropout:
        model = GPT(dataclasses.replace(found, dropout=given["dropout"]))
        load_into(model, own_tensors(writer.model))
    config = dataclasses.replace(
        config,
        tokens="char" if writer.tokenizer.kind == "char" else "bpe",
        pieces=writer.tokenizer.vocab_size,
        window=config.window or min(found.context, MOST_AT_ONCE),
    )
    return _Begun(folder, model, writer.tokenizer, config, writer.config(dict(parts[SamplingConfig])))


def _shorter(given: Mapping[str, Any], found: GPTConfig) -> str:
    asked = given.get("context", found.context)
    return f"To learn from shorter stretches of the text give --window {asked}." if asked < found.context else ""


def _read(
    corpus: Corpus | None, validation: Corpus | None, config: GenerateConfig, known: Tokenizer | None
) -> tuple[Tokenizer, Ids, Ids, tuple[str, str]]:
    """A tokenizer (the known one, if there is), ids to train on, ids to validate on, and what the two are called."""
    if corpus is None:
        text = "\n\n".join(stories())
        tokenizer = known or _learn(iter([text]), config)
        train, held = _split(tokenizer.encode_array(text), config)
        return tokenizer, train, held, (WORLD, f"{WORLD}, the end")
    tokenizer = known or learned_tokenizer(
        corpus, {"tokens": config.tokens, "pieces": config.pieces}, lambda texts: _learn(texts, config)
    )
    ids = corpus_ids(corpus, tokenizer)
    if validation is not None:
        return tokenizer, ids, corpus_ids(validation, tokenizer), (str(corpus), str(validation))
    train, held = _split(ids, config)
    return tokenizer, train, held, (str(corpus), f"{corpus}, the end")


def _split(ids: Ids, config: GenerateConfig) -> tuple[Ids, Ids]:
    return split_ids(ids, share=config.validation_share, most=MOST_HELD_OUT)


def _learn(texts: Iterator[str], config: GenerateConfig) -> Tokenizer:
    pieces = MOST_CHARACTERS if config.tokens == "char" else config.pieces
    try:
        return train_tokenizer(texts, kind=KINDS[config.tokens], vocab_size=pieces)
    except UsageError as error:
        raise UsageError(f"--tokens {config.tokens} with --pieces {config.pieces}: {error}") from None
