"""A meaning written in English: word order, do-support, articles, agreement of the verb.

"not" is aligned with both halves of "ne … pas", the auxiliary "did" with the French auxiliary, "does" with nothing in a
statement; in a question the auxiliary is aligned with "est-ce que".
"""

from __future__ import annotations

from regard.data.synthetic.lexicon import POSSESSIVES, Verb
from regard.data.synthetic.meaning import Clause, Gap, Nominal, Pronoun, Sentence
from regard.data.synthetic.patterns import NEVER
from regard.data.synthetic.realizer import Realizer
from regard.data.synthetic.words import Word, Written

_CONSONANT_SOUNDS = ("Eu", "use")  # "a European", "a useful"


class _English(Realizer):
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

    def fill_clause(self, out: Written, clause: Clause, root: Word, *, question: str = "") -> None:
        if isinstance(clause.object, Gap):
            self.argument(out, clause.object, "obj", root)
        if question in ("who", "what"):
            out.add(question, "PRON", "nsubj" if question == "who" else "obj", root, (clause, "wh"))
        elif question in ("where", "when", "why"):
            out.add(question, "ADV", "advmod", root, (clause, "wh"))
        inverts = question not in ("", "who")
        auxiliary = _auxiliary(clause, inverts=inverts)
        if auxiliary is not None and inverts:
            _write_auxiliary(out, clause, root, auxiliary, asks=True)
        self.subject(out, clause, root)
        if auxiliary is not None and not inverts:
            _write_auxiliary(out, clause, root, auxiliary, asks=False)
        if clause.polarity == "not":
            out.add("not", "PART", "advmod", root, (clause, "not"))
        elif clause.polarity == "never":
            self.phrase(out, NEVER, root, clause, "not")
        self.phrase(out, clause.frequency, root, clause, "frequency")
        self.phrase(out, clause.degree, root, clause, "degree")
        if clause.verb is not None:
            root.form = _verb_form(clause, clause.verb, has_auxiliary=auxiliary is not None)
        if clause.past and auxiliary is None:
            root.sources = ((clause, "predicate"), (clause, "tense"))
        out.words.append(root)
        self.complements(out, clause, root)

    def determiner(self, out: Written, nominal: Nominal, word: Word) -> Word | None:
        if nominal.possessor is not None:
            owner = self.nominal(out, nominal.possessor, "nmod:poss", word)
            out.add("'s", "PART", "case", owner, (nominal, "of"))
            return None
        if not nominal.determiner:
            return None
        if nominal.determiner in POSSESSIVES:
            return out.add(nominal.determiner, "PRON", "nmod:poss", word, (nominal, "determiner"))
        form = "these" if nominal.plural and nominal.determiner == "this" else nominal.determiner
        pos, relation = ("ADJ", "amod") if form == "several" else ("DET", "det")
        return out.add(form, pos, relation, word, (nominal, "determiner"))

    def before_noun(self, out: Written, nominal: Nominal, word: Word) -> None:
        for adjective in nominal.adjectives:
            out.add(adjective.english, "ADJ", "amod", word, (nominal, adjective))

    def after_noun(self, out: Written, nominal: Nominal, word: Word, determiner: Word | None) -> None:
        if determiner is not None and determiner.form == "a":
            following = out.words[out.words.index(determiner) + 1].form
            has_vowel = following[0] in "aeiouAEIOU" and not following.startswith(_CONSONANT_SOUNDS)
            determiner.form = "an" if has_vowel else "a"


def _is_third_singular(clause: Clause) -> bool:
    return clause.subject is None or (clause.subject.person == 3 and not clause.subject.plural)


def _auxiliary(clause: Clause, *, inverts: bool) -> str | None:
    """The finite auxiliary or copula, if the clause has one."""
    plural = clause.subject is not None and clause.subject.plural
    if clause.adjective is not None or clause.passive:
        if clause.past:
            return "were" if plural else "was"
        return "are" if plural else ("is" if _is_third_singular(clause) else "am")
    if clause.polarity == "not" or inverts:
        if clause.past:
            return "did"
        return "does" if _is_third_singular(clause) else "do"
    return None


def _write_auxiliary(out: Written, clause: Clause, root: Word, form: str, *, asks: bool) -> None:
    relation = "cop" if clause.adjective is not None else "aux:pass" if clause.passive else "aux"
    sources = [(clause, "tense"), (clause, "asks")] if asks else [(clause, "tense")]
    out.add(form, "AUX", relation, root, *sources)


def _verb_form(clause: Clause, verb: Verb, *, has_auxiliary: bool) -> str:
    if clause.passive:
        return verb.participle
    if has_auxiliary:
        return verb.english
    if clause.past:
        return verb.past
    return verb.third if _is_third_singular(clause) else verb.english


_ENGLISH = _English()


def write_english(sentence: Sentence) -> Written:
    """The sentence in English, capitalized."""
    return _ENGLISH.write(sentence).capitalized()


def english_text(sentence: Sentence) -> str:
    return write_english(sentence).text(spaced_question_mark=False)
