"""Base predictors for encoder tasks: encoding, attention, vectors, model folders and evaluation."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self, TypeVar

import torch

from regard.checkpoint.folder import ModelFolder
from regard.metrics.score import Scores
from regard.models.bert.model import Bert, encoder_of
from regard.models.heads import HEAD_KINDS, HeadConfig
from regard.nn.hooks import Trace, capture
from regard.nn.quantized import count_weights
from regard.tasks.base import Notify, Predictor
from regard.tasks.encoder.batching import EncodedExample, collate, encode_pair, encode_text
from regard.tokenizers.tokenizer import Tokenizer
from regard.utils.config import Config, to_dict
from regard.utils.errors import FolderError, UsageError, shorten_list

if TYPE_CHECKING:
    from regard.tasks.embed.predictor import Embedder, TokenVectors, Vectors

R = TypeVar("R")

TOKENIZER = "tokenizer.json"


class EncoderPredictor(Predictor[R]):
    """An encoder with a tokenizer and optionally a head."""

    model: Any  # a module called with (ids, lengths, type_ids)

    def __init__(
        self,
        model: Any,
        tokenizer: Tokenizer,
        *,
        head: HeadConfig | None = None,
        config: Config | None = None,
        max_seq_len: int | None = None,
    ) -> None:
        self.model, self.tokenizer, self.head = model.eval(), tokenizer, head or HeadConfig()
        self.config = config or self.spec.predict_config()
        limit = getattr(model.config, "context_length", None)
        self.max_seq_len = min(max_seq_len or limit or 512, limit or max_seq_len or 512)

    @classmethod
    def around(cls, other: Predictor[Any], **options: Any) -> Self:
        """Return a predictor of this task with another predictor's encoder, tokenizer and head."""
        encoder: Any = other
        return cls(encoder.model, encoder.tokenizer, head=encoder.head, max_seq_len=encoder.max_seq_len, **options)

    @property
    def bert(self) -> Bert:
        """The encoder without its head."""
        return encoder_of(self.model)

    @property
    def max_inputs(self) -> int | None:
        """Maximum number of texts in one trace: an encoder can process a pair even if its task takes one text."""
        limit = super().max_inputs
        return None if limit is None else max(limit, 2)

    @property
    def trace_root(self) -> Bert:
        return self.bert

    @property
    def device(self) -> torch.device:
        device: torch.device = next(self.model.parameters()).device
        return device

    @property
    def capabilities(self) -> frozenset[str]:
        return (super().capabilities - set(HEAD_KINDS)) | {self.head.kind}

    def encode_input(self, text: str | tuple[str, str]) -> EncodedExample:
        """Encode one text, or two texts as one sequence."""
        if isinstance(text, str):
            return encode_text(self.tokenizer, self.tokenizer.encode(text), self.max_seq_len)
        self.require_pairs()
        first, second = (self.tokenizer.encode(side) for side in text)
        return encode_pair(self.tokenizer, first, second, self.max_seq_len)

    def require_pairs(self) -> None:
        """Refuse pairs if the model cannot distinguish the second text from the first."""
        if getattr(self.model.config, "type_vocab_size", 2) < 2:
            raise UsageError(
                "type_vocab_size must be at least 2 for text pairs, but this model has only one token type. Use a "
                "model that was trained on pairs.",
                argument="type_vocab_size",
                value=self.model.config.type_vocab_size,
            )

    def trace(self, *inputs: Any, grad: bool = False) -> Trace:
        """Return a trace with all attention weights over one text, or over two texts as one sequence."""
        return self.trace_example(self.encode_input(inputs[0] if len(inputs) == 1 else inputs[:2]), grad=grad)

    def trace_example(self, example: EncodedExample, *, grad: bool = False) -> Trace:
        if "attention" not in self.capabilities:
            raise UsageError("this model has no attention to capture.", argument="model")
        tokens = {"encoder": [self.tokenizer.tokens(example.ids)]}
        with torch.set_grad_enabled(grad), capture(self.bert, tokens=tokens, grad=grad) as trace:
            self.model(*collate([example], self.tokenizer.pad_id, self.device))
        return trace

    # --- vectors --------------------------------------------------------------------------------------------

    def embedder(self) -> Embedder:
        """Return the encoder as a predictor for the task `embed`."""
        from regard.tasks.embed.predictor import Embedder

        return Embedder.around(self)

    def embed(self, texts: str | Sequence[str], *, notify: Notify | None = None, **options: Any) -> Vectors:
        """Return a float32 array with one row per text, or one vector for one str; `options` as in the task embed."""
        return self.embedder().vectors(texts, notify=notify, **options)

    def tokens(
        self, text: str, *, layer: int | None = None, max_seq_len: int | None = None, notify: Notify | None = None
    ) -> TokenVectors:
        """Return one vector per token of a text: the output of the last layer or of `layer` (0: embeddings)."""
        return self.embedder().tokens(text, layer=layer, max_seq_len=max_seq_len, notify=notify)

    # --- model folders --------------------------------------------------------------------------------------

    def folder_config(self) -> Mapping[str, Any]:
        return {
            "head": self.head.to_dict(),
            "max_seq_len": self.max_seq_len,
            "special_tokens": to_dict(self.tokenizer.special_tokens),
        }

    def tokenizer_files(self) -> Mapping[str, str]:
        return {TOKENIZER: self.tokenizer.to_json()}

    @classmethod
    def load(cls, folder: ModelFolder, model: Any) -> Self:
        return cls(
            model,
            folder.tokenizer(TOKENIZER),
            head=folder.head,
            config=cls.spec.predict_config(**folder.config.get("inference", {})),
            max_seq_len=folder.config.get("max_seq_len"),
        )

    def __repr__(self) -> str:
        return f"{type(self).__name__}({count_weights(self.model) / 1e6:.1f} M parameters, {self._outputs()})"

    def _outputs(self) -> str:
        """Return a description of the outputs for `repr`."""
        return shorten_list(self.head.labels) if self.head.labels else self.spec.name


