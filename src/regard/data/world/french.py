"""A meaning said in French: agreement, place of adjectives, "ne … pas", elision and contraction.

Tags and relations follow Universal Dependencies, except that the contractions du, des, au and aux stay
one word (a preposition) and "est-ce" is one word. It knows no English.
"""

from __future__ import annotations

from functools import cache

from regard.data.world.lexicon import POSSESSIVES, Adjective, Verb, inflect
from regard.data.world.meaning import Argument, Clause, Coordination, Gap, Nominal, Place, Pronoun, Sentence
from regard.data.world.nouns import ASPIRATED
from regard.data.world.patterns import CONNECTORS, NEVER, PREPOSITIONS
from regard.data.world.words import Word, Written

_ELIDED = {"le": "l'", "la": "l'", "de": "d'", "que": "qu'", "ne": "n'", "je": "j'"}
_CONTRACTED = {("de", "le"): "du", ("de", "les"): "des", ("à", "le"): "au", ("à", "les"): "aux"}
_AVOIR = {(1, False): "ai", (1, True): "avons", (3, False): "a", (3, True): "ont"}
_ETRE = {(1, False): "suis", (1, True): "sommes", (3, False): "est", (3, True): "sont"}
_ETRE_IMPERFECT = {(1, False): "étais", (1, True): "étions", (3, False): "était", (3, True): "étaient"}
_AVOIR_IMPERFECT = {(1, False): "avais", (1, True): "avions", (3, False): "avait", (3, True): "avaient"}
_QUESTION_WORDS = {"where": "où", "when": "quand", "why": "pourquoi"}


def write_french(sentence: Sentence) -> Written:
    """The sentence in French, elided, contracted, capitalised and punctuated."""
    out = Written()
    root = _open_clause(sentence.main, "root", None)
    _question_words(out, sentence.main, root, sentence.question)
    _fill_clause(out, sentence.main, root)
    if sentence.second is not None and sentence.connector is not None:
        is_coordinate = sentence.connector.name in ("and", "but")
        second = _open_clause(sentence.second, "conj" if is_coordinate else "advcl", root)
        out.add_pattern(sentence.connector.french, second, sentence.second, "connector")
        _fill_clause(out, sentence.second, second)
    out.add("?" if sentence.question else ".", "PUNCT", "punct", root, (sentence, "stop"))
    _adapt_to_neighbours(out)
    out.capitalise()
    return out


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


def _open_clause(clause: Clause, relation: str, head: Word | None) -> Word:
    """The word that heads the clause, not yet written: its dependents may stand before it."""
    adjective = clause.adjective
    if adjective is None:
        return Word("", "VERB", relation, head, ((clause, "predicate"),))
    if adjective.idiom is not None:  # "avait faim": the verb heads the clause
        return Word("", "VERB", relation, head, ((clause, "tense"),))
    return Word("", "ADJ", relation, head, ((clause, "predicate"),))


def _fill_clause(out: Written, clause: Clause, root: Word) -> None:
    if isinstance(clause.object, Gap):
        _argument(out, clause.object, "obj", root)
    if clause.subject is not None and not clause.silent_subject:
        _argument(out, clause.subject, "nsubj:pass" if clause.passive else "nsubj", root)
    if clause.polarity:
        out.phenomena.add("negation")
        source = (clause, "not") if clause.polarity == "not" else (clause, "nota")
        out.add("ne", "ADV", "advmod", root, source)
    if isinstance(clause.object, Pronoun):
        _argument(out, clause.object, "obj", root)
    if clause.verb is not None:
        _verb_group(out, clause, clause.verb, root)
    elif clause.adjective is not None:
        _copular_group(out, clause, clause.adjective, root)
    _complements(out, clause, root)


def _number_and_person(clause: Clause) -> tuple[int, bool]:
    if clause.subject is None:
        return 3, False
    return clause.subject.person, clause.subject.plural


