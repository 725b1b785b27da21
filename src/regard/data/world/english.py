"""A meaning said in English: word order, do-support, articles, agreement of the verb.

Tags and relations follow Universal Dependencies. "not" stands for both halves of "ne … pas"; the
auxiliary "did" for the French auxiliary, "does" for nothing in a statement; in a question the auxiliary
stands for "est-ce que". It knows no French.
"""

from __future__ import annotations

from regard.data.world.lexicon import POSSESSIVES, Verb
from regard.data.world.meaning import Argument, Clause, Coordination, Gap, Nominal, Place, Pronoun, Sentence
from regard.data.world.patterns import CONNECTORS, NEVER, PREPOSITIONS
from regard.data.world.words import Word, Written

_PLURAL_DETERMINERS = {"this": "these"}
_CONSONANT_SOUNDS = ("Eu", "use")  # "a European", "a useful"


def write_english(sentence: Sentence) -> Written:
    """The sentence in English, capitalised and punctuated."""
    out = Written()
    root = _clause(out, sentence.main, "root", None, question=sentence.question)
    if sentence.second is not None and sentence.connector is not None:
        is_coordinate = sentence.connector.name in ("and", "but")
        second = _open_clause(sentence.second, "conj" if is_coordinate else "advcl", root)
        out.add_pattern(sentence.connector.english, second, sentence.second, "connector")
        _fill_clause(out, sentence.second, second)
    out.add("?" if sentence.question else ".", "PUNCT", "punct", root, (sentence, "stop"))
    out.capitalise()
    return out


def _clause(out: Written, clause: Clause, relation: str, head: Word | None, *, question: str = "") -> Word:
    root = _open_clause(clause, relation, head)
    _fill_clause(out, clause, root, question=question)
    return root


def _open_clause(clause: Clause, relation: str, head: Word | None) -> Word:
    """The word that heads the clause, not yet written: its dependents may stand before it."""
    if clause.adjective is not None:
        return Word(clause.adjective.english, "ADJ", relation, head, ((clause, "predicate"),))
    return Word("", "VERB", relation, head, ((clause, "predicate"),))


def _fill_clause(out: Written, clause: Clause, root: Word, *, question: str = "") -> None:
    if isinstance(clause.object, Gap):
        _argument(out, clause.object, "obj", root)
    _question_word(out, clause, root, question)
    auxiliary = _auxiliary(clause, inverts=question not in ("", "who"))
    inverted = question not in ("", "who") and auxiliary is not None
    if inverted and auxiliary is not None:
        _write_auxiliary(out, clause, root, auxiliary, asks=True)
    if clause.subject is not None and not clause.silent_subject:
        _argument(out, clause.subject, "nsubj:pass" if clause.passive else "nsubj", root)
    if auxiliary is not None and not inverted:
        _write_auxiliary(out, clause, root, auxiliary, asks=False)
    if clause.polarity == "not":
        out.add("not", "PART", "advmod", root, (clause, "not"))
    if clause.polarity == "never":
        out.add_pattern(NEVER.english, root, clause, "not")
    if clause.frequency is not None:
        out.add_pattern(clause.frequency.english, root, clause, "frequency")
    if clause.degree is not None:
        out.add_pattern(clause.degree.english, root, clause, "degree")
    if clause.verb is not None:
        root.form = _verb_form(clause, clause.verb, has_auxiliary=auxiliary is not None)
    if clause.past and auxiliary is None:
        root.sources = ((clause, "predicate"), (clause, "tense"))
    out.words.append(root)
    _complements(out, clause, root, question)


def _complements(out: Written, clause: Clause, root: Word, question: str) -> None:
    if clause.verb is not None and clause.object is not None and not isinstance(clause.object, Gap):
        _object(out, clause, clause.verb, clause.object, root)
    if clause.agent is not None:
        _prepositional(out, Place(PREPOSITIONS["by"], clause.agent), "obl", root)
    if clause.recipient is not None:
        _prepositional(out, Place(PREPOSITIONS["to"], clause.recipient), "obl", root)
    if clause.manner is not None:
        out.add_pattern(clause.manner.english, root, clause, "manner")
    if clause.place is not None:
        _prepositional(out, clause.place, "obl", root)
    if clause.time is not None:
        out.add_pattern(clause.time.english, root, clause, "time")


def _question_word(out: Written, clause: Clause, root: Word, question: str) -> None:
    if question == "who":
        out.add("who", "PRON", "nsubj", root, (clause, "wh"))
    elif question == "what":
        out.add("what", "PRON", "obj", root, (clause, "wh"))
    elif question in ("where", "when", "why"):
        out.add(question, "ADV", "advmod", root, (clause, "wh"))


def _auxiliary(clause: Clause, *, inverts: bool) -> str | None:
    """The finite auxiliary or copula, if the clause has one."""
    person = clause.subject.person if clause.subject is not None else 3
    plural = clause.subject is not None and clause.subject.plural
    if clause.adjective is not None or clause.passive:
        if clause.past:
            return "were" if plural else "was"
        return "are" if plural else ("am" if person == 1 else "is")
    if clause.polarity == "not" or inverts:
        if clause.past:
            return "did"
        return "does" if person == 3 and not plural else "do"
    return None


