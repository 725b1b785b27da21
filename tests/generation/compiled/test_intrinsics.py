"""Dot products of int8 vectors in AVX2, compared with numpy: integers must be exact."""

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
def test_dot_product_equals_numpy(groups: int) -> None:
    random = np.random.default_rng(groups)
    weights = random.integers(-127, 128, groups * 32).astype(np.int8)
    codes = random.integers(-127, 128, groups * 32).astype(np.int8)
    ones = np.ones(groups, dtype=np.float32)
    assert product(weights, codes, ones, groups) == np.dot(weights.astype(int), codes.astype(int))
    scales = random.random(groups).astype(np.float32)
    sums = (weights.astype(float) * codes).reshape(groups, 32).sum(axis=1)
    assert product(weights, codes, scales, groups) == pytest.approx(float(sums @ scales), rel=1e-5, abs=1e-2)


def test_dot_product_of_the_largest_values_does_not_overflow() -> None:
    largest = np.full(64, 127, dtype=np.int8)
    for weights, codes in ((largest, largest), (-largest, largest), (largest, -largest), (-largest, -largest)):
        found = product(weights, codes, np.ones(2, dtype=np.float32), 2)
        assert found == np.dot(weights.astype(int), codes.astype(int))
