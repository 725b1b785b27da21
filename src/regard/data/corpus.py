"""Encode plain text of any size as one long array of token ids.

A corpus is one or more files or folders with plain text or with JSON lines that have a "text"; each file may be .gz.
The corpus is read in chunks, so it may be larger than memory. The end token follows each document in the array. The ids
of a large corpus are computed once and cached in a file that later runs map into memory.
"""

from __future__ import annotations

import codecs
import contextlib
import gzip
import hashlib
import io
import json
import os
import shutil
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from regard.data.batches import validation_size
from regard.data.files import decode, decode_error, file_error, refuse_utf16
from regard.tokenizers.tokenizer import Tokenizer
from regard.utils.atomic_files import Content, write_file
from regard.utils.errors import DataError, FolderError, UsageError, shorten_list

Ids = npt.NDArray[Any]
BinaryFile = io.BufferedReader | gzip.GzipFile

CHUNK_BYTES = 1 << 20  # amount of text that is encoded at a time
MAX_IN_MEMORY = 1 << 26  # bytes of text; the ids of a larger corpus are cached
SAMPLE_BYTES = 1 << 25  # size of the sample of a large corpus on which a tokenizer is trained
TEXT_SUFFIXES = (".txt", ".md", ".text", ".jsonl", ".py")
SMALL_FILE = 1 << 12  # bytes; larger files in a folder are assumed not to be empty
CACHE_VARIABLE = "REGARD_CACHE"  # environment variable that sets the cache folder
MAX_CACHE_BYTES = 1 << 34  # beyond this, the least recently used entries are deleted


class Chunk(NamedTuple):
    """A part of a document's text, and whether the document ends with it."""

    text: str
    ends: bool


@dataclass(frozen=True)
class Corpus:
    """Text files that are read when they are needed."""

    files: tuple[Path, ...]
    num_empty: int = 0  # ignored empty files in folders

    @classmethod
    def find(cls, paths: Iterable[Path | str]) -> Corpus:
        """Return a corpus of the files in `paths` and of all non-empty text files in folders, sorted by name."""
        files: list[Path] = []
        num_empty = 0
        for path in map(Path, paths):
            if path.is_dir():
                inside = sorted(file for file in path.rglob("*") if file.is_file() and _is_text_name(file))
                if not inside:
                    message = f"{path} must contain text files ({', '.join(TEXT_SUFFIXES)}, plain or .gz)."
                    raise UsageError(message, path=path, allowed=TEXT_SUFFIXES)
                filled = [file for file in inside if not _is_empty(file)]
                if not filled:
                    raise DataError(f"all text files in {path} are empty. Give files that contain text.", path=path)
                files += filled
                num_empty += len(inside) - len(filled)
            elif path.exists():
                files.append(path)
            else:
                raise UsageError(f"{path} does not exist. Check the path.", path=path)
        if not files:
            raise UsageError("a corpus must have at least one file.", argument="data")
        return cls(tuple(files), num_empty)

    def notes(self) -> list[str]:
        """Return notes about the files for the user."""
        return [f"data: ignored {self.num_empty:,} empty files"] if self.num_empty else []

    def chunks(self) -> Iterator[Chunk]:
        """Yield all documents in chunks; raise an error if a file is empty or not text."""
        for file in self.files:
            is_empty = True
            for chunk in _read(file):
                is_empty = is_empty and not chunk.text.strip()
                yield chunk
            if is_empty:
                raise DataError(f"{file} is empty. Give a file that contains text.", path=file)

    def size(self) -> int:
        """Return the size of the files on disk in bytes."""
        return sum(file.stat().st_size for file in self.files)

    def is_small(self) -> bool:
        packed = any(file.suffix.lower() == ".gz" for file in self.files)
        return self.size() * (4 if packed else 1) <= MAX_IN_MEMORY

    def sample(self, max_bytes: int = SAMPLE_BYTES) -> Iterator[str]:
        """Yield text for training a tokenizer: all chunks, or every n-th chunk of a large corpus."""
        every = max(1, round(self.size() / max_bytes))
        for number, chunk in enumerate(self.chunks()):
            if number % every == 0:
                yield chunk.text

    def fingerprint(self) -> list[list[Any]]:
        """Return path, size and modification time of each file, which identify the corpus without reading it."""
        stats = [(file.resolve(), file.stat()) for file in self.files]
        return [[str(path), stat.st_size, stat.st_mtime_ns] for path, stat in stats]

    def __str__(self) -> str:
        return shorten_list([file.name for file in self.files])


