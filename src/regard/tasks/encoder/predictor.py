"""The base of predictors that read with an encoder: encoding, attention, vectors, model folders."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import torch

from regard.checkpoint.folder import ModelFolder
from regard.models.bert.model import Bert, encoder_of
from regard.models.heads import HeadConfig
from regard.nn.hooks import Trace, capture
from regard.nn.quantized import count_weights
from regard.tasks.base import Notify, Predictor
from regard.tasks.encoder.batching import EncodedExample, collate, encode_pair, encode_text
from regard.tokenizers.tokenizer import Tokenizer
from regard.utils.config import Config, to_dict
from regard.utils.errors import FolderError, UsageError

if TYPE_CHECKING:
    from regard.tasks.embed.predictor import TokenVectors, Vectors

R = TypeVar("R")

TOKENIZER = "tokenizer.json"


class EncoderPredictor(Predictor[R]):
    """An encoder with a tokenizer and maybe a head."""

    model: Any  # a module that reads (ids, lengths, type_ids)

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

    @property
    def bert(self) -> Bert:
        """The encoder without its head."""
        return encoder_of(self.model)

    @property
    def max_inputs(self) -> int | None:
        """An encoder can read two texts side by side, also where its task takes one."""
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
        from regard.models.heads import HEAD_KINDS
        from regard.registry import architecture_of

        return (architecture_of(self.model).capabilities - set(HEAD_KINDS)) | {self.head.kind}

    def encode_input(self, text: str | tuple[str, str]) -> EncodedExample:
        """The ids of one text, or of two texts side by side."""
        if isinstance(text, str):
            return encode_text(self.tokenizer, self.tokenizer.encode(text), self.max_seq_len)
        self.require_pairs()
        first, second = (self.tokenizer.encode(side) for side in text)
        return encode_pair(self.tokenizer, first, second, self.max_seq_len)

    def require_pairs(self) -> None:
        """Refuse pairs where the model cannot tell the second text from the first."""
        if getattr(self.model.config, "type_vocab_size", 2) < 2:
            raise UsageError(
                "this model has one token type, and pairs need two. Use a model that was trained on pairs "
                "(type_vocab_size 2).",
                argument="type_vocab_size",
                value=self.model.config.type_vocab_size,
            )

    def trace(self, *inputs: Any, grad: bool = False) -> Trace:
        """All attention over a text, or over two texts side by side."""
        text = inputs[0] if len(inputs) == 1 else (inputs[0], inputs[1])
        return self.trace_example(self.encode_input(text), grad=grad)

    def trace_example(self, example: EncodedExample, *, grad: bool = False) -> Trace:
        if "attention" not in self.capabilities:
            raise UsageError("this model has no attention to capture.", argument="model")
        tokens = {"encoder": [self.tokenizer.tokens(example.ids)]}
        with torch.set_grad_enabled(grad), capture(self.bert, tokens=tokens, grad=grad) as trace:
            self.model(*collate([example], self.tokenizer.pad_id, self.device))
        return trace

    # --- vectors --------------------------------------------------------------------------------------------

    def embed(self, texts: str | Sequence[str], *, notify: Notify | None = None, **options: Any) -> Vectors:
        """A float32 array with one row for each text; of a single text, its row. `options` as in the task embed."""
        from regard.tasks.embed.predictor import Embedder

        return Embedder.of(self).vectors(texts, notify=notify, **options)

    def tokens(
        self, text: str, *, layer: int | None = None, max_seq_len: int | None = None, notify: Notify | None = None
    ) -> TokenVectors:
        """One vector for each token of a text: the output of the last layer, or of `layer`; 0 is the embedding."""
        from regard.tasks.embed.predictor import Embedder

        return Embedder.of(self).tokens(text, layer=layer, max_seq_len=max_seq_len, notify=notify)

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
    def init_arguments(cls, folder: ModelFolder) -> dict[str, Any]:
        """Arguments of the constructor that every folder of an encoder has."""
        return {
            "tokenizer": folder.tokenizer(TOKENIZER),
            "head": folder.head,
            "config": cls.spec.predict_config(**folder.config.get("inference", {})),
            "max_seq_len": folder.config.get("max_seq_len"),
        }

    def __repr__(self) -> str:
        return f"{type(self).__name__}({count_weights(self.model) / 1e6:.1f} M parameters, {self._outputs()})"

    def _outputs(self) -> str:
        """What comes out, for `repr`."""
        return self.spec.name


def encoder_of_folder(path: Path) -> tuple[Bert, Tokenizer]:
    """The encoder in a model folder, without its head, and its tokenizer."""
    from regard.checkpoint.predictors import load_predictor

    predictor = load_predictor(path, task="embed")
    return predictor.bert, predictor.tokenizer


def read_majority_label(folder: ModelFolder, is_label: Callable[[str], bool]) -> tuple[str, ...] | None:
    """The most common label of training that a folder names; None if it names none."""
    labels = folder.config.get("majority_label")
    if labels is None:
        return None
    if not isinstance(labels, list) or not all(isinstance(label, str) and is_label(label) for label in labels):
        raise FolderError(
            f"{folder.path}: majority_label {labels!r} is not a list of this model's labels.",
            path=str(folder.path),
            argument="majority_label",
            value=labels,
        )
    return tuple(labels)
