"""Passages in windows, and the best span of a passage by the start and end logits of its tokens.

The model reads `[CLS] question [SEP] passage [SEP]`; a long passage is read in overlapping windows. The score of a span
is the sum of the start logit of its first token and the end logit of its last one. The score of "no answer" is that of
[CLS], in the window where it is lowest.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from regard.tasks.encoder.batching import EncodedExample

Floats = npt.NDArray[np.float32]


class PassageWindow(NamedTuple):
    """A question with some tokens of its passage, which is the second text of `example`."""

    example: EncodedExample
    first: int  # the index of its first token among those of the passage

    @property
    def num_tokens(self) -> int:
        """How many tokens of the passage it holds."""
        return len(self.example.ids) - self.example.first - 1


def passage_windows(
    question: Sequence[int], passage: Sequence[int], *, start_id: int, end_id: int, max_seq_len: int, stride: int
) -> list[PassageWindow]:
    """A passage in windows of at most `max_seq_len` ids, the question before each; neighbors share `stride` tokens.

    A question takes at most half of a window, and the shared tokens at most half of what is left for the passage.
    """
    opening = [start_id, *question[: (max_seq_len - 3) // 2], end_id]
    max_len = max_seq_len - len(opening) - 1
    shared = min(stride, max_len // 2)
    windows = []
    for first in range(0, max(1, len(passage) - shared), max_len - shared):
        ids = [*opening, *passage[first : first + max_len], end_id]
        windows.append(PassageWindow(EncodedExample(ids, len(opening)), first))
    return windows


@dataclass(frozen=True)
class Passage:
    """The tokens of a passage, and the characters that each stands for."""

    text: str
    ids: list[int]
    starts: npt.NDArray[np.int64]
    ends: npt.NDArray[np.int64]

    @property
    def is_visible(self) -> npt.NDArray[np.bool_]:
        """Which tokens stand for at least one character."""
        return self.ends > self.starts

    def tokens_of(self, start: int, text: str) -> tuple[int, int] | None:
        """The first and the last token of `text` at the character `start`; None if no token shows it."""
        begin = start + len(text) - len(text.lstrip())
        end = start + len(text.rstrip())
        first = int(np.searchsorted(self.ends, begin, side="right"))
        last = int(np.searchsorted(self.starts, end, side="left")) - 1
        return (first, last) if first <= last else None


class EncodedQuestion(NamedTuple):
    """A question about a passage, ready for the model."""

    passage: Passage
    windows: list[PassageWindow]


def span_scores(encoded: EncodedQuestion, logits: Sequence[Floats], max_tokens: int) -> Floats:
    """The score of every span of at most `max_tokens` tokens: (first token, number of further tokens).

    `logits` (T, 2) are those of the windows. A span in several windows has its highest score; one that is in no window,
    or that starts or ends with an invisible token, has -∞.
    """
    num_tokens = len(encoded.passage.ids)
    max_tokens = min(max_tokens, num_tokens)
    scores = np.full((num_tokens, max_tokens), -np.inf, dtype=np.float32)
    invisible = np.where(encoded.passage.is_visible, 0, -np.inf).astype(np.float32)
    for window, output in zip(encoded.windows, logits, strict=True):
        place, first, end = window.example.first, window.first, window.first + window.num_tokens
        start_logits, end_logits = (output[place : place + window.num_tokens] + invisible[first:end, None]).T
        end_logits = np.concatenate([end_logits, np.full(max_tokens - 1, -np.inf, dtype=np.float32)])
        # Row i holds the scores of ending at token i, i + 1, …: a view of `end_logits` that moves by one per row.
        spans = start_logits[:, None] + np.lib.stride_tricks.sliding_window_view(end_logits, max_tokens)
        np.maximum(scores[first:end], spans, out=scores[first:end])
    return scores


def null_score(logits: Sequence[Floats]) -> float:
    """The score of "no answer": the lowest score of [CLS] in any window."""
    return min(float(output[0].sum()) for output in logits)


def best_spans(scores: Floats, count: int) -> Iterator[tuple[int, int, float]]:
    """The `count` spans with the highest scores as (first token, last token, score), best first."""
    flat = scores.ravel()
    count = min(count, flat.size)
    chosen = np.argpartition(-flat, count - 1)[:count] if count > 1 else np.array([flat.argmax()])
    for place in sorted(chosen.tolist(), key=lambda place: (-flat[place], place)):
        first, more = divmod(place, scores.shape[1])
        if flat[place] > -np.inf:
            yield first, first + more, float(flat[place])


def log_sum_exp(scores: Floats, null: float | None) -> float:
    """log Σ exp(score) over all spans, and over "no answer" where that is allowed."""
    highest = float(scores.max()) if null is None else max(float(scores.max()), null)
    total = float(np.exp(scores.astype(np.float64) - highest).sum())
    if null is not None:
        total += math.exp(null - highest)
    return highest + math.log(total)


def target(window: PassageWindow, answer: tuple[int, int] | None) -> tuple[int, int]:
    """The positions of an answer, given as tokens of the passage, in a window; [CLS] if it is not all there."""
    if answer is None or answer[0] < window.first or answer[1] >= window.first + window.num_tokens:
        return 0, 0
    offset = window.example.first - window.first
    return answer[0] + offset, answer[1] + offset
