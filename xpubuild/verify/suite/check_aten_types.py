"""Group ``aten``: all common dtypes, rounding, infinities and NaN."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from typing import Any

from .context import SuiteContext, require
from .hardware import float_types
from .registry import FULL, check
from .tolerance import accumulator, excess, function_limit, gamma, smallest, unit_roundoff


def _numbers(context: SuiteContext, *shape: int, seed: int) -> Any:
    return context.torch.randn(*shape, generator=context.torch.Generator().manual_seed(seed))


@check(
    "aten.elementwise_types",
    "elementwise functions are correct for all floating-point dtypes",
    suites=FULL,
    deadline_s=120,
)
def elementwise_types(context: SuiteContext) -> None:
    """Compare functions with float64 on the CPU, for all dtypes of the device."""
    torch = context.torch
    functions: dict[str, Callable[[Any], Any]] = {
        "exp": torch.exp,
        "log": lambda x: torch.log(x.abs() + 1e-3),
        "sqrt": lambda x: torch.sqrt(x.abs()),
        "tanh": torch.tanh,
        "erf": torch.erf,
        "atan": torch.atan,
        "sigmoid": torch.sigmoid,
        "silu": torch.nn.functional.silu,
        "gelu": torch.nn.functional.gelu,
        "where": lambda x: torch.where(x > 0, x, 2 * x),
    }
    worst = 0.0
    for dtype in float_types(context):
        source = _numbers(context, 67, 129, seed=31).to(dtype)
        there = source.to(context.device)
        for name, function in functions.items():
            result = function(there)
            require(result.dtype == dtype, f"{name} of {dtype} is {result.dtype}")
            exact = source.double()
            if name == "log" and dtype != torch.float64:
                exact, result = (source.abs() + 1e-3).double(), torch.log(there.abs() + 1e-3)
                reference = exact.log()
            else:
                reference = function(exact)
            limit = function_limit(torch, name, reference, dtype)
            if name == "gelu":  # x times a number near 0, itself a difference: its error is that of x
                limit = limit + function_limit(torch, "divide", exact, accumulator(torch, dtype))
            error = excess(torch, result, reference, limit)
            require(error <= 1, f"{name} of {dtype} is off by {error:.3g} times the allowed error")
            worst = max(worst, error)
    context.metric("error_of_allowed", worst)


@check("aten.integers", "integer arithmetic is exact", suites=FULL)
def integers(context: SuiteContext) -> None:
    """Compare with Python's own integers: signs of quotients, shifts, overflow and large numbers."""
    torch = context.torch
    left = [7, -7, 7, -7, 0, 127, -128, 100, 1, -1]
    right = [3, 3, -3, -3, 5, 2, 7, -9, 1, 6]
    answers: dict[str, tuple[Callable[[Any, Any], Any], list[int]]] = {
        "sum": (lambda a, b: a + b, [a + b for a, b in zip(left, right)]),
        "product": (lambda a, b: a * b, [a * b for a, b in zip(left, right)]),
        "floor division": (lambda a, b: a // b, [a // b for a, b in zip(left, right)]),
        "truncated division": (
            lambda a, b: torch.div(a, b, rounding_mode="trunc"), [int(a / b) for a, b in zip(left, right)],
        ),
        "remainder": (torch.remainder, [a % b for a, b in zip(left, right)]),
        "fmod": (torch.fmod, [int(math.fmod(a, b)) for a, b in zip(left, right)]),
        "maximum": (torch.maximum, [max(a, b) for a, b in zip(left, right)]),
        "and": (lambda a, b: a & b, [a & b for a, b in zip(left, right)]),
        "exclusive or": (lambda a, b: a ^ b, [a ^ b for a, b in zip(left, right)]),
        "shift": (lambda a, b: a << (b & 3), [a << (b & 3) for a, b in zip(left, right)]),
        "less": (lambda a, b: a < b, [int(a < b) for a, b in zip(left, right)]),
    }  # fmt: skip
    for dtype, bits in ((torch.int8, 8), (torch.int16, 16), (torch.int32, 32), (torch.int64, 64)):
        a = torch.tensor(left, dtype=dtype, device=context.device)
        b = torch.tensor(right, dtype=dtype, device=context.device)
        for name, (function, expected) in answers.items():
            wrapped = [(value + 2 ** (bits - 1)) % 2**bits - 2 ** (bits - 1) for value in expected]
            found = [int(value) for value in function(a, b).tolist()]
            require(found == wrapped, f"{name} of {dtype} is {found} instead of {wrapped}")
    big = [2**53 + 1, -(2**61) - 3]
    found = (torch.tensor(big, device=context.device) * 2 - 1).tolist()
    require(found == [2 * value - 1 for value in big], f"int64 is computed in floating point: {found}")


def _half(value: float) -> float:
    try:
        return float(struct.unpack("<e", struct.pack("<e", value))[0])
    except OverflowError:
        return math.copysign(math.inf, value)


def _bfloat(value: float) -> float:
    """Round to 8 significant bits, ties to even."""
    (bits,) = struct.unpack("<I", struct.pack("<f", value))
    rounded = (bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000
    return float(struct.unpack("<f", struct.pack("<I", rounded & 0xFFFFFFFF))[0])


@check("aten.rounding", "conversions round to nearest, ties to even", suites=FULL)
def rounding(context: SuiteContext) -> None:
    """Compare conversions and rounding functions with Python's arithmetic, including ties and extreme
    values."""
    torch = context.torch
    values = [0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 0.49999997, 2.4999998, 8388607.5, -3.7, 3.2, 0.0, 1e9]
    there = torch.tensor(values, device=context.device)
    exactly: tuple[tuple[str, Any, Callable[[float], float]], ...] = (
        ("round", torch.round, round), ("floor", torch.floor, math.floor),
        ("ceil", torch.ceil, math.ceil), ("trunc", torch.trunc, math.trunc),
    )  # fmt: skip
    for name, function, known in exactly:
        found, expected = function(there).tolist(), [float(known(value)) for value in there.cpu().tolist()]
        require(found == expected, f"{name} of {values} is {found}")
    found = there.to(torch.int64).tolist()
    require(found == [math.trunc(value) for value in there.cpu().tolist()], f"float32 to int64 gives {found}")
    step = 2.0**-10
    ties = [1 + step / 2, 1 + 3 * step / 2, 1 + step / 2 + 2.0**-23, 65504.0, 65519.0, 65520.0, 2.0**-24,
            2.0**-25, 3 * 2.0**-25, 6.1e-5, 0.1, 1 + 2.0**-8, 1 + 3 * 2.0**-8, 3.3895e38, -1e-40]  # fmt: skip
    signed = [sign * value for value in ties for sign in (1, -1)]
    single = torch.tensor(signed, dtype=torch.float32)
    exact = single.tolist()
    for dtype, nearest in ((torch.float16, _half), (torch.bfloat16, _bfloat)):
        found = single.to(context.device).to(dtype).float().cpu().tolist()
        for value, result in zip(exact, found):
            tiny = 0 < abs(value) < 2.0**-126  # devices may take subnormal float32 for 0
            right = result == nearest(value) or (tiny and result == 0)
            require(right, f"{value!r} rounded to {dtype} is {result!r} instead of {nearest(value)!r}")


@check("aten.special_values", "infinities and NaN are handled as in IEEE 754", suites=FULL)
def special_values(context: SuiteContext) -> None:
    """Check 0/0, overflow and NaN in arithmetic, comparisons, min/max and sorting."""
    torch, device = context.torch, context.device
    nan, inf = math.nan, math.inf
    values = torch.tensor([1.0, nan, -inf, 0.0, inf, -0.0, 3e38], device=device)
    answers: dict[str, tuple[Any, Any]] = {
        "isnan": (values.isnan(), [False, True, False, False, False, False, False]),
        "isinf": (values.isinf(), [False, False, True, False, True, False, False]),
        "equal to itself": (values == values.clone(), [True, False, True, True, True, True, True]),
        "x * 10": (values * 10, [10.0, nan, -inf, 0.0, inf, -0.0, inf]),
        "x - x": ((values - values)[:5], [0.0, nan, nan, 0.0, nan]),
        "x / 0": (values[:6] / 0.0, [inf, nan, -inf, nan, inf, nan]),
        "relu": (torch.relu(values), [1.0, nan, 0.0, 0.0, inf, 0.0, float(values[6].item())]),
        "maximum": (torch.maximum(values, torch.zeros_like(values))[:5], [1.0, nan, 0.0, 0.0, inf]),
        "clamp": (values.clamp(-1, 1)[:5], [1.0, nan, -1.0, 0.0, 1.0]),
        "max": (values.max(), nan),
        "min": (values.min(), nan),
        "sum": (values.sum(), nan),
        "nansum": (values[:2].nansum(), 1.0),
        "amax of finite": (values[3:].amax(), inf),
        "sorted": (values[:5].sort().values, [-inf, 0.0, 1.0, inf, nan]),
        "exp": (values[[2, 4]].exp(), [0.0, inf]),
        "log": (torch.tensor([0.0, -1.0], device=device).log(), [-inf, nan]),
        "nan_to_num": (values[:3].nan_to_num(0.0, 2.0, -2.0), [1.0, 0.0, -2.0]),
        "softmax": (torch.tensor([-inf, 0.0], device=device).softmax(0), [0.0, 1.0]),
    }
    for name, (found, expected) in answers.items():
        require(_alike(found.tolist(), expected), f"{name} is {found.tolist()} instead of {expected}")
    sign = math.copysign(1.0, (values[5] * 2).item())
    require(sign == -1.0, "2 * -0.0 lost its sign")


def _alike(found: Any, expected: Any) -> bool:
    if isinstance(expected, list):
        return len(found) == len(expected) and all(map(_alike, found, expected))
    return bool(
        found == expected or (isinstance(expected, float) and math.isnan(expected) and math.isnan(found))
    )


@check(
    "aten.reduction_types",
    "reductions are correct for all floating-point dtypes",
    suites=FULL,
    deadline_s=120,
)
def reduction_types(context: SuiteContext) -> None:
    """Compare sums, means, standard deviations and softmax with float64 on the CPU, along short and long
    rows."""
    worst = 0.0
    for dtype in float_types(context):
        for shape, dim in (((33, 1025), 1), ((1025, 33), 0), ((3, 70001), 1), ((5, 1), 1), ((7, 4, 130), 1)):
            source = _numbers(context, *shape, seed=41).to(dtype)
            for name, error in _reduction_errors(context, source, dim):
                require(
                    error <= 1,
                    f"{name} of {dtype} {list(shape)} over dimension {dim} is off by {error:.3g} times "
                    "the allowed error",
                )
                worst = max(worst, error)
    context.metric("error_of_allowed", worst)


def _reduction_errors(context: SuiteContext, source: Any, dim: int) -> list[tuple[str, float]]:
    torch, dtype = context.torch, source.dtype
    there, exact, length = source.to(context.device), source.double(), source.shape[dim]
    growth = gamma(length, unit_roundoff(torch, accumulator(torch, dtype)))
    stored, least = unit_roundoff(torch, dtype), smallest(torch, dtype)
    total = exact.abs().sum(dim)
    # The relative errors before a logarithm are absolute ones after it.
    found: list[tuple[str, Any, Any, Any]] = [
        ("sum", there.sum(dim), exact.sum(dim), growth * total),
        ("mean", there.mean(dim), exact.mean(dim), growth * total / length),
        (
            "logsumexp",
            there.logsumexp(dim),
            exact.logsumexp(dim),
            4 * stored * (1 + math.log(length)) + growth * (1 + exact.logsumexp(dim).abs()),
        ),
    ]
    soft = exact.softmax(dim)
    found.append(("softmax", there.softmax(dim), soft, (growth + 16 * growth / length**0.5) * soft))
    if length > 1:
        spread = exact.var(dim)
        found.append(("var", there.var(dim), spread, 4 * growth * (spread + exact.mean(dim).square())))
    return [
        (name, excess(torch, result, reference, limit + 2 * stored * reference.abs() + least))
        for name, result, reference, limit in found
    ]


@check("aten.reduction_integers", "reductions of integers and booleans are exact", suites=FULL)
def reduction_integers(context: SuiteContext) -> None:
    """Compare with Python's own integers; sums of small integer types must not overflow."""
    torch = context.torch
    source = torch.randint(-120, 120, (64, 999), generator=torch.Generator().manual_seed(51))
    rows = source.tolist()
    for dtype in (torch.int8, torch.int32, torch.int64):
        there = source.to(context.device, dtype)
        for name, result, expected in (
            ("sum", there.sum(1), [sum(row) for row in rows]),
            ("sum of all", there.sum(), sum(map(sum, rows))),
            ("amax", there.amax(1), [max(row) for row in rows]),
            ("amin", there.amin(0), [min(column) for column in zip(*rows)]),
            ("count_nonzero", there.count_nonzero(1), [sum(value != 0 for value in row) for row in rows]),
            ("any", (there > 118).any(1), [any(value > 118 for value in row) for row in rows]),
            ("all", (there > -120).all(1), [all(value > -120 for value in row) for row in rows]),
            ("last of cumsum", there.cumsum(1)[:, -1], [sum(row) for row in rows]),
        ):
            require(result.tolist() == expected, f"{name} of {dtype} is wrong")
        where = there.argmax(1).tolist()
        require(all(row[i] == max(row) for row, i in zip(rows, where)), f"argmax of {dtype} is not a maximum")
