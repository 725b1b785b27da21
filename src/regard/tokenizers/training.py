"""Train tokenizers of five kinds with one function, `train_tokenizer`.

Training is deterministic: the same texts give the same file.
"""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import tokenizers
from tokenizers import Regex, decoders, models, normalizers, pre_tokenizers, trainers

from regard.tokenizers.tokenizer import (
    BYTE_TOKENS,
    CHARACTER_PATTERN,
    SPACE_MARK,
    SpecialTokens,
    Tokenizer,
    add_special_tokens,
)
from regard.utils.errors import DataError, UsageError, unknown

WORD = r"\w+(?:['’\-]\w+)*"  # apostrophes and hyphens inside a word belong to it
_WORD_OR_MARK = WORD + r"|[^\w\s]"
# A word with the space before it. Letters, digits and punctuation never share a token, and each digit is separate.
_BPE_WORD = r"▁?(?:[\p{L}\p{M}]+|\p{N}|[^\p{L}\p{M}\p{N}\s▁]+)|\s|▁"
_NO_SPACE_BEFORE = r" (?=[.,!?;:…)\]}%])"
_NO_SPACE_AFTER = r"(?<=[(\[{]) "
# WordPiece also splits at apostrophes and hyphens: decoding turns "don ' t" into "don't".
_BEFORE_INNER_MARK = r"(?<=\w) (?=['’\-] \w)"
_AFTER_INNER_MARK = r"(?<=\w['’\-]) (?=\w)"


@dataclass(frozen=True)
class _Request:
    vocab_size: int
    special: list[str]  # the names of the special tokens
    min_frequency: int
    lowercase: bool

    @property
    def unknown(self) -> str:
        return self.special[1]

    @property
    def trainer_options(self) -> dict[str, Any]:
        options = {"vocab_size": self.vocab_size, "min_frequency": self.min_frequency, "show_progress": False}
        return {**options, "special_tokens": self.special}


def train_tokenizer(
    texts: Iterable[str],
    *,
    kind: str = "bpe",
    vocab_size: int = 8000,
    special_tokens: SpecialTokens | None = None,
    min_frequency: int | None = None,
    lowercase: bool = False,
) -> Tokenizer:
    """Train a tokenizer with at most `vocab_size` tokens on `texts`.

    - char: each character is a token. Decoding restores the text.
    - word: each word and each punctuation mark is a token: "Hello world!" is Hello, world, !. Decoding inserts spaces
      by rules.
    - bpe: subwords in which "▁" is a space, with byte fallback, so that no text is unknown. Decoding restores the
      text, except that a "▁" becomes a space.
    - byte-bpe: merges of bytes, as in GPT-2. Decoding restores any text.
    - wordpiece: as in BERT. The tokens of a word after the first start with ##.

    The ids of the special tokens are pad 0, unknown 1, start 2, end 3, and mask 4 if a mask token is given.
    `min_frequency` is the minimum count of a character (char, default 1), of a word (word, default 1) or of a pair to
    merge (the other kinds, default 2).
    """
    special_tokens = special_tokens or SpecialTokens()
    if kind not in _TRAINERS:
        raise unknown("kind", kind, _TRAINERS)
    if min_frequency is None:
        min_frequency = 1 if kind in ("char", "word") else 2
    if min_frequency < 1:
        message = f"min_frequency must be at least 1, got {min_frequency}."
        raise UsageError(message, argument="min_frequency", value=min_frequency)
    special = _special_names(special_tokens)
    if vocab_size <= len(special):
        message = f"vocab_size must be at least {len(special) + 1} ({len(special)} special tokens), got {vocab_size}."
        raise UsageError(message, argument="vocab_size", value=vocab_size, hint=str(len(special) + 1))
    require_list(texts)
    backend = _TRAINERS[kind](_not_blank(texts), _Request(vocab_size, special, min_frequency, lowercase))
    add_special_tokens(backend, special)
    needed = backend.get_vocab_size()
    if needed > vocab_size:
        smallest = len(special) + len(BYTE_TOKENS)
        other = f" Kind byte-bpe needs {smallest}." if needed > smallest else ""
        reason = "the characters of the texts and the special tokens"
        message = f"vocab_size must be at least {needed} ({reason}), got {vocab_size}.{other}"
        raise UsageError(message, argument="vocab_size", value=vocab_size, hint=str(needed))
    return Tokenizer(backend, special_tokens)


