"""Convert language models between `transformers` and regard: GPT-2, Llama, Qwen3, Mistral and NanoChat.

The files `convert_*.py` convert config and tensors; this file converts tokenizers and sampling options. A tokenizer is
`tokenizer.json`, or `vocab.json` and `merges.txt` as in GPT-2. All types can be imported and exported, except that an
imported Mistral model is exported as Llama.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from torch import Tensor

from regard.models.format_files import (
    GENERATION_CONFIG,
    TOKENIZER,
    TOKENIZER_CONFIG,
    json_text,
    read_json,
    special_token_settings,
    token_name,
    token_of,
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
from regard.models.gpt import convert_gpt2, convert_llama, convert_nanochat, convert_tensors
from regard.models.gpt.config import GPTConfig
from regard.models.gpt.model import GPT
from regard.nn.init import empty_weights
from regard.nn.state_dict import check_fit, unique_tensors
from regard.tokenizers.tokenizer import SpecialTokens, Tokenizer
from regard.utils.errors import FolderError, UsageError, config_errors

VOCABULARY, MERGES = "vocab.json", "merges.txt"
SAMPLING = ("temperature", "top_k", "top_p", "min_p")  # have the same names in transformers
RANGES = {
    "temperature": (0.0, math.inf),
    "top_p": (1e-9, 1.0),
    "min_p": (0.0, 1.0),
    "repetition_penalty": (1e-9, math.inf),
}


@dataclass(frozen=True)
class ModelType:
    """Conversion of config and tensors for one model type of `transformers`."""

    name: str
    class_name: str
    required: Sequence[Requirement]
    config_from_hf: Callable[[Mapping[str, Any], Refusals], GPTConfig]
    config_to_hf: Callable[[GPTConfig], dict[str, Any]]
    tensors_from_hf: Callable[[Mapping[str, Tensor], GPTConfig], dict[str, Tensor]]  # names do not have the prefix
    tensors_to_hf: Callable[[Mapping[str, Tensor], GPTConfig], dict[str, Tensor]]
    prefix: str = convert_tensors.PREFIX  # of all tensor names except that of the output matrix
    leftovers: tuple[str, ...] = convert_tensors.LEFTOVERS  # suffixes of tensors that are buffers, not weights
    full_width: bool = False  # num_heads × head_dim must equal d_model
    has_dropout: bool = False

    def read_tensors(self, tensors: Mapping[str, Tensor], config: GPTConfig) -> dict[str, Tensor]:
        """Convert their tensors to ours. Names and shapes must match the config."""
        theirs = {name: tensor for name, tensor in tensors.items() if not name.endswith(self.leftovers)}
        if config.tie_embeddings:
            theirs.pop(convert_tensors.OUTPUT, None)  # a copy of the embedding
        with empty_weights():
            expected = self.tensors_to_hf(unique_tensors(GPT(config)), config)
        if not any(name.startswith(self.prefix) for name in theirs):
            expected = {name.removeprefix(self.prefix): tensor for name, tensor in expected.items()}
        check_fit(theirs, expected, self.class_name)
        return self.tensors_from_hf({name.removeprefix(self.prefix): t for name, t in theirs.items()}, config)


def _llama(name: str) -> ModelType:
    return ModelType(
        name,
        convert_llama.MODEL_TYPES[name],
        convert_llama.REQUIRED[name],
        convert_llama.config_from_hf,
        convert_llama.config_to_hf,
        convert_llama.tensors_from_hf,
        convert_llama.tensors_to_hf,
    )


GPT2 = ModelType(
    "gpt2",
    convert_gpt2.CLASS,
    convert_gpt2.REQUIRED,
    convert_gpt2.config_from_hf,
    convert_gpt2.config_to_hf,
    convert_gpt2.tensors_from_hf,
    convert_gpt2.tensors_to_hf,
    prefix=convert_gpt2.PREFIX,
    leftovers=convert_gpt2.LEFTOVERS,
    full_width=True,
    has_dropout=True,
)
LLAMA, QWEN3, MISTRAL = (_llama(name) for name in ("llama", "qwen3", "mistral"))
NANOCHAT = ModelType(
    "nanochat",
    convert_nanochat.CLASS,
    convert_nanochat.REQUIRED,
    convert_nanochat.config_from_hf,
    convert_nanochat.config_to_hf,
    convert_nanochat.tensors_from_hf,
    convert_nanochat.tensors_to_hf,
    full_width=True,
)


# --- Reading ------------------------------------------------------------------------------------------------


def from_hf(kind: ModelType, folder: Folder) -> Content:
    """Convert a language model folder to the content of a regard folder."""
    with config_errors(folder.path / CONFIG):
        config = kind.config_from_hf(folder.config, Refusals(str(folder.path / CONFIG)))
    tokenizer = _read_tokenizer(folder)
    tokenizer.fits(config.vocab_size)
    described = {
        "regard": {},
        "architecture": "gpt",
        "model": config.to_dict(),
        "inference": _read_sampling(folder),
        "special_tokens": special_token_settings(tokenizer),
    }
    return Content(described, kind.read_tensors(folder.tensors, config), {TOKENIZER: tokenizer.to_json()})


def _read_tokenizer(folder: Folder) -> Tokenizer:
    settings = read_json(folder, TOKENIZER_CONFIG)
    if folder.has_text(TOKENIZER):
        tokenizer = Tokenizer.load(folder.file(TOKENIZER))
    elif folder.has_text(VOCABULARY) and folder.has_text(MERGES):
        tokenizer = Tokenizer.from_merges(folder.file(VOCABULARY), folder.file(MERGES))
    else:
        raise FolderError(f"{folder.path} has no tokenizer. Add {TOKENIZER}, or {VOCABULARY} and {MERGES}.")
    usual = tokenizer.special_tokens
    start = token_name(settings.get("bos_token")) or token_of(tokenizer, folder.config.get("bos_token_id"))
    ends = [token_name(settings.get("eos_token")), *_end_tokens(folder, tokenizer), usual.end]
    padding = token_name(settings.get("pad_token")) or token_of(tokenizer, folder.config.get("pad_token_id"))
    end = next((name for name in ends if name), None)
    others = tuple(dict.fromkeys(name for name in ends[:-1] if name and name != end))
    if start and settings.get("add_bos_token") is True and not tokenizer.has_post_processor:
        tokenizer = tokenizer.with_prefix(start)
    return tokenizer.with_special_tokens(
        SpecialTokens(
            pad=padding or usual.pad or end,
            unknown=usual.unknown,
            start=start or usual.start or end,
            end=end,
            other_ends=others,
        )
    )


def _end_tokens(folder: Folder, tokenizer: Tokenizer) -> list[str | None]:
    """Return all end tokens in config.json and generation_config.json; None for a missing one."""
    ids = [settings.get("eos_token_id") for settings in (folder.config, read_json(folder, GENERATION_CONFIG))]
    return [token_of(tokenizer, id_) for item in ids for id_ in (item if isinstance(item, list) else [item])]


def _read_sampling(folder: Folder) -> dict[str, Any]:
    settings = read_json(folder, GENERATION_CONFIG)
    with config_errors(folder.path / GENERATION_CONFIG):
        options: dict[str, Any] = {
            name: real(settings, name) for name in (*SAMPLING, "repetition_penalty") if settings.get(name) is not None
        }
        if "top_k" in options:
            options["top_k"] = whole(settings, "top_k", least=0) or None  # 0 means sampling from all tokens
        for name, (low, high) in RANGES.items():
            if name in options and not low <= options[name] <= high:
                raise UsageError(f"{name} must be from {low:g} to {high:g}, got {options[name]}.", argument=name)
    if settings.get("do_sample") is False:
        options = {"temperature": 0.0, **{name: value for name, value in options.items() if name not in SAMPLING}}
    return options


# --- Writing ------------------------------------------------------------------------------------------------


def to_hf(kind: ModelType, content: Content) -> Export:
    """Convert a model to a folder that `AutoModelForCausalLM` and `AutoTokenizer` load."""
    config, tokenizer = GPTConfig(**content.config["model"]), tokenizer_of(content)
    ends = [tokenizer.end_id, *sorted(tokenizer.end_ids - {tokenizer.end_id})]
    ids = {
        "bos_token_id": _start_id(tokenizer),
        "eos_token_id": ends if len(ends) > 1 else ends[0],
        "pad_token_id": tokenizer.pad_id,
    }
    settings = {
        "architectures": [kind.class_name],
        "model_type": kind.name,
        "dtype": dtype_name(content.tensors),
        **ids,
        **kind.config_to_hf(config),
    }
    texts = {
        TOKENIZER: tokenizer.to_json(),
        TOKENIZER_CONFIG: json_text(_tokenizer_config(config, tokenizer)),
        GENERATION_CONFIG: json_text({**ids, **_sampling_settings(content.config.get("inference", {}))}),
    }
    notes = []
    if config.dropout and not kind.has_dropout:
        notes.append(f"{kind.class_name} has no dropout between its layers. dropout {config.dropout} is not exported.")
    tensors = {name: t.contiguous() for name, t in kind.tensors_to_hf(content.tensors, config).items()}
    return Export(settings, tensors, texts, class_name=kind.class_name, notes=tuple(notes))


def obstacles(kind: ModelType, content: Content) -> tuple[str, list[str]]:
    """Return the class for a model type, and the settings of the model that this class does not support."""
    config = GPTConfig(**content.config["model"])
    reasons = unmet(config, kind.required)
    if kind.full_width and config.num_heads * config.head_dim != config.d_model:
        reasons.append("num_heads × head_dim is not d_model")
    return kind.class_name, reasons


def _start_id(tokenizer: Tokenizer) -> int:
    """Return the first id of every text: the tokenizer's prefix, or the end token of the previous text."""
    return (*tokenizer.prefix_ids, tokenizer.end_id)[0]


