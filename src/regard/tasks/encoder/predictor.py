"""Predictors for encoder tasks: they encode texts, trace attention, compute vectors and classify sequences.

A text becomes `[CLS] a [SEP]`, a pair `[CLS] a [SEP] b [SEP]`. Inputs that are too long are truncated; in a pair, the
longer text is truncated first.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Self, TypeVar

import torch
from torch import Tensor

from regard.checkpoint.folder import ModelFolder
from regard.metrics.labels import accuracy, confusion, f1, majority, matthews, overlap_baseline, pearson, spearman
from regard.metrics.score import Score, Scores
from regard.models.bert.model import Bert, encoder_of
from regard.models.heads import HeadConfig
from regard.nn.hooks import Trace, capture
from regard.nn.masks import pad
from regard.registry import architecture_of
from regard.tasks.base import TOKENIZER, Gold, LabelledExample, Notify, Predictor, Result, Text, describe_size
from regard.tasks.encoder.inference import BufferedEncoder, in_batches
from regard.tokenizers.tokenizer import Tokenizer
from regard.utils.config import Config, to_dict
from regard.utils.errors import FolderError, UsageError, number_of, shorten_list

if TYPE_CHECKING:
    from regard.tasks.embed.predictor import Embedder, TokenVectors, Vectors

R = TypeVar("R")


class EncodedExample(NamedTuple):
    """The token ids of one input."""

    ids: list[int]
    first: int  # number of ids that belong to the first text, including special tokens
    dropped: int = 0  # number of tokens removed by truncation


class EncoderBatch(NamedTuple):
    """A batch of padded inputs."""

    ids: Tensor  # (B, T)
    lengths: Tensor | None  # (B,); None means no padding
    type_ids: Tensor | None  # (B, T), 0 for the first text and 1 for the second; None for single texts


def encode_texts(tokenizer: Tokenizer, texts: Sequence[str], max_seq_len: int) -> list[EncodedExample]:
    """Encode each text as `[CLS] text [SEP]`."""
    start, end, max_len = tokenizer.start_id, tokenizer.end_id, max_seq_len - 2
    return [
        EncodedExample([start, *ids[:max_len], end], min(len(ids), max_len) + 2, max(0, len(ids) - max_len))
        for ids in tokenizer.encode_batch(texts)
    ]


def encode_pairs(tokenizer: Tokenizer, pairs: Sequence[tuple[str, str]], max_seq_len: int) -> list[EncodedExample]:
    """Encode the two texts of each pair as one sequence."""
    firsts = tokenizer.encode_batch([first for first, _ in pairs])
    seconds = tokenizer.encode_batch([second for _, second in pairs])
    return [encode_pair(tokenizer, *pair, max_seq_len) for pair in zip(firsts, seconds, strict=True)]


def encode_pair(tokenizer: Tokenizer, first: Sequence[int], second: Sequence[int], max_seq_len: int) -> EncodedExample:
    """Join the ids of two texts into one sequence."""
    left, right = truncate_pair(len(first), len(second), max_seq_len - 3)
    opening = [tokenizer.start_id, *first[:left], tokenizer.end_id]
    dropped = len(first) + len(second) - left - right
    return EncodedExample([*opening, *second[:right], tokenizer.end_id], len(opening), dropped)


def truncate_pair(first: int, second: int, max_len: int) -> tuple[int, int]:
    """Return how many tokens of each text to keep; the longer text is truncated first, on a tie the second."""
    if first + second <= max_len:
        return first, second
    half = max_len // 2
    if second <= half:
        return max_len - second, second
    if first <= max_len - half:
        return first, max_len - first
    return max_len - half, half


def collate(examples: Sequence[EncodedExample], pad_id: int, device: torch.device) -> EncoderBatch:
    """Pad inputs to the longest one and return them as a batch."""
    ids, lengths = pad([example.ids for example in examples], pad_id, device=device)
    type_ids = None
    if any(example.first < len(example.ids) for example in examples):
        types = [[0] * example.first + [1] * (len(example.ids) - example.first) for example in examples]
        type_ids, _ = pad(types, 0, device=device)
    is_padded = any(len(example.ids) < ids.shape[1] for example in examples)
    return EncoderBatch(ids, lengths if is_padded else None, type_ids)


def predict_logits(model: Any, examples: Sequence[EncodedExample], pad_id: int) -> list[Tensor]:
    """Return each example's logits from a model with `forward(ids, lengths, type_ids)`; BERT reuses buffers."""
    device = next(model.parameters()).device
    encoder = BufferedEncoder(model.bert) if isinstance(getattr(model, "bert", None), Bert) else None

    @torch.inference_mode()
    def run(batch: list[int]) -> Tensor:
        inputs = collate([examples[index] for index in batch], pad_id, device)
        logits: Tensor = model(*inputs) if encoder is None else model.logits(encoder(*inputs))
        return logits.float().cpu()

    found = in_batches(run, [len(example.ids) for example in examples], model)
    logits = {index: row for batch, rows in found for index, row in zip(batch, rows, strict=True)}
    return [logits[index] for index in range(len(examples))]


