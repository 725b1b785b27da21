"""Translation: pairs of sentences → a `Translator`.

An example has a source and a target. Both become ids; the source ends with the end symbol, the target begins with
the start symbol and ends with the end symbol. The loss is the cross-entropy of each next target piece. The metrics
are BLEU and chrF. What a user holds afterwards is a `Translator`.
"""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import compress
from pathlib import Path
from typing import Any, NamedTuple, overload

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.checkpoint.card import CardData
from regard.config import from_dict, to_dict
from regard.data.batches import BatchPlan, token_batches
from regard.data.pairs import Pair
from regard.errors import DataError, FolderError, UsageError
from regard.generation.backend import translation_decoder
from regard.generation.search import Hypothesis, beam_search, stream
from regard.generation.settings import SearchConfig
from regard.generation.streaming import pieces
from regard.metrics.score import Score
from regard.metrics.translation import bleu, chrf
from regard.models.transformer import Transformer
from regard.models.transformer_settings import TransformerConfig
from regard.nn import masks
from regard.nn.dropout import generator
from regard.nn.loss import linear_cross_entropy
from regard.nn.packed import count_weights
from regard.nn.taps import Trace, capture
from regard.tasks.settings import TranslateConfig
from regard.tasks.task import FolderContents, Loss, Sample, SampleNames, Usage
from regard.text.piece_dropout import PieceDropout
from regard.text.tokenizer import Tokenizer
from regard.text.training import train_tokenizer

NAME = "translate"
TOKENIZER = "tokenizer.json"
SOURCE_TOKENIZER = "tokenizer.source.json"
TARGET_TOKENIZER = "tokenizer.target.json"
SCORED = 500  # validation pairs that the closing scores are measured on
VALIDATION_TOKENS = 8192


class Vocabularies(NamedTuple):
    """The tokenizers of both sides; with a joint vocabulary they are the same object."""

    source: Tokenizer
    target: Tokenizer

    @property
    def joint(self) -> bool:
        return self.source is self.target

    @classmethod
    def train(cls, pairs: Sequence[Pair], config: TranslateConfig) -> Vocabularies:
        sources, targets = [pair.source for pair in pairs], [pair.target for pair in pairs]
        try:
            if config.separate_vocabularies:
                return cls(_tokenizer(sources, config), _tokenizer(targets, config))
            both = _tokenizer(sources + targets, config)
        except UsageError as error:
            raise UsageError(f"--tokenizer {config.tokenizer} with --pieces {config.pieces}: {error}") from None
        return cls(both, both)

    def texts(self) -> dict[str, str]:
        """The files of a model folder."""
        if self.joint:
            return {TOKENIZER: self.source.to_json()}
        return {SOURCE_TOKENIZER: self.source.to_json(), TARGET_TOKENIZER: self.target.to_json()}

    def sizes(self) -> dict[str, int | None]:
        """The settings of a model that fits these vocabularies."""
        return {
            "vocab_size": self.target.vocab_size,
            "source_vocab_size": None if self.joint else self.source.vocab_size,
        }


def _tokenizer(texts: Sequence[str], config: TranslateConfig) -> Tokenizer:
    return train_tokenizer(texts, kind=config.tokenizer, vocab_size=config.pieces)


class Batch(NamedTuple):
    """Pairs as tensors. Padding stands at the end of the rows."""

    source: Tensor  # (B, S)
    source_lengths: Tensor  # (B,)
    target: Tensor  # (B, T), start symbol first: what the decoder reads
    next: Tensor  # (rows,), what it must say, at the real positions only
    real: Tensor  # (B · T,) places of the real positions


def make_batch(sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]], vocabularies: Vocabularies) -> Batch:
    """Ids of pairs, without special symbols → tensors."""
    source, source_lengths = pad([[*ids, vocabularies.source.end_id] for ids in sources], vocabularies.source.pad_id)
    start, end, padding = vocabularies.target.start_id, vocabularies.target.end_id, vocabularies.target.pad_id
    target, lengths = pad([[start, *ids] for ids in targets], padding)
    following, _ = pad([[*ids, end] for ids in targets], padding)
    real = (torch.arange(target.shape[1]) < lengths[:, None]).flatten().nonzero().squeeze(-1)
    return Batch(source, source_lengths, target, following.flatten()[real], real)


