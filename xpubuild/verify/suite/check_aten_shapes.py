"""Group ``aten``: unusual shapes and layouts, tensors of more than 4 GiB, and where operators run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from .cases import evaluate, flat, prepared
from .context import CheckSkippedError, SuiteContext, require
from .hardware import free_memory, memory_of
from .operators import placed
from .placement import recorded, require_placed
from .references import table
from .registry import check
from .tolerance import gamma, near, unit_roundoff

#: 2^32 elements and a few: an index of 32 bits, signed or not, does not reach the last ones.
_LARGE = 2**32 + 4096
#: Eight elements as one number of 64 bits, each of them 1.
_ONES = int.from_bytes(b"\1" * 8, "little")


def _layouts(torch: Any) -> dict[str, Any]:
    """Return matrices of small whole numbers with all memory layouts, by name."""
    base = torch.randint(-8, 9, (96, 130), generator=torch.Generator().manual_seed(91)).float()
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


def _operations(torch: Any) -> dict[str, Callable[[Any], Any]]:
    """Return functions of a matrix: in float32 exact for whole numbers, but for those of ``_ROUNDED``."""
    return {
        "neg": lambda x: -x,
        "copy": lambda x: x.contiguous(),
        "add with a row": lambda x: x + x[:1],
        "multiply with a column": lambda x: x * x[:, :1],
        "multiply-add in place": lambda x: x.clone().mul_(2).add_(x),
        "tanh": torch.tanh,
        "sum by rows": lambda x: x.sum(1),
        "sum by columns": lambda x: x.sum(0),
        "sum": lambda x: x.sum(),
        "softmax": lambda x: x.softmax(1),
        "product": lambda x: x @ x.transpose(0, 1),
        "cat": lambda x: torch.cat((x, x.flip(1)), 1),
        "cumsum": lambda x: x.cumsum(1),
        "masked": lambda x: x.masked_fill(x > 0, 2.0),
    }


_ROUNDED = ("tanh", "softmax")


@check("aten.edge_shapes", "operators are correct for empty, strided and expanded tensors")
def edge_shapes(context: SuiteContext) -> None:
    """Compare each operation on each layout with float64 on a dense copy."""
    torch = context.torch
    context.full_precision()
    layouts, u = _layouts(torch), unit_roundoff(torch, torch.float32)
    for layout, source in layouts.items():
        # Copies to another device become dense: the layout is made on the device, from the same storage.
        there = _like(context, source)
        require(there.stride() == source.stride(), f"as_strided gives strides {there.stride()}")
        exact = source.clone(memory_format=torch.contiguous_format).double()
        for name, function in _operations(torch).items():
            reference = function(exact)
            # Sums of a softmax have up to 12,480 terms.
            limit = (gamma(exact.shape[-1], u) + 32 * u) * reference.abs() * (name in _ROUNDED)
            near(context, f"{name}, {layout},", function(there), reference, limit)
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
    ones = torch.ones(3, device=context.device)
    found = [scalar.sum(), (scalar * ones).sum(), scalar.softmax(0), scalar.argmax(), scalar.sort().values,
             scalar.cumsum(0), scalar.expand(4, 5).sum()]  # fmt: skip
    values = [float(one.item()) for one in found]
    wanted = [2.5, 7.5, 1.0, 0.0, 2.5, 2.5, 50.0]
    require(values == wanted, f"operators on a tensor without dimensions give {values} instead of {wanted}")
    many, order = torch.arange(3.0**7).reshape((3,) * 7), (6, 0, 5, 1, 4, 2, 3)
    shuffled = many.to(context.device).permute(order)
    added, wanted = shuffled + 1, many.permute(order) + 1
    require(torch.equal(added.cpu(), wanted), "an addition of 7 permuted dimensions is wrong")
    added, wanted = shuffled.sum((0, 2, 5)), many.permute(order).sum((0, 2, 5))
    require(torch.equal(added.cpu(), wanted), "a sum over 3 of 7 permuted dimensions is wrong")


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


@check("aten.large", "tensors of more than 4 GiB can be indexed completely", deadline_s=300)
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


#: Table -> cases that every device has kernels for, and those that XPU releases are known to run on the CPU.
_COMMON = {
    "pointwise": "add, exp, gelu, where",
    "truth": "to another type",
    "reduce": "sum over 1, argmax over 1, softmax over 1",
    "order": "cumsum over 1, sort descending=False, topk largest=True",
    "moves": "index_select, gather, scatter_add, cat, tril",
    "linear": "mm, bmm, addmm",
    "norms": "layer_norm, batch_norm 2d, group_norm 2",
    "losses": "cross_entropy mean",
    "convolve": "conv1d, conv2d, conv_transpose2d, max_pool2d, avg_pool2d, adaptive_avg_pool2d",
    "layers": "interpolate bilinear 2d aligned=None, embedding, attention",
}
_RARER = {"linear": "fft", "algebra": "cholesky, solve, qr, svdvals, eigvalsh"}


def _operators(context: SuiteContext, chosen: dict[str, str]) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Return cases of the operator tables as calls without arguments, by name."""
    torch = context.torch
    for name, names in chosen.items():
        cases = {case.name: case for case in table(name)}
        for one in names.split(", "):
            given = [
                placed(context, part, torch.float32, "") for part in prepared(torch, cases[one], "plain")
            ]
            yield one, partial(evaluate, torch, cases[one].call, given, grad=one == "conv2d")
    if chosen is _COMMON:
        yield "randn", lambda: torch.randn(64, device=context.device)
        yield "dropout", lambda: torch.nn.functional.dropout(torch.ones(64, device=context.device))


@check("aten.no_fallback", "common operators run on the device, not on the CPU")
def no_fallback(context: SuiteContext) -> None:
    """Run each operator separately: kernels on the device, no copy to the host, no fallback warning."""
    if not context.backend.streams:
        raise CheckSkippedError(f"operators of {context.backend.name} have no fallback")
    unseen = []
    for name, operator in _operators(context, _COMMON):
        operator()  # first calls load and compile kernels, and may read what they need from the device
        results, record = recorded(context, operator)
        require_placed(context, f"the result of {name} is", flat(results))
        require(not record.fallbacks, f"{name}: {'; '.join(record.fallbacks[:2])}")
        if record.names is None:
            unseen.append(name)
            continue
        require(record.kernels, f"{name} ran no kernel on the device: it was computed on the CPU")
        require(not record.to_host, f"{name} copied from the device to the host: {record.to_host[:1]}")
    context.metric("evidence", "warnings" if unseen else "warnings, profiler")
    slow = []
    for name, operator in _operators(context, _RARER):
        _, record = recorded(context, operator)
        if record.fallbacks or (record.names is not None and not record.kernels):
            slow.append(name)
    context.metric("on_the_cpu", slow)
    if slow:
        context.warn(f"these operators run on the CPU: {', '.join(slow)}")
