"""The encoder-decoder: published sizes, dependencies between inputs and outputs, and its config."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, TypeVar

import pytest
import torch
from pydantic import ValidationError
from torch import Tensor, nn

from regard.models.bert.config import BertConfig
from regard.models.bert.model import Bert
from regard.models.gpt.config import GPTConfig
from regard.models.gpt.model import GPT
from regard.models.transformer.config import MODERN, PRESETS, TransformerConfig
from regard.models.transformer.model import Transformer
from regard.nn import masks
from regard.nn.hooks import capture, edit
from regard.nn.init import empty_weights
from regard.nn.layers import Dropout
from regard.nn.positions import sinusoids
from regard.utils.errors import UsageError

M = TypeVar("M", bound=nn.Module)
TINY: dict[str, Any] = dict(
    vocab_size=53, num_encoder_layers=2, num_decoder_layers=2, d_model=22, d_ff=37, num_heads=3, head_dim=6, dropout=0.0
)


def build(**settings: Any) -> Transformer:
    """Return a small model with random weights, because a new pre-norm model is the identity."""
    torch.manual_seed(0)
    return randomize(Transformer(TransformerConfig(**TINY | settings)))


def randomize(model: M) -> M:
    torch.manual_seed(0)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.normal_(mean=float(name.endswith("norm.weight")), std=0.2)
    return model.eval()


def count(model: nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


# --- Sizes --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "millions"), [("transformer-base", 65), ("transformer-big", 213)])
def test_m125_published_sizes(name: str, millions: int) -> None:
    """The paper's table 3 gives 65 and 213 million; it counts a vocabulary of "about 37,000", so within 4 %."""
    with empty_weights():
        model = Transformer(TransformerConfig(**PRESETS[name]))  # type: ignore[arg-type]
    assert count(model) == pytest.approx(millions * 1e6, rel=0.04)
    assert len(model.encoder) == len(model.decoder) == 6


def test_m125_the_count_by_hand() -> None:
    """N·D for the embedding; 4 (D² + D) per attention; D·F + F + F·D + D per feed-forward; 2 D per norm."""
    N, D, F = 37_000, 512, 2048
    attention, feed_forward, norm = 4 * (D * D + D), 2 * D * F + F + D, 2 * D
    encoder = 6 * (attention + feed_forward + 2 * norm)
    decoder = 6 * (2 * attention + feed_forward + 3 * norm)
    with empty_weights():
        model = Transformer(TransformerConfig(**PRESETS["transformer-base"]))  # type: ignore[arg-type]
    assert count(model) == N * D + encoder + decoder == 63_082_496


@pytest.mark.parametrize("name", sorted(PRESETS))
@pytest.mark.parametrize("recipe", [{}, MODERN])
def test_every_preset_builds(name: str, recipe: dict[str, Any]) -> None:
    with empty_weights():
        config = TransformerConfig(**{"vocab_size": 101, **recipe, **PRESETS[name]})  # type: ignore[arg-type]
        assert count(Transformer(config)) > 0


def test_m99_the_base_model_has_eight_heads_of_64() -> None:
    base = PRESETS["transformer-base"]
    assert (base["d_model"], base["num_heads"], base["head_dim"]) == (512, 8, 64)


# --- What depends on what -----------------------------------------------------------------------------------


def influence(run: Callable[[Tensor], Tensor], ids: Tensor) -> Tensor:
    """Which output positions (rows) change when one input token (columns) does."""
    before, columns = run(ids), []
    for j in range(ids.shape[1]):
        other = ids.clone()
        other[:, j] = (other[:, j] + 1) % TINY["vocab_size"]
        columns.append((run(other) != before).any(dim=-1)[0])
    return torch.stack(columns, dim=-1)


