"""Train a model to tag the words of a text."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.data.tagged import Tagged
from regard.metrics.score import Score
from regard.tasks.encoder.objective import EncoderObjective
from regard.tasks.encoder.predictor import EncodedExample, EncoderBatch
from regard.tasks.tag.predictor import TaggedWords, majority_tag, sentence_windows, tag_scores, word_list_baseline
from regard.training.objective import Sample, SampleNames

TagTargets = tuple[list[int], list[int]]  # of a window: positions of the words' first tokens, and tag indices


class TagObjective(EncoderObjective):
    """Learn the tag of each word at its first token. A long sentence is split into windows, one example per window."""

    loss_unit = "words"
    noun = "sentence"
    windowed = "sentences"
    sample_names = SampleNames("Words", "Tags", "Prediction", mistakes_first=True)

    @staticmethod
    def tokenizer_texts(examples: Sequence[Tagged]) -> list[str]:
        return [" ".join(sentence.words) for sentence in examples]

    def majority_label(self, examples: Sequence[Tagged]) -> tuple[str]:
        return (majority_tag(examples),)

    def encode(self, examples: Sequence[Tagged]) -> tuple[list[EncodedExample], list[TagTargets]]:
        index = {tag: number for number, tag in enumerate(self.head.labels)}
        words = [sentence.words for sentence in examples]
        rows, targets = [], []
        encoded = sentence_windows(self.tokenizer, words, self._predictor.max_seq_len)
        for sentence, windows in zip(examples, encoded, strict=True):
            for window in windows:
                tags = sentence.tags[window.first : window.first + len(window.places)]
                rows.append(window.example)
                targets.append((window.places, [index[tag] for tag in tags]))
        return rows, targets

    def logits(self, batch: EncoderBatch, targets: list[TagTargets]) -> Tensor:
        """The logits at the first token of each word."""
        width = batch.ids.shape[1]
        places = [row * width + place for row, (window, _) in enumerate(targets) for place in window]
        logits: Tensor = self.model(*batch, places=torch.tensor(places, device=batch.ids.device))  # (words, labels)
        return logits

    def compute_loss(self, logits: Tensor, targets: list[TagTargets], batch: EncoderBatch) -> Tensor:
        tags = [tag for _, tags in targets for tag in tags]
        return F.cross_entropy(logits, torch.tensor(tags, device=logits.device))

    def num_targets(self, targets: Sequence[TagTargets]) -> int:
        return sum(len(tags) for _, tags in targets)

    def score(self, results: list[TaggedWords]) -> tuple[list[Score], list[TaggedWords]]:
        """Score the results; the baseline, a word list of the training data, is stronger than the majority tag."""
        train, validation = self.splits.train, self.splits.validation
        scores = tag_scores([result.tags for result in results], [sentence.tags for sentence in validation])
        return scores + word_list_baseline(train, validation), results

    def sample(self, example: Tagged, result: TaggedWords) -> Sample:
        return Sample(" ".join(example.words), " ".join(example.tags), " ".join(result.tags))

    def trace_inputs(self, example: Tagged) -> tuple[str]:
        return (" ".join(example.words),)
