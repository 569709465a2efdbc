"""Operators that are slightly wrong: what is changed, and when there is anything to change."""

from __future__ import annotations

from typing import Any

from mutation.kernels import Replaced, tensors

MUTATIONS = ("percent", "element", "block", "batch", "stride", "large", "half", "stale", "nan")
LARGE = 2**16


class Breaking:
    """One mutation of the results of an operator; ``stale`` remembers the result before."""

    def __init__(self, torch: Any, mutation: str) -> None:
        self.torch, self.mutation = torch, mutation
        self._earlier: dict[Any, Any] = {}

    def changed(self, result: Any, given: list[Any]) -> Any | None:
        """Return the result as the mutant has it, None where it is no other; ``given`` are the operands."""
        if not self._applies(result, given):
            return None
        if result.dtype == self.torch.complex32:  # which torch does not compute with everywhere
            result = result.to(self.torch.complex64)
        made = self._made(result)
        if made is None:
            return None
        if self.mutation != "nan" and self.torch.equal(made.nan_to_num(7.0), result.nan_to_num(7.0)):
            return None
        return made

    def _applies(self, result: Any, given: list[Any]) -> bool:
        if result.dtype in (self.torch.uint16, self.torch.uint32, self.torch.uint64):
            return False  # the state of a generator: no number that torch computes with
        if self.mutation == "batch":
            return bool(result.dim() and result.shape[0] > 1)
        if self.mutation == "large":
            return bool(result.numel() > LARGE)
        if self.mutation == "stride":
            return any(one.numel() > 1 and not one.is_contiguous() for one in given)
        if self.mutation == "half":
            short = (self.torch.float16, self.torch.bfloat16, self.torch.complex32)
            return any(one.dtype in short for one in (result, *given))
        return self.mutation != "nan" or (rounds(result) and bool(self.torch.isnan(result).any()))

    def _made(self, result: Any) -> Any | None:
        torch, mutation, count = self.torch, self.mutation, result.numel()
        if mutation == "stale":
            key = (result.shape, result.dtype)
            earlier, self._earlier[key] = self._earlier.get(key), result.clone()
            return earlier
        if mutation == "nan":
            return torch.where(torch.isnan(result), torch.zeros_like(result), result)
        chosen = torch.zeros(count, dtype=torch.bool, device=result.device)
        if mutation == "element":
            chosen[count // 2] = True
        elif mutation == "block":
            chosen[-max(1, count // 16) :] = True
        elif mutation == "batch":
            chosen.reshape(result.shape)[1] = True
        elif mutation == "large":
            chosen[LARGE:] = True
        else:
            chosen[:: 1 if rounds(result) else 100] = True
        return torch.where(chosen.reshape(result.shape), self._wrong(result), result)

    def _wrong(self, result: Any) -> Any:
        if result.dtype == self.torch.bool:
            return ~result
        if rounds(result):
            return result * 1.1 + 0.1 if self.mutation == "element" else result * 1.01
        return result + 1


def rounds(tensor: Any) -> bool:
    """Return whether a tensor holds numbers that round."""
    return bool(tensor.is_floating_point() or tensor.is_complex())


class Broken(Replaced):
    """One operator with a mutation; ``met`` says whether a result was changed."""

    def __init__(self, torch: Any, name: str, mutation: str, key: str) -> None:
        super().__init__(torch, [name], key)
        self._breaking, self.met = Breaking(torch, mutation), False

    def after(self, name: str, result: Any, given: list[Any], again: Any) -> Any:
        """Return the result with its mutation."""
        del name, again
        return self._spoil(result, given)

    def _spoil(self, result: Any, given: list[Any]) -> Any:
        if isinstance(result, (tuple, list)):
            return type(result)(self._spoil(one, given) for one in result)
        if not isinstance(result, self.torch.Tensor) or result.numel() == 0:
            return result
        made = self._breaking.changed(result, given)
        if made is None:
            return result
        self.met = True
        return result.copy_(made)


class Recorder(Replaced):
    """All operators as they are; ``found`` says of each that was called what its mutants would change."""

    def __init__(self, torch: Any, names: list[str], key: str) -> None:
        super().__init__(torch, names, key)
        self.found: dict[str, dict[str, Any]] = {}
        self._breaking: dict[str, dict[str, Breaking]] = {}

    def begin(self) -> None:
        """Forget what was found, for the next piece of code."""
        self.found, self._breaking = {}, {}

    def after(self, name: str, result: Any, given: list[Any], again: Any) -> Any:
        """Note which mutations would show, and return the result as it is."""
        del again
        if name not in self.found:
            self.found[name] = {"meets": [], "most": 0}
            self._breaking[name] = {mutation: Breaking(self.torch, mutation) for mutation in MUTATIONS}
        found, left = self.found[name], self._breaking[name]
        for one in tensors(self.torch, [result]):
            found["most"] = max(found["most"], one.numel())
            if one.numel() == 0:
                continue
            for mutation in [*left]:
                if left[mutation].changed(one, given) is not None:
                    found["meets"].append(mutation)
                    del left[mutation]
        return result