def input_notes(
    examples: Sequence[EncodedExample],
    max_seq_len: int,
    noun: str,
    *,
    pairs: bool = False,
    counts: Sequence[int] | None = None,
) -> list[str]:
    """Return notes on truncated inputs and on inputs without words; in a pair, either text can lack words.

    `counts` is the number of examples per input (default: one).
    """
    owners = [number for number, count in enumerate(counts or [1] * len(examples), 1) for _ in range(count)]
    total = number_of(len(counts or examples), noun)

    def numbers(fault: Callable[[EncodedExample], bool]) -> list[str]:
        found = (str(owner) for owner, example in zip(owners, examples, strict=True) if fault(example))
        return list(dict.fromkeys(found))

    notes = []
    if truncated := numbers(lambda example: example.dropped > 0):
        notes.append(
            f"{len(truncated):,} of {total} truncated to {max_seq_len} tokens: {noun} {shorten_list(truncated)}."
        )
    # An empty text consists of [CLS] and [SEP] only; an empty second text consists of [SEP] only.
    if empty := numbers(lambda example: example.first == 2 or len(example.ids) - example.first == 1):
        words = "have a text without words" if pairs else "have no words"
        notes.append(f"{len(empty):,} of {total} {words}: {noun} {shorten_list(empty)}.")
    return notes


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
        architecture = architecture_of(self.model)
        return (architecture.capabilities - architecture.heads) | {self.head.kind}

    def encode_input(self, text: str | tuple[str, str]) -> EncodedExample:
        """Encode one text, or two texts as one sequence."""
        if isinstance(text, str):
            return encode_texts(self.tokenizer, [text], self.max_seq_len)[0]
        self.require_pairs()
        return encode_pairs(self.tokenizer, [text], self.max_seq_len)[0]

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
        return f"{type(self).__name__}({describe_size(self.model)}, {self._outputs()})"

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


# --- Sequence classification and regression -------------------------------------------------------------------


@dataclass(frozen=True, repr=False)
class Classification(Result):
    """The predicted labels of a text or pair with the probabilities of all labels, or the predicted number."""

    text: Text
    labels: tuple[str, ...]
    scores: dict[str, float] = field(default_factory=dict)
    number: float | None = None

    digits = 6

    @property
    def recorded(self) -> tuple[str, ...]:  # type: ignore[override]
        inputs = ("text",) if isinstance(self.text, str) else ("first", "second")
        return (*inputs, *(("label", "labels", "score", "scores") if self.number is None else ("number",)))

    @property
    def shown(self) -> tuple[str, ...]:  # type: ignore[override]
        return ("label", "score") if self.number is None else ("number",)

    def columns(self) -> dict[str, Any]:
        return {name: value for name, value in self.record().items() if name != "labels"}  # `label` has them all

    @property
    def first(self) -> str:
        return self.text[0]

    @property
    def second(self) -> str:
        return self.text[1]

    @property
    def label(self) -> str:
        """The label, or several labels joined by commas."""
        return ", ".join(self.labels)

    @property
    def score(self) -> float:
        """The probability of the label (of the least probable one if there are several), or the predicted number."""
        if self.number is not None:
            return self.number
        return min((self.scores[label] for label in self.labels), default=max(self.scores.values()))

    @property
    def gold(self) -> Gold:
        """The prediction in the form of a gold label."""
        return self.labels if self.number is None else self.number

    def __str__(self) -> str:
        return self.label if self.number is None else f"{self.number:.3f}"


