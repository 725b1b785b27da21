"""A meaning written in French: agreement, position of adjectives, "ne … pas", elision and contraction.

The contractions du, des, au and aux stay one word (a preposition), and "est-ce" is one word.
"""

from __future__ import annotations

from functools import cache

from regard.data.synthetic.lexicon import DETERMINERS, NOUNS, Adjective, Verb, inflect
from regard.data.synthetic.meaning import Argument, Clause, Gap, Nominal, Pronoun
from regard.data.synthetic.realizer import Realization, Word

_ELIDED = {"le": "l'", "la": "l'", "de": "d'", "que": "qu'", "ne": "n'", "je": "j'"}
_CONTRACTED = {("de", "le"): "du", ("de", "les"): "des", ("à", "le"): "au", ("à", "les"): "aux"}
_BEFORE_VOWEL = {"ce": "cet", "ma": "mon", "sa": "son"}
# Words with an h that prevents elision.
_ASPIRATED = {form for noun in NOUNS if "aspirated" in noun.tags for form in (noun.french, noun.french_plural)} | {
    "huit"
}
# Forms of je, il, nous, ils.
_AVOIR, _AVOIR_IMPERFECT = ("ai", "a", "avons", "ont"), ("avais", "avait", "avions", "avaient")
_ETRE, _ETRE_IMPERFECT = ("suis", "est", "sommes", "sont"), ("étais", "était", "étions", "étaient")