def _after_finite(out: Written, clause: Clause, root: Word) -> None:
    """What stands right behind the finite verb: "pas", "jamais", "souvent"."""
    if clause.polarity == "not":
        out.add("pas", "ADV", "advmod", root, (clause, "not"))
    elif clause.polarity == "never":
        out.add_pattern(NEVER.french, root, clause, "not")
    if clause.frequency is not None:
        out.add_pattern(clause.frequency.french, root, clause, "frequency")


def _verb_group(out: Written, clause: Clause, verb: Verb, root: Word) -> None:
    agreement = _number_and_person(clause)
    person, plural = agreement
    if not clause.past and not clause.passive:
        root.form = verb.french_present[2 * plural + (person == 3)]
        out.words.append(root)
        _after_finite(out, clause, root)
        return
    is_plain_passive = clause.passive and not clause.past  # "est traversée"; the past is "a été traversée"
    with_etre = is_plain_passive or (verb.takes_etre and not clause.passive)
    relation = "aux:pass" if is_plain_passive else "aux"
    out.add((_ETRE if with_etre else _AVOIR)[agreement], "AUX", relation, root, (clause, "tense"))
    _after_finite(out, clause, root)
    if clause.passive:
        out.phenomena.add("passive")
    if clause.passive and clause.past:
        out.add("été", "AUX", "aux:pass", root, (clause, "tense"))
    root.form = _participle(out, clause, verb)
    out.words.append(root)


def _participle(out: Written, clause: Clause, verb: Verb) -> str:
    """The participle agrees with the subject under être, and with an object that stands before avoir."""
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
    agreement = _number_and_person(clause)
    if adjective.idiom is not None:
        root.form = (_AVOIR_IMPERFECT if clause.past else _AVOIR)[agreement]
        out.words.append(root)
        _after_finite(out, clause, root)
        noun = Word(adjective.idiom, "NOUN", "obj", root, ((clause, "predicate"),))
        _degree(out, clause, noun)
        out.words.append(noun)
        out.phenomena.add("idiom")
        return
    out.add((_ETRE_IMPERFECT if clause.past else _ETRE)[agreement], "AUX", "cop", root, (clause, "tense"))
    _after_finite(out, clause, root)
    _degree(out, clause, root)
    gender = clause.subject.gender if clause.subject is not None else "m"
    root.form = adjective.french(gender, plural=agreement[1])
    out.words.append(root)
    out.phenomena.add("predicate agreement")


def _degree(out: Written, clause: Clause, head: Word) -> None:
    if clause.degree is not None:
        out.add_pattern(clause.degree.french, head, clause, "degree")


def _complements(out: Written, clause: Clause, root: Word) -> None:
    if clause.object is not None and not isinstance(clause.object, Gap | Pronoun):
        _object(out, clause, clause.object, root)
    if clause.agent is not None:
        _prepositional(out, Place(PREPOSITIONS["by"], clause.agent), "obl", root)
    if clause.recipient is not None:
        _prepositional(out, Place(PREPOSITIONS["to"], clause.recipient), "obl", root)
    if clause.manner is not None:
        out.add_pattern(clause.manner.french, root, clause, "manner")
    if clause.place is not None:
        _prepositional(out, clause.place, "obl", root)
    if clause.time is not None:
        out.add_pattern(clause.time.french, root, clause, "time")


def _object(out: Written, clause: Clause, object_: Argument, root: Word) -> None:
    verb = clause.verb
    if verb is None or verb.french_preposition is None:
        _argument(out, object_, "obj", root)
        return
    # A preposition that English lacks ("obey the king") is part of what the English verb says.
    source = (clause, "preposition") if verb.preposition else (clause, "predicate")
    preposition = out.add(verb.french_preposition, "ADP", "case", None, source)
    preposition.head = _argument(out, object_, "obl", root)


def _prepositional(out: Written, place: Place, relation: str, head: Word) -> None:
    preposition = out.add_pattern(place.preposition.french, None, place.nominal, "preposition")
    preposition.head = _argument(out, place.nominal, relation, head)


