"""Elementwise functions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .cases import LONG_ONLY, Case, booleans, integers, normal, uniform, whole

_SHAPE, _LARGE = (3, 67), (4, 16411)
#: Name -> the bounds of its argument; the function has the same name in torch.
_SMOOTH: dict[str, tuple[float, float]] = {
    "abs": (-3, 3), "acos": (-0.9, 0.9), "acosh": (1.1, 5), "asin": (-0.9, 0.9), "asinh": (-5, 5),
    "atan": (-5, 5), "atanh": (-0.9, 0.9), "cos": (-6, 6), "cosh": (-3, 3), "digamma": (0.5, 5),
    "erf": (-3, 3), "erfc": (-2, 2), "erfinv": (-0.9, 0.9), "exp": (-4, 4), "exp2": (-4, 4),
    "expm1": (-2, 2), "lgamma": (2.5, 9), "log": (0.1, 9), "log10": (0.1, 9), "log1p": (-0.5, 5),
    "log2": (0.1, 9), "logit": (0.05, 0.95), "neg": (-3, 3), "reciprocal": (0.2, 4), "rsqrt": (0.2, 9),
    "sigmoid": (-6, 6), "sin": (-6, 6), "sinc": (-3, 3), "sinh": (-3, 3), "sqrt": (0.1, 9), "square": (-3, 3),
    "tan": (-1.2, 1.2), "tanh": (-3, 3), "i0": (-3, 3), "deg2rad": (-90, 90), "positive": (-3, 3),
}  # fmt: skip
_SPECIAL: dict[str, tuple[float, float]] = {
    "i0e": (-3, 3), "i1": (-3, 3), "i1e": (-3, 3), "ndtri": (0.05, 0.95), "log_ndtr": (-2, 2),
    "erfcx": (-1, 2), "entr": (0.1, 3), "ndtr": (-2, 2), "bessel_j0": (-4, 4), "bessel_j1": (-4, 4),
}  # fmt: skip
_STEPS = (
    "ceil",
    "floor",
    "round",
    "trunc",
    "sign",
    "sgn",
    "frac",
    "signbit",
    "isfinite",
    "isinf",
    "isnan",
    "relu",
)
#: Activations of torch.nn.functional, with their arguments.
_ACTIVATIONS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("gelu", {}),
    ("gelu", {"approximate": "tanh"}),
    ("silu", {}),
    ("mish", {}),
    ("elu", {"alpha": 0.7}),
    ("selu", {}),
    ("celu", {"alpha": 1.3}),
    ("softplus", {"beta": 1.5}),
    ("leaky_relu", {"negative_slope": 0.1}),
    ("hardtanh", {"min_val": -0.6}),
    ("hardsigmoid", {}),
    ("hardswish", {}),
    ("logsigmoid", {}),
    ("softsign", {}),
    ("softshrink", {}),
    ("hardshrink", {}),
    ("tanhshrink", {}),
    ("threshold", {"threshold": 0.3, "value": 0.1}),
    ("relu6", {}),
    ("glu", {"dim": 0}),
)
#: Whether they pass NaN on differs between backends and releases.
DROP_NAN = ("softshrink", "hardshrink", "hardsigmoid", "hardswish", "relu6", "threshold")
_PAIRS = (
    "add",
    "sub",
    "mul",
    "div",
    "maximum",
    "minimum",
    "fmax",
    "fmin",
    "atan2",
    "hypot",
    "logaddexp",
    "logaddexp2",
    "copysign",
    "heaviside",
)
#: Their algorithms are allowed more than a few units in the last place: the OpenCL C specification has no
#: limit for them, and series and asymptotic forms meet in the range.
_INACCURATE = frozenset(
    {
        "digamma",
        "erfinv",
        "lgamma",
        "i0",
        "i0e",
        "i1",
        "i1e",
        "ndtri",
        "log_ndtr",
        "erfcx",
        "bessel_j0",
        "bessel_j1",
    }
)


def _unary(torch: Any) -> Iterator[Case]:
    for names, home in ((_SMOOTH, torch), (_SPECIAL, torch.special)):
        for name, (low, high) in names.items():
            # Backends have no short types for some special functions, and the CPU computes them in float32.
            types = LONG_ONLY if home is torch.special else (*LONG_ONLY, "float16", "bfloat16")
            yield Case(
                name,
                lambda x, h=home, n=name: getattr(h, n)(x),
                [uniform(low, high, *_SHAPE)],
                [uniform(low, high, *_LARGE)],
                types=types,
                grad=home is torch and name not in ("i0", "sinc"),
                slack=32 if name in _INACCURATE else 4,
            )
    for name in _STEPS:
        yield Case(
            name,
            lambda x, n=name: getattr(torch, n)(x),
            [uniform(-4, 4, *_SHAPE)],
            [uniform(-4, 4, *_LARGE)],
            exact=True,
            nan=name not in ("sign", "sgn"),
        )
    functional = torch.nn.functional
    for name, options in _ACTIVATIONS:
        yield Case(
            " ".join([name, *map(str, options.values())]),
            lambda x, n=name, o=options: getattr(functional, n)(x, **o),
            [uniform(-3, 3, 4, 67)],
            [uniform(-3, 3, 4, 16411)],
            grad=True,
            slack=4,
            nan=name not in DROP_NAN,
        )


def _binary(torch: Any) -> Iterator[Case]:
    half = [uniform(0.3, 3, *_SHAPE), uniform(0.3, 3, *_SHAPE)]
    many = [uniform(0.3, 3, *_LARGE), uniform(0.3, 3, *_LARGE)]
    for name in _PAIRS:
        grad = name not in ("heaviside", "fmax", "fmin", "maximum", "minimum")
        yield Case(
            name, _named(torch, name), half, many, grad=grad, slack=4, nan=name not in ("fmax", "fmin")
        )
    signed = [uniform(-4, 4, *_SHAPE), uniform(0.5, 3, *_SHAPE)]
    for name in ("fmod", "remainder", "floor_divide"):
        yield Case(name, _named(torch, name), [integers(-40, 40, 3, 67), integers(1, 9, 3, 67)])
        yield Case(
            f"{name} of fractions",
            _named(torch, name),
            [whole(-40, 40, *_SHAPE), whole(1, 9, *_SHAPE)],
            [whole(-40, 40, *_LARGE), whole(1, 9, *_LARGE)],
            exact=True,
        )
    for mode in ("floor", "trunc"):
        yield Case(
            f"div {mode}",
            lambda a, b, m=mode: torch.div(a, b, rounding_mode=m),
            [integers(-40, 40, 3, 67), integers(1, 9, 3, 67)],
            [integers(-40, 40, *_LARGE), integers(1, 9, *_LARGE)],
        )
    yield Case("pow", torch.pow, [half[0], signed[0]], [many[0], many[1]], grad=True, slack=8)
    yield Case("pow scalar", lambda x: x**3, [signed[0]], [uniform(-2, 2, *_LARGE)], grad=True, slack=4)
    yield Case("pow of scalar", lambda x: 2.5**x, [signed[0]], grad=True, slack=8)
    yield Case("xlogy", torch.xlogy, half, many, slack=4, grad=True)
    yield Case(
        "add broadcast", lambda a, b: torch.add(a, b, alpha=2), [normal(4, 1, 65), normal(7, 1)], grad=True
    )
    yield Case("rsub", lambda a, b: torch.rsub(a, b, alpha=3), half, many, grad=True)
    yield Case("add scalar", lambda a: a + 1.5, [normal(*_SHAPE)], [normal(*_LARGE)])
    yield Case("mul scalar", lambda a: a * 1.5, [normal(*_SHAPE)], [normal(*_LARGE)])
    yield Case("div scalar", lambda a: a / 1.5, [normal(*_SHAPE)], [normal(*_LARGE)])
    yield Case("lerp", lambda a, b: torch.lerp(a, b, 0.3), half, many, grad=True, slack=2)
    yield Case("lerp tensor", torch.lerp, [*half, uniform(0, 1, *_SHAPE)], grad=True, slack=2)
    yield Case(
        "polygamma", lambda x: torch.polygamma(1, x), [uniform(0.5, 5, *_SHAPE)], types=LONG_ONLY, slack=32
    )
    yield Case("igamma", torch.igamma, half, types=LONG_ONLY, slack=64)
    yield Case(
        "zeta", torch.special.zeta, [uniform(1.5, 4, 3, 67), uniform(1, 4, 3, 67)], types=LONG_ONLY, slack=64
    )
    yield Case("nextafter", torch.nextafter, half, many, types=("float64",), exact=True)
    yield Case("ldexp", torch.ldexp, [normal(*_SHAPE), integers(-3, 4, *_SHAPE)])
    yield Case(
        "addcmul",
        lambda a, b, c: torch.addcmul(a, b, c, value=0.5),
        [*half, half[0]],
        [*many, many[0]],
        grad=True,
    )
    yield Case(
        "addcdiv",
        lambda a, b, c: torch.addcdiv(a, b, c, value=0.5),
        [*half, half[0]],
        [*many, many[0]],
        grad=True,
        slack=4,
    )
    yield Case(
        "clamp", lambda x: x.clamp(-0.5, 0.75), [normal(*_SHAPE)], [normal(*_LARGE)], grad=True, exact=True
    )
    yield Case("clamp tensor", lambda x, y: torch.clamp(x, min=y), [normal(*_SHAPE), normal(67)], exact=True)
    yield Case(
        "clamp_min", lambda x: torch.clamp_min(x, 0.25), [normal(*_SHAPE)], [normal(*_LARGE)], exact=True
    )
    yield Case(
        "where",
        torch.where,
        [booleans(*_SHAPE), *half],
        [booleans(*_LARGE), *many],
        grad=True,
        exact=True,
    )
    yield Case(
        "nan_to_num",
        lambda x: torch.nan_to_num(x / x.round(), 0.5, 7.0, -7.0),
        [uniform(0, 3, *_SHAPE)],
        nan=False,
        slack=4,
    )
    yield Case(
        "prelu",
        torch.nn.functional.prelu,
        [normal(2, 5, 33), uniform(0, 0.5, 5)],
        grad=True,
        slack=4,
        large=[normal(4, 5, 4111), uniform(0, 0.5, 5)],
    )
    yield Case("float_power", lambda x: torch.float_power(x, 1.5), half[:1], types=("float64",), slack=4)


def _named(torch: Any, name: str) -> Any:
    return getattr(torch, name)


def cases(torch: Any) -> Iterator[Case]:
    """Return the cases of this table."""
    yield from _unary(torch)
    yield from _binary(torch)
