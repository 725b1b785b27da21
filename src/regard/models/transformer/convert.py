"""Convert Marian folders (`MarianMTModel`, such as the Opus-MT translators) between `transformers` and regard.

The import reads the tokenizers from `source.spm`, `target.spm` and `vocab.json`, or from `tokenizer.json`. The export
writes all of these files; `MarianMTModel` then computes the same logits, and `MarianTokenizer` the same ids. Config and
tensors are converted in `convert_weights.py`, sentencepiece models in `regard.tokenizers.sentencepiece`.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import tokenizers

from regard.models import formats
from regard.models.formats import GENERATION_CONFIG, TOKENIZER, TOKENIZER_CONFIG, Export, Folder, FolderContent, Format
from regard.models.transformer import convert_weights
from regard.models.transformer.config import TransformerConfig
from regard.models.transformer.convert_weights import CLASS, MODEL_TYPE, NOTE, REQUIRED, VOCAB_SIZE, is_integer
from regard.tokenizers.sentencepiece import spm_from_tokenizer, tokenizer_from_spm
from regard.tokenizers.tokenizer import SpecialTokens, Tokenizer
from regard.utils.errors import FolderError, UsageError

SOURCE_SPM, TARGET_SPM = "source.spm", "target.spm"
VOCABULARY, TARGET_VOCABULARY = "vocab.json", "target_vocab.json"
SOURCE_TOKENIZER, TARGET_TOKENIZER = "tokenizer.source.json", "tokenizer.target.json"

PAD, UNUSED = "<pad>", "<unused_{}>"  # Marian's padding token; name for ids without a token

# Settings with the ids of special tokens, and the defaults of `transformers`.
_IDS = {"decoder_start_token_id": VOCAB_SIZE - 1, "eos_token_id": 0, "pad_token_id": VOCAB_SIZE - 1}


# --- Reading ------------------------------------------------------------------------------------------------


def from_hf(folder: Folder) -> FolderContent:
    """Convert a Marian folder to the content of a regard folder."""
    settings, theirs = folder.config, folder.tensors
    original = convert_weights.remove_pad(settings, theirs) if folder.has_text(TOKENIZER) else None
    settings, theirs = original or (settings, theirs)
    config, tensors = convert_weights.tensors_from_hf(settings, theirs, folder.path)
    ids = {name: _id(settings.get(name, default), name, folder.path) for name, default in _IDS.items()}
    num_tokens = settings[NOTE]["num_tokens"] if original else None
    source, target = _read_tokenizers(settings, folder, ids, num_tokens)
    with formats.errors_at(folder.path):
        source.fits(config.source_vocab_size or config.vocab_size)
        target.fits(config.vocab_size)
    options, forbidden = _read_generation(settings, folder, ids["pad_token_id"])
    described = formats.our_config(
        "transformer",
        config,
        target,
        inference=options,
        start_id=ids["decoder_start_token_id"],
        forbidden_ids=[i for i in forbidden if i < config.vocab_size],
    )
    if source == target:
        return FolderContent(described, tensors, {TOKENIZER: target.to_json()})
    return FolderContent(described, tensors, {SOURCE_TOKENIZER: source.to_json(), TARGET_TOKENIZER: target.to_json()})


def _id(value: Any, name: str, path: Path) -> int:
    number = value[0] if isinstance(value, list) and len(value) == 1 else value
    if not is_integer(number) or number < 0:
        message = f"{path}: {name} in config.json is {value!r}; it must be one id."
        raise FolderError(message, argument=name, value=value, path=path / formats.CONFIG)
    return int(number)


def _read_tokenizers(
    settings: Mapping[str, Any], folder: Folder, ids: Mapping[str, int], num_tokens: int | None
) -> tuple[Tokenizer, Tokenizer]:
    has_spm = all(folder.has_text(name) for name in (SOURCE_SPM, TARGET_SPM, VOCABULARY))
    if folder.has_text(TOKENIZER) and (NOTE in settings or not has_spm):
        source = _load_json_tokenizer(folder, TOKENIZER, ids, num_tokens)
        if not folder.has_text(TARGET_TOKENIZER):
            return source, source
        return source, _load_json_tokenizer(folder, TARGET_TOKENIZER, ids, num_tokens)
    if not has_spm:
        raise FolderError(
            f"{folder.path} has no tokenizer. Add {SOURCE_SPM}, {TARGET_SPM} and {VOCABULARY}, or {TOKENIZER}.",
            argument="tokenizer",
            allowed=(SOURCE_SPM, TARGET_SPM, VOCABULARY, TOKENIZER),
            path=folder.path,
        )
    tokenizer_settings = formats.read_json(folder, TOKENIZER_CONFIG)
    source_ids = target_ids = _vocabulary_of(folder, VOCABULARY)
    if tokenizer_settings.get("separate_vocabs"):
        target_ids = _vocabulary_of(folder, TARGET_VOCABULARY)
    names = {number: token for token, number in target_ids.items()}
    for setting, number in ids.items():
        if number not in names:
            message = f"{folder.path}: {setting} is {number} in config.json, but no token has that id."
            raise FolderError(message, argument=setting, value=number, path=folder.path / formats.CONFIG)
    start, end, pad = (names[number] for number in ids.values())
    unknown = formats.token_name(tokenizer_settings.get("unk_token")) or "<unk>"

    def load(spm: bytes, vocabulary: dict[str, int], name: str) -> Tokenizer:
        # A separate source vocabulary needs no start token, because only the decoder uses one.
        special_tokens = SpecialTokens(pad=pad, unknown=unknown, start=start if start in vocabulary else None, end=end)
        return tokenizer_from_spm(spm, vocabulary, special_tokens=special_tokens, path=folder.file(name))

    source_spm, target_spm = (folder.file(name).read_bytes() for name in (SOURCE_SPM, TARGET_SPM))
    source = load(source_spm, source_ids, SOURCE_SPM)
    same = source_spm == target_spm and source_ids == target_ids
    return source, source if same else load(target_spm, target_ids, TARGET_SPM)


def _load_json_tokenizer(folder: Folder, name: str, ids: Mapping[str, int], num_tokens: int | None) -> Tokenizer:
    """Load a `tokenizer.json` without its post-processor, because regard adds the end token itself."""
    tokenizer = Tokenizer.load(folder.file(name))
    for setting, number in ids.items():
        if number >= tokenizer.vocab_size:
            message = f"{folder.path}: {setting} is {number} in config.json, but {name} has no such id."
            raise FolderError(message, argument=setting, value=number, path=folder.path / formats.CONFIG)
    description = {**json.loads(tokenizer.to_json()), "post_processor": None}
    if num_tokens is not None:
        description = _remove_pad(description, num_tokens=num_tokens, pad=ids["pad_token_id"])
    backend = tokenizers.Tokenizer.from_str(json.dumps(description))
    start, end, pad = map(backend.id_to_token, ids.values())
    return Tokenizer(backend, SpecialTokens(pad=pad, unknown=tokenizer.special_tokens.unknown, start=start, end=end))


def _read_generation(settings: Mapping[str, Any], folder: Folder, pad: int) -> tuple[dict[str, Any], list[int]]:
    """Return beam search options and forbidden ids from config.json, or from generation_config.json if present."""
    own = formats.read_json(folder, GENERATION_CONFIG)
    merged = {**settings, **{name: value for name, value in own.items() if value is not None}}
    never = {ids[0] for ids in merged.get("bad_words_ids") or [] if isinstance(ids, list) and len(ids) == 1}
    options: dict[str, Any] = {}
    if is_integer(merged.get("num_beams")):
        options["num_beams"] = merged["num_beams"]
    if isinstance(merged.get("length_penalty"), int | float):
        options["length_penalty"] = float(merged["length_penalty"])
    if is_integer(merged.get("max_new_tokens")):
        options["max_new_tokens"] = merged["max_new_tokens"]
    elif is_integer(merged.get("max_length")):
        options["max_new_tokens"] = max(1, merged["max_length"] - 1)  # max_length includes the start token
    return options, sorted({pad, *never})


def _vocabulary_of(folder: Folder, name: str) -> dict[str, int]:
    values = formats.read_json_value(folder, name)
    if not isinstance(values, dict):
        message = f"{folder.path}: {name} must contain a JSON object, got a {type(values).__name__}."
        raise FolderError(message, value=values, path=folder.path / name)
    return values


# --- Writing ------------------------------------------------------------------------------------------------


def to_hf(content: FolderContent) -> Export:
    """Convert a model to a folder that `MarianMTModel` and `MarianTokenizer` load.

    A tokenizer that sentencepiece does not support is written only as tokenizer.json, which `AutoTokenizer` loads.
    """
    config = TransformerConfig(**content.config["model"])
    joint = TOKENIZER in content.texts
    source, target = (
        formats.tokenizer_of(content, TOKENIZER if joint else name) for name in (SOURCE_TOKENIZER, TARGET_TOKENIZER)
    )
    _check_tokenizers(config, source, target)
    start = content.config.get("start_id")
    start = target.start_id if start is None else start
    end, pad = target.end_id, target.pad_id
    settings = convert_weights.config_to_hf(
        config, start=start, end=end, pad=pad, dtype=formats.dtype_name(content.tensors)
    )
    tensors = convert_weights.tensors_to_hf(config, content.tensors)
    never = {start, pad, *content.config.get("forbidden_ids", ())} - {end}
    spms, notes = _write_spms(source, target)
    if config.source_vocab_size not in (None, config.vocab_size) or source.vocabulary() != target.vocabulary():
        notes.append("CTranslate2 cannot convert this model: its source and target vocabularies must be the same.")
    elif not (start == pad == config.vocab_size - 1 and target.special_tokens.pad == PAD):
        settings, tensors = convert_weights.append_pad(config, settings, tensors, num_tokens=target.vocab_size)
        source, target = (_append_pad(tokenizer, config.vocab_size) for tokenizer in (source, target))
        never.add(target.pad_id)
    texts: dict[str, str | bytes] = {
        **spms,
        VOCABULARY: formats.json_text(_vocabulary(source)),
        TOKENIZER: _with_end(source),
        TOKENIZER_CONFIG: formats.json_text(_tokenizer_config(config, target, has_spm=bool(spms))),
        GENERATION_CONFIG: formats.json_text(_generation_config(settings, content.config.get("inference", {}), never)),
    }
    if config.source_vocab_size is not None:
        texts[TARGET_VOCABULARY] = formats.json_text(_vocabulary(target))
    if target != source:
        texts[TARGET_TOKENIZER] = _with_end(target)
    return Export(settings, tensors, texts, class_name=CLASS, notes=tuple(notes))


def unsupported_settings(content: FolderContent) -> tuple[str, dict[str, str]]:
    """Return the class for Marian models, and the settings of the model that this class does not support."""
    return CLASS, formats.unsupported_settings(TransformerConfig(**content.config["model"]), REQUIRED)


def _check_tokenizers(config: TransformerConfig, source: Tokenizer, target: Tokenizer) -> None:
    source.fits(config.source_vocab_size or config.vocab_size)
    target.fits(config.vocab_size)
    if config.source_vocab_size is None and source.vocabulary() != target.vocabulary():
        raise UsageError(
            "source and target share one embedding matrix, so their tokenizers must have the same tokens with the "
            "same ids. Use the joint tokenizer for both.",
            argument="source_tokenizer",
        )
    given, expected = ((side.end_id, side.pad_id, side.unknown_id) for side in (source, target))
    if given != expected:
        raise UsageError(
            "a Marian config has one id each for end, padding and unknown tokens, but the source tokenizer has "
            f"{', '.join(map(str, given))} and the target tokenizer {', '.join(map(str, expected))}. "
            "Train with a joint tokenizer, or change the ids.",
            argument="special_tokens",
            value=given,
            allowed=[expected],
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
    """Return a tokenizer.json that appends the end token to each text, as other programs expect."""
    (end,) = tokenizer.tokens([tokenizer.end_id])
    return tokenizer.with_template([("$A", 0), (end, 0)], [("$A", 0), ("$B", 0), (end, 0)]).to_json()


def _tokenizer_config(config: TransformerConfig, tokenizer: Tokenizer, *, has_spm: bool) -> dict[str, Any]:
    special_tokens = tokenizer.special_tokens
    names = {"unk_token": special_tokens.unknown, "eos_token": special_tokens.end, "pad_token": special_tokens.pad}
    if special_tokens.start not in names.values():
        names["bos_token"] = special_tokens.start  # special tokens are skipped when ids are decoded to text
    tokenizer_class = "MarianTokenizer" if has_spm else "PreTrainedTokenizerFast"
    separate = config.source_vocab_size is not None
    return formats.tokenizer_config(
        config.max_positions, names, tokenizer_class=tokenizer_class, separate_vocabs=separate
    )


def _generation_config(
    settings: Mapping[str, Any], options: Mapping[str, Any], never: Collection[int]
) -> dict[str, Any]:
    """Return the options for `generate`. Ids in `never` are forbidden."""
    return {
        "num_beams": options.get("num_beams", 5),
        "length_penalty": options.get("length_penalty", 1.0),
        # max_length includes the start token and must not exceed the length of the position table.
        "max_length": min(options.get("max_new_tokens", 256) + 1, settings["max_position_embeddings"]),
        "bad_words_ids": [[i] for i in sorted(never)] or None,
        **{name: settings[name] for name in (*_IDS, "forced_eos_token_id")},
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


FORMATS = (Format(model_type=MODEL_TYPE, from_hf=from_hf, to_hf=to_hf, unsupported_settings=unsupported_settings),)