def _write_auxiliary(out: Written, clause: Clause, root: Word, form: str, *, asks: bool) -> None:
    sources = [(clause, "tense")]
    if clause.adjective is not None:
        relation = "cop"
    elif clause.passive:
        relation = "aux:pass"
    else:
        relation = "aux"
    if asks:
        sources.append((clause, "asks"))
    out.add(form, "AUX", relation, root, *sources)


def _verb_form(clause: Clause, verb: Verb, *, has_auxiliary: bool) -> str:
    if clause.passive:
        return verb.participle
    if has_auxiliary:
        return verb.english
    if clause.past:
        return verb.past
    person = clause.subject.person if clause.subject is not None else 3
    plural = clause.subject is not None and clause.subject.plural
    return verb.third if person == 3 and not plural else verb.english


def _object(out: Written, clause: Clause, verb: Verb, object_: Argument, root: Word) -> None:
    if verb.preposition is None:
        _argument(out, object_, "obj", root)
        return
    # A preposition that French lacks ("wait for") is part of what the French verb says.
    source = (clause, "preposition") if verb.french_preposition else (clause, "predicate")
    preposition = out.add(verb.preposition, "ADP", "case", None, source)
    preposition.head = _argument(out, object_, "obl", root)


def _prepositional(out: Written, place: Place, relation: str, head: Word) -> None:
    preposition = out.add_pattern(place.preposition.english, None, place.nominal, "preposition")
    preposition.head = _argument(out, place.nominal, relation, head)


def _argument(out: Written, argument: Argument, relation: str, head: Word | None) -> Word:
    if isinstance(argument, Nominal):
        return _nominal(out, argument, relation, head)
    if isinstance(argument, Gap):
        is_who = relation == "nsubj" and "human" in argument.nominal.noun.tags
        return out.add("who" if is_who else "that", "PRON", relation, head, (argument, "noun"))
    if isinstance(argument, Pronoun):
        form = _pronoun(argument, is_subject=relation.startswith("nsubj"))
        word = out.add(form, "PRON", relation, head, (argument, "noun"))
        out.head_words[argument] = word
        return word
    return _coordination(out, argument, relation, head)


def _pronoun(pronoun: Pronoun, *, is_subject: bool) -> str:
    if pronoun.person == 1:
        return "we" if pronoun.plural else "I"
    if pronoun.plural:
        return "they" if is_subject else "them"
    if pronoun.human:
        return "he" if pronoun.gender == "m" else "she"
    return "it"


def _coordination(out: Written, pair: Coordination, relation: str, head: Word | None) -> Word:
    first = _nominal(out, pair.first, relation, head)
    and_ = out.add_pattern(CONNECTORS["and"].english, None, pair, "and")
    and_.head = _nominal(out, pair.second, "conj", first)
    return first


def _nominal(out: Written, nominal: Nominal, relation: str, head: Word | None) -> Word:
    noun = nominal.noun
    form = noun.english_plural if nominal.plural else noun.english
    word = Word(form, "PROPN" if noun.is_name else "NOUN", relation, head, ((nominal, "noun"),))
    out.head_words[nominal] = word
    determiner = _determiner(out, nominal, word)
    if nominal.numeral is not None:
        out.add_pattern(nominal.numeral.english, word, nominal, "numeral")
    for adjective in nominal.adjectives:
        out.add(adjective.english, "ADJ", "amod", word, (nominal, adjective))
    if noun.compound is None:
        out.words.append(word)
    else:
        main = noun.compound.english.pieces[noun.compound.english.main]
        word.form, word.sources = main.form, ((nominal, "compound" + main.label),)
        out.add_around(noun.compound.english, word, nominal, "compound")
    if determiner is not None and determiner.form == "a":
        determiner.form = _article_before(out.words[out.words.index(determiner) + 1].form)
    if nominal.place is not None:
        _prepositional(out, nominal.place, "nmod", word)
    if nominal.relative is not None:
        _clause(out, nominal.relative, "acl:relcl", word)
    return word


def _determiner(out: Written, nominal: Nominal, word: Word) -> Word | None:
    if nominal.possessor is not None:
        owner = _nominal(out, nominal.possessor, "nmod:poss", word)
        out.add("'s", "PART", "case", owner, (nominal, "of"))
        return None
    if not nominal.determiner:
        return None
    if nominal.determiner in POSSESSIVES:
        return out.add(nominal.determiner, "PRON", "nmod:poss", word, (nominal, "determiner"))
    form = nominal.determiner
    if nominal.plural:
        form = _PLURAL_DETERMINERS.get(form, form)
    pos, relation = ("ADJ", "amod") if form == "several" else ("DET", "det")
    return out.add(form, pos, relation, word, (nominal, "determiner"))


def _article_before(form: str) -> str:
    return "an" if form[0] in "aeiouAEIOU" and not form.startswith(_CONSONANT_SOUNDS) else "a"
