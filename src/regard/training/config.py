"""Options of all training runs: the model to start from, the run itself, and the training. Does not import torch.

A task extends `TrainingConfig` with its own options and may change defaults.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from regard.utils.config import Config

Optimizer = Literal["muon", "adamw"]
Schedule = Literal["constant", "linear", "cosine", "trapezoid", "inverse-square-root", "linear-from-peak"]
WeightAveraging = Literal["none", "ema", "tail"]
KeepWeights = Literal["last", "best"]

MAX_SEED = 2**32


class ModelOptions(Config):
    """The model to train."""

    model: str | None = Field(None, description="Architecture (see above).")
    size: str | None = Field(None, description="Preset that sets the shape of a new model (see above).")
    from_: str | None = Field(None, description="Start from the weights in this model folder, or hf:owner/name.")
    lora: bool = Field(False, description="With --from: train LoRA adapters and freeze the other weights.")


class RunOptions(Config):
    """Options that do not affect the result of a run."""

    device: str = Field("auto", description="Device to train on: auto, cpu, cuda or mps.")
    save_every: float = Field(60.0, gt=0, description="Seconds between checkpoints.")
    resume: bool = Field(False, description="Resume from the last good checkpoint in --out.")
    force: bool = Field(False, description="Replace an earlier run in --out.")


class TrainingConfig(Config):
    """Training options that all tasks share."""

    steps: int | None = Field(None, ge=1, description="Training steps (optimizer updates), instead of --minutes.")
    minutes: float | None = Field(None, gt=0, description="Training time in minutes (10 if --steps is not given).")
    batch_tokens: int = Field(4096, ge=1, description="Tokens per batch, padding included.")
    accumulate: int = Field(1, ge=1, description="Batches per optimizer update (gradient accumulation).")
    seed: int = Field(0, ge=0, lt=MAX_SEED, description="Random seed; the same seed gives the same run.")
    optimizer: Optimizer = Field("muon", description="muon: Muon for matrices, AdamW for the rest.")
    learning_rate: float = Field(0.03, gt=0, description="Peak learning rate of AdamW.")
    muon_learning_rate: float = Field(0.025, gt=0, description="Peak learning rate of Muon.")
    beta1: float = Field(0.9, ge=0, lt=1, description="AdamW: decay rate of the average of gradients.")
    beta2: float = Field(0.98, ge=0, lt=1, description="AdamW: decay rate of the average of squared gradients.")
    adam_eps: float = Field(1e-9, ge=0, description="AdamW: ε, added to the denominator.")
    weight_decay: float = Field(0.01, ge=0, description="Weight decay (applied to matrices only).")
    schedule: Schedule = Field("linear", description="Schedule of the learning rate after warm-up.")
    warmup_steps: int = Field(30, ge=0, description="Warm-up steps until the peak learning rate.")
    dropout_warmup_epochs: int = Field(8, ge=0, description="Epochs in which dropout rises from 0; 0 disables this.")
    max_grad_norm: float = Field(1.0, ge=0, description="Maximum gradient norm; 0 disables clipping.")
    weight_averaging: WeightAveraging = Field("ema", description="How the saved weights are averaged over steps.")
    ema_decay: float = Field(0.998, ge=0, lt=1, description="Decay of the exponential moving average of the weights.")
    num_evals: int = Field(10, ge=0, description="Number of evaluations on the validation examples.")
    keep_weights: KeepWeights = Field("last", description="Weights to save: last, or best by validation loss.")
    patience: int = Field(0, ge=0, description="Stop after this many evaluations without a lower loss; 0: never.")
    log_every: int = Field(10, ge=1, description="Steps between lines of metrics.jsonl.")
