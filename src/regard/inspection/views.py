"""Create views from a predictor and an input, with one function for each registered view (see `views/specs.py`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
import torch.nn.functional as F

from regard.inspection.ranks import value_ranks
from regard.inspection.steps import attention_steps, choose_attention
from regard.nn.hooks import streams
from regard.utils.errors import UsageError
from regard.views.attention import attention_view, default_map, trace_maps
from regard.views.specs import AttentionOptions, TargetOptions
from regard.views.steps import steps_view
from regard.views.studies import ranks_view
from regard.views.tokens import (
    CausalTraining,
    InputSums,
    Mark,
    SpanCandidate,
    SpanMarks,
    causal_view,
    inputs_view,
    spans_view,
)
from regard.views.view import View

if TYPE_CHECKING:
    from regard.tasks.answer.predictor import QuestionAnswerer
    from regard.tasks.base import Predictor
    from regard.tasks.encoder.predictor import EncoderPredictor


def attention(predictor: Predictor[Any], inputs: Sequence[Any], config: AttentionOptions) -> View:
    """Show all attention layers for an input."""
    trace, note = predictor.traced(inputs, config.target)
    maps = trace_maps(trace)
    view = attention_view(maps, title=_title(inputs), note=note, initial=config.address or default_map(maps))
    return _with_input(view, inputs, **({"output": note.removeprefix("→ ")} if note else {}))


def steps(predictor: Predictor[Any], inputs: Sequence[Any], config: AttentionOptions) -> View:
    """Show how one attention layer is computed for an input."""
    root = predictor.trace_root
    address = choose_attention(root, config.address)
    # An encoder that feeds a decoder has finished before the first output token.
    is_encoder_only = streams(address)[0] == "encoder" and "encoder-decoder" in predictor.capabilities
    target = "" if config.target is None and is_encoder_only else config.target
    arrays = attention_steps(root, lambda: predictor.traced(inputs, target)[0], address=address)
    return _with_input(steps_view(arrays, title=_title(inputs)), inputs)


def ranks(predictor: Any, inputs: Sequence[Any], config: TargetOptions) -> View:
    """Show the singular values of OV matrices, and the loss of a text by rank."""
    spectra = value_ranks(predictor, *inputs, target=config.target)
    return _with_input(ranks_view(spectra, title=_title(inputs)), inputs)


def targets(predictor: Any, inputs: Sequence[Any], config: None) -> View:
    """Show what a language model has to predict at each position of a text."""
    return _with_input(causal_view(causal_training(predictor, *inputs), title=_title(inputs)), inputs)


@torch.no_grad()
def causal_training(generator: Any, text: str) -> CausalTraining:
    """Return targets and losses of one forward pass over `text`, truncated to the context length."""
    ids = generator.tokenizer.encode(text)[: generator.model.config.context_length]
    if len(ids) < 2:
        message = "the text must have at least two tokens. Give a longer text."
        raise UsageError(message, argument="inputs", value=text)
    batch = torch.tensor([ids], device=generator.model.output_weight.device)
    losses = F.cross_entropy(generator.model(batch)[0, :-1], batch[0, 1:], reduction="none")
    mask = generator.model.mask.dense(len(ids), len(ids), batch.device).expand(1, 1, len(ids), len(ids))[0, 0]
    tokens = generator.tokenizer.tokens(ids)
    return CausalTraining(tokens=tokens, mask=np.asarray(mask.cpu(), dtype=bool), losses=losses.tolist())


def inputs(predictor: Any, inputs: Sequence[Any], config: None) -> View:
    """Show the input vectors of an encoder."""
    sums = input_sums(predictor, inputs[0] if len(inputs) == 1 else (inputs[0], inputs[1]))
    return _with_input(inputs_view(sums, title=_title(inputs)), inputs)


@torch.inference_mode()
def input_sums(predictor: EncoderPredictor[Any], text: str | tuple[str, str]) -> InputSums:
    """The token, type and position vectors of a text or a pair, their sum, and the normalized sum."""
    from regard.tasks.encoder.predictor import collate

    tables: Any = predictor.trace_root.embedding
    example = predictor.encode_input(text)
    ids, _, type_ids = collate([example], predictor.tokenizer.pad_id, tables.weight.device)
    types = torch.zeros_like(ids) if type_ids is None else type_ids
    tokens, segments = F.embedding(ids[0], tables.weight), tables.token_types(types[0])
    positions = F.embedding(torch.arange(ids.shape[1], device=ids.device), tables.positions.weight)
    total = tokens + segments + positions
    arrays = (part.float().cpu().numpy() for part in (tokens, segments, positions, total, tables.norm(total)))
    return InputSums(predictor.tokenizer.tokens(example.ids), example.ids, types[0].tolist(), *arrays)


def answer(predictor: Any, inputs: Sequence[Any], config: None) -> View:
    """Show where in the passage the answer starts and ends."""
    if len(inputs) < 2:
        raise UsageError("give two texts: a question and a passage.", argument="inputs", value=len(inputs))
    marks = span_marks(predictor, inputs[0], inputs[1])
    return _with_input(spans_view(marks, note=repr(predictor)), inputs[:2])


def span_marks(predictor: QuestionAnswerer, question: str, passage: str) -> SpanMarks:
    """The start and end probabilities of all tokens of a passage, with the best answers.

    A token in several windows has its highest logits, as in the search for the best span. If "no answer" is allowed, it
    is included in the softmax.
    """
    (answer,) = predictor.predict([(question, passage)])
    (encoded,) = predictor.encode([(question, passage)], stride=predictor.config.stride)
    (outputs,) = predictor.logits([encoded])
    logits = np.full((len(encoded.passage.ids), 2), -np.inf)
    for window, output in zip(encoded.windows, outputs, strict=True):
        first, tokens = window.example.first, slice(window.first, window.first + window.num_tokens)
        logits[tokens] = np.maximum(logits[tokens], output[first : first + window.num_tokens])
    if predictor.config.no_answer_threshold is not None:
        logits = np.vstack([logits, np.min([output[0] for output in outputs], axis=0)])
    weights = np.exp(logits - logits.max(axis=0))
    probabilities = (weights / weights.sum(axis=0)).tolist()[: len(encoded.passage.ids)]
    spans = zip(encoded.passage.starts.tolist(), encoded.passage.ends.tolist(), probabilities, strict=True)
    candidates = [SpanCandidate(start=span.start, end=span.end, probability=span.score) for span in answer.best]
    if not answer.text:
        candidates.insert(0, SpanCandidate(start=0, end=0, probability=answer.score))
    return SpanMarks(
        question=question,
        passage=passage,
        marks=[Mark(start=start, end=end, begins=begins, ends=ends) for start, end, (begins, ends) in spans],
        candidates=candidates,
    )


def _with_input(view: View, inputs: Sequence[Any], **more: Any) -> View:
    return replace(view, numbers=lambda: {"input": list(inputs), **more, **view.numbers()})


def _title(inputs: Sequence[Any]) -> str:
    return " / ".join(text if isinstance(text, str) else " / ".join(text) for text in inputs)
