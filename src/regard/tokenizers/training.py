"""Training tokenizers: which tokens a vocabulary should have, learned from text.

Five kinds behind one function. Everything is deterministic: the same texts give the same file. `frequency_table` shows
what was learned: rare words are cut into more tokens.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import tokenizers
from tokenizers import AddedToken, Regex, decoders, models, normalizers, pre_tokenizers, trainers

from regard.tokenizers.tokenizer import BYTE_TOKENS, CHARACTER_PATTERN, SPACE_MARK, SpecialTokens, Tokenizer
from regard.utils.errors import DataError, UsageError, unknown

# A word keeps its inner apostrophes and hyphens; every other mark is a token of its own.
_WORD = r"\w+(?:['’\-]\w+)*"
_WORD_PATTERN = _WORD + r"|[^\w\s]"
# A word with the space before it; letters, numbers (a digit at a time) and marks never share a token.
_PIECE_PATTERN = r"▁?(?:[\p{L}\p{M}]+|\p{N}|[^\p{L}\p{M}\p{N}\s▁]+)|\s|▁"
_NO_SPACE_BEFORE = r" (?=[.,!?;:…)\]}%])"
_NO_SPACE_AFTER = r"(?<=[(\[{]) "
# WordPiece cuts at apostrophes and hyphens too: "don ' t" is "don't" again.
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
    """Learn a vocabulary of at most `vocab_size` tokens from `texts`.

    - char: every character is a token; decoding gives the text back.
    - word: words and marks, "Hello world!" is Hello, world, !; decoding puts spaces where they usually stand.
    - bpe: subwords in which "▁" is a space; what has no token is written in bytes, so that nothing is
      unknown. Decoding gives the text back (only a typed "▁" becomes a space).
    - byte-bpe: as GPT-2 does it, merges of bytes; decoding gives any text back.
    - wordpiece: as BERT does it, tokens after the first of a word carry ##.

    The ids of the special tokens are pad 0, unknown 1, start 2, end 3, and mask 4 if there is one. `min_frequency` is
    how often a word must occur (word), a character must occur (char) or a pair must occur to be merged (the others);
    without it, 1 for char and word, 2 for the others.
    """
    special_tokens = special_tokens or SpecialTokens()
    if kind not in _TRAINERS:
        raise unknown("kind of tokenizer", kind, _TRAINERS)
    if min_frequency is None:
        min_frequency = 1 if kind in ("char", "word") else 2
    if min_frequency < 1:
        raise UsageError(f"min_frequency is {min_frequency}; it must be 1 or more.")
    special = _special_names(special_tokens)
    if vocab_size <= len(special):
        needed = f"{len(special)} special tokens and at least one token need {len(special) + 1} or more"
        raise UsageError(f"vocab_size is {vocab_size}; {needed}.")
    if isinstance(texts, str):
        raise UsageError("texts must be a list of texts, got one str; put it into a list.")
    backend = _TRAINERS[kind](_not_blank(texts), _Request(vocab_size, special, min_frequency, lowercase))
    backend.add_special_tokens([AddedToken(name, special=True, normalized=False) for name in special])
    found = backend.get_vocab_size()
    if found > vocab_size:
        smallest = len(special) + len(BYTE_TOKENS)
        other = f", or kind 'byte-bpe', which needs {smallest}" if found > smallest else ""
        needed = f"the single characters of these texts and the special tokens need {found}"
        raise UsageError(f"vocab_size is {vocab_size}, but {needed}: choose {found} or more{other}.")
    return Tokenizer(backend, special_tokens)


def _special_names(special_tokens: SpecialTokens) -> list[str]:
    names: list[str] = []
    for role, name in dataclasses.asdict(special_tokens).items():
        if role == "other_ends" or (name is None and role == "mask"):
            continue
        if name is None:
            raise UsageError(f"the {role} token is None; a tokenizer that is trained needs one.")
        # Such a name is cut apart wherever it occurs in text, so that no text can spell a symbol.
        shaped = len(name) > 1 and not name[0].isalnum() and any(letter.isalpha() for letter in name)
        if not shaped or any(letter.isspace() for letter in name) or SPACE_MARK in name:
            rule = "it must begin with a mark, hold a letter and no space, as <pad> or [PAD] does"
            raise UsageError(f"the {role} token is {name!r}; {rule}.")
        if name in names:
            raise UsageError(f"the {role} token {name!r} is used for two purposes; give each its own.")
        names.append(name)
    return names


def _not_blank(texts: Iterable[str]) -> Iterator[str]:
    """The texts that are not blank; raises when there is none, or when one is not a text."""
    empty = True
    for number, text in enumerate(texts):
        if not isinstance(text, str):
            raise UsageError(f"text {number} must be a str, got {type(text).__name__}.")
        if text and not text.isspace():
            empty = False
            yield text
    if empty:
        raise DataError("there is no text to train a tokenizer on: every text is empty. Give other texts.")


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
    backend.pre_tokenizer = pre_tokenizers.Split(Regex(_WORD_PATTERN), behavior="removed", invert=True)
    backend.decoder = decoders.Sequence(_join_words("\0"))
    backend.train_from_iterator(texts, trainers.WordLevelTrainer(**request.trainer_options))
    return backend


def _train_bpe(texts: Iterator[str], request: _Request) -> tokenizers.Tokenizer:
    # Two spaces never merge and a leading one is kept, because the mark is put before the whole text.
    marking = [normalizers.Prepend(SPACE_MARK), normalizers.Replace(" ", SPACE_MARK)]
    lowering = [normalizers.Lowercase()] if request.lowercase else []
    scratch = tokenizers.Tokenizer(models.BPE(unk_token=request.unknown))
    scratch.normalizer = normalizers.Sequence([*lowering, *marking])
    scratch.pre_tokenizer = pre_tokenizers.Split(Regex(_PIECE_PATTERN), behavior="isolated")
    merging = dataclasses.replace(request, vocab_size=max(0, request.vocab_size - len(BYTE_TOKENS)))
    trainer = trainers.BpeTrainer(**merging.trainer_options, initial_alphabet=[SPACE_MARK])
    scratch.train_from_iterator(texts, trainer)
    # The trainer knows no byte tokens; they are put behind the special tokens, before the learned tokens.
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
    kept = list(texts)
    # The trainer numbers the continuing characters in the order of a hash table, which differs from run to
    # run and decides ties. A first pass without merges finds them; the second is given them in order.
    alphabet = _wordpiece_vocabulary(kept, dataclasses.replace(request, vocab_size=0))
    pinned = sorted(token for token in alphabet if token.startswith("##") and len(token) == 3)
    learned = _wordpiece_vocabulary(kept, dataclasses.replace(request, special=[*request.special, *pinned]))
    vocabulary = {token: i for i, token in enumerate(learned)}
    backend = tokenizers.Tokenizer(models.WordPiece(vocabulary, unk_token=request.unknown))
    _cut_like_bert(backend, request)
    inner_marks = [decoders.Replace(Regex(pattern), "") for pattern in (_BEFORE_INNER_MARK, _AFTER_INNER_MARK)]
    backend.decoder = decoders.Sequence([*_join_words("##"), *inner_marks])
    return backend


def _wordpiece_vocabulary(texts: list[str], request: _Request) -> list[str]:
    scratch = tokenizers.Tokenizer(models.WordPiece(unk_token=request.unknown))
    _cut_like_bert(scratch, request)
    scratch.train_from_iterator(texts, trainers.WordPieceTrainer(**request.trainer_options))
    return _in_id_order(scratch)


def _cut_like_bert(backend: tokenizers.Tokenizer, request: _Request) -> None:
    # Accents stay: in French and German they tell words apart.
    backend.normalizer = normalizers.BertNormalizer(lowercase=request.lowercase, strip_accents=False)
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()


def _join_words(continuing: str) -> list[decoders.Decoder]:
    """Words with a space between them, except before closing and after opening marks."""
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


@dataclass(frozen=True)
class WordFrequency:
    word: str
    count: int  # how often it occurs in the texts
    num_tokens: int  # how many tokens write it


def frequency_table(tokenizer: Tokenizer, texts: Iterable[str]) -> list[WordFrequency]:
    """Every word of `texts` with its count and its number of tokens, the most frequent first."""
    if isinstance(texts, str):
        raise UsageError("texts must be a list of texts, got one str; put it into a list.")
    counts = Counter(word for text in texts for word in re.findall(_WORD, text))
    if not counts:
        raise DataError("there are no words to count: every text is empty. Give other texts.")
    # Byte-level tokens hold the space before a word; without it the word would be cut as at a text's start.
    before = " " if tokenizer.kind == "byte-bpe" else ""
    words = sorted(counts, key=lambda word: (-counts[word], word))
    encoded = tokenizer.encode_batch([before + word for word in words])
    return [WordFrequency(word, counts[word], len(ids)) for word, ids in zip(words, encoded, strict=True)]
