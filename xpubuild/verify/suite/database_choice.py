"""Results of the operator database that are not unique: which of several equal elements, which order.

Where values tie, torch does not say which element ``sort``, ``topk`` or ``median`` choose, and devices
differ. Inputs are made distinct where their type has enough numbers between the least and the greatest; else
an index is right if the element it points to is. Gradients follow from the elements that were chosen.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .database_calls import dense, differ

#: Operator -> place of ``dim`` among its arguments, number of the result with indices.
_INDICES = {
    "sort": (0, 1), "argsort": (0, 0), "topk": (1, 1), "kthvalue": (1, 1), "mode": (0, 1), "median": (0, 1),
    "nanmedian": (0, 1),
}  # fmt: skip
#: Operators that choose elements and do not tell which.
_SILENT = ("msort", "quantile", "nanquantile", "masked.median")


def tied(torch: Any, tensor: Any) -> bool:
    """Return whether some finite numbers are equal."""
    values = tensor.detach().reshape(-1)
    values = values[torch.isfinite(values)].sort().values
    return bool((values[1:] == values[:-1]).any())


def made_distinct(torch: Any, name: str, tensor: Any) -> Any:
    """Return the input of an operator that chooses elements, in the same order but evenly spaced.

    ``mode`` counts equal elements and keeps them. Short types may not have enough numbers; nothing is changed
    then.
    """
    chooses = (name in _INDICES or name in _SILENT) and name != "mode"
    if not chooses or not isinstance(tensor, torch.Tensor) or not tensor.is_floating_point():
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
    """Return whether a derivative can be compared: not where equal elements are chosen from in silence."""
    return name not in _SILENT or not tied(torch, tensor)


def _indices(name: str, sample: Any, results: list[Any]) -> tuple[int, int] | None:
    """Return (dimension, number of the result) of free indices; None where each is determined."""
    place, number = _INDICES.get(name, (0, len(results)))
    if number >= len(results) or sample.kwargs.get("stable"):
        return None
    given = sample.args[place] if len(sample.args) > place else -1
    return int(sample.kwargs.get("dim", given)), number


def _lines(source: Any, dim: int, index: Any) -> tuple[Any, int, Any]:
    """Return source, dimension and indices with as many dimensions as the source, at least one."""
    if not source.dim():
        return source.reshape(1), 0, index.reshape(1)
    return source, dim, index if index.dim() == source.dim() else index.unsqueeze(dim)


def _agree(torch: Any, source: Any, dim: int, pair: tuple[Any, Any], *, often: bool) -> bool:
    """Whether indices point to other elements than each other, and to the same values as the reference's."""
    found, wanted = pair
    if found.shape != wanted.shape or found.dtype != torch.int64:
        return False
    _, _, wanted = _lines(source, dim, wanted)
    source, dim, found = _lines(source, dim, found)
    if bool(((found < 0) | (found >= source.shape[dim])).any()):
        return False
    if bool((found.sort(dim).values.diff(dim=dim) == 0).any()):
        return False
    pairs = [source.gather(dim, one) for one in (found, wanted)]
    if often:  # any of those that are there most often
        pairs = [(source == one).sum(dim) for one in pairs]
    return not differ(torch, *pairs)


@dataclass(frozen=True)
class Choice:
    """What an operator chose of its input: ``source`` is that of ``sample`` in the type under test."""

    torch: Any
    name: str
    sample: Any
    source: Any

    def _right(self, results: list[Any], expected: list[dict[str, Any]]) -> tuple[int, int, Any] | None:
        """Return (dimension, number of the result, indices) of a choice as good as the reference's."""
        free = _indices(self.name, self.sample, expected)
        if free is None:
            return None
        dim, number = free
        found = dense(self.torch, results[number]).cpu()
        pair = found, expected[number]["value"]
        if not _agree(self.torch, self.source, dim, pair, often=self.name == "mode"):
            return None
        return dim, number, found

    def allowed(self, results: list[Any], expected: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Return what results are compared with: their own choice if it is right."""
        right = self._right(results, expected)
        if right is None:
            return expected
        (dim, number, found), made = right, list(expected)
        made[number] = {**expected[number], "value": found}
        if self.name == "mode":
            lines, dim, index = _lines(self.source, dim, found)
            chosen = lines.gather(dim, index).reshape(found.shape)
            made[0] = {**expected[0], "value": chosen.to(expected[0]["value"].dtype)}
        return made

    def gradient(self, results: list[Any], record: dict[str, Any]) -> list[dict[str, Any]]:
        """Return the expected gradients: the weights where a right choice points to."""
        values: list[dict[str, Any]] = record["backward"]["values"]
        weight, *more = record["backward"]["weights"]
        right = self._right(results, record["results"])
        if right is None or more or len(values) != 1:
            return values
        lines, dim, index = _lines(self.source, right[0], right[2])
        made = self.torch.zeros(lines.shape, dtype=weight.dtype)
        made.scatter_(dim, index, weight.reshape(index.shape))
        return [{"value": made.reshape(self.source.shape), "spread": None}]


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
