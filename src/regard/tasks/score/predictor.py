"""Predictor for the perplexity of a text and the surprisal of each token."""

from __future__ import annotations

from dataclasses import replace

from regard.tasks.base import Notify
from regard.tasks.generate.predictor import LanguageModel, TextScore, score_text
from regard.tasks.score.spec import SPEC, ScoreConfig


class TextScorer(LanguageModel[TextScore]):
    """Texts → scores: `scorer("The old man sleeps.").perplexity`."""

    spec = SPEC

    def _predict(self, inputs: list[str], config: ScoreConfig, notify: Notify) -> list[TextScore]:
        scores = [score_text(self.model, self.tokenizer, text, progress=self.progress) for text in inputs]
        return [replace(score, per_token=config.per_token) for score in scores]
