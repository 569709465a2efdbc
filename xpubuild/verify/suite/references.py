"""References of the operator tables: in float64 on the CPU, with their sensitivity to changes of the inputs.

Other processes compute them: they are started without ``PYTHONPATH`` and the user's packages, so that
modifications of torch in this process do not change the references, and a crash there fails only a reference.
(Matrix products of torch 2.11 on the CPU crashed once, with CUDA's libraries and many threads.)
"""

from __future__ import annotations

import importlib
import itertools
import json
import os
import signal
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import IO, Any

from .cases import ALL_NAN, NAN_GRADIENT, Call, Case, evaluate, prepared, variants
from .children import Ended, Talking, python
from .context import CheckFaultError, SuiteContext
from .registry import PACKAGES
from .settling import settle

#: By how much inputs change, relative to their size, to see how much results change.
CHANGE = 2.0**-20
_DEADLINE_S = 840
#: Warnings of torch that are not about numbers.
_NOTES = ".*(NumPy|beta|prototype|deprecated|lower the performance|experimental).*"
#: Table -> case -> variant -> results, each with its sensitivity.
STORE: dict[str, dict[str, Any]] = {}
#: Where the other process stores them, once it has run; the harness removes its temporary folder.
_FOLDER: list[str] = []
#: Table -> the process that computes its references.
_MAKING: dict[str, References] = {}
#: Some of upstream's samples are in the order of a set: it has to be the same in both processes.
SAME_ORDER = {"PYTHONHASHSEED": "0"}
_LONGEST = 600
_NUMBERS = itertools.count()


#: Module -> its tables: functions that return cases.
_MODULES = {
    "elements": ("pointwise", "truth"),
    "orders": ("reduce", "order"),
    "moves": ("moves", "updates", "foreach"),
    "linear": ("linear", "algebra"),
    "layers": ("norms", "losses", "convolve", "layers"),
    "workloads": ("attention", "blocks"),
    "decoder": ("decoder",),
}
TABLES = {name: f"tables_{module}" for module, names in _MODULES.items() for name in names}


def table(name: str) -> list[Case]:
    """Return the cases of a table."""
    module = importlib.import_module(f".{TABLES[name]}", __package__)
    return list(getattr(module, name)(importlib.import_module("torch")))


def references(context: SuiteContext, name: str) -> dict[str, Any]:
    """Return the references of a table by case; ``None`` where this torch has no such operator."""
    if name not in STORE:
        STORE[name] = _elsewhere(context, name)
    return STORE[name]


def compute(torch: Any, name: str) -> dict[str, Any]:
    """Compute the references of a table in this process."""
    return {case.name: _of_case(torch, case) for case in table(name)}


def _of_case(torch: Any, case: Case) -> dict[str, Any] | None:
    found: dict[str, Any] = {}
    try:
        for variant in variants(case):
            inputs = prepared(torch, case, variant)
            if variant == ALL_NAN and found.get("nan"):
                continue  # one NaN is enough, and says more
            if variant in ("nan", ALL_NAN):
                found[variant] = _not_a_number(torch, case, inputs)
            elif variant == NAN_GRADIENT:
                found[variant] = nan_gradients(torch, case.reference or case.call, inputs)
            else:
                seeds = (3,) if variant == "large" else (3, 4)
                made = _with_sensitivity(torch, case, inputs, seeds)
                found[variant] = [_small(torch, case, variant, *pair) for pair in made]
    except Warning as error:
        return {"fault": f"{case.name}: its reference warned: {error}"}
    except (AttributeError, RuntimeError, TypeError, NotImplementedError) as error:
        # An older torch, without the operator or one of its arguments. Errors of the tables are
        # found by the tests, which expect no such result.
        return {"absent": f"{type(error).__name__}: {error}"[:300]}
    return found


