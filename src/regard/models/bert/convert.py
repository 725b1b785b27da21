"""Convert BERT folders between `transformers` and regard, with or without a head.

sentence-transformers folders with a BERT can be imported as well. They store the pooling in extra files.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, get_args

from torch import Tensor

from regard.models.bert.config import BertConfig
from regard.models.bert.model import build
from regard.models.format_files import (
    TOKENIZER,
    TOKENIZER_CONFIG,
    json_text,
    read_json,
    read_json_value,
    special_token_settings,
    token_name,
    tokenizer_config,
    tokenizer_of,
)
from regard.models.formats import (
    CONFIG,
    Content,
    Export,
    Folder,
    Format,
    Refusals,
    Requirement,
    dtype_name,
    real,
    unmet,
    whole,
)
from regard.models.heads import LABELLED, MLM_KINDS, NSP_KINDS, HeadConfig, HeadKind, ProblemType
from regard.models.tensor_names import Pairs, join, module_pairs
from regard.nn.init import empty_weights
from regard.nn.state_dict import check_fit, unique_tensors
from regard.tokenizers.tokenizer import SpecialTokens, Tokenizer
from regard.utils.errors import FolderError, UsageError, config_errors

MODEL_TYPE = "bert"
VOCABULARY = "vocab.txt"
CLASSES: dict[HeadKind, str] = {
    "none": "BertModel",
    "mlm": "BertForMaskedLM",
    "nsp": "BertForNextSentencePrediction",
    "pretraining": "BertForPreTraining",
    "sequence_classification": "BertForSequenceClassification",
    "token_classification": "BertForTokenClassification",
    "question_answering": "BertForQuestionAnswering",
    "multiple_choice": "BertForMultipleChoice",
}
PROBLEMS: tuple[str, ...] = get_args(ProblemType)
ACTIVATIONS = {
    "gelu": "gelu",
    "gelu_new": "gelu-tanh",
    "gelu_pytorch_tanh": "gelu-tanh",
    "relu": "relu",
    "silu": "silu",
    "swish": "silu",
}
# Settings in their config.json for which regard supports only this value. They may be missing.
FIXED = {
    "position_embedding_type": "absolute",
    "is_decoder": False,
    "add_cross_attention": False,
    "tie_word_embeddings": True,
    "pruned_heads": {},
}
# The values of our settings that their classes support.
REQUIRED = (Requirement("num_heads_by_layer", {}), Requirement("activation", *dict.fromkeys(ACTIVATIONS.values())))
# Tensors in files from old versions that are ignored: id buffers, and a copy of the token embedding table.
SURPLUS = ("embeddings.position_ids", "embeddings.token_type_ids", "cls.predictions.decoder.weight")
OLD_NAMES = {"LayerNorm.gamma": "LayerNorm.weight", "LayerNorm.beta": "LayerNorm.bias"}

# The files and keys in which sentence-transformers stores its pooling.
MODULES, SENTENCES = "modules.json", "sentence_bert_config.json"
POOLINGS = {"pooling_mode_mean_tokens": "mean", "pooling_mode_cls_token": "cls", "pooling_mode_max_tokens": "max"}


# --- Reading -----------------------------------------------------------------------------------------------


def from_hf(folder: Folder) -> Content:
    """Convert a BERT folder to the content of a regard folder, with its head."""
    theirs = _their_tensors(folder.tensors)
    with config_errors(folder.path / CONFIG):
        config = config_from_hf(folder.config, Refusals(str(folder.path / CONFIG)))
        head = _head_from(folder, theirs)
    config = config.replace(pooler=_has_pooler(head.kind, theirs))
    if not config.pooler:  # some files contain a pooler that the head does not use
        theirs = {name: tensor for name, tensor in theirs.items() if not name.startswith("pooler.")}
    tokenizer = read_tokenizer(folder)
    tokenizer.fits(config.vocab_size)
    with empty_weights():
        expected = _to_hf_tensors(unique_tensors(build(config, head)), config, head.kind)
    check_fit(theirs, expected, CLASSES[head.kind])
    described = {
        "regard": {},
        "architecture": "bert",
        "model": config.to_dict(),
        "head": head.to_dict(),
        "special_tokens": special_token_settings(tokenizer),
        **_read_embedding(folder, head.kind),
    }
    if head.kind == "sequence_classification":  # the folder does not say if it was trained on single texts or pairs
        described["accepts_pairs"] = True
    return Content(described, join(theirs, _pairs(config, head.kind)), {TOKENIZER: tokenizer.to_json()})


def config_from_hf(settings: Mapping[str, Any], refused: Refusals) -> BertConfig:
    refused.unless(settings, FIXED)
    width, heads = whole(settings, "hidden_size"), whole(settings, "num_attention_heads")
    refused.when(width % heads != 0, f"hidden_size {width} is not a multiple of num_attention_heads {heads}")
    activation = settings.get("hidden_act", "gelu")
    refused.when(activation not in ACTIVATIONS, f"hidden_act {activation!r}")
    refused.check()
    return BertConfig(
        vocab_size=whole(settings, "vocab_size"),
        context_length=whole(settings, "max_position_embeddings", 512),
        type_vocab_size=whole(settings, "type_vocab_size", 2),
        num_layers=whole(settings, "num_hidden_layers"),
        d_model=width,
        d_ff=whole(settings, "intermediate_size"),
        num_heads=heads,
        head_dim=width // heads,
        activation=ACTIVATIONS[activation],
        norm_eps=real(settings, "layer_norm_eps", 1e-12),
        dropout=real(settings, "hidden_dropout_prob", 0.1),
        attention_dropout=real(settings, "attention_probs_dropout_prob", 0.1),
        head_dropout=None if settings.get("classifier_dropout") is None else real(settings, "classifier_dropout"),
    )


def _their_tensors(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Rename tensors from older versions to their current names and drop duplicates."""
    renamed = {}
    for name, tensor in tensors.items():
        stem = name.removeprefix("bert.")
        for old, new in OLD_NAMES.items():
            stem = stem.removesuffix(old) + new if stem.endswith(old) else stem
        if stem not in SURPLUS:
            renamed[stem] = tensor
    duplicate = renamed.pop("cls.predictions.decoder.bias", None)  # a second name for the MLM bias
    if duplicate is not None:
        renamed.setdefault("cls.predictions.bias", duplicate)
    return renamed


