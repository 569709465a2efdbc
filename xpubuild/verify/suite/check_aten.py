"""Group ``aten``: operators against references in double precision on the CPU.

Inputs are created on the CPU from a fixed seed and copied, so that device and reference use the same numbers.
"""

from __future__ import annotations

import math
import operator
import struct
from collections.abc import Callable
from functools import partial
from typing import Any

from .context import SuiteContext, require
from .registry import SMOKE, check
from .tolerance import ULPS, gamma, near, product_limit, smallest, unit_roundoff


def _randn(context: SuiteContext, *shape: int, seed: int = 11) -> Any:
    return context.torch.randn(*shape, generator=context.torch.Generator().manual_seed(seed))


@check("aten.elementwise", "elementwise functions agree with double precision", suites=SMOKE)
def elementwise(context: SuiteContext) -> None:
    """Compare arithmetic and transcendental functions, also in short types, transposed and empty."""
    torch = context.torch
    functions: dict[str, Callable[[Any], Any]] = {
        "exp": torch.exp,
        "log": lambda x: torch.log(x.abs()),
        "sqrt": lambda x: torch.sqrt(x.abs()),
        "tanh": torch.tanh,
        "erf": torch.erf,
        "sin": torch.sin,
        "sigmoid": torch.sigmoid,
        "divide": lambda x: x / (x.abs() + 1.5),
        "where": lambda x: torch.where(x > 0, x, 2 * x),
    }
    base = _randn(context, 129, 257)
    eps = float(torch.finfo(torch.float32).eps)
    for name, function in functions.items():
        for dtype in (torch.float32, torch.bfloat16, torch.float16):
            short = dtype != torch.float32
            if short and name in ("divide", "erf"):
                continue  # it rounds a divisor to the type, or is a polynomial of bounded absolute error
            for source in (base.to(dtype), base.to(dtype).t(), base[:0].to(dtype)):
                reference = function(source.double())
                limit = ULPS[name] * eps * reference.abs()
                if short:  # computed in float32 and rounded once
                    limit = limit + unit_roundoff(torch, dtype) * reference.abs() + smallest(torch, dtype)
                near(context, f"{name} of {dtype}", function(source.to(context.device)), reference, limit)


@check("aten.reduction", "sums, means, extremes and scans agree with double precision", suites=SMOKE)
def reduction(context: SuiteContext) -> None:
    """Reduce over all dimensions, over one, and along a strided one."""
    torch = context.torch
    source = _randn(context, 65, 1023)
    there = source.to(context.device)
    exact = source.double()
    roundoff = unit_roundoff(torch, torch.float32)
    for dim in (0, 1):
        length = source.shape[dim]
        scale = gamma(length, roundoff) * exact.abs().sum(dim)
        for name, result, reference, limit in (
            ("sum", there.sum(dim), exact.sum(dim), scale),
            ("mean", there.mean(dim), exact.mean(dim), scale / length),
            ("norm", there.norm(dim=dim), exact.norm(dim=dim), gamma(length, roundoff) * exact.norm(dim=dim)),
            ("cumsum", there.cumsum(dim), exact.cumsum(dim), scale.unsqueeze(dim)),
        ):
            near(context, f"{name} over dimension {dim}", result, reference, limit)
        for name in ("amax", "argmin"):
            same = torch.equal(getattr(there, name)(dim).cpu(), getattr(source, name)(dim))
            require(same, f"{name} over dimension {dim} is wrong")
    limit = gamma(source.numel(), roundoff) * exact.abs().sum()
    near(context, "the sum of all", there.sum(), exact.sum(), limit)
    require(there[:0].sum().item() == 0.0, "the sum of an empty tensor is not 0")


def _matmul(context: SuiteContext, dtype: Any) -> None:
    torch = context.torch
    for rows, inner, columns in ((256, 512, 128), (33, 1001, 65), (1, 64, 1)):
        left = _randn(context, rows, inner, seed=3).to(dtype)
        right = _randn(context, inner, columns, seed=4).to(dtype)
        limit = product_limit(torch, left.double(), right.double(), dtype, torch.float32)
        reference = left.double() @ right.double()
        there = right.to(context.device)
        for matrix in (there, there.t().contiguous().t()):
            result = left.to(context.device) @ matrix
            require(result.dtype == dtype, f"the product is {result.dtype}")
            near(context, f"{rows}x{inner} @ {inner}x{columns}", result, reference, limit)


@check("aten.matmul_fp32", "float32 matrix products agree with double precision", suites=SMOKE)
def matmul_fp32(context: SuiteContext) -> None:
    """Multiply plain and transposed operands, with odd sizes."""
    _matmul(context, context.torch.float32)


