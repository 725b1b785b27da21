"""The task `translate`: what goes in, what comes out, its options and its recipes. Does not import torch."""

from __future__ import annotations

from typing import Literal

from pydantic import Field as Option

from regard.generation.config import SearchConfig
from regard.models.transformer.config import MODERN
from regard.spec import Field, TaskSpec
from regard.training.config import TrainingConfig
from regard.training.run import Recipe, TrainRequest
from regard.utils.config import Config
from regard.utils.errors import UsageError

PUBLISHED = "transformer-"  # prefix of presets with the sizes of the paper


class TranslateReading(Config):
    """Options for reading sentence pairs."""

    columns: tuple[str, str] | None = Option(
        None, description="Names (or, without a header, numbers) of the source and the target column."
    )
    reverse: bool = Option(False, description="Translate from the second language to the first.")
    skip_bad_rows: bool = Option(False, description="Skip unusable rows and list them.")


class TranslateTraining(TranslateReading, TrainingConfig):
    """Options of `regard train translate`."""

    recipe: Literal["default", "paper"] | None = Option(
        None,
        description="Defaults of other options. default: those that learn fastest on a CPU; paper: those of the 2017 "
        "Transformer (used for the sizes transformer-…).",
    )
    label_smoothing: float = Option(
        0.1, ge=0, lt=1, description="Fraction of the target probability that is spread over the vocabulary."
    )
    tokenizer: Literal["bpe", "byte-bpe", "wordpiece", "word", "char"] = Option(
        "bpe", description="Kind of tokenizer to train."
    )
    vocab_size: int = Option(8000, ge=1, description="Maximum vocabulary size of the tokenizer.")
    separate_vocabularies: bool = Option(False, description="Train one tokenizer per language instead of a joint one.")
    bpe_dropout: float = Option(
        0.0,
        ge=0,
        lt=1,
        description="Fraction of BPE merges that are skipped at random in training; helps with little data.",
    )
    word_dropout: float = Option(
        0.0,
        ge=0,
        lt=1,
        description="Fraction of target tokens hidden from the decoder in training, so that it must use the source.",
    )
    max_seq_len: int = Option(
        256, ge=2, description="Maximum number of tokens of a source or target; longer pairs are left out and counted."
    )


def translate_recipe(request: TrainRequest) -> Recipe:
    """Return the defaults of `--recipe`.

    The paper uses post-norm, sinusoidal positions, Adam with warm-up and inverse-square-root decay, and averaged
    weights.
    """
    if request.folder is not None:
        raise UsageError("--from is not available for translate. Train a new model without it.", argument="from_")
    published, fields = request.preset.startswith(PUBLISHED), request.architecture.config.model_fields
    if (request.given.get("recipe") or ("paper" if published else "default")) == "default":
        return Recipe(model={name: value for name, value in MODERN.items() if name in fields})
    warmup = request.given.get("warmup_steps") or (4000 if published else 1000)
    shape = {**request.architecture.presets.get(request.preset, {}), **request.given_model}
    d_model = shape.get("d_model", fields["d_model"].default)
    return Recipe(
        training=dict(
            optimizer="adamw",
            learning_rate=paper_learning_rate(d_model, warmup),
            weight_decay=0.0,
            schedule="inverse-square-root",
            warmup_steps=warmup,
            dropout_warmup_epochs=0,
            max_grad_norm=0.0,
            weight_averaging="tail",
        )
    )


def paper_learning_rate(d_model: int, warmup_steps: int) -> float:
    """The peak of d_model^-½ · min(step^-½, step · warmup^-1.5), reached when step = warmup."""
    return float(d_model**-0.5 * warmup_steps**-0.5)


SPEC = TaskSpec(
    name="translate",
    summary="Translate a sentence.",
    noun="a translator",
    inputs=(Field("source", "text", "The sentence to translate.", columns=("src",)),),
    outputs=(
        Field("text", "text", "The translation."),
        Field("score", "number", "The log-probability of the translation after the length penalty."),
        Field("tokens", "tokens", "The tokens of the translation, including the end token."),
        Field("log_probs", "numbers", "The log-probability of each token."),
        Field("ended", "boolean", "Whether the translation is complete; false if max_new_tokens was reached first."),
        Field("alternatives", "records", "The other translations, if several are requested.", optional=True),
    ),
    read_config=TranslateReading,
    input_options=frozenset({"columns", "reverse"}),
    train_config=TranslateTraining,
    predict_config=SearchConfig,
    reader="regard.tasks.translate.reader:TranslateReader",
    objective="regard.tasks.translate.objective:TranslateObjective",
    predictor="regard.tasks.translate.predictor:Translator",
    recipe="regard.tasks.translate.spec:translate_recipe",
    needs=frozenset({"encoder-decoder"}),
    default_architecture="transformer",
    default_preset="small",
    metrics=("BLEU", "chrF"),
    views=("attention", "steps", "ranks"),
    hub_pipeline="translation",
    hub_classes=("MTModel",),
    example=("The cat sleeps.",),
    test_settings={"vocab_size": 400, "batch_tokens": 512, "num_beams": 2, "max_new_tokens": 8},
    default_help={
        "optimizer": "muon; adamw with --recipe paper",
        "learning_rate": "0.03; d_model^-0.5 · warmup_steps^-0.5 with --recipe paper",
        "warmup_steps": "30; 1000 with --recipe paper; 4000 for the sizes transformer-…",
        "weight_decay": "0.01; 0 with --recipe paper",
        "schedule": "linear; inverse-square-root with --recipe paper",
        "dropout_warmup_epochs": "8; 0 with --recipe paper",
        "max_grad_norm": "1; 0 with --recipe paper",
        "weight_averaging": "ema; tail with --recipe paper",
    },
    data_help="A table of pairs (.tsv, .csv, .jsonl), or two line-aligned text files, plain or .gz.",
    data_example="pairs.tsv",
)
