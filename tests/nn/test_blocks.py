"""Blocks with pre-norm and post-norm compared with torch's layers and with hand computation."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from regard.nn import masks
from regard.nn.blocks import Block, BlockCache, Residual
from regard.nn.layers import FeedForward, LayerNorm
from regard.nn.multihead import MultiHeadAttention

B, T, S, D, H, HIDDEN = 2, 5, 7, 22, 2, 37


def make_block(*, placement: str, cross: bool, dropout: float = 0.0) -> Block:
    torch.manual_seed(0)

    def attention(across: bool) -> MultiHeadAttention:
        return MultiHeadAttention(D, num_heads=H, head_dim=D // H, cross=across)

    block = Block(
        self_attention=attention(False),
        cross_attention=attention(True) if cross else None,
        feed_forward=FeedForward(D, d_ff=HIDDEN),
        make_residual=lambda: Residual(LayerNorm(D), placement=placement, dropout=dropout),
    )
    with torch.no_grad():
        for parameter in block.parameters():
            parameter.normal_(std=0.3)
    return block


def torch_attention(ours: MultiHeadAttention, theirs: nn.MultiheadAttention) -> None:
    joint = ours.state_dict()
    if ours.cross:
        weight = torch.cat((joint["q_proj.weight"], joint["kv_proj.weight"]))
        bias = torch.cat((joint["q_proj.bias"], joint["kv_proj.bias"]))
    else:
        weight, bias = joint["qkv_proj.weight"], joint["qkv_proj.bias"]
    theirs.load_state_dict(
        {
            "in_proj_weight": weight,
            "in_proj_bias": bias,
            "out_proj.weight": joint["out_proj.weight"],
            "out_proj.bias": joint["out_proj.bias"],
        }
    )


def copy_rest(
    ours: Block, theirs: nn.TransformerEncoderLayer | nn.TransformerDecoderLayer, norms: list[nn.Module]
) -> None:
    theirs.linear1.load_state_dict(ours.feed_forward.up_proj.state_dict())
    theirs.linear2.load_state_dict(ours.feed_forward.down_proj.state_dict())
    residuals = [ours.self_residual, ours.cross_residual, ours.feed_forward_residual]
    for residual, norm in zip([r for r in residuals if r is not None], norms, strict=True):
        values = residual.norm.state_dict()
        norm.load_state_dict(values)


@pytest.fixture
def x() -> Tensor:
    return torch.randn(B, T, D, generator=torch.Generator().manual_seed(1))


@pytest.fixture
def memory() -> Tensor:
    return torch.randn(B, S, D, generator=torch.Generator().manual_seed(2))


@pytest.mark.parametrize("placement", ["pre", "post"])
def test_m123_an_encoder_block_equals_torchs(placement: str, x: Tensor) -> None:
    ours = make_block(placement=placement, cross=False).eval()
    theirs = nn.TransformerEncoderLayer(D, H, HIDDEN, batch_first=True, norm_first=placement == "pre").eval()
    torch_attention(ours.self_attention, theirs.self_attn)
    copy_rest(ours, theirs, [theirs.norm1, theirs.norm2])
    real = torch.tensor([3, 5])
    expected = theirs(x, src_key_padding_mask=torch.arange(T) >= real[:, None])
    out = ours(x, masks.lengths(real))
    inside = torch.arange(T) < real[:, None]  # torch may leave zeros at padded positions
    torch.testing.assert_close(out[inside], expected[inside], atol=1e-5, rtol=0)


@pytest.mark.parametrize("placement", ["pre", "post"])
def test_m107_a_decoder_block_equals_torchs(placement: str, x: Tensor, memory: Tensor) -> None:
    ours = make_block(placement=placement, cross=True).eval()
    theirs = nn.TransformerDecoderLayer(D, H, HIDDEN, batch_first=True, norm_first=placement == "pre").eval()
    assert ours.cross_attention is not None
    torch_attention(ours.self_attention, theirs.self_attn)
    torch_attention(ours.cross_attention, theirs.multihead_attn)
    copy_rest(ours, theirs, [theirs.norm1, theirs.norm2, theirs.norm3])
    real = torch.tensor([4, 7])
    expected = theirs(
        x,
        memory,
        tgt_mask=torch.ones(T, T).triu(1).bool(),
        memory_key_padding_mask=torch.arange(S) >= real[:, None],
    )
    out = ours(x, masks.causal(), memory=memory, memory_mask=masks.lengths(real))
    torch.testing.assert_close(out, expected, atol=1e-5, rtol=0)


def test_m123_norm_placement() -> None:
    """With a sublayer that doubles: pre gives x + 2 norm(x), post gives norm(x + 2x)."""
    x = torch.tensor([[1.0, 2.0, 3.0, 6.0]])
    norm = LayerNorm(4, elementwise_affine=False, bias=False)
    pre = Residual(norm, placement="pre", dropout=0.0)(x, lambda h: 2 * h)
    post = Residual(norm, placement="post", dropout=0.0)(x, lambda h: 2 * h)
    torch.testing.assert_close(pre, x + 2 * norm(x))
    torch.testing.assert_close(post, norm(3 * x))
    torch.testing.assert_close(post.mean(), torch.tensor(0.0), atol=1e-6, rtol=0)


def test_dropout_applies_to_the_sublayer_not_to_the_residual() -> None:
    torch.manual_seed(0)
    residual = Residual(LayerNorm(1000), placement="pre", dropout=0.5)
    x = torch.randn(1, 1000, requires_grad=True)
    out = residual(x, lambda h: torch.ones_like(h) * h.sum().mul(0).add(1))
    added = (out - x).detach()
    assert set(added.round(decimals=4).unique().tolist()) == {0.0, 2.0}


def test_reorder_applies_to_both_caches(x: Tensor, memory: Tensor) -> None:
    block = make_block(placement="pre", cross=True).eval()
    rows = torch.tensor([1, 1, 0])
    cache = BlockCache()
    with torch.no_grad():
        block(x[:, :3], masks.causal(), memory=memory, cache=cache)
        cache.self_attention.reorder(rows)
        cache.cross_attention.reorder(rows)
        out = block(x[rows, 3:], masks.causal(), cache=cache)
        expected = block(x, masks.causal(), memory=memory)[rows, 3:]
    torch.testing.assert_close(out, expected, atol=1e-5, rtol=0)
