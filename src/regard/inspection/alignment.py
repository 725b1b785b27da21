"""Word alignments from cross-attention, and their error rate.

A target word is aligned with the source word that it attends to most. Attention works on tokens: weights are summed
over the tokens of a source word and averaged over the tokens of a target word. The head is chosen on validation
sentences, never on test sentences. A head may attend to the source word when a target token is its input ("reading") or
one step earlier, when the token is its output ("writing"); both variants are tried (Chen et al. 2020 call the first
variant shifted attention).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from regard.metrics.translation import alignment_error_rate
from regard.nn.hooks import Trace
from regard.tasks.translate.predictor import Translator
from regard.tokenizers.tokenizer import Tokenizer
from regard.utils.errors import UsageError

Link = tuple[int, int]  # (source word, target word)
Span = tuple[int, int]  # characters of a text, end excluded


@dataclass(frozen=True)
class AlignedPair:
    """A pair of sentences with their words and, if known, the gold alignment."""

    source: str
    target: str
    source_words: Sequence[Span]
    target_words: Sequence[Span]
    gold: frozenset[Link] = frozenset()


@dataclass(frozen=True)
class AligningHead:
    """The cross-attention head whose weights are used as the word alignment."""

    address: str  # address of a cross-attention layer
    head: int
    when: str  # "reading" or "writing" the target token
    error_rate: float = float("nan")  # on the sentences that were used to choose the head

    def __str__(self) -> str:
        return f"{self.address} head {self.head}, when {self.when} a token"


def word_spans(text: str) -> list[Span]:
    """Words and punctuation marks of a text, as character spans."""
    return [match.span() for match in re.finditer(r"\w+(?:'(?=\w))?|[^\w\s]", text)]


def plain_pair(source: str, target: str) -> AlignedPair:
    source, target = source.strip(), target.strip()
    return AlignedPair(source, target, word_spans(source), word_spans(target))


def align(translator: Translator, pair: AlignedPair, head: AligningHead) -> frozenset[Link]:
    """The links of one head: for each target word the source word that it attends to most."""
    trace = translator.trace(pair.source, pair.target)
    return _links(word_weights(translator, trace, pair, head.address, head.when)[head.head])


def word_links(translator: Translator, source: str, target: str, head: AligningHead) -> list[tuple[str, str]]:
    """[(source word, target word)]: for each word of `target` the word of `source` that it attends to most."""
    pair = plain_pair(source, target)
    links = sorted(align(translator, pair, head), key=lambda link: link[1])
    return [(pair.source[slice(*pair.source_words[i])], pair.target[slice(*pair.target_words[j])]) for i, j in links]


def choose_head(translator: Translator, pairs: Sequence[AlignedPair]) -> AligningHead:
    """The cross-attention head with the lowest alignment error rate on `pairs`."""
    if not pairs:
        raise UsageError("pairs is empty. Give at least one pair with gold alignments.", argument="pairs")
    predicted: dict[tuple[str, int, str], list[frozenset[Link]]] = {}
    for pair in pairs:
        trace = translator.trace(pair.source, pair.target)
        for address in (address for address in trace.captured if address.endswith(".cross")):
            for when in ("reading", "writing"):
                for head, weights in enumerate(word_weights(translator, trace, pair, address, when)):
                    predicted.setdefault((address, head, when), []).append(_links(weights))
    gold = [pair.gold for pair in pairs]
    rates = {key: alignment_error_rate(links, gold) for key, links in predicted.items()}
    best = min(rates, key=lambda key: rates[key])
    return AligningHead(*best, error_rate=rates[best])


def error_rate(translator: Translator, pairs: Sequence[AlignedPair], head: AligningHead) -> float:
    """The alignment error rate of one head on pairs with gold alignments."""
    return alignment_error_rate([align(translator, pair, head) for pair in pairs], [pair.gold for pair in pairs])


def word_weights(
    translator: Translator, trace: Trace, pair: AlignedPair, address: str, when: str
) -> np.ndarray[tuple[int, int, int], np.dtype[np.float64]]:
    """Attention between words: (heads, target words, source words)."""
    weights = trace.weights(address).cpu().double()  # (H, T, S): rows are the start token and then the target tokens
    rows = weights[:, 1:] if when == "reading" else weights[:, :-1]
    by_source = _membership(translator.tokenizers.source, pair.source, pair.source_words)  # (words, tokens)
    by_target = _membership(translator.tokenizers.target, pair.target, pair.target_words)
    by_target = by_target / by_target.sum(dim=1, keepdim=True).clamp(min=1)
    rows = rows[:, : by_target.shape[1], : by_source.shape[1]]  # without the end token
    return (by_target @ rows @ by_source.T).numpy()


def _membership(tokenizer: Tokenizer, text: str, words: Sequence[Span]) -> Tensor:
    """Return a matrix (words, tokens) that is 1 where a token shares characters with a word, else 0."""
    spans = tokenizer.token_spans(text)
    table = [[float(span.start < end and start < span.end) for span in spans] for start, end in words]
    return torch.tensor(table, dtype=torch.float64).view(len(words), len(spans))


def _links(weights: np.ndarray[tuple[int, int], np.dtype[np.float64]]) -> frozenset[Link]:
    return frozenset((int(row.argmax()), target) for target, row in enumerate(weights))
