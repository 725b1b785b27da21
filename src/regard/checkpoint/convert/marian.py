"""Marian folders of `transformers` (`MarianMTModel`, the Opus-MT translators) ↔ a `Transformer` with its tokenizers.

Reading takes `config.json`, weights in safetensors, and the tokenizers as `source.spm`, `target.spm` and
`vocab.json`, or as `tokenizer.json`. Writing gives all of these, so that `MarianMTModel` answers with the same
logits and `MarianTokenizer` with the same ids. How weights and settings correspond stands in `marian_weights.py`,
how sentencepiece models do in `sentencepiece.py`. Nothing here trains or generates.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tokenizers
from tokenizers import processors
from torch import Tensor

from regard.checkpoint.atomic import locate
from regard.checkpoint.convert.marian_weights import (
    MODEL_TYPE,
    NOTE,
    is_whole,
    our_weights,
    their_settings,
    their_weights,
    with_defaults,
)
from regard.checkpoint.convert.sentencepiece import spm_from_tokenizer, tokenizer_from_spm
from regard.checkpoint.folder import ModelFolder, read_model, write_model
from regard.errors import FolderError, UsageError
from regard.models.transformer_settings import TransformerConfig
from regard.text.tokenizer import Symbols, Tokenizer

SOURCE_SPM, TARGET_SPM = "source.spm", "target.spm"
VOCABULARY, TARGET_VOCABULARY = "vocab.json", "target_vocab.json"
TOKENIZER, TARGET_TOKENIZER = "tokenizer.json", "tokenizer.target.json"
TOKENIZER_CONFIG, GENERATION_CONFIG = "tokenizer_config.json", "generation_config.json"

_ID_NAMES = ("decoder_start_token_id", "eos_token_id", "pad_token_id")


@dataclass(frozen=True)
class ForeignTranslator:
    """A translator that another program wrote, in the terms of this one."""

    config: TransformerConfig
    tensors: dict[str, Tensor]  # as `own_tensors` of a Transformer names them
    source_tokenizer: Tokenizer
    target_tokenizer: Tokenizer  # the same object where both sides are cut alike
    generation: dict[str, Any]  # beams, length_penalty, max_new_tokens, never (ids), as far as the folder says
    start_id: int  # what the decoder reads first
    end_id: int
    pad_id: int


def is_marian(config: Mapping[str, Any]) -> bool:
    """Whether the config of a folder is that of a Marian model."""
    return config.get("model_type") == MODEL_TYPE


# --- Reading ------------------------------------------------------------------------------------------------


def read_marian(folder: Path | str) -> ForeignTranslator:
    """Read a Marian folder: weights in safetensors, and sentencepiece or `tokenizers` files."""
    model = read_model(Path(folder))
    if not is_marian(model.config):
        raise UsageError(
            f"{model.path} is not a Marian folder: its model_type is {model.config.get('model_type')!r}, "
            f"not {MODEL_TYPE!r}."
        )
    settings = with_defaults(model.config)
    config, tensors = our_weights(settings, model.tensors, model.path)
    start, end, pad = (_id(settings, name, model.path) for name in _ID_NAMES)
    source, target = _read_tokenizers(settings, model, start=start, end=end, pad=pad)
    for tokenizer, rows in ((source, config.source_vocab_size or config.vocab_size), (target, config.vocab_size)):
        tokenizer.fits(rows)
    return ForeignTranslator(
        config=config,
        tensors=tensors,
        source_tokenizer=source,
        target_tokenizer=target,
        generation=_read_generation(settings, model, pad),
        start_id=start,
        end_id=end,
        pad_id=pad,
    )


def _id(settings: Mapping[str, Any], name: str, path: Path) -> int:
    value = settings[name]
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise FolderError(f"{path}: {name} in config.json is {settings[name]!r}; one id is needed.")
    return value


def _read_tokenizers(
    settings: Mapping[str, Any], model: ModelFolder, *, start: int, end: int, pad: int
) -> tuple[Tokenizer, Tokenizer]:
    has_spm = all(_has(model, name) for name in (SOURCE_SPM, TARGET_SPM, VOCABULARY))
    if _has(model, TOKENIZER) and (NOTE in settings or not has_spm):
        source = _load_json_tokenizer(model, TOKENIZER, start=start, end=end, pad=pad)
        if not _has(model, TARGET_TOKENIZER):
            return source, source
        return source, _load_json_tokenizer(model, TARGET_TOKENIZER, start=start, end=end, pad=pad)
    if not has_spm:
        raise FolderError(
            f"{model.path} has no tokenizer: {SOURCE_SPM}, {TARGET_SPM} and {VOCABULARY} are expected, or {TOKENIZER}."
        )
    tokenizer_settings = _read_json(model, TOKENIZER_CONFIG) if _has(model, TOKENIZER_CONFIG) else {}
    vocabularies = [_read_json(model, VOCABULARY)] * 2
    if tokenizer_settings.get("separate_vocabs"):
        vocabularies[1] = _read_json(model, TARGET_VOCABULARY)
    names = {number: token for token, number in vocabularies[1].items()}
    for setting, number in zip(_ID_NAMES, (start, end, pad), strict=True):
        if number not in names:
            raise FolderError(f"{model.path}: {setting} is {number} in config.json, but no piece has that id.")
    unknown = _symbol_name(tokenizer_settings.get("unk_token"), "<unk>")
    # A separate source vocabulary needs no start symbol: only the decoder reads it.
    source_start = names[start] if names[start] in vocabularies[0] else None
    data = [model.file(name).read_bytes() for name in (SOURCE_SPM, TARGET_SPM)]
    if data[0] == data[1] and vocabularies[0] == vocabularies[1]:
        data, vocabularies = data[1:], vocabularies[1:]
    made = [
        tokenizer_from_spm(
            spm,
            vocabulary,
            symbols=Symbols(
                pad=names[pad],
                unknown=unknown,
                start=names[start] if vocabulary is vocabularies[-1] else source_start,
                end=names[end],
            ),
            name=f"{model.path}: {name}",
        )
        for spm, vocabulary, name in zip(data, vocabularies, (SOURCE_SPM, TARGET_SPM), strict=False)
    ]
    return made[0], made[-1]


def _load_json_tokenizer(model: ModelFolder, name: str, *, start: int, end: int, pad: int) -> Tokenizer:
    """A `tokenizer.json`; its end symbol is left off, since models here are given it by whoever asks."""
    path = model.file(name)
    found = Tokenizer.load(path)
    for setting, number in zip(_ID_NAMES, (start, end, pad), strict=True):
        if number >= found.vocab_size:
            raise FolderError(f"{model.path}: {setting} is {number} in config.json, but {name} ends before that id.")
    description = json.loads(found.to_json())
    description["post_processor"] = None
    starting, ending, padding = found.tokens([start, end, pad])
    symbols = Symbols(pad=padding, unknown=found.symbols.unknown, start=starting, end=ending)
    return Tokenizer(tokenizers.Tokenizer.from_str(json.dumps(description)), symbols)


def _symbol_name(value: Any, default: str) -> str:
    """The name of a symbol as tokenizer_config.json gives it: plain, or with its properties."""
    if isinstance(value, dict):
        value = value.get("content")
    return value if isinstance(value, str) else default


def _read_generation(settings: Mapping[str, Any], model: ModelFolder, pad: int) -> dict[str, Any]:
    """How the folder asks to be decoded; newer folders say it in a file of its own."""
    own = _read_json(model, GENERATION_CONFIG) if _has(model, GENERATION_CONFIG) else {}
    said = {**settings, **{name: value for name, value in own.items() if value is not None}}
    never = {ids[0] for ids in said.get("bad_words_ids") or [] if isinstance(ids, list) and len(ids) == 1}
    found: dict[str, Any] = {"never": tuple(sorted({pad, *never}))}
    if is_whole(said.get("num_beams")):
        found["beams"] = said["num_beams"]
    if isinstance(said.get("length_penalty"), int | float):
        found["length_penalty"] = float(said["length_penalty"])
    if is_whole(said.get("max_new_tokens")):
        found["max_new_tokens"] = said["max_new_tokens"]
    elif is_whole(said.get("max_length")):
        found["max_new_tokens"] = max(1, said["max_length"] - 1)  # there, the start symbol counts
    return found


def _read_json(model: ModelFolder, name: str) -> dict[str, Any]:
    try:
        values = json.loads(model.text(name))
    except (ValueError, RecursionError) as problem:
        raise FolderError(f"{model.path}: {name} is not JSON ({problem}). Copy or download it again.") from None
    if not isinstance(values, dict):
        raise FolderError(f"{model.path}: {name} must hold a JSON object, not a {type(values).__name__}.")
    return values


def _has(model: ModelFolder, name: str) -> bool:
    return locate(model.path, name).is_file()


# --- Writing ------------------------------------------------------------------------------------------------


def write_marian(
    folder: Path | str,
    *,
    config: TransformerConfig,
    tensors: Mapping[str, Tensor],
    source_tokenizer: Tokenizer,
    target_tokenizer: Tokenizer,
    start_id: int | None = None,
    end_id: int | None = None,
    pad_id: int | None = None,
    generation: Mapping[str, Any] | None = None,
    probe: Sequence[str] = (),
    card: str | None = None,
    force: bool = False,
) -> list[str]:
    """Write a folder that `MarianMTModel` and `MarianTokenizer` of `transformers` load.

    `tensors` are named as `own_tensors` names them; ids default to the target tokenizer's; `generation` has the
    keys of `ForeignTranslator.generation`; `probe` are texts on which the `.spm` files must give the tokenizers'
    ids, besides those that are tried anyway. Returns what could not be written: a tokenizer that sentencepiece
    cannot express is only written as tokenizer.json, which `AutoTokenizer` loads.
    """
    weights = their_weights(config, tensors)
    joint = config.source_vocab_size is None
    _check_tokenizers(config, source_tokenizer, target_tokenizer)
    start = target_tokenizer.start_id if start_id is None else start_id
    end = target_tokenizer.end_id if end_id is None else end_id
    pad = target_tokenizer.pad_id if pad_id is None else pad_id
    spms, notes = _write_spms(source_tokenizer, target_tokenizer, probe)
    texts: dict[str, str | bytes] = {
        **spms,
        VOCABULARY: _json(_vocabulary(source_tokenizer)),
        TOKENIZER: _with_end(source_tokenizer),
        TOKENIZER_CONFIG: _json(_tokenizer_config(config, target_tokenizer, has_spm=bool(spms))),
        GENERATION_CONFIG: _json(_generation_config(config, generation or {}, start=start, end=end, pad=pad)),
    }
    if not joint:
        texts[TARGET_VOCABULARY] = _json(_vocabulary(target_tokenizer))
    if target_tokenizer != source_tokenizer:
        texts[TARGET_TOKENIZER] = _with_end(target_tokenizer)
    if card is not None:
        texts["README.md"] = card
    dtype = str(next(iter(tensors.values())).dtype).removeprefix("torch.")
    write_model(
        Path(folder),
        config=their_settings(config, start=start, end=end, pad=pad, dtype=dtype),
        tensors=weights,
        texts=texts,
        force=force,
    )
    return notes


def _check_tokenizers(config: TransformerConfig, source: Tokenizer, target: Tokenizer) -> None:
    source.fits(config.source_vocab_size or config.vocab_size)
    target.fits(config.vocab_size)
    if config.source_vocab_size is None and source.vocabulary() != target.vocabulary():
        raise UsageError(
            "source and target share one embedding matrix, so their tokenizers must have the same pieces under the "
            "same ids; give the joint tokenizer for both."
        )
    if (source.end_id, source.pad_id, source.unknown_id) != (target.end_id, target.pad_id, target.unknown_id):
        raise UsageError(
            "end, padding and unknown must have the same ids on both sides, because a Marian config has one of each; "
            f"the source has {source.end_id}, {source.pad_id}, {source.unknown_id}, "
            f"the target {target.end_id}, {target.pad_id}, {target.unknown_id}."
        )


def _write_spms(source: Tokenizer, target: Tokenizer, probe: Sequence[str]) -> tuple[dict[str, bytes], list[str]]:
    try:
        first = spm_from_tokenizer(source, probe)
        second = first if target == source else spm_from_tokenizer(target, probe)
    except UsageError as problem:
        return {}, [
            f"{SOURCE_SPM} and {TARGET_SPM} were not written, so that MarianTokenizer cannot be used; AutoTokenizer "
            f"loads {TOKENIZER} instead. The reason: {problem}"
        ]
    return {SOURCE_SPM: first, TARGET_SPM: second}, []


def _vocabulary(tokenizer: Tokenizer) -> dict[str, int]:
    return {token: i for i, token in enumerate(tokenizer.vocabulary())}


def _with_end(tokenizer: Tokenizer) -> str:
    """The tokenizer's file for programs that expect it to add the end symbol."""
    backend = tokenizers.Tokenizer.from_str(tokenizer.to_json())
    end = tokenizer.tokens([tokenizer.end_id])[0]
    backend.post_processor = processors.TemplateProcessing(
        single=f"$A {end}", pair=f"$A $B {end}", special_tokens=[(end, tokenizer.end_id)]
    )
    return str(backend.to_str())


