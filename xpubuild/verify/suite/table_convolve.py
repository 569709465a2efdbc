"""Convolution and pooling."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .cases import Case, distinct, normal, ranked, uniform


def _convolutions(torch: Any) -> Iterator[Case]:
    f = torch.nn.functional
    shapes = {
        1: ((3, 4, 17), (5, 4, 400)),
        2: ((3, 4, 9, 8), (3, 4, 71, 67)),
        3: ((2, 4, 5, 6, 7), (2, 4, 17, 18, 19)),
    }
    for rank, (small, many) in shapes.items():
        kernel = (3,) * rank
        plain, turned = getattr(f, f"conv{rank}d"), getattr(f, f"conv_transpose{rank}d")
        weight, bias = normal(6, 4, *kernel), normal(6)
        outputs = 16 if rank == 1 else 6
        big = [normal(*many), normal(outputs, 4, *kernel), normal(outputs)]
        yield Case(
            f"conv{rank}d",
            lambda x, w, b, c=plain: c(x, w, b, padding=1),
            [normal(*small), weight, bias],
            big,
            grad=True,
            slack=16,
        )
        yield Case(
            f"conv{rank}d strided",
            lambda x, w, c=plain: c(x, w, stride=2, dilation=2, padding=2, groups=2),
            [normal(*small), normal(6, 2, *kernel)],
            grad=True,
            slack=16,
        )
        yield Case(
            f"conv{rank}d depthwise",
            lambda x, w, c=plain: c(x, w, padding=1, groups=4),
            [normal(*small), normal(4, 1, *kernel)],
            [normal(*many), normal(4, 1, *kernel)],
            grad=True,
            slack=16,
        )
        yield Case(
            f"conv_transpose{rank}d",
            lambda x, w, b, c=turned: c(x, w, b, stride=2, padding=1, output_padding=1),
            [normal(*small), normal(4, 6, *kernel), bias],
            [normal(*many), normal(4, 6, *kernel), bias],
            grad=True,
            slack=16,
        )
    yield Case(
        "conv2d channels last",
        lambda x, w: f.conv2d(x.contiguous(memory_format=torch.channels_last), w, padding=1),
        [normal(3, 4, 9, 8), normal(6, 4, 3, 3)],
        [normal(3, 8, 71, 67), normal(8, 8, 3, 3)],
        grad=True,
        slack=16,
    )
    yield Case(
        "conv_transpose2d groups",
        lambda x, w: f.conv_transpose2d(x, w, groups=2, dilation=2),
        [normal(3, 4, 9, 8), normal(4, 3, 3, 3)],
        grad=True,
        slack=16,
    )
    yield Case(
        "unfold and fold",
        lambda x: f.fold(f.unfold(x, 3, padding=1), x.shape[2:], 3, padding=1),
        [normal(3, 4, 9, 8)],
        [normal(3, 4, 81, 79)],
        grad=True,
        slack=16,
    )
    yield Case(
        "fold",
        lambda x: f.fold(x, (9, 8), 3, padding=1),
        [normal(3, 36, 72)],
        [normal(400, 36, 72)],
        grad=True,
        slack=16,
    )
    yield Case(
        "im2col", lambda x: f.unfold(x, 3, stride=2), [normal(3, 4, 9, 8)], [normal(3, 4, 81, 79)], grad=True
    )
    yield Case(
        "linear",
        f.linear,
        [normal(5, 33), normal(17, 33), normal(17)],
        [normal(400, 65), normal(190, 65), normal(190)],
        grad=True,
        slack=16,
    )
    yield Case(
        "bilinear", f.bilinear, [normal(5, 7), normal(5, 9), normal(4, 7, 9), normal(4)], grad=True, slack=16
    )


def _pools(torch: Any) -> Iterator[Case]:
    f = torch.nn.functional
    shapes = {
        1: ((3, 4, 17), (3, 4, 11003)),
        2: ((3, 4, 9, 8), (3, 4, 121, 119)),
        3: ((2, 3, 7, 6, 8), (2, 3, 31, 29, 27)),
    }
    for rank, (small, many) in shapes.items():
        # Where two numbers are nearly equal, a small change moves the gradient, and any gradient is right.
        unequal = ranked(*many)
        flat: dict[str, Any] = {"grad": True, "slack": 8.0}
        for name, options in ((f"max_pool{rank}d", {"padding": 1}), (f"avg_pool{rank}d", {"padding": 1})):
            yield Case(
                name,
                lambda x, n=name, o=options: getattr(f, n)(x, 3, 2, **o),
                [normal(*small)],
                [unequal],
                grad=True,
                slack=8,
            )
            yield Case(
                f"{name} overlapping",
                lambda x, n=name, o=options: getattr(f, n)(x, 3, 1, **o),
                [normal(*small)],
                [unequal],
                grad=True,
                slack=8,
            )
        yield Case(
            f"adaptive_avg_pool{rank}d", _adaptive(f, "avg", rank), [normal(*small)], [normal(*many)], **flat
        )
        yield Case(
            f"adaptive_max_pool{rank}d", _adaptive(f, "max", rank), [normal(*small)], [unequal], **flat
        )
    yield Case(
        "adaptive_avg_pool3d of many",
        _adaptive(f, "avg", 3),
        [normal(2, 3, 7, 6, 8)],
        [normal(110, 11, 6, 4, 5)],
        slack=8,
    )
    yield Case(
        "avg_pool2d uncounted",
        lambda x: f.avg_pool2d(x, 3, 2, 1, True, False),
        [normal(3, 4, 9, 8)],
        grad=True,
    )
    yield Case(
        "avg_pool2d divisor",
        lambda x: f.avg_pool2d(x, 2, divisor_override=3),
        [normal(3, 4, 9, 8)],
        grad=True,
    )
    yield Case(
        "max_pool2d indices",
        lambda x: f.max_pool2d(x, 2, return_indices=True),
        [distinct(3, 4, 9, 200)],
        exact=True,
    )
    yield Case(
        "max_pool2d dilated",
        lambda x: f.max_pool2d(x, 2, 1, dilation=2, ceil_mode=True),
        [normal(3, 4, 9, 8)],
        grad=True,
        slack=4,
    )
    yield Case(
        "max_unpool2d",
        lambda x: f.max_unpool2d(*f.max_pool2d(x, 2, return_indices=True), 2),
        [distinct(2, 3, 8, 100)],
        grad=True,
        types=("float32",),
    )
    yield Case("lp_pool2d", lambda x: f.lp_pool2d(x, 2, 2), [uniform(0.5, 2, 3, 4, 9, 8)], grad=True, slack=8)
    yield Case(
        "channels last max_pool2d",
        lambda x: f.max_pool2d(x.contiguous(memory_format=torch.channels_last), 3, 2),
        [normal(3, 4, 9, 8)],
        [normal(3, 4, 121, 119)],
        grad=True,
        slack=8,
    )


def _adaptive(f: Any, kind: str, rank: int) -> Any:
    return lambda x: getattr(f, f"adaptive_{kind}_pool{rank}d")(x, (5, 3, 4)[:rank])


def cases(torch: Any) -> Iterator[Case]:
    """Return the cases of this table."""
    yield from _convolutions(torch)
    yield from _pools(torch)
