"""Group ``operators``: tables of operators against references in float64; ``operators.py`` has the limits."""

from __future__ import annotations

from .context import SuiteContext
from .operators import run_table
from .registry import FULL, check

#: A busy machine computes the references of all tables in the first check.
_DEADLINE_S = 900


@check(
    "operators.pointwise",
    "elementwise functions are correct in each dtype",
    suites=FULL,
    deadline_s=_DEADLINE_S,
)
def pointwise(context: SuiteContext) -> None:
    """Also strided, permuted, above 2^16 elements, with NaN, and the gradients."""
    run_table(context, "pointwise")


@check(
    "operators.truth",
    "comparisons, logic, bits and complex numbers are correct",
    suites=FULL,
    deadline_s=_DEADLINE_S,
)
def truth(context: SuiteContext) -> None:
    """Compare with truth values, integers of each sign, and complex numbers."""
    run_table(context, "truth")


@check("operators.reduce", "reductions are correct in each dtype", suites=FULL, deadline_s=_DEADLINE_S)
def reduce(context: SuiteContext) -> None:
    """Reduce along each dimension, also over and to more than 2^16 elements."""
    run_table(context, "reduce")


@check("operators.order", "scans and sorting are correct", suites=FULL, deadline_s=_DEADLINE_S)
def order(context: SuiteContext) -> None:
    """Scan more than 2^16 elements along each dimension; sort, search and count."""
    run_table(context, "order")


@check(
    "operators.moves",
    "operators that move or index elements are correct",
    suites=FULL,
    deadline_s=_DEADLINE_S,
)
def moves(context: SuiteContext) -> None:
    """Compare what moves elements, pads in each mode, and accumulates by index."""
    run_table(context, "moves")


@check("operators.linear", "products and Fourier transforms are correct", suites=FULL, deadline_s=_DEADLINE_S)
def linear(context: SuiteContext) -> None:
    """Compare products in each dtype, and transforms of each kind."""
    run_table(context, "linear")


@check("operators.algebra", "linear algebra is correct", suites=FULL, deadline_s=_DEADLINE_S)
def algebra(context: SuiteContext) -> None:
    """Solve and decompose batched, large and singular matrices."""
    run_table(context, "algebra")


@check("operators.norms", "normalisation layers are correct", suites=FULL, deadline_s=_DEADLINE_S)
def norms(context: SuiteContext) -> None:
    """Compare layer, RMS, group, instance and batch norm with their gradients."""
    run_table(context, "norms")


@check("operators.losses", "losses are correct", suites=FULL, deadline_s=_DEADLINE_S)
def losses(context: SuiteContext) -> None:
    """Compare losses, reduced and not, with ignored classes and weights."""
    run_table(context, "losses")


@check("operators.convolve", "convolution and pooling are correct", suites=FULL, deadline_s=_DEADLINE_S)
def convolve(context: SuiteContext) -> None:
    """Compare plain, grouped, depthwise and transposed convolution, and pooling."""
    run_table(context, "convolve")


@check(
    "operators.layers",
    "interpolation, embedding, attention and recurrence are correct",
    suites=FULL,
    deadline_s=_DEADLINE_S,
)
def layers(context: SuiteContext) -> None:
    """Compare each mode of interpolation and grid sampling, attention, LSTM and GRU."""
    run_table(context, "layers")


@check(
    "operators.updates", "in-place operators and optimisers are correct", suites=FULL, deadline_s=_DEADLINE_S
)
def updates(context: SuiteContext) -> None:
    """Compare what writes into its argument, and three steps of each optimiser."""
    run_table(context, "updates")


@check("operators.foreach", "foreach operators are correct", suites=FULL, deadline_s=_DEADLINE_S)
def foreach(context: SuiteContext) -> None:
    """Compare operators on lists of tensors with those on each tensor."""
    run_table(context, "foreach")