# --- Ids and their cache ------------------------------------------------------------------------------------


def corpus_ids(corpus: Corpus, tokenizer: Tokenizer) -> Ids:
    """Return the ids of a corpus, with the end token after each document; a large array is memory-mapped."""
    if corpus.is_small():
        return np.concatenate(list(_encoded(corpus, tokenizer)))
    with cache_folder({"files": corpus.fingerprint(), "tokenizer": digest(tokenizer.to_json())}) as folder:
        file = folder / "ids.bin"
        if not file.exists():
            write_arrays(file, _encoded(corpus, tokenizer), corpus.size())
        return np.memmap(file, id_type(tokenizer), "r")


def learned_tokenizer(
    corpus: Corpus, request: dict[str, Any], learn: Callable[[Iterator[str]], Tokenizer]
) -> Tokenizer:
    """Train a tokenizer on the corpus with `learn`. The tokenizer of a large corpus is cached under `request`."""
    if corpus.is_small():
        return learn(corpus.sample())
    with cache_folder({"files": corpus.fingerprint(), "request": request}) as folder:
        file = folder / "tokenizer.json"
        if not file.exists():
            write_file(file, learn(corpus.sample()).to_json())
        return Tokenizer.load(file)


@contextlib.contextmanager
def cache_folder(key: dict[str, Any]) -> Iterator[Path]:
    """Open the cache folder for `key`, then delete old entries."""
    home = Path(os.environ.get(CACHE_VARIABLE) or Path.home() / ".cache" / "regard")
    folder = home / "corpus" / digest(json.dumps(key, sort_keys=True))
    try:
        folder.mkdir(parents=True, exist_ok=True)
        os.utime(folder)  # record the time of its last use
        yield folder
        _delete_old(folder)
    except (OSError, FolderError) as problem:
        advice = f"Set the environment variable {CACHE_VARIABLE} to a writable folder with enough space."
        message = f"cannot cache the corpus in {folder} ({problem}). {advice}"
        raise DataError(message, path=folder, argument=CACHE_VARIABLE) from problem


def _delete_old(newest: Path) -> None:
    """Delete the least recently used entries until at most `MAX_CACHE_BYTES` remain, but never `newest`.

    A process that has mapped a deleted file can still read it. On systems that do not allow this, the file is kept.
    """
    with contextlib.suppress(OSError):  # another process may delete the same entries
        others = [folder for folder in newest.parent.iterdir() if folder.is_dir() and folder != newest]
        sizes = {folder: sum(file.stat().st_size for file in folder.iterdir()) for folder in (newest, *others)}
        for folder in sorted(others, key=lambda folder: folder.stat().st_mtime):
            if sum(sizes.values()) <= MAX_CACHE_BYTES:
                return
            shutil.rmtree(folder, ignore_errors=True)
            del sizes[folder]


def _encoded(corpus: Corpus, tokenizer: Tokenizer) -> Iterator[Ids]:
    dtype = id_type(tokenizer)
    end = np.array([tokenizer.end_id], dtype=dtype)
    for text, ends in corpus.chunks():
        yield tokenizer.encode_array(text).astype(dtype)
        if ends:
            yield end


def id_type(tokenizer: Tokenizer) -> npt.DTypeLike:
    return np.uint16 if tokenizer.vocab_size <= 1 << 16 else np.uint32


def write_arrays(path: Path, parts: Iterable[Ids], num_bytes: int) -> None:
    """Write arrays one after the other, without a header; `num_bytes` is an estimate of their total size."""
    write_file(path, Content(num_bytes, lambda: (part.tobytes() for part in parts)))


def digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8")).hexdigest()[:24]


# --- Files --------------------------------------------------------------------------------------------------


def is_json_lines(path: Path) -> bool:
    """Return whether a file name has the suffix of JSON lines."""
    return _suffix(path) == ".jsonl"


def _suffix(path: Path) -> str:
    return Path(path.name.lower().removesuffix(".gz")).suffix


def _is_text_name(path: Path) -> bool:
    return _suffix(path) in TEXT_SUFFIXES and not path.name.startswith(".")


