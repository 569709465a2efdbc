"""The public functions and their derivatives."""

from __future__ import annotations

from typing import Any

import torch

_ops = torch.ops.xpubuild_ops


def swiglu(gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
    """Return ``silu(gate) * up`` in one pass; differentiable twice.

    Both have one shape, device and dtype (float32, float64, bfloat16, float16); strides are free.
    """
    return _ops.swiglu(gate, up)


def mkl_sgemm(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Return ``a @ b`` of two float32 CPU matrices, computed by the MKL inside this package."""
    return _ops.mkl_sgemm(a, b)


def mkl_version() -> str:
    """Return what the MKL inside this package says of itself."""
    return _ops.mkl_version()


def build_info() -> dict[str, Any]:
    """Return what the library was compiled with.

    ``cxx11_abi`` (0 or 1), ``compiler``, ``torch`` (version built against), ``xpu`` (bool), ``mkl``.
    """
    info = dict(_ops.build_info())
    return {**info, "cxx11_abi": int(info["cxx11_abi"]), "xpu": info["xpu"] == "1"}


def _save_inputs(ctx: Any, inputs: tuple[torch.Tensor, ...], output: Any) -> None:  # noqa: ARG001
    # torch passes all three by name.
    ctx.save_for_backward(*inputs)


def _swiglu_backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    gate, up = ctx.saved_tensors
    return _ops.swiglu_backward(grad, gate, up)


def _swiglu_double_backward(
    ctx: Any, for_gate: torch.Tensor | None, for_up: torch.Tensor | None
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    grad, gate, up = ctx.saved_tensors
    for_gate = torch.zeros_like(gate) if for_gate is None else for_gate
    for_up = torch.zeros_like(up) if for_up is None else for_up
    s = torch.sigmoid(gate)
    first = s * (1 + gate * (1 - s))
    second = s * (1 - s) * (2 + gate * (1 - 2 * s))
    by_grad = for_gate * up * first + for_up * gate * s
    by_gate = grad * (for_gate * up * second + for_up * first)
    by_up = for_gate * grad * first
    return by_grad, by_gate, by_up


def _sgemm_backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    a, b = ctx.saved_tensors
    return _ops.mkl_sgemm(grad, b.t()), _ops.mkl_sgemm(a.t(), grad)


for _name, _backward in (
    ("swiglu", _swiglu_backward),
    ("swiglu_backward", _swiglu_double_backward),
    ("mkl_sgemm", _sgemm_backward),
):
    torch.library.register_autograd(f"xpubuild_ops::{_name}", _backward, setup_context=_save_inputs)
