"""Config and tensors of `MarianMTModel` ↔ `Transformer`.

| regard | transformers |
|---|---|
| d_model, d_ff, num_heads | d_model, *_ffn_dim, *_attention_heads |
| max_positions | max_position_embeddings |
| vocab_size, source_vocab_size | decoder_vocab_size, vocab_size unless the embeddings are shared |
| qkv_proj, kv_proj | q_proj, k_proj and v_proj, concatenated along rows |
| output_bias | final_logits_bias |

`MarianMTModel` is the Transformer of 2017 with few options: post-norm LayerNorm, biases everywhere, sinusoids with all
sines before all cosines. For a model with other settings, the error names each of them. Three differences are converted
without changing the logits:

- Missing biases are written as zeros.
- Interleaved sinusoids: the channels of the residual stream are permuted in every weight.
- Embeddings that are shared but not tied to the output are written once for each use.

The config records these changes under `regard_export`, so that importing an exported folder restores the same tensors.
The importer checks the record against the weights, since other programs may have trained them further.

`convert.py` converts tokenizers and other files.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from regard.models.transformer.config import TransformerConfig
from regard.models.transformer.model import Transformer
from regard.nn.init import empty_weights
from regard.nn.positions import sinusoids
from regard.nn.state_dict import unique_tensors
from regard.utils.errors import FolderError, UsageError, shorten_list

MODEL_TYPE, CLASS = "marian", "MarianMTModel"
NOTE = "regard_export"


# The defaults of `transformers` for settings that config.json leaves out.
_DEFAULTS: dict[str, Any] = {
    "vocab_size": 58101,
    "decoder_vocab_size": None,
    "max_position_embeddings": 1024,
    "encoder_layers": 12,
    "decoder_layers": 12,
    "encoder_ffn_dim": 4096,
    "decoder_ffn_dim": 4096,
    "encoder_attention_heads": 16,
    "decoder_attention_heads": 16,
    "d_model": 1024,
    "activation_function": "gelu",
    "scale_embedding": False,
    "dropout": 0.1,
    "attention_dropout": 0.0,
    "activation_dropout": 0.0,
    "decoder_start_token_id": 58100,
    "pad_token_id": 58100,
    "eos_token_id": 0,
    "share_encoder_decoder_embeddings": True,
    "tie_word_embeddings": True,
    "is_encoder_decoder": True,
}

# Settings of older versions that the class ignores: the only values with the same meaning.
_FIXED: dict[str, Any] = {
    "is_encoder_decoder": True,
    "normalize_before": False,
    "normalize_embedding": False,
    "add_final_layer_norm": False,
    "static_position_embeddings": True,
    "quantization_config": None,
}

_ACTIVATIONS = {"relu": "relu", "gelu": "gelu", "silu": "silu", "swish": "silu"}

# Modules of a block: our name, their names, and the axis of the weight that is the residual stream.
_READS, _WRITES = 1, 0
_SELF = (
    ("self_attention.qkv_proj", ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"), _READS),
    ("self_attention.out_proj", ("self_attn.out_proj",), _WRITES),
    ("self_residual.norm", ("self_attn_layer_norm",), _WRITES),
)
_CROSS = (
    ("cross_attention.q_proj", ("encoder_attn.q_proj",), _READS),
    ("cross_attention.kv_proj", ("encoder_attn.k_proj", "encoder_attn.v_proj"), _READS),
    ("cross_attention.out_proj", ("encoder_attn.out_proj",), _WRITES),
    ("cross_residual.norm", ("encoder_attn_layer_norm",), _WRITES),
)
_FEED_FORWARD = (
    ("feed_forward.up_proj", ("fc1",), _READS),
    ("feed_forward.down_proj", ("fc2",), _WRITES),
    ("feed_forward_residual.norm", ("final_layer_norm",), _WRITES),
)

_SHARED, _ENCODER, _DECODER, _HEAD = (
    "model.shared.weight",
    "model.encoder.embed_tokens.weight",
    "model.decoder.embed_tokens.weight",
    "lm_head.weight",
)
_LOGITS_BIAS = "final_logits_bias"
_POSITIONS = ("model.encoder.embed_positions.weight", "model.decoder.embed_positions.weight")


@dataclass(frozen=True)
class _Part:
    """One of our tensors, and their tensors that it consists of."""

    ours: str
    theirs: tuple[str, ...]
    stream_axis: int | None  # the axis of the residual stream, whose channels may be permuted
    is_bias: bool


# --- Reading ------------------------------------------------------------------------------------------------


def with_defaults(config: Mapping[str, Any]) -> dict[str, Any]:
    """The config with the defaults of `transformers` for missing settings."""
    return {**_DEFAULTS, **config}


def _refuse_settings(settings: Mapping[str, Any], path: Path) -> None:
    """Raise if a setting is not supported; the error lists all of them."""
    problems = [
        f"{name} is {settings[name]!r} (only {only!r})"
        for name, only in _FIXED.items()
        if settings.get(name, only) != only
    ]
    architectures = settings.get("architectures") or ["MarianMTModel"]
    if architectures != ["MarianMTModel"]:
        problems.append(f"architectures is {architectures!r} (only ['MarianMTModel'])")
    for name in ("vocab_size", "d_model", "encoder_layers", "decoder_layers", "max_position_embeddings"):
        problems += _not_a_count(settings, name)
    for kind in ("ffn_dim", "attention_heads"):
        both = [f"{side}_{kind}" for side in ("encoder", "decoder")]
        wrong = [problem for name in both for problem in _not_a_count(settings, name)]
        if not wrong and settings[both[0]] != settings[both[1]]:
            wrong.append(f"{both[0]} is {settings[both[0]]} and {both[1]} is {settings[both[1]]} (only equal numbers)")
        problems += wrong
    for name in ("dropout", "attention_dropout", "activation_dropout"):
        if not isinstance(settings[name], int | float) or not 0 <= settings[name] < 1:
            problems.append(f"{name} is {settings[name]!r} (only a number from 0 to below 1)")
    if settings["activation_function"] not in _ACTIVATIONS:
        problems.append(f"activation_function is {settings['activation_function']!r} (only {', '.join(_ACTIVATIONS)})")
    if not problems and (settings["d_model"] % settings["encoder_attention_heads"] or settings["d_model"] % 2):
        problems.append(
            f"d_model is {settings['d_model']} with {settings['encoder_attention_heads']} attention heads "
            "(only even multiples of the number of heads)"
        )
    if problems:
        raise FolderError(f"{path} has settings that regard does not support: {'; '.join(problems)}.")


def _not_a_count(settings: Mapping[str, Any], name: str) -> list[str]:
    value = settings[name]
    return [] if is_whole(value) and value > 0 else [f"{name} is {value!r} (only integers from 1)"]


def is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def tensors_from_hf(
    settings: Mapping[str, Any], tensors: Mapping[str, Tensor], path: Path
) -> tuple[TransformerConfig, dict[str, Tensor]]:
    """Convert config and tensors. `settings` must be complete; `path` is for error messages."""
    _refuse_settings(settings, path)
    _refuse_positions(tensors, path)
    stored = {name: tensor for name, tensor in tensors.items() if name not in _POSITIONS}
    embeddings = _read_embeddings(settings, stored, path)
    note = settings[NOTE] if isinstance(settings.get(NOTE), dict) else {}
    shared = "target_embedding.weight" not in embeddings
    config = _read_config(settings, shared=shared, tied="output" not in embeddings)
    parts = list(_block_parts(config))
    _compare_names(stored, {name for part in parts for name in part.theirs}, path)

    ours = dict(embeddings)
    for part in parts:
        ours[part.ours] = torch.cat([stored[name] for name in part.theirs])
    if _LOGITS_BIAS in stored:
        ours["output_bias"] = stored[_LOGITS_BIAS].flatten()
    _compare_shapes(config, ours, path)

    # Zero biases are dropped, unless the exported model had them.
    changes: dict[str, Any] = {}
    if _LOGITS_BIAS not in stored or (_is_zero(ours["output_bias"]) and not note.get("output_bias")):
        ours.pop("output_bias", None)
        changes["output_bias"] = False
    biases = [part.ours for part in parts if part.is_bias]
    if note.get("bias") is False and all(_is_zero(ours[name]) for name in biases):
        for name in biases:
            del ours[name]
        changes["bias"] = False
    if note.get("position_layout") == "interleaved":
        ours = _reordered(ours, parts, torch.argsort(_halves_from_interleaved(config.d_model)))
        changes["position_layout"] = "interleaved"
    return config.replace(**changes), ours


def _refuse_positions(tensors: Mapping[str, Tensor], path: Path) -> None:
    """Raise if a stored position table, as in older files, differs from the sinusoids."""
    for name in _POSITIONS:
        if name in tensors:
            length, width = tensors[name].shape
            table = sinusoids(length, width, layout="halves")
            if not torch.allclose(tensors[name].float(), table, atol=2e-3):  # half precision has an error of up to 1e-3
                raise FolderError(
                    f"{path}: {name} holds no sinusoids; regard supports Marian models only with sinusoidal positions."
                )


def _read_config(settings: Mapping[str, Any], *, shared: bool, tied: bool) -> TransformerConfig:
    source_size = settings["vocab_size"]
    target_size = source_size if shared else settings["decoder_vocab_size"] or source_size
    return TransformerConfig(
        vocab_size=target_size,
        source_vocab_size=None if shared else source_size,
        num_encoder_layers=settings["encoder_layers"],
        num_decoder_layers=settings["decoder_layers"],
        d_model=settings["d_model"],
        d_ff=settings["encoder_ffn_dim"],
        num_heads=settings["encoder_attention_heads"],
        head_dim=settings["d_model"] // settings["encoder_attention_heads"],
        positions="sinusoidal",
        position_layout="halves",
        max_positions=settings["max_position_embeddings"],
        activation=_ACTIVATIONS[settings["activation_function"]],
        output_bias=True,
        tie_embeddings=tied,
        scale_embeddings=bool(settings["scale_embedding"]),
        dropout=float(settings["dropout"]),
        attention_dropout=float(settings["attention_dropout"]),
        activation_dropout=float(settings["activation_dropout"]),
    )


def _read_embeddings(settings: Mapping[str, Any], stored: Mapping[str, Tensor], path: Path) -> dict[str, Tensor]:
    """The embedding matrices. A shared matrix may be stored under any of its names."""
    shared, tied = bool(settings["share_encoder_decoder_embeddings"]), bool(settings["tie_word_embeddings"])
    if shared and tied:
        return {"source_embedding.weight": _one_of(stored, (_SHARED, _ENCODER, _DECODER, _HEAD), path)}
    # Without tying, `transformers` 5 stores three matrices even if they are shared; earlier versions store one.
    source_names = (_ENCODER, _SHARED) if shared else (_ENCODER,)
    source = _first_of(stored, source_names, path)
    if tied:
        return {"source_embedding.weight": source, "target_embedding.weight": _one_of(stored, (_DECODER, _HEAD), path)}
    target = _first_of(stored, (_DECODER, _SHARED) if shared else (_DECODER,), path)
    untied = {"source_embedding.weight": source, "output": _first_of(stored, (_HEAD,), path)}
    return untied if shared and torch.equal(source, target) else {**untied, "target_embedding.weight": target}


def _one_of(stored: Mapping[str, Tensor], names: Sequence[str], path: Path) -> Tensor:
    """The tensor that is stored under some of these names; all of them must be equal."""
    first = _first_of(stored, names, path)
    for name in names:
        if name in stored and not torch.equal(stored[name], first):
            raise FolderError(
                f"{path}: {name} should be the same matrix as the other embeddings, because tie_word_embeddings is "
                "set, but its values differ."
            )
    return first


def _first_of(stored: Mapping[str, Tensor], names: Sequence[str], path: Path) -> Tensor:
    for name in names:
        if name in stored:
            return stored[name]
    raise FolderError(f"{path} lacks the tensor {names[0]}: weights and config.json belong to different models.")


def _compare_names(stored: Mapping[str, Tensor], expected: set[str], path: Path) -> None:
    wrong = []
    if missing := sorted(expected - set(stored)):
        wrong.append(f"missing: {shorten_list(missing)}")
    if surplus := sorted(set(stored) - expected - {_SHARED, _ENCODER, _DECODER, _HEAD, _LOGITS_BIAS}):
        wrong.append(f"surplus: {shorten_list(surplus)}")
    if wrong:
        raise FolderError(
            f"the weights in {path} do not fit its config.json; {'; '.join(wrong)}. They belong to different models."
        )


def _compare_shapes(config: TransformerConfig, tensors: Mapping[str, Tensor], path: Path) -> None:
    expected = _expected_shapes(config)
    wrong = [
        f"{name} is {_shape(tensor.shape)} instead of {_shape(expected[name])}"
        for name, tensor in tensors.items()
        if tensor.shape != expected[name]
    ]
    if wrong:
        raise FolderError(f"the weights in {path} do not fit its config.json; of another shape: {shorten_list(wrong)}.")


# --- Writing ------------------------------------------------------------------------------------------------


def unsupported_settings(config: TransformerConfig) -> list[str]:
    """The settings that `MarianMTModel` cannot express; empty if the model can be exported."""
    required = {
        "positions": "sinusoidal",
        "norm": "layer",
        "norm_placement": "post",
        "final_norm": False,
        "qk_norm": False,
        "embedding_norm": False,
    }
    problems = [
        f"{name} {getattr(config, name)!r} (only {only!r})"
        for name, only in required.items()
        if getattr(config, name) != only
    ]
    if config.activation not in _ACTIVATIONS:
        problems.append(f"activation {config.activation!r} (only {', '.join(dict.fromkeys(_ACTIVATIONS.values()))})")
    if other := {address: heads for address, heads in config.num_heads_by_layer.items() if heads != config.num_heads}:
        problems.append(f"num_heads_by_layer {other!r} (only {config.num_heads} heads everywhere)")
    if config.num_heads * config.head_dim != config.d_model:
        problems.append(
            f"num_heads {config.num_heads} × head_dim {config.head_dim} (only a product of d_model {config.d_model})"
        )
    return problems


def _check_tensors(config: TransformerConfig, tensors: Mapping[str, Tensor]) -> None:
    expected = _expected_shapes(config)
    wrong = [f"{name} is missing" for name in expected if name not in tensors]
    wrong += [f"{name} is surplus" for name in tensors if name not in expected]
    wrong += [
        f"{name} is {_shape(tensors[name].shape)} instead of {_shape(shape)}"
        for name, shape in expected.items()
        if name in tensors and tensors[name].shape != shape
    ]
    if wrong:
        raise UsageError(f"these tensors do not fit a Transformer with this config: {shorten_list(wrong)}.")


def config_to_hf(config: TransformerConfig, *, start: int, end: int, pad: int, dtype: str) -> dict[str, Any]:
    """The config.json of this model."""
    return {
        "architectures": [CLASS],
        "model_type": MODEL_TYPE,
        "is_encoder_decoder": True,
        "vocab_size": config.source_vocab_size or config.vocab_size,
        "decoder_vocab_size": config.vocab_size,
        "share_encoder_decoder_embeddings": config.source_vocab_size is None,
        "tie_word_embeddings": config.tie_embeddings,
        "d_model": config.d_model,
        "encoder_layers": config.num_encoder_layers,
        "decoder_layers": config.num_decoder_layers,
        "encoder_attention_heads": config.num_heads,
        "decoder_attention_heads": config.num_heads,
        "encoder_ffn_dim": config.d_ff,
        "decoder_ffn_dim": config.d_ff,
        "encoder_layerdrop": 0.0,
        "decoder_layerdrop": 0.0,
        "activation_function": config.activation,
        "scale_embedding": config.scale_embeddings,
        "max_position_embeddings": config.max_positions,
        "static_position_embeddings": True,
        "normalize_before": False,
        "normalize_embedding": False,
        "dropout": config.dropout,
        "attention_dropout": config.attention_dropout,
        "activation_dropout": config.activation_dropout,
        "decoder_start_token_id": start,
        "eos_token_id": end,
        "forced_eos_token_id": end,
        "pad_token_id": pad,
        "bos_token_id": None,
        "dtype": dtype,
        NOTE: {
            "bias": config.bias,
            "output_bias": config.output_bias,
            "position_layout": config.position_layout,
        },
    }


def tensors_to_hf(config: TransformerConfig, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors of `MarianMTModel`."""
    _check_tensors(config, tensors)
    parts = list(_block_parts(config))
    ours = {name: tensor.detach() for name, tensor in tensors.items()}
    like = ours["source_embedding.weight"]
    for part in parts:
        if part.is_bias and part.ours not in ours:
            rows = ours[part.ours.replace(".bias", ".weight")].shape[0]
            ours[part.ours] = like.new_zeros(rows)
    if config.position_layout == "interleaved":
        ours = _reordered(ours, parts, _halves_from_interleaved(config.d_model))
    theirs: dict[str, Tensor] = {}
    for part in parts:
        theirs.update(zip(part.theirs, ours[part.ours].chunk(len(part.theirs)), strict=True))
    logits_bias = ours.get("output_bias", like.new_zeros(config.vocab_size))
    return {**theirs, **_their_embeddings(config, ours), _LOGITS_BIAS: logits_bias[None]}


