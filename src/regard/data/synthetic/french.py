"""A meaning written in French: agreement, place of adjectives, "ne … pas", elision and contraction.

The contractions du, des, au and aux stay one word (a preposition), and "est-ce" is one word.
"""

from __future__ import annotations

from functools import cache

from regard.data.synthetic.lexicon import POSSESSIVES, Adjective, Verb, inflect
from regard.data.synthetic.meaning import Argument, Clause, Gap, Nominal, Pronoun, Sentence
from regard.data.synthetic.nouns import ASPIRATED, Noun
from regard.data.synthetic.patterns import NEVER, Pattern, Phrase
from regard.data.synthetic.realizer import Realizer
from regard.data.synthetic.words import Word, Written

_ELIDED = {"le": "l'", "la": "l'", "de": "d'", "que": "qu'", "ne": "n'", "je": "j'"}
_CONTRACTED = {("de", "le"): "du", ("de", "les"): "des", ("à", "le"): "au", ("à", "les"): "aux"}
_AVOIR = {(1, False): "ai", (1, True): "avons", (3, False): "a", (3, True): "ont"}
_ETRE = {(1, False): "suis", (1, True): "sommes", (3, False): "est", (3, True): "sont"}
_ETRE_IMPERFECT = {(1, False): "étais", (1, True): "étions", (3, False): "était", (3, True): "étaient"}
_AVOIR_IMPERFECT = {(1, False): "avais", (1, True): "avions", (3, False): "avait", (3, True): "avaient"}
_QUESTION_WORDS = {"where": "où", "when": "quand", "why": "pourquoi"}


class _French(Realizer):
    objects_before_verb = (Gap, Pronoun)

    def pattern(self, phrase: Phrase) -> Pattern:
        return phrase.french

    def prepositions(self, verb: Verb) -> tuple[str | None, str | None]:
        return verb.french_preposition, verb.preposition

    def noun_form(self, noun: Noun, *, plural: bool) -> str:
        return noun.french_plural if plural else noun.french

    def relative_pronoun(self, gap: Gap, *, is_subject: bool) -> str:
        return "qui" if is_subject else "que"

    def pronoun(self, pronoun: Pronoun, *, is_subject: bool) -> str:
        if not is_subject:
            return "les" if pronoun.plural else "le" if pronoun.gender == "m" else "la"
        if pronoun.person == 1:
            return "nous" if pronoun.plural else "je"
        return ("il" if pronoun.gender == "m" else "elle") + ("s" if pronoun.plural else "")

    def clause_root(self, clause: Clause, relation: str, head: Word | None) -> Word:
        adjective = clause.adjective
        if adjective is None:
            return Word("", "VERB", relation, head, ((clause, "predicate"),))
        if adjective.idiom is not None:  # "avait faim": the verb is the head
            return Word("", "VERB", relation, head, ((clause, "tense"),))
        return Word("", "ADJ", relation, head, ((clause, "predicate"),))

    def fill_clause(self, out: Written, clause: Clause, root: Word, *, question: str = "") -> None:
        _question_words(out, clause, root, question)
        if isinstance(clause.object, Gap):
            self.argument(out, clause.object, "obj", root)
        if clause.subject is not None and not clause.silent_subject:
            self.argument(out, clause.subject, "nsubj:pass" if clause.passive else "nsubj", root)
        if clause.polarity:
            out.phenomena.add("negation")
            source = (clause, "not") if clause.polarity == "not" else (clause, "nota")
            out.add("ne", "ADV", "advmod", root, source)
        if isinstance(clause.object, Pronoun):
            self.argument(out, clause.object, "obj", root)
        if clause.verb is not None:
            _verb_group(out, clause, clause.verb, root)
        elif clause.adjective is not None:
            _copular_group(out, clause, clause.adjective, root)
        self.complements(out, clause, root)

    def determiner(self, out: Written, nominal: Nominal, word: Word) -> Word | None:
        source = (nominal, "of" if nominal.possessor is not None else "determiner")
        if nominal.determiner == "some" and not nominal.plural:  # the partitive: du, de la, de l'
            out.add("de", "DET", "det", word, source)
        form = _determiner_form(nominal)
        if form:
            before_vowel = {"ce": "cet", "ma": "mon", "sa": "son"}.get(form)
            out.add(form, "DET", "det", word, source, before_vowel=before_vowel)
        return None

    def before_noun(self, out: Written, nominal: Nominal, word: Word) -> None:
        _adjectives(out, nominal, word, precede=True)

    def after_noun(self, out: Written, nominal: Nominal, word: Word, determiner: Word | None) -> None:
        _adjectives(out, nominal, word, precede=False)
        if nominal.possessor is not None:
            de = out.add("de", "ADP", "case", None, (nominal, "of"))
            de.head = self.nominal(out, nominal.possessor, "nmod", word)
            out.phenomena.add("possessor")


