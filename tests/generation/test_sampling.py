"""Sampling: filters by hand, sample frequencies, and invalid settings."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from regard.generation import sampling
from regard.generation.config import SamplingConfig
from regard.generation.sampling import Sampler, apply_repetition_penalty, filtered_probabilities
from regard.utils.errors import UsageError

# Probabilities 0.4, 0.3, 0.2, 0.1, in another order.
LOGITS = torch.tensor([[0.2, 0.4, 0.1, 0.3]]).log()


def kept(**settings: Any) -> list[float]:
    config = SamplingConfig(**{"temperature": 1.0, "top_k": None, **settings})
    return [round(value, 6) for value in filtered_probabilities(LOGITS, config)[0].tolist()]


def test_filters_by_hand() -> None:
    assert kept() == [0.2, 0.4, 0.1, 0.3]
    assert kept(top_k=2) == [0.0, round(4 / 7, 6), 0.0, round(3 / 7, 6)]
    assert kept(top_k=99) == kept()
    # 0.4 alone does not reach 0.5, 0.4 + 0.3 does. A sum of exactly p is enough.
    assert kept(top_p=0.5) == kept(top_k=2)
    assert kept(top_p=0.4) == kept(top_k=1) == [0.0, 1.0, 0.0, 0.0]
    assert kept(top_p=1e-9) == kept(top_k=1)
    assert kept(top_p=1.0) == kept()
    # At least 0.6 of 0.4.
    assert kept(min_p=0.6) == kept(top_k=2)
    assert kept(min_p=0.0) == kept()
    # Of the three most probable tokens, the first has 0.4 / 0.9.
    assert kept(top_k=3, top_p=0.44) == kept(top_k=1)


def test_temperature_divides_the_logits() -> None:
    expected = torch.tensor([0.2, 0.4, 0.1, 0.3]).square()
    assert kept(temperature=0.5) == pytest.approx((expected / expected.sum()).tolist(), abs=1e-6)


def test_m39_temperature_zero_is_greedy() -> None:
    greedy = Sampler(SamplingConfig(temperature=0), 1)
    assert greedy.draw(LOGITS, [[]], [0])[0].tolist() == [1]
    nearly = Sampler(SamplingConfig(temperature=1e-4, top_k=None, seed=0), 1)
    assert {int(nearly.draw(LOGITS, [[]], [0])[0]) for _ in range(200)} == {1}


@pytest.mark.parametrize("temperature", [1e-38, 1e-40, 1e-300])
def test_a_tiny_temperature_does_not_overflow(temperature: float) -> None:
    assert kept(temperature=temperature) == [0.0, 1.0, 0.0, 0.0]


def test_sampling_without_a_seed_does_not_change_the_global_generator() -> None:
    before = torch.get_rng_state()
    first, second = (Sampler(SamplingConfig(temperature=1.0), 1) for _ in range(2))
    assert torch.equal(torch.get_rng_state(), before)
    logits = torch.zeros(1, 50)
    draws = [[int(one.draw(logits, [[]], [0])[0]) for _ in range(20)] for one in (first, second)]
    assert draws[0] != draws[1]


def test_m39_sample_frequencies_match_the_softmax() -> None:
    draws = 10_000
    sampler = Sampler(SamplingConfig(temperature=1.0, top_k=None, seed=5), 1)
    counts = torch.zeros(4)
    for _ in range(draws):
        counts[sampler.draw(LOGITS, [[]], [0])[0]] += 1
    expected = torch.tensor([2000.0, 4000.0, 1000.0, 3000.0])
    # Chi-square with three degrees of freedom exceeds 11.345 with a probability of 0.01.
    assert ((counts - expected).square() / expected).sum() < 11.345


def test_log_probabilities_are_the_models_own() -> None:
    config = SamplingConfig(temperature=0.3, top_k=1, seed=0, repetition_penalty=1.5)
    chosen, log_probs = Sampler(config, 1).draw(LOGITS, [[1]], [0])
    assert log_probs.item() == pytest.approx(LOGITS[0, chosen].item())


def test_the_same_seed_gives_the_same_row_in_any_batch() -> None:
    config = SamplingConfig(temperature=1.0, top_k=None, seed=7)
    logits = torch.randn(3, 50, generator=torch.Generator().manual_seed(1))
    together = Sampler(config, 3)
    alone = Sampler(config, 3)
    for _ in range(20):
        all_rows = together.draw(logits, [[], [], []], [0, 1, 2])[0].tolist()
        assert [int(alone.draw(logits[row : row + 1], [[]], [row])[0]) for row in range(3)] == all_rows


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_sampling_uses_one_thread_and_restores_the_number(temperature: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Torch's threads spin after each operation and would take cores from the thread that computes the next logits."""
    seen: list[int] = []

    def penalty(logits: torch.Tensor, *rest: Any) -> torch.Tensor:
        seen.append(torch.get_num_threads())
        return apply_repetition_penalty(logits, *rest)

    monkeypatch.setattr(sampling, "apply_repetition_penalty", penalty)
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        config = SamplingConfig(temperature=temperature, seed=0, repetition_penalty=1.1)
        Sampler(config, 1).draw(LOGITS, [[1]], [0])
        assert (seen, torch.get_num_threads()) == ([1], 3)
    finally:
        torch.set_num_threads(before)


def test_the_repetition_penalty_by_hand() -> None:
    logits = torch.tensor([[2.0, -2.0, 1.0], [2.0, -2.0, 1.0]])
    found = apply_repetition_penalty(logits, [[0, 1, 0], []], 2.0)
    assert found.tolist() == [[1.0, -4.0, 1.0], [2.0, -2.0, 1.0]]
    assert logits[0, 0] == 2.0, "the input is not modified"


@given(
    st.lists(st.floats(-30, 30), min_size=1, max_size=13),
    st.floats(0.05, 3),
    st.none() | st.integers(1, 20),
    st.none() | st.floats(0.001, 1),
    st.none() | st.floats(0, 1),
)
def test_filtered_probabilities_sum_to_one_and_keep_the_best(
    logits: list[float], temperature: float, top_k: int | None, top_p: float | None, min_p: float | None
) -> None:
    config = SamplingConfig(temperature=temperature, top_k=top_k, top_p=top_p, min_p=min_p)
    found = filtered_probabilities(torch.tensor([logits]), config)[0]
    assert found.sum().item() == pytest.approx(1, abs=1e-5)
    assert found[max(range(len(logits)), key=lambda i: (torch.tensor(logits)[i].item(), -i))] > 0
    assert (found > 0).sum() <= (top_k or len(logits))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("temperature", -0.1),
        ("temperature", float("nan")),
        ("top_p", 0.0),
        ("top_p", 1.5),
        ("top_k", 0),
        ("min_p", -1),
        ("repetition_penalty", 0),
        ("max_new_tokens", 0),
        ("stop", ("a", "")),
        ("seed", -1),
    ],
)
def test_invalid_settings_are_refused(name: str, value: Any) -> None:
    with pytest.raises(UsageError) as caught:
        SamplingConfig(**{name: value})
    assert caught.value.argument == name
