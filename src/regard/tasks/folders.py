"""From a model folder to the object that answers text, and back."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from regard.checkpoint.adapters import BASE, BaseReference, base_tensors, name_to_keep
from regard.checkpoint.atomic import locate
from regard.checkpoint.card import Card, model_card
from regard.checkpoint.convert.bert import CLASSES, ForeignBert, is_bert, read_bert, write_bert
from regard.checkpoint.convert.decoders import (
    FORMATS,
    GENERATION_CONFIG,
    ForeignWriter,
    is_decoder,
    read_decoder,
    write_decoder,
)
from regard.checkpoint.convert.gpt2 import CLASS as GPT2_CLASS
from regard.checkpoint.convert.marian import ForeignTranslator, is_marian, read_marian, write_marian
from regard.checkpoint.folder import (
    ADAPTER,
    CARD,
    CONFIG,
    ModelFolder,
    load_into,
    model_files,
    own_tensors,
    read_config,
    read_model,
    steadily,
    usable,
    write_model,
)
from regard.config import from_dict, to_dict
from regard.errors import FolderError, UsageError, unknown
from regard.generation.settings import SamplingConfig, SearchConfig
from regard.models.bert import (
    AnyBert,
    BertForPretraining,
    BertForSequence,
    BertForSpans,
    BertForTokens,
    make_bert,
)
from regard.models.bert_settings import BertConfig, HeadConfig
from regard.models.gpt import GPT
from regard.models.gpt_settings import GPTConfig
from regard.models.transformer import Transformer
from regard.models.transformer_settings import TransformerConfig
from regard.nn.lora import add_adapters, merge
from regard.nn.lora_settings import LoRAConfig
from regard.nn.packed import PRECISIONS, Precision, pack_weights
from regard.tasks import answer, embed, generate, tag, translate
from regard.tasks.answer import Answerer
from regard.tasks.choose import Chooser
from regard.tasks.classify import Classifier
from regard.tasks.embed import Embedder, WithEncoder
from regard.tasks.fill import Filler
from regard.tasks.generate import Writer
from regard.tasks.settings import CLASSIFY, PAIR, EmbedConfig, SpanConfig
from regard.tasks.tag import Tagger
from regard.tasks.translate import (
    SOURCE_TOKENIZER,
    TARGET_TOKENIZER,
    TOKENIZER,
    Translator,
    Vocabularies,
    check_fit,
)
from regard.text.tokenizer import Symbols, Tokenizer

LORA = "lora"  # what config.json calls the settings of an adapter
FOREIGN = ("marian", "bert", *FORMATS)
OWN_TASKS = (translate.NAME, generate.NAME, *dict.fromkeys(embed.TASKS.values()))

AnyModel = Translator | Writer | Embedder | Classifier | Chooser | Tagger | Answerer


def load_folder(path: Path, precision: Precision = "fp32") -> AnyModel:
    """The object that answers text, from a folder of regard's or of another tool, its matrices in so many bits."""
    if precision not in PRECISIONS:
        raise unknown("precision", str(precision), PRECISIONS)
    found = _load_folder(path)
    pack_weights(found.model, precision)
    return found


def _load_folder(path: Path) -> AnyModel:
    config = read_config(path)
    if is_marian(config):
        return from_foreign(read_marian(path))
    if is_decoder(config):
        foreign_writer = read_decoder(path)
        with usable(path / GENERATION_CONFIG):
            return writer_from_foreign(foreign_writer)
    if is_bert(config):
        return _with_foreign_head(embedder_from_foreign(read_bert(path)))
    task = _task_of(path, config)
    if task == translate.NAME:
        return _load_translator(path)
    if task == generate.NAME:
        return _load_writer(path)
    found = _load_embedder(path)
    longest = config.get("max_tokens")
    if found.head.kind == "choice":
        return _as_chooser(found, longest, commonest=_commonest_place(path, config))
    if task in (CLASSIFY, PAIR):
        common = _commonest(path, config, found.head)
        return _as_classifier(found, task, longest, commonest=common, either=bool(config.get("either")))
    if task == answer.NAME:
        with usable(path / CONFIG):
            reading = from_dict(SpanConfig, config.get("answering", {}))
        return _as_answerer(found, longest, reading)
    if task == tag.NAME:
        return _as_tagger(found, longest, commonest=_commonest(path, config, found.head))
    return found


