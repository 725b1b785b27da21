"""The task `generate`: what goes in, what comes out, its options. Does not import torch."""

from __future__ import annotations

from functools import partial
from typing import Any, Literal, Self

from pydantic import Field as Option
from pydantic import model_validator

from regard.generation.config import SamplingConfig, SearchConfig
from regard.spec import Field, TaskSpec
from regard.training.config import Schedule, TrainingConfig
from regard.training.run import Recipe, TrainRequest
from regard.utils.config import Config, field_default
from regard.utils.errors import UsageError

SAMPLING_ONLY = ("temperature", "top_k", "top_p", "min_p", "repetition_penalty", "seed", "lookup")
BEAMS_ONLY = ("length_penalty", "min_new_tokens")


class GenerateTraining(TrainingConfig):
    """Options of `regard train generate`."""

    learning_rate: float = field_default(TrainingConfig, "learning_rate", 0.02)
    muon_learning_rate: float = field_default(TrainingConfig, "muon_learning_rate", 0.03)
    beta2: float = field_default(TrainingConfig, "beta2", 0.95)
    schedule: Schedule = field_default(TrainingConfig, "schedule", "trapezoid")
    warmup_steps: int = field_default(TrainingConfig, "warmup_steps", 20)

    tokenizer: Literal["char", "bpe"] = Option("bpe", description="Tokens of a new model: characters, or BPE subwords.")
    vocab_size: int = Option(4000, ge=1, description="Maximum vocabulary size of a new model's BPE tokenizer.")
    window: int | None = Option(
        None,
        ge=1,
        description="Tokens per training sequence (default: the context length, but at most 1,024 if --from is given).",
    )
    val_fraction: float = Option(
        0.1,
        gt=0,
        lt=1,
        description="Without --validation: fraction of the text, from its end, to hold out (at most 300,000 tokens).",
    )


class GenerateConfig(SamplingConfig):
    """Options of generation: sampling or, with num_beams, beam search."""

    num_beams: int | None = Option(None, ge=0, description="Beam width of beam search; without it, tokens are sampled.")
    length_penalty: float = Option(
        1.0,
        ge=-10,
        le=10,
        description="With --num-beams: divide log-probabilities by length to this power; higher values favor length.",
    )
    min_new_tokens: int = Option(0, ge=0, description="With --num-beams: minimum number of new tokens.")
    num_return_sequences: int = Option(1, ge=1, description="Number of continuations per prompt.")
    lookup: bool = Option(
        False,
        description="Use prompt lookup decoding (speculative decoding without a draft model): same output, faster for "
        "repetitive text.",
    )

    def replace(self, **changes: Any) -> Self:
        type(self)(**changes)  # raise if changes conflict with each other, even if the folder already has these values
        return super().replace(**changes)

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        count, given = self.num_return_sequences, self.model_fields_set
        if self.lookup and count > 1:
            raise UsageError(
                "--lookup supports only one continuation. Remove --lookup or --num-return-sequences.",
                argument="lookup",
                value=True,
            )
        if self.num_beams and count > self.num_beams:
            raise UsageError(
                f"num_return_sequences ({count}) exceeds num_beams ({self.num_beams}). Set num_beams to {count}.",
                argument="num_return_sequences",
                value=count,
            )
        if given == type(self).field_names():  # the config of a model folder has values for both modes
            return self
        conflicting = SAMPLING_ONLY if self.num_beams else BEAMS_ONLY
        for name in conflicting:
            if name in given and getattr(self, name) != type(self).model_fields[name].default:
                problem = (
                    "conflicts with num_beams (beam search does not sample)" if self.num_beams else "needs num_beams"
                )
                raise UsageError(f"{name} {problem}.", argument=name, value=getattr(self, name))
        return self

    def search(self) -> SearchConfig:
        """The options of beam search."""
        return SearchConfig(
            num_beams=self.num_beams or 1,
            n_best=self.num_return_sequences,
            length_penalty=self.length_penalty,
            max_new_tokens=self.max_new_tokens,
            min_new_tokens=self.min_new_tokens,
            max_len_a=None,
        )


def generate_recipe(request: TrainRequest) -> Recipe:
    """Return the defaults for training from pretrained weights.

    Pretrained weights need a low learning rate, because large updates would undo what was learned. Adapters start at
    zero and have few parameters, so their learning rate is five times as high. Muon, if requested, uses a tenth of its
    usual learning rate.
    """
    if request.folder is None:
        return Recipe()
    request.refuse_with_pretrained(("size", "tokenizer", "vocab_size"))
    rate = 0.0002 if request.lora is None else 0.001
    return Recipe(training=dict(optimizer="adamw", learning_rate=rate, muon_learning_rate=0.002))


language_model_task = partial(
    TaskSpec,
    noun="a language model",
    read_config=Config,
    needs=frozenset({"decoder"}),
    default_architecture="gpt",
    metrics=("perplexity", "bits per byte"),
    views=("attention", "targets", "ranks"),
    data_help="Plain text: files or folders of .txt, .md, .py or .jsonl (with a field `text`), plain or .gz.",
    data_example="book.txt",
)

SPEC = language_model_task(
    name="generate",
    summary="Continue a text.",
    inputs=(Field("prompt", "document", "The text to continue; may be empty."),),
    outputs=(
        Field("text", "text", "The continuation."),
        Field("tokens", "tokens", "The tokens of the continuation."),
        Field("log_probs", "numbers", "The log-probability of each token."),
        Field("ended", "boolean", "Whether the continuation ended with an end token or a stop string."),
        Field("score", "number", "With beam search: the log-probability after the length penalty.", optional=True),
        Field("alternatives", "records", "The other continuations, if several are requested.", optional=True),
    ),
    train_config=GenerateTraining,
    predict_config=GenerateConfig,
    reader="regard.tasks.generate.reader:GenerateReader",
    objective="regard.tasks.generate.objective:GenerateObjective",
    predictor="regard.tasks.generate.predictor:TextGenerator",
    recipe="regard.tasks.generate.spec:generate_recipe",
    default_preset="small",
    lora=True,
    hub_pipeline="text-generation",
    hub_classes=("ForCausalLM", "LMHeadModel"),
    example=("The old man",),
    test_settings={"vocab_size": 300, "batch_tokens": 256, "temperature": 0.0, "max_new_tokens": 8},
    default_help={
        "optimizer": "muon; adamw with --from",
        "learning_rate": "0.02; 0.0002 with --from, 0.001 with --lora",
        "muon_learning_rate": "0.03; 0.002 with --from",
    },
)
