"""Dropout grows with the epochs: zero in the first one, the full rate from the given one."""

from __future__ import annotations

from pathlib import Path

import pytest

import regard
from regard.nn.layers import Dropout
from regard.nn.multihead import MultiHeadAttention
from regard.training.config import TrainingConfig
from regard.training.data_parallel import StepLoss
from regard.training.trainer import Trainer
from regard.utils.errors import UsageError

PARTS = (Dropout, MultiHeadAttention)


@pytest.mark.parametrize(
    ("epochs", "expected"), [(4, [0.0, 0.25, 0.5, 0.75, 1.0, 1.0]), (0, [1.0] * 6), (1, [0.0] + [1.0] * 5)]
)
def test_dropout_scale_by_epoch(
    epochs: int, expected: list[float], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: dict[int, set[float]] = {}
    step = Trainer._step

    def watched(self: Trainer, loss: StepLoss) -> None:
        scales = {module.dropout_scale for module in self.model.modules() if isinstance(module, PARTS)}
        seen.setdefault(self.state.epoch, set()).update(scales)
        step(self, loss)

    monkeypatch.setattr(Trainer, "_step", watched)
    pairs = tmp_path / "pairs.tsv"
    pairs.write_text("".join(f"{word} {word}\t{word}\n" for word in ("one", "two", "three", "four", "five", "six")))
    settings = dict(d_model=8, d_ff=8, num_heads=2, head_dim=4, vocab_size=300, batch_tokens=64)
    trained = regard.train(
        "translate", pairs, out=tmp_path / "run", steps=12, size="tiny", dropout_warmup_epochs=epochs, **settings
    )
    final = {part.dropout_scale for part in trained.model.modules() if isinstance(part, PARTS)}
    assert final == {1.0}, "the full value for later training"
    assert all(len(scales) == 1 for scales in seen.values())
    assert [min(seen[epoch]) for epoch in sorted(seen)][:6] == expected[: len(seen)]
    assert len(seen) >= 5


def test_epochs_cannot_be_negative() -> None:
    with pytest.raises(UsageError):
        TrainingConfig(steps=1, dropout_warmup_epochs=-1)