def _head_from(folder: Folder, theirs: Mapping[str, Tensor]) -> HeadConfig:
    """Return the head that config.json names. Of the two pretraining heads, only those with weights are kept."""
    name = (folder.config.get("architectures") or [CLASSES["none"]])[0]
    kinds = {theirs_: kind for kind, theirs_ in CLASSES.items()}
    if name not in kinds:
        known = ", ".join(kinds)
        raise FolderError(
            f"{folder.path / CONFIG} names the class {name!r}, which regard does not support. Supported: {known}."
        )
    kind = kinds[name]
    if kind in (*MLM_KINDS, *NSP_KINDS):
        mlm, nsp = (
            any(key.startswith(stem) for key in theirs) for stem in ("cls.predictions.", "cls.seq_relationship.")
        )
        return HeadConfig(kind="pretraining" if mlm and nsp else "mlm" if mlm else "nsp" if nsp else kind)
    if kind not in LABELLED:
        return HeadConfig(kind=kind)
    labels = _labels(folder.config)
    if kind == "token_classification":
        return HeadConfig(kind=kind, labels=labels)
    return HeadConfig(kind=kind, labels=labels, problem_type=_problem_type(folder, len(labels)))


def _labels(settings: Mapping[str, Any]) -> tuple[str, ...]:
    named = settings.get("id2label")
    if not named:  # transformers' own default
        return tuple(f"LABEL_{i}" for i in range(whole(settings, "num_labels", 2)))
    if wrong := [number for number in named if not str(number).isdecimal()]:
        raise UsageError(f"the keys of id2label must be label numbers, got {wrong[0]!r}.")
    by_number = {int(number): str(label) for number, label in named.items()}
    return tuple(by_number.get(i, f"LABEL_{i}") for i in range(max(by_number) + 1))


def _problem_type(folder: Folder, outputs: int) -> ProblemType:
    problem = folder.config.get("problem_type")
    if problem is None:
        return "regression" if outputs == 1 else "single_label_classification"
    for known in get_args(ProblemType):
        if problem == known:
            return known  # type: ignore[no-any-return]
    raise FolderError(f"{folder.path / CONFIG} has the unknown problem_type {problem!r}. Known: {', '.join(PROBLEMS)}.")


def _has_pooler(kind: HeadKind, theirs: Mapping[str, Tensor]) -> bool:
    pooled = (*NSP_KINDS, "sequence_classification", "multiple_choice")
    return kind in pooled or (kind == "none" and "pooler.dense.weight" in theirs)


