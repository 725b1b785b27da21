"""Convert SentencePiece models (`.spm`) with a separate vocabulary to and from `Tokenizer`.

A Marian folder has a source and a target `.spm`, and one vocabulary (token → id) for both. A `.spm` defines how text is
split into tokens, which SentencePiece calls pieces; its own ids are not used. Marian encodes in three steps:

1. Normalize the text (a table in the `.spm`, then white space) and replace spaces with "▁".
2. Split it into pieces. Adjacent characters that occur in no piece (foreign characters) form one run.
3. Look up each piece and each foreign run in the vocabulary. A missing one gets the id of the unknown token.

`tokenizer_from_spm` builds a `tokenizers` model that gives the same ids. This model contains the entire vocabulary,
because it must decode every id. A token that is not a piece of this `.spm` gets the score `UNREACHABLE`: any split into
real pieces scores higher, so the token is only used for a foreign run, as in step 3. Two more rules make the ids equal.
The pre-tokenizer isolates foreign runs, so no token crosses their boundary. The normalizer replaces a foreign run that
is not in the vocabulary with one unknown character, so the run is not split into tokens.

Known differences to Marian:

- If a piece of the `.spm` is not in the vocabulary, its text is split into other pieces. In Marian it is unknown.
- A BPE model encodes every foreign run of several characters as unknown.
- A language code like >>fr<< is recognized anywhere in a text, not only at its start.
- If the table replaces a character that has another combining mark (decomposed Vietnamese), the `tokenizers` library
  drops that mark. Compose such text first.
- If two splits contain the same pieces (222 as 22 2 or 2 22), a unigram model may choose either because of rounding.
- Special tokens such as "</s>" in a text are ordinary characters.
"""

from __future__ import annotations

import base64
import itertools
import json
import random
import re
import tempfile
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import sentencepiece
import tokenizers
from google.protobuf.message import DecodeError
from sentencepiece import sentencepiece_model_pb2
from tokenizers import AddedToken, Regex, decoders, models, normalizers, pre_tokenizers

from regard.tokenizers.tokenizer import BYTE_TOKENS, SPACE_MARK, SpecialTokens, Tokenizer, add_special_tokens
from regard.utils.errors import FolderError, UsageError, shorten_list

proto: Any = sentencepiece_model_pb2  # creates its classes at import, which type checkers cannot see

UNREACHABLE = -1e6  # score of a token that is worse than any split into pieces

_NORMAL, _UNKNOWN, _USER_DEFINED, _BYTE = 1, 2, 4, 6  # piece types of the format
_UNIGRAM, _BPE = 1, 2  # model types of the format
_MODEL_NAMES = {3: "word", 4: "char"}
_KINDS = ("bpe", "unigram")

_NOWHERE = "\uffff"  # replaces a foreign run; occurs in no text and no vocabulary
_OUTER_SPACES = r"\A +| +\z"
_DOUBLE_SPACES = " {2,}"
_OUTER_WHITE_SPACE = r"\A\s+|\s+\z"
_LANGUAGE_CODE = re.compile(r">>.+?<<")
_NUM_PROBED = 5000  # tokens to check of a large vocabulary


# --- Reading ------------------------------------------------------------------------------------------------


