"""Group ``onednn``: TF32, and convolutions and products with fused operations.

Named after the library for the CPU and Intel GPUs; the checks are the same for other backends. Plain
convolutions and products are in the tables ``operators.convolve`` and ``operators.linear``.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from .context import CheckSkippedError, SuiteContext, require
from .hardware import float_types, has_kernel, onednn_computes_in
from .placement import recorded
from .registry import check
from .tolerance import (
    TF32_ROUNDOFF,
    accumulator,
    bilinear_limit,
    excess,
    near,
    network_limit,
    relative_error,
    rounded_inputs_limit,
    unit_roundoff,
)

Apply = Callable[[Any, Any], Any]
#: Name -> the result of a kernel, and the function from the exact linear part to the exact result.
Forms = dict[str, tuple[Any, Callable[[Any], Any]]]


def _numbers(context: SuiteContext, *shapes: tuple[int, ...], dtype: Any) -> list[Any]:
    generator = context.torch.Generator().manual_seed(121)
    return [context.torch.randn(*shape, generator=generator).to(dtype) for shape in shapes]


def _limit(context: SuiteContext, apply: Apply, left: Any, right: Any, terms: int) -> Any:
    """Return the limit of a sum of ``terms`` products, in the type of the operands."""
    kept = {"result_dtype": left.dtype, "accumulate": accumulator(context.torch, left.dtype)}
    return bilinear_limit(context.torch, apply, left.double(), right.double(), terms, **kept)


def _product(left: Any, right: Any) -> Any:
    return left @ right


def _padded(context: SuiteContext) -> Apply:
    return lambda a, b: context.torch.nn.functional.conv2d(a, b, padding=1)


@contextlib.contextmanager
def _tf32(context: SuiteContext, *, on: bool) -> Iterator[bool]:
    """Switch TF32 for products and convolutions on or off, and back; yield whether there is a switch."""
    old: list[tuple[Any, str, Any]] = []
    for paths in (context.backend.tf32_gemm_switches, context.backend.tf32_switches):
        if found := context.switch(paths):
            old.append((*found, getattr(*found)))
            setattr(*found, (("ieee", "tf32") if found[1] == "fp32_precision" else (False, True))[on])
    try:
        yield bool(old)
    finally:
        for holder, switch, value in reversed(old):
            setattr(holder, switch, value)


@check("onednn.tf32", "TF32 has the expected precision and can be disabled")
def tf32(context: SuiteContext) -> None:
    """Multiply and convolve float32 with TF32 allowed, then without, within the error bound of each."""
    torch, device = context.torch, context.device
    left, right, image, kernel = _numbers(
        context, (256, 512), (512, 128), (2, 32, 17, 19), (48, 32, 3, 3), dtype=torch.float32
    )
    uses = (("product", _product, left, right, 512), ("convolution", _padded(context), image, kernel, 288))
    with _tf32(context, on=True) as there_is_one:
        if not there_is_one:
            raise CheckSkippedError(f"torch {torch.__version__} cannot enable TF32 on {context.backend.name}")
        for name, apply, a, b, terms in uses:
            exact, limit = apply(a.double(), b.double()), _limit(context, apply, a, b, terms)
            found = apply(a.to(device), b.to(device))
            wider = rounded_inputs_limit(apply, a.double(), b.double(), TF32_ROUNDOFF)
            near(context, f"with TF32 a {name}", found, exact, limit + wider)
            # Over thousands of elements the norm is near its mean: this tells TF32 from bfloat16.
            context.within(f"{name}_error", relative_error(torch, found, exact), 2**0.5 * TF32_ROUNDOFF)
            context.metric(f"{name}_in_effect", excess(torch, found, exact, limit) > 1)
    with _tf32(context, on=False):
        for name, apply, a, b, terms in uses:
            exact, limit = apply(a.double(), b.double()), _limit(context, apply, a, b, terms)
            near(context, f"with TF32 disabled a {name}", apply(a.to(device), b.to(device)), exact, limit)
    used = context.metrics["product_in_effect"]
    context.note("TF32 was used" if used else "TF32 was allowed, but not used for this product")


@check("onednn.scaled_mm", "products of float8 numbers with scales agree with double precision")
def scaled_mm(context: SuiteContext) -> None:
    """Multiply float8_e4m3fn matrices, with a scale for each; a skip where torch has no kernel for them."""
    torch, to = context.torch, context.device
    given = _numbers(context, (64, 256), (48, 256), dtype=torch.float8_e4m3fn)
    scales = [torch.tensor(0.37), torch.tensor(1.9)]
    left, right = (one.double() * scale.double() for one, scale in zip(given, scales))
    a, b, scale_a, scale_b = (one.to(to) for one in (*given, *scales))
    options = {"scale_a": scale_a, "scale_b": scale_b, "out_dtype": torch.bfloat16}
    try:
        found, record = recorded(context, lambda: torch._scaled_mm(a, b.t(), **options))
    except RuntimeError as error:
        if not isinstance(error, NotImplementedError) and "support" not in str(error):
            raise
        raise CheckSkippedError(str(error).splitlines()[0]) from error
    if record.fallbacks:
        raise CheckSkippedError(record.fallbacks[0])
    found = found[0] if isinstance(found, tuple) else found  # with its largest value, before torch 2.5
    types = {"result_dtype": torch.bfloat16, "accumulate": torch.float32}
    exact, limit = left @ right.t(), bilinear_limit(torch, _product, left, right.t(), 256, **types)
    near(context, "the product", found, exact, limit)
    allowed = network_limit(1, 256, *(unit_roundoff(torch, one) for one in types.values()))
    context.within("relative_error", relative_error(torch, found, exact), allowed)


def _compare(context: SuiteContext, forms: Forms, exact: Any, limit: Any, dtype: Any) -> None:
    """Compare each form; note the dtypes that oneDNN does not support on this device."""
    for name, (result, finish) in forms.items():
        require(result.dtype == dtype, f"{name} of {dtype} is {result.dtype}")
        near(context, f"{name}, {dtype}", result, finish(exact), limit)
    context.metric("forms", sorted({*context.metrics.get("forms", ()), *forms}))
    if not onednn_computes_in(context, dtype):
        short, name = str(dtype).partition(".")[2], context.backend.name.upper()
        context.note(f"oneDNN does not support {short} on this {name}: fused kernels were not compared")


def _has_fused(context: SuiteContext, operator: str, dtype: Any) -> bool:
    """Return whether this torch has oneDNN's fused operator, with support for ``dtype`` on the device."""
    return has_kernel(context, operator) and onednn_computes_in(context, dtype)


