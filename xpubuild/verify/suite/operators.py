"""Runs the cases of an operator table on the device and compares them with their references.

Three limits hold for each result of a type with unit roundoff ``u``. A backward stable algorithm returns the
exact result for inputs that are off by a few ``u``; how much results change with their inputs (``s``) is
measured on the reference.

1. No element is off by more than ``ELEMENT u (s + rms(s) + |r|)``.
2. The 2-norm of the error stays below ``NORM u`` times that of ``s + |r|``: roundings are independent and do
   not all reach the bound of one.
3. The part of the error that is proportional to the result, ``<e, r> / <r, r>``, stays below ``BIAS u``:
   rounding to nearest is unbiased, so a factor of 1 % is visible even in bfloat16.
"""

from __future__ import annotations

import math
from typing import Any

from .cases import ALL_NAN, NAN_GRADIENT, Case, evaluate, prepared
from .context import CheckFailedError, CheckFaultError, SuiteContext
from .hardware import has_float64
from .references import STORE, nan_gradients, references, table
from .tolerance import smallest, unit_roundoff
from .ways import dtype_of, lacks, on_a_way, repeated

ELEMENT = 8.0
NORM = 4.0
BIAS = 2.0
#: Largest factors on the limits of short types: for elements and norms, for what all elements share.
_SHORT_SLACK, _SHORT_BIAS = 8.0, 3.0
#: In short types 1 % of all elements is seen in results that are rounded a few times (of at most this slack)
#: and have so many elements that roundings even out. A good CPU keeps to half of it.
_SEEN, _FEW, _MANY = 0.0095, 4.0, 100
#: For the other types: a device adds in an order of its own. On an H100, eigh, lstm, gru and logcumsumexp of
#: float32 were off by 1.2 to 1.5 times what a CPU keeps to; a wrong element is off by thousands.
_LONG_SLACK = 2.0
_MOST_NAMED = 4

#: Name of the dtype, set of inputs, memory layout or way.
Run = tuple[str, str, str]


def run_table(context: SuiteContext, name: str) -> None:
    """Run all cases of a table; the detail names the first that are wrong.

    Raises:
        CheckFailedError: a result is wrong, or an operator fails.
        CheckFaultError: a reference is NaN or warned.
    """
    context.full_precision()
    known, wrong = references(context, name), []
    if context.planned:  # else somebody else keeps the references
        STORE.pop(name)
    run = absent = untyped = 0
    unable: list[str] = []
    for case in table(name):
        expected = known[case.name]
        if "fault" in expected:
            raise CheckFaultError(expected["fault"])
        if "absent" in expected:
            absent += 1
            continue
        problems = _problems(context, case, expected)
        run += len(problems) - problems.count(None)
        untyped += problems.count(None)
        unable += [case.name] if not any(one is not None for one in problems) else []
        wrong += [one for one in problems if one][:1]
    context.metric("cases", len(known) - absent)
    context.metric("runs", run)
    context.metric("absent_in_this_torch", absent)
    context.metric("without_kernel", untyped)
    context.metric("cases_without_kernel", unable)
    if unable:
        context.note(f"no kernel here for {', '.join(unable)}")
    for reason in sorted({lacks(context, way) or "" for case in table(name) for way in case.ways} - {""}):
        context.note(reason)
    if wrong:
        more = f"; and {len(wrong) - _MOST_NAMED} more" if len(wrong) > _MOST_NAMED else ""
        raise CheckFailedError(
            f"{len(wrong)} of {len(known)} cases: " + "; ".join(wrong[:_MOST_NAMED]) + more
        )


def _problems(context: SuiteContext, case: Case, expected: dict[str, Any]) -> list[str | None]:
    """Return what ``_problem`` says of each run of a case, until the first that is wrong."""
    found: list[str | None] = []
    for run in _runs(context, case, expected):
        found.append(_problem(context, case, run, expected[run[1]]))
        if found[-1]:
            break
    return found


def _problem(context: SuiteContext, case: Case, run: Run, expected: list[Any]) -> str | None:
    """Return what is wrong with one run, nothing where it is right, None where the device lacks a kernel."""
    try:
        problem = _compare(context, case, run, expected)
    except (RuntimeError, TypeError, ValueError, NotImplementedError, IndexError) as error:
        if _lacks(error, run[0]):
            return None
        problem = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"[:200]
    return f"{case.name} ({', '.join(filter(None, run))}): {problem}" if problem else ""


def _runs(context: SuiteContext, case: Case, expected: dict[str, Any]) -> list[Run]:
    """Return (dtype, variant, layout) of each run: equal shapes with other numbers come behind each other."""
    first, *others = [kind for kind in case.types if kind != "float64" or has_float64(context)] or [""]
    if not first:
        return []
    plan = [(first, "plain", "")]
    layouts = ("every second", "permuted") if case.strided else ("",)
    plan += [(first, "other", layout) for layout in layouts]
    plan += [(first, name, "") for name in ("large", "nan", ALL_NAN, NAN_GRADIENT) if expected.get(name)]
    for kind in others:
        plan += [(kind, "plain", ""), (kind, "other", "")]
    return plan + [(first, "plain", way) for way in case.ways if not lacks(context, way)]


#: What torch says where a backend, or a library that this torch was built without, has no kernel.
_LACKS = (
    "MAGMA", "LAPACK", "not compiled with", "supported devices", "No available kernel", "No viable backend",
    "does not support backward on", "FlexAttention is only supported", "No execution plans support",
)  # fmt: skip
_LACKS_TYPE = (
    "not implemented for", "not supported", "unsupported", "Unsupported dtype", "support tensors of type",
    "expected scalar type",
)  # fmt: skip


