"""The five steps of a real attention: each array recomputed from the one before it, in float64."""

from __future__ import annotations

import base64
import math
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from regard.inspection.steps import attention_steps, choose_attention
from regard.models.gpt.config import GPTConfig
from regard.models.gpt.model import GPT
from regard.models.transformer.config import MODERN, TransformerConfig
from regard.models.transformer.model import Transformer
from regard.nn import masks
from regard.nn.hooks import Trace, capture
from regard.nn.multihead import MultiHeadAttention
from regard.utils.errors import UsageError
from regard.views.steps import AttentionSteps, steps_view

WORDS = ["Thinking", "Machines"]
SOURCE, TARGET = [[2, 3, 4, 5, 6], [7, 8, 9, 0, 0]], [[1, 10, 11], [1, 12, 13]]
TOKENS = {"encoder": [list("abcde"), list("fgh")], "decoder": [["<s>", "u", "v"], ["<s>", "x", "y"]]}
SMALL: dict[str, Any] = dict(
    vocab_size=17, num_encoder_layers=2, num_decoder_layers=2, d_model=22, d_ff=13, num_heads=3, head_dim=6
)


def small(**settings: Any) -> Transformer:
    return Transformer(TransformerConfig(**(SMALL | settings))).eval()


def loud(model: nn.Module) -> None:
    """Set all weights and biases to nonzero values; in a new model some are zero."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(std=0.3)


def pair(model: Transformer) -> Callable[[], Trace]:
    """A forward pass over two texts; the second source is padded."""

    def run() -> Trace:
        with torch.no_grad(), capture(model, tokens=TOKENS) as trace:
            model(torch.tensor(SOURCE), torch.tensor(TARGET), masks.lengths(torch.tensor([5, 3])))
        return trace

    return run


def tensor(array: object) -> Tensor:
    return torch.as_tensor(np.asarray(array), dtype=torch.float64)


@pytest.fixture(scope="module")
def thinking() -> tuple[Transformer, AttentionSteps, Tensor]:
    """A layer with the shape of the base model, its steps for two words, and the output of its attention."""
    torch.manual_seed(0)
    model = Transformer(TransformerConfig(vocab_size=11, num_encoder_layers=1, num_decoder_layers=1)).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith("bias"):
                parameter.normal_(std=0.1)  # a fresh model has zeros, which would hide a forgotten bias
    given: list[Tensor] = []
    attention = model.encoder[0].self_attention
    hook = attention.register_forward_hook(lambda _module, _inputs, output: given.append(output))

    def run() -> Trace:
        with torch.no_grad(), capture(model, tokens={"encoder": [WORDS]}) as trace:
            model.encode(torch.tensor([[3, 7]]), masks.no_mask())
        return trace

    steps = attention_steps(model, run)
    hook.remove()
    return model, steps, given[0][0]


def test_m99_the_shapes_of_the_figure(thinking: tuple[Transformer, AttentionSteps, Tensor]) -> None:
    _, steps, _ = thinking
    assert list(steps.rows) == list(steps.columns) == WORDS
    assert steps.address == "encoder.0.self" and steps.embedded
    assert steps.inputs.shape == (2, 512)
    assert steps.query_matrices.shape == steps.key_matrices.shape == steps.value_matrices.shape == (8, 512, 64)
    assert steps.queries.shape == steps.keys.shape == steps.values.shape == steps.heads.shape == (8, 2, 64)
    assert steps.weights.shape == (8, 2, 2)
    assert steps.output_matrix.shape == (512, 512)
    assert steps.output.shape == (2, 512)


def test_m99_each_step_follows_from_the_one_before(thinking: tuple[Transformer, AttentionSteps, Tensor]) -> None:
    """softmax(Q Kᵀ / √64) V, joined and multiplied with W^O, all from X and the module's parameters."""
    model, steps, given = thinking
    attention = model.encoder[0].self_attention
    x = (model.source_embedding.weight[[3, 7]] * math.sqrt(512)).double()
    angles = torch.arange(2)[:, None] / 10_000 ** (torch.arange(0, 512, 2, dtype=torch.float64) / 512)
    x = x + torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)
    torch.testing.assert_close(tensor(steps.inputs), x, atol=1e-5, rtol=0)

    weight, bias = attention.qkv_proj.weight.double(), attention.qkv_proj.bias.double()
    joint = x @ weight.T + bias
    joined = []
    for head in range(8):
        q, k, v = (joint[:, part * 512 + head * 64 : part * 512 + (head + 1) * 64] for part in range(3))
        scores = q @ k.T / 8
        powers = (scores - scores.max(dim=-1, keepdim=True).values).exp()
        weights = powers / powers.sum(dim=-1, keepdim=True)
        for found, wanted in (
            (steps.queries, q),
            (steps.keys, k),
            (steps.values, v),
            (steps.weights, weights),
            (steps.heads, weights @ v),
        ):
            torch.testing.assert_close(tensor(found[head]), wanted, atol=1e-5, rtol=0)
        joined.append(weights @ v)
    output = torch.cat(joined, dim=-1) @ attention.out_proj.weight.double().T + attention.out_proj.bias.double()
    torch.testing.assert_close(tensor(steps.output), output, atol=1e-5, rtol=0)
    torch.testing.assert_close(given.double(), output, atol=1e-5, rtol=0)


