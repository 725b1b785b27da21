"""The log-probability of every token of a text under a language model."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from regard.data.corpus import Ids
from regard.tokenizers.tokenizer import Tokenizer
from regard.utils.errors import UsageError

BATCH_TOKENS = 1 << 12  # per forward pass
MAX_NATS = 700  # beyond it exp overflows


@dataclass(frozen=True)
class TextScore:
    """How probable a text is. The first token has nothing before it and is not scored."""

    tokens: tuple[str, ...] = field(repr=False)  # those that are scored
    log_probs: tuple[float, ...] = field(repr=False)  # of each of them
    num_bytes: int  # of these tokens as UTF-8
    per_token: bool = field(default=False, repr=False)  # whether `record` and `str` list the tokens

    @property
    def num_tokens(self) -> int:
        return len(self.log_probs)

    @property
    def loss(self) -> float:
        """Mean cross-entropy per token, in nats."""
        return -math.fsum(self.log_probs) / max(1, self.num_tokens)

    @property
    def perplexity(self) -> float:
        return math.exp(min(self.loss, MAX_NATS))

    @property
    def bits_per_byte(self) -> float:
        """Comparable between models with different tokens."""
        return -math.fsum(self.log_probs) / math.log(2) / max(1, self.num_bytes)

    @property
    def surprisals(self) -> tuple[float, ...]:
        """The surprise of each token, in bits."""
        return tuple(-value / math.log(2) for value in self.log_probs)

    def record(self) -> dict[str, Any]:
        values: dict[str, Any] = {
            "perplexity": self.perplexity,
            "bits_per_byte": self.bits_per_byte,
            "loss": self.loss,
            "num_tokens": self.num_tokens,
            "num_bytes": self.num_bytes,
        }
        if self.per_token:
            listed = zip(self.tokens, self.surprisals, strict=True)
            values["per_token"] = [{"token": token, "bits": bits} for token, bits in listed]
        return values

    def __str__(self) -> str:
        listed = zip(self.tokens, self.surprisals, strict=True) if self.per_token else ()
        return "".join(f"{bits:8.3f}  {token!r}\n" for token, bits in listed) + (
            f"perplexity {self.perplexity:.3f} per token ({self.num_tokens:,} tokens), "
            f"{self.bits_per_byte:.4f} bits per byte ({self.num_bytes:,} bytes)"
        )


@torch.no_grad()
def score_text(
    model: Any, tokenizer: Tokenizer, text: str, *, progress: Callable[[float], None] | None = None
) -> TextScore:
    """Score a text of any length: each token sees at least half a context before it, as far as there is so much.

    `progress` takes the fraction that is done.
    """
    prefix = np.array(tokenizer.prefix_ids, dtype=np.int64)
    ids = np.concatenate((prefix, tokenizer.encode_array(text).astype(np.int64)))
    context, known = model.config.context_length, len(prefix)
    room = max(1, context - known)  # tokens of a window besides the prefix
    first_scored = max(1, known)
    if len(ids) <= first_scored:
        least = "one token" if known else "two tokens; the first is not scored"
        raise UsageError(f"a text to score needs at least {least}.", argument="inputs", value=text)
    stride = max(1, room // 2)
    starts = [known, *range(known + stride, len(ids) - 1 - (room - stride), stride)]
    log_probs: list[float] = []
    rows = max(1, BATCH_TOKENS // context)
    for first in range(0, len(starts), rows):
        windows = [np.concatenate((prefix, ids[start : start + room + 1])) for start in starts[first : first + rows]]
        for found in _log_probs(model, windows):
            # The first window counts as a whole, the others from where the window before them ends.
            log_probs += found[known + room - stride :] if log_probs else found[first_scored - 1 :]
        if progress is not None:
            progress(len(log_probs) / (len(ids) - first_scored))
    skipped = len(tokenizer.decode(ids[:first_scored].tolist()).encode("utf-8"))
    num_bytes = max(1, len(text.encode("utf-8")) - skipped)
    return TextScore(tuple(tokenizer.tokens(ids[first_scored:].tolist())), tuple(log_probs), num_bytes)


def _log_probs(model: Any, windows: Sequence[Ids]) -> Iterator[list[float]]:
    """Of every token of each window but its first; windows of one length are computed together."""
    device = model.output_weight.device
    for _, group in itertools.groupby(windows, key=len):
        ids = torch.from_numpy(np.stack(list(group))).to(device)
        hidden = model.decode(ids[:, :-1])  # (B, T, D)
        for row, following in zip(hidden, ids[:, 1:], strict=True):
            log_probs = model.logits(row).log_softmax(dim=-1)  # (T, V)
            yield log_probs.gather(-1, following[:, None])[:, 0].tolist()
