"""Words cut in other ways than the usual one: BPE dropout (Provilkov et al. 2020).

Each merge that could be made is left out with a small chance, so a frequent word is sometimes seen as its parts. A
model that trains on such cuts learns what the parts mean and overfits a small corpus less; afterwards text is cut in
the usual way.

For each word a handful of cuts is drawn once, from the word itself, and training picks among them: that is quick, and
the same seed gives the same ids again.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

import torch

from regard.tokenizers.tokenizer import Tokenizer

CUTS = 16  # of each word that are drawn once


class BPEDropout:
    """Ids of words, differently cut each time."""

    def __init__(self, tokenizer: Tokenizer, share: float, *, seed: int = 0) -> None:
        if share:
            tokenizer.require_merges("has no merges that bpe_dropout could leave out")
        self.tokenizer, self.share, self.seed = tokenizer, share, seed
        self._cuts: dict[str, list[list[int]]] = {}

    def draw(self, words: Sequence[str], generator: torch.Generator | None = None) -> list[int]:
        """The ids of `words` (see `Tokenizer.words`), each cut in one of its ways."""
        chosen = torch.randint(CUTS, (len(words),), generator=generator).tolist()
        return [i for word, cut in zip(words, chosen, strict=True) for i in self.cuts(word)[cut]]

    def cuts(self, word: str) -> list[list[int]]:
        """The ways in which a word is cut, likely ones more than once."""
        if word not in self._cuts:
            dice = random.Random(f"{self.seed} {word}")
            self._cuts[word] = [self.tokenizer.word_ids(word, lambda: dice.random() < self.share) for _ in range(CUTS)]
        return self._cuts[word]
