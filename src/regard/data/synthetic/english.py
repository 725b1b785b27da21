"""A meaning written in English: word order, do-support, articles, agreement of the verb.

"not" is aligned with both halves of "ne … pas", and the auxiliary "did" with the French auxiliary. "does" is not
aligned in a statement. In a question the auxiliary is aligned with "est-ce que".
"""

from __future__ import annotations

import itertools

from regard.data.synthetic.lexicon import POSSESSIVES, Verb
from regard.data.synthetic.meaning import Clause, Gap, Nominal, Pronoun, Sentence
from regard.data.synthetic.realizer import Realization, Word

_CONSONANT_SOUNDS = ("Eu", "use")  # "a European", "a useful"
# Forms of I, he, we, they.
_BE, _BE_PAST, _DO = ("am", "is", "are", "are"), ("was", "was", "were", "were"), ("do", "does", "do", "do")


class EnglishSentence(Realization):
    """A sentence in English."""

    is_french = False
    objects_before_verb = (Gap,)

    def relative_pronoun(self, gap: Gap, *, is_subject: bool) -> str:
        return "who" if is_subject and "human" in gap.nominal.noun.tags else "that"

    def pronoun(self, pronoun: Pronoun, *, is_subject: bool) -> str:
        if pronoun.person == 1:
            return "we" if pronoun.plural else "I"
        if pronoun.plural:
            return "they" if is_subject else "them"
        if pronoun.human:
            return "he" if pronoun.gender == "m" else "she"
        return "it"

    def clause_root(self, clause: Clause, relation: str, head: Word | None) -> Word:
        form, pos = (clause.adjective.english, "ADJ") if clause.adjective is not None else ("", "VERB")
        return Word(form, pos, relation, head, ((clause, "predicate"),))

    def fill_clause(self, clause: Clause, root: Word, *, question: str = "") -> None:
        if isinstance(clause.object, Gap):
            self.argument(clause.object, "obj", root)
        inverts = question not in ("", "who")
        auxiliary = _auxiliary(clause, inverts=inverts)
        if not inverts:
            self.subject(clause, root)
        if auxiliary is not None:
            relation = "cop" if clause.adjective is not None else "aux:pass" if clause.passive else "aux"
            asks = [(clause, "asks")] if inverts else []
            self.add(auxiliary, "AUX", relation, root, (clause, "tense"), *asks)
        if inverts:
            self.subject(clause, root)
        self.negation_and_frequency(clause, root)
        self.modifier(clause.degree, root, clause, "degree")
        if clause.verb is not None:
            root.form = _verb_form(clause, clause.verb, has_auxiliary=auxiliary is not None)
        if clause.past and auxiliary is None:
            root.sources = ((clause, "predicate"), (clause, "tense"))
        self.words.append(root)
        self.complements(clause, root)

    def determiner(self, nominal: Nominal, word: Word) -> None:
        if nominal.possessor is not None:
            owner = self.nominal(nominal.possessor, "nmod:poss", word)
            self.add("'s", "PART", "case", owner, (nominal, "of"))
        elif nominal.determiner in POSSESSIVES:
            self.add(nominal.determiner, "PRON", "nmod:poss", word, (nominal, "determiner"))
        elif nominal.determiner:
            form = "these" if nominal.plural and nominal.determiner == "this" else nominal.determiner
            pos, relation = ("ADJ", "amod") if form == "several" else ("DET", "det")
            self.add(form, pos, relation, word, (nominal, "determiner"))

    def before_noun(self, nominal: Nominal, word: Word) -> None:
        for adjective in nominal.adjectives:
            self.add(adjective.english, "ADJ", "amod", word, (nominal, adjective))

    def adapt_to_next_words(self) -> None:
        for word, following in itertools.pairwise(self.words):
            if word.form == "a" and following.form[0] in "aeiouAEIOU":
                word.form = "a" if following.form.startswith(_CONSONANT_SOUNDS) else "an"


def _auxiliary(clause: Clause, *, inverts: bool) -> str | None:
    """The finite auxiliary or copula, if the clause has one."""
    if clause.adjective is not None or clause.passive:
        return (_BE_PAST if clause.past else _BE)[clause.person_index]
    if clause.polarity == "not" or inverts:
        return "did" if clause.past else _DO[clause.person_index]
    return None


def _verb_form(clause: Clause, verb: Verb, *, has_auxiliary: bool) -> str:
    if clause.passive:
        return verb.participle
    if has_auxiliary:
        return verb.english
    if clause.past:
        return verb.past
    return verb.third if clause.person_index == 1 else verb.english


def english_text(clause: Clause, question: str = "") -> str:
    return EnglishSentence(Sentence(main=clause, question=question)).text
