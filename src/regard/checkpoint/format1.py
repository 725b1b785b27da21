"""Model folders of format 1, which regard 0.1 wrote: converted to the current format when they are read.

Only names changed between the formats: of settings, of tasks and heads, and of tensors. Weights keep their bits.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from regard.utils.errors import FolderError

if TYPE_CHECKING:
    from regard.checkpoint.folder import ModelFolder

FORMAT = 2  # the current one

ARCHITECTURES = {"regard-transformer": "transformer", "regard-gpt": "gpt", "regard-bert": "bert"}
MODEL = {
    "width": "d_model",
    "hidden": "d_ff",
    "heads": "num_heads",
    "head_width": "head_dim",
    "heads_at": "num_heads_by_layer",
    "layers": "num_layers",
    "encoder_layers": "num_encoder_layers",
    "decoder_layers": "num_decoder_layers",
    "context": "context_length",
    "segments": "type_vocab_size",
    "key_value_heads": "num_kv_heads",
    "norm_gains": "norm_affine",
    "norm_epsilon": "norm_eps",
    "normalise_queries_and_keys": "qk_norm",
    "logit_cap": "logit_softcap",
    "rotary_base": "rope_theta",
    "rotary_scaling": "rope_scaling",
    "hidden_dropout": "activation_dropout",
}
ROPE_SCALING = {"low": "low_freq_factor", "high": "high_freq_factor", "context": "original_max_position_embeddings"}
HEADS = {
    "words": "mlm",
    "follows": "nsp",
    "words-follows": "pretraining",
    "sequence": "sequence_classification",
    "tokens": "token_classification",
    "spans": "question_answering",
    "choice": "multiple_choice",
}
PROBLEM_TYPES = {
    "one": "single_label_classification",
    "several": "multi_label_classification",
    "number": "regression",
}
INFERENCE = {  # sections with options of prediction, and the names in them
    "search": {"beams": "num_beams", "max_ratio": "max_len_a", "max_extra": "max_len_b"},
    "sampling": {},
    "answering": {"threshold": "no_answer_threshold"},
    "embedding": {"normalise": "normalize", "max_tokens": "max_seq_len"},
}
TOP_LEVEL = {
    "symbols": "special_tokens",
    "commonest": "majority_label",
    "either": "accepts_pairs",
    "max_tokens": "max_seq_len",
}
LORA = {"lora_on": "lora_targets"}
TENSORS = (
    (r"\bself_attention\.query_key_value\b", "self_attention.qkv_proj"),
    (r"\bcross_attention\.query\b", "cross_attention.q_proj"),
    (r"\bcross_attention\.key_value\b", "cross_attention.kv_proj"),
    (r"\b(self|cross)_attention\.output\b", r"\1_attention.out_proj"),
    (r"\b(self|cross)_attention\.gains$", r"\1_attention.qk_scale"),
    (r"\bfeed_forward\.widen\b", "feed_forward.up_proj"),
    (r"\bfeed_forward\.narrow\b", "feed_forward.down_proj"),
    (r"norm\.scale$", "norm.weight"),
    (r"norm\.shift$", "norm.bias"),
    (r"\bembedding\.segments\b", "embedding.token_types"),
    (r"^words\.", "mlm."),
    (r"^follows\.", "nsp."),
)


def upgrade(folder: ModelFolder) -> ModelFolder:
    """The folder in the current format; one of an unknown format is refused."""
    written = folder.config["regard"].get("format") if isinstance(folder.config["regard"], Mapping) else None
    if written == FORMAT:
        return folder
    if written != 1:
        raise FolderError(
            f"{folder.path} has format {written!r}; this version of regard reads formats 1 and {FORMAT}.",
            path=folder.path,
            argument="format",
            value=written,
            allowed=[1, FORMAT],
        )
    tensors = {rename_tensor(name): tensor for name, tensor in folder.tensors.items()}
    return replace(folder, config=_config(folder.config), tensors=tensors)


def rename_tensor(name: str) -> str:
    """The current name of a tensor of format 1."""
    for pattern, new in TENSORS:
        name = re.sub(pattern, new, name)
    return name


def original_name(name: str) -> str:
    """The name that a tensor had in format 1, under which the checksum of an adapter's base was taken."""
    undo = (
        (r"\bself_attention\.qkv_proj\b", "self_attention.query_key_value"),
        (r"\bcross_attention\.q_proj\b", "cross_attention.query"),
        (r"\bcross_attention\.kv_proj\b", "cross_attention.key_value"),
        (r"\b(self|cross)_attention\.out_proj\b", r"\1_attention.output"),
        (r"\b(self|cross)_attention\.qk_scale$", r"\1_attention.gains"),
        (r"\bfeed_forward\.up_proj\b", "feed_forward.widen"),
        (r"\bfeed_forward\.down_proj\b", "feed_forward.narrow"),
        (r"norm\.weight$", "norm.scale"),
        (r"norm\.bias$", "norm.shift"),
    )
    for pattern, old in undo:
        name = re.sub(pattern, old, name)
    return name


def _config(config: Mapping[str, Any]) -> dict[str, Any]:
    known = {key: value for key, value in config.items() if key not in ("regard", "model_type", "model", *INFERENCE)}
    model = _renamed(config["model"], MODEL)
    if model.pop("architecture", "encoder-decoder") != "encoder-decoder":
        raise FolderError("encoder-only and decoder-only variants of the Transformer are no longer supported.")
    if model.get("rope_scaling"):
        model["rope_scaling"] = _renamed(model["rope_scaling"], ROPE_SCALING)
    new = {
        **_renamed(known, TOP_LEVEL),
        "architecture": ARCHITECTURES[config["model_type"]],
        "model": model,
        "inference": {},
    }
    for section, names in INFERENCE.items():
        if section in config:
            new["inference"] = _renamed(config[section], names)
    if "head" in config:
        new["head"] = _head(config["head"])
    if "lora" in config:
        new["lora"] = _renamed(config["lora"], LORA)
    task = task_name(config)
    if task == "fill":  # has no options of embedding
        new["max_seq_len"] = new["inference"].get("max_seq_len")
        new["inference"] = {}
    return {"regard": {"format": FORMAT, "task": task}, **new}


def _head(head: Mapping[str, Any]) -> dict[str, Any]:
    kind = HEADS.get(head.get("kind", "none"), head.get("kind", "none"))
    answers = head.get("answers", "one")
    return {"kind": kind, "labels": head.get("labels", []), "problem_type": PROBLEM_TYPES.get(answers, answers)}


def task_name(config: Mapping[str, Any]) -> str:
    """The task of a config. Multiple choice was part of `pair`; a next-sentence head alone only embeds."""
    kind = config.get("head", {}).get("kind")
    return {"choice": "choose", "follows": "embed"}.get(kind) or str(config["regard"]["task"])


def _renamed(values: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    return {names.get(key, key): value for key, value in values.items()}
