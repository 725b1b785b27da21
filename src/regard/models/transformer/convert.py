"""Convert Marian folders (`MarianMTModel`, such as the Opus-MT translators) between `transformers` and regard.

The import reads the tokenizers from `source.spm`, `target.spm` and `vocab.json`, or from `tokenizer.json`. The export
writes all of these; `MarianMTModel` then computes the same logits, `MarianTokenizer` the same ids. Config and tensors
are converted in `convert_weights.py`, sentencepiece models in `regard.tokenizers.sentencepiece`.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Collection, Mapping
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
    append_pad,
    config_to_hf,
    is_whole,
    remove_pad,
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

PAD, UNUSED = "<pad>", "<unused_{}>"  # Marian's padding token; name for ids without a token

_ID_NAMES = ("decoder_start_token_id", "eos_token_id", "pad_token_id")


# --- Reading ------------------------------------------------------------------------------------------------


def from_hf(folder: Folder) -> Content:
    """Convert a Marian folder to the content of a regard folder."""
    settings, theirs = with_defaults(folder.config), folder.tensors
    original = remove_pad(settings, theirs) if folder.has_text(TOKENIZER) else None
    settings, theirs = original or (settings, theirs)
    config, tensors = tensors_from_hf(settings, theirs, folder.path)
    start, end, pad = (_id(settings, name, folder.path) for name in _ID_NAMES)
    num_tokens = settings[NOTE]["num_tokens"] if original else None
    source, target = _read_tokenizers(settings, folder, start=start, end=end, pad=pad, num_tokens=num_tokens)
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
        "forbidden_ids": [i for i in forbidden if i < config.vocab_size],
    }
    if source == target:
        return Content(described, tensors, {TOKENIZER: target.to_json()})
    return Content(described, tensors, {SOURCE_TOKENIZER: source.to_json(), TARGET_TOKENIZER: target.to_json()})


def _id(settings: Mapping[str, Any], name: str, path: Path) -> int:
    value = settings[name]
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise FolderError(f"{path}: {name} in config.json is {settings[name]!r}; it must be one id.")
    return value


def _read_tokenizers(
    settings: Mapping[str, Any], folder: Folder, *, start: int, end: int, pad: int, num_tokens: int | None
) -> tuple[Tokenizer, Tokenizer]:
    has_spm = all(folder.has_text(name) for name in (SOURCE_SPM, TARGET_SPM, VOCABULARY))
    if folder.has_text(TOKENIZER) and (NOTE in settings or not has_spm):
        source = _load_json_tokenizer(folder, TOKENIZER, start=start, end=end, pad=pad, num_tokens=num_tokens)
        if not folder.has_text(TARGET_TOKENIZER):
            return source, source
        return source, _load_json_tokenizer(
            folder, TARGET_TOKENIZER, start=start, end=end, pad=pad, num_tokens=num_tokens
        )
    if not has_spm:
        raise FolderError(
            f"{folder.path} has no tokenizer. Add {SOURCE_SPM}, {TARGET_SPM} and {VOCABULARY}, or {TOKENIZER}."
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
    # A separate source vocabulary needs no start token, because only the decoder uses one.
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


def _load_json_tokenizer(
    folder: Folder, name: str, *, start: int, end: int, pad: int, num_tokens: int | None
) -> Tokenizer:
    """Load a `tokenizer.json` without its post-processor, because regard adds the end token itself."""
    path = folder.file(name)
    tokenizer = Tokenizer.load(path)
    for setting, number in zip(_ID_NAMES, (start, end, pad), strict=True):
        if number >= tokenizer.vocab_size:
            raise FolderError(f"{folder.path}: {setting} is {number} in config.json, but {name} has no such id.")
    description = json.loads(tokenizer.to_json())
    description["post_processor"] = None
    if num_tokens is not None:
        description = _remove_pad(description, num_tokens=num_tokens, pad=pad)
    backend = tokenizers.Tokenizer.from_str(json.dumps(description))
    starting, ending, padding = (backend.id_to_token(number) for number in (start, end, pad))
    special_tokens = SpecialTokens(pad=padding, unknown=tokenizer.special_tokens.unknown, start=starting, end=ending)
    return Tokenizer(backend, special_tokens)


def _read_generation(settings: Mapping[str, Any], folder: Folder, pad: int) -> tuple[dict[str, Any], list[int]]:
    """Return beam search options and forbidden ids from config.json, or from generation_config.json if present."""
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
        options["max_new_tokens"] = max(1, merged["max_length"] - 1)  # max_length includes the start token
    return options, sorted({pad, *never})


def _vocabulary_of(folder: Folder, name: str) -> dict[str, int]:
    values = read_json_value(folder, name)
    if not isinstance(values, dict):
        raise FolderError(f"{folder.path}: {name} must hold a JSON object, got a {type(values).__name__}.")
    return values


# --- Writing ------------------------------------------------------------------------------------------------


def to_hf(content: Content) -> Export:
    """Convert a model to a folder that `MarianMTModel` and `MarianTokenizer` load.

    A tokenizer that sentencepiece does not support is written only as tokenizer.json, which `AutoTokenizer` loads.
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
    settings = config_to_hf(config, start=start, end=end, pad=pad, dtype=dtype_name(content.tensors))
    tensors = tensors_to_hf(config, content.tensors)
    never = {start, pad, *content.config.get("forbidden_ids", ())} - {end}
    spms, notes = _write_spms(source, target)
    if config.source_vocab_size not in (None, config.vocab_size) or source.vocabulary() != target.vocabulary():
        notes.append("CTranslate2 cannot convert this model: its source and target vocabularies must be the same.")
    elif not (start == pad == config.vocab_size - 1 and target.special_tokens.pad == PAD):
        settings, tensors = append_pad(config, settings, tensors, num_tokens=target.vocab_size)
        source, target = (_append_pad(tokenizer, config.vocab_size) for tokenizer in (source, target))
        never.add(target.pad_id)
    texts: dict[str, str | bytes] = {
        **spms,
        VOCABULARY: json_text(_vocabulary(source)),
        TOKENIZER: _with_end(source),
        TOKENIZER_CONFIG: json_text(_tokenizer_config(config, target, has_spm=bool(spms))),
        GENERATION_CONFIG: json_text(_generation_config(settings, content.config.get("inference", {}), never)),
    }
    if config.source_vocab_size is not None:
        texts[TARGET_VOCABULARY] = json_text(_vocabulary(target))
    if target != source:
        texts[TARGET_TOKENIZER] = _with_end(target)
    tensors = {name: tensor.contiguous() for name, tensor in tensors.items()}
    return Export(settings, tensors, texts, class_name=CLASS, notes=tuple(notes))


