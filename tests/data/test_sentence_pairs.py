"""Next-sentence pairs: half are true, half are from another document, and only the words reveal which."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.data.documents import Documents
from regard.data.pretraining import ALONE, IS_NEXT, NOT_NEXT, longest_sentence, plan_rows, write_rows
from regard.utils.errors import DataError, UsageError

SYMBOLS = {"start_id": -2, "end_id": -3, "pad_id": -1}


def made(shape: list[list[int]]) -> Documents:
    """Documents with sentences of these lengths; each id is its position."""
    sentences = np.concatenate([[0], np.cumsum([length for document in shape for length in document])])
    documents = np.concatenate([[0], np.cumsum([len(document) for document in shape])])
    return Documents(np.arange(sentences[-1]), sentences.astype(np.int64), documents.astype(np.int64), words=0)


def many(documents: int = 3000) -> Documents:
    random = np.random.default_rng(0)
    return made([random.integers(3, 40, random.integers(1, 30)).tolist() for _ in range(documents)])


def document_of(found: Documents, place: np.ndarray) -> np.ndarray:
    sentence = np.searchsorted(found.sentences, place, side="right") - 1
    return np.searchsorted(found.documents, sentence, side="right") - 1


shapes = st.lists(st.lists(st.integers(1, 14), min_size=1, max_size=12), min_size=2, max_size=9)


@settings(deadline=None)
@given(shapes, st.integers(31, 64), st.integers(0, 5), st.integers(0, 5))
def test_every_row_matches_its_label(shape: list[list[int]], window: int, seed: int, epoch: int) -> None:
    found = made(shape)
    rows = plan_rows(found, window=window, seed=seed, epoch=epoch)
    assert rows.lengths.max() <= window
    first, second = document_of(found, rows.first[:, 0]), document_of(found, rows.second[:, 0])
    true, other, alone = (rows.nsp_labels == kind for kind in (IS_NEXT, NOT_NEXT, ALONE))
    assert (rows.first[:, 1] > rows.first[:, 0]).all()
    assert (rows.second[true, 0] == rows.first[true, 1]).all(), "the second part starts where the first one ends"
    assert (first[true] == second[true]).all(), "in the same document"
    assert (document_of(found, rows.second[true, 1] - 1) == first[true]).all()
    assert (first[other] != second[other]).all(), "from another document"
    assert (document_of(found, rows.second[other, 1] - 1) == second[other]).all(), "and from one alone"
    assert np.isin(rows.second[other, 0], found.sentences).all(), "it begins with a sentence"
    assert (rows.second[other, 1] > rows.second[other, 0]).all()
    assert (rows.second[alone, 0] == rows.second[alone, 1]).all()
    assert abs(int(true.sum()) - int(other.sum())) <= 1
    # What the rows would be without changed parts is the whole text, once.
    begins = np.sort(rows.first[:, 0])
    assert begins[0] == 0
    assert np.isin(begins, found.sentences).all()
    covered = int((rows.first[:, 1] - rows.first[:, 0]).sum() + (rows.second[true, 1] - rows.second[true, 0]).sum())
    assert covered <= len(found.ids)
    if not other.any():
        assert covered == len(found.ids)


def test_half_of_the_pairs_are_true() -> None:
    rows = plan_rows(many(), window=128, seed=0, epoch=0)
    asked = rows.nsp_labels[rows.nsp_labels != ALONE]
    assert len(asked) > 8000
    assert abs(asked.mean() - 0.5) < 0.01


def test_rows_are_packed() -> None:
    rows = plan_rows(made([[11] * 4000, [7] * 100]), window=128, seed=0, epoch=0)
    assert np.median(rows.lengths) >= 128 - 11
    short = (rows.lengths < 64).mean()
    assert 0.02 < short < 0.12  # so that short texts are seen, too


@pytest.mark.parametrize("longest", [8, 30])
def test_lengths_do_not_reveal_the_label(longest: int) -> None:
    """A guess from the two lengths, learned on half of the rows, is hardly better than chance on the other half."""
    random = np.random.default_rng(0)
    found = made([random.integers(4, 30, random.integers(2, longest)).tolist() for _ in range(12_000)])
    rows = plan_rows(found, window=128, seed=0, epoch=0)
    asked = np.flatnonzero(rows.nsp_labels != ALONE)
    sizes = [(part[asked, 1] - part[asked, 0]) // 8 for part in (rows.first, rows.second)]
    cell = sizes[0] * 100 + sizes[1]
    label, even = rows.nsp_labels[asked], np.arange(len(asked)) % 2 == 0
    votes = np.bincount(cell[even], weights=2 * label[even] - 1, minlength=cell.max() + 1)
    right = ((votes > 0)[cell[~even]] == label[~even]).mean()
    assert right < 0.56


def test_epochs_and_seeds_differ_and_repeat() -> None:
    found = many(50)
    plans = {(seed, epoch): plan_rows(found, window=64, seed=seed, epoch=epoch) for seed in (0, 1) for epoch in (0, 1)}
    assert len({plan.second.tobytes() for plan in plans.values()}) == 4
    again = plan_rows(found, window=64, seed=1, epoch=1)
    assert again.second.tolist() == plans[1, 1].second.tolist()
    assert again.nsp_labels.tolist() == plans[1, 1].nsp_labels.tolist()


def test_rows_without_pairs_hold_all_of_the_text() -> None:
    found = made([[5, 6, 7], [9] * 20])
    rows = plan_rows(found, window=41, seed=0, epoch=0, pairs=False)
    assert (rows.nsp_labels == ALONE).all()
    assert rows.lengths.max() <= 41
    assert np.concatenate([np.arange(a, b) for a, b in rows.first]).tolist() == list(range(len(found.ids)))


def test_rows_are_written_out() -> None:
    found = made([[2, 3], [4]])
    rows = plan_rows(found, window=20, seed=0, epoch=0)
    order = np.argsort(rows.first[:, 0])
    table = write_rows(found.ids + 100, rows[order], **SYMBOLS)
    second = list(range(102, 105)) if rows.nsp_labels[order[0]] == IS_NEXT else table.ids[0, 4:7].tolist()
    width = table.ids.shape[1]
    expected = [-2, 100, 101, -3, *second, -3]
    assert table.ids[0].tolist() == expected + [-1] * (width - len(expected))
    assert table.ids[1].tolist() == [-2, 105, 106, 107, 108, -3] + [-1] * (width - 6)
    assert table.type_ids.tolist() == [[0] * 4 + [1] * 4 + [0] * (width - 8), [0] * width]
    assert table.lengths.tolist() == [8, 6]
    assert table.nsp_labels[1] == ALONE


@given(shapes, st.integers(31, 50))
def test_a_table_matches_its_plan(shape: list[list[int]], window: int) -> None:
    found = made(shape)
    rows = plan_rows(found, window=window, seed=0, epoch=0)
    table = write_rows(found.ids, rows, **SYMBOLS)
    for row, (ids, segments, length, _) in enumerate(zip(*table, strict=True)):
        first, second = (found.ids[a:b].tolist() for a, b in (rows.first[row], rows.second[row]))
        both = [-2, *first, -3, *([*second, -3] if second else [])]
        assert ids[:length].tolist() == both
        assert (ids[length:] == -1).all()
        assert segments.tolist() == [0] * (len(first) + 2) + [1] * (length - len(first) - 2) + [0] * (len(ids) - length)


def test_next_sentence_pairs_need_two_documents() -> None:
    with pytest.raises(DataError):
        plan_rows(made([[3, 4, 5]]), window=20, seed=0, epoch=0)
    with pytest.raises(UsageError) as error:
        longest_sentence(5)
    assert (error.value.argument, error.value.value) == ("window", 5)
    assert longest_sentence(128) == 62
