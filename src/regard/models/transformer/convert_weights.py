"""Convert config and tensors between `MarianMTModel` and `Transformer`.

| regard | transformers |
|---|---|
| d_model, d_ff, num_heads | d_model, *_ffn_dim, *_attention_heads |
| max_positions | max_position_embeddings |
| vocab_size, source_vocab_size | decoder_vocab_size, vocab_size unless the embeddings are shared |
| qkv_proj, kv_proj | q_proj, k_proj and v_proj, concatenated along rows |
| output_bias | final_logits_bias |

`MarianMTModel` is the Transformer of 2017 with few options: post-norm LayerNorm, biases everywhere, sinusoids with all
sines before all cosines. A model with other settings raises an error that names each of them. These differences are
converted without changing the logits:

- Missing biases are written as zeros.
- Interleaved sinusoids: the channels of the residual stream are permuted in every weight.
- Embeddings that source and target share but that are not tied to the output matrix are written once per use.
- Padding and start token: in Marian, `<pad>` has the last id and a zero vector, and the decoder starts with it. A model
  with other ids gets one more row for this token. The vector of the model's own start token is added to position 0 of
  the decoder, where only the start token occurs. CTranslate2 needs this layout: it drops the last row and starts from
  a zero vector. `save_pretrained` of `transformers` drops position tables. After further training there, set
  `decoder_start_token_id` to the model's own start token again.

The config records these changes under `regard_export`, and importing an exported folder restores the same tensors.
The importer checks the record against the weights, because other programs may have trained them further.

`convert.py` converts tokenizers and other files.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.models.transformer.config import TransformerConfig
from regard.models.transformer.model import Transformer
from regard.nn.init import empty_weights
from regard.nn.positions import sinusoids
from regard.nn.state_dict import unique_tensors
from regard.utils.errors import FolderError, UsageError, shorten_list

MODEL_TYPE, CLASS = "marian", "MarianMTModel"
NOTE = "regard_export"


# The defaults of `transformers` for settings that are missing in config.json.
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

# Settings from older versions that `MarianMTModel` ignores, with the values that match its behavior.
_FIXED: dict[str, Any] = {
    "is_encoder_decoder": True,
    "normalize_before": False,
    "normalize_embedding": False,
    "add_final_layer_norm": False,
    "static_position_embeddings": True,
    "quantization_config": None,
}

_ACTIVATIONS = {"relu": "relu", "gelu": "gelu", "silu": "silu", "swish": "silu"}

# Modules of a block: our name, their names, and the axis of the weight along which the residual stream runs.
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
_EMBEDDINGS = (_SHARED, _ENCODER, _DECODER, _HEAD)
_LOGITS_BIAS = "final_logits_bias"
_PAD_LOGIT = -1e4  # the probability of the padding token is 0, also in half precision
_POSITIONS = ("model.encoder.embed_positions.weight", "model.decoder.embed_positions.weight")


@dataclass(frozen=True)
class _Part:
    """One of our tensors, and the names of their tensors that it is joined from."""

    ours: str
    theirs: tuple[str, ...]
    stream_axis: int | None  # the axis of the residual stream, whose channels may be permuted
    is_bias: bool


# --- Reading ------------------------------------------------------------------------------------------------


def with_defaults(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the config with missing settings filled in by the defaults of `transformers`."""
    return {**_DEFAULTS, **config}


