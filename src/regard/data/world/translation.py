"""The built-in English–French translation world: sentence pairs with all their gold, in four splits.

Everything follows from a seed; nothing is stored. A sentence has exactly one translation here. It knows
no tokenizer and no model.

Alignment: words that express the same part of the meaning are linked. So "not" is linked to both "ne" and
"pas", an affirmative past ("ate") to auxiliary and participle ("a mangé"), "did" in a negation to the
auxiliary, an inverted "did" or "does" to "est-ce que", the possessive "'s" to the article and the "de" of
"le chat de la reine", and "du" to both words that it contracts. "does" in a negation is linked to nothing.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import islice

from regard.data.world.dice import Dice
from regard.data.world.english import write_english
from regard.data.world.french import write_french
from regard.data.world.grammar import draw_sentence
from regard.data.world.holdout import (
    held_out_combinations,
    is_held_out_modifier,
    is_held_out_object,
    is_held_out_rivals,
    split_of,
)
from regard.data.world.lexicon import Adjective
from regard.data.world.meaning import Nominal, Pronoun, Sentence
from regard.data.world.nouns import Noun
from regard.data.world.scenes import THING_SCENES, Scene, because, draw_degree
from regard.data.world.words import ENGLISH_WORD, Word, Written, char_spans, join
from regard.errors import UsageError, unknown

__all__ = ["SPLIT_SIZES", "PronounPair", "WorldPair", "char_spans", "pronoun_pairs", "sentences", "word_for_word"]

SPLIT_SIZES = {"train": 30_000, "validation": 500, "test": 1_000, "compositional": 1_000}
_DICTIONARY_PAIRS = 4_000
_FULL_FORMS = {"n'": "ne", "qu'": "que", "d'": "de", "j'": "je", "J'": "je"}  # a dictionary lists words unelided


@dataclass(frozen=True, kw_only=True)
class WorldPair:
    """An English sentence, its French translation, and the truth about both."""

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
    phenomena: frozenset[str]


@dataclass(frozen=True, kw_only=True)
class PronounPair:
    """Two sentences that differ in their last words only: in one 'it' is 'il', in the other 'elle'."""

    il: WorldPair
    elle: WorldPair
    nouns: tuple[str, str]  # the two English nouns, in the order of the sentence
    masculine_first: bool  # whether the noun with the masculine translation comes first


def sentences(split: str, *, count: int | None = None, seed: int = 0) -> list[WorldPair]:
    """The first `count` pairs of a split: train, validation, test or compositional.

    No sentence is in two splits, nor twice in one. In 'compositional' each sentence has at least one
    combination of words (adjective and noun, verb and object, two nouns that a pronoun could mean) that
    no sentence of the other splits has.
    """
    if split not in SPLIT_SIZES:
        raise unknown("split of the built-in world", split, SPLIT_SIZES)
    return list(islice(_stream(split, seed), _checked_count(count, SPLIT_SIZES[split])))


def _checked_count(count: int | None, default: int) -> int:
    if count is None:
        return default
    if count < 0:
        raise UsageError(f"count is {count}; give a number of sentences of 0 or more.")
    return count


def _stream(split: str, seed: int) -> Iterator[WorldPair]:
    dice = Dice(f"regard world {split} {seed}")
    seen: set[str] = set()
    while True:
        sentence = draw_sentence(dice)
        if bool(held_out_combinations(sentence)) != (split == "compositional"):
            continue
        english = write_english(sentence)
        source = join((word.form for word in english.words), spaced_question_mark=False)
        if source in seen or (split != "compositional" and split_of(source) != split):
            continue
        seen.add(source)
        yield _pair(source, english, write_french(sentence))


def write_pair(sentence: Sentence) -> WorldPair:
    """Say one meaning in both languages, with its gold."""
    english = write_english(sentence)
    source = join((word.form for word in english.words), spaced_question_mark=False)
    return _pair(source, english, write_french(sentence))


def _pair(source: str, english: Written, french: Written) -> WorldPair:
    target_words = tuple([word.form for word in french.words])
    source_index = {word: index for index, word in enumerate(english.words)}
    target_index = {word: index for index, word in enumerate(french.words)}
    antecedents = _antecedents(english, source_index)
    return WorldPair(
        source=source,
        target=join(target_words, spaced_question_mark=True),
        source_words=tuple([word.form for word in english.words]),
        target_words=target_words,
        alignment=_alignment(english.words, french.words),
        source_pos=tuple([word.pos for word in english.words]),
        target_pos=tuple([word.pos for word in french.words]),
        source_heads=_heads(english.words, source_index),
        target_heads=_heads(french.words, target_index),
        source_relations=tuple([word.relation for word in english.words]),
        target_relations=tuple([word.relation for word in french.words]),
        antecedents=antecedents,
        target_antecedents=_antecedents(french, target_index),
        phenomena=frozenset(french.phenomena | ({"pronoun"} if antecedents else set()) | _asked(target_words)),
    )


def _asked(target_words: tuple[str, ...]) -> set[str]:
    return {"question"} if target_words[-1] == "?" else set()


def _heads(words: list[Word], index: dict[Word, int]) -> tuple[int, ...]:
    return tuple([-1 if word.head is None else index[word.head] for word in words])


def _alignment(source: list[Word], target: list[Word]) -> frozenset[tuple[int, int]]:
    expressed: dict[Hashable, list[int]] = defaultdict(list)
    for index, word in enumerate(target):
        for origin in word.sources:
            expressed[origin].append(index)
    return frozenset(
        (index, other)
        for index, word in enumerate(source)
        for origin in word.sources
        for other in expressed.get(origin, ())
    )


def _antecedents(written: Written, index: dict[Word, int]) -> tuple[tuple[int, int], ...]:
    return tuple(
        (index[word], index[written.head_words[node.antecedent]])
        for node, word in written.head_words.items()
        if isinstance(node, Pronoun) and node.antecedent is not None
    )


def pronoun_pairs(*, count: int = 200, seed: int = 0) -> list[PronounPair]:
    """Minimal pairs for "it": same two nouns of different French gender, told apart by the last words.

    Each couple of nouns comes in both orders (the second one in the passive), so that in half of the
    sentences the right noun is the first one, and in half of them 'it' is 'il'. The two nouns of a pair
    never meet in a training sentence.
    """
    return list(islice(_stream_of_pairs(seed), _checked_count(count, 200)))


def _stream_of_pairs(seed: int) -> Iterator[PronounPair]:
    dice = Dice(f"regard world pronouns {seed}")
    rivalries = _held_out_rivalries()
    seen: set[str] = set()
    for attempt in range(25 * len(rivalries)):
        # Taking the couples in turn uses them all equally often.
        rivalry = rivalries[attempt % len(rivalries)]
        both_orders = _minimal_pairs(dice, rivalry)
        sources = {side.source for pair in both_orders for side in (pair.il, pair.elle)}
        if seen.isdisjoint(sources):
            seen |= sources
            yield from both_orders
    raise UsageError(f"the built-in world has about {len(seen) // 2} minimal pairs; ask for fewer.")


@dataclass(frozen=True)
class _Rivalry:
    """Two nouns that compete for 'it' in a scene, and the adjectives that decide for each."""

    scene: Scene
    doer: Noun
    object: Noun
    of_doer: tuple[Adjective, ...]
    of_object: tuple[Adjective, ...]


@cache
def _held_out_rivalries() -> tuple[_Rivalry, ...]:
    """Couples of different gender that are new as a couple, while all else about them is familiar."""
    found: list[_Rivalry] = []
    for scene in THING_SCENES:
        if "passive" not in scene.flags:
            continue
        for doer in scene.doers:
            for object_ in scene.objects:
                of_doer = tuple(a for a in scene.reasons(doer) if not is_held_out_modifier(a, doer))
                of_object = tuple(a for a in scene.reasons(object_) if not is_held_out_modifier(a, object_))
                is_new = is_held_out_rivals(doer, object_) and not is_held_out_object(scene.verb, object_)
                if is_new and doer.gender != object_.gender and of_doer and of_object:
                    found.append(_Rivalry(scene, doer, object_, of_doer, of_object))
    return tuple(found)


def _minimal_pairs(dice: Dice, rivalry: _Rivalry) -> tuple[PronounPair, PronounPair]:
    """The couple in both orders: active and passive."""
    doer = Nominal(noun=rivalry.doer, determiner=dice.pick(("the", "the", "this")))
    object_ = Nominal(noun=rivalry.object, determiner=dice.pick(("the", "the", "this")))
    degree = draw_degree(dice, rivalry.scene)
    reasons = {doer: dice.pick(rivalry.of_doer), object_: dice.pick(rivalry.of_object)}

    def pair(*, passive: bool) -> PronounPair:
        by_gender = {
            noun.gender: write_pair(
                because(rivalry.scene, doer, object_, noun, reason=reason, degree=degree, past=True, passive=passive)
            )
            for noun, reason in reasons.items()
        }
        first, second = (object_, doer) if passive else (doer, object_)
        return PronounPair(
            il=by_gender["m"],
            elle=by_gender["f"],
            nouns=(first.noun.english, second.noun.english),
            masculine_first=first.gender == "m",
        )

    return pair(passive=False), pair(passive=True)


def word_for_word(text: str) -> str:
    """The dictionary baseline: each English word replaced by its one commonest French counterpart."""
    dictionary = _dictionary()
    found = [dictionary.get(word.lower(), word) for word in ENGLISH_WORD.findall(text)]
    translated = join(" ".join(found).split(), spaced_question_mark=True)
    return translated[:1].upper() + translated[1:]


@cache
def _dictionary() -> dict[str, str]:
    """For each English word the French words most often linked to it in training sentences."""
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
    # Of equally common counterparts the first in the alphabet, so that the choice never depends on order.
    return {word: min(found, key=lambda french: (-found[french], french)) for word, found in counts.items()}
