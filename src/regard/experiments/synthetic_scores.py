"""How well a translator knows the built-in synthetic dataset, measured against the gold annotations.

The synthetic dataset is an instrument, not a result: these numbers show that the machinery works and what attention
has to do with it. Beside each score stands what a word-for-word dictionary gets.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from regard.data.synthetic.translation import SyntheticPair, pronoun_pairs, sentences, word_for_word
from regard.data.synthetic.words import char_spans
from regard.inspection.alignment import AlignedPair, AligningHead, choose_head, error_rate
from regard.metrics.score import Score
from regard.metrics.translation import bleu
from regard.tasks.translate.predictor import Translator

PRONOUN = re.compile(r"\b(il|elle)\b", re.IGNORECASE)
ALIGNED = 200  # sentences that choose the head, and as many of the test that measure it


@dataclass(frozen=True, kw_only=True)
class SyntheticScores:
    test: Score
    compositional: Score  # combinations of words never seen in training
    dictionary_test: Score  # word for word
    dictionary_compositional: Score
    pronouns: float  # share of held-out minimal pairs with the right il or elle; chance is 0.5
    head: AligningHead  # chosen on validation sentences
    alignment_error_rate: float  # of that head on test sentences

    def rows(self) -> list[tuple[str, str, str]]:
        """(what, score, remark) for tables."""
        return [
            ("BLEU, test", f"{self.test.value:.1f}", f"word for word {self.dictionary_test.value:.1f}"),
            (
                "BLEU, unseen combinations",
                f"{self.compositional.value:.1f}",
                f"word for word {self.dictionary_compositional.value:.1f}",
            ),
            ("it → il/elle", f"{self.pronouns:.1%}", "held-out pairs of nouns, chance 50 %"),
            ("alignment error rate", f"{self.alignment_error_rate:.3f}", str(self.head)),
        ]


def measure(translator: Translator) -> SyntheticScores:
    """All scores of the synthetic dataset for one translator."""
    test, compositional = sentences("test"), sentences("compositional")
    head = choose_head(translator, [gold_pair(pair) for pair in sentences("validation", count=ALIGNED)])
    return SyntheticScores(
        test=_bleu(translator, test),
        compositional=_bleu(translator, compositional),
        dictionary_test=_dictionary(test),
        dictionary_compositional=_dictionary(compositional),
        pronouns=pronoun_accuracy(translator),
        head=head,
        alignment_error_rate=error_rate(translator, [gold_pair(pair) for pair in test[:ALIGNED]], head),
    )


def pronoun_accuracy(translator: Translator) -> float:
    """How often *it* becomes the pronoun that its antecedent asks for."""
    couples = pronoun_pairs()
    sources = [side.source for couple in couples for side in (couple.il, couple.elle)]
    outputs = [translation.text for translation in translator(sources)]
    right = sum(_last_pronoun(text) == ("il", "elle")[i % 2] for i, text in enumerate(outputs))
    return right / len(outputs)


def gold_pair(pair: SyntheticPair) -> AlignedPair:
    return AlignedPair(
        source=pair.source,
        target=pair.target,
        source_words=char_spans(pair.source, pair.source_words),
        target_words=char_spans(pair.target, pair.target_words),
        gold=pair.alignment,
    )


def _last_pronoun(text: str) -> str:
    found = PRONOUN.findall(text)
    return found[-1].lower() if found else ""


def _bleu(translator: Translator, pairs: Sequence[SyntheticPair]) -> Score:
    outputs = [translation.text for translation in translator([pair.source for pair in pairs])]
    return bleu(outputs, [pair.target for pair in pairs])


def _dictionary(pairs: Sequence[SyntheticPair]) -> Score:
    return bleu([word_for_word(pair.source) for pair in pairs], [pair.target for pair in pairs])
