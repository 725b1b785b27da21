"""Sentencepiece models (`.spm`) ↔ `Tokenizer`, with the ids of a vocabulary that lies beside them.

A Marian folder has one `.spm` for each side and one map from pieces to ids for both. The `.spm` decides how a text is
cut; its own ids mean nothing. Program and file cut like this:

1. the text is normalized (a table inside the file, then white space), spaces become "▁";
2. it is cut into the pieces of the `.spm`; characters that the `.spm` has no piece for stay as they are, and neighbors
   among them are taken together;
3. each piece, and each such run of foreign characters, is looked up in the map; what is not there is unknown.

A `tokenizers` model is made here that gives the same ids. Its vocabulary is the whole map, in the order of ids, since
it must be able to write every id. A piece of the map that is not a piece of this `.spm` gets the score `OUT_OF_REACH`:
every cut into real pieces is better, so it can only be chosen for a stretch of foreign characters, which is what step 3
looks up. Two additions make that exact: runs of foreign characters are words of their own, so that no piece of the
other side reaches across their border; and a run that is not in the map as a whole becomes one unknown character, so
that it is not put together from single ones.

Not the same: a piece of the `.spm` that the map lacks cannot be used here and its text is cut otherwise (there it is
unknown); a foreign run of several characters is always unknown to a BPE model; a code like >>fr<< is recognized
anywhere, not only at the beginning; where the table replaces a character that carries a further combining mark (the
second mark of decomposed Vietnamese), the `tokenizers` library drops that mark, so such text should be composed first;
and of two cuts into the same pieces (222 as 22 2 or 2 22) a unigram model takes either, since sums are rounded
otherwise. Special tokens such as "</s>" typed into a text are ordinary characters here.
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

proto: Any = sentencepiece_model_pb2  # its classes are made when it is imported, so no type checker sees them

OUT_OF_REACH = -1e6  # the score of a piece that must not be preferred to anything

_NORMAL, _UNKNOWN, _USER_DEFINED, _BYTE = 1, 2, 4, 6  # kinds of pieces, as the format numbers them
_UNIGRAM, _BPE = 1, 2  # kinds of models, as the format numbers them
_MODEL_NAMES = {3: "word", 4: "char"}

_NOWHERE = "\uffff"  # stands for a run of foreign characters; no text and no vocabulary has it
_OUTER_SPACES = r"\A +| +\z"
_DOUBLE_SPACES = " {2,}"
_OUTER_WHITE_SPACE = r"\A\s+|\s+\z"
_LANGUAGE_CODE = re.compile(r">>.+?<<")
_TRIED_PIECES = 5000  # of a large vocabulary, enough to find a difference


# --- Reading ------------------------------------------------------------------------------------------------


def tokenizer_from_spm(
    data: bytes, vocabulary: Mapping[str, int], *, special_tokens: SpecialTokens, name: str
) -> Tokenizer:
    """The tokenizer that cuts like the `.spm` in `data` and has the ids of `vocabulary`.

    `name` is how errors call the file. Codes like >>fr<< in the vocabulary become tokens of their own, which may be
    typed in front of a text.
    """
    spm = _parse(data, name)
    _refuse_unsupported(spm, name)
    tokens = _in_id_order(vocabulary, name)
    named = (special_tokens.unknown, special_tokens.end, special_tokens.pad, special_tokens.start)
    special = list(dict.fromkeys(symbol for symbol in named if symbol is not None))
    if missing := [symbol for symbol in special if symbol not in vocabulary]:
        raise FolderError(f"the vocabulary beside {name} lacks the symbol {missing[0]!r}, which its model needs.")
    codes = [token for token in tokens if _LANGUAGE_CODE.fullmatch(token)]
    own = {piece: score for piece, score in _own_pieces(spm).items() if piece in vocabulary}
    if not own:
        raise FolderError(f"no piece of {name} is in the vocabulary beside it: they are not of the same model.")
    known = {character for piece in own for character in piece} | {SPACE_MARK}
    foreign = [token for token in tokens if token not in own and known.isdisjoint(token)]
    foreign = [token for token in foreign if token not in special and token not in codes]
    if foreign and spm.trainer_spec.byte_fallback:
        raise FolderError(
            f"{name} writes unknown characters in bytes, but the vocabulary beside it has {len(foreign)} pieces of "
            f"such characters ({shorten_list(foreign)}): give each side a vocabulary of its own."
        )
    unigram = spm.trainer_spec.model_type == _UNIGRAM
    backend = tokenizers.Tokenizer((_unigram_model if unigram else _bpe_model)(spm, tokens, own, special_tokens))
    known_set = _character_class(known) if foreign else None
    backend.normalizer = _normalizer(spm, known_set, foreign if unigram else [])
    backend.pre_tokenizer = _pre_tokenizer(own, known_set)
    in_bytes = [decoders.ByteFallback()] if spm.trainer_spec.byte_fallback else []
    outer = decoders.Replace(Regex(_OUTER_WHITE_SPACE), "")
    backend.decoder = decoders.Sequence([decoders.Replace(SPACE_MARK, " "), *in_bytes, decoders.Fuse(), outer])
    add_special_tokens(backend, special)
    backend.add_tokens([AddedToken(code, special=False, normalized=False) for code in codes])
    return Tokenizer(backend, special_tokens)


def _parse(data: bytes, name: str) -> Any:
    try:
        spm = proto.ModelProto.FromString(data)
        if not spm.pieces:
            raise ValueError("it has no pieces")
        sentencepiece.SentencePieceProcessor(model_proto=data)  # checks what the format itself does not
    except (DecodeError, RuntimeError, ValueError) as problem:
        message = f"{name} is damaged or not a sentencepiece model ({problem}). Copy or download it again."
        raise FolderError(message) from problem
    return spm


def _refuse_unsupported(spm: Any, name: str) -> None:
    trainer = spm.trainer_spec
    model_type = _MODEL_NAMES.get(trainer.model_type, trainer.model_type)
    user_defined = [piece.piece for piece in spm.pieces if piece.type == _USER_DEFINED]
    settings = {
        f"model_type {model_type}": trainer.model_type not in (_UNIGRAM, _BPE),
        "treat_whitespace_as_suffix": trainer.treat_whitespace_as_suffix,
        "escape_whitespaces false": not spm.normalizer_spec.escape_whitespaces,
        "a denormalizer": spm.denormalizer_spec.precompiled_charsmap,
        f"user-defined symbols in a BPE model ({shorten_list(user_defined)})": (
            user_defined and trainer.model_type == _BPE
        ),
    }
    if found := [setting for setting, is_used in settings.items() if is_used]:
        raise FolderError(f"{name} has settings that regard cannot follow: {'; '.join(found)}.")


def _in_id_order(vocabulary: Mapping[str, int], name: str) -> list[str]:
    """Every token in the order of ids; ids that the vocabulary skips get a name that no text spells."""
    by_id: dict[int, str] = {}
    for token, number in vocabulary.items():
        if not isinstance(number, int) or isinstance(number, bool) or number < 0:
            raise FolderError(f"the vocabulary beside {name} gives {token!r} the id {number!r}; ids are 0, 1, 2 …")
        if number in by_id:
            raise FolderError(f"the vocabulary beside {name} gives {by_id[number]!r} and {token!r} the same id.")
        by_id[number] = token
    if by_id and max(by_id) >= 2 * len(by_id):
        found = f"{len(by_id)} pieces with ids up to {max(by_id)}"
        raise FolderError(f"the vocabulary beside {name} has {found}: most are missing.")
    return [by_id.get(i, f"<no piece {i}>") for i in range(max(by_id, default=-1) + 1)]


def _own_pieces(spm: Any) -> dict[str, float]:
    """The pieces that a text can be cut into, with their scores."""
    scores = {piece.piece: float(piece.score) for piece in spm.pieces if piece.type == _NORMAL}
    best = max(scores.values(), default=0.0)
    for piece in spm.pieces:
        if piece.type == _USER_DEFINED:  # sentencepiece's own rule: never worse than a cut of the same bytes
            scores[piece.piece] = len(piece.piece.encode("utf-8")) * best - 0.1
    # Nine digits are all that the format's numbers hold; with more, tokenizer.json would not come back the same.
    return {piece: float(f"{score:.9g}") for piece, score in scores.items()}


def _unigram_model(
    spm: Any, tokens: list[str], own: Mapping[str, float], special_tokens: SpecialTokens
) -> models.Model:
    entries = [(token, own.get(token, OUT_OF_REACH)) for token in tokens]
    unknown = None if special_tokens.unknown is None else tokens.index(special_tokens.unknown)
    return models.Unigram(entries, unknown, bool(spm.trainer_spec.byte_fallback))


def _bpe_model(spm: Any, tokens: list[str], own: Mapping[str, float], special_tokens: SpecialTokens) -> models.Model:
    """Sentencepiece joins any two neighbors whose union is a piece, the union with the best score first."""
    merges = []
    for piece in sorted(own, key=lambda piece: -own[piece]):
        cuts = ((piece[:place], piece[place:]) for place in range(1, len(piece)))
        merges += [(left, right) for left, right in cuts if left in own and right in own]
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
    """The pattern of two or more foreign characters that are not, as a whole, in the vocabulary."""
    listed = "|".join(_spelt(piece) for piece in sorted(foreign) if len(piece) > 1)
    unless_listed = f"(?!(?:{listed})(?![^{known}]))" if listed else ""
    # The short look ahead comes first: the long list is only gone through where there is such a run.
    return f"(?<![^{known}])(?=[^{known}]{{2}}){unless_listed}[^{known}]{{2,}}"


def _pre_tokenizer(own: Collection[str], known: str | None) -> pre_tokenizers.PreTokenizer:
    steps: list[pre_tokenizers.PreTokenizer] = []
    if known is not None:
        steps.append(pre_tokenizers.Split(Regex(f"[^{known}]+"), behavior="isolated"))
    # Where no piece holds a space inside, words can be cut one by one, which is the same and quicker.
    if SPACE_MARK in own and not any(SPACE_MARK in piece[1:] for piece in own):
        steps.append(pre_tokenizers.Split(SPACE_MARK, behavior="merged_with_next"))
    return pre_tokenizers.Sequence(steps)


def _character_class(characters: Collection[str]) -> str:
    """What stands between the brackets of a pattern that matches one of `characters`."""
    codes = sorted(map(ord, characters))
    ranges: list[list[int]] = []
    for code in codes:
        if ranges and ranges[-1][1] == code - 1:
            ranges[-1][1] = code
        else:
            ranges.append([code, code])
    return "".join(f"\\x{{{first:X}}}" + (f"-\\x{{{last:X}}}" if last > first else "") for first, last in ranges)


def _spelt(text: str) -> str:
    return "".join(f"\\x{{{ord(character):X}}}" for character in text)


# --- Writing ------------------------------------------------------------------------------------------------


def spm_from_tokenizer(tokenizer: Tokenizer, probe: Iterable[str] = ()) -> bytes:
    """The `.spm` that cuts as `tokenizer` does, for the kinds bpe and unigram.

    It is tried before it is returned: on texts made of the tokenizer's own pieces, on numbers, marks, foreign
    characters and spaces, and on `probe`. A tokenizer that sentencepiece cannot express is refused with the text that
    shows it.
    """
    description = json.loads(tokenizer.to_json())
    spm = proto.ModelProto()
    _write_normalizer(spm, description["normalizer"], tokenizer.kind)
    if tokenizer.kind not in ("bpe", "unigram"):
        message = f"a {tokenizer.kind} tokenizer cannot be written as a sentencepiece model; bpe and unigram ones can."
        raise UsageError(message)
    is_unigram, model = tokenizer.kind == "unigram", description["model"]
    own = (_unigram_scores if is_unigram else _bpe_scores)(tokenizer, model)
    _write_pieces(spm, _UNIGRAM if is_unigram else _BPE, tokenizer, own, in_bytes=bool(model.get("byte_fallback")))
    data: bytes = spm.SerializeToString()
    _try_out(data, tokenizer, [*_own_probe(tokenizer), *probe])
    return data


def spm_ids(
    data: bytes, vocabulary: Mapping[str, int], texts: Sequence[str], *, unknown: int | None
) -> list[list[int]]:
    """The ids that a Marian folder gives: those of a code like >>fr<<, then of sentencepiece's pieces."""
    processor = sentencepiece.SentencePieceProcessor(model_proto=data)
    found = []
    for text in texts:
        match = _LANGUAGE_CODE.match(text)
        code = [match[0]] if match and match[0] in vocabulary else []
        pieces = [*code, *processor.encode(text.removeprefix("".join(code)), out_type=str)]
        found.append([i for piece in pieces if (i := vocabulary.get(piece, unknown)) is not None])
    return found