def _refuse_settings(settings: Mapping[str, Any], path: Path) -> None:
    """Raise one error that lists all unsupported settings, if there are any."""
    problems = [
        f"{name} is {settings[name]!r} (must be {only!r})"
        for name, only in _FIXED.items()
        if settings.get(name, only) != only
    ]
    architectures = settings.get("architectures") or ["MarianMTModel"]
    if architectures != ["MarianMTModel"]:
        problems.append(f"architectures is {architectures!r} (must be ['MarianMTModel'])")
    for name in ("vocab_size", "d_model", "encoder_layers", "decoder_layers", "max_position_embeddings"):
        problems += _not_a_count(settings, name)
    for kind in ("ffn_dim", "attention_heads"):
        both = [f"{side}_{kind}" for side in ("encoder", "decoder")]
        wrong = [problem for name in both for problem in _not_a_count(settings, name)]
        if not wrong and settings[both[0]] != settings[both[1]]:
            wrong.append(f"{both[0]} is {settings[both[0]]} and {both[1]} is {settings[both[1]]} (must be equal)")
        problems += wrong
    for name in ("dropout", "attention_dropout", "activation_dropout"):
        if not isinstance(settings[name], int | float) or not 0 <= settings[name] < 1:
            problems.append(f"{name} is {settings[name]!r} (must be at least 0 and less than 1)")
    if settings["activation_function"] not in _ACTIVATIONS:
        problems.append(f"activation_function is {settings['activation_function']!r} (use {', '.join(_ACTIVATIONS)})")
    if not problems and (settings["d_model"] % settings["encoder_attention_heads"] or settings["d_model"] % 2):
        problems.append(
            f"d_model is {settings['d_model']} with {settings['encoder_attention_heads']} attention heads "
            "(must be even and a multiple of the number of heads)"
        )
    if problems:
        raise FolderError(f"{path} has settings that regard does not support: {'; '.join(problems)}.")


def _not_a_count(settings: Mapping[str, Any], name: str) -> list[str]:
    value = settings[name]
    return [] if is_whole(value) and value > 0 else [f"{name} is {value!r} (must be an integer of at least 1)"]


