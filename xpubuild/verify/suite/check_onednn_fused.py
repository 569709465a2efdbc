"""Group ``onednn``: convolutions and products with fused operations."""

from __future__ import annotations

from typing import Any

from .check_onednn import _kept, _numbers
from .context import SuiteContext, require
from .hardware import float_types, has_kernel, onednn_computes_in
from .registry import check
from .tolerance import bilinear_limit, near, unit_roundoff


def _has_fused(context: SuiteContext, operator: str, dtype: Any) -> bool:
    """Return whether this torch has oneDNN's fused operator, with support for ``dtype`` on the device."""
    return has_kernel(context, operator) and onednn_computes_in(context, dtype)


def _say_what_is_lacking(context: SuiteContext, instead: str) -> None:
    """Note the dtypes that oneDNN does not support on this device, and what was compared for them."""
    types = [dtype for dtype in _fused_types(context) if not onednn_computes_in(context, dtype)]
    names = " and ".join(str(dtype).partition(".")[2] for dtype in types)
    if names:
        context.note(f"oneDNN does not support {names} on this {context.backend.name.upper()}: {instead}")


def _linear_forms(context: SuiteContext, x: Any, weight: Any, bias: Any) -> dict[str, tuple[Any, Any]]:
    """Return results of linear with an activation, and the function from the exact linear part to the
    exact result."""
    torch = context.torch
    relu = torch.relu
    forms = {
        "linear and relu": (torch.relu(torch.nn.functional.linear(x, weight, bias)), relu),
        "linear and in-place relu": (torch.nn.functional.linear(x, weight, bias).relu_(), relu),
        "linear and add": (
            torch.nn.functional.linear(x, weight, bias) + bias,
            lambda y: y + bias.cpu().double(),
        ),
    }
    if has_kernel(context, "aten::_addmm_activation"):
        forms["_addmm_activation"] = (torch._addmm_activation(bias, x, weight.t()), relu)
    if _has_fused(context, "mkldnn::_linear_pointwise", x.dtype):
        pointwise = torch.ops.mkldnn._linear_pointwise
        forms["mkldnn linear"] = (pointwise(x, weight, bias, "none", [], ""), lambda y: y)
        forms["mkldnn linear with relu"] = (pointwise(x, weight, bias, "relu", [], ""), relu)
    return forms


def _fused_types(context: SuiteContext) -> tuple[Any, ...]:
    """Return the dtypes that fused kernels support."""
    return float_types(context)[:3]


@check("onednn.fused_linear", "linear layers with an activation agree with double precision")
def fused_linear(context: SuiteContext) -> None:
    """Compare separate operators and this torch's fused kernels for the device with float64 on the CPU."""
    context.full_precision()
    torch = context.torch
    seen: set[str] = set()
    for dtype in _fused_types(context):
        x = _numbers(context, 45, 193, seed=141, dtype=dtype)
        weight = _numbers(context, 72, 193, seed=142, dtype=dtype)
        bias = _numbers(context, 72, seed=143, dtype=dtype)
        exact = x.double() @ weight.double().t() + bias.double()
        limit = bilinear_limit(
            torch, lambda a, b: a @ b, x.double(), weight.double().t(), 194, **_kept(context, dtype)
        )
        limit = limit + unit_roundoff(torch, dtype) * 2 * (exact.abs() + bias.double().abs())
        forms = _linear_forms(context, *(part.to(context.device) for part in (x, weight, bias)))
        for name, (result, finish) in forms.items():
            require(result.dtype == dtype, f"{name} of {dtype} is {result.dtype}")
            near(context, f"{name}, {dtype}", result, finish(exact), limit)
        seen.update(forms)
    context.metric("forms", sorted(seen))
    _say_what_is_lacking(context, "fused kernels were not compared")


def _conv_forms(
    context: SuiteContext, x: Any, weight: Any, bias: Any, other: Any
) -> dict[str, tuple[Any, Any]]:
    """Return results of a 3x3 convolution with fused operations, as ``_linear_forms`` does."""
    torch = context.torch
    relu, plus = torch.relu, other.cpu().double()

    def conv() -> Any:
        return torch.nn.functional.conv2d(x, weight, bias, padding=1)

    forms = {
        "convolution and relu": (torch.relu(conv()), relu),
        "convolution and add": (conv() + other, lambda y: y + plus),
        "convolution, add and relu": (conv().add_(other).relu_(), lambda y: relu(y + plus)),
    }
    shape = ([1, 1], [1, 1], [1, 1], 1)
    if _has_fused(context, "mkldnn::_convolution_pointwise", x.dtype):
        pointwise = torch.ops.mkldnn._convolution_pointwise
        forms["mkldnn convolution with relu"] = (pointwise(x, weight, bias, *shape, "relu", [], ""), relu)
    binary: Any = None
    if _has_fused(context, "mkldnn::_convolution_pointwise.binary", x.dtype):
        binary = torch.ops.mkldnn._convolution_pointwise.binary
        forms["mkldnn convolution with add"] = (
            binary(x, other, weight, bias, *shape, "add", 1.0, None, [], None), lambda y: y + plus,
        )  # fmt: skip
    if binary and (context.backend.fused_short_types or x.dtype == torch.float32):
        forms["mkldnn convolution with add and relu"] = (
            binary(x, other, weight, bias, *shape, "add", 1.0, "relu", [], None), lambda y: relu(y + plus),
        )  # fmt: skip
    if has_kernel(context, "aten::cudnn_convolution_relu"):
        forms["cudnn convolution with relu"] = (
            torch.cudnn_convolution_relu(x, weight, bias, [1, 1], [1, 1], [1, 1], 1), relu,
        )  # fmt: skip
        forms["cudnn convolution with add and relu"] = (
            torch.cudnn_convolution_add_relu(x, weight, other, 1.0, bias, [1, 1], [1, 1], [1, 1], 1),
            lambda y: relu(y + plus),
        )
    return forms


@check("onednn.fused_conv", "convolutions with fused add and activation agree with double precision")
def fused_conv(context: SuiteContext) -> None:
    """Compare separate operators and this torch's fused kernels for the device with float64 on the CPU."""
    context.full_precision()
    torch = context.torch
    seen: set[str] = set()
    for dtype in _fused_types(context):
        x = _numbers(context, 2, 32, 13, 15, seed=151, dtype=dtype)
        weight = _numbers(context, 48, 32, 3, 3, seed=152, dtype=dtype)
        bias = _numbers(context, 48, seed=153, dtype=dtype)
        other = _numbers(context, 2, 48, 13, 15, seed=154, dtype=dtype)

        def apply(a: Any, b: Any) -> Any:
            return torch.nn.functional.conv2d(a, b, padding=1)

        exact = apply(x.double(), weight.double()) + bias.double().reshape(-1, 1, 1)
        limit = bilinear_limit(torch, apply, x.double(), weight.double(), 289, **_kept(context, dtype))
        limit = limit + unit_roundoff(torch, dtype) * 2 * (exact.abs() + other.double().abs())
        forms = _conv_forms(context, *(part.to(context.device) for part in (x, weight, bias, other)))
        for name, (result, finish) in forms.items():
            require(result.dtype == dtype, f"{name} of {dtype} is {result.dtype}")
            near(context, f"{name}, {dtype}", result, finish(exact), limit)
        seen.update(forms)
    context.metric("forms", sorted(seen))
    _say_what_is_lacking(context, "fused kernels were not compared")
