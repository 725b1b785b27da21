"""The synthetic translation dataset: well-formed gold, agreement in French, and correct splits."""

from __future__ import annotations

import hashlib
import itertools
import re
from collections import Counter

import pytest
import sacrebleu
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.data.synthetic.english import EnglishSentence
from regard.data.synthetic.french import FrenchSentence
from regard.data.synthetic.grammar import PERSON_SCENES, THING_SCENES, TRANSITIVE, draw_sentence
from regard.data.synthetic.lexicon import ADJECTIVES, NOUN, NOUNS, VERBS, attributes, matching
from regard.data.synthetic.meaning import nominals
from regard.data.synthetic.realizer import char_spans
from regard.data.synthetic.sampling import Rng
from regard.data.synthetic.translation import (
    SPLIT_SIZES,
    SyntheticPair,
    is_held_out_modifier,
    is_held_out_object,
    pronoun_pairs,
    sentences,
    word_for_word,
    write_pair,
)
from regard.utils.errors import UsageError


@pytest.fixture(scope="module")
def train() -> list[SyntheticPair]:
    return sentences("train")


@pytest.fixture(scope="module")
def compositional() -> list[SyntheticPair]:
    return sentences("compositional")


@pytest.fixture(scope="module")
def test_set() -> list[SyntheticPair]:
    return sentences("test")


def sides(pair: SyntheticPair):
    yield pair.source, pair.source_words, pair.source_pos, pair.source_heads, pair.source_relations, pair.antecedents
    yield (
        pair.target,
        pair.target_words,
        pair.target_pos,
        pair.target_heads,
        pair.target_relations,
        pair.target_antecedents,
    )


def test_lexicon_sizes() -> None:
    assert len(NOUNS) >= 60 and len({noun.english for noun in NOUNS}) == len(NOUNS)
    assert len(ADJECTIVES) >= 40 and len({adjective.english for adjective in ADJECTIVES}) == len(ADJECTIVES)
    assert len(VERBS) >= 40 and len({verb.name for verb in VERBS}) == len(VERBS)
    assert {"m", "f"} == {noun.gender for noun in NOUNS}
    tags = set().union(*(noun.tags for noun in NOUNS))
    assert tags & {noun.english for noun in NOUNS} == {"animal"}, "a tag that is also a noun would be ambiguous"


def test_unknown_tag_is_refused() -> None:
    with pytest.raises(ValueError, match="foood"):
        matching("foood")


def test_every_line_of_the_lexicon_is_used(train: list[SyntheticPair]) -> None:
    seen = Counter(word.lower() for pair in train for word in pair.source_words)
    for noun in NOUNS:
        assert seen[noun.english] + seen[noun.english_plural] >= 30, noun.english
    for adjective in ADJECTIVES:
        assert seen[adjective.english.lower()] >= 40, adjective.english
    for verb in VERBS:
        assert sum(seen[form] for form in {verb.english, verb.third, verb.past, verb.participle}) >= 100, verb.name


def test_scenes_have_a_reason_for_every_noun() -> None:
    for scene in (*THING_SCENES, *PERSON_SCENES):
        assert all(scene.reasons(noun) for noun in scene.objects)
        if scene.agent_adjectives:
            assert all(scene.reasons(noun) for noun in scene.agents)
        assert not set(scene.agents) & set(scene.objects)
        assert not set(scene.agent_adjectives) & set(scene.object_adjectives)


def test_trees_and_lengths(train: list[SyntheticPair]) -> None:
    for pair in train[:6000]:
        for _, words, pos, heads, relations, antecedents in sides(pair):
            assert len(words) == len(pos) == len(heads) == len(relations) <= 25
            assert heads.count(-1) == 1 and relations.count("root") == 1
            assert relations[heads.index(-1)] == "root"
            for start in range(len(heads)):
                steps, at = 0, start
                while at != -1:
                    at, steps = heads[at], steps + 1
                    assert steps <= len(heads), f"a cycle in {words}"
            for pronoun, noun in antecedents:
                assert pos[pronoun] == "PRON" and pos[noun] in ("NOUN", "PROPN") and noun < pronoun
    lengths = [len(pair.source_words) for pair in train]
    assert 8 <= sum(lengths) / len(lengths) <= 12


