"""Sentences in which 'it', 'they', 'he' or 'she' could refer to two nouns, and only one makes sense.

"The animal did not cross the street because it was too tired / too wide." A scene has a verb, its doers and objects,
adjectives that are a reason only if said of the doer, and adjectives that are one only if said of the object.
"""

from __future__ import annotations

from dataclasses import dataclass

from regard.data.synthetic.dice import Dice, Weighted
from regard.data.synthetic.lexicon import ADJECTIVE, VERB, Adjective, Verb
from regard.data.synthetic.meaning import Clause, Nominal, Pronoun, Sentence
from regard.data.synthetic.nouns import NAMES, Noun, matching
from regard.data.synthetic.patterns import CONNECTORS, DEGREES, Phrase
from regard.data.synthetic.phrases import GENDERED, draw_nominal

# verb | polarity | doers | objects | adjectives of the doer | adjectives of the object | flags
_THING_LINES = """
cross    | not | animal -duck -frog -bird -owl | way                          | tired scared sick lazy weak nervous worried shy | wide long deep slippery muddy flooded vast steep dark dry | passive
cross    | not | driven -bike          | paved bridge path tunnel field square | heavy slow                                | narrow slippery steep muddy flooded closed | passive
eat      | not | pet wild mouse        | food                         | sick nervous scared shy tired worried     | salty spicy bitter hard dry | passive
eat      |     | pet wild tiny ant     | food                         | hungry                                    | delicious sweet fresh ripe | passive
break    |     | missile               | breakable                    | heavy hard                                | fragile delicate | passive
light    | not | light                 | room                         | weak small                                | big dark long | passive
cover    | not | cover                 | furniture                    | small short narrow                        | big wide long | passive
fit in   | not | thing -lantern        | container                    | big long wide                             | small narrow full | present
"""  # noqa: E501
_PERSON_LINES = """
buy      | not | person | vehicle -ambulance clothing furniture thing ring house | shy sick              | expensive old
carry    | not | person | container -drawer -wardrobe thing missile              | tired sick lazy       | heavy
push     | not | person | car motorcycle van furniture crate rock                | tired sick lazy       | heavy
eat      | not | person | food                                                   | sick nervous sad worried | salty spicy bitter hard dry cold
eat      |     | person | food                                                   | hungry                | delicious fresh ripe sweet
drink    | not | person | drink                                                  | sick nervous          | hot cold bitter sweet
drink    |     | person | water milk tea coffee                                  | thirsty               | fresh hot cold
cross    | not | person | way                                                    | tired sick scared nervous | wide deep slippery dark dangerous flooded steep muddy
repair   | not | person | vehicle furniture machine -phone                       | tired lazy sick       | old
visit    | not | person | museum castle church                                   | tired sick lazy       | closed boring
open     | not | person | door suitcase box crate                                | scared nervous        | heavy
admire   |     | person | castle church art -photo dress flower tree             |                       | beautiful famous
"""  # noqa: E501

_DEGREES_OF_EXCESS = Weighted({"too": 8.0, "very": 2.0})
_DEGREES_OF_REASON = Weighted({"very": 5.0, "really": 3.0, "": 3.0})
_STEADY_RANKS = (5,)  # colours, which never contradict the adjective that decides


@dataclass(frozen=True, eq=False)
class Scene:
    """A verb with its doers and objects, and adjectives that explain the event."""

    verb: Verb
    polarity: str
    doers: tuple[Noun, ...]
    objects: tuple[Noun, ...]
    doer_adjectives: tuple[Adjective, ...]
    object_adjectives: tuple[Adjective, ...]
    flags: frozenset[str]

    def reasons(self, noun: Noun) -> tuple[Adjective, ...]:
        """The adjectives that explain the scene by this noun."""
        known = self.doer_adjectives if noun in self.doers else self.object_adjectives
        return tuple(adjective for adjective in known if noun.is_name or noun in adjective.nouns)


def _suits_any(noun: Noun, adjectives: tuple[Adjective, ...]) -> bool:
    return not adjectives or any(noun in adjective.nouns for adjective in adjectives)