def _unigram_scores(tokenizer: Tokenizer, model: Mapping[str, Any]) -> dict[str, float]:
    special = set(tokenizer.tokens(tokenizer.special_ids))
    return {piece: score for piece, score in model["vocab"] if score > OUT_OF_REACH and piece not in special}


def _bpe_scores(tokenizer: Tokenizer, model: Mapping[str, Any]) -> dict[str, float]:
    for setting in ("continuing_subword_prefix", "end_of_word_suffix", "dropout", "ignore_merges"):
        if model.get(setting):
            raise UsageError(f"a bpe tokenizer with {setting} cannot be written as a sentencepiece model.")
    own: dict[str, float] = {}
    for (left, right), rank in tokenizer.merge_ranks.items():
        own.setdefault(left + right, -float(rank))
    singles = [piece for piece in sorted(model["vocab"], key=model["vocab"].__getitem__) if len(piece) == 1]
    for rank, character in enumerate(singles, start=len(tokenizer.merge_ranks)):
        # A character of the other side's vocabulary is known alone and unknown in a run.
        if tokenizer.unknown_id not in tokenizer.encode(character + character):
            own.setdefault(character, -float(rank))
    return own


def _write_pieces(spm: Any, model_type: int, tokenizer: Tokenizer, own: Mapping[str, float], *, in_bytes: bool) -> None:
    unknown = tokenizer.special_tokens.unknown
    if unknown is None:
        raise UsageError("a tokenizer without an unknown token cannot be written as a sentencepiece model.")
    spm.pieces.add(piece=unknown, score=0.0, type=_UNKNOWN)
    if in_bytes:
        if lacking := sorted(set(BYTE_TOKENS) - set(tokenizer.vocabulary())):
            missing = shorten_list(lacking)
            raise UsageError(f"a sentencepiece model with bytes needs all 256 of them; missing: {missing}.")
        for token in BYTE_TOKENS:
            spm.pieces.add(piece=token, score=0.0, type=_BYTE)
    for piece, score in own.items():
        spm.pieces.add(piece=piece, score=score, type=_NORMAL)
    trainer = spm.trainer_spec
    trainer.model_type, trainer.vocab_size, trainer.byte_fallback = model_type, len(spm.pieces), in_bytes
    trainer.unk_id, trainer.bos_id, trainer.eos_id, trainer.pad_id = 0, -1, -1, -1
    trainer.unk_piece = unknown


