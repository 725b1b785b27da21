"""Options, recipe and spec defaults of tasks that train a head on an encoder. Does not import torch."""

from __future__ import annotations

import math
from functools import partial
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, Field, field_validator

from regard.checkpoint.probe import d_model_of, probe_config
from regard.spec import TaskSpec
from regard.training.config import KeepWeights, Optimizer, Schedule, TrainingConfig, WeightAveraging
from regard.training.run import Recipe, TrainRequest
from regard.utils.config import Config, field_default
from regard.utils.errors import UsageError, unknown

encoder_task = partial(
    TaskSpec,
    recipe="regard.tasks.encoder.config:encoder_recipe",
    default_architecture="bert",
    default_preset="tiny",
    lora=True,
    fixed=frozenset({"batch_tokens", "pooler", "type_vocab_size"}),
    views=("attention", "inputs"),
    test_settings={"batch_size": 4, "max_seq_len": 16, "vocab_size": 120},
)

FREEZE = ("nothing", "embeddings", "encoder")
ROW_TOKENS = 128  # sequence length in pre-training and its evaluation, as in most of BERT's pre-training
WIDE = 384  # encoders with at least this d_model are fine-tuned at BERT's learning rate
FINE_TUNING_EPOCHS = 3
MIN_STEPS = 300  # a new model needs about this many steps to learn from few examples
MAX_EPOCHS = 40  # with more epochs, a new model only memorizes its examples
MAX_EVALS = 10
# Heads that predict tokens: head kinds in both formats of regard's model folders, and `transformers` classes.
MLM_HEADS = ("mlm", "pretraining", "words", "words-follows", "BertForMaskedLM", "BertForPreTraining")
FREE = ("dropout", "attention_dropout", "head_dropout")  # model settings that fine-tuning may change


def _check_exists(path: Path) -> Path:
    if not path.exists():
        raise UsageError(f"--forgetting {path} does not exist.", argument="forgetting", value=str(path), path=str(path))
    return path


ForgettingText = Annotated[Path, AfterValidator(_check_exists)]


class RowReading(Config):
    """Options for reading rows of examples."""

    skip_bad_rows: bool = Field(False, description="Skip unusable rows and list them.")


class EncoderTraining(TrainingConfig):
    """Training options for a head on a new or pretrained encoder."""

    optimizer: Optimizer = field_default(TrainingConfig, "optimizer", "adamw")
    learning_rate: float = field_default(TrainingConfig, "learning_rate", 5e-4)
    beta2: float = field_default(TrainingConfig, "beta2", 0.999)
    adam_eps: float = field_default(TrainingConfig, "adam_eps", 1e-8)
    schedule: Schedule = field_default(TrainingConfig, "schedule", "linear-from-peak")
    dropout_warmup_epochs: int = field_default(TrainingConfig, "dropout_warmup_epochs", 0)
    weight_averaging: WeightAveraging = field_default(TrainingConfig, "weight_averaging", "none")
    keep_weights: KeepWeights = field_default(TrainingConfig, "keep_weights", "best")
    batch_tokens: int = field_default(TrainingConfig, "batch_tokens", 2048)

    epochs: float | None = Field(
        None,
        gt=0,
        description="Training epochs (default 3; for new models on small data, enough for 300 steps, at most 40). "
        "Ignored with --steps or --minutes.",
    )
    batch_size: int = Field(32, ge=1, description="Examples per batch.")
    max_seq_len: int = Field(128, ge=4, description="Maximum input tokens; longer inputs are truncated or split.")
    vocab_size: int = Field(8000, ge=1, description="Maximum vocabulary size of a new model's tokenizer.")
    freeze: str = Field(
        "nothing",
        description="With --from, the weights to freeze: nothing, embeddings, encoder (all but the head), or a "
        "number N (embeddings and the first N layers).",
    )
    layer_decay: float = Field(
        1.0, gt=0, le=1, description="With --from: learning rate of each layer divided by that of the layer above it."
    )
    val_fraction: float = Field(0.1, gt=0, lt=1, description="Fraction of DATA held out if --validation is not given.")
    forgetting: ForgettingText | None = Field(
        None, description="With --from: text file for measuring how much masked-token accuracy fine-tuning loses."
    )

    @field_validator("freeze")
    @classmethod
    def _known_part(cls, part: str) -> str:
        if part not in FREEZE and not part.isdecimal():
            raise unknown("freeze", part, (*FREEZE, "a number of layers"))
        return part


def encoder_recipe(request: TrainRequest) -> Recipe:
    """Return the usual defaults for fine-tuning BERT; a new model uses the defaults of the config.

    An encoder with a small d_model gets a higher learning rate. Dropout starts in the second epoch, because in the
    first epoch every example is new and cannot be memorized. The last weights are kept, because the validation loss of
    a fine-tuned model rises with its confidence while its accuracy still improves.
    """
    config = EncoderTraining.model_fields
    # Early stopping ends with weights that are worse than earlier ones, so keep the best.
    best = {"keep_weights": "best"} if request.given.get("patience") else {}
    if request.folder is None:
        fine_tuning = ("freeze", "layer_decay", "forgetting")
        request.refuse_without_pretrained({name: config[name].default for name in fine_tuning})
        return Recipe(training=best)
    request.refuse_with_pretrained(("size", "vocab_size"))
    if request.lora is not None and request.given.get("freeze", "nothing") != "nothing":
        raise UsageError("--freeze conflicts with --lora. Remove one of them.", argument="freeze")
    if request.given.get("forgetting") is not None and has_mlm_head(request.folder) is False:
        raise UsageError(
            f"--forgetting needs a model with a masked-language-model head, but {request.pretrained} has none. Remove "
            "--forgetting, or start from a model trained with `regard train fill`.",
            argument="forgetting",
        )
    width = d_model_of(request.folder) or WIDE
    rate = 0.001 if request.lora is not None else min(1e-3, 5e-5 * max(1.0, WIDE / width) ** 3)
    return Recipe(
        model=dict(dropout=0.1, attention_dropout=0.0),
        training=dict(learning_rate=rate, dropout_warmup_epochs=1, keep_weights="last") | best,
    )


def epoch_settings(request: TrainRequest, num_examples: int) -> dict[str, int]:
    """Derive steps, warmup steps and number of evaluations from the number of examples."""
    config = request.config
    assert isinstance(config, EncoderTraining), "tasks on encoders extend it"
    steps_per_epoch = math.ceil(num_examples / config.batch_size)
    epochs = config.epochs or (FINE_TUNING_EPOCHS if request.folder is not None else new_model_epochs(steps_per_epoch))
    steps = max(1, round(epochs * steps_per_epoch))
    planned = config.steps or (3 * steps_per_epoch if config.minutes is not None else steps)
    settings = {"num_evals": min(MAX_EVALS, math.ceil(epochs)), "warmup_steps": max(1, planned // 10)}
    return settings if config.steps is not None or config.minutes is not None else {"steps": steps, **settings}


def new_model_epochs(steps_per_epoch: int) -> int:
    """Return the default number of epochs for a model that starts from random weights."""
    return max(FINE_TUNING_EPOCHS, min(MAX_EPOCHS, math.ceil(MIN_STEPS / steps_per_epoch)))


def has_mlm_head(path: Path) -> bool | None:
    """Return whether the model in a folder has a masked-language-model head, or None if unknown."""
    config = probe_config(path)
    try:
        kind = config["head"]["kind"] if "head" in config else config["architectures"][0]
    except (TypeError, KeyError, IndexError):
        return None
    return kind in MLM_HEADS if isinstance(kind, str) else None
