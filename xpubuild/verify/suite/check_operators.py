"""Group ``operators``: tables of operators against references in float64; ``operators.py`` has the limits."""

from __future__ import annotations

from .context import SuiteContext
from .operators import run_table
from .registry import FULL, check

#: A busy machine computes the references of all tables in the first check.
_DEADLINE_S = 900
#: Name of the table -> title of its check, in the order they run.
_TABLES = {
    "pointwise": "elementwise functions are correct in each dtype",
    "truth": "comparisons, logic, bits and complex numbers are correct",
    "reduce": "reductions are correct in each dtype",
    "order": "scans and sorting are correct",
    "moves": "operators that move or index elements are correct",
    "linear": "products and Fourier transforms are correct",
    "algebra": "linear algebra is correct",
    "norms": "normalisation layers are correct",
    "losses": "losses are correct",
    "convolve": "convolution and pooling are correct",
    "layers": "interpolation, embedding, attention and recurrence are correct",
    "updates": "in-place operators and optimisers are correct",
    "foreach": "foreach operators are correct",
}


def _declare(name: str, title: str) -> None:
    def table(context: SuiteContext) -> None:
        run_table(context, name)

    check(f"operators.{name}", title, suites=FULL, deadline_s=_DEADLINE_S)(table)


for _name, _title in _TABLES.items():
    _declare(_name, _title)
