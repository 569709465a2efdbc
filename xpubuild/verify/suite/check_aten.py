"""Group ``aten``: operators against references in double precision on the CPU.

Inputs are created on the CPU from a fixed seed and copied, so that device and reference use the same numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .context import SuiteContext, require
from .registry import check
from .tolerance import ULPS, excess, gamma, product_limit, unit_roundoff


def _randn(context: SuiteContext, *shape: int, seed: int = 11) -> Any:
    return context.torch.randn(*shape, generator=context.torch.Generator().manual_seed(seed))


@check("aten.elementwise", "elementwise functions agree with double precision")
def elementwise(context: SuiteContext) -> None:
    """Compare arithmetic and transcendental functions, also on a transposed and an empty tensor."""
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
    worst = 0.0
    for name, function in functions.items():
        for source in (base, base.t(), base[:0]):
            result = function(source.to(context.device))
            reference = function(source.double())
            error = excess(torch, result, reference, ULPS[name] * eps * reference.abs())
            require(error <= 1, f"{name} is off by {error:.3g} times the allowed error")
            worst = max(worst, error)
    context.metric("error_of_allowed", worst)


@check("aten.reduction", "sums, means, extremes and scans agree with double precision")
def reduction(context: SuiteContext) -> None:
    """Reduce over all dimensions, over one, and along a strided one."""
    torch = context.torch
    source = _randn(context, 65, 1023)
    there = source.to(context.device)
    exact = source.double()
    roundoff = unit_roundoff(torch, torch.float32)
    worst = 0.0
    for dim in (0, 1):
        length = source.shape[dim]
        scale = gamma(length, roundoff) * exact.abs().sum(dim)
        for name, result, reference, limit in (
            ("sum", there.sum(dim), exact.sum(dim), scale),
            ("mean", there.mean(dim), exact.mean(dim), scale / length),
            ("norm", there.norm(dim=dim), exact.norm(dim=dim), gamma(length, roundoff) * exact.norm(dim=dim)),
            ("cumsum", there.cumsum(dim), exact.cumsum(dim), scale.unsqueeze(dim)),
        ):
            error = excess(torch, result, reference, limit)
            require(error <= 1, f"{name} over dimension {dim} is off by {error:.3g} times the allowed error")
            worst = max(worst, error)
        require(torch.equal(there.amax(dim).cpu(), source.amax(dim)), f"amax over dimension {dim} is wrong")
        require(
            torch.equal(there.argmin(dim).cpu(), source.argmin(dim)), f"argmin over dimension {dim} is wrong"
        )
    total = excess(torch, there.sum(), exact.sum(), gamma(source.numel(), roundoff) * exact.abs().sum())
    require(total <= 1, f"the sum of all is off by {total:.3g} times the allowed error")
    require(there[:0].sum().item() == 0.0, "the sum of an empty tensor is not 0")
    context.metric("error_of_allowed", max(worst, total))


def _matmul(context: SuiteContext, dtype: Any) -> None:
    torch = context.torch
    worst = 0.0
    for rows, inner, columns in ((256, 512, 128), (33, 1001, 65), (1, 64, 1)):
        left, right = (
            _randn(context, rows, inner, seed=3).to(dtype),
            _randn(context, inner, columns, seed=4).to(dtype),
        )
        limit = product_limit(torch, left.double(), right.double(), dtype, torch.float32)
        reference = left.double() @ right.double()
        there = right.to(context.device)
        for matrix in (there, there.t().contiguous().t()):
            result = left.to(context.device) @ matrix
            require(result.dtype == dtype, f"the product is {result.dtype}")
            error = excess(torch, result, reference, limit)
            require(
                error <= 1,
                f"{rows}x{inner} @ {inner}x{columns} is off by {error:.3g} times the allowed error",
            )
            worst = max(worst, error)
    context.metric("error_of_allowed", worst)


@check("aten.matmul_fp32", "float32 matrix products agree with double precision")
def matmul_fp32(context: SuiteContext) -> None:
    """Multiply plain and transposed operands, with odd sizes."""
    _matmul(context, context.torch.float32)


@check("aten.matmul_bf16", "bfloat16 matrix products agree with double precision")
def matmul_bf16(context: SuiteContext) -> None:
    """Multiply in bfloat16; kernels accumulate in float32."""
    _matmul(context, context.torch.bfloat16)


@check("aten.indexing", "indexing, gather, scatter and masks are correct")
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


@check("aten.sort", "sort and topk are correct")
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
