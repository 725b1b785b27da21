"""Dropout grows with the epochs: nothing in the first, its full share from the one that was asked for."""

from __future__ import annotations

from pathlib import Path

import pytest

import regard
from regard.errors import UsageError
from regard.nn.dropout import Dropout
from regard.nn.multihead import MultiHeadAttention
from regard.training.loop import Trainer
from regard.training.settings import TrainingConfig

PARTS = (Dropout, MultiHeadAttention)


@pytest.mark.parametrize(
    ("epochs", "expected"), [(4, [0.0, 0.25, 0.5, 0.75, 1.0, 1.0]), (0, [1.0] * 6), (1, [0.0] + [1.0] * 5)]
)
def test_strength_by_epoch(epochs: int, expected: list[float], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: dict[int, set[float]] = {}
    update = Trainer._update

    def watched(self: Trainer, rows: object) -> float:
        strengths = {module.strength for module in self.task.model.modules() if isinstance(module, PARTS)}
        seen.setdefault(self.at.epoch, set()).update(strengths)
        return update(self, rows)  # type: ignore[arg-type]

    monkeypatch.setattr(Trainer, "_update", watched)
    pairs = tmp_path / "pairs.tsv"
    pairs.write_text("".join(f"{word} {word}\t{word}\n" for word in ("one", "two", "three", "four", "five", "six")))
    settings = dict(width=8, hidden=8, heads=2, head_width=4, pieces=300, batch_tokens=64)
    trained = regard.train(
        "translate", pairs, out=tmp_path / "run", steps=12, size="tiny", dropout_epochs=epochs, **settings
    )
    assert {part.strength for part in trained.model.modules() if isinstance(part, PARTS)} == {1.0}  # for who goes on
    assert all(len(strengths) == 1 for strengths in seen.values())
    assert [min(seen[epoch]) for epoch in sorted(seen)][:6] == expected[: len(seen)]
    assert len(seen) >= 5


def test_epochs_cannot_be_negative() -> None:
    with pytest.raises(UsageError, match="dropout_epochs must not be negative"):
        TrainingConfig(steps=1, dropout_epochs=-1)
