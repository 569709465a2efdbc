"""Group ``compile``: the requirements of torch.compile, and the results of compiled code."""

from __future__ import annotations

import copy
from typing import Any

from .context import CheckFailedError, CheckSkippedError, SuiteContext, require
from .placement import require_placed
from .registry import SMOKE, check
from .tolerance import near, network_limit, relative_error, unit_roundoff
from .ways import graphs

_NEEDS = ("device.availability", "compile.toolchain", "compile.triton_version")


@check("compile.toolchain", "compilers and headers for torch.compile are installed")
def toolchain(context: SuiteContext) -> None:
    """Compile a line of C++ for each, to report missing ones before inductor or triton fail."""
    from .runtime_tools import compiler, missing_headers, python_include

    program = compiler()
    if program is None:
        raise CheckFailedError("no C++ compiler: inductor uses CXX, or g++, clang++ or icpx on PATH")
    context.note(program)
    context.metric("compiler", program)
    wanted = ("vector", "Python.h", *context.backend.runtime_headers)
    missing = missing_headers(program, wanted, context.torch)
    problem = f"{program} does not find {', '.join(missing)} (Python's own are in {python_include()})"
    require(not missing, problem)
    context.metric("headers", list(wanted))


@check("compile.triton_version", "the installed triton is the one that torch requires", suites=SMOKE)
def triton_version(context: SuiteContext) -> None:
    """Compare distributions, torch's own requirement, the imported module and its backends."""
    from .triton_pairing import distributions, imported, pinned

    found = distributions()
    context.metric("distributions", dict(found))
    require(
        len(found) <= 1,
        f"{' and '.join(sorted(found))} both contain the package triton: the last one has overwritten the"
        " other",
    )
    if not found:
        if context.backend.triton:
            context.absent(
                "triton", "triton is not installed: inductor cannot generate kernels for this device"
            )
        return context.note("triton is not installed; the CPU does not need it")
    ((name, version),) = found.items()
    wanted = pinned()
    for other, exact in wanted.items():
        problem = f"torch requires {other} {exact}, but {name} {version} is installed"
        require(other == name and version.split("+")[0] == exact.split("+")[0], problem)
    context.note(f"{name} {version}" + ("" if wanted else "; torch requires no specific version"))
    module, backends = imported()
    problem = f"the distribution is {name} {version}, but the imported module reports {module}"
    require(version.split("+")[0].startswith(module.split("+")[0]), problem)
    require(
        not context.backend.triton or context.backend.triton in backends,
        f"{name} {version} has {', '.join(sorted(backends)) or 'no backends'}, not {context.backend.triton}",
    )
    return None


def _require_compiled(before: int, what: str) -> None:
    """Fail if nothing was compiled: eager mode gives right results too."""
    require(graphs() > before, f"{what} ran without being compiled")


def _operands(context: SuiteContext, rows: int, seed: int = 31) -> tuple[Any, Any]:
    torch = context.torch
    generator = torch.Generator().manual_seed(seed)
    left = torch.randn(rows, 96, generator=generator)
    return left, torch.randn(96, 64, generator=generator)


def _block(left: Any, right: Any) -> Any:
    """A product with a pointwise and a reducing part, which inductor fuses."""
    product = left @ right
    value = product.sigmoid() * product
    return value - value.mean(dim=-1, keepdim=True)


def _gradients(function: Any, leaves: list[Any], weight: Any) -> list[Any]:
    import torch

    result = function(*leaves)
    return [result.detach(), *torch.autograd.grad(result, leaves, weight)]


def _near(context: SuiteContext, name: str, found: Any, wanted: Any, layers: int) -> None:
    """Compare by the norm of the error: one wrong element of some thousands is far above rounding."""
    u = unit_roundoff(context.torch, context.torch.float32)
    require_placed(context, f"{name} is", (found,))
    context.within(
        f"{name}_error", relative_error(context.torch, found, wanted), network_limit(layers, 128, u, u)
    )


@check("compile.inductor", "kernels of inductor agree with double precision", needs=_NEEDS, deadline_s=300)
def inductor(context: SuiteContext) -> None:
    """Compile a product with pointwise and reducing parts, forward and backward, without graph breaks."""
    torch = context.torch
    context.full_precision()
    left, right = _operands(context, 128)
    weight = torch.randn(128, 64, generator=torch.Generator().manual_seed(32))
    before = graphs()
    leaves = [part.to(context.device).requires_grad_() for part in (left, right)]
    found = _gradients(torch.compile(_block, fullgraph=True), leaves, weight.to(context.device))
    _require_compiled(before, "the function")
    exact = [part.double().requires_grad_() for part in (left, right)]
    wanted = _gradients(_block, exact, weight.double())
    for name, one, other in zip(("value", "gradient_by_left", "gradient_by_right"), found, wanted):
        _near(context, name, one, other, 8)


