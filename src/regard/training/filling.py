"""From plain text to a filler of gaps: read, cut into documents and sentences, hold the end out, train.

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
from regard.data.corpus import Corpus, learned_tokenizer
from regard.data.documents import Documents, documents_of, read_documents
from regard.data.sentence_pairs import longest_sentence
from regard.data.world.stories import stories
from regard.errors import UsageError, unknown
from regard.metrics.score import Score
from regard.models.bert_settings import PRESETS, BertConfig
from regard.tasks.settings import FillConfig
from regard.text.tokenizer import BERT_SYMBOLS, Tokenizer
from regard.text.training import train_tokenizer
from regard.training.encoders import FREE
from regard.training.options import Budget, RunOptions, settled_folder, sort_settings
from regard.training.recipes import NOT_FOR_FILLERS, ROW, USUAL_ENCODER, filling_recipe, fine_tuning_recipe
from regard.training.settings import TrainingConfig

if TYPE_CHECKING:
    from regard.models.bert import BertForPretraining
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
    from_: Path | str | None = None,
    settings: Mapping[str, Any] | None = None,
    options: RunOptions | None = None,
) -> Run[Filler]:
    """Pre-train a BERT on text from files, or on the built-in world's stories if no files are given.

    With `from_` the BERT in a folder goes on learning, with its own tokens; without it a new one of `size` begins.
    """
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
    tuning = {}
    if from_ is None:
        context = from_dict(BertConfig, {**shape, "vocab_size": 1}).context  # how many pieces there are is not known
        if options.forgetting is not None:
            raise UsageError("--forgetting is for weights that know something already: name their folder with --from.")
    else:
        tuning = fine_tuning_recipe(lora=False).training
    check_output(out, resume=options.resume, force=options.force)
    budget = Budget.settle({**bundle.training, **tuning, **parts[TrainingConfig]}, out, resume=options.resume)
    config = from_dict(FillConfig, parts[FillConfig])
    if validation and not data:
        raise UsageError("--validation needs training files beside it; without files the built-in world is used.")
    corpus, checking = (Corpus.find(files) if files else None for files in (data, validation))
    begun = None
    if from_ is not None:
        begun = _begin(str(from_), out, size=size, parts=parts, config=config)
        config, context = begun.config, begun.model.config.context
    if config.window is not None and config.window > context:
        raise UsageError(f"--window {config.window} is more than the model sees at once: {context} tokens (--context).")
    longest = longest_sentence(config.window or context)
    from regard.tasks.fill import FillTask, fresh_bert, place_rates
    from regard.training.beginning import Beginning
    from regard.training.runs import carry_out

    with output_folder(out, resume=options.resume, force=options.force):
        tokenizer, train, held, names = _read(corpus, checking, config, longest, begun.tokenizer if begun else None)
        remarks = [remark for files in (corpus, checking) if files for remark in files.remarks()]
        remarks += [] if data else [f"data: {WORLD} (no files were given)"]
        if config.next_sentence and (reason := _no_pairs(train)):
            remarks.append(f"next sentence: not learned ({reason}; a blank line or a heading begins a document)")
            config = dataclasses.replace(config, next_sentence=False)
        beginning, described = None, {"size": size or USUAL_ENCODER}
        if begun:
            model, described = begun.model_for(next_sentence=config.next_sentence), {}
            beginning = Beginning.of(str(from_), begun.folder, model, lora=None, seed=budget.config.seed)
            remarks.append(beginning.remark(model))
        else:
            model = fresh_bert(
                tokenizer, shape, next_sentence=config.next_sentence, seed=budget.config.seed, ids=train.ids
            )
        task = FillTask(
            model=model,
            tokenizer=tokenizer,
            train=train,
            validation=held,
            config=config,
            data=(
                CardData(name=names[0], role="training", num_rows=len(train.ids)),
                CardData(name=names[1], role="validation", num_rows=len(held.ids)),
            ),
        )
        return carry_out(
            task,
            budget,
            out,
            options,
            described=described,
            remarks=remarks,
            beginning=beginning,
            rates={} if begun else place_rates(task.model),
        )


@dataclass(frozen=True)
class _Begun:
    """What a folder and the settings given beside it say together."""

    folder: Path
    model: BertForPretraining
    tokenizer: Tokenizer
    config: FillConfig

    def model_for(self, *, next_sentence: bool) -> BertForPretraining:
        """The model to train: without pairs of sentences its head for them, and the pooler below, would not learn."""
        if next_sentence or self.model.follows is None:
            return self.model
        from regard.checkpoint.folder import load_into, own_tensors
        from regard.models.bert import BertForPretraining

        model = BertForPretraining(self.model.config, follows=False)
        wanted = own_tensors(model)
        load_into(model, {name: tensor for name, tensor in own_tensors(self.model).items() if name in wanted})
        return model


def _begin(
    name: str, out: Path, *, size: str | None, parts: Mapping[type, Mapping[str, Any]], config: FillConfig
) -> _Begun:
    """A model to go on with. Its shape and its tokenizer are settled; dropout and the window belong to the training."""
    folder = settled_folder(name, out, {"size": size, **parts[FillConfig]}, settled=("size", "pieces", "lowercase"))
    from regard.checkpoint.folder import load_into, own_tensors
    from regard.models.bert import BertForPretraining
    from regard.tasks.folders import load_filler
    from regard.training.beginning import refuse_contradictions

    filler = load_filler(folder)
    found = filler.model.config
    refuse_contradictions(parts[BertConfig], found, name=name, free=FREE)
    model = filler.model
    changes = {key: value for key, value in parts[BertConfig].items() if key in FREE}
    if changes:
        model = BertForPretraining(dataclasses.replace(found, **changes), follows=filler.model.follows is not None)
        load_into(model, own_tensors(filler.model))
    config = dataclasses.replace(
        config,
        pieces=filler.tokenizer.vocab_size,
        next_sentence=config.next_sentence and _tells_pairs(model),
        window=config.window or min(found.context, ROW),
    )
    return _Begun(folder, model, filler.tokenizer, config)


def _tells_pairs(model: BertForPretraining) -> bool:
    """Whether a model has a head for pairs of sentences, and two segments to tell them by."""
    return model.follows is not None and model.config.segments > 1


def score_text(filler: Filler, data: Sequence[Path]) -> tuple[list[Score], list[str]]:
    """How many hidden words of a text a BERT guesses, and how many pairs it tells; and what there is to say of it.

    Beside it stands what guessing by frequency achieves, counted in the half of the text that a word is not in.
    """
    from regard.metrics.guessing import Guesser
    from regard.tasks.gaps import HeldOut

    tokenizer, window = filler.tokenizer, min(ROW, filler.model.config.context)
    documents = read_documents(Corpus.find(data), tokenizer, longest=longest_sentence(window))
    remarks = []
    if len(documents.ids) > MOST_HELD_OUT:
        remarks.append(f"scored on the last {MOST_HELD_OUT:,} of {len(documents.ids):,} pieces")
        documents = documents.split(share=MOST_HELD_OUT / len(documents.ids), most=MOST_HELD_OUT)[1]
    halves = documents.split(share=0.5, most=len(documents.ids))
    pairs = _tells_pairs(filler.model)
    found, sums = [], [0.0, 0.0]
    for half, other in (halves, halves[::-1]):
        guessed = HeldOut(half, tokenizer, window=window, pairs=pairs).guess(filler.model)
        guesser = Guesser.learn(other.ids, tokenizer.vocab_size)
        sums[0] += guesser.unigram(guessed.words) * len(guessed.words)
        sums[1] += guesser.bigram(guessed.befores, guessed.words) * len(guessed.words)
        found.append(guessed)
    whole = found[0] + found[1]
    unigram, bigram = (total / max(1, len(whole.words)) for total in sums)
    return whole.scores(unigram, bigram, counted=" in the other half of the text"), remarks


def _no_pairs(documents: Documents) -> str:
    """Why a text has no pairs of sentences to learn from; nothing if it has."""
    if len(documents) < 2:
        return "the text is one document, and a sentence that does not follow comes from another one"
    if documents.num_sentences == len(documents):
        return "every document is a single sentence, and none follows"
    return ""


def _read(
    corpus: Corpus | None, validation: Corpus | None, config: FillConfig, longest: int, known: Tokenizer | None
) -> tuple[Tokenizer, Documents, Documents, tuple[str, str]]:
    """A tokenizer (the known one, if there is), documents to train and to validate on, and what the two are called."""
    if corpus is None:
        texts = stories()
        tokenizer = known or _learn(iter(texts), config)
        train, held = _split(documents_of(texts, tokenizer, longest=longest), config)
        return tokenizer, train, held, (WORLD, f"{WORLD}, the end")
    tokenizer = known or learned_tokenizer(
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
