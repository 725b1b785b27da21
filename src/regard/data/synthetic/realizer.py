"""Write the sentence for a meaning, word by word: the part that English and French share. Tags and relations follow
Universal Dependencies. Each subclass implements the word order and the forms of its language.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, TypeAlias

from regard.data.synthetic.lexicon import CONNECTORS, NEGATIONS, PREPOSITIONS, QUESTION_WORDS, Phrase, Verb
from regard.data.synthetic.meaning import Argument, Clause, Gap, Nominal, Place, Pronoun, Sentence
from regard.utils.errors import UsageError

Source: TypeAlias = tuple[Hashable, Hashable]  # a node of the meaning and its part


@dataclass(eq=False, slots=True)
class Word:
    """A word or punctuation mark; `sources` are the parts of the meaning that it expresses."""

    form: str
    pos: str
    relation: str
    head: Word | None
    sources: tuple[Source, ...]
    before_vowel: str | None = None  # the form before a vowel, if it differs


class Realization(ABC):
    """A sentence in one language: its words with parts of speech, a dependency tree and their sources."""

    is_french: ClassVar[bool]
    objects_before_verb: ClassVar[tuple[type, ...]]  # kinds of objects that `fill_clause` writes before the verb

    def __init__(self, sentence: Sentence) -> None:
        self.words: list[Word] = []
        self.head_words: dict[Hashable, Word] = {}  # the main word of each nominal, pronoun and modifier
        root = self.clause_root(sentence.main, "root", None)
        self.modifier(QUESTION_WORDS.get(sentence.question), root, sentence.main, "wh")
        self.fill_clause(sentence.main, root, question=sentence.question)
        if sentence.second is not None and sentence.connector is not None:
            is_coordinate = sentence.connector.name in ("and", "but")
            second = self.clause_root(sentence.second, "conj" if is_coordinate else "advcl", root)
            self.phrase(sentence.connector, second, sentence.second, "connector")
            self.fill_clause(sentence.second, second)
        self.add("?" if sentence.question else ".", "PUNCT", "punct", root, (sentence, "stop"))
        self.adapt_to_next_words()
        self.words[0].form = capitalize(self.words[0].form)

    @cached_property
    def text(self) -> str:
        return join((word.form for word in self.words), spaced_question_mark=self.is_french)

    def add(
        self, form: str, pos: str, relation: str, head: Word | None, *sources: Source, before_vowel: str | None = None
    ) -> Word:
        word = Word(form, pos, relation, head, sources, before_vowel)
        self.words.append(word)
        return word

    def phrase(
        self, phrase: Phrase, head: Word | None, node: Hashable, role: str, *, main_word: Word | None = None
    ) -> Word:
        """Write a fixed phrase and return its main word (default: a new one), which is the head of its other words."""
        words = phrase.french if self.is_french else phrase.english
        main = next(word for word in words if word.is_main)
        main_word = main_word or Word("", main.pos, main.relation, head, ())
        main_word.form, main_word.sources = main.form, ((node, role + main.label),)
        for word in words:
            if word.is_main:
                self.words.append(main_word)
            else:
                self.add(word.form, word.pos, word.relation, main_word, (node, role + word.label))
        return main_word

    def modifier(self, phrase: Phrase | None, head: Word, node: Hashable, role: str) -> None:
        """Write a fixed phrase, if there is one."""
        if phrase is not None:
            self.head_words[node, role] = self.phrase(phrase, head, node, role)

    @abstractmethod
    def adapt_to_next_words(self) -> None:
        """Change the words whose form depends on the next word."""

    @abstractmethod
    def clause_root(self, clause: Clause, relation: str, head: Word | None) -> Word:
        """The head of a clause, not yet written: dependents may precede it."""

    @abstractmethod
    def fill_clause(self, clause: Clause, root: Word, *, question: str = "") -> None:
        """Write a clause whose head is `root`."""

    def subject(self, clause: Clause, root: Word) -> None:
        if clause.subject is not None and not clause.silent_subject:
            self.argument(clause.subject, "nsubj:pass" if clause.passive else "nsubj", root)

    def negation_and_frequency(self, clause: Clause, root: Word) -> None:
        """Write "not", "never", "often", or in French "pas", "jamais", "souvent"."""
        self.modifier(NEGATIONS.get(clause.polarity), root, clause, "not")
        self.modifier(clause.frequency, root, clause, "frequency")

    def complements(self, clause: Clause, root: Word) -> None:
        """Write what follows the verb or adjective."""
        if clause.verb is not None and clause.object and not isinstance(clause.object, self.objects_before_verb):
            self._object(clause, clause.verb, clause.object, root)
        for preposition, nominal in (("by", clause.agent), ("to", clause.recipient)):
            if nominal is not None:
                self._prepositional(Place(PREPOSITIONS[preposition], nominal), "obl", root)
        self.modifier(clause.manner, root, clause, "manner")
        self._prepositional(clause.place, "obl", root)
        self.modifier(clause.time, root, clause, "time")

    def _object(self, clause: Clause, verb: Verb, object_: Argument, root: Word) -> None:
        own, other = verb.preposition, verb.french_preposition
        if self.is_french:
            own, other = other, own
        if own is None:
            self.argument(object_, "obj", root)
            return
        # A preposition that the other language lacks ("wait for", "obéir à") is aligned with the verb.
        word = self.add(own, "ADP", "case", None, (clause, "preposition" if other else "predicate"))
        word.head = self.argument(object_, "obl", root)

    def argument(self, argument: Argument, relation: str, head: Word | None) -> Word:
        is_subject = relation.startswith("nsubj")
        if isinstance(argument, Nominal):
            return self.nominal(argument, relation, head)
        if isinstance(argument, Gap):
            form = self.relative_pronoun(argument, is_subject=is_subject)
            return self.add(form, "PRON", relation, head, (argument, "noun"))
        if isinstance(argument, Pronoun):
            form = self.pronoun(argument, is_subject=is_subject)
            self.head_words[argument] = self.add(form, "PRON", relation, head, (argument, "noun"))
            return self.head_words[argument]
        first = self.nominal(argument.first, relation, head)
        conjunction = self.phrase(CONNECTORS["and"], None, argument, "and")
        conjunction.head = self.nominal(argument.second, "conj", first)
        return first

    def _prepositional(self, place: Place | None, relation: str, head: Word) -> None:
        if place is not None:
            preposition = self.phrase(place.preposition, None, place.nominal, "preposition")
            preposition.head = self.nominal(place.nominal, relation, head)

    def nominal(self, nominal: Nominal, relation: str, head: Word | None) -> Word:
        noun = nominal.noun
        singular, plural = (noun.french, noun.french_plural) if self.is_french else (noun.english, noun.english_plural)
        form = plural if nominal.plural else singular
        word = Word(form, "PROPN" if "name" in noun.tags else "NOUN", relation, head, ((nominal, "noun"),))
        self.head_words[nominal] = word
        self.determiner(nominal, word)
        if nominal.numeral is not None:
            self.phrase(nominal.numeral, word, nominal, "numeral")
        self.before_noun(nominal, word)
        if noun.compound is None:
            self.words.append(word)
        else:
            self.phrase(noun.compound, head, nominal, "compound", main_word=word)
        self.after_noun(nominal, word)
        return word

    def after_noun(self, nominal: Nominal, word: Word) -> None:
        """Write the place and the relative clause of the noun."""
        self._prepositional(nominal.place, "nmod", word)
        if nominal.relative is not None:
            self.fill_clause(nominal.relative, self.clause_root(nominal.relative, "acl:relcl", word))

    @abstractmethod
    def pronoun(self, pronoun: Pronoun, *, is_subject: bool) -> str: ...

    @abstractmethod
    def relative_pronoun(self, gap: Gap, *, is_subject: bool) -> str: ...

    @abstractmethod
    def determiner(self, nominal: Nominal, word: Word) -> None:
        """Write the determiner or the owner of the noun `word`."""

    @abstractmethod
    def before_noun(self, nominal: Nominal, word: Word) -> None:
        """Write adjectives that precede the noun."""


def capitalize(text: str) -> str:
    """The text with a capital first letter; unlike `str.capitalize` it leaves the other letters alone."""
    return text[:1].upper() + text[1:]


def join(words: Iterable[str], *, spaced_question_mark: bool) -> str:
    """Join words to a text, without a space after "l'" and before "'s" and the full stop."""
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
            message = f"word {index} ({word!r}) does not follow character {end} of {text!r}."
            raise UsageError(message, argument="words", value=word)
        end = start + len(word)
        spans.append((start, end))
    if text[end:].strip():
        message = f"{text!r} continues with {text[end:]!r} after the last word. Give all words of the text."
        raise UsageError(message, argument="words", value=list(words))
    return tuple(spans)
