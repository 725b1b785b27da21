"""Recipes: settings that belong together.

`default` is what learns fastest on a CPU; `paper` is the Transformer of 2017, as published: post-norm, sinusoidal
positions, Adam with warm-up and the inverse square root, label smoothing, averaged checkpoints.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from regard.models.bert_settings import PRESETS as BERT_PRESETS
from regard.models.gpt_settings import PRESETS as GPT_PRESETS
from regard.models.transformer_settings import MODERN, PRESETS

RECIPES = ("default", "paper")
PUBLISHED = "transformer-"  # how the names of the paper's own shapes begin
USUAL_SIZE = "small"
NOT_FOR_WRITERS = ("label_smoothing",)  # a language model's loss is the plain cross-entropy
USUAL_ENCODER = "mini"
NOT_FOR_FILLERS = NOT_FOR_WRITERS
WIDE = 384  # from this width on an encoder is fine-tuned at BERT's own rate
ROW = 128  # pieces that a BERT reads at once where nothing else is asked for


@dataclass(frozen=True)
class Recipe:
    model: dict[str, Any] = field(default_factory=dict)
    training: dict[str, Any] = field(default_factory=dict)


def usual_recipe(size: str) -> str:
    """The recipe of a size where none is asked for: a size that the paper published comes with the paper's."""
    return "paper" if size.startswith(PUBLISHED) else "default"


def paper_learning_rate(width: int, warmup_steps: int) -> float:
    """The peak of d_model^-½ · min(step^-½, step · warmup^-1.5), reached when step = warmup."""
    return float(width**-0.5 * warmup_steps**-0.5)


def translation_recipe(name: str, size: str, *, width: int | None = None, warmup_steps: int | None = None) -> Recipe:
    """The settings of a recipe at a size; `name` and `size` are known.

    The paper's rate follows from width and warm-up, so those that a user gave must be known here.
    """
    shape = {key: value for key, value in PRESETS[size].items() if key != "vocab_size"}
    if name == "default":
        return Recipe(model={**shape, **MODERN}, training={})
    warmup = warmup_steps or (4000 if size.startswith(PUBLISHED) else 1000)
    return Recipe(
        model=shape,
        training=dict(
            optimiser="adamw",
            learning_rate=paper_learning_rate(width or int(str(shape["width"])), warmup),
            weight_decay=0.0,
            beta2=0.98,
            epsilon=1e-9,
            schedule="inverse-square-root",
            warmup_steps=warmup,
            label_smoothing=0.1,
            dropout_epochs=0,
            clip=0.0,
            averaging="tail",
        ),
    )


def writing_recipe(size: str) -> Recipe:
    """The settings of a language model at a size, which is known."""
    shape = {key: value for key, value in GPT_PRESETS[size].items() if key != "vocab_size"}
    return Recipe(
        model=shape,
        training=dict(
            learning_rate=0.02,
            matrix_learning_rate=0.03,
            warmup_steps=20,
            schedule="trapezoid",
            label_smoothing=0.0,
            beta2=0.95,
        ),
    )


def filling_recipe(size: str) -> Recipe:
    """The settings of a BERT that is pre-trained, at a size, which is known.

    It reads rows of 128 pieces, as BERT did for most of its training: four times as many rows as with 512 for the same
    work, and most sentences are much shorter. A published shape, such as bert-base, keeps its own context.
    """
    shape = {key: value for key, value in BERT_PRESETS[size].items() if key != "vocab_size"}
    own = {} if size.startswith("bert-") else {"context": ROW}
    return Recipe(
        model={**shape, **own, "dropout": 0.0},
        training=dict(
            learning_rate=0.008,
            matrix_learning_rate=0.02,
            warmup_steps=50,
            label_smoothing=0.0,
            batch_tokens=4096,
        ),
    )


def fine_tuning_recipe(*, lora: bool) -> Recipe:
    """The settings of a training that goes on from weights, whatever its task.

    Learned weights are good already, and steps as long as those from random ones would undo that: AdamW at a small
    part of the usual rate, or Muon, for those who ask for it, at a tenth. Adapters begin at zero and are few, so they
    may take steps five times as long. A fine-tuning is often short; its warm-up is, too.
    """
    rate = 0.001 if lora else 0.0002
    return Recipe(
        training=dict(
            optimiser="adamw", learning_rate=rate, matrix_learning_rate=0.002, warmup_steps=20, label_smoothing=0.0
        )
    )


def labelling_recipe(*, begins: bool, lora: bool, width: int | None = None) -> Recipe:
    """The settings of a training on labels: as BERT is usually fine-tuned, or those of a new, small model.

    What is begun with takes longer steps if it is narrower than most: `width` is its own, if it is known.

    Weights that are begun with are fine-tuned with dropout, whatever they were pre-trained with, from the second epoch
    on: what is read for the first time cannot be learned by heart. Attention weights are not dropped: that helps no
    more, and takes longer. A new model is kept as it was
    when it did best on what was held out, because it learns few examples by heart. One that was begun with is not: its
    validation loss rises with its certainty, while it still gets more of them right.
    """
    usual = min(1e-3, 5e-5 * max(1.0, WIDE / (width or WIDE)) ** 3)
    rate = (0.001 if lora else usual) if begins else 5e-4
    return Recipe(
        model=dict(dropout=0.1, attention_dropout=0.0) if begins else {},
        training=dict(
            optimiser="adamw",
            learning_rate=rate,
            beta2=0.999,
            epsilon=1e-8,
            schedule="linear-from-peak",
            label_smoothing=0.0,
            dropout_epochs=1 if begins else 0,
            averaging="none",
            batch_tokens=2048,
            keep="last" if begins else "best",
        ),
    )
