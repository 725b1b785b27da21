"""Writing: plain text → a `Writer`.

An example is a window of the text; every position says which token comes next. The loss is the cross-entropy of
these. The metrics are perplexity and bits per byte, which compares models with different tokens. What a user holds
afterwards is a `Writer`.
"""

from __future__ import annotations

import hashlib
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, overload

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from regard.checkpoint.card import CardData
from regard.config import from_dict, to_dict
from regard.data.batches import BatchPlan
from regard.data.corpus import Ids, WindowBatches, windows
from regard.errors import DataError, UsageError
from regard.generation.backend import gpt_decoder
from regard.generation.search import Hypothesis, beam_search
from regard.generation.settings import SamplingConfig, SearchConfig
from regard.generation.streaming import StoppingStream, behind
from regard.generation.suggesting import Pieces, Suggestion, suggest
from regard.generation.writing import GuessingDecoder, Writing, ending, write
from regard.metrics.score import Score
from regard.models.gpt import GPT
from regard.models.gpt_settings import GPTConfig
from regard.nn.loss import linear_cross_entropy
from regard.nn.packed import count_weights
from regard.nn.taps import Trace, capture
from regard.tasks.settings import GenerateConfig
from regard.tasks.task import FolderContents, Loss, Sample, SampleNames, Usage
from regard.text.tokenizer import Tokenizer

NAME = "generate"
TOKENIZER = "tokenizer.json"
VALIDATION_TOKENS = 1 << 13  # read at a time: more would only take more memory
WATCHED = 1 << 15  # validation tokens that the loss along the way is measured on: more would cost training its time
SCORED_TOGETHER = 1 << 12  # tokens of a text that are scored in one pass
BYTES_COUNTED = 1 << 20  # tokens whose bytes are counted at a time
SAMPLES = 4  # continuations for the report
BEHIND = 16  # characters of a prompt that new text is decoded behind


