"""What fine-tuning forgets: how well an encoder still guesses hidden words, with the head it was pre-trained with.

The head stays what it was, and general text is hidden alike each time. Before the training, along the way and after it,
the loss and the share of words that are guessed say how much of what the encoder knew is still there.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch
from torch import nn

from regard.data.corpus import Corpus
from regard.data.documents import read_documents
from regard.data.sentence_pairs import longest_sentence
from regard.errors import UsageError
from regard.metrics.score import Score
from regard.models.bert import AnyBert, Bert, BertForPretraining, encoder_of
from regard.tasks.embed import Embedder
from regard.tasks.fill import Filler
from regard.tasks.folders import load_embedder
from regard.tasks.gaps import Guessed, HeldOut, word_head
from regard.training.beginning import Beginning
from regard.training.options import no_head_for_words
from regard.training.recipes import ROW

MOST = 100_000  # pieces of the text that are measured on
ALONG_THE_WAY = 1 << 14  # and at each validation
METRIC = "masked_word_loss"  # what metrics.jsonl calls it


@dataclass
class Forgetting:
    """General text, and the model that was begun with: the encoder that learns, below the head it had."""

    text: HeldOut
    name: str  # of the text
    model: BertForPretraining
    before: Guessed

    @classmethod
    def prepare(cls, begun: Embedder, text: Path, *, name: str) -> Forgetting:
        """Measure what an encoder knows before it learns; `name` is the folder it came from."""
        if not isinstance(begun, Filler):
            raise no_head_for_words(name)
        window = min(ROW, begun.bert.config.context)
        documents = read_documents(Corpus.find([text]), begun.tokenizer, longest=longest_sentence(window))
        if len(documents.ids) > MOST:
            documents = documents.split(share=MOST / len(documents.ids), most=MOST)[1]
        held = HeldOut(documents, begun.tokenizer, window=window, pairs=False)
        before = held.guess(begun.model)
        if not len(before.words):
            raise UsageError(f"--forgetting {text} is too short: none of its words is hidden. Give a longer text.")
        return cls(held, text.name, begun.model, before)

    def watch(self, bert: Bert) -> None:
        """From now on it is this encoder that is measured, below the head of the one that was begun with."""
        words = word_head(self.model).to(bert.embedding.weight.device)
        with torch.device("meta"):
            self.model = BertForPretraining(bert.config, follows=False)
        self.model.bert, self.model.words = bert, words

    def along_the_way(self) -> dict[str, float]:
        """What is logged at each validation."""
        return {METRIC: self.text.loss(self.model, most=ALONG_THE_WAY, hidden=True)}

    def after(self) -> Forgotten:
        """What there is to say when the training is over."""
        return Forgotten(self.before, self.text.guess(self.model), self.name)


def watch_forgetting(model: nn.Module, beginning: Beginning | None, text: Path | None) -> Forgetting | None:
    """Measure on `text`, if there is one, what the encoder of `model` knows of what it began with."""
    if text is None:
        return None
    if beginning is None or not isinstance(model, AnyBert):
        raise UsageError("--forgetting is for a BERT that goes on from the weights of a folder: give one with --from.")
    found = Forgetting.prepare(load_embedder(beginning.folder), text, name=beginning.name)
    found.watch(encoder_of(model))
    return found


@dataclass(frozen=True)
class Forgotten:
    """Guesses of the same hidden words, before and after a training."""

    before: Guessed
    after: Guessed
    name: str

    def __str__(self) -> str:
        before, after = self.before, self.after
        return (
            f"forgetting: of {len(before.words):,} masked words in {self.name} it guessed {before.accuracy:.1f} % "
            f"before and {after.accuracy:.1f} % after (loss {before.loss:.3f}, then {after.loss:.3f}). A lower rate, "
            f"--layer-decay, --freeze or --lora keep more of what it knew."
        )

    def scores(self) -> list[Score]:
        how = f"{len(self.before.words):,} words, with the head it was pre-trained with"
        return [
            Score("masked words before", self.before.accuracy, f"accuracy in %, {how}", on=self.name),
            Score("masked words after", self.after.accuracy, f"accuracy in %, {how}", on=self.name),
            Score("loss of masked words before", self.before.loss, how, on=self.name),
            Score("loss of masked words after", self.after.loss, how, on=self.name),
        ]