def _write_normalizer(spm: Any, description: Mapping[str, Any] | None, kind: str) -> None:
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
                what = f"the normalization {step.get('type')} of this {kind} tokenizer"
                raise UsageError(f"{what} cannot be written as a sentencepiece model.")
    if not escaped:
        fault = f"this {kind} tokenizer does not write spaces as {SPACE_MARK}"
        raise UsageError(f"{fault}, so it cannot be written as a sentencepiece model.")
    if sum(step["type"] in ("Lowercase", "Precompiled") for step in steps) > 1:
        raise UsageError("two normalization tables cannot be written as one sentencepiece model.")


def _steps(description: Mapping[str, Any] | None) -> Iterable[Mapping[str, Any]]:
    if description and description["type"] == "Sequence":
        for part in description["normalizers"]:
            yield from _steps(part)
    elif description:
        yield description


def _lowercase_table() -> bytes:
    """Sentencepiece's table of every letter that has a small form."""
    letters = (chr(code) for code in itertools.chain(range(0xD800), range(0xE000, 0x110000)))
    rules = [(letter, letter.lower()) for letter in letters if letter.lower() != letter]
    lines = (f"{ord(letter):X}\t{' '.join(f'{ord(c):X}' for c in small)}\n" for letter, small in rules)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "lowercase.tsv"
        path.write_text("".join(lines), encoding="utf-8")
        sentencepiece.set_min_log_level(1)  # it would tell of every table it makes
        normalizer = sentencepiece.SentencePieceNormalizer(rule_tsv=str(path))
    table: bytes = proto.ModelProto.FromString(normalizer.serialized_model_proto()).normalizer_spec.precompiled_charsmap
    return table


