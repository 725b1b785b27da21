"""Convert model folders in format 1, which regard 0.1 wrote, to the current format when they are read.

The formats differ only in the names of settings, tasks, heads and tensors. The values of the weights do not change.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from regard.utils.errors import FolderError

if TYPE_CHECKING:
    from regard.checkpoint.folder import ModelFolder

FORMAT = 2  # the current format


def _table(text: str) -> dict[str, str]:
    """Return a mapping from old to new names; `text` lists them in pairs."""
    names = text.split()
    return dict(zip(names[::2], names[1::2], strict=True))


ARCHITECTURES = _table("regard-transformer transformer  regard-gpt gpt  regard-bert bert")
MODEL = _table("""
    width d_model  hidden d_ff  heads num_heads  head_width head_dim  heads_at num_heads_by_layer  layers num_layers
    encoder_layers num_encoder_layers  decoder_layers num_decoder_layers  context context_length
    segments type_vocab_size  key_value_heads num_kv_heads  norm_gains norm_affine  norm_epsilon norm_eps
    normalise_queries_and_keys qk_norm  logit_cap logit_softcap  rotary_base rope_theta  rotary_scaling rope_scaling
    hidden_dropout activation_dropout
""")
ROPE_SCALING = _table("low low_freq_factor  high high_freq_factor  context original_max_position_embeddings")
HEADS = _table("""
    words mlm  follows nsp  words-follows pretraining  sequence sequence_classification  tokens token_classification
    spans question_answering  choice multiple_choice
""")
PROBLEM_TYPES = _table("one single_label_classification  several multi_label_classification  number regression")
INFERENCE = {  # sections with prediction options, and the names in them
    "search": _table("beams num_beams  max_ratio max_len_a  max_extra max_len_b"),
    "sampling": {},
    "answering": _table("threshold no_answer_threshold"),
    "embedding": _table("normalise normalize  max_tokens max_seq_len"),
}
TOP_LEVEL = _table("symbols special_tokens  commonest majority_label  either accepts_pairs  max_tokens max_seq_len")
LORA = {"lora_on": "lora_targets"}
TENSORS = [  # a regular expression for the text before a name, the old name, the new name
    line.split()
    for line in r"""
        self_attention\.   query_key_value  qkv_proj
        cross_attention\.  query            q_proj
        cross_attention\.  key_value        kv_proj
        _attention\.       output           out_proj
        _attention\.       gains            qk_scale
        feed_forward\.     widen            up_proj
        feed_forward\.     narrow           down_proj
        norm\.             scale            weight
        norm\.             shift            bias
        embedding\.        segments         token_types
        ^                  words            mlm
        ^                  follows          nsp
    """.strip().splitlines()
]


def upgrade(folder: ModelFolder) -> ModelFolder:
    """Return the folder in the current format; raise if its format is unknown."""
    section = folder.config["regard"]
    version = section.get("format") if isinstance(section, Mapping) else None
    if version == FORMAT:
        return folder
    if version != 1:
        message = f"the format of {folder.path} must be 1 or {FORMAT}, got {version!r}. Try a newer version of regard."
        raise FolderError(message, path=folder.path, argument="format", value=version, allowed=[1, FORMAT])
    tensors = {rename_tensor(name): tensor for name, tensor in folder.tensors.items()}
    return replace(folder, config=_upgrade_config(folder.config), tensors=tensors)


def rename_tensor(name: str, *, undo: bool = False) -> str:
    """Convert the name of a tensor from format 1 to the current format, or back with `undo`."""
    for before, old, new in TENSORS:
        if undo:
            old, new = new, old
        name = re.sub(rf"(?<={before}){old}\b", new, name)
    return name


def task_name(config: Mapping[str, Any]) -> str:
    """Return the current task of a format 1 config. Multiple choice was part of `pair`; NSP models can only embed."""
    kind = config.get("head", {}).get("kind")
    return {"choice": "choose", "follows": "embed"}.get(kind) or str(config["regard"]["task"])


def _upgrade_config(config: Mapping[str, Any]) -> dict[str, Any]:
    other = {key: value for key, value in config.items() if key not in ("regard", "model_type", "model", *INFERENCE)}
    model = _rename(config["model"], MODEL)
    if model.pop("architecture", "encoder-decoder") != "encoder-decoder":
        raise FolderError(
            "encoder-only and decoder-only variants of the 2017 Transformer are no longer supported. Train a bert or "
            "gpt model instead."
        )
    if model.get("rope_scaling"):
        model["rope_scaling"] = _rename(model["rope_scaling"], ROPE_SCALING)
    architecture = ARCHITECTURES[config["model_type"]]
    new = {**_rename(other, TOP_LEVEL), "architecture": architecture, "model": model, "inference": {}}
    for section, names in INFERENCE.items():
        if section in config:
            new["inference"] = _rename(config[section], names)
    if "head" in config:
        kind, answers = config["head"].get("kind", "none"), config["head"].get("answers", "one")
        problem_type = PROBLEM_TYPES.get(answers, answers)
        labels = config["head"].get("labels", [])
        new["head"] = {"kind": HEADS.get(kind, kind), "labels": labels, "problem_type": problem_type}
    if "lora" in config:
        new["lora"] = _rename(config["lora"], LORA)
    task = task_name(config)
    if task == "fill":  # has no embedding options
        new["max_seq_len"] = new["inference"].get("max_seq_len")
        new["inference"] = {}
    return {"regard": {"format": FORMAT, "task": task}, **new}


def _rename(values: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    return {names.get(key, key): value for key, value in values.items()}
