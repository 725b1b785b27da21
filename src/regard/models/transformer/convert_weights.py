"""Convert config and tensors between `MarianMTModel` and `Transformer`.

| regard | transformers |
|---|---|
| d_model, d_ff, num_heads | d_model, *_ffn_dim, *_attention_heads |
| max_positions | max_position_embeddings |
| vocab_size, source_vocab_size | decoder_vocab_size, vocab_size unless the embeddings are shared |
| qkv_proj, kv_proj | q_proj, k_proj and v_proj, concatenated along rows |
| output_bias | final_logits_bias |

`MarianMTModel` is the Transformer of 2017 with few options: post-norm LayerNorm, biases everywhere, sinusoids with all
sines before all cosines. A model with other settings raises an error that lists them. These differences are
converted without changing the logits:

- Missing biases are written as zeros.
- Interleaved sinusoids: the channels of the residual stream are permuted in every weight.
- Embeddings that source and target share but that are not tied to the output matrix are written once per use.
- Padding and start token: in Marian, `<pad>` has the last id and a zero vector, and the decoder starts with it. A model
  with other ids gets one more row for this token. The vector of the model's own start token is added to position 0 of
  the decoder, where only the start token occurs. CTranslate2 needs this layout: it drops the last row and starts from
  a zero vector. `save_pretrained` of `transformers` drops position tables. After further training there, set
  `decoder_start_token_id` to the model's own start token again.

The config records these changes under `regard_export`, and importing an exported folder restores the same tensors. The
importer checks that the record matches the weights, because other programs may have trained them further.

`convert.py` converts tokenizers and other files.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.models import formats
from regard.models.formats import CONFIG, Pairs, Setting, UnsupportedSettings
from regard.models.transformer.config import TransformerConfig
from regard.models.transformer.model import Transformer
from regard.nn.init import empty_weights
from regard.nn.positions import sinusoids
from regard.nn.state_dict import check_fit, unique_tensors
from regard.utils.errors import FolderError, config_errors

MODEL_TYPE, CLASS = "marian", "MarianMTModel"
NOTE = "regard_export"
VOCAB_SIZE = 58101  # the default of `transformers`, like the defaults below

_SETTINGS = (
    Setting("d_model", "d_model", formats.integer, 1024),
    Setting("encoder_layers", "num_encoder_layers", formats.integer, 12),
    Setting("decoder_layers", "num_decoder_layers", formats.integer, 12),
    Setting("encoder_attention_heads", "num_heads", formats.integer, 16),
    Setting("encoder_ffn_dim", "d_ff", formats.integer, 4096),
    Setting("max_position_embeddings", "max_positions", formats.integer, 1024),
    Setting("scale_embedding", "scale_embeddings", formats.boolean, False),
    Setting("dropout", "dropout", formats.number, 0.1),
    Setting("attention_dropout", "attention_dropout", formats.number, 0.0),
    Setting("activation_dropout", "activation_dropout", formats.number, 0.0),
)
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

# The values of regard's settings that `MarianMTModel` supports.
REQUIRED = {
    "positions": "sinusoidal",
    "norm": "layer",
    "norm_placement": "post",
    "final_norm": False,
    "qk_norm": False,
    "embedding_norm": False,
    "activation": ("relu", "gelu", "silu"),
}

# Names of the modules of a block in regard and in transformers.
_ENCODER_BLOCK = {
    "self_attention.qkv_proj": "self_attn.q_proj self_attn.k_proj self_attn.v_proj",
    "self_attention.out_proj": "self_attn.out_proj",
    "self_residual.norm": "self_attn_layer_norm",
    "feed_forward.up_proj": "fc1",
    "feed_forward.down_proj": "fc2",
    "feed_forward_residual.norm": "final_layer_norm",
}
_DECODER_BLOCK = {
    **_ENCODER_BLOCK,
    "cross_attention.q_proj": "encoder_attn.q_proj",
    "cross_attention.kv_proj": "encoder_attn.k_proj encoder_attn.v_proj",
    "cross_attention.out_proj": "encoder_attn.out_proj",
    "cross_residual.norm": "encoder_attn_layer_norm",
}

_SHARED, _ENCODER, _DECODER, _HEAD = (
    "model.shared.weight",
    "model.encoder.embed_tokens.weight",
    "model.decoder.embed_tokens.weight",
    "lm_head.weight",
)
_EMBEDDINGS = (_SHARED, _ENCODER, _DECODER, _HEAD)
_LOGITS_BIAS = "final_logits_bias"
_PAD_LOGIT = -1e4  # makes the probability of the padding token 0, even in half precision
_POSITIONS = ("model.encoder.embed_positions.weight", "model.decoder.embed_positions.weight")


# --- Reading ------------------------------------------------------------------------------------------------


def tensors_from_hf(
    settings: Mapping[str, Any], tensors: Mapping[str, Tensor], path: Path
) -> tuple[TransformerConfig, dict[str, Tensor]]:
    """Convert config and tensors. `path` is for error messages."""
    with config_errors(path / CONFIG):
        shape = _read_shape(settings, UnsupportedSettings(path / CONFIG))
        _check_positions(tensors, path)
        given = _read_embeddings(settings, tensors, path)
        shared = "target_embedding.weight" not in given
        source_size = formats.integer(settings, "vocab_size", VOCAB_SIZE)
        config = TransformerConfig(
            **shape,
            vocab_size=source_size if shared else formats.integer(settings, "decoder_vocab_size", source_size),
            source_vocab_size=None if shared else source_size,
            position_layout="halves",
            output_bias=_LOGITS_BIAS in tensors,
            tie_embeddings="output" not in given,
        )
    if config.output_bias:
        given["output_bias"] = tensors[_LOGITS_BIAS].flatten()
    converted = (*_POSITIONS, *_EMBEDDINGS, _LOGITS_BIAS)
    given |= {name: tensor for name, tensor in tensors.items() if name not in converted}
    pairs = _pairs(config)
    with formats.errors_at(path):
        check_fit(given, formats.split(_expected(config), pairs), f"{CLASS} from {path}")
    ours = formats.join(given, pairs)

    # Zero biases are dropped, unless the model that was exported had biases.
    note, changes = _note(settings), dict[str, Any]()
    if config.output_bias and _is_zero(ours["output_bias"]) and not note.get("output_bias"):
        del ours["output_bias"]
        changes["output_bias"] = False
    biases = [name for name in ours if name.endswith(".bias")]
    if note.get("bias") is False and all(_is_zero(ours[name]) for name in biases):
        for name in biases:
            del ours[name]
        changes["bias"] = False
    if note.get("position_layout") == "interleaved":
        ours = _reordered(ours, torch.argsort(_halves_from_interleaved(config.d_model)))
        changes["position_layout"] = "interleaved"
    return config.replace(**changes), ours


def _read_shape(settings: Mapping[str, Any], unsupported: UnsupportedSettings) -> dict[str, Any]:
    unsupported.require(settings, _FIXED)
    architectures = settings.get("architectures") or [CLASS]
    reason = f"architectures is {architectures!r} (must be {[CLASS]!r})"
    unsupported.add_if(architectures != [CLASS], "architectures", architectures, reason, [CLASS])
    shape = formats.read_settings(settings, _SETTINGS)
    for kind, ours, default in (("ffn_dim", "d_ff", 4096), ("attention_heads", "num_heads", 16)):
        one, other = shape[ours], formats.integer(settings, f"decoder_{kind}", default)
        reason = f"encoder_{kind} is {one} and decoder_{kind} is {other} (must be equal)"
        unsupported.add_if(one != other, f"decoder_{kind}", other, reason, [one])
    activation = unsupported.activation(settings, "activation_function", "gelu", _ACTIVATIONS)
    width, heads = shape["d_model"], shape["num_heads"]
    reason = f"d_model is {width} with {heads} attention heads (must be even and a multiple of the number of heads)"
    unsupported.add_if(width % heads != 0 or width % 2 != 0, "d_model", width, reason)
    unsupported.raise_if_any()
    return {**shape, "head_dim": width // heads, "activation": activation}


def _note(settings: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the record of an export from config.json; empty if the folder was not exported by regard."""
    return settings[NOTE] if isinstance(settings.get(NOTE), dict) else {}


