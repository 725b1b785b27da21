"""Predictor for the most probable next words of a text."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from regard.generation.autocomplete import WordTokens, suggest
from regard.generation.streaming import decode_after
from regard.tasks.base import Notify, Result
from regard.tasks.generate.predictor import LanguageModel
from regard.tasks.suggest.spec import SPEC, SuggestConfig


@dataclass(frozen=True, repr=False)
class Suggestions(Result):
    """The suggested next words of a text, most probable first."""

    text: str
    scores: dict[str, float]  # probabilities by word

    @property
    def word(self) -> str:
        """The most probable word; empty if there is no suggestion."""
        return next(iter(self.scores), "")

    @property
    def score(self) -> float:
        """The probability of `word`, or 0 if there is no suggestion."""
        return next(iter(self.scores.values()), 0.0)

    recorded = ("text", "word", "score", "scores")
    shown = ("scores",)

    def rows(self) -> list[dict[str, Any]]:
        """The rows of a table: one for each word."""
        return [{"text": self.text, "word": word, "score": score} for word, score in self.scores.items()]

    def __str__(self) -> str:
        return "\n".join(f"{score:7.2%}  {word}" for word, score in self.scores.items())


class Suggester(LanguageModel[Suggestions]):
    """Texts → next words: `suggester("The old ").word`."""

    spec = SPEC

    @cached_property
    def word_tokens(self) -> WordTokens:
        """Which tokens can start, continue or end a word."""
        decode = decode_after(self.tokenizer.decode, self.tokenizer.encode("a"))
        texts = ["" if i in self.tokenizer.special_ids else decode([i]) for i in range(self.tokenizer.vocab_size)]
        return WordTokens(texts, by_character=self.tokenizer.kind == "char")

    def _predict(self, inputs: list[str], config: SuggestConfig, notify: Notify) -> list[Suggestions]:
        results = [self._suggest(text, config.n) for text in inputs]
        if not all(result.scores for result in results):
            notify("no suggestion: end the text with a space, or with the first letters of a known word.")
        return results

    def _suggest(self, text: str, count: int) -> Suggestions:
        # Use half of the context length for the text, or less if the longest word would not fit after it.
        context = self.context_length
        max_tokens = max(1, min(-(-context // 2), context - self.word_tokens.longest))
        found = suggest(
            self.decoder(),
            text,
            encode=lambda part: self.last_ids(part, max_tokens),
            word_tokens=self.word_tokens,
            count=count,
        )
        return Suggestions(text, {suggestion.word: suggestion.probability for suggestion in found})
