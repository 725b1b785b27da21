"""What all tests share: no network, no noise, repeatable property tests, and the way to real data sets.

It knows no room of regard. A test that needs a fixture of its own keeps it in its own file.
"""

from __future__ import annotations

import ipaddress
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

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
    """The folder of real data sets (REGARD_DATA, or `shared/data` beside the clone); skips where there is none."""
    folder = Path(os.environ.get("REGARD_DATA", ROOT.parent / "shared" / "data"))
    if not folder.is_dir():
        pytest.skip("no folder of real data sets: set REGARD_DATA to one to run this test")
    return folder