def pad(rows: Sequence[Sequence[int]], padding: int) -> tuple[Tensor, Tensor]:
    """Rows of ids → (rows, longest), filled up at the end; and their lengths."""
    lengths = torch.tensor([len(row) for row in rows])
    longest = int(lengths.max())
    return torch.tensor([[*row, *[padding] * (longest - len(row))] for row in rows]), lengths


class _OtherCuts:
    """Training pairs with their words cut into pieces in other ways. Batches are planned by the usual cut."""

    def __init__(self, pairs: Sequence[Pair], vocabularies: Vocabularies, config: TranslateConfig) -> None:
        self.max_length = config.max_length
        self.source = PieceDropout(vocabularies.source, config.piece_dropout)
        self.target = self.source if vocabularies.joint else PieceDropout(vocabularies.target, config.piece_dropout)
        self._words = [
            (vocabularies.source.words(pair.source), vocabularies.target.words(pair.target)) for pair in pairs
        ]

    def draw(self, index: int) -> tuple[list[int], list[int]] | None:
        """Ids of both sides of one pair; None where the pieces became too many."""
        source_words, target_words = self._words[index]
        source, target = self.source.draw(source_words, generator()), self.target.draw(target_words, generator())
        return (source, target) if max(len(source), len(target)) < self.max_length else None