def _tokenizer_config(config: TransformerConfig, tokenizer: Tokenizer, *, has_spm: bool) -> dict[str, Any]:
    symbols = tokenizer.symbols
    values = {
        "tokenizer_class": "MarianTokenizer" if has_spm else "PreTrainedTokenizerFast",
        "unk_token": symbols.unknown,
        "eos_token": symbols.end,
        "pad_token": symbols.pad,
        "model_max_length": config.max_positions,
        "separate_vocabs": config.source_vocab_size is not None,
        "clean_up_tokenization_spaces": False,
    }
    if symbols.start not in (None, symbols.end, symbols.pad, symbols.unknown):
        values["bos_token"] = symbols.start  # so that the decoder's first symbol is left out of the text
    return values


def _generation_config(
    config: TransformerConfig, generation: Mapping[str, Any], *, start: int, end: int, pad: int
) -> dict[str, Any]:
    never = dict.fromkeys(i for i in (pad, start, *generation.get("never", ())) if i != end)
    values = {
        "num_beams": generation.get("beams", 5),
        "length_penalty": generation.get("length_penalty", 1.0),
        # There, the start symbol counts, and positions end where the table does.
        "max_length": min(generation.get("max_new_tokens", 256) + 1, config.max_positions),
        "bad_words_ids": [[i] for i in never],
        "decoder_start_token_id": start,
        "eos_token_id": end,
        "forced_eos_token_id": end,
        "pad_token_id": pad,
    }
    return values if values["bad_words_ids"] else {**values, "bad_words_ids": None}


def _json(values: Mapping[str, Any]) -> str:
    return json.dumps(values, ensure_ascii=False, indent=2) + "\n"
