"""Little stories in English: sentences of the world, each about something that the one before it spoke of.

They have no plot. What holds a story together is a noun that a sentence shares with the one before, so a language
model can gain from looking back across sentences. Everything follows from a seed.
"""

from __future__ import annotations

import random
from collections import defaultdict

from regard.data.world.translation import WorldPair, sentences

LENGTHS = (3, 4, 5, 6, 7)  # sentences of a story


def stories(*, seed: int = 0) -> list[str]:
    """The training sentences of the world, each once, joined into stories."""
    pairs = sentences("train", seed=seed)
    dice = random.Random(f"regard stories {seed}")
    order = dice.sample(range(len(pairs)), len(pairs))
    about: dict[str, list[int]] = defaultdict(list)  # noun → sentences with it, the next one last
    for index in order:
        for noun in _nouns(pairs[index]):
            about[noun].append(index)
    told: set[int] = set()
    found = []
    for first in order:
        if first in told:
            continue
        story = [first]
        told.add(first)
        for _ in range(dice.choice(LENGTHS) - 1):
            following = _next(pairs[story[-1]], about, told)
            if following is None:
                break
            story.append(following)
            told.add(following)
        found.append(" ".join(pairs[index].source for index in story))
    return found


def _next(pair: WorldPair, about: dict[str, list[int]], told: set[int]) -> int | None:
    """A sentence that was not told yet, about the last noun of `pair` if there is one, or else an earlier one."""
    for noun in reversed(_nouns(pair)):
        waiting = about[noun]
        while waiting and waiting[-1] in told:
            waiting.pop()
        if waiting:
            return waiting[-1]
    return None


def _nouns(pair: WorldPair) -> list[str]:
    tagged = zip(pair.source_words, pair.source_pos, strict=True)
    return [word.lower() for word, tag in tagged if tag == "NOUN"]
