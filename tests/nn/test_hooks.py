"""Hooks: captured and observed values equal the computed ones, and no hook remains after its block."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import SimpleNamespace

import pytest
import torch
from torch import Tensor, nn

from regard.nn import masks
from regard.nn.attention import Additive
from regard.nn.blocks import Block, Residual
from regard.nn.hooks import CapturedQK, Trace, _active, addresses_of, capture, edit, observe
from regard.nn.layers import FeedForward, LayerNorm
from regard.nn.masks import AttentionMask
from regard.nn.multihead import MultiHeadAttention
from regard.nn.positions import RotaryPositions
from regard.utils.errors import UsageError

B, T, S, D, H, DH = 2, 5, 7, 22, 3, 6


class Pair(nn.Module):
    """A minimal encoder-decoder with every kind of hook point."""

    def __init__(self, layers: int = 2) -> None:
        super().__init__()
        rotary = RotaryPositions(DH)
        self.encoder = nn.ModuleList(self._block(rotary, cross=False) for _ in range(layers))
        self.decoder = nn.ModuleList(self._block(rotary, cross=True) for _ in range(layers))

    @staticmethod
    def _block(rotary: RotaryPositions, *, cross: bool) -> Block:
        return Block(
            self_attention=MultiHeadAttention(D, num_heads=H, head_dim=DH, rotary=rotary),
            cross_attention=MultiHeadAttention(D, num_heads=H, head_dim=DH, cross=True) if cross else None,
            feed_forward=FeedForward(D, d_ff=13),
            make_residual=lambda: Residual(LayerNorm(D), placement="pre", dropout=0.0),
        )

    def forward(self, source: Tensor, target: Tensor, mask: AttentionMask | None = None) -> Tensor:
        mask = mask or masks.no_mask()
        for block in self.encoder:
            source = block(source, mask)
        for block in self.decoder:
            target = block(target, masks.causal(), memory=source, memory_mask=mask)
        return target


@pytest.fixture
def model() -> Pair:
    torch.manual_seed(0)
    pair = Pair()
    with torch.no_grad():
        for parameter in pair.parameters():
            parameter.normal_(std=0.4)
    return pair.eval()


@pytest.fixture
def inputs() -> tuple[Tensor, Tensor, AttentionMask]:
    random = torch.Generator().manual_seed(1)
    source, target = torch.randn(B, S, D, generator=random), torch.randn(B, T, D, generator=random)
    return source, target, masks.lengths(torch.tensor([S, 4]))


ATTENTIONS = [f"encoder.{i}.self" for i in range(2)] + [f"decoder.{i}.{k}" for i in range(2) for k in ("self", "cross")]


def eager(attention: MultiHeadAttention, x: Tensor, memory: Tensor | None, allowed: Tensor) -> Tensor:
    """Softmax weights computed from the module's matrices."""
    if memory is None:
        joint = attention.qkv_proj(x).view(*x.shape[:2], 3, H, DH)
        q, k = joint[:, :, 0].transpose(1, 2), joint[:, :, 1].transpose(1, 2)
        assert attention.rotary is not None
        q, k = attention.rotary(q), attention.rotary(k)
    else:
        q = attention.q_proj(x).view(*x.shape[:2], H, DH).transpose(1, 2)
        k = attention.kv_proj(memory)[..., : H * DH].reshape(*memory.shape[:2], H, DH).transpose(1, 2)
    scores = torch.einsum("bhtd,bhsd->bhts", q, k) / DH**0.5
    return torch.where(allowed, scores, -torch.inf).softmax(-1)


# --- Capture ------------------------------------------------------------------------------------------------


def test_captured_outputs_are_the_same_bit_for_bit(model: Pair, inputs: tuple[Tensor, Tensor, AttentionMask]) -> None:
    plain = model(*inputs)
    with capture(model) as trace:
        seen = model(*inputs)
    assert torch.equal(plain, seen)
    assert list(trace.captured) == ATTENTIONS


