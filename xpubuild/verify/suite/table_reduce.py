"""Reductions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .cases import LONG_ONLY, Case, distinct, integers, normal, uniform, whole

_SHAPE = (7, 5, 33)
#: Results with more than 2^16 elements along one way, inputs along each.
_WIDE, _TALL, _LONG = (3, 70001), (70001, 3), (2, 70001)


def _along(torch: Any) -> Iterator[Case]:
    for name in ("sum", "mean", "var", "std", "logsumexp", "amax", "amin", "softmax", "log_softmax"):
        exact = name in ("amax", "amin")
        for dim in (0, 1, 2):
            numbers = (distinct if exact else normal)(*_SHAPE)
            yield Case(
                f"{name} over {dim}", _over(torch, name, dim), [numbers], grad=True, slack=4, exact=exact
            )
        for dim, shape in ((0, _WIDE), (1, _WIDE), (0, _TALL), (1, _TALL)):
            yield Case(
                f"{name} of {shape} over {dim}",
                _over(torch, name, dim),
                [normal(3, 4)],
                [normal(*shape)],
                slack=256,
                exact=exact,
                types=("float32",),
                grad="softmax" in name,
            )
    for dim in (0, 1, 2):
        near = [uniform(0.8, 1.2, *_SHAPE)]
        yield Case(f"prod over {dim}", _over(torch, "prod", dim), near, grad=True, slack=4)
    yield Case(
        "prod of rows",
        _over(torch, "prod", 1),
        [uniform(0.8, 1.2, 9, 5)],
        [uniform(0.8, 1.2, *_TALL)],
        slack=4,
    )


def _reductions(torch: Any) -> Iterator[Case]:
    for name in (
        "sum",
        "mean",
        "amax",
        "amin",
        "argmax",
        "argmin",
        "any",
        "all",
        "max",
        "min",
        "prod",
        "count_nonzero",
    ):
        numbers = uniform(0.9, 1.1, 37) if name == "prod" else distinct(3, 67)
        many = () if name == "prod" else [distinct(300, 251)]
        yield Case(
            f"{name} of all",
            _whole(torch, name),
            [numbers],
            many,
            exact=name not in ("sum", "mean", "prod"),
            nan=name not in ("any", "all", "argmax", "argmin", "count_nonzero"),
            slack=4,
        )
    for name in ("sum", "any", "all", "amax"):
        yield Case(
            f"{name} of integers", _over(torch, name, 1), [integers(0, 3, *_SHAPE)], [integers(0, 3, *_TALL)]
        )
    for name in ("argmax", "argmin"):
        for dim in (0, 1):
            yield Case(
                f"{name} over {dim}",
                _over(torch, name, dim),
                [distinct(9, 67)],
                exact=True,
                nan=False,
                large=[distinct(3, 11, 70001)],
            )
    yield Case(
        "max over 1",
        lambda x: tuple(x.max(1)),
        [distinct(9, 67)],
        [distinct(401, 251)],
        exact=True,
        grad=True,
    )
    yield Case(
        "min over 1",
        lambda x: tuple(x.min(1)),
        [distinct(9, 67)],
        [distinct(401, 251)],
        exact=True,
        grad=True,
    )
    yield Case(
        "aminmax",
        lambda x: tuple(torch.aminmax(x, dim=1)),
        [distinct(9, 67)],
        [distinct(401, 251)],
        exact=True,
    )
    yield Case("median", lambda x: tuple(x.median(1)), [distinct(9, 67)], [distinct(401, 251)], exact=True)
    yield Case(
        "kthvalue",
        lambda x: tuple(x.kthvalue(7, 1)),
        [distinct(9, 67)],
        [distinct(401, 251)],
        exact=True,
    )
    for name, tall in (
        ("max", lambda x: tuple(x.max(1))),
        ("min", lambda x: tuple(x.min(1))),
        ("kthvalue", lambda x: tuple(x.kthvalue(2, 1))),
    ):
        yield Case(f"{name} of {_TALL} over 1", tall, [distinct(9, 5)], [distinct(*_TALL)], exact=True)
    yield Case("mode", lambda x: x.mode(1)[0], [whole(0, 2, 9, 67)], exact=True, nan=False)
    yield Case("quantile", lambda x: torch.quantile(x, 0.3, dim=1), [normal(9, 67)], types=LONG_ONLY, slack=4)
    for order in (0.5, 1.0, 2.0, 3.0, float("inf")):
        yield Case(
            f"norm {order}",
            lambda x, p=order: torch.linalg.vector_norm(x, p, 1),
            [uniform(0.2, 2, *_SHAPE)],
            [uniform(0.2, 2, *_TALL)],
            grad=order > 1 and order < 9,
            slack=4,
        )
    yield Case(
        "var_mean",
        lambda x: tuple(torch.var_mean(x, 1)),
        [normal(*_SHAPE)],
        [normal(*_LONG)],
        slack=4,
        grad=True,
    )
    yield Case(
        "var uncorrected",
        lambda x: torch.var(x, 0, correction=0),
        [normal(*_SHAPE)],
        [normal(*_TALL)],
        slack=4,
    )
    yield Case(
        "sum to float32",
        lambda x: x.sum(1, dtype=torch.float32),
        [normal(*_SHAPE)],
        [normal(*_LONG)],
        slack=4,
    )
    yield Case(
        "histc",
        lambda x: torch.histc(x, 11, -2, 2),
        [normal(999)],
        [normal(99999)],
        types=("float32",),
        exact=True,
        nan=False,
    )
    yield Case(
        "bincount",
        lambda x: torch.bincount(x, minlength=40),
        [integers(0, 33, 999)],
        [integers(0, 33, 99999)],
    )
    yield Case(
        "bincount of many",
        lambda x, w: torch.bincount(x, w, 70001),
        [integers(0, 33, 999), whole(0, 9, 999)],
        [integers(0, 70001, 99999), whole(0, 9, 99999)],
        exact=True,
    )
    yield Case(
        "cdist",
        torch.cdist,
        [normal(2, 9, 5), normal(2, 11, 5)],
        [normal(2, 200, 7), normal(2, 190, 7)],
        types=LONG_ONLY,
        slack=64,
    )
    yield Case(
        "cdist of sums",
        lambda a, b: torch.cdist(a, b, 1.0),
        [normal(2, 9, 5), normal(2, 11, 5)],
        [normal(2, 200, 7), normal(2, 190, 7)],
        types=LONG_ONLY,
        slack=8,
    )
    yield Case(
        "pdist",
        torch.pdist,
        [normal(9, 5)],
        [normal(400, 7)],
        types=LONG_ONLY,
        slack=8,
        grad=True,
    )


def _over(torch: Any, name: str, dim: int) -> Any:
    return lambda x: getattr(torch, name)(x, dim)


def _whole(torch: Any, name: str) -> Any:
    return getattr(torch, name)


def cases(torch: Any) -> Iterator[Case]:
    """Return the cases of this table."""
    yield from _along(torch)
    yield from _reductions(torch)
