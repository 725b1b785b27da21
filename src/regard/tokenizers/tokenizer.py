"""`Tokenizer`: text ↔ ids, with access to tokens, merges and vocabulary.

The class wraps the `tokenizers` library and stores its `tokenizer.json`, so files can be exchanged with other tools.
`training.py` trains tokenizers.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors

from regard.utils.atomic_files import write_file
from regard.utils.errors import FolderError, UsageError

FILE_NAME = "tokenizer.json"
MERGES_FILES = ("vocab.json", "merges.txt")
KINDS_WITH_MERGES = ("bpe", "byte-bpe")
SPACE_MARK = "▁"  # U+2581 represents a space in the tokens of a bpe tokenizer
BYTE_TOKENS = tuple(f"<0x{byte:02X}>" for byte in range(256))  # for characters without a token
CHARACTER_PATTERN = r"[\s\S]"  # the pre-tokenizer of a char tokenizer; `kind` recognizes it

# Common names of special tokens. The first one that a vocabulary has is used.
_COMMON_NAMES = {
    "pad": ("<pad>", "[PAD]", "<|pad|>"),
    "unknown": ("<unk>", "[UNK]", "<|unk|>"),
    "start": ("<s>", "[CLS]", "<bos>", "<|begin_of_text|>", "<|startoftext|>", "<|endoftext|>"),
    "end": ("</s>", "[SEP]", "<eos>", "<|end_of_text|>", "<|endoftext|>"),
    "mask": ("<mask>", "[MASK]"),
}


@dataclass(frozen=True, kw_only=True)
class SpecialTokens:
    """The special tokens by role; `train_tokenizer` assigns ids in this order."""

    pad: str | None = "<pad>"  # fills the shorter rows of a batch
    unknown: str | None = "<unk>"  # replaces text that has no token
    start: str | None = "<s>"  # the first input of a decoder
    end: str | None = "</s>"  # ends a sequence
    mask: str | None = None  # replaces a token that the model predicts; most vocabularies have none
    other_ends: tuple[str, ...] = ()  # more tokens that end a sequence, such as the end of a chat turn


BERT_SPECIAL_TOKENS = SpecialTokens(pad="[PAD]", unknown="[UNK]", start="[CLS]", end="[SEP]", mask="[MASK]")


@dataclass(frozen=True)
class TokenSpan:
    """One token of a text and the span of the text that it covers."""

    token: str  # as in the vocabulary
    id: int
    text: str  # text[start:end] of the input, including the white space before the token
    start: int
    end: int


class SpannedIds(NamedTuple):
    """The ids of a text, and for each id its span (start, end) of characters, without leading and trailing spaces."""

    ids: list[int]
    spans: list[tuple[int, int]]


class Tokenizer:
    """Text ↔ ids.

    The constructor changes the backend: it disables truncation and padding. The name of a special token in a text, such
    as "</s>", is encoded as ordinary characters.
    """

    def __init__(self, backend: tokenizers.Tokenizer, special_tokens: SpecialTokens | None = None) -> None:
        self._backend = backend
        self._backend.no_truncation()
        self._backend.no_padding()
        self._backend.encode_special_tokens = True
        self.special_tokens = special_tokens or SpecialTokens()

    # Vocabulary -------------------------------------------------------------------------------------------

    @cached_property
    def vocab_size(self) -> int:
        """The number of ids, which are 0 to vocab_size - 1."""
        return max(self._backend.get_vocab(with_added_tokens=True).values(), default=-1) + 1

    @property
    def pad_id(self) -> int:
        return self._special_token_id("pad")

    @property
    def unknown_id(self) -> int | None:
        """The id of the unknown token, or None if the vocabulary has none."""
        return self._optional_id(self.special_tokens.unknown)

    @property
    def start_id(self) -> int:
        return self._special_token_id("start")

    @property
    def end_id(self) -> int:
        return self._special_token_id("end")

    @cached_property
    def end_ids(self) -> frozenset[int]:
        """The ids of all tokens that end a sequence."""
        others = (self._optional_id(name) for name in self.special_tokens.other_ends)
        return frozenset((self.end_id, *(i for i in others if i is not None)))

    @property
    def mask_id(self) -> int:
        return self._special_token_id("mask")

    @cached_property
    def special_ids(self) -> frozenset[int]:
        """The ids of all special tokens, including those that only the loaded file marks as special."""
        flagged = {i for i, token in self._backend.get_added_tokens_decoder().items() if token.special}
        *roles, others = dataclasses.astuple(self.special_tokens)
        named = {self._optional_id(name) for name in (*roles, *others)}
        return frozenset(flagged | {i for i in named if i is not None})

    def vocabulary(self) -> list[str]:
        """All tokens in the order of their ids."""
        by_id = {i: token for token, i in self._backend.get_vocab(with_added_tokens=True).items()}
        missing = [i for i in range(self.vocab_size) if i not in by_id]
        if missing:
            message = f"{len(missing)} of {self.vocab_size} ids have no token; the first is {missing[0]}. "
            raise FolderError(f"{message}Export the tokenizer again, without gaps.", argument="id", value=missing[0])
        return [by_id[i] for i in range(self.vocab_size)]

    def fits(self, vocab_size: int) -> None:
        """Raise an error if a model with this `vocab_size` has no embedding for some id."""
        if self.vocab_size > vocab_size:
            message = f"the tokenizer has {self.vocab_size} ids, but the vocab_size of the model is {vocab_size}. "
            message += f"Restore the {FILE_NAME} that was saved with the model."
            raise FolderError(message, argument="vocab_size", value=vocab_size)

    @cached_property
    def kind(self) -> str:
        """char, word, bpe, byte-bpe, wordpiece or unigram, derived from the backend."""
        model = self._description["model"].get("type")
        if model == "BPE":
            parts = json.dumps([self._description["pre_tokenizer"], self._description["decoder"]])
            return "byte-bpe" if '"ByteLevel"' in parts else "bpe"
        if model == "WordLevel":
            is_char = json.dumps(CHARACTER_PATTERN) in json.dumps(self._description["pre_tokenizer"])
            return "char" if is_char else "word"
        return str(model).lower()

    @property
    def has_post_processor(self) -> bool:
        """Whether the file has a post-processor, even one that adds no special tokens."""
        return self._backend.post_processor is not None

    @cached_property
    def prefix_ids(self) -> tuple[int, ...]:
        """The special tokens that the post-processor of the file adds before a text; `encode` does not add them."""
        if not self.has_post_processor:
            return ()
        encoding = self._backend.encode("a", add_special_tokens=True)
        num_added = encoding.special_tokens_mask.index(0) if 0 in encoding.special_tokens_mask else 0
        return tuple(encoding.ids[:num_added])

    # Text to ids ------------------------------------------------------------------------------------------

    def encode(self, text: str) -> list[int]:
        """The ids of `text`; no special tokens are added."""
        return self._ordinary(self._encoding(text).ids)

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of each text; much faster than one call of `encode` per text."""
        if isinstance(texts, str):
            message = f"encode_batch needs a list of texts, got the str {texts[:40]!r}. Use encode for one text."
            raise UsageError(message, argument="texts", value=texts)
        return [self._ordinary(encoding.ids) for encoding in self._encodings(texts, self._backend.encode_batch_fast)]

    def encode_with_spans(self, texts: Sequence[str]) -> list[SpannedIds]:
        """The ids of each text, and the span of characters of each id."""
        spanned = []
        for text, encoding in zip(texts, self._encodings(texts, self._backend.encode_batch), strict=True):
            pairs = [
                (i, _strip_span(text, *span))
                for original, span in zip(encoding.ids, encoding.offsets, strict=True)
                for i in ((original,) if original not in self._control_ids else self._ordinary([original]))
            ]
            spanned.append(SpannedIds([i for i, _ in pairs], [span for _, span in pairs]))
        return spanned

    def token_spans(self, text: str) -> list[TokenSpan]:
        """One `TokenSpan` per id of `encode(text)`; their texts concatenate to `text`.

        If several tokens share a character (the bytes of "é"), the first one covers it and the others are empty. A
        text without ids (only white space, in some kinds) has no spans.
        """
        encoding = self._encoding(text)
        spans: list[TokenSpan] = []
        cursor = 0
        for original, (start, end) in zip(encoding.ids, encoding.offsets, strict=True):
            for i in self._ordinary([original]):
                token = self._token(i)
                # The "▁" that the normalizer prepends has the offsets of the first character, but does not cover it.
                is_prepended = token == SPACE_MARK and not text[start:end].isspace()
                stop = cursor if is_prepended else max(cursor, end)
                spans.append(TokenSpan(token, i, text[cursor:stop], cursor, stop))
                cursor = stop
        if spans and cursor < len(text):
            last = spans[-1]
            spans[-1] = dataclasses.replace(last, text=text[last.start :], end=len(text))
        return spans

    def derivation(self, text: str) -> list[list[str]]:
        """Return for each word the BPE merges that lead to its tokens.

        The first step is the characters (or bytes) of the word; each further step applies one merge. A step is a str
        of tokens separated by spaces.
        """
        self.require_merges("has no merges to show")
        return [[" ".join(tokens) for tokens in self._merge_steps(word)] for word in self.words(text)]

    def require_merges(self, fault: str) -> None:
        """Raise an error if this kind of tokenizer has no merges; `fault` completes "a word tokenizer …"."""
        if self.kind not in KINDS_WITH_MERGES:
            message = f"a {self.kind} tokenizer {fault}. Kinds with merges: {', '.join(KINDS_WITH_MERGES)}."
            raise UsageError(message, argument="kind", value=self.kind, allowed=KINDS_WITH_MERGES)

    def encode_array(self, text: str) -> npt.NDArray[np.uint32]:
        """The ids of a long text, fast: char uses a lookup table, byte-bpe encodes independent lines in parallel."""
        if self.kind == "char" and self._backend.normalizer is None:
            _require_text(text, "text")
            points = np.frombuffer(text.encode("utf-32-le"), dtype=np.uint32)
            table = self._character_table
            last = np.uint32(len(table) - 1)  # this entry has no token, so it maps to unknown
            return table[np.minimum(points, last)]
        rows = self.encode_batch(re.split(r"(?<=\n)(?=\S)", text) if self._lines_are_independent else [text])
        return np.fromiter(itertools.chain.from_iterable(rows), dtype=np.uint32, count=sum(map(len, rows)))

    @cached_property
    def _lines_are_independent(self) -> bool:
        """Return whether encoding each line separately gives the ids of the text: no token spans a line break and a
        word. This is false if a space is added before a text, or if the pre-tokenizer does not split text into words.
        """
        pre_tokenizer = json.dumps(self._description["pre_tokenizer"])
        has_words = '"use_regex": false' not in pre_tokenizer or '"Split"' in pre_tokenizer
        is_bytes = self.kind == "byte-bpe" and self._backend.normalizer is None
        return is_bytes and has_words and '"add_prefix_space": true' not in pre_tokenizer

    @cached_property
    def _character_table(self) -> npt.NDArray[np.uint32]:
        """Code point → id, up to one past the highest code point with a token."""
        vocabulary = {ord(token): i for token, i in self._description["model"]["vocab"].items() if len(token) == 1}
        table = np.full(max(vocabulary, default=0) + 2, self.unknown_id or 0, dtype=np.uint32)
        table[list(vocabulary)] = list(vocabulary.values())
        return table

    def words(self, text: str) -> list[str]:
        """The words of the pre-tokenizer, normalized. BPE never merges tokens of two words."""
        _require_text(text, "text")
        normalized = self._backend.normalizer.normalize_str(text) if self._backend.normalizer else text
        split = self._backend.pre_tokenizer
        words = [word for word, _ in split.pre_tokenize_str(normalized)] if split else [normalized]
        return [word for word in words if word]

    def word_ids(self, word: str, drop_merge: Callable[[], bool]) -> list[int]:
        """The ids of `word` with BPE dropout. In each step, a merge is skipped if `drop_merge()` is True for it."""
        *_, tokens = self._merge_steps(word, drop_merge)
        vocabulary = self._description["model"]["vocab"]
        return self._ordinary([vocabulary[token] for token in tokens])

    # Ids to text ------------------------------------------------------------------------------------------

    def decode(self, ids: Iterable[int]) -> str:
        """The text of `ids`, without special tokens."""
        kept = [i for i in self._checked(ids) if i not in self.special_ids]
        return str(self._backend.decode(kept, skip_special_tokens=False))

    def decode_batch(self, batch: Iterable[Iterable[int]]) -> list[str]:
        """The text of each row of ids."""
        return [self.decode(ids) for ids in batch]

    def tokens(self, ids: Iterable[int]) -> list[str]:
        """The tokens of `ids` as in the vocabulary, including special tokens."""
        return [self._token(i) for i in self._checked(ids)]

    # Files ------------------------------------------------------------------------------------------------

    def save(self, path: Path | str) -> Path:
        """Write `tokenizer.json` and return its path; `path` is a file or a folder."""
        path = _json_path(path)
        write_file(path, self._backend.to_str(pretty=True))
        return path

    def save_merges(self, folder: Path | str) -> tuple[Path, Path]:
        """Write `vocab.json` and `merges.txt`, as GPT-2 does, and return their paths."""
        self.require_merges("has no merges to save")
        vocab, merges = (Path(folder) / name for name in MERGES_FILES)
        ids = self._description["model"]["vocab"]
        write_file(vocab, json.dumps(ids, ensure_ascii=False, separators=(",", ":")), parents=True)
        write_file(merges, "#version: 0.2\n" + "".join(f"{left} {right}\n" for left, right in self.merge_ranks))
        return vocab, merges

    @classmethod
    def load(cls, path: Path | str, special_tokens: SpecialTokens | None = None) -> Tokenizer:
        """Load a `tokenizer.json`, or the one in a folder. Loading never runs code.

        By default, `special_tokens` are recognized by their common names, then by their ids.
        """
        path = _json_path(path)
        return cls.from_json(_read_text(path), path, special_tokens)

    @classmethod
    def from_json(cls, text: str, path: Path, special_tokens: SpecialTokens | None = None) -> Tokenizer:
        """Load the content of a `tokenizer.json`; `path` is used in errors."""
        try:
            backend = tokenizers.Tokenizer.from_str(text)
        except Exception as problem:
            message = f"{path} is damaged or not a tokenizer ({problem}). Copy it again from the original model."
            raise FolderError(message, path=path) from problem
        unknown = getattr(backend.model, "unk_token", None)
        is_required = isinstance(backend.model, (models.WordLevel, models.WordPiece))
        if (unknown or is_required) and backend.model.token_to_id(unknown or "") is None:
            message = f"{path} is damaged: its vocabulary does not contain its unk_token {unknown!r}. "
            message += "Copy it again from the original model."
            raise FolderError(message, argument="unk_token", value=unknown, path=path)
        return cls(backend, special_tokens or _recognize_special_tokens(backend))

    @classmethod
    def from_merges(cls, vocab: Path | str, merges: Path | str) -> Tokenizer:
        """Load a byte-level BPE tokenizer from `vocab.json` and `merges.txt`, the files of GPT-2."""
        for path in (vocab, merges):
            _read_text(Path(path))
        try:
            model = models.BPE.from_file(str(vocab), str(merges))
        except Exception as problem:
            message = f"{vocab} and {merges} are damaged or belong to different tokenizers ({problem})."
            raise FolderError(message, path=merges) from problem
        backend = tokenizers.Tokenizer(model)
        backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        backend.decoder = decoders.ByteLevel()
        common = {name for names in _COMMON_NAMES.values() for name in names}
        vocabulary = backend.get_vocab()
        add_special_tokens(backend, sorted(common & vocabulary.keys(), key=vocabulary.__getitem__))
        return cls(backend, _recognize_special_tokens(backend))

    @classmethod
    def from_vocabulary(cls, path: Path | str, *, lowercase: bool) -> Tokenizer:
        """Load a WordPiece tokenizer from a `vocab.txt` with one token per line, the file of BERT."""
        # Not splitlines(): it also splits at U+2028, which would shift the ids of all later tokens.
        tokens = _read_text(Path(path)).removesuffix("\n").split("\n")
        vocabulary = {token: number for number, token in enumerate(tokens)}
        unknown = next((name for name in _COMMON_NAMES["unknown"] if name in vocabulary), None)
        if unknown is None:
            names = _COMMON_NAMES["unknown"]
            message = f"{path} is damaged or not a WordPiece vocabulary: it has no unknown token ({', '.join(names)})."
            raise FolderError(message, argument="unk_token", allowed=names, path=path)
        backend = tokenizers.Tokenizer(models.WordPiece(vocabulary, unk_token=unknown))
        backend.normalizer = normalizers.BertNormalizer(lowercase=lowercase)
        backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        backend.decoder = decoders.WordPiece()
        special = dataclasses.astuple(BERT_SPECIAL_TOKENS)
        add_special_tokens(backend, [token for token in vocabulary if token in special])
        return cls(backend, _recognize_special_tokens(backend))

    def with_special_tokens(self, special_tokens: SpecialTokens) -> Tokenizer:
        """The same tokenizer with other special tokens."""
        return Tokenizer(self._backend, special_tokens)

    def with_prefix(self, *names: str) -> Tokenizer:
        """A copy whose post-processor adds these special tokens before every text; see `prefix_ids`."""
        if unknown := [name for name in names if self._optional_id(name) is None]:
            message = f"the prefix token {unknown[0]!r} is not in the vocabulary."
            raise FolderError(message, argument="names", value=unknown[0])
        return self.with_template([*((name, 0) for name in names), ("$A", 0)], [("$A", 0), ("$B", 1)])

    def with_template(self, single: Sequence[tuple[str, int]], pair: Sequence[tuple[str, int]]) -> Tokenizer:
        """A copy whose post-processor adds special tokens to a text ($A) or to a pair of texts ($A and $B).

        `single` and `pair` list tokens and texts in order, each with its token type.
        """
        ids = {token: self._optional_id(token) for token, _ in single if token != "$A"}
        # In a template, ":" precedes a token type and "$" a text. Tokens with these characters need another name there.
        names = {token: f"token-{i}" if ":" in token or token.startswith("$") else token for token, i in ids.items()}
        backend = tokenizers.Tokenizer.from_str(self.to_json())
        backend.post_processor = processors.TemplateProcessing(
            single=[f"{names.get(part, part)}:{token_type}" for part, token_type in single],
            pair=[f"{names.get(part, part)}:{token_type}" for part, token_type in pair],
            special_tokens=[{"id": names[token], "ids": [i], "tokens": [token]} for token, i in ids.items()],
        )
        return Tokenizer(backend, self.special_tokens)

    def to_json(self) -> str:
        """The content of `tokenizer.json` in one line."""
        return str(self._backend.to_str())

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Tokenizer):
            return NotImplemented
        return self.special_tokens == other.special_tokens and self.to_json() == other.to_json()

    def __hash__(self) -> int:
        return hash((self.special_tokens, self.to_json()))

    def __repr__(self) -> str:
        return f"Tokenizer(kind={self.kind!r}, vocab_size={self.vocab_size})"

    # Internals --------------------------------------------------------------------------------------------

    @cached_property
    def _description(self) -> Any:
        return json.loads(self._backend.to_str())

    @cached_property
    def merge_ranks(self) -> dict[tuple[str, str], int]:
        """Pair of tokens → rank of its merge; the lowest rank is merged first."""
        merges = self._description["model"]["merges"]
        # Older versions of the library write a pair as one str, "a b".
        pairs = (tuple(merge.split(" ", 1)) if isinstance(merge, str) else tuple(merge) for merge in merges)
        return {(left, right): rank for rank, (left, right) in enumerate(pairs)}

    @cached_property
    def byte_ids(self) -> frozenset[int]:
        """The ids of byte tokens and of the special tokens that decoding skips; empty without byte fallback."""
        if not self._description["model"].get("byte_fallback"):
            return frozenset()
        return frozenset(i for name in BYTE_TOKENS if (i := self._optional_id(name)) is not None) | self._control_ids

    @cached_property
    def _control_ids(self) -> frozenset[int]:
        return self.special_ids - {self.unknown_id}

    def _optional_id(self, name: str | None) -> int | None:
        i: int | None = None if name is None else self._backend.token_to_id(name)
        return i

    def _special_token_id(self, role: str) -> int:
        name = getattr(self.special_tokens, role)
        i = self._optional_id(name)
        if i is None:
            reason = f"{name!r} is not in its vocabulary" if name else "its name is not known"
            message = (
                f"the tokenizer has no {role} token: {reason}. Set SpecialTokens({role}=...) to one of its tokens."
            )
            raise UsageError(message, argument=role, value=name)
        return i

    def _encoding(self, text: str) -> tokenizers.Encoding:
        try:
            return self._backend.encode(text, add_special_tokens=False)
        except (TypeError, UnicodeEncodeError) as problem:
            _require_text(text, "text")
            raise UsageError(f"cannot encode the text: {problem}", argument="text", value=text) from problem

    def _encodings(
        self, texts: Sequence[str], encode: Callable[..., Sequence[tokenizers.Encoding]]
    ) -> Sequence[tokenizers.Encoding]:
        texts = list(texts)
        try:
            return encode(texts, add_special_tokens=False)
        except (TypeError, UnicodeEncodeError) as problem:
            for number, text in enumerate(texts):
                _require_text(text, f"texts[{number}]")
            raise UsageError(f"cannot encode the texts: {problem}", argument="texts", value=texts) from problem

    def _ordinary(self, ids: list[int]) -> list[int]:
        """`ids` with special tokens replaced by the unknown token.

        Some models (word level, unigram) look up whole words, so a "</s>" in the text becomes the special token.
        """
        if self._control_ids.isdisjoint(ids):
            return ids
        replaced = (self.unknown_id if i in self._control_ids else i for i in ids)
        return [i for i in replaced if i is not None]

    def _checked(self, ids: Iterable[int]) -> list[int]:
        checked = [int(i) for i in ids]
        for i in checked:
            if not 0 <= i < self.vocab_size:
                message = f"id {i} is not in the vocabulary, whose ids are 0 to {self.vocab_size - 1}."
                raise UsageError(message, argument="ids", value=i)
        return checked

    def _token(self, i: int) -> str:
        token = self._backend.id_to_token(i)
        if token is None:
            raise UsageError(f"id {i} has no token in the vocabulary.", argument="ids", value=i)
        return str(token)

    def _merge_steps(self, word: str, drop_merge: Callable[[], bool] | None = None) -> Iterator[list[str]]:
        """The tokens of a word before the first merge and after each merge."""
        model = self._description["model"]
        prefix = model.get("continuing_subword_prefix") or ""
        tokens = self._initial_tokens(word, prefix, model.get("end_of_word_suffix") or "")
        yield list(tokens)
        if model.get("ignore_merges") and drop_merge is None and word in model["vocab"]:
            if tokens != [word]:
                yield [word]
            return
        while True:
            ranked = [
                (self.merge_ranks[pair], index)
                for index, pair in enumerate(itertools.pairwise(tokens))
                if pair in self.merge_ranks and not (drop_merge and drop_merge())
            ]
            if not ranked:
                return
            _, index = min(ranked)
            merged = tokens[index] + tokens[index + 1].removeprefix(prefix)
            tokens[index : index + 2] = [merged]
            yield list(tokens)

    def _initial_tokens(self, word: str, prefix: str, suffix: str) -> list[str]:
        """The tokens before any merge: characters; those without a token become byte tokens or the unknown token."""
        model = self._description["model"]
        tokens: list[str] = []
        for index, character in enumerate(word):
            token = (prefix if index else "") + character + (suffix if index == len(word) - 1 else "")
            byte_tokens = [BYTE_TOKENS[byte] for byte in token.encode("utf-8")]
            if token in model["vocab"]:
                tokens.append(token)
            elif model.get("byte_fallback") and all(byte in model["vocab"] for byte in byte_tokens):
                tokens.extend(byte_tokens)
            elif (unknown := model.get("unk_token")) is not None and not (
                model.get("fuse_unk") and tokens[-1:] == [unknown]
            ):
                tokens.append(unknown)
        return tokens