def _check_positions(tensors: Mapping[str, Tensor], path: Path) -> None:
    """Raise if a stored position table, as in older files, differs from the sinusoids."""
    for name in _POSITIONS:
        if name in tensors:
            length, width = tensors[name].shape
            table = sinusoids(length, width, layout="halves")
            if not torch.allclose(tensors[name].float(), table, atol=2e-3):  # fp16 rounds by up to 1e-3
                raise FolderError(
                    f"{path}: {name} must be sinusoids, because regard supports no other positions in Marian models.",
                    argument=name,
                    path=path,
                )


def _read_embeddings(settings: Mapping[str, Any], stored: Mapping[str, Tensor], path: Path) -> dict[str, Tensor]:
    """Return the embedding matrices. A shared matrix may be stored under any of its names."""
    shared, tied = (
        formats.boolean(settings, name, True) for name in ("share_encoder_decoder_embeddings", "tie_word_embeddings")
    )
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
                "true, but its values differ.",
                argument=name,
                path=path,
            )
    return first


def _first_of(stored: Mapping[str, Tensor], names: Sequence[str], path: Path) -> Tensor:
    for name in names:
        if name in stored:
            return stored[name]
    message = f"{path} has no tensor {names[0]}. Download the folder again."
    raise FolderError(message, argument=names[0], allowed=names, path=path)