def _question_words(out: Written, clause: Clause, root: Word, question: str) -> None:
    if not question:
        return
    if question == "who":
        out.add("qui", "PRON", "nsubj", root, (clause, "wh"))
        return
    if question == "what":
        out.add("que", "PRON", "obj", root, (clause, "wh"))
    elif question in _QUESTION_WORDS:
        out.add(_QUESTION_WORDS[question], "ADV", "advmod", root, (clause, "wh"))
    asking = out.add("est-ce", "PART", "mark", root, (clause, "asks"))
    out.add("que", "SCONJ", "fixed", asking, (clause, "asks"))


def _person_and_number(clause: Clause) -> tuple[int, bool]:
    return (3, False) if clause.subject is None else (clause.subject.person, clause.subject.plural)


def _after_finite(out: Written, clause: Clause, root: Word) -> None:
    """Write what directly follows the finite verb: "pas", "jamais", "souvent"."""
    if clause.polarity == "not":
        out.add("pas", "ADV", "advmod", root, (clause, "not"))
    elif clause.polarity == "never":
        out.add_pattern(NEVER.french, root, clause, "not")
    if clause.frequency is not None:
        out.add_pattern(clause.frequency.french, root, clause, "frequency")


def _verb_group(out: Written, clause: Clause, verb: Verb, root: Word) -> None:
    person, plural = _person_and_number(clause)
    if not clause.past and not clause.passive:
        root.form = verb.french_present[2 * plural + (person == 3)]
        out.words.append(root)
        _after_finite(out, clause, root)
        return
    is_plain_passive = clause.passive and not clause.past  # "est traversée"; the past is "a été traversée"
    with_etre = is_plain_passive or (verb.takes_etre and not clause.passive)
    relation = "aux:pass" if is_plain_passive else "aux"
    out.add((_ETRE if with_etre else _AVOIR)[person, plural], "AUX", relation, root, (clause, "tense"))
    _after_finite(out, clause, root)
    if clause.passive:
        out.phenomena.add("passive")
    if clause.passive and clause.past:
        out.add("été", "AUX", "aux:pass", root, (clause, "tense"))
    root.form = _participle(out, clause, verb)
    out.words.append(root)


def _participle(out: Written, clause: Clause, verb: Verb) -> str:
    """The participle agrees with the subject under être, and with an object that precedes avoir."""
    controller: Argument | None = None
    if verb.takes_etre or clause.passive:
        controller = clause.subject
    elif isinstance(clause.object, Pronoun | Gap):
        controller = clause.object
    if controller is None:
        return verb.french_participle
    out.phenomena.add("participle agreement")
    return inflect(verb.french_participle)[2 * controller.plural + (controller.gender == "f")]


def _copular_group(out: Written, clause: Clause, adjective: Adjective, root: Word) -> None:
    person, plural = _person_and_number(clause)
    if adjective.idiom is not None:
        root.form = (_AVOIR_IMPERFECT if clause.past else _AVOIR)[person, plural]
        out.words.append(root)
        _after_finite(out, clause, root)
        noun = Word(adjective.idiom, "NOUN", "obj", root, ((clause, "predicate"),))
        _degree(out, clause, noun)
        out.words.append(noun)
        out.phenomena.add("idiom")
        return
    out.add((_ETRE_IMPERFECT if clause.past else _ETRE)[person, plural], "AUX", "cop", root, (clause, "tense"))
    _after_finite(out, clause, root)
    _degree(out, clause, root)
    root.form = adjective.french(clause.subject.gender if clause.subject is not None else "m", plural=plural)
    out.words.append(root)
    out.phenomena.add("predicate agreement")


def _degree(out: Written, clause: Clause, head: Word) -> None:
    if clause.degree is not None:
        out.add_pattern(clause.degree.french, head, clause, "degree")


def _adjectives(out: Written, nominal: Nominal, word: Word, *, precede: bool) -> None:
    """Adjectives before the noun have the English order, those after it the reverse."""
    adjectives = [adjective for adjective in nominal.adjectives if adjective.precedes == precede]
    for adjective in adjectives if precede else reversed(adjectives):
        before_vowel = adjective.before_vowel if nominal.gender == "m" and not nominal.plural else None
        form = adjective.french(nominal.gender, plural=nominal.plural)
        out.add(form, "ADJ", "amod", word, (nominal, adjective), before_vowel=before_vowel)
        out.phenomena.add("adjective before" if precede else "adjective after")


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
def starts_with_vowel(form: str) -> bool:
    """Whether the word before it is elided: before vowels and silent h, not before the h of "hibou"."""
    return form[0] in "aeiouyhàâéèêîôûœAEIOUHÉ" and form not in ASPIRATED


def _adapt_to_neighbours(out: Written) -> None:
    """Elide and contract from right to left, so that each word sees the final form of its neighbour."""
    words = out.words
    for index in range(len(words) - 2, -1, -1):
        word, following = words[index], words[index + 1]
        adapted = word.before_vowel or _ELIDED.get(word.form)
        if adapted is not None and starts_with_vowel(following.form):
            word.form = adapted
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
    _adapt_to_neighbours(out)
    out.capitalize()
    return out
