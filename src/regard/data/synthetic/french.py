"""A meaning written in French: agreement, position of adjectives, "ne … pas", elision and contraction.

The contractions du, des, au and aux stay one word (a preposition), and "est-ce" is one word.
"""

from __future__ import annotations

from functools import cache

from regard.data.synthetic.lexicon import POSSESSIVES, Adjective, Verb, inflect
from regard.data.synthetic.meaning import Clause, Gap, Nominal, Pronoun, Sentence
from regard.data.synthetic.nouns import ASPIRATED
from regard.data.synthetic.patterns import NEVER
from regard.data.synthetic.realizer import Realizer
from regard.data.synthetic.words import Word, Written

_ELIDED = {"le": "l'", "la": "l'", "de": "d'", "que": "qu'", "ne": "n'", "je": "j'"}
_CONTRACTED = {("de", "le"): "du", ("de", "les"): "des", ("à", "le"): "au", ("à", "les"): "aux"}
_BEFORE_VOWEL = {"ce": "cet", "ma": "mon", "sa": "son"}
# Forms of je, il, nous, ils.
_AVOIR, _AVOIR_IMPERFECT = ("ai", "a", "avons", "ont"), ("avais", "avait", "avions", "avaient")
_ETRE, _ETRE_IMPERFECT = ("suis", "est", "sommes", "sont"), ("étais", "était", "étions", "étaient")
_QUESTION_WORDS = {
    "who": ("qui", "PRON", "nsubj"),
    "what": ("que", "PRON", "obj"),
    "where": ("où", "ADV", "advmod"),
    "when": ("quand", "ADV", "advmod"),
    "why": ("pourquoi", "ADV", "advmod"),
}


class _French(Realizer):
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

    def fill_clause(self, out: Written, clause: Clause, root: Word, *, question: str = "") -> None:
        if question in _QUESTION_WORDS:
            out.add(*_QUESTION_WORDS[question], root, (clause, "wh"))
        if question not in ("", "who"):
            est_ce = out.add("est-ce", "PART", "mark", root, (clause, "asks"))
            out.add("que", "SCONJ", "fixed", est_ce, (clause, "asks"))
        if isinstance(clause.object, Gap):
            self.argument(out, clause.object, "obj", root)
        self.subject(out, clause, root)
        if clause.polarity:
            out.phenomena.add("negation")
            out.add("ne", "ADV", "advmod", root, (clause, "not" if clause.polarity == "not" else "nota"))
        if isinstance(clause.object, Pronoun):
            self.argument(out, clause.object, "obj", root)
        if clause.verb is not None:
            self._verb_group(out, clause, clause.verb, root)
        elif clause.adjective is not None:
            self._copular_group(out, clause, clause.adjective, root)
        self.complements(out, clause, root)

    def _after_finite(self, out: Written, clause: Clause, root: Word) -> None:
        """Write what directly follows the finite verb: "pas", "jamais", "souvent"."""
        if clause.polarity == "not":
            out.add("pas", "ADV", "advmod", root, (clause, "not"))
        elif clause.polarity == "never":
            self.phrase(out, NEVER, root, clause, "not")
        self.phrase(out, clause.frequency, root, clause, "frequency")

    def _verb_group(self, out: Written, clause: Clause, verb: Verb, root: Word) -> None:
        form = _person_index(clause)
        if not clause.past and not clause.passive:
            root.form = verb.french_present[form]
            out.words.append(root)
            self._after_finite(out, clause, root)
            return
        is_plain_passive = clause.passive and not clause.past  # "est traversée"; the past is "a été traversée"
        with_etre = is_plain_passive or (verb.takes_etre and not clause.passive)
        relation = "aux:pass" if is_plain_passive else "aux"
        out.add((_ETRE if with_etre else _AVOIR)[form], "AUX", relation, root, (clause, "tense"))
        self._after_finite(out, clause, root)
        if clause.passive:
            out.phenomena.add("passive")
        if clause.passive and clause.past:
            out.add("été", "AUX", "aux:pass", root, (clause, "tense"))
        root.form = _participle(out, clause, verb)
        out.words.append(root)

    def _copular_group(self, out: Written, clause: Clause, adjective: Adjective, root: Word) -> None:
        form = _person_index(clause)
        if adjective.idiom is not None:
            root.form = (_AVOIR_IMPERFECT if clause.past else _AVOIR)[form]
            out.words.append(root)
            self._after_finite(out, clause, root)
            noun = Word(adjective.idiom, "NOUN", "obj", root, ((clause, "predicate"),))
            self.phrase(out, clause.degree, noun, clause, "degree")
            out.words.append(noun)
            out.phenomena.add("idiom")
            return
        out.add((_ETRE_IMPERFECT if clause.past else _ETRE)[form], "AUX", "cop", root, (clause, "tense"))
        self._after_finite(out, clause, root)
        self.phrase(out, clause.degree, root, clause, "degree")
        gender = clause.subject.gender if clause.subject is not None else "m"
        root.form = adjective.french(gender, plural=clause.subject is not None and clause.subject.plural)
        out.words.append(root)
        out.phenomena.add("predicate agreement")

    def determiner(self, out: Written, nominal: Nominal, word: Word) -> Word | None:
        source = (nominal, "of" if nominal.possessor is not None else "determiner")
        if nominal.determiner == "some" and not nominal.plural:  # the partitive: du, de la, de l'
            out.add("de", "DET", "det", word, source)
        if form := _determiner_form(nominal):
            out.add(form, "DET", "det", word, source, before_vowel=_BEFORE_VOWEL.get(form))
        return None

    def before_noun(self, out: Written, nominal: Nominal, word: Word) -> None:
        for adjective in nominal.adjectives:
            if adjective.precedes:
                _write_adjective(out, nominal, adjective, word)

    def after_noun(self, out: Written, nominal: Nominal, word: Word, determiner: Word | None) -> None:
        for adjective in reversed(nominal.adjectives):
            if not adjective.precedes:
                _write_adjective(out, nominal, adjective, word)
        if nominal.possessor is not None:
            de = out.add("de", "ADP", "case", None, (nominal, "of"))
            de.head = self.nominal(out, nominal.possessor, "nmod", word)
            out.phenomena.add("possessor")