def test_m99_the_output_is_the_modules_own_bit_for_bit(thinking: tuple[Transformer, AttentionSteps, Tensor]) -> None:
    _, steps, given = thinking
    assert np.array_equal(steps.output, given.numpy())


def test_m99_the_numbers_on_the_page_are_those_numbers(thinking: tuple[Transformer, AttentionSteps, Tensor]) -> None:
    _, steps, _ = thinking
    view = steps_view(steps, title="Thinking Machines")
    data = view.data
    integers = np.frombuffer(zlib.decompress(base64.b64decode(data["numbers"])), dtype="<i2")
    for part, arrays in (("inputs", [steps.inputs]), ("queries", steps.queries), ("heads", steps.heads)):
        for one, array in zip(data["parts"][part], arrays, strict=True):
            peak = data["scales"][one["kind"]]["peak"]
            numbers = integers[one["start"] : one["start"] + array.size].reshape(array.shape) / 32767 * peak
            np.testing.assert_allclose(numbers, array, atol=peak / 65534 * 1.001, rtol=0)
    assert [data["parts"][part][0]["shape"] for part in ("inputs", "matrices", "queries")] == [
        [2, 512],
        [512, 64],
        [2, 64],
    ]
    assert len(view.html().encode()) < 1_000_000


@pytest.mark.parametrize("settings", [{}, MODERN, MODERN | {"qk_norm": True}, {"num_heads": 5}])
@pytest.mark.parametrize("address", ["encoder.1.self", "decoder.0.self", "decoder.1.cross"])
@pytest.mark.parametrize("batch", [0, 1])
def test_steps_of_any_attention_fit_together(settings: dict[str, object], address: str, batch: int) -> None:
    torch.manual_seed(1)
    model = small(**settings)
    loud(model)
    steps = attention_steps(model, pair(model), address=address, batch=batch)
    stack = address.split(".")[0]
    assert list(steps.rows) == TOKENS[stack][batch]
    assert list(steps.columns) == TOKENS["decoder" if address == "decoder.0.self" else "encoder"][batch]
    stack_name, layer, kind = address.split(".")
    attention = getattr(getattr(model, stack_name)[int(layer)], f"{kind}_attention")
    looked_at = tensor(steps.inputs if steps.memory is None else steps.memory)

    plain = attention.norm is None and attention.rotary is None
    biases = None if attention.out_proj.bias is None else _biases(attention)
    for part, (x, matrices, found) in enumerate(
        (
            (tensor(steps.inputs), steps.query_matrices, steps.queries),
            (looked_at, steps.key_matrices, steps.keys),
            (looked_at, steps.value_matrices, steps.values),
        )
    ):
        product = x @ tensor(matrices)
        product = product if biases is None else product + biases[part]
        if plain or part == 2:
            torch.testing.assert_close(tensor(found), product, atol=1e-4, rtol=1e-4)
        elif attention.norm is None:  # a rotation keeps lengths
            torch.testing.assert_close(tensor(found).norm(dim=-1), product.norm(dim=-1), atol=1e-4, rtol=1e-4)
    scores = tensor(steps.queries) @ tensor(steps.keys).transpose(1, 2) / math.sqrt(6)
    if address == "decoder.0.self":
        scores = scores.masked_fill(torch.ones(3, 3).triu(1).bool(), -torch.inf)
    weights = scores.softmax(dim=-1)
    torch.testing.assert_close(tensor(steps.weights), weights, atol=1e-5, rtol=0)
    torch.testing.assert_close(tensor(steps.heads), weights @ tensor(steps.values), atol=1e-4, rtol=1e-4)
    joined = tensor(steps.heads).transpose(0, 1).flatten(1) @ tensor(steps.output_matrix)
    joined = joined if attention.out_proj.bias is None else joined + attention.out_proj.bias.double()
    torch.testing.assert_close(tensor(steps.output), joined, atol=1e-4, rtol=1e-4)
    steps_view(steps, title="t").html()