def _commonest(path: Path, config: Mapping[str, Any], head: HeadConfig) -> tuple[str, ...] | None:
    """The commonest labels of training; None in folders that do not tell them."""
    found = config.get("commonest")
    if found is None:
        return None
    if not isinstance(found, list) or not all(label in head.labels for label in found):
        raise FolderError(f"{path / CONFIG} has the commonest labels {found!r}; those of its head are {head.labels}.")
    return tuple(found)


def _commonest_place(path: Path, config: Mapping[str, Any]) -> tuple[str, ...] | None:
    """Where most of the right endings of training stood; None in folders that do not tell it."""
    found = config.get("commonest")
    if found is None:
        return None
    if not isinstance(found, list) or len(found) != 1 or not str(found[0]).isdecimal():
        raise FolderError(f"{path / CONFIG} has {found!r} for the commonest place of endings, which is one number.")
    return (str(found[0]),)


def _with_foreign_head(found: Embedder) -> AnyModel:
    """What a BERT of another tool answers with its head. One for sequences does not say if it reads texts or pairs."""
    longest = found.config.max_tokens
    if found.head.kind == "sequence":
        return _as_classifier(found, CLASSIFY, longest, either=True)
    if found.head.kind == "tokens":
        return _as_tagger(found, longest)
    if found.head.kind == "choice":
        return _as_chooser(found, longest)
    return _as_answerer(found, longest, SpanConfig()) if found.head.kind == "spans" else found


def load_translator(path: Path, precision: Precision = "fp32") -> Translator:
    """A folder that must hold a translator."""
    found = load_folder(path, precision)
    if not isinstance(found, Translator):
        raise UsageError(
            f"{path} holds {_what(found)}: use {_verb(found)}, or train a translator with `regard train translate`."
        )
    return found


def load_writer(path: Path, precision: Precision = "fp32") -> Writer:
    """A folder that must hold a language model."""
    found = load_folder(path, precision)
    if not isinstance(found, Writer):
        encoder = "" if isinstance(found, Translator) else "A BERT cannot write one word by word. "
        raise UsageError(
            f"{path} holds {_what(found)}: use {_verb(found)}. {encoder}To go on with a text it takes a decoder alone: "
            f"`regard train generate`."
        )
    return found


def load_embedder(path: Path, precision: Precision = "fp32") -> Embedder:
    """A folder that must hold a BERT, with whatever head."""
    found = load_folder(path, precision)
    if isinstance(found, WithEncoder):
        return found.embedder
    if not isinstance(found, Embedder):
        raise UsageError(
            f"{path} holds {_what(found)}: use {_verb(found)}. Here it takes a BERT, which gives each text a vector."
        )
    return found


def load_filler(path: Path) -> Filler:
    """A folder that must hold a BERT that guesses missing words."""
    found = load_folder(path)
    if isinstance(found, Embedder) and not isinstance(found, Filler):
        raise UsageError(
            f"{path} holds a BERT without a head for masked words, so it cannot fill gaps, nor go on learning to: use "
            f"{_verb(found)}, or train one that can with `regard train fill`, without --from."
        )
    if not isinstance(found, Filler):
        raise UsageError(
            f"{path} holds {_what(found)}: use {_verb(found)}. To fill gaps it takes an encoder, which sees both sides "
            f"of them: `regard train fill`."
        )
    return found


def load_classifier(path: Path, task: str) -> Classifier:
    """A folder that must hold a classifier of texts or, for the task `pair`, of pairs.

    What another tool fine-tuned for sequences does not say which of the two it is for, and is taken for what is asked.
    """
    found = load_folder(path)
    if isinstance(found, Classifier) and found.either:
        return Classifier(found.model, found.tokenizer, head=found.head, task=task, max_tokens=found.max_tokens)
    if not isinstance(found, Classifier):
        raise UsageError(f"{path} holds {_what(found)}: use {_verb(found)}, or train one with `regard train {task}`.")
    if found.task != task:
        raise UsageError(f"{path} was trained for `regard {found.task}`; use that, or train one for `{task}`.")
    return found


def load_chooser(path: Path) -> Chooser:
    """A folder that must hold a model that chooses among endings."""
    found = load_folder(path)
    if not isinstance(found, Chooser):
        raise UsageError(f"{path} holds {_what(found)}: use {_verb(found)}, or train one with `regard train pair`.")
    return found


def load_tagger(path: Path) -> Tagger:
    """A folder that must hold a tagger; one that another tool fine-tuned for tokens is one, too."""
    found = load_folder(path)
    if not isinstance(found, Tagger):
        raise UsageError(f"{path} holds {_what(found)}: use {_verb(found)}, or train one with `regard train tag`.")
    return found


