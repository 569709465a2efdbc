"""How far a correct result may be from its reference, and why.

With unit roundoff ``u`` (half of ``torch.finfo(dtype).eps``), a sum of n products that is accumulated with
unit roundoff ``u`` is off by at most gamma(n, u) times the sum of the absolute products. The worst case is
n u. Rounding errors behave like independent ones in practice: Higham and Mary ("A New Approach to
Probabilistic Rounding Error Analysis", SIAM J. Sci. Comput. 41, 2019) give c sqrt(n) u, exceeded with a
probability below 2 n exp(-c^2 / 2). With c = 8 that is 3e-11 for n = 1000: small enough for a suite, and
small enough to see an error of one part in ten thousand that the worst case would let pass.
"""

from __future__ import annotations

import math
from typing import Any

CONFIDENCE = 8.0


def unit_roundoff(torch: Any, dtype: Any) -> float:
    """Return the largest relative error of one rounding to ``dtype``."""
    return float(torch.finfo(dtype).eps) / 2


def gamma(n: int, roundoff: float) -> float:
    """Return the factor for an accumulation of n terms."""
    return CONFIDENCE * math.sqrt(max(n, 1)) * roundoff


def excess(torch: Any, result: Any, reference: Any, limit: Any) -> float:
    """Return the largest error in units of its limit; infinite where the result is not finite."""
    result, reference = result.detach().cpu().double(), reference.detach().cpu().double()
    if result.shape != reference.shape or not bool(torch.isfinite(result).all()):
        return math.inf
    if result.numel() == 0:
        return 0.0
    tiny = torch.finfo(torch.float64).tiny
    return float(((result - reference).abs() / (limit.detach() + tiny)).max())


def product_limit(torch: Any, left: Any, right: Any, result_dtype: Any, accumulate: Any) -> Any:
    """Return the elementwise limit for ``left @ right`` (both as float64).

    One rounding of the result to ``result_dtype``, one more of partial sums (kernels that split the inner
    dimension may store those in the result's type; their size is that of a root mean square), and the
    accumulation.
    """
    inner = left.shape[-1]
    roundoff = unit_roundoff(torch, result_dtype)
    partial = (left.square() @ right.square()).sqrt()
    total = left.abs() @ right.abs()
    stored = roundoff * ((left @ right).abs() + partial)
    return stored + gamma(inner, unit_roundoff(torch, accumulate)) * total


def network_limit(layers: int, widest: int, roundoff: float, accumulate: float) -> float:
    """Return the limit for the relative error (2-norm) of a deep network's output.

    Each layer adds one rounding of what it stores and one accumulation over at most ``widest`` products.
    Normalisation keeps the size of activations, so that the errors of ``layers`` layers add up like
    independent ones: with the square root of their number. The norm is over thousands of elements and stays
    near its mean, hence no factor ``CONFIDENCE``; real errors are smaller because most accumulations are
    shorter.
    """
    return math.sqrt(layers) * (roundoff + math.sqrt(widest) * accumulate)


def gradient_limit(kinks: int, forward: float) -> float:
    """Return the limit for the relative error (2-norm) of a network's gradient.

    Where an activation is closer to 0 than its error, ReLU's derivative comes out as 0 instead of 1. That
    share of the elements of a layer is about the relative forward error ``forward``; each loses its part of
    the gradient wholly, so the 2-norm is off by the square root of the share, summed over ``kinks`` layers.
    """
    return math.sqrt(kinks * forward)


def relative_error(torch: Any, result: Any, reference: Any) -> float:
    """Return the 2-norm of the error by that of the reference; infinite where the result is not finite."""
    result, reference = result.detach().cpu().double(), reference.detach().cpu().double()
    if result.shape != reference.shape or not bool(torch.isfinite(result).all()):
        return math.inf
    return float((result - reference).norm() / reference.norm())
