"""How much masked-token accuracy an encoder loses while it is fine-tuned for another task.

The encoder that is trained is measured under the masked-language-model head it was pretrained with, on a text whose
masks are the same every time: before training, at each evaluation, and at the end.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from regard.checkpoint.predictors import load_predictor
from regard.data.corpus import Corpus
from regard.data.documents import read_documents
from regard.data.sentence_pairs import longest_sentence
from regard.metrics.score import Score
from regard.models.bert.model import BertForPretraining, encoder_of
from regard.nn.init import empty_weights
from regard.tasks.encoder.config import ROW_TOKENS
from regard.tasks.encoder.mlm_eval import MLMEvaluator, MLMPredictions, mlm_head
from regard.training.callbacks import ExtraMetrics, ExtraScores
from regard.training.pretrained_init import PretrainedInit
from regard.utils.errors import UsageError

MAX_TOKENS = 100_000  # of the text, at its end
EVAL_TOKENS = 1 << 14  # measured at each evaluation
METRIC = "masked_word_loss"  # its name in metrics.jsonl


class ForgettingCallback(ExtraMetrics):
    """Measures the encoder of `model`, which started from the weights of `init`, on the text in `path`."""

    def __init__(self, model: Any, init: PretrainedInit, path: Path) -> None:
        super().__init__(self._metrics)
        pretrained = load_predictor(init.folder, task="fill")
        tokenizer, window = pretrained.tokenizer, min(ROW_TOKENS, pretrained.bert.config.context_length)
        documents = read_documents(Corpus.find([path]), tokenizer, longest=longest_sentence(window))
        if len(documents.ids) > MAX_TOKENS:
            documents = documents.split(fraction=MAX_TOKENS / len(documents.ids), max_tokens=MAX_TOKENS)[1]
        self.text, self.evaluator = path.name, MLMEvaluator(documents, tokenizer, window=window, pairs=False)
        self.before = self.evaluator.predict(pretrained.model)
        if not len(self.before.targets):
            raise UsageError(
                f"--forgetting {path} is too short: none of its tokens is masked. Give a longer text.",
                argument="forgetting",
                value=str(path),
                path=str(path),
            )
        encoder = encoder_of(model)
        with empty_weights():
            self.model = BertForPretraining(encoder.config, nsp=False)
        self.model.bert = encoder
        self.model.mlm = mlm_head(pretrained.model).to(encoder.embedding.weight.device)

    def _metrics(self) -> dict[str, float]:
        return {METRIC: self.evaluator.loss(self.model, max_tokens=EVAL_TOKENS, masked_only=True)}

    def on_scores(self) -> ExtraScores:
        before, after = self.before, self.evaluator.predict(self.model)
        count = f"{len(before.targets):,} masked words"
        note = (
            f"forgetting: {before.accuracy:.1f} % of {count} in {self.text} were right before training, "
            f"{after.accuracy:.1f} % after it (loss {before.loss:.3f} and {after.loss:.3f}). A lower --learning-rate, "
            "--layer-decay, --freeze or --lora preserves more."
        )
        return ExtraScores([note], self._scores("before", before) + self._scores("after", after))

    def _scores(self, when: str, found: MLMPredictions) -> list[Score]:
        signature = f"{len(found.targets):,} words, with the pretrained head"
        return [
            Score(f"masked words {when}", found.accuracy, f"accuracy in %, {signature}", on=self.text),
            Score(f"loss of masked words {when}", found.loss, signature, on=self.text),
        ]
