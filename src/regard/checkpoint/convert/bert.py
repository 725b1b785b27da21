"""BERT as `transformers` writes it, read and written: the encoder alone or with any of its heads.

Folders of sentence-transformers hold one, too, and say beside it how the vectors of a text become one.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from regard.checkpoint.convert.files import (
    TOKENIZER,
    TOKENIZER_CONFIG,
    has,
    json_text,
    read_json,
    read_json_value,
    symbol,
    tokenizer_config,
)
from regard.checkpoint.convert.joining import join
from regard.checkpoint.convert.settings import Refusals, Requirement, no_class_for, real, refuse_export, whole
from regard.checkpoint.folder import (
    CARD,
    CONFIG,
    ModelFolder,
    check_fit,
    own_tensors,
    read_model,
    usable,
    write_model,
)
from regard.errors import FolderError, UsageError
from regard.models.bert import make_bert
from regard.models.bert_settings import Answers, BertConfig, HeadConfig, HeadKind
from regard.text.tokenizer import Symbols, Tokenizer

MODEL_TYPE = "bert"
VOCABULARY = "vocab.txt"
CLASSES: dict[HeadKind, str] = {
    "none": "BertModel",
    "words": "BertForMaskedLM",
    "follows": "BertForNextSentencePrediction",
    "words-follows": "BertForPreTraining",
    "sequence": "BertForSequenceClassification",
    "tokens": "BertForTokenClassification",
    "spans": "BertForQuestionAnswering",
    "choice": "BertForMultipleChoice",
}
PROBLEMS: dict[Answers, str] = {
    "one": "single_label_classification",
    "several": "multi_label_classification",
    "number": "regression",
}
ACTIVATIONS = {
    "gelu": "gelu",
    "gelu_new": "gelu-tanh",
    "gelu_pytorch_tanh": "gelu-tanh",
    "relu": "relu",
    "silu": "silu",
    "swish": "silu",
}
# Theirs: what a setting must be for this architecture, if it is there.
FIXED = {
    "position_embedding_type": "absolute",
    "is_decoder": False,
    "add_cross_attention": False,
    "tie_word_embeddings": True,
    "pruned_heads": {},
}
# Ours: what it takes to be one of theirs.
REQUIRED = (Requirement("heads_at", {}), Requirement("activation", *dict.fromkeys(ACTIVATIONS.values())))
# What old versions stored beside the weights: numbers of positions, and the table of pieces a second time.
SURPLUS = ("embeddings.position_ids", "embeddings.token_type_ids", "cls.predictions.decoder.weight")
OLD_NAMES = {"LayerNorm.gamma": "LayerNorm.weight", "LayerNorm.beta": "LayerNorm.bias"}

# How sentence-transformers says what it does with the vectors of a text.
MODULES, SENTENCES = "modules.json", "sentence_bert_config.json"
POOLINGS = {"pooling_mode_mean_tokens": "mean", "pooling_mode_cls_token": "cls", "pooling_mode_max_tokens": "max"}


@dataclass(frozen=True)
class ForeignBert:
    """A BERT that another program wrote, in the terms of this one."""

    config: BertConfig
    head: HeadConfig
    tensors: dict[str, Tensor]  # as `own_tensors` of the model names them
    tokenizer: Tokenizer
    embedding: dict[str, Any]  # pooling and max_tokens, as far as the folder says


def is_bert(config: Mapping[str, Any]) -> bool:
    return config.get("model_type") == MODEL_TYPE


# --- Reading -----------------------------------------------------------------------------------------------


def read_bert(path: Path) -> ForeignBert:
    """Read a folder of BERT's, with whatever head it has."""
    folder = read_model(path)
    theirs = _their_tensors(folder.tensors)
    with usable(path / CONFIG):
        config = config_from(folder.config, Refusals(str(path / CONFIG)))
        head = _head_from(folder, theirs)
    config = dataclasses.replace(config, pooler=_has_pooler(head.kind, theirs))
    if not config.pooler:  # some files hold one that nothing reads
        theirs = {name: tensor for name, tensor in theirs.items() if not name.startswith("pooler.")}
    tokenizer = read_tokenizer(folder)
    tokenizer.fits(config.vocab_size)
    with torch.device("meta"):  # names and shapes, and no numbers
        expected = _theirs_of(own_tensors(make_bert(config, head)), config, head.kind)
    check_fit(theirs, expected, CLASSES[head.kind])
    tensors = join(theirs, _pairs(config, head.kind))
    return ForeignBert(config, head, tensors, tokenizer, _read_embedding(folder))


