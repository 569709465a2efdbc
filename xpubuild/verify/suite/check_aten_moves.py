"""Group ``aten``: operators that move, order and count elements."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from .context import SuiteContext, require
from .registry import FULL, check
from .tolerance import excess, gamma, unit_roundoff

_LENGTHS = (1, 2, 31, 128, 1023, 1025, 4097, 100003)


@check("aten.concat", "cat, stack, split, roll, flip and pad are correct", suites=FULL)
def concat(context: SuiteContext) -> None:
    """Compare with Python lists: few, many and empty inputs of each dtype."""
    torch, device = context.torch, context.device
    for dtype in (torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.int8, torch.bool):
        for lengths in ((3, 0, 5), (1,) * 130, (4096, 1, 4097)):
            offset, parts = 0, []
            for length in lengths:
                parts.append([(offset + index) % 100 for index in range(length)])
                offset += length
            tensors = [torch.tensor(part, device=device).to(dtype) for part in parts]
            expected = torch.tensor([value for part in parts for value in part]).to(dtype)
            require(
                torch.equal(torch.cat(tensors).cpu(), expected),
                f"cat of {len(parts)} parts of {dtype} is wrong",
            )
            columns = torch.cat([tensor.expand(3, -1) for tensor in tensors], dim=1).cpu()
            require(
                torch.equal(columns, expected.expand(3, -1)),
                f"cat of {len(parts)} expanded parts of {dtype} by columns is wrong",
            )
    rows = torch.arange(24, device=device).reshape(4, 6)
    answers: dict[str, tuple[Any, list[Any]]] = {
        "stack": (torch.stack((rows[0], rows[3]), 1), [[i, 18 + i] for i in range(6)]),
        "split": (rows.split((1, 3))[1][0], list(range(6, 12))),
        "roll": (rows.roll(1, 1)[0], [5, 0, 1, 2, 3, 4]),
        "flip": (rows.flip(1)[0], [5, 4, 3, 2, 1, 0]),
        "pad": (torch.nn.functional.pad(rows[:1], (1, 2), value=9), [[9, 0, 1, 2, 3, 4, 5, 9, 9]]),
        "tril": (rows[:3, :3].tril(), [[0, 0, 0], [6, 7, 0], [12, 13, 14]]),
        "triu": (rows[:3, :3].triu(1), [[0, 1, 2], [0, 0, 8], [0, 0, 0]]),
        "repeat_interleave": (
            rows[0, :3].repeat_interleave(torch.tensor([2, 0, 3], device=device)), [0, 0, 2, 2, 2],
        ),
        "diagonal": (rows.diagonal(1), [1, 8, 15, 22]),
        "one_hot": (torch.nn.functional.one_hot(rows[0, :3], 4), [[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0]]),
    }  # fmt: skip
    for name, (found, wanted) in answers.items():
        require(found.tolist() == wanted, f"{name} gives {found.tolist()}")


@check("aten.arange", "arange, linspace and eye are correct", suites=FULL)
def arange(context: SuiteContext) -> None:
    """Compare integer sequences with Python's, floating ones with the formula."""
    torch, device = context.torch, context.device
    for start, stop, step in ((0, 7, 1), (3, 300, 7), (10, -11, -3), (5, 5, 1), (-(2**40), -(2**40) + 9, 4)):
        found = torch.arange(start, stop, step, device=device).tolist()
        require(
            found == list(range(start, stop, step)), f"arange({start}, {stop}, {step}) gives {found[:5]} …"
        )
    eps = float(torch.finfo(torch.float32).eps)
    for begin, end, by in ((0.0, 1.0, 0.1), (-3.5, 1000.0, 0.37), (1.0, -1.0, -0.125)):
        result = torch.arange(begin, end, by, device=device)
        number = math.ceil((end - begin) / by)
        wanted = begin + by * torch.arange(number, dtype=torch.float64)
        require(result.numel() == number, f"arange({begin}, {end}, {by}) has {result.numel()} elements")
        error = excess(torch, result, wanted, 3 * eps * (abs(begin) + wanted.abs()))
        require(error <= 1, f"arange({begin}, {end}, {by}) is off by {error:.3g} times the allowed error")
    for number in (1, 2, 11, 1001):
        result = torch.linspace(-2.0, 5.0, number, device=device)
        divisor = max(number - 1, 1)
        reference = -2.0 + 7.0 * torch.arange(number, dtype=torch.float64) / divisor
        error = excess(torch, result, reference, 3 * eps * torch.full_like(reference, 7.0))
        require(error <= 1, f"linspace with {number} elements is off by {error:.3g} times the allowed error")
    require(
        torch.eye(3, 4, device=device).nonzero().tolist() == [[0, 0], [1, 1], [2, 2]], "eye(3, 4) is wrong"
    )


def _keys(context: SuiteContext, dtype: Any, length: int) -> Any:
    torch = context.torch
    generator = torch.Generator().manual_seed(61)
    if dtype == torch.float32:  # distinct and of any sign
        return torch.randn(2, length, generator=generator)
    return torch.randint(-60, 60, (2, length), generator=generator).to(dtype)  # with many duplicates


