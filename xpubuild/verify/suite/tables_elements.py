"""Elementwise functions; comparisons, logic, bits, and complex numbers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .cases import EXACT, GRAD, LONG, LONG_ONLY, NO_NAN, Case, named, rows, slack

_SHAPE, _LARGE = "3x67", "4x16411"
#: Functions with the bounds of their argument.
_SMOOTH = """abs -3:3, acos -.9:.9, acosh 1.1:5, asin -.9:.9, asinh -5:5, atan -5:5, atanh -.9:.9, cos -6:6,
    cosh -3:3, digamma .5:5, erf -3:3, erfc -2:2, erfinv -.9:.9, exp -4:4, exp2 -4:4, expm1 -2:2,
    lgamma 2.5:9, log .1:9, log10 .1:9, log1p -.5:5, log2 .1:9, logit .05:.95, neg -3:3, reciprocal .2:4,
    rsqrt .2:9, sigmoid -6:6, sin -6:6, sinc -3:3, sinh -3:3, sqrt .1:9, square -3:3, tan -1.2:1.2, tanh -3:3,
    i0 -3:3, deg2rad -90:90, positive -3:3"""
_STEPS = "ceil floor round trunc sign sgn frac signbit isfinite isinf isnan relu"
#: Activations of torch.nn.functional, with their arguments.
_ACTIVATIONS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("gelu", {}), ("gelu", {"approximate": "tanh"}), ("silu", {}), ("mish", {}), ("elu", {"alpha": 0.7}),
    ("selu", {}), ("celu", {"alpha": 1.3}), ("softplus", {"beta": 1.5}),
    ("leaky_relu", {"negative_slope": 0.1}), ("hardtanh", {"min_val": -0.6}),
    ("hardsigmoid", {}), ("hardswish", {}), ("logsigmoid", {}),
    ("softsign", {}), ("softshrink", {}), ("hardshrink", {}), ("tanhshrink", {}),
    ("threshold", {"threshold": 0.3, "value": 0.1}), ("relu6", {}), ("glu", {"dim": 0}),
)  # fmt: skip
#: Whether they pass NaN on differs between backends and releases.
DROP_NAN = ("softshrink", "hardshrink", "hardsigmoid", "hardswish", "relu6", "threshold")
_PAIRS = "add sub mul div maximum minimum fmax fmin atan2 hypot logaddexp logaddexp2 copysign heaviside"
#: Their algorithms are allowed more than a few units in the last place: the OpenCL C specification has no
#: limit for them, and series and asymptotic forms meet in the range.
_INACCURATE = "digamma erfinv lgamma i0"
_OF_COMPLEX = "exp log sqrt sin tanh abs angle conj_physical reciprocal square sgn"


def pointwise(torch: Any) -> Iterator[Case]:
    """Return elementwise functions, of one number and of several."""
    f = torch.nn.functional
    for name, bounds in (entry.split() for entry in _SMOOTH.split(",")):
        yield Case(name, named(torch, name), f"u{bounds}@{_SHAPE}", f"u{bounds}@{_LARGE}",
                   (*LONG_ONLY, "float16", "bfloat16"), grad=name not in ("i0", "sinc"),
                   slack=32 if name in _INACCURATE.split() else 4)  # fmt: skip
    for name in _STEPS.split():
        inputs = f"u-4:4@{_SHAPE}", f"u-4:4@{_LARGE}"
        yield Case(name, named(torch, name), *inputs, exact=True, nan=name not in ("sign", "sgn"))
    for name, options in _ACTIVATIONS:
        text, call = " ".join([name, *map(str, options.values())]), named(f, name, **options)
        yield Case(text, call, "u-3:3@4x67", "u-3:3@4x16411", grad=True, slack=4, nan=name not in DROP_NAN)
    one, other = f"u.3:3@{_SHAPE}", f"u.3:3@{_LARGE}"
    half, many = f"{one}*2", f"{other}*2"
    for name in _PAIRS.split():
        nan = name not in ("fmax", "fmin")
        grad = nan and name not in ("heaviside", "maximum", "minimum")
        yield Case(name, named(torch, name), half, many, grad=grad, slack=4, nan=nan)
    fractions = f"w-40:40@{_SHAPE} w1:9@{_SHAPE}", f"w-40:40@{_LARGE} w1:9@{_LARGE}"
    whole = "i-40:40@3x67 i1:9@3x67"
    for name in ("fmod", "remainder", "floor_divide"):
        yield Case(name, named(torch, name), whole)
        yield Case(f"{name} of fractions", named(torch, name), *fractions, exact=True)
    for mode in ("floor", "trunc"):
        large = f"i-40:40@{_LARGE} i1:9@{_LARGE}"
        yield Case(f"div {mode}", named(torch, "div", rounding_mode=mode), whole, large)
    signed, plain, plain_many = f"u-4:4@{_SHAPE}", f"n{_SHAPE}", f"n{_LARGE}"
    # fmt: off
    yield from rows(
        torch,
        ("pow", "", f"{one} {signed}", many, GRAD, slack(8)),
        ("pow scalar", lambda x: x**3, signed, f"u-2:2@{_LARGE}", GRAD, slack(4)),
        ("pow of scalar", lambda x: 2.5**x, signed, GRAD, slack(8)),
        ("add broadcast", named(torch, "add", alpha=2), "n4x1x65 n7x1", GRAD),
        ("lerp", named(torch, "lerp", 0.3), half, many, GRAD, slack(2)),
        ("lerp tensor", "lerp", f"{half} u0:1@{_SHAPE}", GRAD, slack(2)),
        ("addcmul", named(torch, "addcmul", value=0.5), f"{half} {one}", f"{many} {other}", GRAD),
        ("addcdiv", named(torch, "addcdiv", value=0.5), f"{half} {one}", f"{many} {other}", GRAD, slack(4)),
        ("clamp", named(torch, "clamp", -0.5, 0.75), plain, plain_many, GRAD, EXACT),
        ("clamp tensor", lambda x, y: torch.clamp(x, min=y), f"{plain} n67", EXACT),
        ("where", "", f"b{_SHAPE} {half}", f"b{_LARGE} {many}", GRAD, EXACT),
        ("nan_to_num", lambda x: torch.nan_to_num(x / x.round(), 0.5, 7.0, -7.0), f"u0:3@{_SHAPE}", NO_NAN,
         slack(4)),
        ("prelu", f.prelu, "n2x5x33 u0:.5@5", "n4x5x4111 u0:.5@5", GRAD, slack(4)),
    )
    # fmt: on


def truth(torch: Any) -> Iterator[Case]:  # noqa: C901 - a table
    """Return what gives or takes truth values and bits, and complex numbers."""
    one, other = f"i-9:9@{_SHAPE}", f"i-9:9@{_LARGE}"
    small, many, flags, many_flags = f"{one}*2", f"{other}*2", f"b{_SHAPE}*2", f"b{_LARGE}*2"
    level, levels = f"w-5:5@{_SHAPE}", f"w-5:5@{_LARGE}"
    for name in ("eq", "ne", "lt", "le", "gt", "ge"):
        call = named(torch, name)
        yield Case(name, call, f"{level}*2", f"{levels}*2", exact=True, nan=False)
        yield Case(f"{name} scalar", named(torch, name, 2), level, levels, exact=True, nan=False)
        yield Case(f"{name} integers", call, small, many)
    for name in ("logical_and", "logical_or", "logical_xor"):
        yield Case(name, named(torch, name), flags, many_flags)
        yield Case(f"{name} of numbers", named(torch, name), f"w-1:2@{_SHAPE}*2", exact=True)
    for name in ("bitwise_and", "bitwise_or", "bitwise_xor", "gcd", "lcm"):
        yield Case(name, named(torch, name), small, many)
        if name.startswith("bitwise"):
            yield Case(f"{name} booleans", named(torch, name), flags)
            yield Case(f"{name} scalar", named(torch, name, 5), one, other)
    for name in ("logical_not", "bitwise_not"):
        yield Case(name, named(torch, name), f"b{_SHAPE}", f"b{_LARGE}")
        yield Case(f"{name} integers", named(torch, name), one, other)
    for name in ("bitwise_left_shift", "bitwise_right_shift"):
        inputs = f"i1:999@{_SHAPE} i0:8@{_SHAPE}", f"i1:999@{_LARGE} i0:8@{_LARGE}"
        yield Case(name, named(torch, name), *inputs)
    for name in ("add", "sub", "mul", "maximum", "minimum"):
        yield Case(f"{name} integers", named(torch, name), small, many)
    for name in ("abs", "neg", "sign"):
        yield Case(f"{name} integers", named(torch, name), one, other)
    pair, large = f"c{_SHAPE}*2", f"c{_LARGE}*2"
    for name in ("add", "sub", "mul", "div"):
        yield Case(f"complex {name}", named(torch, name), pair, large, LONG_ONLY, grad=True, slack=64)
    for name in _OF_COMPLEX.split():
        options: dict[str, Any] = {
            "grad": name in ("exp", "abs", "sqrt"),
            "nan": name not in ("angle", "sgn"),
        }
        inputs = f"c{_SHAPE}", f"c{_LARGE}"
        yield Case(f"complex {name}", named(torch, name), *inputs, LONG_ONLY, slack=8, **options)
    # fmt: off
    yield from rows(
        torch,
        ("logical_not of numbers", "logical_not", f"w-1:2@{_SHAPE}", EXACT),
        ("where integers", "where", f"b{_SHAPE} {small}", f"b{_LARGE} {many}"),
        _float8(torch, "float8_e4m3fn", 3, -6),
        _float8(torch, "float8_e5m2", 2, -14),
        ("to integers", lambda x: x.to(torch.int32), f"u-90:90@{_SHAPE}", f"u-90:90@{_LARGE}", EXACT, NO_NAN),
        ("to floating point", lambda x: x.float() / 4, f"i-99:99@{_SHAPE}", f"i-99:99@{_LARGE}"),
        ("to another type", lambda x: (x.half().float(), x.bfloat16().float(), x.float().half()),
         f"n{_SHAPE}",
         f"n{_LARGE}", EXACT),
        ("complex matmul", "matmul", "c3x17x29 c3x29x13", "c2x200x31 c2x31x190", GRAD, LONG),
        ("complex sum", lambda x: x.sum(1), f"c{_SHAPE}", f"c{_LARGE}", LONG),
        ("view_as_real", lambda x: torch.view_as_real(x * 1), f"c{_SHAPE}", LONG, GRAD),
    )
    # fmt: on


def _float8(torch: Any, name: str, bits: int, least: int) -> tuple[Any, ...]:
    """Return the row of a type of 8 bits: ``bits`` of fraction, and normal from 2 ** ``least`` on."""

    def defined(x: Any) -> Any:
        step = 2.0 ** (x.abs().clamp_min(2.0**least).log2().floor() - bits)
        return (x / step).round() * step

    call = lambda x: x.to(getattr(torch, name)).to(x.dtype)  # noqa: E731
    return name, call, f"u-90:90@{_SHAPE}", f"u-90:90@{_LARGE}", EXACT, NO_NAN, {"reference": defined}