class GenerateTask:
    """Training and validation text with a model that learns it."""

    name = NAME
    sample_names = SampleNames("Text so far", "How the text goes on", "How the model goes on", compared=False)
    counted = "tokens"
    perplexes = True

    def __init__(
        self,
        *,
        model: GPT,
        tokenizer: Tokenizer,
        train: Ids,
        validation: Ids,
        config: GenerateConfig,
        data: Sequence[CardData] = (),
        sampling: SamplingConfig | None = None,
    ) -> None:
        self.model, self.tokenizer, self.config, self.data = model, tokenizer, config, data
        self.summary = Writer.summary
        self.train, self.validation = train, validation
        self.sampling = sampling or SamplingConfig()
        self.window = config.window or model.config.context
        if self.window > model.config.context:
            raise UsageError(
                f"window {self.window} is more than the model sees at once: {model.config.context} tokens."
            )
        for ids, what in ((train, "training"), (validation, "validation")):
            if len(ids) <= self.window:
                setting = "context" if config.window is None else "window"
                raise DataError(
                    f"the {what} text has {len(ids):,} tokens, too few for a {setting} of {self.window}: it takes at "
                    f"least {self.window + 1:,}. Give a longer text or a shorter --{setting}."
                )

    def examples(self) -> str:
        """How many tokens there are, and a checksum of their beginning and end."""
        digest = hashlib.sha256(self.train[: 1 << 20].tobytes() + self.train[-(1 << 20) :].tobytes())
        return f"{len(self.train):,} tokens, checksum {digest.hexdigest()[:12]}"

    def batches(self, plan: BatchPlan, epoch: int) -> WindowBatches:
        starts = windows(len(self.train), context=self.window, seed=plan.seed, epoch=epoch)
        rows = max(1, plan.max_tokens // self.window)
        return WindowBatches(starts, rows, rank=plan.rank, world_size=plan.world_size)

    def size(self, index: int) -> tuple[int, int]:
        return self.window, self.window

    def loss(self, indices: Sequence[int]) -> Loss:
        found = self._loss(*self._windows(self.train, indices))
        return Loss(found, found.detach(), len(indices) * self.window)

    def _windows(self, ids: Ids, starts: Sequence[int]) -> tuple[Tensor, Tensor]:
        """What is read and what comes next, both (rows, context)."""
        rows = np.stack([ids[start : start + self.window + 1] for start in starts]).astype(np.int64)
        both = torch.from_numpy(rows).to(self.model.output_weight.device)
        return both[:, :-1], both[:, 1:]

    def _loss(self, ids: Tensor, following: Tensor) -> Tensor:
        hidden = self.model.decode(ids).flatten(0, 1)
        if self.model.config.logit_cap is not None:
            return F.cross_entropy(self.model.logits(hidden), following.flatten())
        return linear_cross_entropy(hidden, self.model.output_weight, following.flatten(), smoothing=0.0)[0]

    def validation_loss(self) -> float:
        return self.text_loss(self.validation, most=WATCHED)

    @torch.no_grad()
    def text_loss(self, ids: Ids, *, most: int | None = None) -> float:
        """Mean cross-entropy of a text in windows that do not overlap, every position of them scored.

        Of a text of more than `most` tokens windows at even distances are taken.
        """
        starts = range(0, len(ids) - self.window, self.window)
        if most is not None:
            starts = starts[:: max(1, -(-len(starts) * self.window // most))]
        rows = max(1, VALIDATION_TOKENS // self.window)
        total = 0.0
        for first in range(0, len(starts), rows):
            part = starts[first : first + rows]
            total += self._loss(*self._windows(ids, part)).item() * len(part)
        return total / len(starts)

    def writer(self) -> Writer:
        return Writer(self.model, self.tokenizer, sampling=self.sampling)

    @property
    def scored_on(self) -> str:
        """What the scores of `evaluate` are measured on."""
        return f"validation, {len(self.validation):,} tokens"

    def evaluate(self) -> tuple[list[Score], list[Sample]]:
        loss = self.text_loss(self.validation)
        tokens_per_byte = len(self.validation) / max(1, self._num_bytes(self.validation))
        scores = [
            Score("perplexity", math.exp(min(loss, 50)), f"per token, windows of {self.window}"),
            Score("bits per byte", loss / math.log(2) * tokens_per_byte, f"windows of {self.window}"),
        ]
        return scores, self._samples()

    def _num_bytes(self, ids: Ids) -> int:
        """Bytes of the text of many ids, of which a stretch is in memory at a time."""
        stretches = (ids[start : start + BYTES_COUNTED].tolist() for start in range(0, len(ids), BYTES_COUNTED))
        return sum(len(self.tokenizer.decode(stretch).encode("utf-8")) for stretch in stretches)

    def _samples(self) -> list[Sample]:
        """How the model goes on from places in the validation text."""
        writer, half = self.writer(), self.window // 2
        places = [round(i * (len(self.validation) - self.window) / SAMPLES) for i in range(SAMPLES)]
        prompts = [self.tokenizer.decode(self.validation[p : p + half].tolist()) for p in places]
        real = [self.tokenizer.decode(self.validation[p + half : p + self.window].tolist()) for p in places]
        written = writer(prompts, max_new_tokens=max(1, half), seed=0)
        return [Sample(p, r, w.text) for p, r, w in zip(prompts, real, written, strict=True)]

    def traces(self, samples: Sequence[Sample]) -> list[tuple[str, Trace]]:
        """The attention over the end of the first prompt."""
        prompt = samples[0].source[-200:]
        return [(" ".join(prompt.split())[:80], self.writer().trace(prompt))]

    def result(self) -> Writer:
        return self.writer()

    def contents(self) -> FolderContents:
        return self.writer().contents()

    def describe(self) -> str:
        config = self.model.config
        parameters = count_weights(self.model)
        return (
            f"model: {parameters / 1e6:.2f} M parameters, {config.layers} layers, width {config.width}, context "
            f"{config.context}, {self.tokenizer.vocab_size:,} tokens; data: {len(self.train):,} training and "
            f"{len(self.validation):,} validation tokens"
        )

    def settings(self) -> dict[str, Any]:
        return {**to_dict(self.model.config), **to_dict(self.config)}

    def answering(self) -> dict[str, Any]:
        return to_dict(self.sampling)

    def usage(self, folder: Path) -> Usage:
        return self.writer().usage(folder)


@dataclass(frozen=True)
class Text:
    """What was written, with how sure the model was of each token."""

    prompt: str
    text: str  # what is new
    tokens: tuple[str, ...]  # all that were written: an end symbol and what a stop text was found in, too
    log_probs: tuple[float, ...]  # of each token, by the model alone
    ended: bool  # whether an end symbol or a stop text was reached
    score: float | None = None  # of a beam search: the log-probability after the length penalty

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class TextScore:
    """How surprising a text is."""

    tokens: tuple[str, ...]  # all of them
    log_probs: tuple[float, ...]  # of all but the first, which nothing comes before
    num_bytes: int  # of those

    @property
    def loss(self) -> float:
        """Mean cross-entropy per token, in nats."""
        return -math.fsum(self.log_probs) / max(1, len(self.log_probs))

    @property
    def perplexity(self) -> float:
        return math.exp(min(self.loss, 700))

    @property
    def bits_per_byte(self) -> float:
        return -math.fsum(self.log_probs) / math.log(2) / max(1, self.num_bytes)


class Writer:
    """Takes text, goes on with it. Does not train."""

    task = NAME
    summary = "Goes on with a text, token after token."

    def __init__(self, model: GPT, tokenizer: Tokenizer, *, sampling: SamplingConfig | None = None) -> None:
        self.model, self.tokenizer = model.eval(), tokenizer
        self.sampling = sampling or SamplingConfig()
        self._pieces: Pieces | None = None

    @overload
    def __call__(self, prompt: str = ..., *, lookup: bool = ..., **sampling: Any) -> Text: ...

    @overload
    def __call__(self, prompt: Sequence[str], *, lookup: bool = ..., **sampling: Any) -> list[Text]: ...

    def __call__(self, prompt: str | Sequence[str] = "", *, lookup: bool = False, **sampling: Any) -> Text | list[Text]:
        """Go on with one text, or with many. `sampling` overrides `temperature`, `top_k`, `seed` …

        With `lookup`, what the text already says is guessed again and checked in one pass: the same text, sooner
        where a text repeats itself.
        """
        if isinstance(prompt, str):
            return self._write([prompt], sampling, lookup=lookup)[0]
        return self._write(list(prompt), sampling)

    def _write(self, prompts: list[str], overrides: dict[str, Any], *, lookup: bool = False) -> list[Text]:
        config = self.config(overrides)
        writing = self._written(prompts, config, lookup=lookup)
        streams = [self._stopping_stream(prompt, config.stop) for prompt in prompts]
        found: list[list[tuple[int, float]]] = [[] for _ in prompts]
        done: set[int] = set()
        for row, id_, log_prob in writing:
            found[row].append((id_, log_prob))
            if id_ in self.tokenizer.end_ids or streams[row].push(id_) is None:
                done.add(row)
                writing.drop(row)
        texts = []
        for row, (prompt, tokens) in enumerate(zip(prompts, found, strict=True)):
            ids = [id_ for id_, _ in tokens]
            streams[row].finish()
            log_probs = tuple(log_prob for _, log_prob in tokens)
            texts.append(Text(prompt, streams[row].text, tuple(self.tokenizer.tokens(ids)), log_probs, row in done))
        return texts

    def stream(self, prompt: str = "", *, lookup: bool = False, **sampling: Any) -> Iterator[str]:
        """The new text, a piece at a time, as it is written."""
        config = self.config(sampling)
        written = self._written([prompt], config, lookup=lookup)
        text = self._stopping_stream(prompt, config.stop)
        for _, id_, _ in written:
            if id_ in self.tokenizer.end_ids:
                break
            piece = text.push(id_)
            if piece is None:  # a stop text is complete
                yield text.rest
                return
            if piece:
                yield piece
        yield text.finish()

    def search(self, prompt: str = "", *, stop: str | Sequence[str] | None = None, **search: Any) -> list[Text]:
        """The likeliest texts that a beam search finds, the best first; nothing is drawn.

        `search` overrides `beams`, `n_best`, `length_penalty`, `max_new_tokens`, `min_new_tokens`. All of a text must
        fit into the context with the end of the prompt. `stop` texts cut what was found; equal texts are given once.
        """
        limit = {"max_new_tokens": self.sampling.max_new_tokens, "max_ratio": None}
        config = from_dict(SearchConfig, {**limit, **search})
        stops = self.config({} if stop is None else {"stop": stop}).stop
        context, device = self.model.config.context, self.model.output_weight.device
        room = min(config.max_new_tokens, context // 2)
        ids = torch.tensor([self._prompt_end(prompt, context - room)], device=device)
        lengths = torch.tensor([ids.shape[1]], device=device)
        decoder = self._decoder(config.max_new_tokens)
        others = self.tokenizer.end_ids
        found = beam_search(
            decoder, ids, lengths, end_id=self.end_id, other_ends=others, config=config, prefer_ends=False
        )[0]
        texts: dict[str, Text] = {}
        for one in found:
            text = self._found(prompt, one, stops)
            texts.setdefault(text.text, text)  # of equal texts the best
        return list(texts.values())

    def _found(self, prompt: str, found: Hypothesis, stops: Sequence[str]) -> Text:
        """What a search found as a text; where a stop text is in it, what comes before."""
        stream = self._stopping_stream(prompt, stops)
        read = next((n for n, id_ in enumerate(found.ids, start=1) if stream.push(id_) is None), None)
        stream.finish()
        written = [*found.ids, *([] if found.end_id is None else [found.end_id])][:read]
        return Text(
            prompt,
            stream.text,
            tuple(self.tokenizer.tokens(written)),
            found.token_log_probs[:read],
            ended=found.ended or stream.stopped,
            score=found.score,
        )

    def suggest(self, prompt: str, count: int = 5) -> list[Suggestion]:
        """The likeliest next words, or the likeliest ends of a word that has begun, with their probabilities."""
        if count < 1:
            raise UsageError(f"the number of suggestions must be at least 1, not {count}.")
        if self._pieces is None:
            decode = behind(self.tokenizer.decode, self.tokenizer.encode("a"))
            texts = ["" if i in self.tokenizer.special_ids else decode([i]) for i in range(self.tokenizer.vocab_size)]
            self._pieces = Pieces(texts, by_character=self.tokenizer.kind == "char")
        # Half of a context is read, or less where a word would not fit behind it.
        context = self.model.config.context
        kept = max(1, min(-(-context // 2), context - self._pieces.longest))
        return suggest(
            self._decoder(),
            prompt,
            encode=lambda text: self._prompt_end(text, kept),
            pieces=self._pieces,
            count=count,
        )

    @torch.no_grad()
    def score(self, text: str, *, progress: Callable[[float], None] | None = None) -> TextScore:
        """The probability of every token but the first. Of a long text each sees at least half a context before it.

        `progress` is called now and then with the share of the text that is done, 0 to 1.
        """
        prefix = np.array(self.tokenizer.prefix_ids, dtype=np.int64)
        ids = np.concatenate((prefix, self.tokenizer.encode_array(text).astype(np.int64)))
        context, known = self.model.config.context, len(prefix)
        room = max(1, context - known)  # of every window the rest is the prefix
        read = max(1, known)  # tokens before the first that is scored
        if len(ids) <= read:
            least = "one token" if known else "two tokens: the first is only read"
            raise UsageError(f"a score needs a text of at least {least}.")
        stride = max(1, room // 2)
        starts = [known, *range(known + stride, len(ids) - 1 - (room - stride), stride)]
        log_probs: list[float] = []
        rows = max(1, SCORED_TOGETHER // context)
        for first in range(0, len(starts), rows):
            windows = [
                np.concatenate((prefix, ids[start : start + room + 1])) for start in starts[first : first + rows]
            ]
            for found in self._log_probs(windows):
                # All of the first window counts; of the others what no window before has scored.
                log_probs += found[known + room - stride :] if log_probs else found[read - 1 :]
            if progress is not None:
                progress(len(log_probs) / (len(ids) - read))
        first = len(self.tokenizer.decode(ids[:read].tolist()).encode("utf-8"))
        num_bytes = max(1, len(text.encode("utf-8")) - first)
        return TextScore(tuple(self.tokenizer.tokens(ids[read - 1 :].tolist())), tuple(log_probs), num_bytes)

    def _log_probs(self, windows: Sequence[Ids]) -> Iterator[list[float]]:
        """Of every token of each window but its first; windows of one length are read together."""
        device = self.model.output_weight.device
        for _, alike in itertools.groupby(windows, key=len):
            ids = torch.from_numpy(np.stack(list(alike))).to(device)
            hidden = self.model.decode(ids[:, :-1])
            for row, following in zip(hidden, ids[:, 1:], strict=True):
                logits = self.model.logits(row).log_softmax(dim=-1)
                yield logits.gather(-1, following[:, None])[:, 0].tolist()

    def trace(self, text: str, *, grad: bool = False) -> Trace:
        """All attention over a text; of a long one, over its end."""
        ids = self._prompt_end(text, self.model.config.context)
        tokens = {"decoder": [self.tokenizer.tokens(ids)]}
        with torch.set_grad_enabled(grad), capture(self.model, tokens=tokens, grad=grad) as trace:
            self.model(torch.tensor([ids], device=self.model.output_weight.device))
        return trace

    def contents(self) -> FolderContents:
        config = {
            "regard": {"task": NAME, "format": 1},
            "model_type": "regard-gpt",
            "model": to_dict(self.model.config),
            "sampling": to_dict(self.sampling),
            "symbols": to_dict(self.tokenizer.symbols),
        }
        return FolderContents(config=config, texts={TOKENIZER: self.tokenizer.to_json()})

    def usage(self, folder: Path) -> Usage:
        return Usage(
            command=f'regard generate {folder} "…"\nregard suggest {folder} "…"\nregard score {folder} file.txt',
            python=f'import regard\n\nwriter = regard.load("{folder.as_posix()}")\nwriter("…").text',
            pipeline="text-generation",
        )

    def config(self, overrides: dict[str, Any]) -> SamplingConfig:
        """The settings of this writer with some of them changed."""
        given = dict(overrides)
        if isinstance(given.get("stop"), str):
            given["stop"] = (given["stop"],)
        return from_dict(SamplingConfig, {**to_dict(self.sampling), **given})

    def prompt_ids(self, text: str) -> list[int]:
        """The ids of a text to go on with, behind those that the tokenizer puts before every text.

        Nothing at all is taken for the beginning of a line, or of a document.
        """
        if not isinstance(text, str):
            raise UsageError(f"a text to go on with must be a str, not {type(text).__name__}.")
        ids = [*self.tokenizer.prefix_ids, *self.tokenizer.encode(text)]
        return ids or self.tokenizer.encode("\n") or [self.tokenizer.end_id]

    def _prompt_end(self, text: str, room: int) -> list[int]:
        return ending(self.prompt_ids(text), room, len(self.tokenizer.prefix_ids))

    def _stopping_stream(self, prompt: str, stops: Sequence[str]) -> StoppingStream:
        return StoppingStream(behind(self.tokenizer.decode, self.tokenizer.encode(prompt[-BEHIND:])), stops)

    @property
    def end_id(self) -> int:
        return self.tokenizer.end_id

    def _decoder(self, steps: int = 1, rows: int = 1) -> GuessingDecoder:
        return gpt_decoder(self.model, vocab_size=self.tokenizer.vocab_size, steps=steps, rows=rows)

    def _written(self, prompts: Sequence[str], config: SamplingConfig, *, lookup: bool) -> Writing:
        return write(
            self._decoder(config.max_new_tokens, len(prompts)),
            [self.prompt_ids(prompt) for prompt in prompts],
            config=config,
            context=self.model.config.context,
            end_ids=self.tokenizer.end_ids,
            prefix=len(self.tokenizer.prefix_ids),
            lookup=lookup,
            device=self.model.output_weight.device,
        )

    def __repr__(self) -> str:
        parameters, config = count_weights(self.model), self.model.config
        return (
            f"Writer({parameters / 1e6:.1f} M parameters, {config.layers} layers, width {config.width}, "
            f"{self.tokenizer.vocab_size:,} tokens, context {config.context})"
        )


def make_gpt(tokenizer: Tokenizer, settings: dict[str, Any], *, seed: int) -> GPT:
    """A fresh model that fits the tokenizer; the same seed gives the same weights."""
    config = from_dict(GPTConfig, {**settings, "vocab_size": tokenizer.vocab_size})
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return GPT(config)
