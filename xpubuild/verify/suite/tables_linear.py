"""Products, Fourier transforms and linear algebra."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .cases import ALL_NAN, GRAD, LONG_ONLY, NO_NAN, Case, named, rows, slack


def linear(torch: Any) -> Iterator[Case]:
    """Return matrix products and Fourier transforms."""
    two, many, three, batch = "n17x33 n33x13", "n300x65 n65x290", "n5x17x33 n5x33x13", "n5x140x65 n5x65x139"
    weights = "n33x64 i-127:128@64x64 u.001:.02@64"
    short = {"types": ("bfloat16", "float16", "float32"), "slack": 8.0, "strided": False, "nan": False}

    def packed(x: Any, weight: Any, scale: Any) -> Any:
        _require_kernel(torch, "_weight_int8pack_mm", x)
        return torch._weight_int8pack_mm(x, weight.to(torch.int8), scale)

    def products(a: Any, b: Any) -> Any:
        _require_kernel(torch, "_int_mm", a)
        return torch._int_mm(a.to(torch.int8), b.to(torch.int8).t())

    # fmt: off
    yield from rows(
        torch,
        ("mm", "", two, many, GRAD),
        ("mm of long rows", "mm", "n33x1001 n1001x65", "n256x1 n1x257", slack(8)),
        ("mm of one row", "mm", "n1x64 n64x1"),
        ("products in double precision", lambda c, a, b: (a @ b, torch.addmm(c, a, b)), "n96 n64x256 n256x96",
         {"types": ("float64",)}),
        ("bmm", "", three, batch, GRAD),
        ("matmul", "", "n2x3x17x33 n33x13", GRAD),
        ("matmul with a transposed one", lambda a, b: a @ b.mT, "n17x33 n13x33", "n300x65 n290x65", GRAD),
        ("addmm", named(torch, "addmm", beta=0.5, alpha=2), f"n17x13 {two}", f"n300x290 {many}", GRAD),
        ("addmm with a row", "addmm", f"n13 {two}", f"n290 {many}", GRAD),
        ("baddbmm", named(torch, "baddbmm", beta=0.5), f"n5x17x13 {three}", f"n5x140x139 {batch}", GRAD),
        ("mv", "", "n17x33 n33", "n70001x5 n5", GRAD, slack(16)),
        ("addmv", "", "n17 n17x33 n33", GRAD),
        ("dot", "", "n257*2", "n70001*2", GRAD, slack(64)),
        ("einsum", lambda a, b: torch.einsum("bij,bkj->bik", a, b), "n5x17x33 n5x13x33", GRAD),
        ("int8 weights", _eighths, weights, short, {"ways": ("compiled",)}),
        ("int8 weights packed", packed, weights, short, {"types": ("bfloat16",), "reference": _eighths}),
        ("int8 products", products, "i-128:128@33x64 i-128:128@48x64", short,
         {"reference": lambda a, b: (a @ b.t()).int()}),
    )
    # fmt: on
    fft = torch.fft
    usual: dict[str, Any] = {"types": LONG_ONLY, "slack": 8.0}
    for name in ("fft", "ifft", "rfft", "ihfft"):
        kind = "c" if name in ("fft", "ifft") else "n"
        yield Case(name, named(fft, name), f"{kind}3x60", f"{kind}5x16384", grad=True, **usual)
        yield Case(f"{name} odd", named(fft, name, n=61, dim=0, norm="ortho"), f"{kind}61x5", **usual)
    for name in ("fft2", "ifft2", "rfft2", "fftn", "ifftn", "rfftn"):
        kind = "n" if name.startswith("rfft") else "c"
        yield Case(name, named(fft, name), f"{kind}3x6x10", f"{kind}5x128x130", grad=True, **usual)
    # Back to real numbers: of what is no spectrum of real numbers, libraries read different halves.
    for name, back in (("rfft", "irfft"), ("ihfft", "hfft"), ("rfft2", "irfft2"), ("rfftn", "irfftn")):
        yield Case(back, _and_back(fft, name, back), "n3x6x10", "n5x128x130", grad=True, **usual)
    # fmt: off
    window: Any = lambda kind, x: getattr(torch, kind)(64, device=x.device, dtype=x.dtype)  # noqa: E731
    stft: Any = lambda x, kind: torch.stft(x, 64, 16, window=window(kind, x), return_complex=True)  # noqa: E731
    contiguous = {"strided": False}

    yield from rows(
        torch,
        # Powers of 2 are what cuFFT has in half precision.
        ("irfft of a power of 2", _and_back(fft, "rfft", "irfft"), "n6x64", NO_NAN,
         {"types": ("float32", "float16")}),
        ("stft", lambda x: stft(x, "hann_window"), "n2x400", "n2x20000", contiguous),
        ("istft", lambda x: torch.istft(stft(x, "ones"), 64, 16, window=window("ones", x)), "n2x400",
         contiguous),
        **usual,
    )
    # fmt: on


def _eighths(x: Any, weight: Any, scale: Any) -> Any:
    """Return a product with weights of 8 bits and a scale for each row."""
    levels = weight.to(x.device).round().clamp(-127, 127).char()
    return (x @ levels.to(x.dtype).mT) * scale


def _and_back(fft: Any, there: str, back: str) -> Any:
    return lambda x: getattr(fft, back)(getattr(fft, there)(x) * 2)


def algebra(torch: Any) -> Iterator[Case]:
    """Return solutions and decompositions."""
    la = torch.linalg
    general, many, definite, several = "m3x9x9", "m1100x8x8", "p3x9x9", "p1100x8x8"
    sides, long_sides, wide, wider = f"{general} n3x9x4", f"{many} n1100x8x8", "n3x9x6", "n1100x9x8"
    # Not of eigenvalues and singular values: of NaN, MKL ends the process.
    through = {"nan": ALL_NAN}

    def svd(a: Any) -> Any:
        u, s, v = la.svd(a, full_matrices=False)
        return s, (u * s.unsqueeze(-2)) @ v

    def qr(a: Any) -> Any:
        q, r = la.qr(a)
        return q @ r, r.abs(), q.mT @ q + 1

    def lu(a: Any) -> Any:
        p, lower, upper = la.lu(a)
        return p @ lower @ upper, upper

    # fmt: off
    yield from rows(
        torch,
        ("solve", la.solve, sides, long_sides, GRAD, through),
        ("large solve", la.solve, "m140x140 n140x3"),
        ("inv", la.inv, general, many, GRAD, through),
        ("inverse of one", la.inv, "m65x65", "m270x270"),
        ("cholesky, not checked", lambda a: la.cholesky_ex(a)[0].diagonal(0, -2, -1), definite, through),
        ("cholesky", la.cholesky, definite, several, GRAD),
        ("large cholesky", la.cholesky, "p140x140", "p270x270"),
        ("eigvalsh", la.eigvalsh, definite, several, GRAD),
        ("eigh", lambda a: _again(la.eigh(a)), definite, several),
        ("large eigh", lambda a: _again(la.eigh(a)), "p140x140", slack(512)),
        ("svdvals", la.svdvals, wide, wider),
        ("svd", svd, wide, wider),
        ("large svd", svd, "n97x61"),
        ("svd of a singular one", lambda a: svd(a @ a.mT), "n3x9x4"),
        ("qr", qr, wide, wider, through),
        ("large qr", qr, "n140x97"),
        ("lu", lu, general, many, through),
        ("pinv", la.pinv, "n3x9x5"),
        ("pinv of a singular one", lambda a: a @ a.mT @ la.pinv(a @ a.mT, rtol=1e-4), "n3x9x4", slack(1024)),
        ("solve_triangular", lambda a, b: la.solve_triangular(a.triu(), b, upper=True), sides, long_sides,
         GRAD,
         through),
        ("singular matrices are told", lambda a: la.inv_ex(a * 0)[1] != 0, general),
        ("indefinite matrices are told", lambda a: la.cholesky_ex(-a)[1] != 0, definite),
        # Algorithms are backward stable with factors of the order of the matrix.
        types=LONG_ONLY, slack=64.0, nan=False,
    )
    # fmt: on


def _again(parts: Any) -> Any:
    """Return values and the matrix that eigenvalues and vectors make."""
    values, vectors = parts
    return values, (vectors * values.unsqueeze(-2)) @ vectors.mT


def _require_kernel(torch: Any, name: str, tensor: Any) -> None:
    """Raise NotImplementedError where the device has no kernel: these operators are not for all of them."""
    if not torch._C._dispatch_has_kernel_for_dispatch_key(f"aten::{name}", tensor.device.type.upper()):
        raise NotImplementedError(f"{name} is not compiled with this torch for {tensor.device.type}")
