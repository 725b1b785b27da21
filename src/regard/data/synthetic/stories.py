"""Short English stories: sentences of the translation dataset, each with a noun of the sentence before it.

Because of the shared nouns a language model profits from attention across sentences.
"""

from __future__ import annotations

import random
from collections import defaultdict

from regard.data.synthetic.translation import SyntheticPair, sentences

LENGTHS = (3, 4, 5, 6, 7)  # sentences of a story


def stories(*, seed: int = 0) -> list[str]:
    """The training sentences of the translation dataset, each once, joined into stories."""
    pairs = sentences("train", seed=seed)
    dice = random.Random(f"regard stories {seed}")
    order = dice.sample(range(len(pairs)), len(pairs))
    about: dict[str, list[int]] = defaultdict(list)  # noun → sentences with it, to be taken from the end
    for index in order:
        for noun in _nouns(pairs[index]):
            about[noun].append(index)
    used: set[int] = set()
    all_stories = []
    for first in order:
        if first in used:
            continue
        story = [first]
        used.add(first)
        for _ in range(dice.choice(LENGTHS) - 1):
            following = _next(pairs[story[-1]], about, used)
            if following is None:
                break
            story.append(following)
            used.add(following)
        all_stories.append(" ".join(pairs[index].source for index in story))
    return all_stories


def _next(pair: SyntheticPair, about: dict[str, list[int]], used: set[int]) -> int | None:
    """An unused sentence with a noun of `pair`, the last noun first."""
    for noun in reversed(_nouns(pair)):
        indices = about[noun]
        while indices and indices[-1] in used:
            indices.pop()
        if indices:
            return indices[-1]
    return None


def _nouns(pair: SyntheticPair) -> list[str]:
    tagged = zip(pair.source_words, pair.source_pos, strict=True)
    return [word.lower() for word, tag in tagged if tag == "NOUN"]
