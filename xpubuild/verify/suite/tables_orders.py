"""Reductions, scans and sorting."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .cases import EXACT, GRAD, LONG, LONG_ONLY, NO_NAN, SHORT_TOO, SINGLE, Case, named, rows, slack

_SHAPE = "7x5x33"
#: Results with more than 2^16 elements along one way, inputs along each.
_WIDE, _TALL = "3x70001", "70001x3"
_OF_ALL = "sum mean amax amin argmax argmin any all max min prod count_nonzero"


def _shown(shape: str) -> str:
    return f"({shape.replace('x', ', ')})"


def reduce(torch: Any) -> Iterator[Case]:  # noqa: C901 - a table
    """Return reductions of short and long rows and columns, and of everything."""
    for name in ("sum", "mean", "var", "std", "logsumexp", "amax", "amin", "softmax", "log_softmax"):
        exact = name in ("amax", "amin")
        for dim in (0, 1, 2):
            inputs = f"{'d' if exact else 'n'}{_SHAPE}"
            yield Case(f"{name} over {dim}", named(torch, name, dim), inputs, grad=True, slack=4, exact=exact)
        for dim, shape in ((0, _WIDE), (1, _WIDE), (0, _TALL), (1, _TALL)):
            yield Case(f"{name} of {_shown(shape)} over {dim}", named(torch, name, dim), "n3x4", f"n{shape}",
                       ("float32",), slack=256, exact=exact, grad="softmax" in name)  # fmt: skip
    for dim in (0, 1, 2):
        yield Case(f"prod over {dim}", named(torch, "prod", dim), f"u.8:1.2@{_SHAPE}", grad=True, slack=4)
    for name in _OF_ALL.split():
        small, many = ("u.9:1.1@37", "") if name == "prod" else ("d3x67", "d300x251")
        exact = name not in ("sum", "mean", "prod")
        nan = not exact or name in ("amax", "amin", "max", "min")
        yield Case(f"{name} of all", named(torch, name), small, many, exact=exact, nan=nan, slack=4)
    for name in ("sum", "any", "all", "amax"):
        yield Case(f"{name} of integers", named(torch, name, 1), f"i0:3@{_SHAPE}", f"i0:3@{_TALL}")
    for name in ("argmax", "argmin"):
        for dim in (0, 1):
            call, wide = named(torch, name, dim), "d3x11x70001"
            yield Case(f"{name} over {dim}", call, "d9x67", wide, exact=True, nan=False)
    for name, place in (("max", (1,)), ("min", (1,)), ("kthvalue", (2, 1))):
        tall = "d9x5", f"d{_TALL}"
        yield Case(f"{name} of {_shown(_TALL)} over 1", _parts(torch, name, *place), *tall, exact=True)
    for order in (0.5, 1.0, 2.0, 3.0, float("inf")):
        call, small, many = named(torch, "linalg.vector_norm", order, 1), f"u.2:2@{_SHAPE}", f"u.2:2@{_TALL}"
        yield Case(f"norm {order}", call, small, many, grad=order > 1 and order < 9, slack=4)
    two, many, distances, more = "d9x67", "d401x251", "n2x9x5 n2x11x5", "n2x200x7 n2x190x7"
    # fmt: off
    yield from rows(
        torch,
        ("prod of rows", named(torch, "prod", 1), "u.8:1.2@9x5", f"u.8:1.2@{_TALL}", slack(4)),
        ("reductions of short integers",
         lambda x: [getattr(x.to(kind), name)(1) for kind in (torch.int8, torch.int32) for name in
                    ("sum", "amax", "amin", "cumsum", "count_nonzero")], "i-120:120@64x999"),
        ("max over 1", _parts(torch, "max", 1), two, many, EXACT, GRAD),
        ("min over 1", _parts(torch, "min", 1), two, many, EXACT, GRAD),
        ("kthvalue", _parts(torch, "kthvalue", 7, 1), two, many, EXACT),
        ("bincount", named(torch, "bincount", minlength=40), "i0:33@999", "i0:33@99999"),
        ("bincount of many", named(torch, "bincount", 70001), "i0:33@999 w0:9@999",
         "i0:70001@99999 w0:9@99999", EXACT),
        ("cdist", "", distances, more, LONG, slack(64)),
        ("cdist of sums", named(torch, "cdist", 1.0), distances, more, LONG, slack(8)),
        ("pdist", "", "n9x5", "n400x7", LONG, GRAD, slack(8)),
    )
    # fmt: on


def _parts(torch: Any, name: str, *more: Any) -> Any:
    return lambda x: tuple(getattr(torch, name)(x, *more))


def order(torch: Any) -> Iterator[Case]:
    """Return scans and what sorts, searches and counts."""
    for name in ("cumsum", "logcumsumexp", "cumprod"):
        least = 0.93 if name == "cumprod" else -1
        for dim, shape in ((0, "300x7"), (1, "5x1025")):
            # CUDA adds logarithms of short types in these types: 6 % off after 300 of them in bfloat16.
            types = LONG_ONLY if name == "logcumsumexp" else SHORT_TOO
            call = named(torch, name, dim)
            yield Case(f"{name} over {dim}", call, f"u{least}:1.07@{shape}", types=types, grad=True, slack=16)
        if name != "cumsum":  # few enough for short types
            yield Case(f"short {name}", named(torch, name, 1), "u.5:1.5@50x5", slack=2)
        if name != "cumprod":
            for dim, shape in ((1, "2x131101"), (0, "131101x2"), (0, "3x70001")):
                text, large = f"{name} of {_shown(shape)} over {dim}", f"u-1:1@{shape}"
                yield Case(text, named(torch, name, dim), "n3x4", large, ("float32",), slack=16)
    two, many = "d9x67", "d401x251"
    for name in ("cummax", "cummin"):
        yield Case(name, _parts(torch, name, 1), "d3x67", many, exact=True, grad=True)
        first = lambda x, n=name: getattr(torch, n)(x, 1)[0]  # noqa: E731
        yield Case(f"long {name}", first, "n2x3", "n2x131101", ("float32",), exact=True)
    for down in (False, True):
        sort = lambda x, d=down: tuple(x.sort(1, descending=d))  # noqa: E731
        top = lambda x, d=down: tuple(x.topk(9, 1, largest=d))  # noqa: E731
        yield Case(f"sort descending={down}", sort, two, many, exact=True, grad=True)
        yield Case(f"topk largest={down}", top, two, "d9000x97", exact=True, grad=True)
    # fmt: off
    yield from rows(
        torch,
        ("long cumprod", named(torch, "cumprod", 1), "n2x3", "u.999:1.001@2x131101", SINGLE, slack(16)),
        ("cumsum of integers", named(torch, "cumsum", 1), "i0:9@3x67", "i0:9@2x131101"),
        ("long sort", lambda x: x.sort()[0], "n67", "n200003", EXACT),
        ("sort over 0", lambda x: x.sort(0)[0], "n67x5", "n701x211", EXACT),
        ("stable sort of integers", lambda x: tuple(x.sort(dim=1, stable=True)), "i0:9@5x67",
         "i0:99@3x70001"),
        ("stable sort of bytes",
         lambda x: [part for down in (False, True) for part in
                    x.to(torch.int8).sort(dim=1, stable=True, descending=down)], "i-60:60@2x4097"),
        ("sort of each length", lambda x: [x[:, :n].sort()[0] for n in (1, 2, 31, 128, 1023, 1025)],
         "n2x1025", EXACT),
        ("long topk", lambda x: x.topk(100)[0], "n201", "n200003", EXACT),
        ("unique", named(torch, "unique", return_inverse=True, return_counts=True), "i0:50@3x67",
         "i0:5000@3x70001"),
        ("unique rows", named(torch, "unique", dim=0), "w0:3@40x4", "w0:99@40001x4", EXACT, NO_NAN),
        ("unique fractions", lambda x: torch.unique(x / 4, return_inverse=True), "w0:50@3x67", EXACT),
        ("searchsorted", lambda e, x: torch.searchsorted(e.sort()[0], x), "d67 w-40:40@3x67",
         f"d67 w-40:40@{_WIDE}",
         EXACT, NO_NAN),
    )
    # fmt: on
