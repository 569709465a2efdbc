"""Compares results of operators of the database with their references.

A result may be off by upstream's tolerance, and by ``ELEMENT`` roundings of its type times how much it
changes with its inputs, as the elements of the operator tables may (``operators.py``). Upstream compares with
the same type on the same device as a rule, and a device with the CPU within 1e-3 (``test_compare_cpu``). Here
references are in double precision and results have roundings in between too, so that its tolerances are taken
times ``SLACK``, which stays far below 1e-3.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from .database import tolerance
from .database_calls import dense, wide
from .operators import ELEMENT
from .tolerance import unit_roundoff

SLACK = 8.0
#: Roundings of a sum of ``n`` numbers, times the root of ``n``.
_SUMS = 4.0
#: Operators with running sums: an element has the roundings of the largest one before it.
_RUNNING = ("cumsum", "cumulative_trapezoid")
#: Gradients and tangents are computed from results that have such errors themselves.
DERIVATIVE = 4.0
#: Of whole numbers nothing is that large but a pole, next to which sines and logarithms round.
_POLE = 2.0**100


class WrongError(Exception):
    """A result is wrong; the message says how."""


@dataclass(frozen=True)
class Limits:
    """Relative and absolute error, factor for derivatives, roundings of the rms and of the largest."""

    relative: float
    absolute: float
    factor: float
    of_all: float
    of_largest: float
    poles: bool


@dataclass(frozen=True)
class Comparison:
    """What results of an operator in one type are compared with: ``inputs`` are the tensors of its sample."""

    torch: Any
    info: Any
    dtype: Any
    device: str
    inputs: list[Any]

    def all_close(self, found: Any, expected: list[dict[str, Any]]) -> None:
        """Compare gradients; one that is None is zero."""
        for number, (one, wanted) in enumerate(zip(found, expected)):
            if one is None:
                if bool((wanted["value"] != 0).any()):
                    raise WrongError(f"gradient {number} is missing")
                continue
            value = wanted["value"].expand(one.shape) if wanted["value"].dim() == 0 else wanted["value"]
            self.close(f"gradient {number}: ", one, {**wanted, "value": value}, DERIVATIVE)

    def close(self, which: str, result: Any, wanted: dict[str, Any], factor: float = 1.0) -> None:
        """Compare one result with its reference; whole numbers have to be equal.

        Raises:
            WrongError: it is too far off.
        """
        torch, reference = self.torch, wanted["value"]
        found = dense(torch, result).cpu()
        if found.shape != reference.shape:
            raise WrongError(f"{which}the shape is {tuple(found.shape)} instead of {tuple(reference.shape)}")
        if not _rounds(found):
            wrong = int((found != reference.to(found.dtype)).sum()) if reference.numel() else 0
            if wrong:
                raise WrongError(f"{which}{wrong} of {reference.numel()} elements are wrong")
            return
        limits = self._limits(found, factor)
        problem = _beyond(torch, found, reference, wanted["spread"], limits)
        if problem:
            raise WrongError(which + problem)

    def _limits(self, found: Any, factor: float) -> Limits:
        u = unit_roundoff(self.torch, found.dtype)
        relative, absolute = tolerance(self.info, found.dtype, self.device)
        for dtype in {one.dtype for one in self.inputs} | {self.dtype}:  # the coarsest counts
            if dtype.is_floating_point or dtype.is_complex:
                own = tolerance(self.info, dtype, self.device)
                relative, absolute = max(relative, own[0]), max(absolute, own[1])
        # Sums of many numbers: types that are short are added up in float32.
        terms = max([one.numel() for one in self.inputs], default=1) / max(1, found.numel())
        relative += _SUMS * min(u, 2.0**-24) * math.sqrt(max(1.0, terms))
        spectral = type(self.info).__name__ == "SpectralFuncInfo"
        of_all = ELEMENT * u * _stages(found.numel()) if spectral else 0.0
        longest = max([size for one in self.inputs for size in one.shape], default=1)
        running = self.info.name in _RUNNING
        of_largest = _SUMS * min(u, 2.0**-24) * math.sqrt(max(1, longest)) if running else 0.0
        whole = bool(self.inputs) and not any(_rounds(one) for one in self.inputs)
        if u > 1e-12:  # not for double precision, whose tolerance is wide
            absolute *= SLACK
            relative = max(relative, min(SLACK * relative, 2e-5))
        if (
            factor > 1
        ):  # what arrives at the results is at most 1 (``_weights``), and cancels in some gradients
            absolute = max(absolute, 2 * u)
        return Limits(relative, absolute, factor, of_all, of_largest, whole)


def _stages(number: int) -> float:
    """Return how many sums and products lead from all inputs to an element of a Fourier transform.

    Their roundings have the size of what is added, not of the result. Lengths with large prime factors are
    made of three transforms (Bluestein).
    """
    return math.log2(max(2, number)) * (3 if number & (number - 1) else 1)


def _rounds(tensor: Any) -> bool:
    return bool(tensor.is_floating_point() or tensor.is_complex())


def _beyond(torch: Any, found: Any, reference: Any, spread: Any, limits: Limits) -> str | None:
    """Return how far results are from their reference, None where they are near enough."""
    u, dtype = unit_roundoff(torch, found.dtype), found.dtype
    # What overflows the type is infinite in it, or what becomes of infinity.
    expected = wide(torch, reference.to(dtype)) if not found.is_complex() else wide(torch, reference)
    found, reference = wide(torch, found), wide(torch, reference)
    if reference.is_complex() != found.is_complex():
        return "one is complex and the other is not"
    same = (found == expected) | (torch.isnan(found) & torch.isnan(reference))
    # Products of complex numbers overflow in parts.
    largest = torch.finfo(dtype).max / (100 if found.is_complex() else 1)
    same |= ~torch.isfinite(found) & (reference.abs() > largest)
    if limits.poles:
        same |= (reference.abs() > _POLE) & (found.abs() > 1 / u)
    error = (found - reference).abs()
    room = _room(torch, reference, spread, u, limits)
    wrong = ~(same | (error <= room))
    count = int(wrong.sum())
    if not count:
        return None
    ratio = torch.nan_to_num((error / room)[wrong], 1e30, 1e30).max()
    first = tuple(int(one) for one in wrong.nonzero()[0])
    return (
        f"{count} of {reference.numel()} elements are wrong, by up to {float(ratio):.3g} times the allowed"
        " error"
        f" (at {first}: {found[first].item():.6g} instead of {reference[first].item():.6g})"
    )


def _room(torch: Any, reference: Any, spread: Any, u: float, limits: Limits) -> Any:
    """Return by how much each element may be off."""
    size = reference.abs()
    room = limits.absolute + limits.relative * size
    if spread is not None and spread.shape == reference.shape and spread.numel():
        finite = spread[torch.isfinite(spread)]
        typical = finite.median() if finite.numel() else 0.0
        room = room + ELEMENT * u * (spread + typical + size)
    if limits.of_all and size.numel():
        finite = size[torch.isfinite(size)]
        room = room + limits.of_all * finite.square().mean().sqrt()
    if limits.of_largest and size.numel():
        room = room + limits.of_largest * size[torch.isfinite(size)].max()
    return limits.factor * room
