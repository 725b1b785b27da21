"""Scores of translations by their official implementation, sacreBLEU, with the signature that repeats them.

Knows nothing of models or files: two lists of sentences give one number.
"""

from __future__ import annotations

from collections.abc import Sequence

from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

from regard.metrics.score import Score
from regard.utils.errors import UsageError, unknown

# Those of sacreBLEU's tokenizers that need neither a download nor another package.
BLEU_TOKENIZERS = ("13a", "none", "intl", "char", "zh")


def bleu(
    hypotheses: Sequence[str],
    references: Sequence[str],
    *,
    tokenize: str = "13a",
    lowercase: bool = False,
) -> Score:
    """Corpus BLEU of `hypotheses` against one reference each."""
    _check(hypotheses, references)
    if tokenize not in BLEU_TOKENIZERS:
        raise unknown("BLEU tokenizer", tokenize, BLEU_TOKENIZERS)
    # Text that is tokenized on purpose would be warned about.
    metric = BLEU(tokenize=tokenize, lowercase=lowercase, force=tokenize == "none")
    return _score("BLEU", metric, hypotheses, references)


def chrf(hypotheses: Sequence[str], references: Sequence[str], *, lowercase: bool = False) -> Score:
    """Corpus chrF (character n-grams to 6, no words, beta 2) of `hypotheses` against one reference each."""
    _check(hypotheses, references)
    return _score("chrF", CHRF(lowercase=lowercase), hypotheses, references)


def _score(name: str, metric: BLEU | CHRF, hypotheses: Sequence[str], references: Sequence[str]) -> Score:
    result = metric.corpus_score(list(hypotheses), [list(references)])
    return Score(name, float(result.score), str(metric.get_signature()))


def _check(hypotheses: Sequence[str], references: Sequence[str]) -> None:
    for name, sentences in (("hypotheses", hypotheses), ("references", references)):
        if isinstance(sentences, str):
            raise UsageError(f"{name} must be a list of sentences, got one str; put it into a list.")
    if len(hypotheses) != len(references):
        raise UsageError(
            f"{len(hypotheses)} hypotheses and {len(references)} references: each hypothesis needs exactly "
            "one reference."
        )
    if not hypotheses:
        raise UsageError("there are no hypotheses to score; give at least one with its reference.")