def _tokenizer_config(config: GPTConfig, tokenizer: Tokenizer) -> dict[str, Any]:
    special_tokens, (start,) = tokenizer.special_tokens, tokenizer.tokens([_start_id(tokenizer)])
    names = {
        "bos_token": start,
        "eos_token": special_tokens.end,
        "unk_token": special_tokens.unknown,
        "pad_token": special_tokens.pad,
    }
    return tokenizer_config(config.context_length, names)


def _sampling_settings(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the sampling options for generation_config.json, in which a missing `top_k` would mean 50."""
    penalty = {"repetition_penalty": options.get("repetition_penalty", 1.0)}
    if options.get("temperature") == 0:
        return {"do_sample": False, **penalty}
    given = {name: options[name] for name in SAMPLING if options.get(name) is not None}
    return {"do_sample": True, "top_k": 0, **given, **penalty}


def _format(kind: ModelType, *, written: bool = True) -> Format:
    if not written:
        return Format(model_type=kind.name, from_hf=partial(from_hf, kind))
    return Format(
        model_type=kind.name,
        from_hf=partial(from_hf, kind),
        to_hf=partial(to_hf, kind),
        obstacles=partial(obstacles, kind),
    )


FORMATS = (_format(GPT2), _format(LLAMA), _format(QWEN3), _format(MISTRAL, written=False), _format(NANOCHAT))