def require_list(texts: Iterable[str]) -> None:
    if isinstance(texts, str):
        raise UsageError("texts must be a list of texts, got one str. Use [text].", argument="texts", value=texts)


def _special_names(special_tokens: SpecialTokens) -> list[str]:
    names: list[str] = []
    for role, name in dataclasses.asdict(special_tokens).items():
        if role == "other_ends" or (name is None and role == "mask"):
            continue
        if name is None:
            message = f"the {role} token is None, but training needs one. Set SpecialTokens({role}=...)."
            raise UsageError(message, argument=role)
        # If a text contains such a name, the pre-tokenizers split it, so it never becomes the special token.
        is_split = len(name) > 1 and not name[0].isalnum() and any(letter.isalpha() for letter in name)
        if not is_split or any(letter.isspace() for letter in name) or SPACE_MARK in name:
            rule = "must start with punctuation and contain a letter and no space, like <pad> or [PAD]"
            raise UsageError(f"the {role} token {rule}; got {name!r}.", argument=role, value=name)
        if name in names:
            message = f"the {role} token {name!r} also has another role. Give each role its own token."
            raise UsageError(message, argument=role, value=name)
        names.append(name)
    return names


def _not_blank(texts: Iterable[str]) -> Iterator[str]:
    """Yield the texts that are not blank; raise an error if all are blank, or if a text is not a str."""
    empty = True
    for number, text in enumerate(texts):
        name = f"texts[{number}]"
        if not isinstance(text, str):
            raise UsageError(f"{name} must be a str, got {type(text).__name__}.", argument=name, value=text)
        if text and not text.isspace():
            empty = False
            yield text
    if empty:
        raise DataError("cannot train a tokenizer: all texts are empty. Give other texts.", argument="texts")


def _train_char(texts: Iterator[str], request: _Request) -> tokenizers.Tokenizer:
    normalizer = normalizers.Lowercase() if request.lowercase else None
    counts: Counter[str] = Counter()
    for text in texts:
        counts.update(normalizer.normalize_str(text) if normalizer else text)
    characters = sorted(c for c, count in counts.items() if count >= request.min_frequency)
    vocabulary = {token: i for i, token in enumerate([*request.special, *characters])}
    backend = tokenizers.Tokenizer(models.WordLevel(vocabulary, unk_token=request.unknown))
    if normalizer:
        backend.normalizer = normalizer
    backend.pre_tokenizer = pre_tokenizers.Split(Regex(CHARACTER_PATTERN), behavior="isolated")
    backend.decoder = decoders.Fuse()
    return backend


def _train_word(texts: Iterator[str], request: _Request) -> tokenizers.Tokenizer:
    backend = tokenizers.Tokenizer(models.WordLevel(unk_token=request.unknown))
    if request.lowercase:
        backend.normalizer = normalizers.Lowercase()
    backend.pre_tokenizer = pre_tokenizers.Split(Regex(_WORD_OR_MARK), behavior="removed", invert=True)
    backend.decoder = decoders.Sequence(_join_words("\0"))
    backend.train_from_iterator(texts, trainers.WordLevelTrainer(**request.trainer_options))
    return backend