class SequencePredictor(HeadPredictor[Classification]):
    """Predicts labels or numbers for texts or pairs."""

    accepts_pairs = False  # True if the folder does not say whether the head was trained on texts or on pairs

    @property
    def takes_pairs(self) -> bool:
        return len(self.spec.inputs) == 2

    def encode(self, texts: Sequence[Text]) -> list[EncodedExample]:
        """Encode each text or pair."""
        if not self.takes_pairs:
            singles = [text for text in texts if isinstance(text, str)]
            if len(singles) < len(texts):
                raise UsageError("this model takes single texts. Give each text as a str.", argument="inputs")
            return encode_texts(self.tokenizer, singles, self.max_seq_len)
        self.require_pairs()
        for text in texts:
            if not isinstance(text, tuple) or len(text) != 2 or not all(isinstance(side, str) for side in text):
                raise UsageError("this model takes pairs. Give two texts per input.", argument="inputs")
        return encode_pairs(self.tokenizer, [(text[0], text[1]) for text in texts], self.max_seq_len)

    def input_of(self, example: LabelledExample) -> Text:
        return example.text

    def _predict(self, inputs: list[Text], config: Any, notify: Notify) -> list[Classification]:
        examples, pairs = self.encode(inputs), self.takes_pairs
        for line in input_notes(examples, self.max_seq_len, "pair" if pairs else "text", pairs=pairs):
            notify(line)
        logits = predict_logits(self.model, examples, self.tokenizer.pad_id)
        return [self._classify(text, row, config.threshold) for text, row in zip(inputs, logits, strict=True)]

    def _classify(self, text: Text, logits: Tensor, threshold: float) -> Classification:
        kind, labels = self.head.problem_type, self.head.labels
        if kind == "regression":
            return Classification(text, (), number=logits[0].item())
        several = kind == "multi_label_classification"
        probabilities = logits.sigmoid() if several else logits.softmax(dim=-1)
        scores = dict(zip(labels, probabilities.tolist(), strict=True))
        if several:
            return Classification(text, tuple(label for label, score in scores.items() if score >= threshold), scores)
        return Classification(text, (labels[int(logits.argmax())],), scores)

    def score(
        self, examples: Sequence[LabelledExample], results: Sequence[Classification], config: Any = None
    ) -> Scores:
        texts, gold = [example.text for example in examples], [example.gold for example in examples]
        scores = sequence_scores([result.gold for result in results], gold, self.head)
        table = None
        if self.head.problem_type == "single_label_classification":
            table = confusion([result.label for result in results], [example.labels[0] for example in examples])
        return Scores(scores + baseline(self.majority_label, texts, gold, self.head), table)

    def trace(self, *inputs: Any, grad: bool = False) -> Trace:
        (example,) = self.encode([inputs[0] if len(inputs) == 1 else inputs])
        return self.trace_example(example, grad=grad)

    @property
    def summary(self) -> str:
        goes_in = "Two texts go in" if self.takes_pairs else "A text goes in"
        if self.head.problem_type == "regression":
            return f"{goes_in}, a number comes out."
        count = "any number" if self.head.problem_type == "multi_label_classification" else "one"
        listed = shorten_list([repr(label) for label in self.head.labels])
        return f"{goes_in}, {count} of these labels comes out: {listed}."

    def folder_config(self) -> Mapping[str, Any]:
        return {**super().folder_config(), **({"accepts_pairs": True} if self.accepts_pairs else {})}

    @classmethod
    def load(cls, folder: ModelFolder, model: Any) -> Self:
        predictor = super().load(folder, model)
        predictor.accepts_pairs = bool(folder.config.get("accepts_pairs"))
        return predictor

    def _outputs(self) -> str:
        return "a number" if self.head.problem_type == "regression" else super()._outputs()


# --- Scores ------------------------------------------------------------------------------------------------


def sequence_scores(predicted: Sequence[Gold], gold: Sequence[Gold], head: HeadConfig) -> list[Score]:
    """Return the GLUE scores: accuracy, F1 and Matthews for labels, Pearson and Spearman for numbers.

    F1 is macro-averaged; multi-label adds micro F1, and two labels add the F1 of the second ("1" in MRPC and QQP).
    """
    if head.problem_type == "regression":
        numbers, references = ([float(v) for v in side if not isinstance(v, tuple)] for side in (predicted, gold))
        return [pearson(numbers, references), spearman(numbers, references)]
    labels, expected = ([value for value in side if isinstance(value, tuple)] for side in (predicted, gold))
    scores = [accuracy(labels, expected), f1(labels, expected, average="macro")]
    if head.problem_type == "multi_label_classification":
        return [*scores, f1(labels, expected, average="micro")]
    if len(head.labels) == 2:
        scores.append(f1(labels, expected, average="binary", positive=head.labels[1]))
    return [*scores, matthews([label for (label,) in labels], [label for (label,) in expected])]


def most_common_labels(gold: Sequence[Gold]) -> tuple[str, ...] | None:
    """Return the most common label or set of labels, or None for numbers."""
    sets = [labels for labels in gold if isinstance(labels, tuple)]
    return tuple(majority(sets)) if sets else None


def baseline(
    majority_label: tuple[str, ...] | None, texts: Sequence[Text], gold: Sequence[Gold], head: HeadConfig
) -> list[Score]:
    """Return the scores of always predicting the most common training label.

    If that label is unknown, the most common one in `gold` is used, and the scores say so. A constant prediction has no
    correlation, so the regression baseline for pairs is the fraction of words that the two texts share.
    """
    if head.problem_type == "regression":
        pairs = [text for text in texts if isinstance(text, tuple)]
        numbers = [float(value) for value in gold if not isinstance(value, tuple)]
        return overlap_baseline(pairs, numbers) if len(pairs) == len(numbers) else []
    constant = most_common_labels(gold) if majority_label is None else majority_label
    if constant is None:
        return []
    name = "this file's own majority" if majority_label is None else "the majority"
    scores = sequence_scores([constant] * len(gold), gold, head)[:2]
    return [score.as_baseline(name, f"always:{'+'.join(constant) or 'none'}") for score in scores]
