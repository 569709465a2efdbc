"""What an operator's kernel makes of other operands than it is given: what no mutant of it can show."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from mutation.broken import rounds
from mutation.kernels import Replaced, tensors

_PROBED_CALLS = 3


class Probe(Replaced):
    """One operator as it is; ``said`` tells what it makes of other operands.

    ``nan``: all are NaN, ``half``: all are of short types, ``stride``: none is contiguous.
    """

    def __init__(self, torch: Any, name: str, key: str) -> None:
        super().__init__(torch, [name], key)
        self.said: dict[str, set[str]] = {"nan": set(), "half": set(), "stride": set()}
        self._calls = 0

    def after(self, name: str, result: Any, given: list[Any], again: Any) -> Any:
        """Try the kernel with other operands, and return the result as it is."""
        del name
        if given and self._calls < _PROBED_CALLS:
            self._calls += 1
            # Integers beside numbers that round are places; alone they are what is computed with.
            numbers = any(map(rounds, given))
            self.said["stride"].add(self._strided(again))
            for what, change in self._changes():
                self.said[what].add(
                    self._tried(
                        what,
                        again,
                        lambda one, change=change: change(one) if rounds(one) or not numbers else one.clone(),
                    )
                )
        return result

    def _changes(self) -> Iterator[tuple[str, Any]]:
        torch, nan = self.torch, float("nan")
        yield "nan", lambda one: torch.full_like(one, nan, dtype=one.dtype if rounds(one) else torch.float32)
        for dtype in (torch.float16, torch.bfloat16):
            yield "half", lambda one, dtype=dtype: one.to(torch.complex32 if one.is_complex() else dtype)

    def _apart(self, one: Any) -> Any:
        """Return a tensor with a gap behind each element."""
        wide = one.new_zeros((*one.shape, 2))
        wide[..., 0] = one
        return wide[..., 0]

    def _strided(self, again: Any) -> str:
        """Return whether the kernel computes the same with operands that are not contiguous."""
        said = self._tried("stride", again, self._apart)
        if said != "taken":
            return said
        once, twice, apart = (
            tensors(self.torch, [again(change)]) for change in (self._clone, self._clone, self._apart)
        )
        if not self._same(once, twice):
            return "taken"  # its results are random
        return "taken" if self._same(once, apart) else "other results than of contiguous operands"

    def _clone(self, one: Any) -> Any:
        return one.clone(memory_format=self.torch.contiguous_format)

    def _same(self, one: list[Any], other: list[Any]) -> bool:
        torch = self.torch
        return all(
            a.shape == b.shape
            and (torch.allclose(a, b, 1e-3, 1e-5, equal_nan=True) if rounds(a) else torch.equal(a, b))
            for a, b in zip(one, other, strict=True)
        )

    def _tried(self, what: str, again: Any, change: Any) -> str:
        try:
            result = again(change)
        except Exception as error:  # noqa: BLE001 - whatever a kernel refuses operands with
            return f"refused: {str(error).splitlines()[0] if str(error) else type(error).__name__}"[:120]
        if what != "nan":
            return "taken"
        numbers = [one for one in tensors(self.torch, [result]) if rounds(one)]
        if not numbers:
            return "no result is of a floating-point type"
        lost = not any(bool(self.torch.isnan(one).any()) for one in numbers)
        return "NaN in all operands gives none" if lost else "taken"
