"""Scores of a translator on the built-in synthetic dataset, against its gold annotations.

The synthetic dataset is an instrument, not a result: these scores show that the code works and what attention learns.
A word-for-word dictionary is the baseline.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from regard.data.synthetic.realizer import char_spans
from regard.data.synthetic.translation import SyntheticPair, pronoun_pairs, sentences, word_for_word
from regard.inspection.alignment import AlignedPair, AligningHead, choose_head, error_rate
from regard.metrics.score import Score
from regard.metrics.translation import bleu
from regard.tasks.translate.predictor import Translator

PRONOUN = re.compile(r"\b(il|elle)\b", re.IGNORECASE)
NUM_ALIGNED = 200  # validation sentences that choose the head, and test sentences that measure it


@dataclass(frozen=True, kw_only=True)
class SyntheticScores:
    test: Score
    compositional: Score  # combinations of words that are not in the training split
    dictionary_test: Score  # word for word
    dictionary_compositional: Score
    pronouns: float  # share of held-out minimal pairs with the right il or elle; chance is 0.5
    head: AligningHead  # chosen on validation sentences
    alignment_error_rate: float  # of that head on test sentences

    def rows(self) -> list[tuple[str, str, str]]:
        """(name, score, remark) for tables."""
        bleus = {
            "BLEU, test": (self.test, self.dictionary_test),
            "BLEU, unseen combinations": (self.compositional, self.dictionary_compositional),
        }
        return [
            *((name, f"{s.value:.1f}", f"word for word {base.value:.1f}") for name, (s, base) in bleus.items()),
            ("it → il/elle", f"{self.pronouns:.1%}", "held-out pairs of nouns, chance 50 %"),
            ("alignment error rate", f"{self.alignment_error_rate:.3f}", str(self.head)),
        ]


def measure(translator: Translator) -> SyntheticScores:
    """All scores of the synthetic dataset for one translator."""

    def translate(sources: list[str]) -> list[str]:
        return [translation.text for translation in translator(sources)]

    def dictionary(sources: list[str]) -> list[str]:
        return [word_for_word(source) for source in sources]

    test, compositional = sentences("test"), sentences("compositional")
    head = choose_head(translator, [gold_pair(pair) for pair in sentences("validation", count=NUM_ALIGNED)])
    return SyntheticScores(
        test=_bleu(translate, test),
        compositional=_bleu(translate, compositional),
        dictionary_test=_bleu(dictionary, test),
        dictionary_compositional=_bleu(dictionary, compositional),
        pronouns=pronoun_accuracy(translator),
        head=head,
        alignment_error_rate=error_rate(translator, [gold_pair(pair) for pair in test[:NUM_ALIGNED]], head),
    )


def _bleu(translate: Callable[[list[str]], list[str]], pairs: Sequence[SyntheticPair]) -> Score:
    return bleu(translate([pair.source for pair in pairs]), [pair.target for pair in pairs])


def pronoun_accuracy(translator: Translator) -> float:
    """How often *it* becomes the pronoun that agrees with its antecedent."""
    sides = [side for pair in pronoun_pairs() for side in ((pair.il.source, "il"), (pair.elle.source, "elle"))]
    outputs = translator([source for source, _ in sides])
    correct = sum(_last_pronoun(output.text) == gold for output, (_, gold) in zip(outputs, sides, strict=True))
    return correct / len(sides)


def _last_pronoun(text: str) -> str:
    return next((pronoun.lower() for pronoun in reversed(PRONOUN.findall(text))), "")


def gold_pair(pair: SyntheticPair) -> AlignedPair:
    source_words = char_spans(pair.source, pair.source_words)
    target_words = char_spans(pair.target, pair.target_words)
    return AlignedPair(pair.source, pair.target, source_words, target_words, pair.alignment)
