"""Checks that every registered model must pass. The models are in `conftest.py`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from regard.checkpoint.folder import read_model, write_model
from regard.nn.hooks import AttentionHook, addresses_of, capture
from regard.nn.state_dict import load_into, unique_tensors

pytestmark = pytest.mark.usefixtures("_without_gradients")


@pytest.fixture
def _without_gradients() -> Any:
    with torch.no_grad():
        yield


def test_captured_equals_uncaptured_bit_for_bit(case: Any, texts: Any) -> None:
    plain = case.run(texts)
    with capture(case.model) as trace:
        captured = case.run(texts)
    assert all(torch.equal(a, b) for a, b in zip(plain, captured, strict=True))
    addresses = {address for hook, address in addresses_of(case.model).items() if isinstance(hook, AttentionHook)}
    assert set(trace.captured) == addresses
    for address in addresses:
        rows = trace[address].weights().sum(dim=-1)
        torch.testing.assert_close(rows, torch.ones_like(rows), atol=1e-5, rtol=0)


def test_batched_equals_single(case: Any, texts: Any) -> None:
    for together, text in zip(case.run(texts), texts, strict=True):
        (alone,) = case.run([text])
        case.assert_near(together, alone)


def test_the_order_of_a_batch_does_not_matter(case: Any, texts: Any) -> None:
    forwards, backwards = case.run(texts), case.run(texts[::-1])[::-1]
    for one, other in zip(forwards, backwards, strict=True):
        case.assert_near(one, other)


@pytest.mark.parametrize("padding", [1, 7])
def test_padded_equals_unpadded(case: Any, texts: Any, padding: int) -> None:
    for text in texts:
        (unpadded,) = case.run([text])
        (padded,) = case.run([text], padding)
        case.assert_near(padded, unpadded)


def test_cached_equals_uncached(text_generator: Any, texts: Any) -> None:
    for text in texts:
        (whole,) = text_generator.run([text])
        count = len(text.target)
        for sizes in ([1] * count, [count], [count - count // 2, count // 2], [1, count - 1]):
            chunks = [size for size in sizes if size]
            text_generator.assert_near(text_generator.registered.run_cached(text_generator.model, text, chunks), whole)


def test_compiled_equals_torch(text_generator: Any, texts: Any) -> None:
    if text_generator.registered.run_compiled is None or text_generator.model.output_weight.dtype != torch.float32:
        pytest.skip("compiled decoders support only fp32")
    for text in texts:
        (whole,) = text_generator.run([text])
        text_generator.assert_near(text_generator.registered.run_compiled(text_generator.model, text), whole)


def test_later_tokens_do_not_change_earlier_outputs(text_generator: Any, texts: Any) -> None:
    for text in texts:
        (before,) = text_generator.run([text])
        for t in range(len(text.target) - 1):
            other = list(text.target)
            other[t + 1] = (other[t + 1] + 1) % 29
            (after,) = text_generator.run([text._replace(target=other)])
            assert torch.equal(before[: t + 1], after[: t + 1])
            assert not torch.equal(before[t + 1], after[t + 1])


def test_saved_equals_loaded_bit_for_bit(case: Any, texts: Any, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    write_model(folder, config=case.model.config.to_dict(), tensors=unique_tensors(case.model), texts={})
    read = read_model(folder)
    config = type(case.model.config)(**read.config)
    assert config == case.model.config
    other = case.registered.build(config).to(next(case.model.parameters()).dtype).eval()
    load_into(other, read.tensors)
    again = case._replace(model=other)
    assert all(torch.equal(a, b) for a, b in zip(case.run(texts), again.run(texts), strict=True))
    mine, loaded = case.model.state_dict(), other.state_dict()
    assert list(mine) == list(loaded)
    assert all(torch.equal(mine[name], loaded[name]) for name in mine)


def test_running_twice_gives_the_same_bits(case: Any, texts: Any) -> None:
    assert all(torch.equal(a, b) for a, b in zip(case.run(texts), case.run(texts), strict=True))


def test_every_parameter_gets_a_gradient(case: Any, texts: Any) -> None:
    """A parameter without an effect on the outputs would only waste memory."""
    with torch.enable_grad():
        sum(out.square().sum() for out in case.run(texts)).backward()
    unused = [
        name
        for name, parameter in case.model.named_parameters()
        if parameter.grad is None or not parameter.grad.isfinite().all() or not (parameter.grad != 0).any()
    ]
    assert not unused