def _quiet(torch: Any, case: Case, inputs: list[Any], *, grad: bool, seed: int | None = None) -> Any:
    """Return results and gradients; a warning is an error, except for notes on future changes."""

    number = itertools.count()

    def move(tensor: Any) -> Any:
        # Other signs for each input: a quotient does not change if both inputs change alike.
        return tensor.clone() if seed is None else _moved(torch, tensor, 100 * next(number) + seed)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for kind in (DeprecationWarning, FutureWarning):
            warnings.simplefilter("ignore", kind)
        warnings.filterwarnings("ignore", message=_NOTES)
        call = case.reference or case.call
        return evaluate(torch, call, [move(one) for one in inputs], grad=grad, moved=move)


def _with_sensitivity(
    torch: Any, case: Case, inputs: list[Any], seeds: tuple[int, ...]
) -> list[tuple[Any, Any]]:
    """Return each result and gradient with its change per relative change of the inputs."""
    results, gradients = _quiet(torch, case, inputs, grad=case.grad)
    both = [*results, *gradients]
    spread = [None if case.exact or not _rounds(one) else torch.zeros_like(one.abs()) for one in results]
    spread += [torch.zeros_like(one.abs()) for one in gradients]
    if case.exact and not gradients:
        return [(one, None) for one in both]
    for seed in seeds:
        moved = _quiet(torch, case, inputs, grad=case.grad, seed=seed)
        for number, (one, other) in enumerate(zip(both, [*moved[0], *moved[1]])):
            if spread[number] is not None:
                spread[number] = torch.maximum(spread[number], (other - one).abs() / CHANGE)
    return [(one.resolve_conj(), other) for one, other in zip(both, spread)]


def _small(torch: Any, case: Case, variant: str, one: Any, spread: Any) -> tuple[Any, Any]:
    """Return a reference and its sensitivity in the types that take the least memory.

    Sensitivities are estimates. Large inputs are run in float32 alone, whose limits are 8 roundings and more.
    """
    if variant == "large" and one.dtype == torch.float64 and case.types[0] == "float32":
        one = one.float()
    return one, None if spread is None else spread.bfloat16()


def _rounds(tensor: Any) -> bool:
    return bool(tensor.is_floating_point() or tensor.is_complex())


def _moved(torch: Any, tensor: Any, seed: int) -> Any:
    if not _rounds(tensor):
        return tensor.clone()
    generator = torch.Generator().manual_seed(seed)
    signs = torch.randint(0, 2, tensor.shape, generator=generator).double() * 2 - 1
    return tensor * (1 + CHANGE * signs)


def _not_a_number(torch: Any, case: Case, inputs: list[Any]) -> list[Any] | None:
    """Return where results are NaN; None if none is, or if the operator rejects NaN."""
    try:
        results, _ = _quiet(torch, case, inputs, grad=False)
    except (RuntimeError, ValueError):
        return None
    found = [torch.isnan(one) if _rounds(one) else None for one in results]
    return found if any(one is not None and bool(one.any()) for one in found) else None


def nan_gradients(torch: Any, call: Call, inputs: list[Any]) -> list[Any]:
    """Return for each gradient whether any element is NaN, if the gradients of the results are all NaN."""

    def spoil(weight: Any) -> Any:
        return torch.full_like(weight, float("nan"))

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        gradients = evaluate(torch, call, inputs, grad=True, moved=spoil)[1]
    return [torch.isnan(one).any().cpu() for one in gradients]