def test_m213_encoder_decoder_encoder_and_decoder_have_their_own_mask_pictures() -> None:
    source, target = torch.tensor([[3, 14, 15, 9, 2, 6, 5]]), torch.tensor([[31, 41, 5, 9, 26]])
    full, past = torch.ones(7, 7).bool(), torch.ones(5, 5).tril().bool()
    shape = {name: TINY[name] for name in ("vocab_size", "d_model", "d_ff", "num_heads", "head_dim", "dropout")}
    both = build()
    encoder = randomize(Bert(BertConfig(**shape, num_layers=2, pooler=False)))
    decoder = randomize(GPT(GPTConfig(**shape, num_layers=2)))

    assert torch.equal(influence(lambda ids: both(source, ids), target), past)
    assert torch.equal(influence(lambda ids: both(ids, target), source), torch.ones(5, 7).bool())
    assert torch.equal(influence(encoder, source), full)
    assert torch.equal(influence(decoder, target), past)

    with capture(both) as seen_both, capture(encoder) as seen_encoder, capture(decoder) as seen_decoder:
        both(source, target)
        encoder(source)
        decoder(target)
    for trace in (seen_both, seen_encoder, seen_decoder):
        for address, captured in trace.captured.items():
            picture = captured.weights()[0, 0] > 0
            assert torch.equal(picture, past if address.startswith("decoder") and "self" in address else picture | True)
    assert list(seen_both.captured) == list(both.config.attentions)
    assert list(seen_encoder.captured) == list(encoder.config.attentions) == ["encoder.0.self", "encoder.1.self"]
    assert list(seen_decoder.captured) == list(decoder.config.attentions) == ["decoder.0.self", "decoder.1.self"]


@pytest.mark.parametrize("recipe", [{}, MODERN])
def test_m131_each_encoding_depends_on_every_input(recipe: dict[str, Any]) -> None:
    """One pass for all positions; the Jacobian of each z_i with respect to each embedded x_j is not zero."""
    model = build(**recipe).double()
    source = torch.tensor([[3, 14, 15, 9, 26]])

    def encode(embedded: Tensor) -> Tensor:
        with edit(model, "source_embedding", lambda _: embedded):
            out: Tensor = model.encode(source, masks.no_mask())[0]
        return out

    start = model.source_embedding(source).detach()
    jacobian = torch.autograd.functional.jacobian(encode, start)[:, :, 0]  # (i, D, j, D)
    assert jacobian.shape == (5, 22, 5, 22)
    sizes = jacobian.abs().amax(dim=(1, 3))
    assert (sizes > 1e-6).all()


SENTENCE_PAIRS = [
    pytest.param("Cat ate fish", "Fish ate cat", id="m112"),
    pytest.param("The student is eating an apple", "An apple is eating the student", id="m113"),
    pytest.param("The cat chased the mouse", "The mouse chased the cat", id="m114"),
]


def word_ids(*sentences: str) -> list[Tensor]:
    """Return the ids of sentences: one id per lower-case word, the same in all sentences."""
    words = sorted({word for sentence in sentences for word in sentence.lower().split()})
    return [torch.tensor([[words.index(word) for word in sentence.lower().split()]]) for sentence in sentences]


@pytest.mark.parametrize(("one", "other"), SENTENCE_PAIRS)
def test_m112_m113_m114_without_positions_order_is_invisible(one: str, other: str) -> None:
    first, second = word_ids(one, other)
    assert sorted(first[0].tolist()) == sorted(second[0].tolist())
    order = [int(i) for i in second[0].argsort(stable=True)[first[0].argsort(stable=True).argsort(stable=True)]]
    assert torch.equal(second[0][order], first[0])
    blind = build(positions="none").double()
    mask = masks.no_mask()
    torch.testing.assert_close(blind.encode(first, mask), blind.encode(second, mask)[:, order], atol=1e-6, rtol=0)
    for positions in ("sinusoidal", "learned", "rotary"):
        seeing = build(positions=positions).double()
        difference = seeing.encode(first, mask) - seeing.encode(second, mask)[:, order]
        assert difference.abs().max() > 1e-2, positions


# --- Its parts ----------------------------------------------------------------------------------------------


def test_pruned_heads_build_and_run() -> None:
    pruned = {"encoder.1.self": 1, "decoder.0.self": 2, "decoder.1.cross": 5}
    model = build(num_heads_by_layer=pruned)
    source, target = torch.tensor([[3, 14, 15]]), torch.tensor([[9, 26]])
    with capture(model) as trace:
        assert model(source, target).shape == (1, 2, 53)
    found = {address: recipe.q.shape[1] for address, recipe in trace.captured.items()}
    assert found == {address: pruned.get(address, 3) for address in model.config.attentions}


