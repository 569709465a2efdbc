"""docs/reference/tolerances.md, from the module that holds the tolerances."""

from __future__ import annotations

from docgen import markdown as md
from xpubuild.verify.suite import tolerance as t

_ABOUT = """
Every numeric check of [verify](cli.md#xpubuild-verify) compares with a reference in float64 on the CPU,
computed from the same inputs. The limits are derived from rounding errors: from the dtype and from the number
of terms in a sum. If a constant was chosen from measurements, this page says so. Checks report the error as a
multiple of the limit; below 1 the check passes. The metric `error_of_allowed` is the largest of these
multiples.

## Rounding

`u` is the largest relative error of one rounding. 16-bit types are accumulated in float32 by every backend,
so the final rounding of the result is the largest part of their error.
"""
_SUMS = """
## Sums and products

A sum of n terms accumulated with roundoff u is off by at most `c sqrt(n) u` times the sum of the terms'
absolute values, with a failure probability below `2 n exp(-c^2 / 2)` (Higham and Mary, A New Approach to
Probabilistic Rounding Error Analysis, SIAM J. Sci. Comput. 41, 2019). The suite uses c = {confidence:g}:
3e-11 for n = 1000. With the worst case, `n u`, an error of one in ten thousand would pass.

The limit for each element of a matrix product, or of a convolution as the same kind of sum with n = channels
x height x width of the kernel (per group), is

    u_result (|exact| + {split:g} rms) + c sqrt(n) u_accumulate sum|a b| + smallest number of the type

`rms` is the root of the sum of the squared products, the size of partial sums: kernels that split the inner
dimension round those to the result's type, sometimes repeatedly; the factor {split:g} is empirical (with 1, a
bfloat16 addmm of inner size 1001 on an NVIDIA H200 was off by 1.3 times the limit). With a bias, another
rounding of the result is added. If TF32 is enabled, both inputs are rounded with {tf32}, which adds

    u_tf32 (2 |exact| + c sqrt(2) rms)

The limits for float32, relative to `sum|a b|`:
"""
_FUNCTIONS = """
## Functions

Errors in units in the last place: the limits of the OpenCL C specification (full profile) for single
functions, which SYCL uses; compositions add their roundings.
"""
_REST = """
## Exact results

Operations that move, sort, count or compare elements, integer arithmetic, conversions and rounding have no
tolerance: they are compared with Python's integers, sorting and IEEE arithmetic.

## Random numbers

Means and variances over n = 2^20 draws may differ by c of their deviations.

## Whole networks

{network}

{gradient}
"""


def page() -> str:
    """Return the page."""
    roundoffs = [
        (md.code(name), _power(u), md.code(t.ACCUMULATES_IN[name]), f"{t.gamma(1024, t.ROUNDOFF[kept]):.1e}")
        for name, u in t.ROUNDOFF.items()
        for kept in (t.ACCUMULATES_IN[name],)
    ]
    roundoffs.append(("TF32 (inputs)", _power(t.TF32_ROUNDOFF), md.code("float32"), ""))
    lengths = [(str(n), f"{t.gamma(n, t.ROUNDOFF['float32']):.1e}") for n in (1, 64, 1024, 4608, 2**20)]
    functions = [(md.code(name), str(ulps)) for name, ulps in sorted(t.ULPS.items())]
    return "\n".join(
        (
            md.head("Tolerances", "xpubuild/verify/suite/tolerance.py"),
            _ABOUT,
            md.table(("type", "u", "accumulated in", "error of a sum of 1024"), roundoffs),
            _SUMS.format(
                confidence=t.CONFIDENCE, split=t.SPLIT_ROUNDINGS, tf32=f"u = {_power(t.TF32_ROUNDOFF)}"
            ),
            md.table(("n", "c sqrt(n) u"), lengths),
            _FUNCTIONS,
            md.table(("function", "units in the last place"), functions),
            _REST.format(
                network=_body(t.network_limit.__doc__),
                gradient=_body(t.gradient_limit.__doc__),
            ),
        )
    )


def _power(value: float) -> str:
    exponent = 0
    while value < 1:
        value, exponent = value * 2, exponent - 1
    return f"2^{exponent}"


def _body(text: str | None) -> str:
    return md.prose(text).replace("Return the limit for", "The limit for", 1)
