"""Encode texts and text pairs as padded batches of token ids for an encoder.

A text becomes `[CLS] a [SEP]`, a pair `[CLS] a [SEP] b [SEP]`. Inputs that are too long are truncated; in a pair, the
longer text is truncated first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from regard.nn.masks import pad
from regard.tokenizers.tokenizer import Tokenizer
from regard.utils.errors import number_of, shorten_list


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
    return [encode_text(tokenizer, ids, max_seq_len) for ids in tokenizer.encode_batch(texts)]


def encode_text(tokenizer: Tokenizer, ids: Sequence[int], max_seq_len: int) -> EncodedExample:
    read = [tokenizer.start_id, *ids[: max_seq_len - 2], tokenizer.end_id]
    return EncodedExample(read, len(read), len(ids) + 2 - len(read))


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