def _json_path(path: Path | str) -> Path:
    path = Path(path)
    return path / FILE_NAME if path.is_dir() else path


def _read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError as problem:
        message = f"{path} does not exist. Copy the tokenizer files into the model folder."
        raise FolderError(message, path=path) from problem
    except OSError as problem:
        raise FolderError(f"cannot read {path} ({problem.strerror}).", path=path) from problem
    except UnicodeDecodeError as problem:
        message = f"{path} is damaged: byte {problem.start} is not UTF-8. Copy it again from the original model."
        raise FolderError(message, path=path) from problem


def _strip_span(text: str, start: int, end: int) -> tuple[int, int]:
    """The span without leading and trailing white space."""
    part = text[start:end]
    start += len(part) - len(part.lstrip())
    return start, start + len(part.strip())


def _require_text(text: object, argument: str) -> None:
    if not isinstance(text, str):
        raise UsageError(f"{argument} must be a str, got {type(text).__name__}.", argument=argument, value=text)
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as problem:
        character = text[problem.start]
        fault = f"the lone surrogate U+{ord(character):04X} at index {problem.start}"
        message = f"{argument} contains {fault}, which is not valid Unicode. Decode the text as UTF-8."
        raise UsageError(message, argument=argument, value=character) from problem


def add_special_tokens(backend: tokenizers.Tokenizer, names: Iterable[str]) -> None:
    """Mark `names` as special tokens, which are not normalized."""
    backend.add_special_tokens([tokenizers.AddedToken(name, special=True, normalized=False) for name in names])


def _recognize_special_tokens(backend: tokenizers.Tokenizer) -> SpecialTokens:
    special = {i: token.content for i, token in backend.get_added_tokens_decoder().items() if token.special}
    vocabulary = backend.get_vocab(with_added_tokens=True)
    by_role: dict[str, Any] = {
        role: next((name for name in names if name in vocabulary), None) for role, names in _COMMON_NAMES.items()
    }
    if getattr(backend.model, "unk_token", None):
        by_role["unknown"] = backend.model.unk_token
    for i, role in enumerate(("pad", "unknown", "start", "end")):  # the ids that `train_tokenizer` assigns
        if by_role[role] is None and i in special and special[i] not in by_role.values():
            by_role[role] = special[i]
    return SpecialTokens(**by_role)
