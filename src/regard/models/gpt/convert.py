"""Convert language models between `transformers` and regard: GPT-2, Llama, Qwen3, Mistral and NanoChat.

`convert_weights.py` converts config and tensors; this file converts tokenizers and sampling options. A tokenizer is
`tokenizer.json`, or `vocab.json` and `merges.txt` as in GPT-2. All types can be imported and exported, except that an
imported Mistral model is exported as Llama.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial
from typing import Any

from regard.models import formats
from regard.models.formats import GENERATION_CONFIG, TOKENIZER, TOKENIZER_CONFIG, Export, Folder, FolderContent, Format
from regard.models.gpt.config import GPTConfig
from regard.models.gpt.convert_weights import GPT2, LLAMA, MISTRAL, NANOCHAT, QWEN3, ModelType
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


# --- Reading ------------------------------------------------------------------------------------------------


def from_hf(kind: ModelType, folder: Folder) -> FolderContent:
    """Convert a language model folder to the content of a regard folder."""
    with config_errors(folder.path / formats.CONFIG):
        config = kind.config_from_hf(folder.config, formats.UnsupportedSettings(folder.path / formats.CONFIG))
    tokenizer = _read_tokenizer(folder)
    with formats.errors_at(folder.path):
        tokenizer.fits(config.vocab_size)
        tensors = kind.read_tensors(folder.tensors, config)
    described = formats.our_config("gpt", config, tokenizer, inference=_read_sampling(folder))
    return FolderContent(described, tensors, {TOKENIZER: tokenizer.to_json()})


def _read_tokenizer(folder: Folder) -> Tokenizer:
    settings = formats.read_json(folder, TOKENIZER_CONFIG)
    if folder.has_text(TOKENIZER):
        tokenizer = Tokenizer.load(folder.file(TOKENIZER))
    elif folder.has_text(VOCABULARY) and folder.has_text(MERGES):
        tokenizer = Tokenizer.from_merges(folder.file(VOCABULARY), folder.file(MERGES))
    else:
        message = f"{folder.path} has no tokenizer. Add {TOKENIZER}, or {VOCABULARY} and {MERGES}."
        raise FolderError(message, argument="tokenizer", allowed=(TOKENIZER, VOCABULARY, MERGES), path=folder.path)
    usual = tokenizer.special_tokens
    start = formats.token_name(settings.get("bos_token")) or _token_of(tokenizer, folder.config.get("bos_token_id"))
    ends = [formats.token_name(settings.get("eos_token")), *_end_tokens(folder, tokenizer), usual.end]
    padding = formats.token_name(settings.get("pad_token")) or _token_of(tokenizer, folder.config.get("pad_token_id"))
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


def _token_of(tokenizer: Tokenizer, number: Any) -> str | None:
    """Return the token with this id, or with the first id of a list; None if no token has this id."""
    if isinstance(number, list):
        number = number[0] if number else None
    if not isinstance(number, int) or not 0 <= number < tokenizer.vocab_size:
        return None
    return tokenizer.tokens([number])[0]


def _end_tokens(folder: Folder, tokenizer: Tokenizer) -> list[str | None]:
    """Return all end tokens in config.json and generation_config.json; None for a missing one."""
    ids = [settings.get("eos_token_id") for settings in (folder.config, formats.read_json(folder, GENERATION_CONFIG))]
    return [_token_of(tokenizer, id_) for item in ids for id_ in (item if isinstance(item, list) else [item])]


def _read_sampling(folder: Folder) -> dict[str, Any]:
    settings = formats.read_json(folder, GENERATION_CONFIG)
    with config_errors(folder.path / GENERATION_CONFIG):
        options: dict[str, Any] = {
            name: formats.number(settings, name)
            for name in (*SAMPLING, "repetition_penalty")
            if settings.get(name) is not None
        }
        if "top_k" in options:
            options["top_k"] = formats.integer(settings, "top_k", least=0) or None  # 0 means sampling from all tokens
        for name, (low, high) in RANGES.items():
            value = options.get(name, low)
            if not low <= value <= high:
                raise UsageError(f"{name} must be from {low:g} to {high:g}, got {value}.", argument=name, value=value)
    if settings.get("do_sample") is False:
        options = {"temperature": 0.0, **{name: value for name, value in options.items() if name not in SAMPLING}}
    return options


# --- Writing ------------------------------------------------------------------------------------------------


def to_hf(kind: ModelType, content: FolderContent) -> Export:
    """Convert a model to a folder that `AutoModelForCausalLM` and `AutoTokenizer` load."""
    config, tokenizer = GPTConfig(**content.config["model"]), formats.tokenizer_of(content)
    special_tokens = tokenizer.special_tokens
    # The first id of every text is the tokenizer's prefix, or the end token of the previous text.
    start = (*tokenizer.prefix_ids, tokenizer.end_id)[0]
    ends = [tokenizer.end_id, *sorted(tokenizer.end_ids - {tokenizer.end_id})]
    ids = {
        "bos_token_id": start,
        "eos_token_id": ends if len(ends) > 1 else ends[0],
        "pad_token_id": tokenizer.pad_id,
    }
    settings = {
        "architectures": [kind.class_name],
        "model_type": kind.name,
        "dtype": formats.dtype_name(content.tensors),
        **ids,
        **kind.config_to_hf(config),
    }
    names = {
        "bos_token": tokenizer.tokens([start])[0],
        "eos_token": special_tokens.end,
        "unk_token": special_tokens.unknown,
        "pad_token": special_tokens.pad,
    }
    texts = {
        TOKENIZER: tokenizer.to_json(),
        TOKENIZER_CONFIG: formats.json_text(formats.tokenizer_config(config.context_length, names)),
        GENERATION_CONFIG: formats.json_text({**ids, **_sampling_settings(content.config.get("inference", {}))}),
    }
    notes = []
    if config.dropout and not kind.has_dropout:
        notes.append(f"{kind.class_name} has no dropout between its layers. dropout {config.dropout} is not exported.")
    tensors = kind.write_tensors(content.tensors, config)
    return Export(settings, tensors, texts, class_name=kind.class_name, notes=tuple(notes))


def unsupported_settings(kind: ModelType, content: FolderContent) -> tuple[str, dict[str, str]]:
    """Return the class for a model type, and the settings of the model that this class does not support."""
    config = GPTConfig(**content.config["model"])
    return kind.class_name, formats.unsupported_settings(config, kind.required, full_width=kind.full_width)


def _sampling_settings(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the sampling options for generation_config.json, in which a missing `top_k` would mean 50."""
    penalty = {"repetition_penalty": options.get("repetition_penalty", 1.0)}
    if options.get("temperature") == 0:
        return {"do_sample": False, **penalty}
    given = {name: options[name] for name in SAMPLING if options.get(name) is not None}
    return {"do_sample": True, "top_k": 0, **given, **penalty}


def _format(kind: ModelType) -> Format:
    return Format(
        model_type=kind.name,
        from_hf=partial(from_hf, kind),
        to_hf=partial(to_hf, kind),
        unsupported_settings=partial(unsupported_settings, kind),
    )


MISTRAL_FORMAT = Format(model_type=MISTRAL.name, from_hf=partial(from_hf, MISTRAL))
FORMATS = (_format(GPT2), _format(LLAMA), _format(QWEN3), MISTRAL_FORMAT, _format(NANOCHAT))
