"""Plain text → documents → sentences → ids, with the places where documents and sentences begin.

What belongs together is what an author wrote together. In a text file a blank line ends a document. A heading, as
WikiText (`= Title =`) or Markdown (`# Title`) writes it, opens one; what stands under a heading goes on to the next
heading, so that blank lines there part paragraphs only. A line of JSON is a document whatever is in it. A sentence
ends with its mark, and at the latest with its line; so a file with one sentence a line is read as it is meant.

The ids of a large corpus are kept in files that are mapped into memory, and so are the places.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from regard.data.corpus import (
    Corpus,
    Ids,
    digest,
    is_json_lines,
    kept_corpus,
    type_of,
    whole_file,
    write_ids,
)
from regard.errors import DataError, UsageError
from regard.text.tokenizer import Tokenizer

Places = npt.NDArray[np.int64]

HEADING = re.compile(
    r"\s*(?:(?:=\s?)+\s*(?P<wiki>[^=\s](?:.*[^=\s])?)\s*(?:=\s?)+|#{1,6}\s+(?P<markdown>\S.*?)\s*)\s*$"
)
MARK = re.compile(r"[.!?…।]+[\"'”’»)\]_*]*\s+|[。！？]+[」』”’）]*\s*")  # what ends a sentence, as a rule
OPENING = "\"'“‘«([_* "
NEAR = 8  # characters after a mark among which the next word begins
LONGEST_HEADING = 200  # characters
# Words that a full stop belongs to, and that a name or a number usually follows.
SHORT = re.compile(
    r"mr|mrs|ms|messrs|mme|mlle|dr|prof|rev|hon|st|sr|jr|gen|col|maj|capt|lt|sgt|gov|sen|rep|vs|no|vol|pp|ch|fig|e\.g|i\.e"
    r"|cf|al|jan|feb|mar|apr|jun|jul|aug|sep|sept|oct|nov|dec",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Documents:
    """Ids in one row, and where sentences and documents begin in it."""

    ids: Ids
    sentences: Places  # the first id of each sentence, and at the end the number of ids
    documents: Places  # the first sentence of each document, and at the end the number of sentences
    words: int  # of the text, as spaces part them

    def __len__(self) -> int:
        """The number of documents."""
        return len(self.documents) - 1

    @property
    def num_sentences(self) -> int:
        return len(self.sentences) - 1

    def split(self, *, share: float, most: int) -> tuple[Documents, Documents]:
        """The beginning to learn from and the end to validate on: about `share` of the ids, at most `most`.

        The cut is made between two sentences. The document in which it falls becomes two.
        """
        if not 0 < share < 1:
            raise UsageError(f"validation_share must lie between 0 and 1, as 0.1 does, not {share}.")
        if self.num_sentences < 2:
            raise DataError(
                f"the text has {self.num_sentences} sentence, too few to learn from some and be judged on others. Give "
                f"a longer text."
            )
        held = min(round(share * len(self.ids)), most)
        cut = int(np.searchsorted(self.sentences, len(self.ids) - held))
        cut = min(max(cut, 1), self.num_sentences - 1)
        return self._part(0, cut), self._part(cut, self.num_sentences)

    def _part(self, first: int, last: int) -> Documents:
        """The sentences from `first` up to `last`."""
        begin, end = int(self.sentences[first]), int(self.sentences[last])
        inside = self.documents[(self.documents > first) & (self.documents < last)]
        documents = np.concatenate([[first], inside, [last]]).astype(np.int64) - first
        sentences = self.sentences[: last + 1] if first == 0 else self.sentences[first : last + 1] - begin
        words = round(self.words * (end - begin) / max(1, len(self.ids)))
        return Documents(self.ids[begin:end], sentences, documents, words)


class Line(NamedTuple):
    """A sentence, and whether a document begins with it."""

    text: str
    opens: bool


def read_documents(corpus: Corpus, tokenizer: Tokenizer, *, longest: int) -> Documents:
    """A corpus in sentences of at most `longest` ids: longer ones are cut. A large one is mapped from files."""
    if corpus.is_small():
        return _gathered(_encoded(_stretches(corpus), tokenizer, longest))
    key = {"files": corpus.fingerprint(), "tokenizer": digest(tokenizer.to_json()), "sentences": longest}
    with kept_corpus(key) as folder:
        if not (folder / "documents.npy").exists():  # it is written last
            _write(folder, _encoded(_stretches(corpus), tokenizer, longest), type_of(tokenizer))
        ids, sentences, documents = (
            np.load(folder / f"{name}.npy", mmap_mode="r") for name in ("ids", "sentences", "documents")
        )
        return Documents(ids, sentences, documents, int(np.load(folder / "words.npy")))


def documents_of(texts: Iterable[str], tokenizer: Tokenizer, *, longest: int) -> Documents:
    """Each text a document, whatever is in it."""
    return _gathered(_encoded(([*_lines(text, _State(whole=True))] for text in texts), tokenizer, longest))


def split_sentences(text: str) -> list[str]:
    """The sentences of a line or a paragraph, by their marks.

    A mark ends a sentence unless a small letter follows or it belongs to an abbreviation or an initial.
    """
    found, begin = [], 0
    for mark in MARK.finditer(text):
        following = text[mark.end() : mark.end() + NEAR].lstrip(OPENING)[:1]
        if following.islower() or _is_short(text[begin : mark.start()], mark.group()):
            continue
        found.append(text[begin : mark.end()].strip())
        begin = mark.end()
    found.append(text[begin:].strip())
    return [sentence for sentence in found if sentence]


def _is_short(before: str, mark: str) -> bool:
    """Whether the full stop after `before` belongs to an abbreviation, or to an initial as in J. S. Bach."""
    if mark.rstrip() != ".":
        return False
    word = before[before.rfind(" ") + 1 :].lstrip(OPENING)
    return (len(word) == 1 and word.isupper() and word != "I") or SHORT.fullmatch(word) is not None


class _State:
    """What was read before: whether a heading opened the document, and what the document has so far."""

    def __init__(self, *, whole: bool = False) -> None:
        self.whole = whole  # nothing ends the document but its end
        self.headed = False
        self.is_new = True
        self.only_headings = False


def _lines(text: str, state: _State) -> Iterator[Line]:
    """The sentences of a stretch of text that ends with a line."""
    for line in text.removesuffix("\n").split("\n"):
        heading = HEADING.match(line) if len(line) <= LONGEST_HEADING and not state.whole else None
        if heading:
            # A title and the title of its first part belong together.
            opens = state.is_new or not state.only_headings
            yield Line((heading["wiki"] or heading["markdown"]).strip(), opens)
            state.headed, state.is_new, state.only_headings = True, False, True
        elif not line.strip():
            state.is_new = state.is_new or not (state.headed or state.whole)
        else:
            for sentence in split_sentences(line):
                yield Line(sentence, state.is_new)
                state.is_new = state.only_headings = False


def _stretches(corpus: Corpus) -> Iterator[list[Line]]:
    for file in corpus.files:
        state = _State(whole=is_json_lines(file))
        for text, ends in Corpus((file,)).stretches():
            yield [*_lines(text, state)]
            if ends:
                state = _State(whole=state.whole)


class _Encoded(NamedTuple):
    """A stretch of text in ids."""

    ids: Ids
    lengths: Places  # of its sentences
    opens: npt.NDArray[np.bool_]  # whether a document begins with the sentence
    words: int


def _encoded(stretches: Iterable[Sequence[Line]], tokenizer: Tokenizer, longest: int) -> Iterator[_Encoded]:
    if longest < 1:
        raise UsageError(f"a sentence must have room for at least 1 piece, not {longest}.")
    opening = False  # a document whose first sentence had no piece opens with the next
    for lines in _together(stretches):
        lengths: list[int] = []
        opens: list[bool] = []
        rows = tokenizer.encode_batch([line.text for line in lines])
        for row, line in zip(rows, lines, strict=True):
            opening = opening or line.opens
            for begin in range(0, len(row), longest):
                lengths.append(min(longest, len(row) - begin))
                opens.append(opening)
                opening = False
        ids = np.fromiter(itertools.chain.from_iterable(rows), type_of(tokenizer), sum(lengths))
        words = sum(len(line.text.split()) for line in lines)
        yield _Encoded(ids, np.array(lengths, dtype=np.int64), np.array(opens, dtype=bool), words)


def _together(stretches: Iterable[Sequence[Line]], enough: int = 1 << 12) -> Iterator[list[Line]]:
    """Sentences of several short stretches at once: many cost little more than a few."""
    waiting: list[Line] = []
    for lines in stretches:
        waiting += lines
        if len(waiting) >= enough:
            yield waiting
            waiting = []
    if waiting:
        yield waiting


def _gathered(parts: Iterable[_Encoded]) -> Documents:
    found = list(parts)
    places = _places(found)
    return Documents(np.concatenate([part.ids for part in found]), *places)


def _write(folder: Path, parts: Iterable[_Encoded], kind: npt.DTypeLike) -> None:
    """Ids go to their file as they come; of the rest only lengths stay in memory."""
    known: list[_Encoded] = []

    def rows() -> Iterator[Ids]:
        for part in parts:
            known.append(part._replace(ids=part.ids[:0]))
            yield part.ids

    write_ids(folder / "ids.npy", rows(), kind)
    sentences, documents, words = _places(known)
    arrays: dict[str, Any] = {"words": np.array(words), "sentences": sentences, "documents": documents}
    for name, array in arrays.items():
        with whole_file(folder / f"{name}.npy") as path, path.open("wb") as file:
            np.save(file, array)


def _places(parts: Sequence[_Encoded]) -> tuple[Places, Places, int]:
    """Where sentences and documents begin, and the number of words."""
    if not any(len(part.lengths) for part in parts):
        raise DataError("there are no sentences in the text. Give a text with words in it.")
    lengths = np.concatenate([part.lengths for part in parts])
    opens = np.concatenate([part.opens for part in parts])
    sentences = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(lengths)])
    documents = np.append(np.flatnonzero(opens), len(lengths)).astype(np.int64)
    return sentences, documents, sum(part.words for part in parts)
