"""Sentences with an ambiguous word and its sense: .tsv, .csv, .jsonl, or tab-separated text of any name.

The columns are word, sense and sentence, in this order or as a header names them. A comparison of senses needs at least
two senses of a word and two sentences of each; other rows are bad.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from regard.data.files import FileLines, ReadResult, shortened
from regard.data.labelled import MAX_CHARACTERS
from regard.data.rows import text_fault
from regard.data.synthetic.senses import SENSES, SenseSentence, sense_sentences
from regard.data.tables import Column, read_table
from regard.utils.errors import number_of

COLUMNS = (
    Column("word", ("word", "target", "lemma")),
    Column("sense", ("sense", "meaning", "label")),
    Column("sentence", ("sentence", "text", "context")),
)
Faults = dict[int, str]  # index of an example → why it cannot be used


def synthetic_senses() -> list[SenseSentence]:
    """The test sentences of the built-in dataset with bank, spring and run."""
    return [sentence for word in SENSES for sentence in sense_sentences(word, "test")]


def read_senses(path: Path | str, *, skip_bad_rows: bool = False) -> ReadResult[SenseSentence]:
    """Read sentences with the senses of their words.

    Bad rows raise a DataError that lists them; with `skip_bad_rows` they are left out and returned in `.bad`. A word is
    found in its sentence regardless of capitals; its first occurrence counts.
    """
    path = Path(path)
    result: ReadResult[SenseSentence] = ReadResult()
    table = read_table(path, FileLines.read(path, result.checksums), [COLUMNS])
    result.remarks += table.notes
    result.collect(path, table.rows, _example)
    for find_faults in (_repeated, _alone, _of_one_sense):  # in this order: each needs what the one before leaves
        result = result.without(find_faults(result), path)
    result.finish(path, "sentences of words with two senses", skip_bad_rows=skip_bad_rows)
    twice = sum(len(list(_places(example.word, example.text))) > 1 for example in result.examples)
    if twice:
        result.remarks.append(f"{number_of(twice, 'sentence')} with the word more than once: the first one counts")
    return result


def find_word(word: str, sentence: str) -> int | None:
    """The index of a whole word in a sentence, regardless of capitals; None if it is not there."""
    return next(_places(word, sentence), None)


def _places(word: str, sentence: str) -> Iterator[int]:
    pattern = rf"(?<!\w){re.escape(word)}(?!\w)"
    return (match.start() for match in re.finditer(pattern, sentence, re.IGNORECASE))


def _example(cells: Sequence[str]) -> SenseSentence | str:
    for column, cell in zip(COLUMNS, cells, strict=True):
        if fault := text_fault(column.role, cell, MAX_CHARACTERS):
            return fault
    word, sense, sentence = (cell.strip() for cell in cells)
    start = find_word(word, sentence)
    if start is None:
        return f"the word {shortened(word)!r} is not in the sentence {shortened(sentence)!r}"
    return SenseSentence(sentence, word.lower(), start, sense)


def _repeated(result: ReadResult[SenseSentence]) -> Faults:
    """A repeated sentence would be its own nearest neighbor."""
    first: dict[tuple[str, str], int] = {}
    faults: Faults = {}
    for index, example in enumerate(result.examples):
        before = first.setdefault((example.word, example.text), result.lines[index])
        if before != result.lines[index]:
            faults[index] = f"the same sentence with {example.word!r} as in line {before}"
    return faults


def _alone(result: ReadResult[SenseSentence]) -> Faults:
    counts = Counter((example.word, example.sense) for example in result.examples)
    return {
        index: f"the only sentence in which {example.word!r} means {example.sense!r}; two are needed"
        for index, example in enumerate(result.examples)
        if counts[example.word, example.sense] == 1
    }


def _of_one_sense(result: ReadResult[SenseSentence]) -> Faults:
    senses: dict[str, set[str]] = {}
    for example in result.examples:
        senses.setdefault(example.word, set()).add(example.sense)
    return {
        index: f"{example.word!r} has only the sense {example.sense!r}; two are needed"
        for index, example in enumerate(result.examples)
        if len(senses[example.word]) == 1
    }
