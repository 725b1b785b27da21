"""Plain text of any size → one long row of ids.

A corpus is a file, several files or a folder of them: text or JSON lines with a "text", each plain or .gz. It is
read a stretch at a time, so that it may be larger than memory, and ends up as a row of ids with the end symbol after
each document. A large corpus is cut into ids once: the row is kept in a file that later runs map into memory.
"""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import json
import os
import shutil
import tempfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from regard.errors import DataError, UsageError, some
from regard.text.tokenizer import Tokenizer

Ids = npt.NDArray[Any]

STRETCH = 1 << 20  # bytes of text that are cut into ids at a time
IN_MEMORY = 1 << 26  # bytes of text: a corpus up to this size is cut anew in each run, in seconds
SAMPLE = 1 << 25  # bytes of a large corpus that its vocabulary is learned from
TEXT_SUFFIXES = (".txt", ".md", ".text", ".jsonl", ".py")
SMALL_FILE = 1 << 12  # bytes: a file of a folder that is larger is not looked into before it is read
CACHE = "REGARD_CACHE"  # the environment variable that names another folder for ids
MOST_KEPT = 1 << 34  # bytes of that folder: beyond it, what was not used for the longest time is deleted


class _EmptyFileError(DataError):
    def __init__(self, path: Path) -> None:
        super().__init__(f"{path} is empty. Give a file with text in it.")


class Stretch(NamedTuple):
    """Some of a document's text; documents end where `ends` says so."""

    text: str
    ends: bool


@dataclass(frozen=True)
class Corpus:
    """Files of text, found and named but not yet read."""

    files: tuple[Path, ...]
    passed_over: int = 0  # empty files that lay in folders

    @classmethod
    def find(cls, paths: Iterable[Path | str]) -> Corpus:
        """Files as they are named; of a folder, all text files in it but empty ones, in the order of their names."""
        files: list[Path] = []
        passed_over = 0
        for path in map(Path, paths):
            if path.is_dir():
                inside = sorted(file for file in path.rglob("*") if file.is_file() and _is_text_name(file))
                if not inside:
                    raise UsageError(f"{path} holds no text files ({', '.join(TEXT_SUFFIXES)}, plain or .gz).")
                filled = [file for file in inside if not _is_empty(file)]
                if not filled:
                    raise DataError(f"{path} holds nothing but empty files. Give files with text in them.")
                files += filled
                passed_over += len(inside) - len(filled)
            elif path.exists():
                files.append(path)
            else:
                raise UsageError(f"{path} does not exist. Check the path of the text.")
        if not files:
            raise UsageError("a corpus needs at least one file.")
        return cls(tuple(files), passed_over)

    def remarks(self) -> list[str]:
        """What somebody who gave these files may want to know."""
        return [f"data: empty files passed over: {self.passed_over:,}"] if self.passed_over else []

    def stretches(self) -> Iterator[Stretch]:
        """All text, document by document, a stretch at a time; raises where something is not text."""
        for file in self.files:
            yield from _read(file)

    def size(self) -> int:
        """Bytes on disk."""
        return sum(file.stat().st_size for file in self.files)

    def is_small(self) -> bool:
        packed = any(file.suffix.lower() == ".gz" for file in self.files)
        return self.size() * (4 if packed else 1) <= IN_MEMORY

    def sample(self, most: int = SAMPLE) -> Iterator[str]:
        """Text to learn a vocabulary from: all of it, or every n-th stretch of a large corpus."""
        every = max(1, round(self.size() / most))
        for number, stretch in enumerate(self.stretches()):
            if number % every == 0:
                yield stretch.text

    def fingerprint(self) -> list[list[Any]]:
        """What tells one corpus from another without reading it: names, sizes and times of its files."""
        stats = [(file.resolve(), file.stat()) for file in self.files]
        return [[str(path), stat.st_size, stat.st_mtime_ns] for path, stat in stats]

    def __str__(self) -> str:
        return some([file.name for file in self.files])


def corpus_ids(corpus: Corpus, tokenizer: Tokenizer) -> Ids:
    """The whole corpus in one row, the end symbol after each document; of a large one, mapped from a file."""
    if corpus.is_small():
        return np.concatenate(list(_encoded(corpus, tokenizer)))
    with kept_corpus({"files": corpus.fingerprint(), "tokenizer": digest(tokenizer.to_json())}) as folder:
        if not (folder / "ids.npy").exists():
            write_ids(folder / "ids.npy", _encoded(corpus, tokenizer), type_of(tokenizer))
        return np.load(folder / "ids.npy", mmap_mode="r")  # type: ignore[no-any-return]


