"""How many words two texts share: what a similarity reaches that understands nothing."""

from __future__ import annotations

import re

WORD = re.compile(r"\w+")


def word_overlap(first: str, second: str) -> float:
    """Words in both texts by words in either (Jaccard's index), capitals aside; 0 where neither has a word."""
    one, other = (set(WORD.findall(text.lower())) for text in (first, second))
    return len(one & other) / len(one | other) if one | other else 0.0