def _their_embeddings(config: TransformerConfig, ours: Mapping[str, Tensor]) -> dict[str, Tensor]:
    source = ours["source_embedding.weight"]
    if config.source_vocab_size is None and config.tie_embeddings:
        return {_SHARED: source}
    if config.source_vocab_size is None:
        return {_SHARED: source, _ENCODER: source.clone(), _DECODER: source.clone(), _HEAD: ours["output"]}
    apart = {_ENCODER: source, _DECODER: ours["target_embedding.weight"]}
    return apart if config.tie_embeddings else {**apart, _HEAD: ours["output"]}


# --- Both ways ----------------------------------------------------------------------------------------------


def _block_parts(config: TransformerConfig) -> Iterator[_Part]:
    """Every tensor of the blocks, biases included."""
    stacks = (
        ("encoder", config.num_encoder_layers, (*_SELF, *_FEED_FORWARD)),
        ("decoder", config.num_decoder_layers, (*_SELF, *_CROSS, *_FEED_FORWARD)),
    )
    for stack, layers, modules in stacks:
        for layer in range(layers):
            for ours, theirs, axis in modules:
                for leaf, stream in (
                    ("weight", axis),
                    ("bias", 0 if axis == _WRITES else None),  # a bias has the output axis only
                ):
                    yield _Part(
                        ours=f"{stack}.{layer}.{ours}.{leaf}",
                        theirs=tuple(f"model.{stack}.layers.{layer}.{name}.{leaf}" for name in theirs),
                        stream_axis=stream,
                        is_bias=leaf == "bias",
                    )