def learned_tokenizer(
    corpus: Corpus, request: dict[str, Any], learn: Callable[[Iterator[str]], Tokenizer]
) -> Tokenizer:
    """The tokenizer that `learn` makes of the corpus; that of a large one is kept, found again by `request`."""
    if corpus.is_small():
        return learn(corpus.sample())
    with kept_corpus({"files": corpus.fingerprint(), "request": request}) as folder:
        file = folder / "tokenizer.json"
        if not file.exists():
            made = learn(corpus.sample())
            with whole_file(file) as path:
                path.write_text(made.to_json(), encoding="utf-8")
        return Tokenizer.load(file)


@contextlib.contextmanager
def kept_corpus(key: dict[str, Any]) -> Iterator[Path]:
    """A folder for what was computed from a corpus, found again by `key`. It pushes old ones out."""
    home = Path(os.environ.get(CACHE) or Path.home() / ".cache" / "regard")
    folder = home / "corpus" / digest(json.dumps(key, sort_keys=True))
    try:
        folder.mkdir(parents=True, exist_ok=True)
        os.utime(folder)  # the time of its last use
        yield folder
        _prune(folder)
    except OSError as problem:
        raise DataError(
            f"the ids of the corpus cannot be kept in {folder} ({problem.strerror}). Name a folder with room in the "
            f"environment variable {CACHE}."
        ) from problem


def _prune(newest: Path) -> None:
    """Delete what was not used for the longest time, until no more than `MOST_KEPT` bytes are kept or one folder is.

    Who has mapped a file goes on reading it where the system allows that; where it does not, the file stays.
    """
    with contextlib.suppress(OSError):  # another process may be at it
        others = [folder for folder in newest.parent.iterdir() if folder.is_dir() and folder != newest]
        sizes = {folder: _size(folder) for folder in (newest, *others)}
        for folder in sorted(others, key=lambda folder: folder.stat().st_mtime):
            if sum(sizes.values()) <= MOST_KEPT:
                return
            shutil.rmtree(folder, ignore_errors=True)
            del sizes[folder]


def _size(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.iterdir())


def _encoded(corpus: Corpus, tokenizer: Tokenizer) -> Iterator[Ids]:
    kind = type_of(tokenizer)
    end = np.array([tokenizer.end_id], dtype=kind)
    for text, ends in corpus.stretches():
        yield tokenizer.encode_array(text).astype(kind)
        if ends:
            yield end


def type_of(tokenizer: Tokenizer) -> npt.DTypeLike:
    return np.uint16 if tokenizer.vocab_size <= 1 << 16 else np.uint32


def write_ids(path: Path, rows: Iterable[Ids], kind: npt.DTypeLike) -> None:
    """A .npy file, written as the ids come: its header is made when their number is known."""
    with tempfile.TemporaryFile(dir=path.parent) as raw, whole_file(path) as target:
        count = 0
        for row in rows:
            raw.write(row.tobytes())
            count += len(row)
        raw.seek(0)
        with target.open("wb") as file:
            header = {"descr": np.lib.format.dtype_to_descr(np.dtype(kind)), "fortran_order": False, "shape": (count,)}
            np.lib.format.write_array_header_1_0(file, header)
            shutil.copyfileobj(raw, file, 1 << 24)
            file.flush()
            os.fsync(file.fileno())


@contextlib.contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """A path to write to that becomes `path` when all is written, so that a half-written file is never read."""
    unfinished = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    try:
        yield unfinished
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)


def digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8")).hexdigest()[:24]


def _kind(path: Path) -> str:
    return Path(path.stem).suffix.lower() if path.suffix.lower() == ".gz" else path.suffix.lower()


def is_json_lines(path: Path) -> bool:
    """Whether each line of a file is an object with a document."""
    return _kind(path) == ".jsonl"


def _is_text_name(path: Path) -> bool:
    return _kind(path) in TEXT_SUFFIXES and not path.name.startswith(".")


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[BufferedReader | gzip.GzipFile]:
    try:
        with gzip.open(path, "rb") if path.suffix.lower() == ".gz" else path.open("rb") as file:
            yield file
    except (gzip.BadGzipFile, EOFError, zlib.error) as problem:
        raise DataError(f"{path} is not a complete gzip file ({problem}). Fetch or compress it again.") from problem
    except OSError as problem:
        raise UsageError(f"{path} cannot be read ({problem.strerror}).") from problem


def _read(path: Path) -> Iterator[Stretch]:
    return _jsonl(path) if is_json_lines(path) else _plain(path)


def _is_empty(path: Path) -> bool:
    """Whether nothing but space is in a small file; what else may be wrong with it is said when it is read."""
    try:
        return path.stat().st_size <= SMALL_FILE and not any(stretch.text.strip() for stretch in _read(path))
    except _EmptyFileError:
        return True
    except (DataError, UsageError):
        return False


