"""More ways to run a case than plainly: what people wrap around a network, with the same result.

A way changes how a call runs, not what it computes, so that it shares the reference of the plain run.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from .context import SuiteContext, require

Call = Callable[..., Any]
AUTOCAST = "autocast to "
#: What most networks are run with.
USUAL = ("autocast to bfloat16", "autocast to float16", "checkpointed", "deterministic")
#: torch says so in a warning where a result may differ from run to run.
_NOT_REPEATABLE = "deterministic"


def lacks(context: SuiteContext, way: str) -> str | None:
    """Return why a way cannot be gone here, None where it can."""
    return _no_compiler(context.torch, context.backend.triton) if way == "compiled" else None


def _compiler_of(context: SuiteContext) -> str:
    """Return inductor; on the CPU, where g++ takes a second for each kernel, what comes before it."""
    return "inductor" if context.backend.triton else "aot_eager_decomp_partition"


@functools.cache
def _no_compiler(torch: Any, triton: str) -> str | None:
    from .runtime_tools import compiler, missing_headers
    from .triton_pairing import distributions

    if not triton:
        return None
    program = compiler()
    if program is None:
        return "not compiled: there is no C++ compiler"
    if missing_headers(program, ("Python.h",), torch):
        return f"not compiled: {program} does not find Python.h"
    return None if distributions() else "not compiled: triton is not installed"


def dtype_of(torch: Any, dtype: Any, way: str) -> Any:
    """Return the type whose roundings the results have."""
    return getattr(torch, way[len(AUTOCAST) :]) if way.startswith(AUTOCAST) else dtype


def on_a_way(context: SuiteContext, call: Call, way: str) -> Call:
    """Return a call that runs ``call`` in one of the ways; one that is unknown leaves it alone."""
    if way.startswith(AUTOCAST):
        return _autocast(context, call, dtype_of(context.torch, None, way))
    made = {"compiled": _compiled, "checkpointed": _checkpointed, "exported": _exported}.get(way)
    return made(context, call) if made else call


def _autocast(context: SuiteContext, call: Call, dtype: Any) -> Call:
    def cast(*given: Any) -> Any:
        with context.torch.autocast(context.backend.name, dtype=dtype):
            return call(*given)

    return cast


def graphs() -> int:
    """Return how many graphs this process has compiled."""
    from torch._dynamo.utils import counters

    return int(counters["stats"]["unique_graphs"])


def _compiled(context: SuiteContext, call: Call) -> Call:
    torch = context.torch
    torch._dynamo.reset()
    before = graphs()
    made = torch.compile(call, fullgraph=True, backend=_compiler_of(context))

    def run(*given: Any) -> Any:
        found = made(*given)
        require(graphs() > before, "a network ran without being compiled")
        return found

    return run


def _checkpointed(context: SuiteContext, call: Call) -> Call:
    """Nothing is kept for the backward pass, which runs the call again."""
    from torch.utils.checkpoint import checkpoint

    runs: list[int] = []

    def counted(*given: Any) -> Any:
        runs.append(1)
        return call(*given)

    def run(*given: Any) -> Any:
        if context.torch.is_grad_enabled():
            for one in given:
                if one.requires_grad:
                    one.register_hook(lambda gradient: _again(gradient, runs))
        return checkpoint(counted, *given, use_reentrant=False)

    return run


def _again(gradient: Any, runs: list[int]) -> Any:
    require(len(runs) == 2, f"the checkpointed network ran {len(runs)} times instead of twice")
    return gradient


def _exported(context: SuiteContext, call: Call) -> Call:
    torch = context.torch

    class Whole(torch.nn.Module):  # type: ignore[misc, name-defined]
        def forward(self, *given: Any) -> Any:
            return call(*given)

    def run(*given: Any) -> Any:
        program = torch.export.export(Whole(), given)
        require(len(program.graph.nodes) > len(given), "the exported program is empty")
        return program.module()(*given)

    return run


def repeated(context: SuiteContext, run: Callable[[], list[Any]]) -> list[Any]:
    """Return the results of two runs with deterministic algorithms, whose bits have to be equal.

    Where torch warns that an operator has no such algorithm, they may differ.
    """
    import warnings

    torch = context.torch
    before = torch.are_deterministic_algorithms_enabled()
    torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            one, two = run(), run()
    finally:
        torch.use_deterministic_algorithms(before)
    if not any(_NOT_REPEATABLE in str(warning.message) for warning in caught):
        different = sum(not torch.equal(a, b) for a, b in zip(one, two))
        require(not different, f"{different} of {len(one)} results differ between two deterministic runs")
    return one
