"""Split plain text into documents and sentences, and encode them as ids.

In a text file, a blank line ends a document. A heading in WikiText (`= Title =`) or Markdown (`# Title`) begins a
document that extends to the next heading; blank lines after a heading only separate paragraphs. In JSON lines, each
line is a document. A sentence ends at its final punctuation or at the end of the line.

For a large corpus, ids and indices are cached in files that are mapped into memory.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from regard.data.batches import validation_size
from regard.data.corpus import Corpus, Ids, cache_folder, digest, id_type, is_json_lines, write_arrays
from regard.tokenizers.tokenizer import Tokenizer
from regard.utils.errors import DataError, UsageError

Places = npt.NDArray[np.int64]
Sentence = tuple[str, bool]  # its text, and whether it is the first of a document

HEADING = re.compile(
    r"\s*(?:(?:=\s?)+\s*(?P<wiki>[^=\s](?:.*[^=\s])?)\s*(?:=\s?)+|#{1,6}\s+(?P<markdown>\S.*?)\s*)\s*$"
)
SENTENCE_END = re.compile(r"[.!?…।]+[\"'”’»)\]_*]*\s+|[。！？]+[」』”’）]*\s*")
OPENING = "\"'“‘«([_* "
MAX_OPENING = 8  # maximum number of characters between the end of a sentence and the first letter of the next
BATCH_SENTENCES = 1 << 12  # number of sentences that are encoded together
MAX_HEADING = 200  # maximum length of a heading in characters
# Abbreviations that do not end a sentence.
ABBREVIATION = re.compile(
    r"mr|mrs|ms|messrs|mme|mlle|dr|prof|rev|hon|st|sr|jr|gen|col|maj|capt|lt|sgt|gov|sen|rep|vs|no|vol|pp|ch|fig|e\.g|i\.e"
    r"|cf|al|jan|feb|mar|apr|jun|jul|aug|sep|sept|oct|nov|dec",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Documents:
    """The ids of a text and the indices at which its sentences and documents begin."""

    ids: Ids
    sentences: Places  # index of the first id of each sentence, then the number of ids
    documents: Places  # index of the first sentence of each document, then the number of sentences
    words: int  # number of words, separated by spaces

    def __len__(self) -> int:
        """Return the number of documents."""
        return len(self.documents) - 1

    @property
    def num_sentences(self) -> int:
        return len(self.sentences) - 1

    def split(self, *, fraction: float, max_tokens: int) -> tuple[Documents, Documents]:
        """Split into (train, validation). About the last `fraction`, but at most `max_tokens` ids, are for validation.

        The split is between two sentences. If both are from the same document, the document becomes two.
        """
        num_validation = validation_size(len(self.ids), fraction, max_tokens)
        if self.num_sentences < 2:
            message = "the text must have at least 2 sentences, for training and validation, got 1. Give a longer text."
            raise DataError(message, value=self.num_sentences)
        cut = int(np.searchsorted(self.sentences, len(self.ids) - num_validation))
        cut = min(max(cut, 1), self.num_sentences - 1)
        return self._part(0, cut), self._part(cut, self.num_sentences)

    def _part(self, first: int, last: int) -> Documents:
        """Return the sentences from `first` up to, but not including, `last`."""
        begin, end = int(self.sentences[first]), int(self.sentences[last])
        inside = self.documents[(self.documents > first) & (self.documents < last)]
        documents = np.concatenate([[first], inside, [last]]).astype(np.int64) - first
        sentences = self.sentences[: last + 1] if first == 0 else self.sentences[first : last + 1] - begin
        words = round(self.words * (end - begin) / max(1, len(self.ids)))
        return Documents(self.ids[begin:end], sentences, documents, words)


def read_documents(corpus: Corpus, tokenizer: Tokenizer, *, longest: int) -> Documents:
    """Read and encode a corpus. Sentences with more than `longest` ids are split. A large corpus is memory-mapped."""
    if corpus.is_small():
        return _collected(_encoded(_corpus_sentences(corpus), tokenizer, longest))
    key = {"files": corpus.fingerprint(), "tokenizer": digest(tokenizer.to_json()), "sentences": longest}
    with cache_folder(key) as folder:
        if not (folder / "documents.bin").exists():  # this file is written last
            _write(folder, _encoded(_corpus_sentences(corpus), tokenizer, longest), corpus.size())
        ids = np.memmap(folder / "ids.bin", id_type(tokenizer), "r")
        sentences, documents, words = (
            np.memmap(folder / f"{name}.bin", np.int64, "r") for name in ("sentences", "documents", "words")
        )
        return Documents(ids, sentences, documents, int(words[0]))


def documents_of(texts: Iterable[str], tokenizer: Tokenizer, *, longest: int) -> Documents:
    """Encode each text as one document."""
    sentences = (sentence for text in texts for sentence in _sentences(text, _State(whole=True)))
    return _collected(_encoded(sentences, tokenizer, longest))


def split_sentences(text: str) -> list[str]:
    """Split a line or a paragraph into sentences at punctuation.

    Punctuation ends a sentence unless a lowercase letter follows, or it belongs to an abbreviation or an initial.
    """
    sentences, begin = [], 0
    for end in SENTENCE_END.finditer(text):
        following = text[end.end() : end.end() + MAX_OPENING].lstrip(OPENING)[:1]
        if following.islower() or _is_abbreviation(text[begin : end.start()], end.group()):
            continue
        sentences.append(text[begin : end.end()].strip())
        begin = end.end()
    sentences.append(text[begin:].strip())
    return [sentence for sentence in sentences if sentence]


def _is_abbreviation(before: str, punctuation: str) -> bool:
    """Return whether the period after `before` belongs to an abbreviation, or to an initial as in J. S. Bach."""
    if punctuation.rstrip() != ".":
        return False
    word = before[before.rfind(" ") + 1 :].lstrip(OPENING)
    return (len(word) == 1 and word.isupper() and word != "I") or ABBREVIATION.fullmatch(word) is not None


@dataclass
class _State:
    """The state of the current document, carried from one chunk to the next."""

    whole: bool = False  # if True, blank lines and headings do not end the document
    has_heading: bool = False
    is_new: bool = True
    only_headings: bool = False


def _sentences(text: str, state: _State) -> Iterator[Sentence]:
    """Yield the sentences of a chunk of text that ends at a line end."""
    for line in text.removesuffix("\n").split("\n"):
        heading = HEADING.match(line) if len(line) <= MAX_HEADING and not state.whole else None
        if heading:
            # A title and the heading of its first section belong to one document.
            begins = state.is_new or not state.only_headings
            yield (heading["wiki"] or heading["markdown"]).strip(), begins
            state.has_heading, state.is_new, state.only_headings = True, False, True
        elif not line.strip():
            state.is_new = state.is_new or not (state.has_heading or state.whole)
        else:
            for sentence in split_sentences(line):
                yield sentence, state.is_new
                state.is_new = state.only_headings = False


def _corpus_sentences(corpus: Corpus) -> Iterator[Sentence]:
    for file in corpus.files:
        state = _State(whole=is_json_lines(file))
        for text, ends in Corpus((file,)).chunks():
            yield from _sentences(text, state)
            if ends:
                state = _State(whole=state.whole)


class _Encoded(NamedTuple):
    """A list of encoded sentences."""

    ids: Ids
    lengths: Places  # number of ids in each sentence
    begins: npt.NDArray[np.bool_]  # whether each sentence is the first of a document
    words: int


def _encoded(sentences: Iterator[Sentence], tokenizer: Tokenizer, longest: int) -> Iterator[_Encoded]:
    """Encode sentences in large batches, which is faster than one at a time."""
    if longest < 1:
        raise UsageError(f"`longest` must be at least 1 token, got {longest}.", argument="longest", value=longest)
    begins = False  # if the first sentence of a document has no tokens, the next one becomes the first
    while batch := list(itertools.islice(sentences, BATCH_SENTENCES)):
        lengths: list[int] = []
        all_begins: list[bool] = []
        rows = tokenizer.encode_batch([text for text, _ in batch])
        for row, (_, is_first) in zip(rows, batch, strict=True):
            begins = begins or is_first
            for start in range(0, len(row), longest):
                lengths.append(min(longest, len(row) - start))
                all_begins.append(begins)
                begins = False
        ids = np.fromiter(itertools.chain.from_iterable(rows), id_type(tokenizer), sum(lengths))
        words = sum(len(text.split()) for text, _ in batch)
        yield _Encoded(ids, np.array(lengths, dtype=np.int64), np.array(all_begins, dtype=bool), words)


def _collected(encoded: Iterable[_Encoded]) -> Documents:
    parts = list(encoded)
    indices = _indices(parts)  # refuses a text without sentences
    return Documents(np.concatenate([part.ids for part in parts]), *indices)


def _write(folder: Path, encoded: Iterable[_Encoded], num_bytes: int) -> None:
    """Write ids to a file as they are encoded, and keep only the lengths and document starts in memory."""
    parts: list[_Encoded] = []

    def ids() -> Iterator[Ids]:
        for part in encoded:
            parts.append(part._replace(ids=part.ids[:0]))
            yield part.ids

    write_arrays(folder / "ids.bin", ids(), num_bytes)
    sentences, documents, words = _indices(parts)
    arrays = {"words": np.array([words], dtype=np.int64), "sentences": sentences, "documents": documents}
    for name, array in arrays.items():
        write_arrays(folder / f"{name}.bin", [array], array.nbytes)


def _indices(parts: Sequence[_Encoded]) -> tuple[Places, Places, int]:
    """Return the indices at which sentences and documents begin, and the number of words."""
    if not any(len(part.lengths) for part in parts):
        raise DataError("the text has no sentences. Give a text that contains words.")
    lengths = np.concatenate([part.lengths for part in parts])
    begins = np.concatenate([part.begins for part in parts])
    sentences = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(lengths)])
    documents = np.append(np.flatnonzero(begins), len(lengths)).astype(np.int64)
    return sentences, documents, sum(part.words for part in parts)