def _lacks(error: BaseException, kind: str) -> bool:
    words = _LACKS + (_LACKS_TYPE if kind in ("float16", "bfloat16") else ())
    return isinstance(error, (RuntimeError, ValueError)) and any(word in str(error) for word in words)


def _compare(context: SuiteContext, case: Case, run: Run, expected: list[Any]) -> str | None:
    """Return what is wrong with one run, None if nothing is."""
    torch, (kind, variant, layout) = context.torch, run
    dtype = getattr(torch, kind)
    there = [placed(context, one, dtype, layout) for one in prepared(torch, case, variant)]
    if variant == NAN_GRADIENT:
        found = nan_gradients(torch, case.call, there)
        lost = [str(n) for n, (one, wanted) in enumerate(zip(found, expected)) if bool(wanted) and not one]
        return f"NaN does not reach gradient {', '.join(lost)}" if lost else None
    call, dtype = on_a_way(context, case.call, layout), dtype_of(torch, dtype, layout)

    of_nan = variant in ("nan", ALL_NAN)

    def both() -> list[Any]:
        results, gradients = evaluate(
            torch, call, there, grad=case.grad, moved=lambda weight: _laid_out(weight, layout)
        )
        return results if of_nan else [*results, *gradients]

    try:
        found = repeated(context, both) if layout == "deterministic" else both()
    except torch.linalg.LinAlgError:
        if of_nan:
            return None  # it does not take NaN, and says so
        raise
    if len(found) != len(expected):
        return f"{len(found)} results instead of {len(expected)}"
    for number, (result, reference) in enumerate(zip(found, expected)):
        which = f"result {number}: " if len(expected) > 1 else ""
        if of_nan:
            if reference is not None and not bool(torch.isnan(result).cpu()[reference].all()):
                return f"{which}NaN does not reach the result"
            continue
        problem = _differs(torch, result, reference, (dtype, case.slack))
        if problem:
            return which + problem
    return None


def placed(context: SuiteContext, tensor: Any, dtype: Any, layout: str) -> Any:
    """Return a tensor on the device in the given type and memory layout."""
    torch = context.torch
    if tensor.is_complex():
        tensor = tensor.to(torch.complex128 if dtype == torch.float64 else torch.complex64)
    elif tensor.is_floating_point():
        tensor = tensor.to(dtype)
    return _laid_out(tensor.to(context.device), layout)


def _laid_out(there: Any, layout: str) -> Any:
    """Return a tensor with the same numbers in a memory layout."""
    if there.dim() == 0:
        return there
    if layout == "permuted":
        return there.transpose(0, -1).contiguous().transpose(0, -1)
    if layout != "every second":
        return there
    wide = there.new_zeros((*there.shape[:-1], 2 * there.shape[-1]))
    wide[..., ::2] = there
    return wide[..., ::2]


def _differs(torch: Any, result: Any, expected: tuple[Any, Any], limits: tuple[Any, float]) -> str | None:
    """Return how a result differs from its reference by more than it may; ``limits`` are (dtype, slack)."""
    reference, spread = expected
    if result.shape != reference.shape:
        return f"the shape is {tuple(result.shape)} instead of {tuple(reference.shape)}"
    if result.is_complex():
        result, reference = (torch.view_as_real(one.resolve_conj()) for one in (result, reference))
        spread = None if spread is None else spread.unsqueeze(-1)
    found = result.detach().cpu()
    if reference.is_floating_point():
        found = found.double()
        if bool(torch.isnan(reference).any()):
            raise CheckFaultError("a reference is NaN")
    if spread is not None:
        return _beyond(torch, found, (reference, spread), limits)
    wrong = int((found != reference).sum())
    return f"{wrong} of {reference.numel()} elements are wrong" if wrong else None


def _beyond(torch: Any, found: Any, expected: tuple[Any, Any], limits: tuple[Any, float]) -> str | None:
    """Return which of the three limits does not hold."""
    (reference, spread), (dtype, slack) = expected, limits
    finite = torch.isfinite(reference)
    if not bool((torch.isfinite(found) == finite).all()):
        return "finite and infinite elements differ"
    spread = spread.double().expand(finite.shape)[finite]
    reference, found = reference[finite].double(), found[finite]
    if not reference.numel():
        return None
    error, u, factor = found - reference, unit_roundoff(torch, dtype), slack
    if dtype in (torch.float16, torch.bfloat16):
        # What needs slack is computed in float32: of the result's own roundings there are few.
        factor = max(min(slack, _SHORT_SLACK), slack * unit_roundoff(torch, torch.float32) / u)
    else:
        factor = _LONG_SLACK * slack
    u = factor * u
    tiny = smallest(torch, dtype) if dtype != torch.float64 else 1e-300
    size = spread + reference.abs()
    worst = float((error.abs() / (ELEMENT * (u * (size + spread.square().mean().sqrt()) + tiny))).max())
    if worst > 1:
        return f"an element is off by {worst:.3g} times the allowed error"
    norm = float(error.norm() / (NORM * (u * size.norm() + tiny * math.sqrt(error.numel()))))
    if norm > 1:
        return f"the error's norm is {norm:.3g} times the allowed one"
    square = float(reference.square().sum())
    if square <= 0 or float(size.norm()) > 8 * math.sqrt(square):
        return None
    bias = abs(float((error * reference).sum())) / square
    shared = min(factor, _SHORT_BIAS) / factor if dtype in (torch.float16, torch.bfloat16) else 1.0
    allowed = BIAS * u * shared * (1 + 8 / math.sqrt(error.numel())) + tiny
    if dtype in (torch.float16, torch.bfloat16) and slack <= _FEW and error.numel() >= _MANY:
        allowed = min(allowed, _SEEN)
    return f"all elements are off by a factor of {bias:.2g}" if bias > allowed else None