def test_pruning_a_head_that_adds_nothing_changes_nothing() -> None:
    whole, pruned = build(), build(num_heads_by_layer={"decoder.1.cross": 2})
    attention = whole.decoder[1].cross_attention
    with torch.no_grad():
        attention.out_proj.weight[:, 12:] = 0  # the third head of 6
    kept = {
        "q_proj": attention.q_proj.weight[:12],
        "kv_proj": torch.cat((attention.kv_proj.weight[:12], attention.kv_proj.weight[18:30])),
    }
    biases = {
        "q_proj": attention.q_proj.bias[:12],
        "kv_proj": torch.cat((attention.kv_proj.bias[:12], attention.kv_proj.bias[18:30])),
    }
    state = whole.state_dict()
    for name in ("q_proj", "kv_proj"):
        state[f"decoder.1.cross_attention.{name}.weight"] = kept[name]
        state[f"decoder.1.cross_attention.{name}.bias"] = biases[name]
    state["decoder.1.cross_attention.out_proj.weight"] = attention.out_proj.weight[:, :12]
    pruned.load_state_dict(state)
    source, target = torch.tensor([[3, 14, 15]]), torch.tensor([[9, 26]])
    torch.testing.assert_close(whole(source, target), pruned(source, target), atol=1e-5, rtol=0)


def test_a_joint_vocabulary_has_one_embedding_matrix_and_separate_ones_have_two() -> None:
    joint = build()
    assert joint.source_embedding.weight is joint.target_embedding.weight is joint.output_weight
    separate = build(source_vocab_size=31)
    assert separate.source_embedding.weight.shape == (31, 22)
    assert separate.target_embedding.weight is separate.output_weight
    untied = build(tie_embeddings=False)
    assert untied.output_weight is untied.output is not untied.target_embedding.weight


def test_logits_are_hidden_states_times_the_output_matrix() -> None:
    model = build(output_bias=True)
    hidden = torch.randn(2, 3, 22)
    assert model.output_bias is not None
    expected = torch.einsum("btd,nd->btn", hidden, model.output_weight) + model.output_bias
    torch.testing.assert_close(model.logits(hidden), expected, atol=1e-5, rtol=0)


def test_a_new_pre_norm_model_is_the_identity_and_a_post_norm_one_is_not() -> None:
    torch.manual_seed(0)
    source = torch.tensor([[3, 14, 15]])
    pre = Transformer(TransformerConfig(**TINY | MODERN | {"final_norm": False}))
    torch.testing.assert_close(pre.encode(source, masks.no_mask()), pre.source_embedding(source))
    post = Transformer(TransformerConfig(**TINY))
    assert (post.encode(source, masks.no_mask()) - post.source_embedding(source)).abs().max() > 0.1


def test_embeddings_start_at_length_one_after_scaling() -> None:
    torch.manual_seed(0)
    model = Transformer(TransformerConfig(vocab_size=1009, d_model=64, num_encoder_layers=1, num_decoder_layers=1))
    scaled = model.source_embedding.weight * model.source_embedding.factor
    assert scaled.std().item() == pytest.approx(1.0, rel=0.02)
    assert model.source_embedding.factor == 8.0


@pytest.mark.parametrize("recipe", [{}, MODERN])
@pytest.mark.parametrize("setting", ["dropout", "attention_dropout", "activation_dropout"])
def test_each_dropout_works_alone_and_in_training_only(setting: str, recipe: dict[str, Any]) -> None:
    source, target = torch.tensor([[3, 14, 15]]), torch.tensor([[9, 26]])
    model = build(**recipe, **{"dropout": 0.0, setting: 0.5}).train()
    assert not torch.equal(model(source, target), model(source, target))
    model.eval()
    assert torch.equal(model(source, target), model(source, target))
    without = build(**recipe).train()
    assert torch.equal(without(source, target), without(source, target))


def test_dropout_applies_to_embeddings_and_every_sublayer() -> None:
    model = build(dropout=0.3)
    shares = {name: module.p for name, module in model.named_modules() if isinstance(module, Dropout)}
    inner = {name for name in shares if "feed_forward.dropout" in name}
    assert all(share == (0.0 if name in inner else 0.3) for name, share in shares.items())
    assert len(shares) - len(inner) == 2 + 2 * 2 + 2 * 3  # embeddings, encoder sublayers, decoder sublayers


@pytest.mark.parametrize("norm", ["layer", "rms"])
def test_settings_select_the_layer_classes(norm: str) -> None:
    names = set(build(norm=norm).state_dict())
    more = set(build(norm=norm, final_norm=True, embedding_norm=True, output_bias=True).state_dict())
    parts = ("encoder_norm", "decoder_norm", "source_embedding.norm", "target_embedding.norm")
    ends = ("weight", "bias") if norm == "layer" else ("weight",)
    assert more - names == {f"{part}.{end}" for part in parts for end in ends} | {"output_bias"}
    lean = set(build(norm=norm, bias=False).state_dict())
    assert lean == {name for name in names if not name.endswith(("bias", "shift"))}


