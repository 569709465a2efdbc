"""Results of the operator database that are not unique: which of several equal elements, which order.

Where values tie, torch does not say which element ``sort``, ``topk`` or ``median`` choose, and devices
differ. Inputs are made distinct where their type has enough numbers between the least and the greatest; else
an index is right if the element it points to is, and derivatives are not compared.
"""

from __future__ import annotations

from typing import Any

from .database_calls import dense, differ

#: Operator -> place of ``dim`` among its arguments, number of the result with indices.
_INDICES = {
    "sort": (0, 1), "argsort": (0, 0), "topk": (1, 1), "kthvalue": (1, 1), "median": (0, 1),
    "nanmedian": (0, 1),
}  # fmt: skip
#: Operators that choose elements, also those that do not tell which.
_CHOOSING = (*_INDICES, "msort", "quantile", "nanquantile", "masked.median")
#: Operators whose results depend on more than their inputs -> why only their types are compared.
NOT_UNIQUE = {"mode": "which of several values that are as frequent it chooses is not defined"}


def tied(torch: Any, tensor: Any) -> bool:
    """Return whether some finite numbers are equal."""
    values = tensor.detach().reshape(-1)
    values = values[torch.isfinite(values)].sort().values
    return bool((values[1:] == values[:-1]).any())


def made_distinct(torch: Any, name: str, tensor: Any) -> Any:
    """Return the input of an operator that chooses elements, in the same order but evenly spaced.

    Short types may not have enough numbers; nothing is changed then.
    """
    if name not in _CHOOSING or not isinstance(tensor, torch.Tensor) or not tensor.is_floating_point():
        return tensor
    flat = tensor.detach().reshape(-1).clone()
    finite = torch.isfinite(flat)
    values = flat[finite]
    if not tied(torch, values):
        return tensor
    first, last = float(values.min()), float(values.max())
    even = torch.linspace(first, last, values.numel(), dtype=torch.float64).to(tensor.dtype)
    if tied(torch, even):
        return tensor
    values[values.argsort(stable=True)] = even
    flat[finite] = values
    made = tensor.detach().clone()
    return made.copy_(flat.reshape(made.shape)).requires_grad_(tensor.requires_grad)


def has_derivative(torch: Any, name: str, tensor: Any) -> bool:
    """Return whether a derivative can be compared: not where it was chosen from equal elements."""
    return name not in _CHOOSING or not tied(torch, tensor)


def allowed(
    torch: Any, name: str, sample: Any, results: list[Any], expected: list[dict[str, Any]], *, source: Any
) -> list[dict[str, Any]]:
    """Return what results are compared with: their own indices into ``source`` if those are as good."""
    place, number = _INDICES.get(name, (0, len(expected)))
    if number >= len(expected) or sample.kwargs.get("stable"):
        return expected
    dim = int(sample.kwargs.get("dim", sample.args[place] if len(sample.args) > place else -1))
    found, wanted = dense(torch, results[number]).cpu(), expected[number]["value"]
    if found.shape != wanted.shape or found.dtype != torch.int64:
        return expected
    right = _as_good(torch, source, dim, found, wanted)
    return [{**one, "value": found} if right and at == number else one for at, one in enumerate(expected)]


def _as_good(torch: Any, source: Any, dim: int, found: Any, wanted: Any) -> bool:
    """Whether indices point to other elements than each other, and to the same values as the reference's."""
    if not source.dim():
        source, dim, found, wanted = source.reshape(1), 0, found.reshape(1), wanted.reshape(1)
    elif found.dim() != source.dim():
        found, wanted = found.unsqueeze(dim), wanted.unsqueeze(dim)
    if bool(((found < 0) | (found >= source.shape[dim])).any()):
        return False
    twice = bool((found.sort(dim).values.diff(dim=dim) == 0).any())
    return not twice and not differ(torch, source.gather(dim, found), source.gather(dim, wanted))


def reordered(torch: Any, name: str, results: list[Any], expected: list[dict[str, Any]]) -> list[Any]:
    """Return eigenvalues and vectors in the order of the reference: each goes to the nearest one."""
    if name != "linalg.eig" or not results or not results[0].numel():
        return results
    found, wanted = dense(torch, results[0]).cpu(), expected[0]["value"]
    if found.shape != wanted.shape:
        return results
    nearest = (found[..., None, :] - wanted[..., :, None]).abs().argmin(-1)
    if bool((nearest.sort(-1).values.diff(dim=-1) == 0).any()):
        return results
    nearest = nearest.to(results[0].device)
    vectors = [one.gather(-1, nearest[..., None, :].expand(one.shape)) for one in results[1:]]
    return [results[0].gather(-1, nearest), *vectors]
