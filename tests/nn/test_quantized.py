"""Quantized weights in int8 and int4: rounding errors, layout in memory, use in a model."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from regard.models.gpt.config import GPTConfig
from regard.models.gpt.model import GPT
from regard.nn.quantized import QuantizedWeight, count_weights, quantize, quantize_weights
from regard.utils.errors import UsageError


@given(rows=st.integers(1, 7), columns=st.integers(1, 140), seed=st.integers(0, 99), spread=st.floats(1e-6, 1e6))
def test_int8_error_is_at_most_half_a_step(rows: int, columns: int, seed: int, spread: float) -> None:
    weight = torch.randn(rows, columns, generator=torch.Generator().manual_seed(seed)) * spread
    step = weight.abs().amax(dim=1, keepdim=True) / 127
    assert ((quantize(weight, "int8").dequantize() - weight).abs() <= step * 0.501).all()


@given(rows=st.integers(1, 7), columns=st.integers(1, 140), seed=st.integers(0, 99), spread=st.floats(1e-6, 1e6))
def test_int4_error_is_at_most_one_step_of_the_group(rows: int, columns: int, seed: int, spread: float) -> None:
    weight = torch.randn(rows, columns, generator=torch.Generator().manual_seed(seed)) * spread
    padded = F.pad(weight, (0, -columns % 32)).view(rows, -1, 32)
    # Half a step, or a whole one for values opposite to the extreme: codes are -8 to 7. bfloat16 scales are 0.4 % off.
    step = (padded.abs().amax(dim=2, keepdim=True) / 8).expand_as(padded).reshape(rows, -1)[:, :columns]
    assert ((quantize(weight, "int4").dequantize() - weight).abs() <= step * 1.04).all()


def test_int4_by_hand() -> None:
    weight = torch.zeros(1, 64)
    weight[0, :4] = torch.tensor([-8.0, 7.0, 1.0, 3.4])
    weight[0, 32:34] = torch.tensor([4.0, -1.0])  # the largest is positive: the scale is negative
    quantized = quantize(weight, "int4")
    assert quantized.scales.tolist() == [[1.0, -0.5]]
    assert quantized.codes[0, :4].tolist() == [0 | 0 << 4, 15 | 10 << 4, 9 | 8 << 4, 11 | 8 << 4]
    assert quantized.dequantize()[0, [0, 1, 2, 3, 32, 33, 63]].tolist() == [-8.0, 7.0, 1.0, 3.0, 4.0, -1.0, 0.0]


@pytest.mark.parametrize(("precision", "share"), [("int8", 0.27), ("int4", 0.15)])
def test_a_quantized_weight_works_in_linear_and_embedding(precision: Any, share: float) -> None:
    weight = torch.randn(33, 70)
    quantized = quantize(weight, precision)
    assert quantized.nbytes < share * 4 * 33 * 128  # 70 columns are two pairs of groups
    assert quantized.shape == weight.shape and quantized.device == weight.device
    x, ids = torch.randn(2, 5, 70), torch.tensor([[3, 32], [0, 3]])
    assert torch.equal(F.linear(x, quantized), F.linear(x, quantized.dequantize()))  # type: ignore[arg-type]
    assert torch.equal(F.embedding(ids, quantized), quantized.dequantize()[ids])  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        torch.relu(quantized)  # type: ignore[arg-type]


def test_products_that_share_a_buffer_are_independent() -> None:
    """Matrices are dequantized into one buffer, one after the other, unless gradients are needed."""
    weights = [torch.randn(33, 70), torch.randn(20, 33), torch.randn(40, 20)]
    quantized = [quantize(weight, "int4") for weight in weights]
    plain = [one.dequantize() for one in quantized]
    x = torch.randn(5, 70, requires_grad=True)

    def product(matrices: Any) -> torch.Tensor:
        out = x
        for matrix in matrices:
            out = F.linear(out, matrix)
        return out

    with torch.inference_mode():
        assert torch.equal(product(quantized), product(plain))
    with torch.no_grad():
        assert torch.equal(product(quantized), product(plain))
    (found,) = torch.autograd.grad(product(quantized).sum(), x)
    (expected,) = torch.autograd.grad(product(plain).sum(), x)
    assert torch.equal(found, expected)
    with ThreadPoolExecutor(4) as pool, torch.no_grad():
        expected = product(plain)
        assert all(torch.equal(expected, one) for one in pool.map(lambda _: _detached(product, quantized), range(40)))


def _detached(product: Any, matrices: Any) -> torch.Tensor:
    with torch.no_grad():  # a thread has its own mode
        return product(matrices)  # type: ignore[no-any-return]


def test_rows_of_zeros_stay_zeros() -> None:
    for precision in ("int8", "int4"):
        assert quantize(torch.zeros(3, 40), precision).dequantize().count_nonzero() == 0  # type: ignore[arg-type]


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("precision", ["int8", "int4"])
def test_a_quantized_model_still_runs(precision: Any, tied: bool) -> None:
    shape = dict(vocab_size=37, num_layers=2, d_model=64, d_ff=128, num_heads=2, head_dim=32, positions="learned")
    model = GPT(GPTConfig(**shape, tie_embeddings=tied)).eval()  # type: ignore[arg-type]
    for param in model.parameters():
        nn.init.normal_(param, std=0.2)
    ids, count = torch.randint(37, (2, 9)), count_weights(model)
    plain = model(ids)
    quantize_weights(model, precision)
    assert count_weights(model) == count == sum(p.numel() for p in GPT(model.config).parameters())
    assert (model.output_weight is model.embedding.weight) == tied
    assert isinstance(model.decoder[0].feed_forward.up_proj.weight, QuantizedWeight)
    assert isinstance(model.embedding.positions.weight, nn.Parameter)  # positions stay as they are
    found = model(ids)
    assert 0 < (found - plain).std() < (0.04 if precision == "int8" else 0.5) * plain.std()


@pytest.mark.parametrize("precision", ["int8", "int4"])
@pytest.mark.parametrize("tied", [False, True])
def test_all_codes_are_in_one_block_in_forward_order(precision: Any, tied: bool) -> None:
    torch.manual_seed(0)
    model = GPT(
        GPTConfig(vocab_size=11, context_length=5, num_layers=2, d_model=70, d_ff=33, num_heads=2, tie_embeddings=tied)
    )
    alone = {name: quantize(p.detach(), precision) for name, p in model.named_parameters() if p.dim() == 2}
    quantize_weights(model, precision)
    found = {
        f"{path}.{name}".lstrip("."): value
        for path, module in model.named_modules()
        for name, value in vars(module).items()
        if isinstance(value, QuantizedWeight)
    }
    assert found.keys() >= alone.keys()
    for name, expected in alone.items():
        assert torch.equal(found[name].codes, expected.codes), name
        assert torch.equal(found[name].dequantize(), expected.dequantize()), name
    places = sorted({one.codes.data_ptr(): one.codes.nbytes for one in found.values()}.items())
    assert len(places) == len(alone), "a tied matrix is stored once"
    ends = [start + size for start, size in places[:-1]]
    assert ends == [start for start, _ in places[1:]]
    layers = [found[f"decoder.{i}.self_attention.qkv_proj.weight"].codes.data_ptr() for i in range(2)]
    assert layers == sorted(layers)


def test_an_unknown_precision_is_refused() -> None:
    with pytest.raises(UsageError) as caught:
        quantize(torch.ones(2, 2), "int3")  # type: ignore[arg-type]
    assert (caught.value.argument, caught.value.allowed) == ("precision", ("int8", "int4"))
    model = nn.Linear(3, 2)
    quantize_weights(model, "fp32")
    assert isinstance(model.weight, nn.Parameter)


def test_fp32_moves_the_matrices_into_one_block_unchanged() -> None:
    model = GPT(GPTConfig(vocab_size=7, d_model=6, num_layers=2, d_ff=5, num_heads=3, head_dim=2, tie_embeddings=True))
    model.decoder.requires_grad_(False)
    before = {name: (param.detach().clone(), param.requires_grad) for name, param in model.named_parameters()}
    quantize_weights(model, "fp32")
    after = dict(model.named_parameters())
    assert after.keys() == before.keys(), "tied weights stay tied"
    for name, (values, requires_grad) in before.items():
        assert torch.equal(after[name], values) and after[name].requires_grad == requires_grad
    places = sorted(param.data_ptr() for param in model.parameters() if param.dim() == 2)
    assert all(place % 64 == 0 for place in places)
    assert places[-1] - places[0] < 4 * sum(param.numel() for param in model.parameters()) + 64 * len(places)
