"""Inputs of encoder and decoder while a translator trains: BPE dropout and word dropout.

A stand-in for the loss records the batches; the model is real but tiny.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch

from regard.data.pairs import Pair
from regard.models.transformer.config import TransformerConfig
from regard.models.transformer.model import Transformer
from regard.nn.init import seeded_init
from regard.nn.layers import use_generator
from regard.tasks.base import Splits
from regard.tasks.translate.objective import Batch, TranslateObjective
from regard.tasks.translate.predictor import TokenizerPair
from regard.tasks.translate.spec import TranslateTraining
from regard.utils.errors import DataError, UsageError

PAIRS = [Pair(f"the {a} {n} sleeps", f"{n} {a} schläft") for a in ("small", "lowest") for n in ("newest", "wider")] * 3
SHAPE: dict[str, Any] = dict(num_encoder_layers=1, num_decoder_layers=1, d_model=8, d_ff=8, num_heads=1, head_dim=8)


def objective(shape: dict[str, Any] | None = None, **config: Any) -> TranslateObjective:
    settings = TranslateTraining(vocab_size=300, **config)
    tokenizers = TokenizerPair.train(PAIRS, settings)
    model_config = TransformerConfig(**{**SHAPE, **(shape or {}), **tokenizers.model_settings()})
    model = seeded_init(lambda: Transformer(model_config), seed=0)
    return TranslateObjective(model, tokenizers, Splits(PAIRS, PAIRS[:2]), settings)


def batches(
    learner: TranslateObjective, monkeypatch: pytest.MonkeyPatch, count: int, *, training: bool = True
) -> list[Batch]:
    """The batches of `count` steps over all pairs."""
    seen: list[Batch] = []
    monkeypatch.setattr(learner, "_loss", lambda batch, smoothing: seen.append(batch))
    learner.model.train(training)
    for step in range(count):
        with use_generator(torch.Generator().manual_seed(step)):
            learner.loss(range(len(PAIRS)))
    return seen


def texts(learner: TranslateObjective, rows: torch.Tensor) -> list[str]:
    return learner.tokenizers.source.decode_batch(rows.tolist())


def test_validation_targets_are_counted() -> None:
    learner = objective()
    targets = learner.tokenizers.target.encode_batch([pair.target for pair in PAIRS[:2]])
    assert learner.num_validation_targets == sum(len(ids) + 1 for ids in targets)


def test_without_dropout_every_step_has_the_same_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = batches(objective(), monkeypatch, 2)
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))


def test_bpe_dropout_segments_differently_each_step_and_decodes_to_the_same_text(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    learner = objective(bpe_dropout=0.3)
    seen = batches(learner, monkeypatch, 5)
    assert len({tuple(batch.source.flatten().tolist()) for batch in seen}) == 5
    for batch in seen:
        assert texts(learner, batch.source) == [pair.source for pair in PAIRS]
        assert texts(learner, batch.target) == [pair.target for pair in PAIRS]


def test_bpe_dropout_uses_the_usual_segmentation_where_tokens_become_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    usual = objective()
    longest = max(max(pair) for pair in usual.lengths())
    learner = objective(bpe_dropout=0.9, max_seq_len=longest)
    for batch in batches(learner, monkeypatch, 3):
        assert batch.source.shape[1] <= longest
        assert batch.target.shape[1] <= longest


def test_word_dropout_hides_about_its_share_from_the_decoder_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    learner = objective(word_dropout=0.25)
    (plain,) = batches(objective(), monkeypatch, 1)
    seen = batches(learner, monkeypatch, 40)
    unknown = learner.tokenizers.target.unknown_id
    hidden = torch.stack([batch.target != plain.target for batch in seen])
    assert not hidden[:, :, 0].any(), "the start token must stay"
    assert hidden[:, :, 1:].float().mean() == pytest.approx(0.25, abs=0.03)
    for batch in seen:
        assert (batch.target[batch.target != plain.target] == unknown).all()
        for name in ("source", "source_lengths", "next", "real"):
            assert torch.equal(getattr(batch, name), getattr(plain, name))


def test_neither_is_used_outside_of_training(monkeypatch: pytest.MonkeyPatch) -> None:
    (plain,) = batches(objective(), monkeypatch, 1)
    (read,) = batches(objective(bpe_dropout=0.5, word_dropout=0.5), monkeypatch, 1, training=False)
    assert all(torch.equal(a, b) for a, b in zip(plain, read, strict=True))


@pytest.mark.parametrize("name", ["bpe_dropout", "word_dropout", "label_smoothing"])
@pytest.mark.parametrize("share", [-0.1, 1.0])
def test_a_share_out_of_range_is_refused(name: str, share: float) -> None:
    with pytest.raises(UsageError) as error:
        TranslateTraining(**{name: share})
    assert (error.value.argument, error.value.value) == (name, share)


def test_a_tokenizer_without_merges_has_no_bpe_dropout() -> None:
    with pytest.raises(UsageError):
        objective(tokenizer="word", bpe_dropout=0.1)


def test_long_pairs_are_left_out_and_counted() -> None:
    longest = max(max(pair) for pair in objective().lengths())
    shorter = objective(max_seq_len=longest - 1)
    assert len(shorter.lengths()) < len(PAIRS)
    assert any(note.startswith("left out") for note in shorter.notes)
    with pytest.raises(DataError):
        objective(max_seq_len=2)


def test_sequences_longer_than_the_learned_positions_are_refused() -> None:
    with pytest.raises(UsageError) as error:
        objective({"positions": "learned", "max_positions": 16}, max_seq_len=17)
    assert (error.value.argument, error.value.value) == ("max_seq_len", 17)