def obstacles(content: Content) -> tuple[str, list[str]]:
    """Return the class for Marian models, and the settings of the model that this class does not support."""
    return CLASS, unsupported_settings(TransformerConfig(**content.config["model"]))


def _check_tokenizers(config: TransformerConfig, source: Tokenizer, target: Tokenizer) -> None:
    source.fits(config.source_vocab_size or config.vocab_size)
    target.fits(config.vocab_size)
    if config.source_vocab_size is None and source.vocabulary() != target.vocabulary():
        raise UsageError(
            "source and target share one embedding matrix, so their tokenizers must have the same tokens with the "
            "same ids. Use the joint tokenizer for both."
        )
    if (source.end_id, source.pad_id, source.unknown_id) != (target.end_id, target.pad_id, target.unknown_id):
        raise UsageError(
            "end, padding and unknown tokens must have the same ids in both tokenizers, because a Marian config has "
            f"one of each. The source has {source.end_id}, {source.pad_id}, {source.unknown_id}, "
            f"the target has {target.end_id}, {target.pad_id}, {target.unknown_id}."
        )


def _write_spms(source: Tokenizer, target: Tokenizer) -> tuple[dict[str, bytes], list[str]]:
    try:
        first = spm_from_tokenizer(source)
        second = first if target == source else spm_from_tokenizer(target)
    except UsageError as problem:
        return {}, [
            f"{SOURCE_SPM} and {TARGET_SPM} were not written, so MarianTokenizer cannot load this folder. "
            f"Use AutoTokenizer, which loads {TOKENIZER}. Reason: {problem}"
        ]
    return {SOURCE_SPM: first, TARGET_SPM: second}, []


def _vocabulary(tokenizer: Tokenizer) -> dict[str, int]:
    return {token: i for i, token in enumerate(tokenizer.vocabulary())}


def _with_end(tokenizer: Tokenizer) -> str:
    """Return a tokenizer.json that adds the end token, which other programs expect."""
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
        values["bos_token"] = special_tokens.start  # special tokens are skipped when ids are decoded to text
    return values


def _generation_config(
    settings: Mapping[str, Any], options: Mapping[str, Any], never: Collection[int]
) -> dict[str, Any]:
    """Return the options for `generate`. Ids in `never` are forbidden."""
    names = ("decoder_start_token_id", "eos_token_id", "forced_eos_token_id", "pad_token_id")
    return {
        "num_beams": options.get("num_beams", 5),
        "length_penalty": options.get("length_penalty", 1.0),
        # max_length includes the start token and must not exceed the length of the position table.
        "max_length": min(options.get("max_new_tokens", 256) + 1, settings["max_position_embeddings"]),
        "bad_words_ids": [[i] for i in sorted(never)] or None,
        **{name: settings[name] for name in names},
    }


# --- Marian's padding token ---------------------------------------------------------------------------------


def _append_pad(tokenizer: Tokenizer, vocab_size: int) -> Tokenizer:
    """Add Marian's padding token after all rows of the embedding table. Ids without a token get a name."""
    vocabulary = tokenizer.vocabulary()
    description = json.loads(tokenizer.to_json())
    if PAD in vocabulary:
        description = _rename_token(description, PAD, UNUSED.format(vocabulary.index(PAD)))
    backend = tokenizers.Tokenizer.from_str(json.dumps(description))
    names = [*(UNUSED.format(i) for i in range(len(vocabulary), vocab_size)), PAD]
    backend.add_special_tokens([tokenizers.AddedToken(name, special=True, normalized=False) for name in names])
    return Tokenizer(backend, dataclasses.replace(tokenizer.special_tokens, pad=PAD))


def _remove_pad(description: dict[str, Any], *, num_tokens: int, pad: int) -> dict[str, Any]:
    """Undo `_append_pad` in a tokenizer.json that had `num_tokens` tokens and the padding id `pad`."""
    added = [token for token in description["added_tokens"] if token["id"] < num_tokens]
    return _rename_token({**description, "added_tokens": added}, UNUSED.format(pad), PAD)


def _rename_token(description: dict[str, Any], old: str, new: str) -> dict[str, Any]:
    model = description["model"]
    if isinstance(model["vocab"], dict):
        vocab: Any = {new if token == old else token: i for token, i in model["vocab"].items()}
    else:
        vocab = [(new if token == old else token, score) for token, score in model["vocab"]]
    added = [{**token, "content": new} if token["content"] == old else token for token in description["added_tokens"]]
    return {**description, "model": {**model, "vocab": vocab}, "added_tokens": added}


FORMATS = (Format(model_type=MODEL_TYPE, from_hf=from_hf, to_hf=to_hf, obstacles=obstacles),)
