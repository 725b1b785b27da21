"""Positions compared with their formulas and, for rotary positions, with Llama's."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from regard.nn.positions import (
    LearnedPositions,
    NoPositions,
    RotaryPositions,
    SinusoidalPositions,
    make_positions,
    scale_frequencies,
    sinusoids,
)
from regard.utils.errors import UsageError


def test_m109_the_first_positions_by_hand() -> None:
    table = sinusoids(3, 4)
    by_hand = [
        [0.0, 1.0, 0.0, 1.0],
        [0.841471, 0.540302, 0.0099998, 0.99995],
        [0.909297, -0.416147, 0.0199987, 0.9998],
    ]
    torch.testing.assert_close(table, torch.tensor(by_hand), atol=1e-6, rtol=0)


@given(position=st.integers(0, 600), pair=st.integers(0, 6))
def test_m109_sinusoids_equal_the_formula(position: int, pair: int) -> None:
    width = 14
    angle = position / 10_000 ** (2 * pair / width)
    interleaved, halves = sinusoids(601, width), sinusoids(601, width, layout="halves")
    for table, sine, cosine in ((interleaved, 2 * pair, 2 * pair + 1), (halves, pair, pair + 7)):
        assert table[position, sine].item() == pytest.approx(math.sin(angle), abs=1e-6)
        assert table[position, cosine].item() == pytest.approx(math.cos(angle), abs=1e-6)


@pytest.mark.parametrize("distance", [1, 3, 17])
def test_m110_a_later_position_is_a_linear_map_of_an_earlier_one(distance: int) -> None:
    """Fitted by least squares on 200 positions; the map found is a rotation of each sine-cosine pair."""
    table = sinusoids(240, 6).double()
    early, late = table[:200], table[distance : 200 + distance]
    fitted = torch.linalg.lstsq(early, late).solution
    assert (early @ fitted - late).abs().max() < 1e-6
    turn = distance * 1.0  # the first pair has wavelength 2π
    rotation = torch.tensor([[math.cos(turn), -math.sin(turn)], [math.sin(turn), math.cos(turn)]], dtype=torch.float64)
    torch.testing.assert_close(fitted[:2, :2], rotation, atol=1e-5, rtol=0)


def test_m111_learned_positions_are_trained() -> None:
    positions = LearnedPositions(13, length=17)
    assert sum(p.numel() for p in positions.parameters()) == 17 * 13
    x = torch.zeros(2, 5, 13)
    positions(x, 3).square().sum().backward()
    grad = positions.weight.grad
    assert grad is not None
    assert (grad[3:8] != 0).all()
    assert (grad[:3] == 0).all() and (grad[8:] == 0).all()


def test_learned_positions_refuse_longer_texts() -> None:
    positions = LearnedPositions(4, length=7)
    assert positions(torch.zeros(1, 7, 4)).shape == (1, 7, 4)
    with pytest.raises(UsageError) as caught:
        positions(torch.zeros(1, 7, 4), 1)
    assert (caught.value.argument, caught.value.value) == ("x", 8)


def test_the_sinusoidal_table_grows_without_changing() -> None:
    short, long = SinusoidalPositions(6, length=3), SinusoidalPositions(6, length=100)
    x = torch.randn(2, 40, 6)
    assert torch.equal(short(x, 5), long(x, 5))
    torch.testing.assert_close(long(x, 5), x + sinusoids(45, 6)[5:])
    assert not list(short.parameters()) and not short.state_dict()


def test_no_positions_leave_the_input_unchanged() -> None:
    x = torch.randn(2, 5, 4)
    assert torch.equal(NoPositions()(x, 3), x)


@given(query=st.integers(0, 30), key=st.integers(0, 30), shift=st.integers(0, 300), seed=st.integers(0, 5))
def test_a_rotated_dot_product_depends_on_the_distance_only(query: int, key: int, shift: int, seed: int) -> None:
    random = torch.Generator().manual_seed(seed)
    q, k = torch.randn(2, 1, 1, 1, 14, generator=random, dtype=torch.float64)
    rotary = RotaryPositions(14, length=8).double()

    def score(at_query: int, at_key: int) -> Tensor:
        return (rotary(q, at_query) * rotary(k, at_key)).sum()

    # The tables are float32 numbers, whatever the model's own type is.
    torch.testing.assert_close(score(query, key), score(query + shift, key + shift), atol=1e-5, rtol=0)
    torch.testing.assert_close(rotary(q, query).norm(), q.norm(), atol=1e-5, rtol=0)


def test_rotation_equals_llamas() -> None:
    llama = pytest.importorskip("transformers.models.llama.modeling_llama")
    config = llama.LlamaConfig(hidden_size=42, num_attention_heads=3, head_dim=14, rope_theta=10_000.0)
    torch.manual_seed(0)
    q, k = torch.randn(2, 3, 11, 14), torch.randn(2, 3, 11, 14)
    start = 5
    where = torch.arange(start, start + 11)[None]
    cosine, sine = llama.LlamaRotaryEmbedding(config)(q, where)
    expected = llama.apply_rotary_pos_emb(q, k, cosine, sine)
    rotary = RotaryPositions(14, length=4)
    for x, turned in zip((q, k), expected, strict=True):
        torch.testing.assert_close(rotary(x, start), turned, atol=1e-6, rtol=1e-5)


def test_position_zero_is_not_rotated() -> None:
    x = torch.randn(1, 1, 1, 6)
    assert torch.equal(RotaryPositions(6)(x), x)


def test_make_positions_by_name() -> None:
    assert isinstance(make_positions("sinusoidal", 4, layout="halves", max_positions=5), SinusoidalPositions)
    assert isinstance(make_positions("learned", 4, layout="halves", max_positions=5), LearnedPositions)
    for added_elsewhere in ("rotary", "none"):
        assert isinstance(make_positions(added_elsewhere, 4, layout="halves", max_positions=5), NoPositions)


@pytest.mark.parametrize(
    ("make", "value", "hint"),
    [
        (lambda: sinusoids(3, 5), 5, None),
        (lambda: RotaryPositions(7), 7, None),
        (lambda: sinusoids(3, 4, layout="halfs"), "halfs", "halves"),
        (lambda: make_positions("rotry", 4, layout="halves", max_positions=5), "rotry", "rotary"),
    ],
)
def test_wrong_arguments_of_positions(make: Callable[[], object], value: object, hint: str | None) -> None:
    with pytest.raises(UsageError) as caught:
        make()
    assert (caught.value.value, caught.value.hint) == (value, hint)


def test_frequencies_are_scaled_as_in_llama_3_1() -> None:
    """By its formula for each frequency: wavelengths above 8192 / 1, below 8192 / 4, and in between."""
    speeds = 500_000.0 ** (-torch.arange(0, 128, 2, dtype=torch.float64) / 128)
    found = scale_frequencies(
        speeds, factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=8192.0
    ).tolist()
    kinds = set()
    for speed, slow in zip(speeds.tolist(), found, strict=True):
        length = 2 * math.pi / speed
        smooth = (8192 / length - 1) / (4 - 1)
        kind = "slow" if length > 8192 else "kept" if length < 2048 else "between"
        expected = {"slow": speed / 8, "kept": speed, "between": (1 - smooth) * speed / 8 + smooth * speed}[kind]
        assert slow == pytest.approx(expected, rel=1e-12)
        kinds.add(kind)
    assert kinds == {"slow", "kept", "between"}
