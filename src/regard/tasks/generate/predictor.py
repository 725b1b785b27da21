"""Predictors for language models: score a text, or continue it by sampling or beam search."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self, TypeVar

import numpy as np
import torch

from regard.data.corpus import Ids
from regard.generation.backend import gpt_decoder
from regard.generation.decoder import SpeculativeDecoder
from regard.generation.sampling import GenerationState, keep_last
from regard.generation.search import Hypothesis, beam_search
from regard.generation.streaming import StoppingStream, decode_after
from regard.metrics.score import Score, Scores
from regard.nn.hooks import Trace, capture
from regard.tasks.base import TOKENIZER, GeneratedResult, Notify, Predictor, Result, describe_model
from regard.tasks.generate.spec import SPEC, GenerateConfig
from regard.tokenizers.tokenizer import Tokenizer
from regard.utils.config import Config, to_dict
from regard.utils.errors import DataError, UsageError

if TYPE_CHECKING:
    from regard.checkpoint.folder import ModelFolder

R = TypeVar("R")

BATCH_TOKENS = 1 << 12  # tokens per forward pass
MAX_NATS = 700  # exp overflows for larger values
DECODED_BEFORE = 16  # new tokens are decoded together with this many last characters of the prompt


@dataclass(frozen=True, repr=False)
class TextScore(Result):
    """How probable a text is. The first token is not scored, because no token precedes it."""

    tokens: tuple[str, ...]  # the scored tokens
    log_probs: tuple[float, ...]  # log-probability of each scored token
    num_bytes: int  # UTF-8 bytes of the scored tokens
    per_token: bool = False  # whether `record` and `str` list the tokens

    recorded = ("perplexity", "bits_per_byte", "loss", "num_tokens", "num_bytes")
    shown = ("perplexity", "bits_per_byte", "num_tokens")

    @property
    def num_tokens(self) -> int:
        return len(self.log_probs)

    @property
    def loss(self) -> float:
        """Mean cross-entropy per token, in nats."""
        return -math.fsum(self.log_probs) / max(1, self.num_tokens)

    @property
    def perplexity(self) -> float:
        return math.exp(min(self.loss, MAX_NATS))

    @property
    def bits_per_byte(self) -> float:
        """Mean surprisal per byte, in bits; comparable between models with different tokenizers."""
        return -math.fsum(self.log_probs) / math.log(2) / max(1, self.num_bytes)

    @property
    def surprisals(self) -> tuple[float, ...]:
        """The surprisal of each token, in bits."""
        return tuple(-value / math.log(2) for value in self.log_probs)

    def record(self) -> dict[str, Any]:
        listed = zip(self.tokens, self.surprisals, strict=True)
        per_token = {"per_token": [{"token": token, "bits": bits} for token, bits in listed]} if self.per_token else {}
        return {**super().record(), **per_token}

    def __str__(self) -> str:
        listed = zip(self.tokens, self.surprisals, strict=True) if self.per_token else ()
        return "".join(f"{bits:8.3f}  {token!r}\n" for token, bits in listed) + (
            f"perplexity {self.perplexity:.3f} per token ({self.num_tokens:,} tokens), "
            f"{self.bits_per_byte:.4f} bits per byte ({self.num_bytes:,} bytes)"
        )


@torch.no_grad()
def score_text(
    model: Any, tokenizer: Tokenizer, text: str, *, progress: Callable[[float], None] | None = None
) -> TextScore:
    """Score a text of any length in overlapping windows; each token sees at least half a context length, if available.

    `progress` is called with the completed fraction.
    """
    prefix = np.array(tokenizer.prefix_ids, dtype=np.int64)
    ids = np.concatenate((prefix, tokenizer.encode_array(text).astype(np.int64)))
    context, known = model.config.context_length, len(prefix)
    length = max(1, context - known)  # tokens per window, without the prefix
    first_scored = max(1, known)
    if len(ids) <= first_scored:
        least = "one token" if known else "two tokens, because the first is not scored"
        raise UsageError(f"a text to score needs at least {least}. Give a longer text.", argument="inputs", value=text)
    stride = max(1, length // 2)
    starts = [known, *range(known + stride, len(ids) - 1 - (length - stride), stride)]
    log_probs: list[float] = []
    rows = max(1, BATCH_TOKENS // context)
    for first in range(0, len(starts), rows):
        windows = [np.concatenate((prefix, ids[start : start + length + 1])) for start in starts[first : first + rows]]
        for found in _log_probs(model, windows):
            # All tokens of the first window are scored; in later windows, those after the end of the previous window.
            log_probs += found[known + length - stride :] if log_probs else found[first_scored - 1 :]
        if progress is not None:
            progress(len(log_probs) / (len(ids) - first_scored))
    skipped = len(tokenizer.decode(ids[:first_scored].tolist()).encode("utf-8"))
    num_bytes = max(1, len(text.encode("utf-8")) - skipped)
    return TextScore(tuple(tokenizer.tokens(ids[first_scored:].tolist())), tuple(log_probs), num_bytes)


def _log_probs(model: Any, windows: Sequence[Ids]) -> Iterator[list[float]]:
    """Yield the log-probabilities of all tokens of each window but the first; windows of equal length share a batch."""
    device = model.output_weight.device
    for _, group in itertools.groupby(windows, key=len):
        ids = torch.from_numpy(np.stack(list(group))).to(device)
        hidden = model.decode(ids[:, :-1])  # (B, T, D)
        for row, following in zip(hidden, ids[:, 1:], strict=True):
            log_probs = model.logits(row).log_softmax(dim=-1)  # (T, V)
            yield log_probs.gather(-1, following[:, None])[:, 0].tolist()


class LanguageModel(Predictor[R]):
    """Base class of the predictors of generate, suggest and score: a decoder with its tokenizer."""

    model: Any

    def __init__(self, model: Any, tokenizer: Tokenizer, *, config: Config | None = None) -> None:
        self.model, self.tokenizer = model.eval(), tokenizer
        self.config = config or self.spec.predict_config()

    @property
    def context_length(self) -> int:
        length: int = self.model.config.context_length
        return length

    def prompt_ids(self, text: str) -> list[int]:
        """Return the tokenizer's prefix ids, followed by the ids of a prompt.

        An empty prompt becomes a line break or, if the vocabulary has no line break, the end token.
        """
        if not isinstance(text, str):
            raise UsageError(f"a text must be a str, not {type(text).__name__}.", argument="inputs", value=text)
        ids = [*self.tokenizer.prefix_ids, *self.tokenizer.encode(text)]
        return ids or self.tokenizer.encode("\n") or [self.tokenizer.end_id]

    def last_ids(self, text: str, max_tokens: int) -> list[int]:
        """Return the prefix ids and the last ids of a text, at most `max_tokens` in total."""
        return keep_last(self.prompt_ids(text), max_tokens, len(self.tokenizer.prefix_ids))

    def decoder(self, steps: int = 1, rows: int = 1) -> SpeculativeDecoder:
        return gpt_decoder(self.model, vocab_size=self.tokenizer.vocab_size, steps=steps, rows=rows)

    def loss(self, text: str) -> float:
        """Mean cross-entropy of the tokens of a text, in nats."""
        return score_text(self.model, self.tokenizer, text).loss

    def evaluate(self, examples: Sequence[str], config: Config | None = None) -> Scores:
        """Perplexity per token and bits per byte over documents, each scored separately."""
        shortest = max(1, len(self.tokenizer.prefix_ids)) + 1
        texts = [text for text in examples if len(self.prompt_ids(text[:100])) >= shortest]
        if not texts:
            raise DataError("no text to evaluate on has at least two tokens. Give longer texts.")
        scores = [score_text(self.model, self.tokenizer, text, progress=self.progress) for text in texts]
        nats = -math.fsum(value for score in scores for value in score.log_probs)
        num_tokens, num_bytes = sum(s.num_tokens for s in scores), sum(s.num_bytes for s in scores)
        signature = f"context {self.context_length}, stride {max(1, self.context_length // 2)}"
        return Scores(
            [
                Score("perplexity", math.exp(min(nats / num_tokens, 700)), f"per token, {signature}"),
                Score("bits per byte", nats / math.log(2) / num_bytes, signature),
            ]
        )

    def trace(self, *inputs: Any, grad: bool = False) -> Trace:
        """All attention over a text; for a long text, over its last tokens."""
        ids = self.last_ids(inputs[0], self.context_length)
        tokens = {"decoder": [self.tokenizer.tokens(ids)]}
        with torch.set_grad_enabled(grad), capture(self.model, tokens=tokens, grad=grad) as trace:
            self.model(torch.tensor([ids], device=self.model.output_weight.device))
        return trace

    # --- model folders --------------------------------------------------------------------------------------

    def folder_config(self) -> Mapping[str, Any]:
        return {"special_tokens": to_dict(self.tokenizer.special_tokens)}

    @classmethod
    def load(cls, folder: ModelFolder, model: Any) -> Self:
        tokenizer = folder.tokenizer(TOKENIZER)
        tokenizer.fits(model.config.vocab_size)
        return cls(model, tokenizer, config=cls.spec.predict_config(**folder.config.get("inference", {})))

    @classmethod
    def adapt(cls, other: Predictor[Any]) -> Self | None:
        model: Any = other
        return cls(model.model, model.tokenizer) if cls.spec.needs <= other.capabilities else None

    def __repr__(self) -> str:
        return f"{type(self).__name__}({describe_model(self.model, self.tokenizer.vocab_size)})"


@dataclass(frozen=True, repr=False)
class Generation(GeneratedResult):
    """A continuation with the log-probability of each token."""

    prompt: str
    text: str  # the continuation
    tokens: tuple[str, ...]  # all generated tokens, including the end token and stop strings
    log_probs: tuple[float, ...]  # log-probability of each token before temperature, top_k, top_p and other changes
    ended: bool  # whether an end token or a stop string was reached
    score: float | None = None  # with beam search: log-probability after the length penalty
    alternatives: tuple[Generation, ...] = ()  # the other num_return_sequences - 1

    recorded = ("prompt", "text", "ended", "tokens", "log_probs", "score")
    shown = ("text", "ended", "score")

    def __str__(self) -> str:
        return "\n".join(g.text for g in (self, *self.alternatives))


class TextGenerator(LanguageModel[Generation]):
    """Texts → continuations: `generator("Once upon a time").text`."""

    spec = SPEC
    config: GenerateConfig

    def _predict(self, inputs: list[str], config: GenerateConfig, notify: Notify) -> list[Generation]:
        for prompt in inputs:
            self._notify_lengths(prompt, config, notify)
        if config.num_beams:
            groups = [self._search(prompt, config) for prompt in inputs]
        else:
            count = config.num_return_sequences
            found = self._sample([prompt for prompt in inputs for _ in range(count)], config)
            groups = [found[start : start + count] for start in range(0, len(found), count)]
        return [replace(best, alternatives=tuple(others)) for best, *others in groups]

    def can_stream(self, config: Config) -> bool:
        return isinstance(config, GenerateConfig) and not config.num_beams and config.num_return_sequences == 1

    def stream(
        self, text: str, config: Config | None = None, *, notify: Notify | None = None, **options: Any
    ) -> Iterator[str]:
        """Yield the continuation in chunks while it is generated."""
        chosen = (config or self.config).replace(**options)
        assert isinstance(chosen, GenerateConfig), "the task's predict_config"
        if not self.can_stream(chosen):
            name = "num_beams" if chosen.num_beams else "num_return_sequences"
            raise UsageError(f"{name} conflicts with streaming: remove one of them.", argument=name)
        self._notify_lengths(text, chosen, notify)
        pending = self._stopping_stream(text, chosen.stop)
        for _, id_, _ in self._generation([text], chosen):
            if id_ in self.tokenizer.end_ids:
                break
            chunk = pending.push(id_)
            if chunk is None:  # a stop string is complete
                break
            if chunk:
                yield chunk
        yield pending.finish()

    def _notify_lengths(self, prompt: str, config: GenerateConfig, notify: Notify | None) -> None:
        """Notify the user if the prompt or the continuation exceeds the context length."""
        if notify is None:
            return
        length, context = len(self.prompt_ids(prompt)), self.context_length
        kept = context - min(config.max_new_tokens, context // 2)
        if length > kept:
            notify(
                f"prompt: truncated to its last {kept:,} of {length:,} tokens, so that the continuation fits into the "
                f"context of {context:,}."
            )
        remaining = context - min(length, kept)
        if config.num_beams and config.max_new_tokens > remaining:
            notify(
                f"beam search: generates at most {remaining:,} tokens, not {config.max_new_tokens:,}, because it "
                f"cannot exceed the context of {context:,} tokens. Sampling can."
            )

    # --- sampling -------------------------------------------------------------------------------------------

    def _sample(self, prompts: Sequence[str], config: GenerateConfig) -> list[Generation]:
        if not prompts:
            return []
        generation = self._generation(prompts, config)
        streams = [self._stopping_stream(prompt, config.stop) for prompt in prompts]
        found: list[list[tuple[int, float]]] = [[] for _ in prompts]
        ended: set[int] = set()
        for row, id_, log_prob in generation:
            found[row].append((id_, log_prob))
            if id_ in self.tokenizer.end_ids or streams[row].push(id_) is None:
                ended.add(row)
                generation.drop(row)
        results = []
        for row, (prompt, generated) in enumerate(zip(prompts, found, strict=True)):
            streams[row].finish()
            tokens = tuple(self.tokenizer.tokens([id_ for id_, _ in generated]))
            log_probs = tuple(log_prob for _, log_prob in generated)
            results.append(Generation(prompt, streams[row].text, tokens, log_probs, row in ended))
        return results

    def _generation(self, prompts: Sequence[str], config: GenerateConfig) -> GenerationState:
        return GenerationState(
            self.decoder(config.max_new_tokens, len(prompts)),
            [self.prompt_ids(prompt) for prompt in prompts],
            config=config,
            context=self.context_length,
            end_ids=self.tokenizer.end_ids,
            prefix=len(self.tokenizer.prefix_ids),
            lookup=config.lookup,
            device=self.model.output_weight.device,
        )

    def _stopping_stream(self, prompt: str, stops: Sequence[str]) -> StoppingStream:
        before = self.tokenizer.encode(prompt[-DECODED_BEFORE:])
        return StoppingStream(decode_after(self.tokenizer.decode, before), stops)

    # --- beam search ----------------------------------------------------------------------------------------

    def _search(self, prompt: str, config: GenerateConfig) -> list[Generation]:
        """Return the most probable continuations, best first, truncated at stop strings and without duplicates."""
        search, context, device = config.search(), self.context_length, self.model.output_weight.device
        max_new_tokens = min(search.max_new_tokens, context // 2)
        ids = torch.tensor([self.last_ids(prompt, context - max_new_tokens)], device=device)
        (found,) = beam_search(
            self.decoder(search.max_new_tokens),
            ids,
            torch.tensor([ids.shape[1]], device=device),
            end_id=self.tokenizer.end_id,
            other_ends=self.tokenizer.end_ids,
            config=search,
            prefer_ends=False,
        )
        texts: dict[str, Generation] = {}
        for hypothesis in found:
            result = self._result(prompt, hypothesis, config.stop)
            texts.setdefault(result.text, result)
        return list(texts.values())

    def _result(self, prompt: str, hypothesis: Hypothesis, stops: Sequence[str]) -> Generation:
        stream = self._stopping_stream(prompt, stops)
        count = next((n for n, id_ in enumerate(hypothesis.ids, start=1) if stream.push(id_) is None), None)
        stream.finish()
        ids = [*hypothesis.ids, *([] if hypothesis.end_id is None else [hypothesis.end_id])][:count]
        return Generation(
            prompt,
            stream.text,
            tuple(self.tokenizer.tokens(ids)),
            hypothesis.token_log_probs[:count],
            ended=hypothesis.ended or stream.stopped,
            score=hypothesis.score,
        )
