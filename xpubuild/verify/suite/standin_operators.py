"""Operators of oneDNN on the stand-in for a GPU: computed on the CPU, in the processes of verify alone.

oneDNN asks Level Zero for native handles, which the stand-in does not have. Nothing is proved about these
operators there (``standin.NOT_PROVED``); what is built from them can run.
"""

from __future__ import annotations

import os
from functools import partial
from typing import Any

#: What ``standin.environment`` sets.
_VARIABLE = "XPUBUILD_STANDIN_INNER"
#: What PyTorch registers for XPU in aten/src/ATen/native/mkldnn/xpu, with a kernel of this name for the CPU.
OPERATORS = (
    "mm", "mm.out", "addmm", "addmm.out", "bmm", "bmm.out", "baddbmm", "baddbmm.out", "addbmm", "addbmm.out",
    "addmv", "addmv.out",
)  # fmt: skip
_KEPT: list[Any] = []


def install(torch: Any) -> None:
    """Register them where this process is on the stand-in; else do nothing."""
    if not os.environ.get(_VARIABLE) or _KEPT:
        return
    library = torch.library.Library("aten", "IMPL")
    aten = torch.ops.aten
    for name in OPERATORS:
        base, _, overload = name.partition(".")
        library.impl(
            name, partial(computed, torch, getattr(getattr(aten, base), overload or "default")), "XPU"
        )
    library.impl("convolution_overrideable", partial(computed, torch, aten.convolution.default), "XPU")
    library.impl("convolution_backward_overrideable", partial(_convolution_backward, torch), "XPU")
    _KEPT.append(library)


def computed(torch: Any, operator: Any, *arguments: Any, **named: Any) -> Any:
    """Return the result of an operator on copies of its arguments on the CPU, moved to their device."""
    from torch.utils._pytree import tree_leaves, tree_map

    def is_tensor(value: Any) -> bool:
        return isinstance(value, torch.Tensor)

    device = next(value.device for value in tree_leaves((arguments, named)) if is_tensor(value))
    given, options = tree_map(lambda value: value.cpu() if is_tensor(value) else value, (arguments, named))
    result = operator(*given, **options)
    if "out" in named:
        return named["out"].resize_(result.shape).copy_(result)
    return tree_map(lambda value: value.to(device) if is_tensor(value) else value, result)


def _convolution_backward(torch: Any, gradient: Any, values: Any, weight: Any, *rest: Any) -> Any:
    bias = [gradient.shape[1]]
    backward = torch.ops.aten.convolution_backward.default
    return computed(torch, backward, gradient, values, weight, bias, *rest)
