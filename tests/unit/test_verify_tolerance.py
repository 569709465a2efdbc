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


def test_a_sum_kept_in_float16_stays_within_its_limit_and_not_within_that_of_float32() -> None:
    """Parts are stored in float16 and added there, as ATen does where oneDNN does not compute in float16."""
    numbers = random.Random(16)  # noqa: S311 - sample numbers
    limit, u = t.stored_sums_limit(9, t.ROUNDOFF["float16"]), t.ROUNDOFF["float16"]
    errors = []
    for _ in range(5000):
        parts = [math.fsum(numbers.gauss(0, 1) for _ in range(24)) for _ in range(9)]
        total = 0.0
        for part in parts:
            total = _half(total + _half(part))
        errors.append(abs(total - math.fsum(parts)) / math.sqrt(9 * 24))
    assert 0.1 * limit < max(errors) < limit
    assert max(errors) > t.SPLIT_ROUNDINGS * u


def test_stored_sums_grow_with_the_root_of_their_number() -> None:
    assert t.stored_sums_limit(13, 1e-3) == pytest.approx(2 * t.stored_sums_limit(1, 1e-3))


def test_networks_get_more_with_depth_and_gradients_more_than_outputs() -> None:
    shallow, deep = (t.network_limit(layers, 576, 2.0**-24, 2.0**-24) for layers in (4, 100))
    assert deep == pytest.approx(5 * shallow)
    assert t.gradient_limit(50, deep) > deep


def test_a_mean_of_many_draws_is_allowed_less() -> None:
    assert t.mean_limit(1.0, 10_000) == pytest.approx(t.mean_limit(1.0, 100) / 10)