@check("aten.matmul_bf16", "bfloat16 matrix products agree with double precision", suites=SMOKE)
def matmul_bf16(context: SuiteContext) -> None:
    """Multiply in bfloat16; kernels accumulate in float32."""
    _matmul(context, context.torch.bfloat16)


@check("aten.indexing", "indexing, gather, scatter and masks are correct", suites=SMOKE)
def indexing(context: SuiteContext) -> None:
    """Compare operations that only move data; the results must be bitwise equal."""
    torch = context.torch
    source = _randn(context, 37, 53)
    rows = torch.randperm(37, generator=torch.Generator().manual_seed(5))
    picks = torch.randint(0, 53, (37, 9), generator=torch.Generator().manual_seed(6))

    def moves(x: Any, rows: Any, picks: Any) -> dict[str, Any]:
        return {
            "index_select": x.index_select(0, rows),
            "advanced index": x[rows[:5], picks[:5, 0]],
            "gather": x.gather(1, picks),
            "scatter": torch.zeros_like(x).scatter(1, picks[:, :1], x[:, :1]),
            "masked_fill": x.masked_fill(x > 0.5, -1.0),
            "masked_select": x[x > 0.5],
            "nonzero": (x > 1.0).nonzero(),
            "cat": torch.cat((x, x[:, :3].flip(1)), dim=1),
            "strided slice": x[::3, 1::2].contiguous(),
            "arange": torch.arange(3, 300, 7, device=x.device),
            "index_put": torch.zeros_like(x).index_put((rows,), x),
        }

    expected = moves(source, rows, picks)
    found = moves(source.to(context.device), rows.to(context.device), picks.to(context.device))
    for name, reference in expected.items():
        require(torch.equal(found[name].cpu(), reference), f"{name} differs from the CPU")
    context.metric("operations", len(expected))


@check("aten.sort", "sort and topk are correct", suites=SMOKE)
def sort(context: SuiteContext) -> None:
    """Sort with duplicates (stable) and without; check order, permutation and topk."""
    torch = context.torch
    source = torch.randint(-50, 50, (5, 4097), generator=torch.Generator().manual_seed(8))
    values, indices = torch.sort(source.to(context.device), dim=1, stable=True)
    reference, order = torch.sort(source, dim=1, stable=True)
    # On the CPU, device and reference are the same code: the order is looked at on its own too.
    require(bool((values[:, 1:] >= values[:, :-1]).all()), "sorted values are out of order")
    require(torch.equal(source.gather(1, indices.cpu()), values.cpu()), "indices do not match the values")
    require(torch.equal(values.cpu(), reference), "sorted values differ from the CPU")
    require(torch.equal(indices.cpu(), order), "a stable sort gave a different order than the CPU")
    distinct = torch.randperm(10007, generator=torch.Generator().manual_seed(9)).float()
    top, where = torch.topk(distinct.to(context.device), 10)
    require(top.tolist() == [10006.0 - i for i in range(10)], f"topk found {top.tolist()}")
    require(torch.equal(distinct[where.cpu()], top.cpu()), "indices of topk do not match its values")


@check("aten.integers", "integer arithmetic is exact")
def integers(context: SuiteContext) -> None:
    """Compare with Python's own integers: signs of quotients, shifts, overflow and large numbers."""
    torch = context.torch
    left = [7, -7, 7, -7, 0, 127, -128, 100, 1, -1]
    right = [3, 3, -3, -3, 5, 2, 7, -9, 1, 6]
    # What torch has, and Python where it has another function for it.
    answers: dict[str, tuple[Callable[[Any, Any], Any], ...]] = {
        "sum": (operator.add,), "product": (operator.mul,), "floor division": (operator.floordiv,),
        "truncated division": (partial(torch.div, rounding_mode="trunc"), operator.truediv),
        "remainder": (torch.remainder, operator.mod), "fmod": (torch.fmod, math.fmod),
        "maximum": (torch.maximum, max), "and": (operator.and_,), "exclusive or": (operator.xor,),
        "shift": (lambda a, b: a << (b & 3),), "less": (operator.lt,),
    }  # fmt: skip
    for dtype, bits in ((torch.int8, 8), (torch.int16, 16), (torch.int32, 32), (torch.int64, 64)):
        a = torch.tensor(left, dtype=dtype, device=context.device)
        b = torch.tensor(right, dtype=dtype, device=context.device)
        for name, functions in answers.items():
            expected = [int(functions[-1](*pair)) for pair in zip(left, right)]
            wrapped = [(value + 2 ** (bits - 1)) % 2**bits - 2 ** (bits - 1) for value in expected]
            found = [int(value) for value in functions[0](a, b).tolist()]
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


@check("aten.rounding", "conversions round to nearest, ties to even")
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


@check("aten.special_values", "infinities and NaN are handled as in IEEE 754")
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
