"""Group ``operators``: tables of operators against references in float64; ``operators.py`` has the limits."""

from __future__ import annotations

from .context import SuiteContext
from .operators import run_table
from .registry import FULL, check

#: A busy machine computes the references of all tables in the first check.
_DEADLINE_S = 900
#: Name of the table -> title and description of its check, in the order they run.
_TABLES = {
    "pointwise": ("elementwise functions are correct in each dtype",
        "Also strided, permuted, above 2^16 elements, with NaN, and the gradients."),
    "truth": ("comparisons, logic, bits and complex numbers are correct",
        "Compare with truth values, integers of each sign, and complex numbers."),
    "reduce": ("reductions are correct in each dtype",
        "Reduce along each dimension, also over and to more than 2^16 elements."),
    "order": ("scans and sorting are correct",
        "Scan more than 2^16 elements along each dimension; sort, search and count."),
    "moves": ("operators that move or index elements are correct",
        "Compare what moves elements, pads in each mode, and accumulates by index."),
    "linear": ("products and Fourier transforms are correct",
        "Compare products in each dtype, and transforms of each kind."),
    "algebra": ("linear algebra is correct",
        "Solve and decompose batched, large and singular matrices."),
    "norms": ("normalisation layers are correct",
        "Compare layer, RMS, group, instance and batch norm with their gradients."),
    "losses": ("losses are correct",
        "Compare losses, reduced and not, with ignored classes and weights."),
    "convolve": ("convolution and pooling are correct",
        "Compare plain, grouped, depthwise and transposed convolution, and pooling."),
    "layers": ("interpolation, embedding, attention and recurrence are correct",
        "Compare each mode of interpolation and grid sampling, attention, LSTM and GRU."),
    "updates": ("in-place operators and optimisers are correct",
        "Compare what writes into its argument, and three steps of each optimiser."),
    "foreach": ("foreach operators are correct",
        "Compare operators on lists of tensors with those on each tensor."),
}  # fmt: skip


def _declare(name: str, title: str, description: str) -> None:
    def table(context: SuiteContext) -> None:
        run_table(context, name)

    table.__doc__ = description
    check(f"operators.{name}", title, suites=FULL, deadline_s=_DEADLINE_S)(table)


for _name, _texts in _TABLES.items():
    _declare(_name, *_texts)
