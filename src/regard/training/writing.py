"""From plain text to a writer: read, cut into tokens, hold the end out, train."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from regard.checkpoint.card import CardData
from regard.checkpoint.output import output_folder
from regard.config import from_dict, to_dict
from regard.data.corpus import Corpus, Ids, corpus_ids, learned_tokenizer, split_ids
from regard.data.world.stories import stories
from regard.errors import UsageError, unknown
from regard.generation.sampling import SamplingConfig
from regard.models.gpt import PRESETS, GPTConfig
from regard.tasks.generate import GenerateConfig, GenerateTask, Writer, make_gpt
from regard.text.tokenizer import Tokenizer
from regard.text.training import train_tokenizer
from regard.training.recipes import writing_recipe
from regard.training.runs import Budget, Run, RunOptions, carry_out, sort_settings
from regard.training.settings import TrainingConfig

SIZES = tuple(PRESETS)
WORLD = "the built-in world's stories"
KINDS = {"char": "char", "bpe": "byte-bpe"}
MOST_CHARACTERS = 1 << 16
MOST_HELD_OUT = 2_000_000  # tokens


def train_writer(
    data: Sequence[Path] | None,
    out: Path,
    *,
    validation: Sequence[Path] | None = None,
    size: str = "small",
    settings: Mapping[str, Any] | None = None,
    options: RunOptions | None = None,
) -> Run[Writer]:
    """Train a language model on text from files, or on the built-in world's stories if no files are given."""
    options = options or RunOptions()
    if size not in SIZES:
        raise unknown("size", size, SIZES)
    parts = sort_settings(settings or {}, (GPTConfig, TrainingConfig, GenerateConfig, SamplingConfig))
    bundle = writing_recipe(size)
    budget = Budget.settle({**bundle.training, **parts[TrainingConfig]}, out, resume=options.resume)
    config = from_dict(GenerateConfig, parts[GenerateConfig])
    sampling = from_dict(SamplingConfig, parts[SamplingConfig])
    if validation and not data:
        raise UsageError("--validation needs training files beside it; without files the built-in world is used.")
    with output_folder(out, resume=options.resume, force=options.force):
        tokenizer, train, held, names = _read(data, validation, config)
        task = GenerateTask(
            model=make_gpt(tokenizer, {**bundle.model, **parts[GPTConfig]}, seed=budget.config.seed),
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
        remarks = [] if data else [f"data: {WORLD} (no files were given)"]
        return carry_out(task, budget, out, options, described={"size": size}, remarks=remarks)


def _read(
    data: Sequence[Path] | None, validation: Sequence[Path] | None, config: GenerateConfig
) -> tuple[Tokenizer, Ids, Ids, tuple[str, str]]:
    """A tokenizer, ids to train on, ids to validate on, and what the two are called."""
    if not data:
        text = "\n\n".join(stories())
        tokenizer = _learn(iter([text]), config)
        train, held = _split(tokenizer.encode_array(text), config)
        return tokenizer, train, held, (WORLD, f"{WORLD}, the end")
    corpus = Corpus.find(data)
    tokenizer = learned_tokenizer(corpus, to_dict(config), lambda texts: _learn(texts, config))
    ids = corpus_ids(corpus, tokenizer)
    if validation:
        checking = Corpus.find(validation)
        return tokenizer, ids, corpus_ids(checking, tokenizer), (str(corpus), str(checking))
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