def _elsewhere(context: SuiteContext, name: str) -> dict[str, Any]:
    """Return the references of a table from another process; those that are needed later are started too.

    Tables are spread over processes: two cores for each, since the device's checks run at the same time.
    """
    if not _FOLDER:
        _FOLDER.append(tempfile.mkdtemp(prefix="references-"))
    if name not in _MAKING:
        planned = [identifier.partition(".")[2] for identifier in context.planned]
        ahead = [one for one in planned if one in TABLES and one not in _MAKING and one not in STORE]
        names = list(dict.fromkeys([name, *ahead]))
        count = max(1, min(len(names), len(os.sched_getaffinity(0)) // 2))
        made = [References(context.torch, "cpu", Path(_FOLDER[0]), _DEADLINE_S) for _ in range(count)]
        for number, one in enumerate(names):
            _MAKING[one] = made[number % count]
            made[number % count].ask("table", one)
    others = _MAKING.pop(name)
    found: dict[str, Any] = others.get("table", name)
    if others not in _MAKING.values():
        others.end()
    return found


class References:
    """A process that computes the requested references, in order, while this one continues.

    It is isolated: modifications of the torch under test do not change the references. If it dies
    or hangs, another one computes the rest.
    """

    def __init__(self, torch: Any, device: str, folder: Path, deadline_s: float) -> None:
        self._torch, self._device, self._folder, self._deadline_s = torch, device, folder, deadline_s
        self._process: Talking | None = None
        self._asked: dict[tuple[str, ...], int] = {}
        self._stored = -1

    def ask(self, *words: str) -> None:
        """Ask for something: ("table", its name), or ("operator", its name, a type)."""
        self._asked[words] = number = next(_NUMBERS)
        self._send(number, words)

    def get(self, *words: str) -> Any:
        """Wait for a requested reference and return it.

        Raises:
            CheckFaultError: there is none; the message says why.
        """
        number = self._asked.pop(words)
        path = self._folder / f"{number}.pt"
        if not self._wait(number):
            status = self.end()
            for other, again in self._asked.items():
                self._send(again, other)
            late = status == -signal.SIGKILL
            raise CheckFaultError(Ended(status, late, "").describe("the process for references on the CPU"))
        found = self._torch.load(path, weights_only=False)
        path.unlink()
        if isinstance(found, str):
            raise CheckFaultError(found)
        return found

    def end(self) -> int:
        """End the process and return its status."""
        process, self._process = self._process, None
        return process.end() if process is not None else 0

    def _send(self, number: int, words: tuple[str, ...]) -> None:
        if self._process is None:
            packages = ("torch", *(PACKAGES["database"] if words[0] == "operator" else ()))
            places = [str(importlib.import_module(one).__file__) for one in packages]
            homes = os.pathsep.join(dict.fromkeys(str(Path(one).parent.parent) for one in places))
            script = Path(__file__).with_name("run.py")
            command = python(script, "--references", self._folder, homes, self._device)
            # Like -I, which would ignore the hash seed too. One thread: on a busy machine each operator
            # would wait for the others.
            clean = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
            self._process = Talking(
                [command[0], "-s", *command[1:]], {**clean, **SAME_ORDER, "OMP_NUM_THREADS": "1"}
            )
        self._process.send(json.dumps([number, *words]).encode())

    def _wait(self, number: int) -> bool:
        """Wait until a reference is stored; the other process reports their numbers in order of request."""
        end = time.monotonic() + self._deadline_s
        while self._process is not None and self._stored != number:
            line = self._process.line(end - time.monotonic())
            if not line:
                return False
            self._stored = int(line)
        return self._process is not None


def own_output() -> IO[str]:
    """Return the standard output for records; what anything else prints goes to standard error."""
    kept = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    return kept


def serve(folder: str, device: str) -> None:
    """Compute what ``References`` requests, one list per line of standard input; report what is stored."""
    output = own_output()
    torch = importlib.import_module("torch")
    settle(torch)
    for line in sys.stdin:
        number, kind, *words = json.loads(line)
        try:
            if kind == "table":
                found: Any = compute(torch, words[0])
            else:
                found = importlib.import_module(".database_reference", __package__).compute(
                    torch, *words, device
                )
        except Exception as error:  # noqa: BLE001 - upstream's samples may not be available here
            found = f"{type(error).__name__}: {error}".splitlines()[0][:_LONGEST]
        path = Path(folder) / f"{number}.pt"
        try:
            torch.save(found, path)
        except RuntimeError as error:
            torch.save(f"it cannot be stored: {error}"[:_LONGEST], path)
        output.write(f"{number}\n")