def test_weights_equal_an_eager_softmax(model: Pair, inputs: tuple[Tensor, Tensor, AttentionMask]) -> None:
    source, target, mask = inputs
    with capture(model) as trace:
        model(source, target, mask)
    real = (torch.arange(S) < torch.tensor([S, 4])[:, None])[:, None, None]  # (B, 1, 1, S)
    past = torch.ones(T, T).tril().bool()
    with torch.no_grad():
        for i, block in enumerate(model.encoder):
            expected = eager(block.self_attention, block.self_residual.norm(source), None, real)
            torch.testing.assert_close(trace[f"encoder.{i}.self"].weights(), expected, atol=1e-6, rtol=0)
            source = block(source, mask)
        for i, block in enumerate(model.decoder):
            normed = block.self_residual.norm(target)
            expected = eager(block.self_attention, normed, None, past)
            torch.testing.assert_close(trace[f"decoder.{i}.self"].weights(), expected, atol=1e-6, rtol=0)
            asked = target + block.self_attention(normed, masks.causal())
            expected = eager(block.cross_attention, block.cross_residual.norm(asked), source, real)
            torch.testing.assert_close(trace[f"decoder.{i}.cross"].weights(), expected, atol=1e-6, rtol=0)
            target = block(target, masks.causal(), memory=source, memory_mask=mask)


@pytest.mark.parametrize("address", ATTENTIONS)
@pytest.mark.parametrize("heads", [None, 1, -1, [2, 0], (1,)])
@pytest.mark.parametrize("rows", [None, 0, 3, -1, [4, 1], (0, 2), slice(1, 4), range(2)])
def test_selected_weights_are_a_slice_of_all_weights(
    address: str, heads: object, rows: object, model: Pair, inputs: tuple[Tensor, Tensor, AttentionMask]
) -> None:
    with capture(model) as trace:
        model(*inputs)
    whole = trace[address].weights()
    picked_heads = slice(None) if heads is None else [heads] if isinstance(heads, int) else list(heads)
    picked_rows = slice(None) if rows is None else [rows] if isinstance(rows, int) else rows
    picked_rows = list(picked_rows) if isinstance(picked_rows, tuple | range) else picked_rows
    expected = whole[:, picked_heads][:, :, picked_rows]
    part = trace[address].weights(heads=heads, rows=rows)
    torch.testing.assert_close(part, expected, atol=1e-6, rtol=0)
    for batch in (0, 1, -1):
        one = trace.weights(address, batch=batch, heads=heads, rows=rows)
        torch.testing.assert_close(one, expected[batch], atol=1e-6, rtol=0)


def test_only_selected_weights_are_computed(model: Pair, inputs: tuple[Tensor, Tensor, AttentionMask]) -> None:
    seen: list[tuple[torch.Size, torch.Size]] = []

    class Counting:
        def __call__(self, q: Tensor, k: Tensor) -> Tensor:
            seen.append((q.shape, k.shape))
            return q @ k.transpose(-2, -1)

    with capture(model) as trace:
        model(*inputs)
    assert not seen
    recipe = trace["decoder.0.cross"]
    CapturedQK(recipe.address, Counting(), recipe.q, recipe.k, recipe.mask).weights(batch=1, heads=2, rows=[0, 3])
    assert seen == [((1, 1, 2, DH), (1, 1, S, DH))]


def test_heads_are_selected_from_a_mask_per_head() -> None:
    torch.manual_seed(0)
    mask = torch.rand(B, H, T, S) > 0.4
    recipe = CapturedQK(
        "x", Additive(5, 5, hidden_dim=3), torch.randn(B, H, T, 5), torch.randn(B, H, S, 5), AttentionMask(allowed=mask)
    )
    whole = recipe.weights()
    for h in range(H):
        torch.testing.assert_close(recipe.weights(heads=h), whole[:, [h]])
        torch.testing.assert_close(recipe.weights(heads=h, rows=2, batch=1), whole[1:, [h], 2:3])


def test_heads_are_selected_with_shared_keys() -> None:
    torch.manual_seed(0)
    attention = MultiHeadAttention(D, num_heads=6, head_dim=DH, num_kv_heads=2)
    with capture(attention) as trace:
        attention(torch.randn(B, T, D))
    whole = trace[""].weights()
    assert whole.shape == (B, 6, T, T)
    for heads in ([3], [5, 0], [-1, 2]):
        torch.testing.assert_close(trace[""].weights(heads=heads), whole[:, heads])


