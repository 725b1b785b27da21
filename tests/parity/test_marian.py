"""The whole model beside `transformers`' MarianMT with the same weights.

The weights are carried over here name by name, so that this test depends on no converter. Marian in our words:
post-norm, sinusoids with all sines first, embeddings times √width, a bias on the logits, one matrix for all
embeddings, and the padding symbol as the first token of the target.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from regard.models.transformer.config import TransformerConfig
from regard.models.transformer.model import Transformer
from regard.nn import masks
from regard.nn.hooks import capture

marian = pytest.importorskip("transformers.models.marian.modeling_marian")

PAD, EOS, VOCABULARY = 52, 0, 53
ACTIVATIONS = {"swish": "silu", "relu": "relu", "gelu": "gelu"}


def make_theirs(activation: str, *, joint: bool = True) -> Any:
    torch.manual_seed(0)
    config = marian.MarianConfig(
        vocab_size=VOCABULARY,
        decoder_vocab_size=VOCABULARY,
        d_model=22,
        encoder_layers=2,
        decoder_layers=3,
        encoder_attention_heads=2,
        decoder_attention_heads=2,
        encoder_ffn_dim=37,
        decoder_ffn_dim=37,
        activation_function=activation,
        scale_embedding=True,
        pad_token_id=PAD,
        eos_token_id=EOS,
        forced_eos_token_id=EOS,
        decoder_start_token_id=PAD,
        max_position_embeddings=61,
        share_encoder_decoder_embeddings=joint,
        tie_word_embeddings=True,
        attn_implementation="eager",
    )
    model = marian.MarianMTModel(config).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "embed_positions" not in name:
                parameter.normal_(mean=float("norm.weight" in name), std=0.3)
        model.final_logits_bias.normal_()
    return model


def copy_linear(to: nn.Linear, *parts: nn.Linear) -> None:
    to.weight.copy_(torch.cat([part.weight for part in parts]))
    to.bias.copy_(torch.cat([part.bias for part in parts]))


def copy_norm(to: Any, norm: nn.LayerNorm) -> None:
    assert to.eps == norm.eps
    to.weight.copy_(norm.weight)
    to.bias.copy_(norm.bias)


def copy_block(to: Any, block: Any) -> None:
    attention = block.self_attn
    copy_linear(to.self_attention.qkv_proj, attention.q_proj, attention.k_proj, attention.v_proj)
    copy_linear(to.self_attention.out_proj, attention.out_proj)
    copy_norm(to.self_residual.norm, block.self_attn_layer_norm)
    if to.cross_attention is not None:
        attention = block.encoder_attn
        copy_linear(to.cross_attention.q_proj, attention.q_proj)
        copy_linear(to.cross_attention.kv_proj, attention.k_proj, attention.v_proj)
        copy_linear(to.cross_attention.out_proj, attention.out_proj)
        copy_norm(to.cross_residual.norm, block.encoder_attn_layer_norm)
    copy_linear(to.feed_forward.up_proj, block.fc1)
    copy_linear(to.feed_forward.down_proj, block.fc2)
    copy_norm(to.feed_forward_residual.norm, block.final_layer_norm)


def make_ours(theirs: Any) -> Transformer:
    config = theirs.config
    joint = config.share_encoder_decoder_embeddings
    ours = Transformer(
        TransformerConfig(
            vocab_size=config.decoder_vocab_size,
            source_vocab_size=None if joint else config.vocab_size,
            num_encoder_layers=config.encoder_layers,
            num_decoder_layers=config.decoder_layers,
            d_model=config.d_model,
            d_ff=config.encoder_ffn_dim,
            num_heads=config.encoder_attention_heads,
            head_dim=config.d_model // config.encoder_attention_heads,
            position_layout="halves",
            activation=ACTIVATIONS[config.activation_function],  # type: ignore[arg-type]
            output_bias=True,
        )
    ).eval()
    with torch.no_grad():
        ours.source_embedding.weight.copy_(theirs.model.encoder.embed_tokens.weight)
        ours.target_embedding.weight.copy_(theirs.model.decoder.embed_tokens.weight)
        assert torch.equal(theirs.lm_head.weight, theirs.model.decoder.embed_tokens.weight)
        assert ours.output_bias is not None
        ours.output_bias.copy_(theirs.final_logits_bias[0])
        for mine, block in zip(ours.encoder, theirs.model.encoder.layers, strict=True):
            copy_block(mine, block)
        for mine, block in zip(ours.decoder, theirs.model.decoder.layers, strict=True):
            copy_block(mine, block)
    return ours


def batch() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    random = torch.Generator().manual_seed(3)
    real, target_real = torch.tensor([11, 7, 1]), torch.tensor([5, 13, 2])
    source = torch.randint(1, PAD, (3, 11), generator=random)
    target = torch.randint(1, PAD, (3, 13), generator=random)
    source[torch.arange(11) >= real[:, None]] = PAD
    target[torch.arange(13) >= target_real[:, None]] = PAD
    target[:, 0] = PAD  # Marian's first token
    return source, target, real, target_real


@pytest.mark.parametrize("activation", sorted(ACTIVATIONS))
def test_logits_equal_marians(activation: str) -> None:
    theirs = make_theirs(activation)
    ours = make_ours(theirs)
    source, target, real, target_real = batch()
    padding = (torch.arange(11) < real[:, None]).long()
    with torch.no_grad():
        expected = theirs(input_ids=source, attention_mask=padding, decoder_input_ids=target).logits
        logits = ours(source, target, masks.lengths(real))
    assert expected.abs().max() > 1, "logits that are all small would prove little"
    inside = torch.arange(13) < target_real[:, None]
    torch.testing.assert_close(logits[inside], expected[inside], atol=1e-4, rtol=0)


def test_logits_equal_marians_with_separate_vocabularies() -> None:
    theirs = make_theirs("relu", joint=False)
    ours = make_ours(theirs)
    assert not torch.equal(ours.source_embedding.weight, ours.target_embedding.weight)
    source, target, _, _ = batch()
    with torch.no_grad():
        expected = theirs(
            input_ids=source, attention_mask=torch.ones_like(source), decoder_input_ids=target[:, :2]
        ).logits
        torch.testing.assert_close(ours(source, target[:, :2]), expected, atol=1e-4, rtol=0)


def test_attention_equals_marians_in_shape_and_value() -> None:
    theirs = make_theirs("swish")
    ours = make_ours(theirs)
    source, target, _, _ = batch()
    with torch.no_grad(), capture(ours) as trace:
        ours(source, target[:, :2])
        expected = theirs(
            input_ids=source,
            attention_mask=torch.ones_like(source),
            decoder_input_ids=target[:, :2],
            output_attentions=True,
        )
    kinds = {
        "encoder.self": expected.encoder_attentions,
        "decoder.self": expected.decoder_attentions,
        "decoder.cross": expected.cross_attentions,
    }
    for kind, attentions in kinds.items():
        found = trace.attentions(kind)
        assert len(found) == len(attentions)
        for mine, layer in zip(found, attentions, strict=True):
            torch.testing.assert_close(mine, layer, atol=1e-5, rtol=0)


def test_gradients_equal_marians() -> None:
    """The same loss gives the same gradient for the shared embedding, through all three of its uses."""
    theirs = make_theirs("swish").double()
    ours = make_ours(theirs).double()
    source, target, real, _ = batch()
    padding = (torch.arange(11) < real[:, None]).long()
    theirs(input_ids=source, attention_mask=padding, decoder_input_ids=target).logits.logsumexp(-1).sum().backward()
    ours(source, target, masks.lengths(real)).logsumexp(-1).sum().backward()
    expected = theirs.model.shared.weight.grad
    mine = ours.output_weight.grad
    assert mine is not None
    # transformers gives no gradient to the padding symbol's row of its input embeddings.
    assert (mine - expected)[:PAD].abs().max() < 1e-6 * expected.abs().max()
