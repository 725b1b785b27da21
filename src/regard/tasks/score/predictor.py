"""The perplexity of a text and the surprise of each of its tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

from regard.spec import TaskSpec
from regard.tasks.base import Notify
from regard.tasks.generate.predictor import LanguageModel
from regard.tasks.generate.scoring import TextScore, score_text
from regard.tasks.score.spec import SPEC, ScoreConfig
from regard.utils.config import Config


class Scorer(LanguageModel[TextScore]):
    """Texts → scores: `scorer("The old man sleeps.").perplexity`."""

    spec: ClassVar[TaskSpec] = SPEC

    def predict(
        self, inputs: Sequence[str], config: Config | None = None, *, notify: Notify | None = None
    ) -> list[TextScore]:
        chosen = config or self.config
        assert isinstance(chosen, ScoreConfig), "the task's predict_config"
        scores = [score_text(self.model, self.tokenizer, text, progress=self.progress) for text in inputs]
        return [replace(score, per_token=chosen.per_token) for score in scores]