def is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def tensors_from_hf(
    settings: Mapping[str, Any], tensors: Mapping[str, Tensor], path: Path
) -> tuple[TransformerConfig, dict[str, Tensor]]:
    """Convert config and tensors. `settings` must include all defaults; `path` is for error messages."""
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

    # Zero biases are dropped, unless the model that was exported had biases.
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
    """Raise if a position table, which older files store, differs from the sinusoids."""
    for name in _POSITIONS:
        if name in tensors:
            length, width = tensors[name].shape
            table = sinusoids(length, width, layout="halves")
            if not torch.allclose(tensors[name].float(), table, atol=2e-3):  # fp16 rounds by up to 1e-3
                raise FolderError(
                    f"{path}: {name} must hold sinusoids; regard supports Marian models only with sinusoidal positions."
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
    """Return the embedding matrices. A shared matrix may be stored under any of its names."""
    shared, tied = bool(settings["share_encoder_decoder_embeddings"]), bool(settings["tie_word_embeddings"])
    if shared and tied:
        return {"source_embedding.weight": _one_of(stored, _EMBEDDINGS, path)}
    # Without tying, `transformers` 5 stores three matrices even if they are shared; earlier versions store one.
    source_names = (_ENCODER, _SHARED) if shared else (_ENCODER,)
    source = _first_of(stored, source_names, path)
    if tied:
        return {"source_embedding.weight": source, "target_embedding.weight": _one_of(stored, (_DECODER, _HEAD), path)}
    target = _first_of(stored, (_DECODER, _SHARED) if shared else (_DECODER,), path)
    untied = {"source_embedding.weight": source, "output": _first_of(stored, (_HEAD,), path)}
    return untied if shared and torch.equal(source, target) else {**untied, "target_embedding.weight": target}


def _one_of(stored: Mapping[str, Tensor], names: Sequence[str], path: Path) -> Tensor:
    """Return the tensor that is stored under one or more of these names. All copies must be equal."""
    first = _first_of(stored, names, path)
    for name in names:
        if name in stored and not torch.equal(stored[name], first):
            raise FolderError(
                f"{path}: {name} must be identical to the other embedding matrices, because tie_word_embeddings is "
                "true, but its values differ."
            )
    return first


def _first_of(stored: Mapping[str, Tensor], names: Sequence[str], path: Path) -> Tensor:
    for name in names:
        if name in stored:
            return stored[name]
    raise FolderError(f"{path} has no tensor {names[0]}. Its weights and config.json belong to different models.")


def _compare_names(stored: Mapping[str, Tensor], expected: set[str], path: Path) -> None:
    wrong = []
    if missing := sorted(expected - set(stored)):
        wrong.append(f"missing: {shorten_list(missing)}")
    if surplus := sorted(set(stored) - expected - {*_EMBEDDINGS, _LOGITS_BIAS}):
        wrong.append(f"unexpected: {shorten_list(surplus)}")
    if wrong:
        raise FolderError(
            f"weights in {path} do not match its config.json ({'; '.join(wrong)}). They belong to different models."
        )


def _compare_shapes(config: TransformerConfig, tensors: Mapping[str, Tensor], path: Path) -> None:
    expected = _expected_shapes(config)
    wrong = [
        f"{name} is {_shape(tensor.shape)} instead of {_shape(expected[name])}"
        for name, tensor in tensors.items()
        if tensor.shape != expected[name]
    ]
    if wrong:
        raise FolderError(f"the weights in {path} do not match its config.json: {shorten_list(wrong)}.")


# --- Writing ------------------------------------------------------------------------------------------------


def unsupported_settings(config: TransformerConfig) -> list[str]:
    """Return the settings that `MarianMTModel` does not support; empty if the model can be exported."""
    required = {
        "positions": "sinusoidal",
        "norm": "layer",
        "norm_placement": "post",
        "final_norm": False,
        "qk_norm": False,
        "embedding_norm": False,
    }
    problems = [
        f"{name} {getattr(config, name)!r} (must be {only!r})"
        for name, only in required.items()
        if getattr(config, name) != only
    ]
    if config.activation not in _ACTIVATIONS:
        problems.append(f"activation {config.activation!r} (must be {', '.join(dict.fromkeys(_ACTIVATIONS.values()))})")
    if other := {address: heads for address, heads in config.num_heads_by_layer.items() if heads != config.num_heads}:
        problems.append(f"num_heads_by_layer {other!r} (must be {config.num_heads} in every layer)")
    if config.num_heads * config.head_dim != config.d_model:
        problems.append(
            f"num_heads {config.num_heads} × head_dim {config.head_dim} (must equal d_model {config.d_model})"
        )
    return problems


def _check_tensors(config: TransformerConfig, tensors: Mapping[str, Tensor]) -> None:
    expected = _expected_shapes(config)
    wrong = [f"{name} is missing" for name in expected if name not in tensors]
    wrong += [f"{name} is unexpected" for name in tensors if name not in expected]
    wrong += [
        f"{name} is {_shape(tensors[name].shape)} instead of {_shape(shape)}"
        for name, shape in expected.items()
        if name in tensors and tensors[name].shape != shape
    ]
    if wrong:
        raise UsageError(f"these tensors do not match the config of the Transformer: {shorten_list(wrong)}.")


def config_to_hf(config: TransformerConfig, *, start: int, end: int, pad: int, dtype: str) -> dict[str, Any]:
    """Return the config.json for this model."""
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


def append_pad(
    config: TransformerConfig, settings: dict[str, Any], theirs: dict[str, Tensor], *, num_tokens: int
) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Add Marian's padding token: it has the last id and a zero vector, and it is the first input of the decoder."""
    start, pad, size = settings["decoder_start_token_id"], settings["pad_token_id"], config.vocab_size
    table = sinusoids(config.max_positions, config.d_model, layout="halves").to(theirs[_LOGITS_BIAS].dtype)
    table[0] += _start_vector(settings, theirs, start)
    longer = {name: F.pad(theirs[name], (0, 0, 0, 1)) for name in _EMBEDDINGS if name in theirs}
    bias = F.pad(theirs[_LOGITS_BIAS], (0, 1), value=_PAD_LOGIT)
    tensors = {**theirs, **longer, _LOGITS_BIAS: bias, _POSITIONS[1]: table}
    changes = {
        **dict.fromkeys(("vocab_size", "decoder_vocab_size"), size + 1),
        **dict.fromkeys(("decoder_start_token_id", "pad_token_id"), size),
        NOTE: {**settings[NOTE], "start_id": start, "pad_id": pad, "num_tokens": num_tokens},
    }
    return {**settings, **changes}, tensors


def remove_pad(
    settings: Mapping[str, Any], tensors: Mapping[str, Tensor]
) -> tuple[dict[str, Any], dict[str, Tensor]] | None:
    """Undo `append_pad`. Return None if no token was appended or its weights have changed since."""
    note = settings[NOTE] if isinstance(settings.get(NOTE), dict) else {}
    ids: list[Any] = [note.get(name) for name in ("start_id", "pad_id", "num_tokens")]
    start, pad, _ = ids
    longer = {name: tensors[name] for name in _EMBEDDINGS if name in tensors}
    table, bias = tensors.get(_POSITIONS[1]), tensors.get(_LOGITS_BIAS)
    if table is None or bias is None or not (longer and all(map(is_whole, ids))):
        return None
    size = bias.shape[-1] - 1
    if any(len(weight) != size + 1 or weight[size].any() for weight in longer.values()) or not 0 <= start < size:
        return None
    table = table.clone()
    table[0] -= _start_vector(settings, tensors, start)
    shorter = {name: weight[:size] for name, weight in longer.items()}
    changes = dict(vocab_size=size, decoder_vocab_size=size, decoder_start_token_id=start, pad_token_id=pad)
    theirs = {**tensors, **shorter, _LOGITS_BIAS: bias[:, :size], _POSITIONS[1]: table}
    return {**settings, **changes}, theirs


def _start_vector(settings: Mapping[str, Any], theirs: Mapping[str, Tensor], start: int) -> Tensor:
    """Return the scaled embedding of the start token, without its position: (D,)."""
    embedding = next(theirs[name] for name in (_DECODER, _SHARED, _ENCODER, _HEAD) if name in theirs)
    return embedding[start] * (embedding.shape[1] ** 0.5 if settings["scale_embedding"] else 1.0)


def tensors_to_hf(config: TransformerConfig, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Convert tensors to those of `MarianMTModel`."""
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
    """Yield every tensor of the blocks, including biases."""
    stacks = (
        ("encoder", config.num_encoder_layers, (*_SELF, *_FEED_FORWARD)),
        ("decoder", config.num_decoder_layers, (*_SELF, *_CROSS, *_FEED_FORWARD)),
    )
    for stack, layers, modules in stacks:
        for layer in range(layers):
            for ours, theirs, axis in modules:
                for leaf, stream in (
                    ("weight", axis),
                    ("bias", 0 if axis == _WRITES else None),  # a bias has only the output axis
                ):
                    yield _Part(
                        ours=f"{stack}.{layer}.{ours}.{leaf}",
                        theirs=tuple(f"model.{stack}.layers.{layer}.{name}.{leaf}" for name in theirs),
                        stream_axis=stream,
                        is_bias=leaf == "bias",
                    )


def _halves_from_interleaved(width: int) -> Tensor:
    """Return the interleaved index of each channel in the halves layout, (D,). Interleaved sines have even indices."""
    return torch.cat((torch.arange(0, width, 2), torch.arange(1, width, 2)))


def _reordered(tensors: Mapping[str, Tensor], parts: Sequence[_Part], order: Tensor) -> dict[str, Tensor]:
    """Permute the channels of the residual stream in all tensors. The model stays equivalent."""
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
    """Return True if every bit is zero. −0 counts as nonzero: a bias with −0 is kept and restored exactly."""
    return not bool(tensor.any()) and not bool(torch.signbit(tensor).any())


def _shape(shape: torch.Size) -> str:
    return "×".join(map(str, shape)) or "a single number"
