"""From a predictor and an input to a view. One function for each registered view (see `views/specs.py`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from regard.nn.hooks import streams
from regard.utils.errors import UsageError
from regard.views.specs import AttentionOptions, StepsOptions
from regard.views.view import View

if TYPE_CHECKING:
    from regard.tasks.base import Predictor


def attention(predictor: Predictor[Any], inputs: Sequence[Any], config: AttentionOptions) -> View:
    """Every attention over an input."""
    from regard.views.attention import attention_view
    from regard.views.traces import default_map, trace_maps

    trace, note = predictor.traced(inputs, config.target)
    maps = trace_maps(trace)
    view = attention_view(maps, title=_title(inputs), note=note, initial=default_map(maps))

    def numbers() -> dict[str, Any]:
        listed = [
            {"address": m.address, "rows": list(m.rows), "columns": list(m.columns), "weights": m.weights.tolist()}
            for m in maps
        ]
        return {"input": list(inputs), **({"output": note.removeprefix("→ ")} if note else {}), "attention": listed}

    return replace(view, numbers=numbers)


def steps(predictor: Predictor[Any], inputs: Sequence[Any], config: StepsOptions) -> View:
    """How one attention over an input is computed."""
    from regard.inspection.steps import attention_steps, choose_attention
    from regard.views.steps import steps_view

    root = predictor.trace_root
    address = choose_attention(root, config.address)
    # An encoder that feeds a decoder has finished before the first output token.
    is_encoder_only = streams(address)[0] == "encoder" and "encoder-decoder" in predictor.capabilities
    target = "" if config.target is None and is_encoder_only else config.target
    found = attention_steps(root, lambda: predictor.traced(inputs, target)[0], address=address)
    view = steps_view(found, title=_title(inputs))
    return replace(view, numbers=lambda: {"input": list(inputs), **found.numbers()})


def targets(predictor: Any, inputs: Sequence[Any], config: None) -> View:
    """What a language model has to predict at each position of a text."""
    from regard.inspection.causal import causal_training
    from regard.views.causal import causal_view

    found = causal_training(predictor, *inputs)
    return _with_numbers(causal_view(found, title=_title(inputs)), inputs, found)


def ranks(predictor: Any, inputs: Sequence[Any], config: AttentionOptions) -> View:
    """How much of each head's values a text needs."""
    from regard.inspection.ranks import value_ranks
    from regard.views.ranks import ranks_view

    found = value_ranks(predictor, *inputs, target=config.target)
    return _with_numbers(ranks_view(found, title=_title(inputs)), inputs, found)


def inputs(predictor: Any, inputs: Sequence[Any], config: None) -> View:
    """What enters an encoder."""
    from regard.inspection.inputs import input_sums
    from regard.views.inputs import inputs_view

    found = input_sums(predictor, inputs[0] if len(inputs) == 1 else (inputs[0], inputs[1]))
    return _with_numbers(inputs_view(found, title=_title(inputs)), inputs, found)


def answer(predictor: Predictor[Any], inputs: Sequence[Any], config: None) -> View:
    """Where in its passage an answer starts and ends."""
    from regard.inspection.spans import span_marks
    from regard.views.spans import spans_view

    if len(inputs) < 2:
        raise UsageError("give two texts, a question and a passage.", argument="inputs")
    found = span_marks(predictor, inputs[0], inputs[1])  # type: ignore[arg-type]  # the view needs such a predictor
    view = spans_view(found, note=repr(predictor))
    return replace(view, numbers=lambda: {"input": [inputs[0], inputs[1]], **found.numbers()})


def _with_numbers(view: View, inputs: Sequence[Any], found: Any) -> View:
    return replace(view, lines=tuple(found.lines()), numbers=lambda: {"input": list(inputs), **found.numbers()})


def _title(inputs: Sequence[Any]) -> str:
    return " / ".join(text if isinstance(text, str) else " / ".join(text) for text in inputs)
