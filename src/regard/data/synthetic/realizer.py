"""What English and French have in common when a meaning is written: sentences, complements, arguments, noun phrases.

Tags and relations follow Universal Dependencies. A subclass knows the word order and the forms of its language.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable
from typing import ClassVar

from regard.data.synthetic.lexicon import Verb
from regard.data.synthetic.meaning import Argument, Clause, Gap, Nominal, Place, Pronoun, Sentence
from regard.data.synthetic.patterns import CONNECTORS, PREPOSITIONS, Pattern, Phrase
from regard.data.synthetic.words import Word, Written


class Realizer(ABC):
    """Writes meanings in one language."""

    is_french: ClassVar[bool]
    objects_before_verb: ClassVar[tuple[type, ...]]  # kinds of objects that `fill_clause` writes before the verb

    def write(self, sentence: Sentence) -> Written:
        """The sentence with punctuation, not yet capitalized."""
        out = Written()
        root = self._clause(out, sentence.main, "root", None, question=sentence.question)
        if sentence.second is not None and sentence.connector is not None:
            is_coordinate = sentence.connector.name in ("and", "but")
            second = self.clause_root(sentence.second, "conj" if is_coordinate else "advcl", root)
            self.phrase(out, sentence.connector, second, sentence.second, "connector")
            self.fill_clause(out, sentence.second, second)
        out.add("?" if sentence.question else ".", "PUNCT", "punct", root, (sentence, "stop"))
        return out

    def pattern(self, phrase: Phrase) -> Pattern:
        return phrase.french if self.is_french else phrase.english

    def phrase(self, out: Written, phrase: Phrase | None, head: Word | None, node: Hashable, role: str) -> Word | None:
        """Write a fixed phrase, if there is one, and return its main word."""
        return None if phrase is None else out.add_pattern(self.pattern(phrase), head, node, role)

    # --- Clauses ----------------------------------------------------------------------------------------------

    def _clause(self, out: Written, clause: Clause, relation: str, head: Word | None, *, question: str = "") -> Word:
        root = self.clause_root(clause, relation, head)
        self.fill_clause(out, clause, root, question=question)
        return root

    @abstractmethod
    def clause_root(self, clause: Clause, relation: str, head: Word | None) -> Word:
        """The head of a clause, not yet written: dependents may precede it."""

    @abstractmethod
    def fill_clause(self, out: Written, clause: Clause, root: Word, *, question: str = "") -> None:
        """Write a clause whose head is `root`."""

    def subject(self, out: Written, clause: Clause, root: Word) -> None:
        if clause.subject is not None and not clause.silent_subject:
            self.argument(out, clause.subject, "nsubj:pass" if clause.passive else "nsubj", root)

    def complements(self, out: Written, clause: Clause, root: Word) -> None:
        """Write what follows the verb or adjective."""
        if clause.verb is not None and clause.object and not isinstance(clause.object, self.objects_before_verb):
            self._object(out, clause, clause.verb, clause.object, root)
        for preposition, nominal in (("by", clause.agent), ("to", clause.recipient)):
            if nominal is not None:
                self._prepositional(out, Place(PREPOSITIONS[preposition], nominal), "obl", root)
        self.phrase(out, clause.manner, root, clause, "manner")
        self._prepositional(out, clause.place, "obl", root)
        self.phrase(out, clause.time, root, clause, "time")

    def _object(self, out: Written, clause: Clause, verb: Verb, object_: Argument, root: Word) -> None:
        own, other = verb.preposition, verb.french_preposition
        if self.is_french:
            own, other = other, own
        if own is None:
            self.argument(out, object_, "obj", root)
            return
        # A preposition that the other language lacks ("wait for", "obéir à") is aligned with the verb.
        word = out.add(own, "ADP", "case", None, (clause, "preposition" if other else "predicate"))
        word.head = self.argument(out, object_, "obl", root)

    # --- Arguments --------------------------------------------------------------------------------------------

    def argument(self, out: Written, argument: Argument, relation: str, head: Word | None) -> Word:
        is_subject = relation.startswith("nsubj")
        if isinstance(argument, Nominal):
            return self.nominal(out, argument, relation, head)
        if isinstance(argument, Gap):
            out.phenomena.add("relative clause")
            form = self.relative_pronoun(argument, is_subject=is_subject)
            return out.add(form, "PRON", relation, head, (argument, "noun"))
        if isinstance(argument, Pronoun):
            form = self.pronoun(argument, is_subject=is_subject)
            word = out.add(form, "PRON", relation, head, (argument, "noun"))
            out.head_words[argument] = word
            return word
        first = self.nominal(out, argument.first, relation, head)
        conjunction = out.add_pattern(self.pattern(CONNECTORS["and"]), None, argument, "and")
        conjunction.head = self.nominal(out, argument.second, "conj", first)
        out.phenomena.add("coordination")
        return first

    def _prepositional(self, out: Written, place: Place | None, relation: str, head: Word) -> None:
        if place is not None:
            preposition = out.add_pattern(self.pattern(place.preposition), None, place.nominal, "preposition")
            preposition.head = self.argument(out, place.nominal, relation, head)

    def nominal(self, out: Written, nominal: Nominal, relation: str, head: Word | None) -> Word:
        noun = nominal.noun
        singular, plural = (noun.french, noun.french_plural) if self.is_french else (noun.english, noun.english_plural)
        form = plural if nominal.plural else singular
        word = Word(form, "PROPN" if noun.is_name else "NOUN", relation, head, ((nominal, "noun"),))
        out.head_words[nominal] = word
        determiner = self.determiner(out, nominal, word)
        if self.phrase(out, nominal.numeral, word, nominal, "numeral") is not None:
            out.phenomena.add("numeral")
        self.before_noun(out, nominal, word)
        if noun.compound is None:
            out.words.append(word)
        else:
            pattern = self.pattern(noun.compound)
            main = pattern.words[pattern.main]
            word.form, word.sources = main.form, ((nominal, "compound" + main.label),)
            out.add_around(pattern, word, nominal, "compound")
            out.phenomena.add("compound")
        self.after_noun(out, nominal, word, determiner)
        self._prepositional(out, nominal.place, "nmod", word)
        if nominal.relative is not None:
            self._clause(out, nominal.relative, "acl:relcl", word)
        return word

    @abstractmethod
    def pronoun(self, pronoun: Pronoun, *, is_subject: bool) -> str: ...

    @abstractmethod
    def relative_pronoun(self, gap: Gap, *, is_subject: bool) -> str: ...

    @abstractmethod
    def determiner(self, out: Written, nominal: Nominal, word: Word) -> Word | None:
        """Write the determiner; returns it if its form depends on the next word."""

    @abstractmethod
    def before_noun(self, out: Written, nominal: Nominal, word: Word) -> None:
        """Write adjectives that precede the noun."""

    @abstractmethod
    def after_noun(self, out: Written, nominal: Nominal, word: Word, determiner: Word | None) -> None:
        """Write what follows the noun directly."""