# --- Writing ------------------------------------------------------------------------------------------------


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
        **formats.write_settings(config, _SETTINGS),
        "decoder_attention_heads": config.num_heads,
        "decoder_ffn_dim": config.d_ff,
        "encoder_layerdrop": 0.0,
        "decoder_layerdrop": 0.0,
        "activation_function": config.activation,
        "static_position_embeddings": True,
        "normalize_before": False,
        "normalize_embedding": False,
        "decoder_start_token_id": start,
        "eos_token_id": end,
        "forced_eos_token_id": end,
        "pad_token_id": pad,
        "bos_token_id": None,
        "dtype": dtype,
        NOTE: {name: getattr(config, name) for name in ("bias", "output_bias", "position_layout")},
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
    """Undo `append_pad`. Return None if no token was appended, or if its weights have changed since the export."""
    note = _note(settings)
    ids: list[Any] = [note.get(name) for name in ("start_id", "pad_id", "num_tokens")]
    start, pad, _ = ids
    longer = {name: tensors[name] for name in _EMBEDDINGS if name in tensors}
    table, bias = tensors.get(_POSITIONS[1]), tensors.get(_LOGITS_BIAS)
    if table is None or bias is None or not (longer and all(map(is_integer, ids))):
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
    return embedding[start] * (embedding.shape[1] ** 0.5 if settings.get("scale_embedding") else 1.0)


def tensors_to_hf(config: TransformerConfig, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Convert tensors to those of `MarianMTModel`."""
    check_fit(tensors, _expected(config), "Transformer")
    pairs = _pairs(config)
    ours = {name: tensor.detach() for name, tensor in tensors.items()}
    like = ours["source_embedding.weight"]
    for name, _ in pairs:
        if name.endswith(".bias") and name not in ours:
            ours[name] = like.new_zeros(len(ours[name.removesuffix("bias") + "weight"]))
    if config.position_layout == "interleaved":
        ours = _reordered(ours, _halves_from_interleaved(config.d_model))
    blocks = formats.split({name: ours[name] for name, _ in pairs}, pairs)
    logits_bias = ours.get("output_bias", like.new_zeros(config.vocab_size))
    return {**blocks, **_their_embeddings(config, ours), _LOGITS_BIAS: logits_bias[None]}


def _their_embeddings(config: TransformerConfig, ours: Mapping[str, Tensor]) -> dict[str, Tensor]:
    source = ours["source_embedding.weight"]
    if config.source_vocab_size is None and config.tie_embeddings:
        return {_SHARED: source}
    if config.source_vocab_size is None:
        return {_SHARED: source, _ENCODER: source.clone(), _DECODER: source.clone(), _HEAD: ours["output"]}
    apart = {_ENCODER: source, _DECODER: ours["target_embedding.weight"]}
    return apart if config.tie_embeddings else {**apart, _HEAD: ours["output"]}


# --- Both ways ----------------------------------------------------------------------------------------------


def _pairs(config: TransformerConfig) -> Pairs:
    """Return pairs of tensor names for all blocks, including biases."""
    return [
        *formats.layer_pairs(_ENCODER_BLOCK, "encoder", "model.encoder.layers", config.num_encoder_layers),
        *formats.layer_pairs(_DECODER_BLOCK, "decoder", "model.decoder.layers", config.num_decoder_layers),
    ]


def _halves_from_interleaved(width: int) -> Tensor:
    """Return the interleaved index of each channel in the halves layout, (D,). Interleaved sines have even indices."""
    return torch.cat((torch.arange(0, width, 2), torch.arange(1, width, 2)))


def _reordered(tensors: Mapping[str, Tensor], order: Tensor) -> dict[str, Tensor]:
    """Permute the channels of the residual stream in all tensors, which does not change the model's output."""
    return {
        name: tensor if (axis := _stream_axis(name)) is None else tensor.index_select(axis, order)
        for name, tensor in tensors.items()
    }


def _stream_axis(name: str) -> int | None:
    """Return the axis of a regard tensor that corresponds to the residual stream; None if it has no such axis."""
    module, _, leaf = name.rpartition(".")
    if module.endswith(("_embedding", "qkv_proj", "q_proj", "kv_proj", "up_proj")):  # reads the residual stream
        return 1 if leaf == "weight" else None
    return {"output": 1, "output_bias": None}.get(name, 0)


def _expected(config: TransformerConfig) -> dict[str, Tensor]:
    """Return tensors without data, with the names and shapes of regard's model."""
    with empty_weights():
        return unique_tensors(Transformer(config))


def _is_zero(tensor: Tensor) -> bool:
    """Return True if every bit is zero. −0 counts as nonzero: a bias with −0 is kept and restored exactly."""
    return not bool(tensor.any()) and not bool(torch.signbit(tensor).any())


def is_integer(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
