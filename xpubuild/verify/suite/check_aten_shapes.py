"""Group ``aten``: unusual shapes and layouts, and tensors of more than 4 GiB."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .context import CheckSkippedError, SuiteContext, require
from .hardware import free_memory, memory_of
from .registry import FULL, check
from .tolerance import excess, function_limit, gamma, product_limit, unit_roundoff

#: 2^32 elements and a few: an index of 32 bits, signed or not, does not reach the last ones.
_LARGE = 2**32 + 4096
#: Eight elements as one number of 64 bits, each of them 1.
_ONES = int.from_bytes(b"\1" * 8, "little")


def _layouts(torch: Any) -> dict[str, Any]:
    """Return matrices with all memory layouts, by name."""
    base = torch.randn(96, 130, generator=torch.Generator().manual_seed(91))
    return {
        "dense": base,
        "one element": base[:1, :1],
        "one row": base[5:6],
        "one column": base[:, 7:8],
        "odd": base[:95, :129],
        "transposed": base.t(),
        "every third column": base[:, ::3],
        "with an offset": base[3:, 5:],
        "expanded rows": base[:1].expand(70, 130),
        "expanded element": base[2, 3].expand(33, 65),
        "diagonal": base.diagonal(2).unsqueeze(0),
        "overlapping": base.reshape(-1)[:400].unfold(0, 40, 9),
        "wide": base.reshape(1, -1),
        "tall": base.reshape(-1, 1)[:3001],  # whose product with itself has 9 million elements
        "no rows": base[:0],
        "no columns": base[:, :0],
    }


def _operations(torch: Any) -> dict[str, tuple[Callable[[Any], Any], Callable[[Any, Any], Any]]]:
    """Return functions of a matrix, each with the limit of its error from the exact input and result."""
    u = unit_roundoff(torch, torch.float32)

    def some(factor: float) -> Callable[[Any, Any], Any]:
        return lambda _x, exact: factor * u * (exact.abs() + 1e-30)

    def row_sums(x: Any, _exact: Any) -> Any:
        return gamma(x.shape[1], u) * x.abs().sum(1)

    return {
        "neg": (lambda x: -x, some(0)),
        "copy": (lambda x: x.contiguous(), some(0)),
        "add with a row": (lambda x: x + x[:1], some(1)),
        "multiply with a column": (lambda x: x * x[:, :1], some(1)),
        "multiply-add in place": (lambda x: x.clone().mul_(2).add_(x), some(2)),
        "tanh": (torch.tanh, lambda _x, exact: function_limit(torch, "tanh", exact, torch.float32)),
        "sum by rows": (lambda x: x.sum(1), row_sums),
        "sum by columns": (lambda x: x.sum(0), lambda x, _exact: gamma(x.shape[0], u) * x.abs().sum(0)),
        "sum": (lambda x: x.sum(), lambda x, _exact: gamma(x.numel(), u) * x.abs().sum()),
        "softmax": (lambda x: x.softmax(1), lambda x, exact: (gamma(x.shape[1], u) + 32 * u) * exact),
        "product": (
            lambda x: x @ x.transpose(0, 1),
            lambda x, _exact: product_limit(torch, x, x.t(), torch.float32, torch.float32),
        ),
        "cat": (lambda x: torch.cat((x, x.flip(1)), 1), some(0)),
        "cumsum": (
            lambda x: x.cumsum(1), lambda x, _exact: (row_sums(x, None).unsqueeze(1) + 0 * x),
        ),
        "masked": (lambda x: x.masked_fill(x > 0, 2.0), some(0)),
    }  # fmt: skip


@check(
    "aten.edge_shapes",
    "operators are correct for empty, strided and expanded tensors",
    suites=FULL,
    deadline_s=120,
)
def edge_shapes(context: SuiteContext) -> None:
    """Compare each operation on each layout with float64 on a dense copy."""
    torch = context.torch
    context.full_precision()
    layouts, worst = _layouts(torch), 0.0
    for layout, source in layouts.items():
        # Copies to another device become dense: the layout is made on the device, from the same storage.
        there = _like(context, source)
        require(there.stride() == source.stride(), f"as_strided gives strides {there.stride()}")
        exact = source.clone(memory_format=torch.contiguous_format).double()
        for name, (function, limit) in _operations(torch).items():
            reference = function(exact)
            error = excess(torch, function(there), reference, limit(exact, reference))
            require(error <= 1, f"{name}, {layout}: off by {error:.3g} times the allowed error")
            worst = max(worst, error)
    context.metric("error_of_allowed", worst)
    context.metric("layouts", len(layouts))
    _no_dimension(context)


def _like(context: SuiteContext, source: Any) -> Any:
    torch = context.torch
    whole = torch.tensor([], dtype=source.dtype).set_(source.untyped_storage()).to(context.device)
    return whole.as_strided(source.shape, source.stride(), source.storage_offset())


def _no_dimension(context: SuiteContext) -> None:
    """Compute with tensors without dimensions and with many."""
    torch = context.torch
    scalar = torch.tensor(2.5, device=context.device)
    for name, result, expected in (
        ("sum", scalar.sum(), 2.5),
        ("product with a tensor", (scalar * torch.ones(3, device=context.device)).sum(), 7.5),
        ("softmax", scalar.softmax(0), 1.0),
        ("argmax", scalar.argmax(), 0),
        ("sort", scalar.sort().values, 2.5),
        ("cumsum", scalar.cumsum(0), 2.5),
        ("expand", scalar.expand(4, 5).sum(), 50.0),
    ):
        require(result.item() == expected, f"{name} of a tensor without dimensions is {result.item()}")
    many = torch.arange(3.0**7).reshape((3,) * 7)
    shuffled = many.to(context.device).permute(6, 0, 5, 1, 4, 2, 3)
    require(
        torch.equal((shuffled + 1).cpu(), many.permute(6, 0, 5, 1, 4, 2, 3) + 1),
        "7 permuted dimensions are wrong",
    )
    found = shuffled.sum((0, 2, 5)).cpu()
    require(
        torch.equal(found, many.permute(6, 0, 5, 1, 4, 2, 3).sum((0, 2, 5))),
        "a sum over 3 of 7 dimensions is wrong",
    )


def _large(context: SuiteContext) -> Any:
    torch, free = context.torch, free_memory(context)
    try:
        return torch.zeros(_LARGE, dtype=torch.uint8, device=context.device)
    except RuntimeError as error:
        if context.backend.allocation_limit and free > 4 * _LARGE:
            reason = f"the driver rejects one allocation of {_LARGE} bytes with {free} free"
            raise CheckSkippedError(f"{reason}: {str(error).splitlines()[0]}") from error
        raise


def _sum(torch: Any, values: Any) -> int:
    """Return the sum of all elements, eight at a time as one number, modulo 2^64.

    A sum of bytes makes a copy in int64 first, which is eight times as large.
    """
    return int(values.view(torch.int64).sum().item()) % 2**64


@check("aten.large", "tensors of more than 4 GiB can be indexed completely", suites=FULL, deadline_s=300)
def large(context: SuiteContext) -> None:
    """Write and read elements whose index does not fit into 32 bits."""
    with memory_of(context, 2 * _LARGE):
        _index_large(context)


def _index_large(context: SuiteContext) -> None:
    torch = context.torch
    values = _large(context)
    spots = {0: 1, 2**31 - 1: 2, 2**31 + 1: 3, 2**32 - 1: 4, 2**32: 5, 2**32 + 4000: 6, _LARGE - 1: 7}
    for index, value in spots.items():
        values[index] = value
    found = {index: int(values[index].item()) for index in spots}
    require(found == spots, f"elements read back are {found} instead of {spots}")
    tail = values[2**32 - 8 :].cpu()
    expected = torch.zeros_like(tail)
    for index, value in spots.items():
        if index >= 2**32 - 8:
            expected[index - 2**32 + 8] = value
    require(torch.equal(tail, expected), "a slice beyond 2^32 elements is wrong")
    wanted = sum(value << 8 * (index % 8) for index, value in spots.items())
    total = _sum(torch, values)
    require(total == wanted, f"the sum of all is {total} instead of {wanted}, by eight")
    values.add_(1)
    at_end = [int(values[index].item()) for index in (1, 2**31, 2**32 + 1, _LARGE - 2, _LARGE - 1)]
    require(at_end == [1, 1, 1, 1, 8], f"after adding 1 to all, elements are {at_end}")
    wanted = (wanted + _ONES * (_LARGE // 8)) % 2**64
    require(_sum(torch, values) == wanted, "adding 1 to all elements missed some")
    context.metric("bytes", _LARGE)