def config_from(settings: Mapping[str, Any], refused: Refusals) -> BertConfig:
    refused.unless(settings, FIXED)
    width, heads = whole(settings, "hidden_size"), whole(settings, "num_attention_heads")
    refused.when(width % heads != 0, f"hidden_size {width} is not a multiple of num_attention_heads {heads}")
    activation = settings.get("hidden_act", "gelu")
    refused.when(activation not in ACTIVATIONS, f"hidden_act {activation!r}")
    refused.check()
    return BertConfig(
        vocab_size=whole(settings, "vocab_size"),
        context=whole(settings, "max_position_embeddings", 512),
        segments=whole(settings, "type_vocab_size", 2),
        layers=whole(settings, "num_hidden_layers"),
        width=width,
        hidden=whole(settings, "intermediate_size"),
        heads=heads,
        head_width=width // heads,
        activation=ACTIVATIONS[activation],  # type: ignore[arg-type]
        norm_epsilon=real(settings, "layer_norm_eps", 1e-12),
        dropout=real(settings, "hidden_dropout_prob", 0.1),
        attention_dropout=real(settings, "attention_probs_dropout_prob", 0.1),
        head_dropout=None if settings.get("classifier_dropout") is None else real(settings, "classifier_dropout"),
    )


def _their_tensors(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Tensors under the names of today, without what is stored twice."""
    found = {}
    for name, tensor in tensors.items():
        stem = name.removeprefix("bert.")
        for old, new in OLD_NAMES.items():
            stem = stem.removesuffix(old) + new if stem.endswith(old) else stem
        if stem not in SURPLUS:
            found[stem] = tensor
    again = found.pop("cls.predictions.decoder.bias", None)  # the bias of the words, by another name
    if again is not None:
        found.setdefault("cls.predictions.bias", again)
    return found


def _head_from(folder: ModelFolder, theirs: Mapping[str, Tensor]) -> HeadConfig:
    """The head that config.json names. Of those of pre-training, the ones for which there are weights."""
    name = (folder.config.get("architectures") or [CLASSES["none"]])[0]
    kinds = {theirs_: kind for kind, theirs_ in CLASSES.items()}
    if name not in kinds:
        known = ", ".join(kinds)
        raise FolderError(f"{folder.path / CONFIG} asks for a {name!r}, which regard does not have. Known: {known}.")
    kind = kinds[name]
    if kind in ("words", "follows", "words-follows"):
        stored = {"words": "cls.predictions.", "follows": "cls.seq_relationship."}
        found = "-".join(part for part, stem in stored.items() if any(key.startswith(stem) for key in theirs))
        return HeadConfig(kind=found or kind)  # type: ignore[arg-type]
    if kind not in ("sequence", "tokens"):
        return HeadConfig(kind=kind)
    labels = _labels(folder.config)
    return HeadConfig(kind=kind, labels=labels, answers=_answers(folder, len(labels)) if kind == "sequence" else "one")


def _labels(settings: Mapping[str, Any]) -> tuple[str, ...]:
    named = settings.get("id2label")
    if not named:  # transformers' own default
        return tuple(f"LABEL_{i}" for i in range(whole(settings, "num_labels", 2)))
    if wrong := [number for number in named if not str(number).isdecimal()]:
        raise UsageError(f"id2label has {wrong[0]!r} where the number of a label is expected.")
    by_number = {int(number): str(label) for number, label in named.items()}
    return tuple(by_number.get(i, f"LABEL_{i}") for i in range(max(by_number) + 1))


def _answers(folder: ModelFolder, outputs: int) -> Answers:
    problem = folder.config.get("problem_type")
    if problem is None:
        return "number" if outputs == 1 else "one"
    for ours, theirs in PROBLEMS.items():
        if problem == theirs:
            return ours
    raise FolderError(f"{folder.path / CONFIG} has problem_type {problem!r}; known: {', '.join(PROBLEMS.values())}.")


def _has_pooler(kind: HeadKind, theirs: Mapping[str, Tensor]) -> bool:
    return "follows" in kind or kind in ("sequence", "choice") or (kind == "none" and "pooler.dense.weight" in theirs)


def read_tokenizer(folder: ModelFolder) -> Tokenizer:
    """The tokenizer of a BERT folder: tokenizer.json, or the older vocab.txt."""
    settings = read_json(folder, TOKENIZER_CONFIG)
    if has(folder, TOKENIZER):
        found = Tokenizer.load(folder.file(TOKENIZER))
    elif has(folder, VOCABULARY):
        lowercase = settings.get("do_lower_case", True) is not False
        found = Tokenizer.from_vocabulary(folder.file(VOCABULARY), lowercase=lowercase)
    else:
        raise FolderError(f"{folder.path} has no tokenizer: {TOKENIZER} is expected, or {VOCABULARY}.")
    usual = found.symbols
    return found.with_symbols(
        Symbols(
            pad=symbol(settings.get("pad_token")) or usual.pad,
            unknown=usual.unknown,
            start=symbol(settings.get("cls_token")) or usual.start,
            end=symbol(settings.get("sep_token")) or usual.end,
            mask=symbol(settings.get("mask_token")) or usual.mask,
        )
    )


def _read_embedding(folder: ModelFolder) -> dict[str, Any]:
    """What sentence-transformers says of pooling and length; nothing for other folders."""
    modules = read_json_value(folder, MODULES)
    if not isinstance(modules, list):
        return {}
    kinds = {str(module.get("type", "")).rpartition(".")[2]: module for module in modules if isinstance(module, dict)}
    if other := sorted(set(kinds) - {"Transformer", "Pooling", "Normalize"}):
        raise FolderError(f"{folder.path / MODULES} has modules that regard does not have: {', '.join(other)}.")
    found: dict[str, Any] = {}
    if "Pooling" in kinds:
        found["pooling"] = _pooling(folder, f"{kinds['Pooling'].get('path', '')}/{CONFIG}")
    longest = read_json(folder, SENTENCES).get("max_seq_length")
    return {**found, "max_tokens": longest} if isinstance(longest, int) else found


def _pooling(folder: ModelFolder, name: str) -> str:
    settings = read_json(folder, name)
    told = settings.get("pooling_mode")
    chosen = [told] if isinstance(told, str) else list(told or ())
    chosen = chosen or [POOLINGS.get(key, key) for key, value in settings.items() if value is True and "mode" in key]
    if not chosen:
        return "mean"
    if len(chosen) > 1 or chosen[0] not in POOLINGS.values():
        raise FolderError(f"{folder.path / name} pools by {' and '.join(chosen)}; regard knows mean, cls and max.")
    return str(chosen[0])


# --- Writing -----------------------------------------------------------------------------------------------


def write_bert(
    path: Path,
    *,
    config: BertConfig,
    head: HeadConfig,
    tensors: Mapping[str, Tensor],
    tokenizer: Tokenizer,
    card: str,
    max_tokens: int | None = None,
    force: bool = False,
) -> str:
    """Write a folder that the class of its head and `AutoTokenizer` load; returns the class."""
    name = CLASSES[head.kind]
    reasons = refuse_export(config, REQUIRED, name)
    if config.heads * config.head_width != config.width:
        reasons.append("heads × head_width is not the width")
    if reasons:
        raise no_class_for({name: reasons})
    settings = {
        "architectures": [name],
        "model_type": MODEL_TYPE,
        "dtype": str(next(iter(tensors.values())).dtype).removeprefix("torch."),
        "pad_token_id": tokenizer.pad_id,
        **settings_from(config),
        **_label_settings(head),
    }
    symbols = tokenizer.symbols
    names = {
        "pad_token": symbols.pad,
        "unk_token": symbols.unknown,
        "cls_token": symbols.start,
        "sep_token": symbols.end,
        "mask_token": symbols.mask,
    }
    longest = min(max_tokens or config.context, config.context)
    texts = {
        TOKENIZER: _with_frame(tokenizer),
        TOKENIZER_CONFIG: json_text(tokenizer_config(longest, names, segments=True)),
        CARD: card,
    }
    parted = _theirs_of(tensors, config, head.kind)
    theirs = {_with_prefix(name, head.kind): tensor.contiguous() for name, tensor in parted.items()}
    write_model(path, config=settings, tensors=theirs, texts=texts, force=force)
    return name


def settings_from(config: BertConfig) -> dict[str, Any]:
    theirs = {ours: name for name, ours in reversed(ACTIVATIONS.items())}
    return {
        "vocab_size": config.vocab_size,
        "max_position_embeddings": config.context,
        "type_vocab_size": config.segments,
        "num_hidden_layers": config.layers,
        "hidden_size": config.width,
        "intermediate_size": config.hidden,
        "num_attention_heads": config.heads,
        "hidden_act": theirs[config.activation],
        "layer_norm_eps": config.norm_epsilon,
        "hidden_dropout_prob": config.dropout,
        "attention_probs_dropout_prob": config.attention_dropout,
        "classifier_dropout": config.head_dropout,
    }


def _label_settings(head: HeadConfig) -> dict[str, Any]:
    if not head.labels:
        return {}
    names = {
        "id2label": {str(i): label for i, label in enumerate(head.labels)},
        "label2id": {label: i for i, label in enumerate(head.labels)},
    }
    return {**names, "problem_type": PROBLEMS[head.answers]} if head.kind == "sequence" else names


def _with_frame(tokenizer: Tokenizer) -> str:
    """tokenizer.json that puts [CLS] before a text and [SEP] behind it, as theirs do by themselves."""
    description = json.loads(tokenizer.to_json())
    if description.get("post_processor") is None:
        start, end = tokenizer.symbols.start, tokenizer.symbols.end
        ids = {start: tokenizer.start_id, end: tokenizer.end_id}

        def frame(name: str | None, segment: int) -> dict[str, Any]:
            return {"SpecialToken": {"id": name, "type_id": segment}}

        def text(name: str, segment: int) -> dict[str, Any]:
            return {"Sequence": {"id": name, "type_id": segment}}

        first = [frame(start, 0), text("A", 0), frame(end, 0)]
        description["post_processor"] = {
            "type": "TemplateProcessing",
            "single": first,
            "pair": [*first, text("B", 1), frame(end, 1)],
            "special_tokens": {name: {"id": name, "ids": [number], "tokens": [name]} for name, number in ids.items()},
        }
    return json.dumps(description, ensure_ascii=False)


# --- Names of tensors --------------------------------------------------------------------------------------


def _pairs(config: BertConfig, kind: HeadKind) -> list[tuple[str, tuple[str, ...]]]:
    """Our name of each tensor, and their names of the tensors of which it is made."""
    below = "" if kind == "none" else "bert."
    encoder = [
        ("embedding.weight", ("embeddings.word_embeddings.weight",)),
        ("embedding.segments.weight", ("embeddings.token_type_embeddings.weight",)),
        ("embedding.positions.weight", ("embeddings.position_embeddings.weight",)),
        *_norm("embedding.norm", "embeddings.LayerNorm"),
    ]
    for i in range(config.layers):
        ours, theirs = f"encoder.{i}", f"encoder.layer.{i}"
        attention = [f"{theirs}.attention.self.{part}" for part in ("query", "key", "value")]
        encoder += [
            *_linear(f"{ours}.self_attention.query_key_value", *attention),
            *_linear(f"{ours}.self_attention.output", f"{theirs}.attention.output.dense"),
            *_norm(f"{ours}.self_residual.norm", f"{theirs}.attention.output.LayerNorm"),
            *_linear(f"{ours}.feed_forward.widen", f"{theirs}.intermediate.dense"),
            *_linear(f"{ours}.feed_forward.narrow", f"{theirs}.output.dense"),
            *_norm(f"{ours}.feed_forward_residual.norm", f"{theirs}.output.LayerNorm"),
        ]
    if config.pooler:
        encoder += _linear("pooler", "pooler.dense")
    return [*((below + ours, theirs) for ours, theirs in encoder), *_head_pairs(kind)]


def _head_pairs(kind: HeadKind) -> Sequence[tuple[str, tuple[str, ...]]]:
    if kind in ("sequence", "tokens", "choice"):
        return _linear("head.output", "classifier")
    if kind == "spans":
        return _linear("head.output", "qa_outputs")
    words = [
        *_linear("words.dense", "cls.predictions.transform.dense"),
        *_norm("words.norm", "cls.predictions.transform.LayerNorm"),
        ("words.bias", ("cls.predictions.bias",)),
    ]
    follows = _linear("follows.output", "cls.seq_relationship")
    return [*(words if "words" in kind else ()), *(follows if "follows" in kind else ())]


def _theirs_of(tensors: Mapping[str, Tensor], config: BertConfig, kind: HeadKind) -> dict[str, Tensor]:
    """Our tensors under their names, as parts of ours."""
    theirs: dict[str, Tensor] = {}
    for ours, parts in _pairs(config, kind):
        theirs |= zip(parts, tensors[ours].chunk(len(parts)), strict=True)  # queries, keys and values are alike in size
    return theirs


def _linear(ours: str, *theirs: str) -> list[tuple[str, tuple[str, ...]]]:
    return [(f"{ours}.{part}", tuple(f"{name}.{part}" for name in theirs)) for part in ("weight", "bias")]


def _norm(ours: str, theirs: str) -> list[tuple[str, tuple[str, ...]]]:
    return [(f"{ours}.scale", (f"{theirs}.weight",)), (f"{ours}.shift", (f"{theirs}.bias",))]


def _with_prefix(name: str, kind: HeadKind) -> str:
    of_head = name.startswith(("cls.", "classifier.", "qa_outputs."))
    return name if of_head or kind == "none" else f"bert.{name}"
