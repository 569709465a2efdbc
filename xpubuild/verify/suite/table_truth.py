"""Comparisons, logic, bits, and complex numbers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from .cases import LONG_ONLY, Case, Input, booleans, complexes, integers, normal, uniform, whole

_SHAPE, _LARGE = (3, 67), (4, 16411)
_COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")
_LOGIC = ("logical_and", "logical_or", "logical_xor")
_BITS = ("bitwise_and", "bitwise_or", "bitwise_xor", "gcd", "lcm")


def _truth(torch: Any) -> Iterator[Case]:
    small: Sequence[Input] = [integers(-9, 9, *_SHAPE), integers(-9, 9, *_SHAPE)]
    many: Sequence[Input] = [integers(-9, 9, *_LARGE), integers(-9, 9, *_LARGE)]
    levels = [whole(-5, 5, *_SHAPE), whole(-5, 5, *_SHAPE)]
    for name in _COMPARISONS:
        yield Case(name, _named(torch, name), levels, [whole(-5, 5, *_LARGE)] * 2, exact=True, nan=False)
        yield Case(
            f"{name} scalar",
            lambda x, n=name: getattr(torch, n)(x, 2),
            levels[:1],
            [whole(-5, 5, *_LARGE)],
            exact=True,
            nan=False,
        )
        yield Case(f"{name} integers", _named(torch, name), small, many)
    for name in _LOGIC:
        yield Case(
            name,
            _named(torch, name),
            [booleans(*_SHAPE), booleans(*_SHAPE)],
            [booleans(*_LARGE), booleans(*_LARGE)],
        )
        some = [whole(-1, 2, *_SHAPE), whole(-1, 2, *_SHAPE)]
        yield Case(f"{name} of numbers", _named(torch, name), some, exact=True)
    yield Case("logical_not of numbers", torch.logical_not, [whole(-1, 2, *_SHAPE)], exact=True)
    for name in _BITS:
        yield Case(name, _named(torch, name), small, many)
        if name.startswith("bitwise"):
            yield Case(f"{name} booleans", _named(torch, name), [booleans(*_SHAPE), booleans(*_SHAPE)])
            yield Case(f"{name} scalar", lambda x, n=name: getattr(torch, n)(x, 5), small[:1], many[:1])
    for name in ("logical_not", "bitwise_not"):
        yield Case(name, _named(torch, name), [booleans(*_SHAPE)], [booleans(*_LARGE)])
        yield Case(f"{name} integers", _named(torch, name), small[:1], many[:1])
    shifts = [integers(1, 999, *_SHAPE), integers(0, 8, *_SHAPE)]
    for name in ("bitwise_left_shift", "bitwise_right_shift"):
        yield Case(name, _named(torch, name), shifts, [integers(1, 999, *_LARGE), integers(0, 8, *_LARGE)])
    for name in ("add", "sub", "mul", "maximum", "minimum"):
        yield Case(f"{name} integers", _named(torch, name), small, many)
    for name in ("abs", "neg", "sign"):
        yield Case(f"{name} integers", _named(torch, name), small[:1], many[:1])
    yield Case(
        "isclose", lambda a, b: torch.isclose(a, b, atol=0.5), [normal(*_SHAPE)] * 2, exact=True, nan=False
    )
    yield Case("isin", torch.isin, [integers(0, 50, *_SHAPE), integers(0, 50, 9)])
    yield Case("where integers", torch.where, [booleans(*_SHAPE), *small], [booleans(*_LARGE), *many])
    yield Case(
        "to integers",
        lambda x: x.to(torch.int32),
        [uniform(-90, 90, *_SHAPE)],
        [uniform(-90, 90, *_LARGE)],
        exact=True,
        nan=False,
    )
    yield Case(
        "to floating point",
        lambda x: x.float() / 4,
        [integers(-99, 99, *_SHAPE)],
        [integers(-99, 99, *_LARGE)],
    )
    yield Case(
        "to another type",
        lambda x: (x.half().float(), x.bfloat16().float(), x.float().half()),
        [normal(*_SHAPE)],
        [normal(*_LARGE)],
        exact=True,
    )


def _complex(torch: Any) -> Iterator[Case]:
    pair = [complexes(*_SHAPE), complexes(*_SHAPE)]
    many = [complexes(*_LARGE), complexes(*_LARGE)]
    for name in ("add", "sub", "mul", "div"):
        yield Case(f"complex {name}", _named(torch, name), pair, many, types=LONG_ONLY, grad=True, slack=64)
    for name in (
        "exp",
        "log",
        "sqrt",
        "sin",
        "tanh",
        "abs",
        "angle",
        "conj_physical",
        "reciprocal",
        "square",
        "sgn",
    ):
        yield Case(
            f"complex {name}",
            _named(torch, name),
            pair[:1],
            many[:1],
            types=LONG_ONLY,
            slack=8,
            grad=name in ("exp", "abs", "sqrt"),
            nan=name not in ("angle", "sgn"),
        )
    yield Case(
        "complex matmul",
        torch.matmul,
        [complexes(3, 17, 29), complexes(3, 29, 13)],
        [complexes(2, 200, 31), complexes(2, 31, 190)],
        types=LONG_ONLY,
        grad=True,
    )
    yield Case("complex sum", lambda x: x.sum(1), pair[:1], many[:1], types=LONG_ONLY)
    yield Case("complex", torch.complex, [normal(*_SHAPE), normal(*_SHAPE)], types=LONG_ONLY, grad=True)
    yield Case(
        "polar", torch.polar, [uniform(0.1, 2, *_SHAPE), uniform(-3, 3, *_SHAPE)], types=LONG_ONLY, slack=4
    )
    yield Case("view_as_real", lambda x: torch.view_as_real(x * 1), pair[:1], types=LONG_ONLY, grad=True)


def _named(torch: Any, name: str) -> Any:
    return getattr(torch, name)


def cases(torch: Any) -> Iterator[Case]:
    """Return the cases of this table."""
    yield from _truth(torch)
    yield from _complex(torch)
