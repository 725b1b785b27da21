"""Notes about a finished run: which weights were kept, and whether the model overfits."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from regard.training.config import TrainingConfig
    from regard.training.trainer import TrainState

MIN_GAP = 0.1  # between training and validation loss: a smaller gap is not worth a note


def diagnose(state: TrainState, config: TrainingConfig) -> list[str]:
    """All notes that apply to a run that ended in `state`."""
    return [note for note in (kept_weights(state, config), overfitting(state, config)) if note]


def kept_weights(state: TrainState, config: TrainingConfig) -> str:
    """Which weights were kept, if validation chose them."""
    if not _keeps_best(state, config):
        return ""
    return (
        f"kept: the weights of step {state.best_step:,}, which have the lowest validation loss. Scores on the same "
        "examples are slightly too high."
    )


def overfitting(state: TrainState, config: TrainingConfig) -> str:
    """Whether the validation loss rose while the training loss fell, or stayed far above it."""
    if not state.val_loss > 1.05 * state.best_val_loss or state.train_loss > state.best_val_loss:
        return _gap(state)
    kept = "were kept" if _keeps_best(state, config) else "would be kept with --keep-weights best"
    return (
        f"overfitting: the validation loss rose from {state.best_val_loss:.4f} at step {state.best_step:,} to "
        f"{state.val_loss:.4f}, while the training loss fell to {state.train_loss:.4f}. The weights of step "
        f"{state.best_step:,} {kept}. More data, fewer epochs or a lower learning rate help."
    )


def _gap(state: TrainState) -> str:
    """From the second epoch on: a validation loss far above the training loss, even if it does not rise."""
    gap = state.val_loss - state.train_loss
    if not state.epoch or not (state.val_loss > 2 * state.train_loss and gap > MIN_GAP):
        return ""
    return (
        f"gap: the training loss is {state.train_loss:.4f}, the validation loss {state.val_loss:.4f}: the model "
        "memorizes training examples. More data or fewer epochs help."
    )


def _keeps_best(state: TrainState, config: TrainingConfig) -> bool:
    return config.keep_weights == "best" and state.best_val_loss < math.inf