def _scene(line: str) -> Scene:
    verb, polarity, doers, objects, of_doer, of_object, flags = ([p.strip() for p in line.split("|")] + [""])[:7]
    of_doers = tuple(ADJECTIVE[name] for name in of_doer.split())
    of_objects = tuple(ADJECTIVE[name] for name in of_object.split())
    who = (*GENDERED, *NAMES) if doers == "person" else matching(doers)
    return Scene(
        verb=VERB[verb],
        polarity=polarity,
        doers=tuple(n for n in who if n.is_name or _suits_any(n, of_doers)),
        objects=tuple(n for n in matching(objects) if _suits_any(n, of_objects)),
        doer_adjectives=of_doers,
        object_adjectives=of_objects,
        flags=frozenset(flags.split()),
    )


THING_SCENES: tuple[Scene, ...] = tuple(_scene(line) for line in _THING_LINES.strip().splitlines())
PERSON_SCENES: tuple[Scene, ...] = tuple(_scene(line) for line in _PERSON_LINES.strip().splitlines())
# Scenes with many nouns are more frequent, so that no noun is rare.
_THING_CHOICE = Weighted({scene: 10.0 + len(scene.doers) + len(scene.objects) for scene in THING_SCENES})

# The pairs of nouns that 'it' could refer to in some sentence.
RIVALS: frozenset[frozenset[Noun]] = frozenset(
    frozenset((doer, object_)) for scene in THING_SCENES for doer in scene.doers for object_ in scene.objects
)


def draw_thing_scene(dice: Dice) -> Sentence:
    """Two things or animals, and an 'it' or 'they' that refers to one of them."""
    scene = dice.weighted(_THING_CHOICE)
    doer, object_ = dice.pick(scene.doers), dice.pick(scene.objects)
    plural = dice.chance(0.2)
    doer_plural = plural if dice.chance(0.9) else not plural
    act, undergo = _nominal(dice, doer, plural=doer_plural), _nominal(dice, object_, plural=plural)
    antecedent = act if dice.chance(0.5) else undergo
    past = "present" not in scene.flags and dice.chance(0.75)
    passive = past and "passive" in scene.flags and dice.chance(0.5)  # so that either noun may come first
    return _explained(dice, scene, act, undergo, antecedent, past=past, passive=passive)


def draw_person_scene(dice: Dice) -> Sentence:
    """A person and a thing, and 'he', 'she' or 'it'."""
    scene = dice.pick(PERSON_SCENES)
    doer, object_ = dice.pick(scene.doers), dice.pick(scene.objects)
    act = _nominal(dice, doer, plural=dice.chance(0.2))
    undergo = _nominal(dice, object_, plural=dice.chance(0.25))
    antecedent = act if scene.doer_adjectives and dice.chance(0.4) else undergo
    return _explained(dice, scene, act, undergo, antecedent, past=dice.chance(0.75), passive=False)


def _nominal(dice: Dice, noun: Noun, *, plural: bool) -> Nominal:
    return draw_nominal(dice, noun, definite=True, plural=plural, adjectives=0.12, ranks=_STEADY_RANKS)


def _explained(
    dice: Dice, scene: Scene, doer: Nominal, object_: Nominal, antecedent: Nominal, *, past: bool, passive: bool
) -> Sentence:
    reason = dice.pick(scene.reasons(antecedent.noun))
    degree = draw_degree(dice, scene)
    return because(scene, doer, object_, antecedent, reason=reason, degree=degree, past=past, passive=passive)


def draw_degree(dice: Dice, scene: Scene) -> Phrase | None:
    """ "too" explains what did not happen, "very" also what did."""
    name = dice.weighted(_DEGREES_OF_EXCESS if scene.polarity else _DEGREES_OF_REASON)
    return DEGREES[name] if name else None


def because(
    scene: Scene,
    doer: Nominal,
    object_: Nominal,
    antecedent: Nominal,
    *,
    reason: Adjective,
    degree: Phrase | None,
    past: bool,
    passive: bool,
) -> Sentence:
    """The scene, and a clause with a pronoun for `antecedent` that explains it."""
    main = Clause(
        subject=object_ if passive else doer,
        verb=scene.verb,
        object=None if passive else object_,
        agent=doer if passive else None,
        passive=passive,
        past=past,
        polarity=scene.polarity,
    )
    pronoun = Pronoun(
        gender=antecedent.gender,
        plural=antecedent.plural,
        human="human" in antecedent.noun.tags,
        antecedent=antecedent,
    )
    explanation = Clause(
        subject=pronoun,
        adjective=reason,
        degree=degree if reason.takes_degree else None,
        past=past,
    )
    return Sentence(main=main, connector=CONNECTORS["because"], second=explanation)
