"""What one thread has to do before many may compute on the CPU: each of MKL's vector functions, once.

torch's CPU kernels hand contiguous arrays to MKL's vector mathematics (ATen/cpu/vml.h), and a function of
it is set up by its first call. Where two threads made that call at the same time, an ``exp`` came out with a
relative error of 1.5e-4 instead of 6e-8, and was right ever after: torch 2.13.0 with MKL inside, on a busy
machine with two cores, once in 178 new processes and not in 1,600 others. Every device is compared with such
results, so a check could fail by chance, and pass when it is run again.
"""

from __future__ import annotations

from typing import Any

from . import standin_operators

#: The functions of ATen/cpu/vml.h that MKL has. Taken from the dispatcher: what replaces ``torch.exp`` is for
#: the checks to find.
_FUNCTIONS = (
    "acos", "asin", "atan", "cos", "cosh", "erf", "erfc", "erfinv", "exp", "expm1", "lgamma", "log", "log10",
    "log1p", "log2", "sin", "sinh", "sqrt", "tan", "tanh",
)  # fmt: skip
#: Too few for a second thread.
_FEW = 16


def settle(torch: Any) -> None:
    """Call each function once in this thread, in both types that MKL has it for.

    On the stand-in for a GPU, also make the CPU compute what oneDNN cannot.
    """
    standin_operators.install(torch)
    with torch.no_grad():
        for dtype in (torch.float32, torch.float64):
            numbers = torch.full((_FEW,), 0.5, dtype=dtype, device="cpu")
            for name in _FUNCTIONS:
                function = getattr(torch.ops.aten, name, None)
                if function is not None:
                    function(numbers)
