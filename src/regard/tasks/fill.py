"""Filling gaps: plain text → a `Filler`. This is how BERT learns before it is taught a task.

An example is a row of text, usually two stretches of it: some words are hidden, and the second stretch follows the
first or comes from another document. The loss is the cross-entropy of the hidden words plus that of "does it follow?".
The metrics are the share of hidden words that are guessed, beside what guessing without a model achieves, and the share
of pairs that are told rightly. What a user holds afterwards is a `Filler`.
"""

from __future__ import annotations

import hashlib
import re
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor

from regard.checkpoint.card import CardData
from regard.config import from_dict, to_dict
from regard.data.batches import BatchPlan
from regard.data.corpus import Ids
from regard.data.documents import Documents
from regard.data.masking import Rates
from regard.data.sentence_pairs import ALONE, Rows, plan_rows
from regard.errors import UsageError
from regard.metrics.guessing import COUNTED, Guesser
from regard.metrics.score import Score
from regard.models.bert import DEVIATION, BertForPretraining
from regard.models.bert_settings import BertConfig, HeadConfig
from regard.nn.neighbours import neighbour_vectors
from regard.nn.packed import count_weights
from regard.nn.positions import sinusoids
from regard.nn.taps import Trace
from regard.tasks.embed import Embedder
from regard.tasks.gaps import Gaps, HeldOut, Read, read_rows, sentence_logits, word_head, word_loss
from regard.tasks.labelling import Row, as_inputs, frame_pairs, fresh, require_two_segments
from regard.tasks.settings import EmbedConfig, FillConfig
from regard.tasks.task import FolderContents, Loss, Sample, SampleNames, Usage
from regard.text.tokenizer import Tokenizer

NAME = "fill"
SCORED = 1 << 15  # held-out tokens that the loss along the way is measured on
SAMPLES = 6  # held-out sentences for the report
WAVE = 0.3  # of fresh positions: as large as what pieces grow to within some dozens of steps
COMPANY = 0.2  # of fresh pieces: beside larger waves they would not be seen
SLOWLY = 0.02  # the part of the rate at which places learn
TOP = 5  # likeliest words that are named
NEARLY = re.compile(r"<mask>|\[\s*mask\s*\]|\{mask\}|\(mask\)|\[blank\]|_{2,}", re.IGNORECASE)  # meant for a mask


