"""Predictor for masked language models: texts with [MASK] → the most probable tokens."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from regard.data.documents import Documents, documents_of
from regard.data.pretraining import longest_sentence
from regard.metrics.score import Scores
from regard.models.bert.model import BertForPretraining
from regard.models.heads import MLM_KINDS
from regard.tasks.base import Notify, Predictor, Result
from regard.tasks.encoder.config import ROW_TOKENS
from regard.tasks.encoder.mlm_eval import evaluate_in_halves, mlm_head, predicts_pairs
from regard.tasks.encoder.predictor import EncodedExample, EncoderPredictor, collate, encode_pair, encode_pairs
from regard.tasks.fill.spec import SPEC, FillConfig
from regard.utils.config import Config
from regard.utils.errors import UsageError, number_of, shorten_list

# Other ways to write [MASK], for suggestions.
OTHER_MASKS = re.compile(r"<mask>|\[\s*mask\s*\]|\{mask\}|\(mask\)|\[blank\]|_{2,}", re.IGNORECASE)


@dataclass(frozen=True, repr=False)
class Candidate(Result):
    """A token for a [MASK], with its probability."""

    token: str
    score: float

    recorded = shown = ("token", "score")


@dataclass(frozen=True, repr=False)
class Filled(Result):
    """A text with one or more [MASK], and the candidates for each [MASK], most probable first."""

    text: str
    masks: tuple[tuple[Candidate, ...], ...]
    best: str  # the text with the most probable token at each [MASK]
    is_truncated: bool = False  # whether the text was too long: each [MASK] was predicted from a window around it

    recorded = ("text", "best", "masks")
    shown = ("text", "best")

    def rows(self) -> list[dict[str, Any]]:
        return [
            {"text": self.text, "mask": number, **item.record()}
            for number, mask in enumerate(self.masks, start=1)
            for item in mask
        ]

    def __str__(self) -> str:
        masks = (", ".join(f"{item.token} {item.score:.1%}" for item in mask) for mask in self.masks)
        return f"{self.best}  ({'; '.join(masks)})"


class MaskFiller(EncoderPredictor[Filled]):
    """Texts with [MASK] → candidates: `filler("The cat [MASK] on the mat.").best`."""

    spec = SPEC
    model: BertForPretraining
    config: FillConfig

    def __init__(self, model: Any, tokenizer: Any, **options: Any) -> None:
        mlm_head(model)
        super().__init__(model, tokenizer, **options)

    @property
    def mask(self) -> str:
        """The mask token."""
        return self.tokenizer.special_tokens.mask or "[MASK]"

    def _predict(self, inputs: list[Any], config: FillConfig, notify: Notify) -> list[Filled]:
        results = [self._fill(text, config) for text in inputs]
        truncated = [str(number) for number, result in enumerate(results, start=1) if result.is_truncated]
        if truncated:
            limit = self.bert.config.context_length
            notify(
                f"{len(truncated):,} of {number_of(len(results), 'text')} longer than {limit} tokens; each {self.mask} "
                f"is predicted from the tokens around it: text {shorten_list(truncated)}."
            )
        return results

    def _fill(self, text: str, config: FillConfig) -> Filled:
        parts = self._parts(text)
        probabilities, is_truncated = self._probabilities(parts)
        masks = []
        for row in probabilities:
            best = row.topk(len(row) if config.all else min(config.top, len(row)))
            tokens = self.tokenizer.tokens(best.indices.tolist())
            found = [Candidate(token, p) for token, p in zip(tokens, best.values.tolist(), strict=True)]
            masks.append(tuple(sorted(found, key=lambda item: item.token) if config.all else found))
        ids, positions = self._join(parts)
        for position, row in zip(positions, probabilities, strict=True):
            ids[position] = int(row.argmax())
        return Filled(text, tuple(masks), self.tokenizer.decode(ids), is_truncated)

    def probabilities(self, text: str) -> npt.NDArray[np.float32]:
        """Probabilities of all tokens in the vocabulary for each [MASK]: (masks, V); each row sums to 1."""
        found, _ = self._probabilities(self._parts(text))
        return found.cpu().numpy()

    @torch.no_grad()
    def next_sentence_probability(self, first: str, second: str) -> float:
        """The probability that the second text follows the first."""
        if self.model.nsp is None:
            message = "this model has no next-sentence head. Train one with `regard train fill`."
            raise UsageError(message, argument="head", value=self.head.kind)
        self.require_pairs()
        examples = encode_pairs(self.tokenizer, [(first, second)], self.bert.config.context_length)
        hidden = self.bert(*collate(examples, self.tokenizer.pad_id, self.device))
        return float(self.model.nsp(self.bert.pool(hidden)).softmax(dim=-1)[0, 0])

    def evaluate(self, examples: Sequence[str | Documents], config: Config | None = None) -> Scores:
        """Accuracy on masked tokens and next sentences, with frequency baselines.

        `examples` are texts (one per document), or documents that the reader has tokenized.
        """
        window, pairs = min(ROW_TOKENS, self.model.config.context_length), predicts_pairs(self.model)
        documents = [example for example in examples if isinstance(example, Documents)]
        if texts := [example for example in examples if isinstance(example, str)]:
            documents.append(documents_of(texts, self.tokenizer, longest=longest_sentence(window)))
        found = [evaluate_in_halves(self.model, part, self.tokenizer, window=window, pairs=pairs) for part in documents]
        return Scores(score for scores in found for score in scores)

    # --- from text to ids -----------------------------------------------------------------------------------

    def _parts(self, text: str) -> list[list[int]]:
        """Return the ids of the text before, between and after the masks."""
        if not isinstance(text, str):
            raise UsageError(f"a text must be a str, not {type(text).__name__}.", argument="inputs", value=text)
        parts = text.split(self.mask)
        if len(parts) == 1:
            other = OTHER_MASKS.search(text)
            hint = (
                f"Write {self.mask} instead of {other.group()}."
                if other
                else f'Put it in place of the missing token, as in "The cat {self.mask} on the mat."'
            )
            raise UsageError(
                f"there is no {self.mask} in {text[:60]!r}. {hint}", argument="inputs", value=text, hint=hint
            )
        return self.tokenizer.encode_batch(parts)

    def _join(self, parts: Sequence[Sequence[int]]) -> tuple[list[int], list[int]]:
        """Return the ids of the text, without [CLS] and [SEP], and the positions of its masks."""
        ids, positions = list(parts[0]), []
        for part in parts[1:]:
            positions.append(len(ids))
            ids += [self.tokenizer.mask_id, *part]
        return ids, positions

    @torch.no_grad()
    def _probabilities(self, parts: Sequence[Sequence[int]]) -> tuple[Tensor, bool]:
        """Return the probabilities (masks, V), and whether the text was too long."""
        ids, positions = self._join(parts)
        found = []
        for window, places in self._windows(ids, positions):
            hidden = self.bert(torch.tensor([window], device=self.device))[0]
            logits = mlm_head(self.model)(hidden[places], self.bert.embedding.weight)
            found.append(logits[:, : self.tokenizer.vocab_size].softmax(dim=-1))
        return torch.cat(found), len(ids) > self.bert.config.context_length - 2

    def _windows(self, ids: list[int], positions: list[int]) -> Iterator[tuple[list[int], list[int]]]:
        """Yield [CLS] text [SEP] with the positions of its masks; for a long text, a window around each mask."""
        start, end, limit = self.tokenizer.start_id, self.tokenizer.end_id, self.bert.config.context_length - 2
        if len(ids) <= limit:
            yield [start, *ids, end], [position + 1 for position in positions]
            return
        for position in positions:
            first = min(max(0, position - limit // 2), len(ids) - limit)
            yield [start, *ids[first : first + limit], end], [position - first + 1]

    def encode_input(self, text: str | tuple[str, str]) -> EncodedExample:
        """Encode one text or two, with or without masks; for a long text, the window around its first mask."""
        if not isinstance(text, str):
            self.require_pairs()
            first, second = (self._ids(side) for side in text)
            return encode_pair(self.tokenizer, first, second, self.max_seq_len)
        ids, positions = self._join(self.tokenizer.encode_batch(text.split(self.mask)))
        window, _ = next(self._windows(ids, positions or [0]))
        return EncodedExample(window, len(window), len(ids) + 2 - len(window))

    def _ids(self, text: str) -> list[int]:
        return self._join(self.tokenizer.encode_batch(text.split(self.mask)))[0]

    # --- model folders --------------------------------------------------------------------------------------

    @classmethod
    def adapt(cls, other: Predictor[Any]) -> Self | None:
        return cls.around(other) if other.capabilities.intersection(MLM_KINDS) else None

    @property
    def summary(self) -> str:
        return f"A text with {self.mask} goes in, the most probable tokens for each {self.mask} come out."
