"""Short English stories: sentences of the translation dataset, each of which shares a noun with the sentence before it.
Because of the shared nouns, a language model benefits from attention across sentences.
"""

from __future__ import annotations

import random
from collections import defaultdict

from regard.data.synthetic.translation import sentences


def stories(*, seed: int = 0) -> list[str]:
    """The training sentences of the translation dataset, each once, joined into stories."""
    pairs = sentences("train", seed=seed)
    nouns = [
        [word.lower() for word, tag in zip(pair.source_words, pair.source_pos, strict=True) if tag == "NOUN"]
        for pair in pairs
    ]
    rng = random.Random(f"regard stories {seed}")
    order = rng.sample(range(len(pairs)), len(pairs))
    sentences_with: dict[str, list[int]] = defaultdict(list)  # noun → sentences, to be taken from the end
    for index in order:
        for noun in nouns[index]:
            sentences_with[noun].append(index)
    used: set[int] = set()

    def next_sentence(previous: int) -> int | None:
        """Return an unused sentence that shares a noun with the previous one; try the last noun first."""
        for noun in reversed(nouns[previous]):
            indices = sentences_with[noun]
            while indices and indices[-1] in used:
                indices.pop()
            if indices:
                return indices[-1]
        return None

    all_stories = []
    for first in order:
        if first in used:
            continue
        story = [first]
        used.add(first)
        for _ in range(rng.choice((3, 4, 5, 6, 7)) - 1):
            following = next_sentence(story[-1])
            if following is None:
                break
            story.append(following)
            used.add(following)
        all_stories.append(" ".join(pairs[index].source for index in story))
    return all_stories
