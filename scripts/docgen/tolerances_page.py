"""docs/reference/tolerances.md, from the module that holds the tolerances."""

from __future__ import annotations

from docgen import markdown as md
from xpubuild.verify.suite import tolerance as t

_ABOUT = """
Every numeric check of [verify](cli.md#xpubuild-verify) compares with a reference in float64 on the CPU,
made from the same inputs, and allows what rounding explains: limits come from the dtype and from how many
terms are summed up. Where a constant was chosen by what a device gave, this page says so. A check says by
how many times its limit a result is off; below 1 it passes. The metric `error_of_allowed` is the largest
share that was used.

## Rounding

`u` is the largest relative error of one rounding. 16-bit types are accumulated in float32 by every backend,
so the error of the result's own rounding is the largest part of theirs.
"""
_SUMS = """
## Sums and products

A sum of n terms accumulated with roundoff u is off by at most `c sqrt(n) u` times the sum of the terms'
absolute values, with a probability of failure below `2 n exp(-c^2 / 2)` (Higham and Mary, A New Approach to
Probabilistic Rounding Error Analysis, SIAM J. Sci. Comput. 41, 2019). The suite takes c = {confidence:g}:
3e-11 for n = 1000. The worst case, `n u`, would let an error of one in ten thousand pass.

A matrix product, or a convolution as the same kind of sum with n = channels x height x width of the kernel
(by group), is allowed for each element

    u_result (|exact| + {split:g} rms) + c sqrt(n) u_accumulate sum|a b| + smallest number of the type

`rms` is the root of the sum of the squared products, the size of partial sums: kernels that split the inner
dimension round those to the result's type, some times over; the factor {split:g} is by experience (with 1, a
bfloat16 addmm of inner size 1001 on an NVIDIA H200 was off by 1.3 times the limit). With a bias, another
rounding of the result is added. Where TF32 is switched on, both inputs are rounded with {tf32}; that adds

    u_tf32 (2 |exact| + c sqrt(2) rms)

The limits for float32, relative to `sum|a b|`:
"""
_FUNCTIONS = """
## Functions

Errors in units in the last place: the limits of the OpenCL C specification (full profile) for single
functions, which SYCL takes over; compositions add their roundings. 16-bit results are computed in float32 and
rounded once more. Twice as much is allowed where reference and result are both float64.
"""
_REST = """
The CPU library of torch 2.11 computes {short} for 16-bit types from a polynomial of small absolute error,
which is a large relative one near 0: there {bound:.1e} more is allowed.

## Exact results

What moves, orders, counts or compares elements, integer arithmetic, conversions and rounding have no
tolerance: they are compared with Python's own integers, sorting and IEEE arithmetic.

## Random numbers

Means over n = 2^20 draws may be off by `c deviation / sqrt(n)`, which chance exceeds once in 10^15.

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
                short=", ".join(map(md.code, t.SHORT_ABSOLUTE)),
                bound=max(t.SHORT_ABSOLUTE.values()),
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
