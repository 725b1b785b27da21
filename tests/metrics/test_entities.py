"""Entity F1: by hand, by seqeval, and by a second implementation of conlleval's rules."""

from __future__ import annotations

import warnings

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.metrics.entities import (
    Entity,
    broken_tags,
    entities,
    entity_counts,
    entity_f1,
    is_entity_tag,
    looks_like_iob1,
    majority_tags,
)
from regard.utils.errors import UsageError

IOB = ("O", "B-per", "I-per", "B-loc", "I-loc", "B-creative-work", "I-creative-work")
IOBES = (*IOB, "E-per", "S-per", "E-loc", "S-loc")


def tag_lists(tags: tuple[str, ...]) -> st.SearchStrategy[list[list[tuple[str, str]]]]:
    pair = st.tuples(st.sampled_from(tags), st.sampled_from(tags))
    return st.lists(st.lists(pair, min_size=1, max_size=11), min_size=1, max_size=5)


@pytest.mark.parametrize(
    ("tags", "found"),
    [
        ("O B-per I-per O B-loc", [("per", 1, 3), ("loc", 4, 5)]),
        ("I-per I-per O", [("per", 0, 2)]),
        ("B-per I-loc I-loc", [("per", 0, 1), ("loc", 1, 3)]),
        ("B-per B-per I-per", [("per", 0, 1), ("per", 1, 3)]),
        ("O I-loc B-loc", [("loc", 1, 2), ("loc", 2, 3)]),
        ("B-per E-per S-loc S-loc", [("per", 0, 2), ("loc", 2, 3), ("loc", 3, 4)]),
        ("B-a-b I-a-b", [("a-b", 0, 2)]),
        ("O O", []),
        ("", []),
    ],
)
def test_entities_by_hand(tags: str, found: list[tuple[str, int, int]]) -> None:
    assert entities(tags.split()) == [Entity(*entity) for entity in found]


@pytest.mark.parametrize("scheme", [IOB, IOBES], ids=["IOB", "IOBES"])
def test_as_seqeval_counts(scheme: tuple[str, ...]) -> None:
    sequence_labeling = pytest.importorskip("seqeval.metrics.sequence_labeling")

    @given(tag_lists(scheme))
    def check(sentences: list[list[tuple[str, str]]]) -> None:
        predicted = [[one for one, _ in sentence] for sentence in sentences]
        gold = [[other for _, other in sentence] for sentence in sentences]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # seqeval warns of empty types
            wanted = sequence_labeling.f1_score(gold, predicted, average="micro")
            names, by_type = _by_type(sequence_labeling, gold, predicted)
        assert entity_f1(predicted, gold).value == pytest.approx(100 * wanted)
        counts = entity_counts(predicted, gold)
        assert [name for name in counts if name] == names
        for name, precision, recall, f1, actual in by_type:
            found = counts[name]
            assert (found.precision, found.recall, found.f1, found.gold) == pytest.approx(
                (precision, recall, f1, actual)
            )

    check()


def _by_type(
    module: object, gold: list[list[str]], predicted: list[list[str]]
) -> tuple[list[str], list[tuple[object, ...]]]:
    report = module.precision_recall_fscore_support(gold, predicted, average=None)
    both = module.get_entities(gold) + module.get_entities(predicted)
    names = sorted({type_ for type_, _, _ in both})
    return names, list(zip(names, *report, strict=False)) if names else []


def _conlleval(pairs: list[tuple[str, str]]) -> tuple[int, int, int]:
    """Correct, predicted, gold: walks over (predicted, gold) tags with a boundary at the end, as conlleval does."""
    ends = {("B", "B"), ("B", "O"), ("I", "B"), ("I", "O")}
    starts = {("B", "B"), ("I", "B"), ("O", "B"), ("O", "I")}
    correct = predicted = gold = 0
    both_inside = False
    before = (("O", ""), ("O", ""))
    for pair in [*pairs, ("O", "O")]:
        now = tuple((tag[:1], tag[2:]) for tag in pair)
        end = [(a[0], b[0]) in ends or (a[0] != "O" and a[1] != b[1]) for a, b in zip(before, now, strict=True)]
        start = [(a[0], b[0]) in starts or (b[0] != "O" and a[1] != b[1]) for a, b in zip(before, now, strict=True)]
        if both_inside:
            if all(end) and before[0][1] == before[1][1]:
                correct += 1
                both_inside = False
            elif end[0] != end[1] or now[0][1] != now[1][1]:
                both_inside = False
        if all(start) and now[0][1] == now[1][1]:
            both_inside = True
        predicted, gold = predicted + start[0], gold + start[1]
        before = now
    return correct, predicted, gold


@given(tag_lists(IOB))
def test_as_conlleval_counts(sentences: list[list[tuple[str, str]]]) -> None:
    flat = [pair for sentence in sentences for pair in [*sentence, ("O", "O")]]
    counts = entity_counts(*[[[p[side] for p in sentence] for sentence in sentences] for side in (0, 1)])[""]
    assert (counts.correct, counts.predicted, counts.gold) == _conlleval(flat)


def test_broken_tags_and_iob1() -> None:
    assert broken_tags(["O", "I-per", "I-per", "B-loc", "I-per", "E-loc"]) == [1, 4, 5]
    assert broken_tags(["B-per", "I-per", "E-per", "S-loc", "O"]) == []
    assert looks_like_iob1([["O", "I-per", "I-per"], ["I-loc", "B-loc", "O"]])
    assert not looks_like_iob1([["O", "I-per"], ["O", "B-loc", "O"]])
    assert not looks_like_iob1([["O", "O"]])
    assert not looks_like_iob1([["B-per", "I-per"]])


def test_majority_tags() -> None:
    known = majority_tags([(("the", "run"), ("DET", "NOUN")), (("the", "run", "run"), ("DET", "VERB", "NOUN"))])
    assert known == {"the": "DET", "run": "NOUN", "": "DET"}


def test_invalid_tags() -> None:
    assert [is_entity_tag(tag) for tag in ("O", "B-per", "I-x-y", "NOUN", "B", "X-per", "")] == [
        True, True, True, False, False, False, False,
    ]  # fmt: skip
    with pytest.raises(UsageError) as error:
        entity_f1([["NOUN"]], [["O"]])
    assert (error.value.argument, error.value.value) == ("tag", "NOUN")
    for predicted, gold in (([["O"], ["O", "O"]], [["O"], ["O"]]), ([["O"]], [["O"], ["O"]])):
        with pytest.raises(UsageError) as error:
            entity_f1(predicted, gold)
        assert error.value.argument == "predicted"


def test_signature() -> None:
    score = entity_f1([["B-a", "O", "B-a"]], [["B-a", "O", "O"]])
    assert repr(score) == "entity F1 66.67 (conlleval|precision:50.00|recall:100.00|entities:1|n:1)"