def read_tokenizer(folder: Folder) -> Tokenizer:
    """Load the tokenizer of a BERT folder from tokenizer.json, or from the older vocab.txt."""
    settings = read_json(folder, TOKENIZER_CONFIG)
    if folder.has_text(TOKENIZER):
        tokenizer = Tokenizer.load(folder.file(TOKENIZER))
    elif folder.has_text(VOCABULARY):
        lowercase = settings.get("do_lower_case", True) is not False
        tokenizer = Tokenizer.from_vocabulary(folder.file(VOCABULARY), lowercase=lowercase)
    else:
        raise FolderError(f"{folder.path} has no tokenizer. Add {TOKENIZER} or {VOCABULARY}.")
    usual = tokenizer.special_tokens
    return tokenizer.with_special_tokens(
        SpecialTokens(
            pad=token_name(settings.get("pad_token")) or usual.pad,
            unknown=usual.unknown,
            start=token_name(settings.get("cls_token")) or usual.start,
            end=token_name(settings.get("sep_token")) or usual.end,
            mask=token_name(settings.get("mask_token")) or usual.mask,
        )
    )


def _read_embedding(folder: Folder, kind: HeadKind) -> dict[str, Any]:
    """Return the pooling and maximum length of a sentence-transformers folder; empty for other folders."""
    modules = read_json_value(folder, MODULES)
    if not isinstance(modules, list):
        return {}
    kinds = {str(module.get("type", "")).rpartition(".")[2]: module for module in modules if isinstance(module, dict)}
    if other := sorted(set(kinds) - {"Transformer", "Pooling", "Normalize"}):
        raise FolderError(f"{folder.path / MODULES} has modules that regard does not support: {', '.join(other)}.")
    settings: dict[str, Any] = {}
    if "Pooling" in kinds and kind == "none":
        settings["inference"] = {"pooling": _pooling(folder, f"{kinds['Pooling'].get('path', '')}/{CONFIG}")}
    longest = read_json(folder, SENTENCES).get("max_seq_length")
    return {**settings, "max_seq_len": longest} if isinstance(longest, int) else settings


def _pooling(folder: Folder, name: str) -> str:
    settings = read_json(folder, name)
    mode = settings.get("pooling_mode")
    chosen = [mode] if isinstance(mode, str) else list(mode or ())
    chosen = chosen or [POOLINGS.get(key, key) for key, value in settings.items() if value is True and "mode" in key]
    if not chosen:
        return "mean"
    if len(chosen) > 1 or chosen[0] not in POOLINGS.values():
        raise FolderError(
            f"{folder.path / name} uses {' and '.join(chosen)} pooling; regard supports mean, cls and max."
        )
    return str(chosen[0])


# --- Writing -----------------------------------------------------------------------------------------------


def to_hf(content: Content) -> Export:
    """Convert a model to a folder that `transformers` loads, with the class for its head and `AutoTokenizer`."""
    config, head, tokenizer = BertConfig(**content.config["model"]), _head(content), tokenizer_of(content)
    name = CLASSES[head.kind]
    settings = {
        "architectures": [name],
        "model_type": MODEL_TYPE,
        "dtype": dtype_name(content.tensors),
        "pad_token_id": tokenizer.pad_id,
        **config_to_hf(config),
        **_label_settings(head),
    }
    special_tokens = tokenizer.special_tokens
    names = {
        "pad_token": special_tokens.pad,
        "unk_token": special_tokens.unknown,
        "cls_token": special_tokens.start,
        "sep_token": special_tokens.end,
        "mask_token": special_tokens.mask,
    }
    longest = min(content.config.get("max_seq_len") or config.context_length, config.context_length)
    texts = {
        TOKENIZER: _with_template(tokenizer),
        TOKENIZER_CONFIG: json_text(tokenizer_config(longest, names, token_types=True)),
    }
    theirs = _to_hf_tensors(content.tensors, config, head.kind)
    tensors = {_with_prefix(name, head.kind): tensor.contiguous() for name, tensor in theirs.items()}
    return Export(settings, tensors, texts, class_name=name, notes=_notes(content, config, head))


def obstacles(content: Content) -> tuple[str, list[str]]:
    """Return the `transformers` class for a BERT, and the settings of the model that this class does not support."""
    config = BertConfig(**content.config["model"])
    reasons = unmet(config, REQUIRED)
    if config.num_heads * config.head_dim != config.d_model:
        reasons.append("num_heads × head_dim is not d_model")
    return CLASSES[_head(content).kind], reasons


def _head(content: Content) -> HeadConfig:
    return HeadConfig(**content.config.get("head", {}))