def _argument(out: Written, argument: Argument, relation: str, head: Word | None) -> Word:
    if isinstance(argument, Nominal):
        return _nominal(out, argument, relation, head)
    if isinstance(argument, Gap):
        out.phenomena.add("relative clause")
        form = "qui" if relation.startswith("nsubj") else "que"
        return out.add(form, "PRON", relation, head, (argument, "noun"))
    if isinstance(argument, Pronoun):
        form = _subject_pronoun(argument) if relation.startswith("nsubj") else _object_pronoun(argument)
        word = out.add(form, "PRON", relation, head, (argument, "noun"))
        out.head_words[argument] = word
        return word
    return _coordination(out, argument, relation, head)


def _subject_pronoun(pronoun: Pronoun) -> str:
    if pronoun.person == 1:
        return "nous" if pronoun.plural else "je"
    return ("il" if pronoun.gender == "m" else "elle") + ("s" if pronoun.plural else "")


def _object_pronoun(pronoun: Pronoun) -> str:
    if pronoun.plural:
        return "les"
    return "le" if pronoun.gender == "m" else "la"


def _coordination(out: Written, pair: Coordination, relation: str, head: Word | None) -> Word:
    first = _nominal(out, pair.first, relation, head)
    et = out.add_pattern(CONNECTORS["and"].french, None, pair, "and")
    et.head = _nominal(out, pair.second, "conj", first)
    out.phenomena.add("coordination")
    return first


def _nominal(out: Written, nominal: Nominal, relation: str, head: Word | None) -> Word:
    noun = nominal.noun
    form = noun.french_plural if nominal.plural else noun.french
    word = Word(form, "PROPN" if noun.is_name else "NOUN", relation, head, ((nominal, "noun"),))
    out.head_words[nominal] = word
    _determiner(out, nominal, word)
    if nominal.numeral is not None:
        out.add_pattern(nominal.numeral.french, word, nominal, "numeral")
        out.phenomena.add("numeral")
    _adjectives(out, nominal, word, precede=True)
    if noun.compound is None:
        out.words.append(word)
    else:
        main = noun.compound.french.pieces[noun.compound.french.main]
        word.form, word.sources = main.form, ((nominal, "compound" + main.label),)
        out.add_around(noun.compound.french, word, nominal, "compound")
        out.phenomena.add("compound")
    _adjectives(out, nominal, word, precede=False)
    if nominal.possessor is not None:
        de = out.add("de", "ADP", "case", None, (nominal, "of"))
        de.head = _nominal(out, nominal.possessor, "nmod", word)
        out.phenomena.add("possessor")
    if nominal.place is not None:
        _prepositional(out, nominal.place, "nmod", word)
    if nominal.relative is not None:
        clause_root = _open_clause(nominal.relative, "acl:relcl", word)
        _fill_clause(out, nominal.relative, clause_root)
    return word


def _adjectives(out: Written, nominal: Nominal, word: Word, *, precede: bool) -> None:
    """Adjectives before the noun keep the English order, those behind it mirror it."""
    chosen = [adjective for adjective in nominal.adjectives if adjective.precedes == precede]
    for adjective in chosen if precede else reversed(chosen):
        before_vowel = adjective.before_vowel if nominal.gender == "m" and not nominal.plural else None
        form = adjective.french(nominal.gender, plural=nominal.plural)
        out.add(form, "ADJ", "amod", word, (nominal, adjective), before_vowel=before_vowel)
        out.phenomena.add("adjective before" if precede else "adjective after")


def _determiner(out: Written, nominal: Nominal, word: Word) -> None:
    source = (nominal, "of" if nominal.possessor is not None else "determiner")
    if nominal.determiner == "some" and not nominal.plural:  # the partitive: du, de la, de l'
        out.add("de", "DET", "det", word, source)
    form = _determiner_form(nominal)
    if form:
        before_vowel = {"ce": "cet", "ma": "mon", "sa": "son"}.get(form)
        out.add(form, "DET", "det", word, source, before_vowel=before_vowel)


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
    """Whether the word before it is elided: vowels and silent h, not the h of "hibou"."""
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
