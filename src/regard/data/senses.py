"""Sentences with an ambiguous word and its sense, from tables with the columns word, sense and sentence.

A comparison of senses needs at least two senses per word and two sentences per sense; other rows are bad.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from regard.data.files import ReadResult, shortened
from regard.data.synthetic.labelled import SENSES, SenseSentence, sense_sentences
from regard.data.tables import Column, read_table, text_fault
from regard.utils.errors import number_of

COLUMNS = (
    Column("word", ("word", "target", "lemma")),
    Column("sense", ("sense", "meaning", "label")),
    Column("sentence", ("sentence", "text", "context")),
)


def synthetic_senses() -> list[SenseSentence]:
    """The test sentences of the built-in dataset with bank, spring and run."""
    return [sentence for word in SENSES for sentence in sense_sentences(word, "test")]


def read_senses(path: Path | str, *, skip_bad_rows: bool = False) -> ReadResult[SenseSentence]:
    """Read sentences with the senses of their words. The first occurrence of the word counts; case is ignored.

    Bad rows raise an error, or with `skip_bad_rows` are returned in `.bad`.
    """
    path = Path(path)
    result = read_table(path, [COLUMNS], _example)
    for find_faults in (_repeated, _unique_senses, _single_senses):  # in this order
        result = result.without(find_faults(result), path)
    result.finish(path, "sentences of words with two senses", skip_bad_rows=skip_bad_rows)
    twice = sum(len(list(_places(example.word, example.text))) > 1 for example in result.examples)
    if twice:
        result.remarks.append(f"{number_of(twice, 'sentence')} with the word more than once; the first counts")
    return result


def find_word(word: str, sentence: str) -> int | None:
    """Return the index of the first character of a word in a sentence, ignoring case; None if the word is missing."""
    return next(_places(word, sentence), None)


def _places(word: str, sentence: str) -> Iterator[int]:
    pattern = rf"(?<!\w){re.escape(word)}(?!\w)"
    return (match.start() for match in re.finditer(pattern, sentence, re.IGNORECASE))


def _example(cells: Sequence[str]) -> SenseSentence | str:
    word, sense, sentence = (cell.strip() for cell in cells)
    fault = text_fault("word", word) or text_fault("sense", sense) or text_fault("sentence", sentence)
    start = find_word(word, sentence)
    if fault or start is None:
        return fault or f"the word {shortened(word)!r} is not in the sentence {shortened(sentence)!r}"
    return SenseSentence(sentence, word.lower(), start, sense)


def _repeated(result: ReadResult[SenseSentence]) -> dict[int, str]:
    """Return the faults of repeated sentences, which would be their own nearest neighbors."""
    first: dict[tuple[str, str], int] = {}
    faults = {}
    for index, (line, example) in enumerate(zip(result.lines, result.examples, strict=True)):
        first_line = first.setdefault((example.word, example.text), line)
        if first_line != line:
            faults[index] = f"the same sentence with {example.word!r} as in line {first_line}"
    return faults


def _unique_senses(result: ReadResult[SenseSentence]) -> dict[int, str]:
    counts = Counter((example.word, example.sense) for example in result.examples)
    return {
        index: f"the only sentence in which {example.word!r} means {example.sense!r}; two are needed"
        for index, example in enumerate(result.examples)
        if counts[example.word, example.sense] == 1
    }


def _single_senses(result: ReadResult[SenseSentence]) -> dict[int, str]:
    num_senses = Counter(word for word, _ in {(example.word, example.sense) for example in result.examples})
    return {
        index: f"{example.word!r} has only the sense {example.sense!r}; two are needed"
        for index, example in enumerate(result.examples)
        if num_senses[example.word] == 1
    }
