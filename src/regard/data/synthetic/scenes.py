"""Sentences in which 'it', 'they', 'he' or 'she' could refer to two nouns, and only one makes sense.

"The animal did not cross the street because it was too tired / too wide." A scene has a verb, its agents and objects,
adjectives that explain the event only if they describe the agent, and adjectives that do so only for the object.
"""

from __future__ import annotations

from dataclasses import dataclass

from regard.data.synthetic.lexicon import ADJECTIVE, VERB, Adjective, Verb
from regard.data.synthetic.meaning import Clause, Nominal, Pronoun, Sentence
from regard.data.synthetic.nouns import NAMES, Noun, matching
from regard.data.synthetic.patterns import CONNECTORS, DEGREES, Phrase
from regard.data.synthetic.phrases import GENDERED, draw_nominal
from regard.data.synthetic.sampling import Rng, Weighted
from regard.data.synthetic.table_files import read_table

_DEGREES_OF_EXCESS = Weighted({"too": 8.0, "very": 2.0})
_DEGREES_OF_REASON = Weighted({"very": 5.0, "really": 3.0, "": 3.0})
_COLOR_RANKS = (5,)  # colors never contradict the adjective that decides


@dataclass(frozen=True, eq=False)
class Scene:
    """A verb with its agents and objects, and adjectives that explain the event."""

    verb: Verb
    polarity: str
    agents: tuple[Noun, ...]
    objects: tuple[Noun, ...]
    agent_adjectives: tuple[Adjective, ...]
    object_adjectives: tuple[Adjective, ...]
    flags: frozenset[str]

    def reasons(self, noun: Noun) -> tuple[Adjective, ...]:
        """The adjectives that explain the scene by this noun."""
        adjectives = self.agent_adjectives if noun in self.agents else self.object_adjectives
        return tuple(adjective for adjective in adjectives if noun.is_name or noun in adjective.nouns)


def _suitable(nouns: tuple[Noun, ...], adjectives: tuple[Adjective, ...]) -> tuple[Noun, ...]:
    """The names, and the nouns that at least one of the adjectives can describe."""
    return tuple(n for n in nouns if n.is_name or not adjectives or any(n in adj.nouns for adj in adjectives))


def _scene(
    verb: str, polarity: str, agents: str, objects: str, of_agent: str, of_object: str, flags: str = ""
) -> Scene:
    agent_adjectives = tuple(ADJECTIVE[name] for name in of_agent.split())
    object_adjectives = tuple(ADJECTIVE[name] for name in of_object.split())
    return Scene(
        verb=VERB[verb],
        polarity=polarity,
        agents=_suitable((*GENDERED, *NAMES) if agents == "person" else matching(agents), agent_adjectives),
        objects=_suitable(matching(objects), object_adjectives),
        agent_adjectives=agent_adjectives,
        object_adjectives=object_adjectives,
        flags=frozenset(flags.split()),
    )


_ROWS = read_table("scenes")
THING_SCENES: tuple[Scene, ...] = tuple(_scene(*row) for row in _ROWS if row[2] != "person")
PERSON_SCENES: tuple[Scene, ...] = tuple(_scene(*row) for row in _ROWS if row[2] == "person")
# Scenes with many nouns are more frequent, so that no noun is rare.
_THING_CHOICE = Weighted({scene: 10.0 + len(scene.agents) + len(scene.objects) for scene in THING_SCENES})

# The pairs of nouns that 'it' could refer to in some sentence.
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
    return _draw_explanation(rng, scene, agent, object_, antecedent, past=past, passive=passive)


def draw_person_scene(rng: Rng) -> Sentence:
    """A person and a thing, and 'he', 'she' or 'it'."""
    scene = rng.pick(PERSON_SCENES)
    agent_noun, object_noun = rng.pick(scene.agents), rng.pick(scene.objects)
    agent = _draw_nominal(rng, agent_noun, rng.chance(0.2))
    object_ = _draw_nominal(rng, object_noun, rng.chance(0.25))
    antecedent = agent if scene.agent_adjectives and rng.chance(0.4) else object_
    return _draw_explanation(rng, scene, agent, object_, antecedent, past=rng.chance(0.75), passive=False)


def _draw_nominal(rng: Rng, noun: Noun, plural: bool) -> Nominal:
    return draw_nominal(rng, noun, definite=True, plural=plural, adjectives=0.12, ranks=_COLOR_RANKS)


def _draw_explanation(
    rng: Rng, scene: Scene, agent: Nominal, object_: Nominal, antecedent: Nominal, *, past: bool, passive: bool
) -> Sentence:
    reason = rng.pick(scene.reasons(antecedent.noun))
    degree = draw_degree(rng, scene)
    return because(scene, agent, object_, antecedent, reason=reason, degree=degree, past=past, passive=passive)


def draw_degree(rng: Rng, scene: Scene) -> Phrase | None:
    """ "too" explains only what did not happen, "very" also what did."""
    return DEGREES.get(rng.weighted(_DEGREES_OF_EXCESS if scene.polarity else _DEGREES_OF_REASON))


def because(
    scene: Scene,
    agent: Nominal,
    object_: Nominal,
    antecedent: Nominal,
    *,
    reason: Adjective,
    degree: Phrase | None,
    past: bool,
    passive: bool,
) -> Sentence:
    """The scene, and a clause with a pronoun for `antecedent` that explains it."""
    if passive:
        main = Clause(subject=object_, verb=scene.verb, agent=agent, passive=True, past=past, polarity=scene.polarity)
    else:
        main = Clause(subject=agent, verb=scene.verb, object=object_, past=past, polarity=scene.polarity)
    human = "human" in antecedent.noun.tags
    pronoun = Pronoun(gender=antecedent.gender, plural=antecedent.plural, human=human, antecedent=antecedent)
    degree = None if "fixed" in reason.flags else degree
    explanation = Clause(subject=pronoun, adjective=reason, degree=degree, past=past)
    return Sentence(main=main, connector=CONNECTORS["because"], second=explanation)
