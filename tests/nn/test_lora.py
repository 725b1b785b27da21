"""LoRA compared with W + α/r · BA by hand; adapters change nothing at first and are the only trained weights."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from regard.models.gpt.config import GPTConfig
from regard.models.gpt.model import GPT
from regard.nn.config import LoRAConfig
from regard.nn.hooks import capture
from regard.nn.lora import LoRALinear, adapter_tensors, add_adapters, merge
from regard.utils.errors import UsageError

SHAPE: dict[str, Any] = dict(
    vocab_size=29, context_length=17, num_layers=2, d_model=21, d_ff=31, num_heads=3, head_dim=6
)
IDS = torch.tensor([[3, 1, 4, 1, 5, 9, 2, 6, 28], [2, 7, 1, 8, 2, 8, 1, 8, 0]])


def gpt(**changes: Any) -> GPT:
    torch.manual_seed(0)
    model = GPT(GPTConfig(**{**SHAPE, **changes})).eval()
    for param in model.parameters():
        nn.init.normal_(param, std=0.3)
    return model


def randomize_b(model: nn.Module) -> None:
    """Set B to nonzero values, as training would."""
    for name, param in model.named_parameters():
        if name.endswith("lora_b"):
            nn.init.normal_(param, std=0.5)


def test_an_adapted_layer_by_hand() -> None:
    base = nn.Linear(3, 2)
    with torch.no_grad():
        base.weight.copy_(torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]))
        base.bias.copy_(torch.tensor([10.0, 20.0]))
    layer = LoRALinear(base, rank=1, alpha=2.0)
    with torch.no_grad():
        layer.lora_a.copy_(torch.tensor([[1.0, 0.0, -1.0]]))
        layer.lora_b.copy_(torch.tensor([[3.0], [5.0]]))
    # α/r · BA = 2 · [[3, 0, -3], [5, 0, -5]], so the whole matrix is [[7, 2, -3], [14, 5, -4]].
    assert layer(torch.tensor([1.0, 2.0, 4.0])).tolist() == [7 + 4 - 12 + 10, 14 + 10 - 16 + 20]
    merged = layer.merged()
    assert not isinstance(merged, LoRALinear)
    assert merged.weight.tolist() == [[7, 2, -3], [14, 5, -4]]
    assert merged.bias.tolist() == [10, 20]


@pytest.mark.parametrize("on", ["attention", "all"])
@pytest.mark.parametrize("changes", [{}, {"bias": True, "activation": "swiglu", "num_kv_heads": 1}], ids=str)
def test_adapters_change_nothing_at_first_and_are_trained_alone(on: Any, changes: dict[str, Any]) -> None:
    model = gpt(**changes)
    before = model(IDS)
    names = list(model.state_dict())
    add_adapters(model, LoRAConfig(lora_rank=2, lora_targets=on), seed=1)
    assert torch.equal(model(IDS), before)
    assert [name for name in model.state_dict() if ".lora_" not in name] == names
    trainable = {name for name, param in model.named_parameters() if param.requires_grad}
    assert trainable == set(adapter_tensors(model))
    layers = {name.rpartition(".")[0].rpartition(".")[2] for name in trainable}
    assert layers == {"qkv_proj", "out_proj"} | ({"up_proj", "down_proj"} if on == "all" else set())
    model(IDS).square().sum().backward()
    assert all(param.grad is None for name, param in model.named_parameters() if name not in trainable)
    # At the start B is zero, so only B gets a gradient; A follows after the first step.
    assert all((param.grad != 0).any() for name, param in model.named_parameters() if name.endswith("lora_b"))


@pytest.mark.parametrize("on", ["attention", "all"])
def test_merged_weights_equal_the_sum_in_float64(on: Any) -> None:
    model = gpt(bias=True)
    plain = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    config = LoRAConfig(lora_rank=3, lora_alpha=7.0, lora_targets=on)
    add_adapters(model, config, seed=1)
    randomize_b(model)
    adapters = {name: tensor.clone() for name, tensor in adapter_tensors(model).items()}
    adapted = model(IDS)
    merge(model)
    assert list(model.state_dict()) == list(plain)
    assert all(param.requires_grad for param in model.parameters())
    for name, tensor in model.state_dict().items():
        layer = name.removesuffix(".weight")
        expected = plain[name].double()
        if f"{layer}.lora_a" in adapters:
            a, b = adapters[f"{layer}.lora_a"].double(), adapters[f"{layer}.lora_b"].double()
            expected = expected + 7 / 3 * torch.einsum("or,ri->oi", b, a)
        torch.testing.assert_close(tensor.double(), expected, atol=1e-6, rtol=0)  # rounded to float32 once
    torch.testing.assert_close(model(IDS), adapted, atol=1e-4, rtol=1e-5)
    assert not torch.allclose(adapted, gpt(bias=True)(IDS), atol=1e-2)


def test_caches_and_capture_do_not_change_the_output() -> None:
    model = gpt().double()
    add_adapters(model, LoRAConfig(lora_rank=2, lora_targets="all"), seed=1)
    randomize_b(model)
    with torch.no_grad():
        whole = model(IDS)
        caches = model.new_caches()
        parts = [model.logits(model.decode(chunk, caches=caches)) for chunk in IDS.split([4, 1, 4], dim=1)]
        torch.testing.assert_close(torch.cat(parts, dim=1), whole, atol=1e-10, rtol=0)
        with capture(model) as trace:
            assert torch.equal(model(IDS), whole)
        weights = trace.weights("decoder.1.self")
        merge(model)
        with capture(model) as again:
            model(IDS)
        torch.testing.assert_close(again.weights("decoder.1.self"), weights, atol=1e-10, rtol=0)


def test_the_same_seed_gives_the_same_adapters_and_the_global_generator_is_unchanged() -> None:
    models = [gpt() for _ in range(3)]
    state = torch.random.get_rng_state()
    for model, seed in zip(models, (5, 5, 6), strict=True):
        add_adapters(model, LoRAConfig(), seed=seed)
    assert torch.equal(torch.random.get_rng_state(), state)
    first, second, other = (adapter_tensors(model)["decoder.1.self_attention.out_proj.lora_a"] for model in models)
    assert torch.equal(first, second)
    assert not torch.equal(first, other)


@pytest.mark.parametrize(
    ("settings", "argument"),
    [
        ({"lora_rank": 0}, "lora_rank"),
        ({"lora_alpha": 0.0}, "lora_alpha"),
        ({"lora_alpha": float("inf")}, "lora_alpha"),
        ({"lora_targets": "al"}, "lora_targets"),
        ({"lora_rank": 19}, "lora_rank"),
    ],
)
def test_invalid_settings_are_refused(settings: dict[str, Any], argument: str) -> None:
    model = gpt()
    with pytest.raises(UsageError) as caught:
        add_adapters(model, LoRAConfig(**settings), seed=0)
    assert caught.value.argument == argument
    assert all(param.requires_grad for param in model.parameters()), "the model is unchanged after an error"


def test_a_model_with_adapters_gets_no_second_ones() -> None:
    model = gpt()
    add_adapters(model, LoRAConfig(), seed=0)
    with pytest.raises(UsageError) as caught:
        add_adapters(model, LoRAConfig(), seed=0)
    assert caught.value.argument == "model"
