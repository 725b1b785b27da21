"""The weights and settings of `MarianMTModel` ↔ those of `Transformer`.

| here | there |
|---|---|
| width, hidden, heads | d_model, *_ffn_dim, *_attention_heads |
| max_positions | max_position_embeddings |
| vocab_size, source_vocab_size | decoder_vocab_size, vocab_size unless the embeddings are shared |
| query_key_value, key_value | q_proj, k_proj and v_proj, one below the other |
| output_bias | final_logits_bias |

`MarianMTModel` is the Transformer of 2017 with few settings: LayerNorm after each sublayer, biases everywhere,
sinusoids with all sines before all cosines. A model with other settings is refused, each of them named. Three
differences can be bridged, so that the logits stay the same:

- Biases that a model here lacks are written as zeros.
- Interleaved sinusoids: the channels of the residual stream are put into another order in every weight.
- Embeddings that are shared but not tied to the output are written once for each use.

What such a step changed is noted under `regard_export` in the config, so that reading the folder again gives the
very tensors that were written. A note is only believed as far as the weights bear it out: the folder may have been
trained further by other programs.

This module knows names and numbers; files and text are the business of `marian.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from regard.checkpoint.folder import own_tensors
from regard.errors import FolderError, UsageError, some
from regard.models.transformer import Transformer
from regard.models.transformer_settings import TransformerConfig
from regard.nn.positions import sinusoids

MODEL_TYPE = "marian"
NOTE = "regard_export"


# What `transformers` assumes for a setting that config.json leaves out.
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

# Settings of older programs that the class does not have: the only values under which a model means the same.
_FIXED: dict[str, Any] = {
    "is_encoder_decoder": True,
    "normalize_before": False,
    "normalize_embedding": False,
    "add_final_layer_norm": False,
    "static_position_embeddings": True,
    "quantization_config": None,
}

_ACTIVATIONS = {"relu": "relu", "gelu": "gelu", "silu": "silu", "swish": "silu"}

# Each module of a block: its name here, what it is made of there, and which axis of its weight is the stream.
_READS, _WRITES = 1, 0
_SELF = (
    ("self_attention.query_key_value", ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"), _READS),
    ("self_attention.output", ("self_attn.out_proj",), _WRITES),
    ("self_residual.norm", ("self_attn_layer_norm",), _WRITES),
)
_CROSS = (
    ("cross_attention.query", ("encoder_attn.q_proj",), _READS),
    ("cross_attention.key_value", ("encoder_attn.k_proj", "encoder_attn.v_proj"), _READS),
    ("cross_attention.output", ("encoder_attn.out_proj",), _WRITES),
    ("cross_residual.norm", ("encoder_attn_layer_norm",), _WRITES),
)
_FEED_FORWARD = (
    ("feed_forward.widen", ("fc1",), _READS),
    ("feed_forward.narrow", ("fc2",), _WRITES),
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
    """One tensor here, and the tensors there that it consists of."""

    ours: str
    theirs: tuple[str, ...]
    stream_axis: int | None  # the axis that is the residual stream, whose channels may be reordered
    is_bias: bool


# --- Reading ------------------------------------------------------------------------------------------------


def with_defaults(config: Mapping[str, Any]) -> dict[str, Any]:
    """The config with what `transformers` assumes where it says nothing."""
    return {**_DEFAULTS, **config}


def _refuse_settings(settings: Mapping[str, Any], path: Path) -> None:
    """Every setting in the way, by its name."""
    found = [
        f"{name} is {settings[name]!r} (only {only!r})"
        for name, only in _FIXED.items()
        if settings.get(name, only) != only
    ]
    architectures = settings.get("architectures") or ["MarianMTModel"]
    if architectures != ["MarianMTModel"]:
        found.append(f"architectures is {architectures!r} (only ['MarianMTModel'])")
    for name in ("vocab_size", "d_model", "encoder_layers", "decoder_layers", "max_position_embeddings"):
        found += _not_a_count(settings, name)
    for kind in ("ffn_dim", "attention_heads"):
        both = [f"{side}_{kind}" for side in ("encoder", "decoder")]
        wrong = [problem for name in both for problem in _not_a_count(settings, name)]
        if not wrong and settings[both[0]] != settings[both[1]]:
            wrong.append(f"{both[0]} is {settings[both[0]]} and {both[1]} is {settings[both[1]]} (only equal numbers)")
        found += wrong
    for name in ("dropout", "attention_dropout", "activation_dropout"):
        if not isinstance(settings[name], int | float) or not 0 <= settings[name] < 1:
            found.append(f"{name} is {settings[name]!r} (only a share from 0 to below 1)")
    if settings["activation_function"] not in _ACTIVATIONS:
        found.append(f"activation_function is {settings['activation_function']!r} (only {', '.join(_ACTIVATIONS)})")
    if not found and (settings["d_model"] % settings["encoder_attention_heads"] or settings["d_model"] % 2):
        found.append(
            f"d_model is {settings['d_model']} with {settings['encoder_attention_heads']} attention heads "
            "(only even numbers that the heads divide)"
        )
    if found:
        raise FolderError(f"{path} has settings that regard cannot follow: {'; '.join(found)}.")


def _not_a_count(settings: Mapping[str, Any], name: str) -> list[str]:
    value = settings[name]
    return [] if is_whole(value) and value > 0 else [f"{name} is {value!r} (only a number from 1 on)"]


def is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def our_weights(
    settings: Mapping[str, Any], tensors: Mapping[str, Tensor], path: Path
) -> tuple[TransformerConfig, dict[str, Tensor]]:
    """The config and the tensors of the same model here; `settings` are complete, `path` is for errors."""
    _refuse_settings(settings, path)
    _refuse_positions(tensors, path)
    stored = {name: tensor for name, tensor in tensors.items() if name not in _POSITIONS}
    embeddings = _read_embeddings(settings, stored, path)
    note = settings[NOTE] if isinstance(settings.get(NOTE), dict) else {}
    shared = "target_embedding.weight" not in embeddings
    config = _read_config(settings, shared=shared, tied="output" not in embeddings)
    parts = list(_block_parts(config))
    _compare_names(stored, {name for part in parts for name in part.theirs}, path)

    found = dict(embeddings)
    for part in parts:
        found[part.ours] = torch.cat([stored[name] for name in part.theirs])
    if _LOGITS_BIAS in stored:
        found["output_bias"] = stored[_LOGITS_BIAS].flatten()
    _compare_shapes(config, found, path)

    # A bias of zeros is no bias, unless the model that was exported had one.
    changes: dict[str, Any] = {}
    if _LOGITS_BIAS not in stored or (_is_zero(found["output_bias"]) and not note.get("output_bias")):
        found.pop("output_bias", None)
        changes["output_bias"] = False
    biases = [part.ours for part in parts if part.is_bias]
    if note.get("bias") is False and all(_is_zero(found[name]) for name in biases):
        for name in biases:
            del found[name]
        changes["bias"] = False
    if note.get("position_layout") == "interleaved":
        found = _reordered(found, parts, torch.argsort(_halves_from_interleaved(config.width)))
        changes["position_layout"] = "interleaved"
    return replace(config, **changes), found


def _refuse_positions(tensors: Mapping[str, Tensor], path: Path) -> None:
    """Older files store the table of positions; it must be the one that is computed."""
    for name in _POSITIONS:
        if name in tensors:
            length, width = tensors[name].shape
            table = sinusoids(length, width, layout="halves")
            if not torch.allclose(tensors[name].float(), table, atol=2e-3):  # half precision is good to 1e-3
                raise FolderError(
                    f"{path}: {name} holds no sinusoids; regard cannot follow a Marian model with others."
                )


def _read_config(settings: Mapping[str, Any], *, shared: bool, tied: bool) -> TransformerConfig:
    source_size = settings["vocab_size"]
    target_size = source_size if shared else settings["decoder_vocab_size"] or source_size
    return TransformerConfig(
        vocab_size=target_size,
        source_vocab_size=None if shared else source_size,
        encoder_layers=settings["encoder_layers"],
        decoder_layers=settings["decoder_layers"],
        width=settings["d_model"],
        hidden=settings["encoder_ffn_dim"],
        heads=settings["encoder_attention_heads"],
        head_width=settings["d_model"] // settings["encoder_attention_heads"],
        positions="sinusoidal",
        position_layout="halves",
        max_positions=settings["max_position_embeddings"],
        activation=_ACTIVATIONS[settings["activation_function"]],  # type: ignore[arg-type]
        output_bias=True,
        tie_embeddings=tied,
        scale_embeddings=bool(settings["scale_embedding"]),
        dropout=float(settings["dropout"]),
        attention_dropout=float(settings["attention_dropout"]),
        hidden_dropout=float(settings["activation_dropout"]),
    )


def _read_embeddings(settings: Mapping[str, Any], stored: Mapping[str, Tensor], path: Path) -> dict[str, Tensor]:
    """The embedding matrices; one that is used in several places may be stored under any of its names."""
    shared, tied = bool(settings["share_encoder_decoder_embeddings"]), bool(settings["tie_word_embeddings"])
    if shared and tied:
        return {"source_embedding.weight": _one_of(stored, (_SHARED, _ENCODER, _DECODER, _HEAD), path)}
    # Without tying, `transformers` 5 keeps the three apart even if they are called shared; its predecessors did not.
    source_names = (_ENCODER, _SHARED) if shared else (_ENCODER,)
    source = _first_of(stored, source_names, path)
    if tied:
        return {"source_embedding.weight": source, "target_embedding.weight": _one_of(stored, (_DECODER, _HEAD), path)}
    target = _first_of(stored, (_DECODER, _SHARED) if shared else (_DECODER,), path)
    found = {"source_embedding.weight": source, "output": _first_of(stored, (_HEAD,), path)}
    return found if shared and torch.equal(source, target) else {**found, "target_embedding.weight": target}


def _one_of(stored: Mapping[str, Tensor], names: Sequence[str], path: Path) -> Tensor:
    """The tensor that goes under all these names."""
    first = _first_of(stored, names, path)
    for name in names:
        if name in stored and not torch.equal(stored[name], first):
            raise FolderError(
                f"{path}: {name} should be the same matrix as the other embeddings, as tie_word_embeddings says, but "
                "its numbers differ."
            )
    return first


def _first_of(stored: Mapping[str, Tensor], names: Sequence[str], path: Path) -> Tensor:
    for name in names:
        if name in stored:
            return stored[name]
    raise FolderError(f"{path} lacks the tensor {names[0]}: weights and config.json are not of the same model.")


def _compare_names(stored: Mapping[str, Tensor], expected: set[str], path: Path) -> None:
    wrong = []
    if missing := sorted(expected - set(stored)):
        wrong.append(f"missing: {some(missing)}")
    if surplus := sorted(set(stored) - expected - {_SHARED, _ENCODER, _DECODER, _HEAD, _LOGITS_BIAS}):
        wrong.append(f"surplus: {some(surplus)}")
    if wrong:
        raise FolderError(
            f"the weights in {path} do not fit its config.json; {'; '.join(wrong)}. They are not of the same model."
        )


def _compare_shapes(config: TransformerConfig, tensors: Mapping[str, Tensor], path: Path) -> None:
    expected = _expected_shapes(config)
    wrong = [
        f"{name} is {_shape(tensor.shape)} instead of {_shape(expected[name])}"
        for name, tensor in tensors.items()
        if tensor.shape != expected[name]
    ]
    if wrong:
        raise FolderError(f"the weights in {path} do not fit its config.json; of another shape: {some(wrong)}.")


# --- Writing ------------------------------------------------------------------------------------------------


def marian_obstacles(config: TransformerConfig) -> list[str]:
    """Every setting that `MarianMTModel` has no counterpart for; empty if the model can be written."""
    wanted = {
        "architecture": "encoder-decoder",
        "positions": "sinusoidal",
        "norm": "layer",
        "norm_placement": "post",
        "final_norm": False,
        "normalise_queries_and_keys": False,
        "embedding_norm": False,
    }
    found = [
        f"{name} {getattr(config, name)!r} (only {only!r})"
        for name, only in wanted.items()
        if getattr(config, name) != only
    ]
    if config.activation not in _ACTIVATIONS:
        found.append(f"activation {config.activation!r} (only {', '.join(dict.fromkeys(_ACTIVATIONS.values()))})")
    if other := {address: heads for address, heads in config.heads_at.items() if heads != config.heads}:
        found.append(f"heads_at {other!r} (only {config.heads} heads everywhere)")
    if config.heads * config.head_width != config.width:
        found.append(
            f"heads {config.heads} × head_width {config.head_width} (only a product equal to the width, {config.width})"
        )
    return found


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
        raise UsageError(f"these tensors are not those of a Transformer with this config: {some(wrong)}.")


def their_settings(config: TransformerConfig, *, start: int, end: int, pad: int, dtype: str) -> dict[str, Any]:
    """What config.json says of this model."""
    return {
        "architectures": ["MarianMTModel"],
        "model_type": MODEL_TYPE,
        "is_encoder_decoder": True,
        "vocab_size": config.source_vocab_size or config.vocab_size,
        "decoder_vocab_size": config.vocab_size,
        "share_encoder_decoder_embeddings": config.source_vocab_size is None,
        "tie_word_embeddings": config.tie_embeddings,
        "d_model": config.width,
        "encoder_layers": config.encoder_layers,
        "decoder_layers": config.decoder_layers,
        "encoder_attention_heads": config.heads,
        "decoder_attention_heads": config.heads,
        "encoder_ffn_dim": config.hidden,
        "decoder_ffn_dim": config.hidden,
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
        "activation_dropout": config.hidden_dropout,
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


def their_weights(config: TransformerConfig, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors of `MarianMTModel`; a model that it cannot be is refused."""
    if obstacles := marian_obstacles(config):
        raise UsageError(
            "this model cannot be written for transformers: its class for Marian models has no setting for "
            f"{'; '.join(obstacles)}. A model trained with `--recipe paper` can be exported."
        )
    _check_tensors(config, tensors)
    parts = list(_block_parts(config))
    ours = {name: tensor.detach() for name, tensor in tensors.items()}
    like = ours["source_embedding.weight"]
    for part in parts:
        if part.is_bias and part.ours not in ours:
            rows = ours[part.ours.replace(".bias", ".weight").replace(".shift", ".scale")].shape[0]
            ours[part.ours] = like.new_zeros(rows)
    if config.position_layout == "interleaved":
        ours = _reordered(ours, parts, _halves_from_interleaved(config.width))
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
        ("encoder", config.encoder_layers, (*_SELF, *_FEED_FORWARD)),
        ("decoder", config.decoder_layers, (*_SELF, *_CROSS, *_FEED_FORWARD)),
    )
    for stack, layers, modules in stacks:
        for layer in range(layers):
            for ours, theirs, axis in modules:
                weight, bias = ("scale", "shift") if ours.endswith("norm") else ("weight", "bias")
                for leaf, their_leaf, stream in (
                    (weight, "weight", axis),
                    (bias, "bias", 0 if axis == _WRITES else None),  # what reads the stream has no bias in it
                ):
                    yield _Part(
                        ours=f"{stack}.{layer}.{ours}.{leaf}",
                        theirs=tuple(f"model.{stack}.layers.{layer}.{name}.{their_leaf}" for name in theirs),
                        stream_axis=stream,
                        is_bias=their_leaf == "bias",
                    )