def _is_empty(path: Path) -> bool:
    """Return whether a small file has only white space. Other problems are reported when the file is read."""
    try:
        return path.stat().st_size <= SMALL_FILE and not any(chunk.text.strip() for chunk in _read(path))
    except (DataError, UsageError):
        return False


def _read(path: Path) -> Iterator[Chunk]:
    try:
        with gzip.open(path, "rb") if path.suffix.lower() == ".gz" else path.open("rb") as file:
            yield from _json_chunks(path, file) if is_json_lines(path) else _text_chunks(path, file)
    except (OSError, EOFError, zlib.error) as problem:
        raise file_error(path, problem) from problem


def _text_chunks(path: Path, file: BinaryFile) -> Iterator[Chunk]:
    """Yield the chunks of a text file, which is one document. Chunks end at a line end if possible."""
    decoder = codecs.getincrementaldecoder("utf-8-sig")()  # a chunk of a very long line may end inside a character
    line = 1
    data = file.read(CHUNK_BYTES)
    refuse_utf16(data, path)
    while data:
        data += file.readline(CHUNK_BYTES)
        following = file.read(CHUNK_BYTES)
        if b"\0" in data:
            line += data.count(b"\n", 0, data.index(b"\0"))
            raise DataError(f"{path}:{line}: the line contains a NUL byte. Give a text file.", path=path, line=line)
        try:
            text = decoder.decode(data, final=not following)
        except UnicodeDecodeError as problem:
            raise decode_error(path, line, problem) from None
        line += data.count(b"\n")
        yield Chunk(text.replace("\r\n", "\n"), ends=not following)
        data = following


def _json_chunks(path: Path, file: BinaryFile) -> Iterator[Chunk]:
    """Yield each line of a JSON lines file as one document."""
    for number, data in enumerate(file, start=1):
        if not data.strip():
            continue
        try:
            row = json.loads(decode(data, path, number))
        except json.JSONDecodeError as problem:
            message = f"{path}:{number}: not valid JSON ({problem.msg}). Write one object per line."
            raise DataError(message, path=path, line=number) from None
        text = row.get("text") if isinstance(row, dict) else None
        if not isinstance(text, str):
            message = f'{path}:{number}: no "text" string. Write one object such as {{"text": "…"}} per line.'
            raise DataError(message, path=path, line=number)
        if text:
            yield Chunk(text, ends=True)


# --- Training windows ---------------------------------------------------------------------------------------


def split_ids(ids: Ids, *, fraction: float, max_tokens: int) -> tuple[Ids, Ids]:
    """Split ids into (train, validation). The last `fraction`, but at most `max_tokens` ids, are for validation."""
    num_validation = validation_size(len(ids), fraction, max_tokens)
    return ids[: len(ids) - num_validation], ids[len(ids) - num_validation :]


def window_starts(count: int, *, context: int, seed: int, epoch: int) -> npt.NDArray[np.int64]:
    """Return the start indices of an epoch's windows, which do not overlap, in random order.

    Each epoch begins at a random offset, so the windows differ between epochs.
    """
    if count <= context:
        needed = f"at least {context + 1:,} tokens for --context-length {context}"
        advice = "Give a longer text or a smaller --context-length."
        message = f"the text must have {needed}, got {count:,}. {advice}"
        raise DataError(message, argument="context_length", value=context)
    random = np.random.default_rng([seed, epoch])
    spare = (count - 1) % context if epoch == 0 else min(context, count - context)
    offset = int(random.integers(0, spare)) if spare else 0
    starts: npt.NDArray[np.int64] = offset + context * np.arange((count - 1 - offset) // context, dtype=np.int64)
    return random.permutation(starts)


class WindowBatches(Sequence[list[int]]):
    """The batches of window starts for one of `world_size` processes, each with at most `rows` starts."""

    def __init__(self, starts: npt.NDArray[np.int64], rows: int, *, rank: int = 0, world_size: int = 1) -> None:
        self._starts, self._rows, self._rank, self._world_size = starts, rows, rank, world_size
        self._num_batches = -(-len(starts) // rows)

    def __len__(self) -> int:
        return -(-self._num_batches // self._world_size)

    def __getitem__(self, index: Any) -> Any:
        number = range(len(self))[index]
        if isinstance(number, range):  # of a slice
            return [self[i] for i in number]
        batch = (number * self._world_size + self._rank) % self._num_batches
        return self._starts[batch * self._rows : (batch + 1) * self._rows].tolist()