@pytest.mark.parametrize("selection", [{"heads": H}, {"rows": [0, T]}, {"batch": B}, {"heads": [-H - 1]}])
def test_indices_out_of_range(
    selection: dict[str, int], model: Pair, inputs: tuple[Tensor, Tensor, AttentionMask]
) -> None:
    with capture(model) as trace:
        model(*inputs)
    with pytest.raises(UsageError) as caught:
        trace["decoder.0.cross"].weights(**selection)  # type: ignore[arg-type]
    assert caught.value.value == next(iter(selection.values()))


def test_labels_of_both_axes(model: Pair, inputs: tuple[Tensor, Tensor, AttentionMask]) -> None:
    tokens = {
        "encoder": [list("abcdefg"), list("wxyz")],
        "decoder": [["<s>", "1", "2", "3", "4"], ["<s>", "5", "6", "7", "8"]],
    }
    with capture(model, tokens=tokens) as trace:
        model(*inputs)
    assert trace.labels("encoder.1.self") == (list("abcdefg"), list("abcdefg"))
    assert trace.labels("decoder.0.self", batch=1) == (tokens["decoder"][1], tokens["decoder"][1])
    assert trace.labels("decoder.0.cross", batch=1) == (tokens["decoder"][1], list("wxyz"))
    with pytest.raises(UsageError) as caught:
        trace.labels("decoder.0.self", batch=2)
    assert (caught.value.argument, caught.value.value, caught.value.allowed) == ("batch", 2, (0, 1))


def test_without_tokens_positions_are_the_labels(model: Pair, inputs: tuple[Tensor, Tensor, AttentionMask]) -> None:
    with capture(model) as trace:
        model(*inputs)
    assert trace.labels("decoder.0.cross") == ([str(i) for i in range(T)], [str(i) for i in range(S)])


def test_attentions_have_the_shapes_of_transformers(model: Pair, inputs: tuple[Tensor, Tensor, AttentionMask]) -> None:
    """transformers returns a tuple with a tensor (batch, heads, queries, keys) for each layer."""
    with capture(model) as trace:
        model(*inputs)
    shapes = {"encoder.self": (B, H, S, S), "decoder.self": (B, H, T, T), "decoder.cross": (B, H, T, S)}
    for kind, shape in shapes.items():
        found = trace.attentions(kind)
        assert isinstance(found, tuple) and [tuple(layer.shape) for layer in found] == [shape] * 2
        stack, which = kind.split(".")
        assert all(torch.equal(layer, trace[f"{stack}.{i}.{which}"].weights()) for i, layer in enumerate(found))
    with pytest.raises(UsageError) as caught:
        trace.attentions("decoder.crss")
    assert (caught.value.value, caught.value.hint) == ("decoder.crss", "decoder.cross")


def test_a_second_pass_replaces_the_first(model: Pair, inputs: tuple[Tensor, Tensor, AttentionMask]) -> None:
    source, target, mask = inputs
    with capture(model) as trace:
        model(source, target, mask)
        model(source, target[:, :2], mask)
    assert trace["decoder.1.cross"].q.shape[2] == 2
    assert list(trace.captured) == ATTENTIONS


def test_reading_before_the_forward_pass_or_at_an_unknown_address(
    model: Pair, inputs: tuple[Tensor, Tensor, AttentionMask]
) -> None:
    with capture(model) as trace:
        with pytest.raises(UsageError):
            trace["decoder.0.cross"]
        with pytest.raises(UsageError):
            trace.attentions("decoder.cross")
        model(*inputs)
    with pytest.raises(UsageError) as caught:
        trace["decoder.1.cros"]
    assert (caught.value.argument, caught.value.hint) == ("address", "decoder.1.cross")


def test_no_hook_remains_after_the_block(model: Pair, inputs: tuple[Tensor, Tensor, AttentionMask]) -> None:
    before = {name: set(vars(module)) for name, module in model.named_modules()}
    with capture(model) as trace:
        model(*inputs)
    seen = dict(trace.captured)
    model(*inputs)
    assert trace.captured == seen, "a pass after the block is not recorded"
    assert _active.get() == ()
    assert {name: set(vars(module)) for name, module in model.named_modules()} == before
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())


