"""Group ``aten``: unusual shapes and layouts, tensors of more than 4 GiB, and where operators run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .context import CheckSkippedError, SuiteContext, require
from .hardware import free_memory, memory_of
from .placement import recorded, require_placed
from .registry import check
from .tolerance import ULPS, gamma, near, product_limit, unit_roundoff

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
        "tanh": (torch.tanh, some(2 * ULPS["tanh"])),
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


@check("aten.edge_shapes", "operators are correct for empty, strided and expanded tensors")
def edge_shapes(context: SuiteContext) -> None:
    """Compare each operation on each layout with float64 on a dense copy."""
    torch = context.torch
    context.full_precision()
    layouts = _layouts(torch)
    for layout, source in layouts.items():
        # Copies to another device become dense: the layout is made on the device, from the same storage.
        there = _like(context, source)
        require(there.stride() == source.stride(), f"as_strided gives strides {there.stride()}")
        exact = source.clone(memory_format=torch.contiguous_format).double()
        for name, (function, limit) in _operations(torch).items():
            reference = function(exact)
            near(context, f"{name}, {layout},", function(there), reference, limit(exact, reference))
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


def _operators(context: SuiteContext) -> dict[str, Callable[[], Any]]:
    """Return common operators by name, without those whose result shape depends on the data."""
    torch, device = context.torch, context.device
    functional = torch.nn.functional
    x = torch.ones(8, 16, 32, 32, device=device)
    matrix = torch.ones(64, 64, device=device)
    weight = torch.full((16, 16, 3, 3), 0.01, device=device)
    leaf = weight.clone().requires_grad_()
    places = torch.arange(64, device=device) % 7
    heads = torch.ones(2, 4, 64, 32, device=device)
    ones = torch.ones(16, device=device)
    return {
        "add": lambda: matrix + matrix,
        "exp": matrix.exp,
        "gelu": lambda: functional.gelu(matrix),
        "where": lambda: torch.where(matrix > 0, matrix, matrix),
        "sum": lambda: matrix.sum(1),
        "argmax": lambda: matrix.argmax(1),
        "cumsum": lambda: matrix.cumsum(1),
        "softmax": lambda: matrix.softmax(1),
        "layer_norm": lambda: functional.layer_norm(matrix, (64,)),
        "batch_norm": lambda: functional.batch_norm(x, ones.clone(), ones.clone(), training=True),
        "group_norm": lambda: functional.group_norm(x, 4),
        "mm": lambda: matrix @ matrix,
        "bmm": lambda: torch.bmm(heads[0], heads[1].transpose(1, 2)),
        "addmm": lambda: torch.addmm(matrix, matrix, matrix),
        "conv2d": lambda: functional.conv2d(x, weight),
        "conv1d": lambda: functional.conv1d(x[:, :, 0], weight[:, :, 0]),
        "conv_transpose2d": lambda: functional.conv_transpose2d(x, weight),
        "backward of conv2d": lambda: torch.autograd.grad(functional.conv2d(x, leaf).sum(), (leaf,))[0],
        "max_pool2d": lambda: functional.max_pool2d(x, 2),
        "avg_pool2d": lambda: functional.avg_pool2d(x, 2),
        "adaptive_avg_pool2d": lambda: functional.adaptive_avg_pool2d(x, 3),
        "interpolate": lambda: functional.interpolate(x, size=(40, 40), mode="bilinear"),
        "embedding": lambda: functional.embedding(places, matrix),
        "index_select": lambda: matrix.index_select(0, places),
        "gather": lambda: matrix.gather(0, places.unsqueeze(0)),
        "scatter_add": lambda: matrix.scatter_add(0, places.unsqueeze(0), matrix[:1]),
        "sort": lambda: matrix.sort(1).values,
        "topk": lambda: matrix.topk(3).values,
        "cat": lambda: torch.cat((matrix, matrix)),
        "dropout": lambda: functional.dropout(matrix),
        "cross_entropy": lambda: functional.cross_entropy(matrix, places),
        "attention": lambda: functional.scaled_dot_product_attention(heads, heads, heads),
        "randn": lambda: torch.randn(64, device=device),
        "tril": matrix.tril,
        "to half": matrix.half,
    }


def _rarer(context: SuiteContext) -> dict[str, Callable[[], Any]]:
    """Return operators that XPU releases are known to run on the CPU: reported, but not a failure."""
    torch = context.torch
    matrix = torch.eye(16, device=context.device) * 2 + 0.1
    return {
        "fft": lambda: torch.fft.fft(matrix).real,
        "cholesky": lambda: torch.linalg.cholesky(matrix @ matrix.t()),
        "solve": lambda: torch.linalg.solve(matrix, matrix),
        "qr": lambda: torch.linalg.qr(matrix).Q,
        "svd": lambda: torch.linalg.svdvals(matrix),
        "eigh": lambda: torch.linalg.eigvalsh(matrix @ matrix.t()),
    }


@check("aten.no_fallback", "common operators run on the device, not on the CPU")
def no_fallback(context: SuiteContext) -> None:
    """Run each operator separately: kernels on the device, no copy to the host, no fallback warning."""
    if not context.backend.streams:
        raise CheckSkippedError(f"operators of {context.backend.name} have no fallback")
    unseen = []
    for name, operator in _operators(context).items():
        operator()  # first calls load and compile kernels, and may read what they need from the device
        result, record = recorded(context, operator)
        require_placed(context, f"the result of {name} is", (result,))
        require(not record.fallbacks, f"{name}: {'; '.join(record.fallbacks[:2])}")
        if record.names is None:
            unseen.append(name)
            continue
        require(record.kernels, f"{name} ran no kernel on the device: it was computed on the CPU")
        require(not record.to_host, f"{name} copied from the device to the host: {record.to_host[:1]}")
    context.metric("evidence", "warnings" if unseen else "warnings, profiler")
    slow = []
    for name, operator in _rarer(context).items():
        _, record = recorded(context, operator)
        if record.fallbacks or (record.names is not None and not record.kernels):
            slow.append(name)
    context.metric("on_the_cpu", slow)
    if slow:
        context.warn(f"these operators run on the CPU: {', '.join(slow)}")
