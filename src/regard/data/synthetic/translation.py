"""The built-in synthetic English–French dataset: sentence pairs with gold annotations, in four splits.

All pairs are generated from a seed. A sentence has exactly one translation.

Words that express the same part of the meaning are aligned: "not" with both "ne" and "pas", a past form ("ate") with
auxiliary and participle ("a mangé"), "did" in a negation with the auxiliary, an inverted "did" or "does" with "est-ce
que", the possessive "'s" with the article and the "de" of "le chat de la reine", and "du" with both words that it
contracts. "does" in a negation is not aligned.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import islice, product
from typing import TypeAlias

from regard.data.synthetic.english import write_english
from regard.data.synthetic.french import write_french
from regard.data.synthetic.grammar import draw_sentence
from regard.data.synthetic.holdout import (
    has_held_out_combination,
    is_held_out_modifier,
    is_held_out_object,
    is_held_out_rivals,
)
from regard.data.synthetic.lexicon import Adjective
from regard.data.synthetic.meaning import Nominal, Pronoun, Sentence
from regard.data.synthetic.nouns import Noun
from regard.data.synthetic.sampling import Rng, count_error, split_of, split_size
from regard.data.synthetic.scenes import THING_SCENES, Scene, because, draw_degree
from regard.data.synthetic.words import ENGLISH_WORD, Source, Word, Written, capitalize, join
from regard.utils.errors import UsageError

_Strings: TypeAlias = tuple[str, ...]

SPLIT_SIZES = {"train": 30_000, "validation": 500, "test": 1_000, "compositional": 1_000}
_DICTIONARY_PAIRS = 4_000
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
    phenomena: frozenset[str]


@dataclass(frozen=True, kw_only=True)
class PronounPair:
    """Two sentences that differ only in their last words: 'it' is translated as 'il' in one and 'elle' in the other."""

    il: SyntheticPair
    elle: SyntheticPair
    nouns: tuple[str, str]  # the two English nouns, in the order of the sentence
    masculine_first: bool  # whether the noun that is masculine in French is first


def sentences(split: str, *, count: int | None = None, seed: int = 0) -> list[SyntheticPair]:
    """The first `count` pairs of a split: train, validation, test or compositional.

    No sentence occurs twice or in two splits. In 'compositional' each sentence has at least one combination of words
    (adjective and noun, verb and object, two nouns that a pronoun could refer to) that does not occur in other splits.
    """
    return list(islice(_stream(split, seed), split_size(split, count, SPLIT_SIZES)))


def _stream(split: str, seed: int) -> Iterator[SyntheticPair]:
    rng = Rng(f"regard world {split} {seed}")
    seen: set[str] = set()
    while True:
        sentence = draw_sentence(rng)
        if has_held_out_combination(sentence) != (split == "compositional"):
            continue
        english = write_english(sentence)
        source = english.text(spaced_question_mark=False)
        if source in seen or (split != "compositional" and split_of(source) != split):
            continue
        seen.add(source)
        yield _pair(source, english, write_french(sentence))


def write_pair(sentence: Sentence) -> SyntheticPair:
    """One meaning in both languages, with gold annotations."""
    english = write_english(sentence)
    return _pair(english.text(spaced_question_mark=False), english, write_french(sentence))


def _pair(source: str, english: Written, french: Written) -> SyntheticPair:
    source_words, source_pos, source_heads, source_relations, antecedents = _annotations(english)
    target_words, target_pos, target_heads, target_relations, target_antecedents = _annotations(french)
    phenomena = set(french.phenomena)
    if antecedents:
        phenomena.add("pronoun")
    if target_words[-1] == "?":
        phenomena.add("question")
    return SyntheticPair(
        source=source,
        target=french.text(spaced_question_mark=True),
        source_words=source_words,
        target_words=target_words,
        alignment=_alignment(english.words, french.words),
        source_pos=source_pos,
        target_pos=target_pos,
        source_heads=source_heads,
        target_heads=target_heads,
        source_relations=source_relations,
        target_relations=target_relations,
        antecedents=antecedents,
        target_antecedents=target_antecedents,
        phenomena=frozenset(phenomena),
    )


def _annotations(written: Written) -> tuple[_Strings, _Strings, tuple[int, ...], _Strings, tuple[tuple[int, int], ...]]:
    """Words, parts of speech, heads, relations and antecedents."""
    words, index = written.words, {word: i for i, word in enumerate(written.words)}
    antecedents = tuple(
        (index[word], index[written.head_words[node.antecedent]])
        for node, word in written.head_words.items()
        if isinstance(node, Pronoun) and node.antecedent is not None
    )
    return (
        tuple([word.form for word in words]),
        tuple([word.pos for word in words]),
        tuple([-1 if word.head is None else index[word.head] for word in words]),
        tuple([word.relation for word in words]),
        antecedents,
    )


def _alignment(source: list[Word], target: list[Word]) -> frozenset[tuple[int, int]]:
    targets: dict[Source, list[int]] = defaultdict(list)  # the target words that express a part of the meaning
    for index, word in enumerate(target):
        for part in word.sources:
            targets[part].append(index)
    return frozenset(
        (index, other) for index, word in enumerate(source) for part in word.sources for other in targets.get(part, ())
    )


def pronoun_pairs(*, count: int = 200, seed: int = 0) -> list[PronounPair]:
    """Minimal pairs for "it": the same two nouns of different French gender; the last words decide between them.

    Each pair of nouns occurs in both orders (the second one in the passive), so that the right noun is the first one in
    half of the sentences, and 'it' is 'il' in half of them. The two nouns never occur together in training.
    """
    if count < 0:
        raise UsageError(f"count is {count}; it must be at least 0.", argument="count", value=count)
    pairs = list(islice(_stream_of_pairs(seed), count))
    if len(pairs) < count:
        raise count_error("minimal pairs", len(pairs), count)
    return pairs


def _stream_of_pairs(seed: int) -> Iterator[PronounPair]:
    rng = Rng(f"regard world pronouns {seed}")
    rivalries = _held_out_rivalries()
    seen: set[str] = set()
    for attempt in range(25 * len(rivalries)):
        # Take them in turn, so that all are used equally often.
        both_orders = _minimal_pairs(rng, rivalries[attempt % len(rivalries)])
        sources = {side.source for pair in both_orders for side in (pair.il, pair.elle)}
        if seen.isdisjoint(sources):
            seen |= sources
            yield from both_orders


@dataclass(frozen=True)
class _Rivalry:
    """Two nouns that 'it' could refer to in a scene, and the adjectives that decide for each."""

    scene: Scene
    agent: Noun
    object: Noun
    of_agent: tuple[Adjective, ...]
    of_object: tuple[Adjective, ...]


@cache
def _held_out_rivalries() -> tuple[_Rivalry, ...]:
    """Pairs of different gender that do not occur together in training, while all other combinations do."""

    def reasons(scene: Scene, noun: Noun) -> tuple[Adjective, ...]:
        return tuple(adjective for adjective in scene.reasons(noun) if not is_held_out_modifier(adjective, noun))

    return tuple(
        _Rivalry(scene, agent, object_, of_agent, of_object)
        for scene in THING_SCENES
        if "passive" in scene.flags
        for agent, object_ in product(scene.agents, scene.objects)
        if agent.gender != object_.gender
        and is_held_out_rivals(agent, object_)
        and not is_held_out_object(scene.verb, object_)
        and (of_agent := reasons(scene, agent))
        and (of_object := reasons(scene, object_))
    )


def _minimal_pairs(rng: Rng, rivalry: _Rivalry) -> tuple[PronounPair, PronounPair]:
    """The pair in both orders: active and passive."""
    agent = Nominal(noun=rivalry.agent, determiner=rng.pick(("the", "the", "this")))
    object_ = Nominal(noun=rivalry.object, determiner=rng.pick(("the", "the", "this")))
    degree = draw_degree(rng, rivalry.scene)
    reasons = {agent: rng.pick(rivalry.of_agent), object_: rng.pick(rivalry.of_object)}

    def pair(*, passive: bool) -> PronounPair:
        by_gender = {
            noun.gender: write_pair(
                because(rivalry.scene, agent, object_, noun, reason=reason, degree=degree, past=True, passive=passive)
            )
            for noun, reason in reasons.items()
        }
        first, second = (object_, agent) if passive else (agent, object_)
        nouns = (first.noun.english, second.noun.english)
        return PronounPair(il=by_gender["m"], elle=by_gender["f"], nouns=nouns, masculine_first=first.gender == "m")

    return pair(passive=False), pair(passive=True)


def word_for_word(text: str) -> str:
    """The dictionary baseline: each English word is replaced by its most frequent French translation."""
    dictionary = _dictionary()
    translations = [dictionary.get(word.lower(), word) for word in ENGLISH_WORD.findall(text)]
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
