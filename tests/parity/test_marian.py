"""The encoder-decoder compared with `MarianMTModel` of `transformers` with the same weights.

This file copies the weights by name, so that it depends on no converter. Marian is post-norm, with sinusoids that have
all sines first, embeddings times √d_model, a bias on the logits, one matrix for all embeddings, and the padding token
as the first token of the target.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import ctranslate2
import pytest
import torch
import torch.nn.functional as F
import transformers
from torch import Tensor, nn

from regard.checkpoint.predictors import export_folder, load_predictor, save_predictor
from regard.generation.config import SearchConfig
from regard.models.transformer.config import TransformerConfig
from regard.models.transformer.model import Transformer
from regard.nn import masks
from regard.nn.hooks import capture
from regard.nn.masks import pad
from regard.nn.state_dict import unique_tensors
from regard.tasks.translate.predictor import TokenizerPair, Translator
from regard.tokenizers.training import train_tokenizer

marian = transformers.models.marian.modeling_marian

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
    # transformers computes no gradient for the padding row of the input embeddings.
    assert (mine - expected)[:PAD].abs().max() < 1e-6 * expected.abs().max()


# --- Exported folders in other tools ------------------------------------------------------------------------

WORDS = "the cat sees a small house while seven dogs ran over every green hill and then slept"
SENTENCES = [" ".join(random.Random(i).choices(WORDS.split(), k=3 + i % 9)) for i in range(60)]


@pytest.fixture(
    scope="module",
    params=[{}, {"position_layout": "halves", "scale_embeddings": False, "tie_embeddings": False, "output_bias": True}],
    ids=["paper", "untied"],
)
def translator(request: pytest.FixtureRequest) -> Translator:
    """A translator that was trained briefly to copy sentences. Padding has id 0, the start token id 2."""
    tokenizer = train_tokenizer(SENTENCES, vocab_size=400)
    config = TransformerConfig(
        vocab_size=tokenizer.vocab_size,
        num_encoder_layers=2,
        num_decoder_layers=2,
        d_model=22,
        d_ff=37,
        num_heads=2,
        head_dim=11,
        max_positions=61,
        dropout=0.0,
        **request.param,
    )
    torch.manual_seed(5)
    model = Transformer(config)
    source, lengths = pad([[*tokenizer.encode(sentence), tokenizer.end_id] for sentence in SENTENCES], tokenizer.pad_id)
    target = torch.cat((torch.full((len(source), 1), tokenizer.start_id), source[:, :-1]), dim=1)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(120):
        logits = model(source, target, masks.lengths(lengths))
        loss = F.cross_entropy(logits.flatten(0, 1), source.flatten(), ignore_index=tokenizer.pad_id)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    search = SearchConfig(num_beams=1, max_new_tokens=17, max_len_a=None)
    return Translator(model, TokenizerPair(tokenizer, tokenizer), config=search)


@pytest.fixture
def exported(translator: Translator, tmp_path: Path) -> Path:
    save_predictor(translator, tmp_path / "model")
    assert export_folder(tmp_path / "model", tmp_path / "exported") == ["MarianMTModel for transformers"]
    return tmp_path / "exported"


def test_padding_of_an_exported_folder_follows_marian(translator: Translator, exported: Path) -> None:
    config = transformers.AutoConfig.from_pretrained(exported)
    tokenizer = transformers.MarianTokenizer.from_pretrained(exported)
    size = translator.model.config.vocab_size + 1
    assert config.vocab_size == config.decoder_vocab_size == size
    assert config.decoder_start_token_id == config.pad_token_id == tokenizer.pad_token_id == size - 1
    assert sorted(tokenizer.get_vocab().values()) == list(range(size))
    embedding = marian.MarianMTModel.from_pretrained(exported).model.decoder.embed_tokens.weight
    assert not embedding[size - 1].any()


def test_transformers_gives_the_logits_and_greedy_text_of_an_exported_translator(
    translator: Translator, exported: Path
) -> None:
    model = marian.MarianMTModel.from_pretrained(exported).eval()
    tokenizer = transformers.MarianTokenizer.from_pretrained(exported)
    results = translator.predict(SENTENCES)
    assert len({result.text for result in results}) > 20
    batch = tokenizer(SENTENCES, return_tensors="pt", padding=True)
    with torch.no_grad():
        for sentence, result in zip(SENTENCES[:9], results, strict=False):
            source = tokenizer(sentence, return_tensors="pt").input_ids
            start = torch.tensor([[model.config.decoder_start_token_id, *result.ids]])
            logits = model(input_ids=source, decoder_input_ids=start).logits
            expected = translator.model(source, torch.tensor([[translator.start_id, *result.ids]]))
            torch.testing.assert_close(logits[..., :-1], expected, atol=1e-4, rtol=0)
        ids = model.generate(**batch, max_new_tokens=17, forced_eos_token_id=None)
    assert tokenizer.batch_decode(ids, skip_special_tokens=True) == [result.text for result in results]


def test_ctranslate2_gives_the_greedy_text_of_an_exported_translator(
    translator: Translator, exported: Path, tmp_path: Path
) -> None:
    ctranslate2.converters.TransformersConverter(str(exported)).convert(str(tmp_path / "ctranslate2"))
    tokenizer = transformers.AutoTokenizer.from_pretrained(exported)
    theirs = ctranslate2.Translator(str(tmp_path / "ctranslate2"), device="cpu", intra_threads=1)
    tokens = [tokenizer.convert_ids_to_tokens(tokenizer(sentence).input_ids) for sentence in SENTENCES]
    results = theirs.translate_batch(tokens, beam_size=1, max_decoding_length=17, return_scores=True)
    ids = [tokenizer.convert_tokens_to_ids(result.hypotheses[0]) for result in results]
    expected = translator.predict(SENTENCES)
    assert tokenizer.batch_decode(ids, skip_special_tokens=True) == [result.text for result in expected]


def test_an_exported_translator_is_imported_with_the_same_bits(translator: Translator, exported: Path) -> None:
    imported = load_predictor(exported)
    assert imported.model.config == translator.model.config
    assert imported.tokenizers == translator.tokenizers
    assert (imported.start_id, sorted(imported.all_forbidden_ids)) == (2, [0, 2])
    before, after = unique_tensors(translator.model), unique_tensors(imported.model)
    assert before.keys() == after.keys()
    assert all(torch.equal(before[name], after[name]) for name in before)


def test_a_folder_that_transformers_saved_again_starts_from_a_zero_vector(exported: Path) -> None:
    """`save_pretrained` drops position tables, and with them the vector of the start token."""
    marian.MarianMTModel.from_pretrained(exported).save_pretrained(exported)
    (exported / "regard-manifest.json").unlink()
    theirs, imported = marian.MarianMTModel.from_pretrained(exported).eval(), load_predictor(exported)
    assert imported.start_id == imported.tokenizers.target.pad_id == theirs.config.pad_token_id
    source, target = torch.tensor([[5, 7, 11, 3]]), torch.tensor([[imported.start_id, 13]])
    with torch.no_grad():
        expected = theirs(input_ids=source, decoder_input_ids=target).logits
        torch.testing.assert_close(imported.model(source, target), expected, atol=1e-4, rtol=0)
