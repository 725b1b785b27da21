"""The built-in synthetic English–French dataset: sentence pairs with gold annotations, in four splits.

All pairs are generated from a seed. A sentence has exactly one translation.

Words that express the same part of the meaning are aligned:
- "not" with both "ne" and "pas"
- a past form ("ate") with auxiliary and participle ("a mangé")
- "did" in a negation with the auxiliary; "does" in a negation is not aligned
- "did" or "does" in a question with "est-ce que"
- the possessive "'s" with the article and the "de" of "le chat de la reine"
- "du" with both words that it contracts
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import combinations, islice, product
from typing import Any

from regard.data.synthetic.english import EnglishSentence
from regard.data.synthetic.french import FrenchSentence
from regard.data.synthetic.grammar import RIVALS, THING_SCENES, Scene, because, draw_degree, draw_sentence, scene_clause
from regard.data.synthetic.lexicon import Adjective, Noun, Verb
from regard.data.synthetic.meaning import Argument, Clause, Coordination, Gap, Nominal, Pronoun, Sentence, nominals
from regard.data.synthetic.realizer import Realization, Source, Word, capitalize, join
from regard.data.synthetic.sampling import Rng, count_error, percentile, split_of, split_size
from regard.utils.errors import UsageError

SPLIT_SIZES = {"train": 30_000, "validation": 500, "test": 1_000, "compositional": 1_000}
# Combinations of words that are held out from training. They depend only on the words, not on the seed.
_MODIFIER_PERCENT, _OBJECT_PERCENT, _RIVALS_PERCENT = 6, 6, 15
_DICTIONARY_PAIRS = 4_000
_ENGLISH_WORD = re.compile(r"'s\b|[\w-]+|[^\w\s]")  # a word, a possessive ending or punctuation
_FULL_FORMS = {"n'": "ne", "qu'": "que", "d'": "de", "j'": "je", "J'": "je"}  # for the dictionary


@dataclass(frozen=True, kw_only=True)
class SyntheticPair:
    """An English sentence, its French translation, and gold annotations of both."""

    source: str
    target: str
    source_words: tuple[str, ...]
    target_words: tuple[str, ...]
    alignment: frozenset[tuple[int, int]]  # sure links (source word, target word), from 0
    source_pos: tuple[str, ...]  # Universal Dependencies tags
    target_pos: tuple[str, ...]
    source_heads: tuple[int, ...]  # -1 for the root
    target_heads: tuple[int, ...]
    source_relations: tuple[str, ...]
    target_relations: tuple[str, ...]
    antecedents: tuple[tuple[int, int], ...]  # (pronoun, antecedent noun) among the source words
    target_antecedents: tuple[tuple[int, int], ...]


@dataclass(frozen=True, kw_only=True)
class PronounPair:
    """Two sentences that differ only in their last words: 'it' is translated as 'il' in one and 'elle' in the other."""

    il: SyntheticPair
    elle: SyntheticPair


def sentences(split: str, *, count: int | None = None, seed: int = 0) -> list[SyntheticPair]:
    """The first `count` pairs of a split: train, validation, test or compositional.

    No sentence occurs twice or in two splits. In 'compositional' each sentence has at least one combination of words
    (adjective and noun, verb and object, two nouns that a pronoun could refer to) that occurs in no other split.
    """
    return list(islice(_stream(split, seed), split_size(split, count, SPLIT_SIZES)))


def _stream(split: str, seed: int) -> Iterator[SyntheticPair]:
    rng = Rng(f"regard world {split} {seed}")
    seen: set[str] = set()
    while True:
        sentence = draw_sentence(rng)
        if has_held_out_combination(sentence) != (split == "compositional"):
            continue
        english = EnglishSentence(sentence)
        if english.text in seen or (split != "compositional" and split_of(english.text) != split):
            continue
        seen.add(english.text)
        yield _pair(english, FrenchSentence(sentence))


def write_pair(sentence: Sentence) -> SyntheticPair:
    """One meaning in both languages, with gold annotations."""
    return _pair(EnglishSentence(sentence), FrenchSentence(sentence))


def _pair(english: Realization, french: Realization) -> SyntheticPair:
    return SyntheticPair(
        alignment=_alignment(english.words, french.words),
        antecedents=_antecedents(english),
        target_antecedents=_antecedents(french),
        **_annotations("source", english),
        **_annotations("target", french),
    )


def _annotations(side: str, written: Realization) -> dict[str, Any]:
    """Return text, words, parts of speech, heads and relations, each under the name of its field."""
    words, index = written.words, {word: i for i, word in enumerate(written.words)}
    return {
        side: written.text,
        f"{side}_words": tuple([word.form for word in words]),
        f"{side}_pos": tuple([word.pos for word in words]),
        f"{side}_heads": tuple([-1 if word.head is None else index[word.head] for word in words]),
        f"{side}_relations": tuple([word.relation for word in words]),
    }


def _antecedents(written: Realization) -> tuple[tuple[int, int], ...]:
    """Return (pronoun, antecedent noun) as indices of words."""
    return tuple(
        (written.words.index(word), written.words.index(written.head_words[node.antecedent]))
        for node, word in written.head_words.items()
        if isinstance(node, Pronoun) and node.antecedent is not None
    )


def _alignment(source: list[Word], target: list[Word]) -> frozenset[tuple[int, int]]:
    targets: dict[Source, list[int]] = defaultdict(list)  # the target words that express a part of the meaning
    for index, word in enumerate(target):
        for part in word.sources:
            targets[part].append(index)
    return frozenset(
        (index, other) for index, word in enumerate(source) for part in word.sources for other in targets.get(part, ())
    )


# --- Held-out combinations ----------------------------------------------------------------------------------------


@cache
def is_held_out_modifier(adjective: Adjective, noun: Noun) -> bool:
    """Whether this adjective never modifies this noun in training, as attribute or predicate."""
    return "name" not in noun.tags and percentile(f"modifier {adjective.english} {noun.english}") < _MODIFIER_PERCENT


@cache
def is_held_out_object(verb: Verb, noun: Noun) -> bool:
    """Whether this verb never has this object in training."""
    # Verbs with only one kind of object ("light" a room) would lose all objects.
    return "active" not in verb.flags and percentile(f"object {verb.name} {noun.english}") < _OBJECT_PERCENT


@cache
def is_held_out_rivals(one: Noun, other: Noun) -> bool:
    """Whether these two nouns, which 'it' could refer to, never occur together in a training sentence."""
    first, second = sorted((one.english, other.english))
    return frozenset((one, other)) in RIVALS and percentile(f"rivals {first} {second}") < _RIVALS_PERCENT


def has_held_out_combination(sentence: Sentence) -> bool:
    """Whether any combination of words in this sentence is held out."""
    known = nominals(sentence)
    clauses = (sentence.main, sentence.second, *(nominal.relative for nominal in known))
    return (
        any(is_held_out_rivals(one.noun, other.noun) for one, other in combinations(known, 2))
        or any(is_held_out_modifier(adjective, nominal.noun) for nominal in known for adjective in nominal.adjectives)
        or any(clause is not None and _is_held_out(clause) for clause in clauses)
    )


def _is_held_out(clause: Clause) -> bool:
    if clause.adjective is not None:
        return any(is_held_out_modifier(clause.adjective, noun) for noun in _nouns(clause.subject))
    patient = clause.subject if clause.passive else clause.object
    return clause.verb is not None and any(is_held_out_object(clause.verb, noun) for noun in _nouns(patient))


def _nouns(argument: Argument | None) -> list[Noun]:
    """The nouns of an argument, including those that pronouns and relative clauses refer to."""
    match argument:
        case Nominal():
            return [argument.noun]
        case Gap():
            return [argument.nominal.noun]
        case Coordination():
            return [argument.first.noun, argument.second.noun]
        case Pronoun(antecedent=Nominal() as antecedent):
            return [antecedent.noun]
        case _:
            return []


# --- Minimal pairs ------------------------------------------------------------------------------------------------


def pronoun_pairs(*, count: int = 200, seed: int = 0) -> list[PronounPair]:
    """Minimal pairs for "it": two nouns of different French gender; the last words determine which one "it" refers to.

    Each pair of nouns occurs in both orders (active and passive). So "it" refers to the first noun in half of the
    sentences, and is translated as "il" in half of them. The two nouns never occur together in training.
    """
    if count < 0:
        raise UsageError(f"count must be at least 0, got {count}.", argument="count", value=count)
    pairs = list(islice(_stream_of_pairs(seed), count))
    if len(pairs) < count:
        raise count_error("minimal pairs", len(pairs), count)
    return pairs


def _stream_of_pairs(seed: int) -> Iterator[PronounPair]:
    rng = Rng(f"regard world pronouns {seed}")
    rivalries = _held_out_rivalries()
    seen: set[str] = set()
    for attempt in range(25 * len(rivalries)):
        # Use the pairs in turn, so that all are used equally often.
        both_orders = _minimal_pairs(rng, *rivalries[attempt % len(rivalries)])
        sources = {side.source for pair in both_orders for side in (pair.il, pair.elle)}
        if seen.isdisjoint(sources):
            seen |= sources
            yield from both_orders


@cache
def _held_out_rivalries() -> tuple[tuple[Scene, Noun, Noun], ...]:
    """Pairs of nouns with different gender that do not occur together in training, while all other combinations do."""
    return tuple(
        (scene, agent, object_)
        for scene in THING_SCENES
        if "passive" in scene.flags
        for agent, object_ in product(scene.agents, scene.objects)
        if agent.gender != object_.gender
        and is_held_out_rivals(agent, object_)
        and not is_held_out_object(scene.verb, object_)
        and all(_known_reasons(scene, noun) for noun in (agent, object_))
    )


def _known_reasons(scene: Scene, noun: Noun) -> list[Adjective]:
    """The adjectives that explain a scene if they describe this noun, and that occur with the noun in training."""
    return [adjective for adjective in scene.reasons(noun) if not is_held_out_modifier(adjective, noun)]


def _minimal_pairs(rng: Rng, scene: Scene, *nouns: Noun) -> tuple[PronounPair, PronounPair]:
    """The minimal pairs for both orders of the nouns: active and passive."""
    agent, object_ = (Nominal(noun=noun, determiner=rng.pick(("the", "the", "this"))) for noun in nouns)
    degree = draw_degree(rng, scene)
    reasons = {nominal: rng.pick(_known_reasons(scene, nominal.noun)) for nominal in (agent, object_)}

    def pair(*, passive: bool) -> PronounPair:
        main = scene_clause(scene, agent, object_, past=True, passive=passive)
        by_gender = {
            nominal.gender: write_pair(because(main, nominal, reason, degree)) for nominal, reason in reasons.items()
        }
        return PronounPair(il=by_gender["m"], elle=by_gender["f"])

    return pair(passive=False), pair(passive=True)


# --- Word for word -----------------------------------------------------------------------------------------------


def word_for_word(text: str) -> str:
    """The dictionary baseline: each English word is replaced with its most frequent French translation."""
    dictionary = _dictionary()
    translations = [dictionary.get(word.lower(), word) for word in _ENGLISH_WORD.findall(text)]
    return capitalize(join(" ".join(translations).split(), spaced_question_mark=True))


@cache
def _dictionary() -> dict[str, str]:
    """For each English word the French words that are most often aligned with it in training sentences."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for pair in sentences("train", count=_DICTIONARY_PAIRS):
        linked: dict[int, list[int]] = defaultdict(list)
        for source, target in pair.alignment:
            linked[source].append(target)
        words = [_FULL_FORMS.get(word, word) for word in pair.target_words]
        if pair.target_pos[0] != "PROPN":
            words[0] = words[0].lower()
        for index, word in enumerate(pair.source_words):
            counts[word.lower()][" ".join(words[target] for target in sorted(linked[index]))] += 1
    # Ties are broken alphabetically.
    return {word: min(french, key=lambda form: (-french[form], form)) for word, french in counts.items()}
