"""Predictor for translation, with its tokenizers and results."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.data.batches import BatchPlan
from regard.data.files import shortened
from regard.data.pairs import MAX_CHARACTERS, Pair
from regard.generation.backend import translation_decoder
from regard.generation.config import SearchConfig
from regard.generation.search import Hypothesis, beam_search, stream
from regard.generation.streaming import text_chunks
from regard.metrics.score import Scores
from regard.metrics.translation import bleu, chrf
from regard.nn.hooks import Trace, capture
from regard.nn.masks import pad
from regard.tasks.base import TOKENIZER, GeneratedResult, Notify, Predictor, describe_model, new_tokenizer
from regard.tasks.translate.spec import SPEC, TranslateTraining
from regard.tokenizers.tokenizer import Tokenizer
from regard.utils.config import Config
from regard.utils.errors import DataError, FolderError, UsageError, flag

if TYPE_CHECKING:
    from regard.checkpoint.folder import ModelFolder

SOURCE_TOKENIZER = "tokenizer.source.json"
TARGET_TOKENIZER = "tokenizer.target.json"
BATCH_TOKENS = 2048
NOT_STREAMED = ("num_beams", "n_best", "length_penalty")  # options of beam search


@dataclass(frozen=True, repr=False)
class Translation(GeneratedResult):
    """A translation with the log-probability of each token."""

    source: str
    text: str
    score: float  # log-probability after the length penalty
    tokens: tuple[str, ...] = ()  # includes the end token
    log_probs: tuple[float, ...] = ()  # one for each token
    ids: tuple[int, ...] = ()  # without the end token
    ended: bool = True  # False if max_new_tokens was reached first
    alternatives: tuple[Translation, ...] = ()  # the other n_best - 1 translations, best first

    recorded = ("source", "text", "score", "tokens", "log_probs", "ended")
    shown = ("text", "score", "ended")

    def __str__(self) -> str:
        """Return the translation on one line; if there are several, one line per translation, with its score first."""
        if not self.alternatives:
            return one_line(self.text)
        return "\n".join(f"{t.score:.4f}\t{one_line(t.text)}" for t in (self, *self.alternatives))


def one_line(text: str) -> str:
    """Replace line breaks with spaces, so that a file of translations has as many lines as its source."""
    return text.replace("\r", " ").replace("\n", " ")


class TokenizerPair(NamedTuple):
    """The source and target tokenizers; a joint tokenizer is the same object twice."""

    source: Tokenizer
    target: Tokenizer

    @property
    def joint(self) -> bool:
        return self.source is self.target

    @classmethod
    def train(cls, pairs: Sequence[Pair], config: TranslateTraining) -> Self:
        sources, targets = [pair.source for pair in pairs], [pair.target for pair in pairs]
        texts = [sources, targets] if config.separate_vocabularies else [sources + targets]
        found = [new_tokenizer(side, kind=config.tokenizer, vocab_size=config.vocab_size) for side in texts]
        return cls(found[0], found[-1])

    @classmethod
    def load(cls, folder: ModelFolder) -> Self:
        if folder.has_text(SOURCE_TOKENIZER):
            return cls(folder.tokenizer(SOURCE_TOKENIZER), folder.tokenizer(TARGET_TOKENIZER))
        joint = folder.tokenizer(TOKENIZER)
        return cls(joint, joint)

    def files(self) -> dict[str, str]:
        """Return the tokenizer files of a model folder."""
        if self.joint:
            return {TOKENIZER: self.source.to_json()}
        return {SOURCE_TOKENIZER: self.source.to_json(), TARGET_TOKENIZER: self.target.to_json()}

    def model_settings(self) -> dict[str, int | None]:
        """Return the model settings that depend on the vocabularies."""
        source = None if self.joint else self.source.vocab_size
        return {"vocab_size": self.target.vocab_size, "source_vocab_size": source}


class Translator(Predictor[Translation]):
    """Sentences → translations: `translator("The cat sleeps.").text`."""

    spec = SPEC
    model: Any
    config: SearchConfig

    def __init__(
        self,
        model: Any,
        tokenizers: TokenizerPair,
        *,
        config: SearchConfig | None = None,
        start_id: int | None = None,  # first decoder input, if it is not the start token
        forbidden_ids: Sequence[int] = (),  # tokens that are never generated, besides padding and start
    ) -> None:
        self.model, self.tokenizers = model.eval(), tokenizers
        self.config = config or SearchConfig()
        self.forbidden_ids = tuple(forbidden_ids)
        self.start_id = tokenizers.target.start_id if start_id is None else start_id

    def _predict(self, inputs: list[str], config: SearchConfig, notify: Notify) -> list[Translation]:
        ids = [self._source_ids(text) for text in inputs]
        results = [Translation(text, "", 0.0) for text in inputs]  # kept for empty texts
        rows = [row for row, source in enumerate(ids) if len(source) > 1]
        batches = BatchPlan(max_tokens=BATCH_TOKENS, shuffle=False).batches([len(ids[row]) for row in rows], 0)
        steps = sum(max(len(ids[rows[i]]) for i in batch) for batch in batches)  # targets are about as long
        for batch in batches:
            chosen = [rows[i] for i in batch]
            source, lengths = self._tensors([ids[row] for row in chosen])
            rows_of_beams = len(chosen) * config.num_beams
            decoder = translation_decoder(self.model, start_id=self.start_id, steps=steps, rows=rows_of_beams)
            found = beam_search(
                decoder, source, lengths, end_id=self.end_id, forbidden_ids=self.all_forbidden_ids, config=config
            )
            for row, hypotheses in zip(chosen, found, strict=True):
                best, *others = [self._translation(inputs[row], hypothesis) for hypothesis in hypotheses]
                results[row] = replace(best, alternatives=tuple(others))
        for result in results:
            if not result.ended:
                notify(
                    f"the translation of {shortened(result.source)!r} was truncated after {len(result.ids)} tokens. "
                    "Give one sentence per line; a model that repeats itself needs more training."
                )
        return results

    def can_stream(self, config: Config) -> bool:
        return isinstance(config, SearchConfig) and config.num_beams == 1

    def stream(
        self, text: str, config: Config | None = None, *, notify: Notify | None = None, **options: Any
    ) -> Iterator[str]:
        """Yield the greedy translation in chunks, without line breaks."""
        given = SearchConfig(**options)
        for name in NOT_STREAMED:
            if name in options and getattr(given, name) != 1:
                message = f"--stream supports only greedy search. Remove {flag(name)}."
                raise UsageError(message, argument=name, value=options[name])
        search = (config or self.config).replace(**{**options, "num_beams": 1, "n_best": 1})
        assert isinstance(search, SearchConfig), "the task's predict_config"
        ids = self._source_ids(text)
        if len(ids) == 1:
            return
        source, lengths = self._tensors([ids])
        decoder = translation_decoder(self.model, start_id=self.start_id, steps=len(ids))
        chosen = stream(
            decoder, source, lengths, end_id=self.end_id, forbidden_ids=self.all_forbidden_ids, config=search
        )
        target = self.tokenizers.target
        yield from map(one_line, text_chunks(target.decode, (id_ for id_, _ in chosen), target.byte_ids))

    def evaluate(self, examples: Sequence[Pair], config: Config | None = None) -> Scores:
        outputs = [result.text for result in self.predict([pair.source for pair in examples], config)]
        return self.score(outputs, examples)

    def score(self, outputs: Sequence[str], examples: Sequence[Pair]) -> Scores:
        """BLEU and chrF of translations."""
        references = [pair.target for pair in examples]
        return Scores([bleu(outputs, references), chrf(outputs, references)])

    def trace(self, *inputs: Any, grad: bool = False) -> Trace:
        """All attention of one teacher-forced forward pass: `trace(text)` or `trace(text, target)`.

        The default target is the model's own translation. A str is tokenized; a `Translation` already has tokens.
        """
        text, target = inputs if len(inputs) == 2 else (inputs[0], None)
        source_ids = self._source_ids(text)
        target_ids = self._target_ids(self.predict([text])[0] if target is None else target)
        tokens = {
            "encoder": [self.tokenizers.source.tokens(source_ids)],
            "decoder": [self.tokenizers.target.tokens(target_ids)],
        }
        with torch.set_grad_enabled(grad), capture(self.model, tokens=tokens, grad=grad) as trace:
            source, _ = self._tensors([source_ids])
            self.model(source, torch.tensor([target_ids], device=source.device))
        return trace

    def traced(self, inputs: Sequence[Any], target: str | None = None) -> tuple[Trace, str]:
        output = self.predict(inputs[:1])[0] if target is None else target
        cut_off = "" if isinstance(output, str) or output.ended else f" … (truncated after {len(output.ids)} tokens)"
        text = output if isinstance(output, str) else output.text
        return self.trace(inputs[0], output), f"→ {text}{cut_off}"

    @torch.no_grad()
    def loss(self, text: str, target: str | Translation) -> float:
        """Mean cross-entropy of the tokens of a translation and its end token, in nats."""
        inputs = self._target_ids(target)
        ended = isinstance(target, str) or target.ended
        following = [*self._token_ids(target), *([self.end_id] if ended else [])][: len(inputs)]
        source, _ = self._tensors([self._source_ids(text)])
        logits = self.model(source, torch.tensor([inputs[: len(following)]], device=source.device))[0]  # (T, V)
        return float(F.cross_entropy(logits, torch.tensor(following, device=source.device)))

    # --- ids ------------------------------------------------------------------------------------------------

    @property
    def end_id(self) -> int:
        return self.tokenizers.target.end_id

    @property
    def all_forbidden_ids(self) -> tuple[int, ...]:
        """Ids of tokens that are never generated."""
        target = self.tokenizers.target
        return tuple({target.pad_id, self.start_id, *self.forbidden_ids} - {target.end_id})

    def _tensors(self, ids: Sequence[Sequence[int]]) -> tuple[Tensor, Tensor]:
        return pad(ids, self.tokenizers.source.pad_id, device=self.model.output_weight.device)

    def _source_ids(self, text: str) -> list[int]:
        if not isinstance(text, str):
            raise UsageError(f"a text to translate must be a str, not {type(text).__name__}.", argument="inputs")
        if len(text) > MAX_CHARACTERS:
            raise DataError(
                f"a text of {len(text):,} characters, {shortened(text)!r}, exceeds the limit of {MAX_CHARACTERS:,}. "
                "Split it into sentences, one per line.",
                argument="inputs",
            )
        # Training pairs have no leading or trailing white space.
        return [*self.tokenizers.source.encode(text.strip()), self.tokenizers.source.end_id]

    def _target_ids(self, target: str | Translation) -> list[int]:
        """Return the decoder inputs: the start token and the tokens of a translation."""
        ids = [self.start_id, *self._token_ids(target)]
        # With the start token, a truncated translation has one token more than there are positions.
        if getattr(self.model.config, "positions", None) == "learned":
            ids = ids[: self.model.config.max_positions]
        return ids

    def _token_ids(self, target: str | Translation) -> Sequence[int]:
        return self.tokenizers.target.encode(target) if isinstance(target, str) else target.ids

    def _translation(self, source: str, hypothesis: Hypothesis) -> Translation:
        target = self.tokenizers.target
        ids = [*hypothesis.ids, target.end_id] if hypothesis.ended else list(hypothesis.ids)
        return Translation(
            source=source,
            text=target.decode(hypothesis.ids),
            score=hypothesis.score,
            tokens=tuple(target.tokens(ids)),
            log_probs=hypothesis.token_log_probs,
            ids=hypothesis.ids,
            ended=hypothesis.ended,
        )

    # --- model folders --------------------------------------------------------------------------------------

    def folder_config(self) -> Mapping[str, Any]:
        return {"start_id": self.start_id, "forbidden_ids": list(self.forbidden_ids)}

    def tokenizer_files(self) -> Mapping[str, str]:
        return self.tokenizers.files()

    @classmethod
    def load(cls, folder: ModelFolder, model: Any) -> Self:
        tokenizers = TokenizerPair.load(folder)
        _check_sizes(model.config, tokenizers, folder)
        return cls(
            model,
            tokenizers,
            config=SearchConfig(**folder.config.get("inference", {})),
            start_id=folder.config.get("start_id"),
            forbidden_ids=folder.config.get("forbidden_ids", ()),
        )

    def __repr__(self) -> str:
        return f"Translator({describe_model(self.model, self.tokenizers.target.vocab_size)})"


def _check_sizes(shape: Any, tokenizers: TokenizerPair, folder: ModelFolder) -> None:
    """Raise if an embedding has fewer rows than its tokenizer has tokens."""
    sizes = {"source": shape.source_vocab_size or shape.vocab_size, "target": shape.vocab_size}
    for side, tokenizer in zip(sizes, tokenizers, strict=True):
        if tokenizer.vocab_size > sizes[side]:
            raise FolderError(
                f"{folder.path}: the {side} tokenizer has {tokenizer.vocab_size:,} tokens, but the embedding has "
                f"{sizes[side]:,} rows. They belong to different models. Copy the folder again.",
                path=folder.path,
            )