def test_alignment_is_valid_and_covers_content_words(train: list[SyntheticPair]) -> None:
    content = {"NOUN", "PROPN", "VERB", "ADJ", "NUM", "PRON", "ADV"}
    for pair in train[:6000]:
        assert all(0 <= i < len(pair.source_words) and 0 <= j < len(pair.target_words) for i, j in pair.alignment)
        sources, targets = {i for i, _ in pair.alignment}, {j for _, j in pair.alignment}
        for index, tag in enumerate(pair.source_pos):
            assert index in sources or tag not in content, (pair.source, index)
            assert index in sources or pair.source_words[index].lower() in ("does", "do"), (pair.source, index)
        assert targets == set(range(len(pair.target_words))), pair.target


def test_pronouns_agree_with_their_antecedents(train: list[SyntheticPair]) -> None:
    genders = {noun.french: noun.gender for noun in NOUN.values()}
    genders |= {noun.french_plural: noun.gender for noun in NOUN.values()}
    forms = {"il": "m", "ils": "m", "elle": "f", "elles": "f", "le": "m", "la": "f"}
    seen = Counter()
    for pair in train:
        for (english, _), (pronoun, noun) in zip(pair.antecedents, pair.target_antecedents, strict=True):
            form = pair.target_words[pronoun]
            if form in forms:
                assert forms[form] == genders[pair.target_words[noun]], pair.target
            seen[pair.source_words[english]] += form in forms
    assert seen["it"] > 5000 and seen["they"] > 300


# An agreement checker that knows nothing of the realiser: words by the tables of determiners and adjectives.
DETERMINERS = {
    "le": "ms", "la": "fs", "les": "mp fp", "l'": "ms fs", "un": "ms", "une": "fs", "des": "mp fp", "ce": "ms",
    "cet": "ms", "cette": "fs", "ces": "mp fp", "mon": "ms fs", "ma": "fs", "mes": "mp fp", "son": "ms fs",
    "sa": "fs", "ses": "mp fp", "notre": "ms fs", "nos": "mp fp", "leur": "ms fs", "leurs": "mp fp",
    "chaque": "ms fs", "plusieurs": "mp fp", "du": "ms", "de": "ms fs mp fp", "d'": "ms fs mp fp",
}  # fmt: skip


def features_of_adjectives() -> dict[str, set[str]]:
    table: dict[str, set[str]] = {}
    for adjective in ADJECTIVES:
        for form, feature in zip(adjective.forms, ("ms", "fs", "mp", "fp"), strict=True):
            table.setdefault(form, set()).add(feature)
        if adjective.before_vowel:
            table.setdefault(adjective.before_vowel, set()).add("ms")
    return table


def features_of_nouns() -> dict[str, set[str]]:
    table: dict[str, set[str]] = {}
    for noun in NOUN.values():
        table.setdefault(noun.french, set()).add(noun.gender + "s")
        table.setdefault(noun.french_plural, set()).add(noun.gender + "p")
    return table


def test_determiners_and_adjectives_agree(train: list[SyntheticPair], compositional: list[SyntheticPair]) -> None:
    adjectives, nouns = features_of_adjectives(), features_of_nouns()
    checked = 0
    for pair in (*train[:8000], *compositional):
        words = [word[0].lower() + word[1:] for word in pair.target_words]
        for word, tag, head in zip(words, pair.target_pos, pair.target_heads, strict=True):
            if head < 0 or pair.target_pos[head] != "NOUN" or words[head] not in nouns:
                continue
            if tag == "DET":
                assert set(DETERMINERS[word].split()) & nouns[words[head]], pair.target
                checked += 1
            elif tag == "ADJ" and word in adjectives:
                assert adjectives[word] & nouns[words[head]], pair.target
                checked += 1
    assert checked > 15_000