def tokenizer_from_spm(
    data: bytes, vocabulary: Mapping[str, int], *, special_tokens: SpecialTokens, path: Path | str
) -> Tokenizer:
    """Return a tokenizer that splits text like the `.spm` in `data`, with the ids of `vocabulary`; `path` is for
    errors.

    Language codes like >>fr<< in the vocabulary become tokens that a text may start with.
    """
    spm = _parse(data, path)
    _refuse_unsupported(spm, path)
    tokens = _in_id_order(vocabulary, path)
    roles = (special_tokens.unknown, special_tokens.end, special_tokens.pad, special_tokens.start)
    special = list(dict.fromkeys(token for token in roles if token is not None))
    if missing := [token for token in special if token not in vocabulary]:
        message = f"the special token {missing[0]!r} is not in the vocabulary of {path}."
        raise FolderError(message, argument="special_tokens", value=missing[0], path=path)
    codes = [token for token in tokens if _LANGUAGE_CODE.fullmatch(token)]
    own = {piece: score for piece, score in _own_pieces(spm).items() if piece in vocabulary}
    if not own:
        message = f"{path} and its vocabulary belong to different models: they have no token in common."
        raise FolderError(message, argument="vocabulary", path=path)
    known = {character for piece in own for character in piece} | {SPACE_MARK}
    foreign = [token for token in tokens if token not in own and known.isdisjoint(token)]
    foreign = [token for token in foreign if token not in special and token not in codes]
    if foreign and spm.trainer_spec.byte_fallback:
        message = f"{path} has byte fallback, but its vocabulary has {len(foreign)} tokens of characters that {path} "
        message += f"encodes as bytes ({shorten_list(foreign)}). Use separate vocabularies for source and target."
        raise FolderError(message, argument="byte_fallback", value=foreign, path=path)
    unigram = spm.trainer_spec.model_type == _UNIGRAM
    backend = tokenizers.Tokenizer((_unigram_model if unigram else _bpe_model)(spm, tokens, own, special_tokens))
    known_set = _character_class(known) if foreign else None
    backend.normalizer = _normalizer(spm, known_set, foreign if unigram else [])
    backend.pre_tokenizer = _pre_tokenizer(own, known_set)
    byte_fallback = [decoders.ByteFallback()] if spm.trainer_spec.byte_fallback else []
    strip = decoders.Replace(Regex(_OUTER_WHITE_SPACE), "")
    backend.decoder = decoders.Sequence([decoders.Replace(SPACE_MARK, " "), *byte_fallback, decoders.Fuse(), strip])
    add_special_tokens(backend, special)
    backend.add_tokens([AddedToken(code, special=False, normalized=False) for code in codes])
    return Tokenizer(backend, special_tokens)


def _parse(data: bytes, path: Path | str) -> Any:
    try:
        spm = proto.ModelProto.FromString(data)
        if not spm.pieces:
            raise ValueError("it has no pieces")
        sentencepiece.SentencePieceProcessor(model_proto=data)  # checks more than the parser
    except (DecodeError, RuntimeError, ValueError) as problem:
        message = f"{path} is damaged or not a SentencePiece model ({problem}). Copy or download it again."
        raise FolderError(message, path=path) from problem
    return spm


def _refuse_unsupported(spm: Any, path: Path | str) -> None:
    trainer = spm.trainer_spec
    model_type = _MODEL_NAMES.get(trainer.model_type, trainer.model_type)
    user_defined = [piece.piece for piece in spm.pieces if piece.type == _USER_DEFINED]
    settings = {
        f"model_type {model_type}": trainer.model_type not in (_UNIGRAM, _BPE),
        "treat_whitespace_as_suffix": trainer.treat_whitespace_as_suffix,
        "escape_whitespaces false": not spm.normalizer_spec.escape_whitespaces,
        "denormalizer": spm.denormalizer_spec.precompiled_charsmap,
        f"user_defined_symbols in a BPE model ({shorten_list(user_defined)})": (
            user_defined and trainer.model_type == _BPE
        ),
    }
    if unsupported := [setting for setting, is_used in settings.items() if is_used]:
        message = f"{path} has unsupported settings: {'; '.join(unsupported)}."
        raise FolderError(message, argument="settings", value=unsupported, path=path)


def _in_id_order(vocabulary: Mapping[str, int], path: Path | str) -> list[str]:
    """Return all tokens in the order of ids; an unused id gets a placeholder that matches no text."""
    by_id: dict[int, str] = {}
    for token, number in vocabulary.items():
        if not isinstance(number, int) or isinstance(number, bool) or number < 0:
            message = f"the vocabulary of {path} has the id {number!r} for {token!r}. An id must be an integer ≥ 0."
            raise FolderError(message, argument=token, value=number, path=path)
        if number in by_id:
            message = f"the vocabulary of {path} has the id {number} for both {by_id[number]!r} and {token!r}."
            raise FolderError(message, argument=token, value=number, path=path)
        by_id[number] = token
    if by_id and max(by_id) >= 2 * len(by_id):
        message = f"the vocabulary of {path} is incomplete: {len(by_id)} tokens have ids up to {max(by_id)}."
        raise FolderError(message, argument="vocabulary", value=max(by_id), path=path)
    return [by_id.get(i, f"<no piece {i}>") for i in range(max(by_id, default=-1) + 1)]


def _own_pieces(spm: Any) -> dict[str, float]:
    """Return the scores of the pieces that a text can be split into, by piece."""
    scores = {piece.piece: float(piece.score) for piece in spm.pieces if piece.type == _NORMAL}
    best = max(scores.values(), default=0.0)
    for piece in spm.pieces:
        if piece.type == _USER_DEFINED:  # scored as in SentencePiece: never worse than a split of the same bytes
            scores[piece.piece] = len(piece.piece.encode("utf-8")) * best - 0.1
    # The format stores float32. More than nine digits would change when tokenizer.json is saved and loaded.
    return {piece: float(f"{score:.9g}") for piece, score in scores.items()}