def _notes(content: Content, config: BertConfig, head: HeadConfig) -> tuple[str, ...]:
    notes = []
    if head.kind == "none" and not config.pooler:
        notes.append("This encoder has no pooler. transformers will add one with random weights.")
    pooling = content.config.get("inference", {}).get("pooling", "mean")
    if pooling != "mean":
        notes.append(f"sentence-transformers will use mean pooling for this folder instead of {pooling} pooling.")
    return tuple(notes)


def config_to_hf(config: BertConfig) -> dict[str, Any]:
    theirs = {ours: name for name, ours in reversed(ACTIVATIONS.items())}
    return {
        "vocab_size": config.vocab_size,
        "max_position_embeddings": config.context_length,
        "type_vocab_size": config.type_vocab_size,
        "num_hidden_layers": config.num_layers,
        "hidden_size": config.d_model,
        "intermediate_size": config.d_ff,
        "num_attention_heads": config.num_heads,
        "hidden_act": theirs[config.activation],
        "layer_norm_eps": config.norm_eps,
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
    return {**names, "problem_type": head.problem_type} if head.kind == "sequence_classification" else names


def _with_template(tokenizer: Tokenizer) -> str:
    """Return a tokenizer.json that adds [CLS] and [SEP]."""
    description = json.loads(tokenizer.to_json())
    if description.get("post_processor") is None:
        start, end = tokenizer.special_tokens.start, tokenizer.special_tokens.end
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


def _pairs(config: BertConfig, kind: HeadKind) -> Pairs:
    """Return our name for each tensor, and their names for its parts."""
    below = "" if kind == "none" else "bert."
    encoder = [
        ("embedding.weight", ("embeddings.word_embeddings.weight",)),
        ("embedding.token_types.weight", ("embeddings.token_type_embeddings.weight",)),
        ("embedding.positions.weight", ("embeddings.position_embeddings.weight",)),
        *module_pairs("embedding.norm", "embeddings.LayerNorm"),
    ]
    for i in range(config.num_layers):
        ours, theirs = f"encoder.{i}", f"encoder.layer.{i}"
        attention = [f"{theirs}.attention.self.{part}" for part in ("query", "key", "value")]
        encoder += [
            *module_pairs(f"{ours}.self_attention.qkv_proj", *attention),
            *module_pairs(f"{ours}.self_attention.out_proj", f"{theirs}.attention.output.dense"),
            *module_pairs(f"{ours}.self_residual.norm", f"{theirs}.attention.output.LayerNorm"),
            *module_pairs(f"{ours}.feed_forward.up_proj", f"{theirs}.intermediate.dense"),
            *module_pairs(f"{ours}.feed_forward.down_proj", f"{theirs}.output.dense"),
            *module_pairs(f"{ours}.feed_forward_residual.norm", f"{theirs}.output.LayerNorm"),
        ]
    if config.pooler:
        encoder += module_pairs("pooler", "pooler.dense")
    return [*((below + ours, theirs) for ours, theirs in encoder), *_head_pairs(kind)]


def _head_pairs(kind: HeadKind) -> Pairs:
    if kind in (*LABELLED, "multiple_choice"):
        return module_pairs("head.output", "classifier")
    if kind == "question_answering":
        return module_pairs("head.output", "qa_outputs")
    mlm = [
        *module_pairs("mlm.dense", "cls.predictions.transform.dense"),
        *module_pairs("mlm.norm", "cls.predictions.transform.LayerNorm"),
        ("mlm.bias", ("cls.predictions.bias",)),
    ]
    nsp = module_pairs("nsp.output", "cls.seq_relationship")
    return [*(mlm if kind in MLM_KINDS else ()), *(nsp if kind in NSP_KINDS else ())]


def _to_hf_tensors(tensors: Mapping[str, Tensor], config: BertConfig, kind: HeadKind) -> dict[str, Tensor]:
    """Convert our tensors to theirs."""
    theirs: dict[str, Tensor] = {}
    for ours, parts in _pairs(config, kind):
        theirs |= zip(parts, tensors[ours].chunk(len(parts)), strict=True)  # queries, keys and values have equal sizes
    return theirs


def _with_prefix(name: str, kind: HeadKind) -> str:
    of_head = name.startswith(("cls.", "classifier.", "qa_outputs."))
    return name if of_head or kind == "none" else f"bert.{name}"


FORMATS = (Format(model_type=MODEL_TYPE, from_hf=from_hf, to_hf=to_hf, obstacles=obstacles),)