class FillTask:
    """Training and validation text with a model that learns to fill gaps in it."""

    name = NAME
    sample_names = SampleNames("Text with a gap", "What stood there", "The likeliest words", compared=False)
    counted = "hidden pieces"
    perplexes = True

    def __init__(
        self,
        *,
        model: BertForPretraining,
        tokenizer: Tokenizer,
        train: Documents,
        validation: Documents,
        config: FillConfig,
        data: Sequence[CardData] = (),
    ) -> None:
        self.model, self.tokenizer, self.config, self.data = model, tokenizer, config, data
        self.summary = Filler.summary
        self.train, self.validation = train, validation
        self.gaps = Gaps(train, tokenizer, config.whole_words)
        self.vocabulary = self.gaps.vocabulary
        self.window = config.window or model.config.context
        if self.window > model.config.context:
            raise UsageError(
                f"window {self.window} is more than the model sees at once: {model.config.context} tokens."
            )
        self.seed = 0
        self.epoch = 0
        self.rows = Rows.empty()
        self.rates = Rates()
        self._counting = threading.Lock()
        self.held = HeldOut(
            validation,
            tokenizer,
            window=self.window,
            pairs=model.follows is not None,
            whole_words=config.whole_words,
        )

    def examples(self) -> str:
        """How many tokens there are, and a checksum of their beginning and end."""
        ids = self.train.ids
        digest = hashlib.sha256(ids[: 1 << 20].tobytes() + ids[-(1 << 20) :].tobytes())
        return f"{len(ids):,} tokens in {len(self.train):,} documents, checksum {digest.hexdigest()[:12]}"

    def batches(self, plan: BatchPlan, epoch: int) -> Sequence[Sequence[int]]:
        """The rows of an epoch; `loss` speaks of these until other batches are asked for."""
        pairs = self.model.follows is not None
        self.rows = plan_rows(self.train, window=self.window, seed=plan.seed, epoch=epoch, pairs=pairs)
        self.seed, self.epoch = plan.seed, epoch
        return plan.batches(self.rows.lengths, epoch)  # type: ignore[arg-type]

    def size(self, index: int) -> tuple[int, int]:
        length = int(self.rows.first[index, 1] - self.rows.first[index, 0])
        return length + int(self.rows.second[index, 1] - self.rows.second[index, 0]), 0

    def loss(self, indices: Sequence[int]) -> Loss:
        numbers = np.asarray(indices, dtype=np.int64)
        table, masked = self.gaps.rows(self.rows, numbers, seed=self.seed, epoch=self.epoch)
        with self._counting:
            self.rates.add(Rates.count(table.ids, masked, self.vocabulary, table.follows))
        found = read_rows(self.model, table, masked.ids)
        places = torch.from_numpy(np.flatnonzero(masked.chosen)).to(found.hidden.device)
        words = word_loss(self.model, found, places)
        sentences = self._sentence_loss(found)
        return Loss(words if sentences is None else words + sentences, words.detach(), max(1, len(places)))

    def _sentence_loss(self, found: Read) -> Tensor | None:
        asked = np.flatnonzero(found.follows != ALONE)
        if self.model.follows is None or not len(asked):
            return None
        return F.cross_entropy(*sentence_logits(self.model, found, asked))

    # Held-out text ------------------------------------------------------------------------------------------

    def validation_loss(self) -> float:
        """Mean cross-entropy of the words that were chosen, masked or not, as in training."""
        return self.held.loss(self.model, most=SCORED)

    @property
    def scored_on(self) -> str:
        """What the scores of `evaluate` are measured on."""
        return f"validation, {len(self.validation.ids):,} tokens"

    def evaluate(self) -> tuple[list[Score], list[Sample]]:
        scores = self.held.guess(self.model).beside(Guesser.learn(self.train.ids, self.tokenizer.vocab_size))
        if self.rates.tokens:
            chosen = 100 * self.rates.chosen / self.rates.tokens
            scores.append(
                Score("chosen words", chosen, f"in %, counted in training since its last start: {self.rates}")
            )
        return scores, self._samples()

    def _samples(self) -> list[Sample]:
        """Held-out sentences with one word hidden, and the likeliest words for it."""
        filler, documents = self.filler(), self.validation
        name = filler.mask
        samples = []
        for number in np.linspace(0, documents.num_sentences - 1, SAMPLES).astype(int).tolist():
            ids = documents.ids[documents.sentences[number] : documents.sentences[number + 1]].tolist()
            possible = [place for place, id_ in enumerate(ids) if self.vocabulary.is_ordinary[id_]]
            if not possible:
                continue
            place = possible[len(possible) // 2]
            [before, word, after] = [
                self.tokenizer.decode(part) for part in (ids[:place], [ids[place]], ids[place + 1 :])
            ]
            text = f"{before} {name} {after}".strip()
            [best] = filler.fill(text).masks
            samples.append(Sample(text, word, ", ".join(f"{one.word} {one.probability:.0%}" for one in best)))
        return samples

    def traces(self, samples: Sequence[Sample]) -> list[tuple[str, Trace]]:
        """The attention over the first sample."""
        return [(sample.source[:80], self.filler().trace(sample.source)) for sample in samples[:1]]

    def filler(self) -> Filler:
        return Filler(self.model, self.tokenizer)

    def result(self) -> Filler:
        return self.filler()

    def contents(self) -> FolderContents:
        return self.filler().contents()

    def describe(self) -> str:
        config, train = self.model.config, self.train
        return (
            f"model: {count_weights(self.model) / 1e6:.2f} M parameters, {config.layers} layers, width {config.width}, "
            f"context {config.context}, {self.tokenizer.vocab_size:,} pieces; data: {train.words:,} words, "
            f"{len(train.ids):,} pieces in {train.num_sentences:,} sentences of {len(train):,} documents for training, "
            f"{len(self.validation.ids):,} pieces for validation"
        )

    def settings(self) -> dict[str, Any]:
        return {**to_dict(self.model.config), **to_dict(self.config)}

    def answering(self) -> dict[str, Any]:
        return {}

    def usage(self, folder: Path) -> Usage:
        return self.filler().usage(folder)


@dataclass(frozen=True)
class Guess:
    """A word for a gap."""

    word: str
    probability: float


@dataclass(frozen=True)
class Filled:
    """A text with gaps, and the likeliest words for each of them, the likeliest first."""

    text: str
    masks: tuple[tuple[Guess, ...], ...]
    best: str  # the text with the likeliest word in every gap
    is_cut: bool = False  # whether the text was too long, so that only what stands near a gap was read

    def __str__(self) -> str:
        return self.best


class Filler(Embedder):
    """Takes text with gaps, says what could stand there; embeds texts, too. Does not train."""

    task = NAME
    summary = "A BERT encoder that guesses words which are missing in a text."
    model: BertForPretraining

    def __init__(self, model: BertForPretraining, tokenizer: Tokenizer, *, config: EmbedConfig | None = None) -> None:
        word_head(model)
        head = HeadConfig(kind="words" if model.follows is None else "words-follows")
        super().__init__(model, tokenizer, head=head, config=config)

    @property
    def mask(self) -> str:
        """What stands for a missing word in a text."""
        return self.tokenizer.symbols.mask or "[MASK]"

    def __call__(self, text: str, *, top: int = TOP) -> Filled:  # type: ignore[override]
        """What it is made for: the same as `fill`."""
        return self.fill(text, top=top)

    def fill(self, text: str, *, top: int = TOP) -> Filled:
        """The `top` likeliest words for every [MASK] of a text; each is guessed as if alone."""
        if top < 1:
            raise UsageError(f"the number of words must be at least 1, not {top}.")
        parts = self._parts(text)
        found, is_cut = self._probabilities(parts)
        masks = []
        for row in found:
            best = row.topk(min(top, len(row)))
            words = self.tokenizer.tokens(best.indices.tolist())
            masks.append(tuple(Guess(word, p) for word, p in zip(words, best.values.tolist(), strict=True)))
        return Filled(text, tuple(masks), self._put_in(parts, [row.argmax().item() for row in found]), is_cut)

    def probabilities(self, text: str) -> npt.NDArray[np.float32]:
        """For every [MASK] the probability of every piece of the vocabulary: (masks, N), each row sums to 1."""
        found, _ = self._probabilities(self._parts(text))
        return found.cpu().numpy()

    def _parts(self, text: str) -> list[list[int]]:
        """The ids of what stands before, between and after the gaps."""
        if not isinstance(text, str):
            raise UsageError(f"a text with a gap must be a str, not {type(text).__name__}.")
        parts = text.split(self.mask)
        if len(parts) == 1:
            meant = NEARLY.search(text)
            advice = (
                f"write {self.mask} where it says {meant.group()}"
                if meant
                else f'put it where a word is missing, as in "The cat {self.mask} on the mat."'
            )
            raise UsageError(f"there is no {self.mask} in the text: {advice}.")
        return self.tokenizer.encode_batch(parts)

    def _row(self, parts: Sequence[Sequence[int]]) -> tuple[list[int], list[int]]:
        """The text as one row of ids without the symbols around it, and where its gaps are."""
        ids, gaps = list(parts[0]), []
        for part in parts[1:]:
            gaps.append(len(ids))
            ids += [self.tokenizer.mask_id, *part]
        return ids, gaps

    @torch.no_grad()
    def _probabilities(self, parts: Sequence[Sequence[int]]) -> tuple[Tensor, bool]:
        """(gaps, N), and whether the text had to be cut: then each gap is read with what is around it."""
        ids, gaps = self._row(parts)
        room = self.bert.config.context - 2
        is_cut = len(ids) > room
        found = []
        for row, places in self._stretches(ids, gaps, room):
            hidden = self.bert(torch.tensor([row], device=self._device))[0]
            logits = word_head(self.model)(hidden[places], self.bert.embedding.weight)
            found.append(logits[:, : self.tokenizer.vocab_size].softmax(dim=-1))
        return torch.cat(found), is_cut

    def _stretches(self, ids: list[int], gaps: list[int], room: int) -> Iterator[tuple[list[int], list[int]]]:
        """Rows as the model reads them, each with the places of its gaps."""
        start, end = self.tokenizer.start_id, self.tokenizer.end_id
        if len(ids) <= room:
            yield [start, *ids, end], [gap + 1 for gap in gaps]
            return
        for gap in gaps:
            first = min(max(0, gap - room // 2), len(ids) - room)
            yield [start, *ids[first : first + room], end], [gap - first + 1]

    def _put_in(self, parts: Sequence[Sequence[int]], words: Sequence[int | float]) -> str:
        ids, gaps = self._row(parts)
        for gap, word in zip(gaps, words, strict=True):
            ids[gap] = int(word)
        return self.tokenizer.decode(ids)

    @torch.no_grad()
    def follows(self, first: str, second: str) -> float:
        """How likely the second text follows the first, from 0 to 1."""
        if self.model.follows is None:
            raise UsageError("this model never learned which text follows another: it was trained on words alone.")
        require_two_segments(self.bert.config)
        rows = frame_pairs(self.tokenizer, [(first, second)], self.bert.config.context)
        hidden = self.bert(*as_inputs(rows, self.tokenizer.pad_id, self._device))
        return float(self.model.follows(self.bert.pool(hidden)).softmax(dim=-1)[0, 0])

    def row(self, text: str | tuple[str, str]) -> Row:
        """A text, or two, with gaps or without; of a long text alone, what is near its first gap."""
        if not isinstance(text, str):
            return super().row(text)
        ids, gaps = self._row(self.tokenizer.encode_batch(text.split(self.mask)))
        row, _ = next(self._stretches(ids, gaps or [0], self.bert.config.context - 2))
        return Row(row, len(row))

    def ids(self, text: str) -> list[int]:
        return self._row(self.tokenizer.encode_batch(text.split(self.mask)))[0]

    def usage(self, folder: Path) -> Usage:
        return Usage(
            command=f'regard fill {folder} "The cat {self.mask} on the mat."',
            python=(
                f'import regard\n\nfiller = regard.load("{folder.as_posix()}")\n'
                f'filler.fill("The cat {self.mask} on the mat.").masks'
            ),
            pipeline="fill-mask",
        )


def fresh_bert(
    tokenizer: Tokenizer, settings: dict[str, Any], *, next_sentence: bool, seed: int, ids: Ids | None = None
) -> BertForPretraining:
    """A fresh model that fits the tokenizer; the same seed gives the same weights.

    It need not learn what is known. Positions begin as waves, in which a step to the next word is the same turn
    everywhere; from random vectors each would have to find its neighbours for itself. If the `ids` of a text are given,
    it knows how frequent each piece is, and pieces that stand in like company begin with like vectors.
    """
    config = from_dict(BertConfig, {**settings, "vocab_size": tokenizer.vocab_size})
    model = fresh(lambda: BertForPretraining(config, follows=next_sentence), seed=seed)
    with torch.no_grad():
        if config.width % 2 == 0:
            model.bert.embedding.positions.weight.copy_(WAVE * sinusoids(config.context, config.width))
        if ids is not None:
            text, head = np.asarray(ids[:COUNTED]), word_head(model)
            frequencies = torch.from_numpy(np.log(np.bincount(text, minlength=config.vocab_size) + 1))
            head.bias.copy_(frequencies - frequencies.mean())
            company = neighbour_vectors(text, config.vocab_size, config.width)
            model.bert.embedding.weight.add_(COMPANY * config.width**0.5 * company)
            # The table is larger now, but nothing is known of hidden words yet.
            for parameter in head.norm.parameters():
                parameter.mul_(DEVIATION / COMPANY)
    return model


def place_rates(model: BertForPretraining) -> dict[Tensor, float]:
    """The parts of the rate at which tables of places learn.

    Every step touches all of them, and steps as long as those of pieces would wash the waves away before attention has
    learned to use them: the model would guess frequent words for a long time.
    """
    embedding = model.bert.embedding
    return {embedding.positions.weight: SLOWLY, embedding.segments.weight: SLOWLY}
