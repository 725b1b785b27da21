"""Every architecture passes the checks of `regard.testing`; its tasks are checked in `test_tasks.py`."""

from __future__ import annotations

import pytest

from regard.registry import architectures
from regard.testing import ARCHITECTURE_CHECKS, Check


@pytest.mark.parametrize("check", ARCHITECTURE_CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("name", list(architectures))
def test_architecture(name: str, check: Check) -> None:
    check(architectures[name])