def load_answerer(path: Path) -> Answerer:
    """A folder that must hold a model for answers; one that another tool fine-tuned for spans is one, too."""
    found = load_folder(path)
    if not isinstance(found, Answerer):
        raise UsageError(f"{path} holds {_what(found)}: use {_verb(found)}, or train one with `regard train answer`.")
    return found


def _as_answerer(found: Embedder, max_tokens: int | None, config: SpanConfig) -> Answerer:
    if not isinstance(found.model, BertForSpans):
        raise FolderError(f"a folder for answers needs a head for spans, not one of kind {found.head.kind!r}.")
    return Answerer(found.model, found.tokenizer, config=config, max_tokens=max_tokens)


def _as_tagger(found: Embedder, max_tokens: int | None, *, commonest: tuple[str, ...] | None = None) -> Tagger:
    if not isinstance(found.model, BertForTokens):
        raise FolderError(f"a folder for tagging needs a head for tokens, not one of kind {found.head.kind!r}.")
    return Tagger(found.model, found.tokenizer, head=found.head, max_tokens=max_tokens, commonest=commonest)


def _as_chooser(found: Embedder, max_tokens: int | None, *, commonest: tuple[str, ...] | None = None) -> Chooser:
    assert isinstance(found.model, BertForSequence), "a head for choices is one for sequences"
    return Chooser(found.model, found.tokenizer, max_tokens=max_tokens, commonest=commonest)


def _as_classifier(
    found: Embedder,
    task: str,
    max_tokens: int | None,
    *,
    commonest: tuple[str, ...] | None = None,
    either: bool = False,
) -> Classifier:
    if not isinstance(found.model, BertForSequence):
        raise FolderError(f"a folder for {task} needs a head for sequences, not one of kind {found.head.kind!r}.")
    return Classifier(
        found.model,
        found.tokenizer,
        head=found.head,
        task=task,
        max_tokens=max_tokens,
        commonest=commonest,
        either=either,
    )


def _what(found: AnyModel) -> str:
    """What a folder holds, for somebody who wanted something else."""
    if isinstance(found, Writer):
        return "a language model, which goes on with a text"
    if isinstance(found, Translator):
        return "a translator, whose decoder writes only what an encoder has read in another language"
    if isinstance(found, Classifier):
        return "a judge of pairs of texts" if found.task == PAIR else "a classifier, which says what a text is"
    if isinstance(found, Chooser):
        return "a model that chooses among endings"
    if isinstance(found, Tagger):
        return "a tagger, which says what each word is"
    if isinstance(found, Answerer):
        return "an answerer, which finds the answer to a question in a passage"
    return "a BERT, which is an encoder: it reads a text as a whole, from both sides"


def _verb(found: AnyModel) -> str:
    return f"`regard {found.task}`"


def _load_writer(path: Path) -> Writer:
    folder, tokenizer = steadily(path, lambda path: (read_model(path), _read_tokenizer(path)))
    with usable(path / CONFIG):
        shape = from_dict(GPTConfig, folder.config["model"])
        sampling = from_dict(SamplingConfig, folder.config.get("sampling", {}))
        symbols = from_dict(Symbols, folder.config.get("symbols", to_dict(tokenizer.symbols)))
    with torch.device("meta"):  # the weights come from the folder
        model = GPT(shape)
    if folder.is_adapter:
        load_adapted(model, folder, read_base=lambda base: own_tensors(load_writer(base).model))
    else:
        load_into(model, folder.tensors)
    tokenizer.fits(shape.vocab_size)
    return Writer(model, tokenizer.with_symbols(symbols), sampling=sampling)


def _load_embedder(path: Path) -> Embedder:
    folder, tokenizer = steadily(path, lambda path: (read_model(path), _read_tokenizer(path)))
    with usable(path / CONFIG):
        shape = from_dict(BertConfig, folder.config["model"])
        head = from_dict(HeadConfig, folder.config.get("head", {}))
        config = from_dict(EmbedConfig, folder.config.get("embedding", {}))
        symbols = from_dict(Symbols, folder.config.get("symbols", to_dict(tokenizer.symbols)))
    with torch.device("meta"):
        model = make_bert(shape, head)
    load_into(model, folder.tensors)
    tokenizer.fits(shape.vocab_size)
    return _reader(model, tokenizer.with_symbols(symbols), head, config)


def _reader(model: AnyBert, tokenizer: Tokenizer, head: HeadConfig, config: EmbedConfig) -> Embedder:
    """What a BERT with this head can do beside embedding."""
    if isinstance(model, BertForPretraining) and model.words is not None:
        return Filler(model, tokenizer, config=config)
    return Embedder(model, tokenizer, head=head, config=config)