def _unigram_model(
    spm: Any, tokens: list[str], own: Mapping[str, float], special_tokens: SpecialTokens
) -> models.Model:
    entries = [(token, own.get(token, UNREACHABLE)) for token in tokens]
    unknown = None if special_tokens.unknown is None else tokens.index(special_tokens.unknown)
    return models.Unigram(entries, unknown, bool(spm.trainer_spec.byte_fallback))


def _bpe_model(spm: Any, tokens: list[str], own: Mapping[str, float], special_tokens: SpecialTokens) -> models.Model:
    """Return a BPE model. SentencePiece merges adjacent pieces in the order of the scores of their results."""
    merges = []
    for piece in sorted(own, key=lambda piece: -own[piece]):
        splits = ((piece[:index], piece[index:]) for index in range(1, len(piece)))
        merges += [(left, right) for left, right in splits if left in own and right in own]
    return models.BPE(
        {token: i for i, token in enumerate(tokens)},
        merges,
        unk_token=special_tokens.unknown,
        fuse_unk=True,
        byte_fallback=bool(spm.trainer_spec.byte_fallback),
    )


def _normalizer(spm: Any, known: str | None, foreign: Collection[str]) -> normalizers.Normalizer:
    settings = spm.normalizer_spec
    steps: list[normalizers.Normalizer] = []
    if settings.precompiled_charsmap:
        steps.append(normalizers.Precompiled(settings.precompiled_charsmap))
    if settings.remove_extra_whitespaces:
        steps.append(normalizers.Replace(Regex(_OUTER_SPACES), ""))
        steps.append(normalizers.Replace(Regex(_DOUBLE_SPACES), " "))
    if settings.add_dummy_prefix:
        steps.append(normalizers.Prepend(SPACE_MARK))
    steps.append(normalizers.Replace(" ", SPACE_MARK))
    if known is not None:
        steps.append(normalizers.Replace(Regex(_unlisted_run(known, foreign)), _NOWHERE))
    return normalizers.Sequence(steps)


def _unlisted_run(known: str, foreign: Collection[str]) -> str:
    """The pattern of a foreign run of two or more characters that is not in the vocabulary."""
    listed = "|".join(_escape(piece) for piece in sorted(foreign) if len(piece) > 1)
    unless_listed = f"(?!(?:{listed})(?![^{known}]))" if listed else ""
    # For speed, the short lookahead comes first: the long list is only tried where a run starts.
    return f"(?<![^{known}])(?=[^{known}]{{2}}){unless_listed}[^{known}]{{2,}}"


def _pre_tokenizer(own: Collection[str], known: str | None) -> pre_tokenizers.PreTokenizer:
    steps: list[pre_tokenizers.PreTokenizer] = []
    if known is not None:
        steps.append(pre_tokenizers.Split(Regex(f"[^{known}]+"), behavior="isolated"))
    # If no piece contains an inner space, splitting into words first gives the same result and is faster.
    if SPACE_MARK in own and not any(SPACE_MARK in piece[1:] for piece in own):
        steps.append(pre_tokenizers.Split(SPACE_MARK, behavior="merged_with_next"))
    return pre_tokenizers.Sequence(steps)


def _character_class(characters: Collection[str]) -> str:
    """A regex character class that matches one of `characters`, without the brackets."""
    codes = sorted(map(ord, characters))
    ranges: list[list[int]] = []
    for code in codes:
        if ranges and ranges[-1][1] == code - 1:
            ranges[-1][1] = code
        else:
            ranges.append([code, code])
    return "".join(f"\\x{{{first:X}}}" + (f"-\\x{{{last:X}}}" if last > first else "") for first, last in ranges)


def _escape(text: str) -> str:
    return "".join(f"\\x{{{ord(character):X}}}" for character in text)


# --- Writing ------------------------------------------------------------------------------------------------


