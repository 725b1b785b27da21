"""Convert BERT folders between `transformers` and regard, with or without a head.

sentence-transformers folders with a BERT can be imported as well; their pooling is read from extra files.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, get_args

from torch import Tensor

from regard.models import formats
from regard.models.bert.config import BertConfig
from regard.models.bert.model import build
from regard.models.formats import CONFIG, TOKENIZER, TOKENIZER_CONFIG, Export, Folder, FolderContent, Format, Setting
from regard.models.heads import LABELLED, MLM_KINDS, NSP_KINDS, HeadConfig, ProblemType
from regard.nn.init import empty_weights
from regard.nn.state_dict import check_fit, unique_tensors
from regard.tokenizers.tokenizer import Tokenizer
from regard.utils.errors import FolderError, UsageError, config_errors

MODEL_TYPE = "bert"
VOCABULARY = "vocab.txt"
CLASSES: dict[str, str] = {
    "none": "BertModel",
    "mlm": "BertForMaskedLM",
    "nsp": "BertForNextSentencePrediction",
    "pretraining": "BertForPreTraining",
    "sequence_classification": "BertForSequenceClassification",
    "token_classification": "BertForTokenClassification",
    "question_answering": "BertForQuestionAnswering",
    "multiple_choice": "BertForMultipleChoice",
}
PROBLEMS: tuple[ProblemType, ...] = get_args(ProblemType)
SETTINGS = (
    Setting("vocab_size", "vocab_size"),
    Setting("max_position_embeddings", "context_length", default=512),
    Setting("type_vocab_size", "type_vocab_size", default=2),
    Setting("num_hidden_layers", "num_layers"),
    Setting("hidden_size", "d_model"),
    Setting("intermediate_size", "d_ff"),
    Setting("num_attention_heads", "num_heads"),
    Setting("layer_norm_eps", "norm_eps", formats.number, 1e-12),
    Setting("hidden_dropout_prob", "dropout", formats.number, 0.1),
    Setting("attention_probs_dropout_prob", "attention_dropout", formats.number, 0.1),
    Setting("classifier_dropout", "head_dropout", formats.number_or_null, None),
)
# Settings in the config.json of transformers for which regard supports only this value. They may be missing.
FIXED = {
    "position_embedding_type": "absolute",
    "is_decoder": False,
    "add_cross_attention": False,
    "tie_word_embeddings": True,
    "pruned_heads": {},
}
# Names of special tokens in transformers, and in regard.
SPECIAL_TOKENS = {
    "pad_token": "pad",
    "unk_token": "unknown",
    "cls_token": "start",
    "sep_token": "end",
    "mask_token": "mask",
}
# Names of modules in regard and in transformers.
ENCODER = {
    "embedding": "embeddings.word_embeddings",
    "embedding.token_types": "embeddings.token_type_embeddings",
    "embedding.positions": "embeddings.position_embeddings",
    "embedding.norm": "embeddings.LayerNorm",
    "pooler": "pooler.dense",
}
BLOCK = {
    "self_attention.qkv_proj": "attention.self.query attention.self.key attention.self.value",
    "self_attention.out_proj": "attention.output.dense",
    "self_residual.norm": "attention.output.LayerNorm",
    "feed_forward.up_proj": "intermediate.dense",
    "feed_forward.down_proj": "output.dense",
    "feed_forward_residual.norm": "output.LayerNorm",
}
PRETRAINING_HEADS = {
    "mlm.dense": "cls.predictions.transform.dense",
    "mlm.norm": "cls.predictions.transform.LayerNorm",
    "mlm.bias": "cls.predictions.bias",
    "nsp.output": "cls.seq_relationship",
}
# Tensors in files from old versions that are ignored: id buffers, and a copy of the token embedding table.
SURPLUS = ("embeddings.position_ids", "embeddings.token_type_ids", "cls.predictions.decoder.weight")
OLD_NAMES = {"LayerNorm.gamma": "LayerNorm.weight", "LayerNorm.beta": "LayerNorm.bias"}

# The files and keys in which sentence-transformers stores its pooling.
MODULES, SENTENCES = "modules.json", "sentence_bert_config.json"
SUPPORTED_MODULES = ("Transformer", "Pooling", "Normalize")
POOLINGS = {"pooling_mode_mean_tokens": "mean", "pooling_mode_cls_token": "cls", "pooling_mode_max_tokens": "max"}


# --- Reading -----------------------------------------------------------------------------------------------


def from_hf(folder: Folder) -> FolderContent:
    """Convert a BERT folder to the content of a regard folder, with its head."""
    theirs = _their_tensors(folder.tensors)
    with config_errors(folder.path / CONFIG):
        config = config_from_hf(folder.config, formats.UnsupportedSettings(folder.path / CONFIG))
        head = _head_from(folder, theirs)
    pooled = (*NSP_KINDS, "sequence_classification", "multiple_choice")
    has_pooler = head.kind in pooled or (head.kind == "none" and "pooler.dense.weight" in theirs)
    config = config.replace(pooler=has_pooler)
    if not has_pooler:  # some files contain a pooler that the head does not use
        theirs = {name: tensor for name, tensor in theirs.items() if not name.startswith("pooler.")}
    tokenizer = read_tokenizer(folder)
    pairs = _pairs(config, head.kind)
    with empty_weights():
        expected = formats.split(unique_tensors(build(config, head)), pairs)
    with formats.errors_at(folder.path):
        tokenizer.fits(config.vocab_size)
        check_fit(theirs, expected, CLASSES[head.kind])
    described = formats.our_config("bert", config, tokenizer, head=head.to_dict(), **_read_embedding(folder, head.kind))
    if head.kind == "sequence_classification":  # the folder does not say if it was trained on single texts or pairs
        described["accepts_pairs"] = True
    return FolderContent(described, formats.join(theirs, pairs), {TOKENIZER: tokenizer.to_json()})


def config_from_hf(settings: Mapping[str, Any], unsupported: formats.UnsupportedSettings) -> BertConfig:
    unsupported.require(settings, FIXED)
    width, heads = formats.integer(settings, "hidden_size"), formats.integer(settings, "num_attention_heads")
    reason = f"hidden_size {width} is not a multiple of num_attention_heads {heads}"
    unsupported.add_if(width % heads != 0, "num_attention_heads", heads, reason)
    activation = unsupported.activation(settings, "hidden_act", "gelu", formats.ACTIVATIONS)
    unsupported.raise_if_any()
    return BertConfig(**formats.read_settings(settings, SETTINGS), head_dim=width // heads, activation=activation)


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
    """Return the head for the class in config.json. Of the two pretraining heads, only those with weights are kept."""
    name = (folder.config.get("architectures") or [CLASSES["none"]])[0]
    kinds = {theirs_: kind for kind, theirs_ in CLASSES.items()}
    if name not in kinds:
        known = ", ".join(kinds)
        message = f"{folder.path / CONFIG}: regard does not support the class {name!r}. Supported: {known}."
        raise FolderError(message, argument="architectures", value=name, allowed=kinds, path=folder.path / CONFIG)
    kind = kinds[name]
    if kind in (*MLM_KINDS, *NSP_KINDS):
        mlm, nsp = (
            any(key.startswith(stem) for key in theirs) for stem in ("cls.predictions.", "cls.seq_relationship.")
        )
        return HeadConfig(kind="pretraining" if mlm and nsp else "mlm" if mlm else "nsp" if nsp else kind)
    labels = _labels(folder.config) if kind in LABELLED else ()
    if kind != "sequence_classification":
        return HeadConfig(kind=kind, labels=labels)
    return HeadConfig(kind=kind, labels=labels, problem_type=_problem_type(folder, len(labels)))


def _labels(settings: Mapping[str, Any]) -> tuple[str, ...]:
    named = settings.get("id2label")
    if not named:  # transformers' own default
        return tuple(f"LABEL_{i}" for i in range(formats.integer(settings, "num_labels", 2)))
    if wrong := [number for number in named if not str(number).isdecimal()]:
        message = f"the keys of id2label must be label numbers, got {wrong[0]!r}."
        raise UsageError(message, argument="id2label", value=wrong[0])
    by_number = {int(number): str(label) for number, label in named.items()}
    return tuple(by_number.get(i, f"LABEL_{i}") for i in range(max(by_number) + 1))


def _problem_type(folder: Folder, outputs: int) -> ProblemType:
    problem: ProblemType | None = folder.config.get("problem_type")
    if problem is None:
        return "regression" if outputs == 1 else "single_label_classification"
    if problem not in PROBLEMS:
        known = ", ".join(PROBLEMS)
        message = f"{folder.path / CONFIG} has the unknown problem_type {problem!r}. Known: {known}."
        raise FolderError(message, argument="problem_type", value=problem, allowed=PROBLEMS, path=folder.path / CONFIG)
    return problem


def read_tokenizer(folder: Folder) -> Tokenizer:
    """Load the tokenizer of a BERT folder from tokenizer.json, or from the older vocab.txt."""
    settings = formats.read_json(folder, TOKENIZER_CONFIG)
    if folder.has_text(TOKENIZER):
        tokenizer = Tokenizer.load(folder.file(TOKENIZER))
    elif folder.has_text(VOCABULARY):
        lowercase = settings.get("do_lower_case", True) is not False
        with formats.errors_at(folder.path / VOCABULARY):
            tokenizer = Tokenizer.from_vocabulary(folder.file(VOCABULARY), lowercase=lowercase)
    else:
        message = f"{folder.path} has no tokenizer. Add {TOKENIZER} or {VOCABULARY}."
        raise FolderError(message, argument="tokenizer", allowed=(TOKENIZER, VOCABULARY), path=folder.path)
    named = {role: formats.token_name(settings.get(name)) for name, role in SPECIAL_TOKENS.items() if role != "unknown"}
    changes: dict[str, Any] = {role: name for role, name in named.items() if name}
    return tokenizer.with_special_tokens(dataclasses.replace(tokenizer.special_tokens, **changes))


def _read_embedding(folder: Folder, kind: str) -> dict[str, Any]:
    """Return the pooling and maximum length of a sentence-transformers folder, or an empty dict for other folders."""
    modules = formats.read_json_value(folder, MODULES)
    if not isinstance(modules, list):
        return {}
    kinds = {str(module.get("type", "")).rpartition(".")[2]: module for module in modules if isinstance(module, dict)}
    if other := sorted(set(kinds).difference(SUPPORTED_MODULES)):
        raise FolderError(
            f"{folder.path / MODULES} has modules that regard does not support: {', '.join(other)}.",
            argument="type",
            value=other[0],
            allowed=SUPPORTED_MODULES,
            path=folder.path / MODULES,
        )
    settings: dict[str, Any] = {}
    if "Pooling" in kinds and kind == "none":
        settings["inference"] = {"pooling": _pooling(folder, f"{kinds['Pooling'].get('path', '')}/{CONFIG}")}
    longest = formats.read_json(folder, SENTENCES).get("max_seq_length")
    return {**settings, "max_seq_len": longest} if isinstance(longest, int) else settings


def _pooling(folder: Folder, name: str) -> str:
    settings = formats.read_json(folder, name)
    mode = settings.get("pooling_mode")
    chosen = [mode] if isinstance(mode, str) else list(mode or ())
    chosen = chosen or [POOLINGS.get(key, key) for key, value in settings.items() if value is True and "mode" in key]
    if not chosen:
        return "mean"
    if len(chosen) > 1 or chosen[0] not in POOLINGS.values():
        raise FolderError(
            f"{folder.path / name} uses {' and '.join(chosen)} pooling; regard supports one of mean, cls or max.",
            argument="pooling_mode",
            value=chosen[0] if len(chosen) == 1 else chosen,
            allowed=POOLINGS.values(),
            path=folder.path / name,
        )
    return str(chosen[0])


# --- Writing -----------------------------------------------------------------------------------------------


def to_hf(content: FolderContent) -> Export:
    """Convert a model to a folder that `transformers` loads, with the class for its head and `AutoTokenizer`."""
    config, head, tokenizer = BertConfig(**content.config["model"]), _head(content), formats.tokenizer_of(content)
    class_name = CLASSES[head.kind]
    settings = {
        "architectures": [class_name],
        "model_type": MODEL_TYPE,
        "dtype": formats.dtype_name(content.tensors),
        "pad_token_id": tokenizer.pad_id,
        **formats.write_settings(config, SETTINGS),
        "hidden_act": formats.their_activation(config.activation),
        **_label_settings(head),
    }
    names = {name: getattr(tokenizer.special_tokens, role) for name, role in SPECIAL_TOKENS.items()}
    inputs = ["input_ids", "token_type_ids", "attention_mask"]
    longest = min(content.config.get("max_seq_len") or config.context_length, config.context_length)
    texts = {
        TOKENIZER: _with_template(tokenizer),
        TOKENIZER_CONFIG: formats.json_text(formats.tokenizer_config(longest, names, model_input_names=inputs)),
    }
    prefix = "" if head.kind == "none" else "bert."
    tensors = formats.split(content.tensors, _pairs(config, head.kind, prefix))
    return Export(settings, tensors, texts, class_name=class_name, notes=_notes(content, config, head))


def unsupported_settings(content: FolderContent) -> tuple[str, dict[str, str]]:
    """Return the `transformers` class for a BERT, and the settings of the model that this class does not support."""
    config, required = BertConfig(**content.config["model"]), {"activation": formats.OUR_ACTIVATIONS}
    return CLASSES[_head(content).kind], formats.unsupported_settings(config, required)


def _head(content: FolderContent) -> HeadConfig:
    return HeadConfig(**content.config.get("head", {}))


def _notes(content: FolderContent, config: BertConfig, head: HeadConfig) -> tuple[str, ...]:
    notes = []
    if head.kind == "none" and not config.pooler:
        notes.append("This encoder has no pooler. transformers will add one with random weights.")
    pooling = content.config.get("inference", {}).get("pooling", "mean")
    if pooling != "mean":
        notes.append(f"sentence-transformers will use mean pooling for this folder instead of {pooling} pooling.")
    return tuple(notes)


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
    if tokenizer.has_post_processor:
        return tokenizer.to_json()
    start, end = tokenizer.tokens([tokenizer.start_id, tokenizer.end_id])
    single = [(start, 0), ("$A", 0), (end, 0)]
    return tokenizer.with_template(single, [*single, ("$B", 1), (end, 1)]).to_json()


def _pairs(config: BertConfig, kind: str, prefix: str = "") -> formats.Pairs:
    """Return pairs of tensor names, regard's and transformers'. `prefix` is added to the latter in the encoder."""
    ours = "" if kind == "none" else "bert."
    answers = kind == "question_answering"
    return [
        *formats.module_pairs(ENCODER, ours, prefix),
        *formats.layer_pairs(BLOCK, f"{ours}encoder", f"{prefix}encoder.layer", config.num_layers),
        *formats.module_pairs({**PRETRAINING_HEADS, "head.output": "qa_outputs" if answers else "classifier"}),
    ]


FORMATS = (Format(model_type=MODEL_TYPE, from_hf=from_hf, to_hf=to_hf, unsupported_settings=unsupported_settings),)