@pytest.mark.parametrize("block", [capture, lambda model: edit(model, "decoder.0.cross", torch.zeros_like)])
def test_no_hook_remains_after_an_exception(
    block: Callable[..., object], model: Pair, inputs: tuple[Tensor, Tensor, AttentionMask]
) -> None:
    plain = model(*inputs)
    with pytest.raises(ZeroDivisionError), block(model):  # type: ignore[attr-defined]
        model(*inputs)
        raise ZeroDivisionError
    assert _active.get() == ()
    assert torch.equal(model(*inputs), plain)


def test_blocks_may_end_in_any_order(model: Pair, inputs: tuple[Tensor, Tensor, AttentionMask]) -> None:
    first, second = capture(model), capture(model)
    one = first.__enter__()
    two = second.__enter__()
    first.__exit__(None, None, None)
    model(*inputs)
    second.__exit__(None, None, None)
    assert not one.captured and list(two.captured) == ATTENTIONS
    assert _active.get() == ()


def test_nested_captures_see_their_own_block(model: Pair, inputs: tuple[Tensor, Tensor, AttentionMask]) -> None:
    source, target, mask = inputs
    with capture(model) as outer:
        model(source, target, mask)
        with capture(model.decoder[0]) as inner:  # a part of the model, with addresses of its own
            model(source, target[:, :3], mask)
        model(source, target[:, :2], mask)
    assert outer["decoder.0.cross"].q.shape[2] == 2
    assert inner["cross"].q.shape[2] == 3
    assert set(inner.captured) == {"self", "cross"}


def test_a_capture_does_not_see_another_model(model: Pair, inputs: tuple[Tensor, Tensor, AttentionMask]) -> None:
    other = Pair()
    with capture(other) as trace:
        model(*inputs)
    assert not trace.captured


def test_threads_see_their_own_captures(model: Pair, inputs: tuple[Tensor, Tensor, AttentionMask]) -> None:
    source, target, mask = inputs
    both_inside = threading.Barrier(2, timeout=30)
    found: dict[int, Trace] = {}

    def work(tokens: int) -> None:
        with capture(model) as trace:
            both_inside.wait()
            for _ in range(5):
                model(source, target[:, :tokens], mask)
            both_inside.wait()
        found[tokens] = trace

    threads = [threading.Thread(target=work, args=(tokens,)) for tokens in (2, 5)]
    with capture(model) as here:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert {tokens: trace["decoder.0.self"].q.shape[2] for tokens, trace in found.items()} == {2: 2, 5: 5}
    assert not here.captured, "what other threads compute is not this block's"


def test_captured_weights_have_gradients_on_request(model: Pair, inputs: tuple[Tensor, Tensor, AttentionMask]) -> None:
    source, target, mask = inputs
    source = source.clone().requires_grad_()
    with capture(model) as detached:
        model(source, target, mask)
    assert not detached["decoder.1.cross"].q.requires_grad
    assert not detached["decoder.1.cross"].weights().requires_grad
    with capture(model, grad=True) as trace:
        out = model(source, target, mask)
    q = trace["decoder.1.cross"].q
    (to_q,) = torch.autograd.grad(out.square().sum(), q, retain_graph=True)
    assert to_q.isfinite().all() and (to_q != 0).any()
    trace["decoder.1.cross"].weights()[..., 0].sum().backward()
    assert source.grad is not None and (source.grad != 0).any()