def load_adapted(model: nn.Module, folder: ModelFolder, *, read_base: Callable[[Path], Mapping[str, Tensor]]) -> None:
    """Fill a model with the weights of its base, and merge the adapter of its folder into them."""
    with usable(folder.path / CONFIG):
        config = from_dict(LoRAConfig, folder.config[LORA])
        reference = from_dict(BaseReference, folder.config[BASE])

    def read(path: Path) -> Mapping[str, Tensor]:
        if is_adapter_folder(path):
            raise FolderError(f"{folder.path} has {path} for its base, which is an adapter itself and no whole model.")
        return read_base(path)

    load_into(model, base_tensors(folder.path, reference, read))
    add_adapters(model, config, seed=0)
    load_into(model, folder.tensors, learned_only=True)
    merge(model)


def is_adapter_folder(path: Path) -> bool:
    """Whether what a folder holds is an adapter of another's weights."""
    return bool(model_files(path, ADAPTER))


def _read_tokenizer(path: Path) -> Tokenizer:
    files = model_files(path, TOKENIZER)
    if TOKENIZER not in files:
        raise FolderError(f"{path} has no {TOKENIZER}, without which text cannot become ids.")
    return Tokenizer.load(files[TOKENIZER])


def _load_translator(path: Path) -> Translator:
    folder, vocabularies = steadily(path, lambda path: (read_model(path), read_vocabularies(path)))
    config = folder.config
    with usable(path / CONFIG):
        shape = from_dict(TransformerConfig, config["model"])
        search = from_dict(SearchConfig, config.get("search", {}))
    with torch.device("meta"):
        model = Transformer(shape)
    load_into(model, folder.tensors)
    check_fit(model, vocabularies)
    return Translator(
        model,
        vocabularies,
        search=search,
        start_id=config.get("start_id"),
        forbidden_ids=config.get("forbidden_ids", ()),
    )


def read_tokenizers(path: Path, config: Mapping[str, Any]) -> Vocabularies:
    """The tokenizers alone. Those of Marian's are only known together with the rest of its folder."""
    if is_marian(config):
        foreign = read_marian(path)
        return Vocabularies(foreign.source_tokenizer, foreign.target_tokenizer)
    if is_decoder(config):
        tokenizer = read_decoder(path).tokenizer
        return Vocabularies(tokenizer, tokenizer)
    if is_bert(config):
        tokenizer = read_bert(path).tokenizer
        return Vocabularies(tokenizer, tokenizer)
    if _task_of(path, config) != translate.NAME:
        tokenizer = steadily(path, _read_tokenizer)
        return Vocabularies(tokenizer, tokenizer)
    return steadily(path, read_vocabularies)


def import_folder(path: Path, out: Path, *, force: bool = False) -> AnyModel:
    """Read a foreign folder and write it as one of regard's."""
    _check_apart(path, out, "an import")
    kind = read_config(path).get("model_type")
    if kind not in FOREIGN:
        own = "is a folder of regard's already, and needs no import; " if str(kind).startswith("regard") else ""
        raise FolderError(f"{path} {own}has model_type {kind!r}; what can be imported: {', '.join(FOREIGN)}.")
    found = load_folder(path)
    contents = found.contents()
    texts = {**contents.texts, CARD: model_card(_card(found, out, origin=f"Read from the {kind} folder {path.name}"))}
    write_model(out, config=contents.config, tensors=own_tensors(found.model), texts=texts, force=force)
    return found


def _card(model: AnyModel, folder: Path, *, origin: str) -> Card:
    """The card of a model that came from elsewhere."""
    usage = model.usage(Path(name_to_keep(str(folder))))
    answering: Any = model.search if isinstance(model, Translator) else None
    answering = model.sampling if isinstance(model, Writer) else answering
    answering = model.config if isinstance(model, Embedder) else answering
    answering = model.head if isinstance(model, WithEncoder) else answering
    answering = model.config if isinstance(model, Answerer) else answering
    return Card(
        title=folder.name,
        summary=f"{model.summary} {origin}, which tells what it was trained on.",
        task=model.task,
        num_parameters=sum(param.numel() for param in model.model.parameters()),
        settings={**to_dict(model.model.config), **to_dict(answering)},
        command=usage.command,
        python=usage.python,
        pipeline=usage.pipeline,
    )


