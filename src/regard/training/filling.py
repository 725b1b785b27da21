"""From plain text to a filler of gaps: read, cut into documents and sentences, hold the end out, train.

Whatever can be wrong with a request is found before torch is loaded.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.checkpoint.card import CardData
from regard.checkpoint.output import check_output, output_folder
from regard.config import from_dict
from regard.data.corpus import Corpus, learned_tokenizer
from regard.data.documents import Documents, documents_of, read_documents
from regard.data.sentence_pairs import longest_sentence
from regard.data.world.stories import stories
from regard.errors import UsageError, unknown
from regard.models.bert_settings import PRESETS, BertConfig
from regard.tasks.settings import FillConfig
from regard.text.tokenizer import BERT_SYMBOLS, Tokenizer
from regard.text.training import train_tokenizer
from regard.training.options import Budget, RunOptions, sort_settings
from regard.training.recipes import NOT_FOR_FILLERS, USUAL_ENCODER, filling_recipe
from regard.training.settings import TrainingConfig

if TYPE_CHECKING:
    from regard.tasks.fill import Filler
    from regard.training.runs import Run

SIZES = tuple(PRESETS)
WORLD = "the built-in world's stories"
MOST_HELD_OUT = 300_000  # pieces


def train_filler(
    data: Sequence[Path] | None,
    out: Path,
    *,
    validation: Sequence[Path] | None = None,
    size: str | None = None,
    settings: Mapping[str, Any] | None = None,
    options: RunOptions | None = None,
) -> Run[Filler]:
    """Pre-train a BERT on text from files, or on the built-in world's stories if no files are given."""
    options = options or RunOptions()
    if size is not None and size not in SIZES:
        raise unknown("size", size, SIZES)
    parts = sort_settings(settings or {}, (BertConfig, TrainingConfig, FillConfig))
    for name in NOT_FOR_FILLERS:
        if parts[TrainingConfig].get(name):
            raise UsageError(
                f"{name} is for translators; hidden words are learned by plain cross-entropy. Leave it out."
            )
    bundle = filling_recipe(size or USUAL_ENCODER)
    shape = {**bundle.model, **parts[BertConfig]}
    context = from_dict(BertConfig, {**shape, "vocab_size": 1}).context  # how many pieces there are is not known yet
    check_output(out, resume=options.resume, force=options.force)
    budget = Budget.settle({**bundle.training, **parts[TrainingConfig]}, out, resume=options.resume)
    config = from_dict(FillConfig, parts[FillConfig])
    if validation and not data:
        raise UsageError("--validation needs training files beside it; without files the built-in world is used.")
    longest = longest_sentence(config.window or context)
    corpus, checking = (Corpus.find(files) if files else None for files in (data, validation))
    from regard.tasks.fill import FillTask, fresh_bert
    from regard.training.runs import carry_out

    with output_folder(out, resume=options.resume, force=options.force):
        tokenizer, train, held, names = _read(corpus, checking, config, longest)
        remarks = [remark for files in (corpus, checking) if files for remark in files.remarks()]
        remarks += [] if data else [f"data: {WORLD} (no files were given)"]
        if config.next_sentence and (reason := _no_pairs(train)):
            remarks.append(f"next sentence: not learned ({reason}; a blank line or a heading begins a document)")
            config = dataclasses.replace(config, next_sentence=False)
        task = FillTask(
            model=fresh_bert(
                tokenizer, shape, next_sentence=config.next_sentence, seed=budget.config.seed, ids=train.ids
            ),
            tokenizer=tokenizer,
            train=train,
            validation=held,
            config=config,
            data=(
                CardData(name=names[0], role="training", num_rows=len(train.ids)),
                CardData(name=names[1], role="validation", num_rows=len(held.ids)),
            ),
        )
        return carry_out(task, budget, out, options, described={"size": size or USUAL_ENCODER}, remarks=remarks)


def _no_pairs(documents: Documents) -> str:
    """Why a text has no pairs of sentences to learn from; nothing if it has."""
    if len(documents) < 2:
        return "the text is one document, and a sentence that does not follow comes from another one"
    if documents.num_sentences == len(documents):
        return "every document is a single sentence, and none follows"
    return ""


def _read(
    corpus: Corpus | None, validation: Corpus | None, config: FillConfig, longest: int
) -> tuple[Tokenizer, Documents, Documents, tuple[str, str]]:
    """A tokenizer, documents to train on, documents to validate on, and what the two are called."""
    if corpus is None:
        texts = stories()
        tokenizer = _learn(iter(texts), config)
        train, held = _split(documents_of(texts, tokenizer, longest=longest), config)
        return tokenizer, train, held, (WORLD, f"{WORLD}, the end")
    tokenizer = learned_tokenizer(
        corpus,
        {"tokens": "wordpiece", "pieces": config.pieces, "lowercase": config.lowercase},
        lambda texts: _learn(texts, config),
    )
    documents = read_documents(corpus, tokenizer, longest=longest)
    if validation is not None:
        held = read_documents(validation, tokenizer, longest=longest)
        return tokenizer, documents, held, (str(corpus), str(validation))
    train, held = _split(documents, config)
    return tokenizer, train, held, (str(corpus), f"{corpus}, the end")


def _split(documents: Documents, config: FillConfig) -> tuple[Documents, Documents]:
    return documents.split(share=config.validation_share, most=MOST_HELD_OUT)


def _learn(texts: Iterator[str], config: FillConfig) -> Tokenizer:
    try:
        return train_tokenizer(
            texts, kind="wordpiece", vocab_size=config.pieces, symbols=BERT_SYMBOLS, lowercase=config.lowercase
        )
    except UsageError as error:
        raise UsageError(f"--pieces {config.pieces}: {error}") from None
