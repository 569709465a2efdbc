"""The largest allowed difference between a result and its reference, and its derivation.

With unit roundoff ``u`` (half of ``torch.finfo(dtype).eps``), a sum of n products that is accumulated with
unit roundoff ``u`` is off by at most gamma(n, u) times the sum of the absolute products. The worst case is
n u. Rounding errors behave like independent ones in practice: Higham and Mary ("A New Approach to
Probabilistic Rounding Error Analysis", SIAM J. Sci. Comput. 41, 2019) give c sqrt(n) u, exceeded with a
probability below 2 n exp(-c^2 / 2). With c = 8 that is 3e-11 for n = 1000: small enough for a suite, and
small enough to see an error of one part in ten thousand that the worst case would let pass.

"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from .context import CheckFaultError, SuiteContext, require

CONFIDENCE = 8.0

#: Largest relative error of one rounding: TF32 keeps 11 significant bits, and hardware may truncate the rest
#: instead of rounding it.
TF32_ROUNDOFF = 2.0**-10

#: The dtype in which results are accumulated, on all backends.
ACCUMULATES_IN = {"float64": "float64", "float32": "float32", "float16": "float32", "bfloat16": "float32"}

#: Largest error in units in the last place. Those of single functions are the limits of the OpenCL C
#: specification (full profile), which SYCL uses; the errors of the other backends' libraries are smaller.
#: Compositions add roundings.
ULPS = {
    "exp": 3, "log": 3, "sqrt": 3, "tanh": 5, "erf": 16, "sin": 4, "sigmoid": 8, "divide": 4, "where": 0,
}  # fmt: skip

#: Roundings to the result's type of partial sums, by kernels that split the inner dimension of a product.
#: With 1, a bfloat16 addmm of inner size 1001 on an NVIDIA H200 (torch 2.11) was off by 1.3 times the limit.
SPLIT_ROUNDINGS = 3.0


def unit_roundoff(torch: Any, dtype: Any) -> float:
    """Return the largest relative error of one rounding to ``dtype``."""
    return float(torch.finfo(dtype).eps) / 2


def accumulator(torch: Any, dtype: Any) -> Any:
    """Return the dtype in which results of ``dtype`` are accumulated."""
    return getattr(torch, ACCUMULATES_IN[str(dtype).partition(".")[2]])


def smallest(torch: Any, dtype: Any) -> float:
    """Return the size of the smallest number above 0: below the normal range, it is the error too."""
    return float(torch.finfo(dtype).tiny) * float(torch.finfo(dtype).eps)


def gamma(n: int, roundoff: float) -> float:
    """Return the factor for an accumulation of n terms."""
    return CONFIDENCE * math.sqrt(max(n, 1)) * roundoff


def excess(torch: Any, result: Any, reference: Any, limit: Any) -> float:
    """Return the largest error in units of its limit; infinite where the result is not finite.

    Raises:
        CheckFaultError: the reference or the limit is NaN.
    """
    for what, values in (("reference", reference), ("limit", limit)):
        if bool(torch.isnan(values).any()):
            raise CheckFaultError(f"its {what} is NaN")
    result, reference = result.detach().cpu().double(), reference.detach().cpu().double()
    if result.shape != reference.shape or not bool(torch.isfinite(result).all()):
        return math.inf
    if result.numel() == 0:
        return 0.0
    tiny = torch.finfo(torch.float64).tiny
    return float(((result - reference).abs() / (limit.detach() + tiny)).max())


def near(
    context: SuiteContext, what: str, result: Any, reference: Any, limit: Any, *, placed: bool = True
) -> None:
    """Fail unless a result is within its limit, and (``placed``) on the device.

    The largest error of a check is its metric ``error_of_allowed``.
    """
    where = result.device.type
    require(not placed or where == context.backend.name, f"{what}: the result is on {where}")
    error = excess(context.torch, result, reference, limit)
    context.metric("error_of_allowed", max(error, context.metrics.get("error_of_allowed", 0.0)))
    require(error <= 1, f"{what} is off by {error:.3g} times the allowed error")


def product_limit(torch: Any, left: Any, right: Any, result_dtype: Any, accumulate: Any) -> Any:
    """Return the elementwise limit for ``left @ right`` (both as float64).

    One rounding of the result to ``result_dtype``, some of partial sums (kernels that split the inner
    dimension may store and add those in the result's type; their size is that of a root mean square), the
    accumulation, and the smallest number of the type.
    """
    types = {"result_dtype": result_dtype, "accumulate": accumulate}
    return bilinear_limit(torch, lambda a, b: a @ b, left, right, left.shape[-1], **types)


def bilinear_limit(
    torch: Any, apply: Callable[[Any, Any], Any], left: Any, right: Any, terms: int, *, result_dtype: Any,
    accumulate: Any,
) -> Any:  # fmt: skip
    """Return ``product_limit`` for any sum of ``terms`` products, such as a convolution, as ``apply``."""
    roundoff = unit_roundoff(torch, result_dtype)
    partial = apply(left.square(), right.square()).sqrt()
    total = apply(left.abs(), right.abs())
    stored = roundoff * (apply(left, right).abs() + SPLIT_ROUNDINGS * partial) + smallest(torch, result_dtype)
    return stored + gamma(terms, unit_roundoff(torch, accumulate)) * total


def rounded_inputs_limit(apply: Callable[[Any, Any], Any], left: Any, right: Any, roundoff: float) -> Any:
    """Return the addition to ``bilinear_limit`` for rounding both inputs with ``roundoff``, as TF32 does.

    The common part of all roundings (truncation makes all values smaller) is proportional to the result; the
    rest adds up like a random walk over the products.
    """
    walk = CONFIDENCE * math.sqrt(2.0) * apply(left.square(), right.square()).sqrt()
    return roundoff * (2 * apply(left, right).abs() + walk)


def network_limit(layers: int, widest: int, roundoff: float, accumulate: float) -> float:
    """Return the limit for the relative error (2-norm) of a deep network's output.

    Each layer adds one rounding of its stored output and one accumulation over at most ``widest`` products.
    Normalisation keeps the size of activations, so that the errors of ``layers`` layers add up like
    independent ones: with the square root of their number. The norm is over thousands of elements and stays
    near its mean, hence no factor ``CONFIDENCE``; real errors are smaller because most accumulations are
    shorter.
    """
    return math.sqrt(layers) * (roundoff + math.sqrt(widest) * accumulate)


def gradient_limit(kinks: int, forward: float) -> float:
    """Return the limit for the relative error (2-norm) of a network's gradient.

    If an activation is closer to 0 than its error, ReLU's derivative may be 0 instead of 1. That
    share of the elements of a layer is about the relative forward error ``forward``; each loses its complete
    part of the gradient, so the 2-norm is off by the square root of the share, summed over ``kinks`` layers.
    """
    return math.sqrt(kinks * forward)


def trajectory_limit(loss: float, forward: float, gradient: float, fall: float) -> float:
    """Return the limit for the absolute error of a loss after some steps of training.

    The decrease of the loss is, to first order, gradient times change, summed over parameters and
    steps (``fall``). Both factors carry the relative error ``gradient`` of its gradient; the
    loss itself is computed with the relative error ``forward``.
    """
    return forward * abs(loss) + 2 * gradient * abs(fall)


def relative_error(torch: Any, result: Any, reference: Any) -> float:
    """Return the 2-norm of the error divided by that of the reference; infinite if the result is not
    finite."""
    result, reference = result.detach().cpu().double(), reference.detach().cpu().double()
    if result.shape != reference.shape or not bool(torch.isfinite(result).all()):
        return math.inf
    return float((result - reference).norm() / reference.norm())
