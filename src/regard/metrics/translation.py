"""BLEU and chrF of translations, computed by sacreBLEU with its signatures, and the error rate of word alignments."""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet

from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

from regard.metrics.score import Score, check_lists
from regard.utils.errors import unknown

Links = AbstractSet[tuple[int, int]]  # (source word, target word)
BLEU_TOKENIZERS = ("13a", "none", "intl", "char", "zh")  # tokenizers that need neither a download nor another package


def bleu(
    hypotheses: Sequence[str], references: Sequence[str], *, tokenize: str = "13a", lowercase: bool = False
) -> Score:
    """Corpus BLEU against one reference for each hypothesis."""
    if tokenize not in BLEU_TOKENIZERS:
        raise unknown("BLEU tokenizer", tokenize, BLEU_TOKENIZERS)
    # `force` suppresses the warning about text that is tokenized already.
    metric = BLEU(tokenize=tokenize, lowercase=lowercase, force=tokenize == "none")
    return _score("BLEU", metric, hypotheses, references)


def chrf(hypotheses: Sequence[str], references: Sequence[str], *, lowercase: bool = False) -> Score:
    """Corpus chrF (character n-grams up to 6, no words, beta 2) against one reference for each hypothesis."""
    return _score("chrF", CHRF(lowercase=lowercase), hypotheses, references)


def _score(name: str, metric: BLEU | CHRF, hypotheses: Sequence[str], references: Sequence[str]) -> Score:
    check_lists(hypotheses=hypotheses, references=references)
    result = metric.corpus_score(list(hypotheses), [list(references)])
    return Score(name, float(result.score), str(metric.get_signature()))


def alignment_error_rate(
    predicted: Sequence[Links], sure: Sequence[Links], possible: Sequence[Links] | None = None
) -> float:
    """Alignment error rate (Och and Ney 2003); 0 is perfect.

    It is 1 - (|A∩S| + |A∩P|) / (|A| + |S|), where A is `predicted`, S is `sure` and P is `possible`. Counts are summed
    over all sentences. Sure links always count as possible (P = S if `possible` is not given).
    """
    possible = sure if possible is None else possible
    check_lists(predicted=predicted, sure=sure, possible=possible)
    hits = total = 0
    for links, certain, allowed in zip(predicted, sure, possible, strict=True):
        hits += len(links & certain) + len(links & (allowed | certain))
        total += len(links) + len(certain)
    return 1.0 - hits / total if total else 0.0
