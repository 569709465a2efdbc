"""Normalisation."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .cases import Case, normal, uniform


def _norms(torch: Any) -> Iterator[Case]:
    f = torch.nn.functional
    yield Case(
        "layer_norm",
        lambda x, w, b: f.layer_norm(x, (33,), w, b),
        [normal(3, 5, 33), normal(33), normal(33)],
        [normal(9, 101, 97), normal(97), normal(97)][:0],
        grad=True,
        slack=4,
    )
    yield Case(
        "wide layer_norm",
        lambda x, w, b: f.layer_norm(x, x.shape[-1:], w, b),
        [normal(2, 1024), normal(1024), normal(1024)],
        [normal(70, 1056), normal(1056), normal(1056)],
        grad=True,
        slack=8,
    )
    yield Case(
        "layer_norm of planes",
        lambda x: f.layer_norm(x, x.shape[1:], eps=1e-3),
        [normal(3, 5, 33)],
        [normal(3, 200, 133)],
        grad=True,
        slack=8,
    )
    yield Case(
        "rms_norm",
        lambda x, w: f.rms_norm(x, x.shape[-1:], w),
        [normal(3, 5, 64), normal(64)],
        [normal(2, 70, 512), normal(512)],
        grad=True,
        slack=8,
    )
    for groups in (1, 2, 6):
        yield Case(
            f"group_norm {groups}",
            lambda x, w, b, g=groups: f.group_norm(x, g, w, b),
            [normal(3, 6, 7, 5), normal(6), normal(6)],
            [normal(3, 6, 70, 61), normal(6), normal(6)],
            grad=True,
            slack=8,
        )
    yield Case(
        "instance_norm",
        lambda x, w, b: f.instance_norm(x, weight=w, bias=b),
        [normal(3, 4, 7, 6), normal(4), normal(4)],
        [normal(3, 4, 80, 77), normal(4), normal(4)],
        grad=True,
        slack=8,
    )
    for rank, shape, many in (
        (1, (9, 5), (4099, 19)),
        (2, (3, 5, 7, 6), (4, 5, 64, 61)),
        (3, (3, 4, 3, 5, 4), (3, 4, 9, 31, 29)),
    ):
        channels, large = (shape[1], many[1])
        yield Case(
            f"batch_norm {rank}d",
            _batch_norm(torch, True),
            [normal(*shape), normal(channels), normal(channels)],
            [normal(*many), normal(large), normal(large)],
            grad=True,
            slack=8,
        )
        yield Case(
            f"batch_norm {rank}d in inference",
            _batch_norm(torch, False),
            [normal(*shape), normal(channels), normal(channels)],
            [normal(*many), normal(large), normal(large)],
            grad=True,
            slack=8,
        )
    yield Case(
        "batch_norm as exported",
        lambda x, w, b: torch.ops.aten._native_batch_norm_legit(
            x, w, b, torch.zeros_like(w), torch.ones_like(w), True, 0.3, 1e-5
        ),
        [normal(3, 5, 7, 6), normal(5), normal(5)],
        [normal(4, 5, 64, 61), normal(5), normal(5)],
        slack=8,
    )
    yield Case(
        "local_response_norm", lambda x: f.local_response_norm(x, 3), [normal(2, 7, 5, 5)], grad=True, slack=4
    )
    yield Case(
        "normalize", lambda x: f.normalize(x, dim=1), [normal(5, 33)], [normal(701, 101)], grad=True, slack=8
    )
    yield Case("softmin", lambda x: f.softmin(x, 1), [normal(5, 33)], grad=True, slack=4)
    yield Case(
        "weight_norm",
        lambda v, g: torch._weight_norm(v, g, 0),
        [normal(7, 33), uniform(0.5, 2, 7, 1)],
        grad=True,
        slack=8,
    )
    yield Case("renorm", lambda x: torch.renorm(x, 2, 0, 3.0), [normal(7, 33)], slack=8, nan=False)


def _batch_norm(torch: Any, training: bool) -> Any:
    def call(x: Any, weight: Any, bias: Any) -> Any:
        mean, var = torch.full_like(weight, 0.25).detach(), torch.full_like(weight, 1.5).detach()
        found = torch.nn.functional.batch_norm(x, mean, var, weight, bias, training, 0.3)
        return (found, mean, var) if training else found

    return call


def cases(torch: Any) -> Iterator[Case]:
    """Return the cases of this table."""
    yield from _norms(torch)