class TranslateTask:
    """Training and validation pairs with a model that learns them."""

    name = NAME
    sample_names = SampleNames()
    counted = "target tokens"
    perplexes = True

    def __init__(
        self,
        *,
        model: Transformer,
        vocabularies: Vocabularies,
        train: Sequence[Pair],
        validation: Sequence[Pair],
        config: TranslateConfig,
        data: Sequence[CardData] = (),
        label_smoothing: float = 0.1,
        search: SearchConfig | None = None,
    ) -> None:
        self.model, self.vocabularies, self.config = model, vocabularies, config
        self.data = data
        self.label_smoothing = label_smoothing
        self.search = search or SearchConfig()
        self.summary = Translator.summary
        if model.config.positions == "learned" and config.max_length > model.config.max_positions:
            raise UsageError(
                f"pairs of up to {config.max_length} pieces do not fit {model.config.max_positions} learned positions: "
                f"give --max-length {model.config.max_positions}, or more --max-positions."
            )
        self._sources, self._targets, kept = self._encode(train)
        if not kept:
            raise DataError(f"every training pair is longer than {config.max_length} pieces; raise --max-length.")
        self._other_cuts = _OtherCuts(kept, vocabularies, config) if config.piece_dropout else None
        self._valid_sources, self._valid_targets, self.validation = self._encode(validation)
        if not self.validation:
            raise DataError(f"every validation pair is longer than {config.max_length} pieces; raise --max-length.")
        self.left_out = (len(train) - len(kept), len(validation) - len(self.validation))

    def _encode(self, pairs: Sequence[Pair]) -> tuple[list[list[int]], list[list[int]], list[Pair]]:
        """The ids of both sides, and the pairs that are short enough to be kept."""
        sources = self.vocabularies.source.encode_batch([pair.source for pair in pairs])
        targets = self.vocabularies.target.encode_batch([pair.target for pair in pairs])
        short = [max(len(s), len(t)) < self.config.max_length for s, t in zip(sources, targets, strict=True)]
        return list(compress(sources, short)), list(compress(targets, short)), list(compress(pairs, short))

    def examples(self) -> str:
        """How many training examples there are, and a checksum of what the model reads of them."""
        digest = hashlib.sha256()
        for ids in (*self._sources, *self._targets):
            digest.update(array("i", [len(ids), *ids]).tobytes())
        return f"{len(self._sources):,} pairs, checksum {digest.hexdigest()[:12]}"

    def lengths(self) -> list[tuple[int, int]]:
        return [self.size(index) for index in range(len(self._sources))]

    def size(self, index: int) -> tuple[int, int]:
        return len(self._sources[index]) + 1, len(self._targets[index]) + 1

    def batches(self, plan: BatchPlan, epoch: int) -> list[list[int]]:
        return plan.batches(self.lengths(), epoch)

    def loss(self, indices: Sequence[int]) -> Loss:
        rows = [(self._sources[i], self._targets[i]) for i in indices]
        if self._other_cuts and self.model.training:
            rows = [self._other_cuts.draw(i) or usual for i, usual in zip(indices, rows, strict=True)]
        sources, targets = [source for source, _ in rows], [target for _, target in rows]
        batch = make_batch(sources, targets, self.vocabularies)
        if self.config.word_dropout and self.model.training:
            batch = batch._replace(target=self._hide(batch.target))
        return self._loss(batch, self.label_smoothing)

    def _hide(self, target: Tensor) -> Tensor:
        """What the decoder reads, with some pieces unknown to it; never the start symbol."""
        hidden = torch.rand(target.shape, generator=generator()) < self.config.word_dropout
        hidden[:, 0] = False
        vocabulary = self.vocabularies.target
        unknown_id = vocabulary.pad_id if vocabulary.unknown_id is None else vocabulary.unknown_id
        return target.masked_fill(hidden, unknown_id)

    def _loss(self, batch: Batch, smoothing: float) -> Loss:
        device = self.model.output_weight.device
        batch = Batch(*(tensor.to(device) for tensor in batch))
        keep = masks.lengths(batch.source_lengths)
        memory = self.model.encode(batch.source, keep)
        hidden = self.model.decode(batch.target, memory, keep).flatten(0, 1)[batch.real]
        smooth, plain = linear_cross_entropy(
            hidden, self.model.output_weight, batch.next, bias=self.model.output_bias, smoothing=smoothing
        )
        return Loss(smooth, plain, len(batch.next))

    @torch.no_grad()
    def validation_loss(self) -> float:
        total, tokens = 0.0, 0
        lengths = [(len(s) + 1, len(t) + 1) for s, t in zip(self._valid_sources, self._valid_targets, strict=True)]
        for rows in token_batches(lengths, max_tokens=VALIDATION_TOKENS, seed=0, epoch=0, shuffle=False):
            sources, targets = [self._valid_sources[i] for i in rows], [self._valid_targets[i] for i in rows]
            loss = self._loss(make_batch(sources, targets, self.vocabularies), 0.0)
            total, tokens = total + float(loss.plain) * loss.tokens, tokens + loss.tokens
        return total / max(tokens, 1)

    def translator(self) -> Translator:
        return Translator(self.model, self.vocabularies, search=self.search)

    @property
    def scored_on(self) -> str:
        """What the scores of `evaluate` are measured on."""
        count = len(self.validation)
        return "validation" if count <= SCORED else f"validation, the first {SCORED:,} of {count:,} pairs"

    def evaluate(self) -> tuple[list[Score], list[Sample]]:
        pairs = self.validation[:SCORED]
        outputs = [t.text for t in self.translator()([pair.source for pair in pairs])]
        references = [pair.target for pair in pairs]
        samples = [Sample(p.source, p.target, o) for p, o in zip(pairs[:20], outputs, strict=False)]
        return [bleu(outputs, references), chrf(outputs, references)], samples

    def traces(self, samples: Sequence[Sample]) -> list[tuple[str, Trace]]:
        return [(one.source, self.translator().trace(one.source)) for one in samples[:2] if one.output]

    def result(self) -> Translator:
        return self.translator()

    def contents(self) -> FolderContents:
        return self.translator().contents()

    def describe(self) -> str:
        config = self.model.config
        parameters = count_weights(self.model)
        return (
            f"model: {parameters / 1e6:.2f} M parameters, {config.encoder_layers}+{config.decoder_layers} layers, "
            f"width {config.width}, {self.vocabularies.target.vocab_size:,} pieces; "
            f"data: {len(self._sources):,} training and {len(self.validation):,} validation pairs"
        )

    def settings(self) -> dict[str, Any]:
        return {**to_dict(self.model.config), **to_dict(self.config)}

    def answering(self) -> dict[str, Any]:
        return to_dict(self.search)

    def usage(self, folder: Path) -> Usage:
        return self.translator().usage(folder)


@dataclass(frozen=True)
class Translation:
    """A translation with how sure the model was of each piece."""

    text: str
    score: float  # log-probability after the length penalty: what the search ranks by
    tokens: tuple[str, ...]  # pieces, the end symbol included
    log_probs: tuple[float, ...]  # one for each piece
    ids: tuple[int, ...] = ()  # of the pieces, without the end symbol
    ended: bool = True  # False if the longest length cut it off
    alternatives: tuple[Translation, ...] = ()  # the rest of the n best

    def __str__(self) -> str:
        return self.text