class FrenchSentence(Realization):
    """A sentence in French, elided and contracted."""

    is_french = True
    objects_before_verb = (Gap, Pronoun)

    def relative_pronoun(self, gap: Gap, *, is_subject: bool) -> str:
        return "qui" if is_subject else "que"

    def pronoun(self, pronoun: Pronoun, *, is_subject: bool) -> str:
        if not is_subject:
            return "les" if pronoun.plural else "le" if pronoun.gender == "m" else "la"
        if pronoun.person == 1:
            return "nous" if pronoun.plural else "je"
        return ("il" if pronoun.gender == "m" else "elle") + ("s" if pronoun.plural else "")

    def clause_root(self, clause: Clause, relation: str, head: Word | None) -> Word:
        # The verb is the head of "avait faim".
        is_idiom = clause.adjective is not None and clause.adjective.idiom is not None
        pos = "VERB" if clause.adjective is None or is_idiom else "ADJ"
        return Word("", pos, relation, head, ((clause, "tense" if is_idiom else "predicate"),))

    def fill_clause(self, clause: Clause, root: Word, *, question: str = "") -> None:
        if question not in ("", "who"):
            est_ce = self.add("est-ce", "PART", "mark", root, (clause, "asks"))
            self.add("que", "SCONJ", "fixed", est_ce, (clause, "asks"))
        if isinstance(clause.object, Gap):
            self.argument(clause.object, "obj", root)
        self.subject(clause, root)
        if clause.polarity:
            self.add("ne", "ADV", "advmod", root, (clause, "nota"))
        if isinstance(clause.object, Pronoun):
            self.argument(clause.object, "obj", root)
        if clause.verb is not None:
            self._verb_group(clause, clause.verb, root)
        elif clause.adjective is not None:
            self._copular_group(clause, clause.adjective, root)
        self.complements(clause, root)

    def _verb_group(self, clause: Clause, verb: Verb, root: Word) -> None:
        if not clause.past and not clause.passive:
            root.form = verb.french_present[clause.person_index]
            self.words.append(root)
            self.negation_and_frequency(clause, root)
            return
        is_plain_passive = clause.passive and not clause.past  # "est traversée"; the past is "a été traversée"
        with_etre = is_plain_passive or (verb.takes_etre and not clause.passive)
        relation = "aux:pass" if is_plain_passive else "aux"
        self.add((_ETRE if with_etre else _AVOIR)[clause.person_index], "AUX", relation, root, (clause, "tense"))
        self.negation_and_frequency(clause, root)
        if clause.passive and clause.past:
            self.add("été", "AUX", "aux:pass", root, (clause, "tense"))
        root.form = self._participle(clause, verb)
        self.words.append(root)

    def _copular_group(self, clause: Clause, adjective: Adjective, root: Word) -> None:
        if adjective.idiom is not None:
            root.form = (_AVOIR_IMPERFECT if clause.past else _AVOIR)[clause.person_index]
            self.words.append(root)
            self.negation_and_frequency(clause, root)
            noun = Word(adjective.idiom, "NOUN", "obj", root, ((clause, "predicate"),))
            self.modifier(clause.degree, noun, clause, "degree")
            self.words.append(noun)
            return
        self.add(
            (_ETRE_IMPERFECT if clause.past else _ETRE)[clause.person_index], "AUX", "cop", root, (clause, "tense")
        )
        self.negation_and_frequency(clause, root)
        self.modifier(clause.degree, root, clause, "degree")
        root.form = _agree(adjective.forms, clause.subject)
        self.words.append(root)

    def _participle(self, clause: Clause, verb: Verb) -> str:
        """The participle agrees with the subject after être, and after avoir with a preceding direct object."""
        controller = clause.subject
        if not (verb.takes_etre or clause.passive):
            controller = clause.object if isinstance(clause.object, Pronoun | Gap) else None
        if controller is None:
            return verb.french_participle
        return _agree(inflect(verb.french_participle), controller)

    def determiner(self, nominal: Nominal, word: Word) -> None:
        source, kind = (nominal, "of" if nominal.possessor is not None else "determiner"), nominal.determiner
        if kind == "some" and not nominal.plural:  # the partitive: du, de la, de l'
            self.add("de", "DET", "det", word, source)
            kind = "the"
        masculine, feminine, plural = DETERMINERS[kind]
        form = plural if nominal.plural else feminine if nominal.gender == "f" else masculine
        if kind == "some" and any(adjective.precedes for adjective in nominal.adjectives):  # "de beaux chats"
            form = "de"
        if form:
            self.add(form, "DET", "det", word, source, before_vowel=_BEFORE_VOWEL.get(form))

    def before_noun(self, nominal: Nominal, word: Word) -> None:
        for adjective in nominal.adjectives:
            if adjective.precedes:
                self._write_adjective(nominal, adjective, word)

    def after_noun(self, nominal: Nominal, word: Word) -> None:
        for adjective in reversed(nominal.adjectives):
            if not adjective.precedes:
                self._write_adjective(nominal, adjective, word)
        if nominal.possessor is not None:
            de = self.add("de", "ADP", "case", None, (nominal, "of"))
            de.head = self.nominal(nominal.possessor, "nmod", word)
        super().after_noun(nominal, word)

    def _write_adjective(self, nominal: Nominal, adjective: Adjective, noun: Word) -> None:
        before_vowel = adjective.before_vowel if nominal.gender == "m" and not nominal.plural else None
        self.add(_agree(adjective.forms, nominal), "ADJ", "amod", noun, (nominal, adjective), before_vowel=before_vowel)

    def adapt_to_next_words(self) -> None:
        """Elide and contract, from right to left, so that each word sees the final form of the next one."""
        words = self.words
        for index in range(len(words) - 2, -1, -1):
            word, following = words[index], words[index + 1]
            elided = word.before_vowel or _ELIDED.get(word.form)
            if elided is not None and _starts_with_vowel(following.form):
                word.form = elided
            elif following.pos == "DET" and (word.form, following.form) in _CONTRACTED:
                word.form = _CONTRACTED[word.form, following.form]
                word.sources += following.sources
                del words[index + 1]


def _agree(forms: tuple[str, str, str, str], argument: Argument | None) -> str:
    """The form that agrees with an argument: masculine, feminine, masculine plural or feminine plural."""
    return forms[0] if argument is None else forms[2 * argument.plural + (argument.gender == "f")]


@cache
def _starts_with_vowel(form: str) -> bool:
    """Whether the word before this one is elided: before vowels and silent h, not before the h of "hibou"."""
    return form[0] in "aeiouyhàâéèêîôûœAEIOUHÉ" and form not in _ASPIRATED