def spm_from_tokenizer(tokenizer: Tokenizer, probe: Iterable[str] = ()) -> bytes:
    """The `.spm` that splits text like `tokenizer`, which must be of kind bpe or unigram.

    The result is checked on texts of random tokens, numbers, punctuation, foreign characters and spaces, and on
    `probe`. If SentencePiece splits a text differently, the error shows this text.
    """
    if tokenizer.kind not in _KINDS:
        raise _not_convertible(f"it is a {tokenizer.kind} tokenizer, not bpe or unigram", "kind", tokenizer.kind)
    description = json.loads(tokenizer.to_json())
    spm = proto.ModelProto()
    _write_normalizer(spm, description["normalizer"])
    is_unigram, model = tokenizer.kind == "unigram", description["model"]
    own = (_unigram_scores if is_unigram else _bpe_scores)(tokenizer, model)
    _write_pieces(spm, _UNIGRAM if is_unigram else _BPE, tokenizer, own, byte_fallback=bool(model.get("byte_fallback")))
    data: bytes = spm.SerializeToString()
    _check_ids(data, tokenizer, [*_probe_texts(tokenizer), *probe])
    return data


def spm_ids(
    data: bytes, vocabulary: Mapping[str, int], texts: Sequence[str], *, unknown: int | None
) -> list[list[int]]:
    """Return the ids as in Marian: a language code like >>fr<<, then the pieces of SentencePiece."""
    processor = sentencepiece.SentencePieceProcessor(model_proto=data)
    encoded = []
    for text in texts:
        match = _LANGUAGE_CODE.match(text)
        code = [match[0]] if match and match[0] in vocabulary else []
        pieces = [*code, *processor.encode(text.removeprefix("".join(code)), out_type=str)]
        encoded.append([i for piece in pieces if (i := vocabulary.get(piece, unknown)) is not None])
    return encoded


def _unigram_scores(tokenizer: Tokenizer, model: Mapping[str, Any]) -> dict[str, float]:
    special = set(tokenizer.tokens(tokenizer.special_ids))
    return {piece: score for piece, score in model["vocab"] if score > UNREACHABLE and piece not in special}


def _bpe_scores(tokenizer: Tokenizer, model: Mapping[str, Any]) -> dict[str, float]:
    for setting in ("continuing_subword_prefix", "end_of_word_suffix", "dropout", "ignore_merges"):
        if model.get(setting):
            raise _not_convertible(f"it uses {setting}", setting, model[setting])
    own: dict[str, float] = {}
    for (left, right), rank in tokenizer.merge_ranks.items():
        own.setdefault(left + right, -float(rank))
    singles = [piece for piece in sorted(model["vocab"], key=model["vocab"].__getitem__) if len(piece) == 1]
    for rank, character in enumerate(singles, start=len(tokenizer.merge_ranks)):
        # A single foreign character has an id, but a run of them has none.
        if tokenizer.unknown_id not in tokenizer.encode(character + character):
            own.setdefault(character, -float(rank))
    return own


def _write_pieces(
    spm: Any, model_type: int, tokenizer: Tokenizer, own: Mapping[str, float], *, byte_fallback: bool
) -> None:
    unknown = tokenizer.special_tokens.unknown
    if unknown is None:
        raise _not_convertible("it has no unknown token", "unknown", None)
    spm.pieces.add(piece=unknown, score=0.0, type=_UNKNOWN)
    if byte_fallback:
        if missing := sorted(set(BYTE_TOKENS) - set(tokenizer.vocabulary())):
            raise _not_convertible(f"it lacks byte tokens: {shorten_list(missing)}", "byte_fallback", missing)
        for token in BYTE_TOKENS:
            spm.pieces.add(piece=token, score=0.0, type=_BYTE)
    for piece, score in own.items():
        spm.pieces.add(piece=piece, score=score, type=_NORMAL)
    trainer = spm.trainer_spec
    trainer.model_type, trainer.vocab_size, trainer.byte_fallback = model_type, len(spm.pieces), byte_fallback
    trainer.unk_id, trainer.bos_id, trainer.eos_id, trainer.pad_id = 0, -1, -1, -1
    trainer.unk_piece = unknown


def _write_normalizer(spm: Any, description: Mapping[str, Any] | None) -> None:
    settings = spm.normalizer_spec
    settings.name = "identity"
    settings.add_dummy_prefix = settings.remove_extra_whitespaces = False
    settings.escape_whitespaces = True
    steps = list(_steps(description))
    escaped = False
    for step in steps:
        match step:
            case {"type": "Lowercase"}:
                settings.name, settings.precompiled_charsmap = "user_defined", _lowercase_table()
            case {"type": "Precompiled", "precompiled_charsmap": str(table)}:
                settings.name, settings.precompiled_charsmap = "user_defined", base64.b64decode(table)
            case {"type": "Replace", "pattern": {"Regex": pattern}} if pattern in (_OUTER_SPACES, _DOUBLE_SPACES):
                settings.remove_extra_whitespaces = True
            case {"type": "Prepend", "prepend": prefix} if prefix == SPACE_MARK:
                settings.add_dummy_prefix = True
            case {"type": "Replace", "pattern": {"String": " "}, "content": mark} if mark == SPACE_MARK:
                escaped = True
            case {"type": "Replace", "content": content} if content == _NOWHERE:
                continue
            case _:
                name = step.get("type")
                raise _not_convertible(f"SentencePiece has no normalizer {name}", "normalizer", name)
    if not escaped:
        raise _not_convertible(f"it does not replace spaces with {SPACE_MARK}", "normalizer", None)
    tables = [step["type"] for step in steps if step["type"] in ("Lowercase", "Precompiled")]
    if len(tables) > 1:
        raise _not_convertible("SentencePiece supports one normalization table", "normalizer", tables)


