"""The formulas behind the tolerances: what they grow with, and that they cover real arithmetic."""

from __future__ import annotations

import math
import random
import struct

import pytest

from xpubuild.verify.suite import tolerance as t


def _single(value: float) -> float:
    return float(struct.unpack("<f", struct.pack("<f", value))[0])


def _half(value: float) -> float:
    return float(struct.unpack("<e", struct.pack("<e", value))[0])


@pytest.mark.parametrize("length", [10, 1000, 20000])
def test_a_sum_in_float32_stays_within_gamma_and_a_wrong_one_does_not(length: int) -> None:
    numbers = random.Random(length)  # noqa: S311 - sample numbers
    terms = [_single(numbers.gauss(0, 1)) for _ in range(length)]
    total = 0.0
    for term in terms:
        total = _single(total + term)
    size = math.fsum(map(abs, terms))
    error = abs(total - math.fsum(terms)) / (t.gamma(length, t.ROUNDOFF["float32"]) * size)
    assert error < 1
    off = size * 1e-3
    assert off > t.gamma(length, t.ROUNDOFF["float32"]) * size


def test_gamma_grows_with_the_root_of_the_length_and_with_the_roundoff() -> None:
    assert t.gamma(400, 1e-3) == pytest.approx(2 * t.gamma(100, 1e-3))
    assert t.gamma(100, 2e-3) == pytest.approx(2 * t.gamma(100, 1e-3))
    assert t.gamma(0, 1e-3) == t.gamma(1, 1e-3)


def test_roundoffs_are_those_of_the_formats() -> None:
    assert t.ROUNDOFF["float64"] == math.ulp(1.0) / 2
    assert _single(1 + t.ROUNDOFF["float32"]) == 1.0
    assert _single(1 + 2 * t.ROUNDOFF["float32"]) > 1.0
    assert _half(1 + t.ROUNDOFF["float16"]) == 1.0
    assert set(t.ACCUMULATES_IN) == set(t.ROUNDOFF)
    assert t.ROUNDOFF["float16"] < t.TF32_ROUNDOFF


def test_networks_get_more_with_depth_and_gradients_more_than_outputs() -> None:
    shallow, deep = (t.network_limit(layers, 576, 2.0**-24, 2.0**-24) for layers in (4, 100))
    assert deep == pytest.approx(5 * shallow)
    assert t.gradient_limit(50, deep) > deep
