"""BERT: published sizes, embeddings, encoder and heads, compared with plain computations and the encoder of torch."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from regard.models.bert.config import PRESETS, BertConfig
from regard.models.bert.model import (
    Bert,
    BertEmbedding,
    BertForPretraining,
    BertForQuestionAnswering,
    BertForSequenceClassification,
    BertForTokenClassification,
    MLMHead,
    build,
    encoder_of,
)
from regard.models.heads import HEAD_KINDS, HeadConfig, check_kind
from regard.nn.hooks import capture
from regard.nn.init import empty_weights
from regard.registry import architectures
from regard.utils.errors import UsageError

SMALL = dict(vocab_size=11, num_layers=2, d_model=14, d_ff=22, num_heads=2, head_dim=7, context_length=13)
IDS = torch.tensor([[1, 5, 9, 2, 0], [1, 3, 2, 4, 2]])
LENGTHS = torch.tensor([4, 5])
TYPE_IDS = torch.tensor([[0, 0, 0, 0, 0], [0, 0, 0, 1, 1]])


def random(model: nn.Module) -> Any:
    """Return the model in float64 with random values in all parameters, because some start at zero or one."""
    torch.manual_seed(1)
    for param in model.parameters():
        nn.init.normal_(param, std=0.5)
    return model.double().eval()


@pytest.mark.parametrize(("preset", "parameters"), [("bert-base", 109_482_240), ("bert-large", 335_141_888)])
def test_m100_m126_published_sizes(preset: str, parameters: int) -> None:
    with empty_weights():
        model = Bert(BertConfig(**PRESETS[preset]))
    assert sum(param.numel() for param in model.parameters()) == parameters


def test_m100_bert_base_has_144_head_maps() -> None:
    config = BertConfig(**PRESETS["bert-base"])
    assert len(config.attentions) * config.num_heads == 144


@pytest.mark.parametrize(("preset", "millions"), [("tiny", 4.4), ("mini", 11.2), ("small", 28.8), ("medium", 41.4)])
def test_smaller_presets_have_their_published_sizes(preset: str, millions: float) -> None:
    """Rounded as in the table of Turc et al. (2019), with the vocabulary of the BERT paper."""
    with empty_weights():
        model = Bert(BertConfig(vocab_size=30_522, **PRESETS[preset]))
    assert round(sum(param.numel() for param in model.parameters()) / 1e6, 1) == millions


def test_the_count_of_bert_base_by_hand() -> None:
    width, hidden, layers = 768, 3072, 12
    attention = 4 * (width * width + width)
    feed_forward = width * hidden + hidden + hidden * width + width
    norms = 2 * 2 * width
    tables = (30_522 + 2 + 512) * width + 2 * width
    assert tables + layers * (attention + feed_forward + norms) + width * width + width == 109_482_240


def test_m145_the_input_is_the_normalized_sum_of_three_embeddings() -> None:
    embedding = random(BertEmbedding(BertConfig(**SMALL)))
    found = embedding(IDS, TYPE_IDS)
    for row, places in enumerate(IDS.tolist()):
        for place, id_ in enumerate(places):
            added = (
                embedding.weight[id_]
                + embedding.token_types.weight[TYPE_IDS[row, place]]
                + embedding.positions.weight[place]
            )
            mean = added.sum() / 14
            deviation = (((added - mean) ** 2).sum() / 14 + 1e-12) ** 0.5
            expected = (added - mean) / deviation * embedding.norm.weight + embedding.norm.bias
            torch.testing.assert_close(found[row, place], expected, atol=1e-12, rtol=0)


def test_token_types_default_to_zero() -> None:
    model = random(Bert(BertConfig(**SMALL)))
    assert torch.equal(model(IDS), model(IDS, None, torch.zeros_like(IDS)))
    assert not torch.equal(model(IDS), model(IDS, None, TYPE_IDS))


def test_the_encoder_equals_the_post_norm_encoder_of_torch() -> None:
    model = random(Bert(BertConfig(**SMALL)))
    x: Tensor = model.embedding(IDS, TYPE_IDS)
    padding = torch.arange(5) >= LENGTHS[:, None]
    for block in model.encoder:
        layer = nn.TransformerEncoderLayer(14, 2, 22, 0.0, "gelu", 1e-12, batch_first=True, dtype=torch.float64).eval()
        theirs = {
            "self_attn.in_proj_weight": block.self_attention.qkv_proj.weight,
            "self_attn.in_proj_bias": block.self_attention.qkv_proj.bias,
            "self_attn.out_proj.weight": block.self_attention.out_proj.weight,
            "self_attn.out_proj.bias": block.self_attention.out_proj.bias,
            "linear1.weight": block.feed_forward.up_proj.weight,
            "linear1.bias": block.feed_forward.up_proj.bias,
            "linear2.weight": block.feed_forward.down_proj.weight,
            "linear2.bias": block.feed_forward.down_proj.bias,
            "norm1.weight": block.self_residual.norm.weight,
            "norm1.bias": block.self_residual.norm.bias,
            "norm2.weight": block.feed_forward_residual.norm.weight,
            "norm2.bias": block.feed_forward_residual.norm.bias,
        }
        layer.load_state_dict(theirs)
        x = layer(x, src_key_padding_mask=padding)
    found = model(IDS, LENGTHS, TYPE_IDS)
    for row, length in enumerate(LENGTHS.tolist()):
        torch.testing.assert_close(found[row, :length], x[row, :length], atol=1e-10, rtol=0)


def test_m34_m35_every_token_has_a_vector_and_it_depends_on_the_others() -> None:
    model = random(Bert(BertConfig(**SMALL)))
    found, changed = model(torch.tensor([[1, 5, 9, 2]])), model(torch.tensor([[1, 5, 8, 2]]))
    assert found.shape == (1, 4, 14)
    assert ((found - changed).norm(dim=-1) > 0).all()


def test_the_pooler_is_a_tanh_of_the_first_token() -> None:
    model = random(Bert(BertConfig(**SMALL)))
    hidden = model(IDS)
    expected = torch.tanh(torch.einsum("bi,oi->bo", hidden[:, 0], model.pooler.weight) + model.pooler.bias)
    torch.testing.assert_close(model.pool(hidden), expected, atol=1e-12, rtol=0)


def test_token_classification_has_no_pooler() -> None:
    model = BertForTokenClassification(BertConfig(**SMALL), 3)
    assert model.config.pooler is False
    with pytest.raises(UsageError) as caught:
        model.bert.pool(torch.zeros(1, 2, 14))
    assert (caught.value.argument, caught.value.value) == ("pooler", False)


def test_mlm_logits_use_the_token_embedding_table() -> None:
    model = random(BertForPretraining(BertConfig(**SMALL)))
    mlm, nsp = model(IDS, LENGTHS, TYPE_IDS)
    hidden = model.bert(IDS, LENGTHS, TYPE_IDS)
    head: MLMHead = model.mlm
    inner = hidden @ head.dense.weight.T + head.dense.bias
    inner = inner * 0.5 * (1 + torch.erf(inner / math.sqrt(2)))  # GELU, by its definition
    deviation = (inner.var(dim=-1, unbiased=False, keepdim=True) + 1e-12).sqrt()
    inner = (inner - inner.mean(dim=-1, keepdim=True)) / deviation * head.norm.weight + head.norm.bias
    torch.testing.assert_close(mlm, inner @ model.bert.embedding.weight.T + head.bias, atol=1e-10, rtol=0)
    pooled = model.bert.pool(hidden)
    torch.testing.assert_close(nsp, pooled @ model.nsp.output.weight.T + model.nsp.output.bias)
    names = dict(model.named_parameters())
    assert not any(tuple(param.shape) == (11, 14) for name, param in names.items() if name != "bert.embedding.weight")


def test_pretraining_with_only_one_of_the_two_heads() -> None:
    output = random(BertForPretraining(BertConfig(**SMALL), nsp=False))(IDS)
    assert output.mlm.shape == (2, 5, 11)
    assert output.nsp is None
    output = random(BertForPretraining(BertConfig(**SMALL), mlm=False))(IDS)
    assert output.mlm is None
    assert output.nsp.shape == (2, 2)


def test_outputs_of_the_task_heads() -> None:
    config = BertConfig(**SMALL)
    sequence, tokens, spans = (
        random(model)
        for model in (
            BertForSequenceClassification(config, 3),
            BertForTokenClassification(config, 5),
            BertForQuestionAnswering(config),
        )
    )
    inputs = (IDS, LENGTHS, TYPE_IDS)
    pooled = sequence.bert.pool(sequence.bert(*inputs))
    expected = torch.einsum("bi,oi->bo", pooled, sequence.head.output.weight) + sequence.head.output.bias
    torch.testing.assert_close(sequence(*inputs), expected)
    for model, outputs in ((tokens, 5), (spans, 2)):
        hidden = model.bert(*inputs)
        expected = torch.einsum("bti,oi->bto", hidden, model.head.output.weight) + model.head.output.bias
        assert expected.shape == (2, 5, outputs)
        torch.testing.assert_close(model(*inputs), expected)


def test_padding_ids_do_not_change_the_output() -> None:
    model = random(BertForSequenceClassification(BertConfig(**SMALL), 3))
    other = IDS.clone()
    other[0, 4] = 7
    assert torch.equal(model(IDS, LENGTHS), model(other, LENGTHS))


def test_attentions_have_the_same_addresses_with_every_head() -> None:
    config = BertConfig(**SMALL)
    for model in (
        Bert(config),
        BertForPretraining(config),
        BertForSequenceClassification(config, 2),
        BertForQuestionAnswering(config),
    ):
        with capture(model) as trace:
            model(IDS)
        assert tuple(trace.captured) == config.attentions == ("encoder.0.self", "encoder.1.self")


def test_initial_weights_are_small_and_biases_zero() -> None:
    model = BertForSequenceClassification(BertConfig(**{**SMALL, "vocab_size": 1009}), 2)
    for name, param in model.named_parameters():
        if name.endswith(("bias", "shift")):
            assert not param.any()
        elif name.endswith("norm.weight"):
            assert (param == 1).all()
        else:
            assert param.abs().max() <= 0.04
    deviation = model.bert.embedding.weight.std().item()
    assert 0.0165 < deviation < 0.0185, "a normal deviation of 0.02, cut off at two of them, leaves 0.0176"


def test_a_text_longer_than_the_context_raises() -> None:
    with pytest.raises(UsageError) as error:
        Bert(BertConfig(**SMALL))(torch.zeros(1, 14, dtype=torch.long))
    assert error.value.value == 14


@pytest.mark.parametrize(
    ("settings", "argument"),
    [
        (dict(num_layers=0), "num_layers"),
        (dict(type_vocab_size=0), "type_vocab_size"),
        (dict(activation="sine"), "activation"),
        (dict(dropout=1.0), "dropout"),
        (dict(head_dropout=-0.1), "head_dropout"),
        (dict(norm_eps=0.0), "norm_eps"),
        (dict(num_heads_by_layer={"encoder.12.self": 1}), "num_heads_by_layer"),
        (dict(num_heads_by_layer={"encoder.1.self": 0}), "num_heads_by_layer"),
    ],
)
def test_invalid_settings(settings: dict[str, Any], argument: str) -> None:
    with pytest.raises(UsageError) as caught:
        BertConfig(vocab_size=7, **settings)
    assert caught.value.argument == argument


@pytest.mark.parametrize(
    ("head", "shapes"),
    [
        (HeadConfig(), [(2, 5, 14)]),
        (HeadConfig(kind="mlm"), [(2, 5, 11), None]),
        (HeadConfig(kind="nsp"), [None, (2, 2)]),
        (HeadConfig(kind="pretraining"), [(2, 5, 11), (2, 2)]),
        (HeadConfig(kind="sequence_classification", labels=("a", "b", "c")), [(2, 3)]),
        (HeadConfig(kind="token_classification", labels=("O", "B")), [(2, 5, 2)]),
        (HeadConfig(kind="question_answering"), [(2, 5, 2)]),
        (HeadConfig(kind="multiple_choice"), [(2, 1)]),
    ],
    ids=lambda value: value.kind if isinstance(value, HeadConfig) else "",
)
def test_output_shapes_of_each_head_kind(head: HeadConfig, shapes: list[tuple[int, ...] | None]) -> None:
    model = build(BertConfig(**SMALL), head)
    found = model(IDS)
    parts = [found] if isinstance(found, Tensor) else list(found)
    assert [None if part is None else tuple(part.shape) for part in parts] == shapes
    assert encoder_of(model)(IDS).shape == (2, 5, 14)


@pytest.mark.parametrize(
    ("settings", "argument"),
    [
        (dict(kind=3), "kind"),
        (dict(problem_type="two"), "problem_type"),
        (dict(kind="token_classification"), "labels"),
        (dict(kind="question_answering", labels=("a",)), "labels"),
    ],
)
def test_invalid_head_configs(settings: dict[str, Any], argument: str) -> None:
    with pytest.raises(UsageError) as caught:
        HeadConfig(**settings)
    assert caught.value.argument == argument


@pytest.mark.parametrize("name", ["bert", "gpt", "transformer"])
def test_an_architecture_rejects_head_kinds_that_it_does_not_support(name: str) -> None:
    architecture = architectures[name]
    config = architecture.config(**{"vocab_size": 11, **architecture.test_settings})
    with pytest.raises(UsageError) as caught:
        architecture.build(config, HeadConfig(kind="multiple_choices"))
    assert (caught.value.argument, caught.value.value) == ("kind", "multiple_choices")
    assert caught.value.allowed == (tuple(sorted(HEAD_KINDS)) if name == "bert" else ("none",))
    assert caught.value.hint == ("multiple_choice" if name == "bert" else None)


def test_an_architecture_of_another_package_may_support_its_own_head_kinds() -> None:
    """`regard` checks labels only for the kinds that it knows."""
    for head in (HeadConfig(kind="ranking"), HeadConfig(kind="ranking", labels=("low", "high"))):
        assert HeadConfig(**head.to_dict()) == head
        check_kind(head, ("none", "ranking"), "ranker")
    check_kind(None, ("none", "ranking"), "ranker")


@pytest.mark.parametrize("lengths", [None, LENGTHS])
def test_training_computes_the_last_block_at_the_first_token_only(lengths: Tensor | None) -> None:
    """Logits and gradients equal those of the full computation, which runs in evaluation and with hooks."""
    model = random(BertForSequenceClassification(BertConfig(**SMALL, dropout=0.0, attention_dropout=0.0), 3))
    whole = model(IDS, lengths, TYPE_IDS)
    expected = torch.autograd.grad(whole.square().sum(), list(model.parameters()))
    assert model.bert(IDS, lengths, TYPE_IDS, at_first=True).shape == (2, 1, 14)
    model.train()
    quick = model(IDS, lengths, TYPE_IDS)
    found = torch.autograd.grad(quick.square().sum(), list(model.parameters()))
    for one, other in zip((quick, *found), (whole, *expected), strict=True):
        torch.testing.assert_close(one, other, atol=1e-11, rtol=1e-11)
    with capture(model) as trace:
        torch.testing.assert_close(model(IDS, lengths, TYPE_IDS), whole, atol=1e-11, rtol=1e-11)
    assert trace["encoder.1.self"].weights().shape == (2, 2, 5, 5)


@pytest.mark.parametrize("lengths", [None, LENGTHS])
def test_token_classification_computes_the_last_block_at_the_given_places_only(lengths: Tensor | None) -> None:
    """Logits and gradients equal those of the full computation. Hooks see all positions."""
    model = random(BertForTokenClassification(BertConfig(**SMALL, dropout=0.0, attention_dropout=0.0), 3))
    places = torch.tensor([6, 1, 2])
    whole = model(IDS, lengths, TYPE_IDS).flatten(0, 1)[places]
    expected = torch.autograd.grad(whole.square().sum(), list(model.parameters()))
    quick = model(IDS, lengths, TYPE_IDS, places=places)
    found = torch.autograd.grad(quick.square().sum(), list(model.parameters()))
    for one, other in zip((quick, *found), (whole, *expected), strict=True):
        torch.testing.assert_close(one, other, atol=1e-11, rtol=1e-11)
    with capture(model) as trace:
        torch.testing.assert_close(model(IDS, lengths, TYPE_IDS, places=places), whole, atol=1e-11, rtol=1e-11)
    assert trace["encoder.1.self"].weights().shape == (2, 2, 5, 5)


@pytest.mark.parametrize("kind", [torch.long, torch.bool])
@pytest.mark.parametrize(
    "head",
    [
        HeadConfig(),
        HeadConfig(kind="sequence_classification", labels=("a", "b")),
        HeadConfig(kind="question_answering"),
    ],
    ids=lambda head: head.kind,
)
def test_an_attention_mask_gives_the_outputs_of_the_unpadded_texts(kind: torch.dtype, head: HeadConfig) -> None:
    model = random(build(BertConfig(**SMALL), head)).double().eval()
    texts = [[3, 1, 4], [1, 5, 9, 2, 6], [5]]
    ids, mask = torch.zeros(3, 7, dtype=torch.long), torch.zeros(3, 7, dtype=kind)
    for row, text in enumerate(texts):
        ids[row, : len(text)], mask[row, : len(text)] = torch.tensor(text), True
    with torch.no_grad():
        found = model(ids, attention_mask=mask)
        torch.testing.assert_close(found, model(ids, mask.sum(dim=1)), atol=1e-10, rtol=0)
        for row, text in enumerate(texts):
            alone = model(torch.tensor([text]))[0]
            real = found[row] if head.kind == "sequence_classification" else found[row, : len(text)]
            torch.testing.assert_close(real, alone, atol=1e-10, rtol=0)