class Translator:
    """Takes text, returns translations. Does not train."""

    task = NAME
    summary = "Translates sentences: text of one language in, text of the other out."

    def __init__(
        self,
        model: Transformer,
        vocabularies: Vocabularies,
        *,
        search: SearchConfig | None = None,
        start_id: int | None = None,  # what the decoder reads first, if not the start symbol
        forbidden_ids: Sequence[int] = (),  # pieces that are never written, besides padding and start
    ) -> None:
        self.model, self.vocabularies = model.eval(), vocabularies
        self.forbidden_ids = tuple(forbidden_ids)
        self.search = search or SearchConfig()
        self.start_id = vocabularies.target.start_id if start_id is None else start_id

    @overload
    def __call__(self, text: str, **search: Any) -> Translation: ...

    @overload
    def __call__(self, text: Sequence[str], **search: Any) -> list[Translation]: ...

    def __call__(self, text: str | Sequence[str], **search: Any) -> Translation | list[Translation]:
        """Translate one text, or many. `search` overrides `beams`, `length_penalty`, `n_best` …"""
        if isinstance(text, str):
            return self._translate([text], search)[0]
        return self._translate(list(text), search)

    def _translate(self, texts: list[str], overrides: dict[str, Any], batch_tokens: int = 2048) -> list[Translation]:
        search = from_dict(SearchConfig, {**to_dict(self.search), **overrides})
        ids = [self._source_ids(text) for text in texts]
        found: dict[int, Translation] = {}
        rows = [i for i, source in enumerate(ids) if len(source) > 1]
        for blank in set(range(len(ids))) - set(rows):
            found[blank] = Translation("", 0.0, (), ())  # nothing to translate
        batches = token_batches([len(ids[i]) for i in rows], max_tokens=batch_tokens, seed=0, epoch=0, shuffle=False)
        steps = sum(max(len(ids[rows[i]]) for i in batch) for batch in batches)  # a target is about as long
        for batch in batches:
            chosen = [rows[i] for i in batch]
            source, lengths = self._tensors([ids[i] for i in chosen])
            decoder = translation_decoder(
                self.model, start_id=self.start_id, steps=steps, rows=len(chosen) * search.beams
            )
            results = beam_search(decoder, source, lengths, end_id=self.end_id, forbidden_ids=self.never, config=search)
            for i, hypotheses in zip(chosen, results, strict=True):
                best, *others = [self._translation(hypothesis) for hypothesis in hypotheses]
                found[i] = replace(best, alternatives=tuple(others))
        return [found[i] for i in range(len(texts))]

    def stream(self, text: str, **search: Any) -> Iterator[str]:
        """The greedy translation, a piece of text at a time, as it is written."""
        config = from_dict(SearchConfig, {**to_dict(self.search), **search})
        ids = self._source_ids(text)
        if len(ids) == 1:  # nothing to translate
            return
        source, lengths = self._tensors([ids])
        decoder = translation_decoder(self.model, start_id=self.start_id, steps=len(ids))
        chosen = stream(decoder, source, lengths, end_id=self.end_id, forbidden_ids=self.never, config=config)
        yield from pieces(self.vocabularies.target.decode, (id_ for id_, _ in chosen))

    def trace(self, text: str, target: str | Translation | None = None, *, grad: bool = False) -> Trace:
        """All attention of one translation, by one pass over the whole target: the model's own, or the one given.

        A `Translation` is looked at piece by piece as it was written, a text as the vocabulary cuts it.
        """
        source_ids = self._source_ids(text)
        target_ids = self._target_ids(self(text) if target is None else target)
        tokens = {
            "encoder": [self.vocabularies.source.tokens(source_ids)],
            "decoder": [self.vocabularies.target.tokens(target_ids)],
        }
        with torch.set_grad_enabled(grad), capture(self.model, tokens=tokens, grad=grad) as trace:
            source, _ = self._tensors([source_ids])
            self.model(source, torch.tensor([target_ids], device=source.device))
        return trace

    @torch.no_grad()
    def loss(self, text: str, target: str | Translation) -> float:
        """How surprising a translation of `text` is: mean cross-entropy of its pieces and its end, in nats."""
        read = self._target_ids(target)
        ended = isinstance(target, str) or target.ended
        following = [*self._pieces(target), *([self.end_id] if ended else [])][: len(read)]
        source, _ = self._tensors([self._source_ids(text)])
        logits = self.model(source, torch.tensor([read[: len(following)]], device=source.device))[0]
        return float(F.cross_entropy(logits, torch.tensor(following, device=source.device)))

    def contents(self) -> FolderContents:
        config = {
            "regard": {"task": NAME, "format": 1},
            "model_type": "regard-transformer",
            "model": to_dict(self.model.config),
            "search": to_dict(self.search),
            "start_id": self.start_id,
            "forbidden_ids": list(self.forbidden_ids),
        }
        return FolderContents(config=config, texts=self.vocabularies.texts())

    def usage(self, folder: Path) -> Usage:
        return Usage(
            command=f'regard translate {folder} "…"\nregard look {folder} "…" --out look.html',
            python=f'import regard\n\ntranslator = regard.load("{folder.as_posix()}")\ntranslator("…").text',
            pipeline="translation",
        )

    @property
    def end_id(self) -> int:
        return self.vocabularies.target.end_id

    @property
    def never(self) -> tuple[int, ...]:
        """Pieces that are never written."""
        target = self.vocabularies.target
        return tuple({target.pad_id, self.start_id, *self.forbidden_ids} - {target.end_id})

    def _tensors(self, ids: Sequence[Sequence[int]]) -> tuple[Tensor, Tensor]:
        """Padded ids and their lengths, where the model lives."""
        source, lengths = pad(ids, self.vocabularies.source.pad_id)
        device = self.model.output_weight.device
        return source.to(device), lengths.to(device)

    def _source_ids(self, text: str) -> list[int]:
        if not isinstance(text, str):
            raise UsageError(f"a text to translate must be a str, not {type(text).__name__}.")
        # Training drops white space around a sentence, so the model has never seen any.
        return [*self.vocabularies.source.encode(text.strip()), self.vocabularies.source.end_id]

    def _target_ids(self, target: str | Translation) -> list[int]:
        """What the decoder reads of a translation: the start symbol and the pieces."""
        ids = [self.start_id, *self._pieces(target)]
        if self.model.config.positions == "learned":  # a translation that was cut off has one piece too many
            ids = ids[: self.model.config.max_positions]
        return ids

    def _pieces(self, target: str | Translation) -> Sequence[int]:
        """The ids of a translation: as they were written, or as the vocabulary cuts a text."""
        return self.vocabularies.target.encode(target) if isinstance(target, str) else target.ids

    def _translation(self, hypothesis: Hypothesis) -> Translation:
        target = self.vocabularies.target
        ids = [*hypothesis.ids, target.end_id] if hypothesis.ended else list(hypothesis.ids)
        return Translation(
            text=target.decode(hypothesis.ids),
            score=hypothesis.score,
            tokens=tuple(target.tokens(ids)),
            log_probs=hypothesis.token_log_probs,
            ids=hypothesis.ids,
            ended=hypothesis.ended,
        )

    def __repr__(self) -> str:
        parameters = count_weights(self.model)
        config = self.model.config
        return (
            f"Translator({parameters / 1e6:.1f} M parameters, {config.encoder_layers}+{config.decoder_layers} layers, "
            f"width {config.width}, {self.vocabularies.target.vocab_size:,} pieces)"
        )


def make_model(vocabularies: Vocabularies, settings: dict[str, Any], *, seed: int) -> Transformer:
    """A fresh model that fits the vocabularies; the same seed gives the same weights."""
    config = from_dict(TransformerConfig, {**settings, **vocabularies.sizes()})
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return Transformer(config)


def check_fit(model: Transformer, vocabularies: Vocabularies) -> None:
    """The weights must have a row for every piece."""
    config = model.config
    for side, tokenizer, rows in (
        ("source", vocabularies.source, config.source_vocab_size or config.vocab_size),
        ("target", vocabularies.target, config.vocab_size),
    ):
        if tokenizer.vocab_size > rows:
            raise FolderError(
                f"the {side} tokenizer has {tokenizer.vocab_size:,} pieces, but the weights have {rows:,} rows: "
                f"tokenizer and weights are not of the same model."
            )
