"""Written sentences: words with parts of speech, a dependency tree, and the part of the meaning that each expresses."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Self, TypeAlias

from regard.data.synthetic.patterns import Pattern
from regard.utils.errors import UsageError

ENGLISH_WORD = re.compile(r"'s\b|[\w-]+|[^\w\s]")  # a word, a possessive ending or punctuation


Source: TypeAlias = tuple[Hashable, Hashable]  # a node of the meaning and its part


@dataclass(eq=False, slots=True)
class Word:
    """A word or punctuation mark; `sources` are the parts of the meaning that it expresses."""

    form: str
    pos: str
    relation: str
    head: Word | None
    sources: tuple[Source, ...]
    before_vowel: str | None = None  # its form before a vowel, if that is another one


@dataclass(slots=True)
class Written:
    """A sentence, written word by word."""

    words: list[Word] = field(default_factory=list)
    head_words: dict[Hashable, Word] = field(default_factory=dict)  # the word of each nominal or pronoun
    phenomena: set[str] = field(default_factory=set)

    def add(
        self,
        form: str,
        pos: str,
        relation: str,
        head: Word | None,
        *sources: Source,
        before_vowel: str | None = None,
    ) -> Word:
        word = Word(form, pos, relation, head, sources, before_vowel)
        self.words.append(word)
        return word

    def add_pattern(self, pattern: Pattern, head: Word | None, node: Hashable, role: str) -> Word:
        """Write a fixed phrase. The head of its main word is `head`, the main word is the head of the others."""
        main = pattern.words[pattern.main]
        main_word = Word(main.form, main.pos, main.relation, head, ((node, role + main.label),))
        self.add_around(pattern, main_word, node, role)
        return main_word

    def add_around(self, pattern: Pattern, main_word: Word, node: Hashable, role: str) -> None:
        """Write a fixed phrase around its main word."""
        for index, part in enumerate(pattern.words):
            if index == pattern.main:
                self.words.append(main_word)
            else:
                self.add(part.form, part.pos, part.relation, main_word, (node, role + part.label))

    def capitalized(self) -> Self:
        self.words[0].form = capitalize(self.words[0].form)
        return self

    def text(self, *, spaced_question_mark: bool) -> str:
        return join((word.form for word in self.words), spaced_question_mark=spaced_question_mark)


def capitalize(text: str) -> str:
    """The text with a capital first letter; unlike `str.capitalize` it leaves the other letters alone."""
    return text[:1].upper() + text[1:]


def join(words: Iterable[str], *, spaced_question_mark: bool) -> str:
    """Text from words: no space after "l'", and none before "'s" and the full stop."""
    parts: list[str] = []
    needs_space = False
    for word in words:
        if needs_space and word not in (".", "'s") and (word != "?" or spaced_question_mark):
            parts.append(" ")
        parts.append(word)
        needs_space = not word.endswith("'")
    return "".join(parts)


def char_spans(text: str, words: Sequence[str]) -> tuple[tuple[int, int], ...]:
    """(start, end) of each word in the text, to map subwords to words."""
    spans: list[tuple[int, int]] = []
    end = 0
    for index, word in enumerate(words):
        start = text.find(word, end)
        if start < 0 or text[end:start].strip():
            raise UsageError(
                f"word {index} ({word!r}) does not follow character {end} of {text!r}.", argument="words", value=word
            )
        end = start + len(word)
        spans.append((start, end))
    if text[end:].strip():
        raise UsageError(f"the words end before {text[end:]!r} in {text!r}.", argument="words", value=list(words))
    return tuple(spans)
