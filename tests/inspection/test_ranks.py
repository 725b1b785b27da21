"""Ranks of OV matrices: a layer computes the product of two factors, which has a low rank."""

from __future__ import annotations

import copy
import math
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from regard.inspection.ranks import factors_of, rank_curve, truncate_values, value_factors, value_ranks
from regard.models.gpt.config import GPTConfig
from regard.models.gpt.model import GPT
from regard.models.transformer.config import TransformerConfig
from regard.models.transformer.model import Transformer
from regard.nn import masks
from regard.nn.attention import attention_weights
from regard.nn.hooks import capture
from regard.nn.lora import LoRAConfig, add_adapters, merge
from regard.nn.multihead import MultiHeadAttention
from regard.nn.quantized import quantize_weights
from regard.tasks.generate.predictor import TextGenerator
from regard.tasks.score.predictor import TextScorer
from regard.tokenizers.training import train_tokenizer
from regard.utils.errors import UsageError
from regard.views.studies import Ranks, ranks_view

D_MODEL, HEADS, HEAD_DIM = 14, 6, 5


def make_attention(shared: int | None = None, *, bias: bool = True) -> MultiHeadAttention:
    torch.manual_seed(0)
    made = MultiHeadAttention(D_MODEL, num_heads=HEADS, head_dim=HEAD_DIM, num_kv_heads=shared, bias=bias).double()
    for param in made.parameters():
        torch.nn.init.normal_(param, std=0.4)
    return made.eval()


@pytest.fixture(scope="module")
def text_generator() -> TextGenerator:
    text = "a bad cab faced a decade. "
    tokenizer = train_tokenizer([text], kind="char", vocab_size=100)
    torch.manual_seed(1)
    config = GPTConfig(
        vocab_size=tokenizer.vocab_size, context_length=23, num_layers=3, d_model=D_MODEL, num_heads=HEADS,
        head_dim=HEAD_DIM, d_ff=17, bias=True, norm="layer", positions="learned",
    )  # fmt: skip
    model = GPT(config)
    for param in model.parameters():
        torch.nn.init.normal_(param, std=0.5)
    return TextGenerator(model, tokenizer)