def _halves_from_interleaved(width: int) -> Tensor:
    """Which interleaved channel each channel of the halves layout is: sines stand at even places."""
    return torch.cat((torch.arange(0, width, 2), torch.arange(1, width, 2)))


def _reordered(tensors: Mapping[str, Tensor], parts: Sequence[_Part], order: Tensor) -> dict[str, Tensor]:
    """The same model with the channels of its residual stream in another order."""
    axes = {part.ours: part.stream_axis for part in parts}
    axes |= {"source_embedding.weight": 1, "target_embedding.weight": 1, "output": 1, "output_bias": None}
    return {
        name: tensor if (axis := axes[name]) is None else tensor.index_select(axis, order)
        for name, tensor in tensors.items()
    }


def _expected_shapes(config: TransformerConfig) -> dict[str, torch.Size]:
    with torch.device("meta"):
        model = Transformer(config)
    shared = config.source_vocab_size is None
    names = own_tensors(model)  # without memory, tied names cannot be told apart
    return {name: t.shape for name, t in names.items() if not (shared and name == "target_embedding.weight")}


def _is_zero(tensor: Tensor) -> bool:
    """Whether every bit is zero: −0 would not come back as it was."""
    return not bool(tensor.any()) and not bool(torch.signbit(tensor).any())


def _shape(shape: torch.Size) -> str:
    return "×".join(map(str, shape)) or "a single number"
