"""A tokenizer: text to ids and back, with the tokens, merges and vocabulary laid open.

One small class over the `tokenizers` library, whose `tokenizer.json` is the format on disk, so that other tools read
what is written here and the other way round. `training.py` trains tokenizers.
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
KINDS_WITH_MERGES = ("bpe", "byte-bpe")
SPACE_MARK = "▁"  # U+2581 stands for a space inside a token of the bpe kind
BYTE_TOKENS = tuple(f"<0x{byte:02X}>" for byte in range(256))  # write what has no token
CHARACTER_PATTERN = r"[\s\S]"  # how a character tokenizer cuts; it is recognized by this when read back

# The names under which the special tokens go in other people's files, the most telling first.
_USUAL_NAMES = {
    "pad": ("<pad>", "[PAD]", "<|pad|>"),
    "unknown": ("<unk>", "[UNK]", "<|unk|>"),
    "start": ("<s>", "[CLS]", "<bos>", "<|begin_of_text|>", "<|startoftext|>", "<|endoftext|>"),
    "end": ("</s>", "[SEP]", "<eos>", "<|end_of_text|>", "<|endoftext|>"),
    "mask": ("<mask>", "[MASK]"),
}


@dataclass(frozen=True, kw_only=True)
class SpecialTokens:
    """The special tokens, in the order of their ids in a tokenizer trained here."""

    pad: str | None = "<pad>"  # fills short rows of a batch
    unknown: str | None = "<unk>"  # stands for what the vocabulary cannot write
    start: str | None = "<s>"  # what a decoder reads first
    end: str | None = "</s>"  # closes a sequence
    mask: str | None = None  # hides a word that is to be guessed; most vocabularies have none
    other_ends: tuple[str, ...] = ()  # close a sequence, too; a chat ends its turns with a symbol of their own


BERT_SPECIAL_TOKENS = SpecialTokens(pad="[PAD]", unknown="[UNK]", start="[CLS]", end="[SEP]", mask="[MASK]")


@dataclass(frozen=True)
class TokenSpan:
    """One token of a text with the stretch of the text that it covers."""

    token: str  # as the vocabulary writes it
    id: int
    text: str  # text[start:end] of the input; white space before a token belongs to it
    start: int
    end: int


class SpannedIds(NamedTuple):
    """The ids of a text with the characters that each covers, from and up to, white space at the edges left out."""

    ids: list[int]
    spans: list[tuple[int, int]]


class Tokenizer:
    """Text to ids and back.

    The tokenizer owns its backend: truncation and padding that a file may ask for are switched off, and text that looks
    like a special token ("</s>" typed by a user) is encoded as ordinary characters.
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
        """The number of ids; they run from 0 to vocab_size - 1."""
        return max(self._backend.get_vocab(with_added_tokens=True).values(), default=-1) + 1

    @property
    def pad_id(self) -> int:
        return self._special_token_id("pad")

    @property
    def unknown_id(self) -> int | None:
        """None where nothing is unknown because the vocabulary has no symbol for it."""
        return self._optional_id(self.special_tokens.unknown)

    @property
    def start_id(self) -> int:
        return self._special_token_id("start")

    @property
    def end_id(self) -> int:
        return self._special_token_id("end")

    @cached_property
    def end_ids(self) -> frozenset[int]:
        """The ids of every symbol that closes a sequence."""
        others = (self._optional_id(name) for name in self.special_tokens.other_ends)
        return frozenset((self.end_id, *(i for i in others if i is not None)))

    @property
    def mask_id(self) -> int:
        return self._special_token_id("mask")

    @cached_property
    def special_ids(self) -> frozenset[int]:
        """The ids of every special token, those of a loaded file included."""
        flagged = {i for i, token in self._backend.get_added_tokens_decoder().items() if token.special}
        *roles, others = dataclasses.astuple(self.special_tokens)
        named = {self._optional_id(name) for name in (*roles, *others)}
        return frozenset(flagged | {i for i in named if i is not None})

    def vocabulary(self) -> list[str]:
        """Every token in the order of ids: token and id determine each other."""
        by_id = {i: token for token, i in self._backend.get_vocab(with_added_tokens=True).items()}
        missing = [i for i in range(self.vocab_size) if i not in by_id]
        if missing:
            raise FolderError(
                f"the vocabulary has no token for id {missing[0]} and {len(missing) - 1} others of {self.vocab_size}. "
                "Ids must run without gaps; export the tokenizer again from where it came."
            )
        return [by_id[i] for i in range(self.vocab_size)]

    def fits(self, vocab_size: int) -> None:
        """Raise when a model with `vocab_size` rows of embedding cannot look up every id."""
        if self.vocab_size > vocab_size:
            raise FolderError(
                f"the tokenizer has {self.vocab_size} ids but the model has room for {vocab_size}: {FILE_NAME} and the "
                f"model are not of the same folder. Restore the {FILE_NAME} that was saved with the model."
            )

    @cached_property
    def kind(self) -> str:
        """char, word, bpe, byte-bpe, wordpiece or unigram, read back from the backend."""
        model = self._description["model"].get("type")
        if model == "BPE":
            parts = json.dumps([self._description["pre_tokenizer"], self._description["decoder"]])
            return "byte-bpe" if '"ByteLevel"' in parts else "bpe"
        if model == "WordLevel":
            by_character = json.dumps(CHARACTER_PATTERN) in json.dumps(self._description["pre_tokenizer"])
            return "char" if by_character else "word"
        return str(model).lower()

    @property
    def has_post_processor(self) -> bool:
        """Whether the file says what is put around a text, be it nothing."""
        return self._backend.post_processor is not None

    @cached_property
    def prefix_ids(self) -> tuple[int, ...]:
        """The symbols that other tools put before every text, as the file says; `encode` leaves them out."""
        if not self.has_post_processor:
            return ()
        marked = self._backend.encode("a", add_special_tokens=True)
        num_added = marked.special_tokens_mask.index(0) if 0 in marked.special_tokens_mask else 0
        return tuple(marked.ids[:num_added])

    # Text to ids ------------------------------------------------------------------------------------------

    def encode(self, text: str) -> list[int]:
        """The ids of `text`, without special tokens (other than the unknown one where it is needed)."""
        return self._ordinary(self._encoding(text).ids)

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of each text; much faster than one call a text."""
        if isinstance(texts, str):
            raise UsageError(f"encode_batch takes a list of texts, got one text {texts[:40]!r}; use encode.")
        return [self._ordinary(encoding.ids) for encoding in self._encodings(texts, self._backend.encode_batch_fast)]

    def encode_with_spans(self, texts: Sequence[str]) -> list[SpannedIds]:
        """The ids of each text, and for each id the stretch of characters that it stands for."""
        found = []
        for text, encoding in zip(texts, self._encodings(texts, self._backend.encode_batch), strict=True):
            pairs = [
                (i, _without_edges(text, *span))
                for original, span in zip(encoding.ids, encoding.offsets, strict=True)
                for i in ((original,) if original not in self._control_ids else self._ordinary([original]))
            ]
            found.append(SpannedIds([i for i, _ in pairs], [span for _, span in pairs]))
        return found

    def token_spans(self, text: str) -> list[TokenSpan]:
        """One token per id of `encode(text)`; their texts, joined, give `text` back.

        Where several tokens share one character (the bytes of "é"), the first shows it and the others show the empty
        string. A text that yields no id at all (white space, for the kinds that skip it) has no tokens.
        """
        encoding = self._encoding(text)
        found: list[TokenSpan] = []
        cursor = 0
        for original, (start, end) in zip(encoding.ids, encoding.offsets, strict=True):
            for i in self._ordinary([original]):
                token = self._token(i)
                # The mark put before a text shares the offsets of the first character but does not show it.
                is_added = token == SPACE_MARK and not text[start:end].isspace()
                reach = cursor if is_added else max(cursor, end)
                found.append(TokenSpan(token, i, text[cursor:reach], cursor, reach))
                cursor = reach
        if found and cursor < len(text):
            last = found[-1]
            found[-1] = dataclasses.replace(last, text=text[last.start :], end=len(text))
        return found

    def derivation(self, text: str) -> list[list[str]]:
        """Per word, how merging made its tokens: first its characters (or bytes), then one merge a step.

        Each step is the word as it then stands, its symbols separated by spaces.
        """
        self.require_merges("has no merges to show")
        return [[" ".join(symbols) for symbols in self._merges(word)] for word in self.words(text)]

    def require_merges(self, fault: str) -> None:
        """Raise an error if the tokenizer is of a kind without merges; `fault` says what it cannot do."""
        if self.kind not in KINDS_WITH_MERGES:
            raise UsageError(f"a {self.kind} tokenizer {fault}; kinds with merges: {', '.join(KINDS_WITH_MERGES)}.")

    def encode_array(self, text: str) -> npt.NDArray[np.uint32]:
        """The ids of a long text: characters are looked up in a table, of other texts the lines are cut in parallel."""
        if self.kind == "char" and self._backend.normalizer is None:
            _require_text(text, "text")
            points = np.frombuffer(text.encode("utf-32-le"), dtype=np.uint32)
            table = self._character_table
            beyond = np.uint32(len(table) - 1)  # the last place is for what no text has: it is unknown
            return table[np.minimum(points, beyond)]
        rows = self.encode_batch(re.split(r"(?<=\n)(?=\S)", text) if self._lines_are_apart else [text])
        return np.fromiter(itertools.chain.from_iterable(rows), dtype=np.uint32, count=sum(map(len, rows)))

    @cached_property
    def _lines_are_apart(self) -> bool:
        """Whether a text is the sum of its lines: no usual byte-level token reaches from one into a word of the next.

        Not so where a space is put before a text, or where nothing cuts it into words before it is split into tokens.
        """
        cutting = json.dumps(self._description["pre_tokenizer"])
        uncut = '"use_regex": false' in cutting and '"Split"' not in cutting
        is_bytes = self.kind == "byte-bpe" and self._backend.normalizer is None
        return is_bytes and not uncut and '"add_prefix_space": true' not in cutting

    @cached_property
    def _character_table(self) -> npt.NDArray[np.uint32]:
        """The id of every code point up to one past the highest that has a token of its own."""
        vocabulary = {ord(token): i for token, i in self._description["model"]["vocab"].items() if len(token) == 1}
        table = np.full(max(vocabulary, default=0) + 2, self.unknown_id or 0, dtype=np.uint32)
        table[list(vocabulary)] = list(vocabulary.values())
        return table

    def words(self, text: str) -> list[str]:
        """The stretches of `text` that are split into tokens each for itself, as the vocabulary spells them."""
        _require_text(text, "text")
        normalized = self._backend.normalizer.normalize_str(text) if self._backend.normalizer else text
        cut = self._backend.pre_tokenizer
        words = [word for word, _ in cut.pre_tokenize_str(normalized)] if cut else [normalized]
        return [word for word in words if word]

    def word_ids(self, word: str, leave_out: Callable[[], bool]) -> list[int]:
        """The ids of one of `words`, where each merge that is possible is passed over when `leave_out` says so."""
        *_, symbols = self._merges(word, leave_out)
        vocabulary = self._description["model"]["vocab"]
        return self._ordinary([vocabulary[symbol] for symbol in symbols])

    # Ids to text ------------------------------------------------------------------------------------------

    def decode(self, ids: Iterable[int]) -> str:
        """The text of `ids`; special tokens are left out."""
        kept = [i for i in self._checked(ids) if i not in self.special_ids]
        return str(self._backend.decode(kept, skip_special_tokens=False))

    def decode_batch(self, batch: Iterable[Iterable[int]]) -> list[str]:
        return [self.decode(ids) for ids in batch]

    def tokens(self, ids: Iterable[int]) -> list[str]:
        """The tokens of `ids` as the vocabulary writes them, special tokens included."""
        return [self._token(i) for i in self._checked(ids)]

    # Files ------------------------------------------------------------------------------------------------

    def save(self, path: Path | str) -> Path:
        """Write `tokenizer.json`; `path` is the file, or a folder to put it in. Returns the file."""
        path = _json_path(path)
        write_file(path, self._backend.to_str(pretty=True))
        return path

    def save_merges(self, folder: Path | str) -> tuple[Path, Path]:
        """Write `vocab.json` and `merges.txt`, the older pair of files that BPE tools exchange."""
        self.require_merges("has no merges to save")
        folder = Path(folder)
        if not folder.is_dir():
            raise FolderError(f"{folder} is not a folder; create it before saving merges into it.")
        try:
            self._backend.model.save(str(folder))
        except Exception as problem:
            raise FolderError(f"{folder}: the merges cannot be written ({problem}).") from problem
        return folder / "vocab.json", folder / "merges.txt"

    @classmethod
    def load(cls, path: Path | str, special_tokens: SpecialTokens | None = None) -> Tokenizer:
        """Read a `tokenizer.json` (or the one in a folder); nothing in it can run code.

        Without `special_tokens`, they are recognized by their usual names, then by their place.
        """
        path = _json_path(path)
        return cls.from_json(_read_text(path), path, special_tokens)

    @classmethod
    def from_json(cls, text: str, path: Path, special_tokens: SpecialTokens | None = None) -> Tokenizer:
        """`load` of a text that was read from `path`."""
        try:
            backend = tokenizers.Tokenizer.from_str(text)
        except Exception as problem:
            message = f"{path} is damaged or not a tokenizer ({problem}). Restore it from where the model came."
            raise FolderError(message) from problem
        needed = getattr(backend.model, "unk_token", None)
        cannot_do_without = isinstance(backend.model, (models.WordLevel, models.WordPiece))
        if (needed or cannot_do_without) and backend.model.token_to_id(needed or "") is None:
            fault = f"its unknown token {needed!r} is not in its vocabulary"
            raise FolderError(f"{path} is damaged: {fault}. Restore it from where the model came.")
        return cls(backend, special_tokens or _recognize_special_tokens(backend))

    @classmethod
    def from_merges(
        cls, vocab: Path | str, merges: Path | str, special_tokens: SpecialTokens | None = None
    ) -> Tokenizer:
        """Read the pair `vocab.json` and `merges.txt` of a byte-level BPE, as GPT-2 publishes them."""
        for path in (vocab, merges):
            _read_text(Path(path))
        try:
            model = models.BPE.from_file(str(vocab), str(merges))
        except Exception as problem:
            raise FolderError(f"{vocab} and {merges} are damaged or not of one tokenizer ({problem}).") from problem
        backend = tokenizers.Tokenizer(model)
        backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        backend.decoder = decoders.ByteLevel()
        usual = {name for names in _USUAL_NAMES.values() for name in names}
        known = backend.get_vocab()
        add_special_tokens(backend, sorted(usual & known.keys(), key=known.__getitem__))
        return cls(backend, special_tokens or _recognize_special_tokens(backend))

    @classmethod
    def from_vocabulary(
        cls, path: Path | str, *, lowercase: bool, special_tokens: SpecialTokens | None = None
    ) -> Tokenizer:
        """Read the `vocab.txt` of a WordPiece, one token a line, as BERT was first published."""
        # Only line feeds end a token: splitlines() would also cut at U+2028 and shift the numbers of all that follow.
        tokens = _read_text(Path(path)).removesuffix("\n").split("\n")
        vocabulary = {token: number for number, token in enumerate(tokens)}
        unknown = next((name for name in _USUAL_NAMES["unknown"] if name in vocabulary), None)
        if unknown is None:
            raise FolderError(f"{path} is damaged or not of a WordPiece: it has no symbol for what is unknown.")
        backend = tokenizers.Tokenizer(models.WordPiece(vocabulary, unk_token=unknown))
        backend.normalizer = normalizers.BertNormalizer(lowercase=lowercase)
        backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        backend.decoder = decoders.WordPiece()
        special = dataclasses.astuple(BERT_SPECIAL_TOKENS)
        add_special_tokens(backend, [token for token in vocabulary if token in special])
        return cls(backend, special_tokens or _recognize_special_tokens(backend))

    def with_special_tokens(self, special_tokens: SpecialTokens) -> Tokenizer:
        """The same tokenizer, whose special tokens have other roles."""
        return Tokenizer(self._backend, special_tokens)

    def with_prefix(self, *names: str) -> Tokenizer:
        """The same tokenizer, whose file says that these symbols come before every text."""
        backend = tokenizers.Tokenizer.from_str(self.to_json())
        known = [(name, backend.token_to_id(name)) for name in names]
        if unknown := [name for name, i in known if i is None]:
            raise FolderError(f"{unknown[0]!r} is to come before every text, but is not in the vocabulary.")
        backend.post_processor = processors.TemplateProcessing(single=[*names, "$A"], special_tokens=known)
        return Tokenizer(backend, self.special_tokens)

    def to_json(self) -> str:
        """What `save` writes, without line breaks."""
        return str(self._backend.to_str())

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Tokenizer):
            return NotImplemented
        return self.special_tokens == other.special_tokens and self.to_json() == other.to_json()

    def __hash__(self) -> int:
        return hash((self.special_tokens, self.to_json()))

    def __repr__(self) -> str:
        return f"Tokenizer(kind={self.kind!r}, vocab_size={self.vocab_size})"

    # Inside -----------------------------------------------------------------------------------------------

    @cached_property
    def _description(self) -> Any:
        return json.loads(self._backend.to_str())

    @cached_property
    def merge_ranks(self) -> dict[tuple[str, str], int]:
        """The pairs of tokens that are merged, each with its rank: the lowest comes first."""
        merges = self._description["model"]["merges"]
        # Files written by older versions of the library hold "a b" in one string.
        pairs = (tuple(merge.split(" ", 1)) if isinstance(merge, str) else tuple(merge) for merge in merges)
        return {(left, right): rank for rank, (left, right) in enumerate(pairs)}

    @cached_property
    def byte_ids(self) -> frozenset[int]:
        """Tokens for single bytes, and those that decoding skips between them; none without byte fallback."""
        if not self._description["model"].get("byte_fallback"):
            return frozenset()
        return frozenset(i for name in BYTE_TOKENS if (i := self._optional_id(name)) is not None) | self._control_ids

    @cached_property
    def _control_ids(self) -> frozenset[int]:
        return self.special_ids - {self.unknown_id}

    def _optional_id(self, name: str | None) -> int | None:
        found: int | None = None if name is None else self._backend.token_to_id(name)
        return found

    def _special_token_id(self, role: str) -> int:
        name = getattr(self.special_tokens, role)
        found = self._optional_id(name)
        if found is None:
            wanted = f"{name!r} is not in its vocabulary" if name else "none is known for it"
            advice = f"give SpecialTokens({role}=...) with the name that its vocabulary uses"
            raise UsageError(f"this tokenizer has no {role} token ({wanted}); {advice}.")
        return found

    def _encoding(self, text: str) -> tokenizers.Encoding:
        try:
            return self._backend.encode(text, add_special_tokens=False)
        except (TypeError, UnicodeEncodeError) as problem:
            _require_text(text, "text")
            raise UsageError(f"this text cannot be encoded: {problem}") from problem

    def _encodings(
        self, texts: Sequence[str], encode: Callable[..., Sequence[tokenizers.Encoding]]
    ) -> Sequence[tokenizers.Encoding]:
        texts = list(texts)
        try:
            return encode(texts, add_special_tokens=False)
        except (TypeError, UnicodeEncodeError) as problem:
            for number, text in enumerate(texts):
                _require_text(text, f"text {number}")
            raise UsageError(f"these texts cannot be encoded: {problem}") from problem

    def _ordinary(self, ids: list[int]) -> list[int]:
        """`ids` with control ids turned into the unknown one.

        Some backends (word level, unigram) look a whole word up, so that a typed "</s>" finds the symbol.
        """
        if self._control_ids.isdisjoint(ids):
            return ids
        replaced = (self.unknown_id if i in self._control_ids else i for i in ids)
        return [i for i in replaced if i is not None]

    def _checked(self, ids: Iterable[int]) -> list[int]:
        checked = [int(i) for i in ids]
        for i in checked:
            if not 0 <= i < self.vocab_size:
                raise UsageError(f"id {i} is not in the vocabulary; ids run from 0 to {self.vocab_size - 1}.")
        return checked

    def _token(self, i: int) -> str:
        token = self._backend.id_to_token(i)
        if token is None:
            raise UsageError(f"id {i} has no token in the vocabulary.")
        return str(token)

    def _merges(self, word: str, leave_out: Callable[[], bool] | None = None) -> Iterator[list[str]]:
        """The symbols of a word as they begin, and after each merge."""
        model = self._description["model"]
        prefix = model.get("continuing_subword_prefix") or ""
        symbols = self._characters(word, prefix, model.get("end_of_word_suffix") or "")
        yield list(symbols)
        if model.get("ignore_merges") and leave_out is None and word in model["vocab"]:
            if symbols != [word]:
                yield [word]
            return
        while True:
            ranked = [
                (self.merge_ranks[pair], place)
                for place, pair in enumerate(itertools.pairwise(symbols))
                if pair in self.merge_ranks and not (leave_out and leave_out())
            ]
            if not ranked:
                return
            _, place = min(ranked)
            merged = symbols[place] + symbols[place + 1].removeprefix(prefix)
            symbols[place : place + 2] = [merged]
            yield list(symbols)

    def _characters(self, word: str, prefix: str, suffix: str) -> list[str]:
        """The symbols that merging begins with; what the vocabulary lacks becomes bytes or unknown."""
        model = self._description["model"]
        symbols: list[str] = []
        for place, character in enumerate(word):
            symbol = (prefix if place else "") + character + (suffix if place == len(word) - 1 else "")
            in_bytes = [BYTE_TOKENS[byte] for byte in symbol.encode("utf-8")]
            if symbol in model["vocab"]:
                symbols.append(symbol)
            elif model.get("byte_fallback") and all(byte in model["vocab"] for byte in in_bytes):
                symbols.extend(in_bytes)
            elif (unknown := model.get("unk_token")) is not None and not (
                model.get("fuse_unk") and symbols[-1:] == [unknown]
            ):
                symbols.append(unknown)
        return symbols


def _json_path(path: Path | str) -> Path:
    path = Path(path)
    return path / FILE_NAME if path.is_dir() else path


def _read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError as problem:
        raise FolderError(f"{path} does not exist; a tokenizer is needed to read or write text.") from problem
    except OSError as problem:
        raise FolderError(f"{path} cannot be read ({problem.strerror}).") from problem
    except UnicodeDecodeError as problem:
        fault = f"byte {problem.start} is not UTF-8"
        raise FolderError(f"{path} is damaged: {fault}. Restore it from where the model came.") from problem


def _without_edges(text: str, start: int, end: int) -> tuple[int, int]:
    """A stretch of a text without the white space at its edges."""
    stretch = text[start:end]
    start += len(stretch) - len(stretch.lstrip())
    return start, start + len(stretch.strip())


def _require_text(text: object, what: str) -> None:
    if not isinstance(text, str):
        raise UsageError(f"{what} must be a str, got {type(text).__name__}.")
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as problem:
        half = f"half of a character (lone surrogate U+{ord(text[problem.start]):04X})"
        raise UsageError(f"{what} has {half} at position {problem.start}; read the text as UTF-8.") from problem


def add_special_tokens(backend: tokenizers.Tokenizer, names: Iterable[str]) -> None:
    """Make `names` special tokens, which no normalization changes."""
    backend.add_special_tokens([tokenizers.AddedToken(name, special=True, normalized=False) for name in names])


def _recognize_special_tokens(backend: tokenizers.Tokenizer) -> SpecialTokens:
    special = {i: token.content for i, token in backend.get_added_tokens_decoder().items() if token.special}
    vocabulary = backend.get_vocab(with_added_tokens=True)
    found: dict[str, Any] = {
        role: next((name for name in names if name in vocabulary), None) for role, names in _USUAL_NAMES.items()
    }
    if getattr(backend.model, "unk_token", None):
        found["unknown"] = backend.model.unk_token
    for place, role in enumerate(("pad", "unknown", "start", "end")):  # as tokenizers trained here number them
        if found[role] is None and place in special and special[place] not in found.values():
            found[role] = special[place]
    return SpecialTokens(**found)
