"""Which of several endings fits best? Multiple choice with BERT, as in SWAG.

Every ending is read behind what comes before, as the second text of a pair; a single number says how well it fits, and
the softmax of these numbers over the endings is learned. What a user holds afterwards is a `Chooser`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import overload

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.checkpoint.card import CardData
from regard.data.endings import Choice
from regard.errors import UsageError, number_of
from regard.metrics.labels import accuracy
from regard.metrics.score import Score
from regard.models.bert import BertForSequence
from regard.models.bert_settings import BertConfig, HeadConfig
from regard.nn.packed import count_weights
from regard.nn.taps import Trace
from regard.tasks.embed import Say, WithEncoder
from regard.tasks.labelling import Row, RowTask, frame_pairs, fresh, read_rows, require_two_segments, row_remarks
from regard.tasks.settings import PAIR, LabelConfig
from regard.tasks.task import Loss, Sample, SampleNames, Usage
from regard.text.tokenizer import Tokenizer

HEAD = HeadConfig(kind="choice")
SAMPLES = 8


@dataclass(frozen=True)
class Chosen:
    """What comes before, the endings, which of them fits best, and how likely each is the right one."""

    first: str
    endings: tuple[str, ...]
    place: int  # of the ending that was chosen, counted from 0
    probabilities: tuple[float, ...]

    @property
    def text(self) -> str:
        return self.endings[self.place]

    def __str__(self) -> str:
        return self.text


class Chooser(WithEncoder):
    """Takes a beginning and several endings, and says which of these fits best. Does not train."""

    model: BertForSequence
    task, head = PAIR, HEAD
    summary = "A text and several endings go in, the ending that fits it best comes out."

    def __init__(
        self,
        model: BertForSequence,
        tokenizer: Tokenizer,
        *,
        max_tokens: int | None = None,
        commonest: tuple[str, ...] | None = None,
    ) -> None:
        """`commonest` holds the place of most of the right endings in training, for comparison."""
        self.model, self.tokenizer, self.commonest = model.eval(), tokenizer, commonest
        self.max_tokens = min(max_tokens or model.config.context, model.config.context)

    @overload
    def __call__(self, first: str, endings: Sequence[str], *, say: Say | None = ...) -> Chosen: ...

    @overload
    def __call__(self, first: Sequence[tuple[str, Sequence[str]]], *, say: Say | None = ...) -> list[Chosen]: ...

    def __call__(
        self,
        first: str | Sequence[tuple[str, Sequence[str]]],
        endings: Sequence[str] = (),
        *,
        say: Say | None = None,
    ) -> Chosen | list[Chosen]:
        """The best of `endings` behind `first`; of many, given as a list of such pairs, the best of each.

        `say` is told what was cut off, and where there was nothing to read.
        """
        if isinstance(first, str):
            return self([(first, endings)], say=say)[0]
        if endings:
            raise UsageError("endings go with one beginning; give many as a list of pairs: (beginning, endings).")
        rows = self.rows(first)
        if say is not None:
            counts = [len(several) for _, several in first]
            for line in row_remarks(rows, self.max_tokens, "choice", pairs=True, counts=counts):
                say(line)
        fits = iter(float(output) for output in read_rows(self.model, rows, self.tokenizer.pad_id))
        return [_chosen(text, tuple(several), list(islice(fits, len(several)))) for text, several in first]

    def rows(self, choices: Iterable[tuple[str, Sequence[str]]]) -> list[Row]:
        """The ids of every ending behind its beginning, one after the other."""
        require_two_segments(self.model.config)
        pairs = []
        for choice in choices:
            if not isinstance(choice, tuple) or len(choice) != 2 or isinstance(choice[1], str) or len(choice[1]) < 2:
                raise UsageError("give a beginning and two endings or more: (beginning, [ending, ending]).")
            pairs += [(choice[0], ending) for ending in choice[1]]
        return frame_pairs(self.tokenizer, pairs, self.max_tokens)

    def trace(self, text: str | tuple[str, str | Sequence[str]], *, grad: bool = False) -> Trace:
        """All attention over a beginning and an ending; of several endings, the one that is chosen."""
        if isinstance(text, str):
            raise UsageError("this model reads two texts: give a beginning and one of its endings.")
        require_two_segments(self.model.config)
        first, ending = text
        pair = (first, ending if isinstance(ending, str) else self(first, ending).text)
        (row,) = frame_pairs(self.tokenizer, [pair], self.max_tokens)
        return self.trace_row(row, grad=grad)

    def usage(self, folder: Path) -> Usage:
        return Usage(
            command=f'regard pair {folder} "…" "one ending" "another"\nregard evaluate {folder} test.csv',
            python=f'import regard\n\nmodel = regard.load("{folder.as_posix()}")\nprint(model("…", ["…", "…"]))',
            pipeline="multiple-choice",
        )

    def __repr__(self) -> str:
        return f"Chooser({count_weights(self.model) / 1e6:.1f} M parameters, {self.max_tokens} tokens)"


def _chosen(first: str, endings: tuple[str, ...], fits: Sequence[float]) -> Chosen:
    chances = torch.tensor(fits, dtype=torch.float64).softmax(dim=0)
    return Chosen(first, endings, int(chances.argmax()), tuple(chances.tolist()))


def score_choices(found: Sequence[int], gold: Sequence[int], commonest: tuple[str, ...] | None) -> list[Score]:
    """The accuracy, as SWAG has it, and what always taking the ending at the commonest place would reach."""
    given, due = ([str(place) for place in side] for side in (found, gold))
    whose = "this file's own majority" if commonest is None else "the majority"
    (always,) = commonest or commonest_place(gold)
    return [
        accuracy(given, due),
        accuracy([always] * len(due), due).as_baseline(whose, f"always:ending{always}"),
    ]


def commonest_place(gold: Iterable[int]) -> tuple[str]:
    """Where most of the right endings stand; the first of several such places."""
    counts = Counter(gold)
    return (str(min(counts, key=lambda place: (-counts[place], place))),)


class ChooseTask(RowTask[Chooser]):
    """Beginnings with as many endings each, and a model that learns which are right."""

    name = PAIR
    summary = Chooser.summary
    model: BertForSequence
    sample_names = SampleNames("Beginning", "Right ending", "The model's")

    def __init__(
        self,
        *,
        model: BertForSequence,
        tokenizer: Tokenizer,
        choices: tuple[Sequence[Choice], Sequence[Choice]],
        config: LabelConfig,
        data: Sequence[CardData] = (),
    ) -> None:
        """`choices` are those of training and those of validation."""
        self.choices = choices
        self.rows_each = len(choices[0][0].endings)
        self._gold = [[_right(one) for one in side] for side in choices]
        common = commonest_place(self._gold[0])
        self.product = Chooser(model, tokenizer, max_tokens=config.max_tokens, commonest=common)
        train, held = (self.product.rows((one.first, one.endings) for one in side) for side in choices)
        super().__init__(
            model=model,
            tokenizer=tokenizer,
            train=train,
            validation=held,
            config=config,
            data=data,
            scored_on=f"validation, {number_of(len(choices[1]), 'example')}",
        )

    def outcome(self, outputs: Tensor, indices: Sequence[int], *, held: bool) -> Loss:
        """How sure the model is of the right ending, of all that stand behind a beginning."""
        gold = torch.tensor([self._gold[held][index] for index in indices], device=outputs.device)
        loss = F.cross_entropy(outputs.view(len(indices), self.rows_each), gold)
        return Loss(loss, loss.detach(), len(indices))

    def due(self, *, held: bool) -> bytes:
        return repr(self._gold[held]).encode()

    def evaluate(self) -> tuple[list[Score], list[Sample]]:
        chooser, held, gold = self.result(), self.choices[1], self._gold[1]
        found = chooser([(one.first, one.endings) for one in held])
        scores = score_choices([one.place for one in found], gold, chooser.commonest)
        order = sorted(range(len(held)), key=lambda n: (found[n].place == gold[n], n))[:SAMPLES]  # mistakes first
        return scores, [Sample(held[n].first, held[n].endings[gold[n]], found[n].text) for n in order]

    def traces(self, samples: Sequence[Sample]) -> list[tuple[str, Trace]]:
        one = self.choices[1][0]
        ending = one.endings[self._gold[1][0]]
        return [(f"{one.first} / {ending}"[:80], self.result().trace((one.first, ending)))]


def _right(choice: Choice) -> int:
    assert choice.right is not None, "what is learned from has labels"
    return choice.right


def make_chooser_model(settings: BertConfig, head: HeadConfig, *, seed: int) -> BertForSequence:
    """A fresh model with a fresh head, which says one number."""
    return fresh(lambda: BertForSequence(settings, 1), seed=seed)