def export_folder(path: Path, out: Path, *, force: bool = False) -> Sequence[str]:
    """Write a model as a folder that `transformers` loads; returns the class it became, and what was lost."""
    _check_apart(path, out, "an export")
    translator = load_folder(path)
    if isinstance(translator, Writer):
        name = write_decoder(
            out,
            config=translator.model.config,
            tensors=own_tensors(translator.model),
            tokenizer=translator.tokenizer,
            sampling=to_dict(translator.sampling),
            card=model_card(_card(translator, out, origin=f"Written from the folder {path.name}")),
            force=force,
        )
        dropout = translator.model.config.dropout
        without = f"{name} has no dropout between its layers: whoever trains it on does so without the {dropout} here."
        return [f"{name} for transformers", *([without] if dropout and name != GPT2_CLASS else [])]
    if isinstance(translator, WithEncoder):
        translator = translator.embedder
    if isinstance(translator, Embedder):
        return _export_bert(translator, out, origin=f"Written from the folder {path.name}", force=force)
    search = translator.search
    notes = write_marian(
        out,
        config=translator.model.config,
        tensors=own_tensors(translator.model),
        source_tokenizer=translator.vocabularies.source,
        target_tokenizer=translator.vocabularies.target,
        start_id=translator.start_id,
        generation={
            "beams": search.beams,
            "length_penalty": search.length_penalty,
            "max_new_tokens": search.max_new_tokens,
            "never": translator.forbidden_ids,
        },
        force=force,
    )
    return ["MarianMTModel for transformers", *notes]


def _export_bert(embedder: Embedder, out: Path, *, origin: str, force: bool) -> Sequence[str]:
    name = write_bert(
        out,
        config=embedder.model.config,
        head=embedder.head,
        tensors=own_tensors(embedder.model),
        tokenizer=embedder.tokenizer,
        card=model_card(_card(embedder, out, origin=origin)),
        max_tokens=embedder.config.max_tokens,
        force=force,
    )
    notes = []
    if name == CLASSES["none"] and not embedder.bert.config.pooler:
        notes.append("this encoder has no pooler; transformers makes one up, whose output means nothing.")
    if embedder.config.pooling != "mean":
        notes.append(f"sentence-transformers takes the mean of such a folder, not {embedder.config.pooling}.")
    return [f"{name} for transformers", *notes]


def embedder_from_foreign(foreign: ForeignBert) -> Embedder:
    with torch.device("meta"):
        model = make_bert(foreign.config, foreign.head)
    load_into(model, foreign.tensors)
    return _reader(model, foreign.tokenizer, foreign.head, EmbedConfig(**foreign.embedding))


def writer_from_foreign(foreign: ForeignWriter) -> Writer:
    with torch.device("meta"):
        model = GPT(foreign.config)
    load_into(model, foreign.tensors)
    return Writer(model, foreign.tokenizer, sampling=SamplingConfig(**foreign.sampling))


def from_foreign(foreign: ForeignTranslator) -> Translator:
    with torch.device("meta"):
        model = Transformer(foreign.config)
    load_into(model, foreign.tensors)
    known = ("beams", "length_penalty", "max_new_tokens")
    search = {name: foreign.generation[name] for name in known if foreign.generation.get(name) is not None}
    vocabularies = Vocabularies(foreign.source_tokenizer, foreign.target_tokenizer)
    return Translator(
        model,
        vocabularies,
        search=SearchConfig(**search),
        start_id=foreign.start_id,
        forbidden_ids=foreign.generation.get("never", ()),
    )


def _check_apart(path: Path, out: Path, what: str) -> None:
    if out.exists() and out.resolve() == path.resolve():
        raise UsageError(f"{what} would replace the model in {path} itself: choose another --out.")


def _task_of(path: Path, config: Mapping[str, Any]) -> str:
    ours = config.get("regard")
    task = ours.get("task") if isinstance(ours, dict) else None
    if task not in OWN_TASKS:
        kind = config.get("model_type", "unknown")
        known = ", ".join(FOREIGN)
        raise FolderError(f"{path} holds a model of type {kind!r}; regard reads its own folders and those of {known}.")
    return str(task)


def read_vocabularies(path: Path) -> Vocabularies:
    files = model_files(path, TOKENIZER, SOURCE_TOKENIZER, TARGET_TOKENIZER)
    if TOKENIZER in files:
        joint = Tokenizer.load(files[TOKENIZER])
        return Vocabularies(joint, joint)
    return Vocabularies(*(Tokenizer.load(locate(path, name)) for name in (SOURCE_TOKENIZER, TARGET_TOKENIZER)))