@check("onednn.fused_linear", "linear layers with an activation agree with double precision")
def fused_linear(context: SuiteContext) -> None:
    """Compare separate operators and this torch's fused kernels for the device with float64 on the CPU."""
    context.full_precision()
    torch, linear = context.torch, context.torch.nn.functional.linear
    for dtype in float_types(context)[:3]:
        given = _numbers(context, (45, 193), (72, 193), (72,), dtype=dtype)
        exact = linear(*(one.double() for one in given))
        shift = given[2].double()
        x, weight, bias = (one.to(context.device) for one in given)
        forms: Forms = {
            "linear and relu": (torch.relu(linear(x, weight, bias)), torch.relu),
            "linear and in-place relu": (linear(x, weight, bias).relu_(), torch.relu),
            "linear and add": (linear(x, weight, bias) + bias, partial(torch.add, shift)),
        }
        if has_kernel(context, "aten::_addmm_activation"):
            forms["_addmm_activation"] = (torch._addmm_activation(bias, x, weight.t()), torch.relu)
        if _has_fused(context, "mkldnn::_linear_pointwise", dtype):
            pointwise = torch.ops.mkldnn._linear_pointwise
            forms["mkldnn linear"] = (pointwise(x, weight, bias, "none", [], ""), lambda y: y)
            forms["mkldnn linear with relu"] = (pointwise(x, weight, bias, "relu", [], ""), torch.relu)
        limit = _limit(context, _product, given[0], given[1].t(), 194)
        limit = limit + unit_roundoff(torch, dtype) * 2 * (exact.abs() + shift.abs())
        _compare(context, forms, exact, limit, dtype)


@check("onednn.fused_conv", "convolutions with fused add and activation agree with double precision")
def fused_conv(context: SuiteContext) -> None:
    """Compare separate operators and this torch's fused kernels for the device with float64 on the CPU."""
    context.full_precision()
    torch = context.torch
    for dtype in float_types(context)[:3]:
        given = _numbers(context, (2, 32, 13, 15), (48, 32, 3, 3), (48,), (2, 48, 13, 15), dtype=dtype)
        plus, apply = given[3].double(), _padded(context)
        exact = apply(given[0].double(), given[1].double()) + given[2].double().reshape(-1, 1, 1)
        limit = _limit(context, apply, given[0], given[1], 289)
        limit = limit + unit_roundoff(torch, dtype) * 2 * (exact.abs() + plus.abs())
        there = [one.to(context.device) for one in given]
        _compare(context, _conv_forms(context, there, partial(torch.add, plus)), exact, limit, dtype)


def _conv_forms(context: SuiteContext, given: list[Any], add: Callable[[Any], Any]) -> Forms:
    """Return a 3x3 convolution with each fused operation that the device has; ``add`` adds the last one."""
    torch, relu, (x, weight, bias, other) = context.torch, context.torch.relu, given

    def conv() -> Any:
        return torch.nn.functional.conv2d(x, weight, bias, padding=1)

    def add_relu(y: Any) -> Any:
        return relu(add(y))

    forms: Forms = {
        "convolution and relu": (relu(conv()), relu),
        "convolution and add": (conv() + other, add),
        "convolution, add and relu": (conv().add_(other).relu_(), add_relu),
    }
    shape = ([1, 1], [1, 1], [1, 1], 1)
    if _has_fused(context, "mkldnn::_convolution_pointwise", x.dtype):
        pointwise = torch.ops.mkldnn._convolution_pointwise
        forms["mkldnn convolution with relu"] = (pointwise(x, weight, bias, *shape, "relu", [], ""), relu)
    if _has_fused(context, "mkldnn::_convolution_pointwise.binary", x.dtype):
        binary = torch.ops.mkldnn._convolution_pointwise.binary
        ends: list[tuple[str, str | None, Callable[[Any], Any]]] = [("add", None, add)]
        if context.backend.fused_short_types or x.dtype == torch.float32:
            ends.append(("add and relu", "relu", add_relu))
        for name, last, finish in ends:
            made = binary(x, other, weight, bias, *shape, "add", 1.0, last, [], None)
            forms[f"mkldnn convolution with {name}"] = (made, finish)
    if has_kernel(context, "aten::cudnn_convolution_relu"):
        made = torch.cudnn_convolution_relu(x, weight, bias, *shape)
        forms["cudnn convolution with relu"] = (made, relu)
        made = torch.cudnn_convolution_add_relu(x, weight, other, 1.0, bias, *shape)
        forms["cudnn convolution with add and relu"] = (made, add_relu)
    return forms
