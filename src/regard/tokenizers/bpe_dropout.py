"""BPE dropout (Provilkov et al. 2020): random segmentations of words during training.

Each possible merge is skipped with a small probability, so a frequent word is sometimes split into its subwords. The
model learns the meaning of these subwords and overfits a small corpus less. Inference uses all merges.

For speed, a fixed number of segmentations is sampled once per word, and training chooses among them. The segmentations
depend only on the seed and the word, so the same seed gives the same ids.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

import torch

from regard.tokenizers.tokenizer import Tokenizer

NUM_SEGMENTATIONS = 16  # per word


class BPEDropout:
    """Encodes words with random segmentations; `dropout` is the probability to skip a merge."""

    def __init__(self, tokenizer: Tokenizer, dropout: float, *, seed: int = 0) -> None:
        if dropout:
            tokenizer.require_merges("has no merges, which bpe_dropout needs")
        self.tokenizer, self.dropout, self.seed = tokenizer, dropout, seed
        self._segmentations: dict[str, list[list[int]]] = {}

    def draw(self, words: Sequence[str], generator: torch.Generator | None = None) -> list[int]:
        """Return the ids of `words` (see `Tokenizer.words`), with a random segmentation of each word."""
        chosen = torch.randint(NUM_SEGMENTATIONS, (len(words),), generator=generator).tolist()
        return [i for word, index in zip(words, chosen, strict=True) for i in self.segmentations(word)[index]]

    def segmentations(self, word: str) -> list[list[int]]:
        """The sampled segmentations of a word, as ids; probable ones may occur several times."""
        if word not in self._segmentations:
            rng = random.Random(f"{self.seed} {word}")
            self._segmentations[word] = [
                self.tokenizer.word_ids(word, lambda: rng.random() < self.dropout) for _ in range(NUM_SEGMENTATIONS)
            ]
        return self._segmentations[word]
