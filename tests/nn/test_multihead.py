"""Multi-head attention compared with `torch.nn.MultiheadAttention` with the same weights, and with its formula."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from regard.nn import masks
from regard.nn.attention import Additive, General, ScaledDotProduct, Scorer
from regard.nn.hooks import capture, edit
from regard.nn.layers import RMSNorm
from regard.nn.multihead import KVCache, MultiHeadAttention
from regard.nn.positions import RotaryPositions
from regard.utils.errors import UsageError

B, T, S, D, H, DH = 2, 5, 7, 33, 3, 11


def randomize(module: nn.Module, seed: int = 0) -> None:
    """Set all weights and biases to nonzero values, so that a missing one fails a test."""
    random = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=random) * 0.3)


def twins(*, cross: bool) -> tuple[MultiHeadAttention, nn.MultiheadAttention]:
    ours = MultiHeadAttention(D, num_heads=H, head_dim=DH, cross=cross).eval()
    randomize(ours)
    theirs = nn.MultiheadAttention(D, H, batch_first=True).eval()
    with torch.no_grad():
        assert theirs.in_proj_weight is not None
        if cross:
            theirs.in_proj_weight.copy_(torch.cat((ours.q_proj.weight, ours.kv_proj.weight)))
            theirs.in_proj_bias.copy_(torch.cat((ours.q_proj.bias, ours.kv_proj.bias)))
        else:
            theirs.in_proj_weight.copy_(ours.qkv_proj.weight)
            theirs.in_proj_bias.copy_(ours.qkv_proj.bias)
        theirs.out_proj.weight.copy_(ours.out_proj.weight)
        theirs.out_proj.bias.copy_(ours.out_proj.bias)
    return ours, theirs


@pytest.fixture
def x() -> Tensor:
    return torch.randn(B, T, D, generator=torch.Generator().manual_seed(5))


@pytest.fixture
def memory() -> Tensor:
    return torch.randn(B, S, D, generator=torch.Generator().manual_seed(6))


def test_m97_self_attention_equals_torchs_with_copied_weights(x: Tensor) -> None:
    ours, theirs = twins(cross=False)
    expected, weights = theirs(x, x, x, average_attn_weights=False)
    with capture(ours) as trace:
        torch.testing.assert_close(ours(x), expected, atol=1e-5, rtol=0)
    torch.testing.assert_close(trace[""].weights(), weights, atol=1e-6, rtol=0)


def test_m97_masked_self_attention_equals_torchs(x: Tensor) -> None:
    ours, theirs = twins(cross=False)
    real = torch.tensor([3, 5])
    padding = torch.arange(T) >= real[:, None]
    future = torch.ones(T, T).triu(1).bool()
    expected, _ = theirs(x, x, x, key_padding_mask=padding, attn_mask=future)
    torch.testing.assert_close(ours(x, masks.causal() & masks.lengths(real)), expected, atol=1e-5, rtol=0)


def test_m107_cross_attention_takes_keys_and_values_from_the_encoder(x: Tensor, memory: Tensor) -> None:
    """`q_proj` is W^Q, applied to the decoder's states; `kv_proj` is W^K and W^V, applied to the encoder's output."""
    ours, theirs = twins(cross=True)
    assert {name: tuple(p.shape) for name, p in ours.state_dict().items()} == {
        "q_proj.weight": (H * DH, D),
        "q_proj.bias": (H * DH,),
        "kv_proj.weight": (2 * H * DH, D),
        "kv_proj.bias": (2 * H * DH,),
        "out_proj.weight": (D, H * DH),
        "out_proj.bias": (D,),
    }
    padding = torch.arange(S) >= torch.tensor([4, 7])[:, None]
    expected, _ = theirs(x, memory, memory, key_padding_mask=padding)
    out = ours(x, masks.lengths(torch.tensor([4, 7])), memory=memory)
    torch.testing.assert_close(out, expected, atol=1e-5, rtol=0)


def test_m103_cross_attention_has_a_row_for_each_output_and_a_column_for_each_input(x: Tensor, memory: Tensor) -> None:
    ours, _ = twins(cross=True)
    with capture(ours) as trace:
        ours(x, memory=memory)
    assert trace[""].weights().shape == (B, H, T, S)


def test_m103_a_memory_of_zeros_gives_a_constant_output(x: Tensor, memory: Tensor) -> None:
    ours, _ = twins(cross=True)
    value_bias = ours.kv_proj.bias[H * DH :]
    constant = ours.out_proj(value_bias)
    out = ours(x, memory=torch.zeros_like(memory))
    torch.testing.assert_close(out, constant.expand_as(out), atol=1e-6, rtol=0)


@pytest.mark.parametrize("heads", [1, 2, 5])
def test_m98_the_sum_over_heads_equals_the_concatenation(heads: int, x: Tensor) -> None:
    """Concat(head₁ …) W^O = Σ headᵢ Wᵢ^O, also if num_heads × head_dim is not d_model."""
    attention = MultiHeadAttention(D, num_heads=heads, head_dim=DH)
    randomize(attention)
    seen: list[Tensor] = []

    def look(value: Tensor) -> Tensor:
        seen.append(value)
        return value

    with edit(attention, "heads", look):
        out = attention(x)
    by_head = attention.out_proj.weight.T.reshape(heads, DH, D)  # Wᵢ^O
    total = torch.einsum("bhtk,hkd->btd", seen[0], by_head) + attention.out_proj.bias
    torch.testing.assert_close(out, total, atol=1e-6, rtol=1e-6)


def test_m97_each_head_uses_its_own_slices_of_the_matrices(x: Tensor) -> None:
    """Computed in float64 with W^Q, W^K and W^V of each head, one head at a time."""
    attention = MultiHeadAttention(D, num_heads=H, head_dim=DH).double()
    randomize(attention)
    x = x.double()
    W, b = attention.qkv_proj.weight, attention.qkv_proj.bias
    found = []
    for h in range(H):
        q, k, v = (x @ W[part * H * DH + h * DH :][:DH].T + b[part * H * DH + h * DH :][:DH] for part in range(3))
        scores = torch.einsum("btd,bsd->bts", q, k) / DH**0.5
        raised = scores.exp()
        found.append(raised / raised.sum(-1, keepdim=True) @ v)
    expected = torch.cat(found, dim=-1) @ attention.out_proj.weight.T + attention.out_proj.bias
    torch.testing.assert_close(attention(x), expected, atol=1e-12, rtol=0)


def test_m99_shapes_of_eight_heads_of_64() -> None:
    """X (words × 512) → eight heads of 64 → Z (words × 512) → W^O (512 × 512) → the shape of X."""
    attention = MultiHeadAttention(512, num_heads=8, head_dim=64, bias=False)
    assert attention.qkv_proj.weight.shape == (3 * 8 * 64, 512)
    assert attention.out_proj.weight.shape == (512, 512)
    shapes: list[torch.Size] = []

    def look(value: Tensor) -> Tensor:
        shapes.append(value.shape)
        return value

    with capture(attention) as trace, edit(attention, "heads", look):
        out = attention(torch.randn(1, 2, 512))  # "Thinking Machines"
    recipe = trace[""]
    assert recipe.q.shape == recipe.k.shape == (1, 8, 2, 64)
    assert recipe.weights().shape == (1, 8, 2, 2)
    assert shapes == [(1, 8, 2, 64)]
    assert out.shape == (1, 2, 512)


def test_m93_padding_does_not_change_other_positions(x: Tensor) -> None:
    ours, _ = twins(cross=False)
    padded = ours(x, masks.lengths(torch.tensor([3, 5])))
    torch.testing.assert_close(padded[:1, :3], ours(x[:1, :3]), atol=1e-5, rtol=0)
    torch.testing.assert_close(padded[1:], ours(x[1:]), atol=1e-5, rtol=0)


@pytest.mark.parametrize("t", range(T - 1))
def test_m94_later_tokens_do_not_change_earlier_outputs(t: int, x: Tensor) -> None:
    ours, _ = twins(cross=False)
    other = x.clone()
    other[:, t + 1] += 3.0
    before, after = ours(x, masks.causal()), ours(other, masks.causal())
    assert torch.equal(before[:, : t + 1], after[:, : t + 1])
    assert not torch.equal(before[:, t + 1], after[:, t + 1])


def test_queries_and_keys_are_normalized_before_they_are_rotated(x: Tensor) -> None:
    rotary = RotaryPositions(10)
    attention = MultiHeadAttention(D, num_heads=H, head_dim=10, rotary=rotary, qk_norm=True, bias=False)
    plain = MultiHeadAttention(D, num_heads=H, head_dim=10, bias=False)
    plain.load_state_dict(attention.state_dict())
    with capture(attention) as trace, capture(plain) as bare:
        attention(x)
        plain(x)
    norm = RMSNorm(10, elementwise_affine=False)
    for name in ("q", "k"):
        expected = rotary(norm(getattr(bare[""], name)))
        torch.testing.assert_close(getattr(trace[""], name), expected, atol=1e-6, rtol=0)


@pytest.mark.parametrize("chunks", [[5], [1, 1, 1, 1, 1], [2, 3], [3, 1, 1]])
@pytest.mark.parametrize("normalize", [False, True])
def test_cached_chunks_equal_one_forward_pass(chunks: list[int], normalize: bool, x: Tensor) -> None:
    attention = MultiHeadAttention(
        D, num_heads=4, head_dim=6, num_kv_heads=2, rotary=RotaryPositions(6), qk_norm=normalize
    )
    randomize(attention)
    attention.double()
    x, cache = x.double(), KVCache()
    with torch.no_grad():
        parts = [attention(part, masks.causal(), cache=cache) for part in x.split(chunks, dim=1)]
        torch.testing.assert_close(torch.cat(parts, dim=1), attention(x, masks.causal()), atol=1e-12, rtol=0)


@pytest.mark.parametrize("normalize", [False, True])
def test_cross_attention_caches_its_memory(normalize: bool, x: Tensor, memory: Tensor) -> None:
    attention = MultiHeadAttention(D, num_heads=H, head_dim=DH, cross=True, qk_norm=normalize)
    randomize(attention)
    attention.double()
    x, memory, cache = x.double(), memory.double(), KVCache()
    with torch.no_grad():
        first = attention(x[:, :2], memory=memory, cache=cache)
        rest = attention(x[:, 2:], cache=cache)
        expected = attention(x, memory=memory)
    torch.testing.assert_close(torch.cat((first, rest), dim=1), expected, atol=1e-12, rtol=0)
    assert cache.length == S


def test_dropout_of_weights_only_in_training(x: Tensor) -> None:
    attention = MultiHeadAttention(D, num_heads=H, head_dim=DH, dropout=0.5)
    torch.manual_seed(0)
    assert not torch.equal(attention(x), attention(x))
    attention.eval()
    assert torch.equal(attention(x), attention(x))


def test_bad_arguments_are_refused(x: Tensor) -> None:
    with pytest.raises(UsageError) as caught:
        MultiHeadAttention(D, num_heads=6, head_dim=5, num_kv_heads=4)
    assert (caught.value.argument, caught.value.value) == ("num_kv_heads", 4)
    with pytest.raises(UsageError) as caught:
        MultiHeadAttention(D, num_heads=6, head_dim=5, cross=True)(x)
    assert caught.value.argument == "memory"


# --- Scorers ------------------------------------------------------------------------------------------------

SCORERS: dict[str, Callable[[], Scorer]] = {
    "scaled dot product": ScaledDotProduct,
    "dot": lambda: ScaledDotProduct(scale=1.0),
    "general": lambda: General(DH, DH).double(),
    "additive": lambda: Additive(DH, DH, hidden_dim=5).double(),
}


def score(scorer: Scorer, q: Tensor, k: Tensor) -> Tensor:
    """The score of one query and one key, by the formula of the paper."""
    if isinstance(scorer, ScaledDotProduct):
        return q @ k * (DH**-0.5 if scorer.scale is None else scorer.scale)
    if isinstance(scorer, General):
        return q @ scorer.k_proj.weight @ k
    assert isinstance(scorer, Additive)
    return scorer.v.weight[0] @ torch.tanh(scorer.q_proj.weight @ q + scorer.k_proj.weight @ k)


@pytest.mark.parametrize("name", SCORERS)
@pytest.mark.parametrize("cross", [False, True])
def test_multi_head_attention_with_every_scorer(name: str, cross: bool, x: Tensor, memory: Tensor) -> None:
    """Output and captured weights equal a loop over queries and keys in float64."""
    scorer = SCORERS[name]()
    module = MultiHeadAttention(D, num_heads=H, head_dim=DH, cross=cross, scorer=scorer).double().eval()
    randomize(module)
    x, memory = x.double(), memory.double()
    lengths = torch.tensor([3, 7]) if cross else torch.tensor([3, 5])
    with torch.no_grad(), capture(module) as trace:
        out = module(x, masks.lengths(lengths), memory=memory if cross else None)
        weights = trace[""].weights()
        if cross:
            q, (k, v) = module.q_proj(x), module.kv_proj(memory).chunk(2, dim=-1)
        else:
            q, k, v = module.qkv_proj(x).chunk(3, dim=-1)
        q, k, v = (part.unflatten(-1, (H, DH)) for part in (q, k, v))  # (B, T or S, H, Dh)
        heads = torch.zeros(B, T, H, DH, dtype=torch.float64)
        for b, t, h in itertools.product(range(B), range(T), range(H)):
            scores = torch.stack([score(scorer, q[b, t, h], k[b, s, h]) for s in range(int(lengths[b]))])
            expected = scores.softmax(dim=0)
            torch.testing.assert_close(weights[b, h, t, : lengths[b]], expected, atol=1e-10, rtol=0)
            assert not weights[b, h, t, lengths[b] :].any()
            heads[b, t, h] = expected @ v[b, : lengths[b], h]
        torch.testing.assert_close(out, module.out_proj(heads.flatten(2)), atol=1e-10, rtol=0)
    assert trace[""].scorer is module.scorer


def test_a_scorer_can_be_trained() -> None:
    module = MultiHeadAttention(D, num_heads=H, head_dim=DH, scorer=Additive(DH, DH, hidden_dim=5))
    module(torch.randn(B, T, D)).sum().backward()
    assert all(param.grad is not None and param.grad.any() for param in module.scorer.parameters())  # type: ignore[attr-defined]
