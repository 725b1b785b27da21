"""`one_thread` limits the calling thread, but no thread that has used torch before."""

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


def test_the_number_of_threads_is_one_inside_and_restored_after() -> None:
    with one_thread():
        assert torch.get_num_threads() == 1
        with one_thread():
            assert torch.get_num_threads() == 1
        assert torch.get_num_threads() == 1, "the outer block is still active"
    assert torch.get_num_threads() == 3
    with pytest.raises(KeyError), one_thread():
        raise KeyError
    assert torch.get_num_threads() == 3
    assert count_of_a_new_thread() == 3


def test_threads_that_used_torch_before_are_not_affected() -> None:
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(torch.get_num_threads).result() == 3
        with one_thread():
            assert pool.submit(torch.get_num_threads).result() == 3
        assert pool.submit(torch.get_num_threads).result() == 3


def test_a_thread_that_first_uses_torch_inside_a_block_stays_at_one() -> None:
    """The docstring warns of this behavior of torch. If this fails, torch has improved."""
    started, ended = threading.Event(), threading.Event()
    counts: list[int] = []

    def work() -> None:
        counts.append(torch.get_num_threads())
        started.set()
        ended.wait(60)
        counts.append(torch.get_num_threads())

    thread = threading.Thread(target=work)
    with one_thread():
        thread.start()
        assert started.wait(60)
    ended.set()
    thread.join()
    assert counts == [1, 1]
    assert count_of_a_new_thread() == 3, "later threads are not affected"