def _halves_from_interleaved(width: int) -> Tensor:
    """For each channel of the halves layout, its index in the interleaved layout, (D,): sines are at even indices."""
    return torch.cat((torch.arange(0, width, 2), torch.arange(1, width, 2)))


def _reordered(tensors: Mapping[str, Tensor], parts: Sequence[_Part], order: Tensor) -> dict[str, Tensor]:
    """Permute the channels of the residual stream in all tensors; the model stays equivalent."""
    axes = {part.ours: part.stream_axis for part in parts}
    axes |= {"source_embedding.weight": 1, "target_embedding.weight": 1, "output": 1, "output_bias": None}
    return {
        name: tensor if (axis := axes[name]) is None else tensor.index_select(axis, order)
        for name, tensor in tensors.items()
    }


def _expected_shapes(config: TransformerConfig) -> dict[str, torch.Size]:
    with empty_weights():
        model = Transformer(config)
    return {name: tensor.shape for name, tensor in unique_tensors(model).items()}


def _is_zero(tensor: Tensor) -> bool:
    """Whether every bit is zero. A bias with −0 is kept, so that it survives a round trip."""
    return not bool(tensor.any()) and not bool(torch.signbit(tensor).any())


def _shape(shape: torch.Size) -> str:
    return "×".join(map(str, shape)) or "a single number"