class HeadPredictor(EncoderPredictor[R]):
    """An encoder with a head that was trained on labelled examples."""

    def __init__(self, model: Any, tokenizer: Tokenizer, *, majority_label: Any = None, **options: Any) -> None:
        """Store the model; `majority_label` is a tuple with the most common training label, if known."""
        super().__init__(model, tokenizer, **options)
        self.majority_label: tuple[str, ...] | None = majority_label

    @abstractmethod
    def input_of(self, example: Any) -> Any:
        """Return the `predict` input for an example from the task's reader."""

    @abstractmethod
    def score(self, examples: Sequence[Any], results: Sequence[R], config: Any = None) -> Scores:
        """Return the task's standard scores and those of a baseline."""

    def evaluate(self, examples: Sequence[Any], config: Config | None = None) -> Scores:
        return self.score(examples, self.predict([self.input_of(example) for example in examples], config), config)

    def folder_config(self) -> Mapping[str, Any]:
        known = {} if self.majority_label is None else {"majority_label": list(self.majority_label)}
        return {**super().folder_config(), **known}

    @classmethod
    def load(cls, folder: ModelFolder, model: Any) -> Self:
        predictor = super().load(folder, model)
        labels, known = folder.config.get("majority_label"), folder.head.labels
        if labels is None:
            return predictor
        is_label = known.__contains__ if known else str.isdecimal  # without labels, it must be an index
        if not isinstance(labels, list) or not all(isinstance(label, str) and is_label(label) for label in labels):
            raise FolderError(
                f"{folder.path}: majority_label must be a list of this model's labels, got {labels!r}.",
                path=str(folder.path),
                argument="majority_label",
                value=labels,
            )
        predictor.majority_label = tuple(labels)
        return predictor
