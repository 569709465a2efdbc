"""Linear algebra."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .cases import ALL_NAN, LONG_ONLY, Case, complexes, normal, positive, regular


def _decompositions(torch: Any) -> Iterator[Case]:
    la = torch.linalg
    general, many = regular(3, 9, 9), regular(1100, 8, 8)
    definite, several = positive(3, 9, 9), positive(1100, 8, 8)
    sides, long_sides = normal(3, 9, 4), normal(1100, 8, 8)
    # Algorithms are backward stable with factors of the order of the matrix.
    usual: dict[str, Any] = {"types": LONG_ONLY, "slack": 64.0, "nan": False}
    # Not of eigenvalues and singular values: of NaN, MKL ends the process.
    through: dict[str, Any] = {**usual, "nan": ALL_NAN}
    yield Case("solve", la.solve, [general, sides], [many, long_sides], grad=True, **through)
    yield Case("large solve", la.solve, [regular(140, 140), normal(140, 3)], **usual)
    yield Case(
        "solve from the right",
        lambda a, b: la.solve(a, b.mT, left=False),
        [general, sides],
        grad=True,
        **usual,
    )
    yield Case("inv", la.inv, [general], [many], grad=True, **through)
    yield Case("inverse of one", la.inv, [regular(65, 65)], [regular(270, 270)], **usual)
    yield Case("det", la.det, [general], grad=True, **through)
    yield Case("slogdet", lambda a: tuple(la.slogdet(a)), [general], [many], grad=True, **through)
    yield Case(
        "cholesky, not checked", lambda a: la.cholesky_ex(a)[0].diagonal(0, -2, -1), [definite], **through
    )
    yield Case("cholesky", la.cholesky, [definite], [several], grad=True, **usual)
    yield Case("large cholesky", la.cholesky, [positive(140, 140)], [positive(270, 270)], **usual)
    yield Case(
        "cholesky_solve",
        lambda a, b: torch.cholesky_solve(b, la.cholesky(a)),
        [definite, sides],
        [several, long_sides],
        grad=True,
        **usual,
    )
    yield Case("cholesky_inverse", lambda a: torch.cholesky_inverse(la.cholesky(a)), [definite], **usual)
    yield Case("eigvalsh", la.eigvalsh, [definite], [several], grad=True, **usual)
    yield Case("eigh", lambda a: _again(la.eigh(a)), [definite], [several], **usual)
    yield Case("large eigh", lambda a: _again(la.eigh(a)), [positive(140, 140)], **{**usual, "slack": 512.0})
    yield Case("eigvals", lambda a: la.eigvals(a).abs().sort(-1)[0], [general], **usual)
    yield Case("eig", lambda a: _same(la.eig(a), a), [general], **usual)
    yield Case("svdvals", la.svdvals, [normal(3, 9, 6)], [normal(1100, 9, 8)], **usual)
    yield Case("svd", _svd(torch), [normal(3, 9, 6)], [normal(1100, 9, 8)], **usual)
    yield Case("large svd", _svd(torch), [normal(97, 61)], **usual)
    yield Case("svd of a singular one", lambda a: _svd(torch)(a @ a.mT), [normal(3, 9, 4)], **usual)
    yield Case("qr", _qr(torch), [normal(3, 9, 6)], [normal(1100, 9, 8)], **through)
    yield Case("large qr", _qr(torch), [normal(140, 97)], **usual)
    yield Case("lu", lambda a: _lu(torch, a), [general], [many], **through)
    yield Case("lu_solve", lambda a, b: la.lu_solve(*la.lu_factor(a), b), [general, sides], **usual)
    yield Case("lstsq", lambda a, b: la.lstsq(a, b).solution, [normal(3, 12, 5), normal(3, 12, 2)], **usual)
    yield Case("pinv", la.pinv, [normal(3, 9, 5)], **usual)
    yield Case("matrix_rank", la.matrix_rank, [general], **usual)
    yield Case(
        "solve_triangular",
        lambda a, b: la.solve_triangular(a.triu(), b, upper=True),
        [general, sides],
        [many, long_sides],
        grad=True,
        **through,
    )
    yield Case(
        "householder_product",
        lambda a: la.householder_product(*torch.geqrf(a)).abs(),
        [normal(3, 9, 6)],
        **usual,
    )
    yield Case("singular matrices are told", lambda a: la.inv_ex(a * 0)[1] != 0, [general], **usual)
    yield Case("indefinite matrices are told", lambda a: la.cholesky_ex(-a)[1] != 0, [definite], **usual)
    yield Case(
        "complex solve",
        lambda a, b: la.solve(torch.complex(a, a.mT / 8), b),
        [general, complexes(3, 9, 2)],
        **usual,
    )


def _again(parts: Any) -> Any:
    """Return values and the matrix that eigenvalues and vectors make."""
    values, vectors = parts
    return values, (vectors * values.unsqueeze(-2)) @ vectors.mT


def _same(parts: Any, matrix: Any) -> Any:
    """Return the matrix times its eigenvectors, over the eigenvalues, back in the original basis."""
    values, vectors = parts
    return ((vectors * values.unsqueeze(-2)) @ vectors.inverse()).real + 0 * matrix


def _svd(torch: Any) -> Any:
    def call(a: Any) -> Any:
        u, s, v = torch.linalg.svd(a, full_matrices=False)
        return s, (u * s.unsqueeze(-2)) @ v

    return call


def _qr(torch: Any) -> Any:
    def call(a: Any) -> Any:
        q, r = torch.linalg.qr(a)
        return q @ r, r.abs(), q.mT @ q + 1

    return call


def _lu(torch: Any, a: Any) -> Any:
    p, lower, upper = torch.linalg.lu(a)
    return p @ lower @ upper, upper


def cases(torch: Any) -> Iterator[Case]:
    """Return the cases of this table."""
    yield from _decompositions(torch)
