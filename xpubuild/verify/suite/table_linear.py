"""Matrix products and Fourier transforms."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .cases import LONG_ONLY, Case, complexes, normal


def _products(torch: Any) -> Iterator[Case]:
    two, many = [normal(17, 33), normal(33, 13)], [normal(300, 65), normal(65, 290)]
    three, batch = [normal(5, 17, 33), normal(5, 33, 13)], [normal(5, 140, 65), normal(5, 65, 139)]
    yield Case("mm", torch.mm, two, many, grad=True)
    yield Case("bmm", torch.bmm, three, batch, grad=True)
    yield Case("matmul", torch.matmul, [normal(2, 3, 17, 33), normal(33, 13)], grad=True)
    yield Case(
        "matmul with a transposed one",
        lambda a, b: a @ b.mT,
        [normal(17, 33), normal(13, 33)],
        grad=True,
        large=[normal(300, 65), normal(290, 65)],
    )
    yield Case(
        "addmm",
        lambda c, a, b: torch.addmm(c, a, b, beta=0.5, alpha=2),
        [normal(17, 13), *two],
        [normal(300, 290), *many],
        grad=True,
    )
    yield Case("addmm with a row", torch.addmm, [normal(13), *two], [normal(290), *many], grad=True)
    yield Case(
        "baddbmm",
        lambda c, a, b: torch.baddbmm(c, a, b, beta=0.5),
        [normal(5, 17, 13), *three],
        [normal(5, 140, 139), *batch],
        grad=True,
    )
    yield Case("addbmm", torch.addbmm, [normal(17, 13), *three], grad=True, slack=2)
    yield Case(
        "mv", torch.mv, [normal(17, 33), normal(33)], [normal(70001, 5), normal(5)], grad=True, slack=16
    )
    yield Case("addmv", torch.addmv, [normal(17), normal(17, 33), normal(33)], grad=True)
    yield Case("dot", torch.dot, [normal(257)] * 2, [normal(70001)] * 2, grad=True, slack=64)
    yield Case("vdot", torch.vdot, [complexes(257), complexes(257)], types=LONG_ONLY)
    yield Case("outer", torch.outer, [normal(57), normal(33)], [normal(300), normal(290)], grad=True)
    yield Case(
        "addr",
        torch.addr,
        [normal(57, 33), normal(57), normal(33)],
        [normal(300, 290), normal(300), normal(290)],
    )
    yield Case(
        "einsum",
        lambda a, b: torch.einsum("bij,bkj->bik", a, b),
        [normal(5, 17, 33), normal(5, 13, 33)],
        grad=True,
    )
    yield Case("kron", torch.kron, [normal(5, 7), normal(6, 4)], grad=True)
    yield Case(
        "cross",
        torch.linalg.cross,
        [normal(9, 3), normal(9, 3)],
        [normal(30001, 3)] * 2,
        grad=True,
        slack=4,
    )
    yield Case("trace", torch.trace, [normal(33, 33)], types=LONG_ONLY, grad=True)
    yield Case("int8 weights", _int8_weights, [normal(9, 64), normal(33, 64)], slack=2)
    yield Case(
        "multi_dot",
        lambda a, b, c: torch.linalg.multi_dot([a, b, c]),
        [normal(7, 9), normal(9, 5), normal(5, 11)],
        grad=True,
        slack=2,
    )
    yield Case(
        "matrix_power",
        lambda a: torch.linalg.matrix_power(a, 3),
        [normal(3, 7, 7)],
        types=LONG_ONLY,
        slack=8,
        grad=True,
    )
    yield Case("matrix_exp", lambda a: torch.matrix_exp(a / 4), [normal(3, 7, 7)], types=LONG_ONLY, slack=32)
    yield Case("cov", torch.cov, [normal(5, 57)], types=LONG_ONLY, slack=4, grad=True)


def _int8_weights(x: Any, weight: Any) -> Any:
    """Multiply by weights of 8 bits with a scale for each row: the products are those of whole numbers."""
    levels = (weight * 20).round().clamp(-127, 127).char()
    return (x @ levels.to(x.dtype).mT) * 0.05


def _transform(fft: Any, name: str, **options: Any) -> Any:
    return lambda x: getattr(fft, name)(x, **options)


def _and_back(fft: Any, there: str, back: str) -> Any:
    return lambda x: getattr(fft, back)(getattr(fft, there)(x) * 2)


def _transforms(torch: Any) -> Iterator[Case]:
    fft = torch.fft
    usual: dict[str, Any] = {"types": LONG_ONLY, "slack": 8.0}
    for name in ("fft", "ifft", "rfft", "ihfft"):
        numbers = complexes if name in ("fft", "ifft") else normal
        call = _transform(fft, name)
        yield Case(name, call, [numbers(3, 60)], [numbers(5, 16384)], grad=True, **usual)
        odd = _transform(fft, name, n=61, dim=0, norm="ortho")
        yield Case(f"{name} odd", odd, [numbers(61, 5)], **usual)
    for name in ("fft2", "ifft2", "rfft2", "fftn", "ifftn", "rfftn"):
        numbers = normal if name.startswith("rfft") else complexes
        call = _transform(fft, name)
        yield Case(name, call, [numbers(3, 6, 10)], [numbers(5, 128, 130)], grad=True, **usual)
    # Back to real numbers: of what is no spectrum of real numbers, libraries read different halves.
    for name, back in (("rfft", "irfft"), ("ihfft", "hfft"), ("rfft2", "irfft2"), ("rfftn", "irfftn")):
        call = _and_back(fft, name, back)
        yield Case(back, call, [normal(3, 6, 10)], [normal(5, 128, 130)], grad=True, **usual)
    # Powers of 2 are what cuFFT has in half precision.
    half = _and_back(fft, "rfft", "irfft")
    yield Case(
        "irfft of a power of 2", half, [normal(6, 64)], types=("float32", "float16"), slack=8, nan=False
    )
    yield Case("fftshift", fft.fftshift, [normal(7, 9)], [normal(301, 299)], types=LONG_ONLY, exact=True)
    yield Case("fft of real numbers", fft.fft, [normal(3, 60)], [normal(5, 16384)], grad=True, **usual)
    yield Case(
        "convolution by fft",
        lambda x, y: fft.irfft(fft.rfft(x) * fft.rfft(y)),
        [normal(3, 64), normal(3, 64)],
        [normal(5, 16384), normal(5, 16384)],
        grad=True,
        **usual,
    )
    yield Case(
        "stft",
        lambda x: torch.stft(
            x, 64, 16, window=torch.hann_window(64, device=x.device, dtype=x.dtype), return_complex=True
        ),
        [normal(2, 400)],
        [normal(2, 20000)],
        strided=False,
        **usual,
    )
    yield Case(
        "istft",
        lambda x: torch.istft(
            torch.stft(x, 64, 16, window=torch.ones(64, device=x.device, dtype=x.dtype), return_complex=True),
            64,
            16,
            window=torch.ones(64, device=x.device, dtype=x.dtype),
        ),
        [normal(2, 400)],
        strided=False,
        **usual,
    )


def cases(torch: Any) -> Iterator[Case]:
    """Return the cases of this table."""
    yield from _products(torch)
    yield from _transforms(torch)