def _plain(path: Path) -> Iterator[Stretch]:
    """A text file is one document. Stretches end at the end of a line, so that no word is cut in two."""
    empty, line = True, 1
    with _opened(path) as file:
        data = file.read(STRETCH)
        while data:
            rest = file.readline(STRETCH)
            data += rest
            following = file.read(STRETCH)
            # A line that is longer than a stretch may end within a character.
            while following and not _whole_characters(data):
                data, following = data + following[:1], following[1:] or file.read(STRETCH)
            text = _decoded(path, data, line)
            empty = empty and not text.strip()
            line += data.count(b"\n")
            yield Stretch(text, ends=not following)
            data = following
    if empty:
        raise _EmptyFileError(path)


def _jsonl(path: Path) -> Iterator[Stretch]:
    """A line is a document."""
    empty = True
    with _opened(path) as file:
        for number, data in enumerate(file, start=1):
            if not data.strip():
                continue
            try:
                row = json.loads(_decoded(path, data, number))
            except json.JSONDecodeError as problem:
                raise DataError(f"{path}:{number}: not JSON ({problem.msg}). Write one object a line.") from None
            text = row.get("text") if isinstance(row, dict) else None
            if not isinstance(text, str):
                raise DataError(f'{path}:{number}: no "text". Write objects such as {{"text": "…"}}, one a line.')
            if text:
                empty = False
                yield Stretch(text, ends=True)
    if empty:
        raise _EmptyFileError(path)


def _whole_characters(data: bytes) -> bool:
    """Whether the last character is complete: up to three bytes of a longer one may still be to come."""
    for back in range(1, min(4, len(data)) + 1):
        byte = data[-back]
        if byte & 0b1100_0000 != 0b1000_0000:  # the first byte of a character
            length = 1 if byte < 0x80 else 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
            return back >= length
    return True


def _decoded(path: Path, data: bytes, line: int) -> str:
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise DataError(f"{path} is UTF-16, not UTF-8. Save it again as UTF-8.")
    if b"\0" in data:
        where = line + data[: data.index(b"\0")].count(b"\n")
        raise DataError(f"{path}:{where}: a NUL byte. This is not a text file.")
    try:
        return data.decode("utf-8").removeprefix("\ufeff").replace("\r\n", "\n")
    except UnicodeDecodeError as problem:
        where = line + data[: problem.start].count(b"\n")
        raise DataError(
            f"{path}:{where}: not valid UTF-8 (byte 0x{data[problem.start]:02X}). Save the file as UTF-8."
        ) from None


def split_ids(ids: Ids, *, share: float, most: int) -> tuple[Ids, Ids]:
    """The row's beginning to learn from and its end to validate on: `share` of it, but at most `most` ids."""
    if not 0 < share < 1:
        raise UsageError(f"validation_share must lie between 0 and 1, as 0.1 does, not {share}.")
    held = min(round(share * len(ids)), most)
    return ids[: len(ids) - held], ids[len(ids) - held :]


def windows(count: int, *, context: int, seed: int, epoch: int) -> npt.NDArray[np.int64]:
    """Where the windows of an epoch begin: all of the row, in windows without overlap, in random order.

    Another epoch begins at another place, so that windows are cut differently each time.
    """
    if count <= context:
        raise DataError(
            f"the text has {count:,} tokens, too few for a context of {context}: it takes at least {context + 1:,}. "
            f"Give a longer text or a shorter --context."
        )
    random = np.random.default_rng([seed, epoch])
    spare = (count - 1) % context if epoch == 0 else min(context, count - context)
    offset = int(random.integers(0, spare)) if spare else 0
    starts: npt.NDArray[np.int64] = offset + context * np.arange((count - 1 - offset) // context, dtype=np.int64)
    return random.permutation(starts)


class WindowBatches(Sequence[list[int]]):
    """Windows dealt into batches of so many rows; this process's share of them, when several train together."""

    def __init__(self, starts: npt.NDArray[np.int64], rows: int, *, rank: int = 0, world_size: int = 1) -> None:
        self._starts, self._rows, self._rank, self._world_size = starts, rows, rank, world_size
        self._batches = -(-len(starts) // rows)

    def __len__(self) -> int:
        return -(-self._batches // self._world_size)

    def __getitem__(self, number: Any) -> Any:
        if not isinstance(number, int):
            return [self[one] for one in range(len(self))[number]]
        if not -len(self) <= number < len(self):
            raise IndexError(number)
        batch = (number % len(self) * self._world_size + self._rank) % self._batches
        return self._starts[batch * self._rows : (batch + 1) * self._rows].tolist()