def _not_convertible(reason: str, argument: str, value: object) -> UsageError:
    message = f"cannot convert the tokenizer to a SentencePiece model: {reason}."
    return UsageError(message, argument=argument, value=value, allowed=_KINDS if argument == "kind" else None)


def _steps(description: Mapping[str, Any] | None) -> Iterable[Mapping[str, Any]]:
    if description and description["type"] == "Sequence":
        for part in description["normalizers"]:
            yield from _steps(part)
    elif description:
        yield description


def _lowercase_table() -> bytes:
    """A SentencePiece normalization table that lowercases all letters."""
    letters = (chr(code) for code in itertools.chain(range(0xD800), range(0xE000, 0x110000)))
    rules = [(letter, letter.lower()) for letter in letters if letter.lower() != letter]
    lines = (f"{ord(letter):X}\t{' '.join(f'{ord(c):X}' for c in lower)}\n" for letter, lower in rules)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "lowercase.tsv"
        path.write_text("".join(lines), encoding="utf-8")
        sentencepiece.set_min_log_level(1)  # do not log each table
        normalizer = sentencepiece.SentencePieceNormalizer(rule_tsv=str(path))
    table: bytes = proto.ModelProto.FromString(normalizer.serialized_model_proto()).normalizer_spec.precompiled_charsmap
    return table


def _probe_texts(tokenizer: Tokenizer) -> list[str]:
    """Texts that show differences between two tokenizers: random sequences of tokens and other hard cases."""
    rng = random.Random(0)
    special = tokenizer.special_ids
    tokens = [token for i, token in enumerate(tokenizer.vocabulary()) if i not in special and token not in BYTE_TOKENS]
    tokens = [token for token in tokens if not _LANGUAGE_CODE.fullmatch(token)]
    tokens = rng.sample(tokens, min(len(tokens), _NUM_PROBED))
    # Leave out foreign characters: a BPE model has ids for single ones, but not for runs.
    doubled = tokenizer.encode_batch([(token + token).replace(SPACE_MARK, " ") for token in tokens])
    tokens = [token for token, ids in zip(tokens, doubled, strict=True) if tokenizer.unknown_id not in ids] or ["a"]
    texts = ["", " ", "  a  b ", "2,024 1234567", "¡漢字 ß漢! ½ ﬁ œ", "a\tb\nc", "…--?!", "👩‍🚀 ok", "é e\u0301"]
    for length in (1, 2, 3, 5, 8) * 60:
        chosen = rng.choices(tokens, k=length)
        texts.append("".join(chosen).replace(SPACE_MARK, " "))
    # Long numbers show rules of the pre-tokenizer, such as "at most three digits".
    numbers = [token.lstrip(SPACE_MARK) for token in tokens if token.lstrip(SPACE_MARK).isdigit()] + ["0", "1", "7"]
    texts += ["".join(rng.choices(numbers, k=length)) for length in (2, 3, 4, 6) * 60]
    return texts


def _check_ids(data: bytes, tokenizer: Tokenizer, texts: list[str]) -> None:
    vocabulary = {token: i for i, token in enumerate(tokenizer.vocabulary())}
    theirs = spm_ids(data, vocabulary, texts, unknown=tokenizer.unknown_id)
    for text, ours, given in zip(texts, tokenizer.encode_batch(texts), theirs, strict=True):
        # If two splits contain the same pieces (22 2, 2 22), a unigram model may choose either because of rounding.
        is_tie = tokenizer.kind == "unigram" and sorted(ours) == sorted(given)
        if ours != given and not is_tie:
            change = f"{text!r} would become {tokenizer.tokens(given)} instead of {tokenizer.tokens(ours)}"
            raise _not_convertible(change, "text", text)