def _person_index(clause: Clause) -> int:
    """The index of the subject's form among those of je, il, nous, ils."""
    return 1 if clause.subject is None else 2 * clause.subject.plural + (clause.subject.person == 3)


def _participle(out: Written, clause: Clause, verb: Verb) -> str:
    """The participle agrees with the subject under être, and with an object that precedes avoir."""
    controller = clause.subject
    if not (verb.takes_etre or clause.passive):
        controller = clause.object if isinstance(clause.object, Pronoun | Gap) else None
    if controller is None:
        return verb.french_participle
    out.phenomena.add("participle agreement")
    return inflect(verb.french_participle)[2 * controller.plural + (controller.gender == "f")]


def _write_adjective(out: Written, nominal: Nominal, adjective: Adjective, noun: Word) -> None:
    before_vowel = adjective.before_vowel if nominal.gender == "m" and not nominal.plural else None
    form = adjective.french(nominal.gender, plural=nominal.plural)
    out.add(form, "ADJ", "amod", noun, (nominal, adjective), before_vowel=before_vowel)
    out.phenomena.add("adjective before" if adjective.precedes else "adjective after")


def _determiner_form(nominal: Nominal) -> str:
    kind, plural, feminine = nominal.determiner, nominal.plural, nominal.gender == "f"
    if kind == "the" or (kind == "some" and not plural):
        return "les" if plural else ("la" if feminine else "le")
    if kind == "some":  # "des chats", but "de beaux chats"
        return "de" if any(adjective.precedes for adjective in nominal.adjectives) else "des"
    if kind == "a":
        return "une" if feminine else "un"
    if kind == "this":
        return "ces" if plural else ("cette" if feminine else "ce")
    if kind in POSSESSIVES:
        return POSSESSIVES[kind][2 if plural else int(feminine)]
    return {"any": "de", "every": "chaque", "several": "plusieurs", "": ""}[kind]


@cache
def _starts_with_vowel(form: str) -> bool:
    """Whether the word before it is elided: before vowels and silent h, not before the h of "hibou"."""
    return form[0] in "aeiouyhàâéèêîôûœAEIOUHÉ" and form not in ASPIRATED


def _elide_and_contract(out: Written) -> None:
    """Go from right to left, so that each word sees the final form of the next one."""
    words = out.words
    for index in range(len(words) - 2, -1, -1):
        word, following = words[index], words[index + 1]
        elided = word.before_vowel or _ELIDED.get(word.form)
        if elided is not None and _starts_with_vowel(following.form):
            word.form = elided
            out.phenomena.add("elision")
        elif following.pos == "DET" and (word.form, following.form) in _CONTRACTED:
            word.form = _CONTRACTED[word.form, following.form]
            word.sources += following.sources
            del words[index + 1]
            out.phenomena.add("contraction")


_FRENCH = _French()


def write_french(sentence: Sentence) -> Written:
    """The sentence in French, elided, contracted and capitalized."""
    out = _FRENCH.write(sentence)
    _elide_and_contract(out)
    return out.capitalized()