def test_verbs_agree_in_number(train: list[SyntheticPair]) -> None:
    """The finite verb agrees with its subject, whatever is between them."""
    singular = {verb.french_present[1] for verb in VERBS} | {"a", "est", "était", "avait"}
    plural = {verb.french_present[3] for verb in VERBS} | {"ont", "sont", "étaient", "avaient"}
    nouns = features_of_nouns()
    for pair in train[:8000]:
        words = pair.target_words
        for index, relation in enumerate(pair.target_relations):
            noun = words[index]
            if not relation.startswith("nsubj") or noun not in nouns or len({f[1] for f in nouns[noun]}) != 1:
                continue
            head = pair.target_heads[index]
            group = [head, *(i for i, h in enumerate(pair.target_heads) if h == head and pair.target_pos[i] == "AUX")]
            is_joint = any(
                h == index and r == "conj" for h, r in zip(pair.target_heads, pair.target_relations, strict=True)
            )
            is_plural = is_joint or next(iter(nouns[noun]))[1] == "p"
            assert any(words[i] in (plural if is_plural else singular) for i in group), pair.target


VOWEL = "aeiouyàâéèêîôûœAEIOUÉ"
FORBIDDEN = [
    rf"\b([Ll]e|[Ll]a|[Dd]e|[Qq]ue|[Nn]e|[Jj]e|[Cc]e|[Mm]a|[Ss]a) (?!hibou|héros|hache|huit)[{VOWEL}hH]",
    r"\b([Dd]e|[Àà]) les?\b",
    rf"\b(beau|nouveau|vieux) (?!hibou|héros)[{VOWEL}h]\w*[^sx] ",
    r"'(hibou|héros|hache|huit)",
    rf"\b([lndj]|qu)'(?![{VOWEL}h])",
    rf"\b([Cc]et|bel|nouvel|vieil) (?![{VOWEL}h])",
    r"  |\s\.|\s$|^\s|' ",
    r"^Des (beaux|belles|grand|petit|vieux|vieilles|bon|joli|autres)",
]


def test_elision_and_contraction(train: list[SyntheticPair], compositional: list[SyntheticPair]) -> None:
    patterns = [re.compile(pattern) for pattern in FORBIDDEN]
    for pair in (*train, *compositional):
        for pattern in patterns:
            assert not pattern.search(pair.target), (pattern.pattern, pair.target)
        assert not re.search(r"\ba [aeio]|\ban [^aeiouAEIOU]|\ban use", pair.source), pair.source


def test_texts_and_words_are_consistent(train: list[SyntheticPair]) -> None:
    for pair in train[:6000]:
        for text, words, *_ in sides(pair):
            spans = char_spans(text, words)
            assert tuple(text[start:end] for start, end in spans) == words
            assert all(first[1] <= second[0] for first, second in itertools.pairwise(spans))
        assert pair.source[0].isupper() and pair.target[0].isupper()
        assert pair.source[-1] in ".?" and pair.target.endswith((".", " ?"))


@given(st.integers(0, 10**9))
@settings(max_examples=60, deadline=None)
def test_any_seed_gives_sound_sentences(seed: int) -> None:
    sentence = draw_sentence(Rng(f"property {seed}"))
    pair = write_pair(sentence)
    assert char_spans(pair.source, pair.source_words) and char_spans(pair.target, pair.target_words)
    nouns = [nominal.noun for nominal in nominals(sentence)]
    assert len(nouns) == len(set(nouns))
    assert all(adjective in attributes(n.noun) for n in nominals(sentence) for adjective in n.adjectives)


