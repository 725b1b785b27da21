"""One thread for a while: for whoever asks, and for nobody else who has computed before."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from regard.nn.threads import one_thread


@pytest.fixture(autouse=True)
def three_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    yield
    torch.set_num_threads(before)


def count_of_a_new_thread() -> int:
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(torch.get_num_threads).result()


def test_inside_there_is_one_and_afterwards_as_many_as_before() -> None:
    with one_thread():
        assert torch.get_num_threads() == 1
        with one_thread():
            assert torch.get_num_threads() == 1
        assert torch.get_num_threads() == 1, "the inner block ends nothing that the outer has begun"
    assert torch.get_num_threads() == 3
    with pytest.raises(ValueError, match="inside"), one_thread():
        raise ValueError("inside")
    assert torch.get_num_threads() == 3
    assert count_of_a_new_thread() == 3


def test_threads_that_have_computed_before_notice_nothing() -> None:
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(torch.get_num_threads).result() == 3
        with one_thread():
            assert pool.submit(torch.get_num_threads).result() == 3
        assert pool.submit(torch.get_num_threads).result() == 3


def test_a_thread_that_meets_torch_inside_a_block_keeps_one() -> None:
    """What torch does, and what the docstring warns of; if this fails, torch has changed for the better."""
    met, over = threading.Event(), threading.Event()
    counts: list[int] = []

    def work() -> None:
        counts.append(torch.get_num_threads())
        met.set()
        over.wait(60)
        counts.append(torch.get_num_threads())

    thread = threading.Thread(target=work)
    with one_thread():
        thread.start()
        assert met.wait(60)
    over.set()
    thread.join()
    assert counts == [1, 1]
    assert count_of_a_new_thread() == 3, "those that come later are not affected"
