"""Uses of linear algebra, a Fourier convolution, and products with weights of 8 bits."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .cases import LONG_ONLY, Case, integers, normal, positive, regular, uniform

_USUAL: dict[str, Any] = {"types": LONG_ONLY, "strided": False, "nan": False, "slack": 64.0}


def _process(torch: Any) -> Any:
    """Return the log likelihood of a Gaussian process, by a Cholesky decomposition."""

    def call(covariance: Any, y: Any) -> Any:
        lower = torch.linalg.cholesky(covariance)
        alpha = torch.cholesky_solve(y, lower)
        return -(y * alpha).sum((-2, -1)) / 2 - lower.diagonal(dim1=-2, dim2=-1).log().sum(-1)

    return call


def _likelihood(torch: Any) -> Any:
    return lambda c, y: -(y * (c.inverse() @ y)).sum((-2, -1)) / 2 - torch.logdet(c) / 2


def _again(torch: Any, by: str) -> Any:
    """Return a matrix from its decomposition."""

    def call(a: Any) -> Any:
        if by == "eigh":
            values, vectors = torch.linalg.eigh(a)
            return vectors @ (values.unsqueeze(-1) * vectors.mT)
        u, s, v = torch.linalg.svd(a)
        return (u * s.unsqueeze(-2)) @ v

    return call


def _least_squares(torch: Any, by: str) -> Any:
    def call(a: Any, b: Any) -> Any:
        if by == "qr":
            q, r = torch.linalg.qr(a)
            return torch.linalg.solve_triangular(r, q.mT @ b, upper=True)
        if by == "normal":
            return torch.linalg.solve(a.mT @ a, a.mT @ b)
        return torch.linalg.pinv(a) @ b

    return call


def _singular(torch: Any) -> Any:
    """Return the projection on the columns of a matrix without full rank, and that rank."""

    def call(a: Any) -> Any:
        single = a @ a.mT
        return single @ torch.linalg.pinv(single, rtol=1e-4), torch.linalg.matrix_rank(single, rtol=1e-4)

    return call


def _projected(torch: Any) -> Any:
    def call(a: Any) -> Any:
        return a @ torch.linalg.solve(a.mT @ a, a.mT), a[..., 0, 0].long() * 0 + a.shape[-1]

    return call


def _fourier(torch: Any) -> Any:
    def call(x: Any, kernel: Any) -> Any:
        size = x.shape[-1] + kernel.shape[-1] - 1
        return torch.fft.irfft(torch.fft.rfft(x, size) * torch.fft.rfft(kernel, size), size)

    return call


def _convolved(torch: Any) -> Any:
    """Return the same as sums: a convolution with padding on both sides."""

    def call(x: Any, kernel: Any) -> Any:
        weight = kernel.flip(-1)[:, None]
        return torch.nn.functional.conv1d(x, weight, padding=kernel.shape[-1] - 1, groups=len(kernel))

    return call


def _eighths(torch: Any, *, packed: bool) -> Any:
    """Return a product with weights of 8 bits and a scale for each row."""

    def call(x: Any, weight: Any, scale: Any) -> Any:
        small = weight.to(torch.int8)
        if not packed:
            return torch.nn.functional.linear(x, small.to(x.dtype)) * scale
        _require_kernel(torch, "_weight_int8pack_mm", x)
        return torch._weight_int8pack_mm(x, small, scale)

    return call


def _require_kernel(torch: Any, name: str, tensor: Any) -> None:
    """Raise NotImplementedError where the device has no kernel: these operators are not for all of them."""
    if not torch._C._dispatch_has_kernel_for_dispatch_key(f"aten::{name}", tensor.device.type.upper()):
        raise NotImplementedError(f"{name} is not compiled with this torch for {tensor.device.type}")


def _int_product(torch: Any) -> Any:
    def call(a: Any, b: Any) -> Any:
        _require_kernel(torch, "_int_mm", a)
        return torch._int_mm(a.to(torch.int8), b.to(torch.int8).t())

    return call


def _exact_product(a: Any, b: Any) -> Any:
    return (a @ b.t()).int()


def cases(torch: Any) -> Iterator[Case]:
    """Return the cases of this table."""
    several, right = positive(5, 12, 12), normal(5, 12, 3)
    yield Case(
        "likelihood", _process(torch), [several, right], reference=_likelihood(torch), grad=True, **_USUAL
    )
    for by in ("eigh", "svd"):
        yield Case(f"matrix again by {by}", _again(torch, by), [several], reference=lambda a: a * 1, **_USUAL)
    yield Case(
        "solve with an inverse",
        lambda a, b: torch.linalg.inv(a) @ b - torch.linalg.solve(a, b) + b,
        [regular(5, 12, 12), right],
        reference=lambda a, b: b + 0 * a[..., :3],
        **_USUAL,
    )
    for by in ("qr", "pinv"):
        yield Case(
            f"least squares by {by}",
            _least_squares(torch, by),
            [normal(5, 40, 6), normal(5, 40, 2)],
            reference=_least_squares(torch, "normal"),
            **_USUAL,
        )
    yield Case(
        "singular matrices",
        _singular(torch),
        [normal(5, 9, 4)],
        reference=_projected(torch),
        **{**_USUAL, "slack": 1024.0},
    )
    weights = [normal(33, 64), integers(-127, 128, 64, 64), uniform(0.001, 0.02, 64)]
    short: dict[str, Any] = {**_USUAL, "types": ("bfloat16", "float16", "float32"), "slack": 8.0}
    wanted = _eighths(torch, packed=False)
    yield Case("int8 weights", wanted, weights, ways=("compiled",), **short)
    yield Case(
        "int8 weights packed",
        _eighths(torch, packed=True),
        weights,
        reference=wanted,
        **{**short, "types": ("bfloat16",)},
    )
    bytes_ = [integers(-128, 128, 33, 64), integers(-128, 128, 48, 64)]
    yield Case("int8 products", _int_product(torch), bytes_, reference=_exact_product, **short)
    yield Case(
        "Fourier convolution",
        _fourier(torch),
        [normal(2, 5, 300), uniform(-0.5, 0.5, 5, 41)],
        [normal(2, 5, 7001), uniform(-0.5, 0.5, 5, 41)],
        reference=_convolved(torch),
        ways=("checkpointed", "deterministic"),
        grad=True,
        **{**_USUAL, "slack": 16.0},
    )
