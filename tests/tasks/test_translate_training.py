"""What the decoder and encoder read while a translator trains: other cuts of words, pieces hidden from the decoder.

A stand-in for the loss looks at the batches; the model is real but tiny.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch

from regard.data.pairs import Pair
from regard.errors import UsageError
from regard.nn.dropout import drawing_from
from regard.tasks.settings import TranslateConfig
from regard.tasks.translate import Batch, TranslateTask, Vocabularies, make_model

PAIRS = [Pair(f"the {a} {n} sleeps", f"{n} {a} schläft") for a in ("small", "lowest") for n in ("newest", "wider")] * 3
SHAPE = dict(encoder_layers=1, decoder_layers=1, width=8, hidden=8, heads=1, head_width=8)


def task(**config: Any) -> TranslateTask:
    settings = TranslateConfig(pieces=300, **config)
    vocabularies = Vocabularies.train(PAIRS, settings)
    model = make_model(vocabularies, SHAPE, seed=0)
    return TranslateTask(model=model, vocabularies=vocabularies, train=PAIRS, validation=PAIRS[:2], config=settings)


def batches(
    learner: TranslateTask, monkeypatch: pytest.MonkeyPatch, count: int, *, training: bool = True
) -> list[Batch]:
    """What the model would read in `count` steps over all pairs."""
    seen: list[Batch] = []
    monkeypatch.setattr(learner, "_loss", lambda batch, smoothing: seen.append(batch))
    learner.model.train(training)
    for step in range(count):
        with drawing_from(torch.Generator().manual_seed(step)):
            learner.loss(range(len(PAIRS)))
    return seen


def texts(learner: TranslateTask, rows: torch.Tensor) -> list[str]:
    return learner.vocabularies.source.decode_batch(rows.tolist())


def test_without_either_every_step_reads_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = batches(task(), monkeypatch, 2)
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))


def test_piece_dropout_cuts_differently_each_step_and_says_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    learner = task(piece_dropout=0.3)
    seen = batches(learner, monkeypatch, 5)
    assert len({tuple(batch.source.flatten().tolist()) for batch in seen}) == 5
    for batch in seen:
        assert texts(learner, batch.source) == [pair.source for pair in PAIRS]
        assert texts(learner, batch.target) == [pair.target for pair in PAIRS]


def test_piece_dropout_keeps_the_usual_cut_where_pieces_become_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    usual = task()
    longest = max(max(pair) for pair in usual.lengths())
    learner = task(piece_dropout=0.9, max_length=longest)
    for batch in batches(learner, monkeypatch, 3):
        assert batch.source.shape[1] <= longest
        assert batch.target.shape[1] <= longest


def test_word_dropout_hides_about_its_share_from_the_decoder_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    learner = task(word_dropout=0.25)
    (plain,) = batches(task(), monkeypatch, 1)
    seen = batches(learner, monkeypatch, 40)
    unknown = learner.vocabularies.target.unknown_id
    hidden = torch.stack([batch.target != plain.target for batch in seen])
    assert not hidden[:, :, 0].any(), "the start symbol must stay"
    assert hidden[:, :, 1:].float().mean() == pytest.approx(0.25, abs=0.03)
    for batch in seen:
        assert (batch.target[batch.target != plain.target] == unknown).all()
        for name in ("source", "source_lengths", "next", "real"):
            assert torch.equal(getattr(batch, name), getattr(plain, name))


def test_neither_is_used_outside_of_training(monkeypatch: pytest.MonkeyPatch) -> None:
    (plain,) = batches(task(), monkeypatch, 1)
    (read,) = batches(task(piece_dropout=0.5, word_dropout=0.5), monkeypatch, 1, training=False)
    assert all(torch.equal(a, b) for a, b in zip(plain, read, strict=True))


@pytest.mark.parametrize("name", ["piece_dropout", "word_dropout"])
@pytest.mark.parametrize("share", [-0.1, 1.0])
def test_a_share_outside_of_its_range_is_refused(name: str, share: float) -> None:
    with pytest.raises(UsageError, match=f"{name} must be at least 0 and below 1"):
        TranslateConfig(**{name: share})  # type: ignore[arg-type]


def test_a_vocabulary_without_merges_is_refused() -> None:
    with pytest.raises(UsageError, match="a word tokenizer has none"):
        task(tokenizer="word", piece_dropout=0.1)