@check("compile.dynamic_shapes", "one compiled graph serves several sizes", needs=_NEEDS, deadline_s=300)
def dynamic_shapes(context: SuiteContext) -> None:
    """Compile with dynamic shapes and call with four sizes; all results must be right and use one graph."""
    torch = context.torch
    torch._dynamo.reset()
    before = graphs()
    compiled = torch.compile(_block, fullgraph=True, dynamic=True)
    for rows in (17, 63, 129, 255):  # none is another size: torch 2.4 makes a graph of its own for that
        left, right = _operands(context, rows, seed=rows)
        found = compiled(left.to(context.device), right.to(context.device))
        _near(context, f"value_of_{rows}_rows", found, _block(left.double(), right.double()), 8)
    _require_compiled(before, "the function")
    made = graphs() - before
    context.metric("graphs", made)
    require(made == 1, f"four sizes took {made} graphs: dynamic shapes are specialised")


@check("compile.max_autotune", "max-autotune selects a correct kernel", needs=_NEEDS, deadline_s=420)
def max_autotune(context: SuiteContext) -> None:
    """Let inductor benchmark and choose kernels for a small product."""
    torch = context.torch
    torch._dynamo.reset()
    before = graphs()
    left, right = _operands(context, 128)

    def product(a: Any, b: Any) -> Any:
        return (a @ b).relu()

    compiled = torch.compile(product, mode="max-autotune-no-cudagraphs", fullgraph=True)
    found = compiled(left.to(context.device), right.to(context.device))
    _require_compiled(before, "the function")
    _near(context, "chosen_kernel", found, product(left.double(), right.double()), 2)


@check("compile.freezing", "inductor folds constants of a frozen network", needs=_NEEDS, deadline_s=300)
def freezing(context: SuiteContext) -> None:
    """Freeze a small network in inference: right, as in eager mode, and the same after a buffer has changed,
    which is a constant of the compiled code then."""
    torch, nn = context.torch, context.torch.nn
    from torch._inductor import config

    torch._dynamo.reset()
    context.full_precision()
    torch.manual_seed(33)
    layers = nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(800, 10)
    network, images = nn.Sequential(*layers).eval(), torch.randn(4, 3, 12, 12)
    there, data = copy.deepcopy(network).to(context.device), images.to(context.device)
    before = graphs()
    with torch.no_grad(), config.patch(freezing=True):
        eager, exact = there(data), network.double()(images.double())
        compiled = torch.compile(there, fullgraph=True)
        found = compiled(data)
        there[1].running_var.mul_(4.0)
        again, changed = compiled(data), there(data)
    _require_compiled(before, "the network")
    _near(context, "frozen", found, exact, 8)
    _near(context, "frozen_from_eager", found, eager, 16)
    require(not torch.equal(eager, changed), "a buffer of the network has no effect")
    require(torch.equal(found, again), "a changed buffer changed the result: it was not folded into the code")


@check("compile.triton_kernel", "a triton kernel runs on the device", needs=_NEEDS)
def triton_kernel(context: SuiteContext) -> None:
    """Fuse a scaled sum and a row maximum in one kernel, with rows that do not fill a block."""
    if not context.backend.triton:
        raise CheckSkippedError(f"triton does not support {context.backend.name}")
    torch = context.torch
    from .placement import recorded
    from .triton_kernel import run

    generator = torch.Generator().manual_seed(41)
    left, right = (torch.randn(33, 501, generator=generator) for _ in range(2))
    (total, top), seen = recorded(
        context, lambda: run(left.to(context.device), right.to(context.device), 0.5)
    )
    reference = left.double() + 0.5 * right.double()
    # One product and one sum in float32, fused or not.
    limit = 2 * torch.finfo(torch.float32).eps * (left.double().abs() + right.double().abs())
    near(context, "the kernel's sum", total, reference, limit)
    require(torch.equal(top.cpu(), total.amax(dim=1).cpu()), "the kernel's row maximum is wrong")
    if seen.names is not None:
        owned = [name for name in seen.names if "scaled_sum" in name]
        require(
            owned,
            f"the profiler recorded {', '.join(seen.kernels[:4]) or 'no kernel'}, but not the suite's kernel",
        )
        context.metric("kernels", len(owned))
