"""Folders of language models as `transformers` writes them: GPT-2, Llama, Qwen3 and NanoChat, read and written.

What differs between them, config and names of weights, stands in a file each; here are the folder, the tokenizer and
how text is drawn. Weights are safetensors, whole or sharded; a tokenizer is `tokenizer.json`, or GPT-2's two files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from regard.checkpoint.convert import gpt2, llama, nanochat
from regard.checkpoint.convert.files import (
    TOKENIZER,
    TOKENIZER_CONFIG,
    has,
    json_text,
    read_json,
    symbol,
    token_of,
    tokenizer_config,
)
from regard.checkpoint.convert.settings import Refusals, Requirement, no_class_for, refuse_export
from regard.checkpoint.folder import CONFIG, ModelFolder, read_model, write_model
from regard.errors import FolderError
from regard.models.gpt_settings import GPTConfig
from regard.text.tokenizer import Symbols, Tokenizer

VOCABULARY, MERGES = "vocab.json", "merges.txt"
GENERATION_CONFIG = "generation_config.json"


@dataclass(frozen=True)
class Format:
    """How a class of `transformers` is read and written."""

    class_name: str
    required: Sequence[Requirement]
    config_from: Callable[[Mapping[str, Any], Refusals], GPTConfig]
    settings_from: Callable[[GPTConfig], dict[str, Any]]
    ours_of: Callable[[Mapping[str, Tensor], GPTConfig], dict[str, Tensor]]
    theirs_of: Callable[[Mapping[str, Tensor], GPTConfig], dict[str, Tensor]]


def _llama(name: str) -> Format:
    return Format(
        llama.MODEL_TYPES[name],
        llama.REQUIRED[name],
        llama.config_from,
        llama.settings_from,
        llama.ours_of,
        llama.theirs_of,
    )


FORMATS: dict[str, Format] = {
    "gpt2": Format(gpt2.CLASS, gpt2.REQUIRED, gpt2.config_from, gpt2.settings_from, gpt2.ours_of, gpt2.theirs_of),
    "llama": _llama("llama"),
    "qwen3": _llama("qwen3"),
    "nanochat": Format(
        nanochat.CLASS,
        nanochat.REQUIRED,
        nanochat.config_from,
        nanochat.settings_from,
        nanochat.ours_of,
        nanochat.theirs_of,
    ),
}


@dataclass(frozen=True)
class ForeignWriter:
    """A language model that another program wrote, in the terms of this one."""

    config: GPTConfig
    tensors: dict[str, Tensor]  # as `own_tensors` of a GPT names them
    tokenizer: Tokenizer
    sampling: dict[str, Any]  # temperature, top_k, top_p, as far as the folder says


def is_decoder(config: Mapping[str, Any]) -> bool:
    """Whether the config of a folder is that of a language model that can be read."""
    return config.get("model_type") in FORMATS


def read_decoder(path: Path) -> ForeignWriter:
    """Read a folder of GPT-2, Llama, Qwen3 or NanoChat."""
    folder = read_model(path)
    form = FORMATS[folder.config["model_type"]]
    try:
        config = form.config_from(folder.config, Refusals(str(path / CONFIG)))
    except KeyError as error:
        raise FolderError(f"{path / CONFIG} lacks the setting {error}. Download it again.") from None
    tokenizer = _read_tokenizer(folder)
    tokenizer.fits(config.vocab_size)
    return ForeignWriter(config, form.ours_of(folder.tensors, config), tokenizer, _read_sampling(folder))


def class_for(config: GPTConfig) -> str:
    """The model_type of `transformers` that can hold a model of ours; raises with the settings in the way."""
    reasons = {form.class_name: refuse_export(config, form.required, name) for name, form in FORMATS.items()}
    whole_heads = config.heads * config.head_width == config.width
    for name in ("gpt2", "nanochat"):
        if not whole_heads:
            reasons[FORMATS[name].class_name].append("heads × head_width is not the width")
    fitting = [name for name, form in FORMATS.items() if not reasons[form.class_name]]
    if not fitting:
        raise no_class_for(reasons)
    return fitting[0]


def write_decoder(
    path: Path,
    *,
    config: GPTConfig,
    tensors: Mapping[str, Tensor],
    tokenizer: Tokenizer,
    sampling: Mapping[str, Any],
    card: str,
    force: bool = False,
) -> str:
    """Write a folder that `AutoModelForCausalLM` and `AutoTokenizer` load; returns the class that it becomes."""
    name = class_for(config)
    form = FORMATS[name]
    end = tokenizer.end_id
    settings = {
        "architectures": [form.class_name],
        "model_type": name,
        "dtype": str(next(iter(tensors.values())).dtype).removeprefix("torch."),
        "bos_token_id": end,
        "eos_token_id": end,
        "pad_token_id": tokenizer.pad_id,
        **form.settings_from(config),
    }
    greedy = sampling.get("temperature") == 0
    drawn = {key: sampling[key] for key in ("temperature", "top_k", "top_p") if sampling.get(key) and not greedy}
    generation = {"bos_token_id": end, "eos_token_id": end, "pad_token_id": tokenizer.pad_id, "do_sample": not greedy}
    texts = {
        TOKENIZER: tokenizer.to_json(),
        TOKENIZER_CONFIG: json_text(_tokenizer_config(config, tokenizer)),
        GENERATION_CONFIG: json_text({**generation, **drawn}),
        "README.md": card,
    }
    write_model(path, config=settings, tensors=form.theirs_of(tensors, config), texts=texts, force=force)
    return form.class_name


def _tokenizer_config(config: GPTConfig, tokenizer: Tokenizer) -> dict[str, Any]:
    symbols = tokenizer.symbols
    names = {"bos_token": symbols.end, "eos_token": symbols.end, "unk_token": symbols.unknown, "pad_token": symbols.pad}
    return tokenizer_config(config.context, names)


def _read_tokenizer(folder: ModelFolder) -> Tokenizer:
    settings = read_json(folder, TOKENIZER_CONFIG)
    if has(folder, TOKENIZER):
        found = Tokenizer.load(folder.file(TOKENIZER))
    elif (folder.path / VOCABULARY).is_file() and (folder.path / MERGES).is_file():
        found = Tokenizer.from_merges(folder.file(VOCABULARY), folder.file(MERGES))
    else:
        raise FolderError(f"{folder.path} has no tokenizer: {TOKENIZER} is expected, or {VOCABULARY} and {MERGES}.")
    end = symbol(settings.get("eos_token")) or token_of(found, folder.config.get("eos_token_id"))
    padding = symbol(settings.get("pad_token")) or token_of(found, folder.config.get("pad_token_id"))
    usual = found.symbols
    end = end or usual.end
    return found.with_symbols(
        Symbols(pad=padding or usual.pad or end, unknown=usual.unknown, start=usual.start or end, end=end)
    )


def _read_sampling(folder: ModelFolder) -> dict[str, Any]:
    said = read_json(folder, GENERATION_CONFIG)
    if said.get("do_sample") is False:
        return {"temperature": 0.0}
    return {name: said[name] for name in ("temperature", "top_k", "top_p") if said.get(name) is not None}