def test_splits_are_disjoint_and_sized(
    train: list[SyntheticPair], test_set: list[SyntheticPair], compositional
) -> None:
    sets = {
        "train": train,
        "validation": sentences("validation"),
        "test": test_set,
        "compositional": compositional,
    }
    for name, pairs in sets.items():
        assert len(pairs) == len({pair.source for pair in pairs}) == SPLIT_SIZES[name]
    for one, other in itertools.combinations(sets.values(), 2):
        assert not {pair.source for pair in one} & {pair.source for pair in other}
    # Another seed draws other sentences, but never a training sentence into a test set.
    other_seed = {pair.source for pair in sentences("train", count=3000, seed=1)}
    assert not other_seed & {pair.source for pair in test_set}
    assert len(other_seed & {pair.source for pair in train}) < 600


def adjacent_modifiers(pair: SyntheticPair) -> set[tuple[str, str]]:
    """(adjective, noun) pairs as the source tree shows them, by lemma; 'it' counts as its antecedent."""
    lemma = {noun.english_plural: noun.english for noun in NOUNS} | {noun.english: noun.english for noun in NOUNS}
    means = dict(pair.antecedents)
    found = set()
    for index, (relation, head) in enumerate(zip(pair.source_relations, pair.source_heads, strict=True)):
        word = pair.source_words[index]
        if relation == "amod":
            found.add((word, lemma.get(pair.source_words[head], "")))
        if relation == "nsubj" and pair.source_pos[head] == "ADJ":
            found.add((pair.source_words[head], lemma.get(pair.source_words[means.get(index, index)], "")))
    return found


def test_training_has_no_held_out_combination(train: list[SyntheticPair], compositional: list[SyntheticPair]) -> None:
    adjectives = {adjective.english: adjective for adjective in ADJECTIVES}

    def held_out_modifiers(pair: SyntheticPair) -> set[tuple[str, str]]:
        return {
            (word, noun)
            for word, noun in adjacent_modifiers(pair)
            if word in adjectives and noun in NOUN and is_held_out_modifier(adjectives[word], NOUN[noun])
        }

    assert not any(held_out_modifiers(pair) for pair in train)
    assert sum(bool(held_out_modifiers(pair)) for pair in compositional) > 150
    direct = {form: verb for verb in VERBS if not verb.preposition for form in (verb.english, verb.third, verb.past)}

    def held_out_objects(pair: SyntheticPair) -> set[tuple[str, str]]:
        found = set()
        for index, (relation, head) in enumerate(zip(pair.source_relations, pair.source_heads, strict=True)):
            noun = NOUN.get(pair.source_words[index])
            verb = direct.get(pair.source_words[head])
            if relation == "obj" and noun and verb and is_held_out_object(verb, noun):
                found.add((verb.english, noun.english))
        return found

    assert not any(held_out_objects(pair) for pair in train)
    assert sum(bool(held_out_objects(pair)) for pair in compositional) > 100


def test_pronoun_pairs(train: list[SyntheticPair]) -> None:
    pairs = pronoun_pairs()
    assert len(pairs) == 200 and len({pair.il.source for pair in pairs}) == 200
    lemma = {noun.english_plural: noun.english for noun in NOUNS} | {noun.english: noun.english for noun in NOUNS}
    couples = {
        frozenset(pair.il.source_words[noun] for side in (pair.il, pair.elle) for _, noun in side.antecedents)
        for pair in pairs
    }
    assert len(couples) >= 50
    for sentence in train:
        met = {lemma[word] for word in sentence.source_words if word in lemma}
        assert not any(frozenset(two) in couples for two in itertools.combinations(met, 2)), sentence.source
    for pair in pairs:
        assert "il" in pair.il.target_words and "elle" not in pair.il.target_words
        assert "elle" in pair.elle.target_words and "il" not in pair.elle.target_words
        before = pair.il.source_words.index("it")
        assert pair.il.source_words[: before + 1] == pair.elle.source_words[: before + 1]
        (il,), (elle,) = pair.il.antecedents, pair.elle.antecedents
        assert il[1] != elle[1]
        assert [NOUN[pair.il.source_words[index]].gender for index in (il[1], elle[1])] == ["m", "f"]
    assert sum(pair.il.antecedents < pair.elle.antecedents for pair in pairs) == 100
    # Nothing but meaning decides: the subject is right half of the time, and so is the nearer noun.
    assert pronoun_pairs(count=7) == pairs[:7]
    assert pronoun_pairs(count=20, seed=3) != pairs[:20]