def _train_bpe(texts: Iterator[str], request: _Request) -> tokenizers.Tokenizer:
    # "▁" is prepended to the whole text, so a leading space is kept. Two spaces never merge.
    spaces_to_marks = [normalizers.Prepend(SPACE_MARK), normalizers.Replace(" ", SPACE_MARK)]
    lowercase = [normalizers.Lowercase()] if request.lowercase else []
    scratch = tokenizers.Tokenizer(models.BPE(unk_token=request.unknown))
    scratch.normalizer = normalizers.Sequence([*lowercase, *spaces_to_marks])
    scratch.pre_tokenizer = pre_tokenizers.Split(Regex(_BPE_WORD), behavior="isolated")
    merging = dataclasses.replace(request, vocab_size=max(0, request.vocab_size - len(BYTE_TOKENS)))
    trainer = trainers.BpeTrainer(**merging.trainer_options, initial_alphabet=[SPACE_MARK])
    scratch.train_from_iterator(texts, trainer)
    # The trainer has no byte tokens, so they are inserted between the special tokens and the learned tokens.
    learned = [token for token in _in_id_order(scratch) if token not in request.special]
    vocabulary = {token: i for i, token in enumerate([*request.special, *BYTE_TOKENS, *learned])}
    merges = [tuple(pair) for pair in json.loads(scratch.to_str())["model"]["merges"]]
    backend = tokenizers.Tokenizer(
        models.BPE(vocabulary, merges, unk_token=request.unknown, fuse_unk=True, byte_fallback=True)
    )
    backend.normalizer = scratch.normalizer
    backend.pre_tokenizer = scratch.pre_tokenizer
    spaces, first_space = decoders.Replace(SPACE_MARK, " "), decoders.Strip(content=" ", left=1, right=0)
    backend.decoder = decoders.Sequence([spaces, decoders.ByteFallback(), decoders.Fuse(), first_space])
    return backend


def _train_byte_bpe(texts: Iterator[str], request: _Request) -> tokenizers.Tokenizer:
    backend = tokenizers.Tokenizer(models.BPE())
    if request.lowercase:
        backend.normalizer = normalizers.Lowercase()
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    backend.train_from_iterator(texts, trainers.BpeTrainer(**request.trainer_options, initial_alphabet=alphabet))
    return backend


def _train_wordpiece(texts: Iterator[str], request: _Request) -> tokenizers.Tokenizer:
    texts_list = list(texts)
    # The trainer assigns the ids of ## characters in hash-table order, which differs between runs and decides ties. A
    # first pass without merges finds these characters; the second pass gets them in a fixed order.
    alphabet = _wordpiece_vocabulary(texts_list, dataclasses.replace(request, vocab_size=0))
    fixed = sorted(token for token in alphabet if token.startswith("##") and len(token) == 3)
    learned = _wordpiece_vocabulary(texts_list, dataclasses.replace(request, special=[*request.special, *fixed]))
    vocabulary = {token: i for i, token in enumerate(learned)}
    backend = tokenizers.Tokenizer(models.WordPiece(vocabulary, unk_token=request.unknown))
    _split_like_bert(backend, request)
    inner_marks = [decoders.Replace(Regex(pattern), "") for pattern in (_BEFORE_INNER_MARK, _AFTER_INNER_MARK)]
    backend.decoder = decoders.Sequence([*_join_words("##"), *inner_marks])
    return backend


def _wordpiece_vocabulary(texts: list[str], request: _Request) -> list[str]:
    scratch = tokenizers.Tokenizer(models.WordPiece(unk_token=request.unknown))
    _split_like_bert(scratch, request)
    scratch.train_from_iterator(texts, trainers.WordPieceTrainer(**request.trainer_options))
    return _in_id_order(scratch)


def _split_like_bert(backend: tokenizers.Tokenizer, request: _Request) -> None:
    # Keep accents: in French and German they distinguish words.
    backend.normalizer = normalizers.BertNormalizer(lowercase=request.lowercase, strip_accents=False)
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()


def _join_words(continuing: str) -> list[decoders.Decoder]:
    """Return decoders that put a space between words, except before closing and after opening punctuation."""
    return [
        decoders.WordPiece(prefix=continuing, cleanup=False),
        decoders.Fuse(),
        decoders.Replace(Regex(_NO_SPACE_BEFORE), ""),
        decoders.Replace(Regex(_NO_SPACE_AFTER), ""),
    ]


def _in_id_order(backend: tokenizers.Tokenizer) -> list[str]:
    vocabulary: dict[str, int] = backend.get_vocab()
    return sorted(vocabulary, key=vocabulary.__getitem__)


_TRAINERS: dict[str, Callable[[Iterator[str], _Request], tokenizers.Tokenizer]] = {
    "char": _train_char,
    "word": _train_word,
    "bpe": _train_bpe,
    "byte-bpe": _train_byte_bpe,
    "wordpiece": _train_wordpiece,
}
KINDS = tuple(_TRAINERS)
