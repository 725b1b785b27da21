"""Words in order with their grammar: what both realisers produce, and how words become text.

A `Written` sentence is a list of words with their parts of speech and dependency tree, plus the node of
the meaning that each word expresses. It knows no grammar of any language.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field

from regard.data.world.patterns import Pattern
from regard.errors import UsageError

ENGLISH_WORD = re.compile(r"'s\b|[\w-]+|[^\w\s]")  # a word, a possessive ending or a mark


@dataclass(eq=False, slots=True)
class Word:
    """One word or mark; `sources` are the parts of the meaning that it expresses."""

    form: str
    pos: str
    relation: str
    head: Word | None
    sources: tuple[Hashable, ...]
    before_vowel: str | None = None  # the form it takes before a vowel, where that differs


@dataclass(slots=True)
class Written:
    """A sentence being written, word by word."""

    words: list[Word] = field(default_factory=list)
    head_words: dict[Hashable, Word] = field(default_factory=dict)  # the word of each nominal or pronoun
    phenomena: set[str] = field(default_factory=set)

    def add(
        self,
        form: str,
        pos: str,
        relation: str,
        head: Word | None,
        *sources: Hashable,
        before_vowel: str | None = None,
    ) -> Word:
        word = Word(form, pos, relation, head, sources, before_vowel)
        self.words.append(word)
        return word

    def add_pattern(self, pattern: Pattern, head: Word | None, node: Hashable, role: str) -> Word:
        """Write a fixed phrase; its main word hangs from `head`, the others from its main word."""
        pieces = pattern.pieces
        main = pieces[pattern.main]
        main_word = Word(main.form, main.pos, main.relation, head, ((node, role + main.label),))
        self.add_around(pattern, main_word, node, role)
        return main_word

    def add_around(self, pattern: Pattern, main_word: Word, node: Hashable, role: str) -> None:
        """Write a fixed phrase whose main word exists already."""
        for index, piece in enumerate(pattern.pieces):
            if index == pattern.main:
                self.words.append(main_word)
            else:
                self.add(piece.form, piece.pos, piece.relation, main_word, (node, role + piece.label))

    def capitalise(self) -> None:
        first = self.words[0]
        first.form = first.form[0].upper() + first.form[1:]


def join(words: Iterable[str], *, spaced_question_mark: bool) -> str:
    """Text from words: "l'" clings to the word after it, "'s" and the full stop to the word before."""
    pieces: list[str] = []
    glued = True
    for word in words:
        clings = word in (".", "'s") or (word == "?" and not spaced_question_mark)
        if not glued and not clings:
            pieces.append(" ")
        pieces.append(word)
        glued = word.endswith("'")
    return "".join(pieces)


def char_spans(text: str, words: Sequence[str]) -> tuple[tuple[int, int], ...]:
    """Where each word stands in the text, as (start, end), so that subword pieces can be mapped to words."""
    spans: list[tuple[int, int]] = []
    end = 0
    for index, word in enumerate(words):
        start = text.find(word, end)
        if start < 0 or text[end:start].strip():
            raise UsageError(
                f"word {index} ({word!r}) does not follow character {end} of {text!r}; "
                "give the words of this very text, in order and spelled as they stand in it."
            )
        end = start + len(word)
        spans.append((start, end))
    if text[end:].strip():
        raise UsageError(f"the words end before {text[end:]!r}; give all the words of {text!r}.")
    return tuple(spans)