def held_bytes(trace: Trace) -> int:
    """All memory that the trace keeps alive, counted once."""
    held: dict[int, int] = {}
    for recipe in trace.captured.values():
        for tensor in (recipe.q, recipe.k, recipe.mask.lengths, recipe.mask.allowed):
            if tensor is not None:
                held[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
    return sum(held.values())


def test_memory_of_a_capture_grows_linearly_with_tokens(model: Pair) -> None:
    sizes = {}
    for tokens in (128, 256, 512):
        mask = masks.lengths(torch.tensor([tokens - 3])).materialize(tokens, tokens)
        with capture(model) as trace, torch.no_grad():
            model(torch.randn(1, tokens, D), torch.randn(1, tokens, D), mask)
        sizes[tokens] = held_bytes(trace)
    assert sizes[512] - sizes[256] == pytest.approx(2 * (sizes[256] - sizes[128]), rel=0.01)
    assert sizes[512] < 4.1 * sizes[128]
    one_head_map = 512 * 512 * 4
    assert sizes[512] < 6 * 2 * 2 * 512 * H * DH * 4 < 6 * H * one_head_map


# --- Edit --------------------------------------------------------------------------------------------------


SELF = ("", ".self", ".self.input", ".self.values", ".self.heads", ".feed_forward")


def test_every_hook_point_has_an_address(model: Pair) -> None:
    decoder = [f"decoder.{i}" for i in range(2)]
    expected = {f"encoder.{i}{end}" for i in range(2) for end in SELF}
    expected |= {at + end for at in decoder for end in SELF}
    expected |= {at + f".cross{end}" for at in decoder for end in ("", ".input", ".memory", ".values", ".heads")}
    found = list(addresses_of(model).values())
    assert set(found) == expected and len(found) == len(expected)


@pytest.mark.parametrize("address", ATTENTIONS)
def test_an_edit_that_returns_the_weights_changes_nothing(
    address: str, model: Pair, inputs: tuple[Tensor, Tensor, AttentionMask]
) -> None:
    with edit(model, address, lambda weights: weights):
        out = model(*inputs)
    torch.testing.assert_close(out, model(*inputs), atol=1e-5, rtol=1e-5)


def test_weights_on_one_key_give_that_keys_value(model: Pair, inputs: tuple[Tensor, Tensor, AttentionMask]) -> None:
    source, _, _ = inputs
    attention = model.decoder[0].cross_attention
    x = torch.randn(B, T, D)

    def look_at_two(weights: Tensor) -> Tensor:
        return torch.zeros_like(weights).index_fill(-1, torch.tensor([2]), 1.0)

    with edit(attention, "", look_at_two):
        out = attention(x, memory=source)
    value = attention.kv_proj(source[:, 2:3])[..., H * DH :]
    torch.testing.assert_close(out, attention.out_proj(value).expand_as(out), atol=1e-5, rtol=0)


@pytest.mark.parametrize("head", range(H))
@pytest.mark.parametrize("address", ["encoder.1.self", "decoder.0.self", "decoder.1.cross"])
def test_ablating_a_head_equals_zeroing_its_columns_of_the_output_matrix(
    address: str, head: int, model: Pair, inputs: tuple[Tensor, Tensor, AttentionMask]
) -> None:
    def silence(heads: Tensor) -> Tensor:
        return heads.index_fill(1, torch.tensor([head]), 0.0)

    with edit(model, f"{address}.heads", silence):
        ablated = model(*inputs)
    stack, layer, kind = address.split(".")
    attention = getattr(getattr(model, stack)[int(layer)], f"{kind}_attention")
    assert not torch.equal(ablated, model(*inputs))
    with torch.no_grad():
        attention.out_proj.weight[:, head * DH : (head + 1) * DH] = 0
    torch.testing.assert_close(ablated, model(*inputs), atol=1e-5, rtol=1e-5)


def test_zeroing_a_feed_forward_leaves_the_residual(model: Pair, inputs: tuple[Tensor, Tensor, AttentionMask]) -> None:
    with edit(model, "decoder.1.feed_forward", torch.zeros_like):
        out = model(*inputs)
    with torch.no_grad():
        model.decoder[1].feed_forward.down_proj.weight.zero_()
        model.decoder[1].feed_forward.down_proj.bias.zero_()
    torch.testing.assert_close(out, model(*inputs), atol=1e-6, rtol=0)


def test_a_block_can_be_patched_with_the_output_for_another_text(
    model: Pair, inputs: tuple[Tensor, Tensor, AttentionMask]
) -> None:
    source, target, mask = inputs
    seen: list[Tensor] = []

    def remember(state: Tensor) -> Tensor:
        seen.append(state)
        return state

    with edit(model, "decoder.1", remember):
        out = model(source, target, mask)
    assert torch.equal(seen[0], out), "what leaves the last block is the output"
    with edit(model, "decoder.1", lambda _: seen[0]):
        assert torch.equal(model(source, target + 1, mask), out)


def test_edits_of_one_address_are_applied_in_order(model: Pair, inputs: tuple[Tensor, Tensor, AttentionMask]) -> None:
    plain = model(*inputs)
    with edit(model, "decoder.1", lambda x: x + 1), edit(model, "decoder.1", lambda x: x * 2):
        torch.testing.assert_close(model(*inputs), (plain + 1) * 2)
    assert torch.equal(model(*inputs), plain)


def test_edits_of_weights_are_applied_in_order(model: Pair, inputs: tuple[Tensor, Tensor, AttentionMask]) -> None:
    with edit(model, "decoder.1.cross", lambda w: w * 2), edit(model, "decoder.1.cross", lambda w: w * 0.5):
        out = model(*inputs)
    torch.testing.assert_close(out, model(*inputs), atol=1e-5, rtol=1e-5)


def test_gates_per_head_have_gradients(model: Pair, inputs: tuple[Tensor, Tensor, AttentionMask]) -> None:
    gates = torch.ones(H, requires_grad=True)
    with edit(model, "decoder.0.cross.heads", lambda heads: heads * gates[:, None, None]):
        model(*inputs).square().sum().backward()
    assert gates.grad is not None and (gates.grad != 0).all()


def test_a_predictor_stands_for_its_model(model: Pair, inputs: tuple[Tensor, Tensor, AttentionMask]) -> None:
    predictor = SimpleNamespace(trace_root=model)
    assert addresses_of(predictor) == addresses_of(model)
    with capture(predictor) as trace, observe(predictor, "decoder.0") as seen:
        before = model(*inputs)
    with edit(predictor, "decoder.0", torch.zeros_like):
        after = model(*inputs)
    assert sorted(trace.addresses) == sorted(ATTENTIONS)
    assert seen["decoder.0"].shape == (B, T, D)
    assert not torch.equal(before, after)


def test_an_unknown_address_suggests_the_nearest(model: Pair) -> None:
    with pytest.raises(UsageError) as caught:
        edit(model, "decoder.0.croos", torch.zeros_like).__enter__()
    assert (caught.value.argument, caught.value.hint) == ("address", "decoder.0.cross")


# --- Observe --------------------------------------------------------------------------------------------------


def test_observed_values_equal_the_computed_ones(model: Pair, inputs: tuple[Tensor, Tensor, AttentionMask]) -> None:
    source, _, mask = inputs
    plain = model(*inputs)
    at = "decoder.1.cross"
    with capture(model) as trace, observe(model, "encoder.0", *(f"{at}.{p}" for p in PARTS)) as seen:
        assert torch.equal(model(*inputs), plain)
        memory = source
        for block in model.encoder:
            memory = block(memory, mask)
    attention = model.decoder[1].cross_attention
    assert torch.equal(seen[f"{at}.memory"], memory)
    assert seen["encoder.0"].shape == source.shape
    values = attention.kv_proj(memory)[..., H * DH :].view(B, S, H, DH).transpose(1, 2)
    torch.testing.assert_close(seen[f"{at}.values"], values)
    queries = attention.q_proj(seen[f"{at}.input"]).view(B, T, H, DH).transpose(1, 2)
    torch.testing.assert_close(trace[at].q, queries.detach())
    torch.testing.assert_close(seen[f"{at}.heads"], trace[at].weights() @ seen[f"{at}.values"])
    assert not any(value.requires_grad for value in seen.values())
    assert _active.get() == ()


PARTS = ("input", "memory", "values", "heads")


@pytest.mark.parametrize("part", PARTS)
def test_each_part_of_an_attention_can_be_replaced(
    part: str, model: Pair, inputs: tuple[Tensor, Tensor, AttentionMask]
) -> None:
    """With values or heads of zeros, the output of an attention is the bias of its output projection."""
    found: list[Tensor] = []
    attention = model.decoder[0].cross_attention
    hook = attention.register_forward_hook(lambda _module, _inputs, output: found.append(output))
    with edit(model, f"decoder.0.cross.{part}", torch.zeros_like):
        model(*inputs)
    model(*inputs)
    hook.remove()
    changed, plain = found
    assert not torch.allclose(changed, plain)
    is_bias = torch.allclose(changed, attention.out_proj.bias.expand_as(changed))
    assert is_bias == (part in ("values", "heads"))


def test_an_attentions_own_address_cannot_be_observed(model: Pair) -> None:
    with pytest.raises(UsageError) as caught:
        observe(model, "encoder.0.self").__enter__()
    assert "encoder.0.self.heads" in (caught.value.allowed or ())
