"""Marian folders of `transformers` (`MarianMTModel`, the Opus-MT translators) ↔ regard.

Reading takes the tokenizers as `source.spm`, `target.spm` and `vocab.json`, or as `tokenizer.json`. Writing gives all
of these, so that `MarianMTModel` computes the same logits and `MarianTokenizer` the same ids. Config and tensors are
converted in `convert_weights.py`, sentencepiece models in `regard.tokenizers.sentencepiece`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tokenizers
from tokenizers import processors

from regard.models.format_files import (
    GENERATION_CONFIG,
    TOKENIZER,
    TOKENIZER_CONFIG,
    json_text,
    read_json,
    read_json_value,
    special_token_settings,
    token_name,
    tokenizer_of,
)
from regard.models.formats import Content, Export, Folder, Format, dtype_name
from regard.models.transformer.config import TransformerConfig
from regard.models.transformer.convert_weights import (
    CLASS,
    MODEL_TYPE,
    NOTE,
    config_to_hf,
    is_whole,
    tensors_from_hf,
    tensors_to_hf,
    unsupported_settings,
    with_defaults,
)
from regard.tokenizers.sentencepiece import spm_from_tokenizer, tokenizer_from_spm
from regard.tokenizers.tokenizer import SpecialTokens, Tokenizer
from regard.utils.errors import FolderError, UsageError

SOURCE_SPM, TARGET_SPM = "source.spm", "target.spm"
VOCABULARY, TARGET_VOCABULARY = "vocab.json", "target_vocab.json"
SOURCE_TOKENIZER, TARGET_TOKENIZER = "tokenizer.source.json", "tokenizer.target.json"

_ID_NAMES = ("decoder_start_token_id", "eos_token_id", "pad_token_id")


# --- Reading ------------------------------------------------------------------------------------------------


def from_hf(folder: Folder) -> Content:
    """A regard folder of a Marian translator."""
    settings = with_defaults(folder.config)
    config, tensors = tensors_from_hf(settings, folder.tensors, folder.path)
    start, end, pad = (_id(settings, name, folder.path) for name in _ID_NAMES)
    source, target = _read_tokenizers(settings, folder, start=start, end=end, pad=pad)
    for tokenizer, rows in ((source, config.source_vocab_size or config.vocab_size), (target, config.vocab_size)):
        tokenizer.fits(rows)
    options, forbidden = _read_generation(settings, folder, pad)
    described = {
        "regard": {},
        "architecture": "transformer",
        "model": config.to_dict(),
        "inference": options,
        "special_tokens": special_token_settings(target),
        "start_id": start,
        "forbidden_ids": forbidden,
    }
    if source == target:
        return Content(described, tensors, {TOKENIZER: target.to_json()})
    return Content(described, tensors, {SOURCE_TOKENIZER: source.to_json(), TARGET_TOKENIZER: target.to_json()})


def _id(settings: Mapping[str, Any], name: str, path: Path) -> int:
    value = settings[name]
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise FolderError(f"{path}: {name} in config.json is {settings[name]!r}; one id is needed.")
    return value


def _read_tokenizers(
    settings: Mapping[str, Any], folder: Folder, *, start: int, end: int, pad: int
) -> tuple[Tokenizer, Tokenizer]:
    has_spm = all(folder.has_text(name) for name in (SOURCE_SPM, TARGET_SPM, VOCABULARY))
    if folder.has_text(TOKENIZER) and (NOTE in settings or not has_spm):
        source = _load_json_tokenizer(folder, TOKENIZER, start=start, end=end, pad=pad)
        if not folder.has_text(TARGET_TOKENIZER):
            return source, source
        return source, _load_json_tokenizer(folder, TARGET_TOKENIZER, start=start, end=end, pad=pad)
    if not has_spm:
        raise FolderError(
            f"{folder.path} has no tokenizer: {SOURCE_SPM}, {TARGET_SPM} and {VOCABULARY} are expected, or {TOKENIZER}."
        )
    tokenizer_settings = read_json(folder, TOKENIZER_CONFIG)
    vocabularies = [_vocabulary_of(folder, VOCABULARY)] * 2
    if tokenizer_settings.get("separate_vocabs"):
        vocabularies[1] = _vocabulary_of(folder, TARGET_VOCABULARY)
    names = {number: token for token, number in vocabularies[1].items()}
    for setting, number in zip(_ID_NAMES, (start, end, pad), strict=True):
        if number not in names:
            raise FolderError(f"{folder.path}: {setting} is {number} in config.json, but no token has that id.")
    unknown = token_name(tokenizer_settings.get("unk_token")) or "<unk>"
    # A separate source vocabulary needs no start token: only the decoder uses it.
    source_start = names[start] if names[start] in vocabularies[0] else None
    data = [folder.file(name).read_bytes() for name in (SOURCE_SPM, TARGET_SPM)]
    if data[0] == data[1] and vocabularies[0] == vocabularies[1]:
        data, vocabularies = data[1:], vocabularies[1:]
    made = [
        tokenizer_from_spm(
            spm,
            vocabulary,
            special_tokens=SpecialTokens(
                pad=names[pad],
                unknown=unknown,
                start=names[start] if vocabulary is vocabularies[-1] else source_start,
                end=names[end],
            ),
            name=f"{folder.path}: {name}",
        )
        for spm, vocabulary, name in zip(data, vocabularies, (SOURCE_SPM, TARGET_SPM), strict=False)
    ]
    return made[0], made[-1]


def _load_json_tokenizer(folder: Folder, name: str, *, start: int, end: int, pad: int) -> Tokenizer:
    """A `tokenizer.json` without its post-processor, since regard adds the end token itself."""
    path = folder.file(name)
    tokenizer = Tokenizer.load(path)
    for setting, number in zip(_ID_NAMES, (start, end, pad), strict=True):
        if number >= tokenizer.vocab_size:
            raise FolderError(f"{folder.path}: {setting} is {number} in config.json, but {name} ends before that id.")
    description = json.loads(tokenizer.to_json())
    description["post_processor"] = None
    starting, ending, padding = tokenizer.tokens([start, end, pad])
    special_tokens = SpecialTokens(pad=padding, unknown=tokenizer.special_tokens.unknown, start=starting, end=ending)
    return Tokenizer(tokenizers.Tokenizer.from_str(json.dumps(description)), special_tokens)


def _read_generation(settings: Mapping[str, Any], folder: Folder, pad: int) -> tuple[dict[str, Any], list[int]]:
    """Beam search options and forbidden ids, from config.json or the generation_config.json of newer folders."""
    own = read_json(folder, GENERATION_CONFIG)
    merged = {**settings, **{name: value for name, value in own.items() if value is not None}}
    never = {ids[0] for ids in merged.get("bad_words_ids") or [] if isinstance(ids, list) and len(ids) == 1}
    options: dict[str, Any] = {}
    if is_whole(merged.get("num_beams")):
        options["num_beams"] = merged["num_beams"]
    if isinstance(merged.get("length_penalty"), int | float):
        options["length_penalty"] = float(merged["length_penalty"])
    if is_whole(merged.get("max_new_tokens")):
        options["max_new_tokens"] = merged["max_new_tokens"]
    elif is_whole(merged.get("max_length")):
        options["max_new_tokens"] = max(1, merged["max_length"] - 1)  # max_length counts the start token
    return options, sorted({pad, *never})


def _vocabulary_of(folder: Folder, name: str) -> dict[str, int]:
    values = read_json_value(folder, name)
    if not isinstance(values, dict):
        raise FolderError(f"{folder.path}: {name} must hold a JSON object, not a {type(values).__name__}.")
    return values


# --- Writing ------------------------------------------------------------------------------------------------


def to_hf(content: Content) -> Export:
    """A folder that `MarianMTModel` and `MarianTokenizer` load.

    A tokenizer that sentencepiece cannot express is only written as tokenizer.json, which `AutoTokenizer` loads.
    """
    config = TransformerConfig(**content.config["model"])
    joint = TOKENIZER in content.texts
    source, target = (
        tokenizer_of(content, TOKENIZER if joint else name) for name in (SOURCE_TOKENIZER, TARGET_TOKENIZER)
    )
    _check_tokenizers(config, source, target)
    start = content.config.get("start_id")
    start = target.start_id if start is None else start
    end, pad = target.end_id, target.pad_id
    spms, notes = _write_spms(source, target)
    texts: dict[str, str | bytes] = {
        **spms,
        VOCABULARY: json_text(_vocabulary(source)),
        TOKENIZER: _with_end(source),
        TOKENIZER_CONFIG: json_text(_tokenizer_config(config, target, has_spm=bool(spms))),
        GENERATION_CONFIG: json_text(_generation_config(config, content, start=start, end=end, pad=pad)),
    }
    if config.source_vocab_size is not None:
        texts[TARGET_VOCABULARY] = json_text(_vocabulary(target))
    if target != source:
        texts[TARGET_TOKENIZER] = _with_end(target)
    settings = config_to_hf(config, start=start, end=end, pad=pad, dtype=dtype_name(content.tensors))
    tensors = {name: tensor.contiguous() for name, tensor in tensors_to_hf(config, content.tensors).items()}
    return Export(settings, tensors, texts, class_name=CLASS, notes=tuple(notes))


def obstacles(content: Content) -> tuple[str, list[str]]:
    """The class for Marian models, and the settings of a model that it cannot express."""
    return CLASS, unsupported_settings(TransformerConfig(**content.config["model"]))


def _check_tokenizers(config: TransformerConfig, source: Tokenizer, target: Tokenizer) -> None:
    source.fits(config.source_vocab_size or config.vocab_size)
    target.fits(config.vocab_size)
    if config.source_vocab_size is None and source.vocabulary() != target.vocabulary():
        raise UsageError(
            "source and target share one embedding matrix, so their tokenizers must have the same tokens under the "
            "same ids; give the joint tokenizer for both."
        )
    if (source.end_id, source.pad_id, source.unknown_id) != (target.end_id, target.pad_id, target.unknown_id):
        raise UsageError(
            "end, padding and unknown must have the same ids on both sides, because a Marian config has one of each; "
            f"the source has {source.end_id}, {source.pad_id}, {source.unknown_id}, "
            f"the target {target.end_id}, {target.pad_id}, {target.unknown_id}."
        )


def _write_spms(source: Tokenizer, target: Tokenizer) -> tuple[dict[str, bytes], list[str]]:
    try:
        first = spm_from_tokenizer(source)
        second = first if target == source else spm_from_tokenizer(target)
    except UsageError as problem:
        return {}, [
            f"{SOURCE_SPM} and {TARGET_SPM} were not written, so MarianTokenizer cannot load this folder; "
            f"AutoTokenizer loads {TOKENIZER} instead. Reason: {problem}"
        ]
    return {SOURCE_SPM: first, TARGET_SPM: second}, []


def _vocabulary(tokenizer: Tokenizer) -> dict[str, int]:
    return {token: i for i, token in enumerate(tokenizer.vocabulary())}


def _with_end(tokenizer: Tokenizer) -> str:
    """A tokenizer.json that adds the end token, as other programs expect."""
    backend = tokenizers.Tokenizer.from_str(tokenizer.to_json())
    end = tokenizer.tokens([tokenizer.end_id])[0]
    backend.post_processor = processors.TemplateProcessing(
        single=f"$A {end}", pair=f"$A $B {end}", special_tokens=[(end, tokenizer.end_id)]
    )
    return str(backend.to_str())


def _tokenizer_config(config: TransformerConfig, tokenizer: Tokenizer, *, has_spm: bool) -> dict[str, Any]:
    special_tokens = tokenizer.special_tokens
    values = {
        "tokenizer_class": "MarianTokenizer" if has_spm else "PreTrainedTokenizerFast",
        "unk_token": special_tokens.unknown,
        "eos_token": special_tokens.end,
        "pad_token": special_tokens.pad,
        "model_max_length": config.max_positions,
        "separate_vocabs": config.source_vocab_size is not None,
        "clean_up_tokenization_spaces": False,
    }
    if special_tokens.start not in (None, special_tokens.end, special_tokens.pad, special_tokens.unknown):
        values["bos_token"] = special_tokens.start  # so that decoding to text skips the start token
    return values


def _generation_config(
    config: TransformerConfig, content: Content, *, start: int, end: int, pad: int
) -> dict[str, Any]:
    options, forbidden = content.config.get("inference", {}), content.config.get("forbidden_ids", ())
    never = dict.fromkeys(i for i in (pad, start, *forbidden) if i != end)
    return {
        "num_beams": options.get("num_beams", 5),
        "length_penalty": options.get("length_penalty", 1.0),
        # max_length counts the start token, and positions end with the position table.
        "max_length": min(options.get("max_new_tokens", 256) + 1, config.max_positions),
        "bad_words_ids": [[i] for i in never] or None,
        "decoder_start_token_id": start,
        "eos_token_id": end,
        "forced_eos_token_id": end,
        "pad_token_id": pad,
    }


FORMATS = (Format(model_type=MODEL_TYPE, from_hf=from_hf, to_hf=to_hf, obstacles=obstacles),)
