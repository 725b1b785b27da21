"""Maps of a captured forward pass: the model's own tokens on both axes, weights without padding."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from regard.models.transformer.config import TransformerConfig
from regard.models.transformer.model import Transformer
from regard.nn import masks
from regard.nn.hooks import Trace, capture
from regard.utils.errors import UsageError
from regard.views.attention import AttentionMap, attention_view, trace_maps

LONG, SHORT, WRITTEN, HEADS, WIDE = 7, 5, 3, 3, 5  # tokens of two sources, of the target; heads, and heads at one place
PAD = 0
SOURCES = [[2, 3, 4, 5, 6, 7, 8], [9, 10, 11, 12, 8]]
TARGETS = [[1, 13, 14], [1, 15, 16]]
TOKENS = {
    "encoder": [["The", "cat", "did", "not", "sleep", ".", "</s>"], ["A", "dog", "barks", ".", "</s>"]],
    "decoder": [["<s>", "Le", "chat"], ["<s>", "Un", "chien"]],
}
ADDRESSES = [
    *("encoder.0.self", "encoder.1.self"),
    *("decoder.0.self", "decoder.0.cross", "decoder.1.self", "decoder.1.cross"),
]


@pytest.fixture(scope="module")
def model() -> Transformer:
    torch.manual_seed(0)
    config = TransformerConfig(
        vocab_size=17,
        num_encoder_layers=2,
        num_decoder_layers=2,
        d_model=14,
        d_ff=11,
        num_heads=HEADS,
        head_dim=6,
        num_heads_by_layer={"decoder.1.cross": WIDE},
    )
    return Transformer(config).eval()


def padded() -> tuple[Tensor, Tensor, masks.AttentionMask]:
    source = torch.tensor([ids + [PAD] * (LONG - len(ids)) for ids in SOURCES])
    return source, torch.tensor(TARGETS), masks.lengths(torch.tensor([LONG, SHORT]))


def both(model: Transformer, *, grad: bool = False) -> Trace:
    """A forward pass over both texts; the second source is padded to the length of the first."""
    source, target, mask = padded()
    with torch.set_grad_enabled(grad), capture(model, tokens=TOKENS, grad=grad) as trace:
        model(source, target, mask)
    return trace


def by_address(trace: Trace, batch: int = 0) -> dict[str, AttentionMap]:
    return {one.address: one for one in trace_maps(trace, batch=batch)}


def test_every_attention_is_a_map_in_the_order_of_the_pass(model: Transformer) -> None:
    assert [one.address for one in trace_maps(both(model))] == ADDRESSES


def test_weights_are_those_of_the_trace(model: Transformer) -> None:
    trace = both(model)
    kinds = {kind: trace.attentions(kind) for kind in ("encoder.self", "decoder.self", "decoder.cross")}
    for address, one in by_address(trace).items():
        stack, layer, which = address.split(".")
        assert np.array_equal(one.weights, kinds[f"{stack}.{which}"][int(layer)][0].numpy())


def test_each_axis_carries_the_tokens_of_its_stream(model: Transformer) -> None:
    for address, one in by_address(both(model)).items():
        stack = address.split(".")[0]
        looked_at = "encoder" if address.endswith("cross") else stack
        assert (list(one.rows), list(one.columns)) == (TOKENS[stack][0], TOKENS[looked_at][0])


def test_layers_may_have_different_numbers_of_heads(model: Transformer) -> None:
    heads = {address: len(one.weights) for address, one in by_address(both(model)).items()}
    assert heads == {address: WIDE if address == "decoder.1.cross" else HEADS for address in ADDRESSES}


@pytest.mark.parametrize("batch", [1, -1])
def test_a_padded_text_has_the_weights_it_has_alone(model: Transformer, batch: int) -> None:
    alone_tokens = {stream: rows[1:] for stream, rows in TOKENS.items()}
    with torch.no_grad(), capture(model, tokens=alone_tokens) as trace:
        model(torch.tensor(SOURCES[1:]), torch.tensor(TARGETS[1:]))
    alone, trimmed = by_address(trace), by_address(both(model), batch)
    shapes = {
        "encoder.0.self": (SHORT, SHORT),
        "decoder.0.self": (WRITTEN, WRITTEN),
        "decoder.0.cross": (WRITTEN, SHORT),
    }
    for address, shape in shapes.items():
        assert trimmed[address].weights.shape[1:] == shape
    for address in ADDRESSES:
        assert (trimmed[address].rows, trimmed[address].columns) == (alone[address].rows, alone[address].columns)
        # The same sums over five keys instead of seven may differ in the last bits of a float32.
        np.testing.assert_allclose(trimmed[address].weights, alone[address].weights, atol=1e-6)
        np.testing.assert_allclose(trimmed[address].weights.sum(axis=-1), 1, atol=1e-6)


def test_without_tokens_positions_are_the_labels(model: Transformer) -> None:
    source, target, mask = padded()
    with torch.no_grad(), capture(model) as trace:
        model(source, target, mask)
    cross = by_address(trace)["decoder.0.cross"]
    assert (cross.rows, cross.columns) == (("0", "1", "2"), ("0", "1", "2", "3", "4", "5", "6"))


def test_a_trace_with_its_graph_can_be_drawn(model: Transformer) -> None:
    plain, kept = both(model), both(model, grad=True)
    assert kept.weights("decoder.1.cross").requires_grad
    for address, one in by_address(kept).items():
        assert np.array_equal(one.weights, by_address(plain)[address].weights)


def test_the_maps_make_a_view(model: Transformer) -> None:
    view = attention_view(trace_maps(both(model), batch=1), title="A dog barks.", initial="decoder.1.cross")
    assert sorted(view.data["axes"]) == sorted([TOKENS["encoder"][1], TOKENS["decoder"][1]])


def test_labels_that_omit_attended_tokens_are_refused(model: Transformer) -> None:
    """Trimming removes padding, never weights: each token that the model can attend to needs a label."""
    too_few = {"encoder": [row[:2] for row in TOKENS["encoder"]], "decoder": TOKENS["decoder"]}
    source, target, mask = padded()
    with torch.no_grad(), capture(model, tokens=too_few) as trace:
        model(source, target, mask)
    with pytest.raises(UsageError) as error:
        trace_maps(trace)
    assert error.value.argument == "weights"


def test_a_text_that_is_not_in_the_batch_is_refused(model: Transformer) -> None:
    with pytest.raises(UsageError):
        trace_maps(both(model), batch=2)


def test_an_empty_trace_is_refused(model: Transformer) -> None:
    with capture(model) as trace, pytest.raises(UsageError) as error:
        trace_maps(trace)
    assert error.value.argument == "trace"