@pytest.mark.parametrize("shared", [None, 1, 3])
def test_m119_the_factored_product_is_what_the_layer_computes(shared: int | None) -> None:
    """The output is the sum over heads of weights · x · W^V W^O, with D × D matrices."""
    attention = make_attention(shared, bias=False)
    x = torch.randn(1, 7, D_MODEL, dtype=torch.float64)
    with torch.no_grad():
        computed = attention(x, masks.causal())[0]
        q, k, _ = attention._self(x, None, None)
        k = k.repeat_interleave(HEADS // attention.num_kv_heads, dim=1)
        weights = attention_weights(q, k, masks.causal())[0]
    product = value_factors(attention).product
    assert product.shape == (HEADS, D_MODEL, D_MODEL)
    by_matrices = sum(weights[h] @ x[0] @ product[h] for h in range(HEADS))
    torch.testing.assert_close(computed, by_matrices, atol=1e-6, rtol=0)  # the factors are read in single precision


def test_m119_the_rank_of_a_value_matrix_is_at_most_head_dim() -> None:
    factors = value_factors(make_attention())
    assert factors.ranks() == [HEAD_DIM] * HEADS
    spectrum = factors.spectrum()
    for head in range(HEADS):
        whole = np.linalg.svd(factors.product[head].numpy(), compute_uv=False)
        assert whole[:HEAD_DIM] == pytest.approx(spectrum[head].numpy())
        assert whole[HEAD_DIM:] == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize("rank", range(HEAD_DIM + 2))
def test_a_truncated_product_is_the_nearest_of_its_rank(rank: int) -> None:
    factors = value_factors(make_attention())
    cut = factors.down @ factors.truncated_up(rank)
    for head in range(HEADS):
        u, s, v = np.linalg.svd(factors.product[head].numpy())
        kept = min(rank, D_MODEL)
        assert cut[head].numpy() == pytest.approx(u[:, :kept] * s[:kept] @ v[:kept], abs=1e-9)


def test_a_head_may_be_wider_than_the_model() -> None:
    attention = MultiHeadAttention(3, num_heads=2, head_dim=5).double()
    assert value_factors(attention).spectrum().shape == (2, 3)


@pytest.mark.parametrize("shared", [None, 2])
def test_biases_keep_their_effect_and_a_full_rank_changes_nothing(shared: int | None) -> None:
    model = torch.nn.ModuleList([make_attention(shared)])
    x = torch.randn(2, 7, D_MODEL, dtype=torch.float64)

    def run(made: torch.nn.Module) -> Tensor:
        with torch.no_grad():
            out: Tensor = made[0](x, masks.causal())  # type: ignore[index]
        return out

    torch.testing.assert_close(run(truncate_values(model, HEAD_DIM)), run(model), atol=1e-5, rtol=0)
    nothing = run(truncate_values(model, 0))
    # Without values only a constant is left: the same at every position of any text.
    torch.testing.assert_close(nothing, nothing[:1, :1].expand_as(nothing), atol=1e-12, rtol=0)
    attention = model[0]
    bias = attention.qkv_proj.bias[-attention.num_kv_heads * HEAD_DIM :].view(-1, HEAD_DIM)
    joined = bias.repeat_interleave(HEADS // attention.num_kv_heads, dim=0).flatten()
    torch.testing.assert_close(nothing[0, 0], attention.out_proj(joined).detach(), atol=1e-5, rtol=0)


def test_spectra_of_every_attention_of_a_translator() -> None:
    config = TransformerConfig(
        vocab_size=11, d_model=14, d_ff=17, num_heads=2, head_dim=5, num_encoder_layers=1, num_decoder_layers=1
    )
    spectra = {address: factors.spectrum() for address, factors in factors_of(Transformer(config)).items()}
    assert list(spectra) == ["encoder.0.self", "decoder.0.self", "decoder.0.cross"]
    assert all(values.shape == (2, 5) for values in spectra.values())


def test_adapters_count_as_part_of_the_matrices(text_generator: TextGenerator) -> None:
    adapted = copy.deepcopy(text_generator.model)
    add_adapters(adapted, LoRAConfig(lora_rank=2), seed=0)
    for name, param in adapted.named_parameters():
        if name.endswith("lora_b"):
            torch.nn.init.normal_(param)
    factors = factors_of(adapted)
    assert any(name.endswith("lora_b") for name, _ in adapted.named_parameters()), "the model is unchanged"
    merge(adapted)
    plain = factors_of(text_generator.model)
    for address, merged in factors_of(adapted).items():
        torch.testing.assert_close(factors[address].spectrum(), merged.spectrum())
        assert not torch.allclose(merged.spectrum(), plain[address].spectrum())


def test_the_curve_ends_with_the_unchanged_model(text_generator: TextGenerator) -> None:
    text = "a bad cab faced a decade."
    curve = rank_curve(text_generator, text)
    assert list(curve) == [0, 1, 2, 4, 5]
    assert curve[5] == TextScorer.adapt(text_generator)(text).loss
    truncated: Any = truncate_values(text_generator.model, 2)
    by_hand = TextScorer(truncated, text_generator.tokenizer)(text).loss
    assert curve[2] == pytest.approx(by_hand)
    assert not math.isclose(curve[1], curve[5])


def test_truncation_changes_only_a_copy(text_generator: TextGenerator) -> None:
    before = {name: value.clone() for name, value in text_generator.model.state_dict().items()}
    one = truncate_values(text_generator.model, 1)
    assert all(torch.equal(value, before[name]) for name, value in text_generator.model.state_dict().items())
    changed = [name for name, value in one.state_dict().items() if not torch.equal(value, before[name])]
    assert changed and all(".self_attention.out_proj" in name for name in changed)
    with capture(one) as trace:
        one(torch.tensor([[1, 2]]))
    assert trace.weights("decoder.1.self").shape[-1] == 2


@pytest.mark.parametrize(
    ("call", "argument"),
    [
        (lambda g: truncate_values(g.model, -1), "rank"),
        (lambda g: Ranks(d_model=2, head_dim=1, spectra={}, ranks={}, losses={0: 1.0}), "spectra"),
        (lambda g: Ranks(d_model=2, head_dim=1, spectra={"a": np.eye(1)}, ranks={"a": [1]}, losses={}), "losses"),
        (
            lambda g: Ranks(d_model=2, head_dim=1, spectra={"a": np.zeros(3)}, ranks={"a": [1]}, losses={0: 1.0}),
            "spectra",
        ),
    ],
    ids=["negative", "no-spectra", "no-losses", "shape"],
)
def test_bad_arguments(text_generator: TextGenerator, call: Callable[[TextGenerator], object], argument: str) -> None:
    with pytest.raises(UsageError) as error:
        call(text_generator)
    assert error.value.argument == argument


def test_quantized_weights_have_no_ranks(text_generator: TextGenerator) -> None:
    quantized = copy.deepcopy(text_generator.model)
    quantize_weights(quantized, "int8")
    with pytest.raises(UsageError) as error:
        factors_of(quantized)
    assert error.value.argument == "precision"


def test_the_page_and_its_picture(text_generator: TextGenerator) -> None:
    ranks = value_ranks(text_generator, "a bad cab.")
    view = ranks_view(ranks, title="<b>a bad cab</b>")
    assert {str(n) for n in (5, 2 * D_MODEL * HEAD_DIM, D_MODEL**2)} <= set(re.findall(r"\d+", view.data["note"]))
    assert len(view.data["spectra"]) == 3
    assert "<b>a bad" not in view.html()
    assert "decoder.0.self" in view.svg()
    assert ranks.numbers()["losses"][-1] == {"rank": 5, "loss": ranks.losses[5]}