def test_normalized_queries_and_keys_have_root_mean_square_one() -> None:
    source, target = torch.tensor([[3, 14, 15]]), torch.tensor([[9, 26]])
    model = build(qk_norm=True)
    with capture(model) as trace:
        model(source, target)
    for recipe in trace.captured.values():
        for x in (recipe.q, recipe.k):
            torch.testing.assert_close(x.square().mean(-1), torch.ones(x.shape[:-1]), atol=1e-3, rtol=0)


def test_only_self_attention_uses_rotary_positions() -> None:
    """The distance between a source and a target position has no meaning."""
    model = build(positions="rotary")
    for block in model.decoder:
        assert block.self_attention.rotary is not None
        assert block.cross_attention.rotary is None
    assert all(block.self_attention.rotary is not None for block in model.encoder)


def test_positions_are_added_after_scaling() -> None:
    source = torch.tensor([[3, 14, 15]])
    model = build()
    expected = model.source_embedding.weight[source] * 22**0.5 + sinusoids(3, 22)
    torch.testing.assert_close(model.source_embedding(source), expected, atol=1e-6, rtol=0)
    unscaled = build(scale_embeddings=False)
    expected = unscaled.source_embedding.weight[source] + sinusoids(3, 22)
    torch.testing.assert_close(unscaled.source_embedding(source), expected, atol=1e-6, rtol=0)


def test_each_embedding_has_an_address() -> None:
    model = build()
    source, target = torch.tensor([[3, 14, 15]]), torch.tensor([[9, 26]])
    with edit(model, "target_embedding", torch.zeros_like):
        blank = model(source, target)
    assert not torch.equal(blank, model(source, target))
    # Without tokens and positions, all outputs are equal.
    torch.testing.assert_close(blank[:, 0], blank[:, 1], atol=1e-5, rtol=0)


# --- Wrong use ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "argument"),
    [
        ({"d_model": 0}, "d_model"),
        ({"num_heads": -1}, "num_heads"),
        ({"max_positions": 0}, "max_positions"),
        ({"source_vocab_size": 0}, "source_vocab_size"),
        ({"dropout": 1.0}, "dropout"),
        ({"attention_dropout": -0.1}, "attention_dropout"),
        ({"num_heads_by_layer": {"decoder.1.cross": 0}}, "num_heads_by_layer"),
    ],
)
def test_invalid_settings(settings: dict[str, Any], argument: str) -> None:
    with pytest.raises(UsageError) as caught:
        TransformerConfig(**TINY | settings)
    assert caught.value.argument == argument


@pytest.mark.parametrize(
    ("settings", "hint"),
    [
        ({"positions": "rotery"}, "rotary"),
        ({"position_layout": "half"}, "halves"),
        ({"norm": "layernorm"}, "layer"),
        ({"norm_placement": "per"}, "pre"),
        ({"activation": "geelu"}, "gelu"),
        ({"num_heads_by_layer": {"decoder.2.cross": 1}}, "decoder.1.cross"),
        ({"d_modle": 8}, "d_model"),
    ],
)
def test_a_misspelled_setting_gets_a_hint(settings: dict[str, Any], hint: str) -> None:
    with pytest.raises(UsageError) as caught:
        TransformerConfig(**TINY | settings)
    assert caught.value.hint == hint


def test_a_config_survives_json() -> None:
    config = TransformerConfig(**TINY | MODERN | {"num_heads_by_layer": {"decoder.1.cross": 2}})
    assert TransformerConfig(**json.loads(json.dumps(config.to_dict()))) == config
    with pytest.raises(ValidationError):
        config.d_model = 3


def test_a_text_longer_than_the_learned_positions_raises() -> None:
    model = build(positions="learned", max_positions=3)
    with pytest.raises(UsageError) as error:
        model.encode(torch.tensor([[1, 2, 3, 4]]), masks.no_mask())
    assert error.value.value == 4


def test_an_attention_mask_gives_the_logits_of_the_unpadded_sources() -> None:
    model = build().double()
    texts, target = [[3, 1, 4], [1, 5, 9, 2, 6], [5]], torch.tensor([[3, 14, 15, 9]])
    source, mask = torch.zeros(3, 7, dtype=torch.long), torch.zeros(3, 7, dtype=torch.long)
    for row, text in enumerate(texts):
        source[row, : len(text)], mask[row, : len(text)] = torch.tensor(text), 1
    with torch.no_grad():
        logits = model(source, target.expand(3, -1), attention_mask=mask)
        for row, text in enumerate(texts):
            torch.testing.assert_close(logits[row], model(torch.tensor([text]), target)[0], atol=1e-10, rtol=0)
