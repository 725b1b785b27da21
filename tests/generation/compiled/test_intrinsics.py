"""Products of bytes by machine instructions, beside numpy's: whole numbers must come out exactly."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

intrinsics: Any = pytest.importorskip("regard.generation.compiled.intrinsics", reason="numba is not installed")
if not intrinsics.HAS_AVX2:
    pytest.skip("this machine has no AVX2", allow_module_level=True)

from numba import njit  # noqa: E402


@njit
def product(weights, codes, scales, groups):  # type: ignore[no-untyped-def]
    return intrinsics.dot_int8_avx2(weights.ctypes.data, codes.ctypes.data, scales.ctypes.data, groups)


@pytest.mark.parametrize("groups", [1, 2, 3, 8, 13])
def test_bytes_times_bytes(groups: int) -> None:
    chance = np.random.default_rng(groups)
    weights = chance.integers(-127, 128, groups * 32).astype(np.int8)
    codes = chance.integers(-127, 128, groups * 32).astype(np.int8)
    ones = np.ones(groups, dtype=np.float32)
    assert product(weights, codes, ones, groups) == np.dot(weights.astype(int), codes.astype(int))
    scales = chance.random(groups).astype(np.float32)
    sums = (weights.astype(float) * codes).reshape(groups, 32).sum(axis=1)
    assert product(weights, codes, scales, groups) == pytest.approx(float(sums @ scales), rel=1e-5, abs=1e-2)


def test_the_largest_bytes_do_not_overflow() -> None:
    most = np.full(64, 127, dtype=np.int8)
    for weights, codes in ((most, most), (-most, most), (most, -most), (-most, -most)):
        found = product(weights, codes, np.ones(2, dtype=np.float32), 2)
        assert found == np.dot(weights.astype(int), codes.astype(int))