def _biases(attention: MultiHeadAttention) -> list[Tensor]:
    """The biases of Q, K and V by head: (H, 1, Dh)."""
    both = torch.cat([attention.q_proj.bias, attention.kv_proj.bias]) if attention.cross else None
    joint = attention.qkv_proj.bias if both is None else both
    return [part.double().view(attention.num_heads, 1, -1) for part in joint.chunk(3)]


@pytest.mark.parametrize("shared", [1, 2])
def test_heads_that_share_keys_and_values_show_the_same_ones(shared: int) -> None:
    torch.manual_seed(2)
    attention = MultiHeadAttention(22, num_heads=4, head_dim=6, num_kv_heads=shared, bias=False)
    x = torch.randn(1, 5, 22)

    def run() -> Trace:
        with torch.no_grad(), capture(attention) as trace:
            attention(x)
        return trace

    steps = attention_steps(attention, run)
    assert list(steps.rows) == ["0", "1", "2", "3", "4"]
    assert np.array_equal(steps.keys[0], steps.keys[4 // shared - 1])
    assert np.array_equal(steps.value_matrices[0], steps.value_matrices[4 // shared - 1])
    torch.testing.assert_close(tensor(steps.values), tensor(x[0]) @ tensor(steps.value_matrices), atol=1e-5, rtol=0)
    assert set(steps.remarks) >= {3} and str(shared) in steps.remarks[3]


def test_remarks_name_extensions_of_the_model() -> None:
    plain = small(bias=False)
    assert attention_steps(plain, pair(plain)).remarks == {}
    modern = small(**MODERN, qk_norm=True)
    remarks = attention_steps(modern, pair(modern)).remarks
    assert "norm" in remarks[2]
    assert "RMS norm" in remarks[4] and "rotary" in remarks[4]
    assert "rotary" not in attention_steps(modern, pair(modern), address="decoder.0.cross").remarks[4]
    biased = small()
    assert set(attention_steps(biased, pair(biased)).remarks) == {3, 5}


def test_the_default_is_the_first_attention_of_the_encoder_or_of_the_model() -> None:
    assert choose_attention(small(), None) == "encoder.0.self"
    gpt = GPT(GPTConfig(vocab_size=11, num_layers=1, d_model=8, d_ff=8, num_heads=2, head_dim=4))
    assert choose_attention(gpt, None) == "decoder.0.self"


def test_unknown_addresses_are_refused() -> None:
    model = small()
    with pytest.raises(UsageError) as error:
        attention_steps(model, pair(model), address="encoder.0.cross")
    assert error.value.value == "encoder.0.cross" and "encoder.1.self" in (error.value.allowed or ())
    with pytest.raises(UsageError) as error:
        choose_attention(nn.Linear(2, 3), None)
    assert error.value.argument == "model"