@check(
    "aten.sort_types",
    "sort is correct and stable for all dtypes, lengths and directions",
    suites=FULL,
    deadline_s=180,
)
def sort_types(context: SuiteContext) -> None:
    """Compare with Python's sort; a stable sort keeps the order of equal keys."""
    torch = context.torch
    for dtype in (torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.int8):
        for length in _LENGTHS if dtype in (torch.float32, torch.int64) else (129, 4097):
            source = _keys(context, dtype, length)
            keys = source[1].tolist()
            for descending in (False, True):
                values, indices = torch.sort(
                    source.to(context.device), dim=1, stable=True, descending=descending
                )
                order = sorted(range(length), key=keys.__getitem__, reverse=descending)
                if descending:  # Python's reverse keeps equal elements in their order too
                    order = sorted(range(length), key=lambda i: -keys[i])
                what = f"{length} {dtype}{', descending' if descending else ''}"
                require(
                    indices[1].tolist() == order,
                    f"a stable sort of {what} gives a different order than Python",
                )
                require(values[1].tolist() == [keys[i] for i in order], f"sorted values of {what} are wrong")
    columns = _keys(context, torch.int64, 333).to(context.device).t()
    require(
        torch.equal(columns.sort(dim=0).values.t().cpu(), columns.t().cpu().sort(dim=1).values),
        "sorting along a strided dimension is wrong",
    )


@check("aten.select", "topk, unique, searchsorted, bincount and nonzero are correct", suites=FULL)
def select(context: SuiteContext) -> None:
    """Compare with Python's sorting and counting."""
    torch = context.torch
    for length in (10, 1025, 70001):
        distinct = torch.randperm(length, generator=torch.Generator().manual_seed(71))
        there = distinct.to(context.device)
        for number in (1, 10):
            top, where = there.topk(number)
            wanted = list(range(length - 1, length - 1 - number, -1))
            require(top.tolist() == wanted, f"topk({number}) of {length} gives {top.tolist()}")
            require(
                distinct[where.cpu()].tolist() == wanted, f"indices of topk({number}) of {length} are wrong"
            )
        low = there.float().topk(3, largest=False).values.tolist()
        require(low == [0.0, 1.0, 2.0], f"the smallest three of {length} are {low}")
        middle = there.median().item()
        require(middle == (length - 1) // 2, f"the median of {length} is {middle}")
        repeated = there % 7
        values, counts = repeated.unique(return_counts=True)
        python = [sum(1 for value in distinct.tolist() if value % 7 == digit) for digit in range(7)]
        require(values.tolist() == list(range(7)), f"unique of {length} gives {values.tolist()}")
        require(counts.tolist() == python, f"unique counts {counts.tolist()} in {length}")
        require(repeated.bincount().tolist() == python, f"bincount of {length} is wrong")
        marks = torch.arange(0, length, 3, device=context.device)
        found = torch.searchsorted(marks, there)
        require(
            torch.equal(found.cpu(), (distinct + 2) // 3),
            f"searchsorted finds the wrong places among {length}",
        )
    require(int((repeated == 0).nonzero().shape[0]) == python[0], "nonzero finds the wrong number")


@check("aten.scatter_add", "scatter_add and index_add add every element once", suites=FULL, deadline_s=120)
def scatter_add(context: SuiteContext) -> None:
    """Add many elements to few places: integers exactly, floating types within their error bound."""
    torch = context.torch
    generator = torch.Generator().manual_seed(81)
    places = torch.randint(0, 13, (20000,), generator=generator)
    whole = torch.randint(-9, 9, (20000,), generator=generator)
    real = torch.randn(20000, generator=generator)
    expected = [0] * 13
    for place, value in zip(places.tolist(), whole.tolist()):
        expected[place] += value
    there = places.to(context.device)
    ways: dict[str, Callable[[Any, Any], Any]] = {
        "index_add": lambda zero, x: zero.index_add(0, there.to(x.device), x),
        "scatter_add": lambda zero, x: zero.scatter_add(0, there.to(x.device), x),
        "index_put": lambda zero, x: zero.index_put((there.to(x.device),), x, accumulate=True),
    }
    exact = torch.zeros(13, dtype=torch.float64).index_add(0, places, real.double())
    size = torch.zeros(13, dtype=torch.float64).index_add(0, places, real.double().abs())
    limit = gamma(20000 // 13, unit_roundoff(torch, torch.float32)) * size
    for name, add in ways.items():
        for dtype in (torch.int64, torch.int32):
            zero = torch.zeros(13, dtype=dtype, device=context.device)
            found = add(zero, whole.to(context.device, dtype)).tolist()
            require(found == expected, f"{name} of {dtype} drops or repeats elements: {found}")
        found = add(torch.zeros(13, device=context.device), real.to(context.device))
        error = excess(torch, found, exact, limit)
        require(error <= 1, f"{name} of float32 is off by {error:.3g} times the allowed error")
    _embedding(context, places)


def _embedding(context: SuiteContext, places: Any) -> None:
    torch = context.torch
    table = torch.arange(13.0 * 5).reshape(13, 5).to(context.device).requires_grad_()
    taken = torch.nn.functional.embedding(places.to(context.device), table)
    wanted = (places.unsqueeze(1) * 5 + torch.arange(5)).float()
    require(torch.equal(taken.detach().cpu(), wanted), "embedding takes the wrong rows")
    taken.sum().backward()
    counted = torch.bincount(places, minlength=13).float()
    require(
        torch.equal(table.grad[:, 0].cpu(), counted), "the gradient of embedding is wrong for repeated rows"
    )