def _own_probe(tokenizer: Tokenizer) -> list[str]:
    """Texts that find out where two ways of cutting differ: the tokenizer's own pieces in a random order."""
    rng = random.Random(0)
    special = tokenizer.special_ids
    tokens = [token for i, token in enumerate(tokenizer.vocabulary()) if i not in special and token not in BYTE_TOKENS]
    tokens = [token for token in tokens if not _LANGUAGE_CODE.fullmatch(token)]
    tokens = rng.sample(tokens, min(len(tokens), _TRIED_PIECES))
    # Characters of the other side are unknown in a row; of them, a BPE model knows single ones only.
    doubled = tokenizer.encode_batch([(token + token).replace(SPACE_MARK, " ") for token in tokens])
    tokens = [token for token, ids in zip(tokens, doubled, strict=True) if tokenizer.unknown_id not in ids] or ["a"]
    texts = ["", " ", "  a  b ", "2,024 1234567", "¡漢字 ß漢! ½ ﬁ œ", "a\tb\nc", "…--?!", "👩‍🚀 ok", "é e\u0301"]
    for length in (1, 2, 3, 5, 8) * 60:
        chosen = rng.choices(tokens, k=length)
        texts.append("".join(chosen).replace(SPACE_MARK, " "))
    # Long numbers are where rules that stand outside the vocabulary ("three digits at most") show.
    numbers = [token.lstrip(SPACE_MARK) for token in tokens if token.lstrip(SPACE_MARK).isdigit()] + ["0", "1", "7"]
    texts += ["".join(rng.choices(numbers, k=length)) for length in (2, 3, 4, 6) * 60]
    return texts


def _try_out(data: bytes, tokenizer: Tokenizer, texts: list[str]) -> None:
    vocabulary = {token: i for i, token in enumerate(tokenizer.vocabulary())}
    theirs = spm_ids(data, vocabulary, texts, unknown=tokenizer.unknown_id)
    for text, ours, given in zip(texts, tokenizer.encode_batch(texts), theirs, strict=True):
        # Of two cuts into the same pieces (22 2, 2 22) a unigram model takes either: rounding decides.
        is_tie = tokenizer.kind == "unigram" and sorted(ours) == sorted(given)
        if ours != given and not is_tie:
            raise UsageError(
                f"this {tokenizer.kind} tokenizer cannot be written as a sentencepiece model: {text!r} would be cut "
                f"into {tokenizer.tokens(given)} instead of {tokenizer.tokens(ours)}."
            )
