"""The task `fill`: what goes in, what comes out, its options. Does not import torch."""

from __future__ import annotations

from pydantic import Field as Option

from regard.spec import Field, TaskSpec
from regard.tasks.encoder.config import ROW_TOKENS, EncoderTraining, ForgettingText
from regard.tasks.generate.spec import GenerateTraining
from regard.training.config import TrainingConfig
from regard.training.run import Recipe, TrainRequest
from regard.utils.config import Config, field_default
from regard.utils.errors import UsageError

MIN_WINDOW = 8  # two sentences and their special tokens


class FillTraining(TrainingConfig):
    """Options of `regard train fill`."""

    learning_rate: float = field_default(TrainingConfig, "learning_rate", 0.008)
    muon_learning_rate: float = field_default(TrainingConfig, "muon_learning_rate", 0.02)
    warmup_steps: int = field_default(TrainingConfig, "warmup_steps", 50)

    vocab_size: int = Option(8000, ge=1, description="Maximum vocabulary size of a new model's tokenizer.")
    lowercase: bool = Option(True, description="Convert texts to lowercase, as uncased BERT models do.")
    next_sentence: bool = Option(True, description="Also train next-sentence prediction.")
    whole_words: bool = Option(False, description="Whole-word masking: mask all subwords of a word or none.")
    window: int | None = Option(
        None,
        ge=MIN_WINDOW,
        description="Maximum length of a training sequence, in tokens (default: the context length, but at most 128 "
        "if --from is given).",
    )
    val_fraction: float = field_default(GenerateTraining, "val_fraction", 0.1)
    forgetting: ForgettingText | None = field_default(EncoderTraining, "forgetting", None)


class FillConfig(Config):
    """Options of prediction."""

    top: int = Option(5, ge=1, description="Number of candidates for each [MASK].")
    all: bool = Option(False, description="Return all tokens of the vocabulary as candidates, in alphabetical order.")


def fill_recipe(request: TrainRequest) -> Recipe:
    """Return defaults that depend on the preset or on pretrained weights.

    A new model has a context length of 128 tokens: most sentences are much shorter, and a batch has four times as many
    rows as with 512. Presets of published models keep their context length. Pretrained weights need a low learning
    rate, because large updates would undo what was learned.
    """
    if request.folder is None:
        request.refuse_without_pretrained({"forgetting": None})
        context = request.given_model.get("context_length", MIN_WINDOW)
        if context < MIN_WINDOW:
            raise UsageError(
                f"--context-length {context} is too short for this task. Use at least {MIN_WINDOW}.",
                argument="context_length",
                value=context,
            )
        published = request.preset.startswith("bert-")
        return Recipe(model={"dropout": 0.0} if published else {"context_length": ROW_TOKENS, "dropout": 0.0})
    request.refuse_with_pretrained(("size", "vocab_size", "lowercase"))
    return Recipe(training=dict(optimizer="adamw", learning_rate=0.0002, muon_learning_rate=0.002, warmup_steps=20))


SPEC = TaskSpec(
    name="fill",
    summary="Predict the token at each [MASK] of a text, as BERT does.",
    noun="a masked language model",
    inputs=(Field("text", "text", "A text with [MASK] where a token is missing."),),
    outputs=(
        Field("best", "text", "The text with the most probable token at each [MASK]."),
        Field("masks", "candidates", "For each [MASK], the most probable tokens with their probabilities."),
    ),
    read_config=Config,
    train_config=FillTraining,
    predict_config=FillConfig,
    reader="regard.tasks.fill.reader:FillReader",
    objective="regard.tasks.fill.objective:FillObjective",
    predictor="regard.tasks.fill.predictor:MaskFiller",
    recipe="regard.tasks.fill.spec:fill_recipe",
    needs=frozenset({"mlm"}),
    default_architecture="bert",
    default_preset="mini",
    head=("mlm", "pretraining"),
    fixed=frozenset({"pooler", "type_vocab_size"}),
    metrics=("masked words", "perplexity", "next sentence"),
    views=("attention", "inputs"),
    hub_pipeline="fill-mask",
    hub_classes=("ForMaskedLM", "ForPreTraining"),
    example=("The cat [MASK] on the mat.",),
    test_settings={"window": 24, "vocab_size": 120, "batch_tokens": 256},
    default_help={
        "learning_rate": "0.008; 0.0002 with --from",
        "muon_learning_rate": "0.02; 0.002 with --from",
        "warmup_steps": "50; 20 with --from",
        "optimizer": "muon; adamw with --from",
    },
    data_help="Plain text: files or folders of .txt, .md or .jsonl (with a field `text`), plain or .gz. A blank line "
    "or a heading starts a new document.",
    data_example="texts.txt",
)
