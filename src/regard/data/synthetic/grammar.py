"""Random sentences as meanings: statements, questions, relative clauses, coordination, pronouns.

Each function draws one kind of sentence that makes sense in both languages and has exactly one translation. In a scene,
a pronoun (it, they, he, she) could refer to two nouns, but only one of the nouns makes sense: "The animal did not cross
the street because it was too tired / too wide."
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

from regard.data.synthetic import lexicon
from regard.data.synthetic.clauses import (
    ALL_RANKS,
    DIRECT,
    GENDERED,
    INTRANSITIVE,
    ORDINARY,
    PEOPLE,
    TRANSITIVE,
    draw_clause,
    draw_description,
    draw_event,
    draw_name,
    draw_nominal,
    draw_object,
    draw_person,
    draw_predicate,
    draw_pronoun,
    draw_subject,
    draw_tense,
    drop_contradictions,
)
from regard.data.synthetic.lexicon import Adjective, Noun, Phrase, Verb, matching, predicates, read_table
from regard.data.synthetic.meaning import Clause, Coordination, Gap, Nominal, Place, Pronoun, Sentence, nominals
from regard.data.synthetic.sampling import Rng, Weighted


def _shared_objects(first: Verb, second: Verb, *, without: str) -> tuple[Noun, ...]:
    return tuple(noun for noun in first.objects if noun in second.objects and without not in noun.tags)


# Two verbs and the objects that they can share: "bought the apple and ate it".
_SEQUEL_PAIRS: tuple[tuple[Verb, Verb, tuple[Noun, ...]], ...] = tuple(
    (lexicon.VERB[first], second, shared)
    for first, seconds in read_table("sequels")
    for second in DIRECT
    if second.name in seconds.split() and (shared := _shared_objects(lexicon.VERB[first], second, without="human"))
)
_OBJECT_RELATIVE_PAIRS: tuple[tuple[Verb, Verb, tuple[Noun, ...]], ...] = tuple(
    (first, second, shared)
    for first, second in itertools.permutations(DIRECT, 2)
    if "present" not in first.flags | second.flags and len(shared := _shared_objects(first, second, without="kin")) >= 3
)
_RELATIVE_HEADS = frozenset(matching("human animal -kin"))
# Verbs and the adjectives that explain them.
_REACTIONS = (
    (["cry", "leave", "stay"], ["tired", "sick", "sad", "scared", "hungry", "worried"]),
    (["smile", "laugh", "sing", "dance"], ["happy", "generous", "polite", "brave"]),
)
_LOSSES = ("lose", "forget", "break")
# "The waiters who see the girls fall." is ambiguous: the girls may fall.
_PERCEPTION = ("see", "hear", "watch", "help")


def draw_ditransitive(rng: Rng) -> Sentence:
    """ "The boy gave the flower to the queens." """
    verb = rng.pick([verb for verb in lexicon.VERBS if "recipient" in verb.flags])
    polarity = "not" if rng.chance(0.2) else ""
    clause = draw_clause(rng, verb, past=rng.chance(0.7), polarity=polarity)
    clause.recipient = draw_nominal(rng, rng.pick(PEOPLE), definite=True, adjectives=0.15)
    return Sentence(main=clause)


def _head(rng: Rng, noun: Noun, *, ranks: tuple[int, ...] = ALL_RANKS) -> Nominal:
    """The definite noun that a relative clause modifies."""
    head = draw_nominal(rng, noun, definite=True, adjectives=0.15, ranks=ranks)
    head.determiner = "the"
    return head


def draw_subject_relative(rng: Rng) -> Sentence:
    """ "The girl who sees the dogs sleeps." """
    inner_verb = rng.pick(TRANSITIVE if rng.chance(0.8) else INTRANSITIVE)
    noun = rng.pick([noun for noun in inner_verb.subjects if noun in _RELATIVE_HEADS])
    head = _head(rng, noun)
    past = "present" not in inner_verb.flags and (inner_verb.name in _PERCEPTION or rng.chance(0.5))
    object_ = draw_object(rng, inner_verb) if inner_verb.objects else None
    head.relative = Clause(subject=Gap(head), verb=inner_verb, past=past, object=object_)
    return Sentence(main=_main_of(rng, head, noun, past=past))


def _main_of(rng: Rng, head: Nominal, noun: Noun, *, past: bool) -> Clause:
    """A main clause for a subject with a relative clause."""
    polarity = "not" if rng.chance(0.25) else ""
    verbs = [verb for verb in INTRANSITIVE if noun in verb.subjects]
    # "The kings who love the village dance" is ambiguous: it may be a dance of the village.
    is_misleading = head.plural and not past and not polarity
    if verbs and not is_misleading and rng.chance(0.5):
        return Clause(subject=head, verb=rng.pick(verbs), past=past, polarity=polarity)
    clause = draw_predicate(rng, head, noun, past=past, polarity=polarity)
    if clause.adjective is not None and (clause.adjective.rank >= 5 or clause.adjective in head.adjectives):
        head.adjectives = ()
    else:
        head.adjectives = tuple(adjective for adjective in head.adjectives if adjective.rank >= 5)
    return clause


def draw_object_relative(rng: Rng) -> Sentence:
    """ "The letters that the king wrote are important.", "Paul found the key that his sister lost." """
    first, second, shared = rng.pick(_OBJECT_RELATIVE_PAIRS)
    noun = rng.pick(shared)
    past = rng.chance(0.6)
    is_subject = rng.chance(0.5) and bool(predicates(noun))
    head = _head(rng, noun, ranks=(5, 6) if is_subject else ALL_RANKS)
    relative_subject = draw_subject(rng, first, past=past, definite=True)
    head.relative = Clause(subject=relative_subject, verb=first, past=past, object=Gap(head))
    if is_subject:
        return Sentence(main=_main_of(rng, head, noun, past=past))
    polarity = "not" if rng.chance(0.2) else ""
    subject = draw_subject(rng, second, past=past, definite=True)
    return Sentence(main=Clause(subject=subject, verb=second, past=past, polarity=polarity, object=head))


def draw_yes_no(rng: Rng) -> Sentence:
    """ "Does the cat sleep?", "Was the street wide?" """
    if rng.chance(0.3):
        clause = draw_description(rng, modify=0.1)
        clause.polarity = ""
    else:
        verb = rng.pick(INTRANSITIVE if rng.chance(0.25) else TRANSITIVE)
        clause = draw_clause(rng, verb, past=draw_tense(rng, verb), definite=True, in_question=True)
    return Sentence(main=clause, question="yes-no")


def draw_open_question(rng: Rng) -> Sentence:
    """ "Who ate the cake?", "Why was the street closed?" """
    kind = rng.pick(("who", "what", "where", "when", "why"))
    if kind == "who":
        verb = rng.pick([verb for verb in TRANSITIVE if PEOPLE[0] in verb.subjects])
        clause = Clause(subject=None, verb=verb, past=draw_tense(rng, verb), object=draw_object(rng, verb))
    elif kind == "what":
        verb = rng.pick([verb for verb in DIRECT if "what" in verb.flags])
        subject = draw_subject(rng, verb, past=True, definite=True, in_question=True)
        clause = Clause(subject=subject, verb=verb, past=rng.chance(0.6))
    elif kind == "why" and rng.chance(0.4):
        clause = draw_description(rng, modify=0)
        clause.polarity, clause.degree = "", None
    else:
        verbs = [v for v in ORDINARY if "located" in v.flags or (kind != "where" and "present" not in v.flags)]
        verb = rng.pick(verbs)
        clause = draw_clause(rng, verb, past=kind == "when" or rng.chance(0.5), definite=True, in_question=True)
    return Sentence(main=clause, question=kind)


def draw_coordination(rng: Rng) -> Sentence:
    """Two subjects, two verbs, or two clauses."""
    kind = rng.pick(("subjects", "subjects", "verbs", "clauses", "clauses", "reason"))
    if kind == "subjects":
        return Sentence(main=_joint_subject(rng))
    past = rng.chance(0.5)
    if kind == "reason":
        return _reaction(rng, past=past)
    if kind == "verbs":
        return _joint_verbs(rng, past=past)
    connector = rng.pick(("and", "but") if past else ("and", "but", "while"))
    verbs = [verb for verb in ORDINARY if "present" not in verb.flags]
    first = draw_clause(rng, rng.pick(verbs), past=past, definite=True)
    polarity = "not" if connector == "but" and rng.chance(0.5) else ""
    second = draw_clause(rng, rng.pick(verbs), past=past, polarity=polarity, definite=True)
    if isinstance(second.subject, Pronoun) and second.subject.human:
        second.subject = draw_name(rng)  # 'he' could refer to the first clause
    return Sentence(main=first, connector=lexicon.CONNECTORS[connector], second=second)


def _reaction(rng: Rng, *, past: bool) -> Sentence:
    verbs, adjectives = rng.pick(_REACTIONS)
    adjective = lexicon.ADJECTIVE[rng.pick(adjectives)]
    explained_by = draw_nominal(rng, rng.pick(PEOPLE), definite=True, adjectives=0)
    degree = rng.pick((None, lexicon.DEGREES["very"], lexicon.DEGREES["really"]))
    main = Clause(subject=draw_person(rng, GENDERED, definite=True), verb=lexicon.VERB[rng.pick(verbs)], past=past)
    if isinstance(main.subject, Pronoun):
        main.subject = draw_name(rng)
    reason = Clause(subject=explained_by, adjective=adjective, degree=degree, past=past)
    return Sentence(main=main, connector=lexicon.CONNECTORS["because"], second=reason)


def _joint_subject(rng: Rng) -> Clause:
    verb = rng.pick(ORDINARY)
    nouns = rng.pick(verb.subjects), rng.pick(verb.subjects)
    first, second = (draw_nominal(rng, noun, definite=True, adjectives=0.1) for noun in nouns)
    pair = Coordination(first=first, second=second)
    if all("human" in noun.tags for noun in nouns) and rng.chance(0.3):
        shared = [adjective for adjective in predicates(nouns[0]) if adjective in predicates(nouns[1])]
        return Clause(subject=pair, adjective=rng.pick(shared), past=rng.chance(0.5))
    past = draw_tense(rng, verb)
    return Clause(subject=pair, verb=verb, past=past, object=draw_object(rng, verb) if verb.objects else None)


def _joint_verbs(rng: Rng, *, past: bool) -> Sentence:
    verb = rng.pick([verb for verb in INTRANSITIVE if not verb.takes_etre])
    first = draw_clause(rng, verb, past=past, definite=True)
    if first.subject is not None and first.subject.person == 1:
        first.subject = draw_name(rng)  # French would repeat je and nous
    noun = first.subject.noun if isinstance(first.subject, Nominal) else PEOPLE[0]
    noun = PEOPLE[0] if "name" in noun.tags else noun
    others = [v for v in INTRANSITIVE if noun in v.subjects and v is not verb and not v.takes_etre]
    if not others:
        return Sentence(main=first)
    second = Clause(subject=first.subject, verb=rng.pick(others), past=past, silent_subject=True)
    return Sentence(main=first, connector=lexicon.CONNECTORS["and"], second=second)


def draw_object_pronoun(rng: Rng) -> Sentence:
    """ "The girl bought the apples and ate them.", "He wrote the letter but did not send it." """
    first, second, shared = rng.pick(_SEQUEL_PAIRS)
    past = rng.chance(0.75)
    subject = draw_pronoun(rng) if past and rng.chance(0.2) else draw_nominal(rng, rng.pick(GENDERED), definite=True)
    object_ = draw_nominal(rng, rng.pick(shared), adjectives=0.2)
    drop_contradictions(object_, first)
    drop_contradictions(object_, second)
    if object_.determiner == "every":
        object_.determiner = "the"
    pronoun = Pronoun(gender=object_.gender, plural=object_.plural, antecedent=object_)
    refuses = second.name not in _LOSSES and rng.chance(0.45)
    main = Clause(subject=subject, verb=first, past=past, object=object_)
    sequel = Clause(subject=subject, silent_subject=True, verb=second, past=past, object=pronoun)
    if refuses:
        sequel.polarity = "not"
    return Sentence(main=main, connector=lexicon.CONNECTORS["but" if refuses else "and"], second=sequel)


def draw_institution(rng: Rng) -> Sentence:
    """ "The agreement on the European Economic Area was signed in August 1992." """
    verb = rng.pick([verb for verb in lexicon.VERBS if lexicon.INSTITUTIONS[0] in verb.subjects])
    document = Nominal(noun=rng.pick(verb.objects), plural=rng.chance(0.15))
    institution = Nominal(noun=rng.pick(lexicon.INSTITUTIONS))
    polarity = "not" if rng.chance(0.15) else ""
    date = rng.pick(lexicon.DATES)
    if institution.noun.english.endswith("Area") or rng.chance(0.5):  # an area cannot sign
        document.place = Place(lexicon.PREPOSITIONS["on a topic"], institution)
        clause = Clause(subject=document, verb=verb, past=True, passive=True, polarity=polarity, time=date)
    else:
        document.determiner = rng.pick(("the", "this"))
        clause = Clause(subject=institution, verb=verb, past=True, polarity=polarity, object=document, time=date)
    return Sentence(main=clause)


# --- Scenes ------------------------------------------------------------------------------------------------------

_DEGREES_OF_EXCESS = Weighted({"too": 8.0, "very": 2.0})
_DEGREES_OF_REASON = Weighted({"very": 5.0, "really": 3.0, "": 3.0})
_COLOR_RANKS = (5,)  # colors never contradict the adjective that decides


class Scene:
    """A verb with its agents and objects, and adjectives that explain the event for only one of the two nouns."""

    def __init__(
        self, verb: str, polarity: str, agents: str, objects: str, of_agent: str, of_object: str, flags: str = ""
    ) -> None:
        self.verb, self.polarity, self.flags = lexicon.VERB[verb], polarity, frozenset(flags.split())
        self.agent_adjectives = tuple(lexicon.ADJECTIVE[name] for name in of_agent.split())
        self.object_adjectives = tuple(lexicon.ADJECTIVE[name] for name in of_object.split())
        people = (*GENDERED, *lexicon.NAMES)
        self.agents = _suitable(people if agents == "person" else matching(agents), self.agent_adjectives)
        self.objects = _suitable(matching(objects), self.object_adjectives)

    def reasons(self, noun: Noun) -> tuple[Adjective, ...]:
        """The adjectives that explain the scene if they describe this noun."""
        adjectives = self.agent_adjectives if noun in self.agents else self.object_adjectives
        return tuple(adjective for adjective in adjectives if "name" in noun.tags or noun in adjective.nouns)


def _suitable(nouns: tuple[Noun, ...], adjectives: tuple[Adjective, ...]) -> tuple[Noun, ...]:
    """The names, and the nouns that at least one of the adjectives can describe."""
    return tuple(n for n in nouns if "name" in n.tags or not adjectives or any(n in adj.nouns for adj in adjectives))


_ROWS = read_table("scenes")
THING_SCENES: tuple[Scene, ...] = tuple(Scene(*row) for row in _ROWS if row[2] != "person")
PERSON_SCENES: tuple[Scene, ...] = tuple(Scene(*row) for row in _ROWS if row[2] == "person")
# Scenes with many nouns are more frequent, so that no noun is rare.
_THING_CHOICE = Weighted({scene: 10.0 + len(scene.agents) + len(scene.objects) for scene in THING_SCENES})

# The pairs of nouns that 'it' could refer to in one sentence.
RIVALS: frozenset[frozenset[Noun]] = frozenset(
    frozenset((agent, object_)) for scene in THING_SCENES for agent in scene.agents for object_ in scene.objects
)


def draw_thing_scene(rng: Rng) -> Sentence:
    """Two things or animals, and an 'it' or 'they' that refers to one of them."""
    scene = rng.weighted(_THING_CHOICE)
    agent_noun, object_noun = rng.pick(scene.agents), rng.pick(scene.objects)
    plural = rng.chance(0.2)
    agent_plural = plural if rng.chance(0.9) else not plural
    agent, object_ = _draw_nominal(rng, agent_noun, agent_plural), _draw_nominal(rng, object_noun, plural)
    antecedent = agent if rng.chance(0.5) else object_
    past = "present" not in scene.flags and rng.chance(0.75)
    passive = past and "passive" in scene.flags and rng.chance(0.5)  # so that either noun may come first
    main = scene_clause(scene, agent, object_, past=past, passive=passive)
    return because(main, antecedent, rng.pick(scene.reasons(antecedent.noun)), draw_degree(rng, scene))


def draw_person_scene(rng: Rng) -> Sentence:
    """A person and a thing, and 'he', 'she' or 'it'."""
    scene = rng.pick(PERSON_SCENES)
    agent_noun, object_noun = rng.pick(scene.agents), rng.pick(scene.objects)
    agent = _draw_nominal(rng, agent_noun, rng.chance(0.2))
    object_ = _draw_nominal(rng, object_noun, rng.chance(0.25))
    antecedent = agent if scene.agent_adjectives and rng.chance(0.4) else object_
    main = scene_clause(scene, agent, object_, past=rng.chance(0.75))
    return because(main, antecedent, rng.pick(scene.reasons(antecedent.noun)), draw_degree(rng, scene))


def _draw_nominal(rng: Rng, noun: Noun, plural: bool) -> Nominal:
    return draw_nominal(rng, noun, definite=True, plural=plural, adjectives=0.12, ranks=_COLOR_RANKS)


def draw_degree(rng: Rng, scene: Scene) -> Phrase | None:
    """Return "too", which explains only what did not happen, or "very", which also explains what did happen."""
    return lexicon.DEGREES.get(rng.weighted(_DEGREES_OF_EXCESS if scene.polarity else _DEGREES_OF_REASON))


def scene_clause(scene: Scene, agent: Nominal, object_: Nominal, *, past: bool, passive: bool = False) -> Clause:
    if passive:
        return Clause(subject=object_, verb=scene.verb, agent=agent, passive=True, past=past, polarity=scene.polarity)
    return Clause(subject=agent, verb=scene.verb, object=object_, past=past, polarity=scene.polarity)


def because(main: Clause, antecedent: Nominal, reason: Adjective, degree: Phrase | None) -> Sentence:
    """A scene, followed by a "because" clause with a pronoun for `antecedent`."""
    human = "human" in antecedent.noun.tags
    pronoun = Pronoun(gender=antecedent.gender, plural=antecedent.plural, human=human, antecedent=antecedent)
    degree = None if "fixed" in reason.flags else degree
    explanation = Clause(subject=pronoun, adjective=reason, degree=degree, past=main.past)
    return Sentence(main=main, connector=lexicon.CONNECTORS["because"], second=explanation)


_KINDS: Weighted[Callable[[Rng], Sentence]] = Weighted(
    {
        draw_thing_scene: 36.0,
        draw_person_scene: 5.0,
        lambda rng: Sentence(main=draw_event(rng, TRANSITIVE, modify=0.35)): 19.0,
        lambda rng: Sentence(main=draw_event(rng, INTRANSITIVE, modify=0.4)): 6.0,
        draw_ditransitive: 4.0,
        lambda rng: Sentence(main=draw_description(rng, modify=0.35)): 10.0,
        draw_subject_relative: 5.0,
        draw_object_relative: 6.0,
        draw_yes_no: 6.0,
        draw_open_question: 5.0,
        draw_coordination: 6.0,
        draw_object_pronoun: 5.0,
        draw_institution: 4.0,
    }
)


def draw_sentence(rng: Rng) -> Sentence:
    """A sentence of any kind in which no noun occurs twice."""
    while True:
        sentence = rng.weighted(_KINDS)(rng)
        nouns = [nominal.noun for nominal in nominals(sentence)]
        if len(set(nouns)) == len(nouns):
            return sentence
