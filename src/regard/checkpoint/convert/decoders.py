"""Folders of language models as `transformers` writes them: GPT-2, Llama, Qwen3, Mistral and NanoChat.

What differs between them, config and names of weights, stands in a file each; here are the folder, the tokenizer and
how text is drawn. Weights are safetensors, whole or sharded; a tokenizer is `tokenizer.json`, or GPT-2's two files.
All are read and written, but for Mistral, which is written as the Llama that it is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from regard.checkpoint.convert import gpt2, joining, llama, nanochat
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
from regard.checkpoint.convert.settings import Refusals, Requirement, no_class_for, real, refuse_export, whole
from regard.checkpoint.folder import CONFIG, ModelFolder, check_fit, own_tensors, read_model, usable, write_model
from regard.errors import FolderError
from regard.models.gpt import GPT
from regard.models.gpt_settings import GPTConfig
from regard.text.tokenizer import Symbols, Tokenizer

VOCABULARY, MERGES = "vocab.json", "merges.txt"
GENERATION_CONFIG = "generation_config.json"
DRAWING = ("temperature", "top_k", "top_p", "min_p")  # what says how tokens are drawn, in their words and ours


@dataclass(frozen=True)
class Format:
    """How a class of `transformers` is read and written."""

    class_name: str
    required: Sequence[Requirement]
    config_from: Callable[[Mapping[str, Any], Refusals], GPTConfig]
    settings_from: Callable[[GPTConfig], dict[str, Any]]
    ours_of: Callable[[Mapping[str, Tensor], GPTConfig], dict[str, Tensor]]  # by names without their prefix
    theirs_of: Callable[[Mapping[str, Tensor], GPTConfig], dict[str, Tensor]]
    prefix: str = joining.PREFIX  # of the names of all tensors but the output matrix
    leftovers: tuple[str, ...] = joining.LEFTOVERS  # ends of names of tensors that are no weights
    written: bool = True  # whether models of ours are written as this class

    def read(self, tensors: Mapping[str, Tensor], config: GPTConfig) -> dict[str, Tensor]:
        """Their tensors as ours. All must be there, in the shapes that the config asks for, and no others."""
        found = {name: tensor for name, tensor in tensors.items() if not name.endswith(self.leftovers)}
        if config.tie_embeddings:
            found.pop(joining.OUTPUT, None)  # the embedding again
        with torch.device("meta"):  # names and shapes, and no numbers
            expected = self.theirs_of(own_tensors(GPT(config)), config)
        if not any(name.startswith(self.prefix) for name in found):
            expected = {name.removeprefix(self.prefix): tensor for name, tensor in expected.items()}
        check_fit(found, expected, self.class_name)
        return self.ours_of({name.removeprefix(self.prefix): tensor for name, tensor in found.items()}, config)


def _llama(name: str) -> Format:
    return Format(
        llama.MODEL_TYPES[name],
        llama.REQUIRED[name],
        llama.config_from,
        llama.settings_from,
        llama.ours_of,
        llama.theirs_of,
        written=name != "mistral",
    )


FORMATS: dict[str, Format] = {
    "gpt2": Format(
        gpt2.CLASS,
        gpt2.REQUIRED,
        gpt2.config_from,
        gpt2.settings_from,
        gpt2.ours_of,
        gpt2.theirs_of,
        prefix=gpt2.PREFIX,
        leftovers=gpt2.LEFTOVERS,
    ),
    **{name: _llama(name) for name in llama.MODEL_TYPES},
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
    sampling: dict[str, Any]  # temperature, top_k and the like, as far as the folder says


def is_decoder(config: Mapping[str, Any]) -> bool:
    """Whether the config of a folder is that of a language model that can be read."""
    return config.get("model_type") in tuple(FORMATS)


def read_decoder(path: Path) -> ForeignWriter:
    """Read a folder of GPT-2, Llama, Qwen3, Mistral or NanoChat."""
    folder = read_model(path)
    form = FORMATS[folder.config["model_type"]]
    with usable(path / CONFIG):
        config = form.config_from(folder.config, Refusals(str(path / CONFIG)))
    tokenizer = _read_tokenizer(folder)
    tokenizer.fits(config.vocab_size)
    return ForeignWriter(config, form.read(folder.tensors, config), tokenizer, _read_sampling(folder))


def class_for(config: GPTConfig) -> str:
    """The model_type of `transformers` that can hold a model of ours; raises with the settings in the way."""
    written = {name: form for name, form in FORMATS.items() if form.written}
    reasons = {form.class_name: refuse_export(config, form.required, name) for name, form in written.items()}
    whole_heads = config.heads * config.head_width == config.width
    for name in ("gpt2", "nanochat"):
        if not whole_heads:
            reasons[FORMATS[name].class_name].append("heads × head_width is not the width")
    fitting = [name for name, form in written.items() if not reasons[form.class_name]]
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
    ends = [tokenizer.end_id, *sorted(tokenizer.end_ids - {tokenizer.end_id})]
    symbols = {
        "bos_token_id": _start_id(tokenizer),
        "eos_token_id": ends if len(ends) > 1 else ends[0],
        "pad_token_id": tokenizer.pad_id,
    }
    settings = {
        "architectures": [form.class_name],
        "model_type": name,
        "dtype": str(next(iter(tensors.values())).dtype).removeprefix("torch."),
        **symbols,
        **form.settings_from(config),
    }
    texts = {
        TOKENIZER: tokenizer.to_json(),
        TOKENIZER_CONFIG: json_text(_tokenizer_config(config, tokenizer)),
        GENERATION_CONFIG: json_text({**symbols, **_sampling_settings(sampling)}),
        "README.md": card,
    }
    write_model(path, config=settings, tensors=form.theirs_of(tensors, config), texts=texts, force=force)
    return form.class_name


def _start_id(tokenizer: Tokenizer) -> int:
    """What stands before every text; where nothing does, a text comes after the end of another."""
    return (*tokenizer.prefix_ids, tokenizer.end_id)[0]


def _tokenizer_config(config: GPTConfig, tokenizer: Tokenizer) -> dict[str, Any]:
    symbols, (start,) = tokenizer.symbols, tokenizer.tokens([_start_id(tokenizer)])
    names = {"bos_token": start, "eos_token": symbols.end, "unk_token": symbols.unknown, "pad_token": symbols.pad}
    return tokenizer_config(config.context, names)


def _read_tokenizer(folder: ModelFolder) -> Tokenizer:
    settings = read_json(folder, TOKENIZER_CONFIG)
    if has(folder, TOKENIZER):
        found = Tokenizer.load(folder.file(TOKENIZER))
    elif (folder.path / VOCABULARY).is_file() and (folder.path / MERGES).is_file():
        found = Tokenizer.from_merges(folder.file(VOCABULARY), folder.file(MERGES))
    else:
        raise FolderError(f"{folder.path} has no tokenizer: {TOKENIZER} is expected, or {VOCABULARY} and {MERGES}.")
    start = symbol(settings.get("bos_token")) or token_of(found, folder.config.get("bos_token_id"))
    ends = [symbol(settings.get("eos_token")), *_end_tokens(folder, found), found.symbols.end]
    padding = symbol(settings.get("pad_token")) or token_of(found, folder.config.get("pad_token_id"))
    usual = found.symbols
    end = next((name for name in ends if name), None)
    others = tuple(dict.fromkeys(name for name in ends[:-1] if name and name != end))
    if start and settings.get("add_bos_token") is True and not found.has_post_processor:
        found = found.with_prefix(start)
    return found.with_symbols(
        Symbols(
            pad=padding or usual.pad or end,
            unknown=usual.unknown,
            start=start or usual.start or end,
            end=end,
            other_ends=others,
        )
    )


def _end_tokens(folder: ModelFolder, tokenizer: Tokenizer) -> list[str | None]:
    """All tokens that end a text as the configs say; there may be one, several or none."""
    said = [settings.get("eos_token_id") for settings in (folder.config, read_json(folder, GENERATION_CONFIG))]
    return [token_of(tokenizer, id_) for ids in said for id_ in (ids if isinstance(ids, list) else [ids])]


def _read_sampling(folder: ModelFolder) -> dict[str, Any]:
    said = read_json(folder, GENERATION_CONFIG)
    with usable(folder.path / GENERATION_CONFIG):
        found: dict[str, Any] = {
            name: real(said, name) for name in (*DRAWING, "repetition_penalty") if said.get(name) is not None
        }
        if "top_k" in found:
            found["top_k"] = whole(said, "top_k", least=0) or None  # 0 draws from all
    if said.get("do_sample") is False:
        found = {"temperature": 0.0, **{name: value for name, value in found.items() if name not in DRAWING}}
    return found


def _sampling_settings(sampling: Mapping[str, Any]) -> dict[str, Any]:
    """How tokens are drawn in their words. They would take 50 for a `top_k` that is not there."""
    penalty = {"repetition_penalty": sampling.get("repetition_penalty", 1.0)}
    if sampling.get("temperature") == 0:
        return {"do_sample": False, **penalty}
    drawn = {name: sampling[name] for name in DRAWING if sampling.get(name) is not None}
    return {"do_sample": True, "top_k": 0, **drawn, **penalty}