def test_pronoun_share_and_balance(train: list[SyntheticPair]) -> None:
    scenes = [
        p for p in train if "because" in p.source_words and p.antecedents and {"it", "they"} & set(p.source_words)
    ]
    assert 0.2 <= len(scenes) / len(train) <= 0.3
    nearer = sum(
        p.antecedents[0][1] == max(i for i, t in enumerate(p.source_pos[: p.antecedents[0][0]]) if t == "NOUN")
        for p in scenes
    )
    assert 0.4 <= nearer / len(scenes) <= 0.65


def test_one_translation_for_each_sentence(train: list[SyntheticPair]) -> None:
    found = {pair.source: pair.target for pair in train}
    rng = Rng("translations")
    for _ in range(100_000 - len(train)):
        sentence = draw_sentence(rng)
        source, target = EnglishSentence(sentence).text, FrenchSentence(sentence).text
        assert found.setdefault(source, target) == target, source


def test_millions_of_sentences() -> None:
    """Count only "The [adjective] noun verbed the [adjective] noun", in both numbers and tenses."""
    possible = 0
    for verb in TRANSITIVE:
        subjects = sum(2 * (1 + len(attributes(noun))) for noun in verb.subjects)
        objects = sum((1 if "mass" in noun.tags else 2) * (1 + len(attributes(noun))) for noun in verb.objects)
        possible += subjects * objects * (1 if "present" in verb.flags else 2)
    assert possible >= 10**6


def test_word_for_word_is_a_weak_baseline(test_set: list[SyntheticPair], compositional: list[SyntheticPair]) -> None:
    for pairs in (test_set, compositional):
        guesses = [word_for_word(pair.source) for pair in pairs]
        score = sacrebleu.corpus_bleu(guesses, [[pair.target for pair in pairs]]).score
        assert 15 < score < 60


def test_word_for_word() -> None:
    assert word_for_word("The cat sleeps.") == "Le chat dort."
    assert word_for_word("The xylophone sleeps.") == "Le xylophone dort."
    assert word_for_word("") == ""


PINNED = "7412da39e3ebdfc96f6ffccd5e31a78415774a46c295da43c5228771b6513f0c"


def test_determinism() -> None:
    pairs = sentences("train", count=50)
    assert pairs == sentences("train", count=50)
    assert sentences("train", count=20) == pairs[:20]
    assert sentences("train", count=50, seed=1) != pairs
    printed = "\n".join(f"{p.source}\t{p.target}\t{sorted(p.alignment)}\t{p.target_heads}" for p in pairs)
    assert hashlib.sha256(printed.encode("utf-8")).hexdigest() == PINNED


def test_bad_requests() -> None:
    with pytest.raises(UsageError) as caught:
        sentences("trian")
    assert (caught.value.value, caught.value.hint) == ("trian", "train")
    with pytest.raises(UsageError) as caught:
        sentences("train", count=-3)
    assert (caught.value.argument, caught.value.value) == ("count", -3)
    for count in (-1, 10**6):
        with pytest.raises(UsageError) as caught:
            pronoun_pairs(count=count)
        assert (caught.value.argument, caught.value.value) == ("count", count)
    with pytest.raises(UsageError) as caught:
        char_spans("The cat.", ("The", "dog", "."))
    assert caught.value.value == "dog"
    with pytest.raises(UsageError):
        char_spans("The cat.", ("The",))
    assert sentences("test", count=0) == []
    assert char_spans("L'eau dort.", ("L'", "eau", "dort", ".")) == ((0, 2), (2, 5), (6, 10), (10, 11))
