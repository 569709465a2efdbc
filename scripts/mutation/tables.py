"""The cases of the operator tables as a judge of broken operators, with references of the unbroken torch.

References and records are kept in a folder, for every run with the same torch, device and tables: another
seed does not make them again, and an interrupted run goes on where it was.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import os
import sys
import time
from pathlib import Path
from typing import Any

from mutation.broken import Recorder
from mutation.kernels import operators
from mutation.probe import Probe
from mutation.spread import append, read, share

ROOT = Path(__file__).resolve().parents[2]
SUITE = ROOT / "xpubuild" / "verify" / "suite"
TABLES = (
    "pointwise", "truth", "reduce", "order", "moves", "linear", "algebra", "norms", "losses", "convolve",
    "layers", "updates", "foreach", "attention",
)  # fmt: skip
WHOLE = ("random", "grad_scaler")
#: What all references are made with, and what cases are run with.
_MADE_WITH, _RUN_WITH = ("cases", "references"), ("operators", "tolerance", "ways")
_PROBED = 3


class OutOfTimeError(Exception):
    """The time of ``--seconds`` is over; what was recorded is kept."""


def load_suite() -> str:
    """Import the suite under its own name and return that."""
    spec = importlib.util.spec_from_file_location("run_of_suite", SUITE / "run.py")
    if spec is None or spec.loader is None:
        raise ImportError(str(SUITE))
    run = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(run)
    run._load_suite()
    return str(run._PACKAGE)


def digest(*paths: Path) -> str:
    """Return a digest of the contents of files."""
    return hashlib.sha256(b"\0".join(path.read_bytes() for path in paths)).hexdigest()[:12]


def _digest_of(*modules: str) -> str:
    return digest(*(SUITE / f"{name}.py" for name in modules))


class Lines:
    """A file of JSON lines, one for each piece of work. What ended the process is not begun again."""

    def __init__(self, path: Path, end: float) -> None:
        self._path, self._end = path, end
        lines = read(path)
        self.of: dict[str, Any] = {one["key"]: one.get("found") for one in lines}
        for one in lines:
            if one.get("stopped") and self.of[one["key"]] is None:
                del self.of[one["key"]]

    def add(self, key: str, find: Any) -> None:
        """Store what ``find`` returns, unless it is there.

        Raises:
            OutOfTimeError: it is not, and there is no time left.
        """
        if key in self.of:
            return
        if time.monotonic() > self._end:
            raise OutOfTimeError
        append(self._path, {"key": key})
        try:
            self.of[key] = find()
        except BaseException:
            append(self._path, {"key": key, "stopped": True})
            raise
        append(self._path, {"key": key, "found": self.of[key]})


class Bench:
    """The cases of some tables, and which operators they call in which way; ``only`` names a few of them.

    ``turn`` is the phase and the part of it that this process has: only that is made.
    """

    def __init__(
        self,
        device: str,
        cache: Path,
        tables: tuple[str, ...],
        end: float,
        *,
        only: frozenset[str] = frozenset(),
        turn: tuple[str, tuple[int, int]] = ("mutants", (0, 1)),
    ) -> None:
        self.package, self.end, self._only = load_suite(), end, only
        self.torch: Any = importlib.import_module("torch")
        part = {name: importlib.import_module(f"{self.package}.{name}") for name in
                ("operators", "references", "context", "backends", "registry", "settling")}  # fmt: skip
        part["settling"].settle(self.torch)
        self.operators, self.references = part["operators"], part["references"]
        self.checks = part["registry"].discover()
        self.backend = part["backends"].BACKENDS[device]
        self.new_context = lambda: part["context"].SuiteContext(self.backend, frozenset())
        self.context = self.new_context()
        self.context.full_precision()
        self.names, self.left_out = operators(self.torch, self.backend.dispatch_key)
        self.folder = cache / f"{device}-{self.torch.__version__}"
        self.folder.mkdir(parents=True, exist_ok=True)
        self.lines = Lines(self.folder / "recorded.jsonl", end)
        self._keys: dict[tuple[str, str], str] = {}
        self.cases: dict[tuple[str, str], Any] = {}
        self._of: dict[tuple[str, str], Any] = {}
        phase, mine = turn
        for name in share(tables, mine) if phase == "references" else tables:
            self._refer(name)
        if phase == "references":
            return
        if tables == TABLES:
            self._keys |= {("", name): _digest_of("check_operators_random") for name in WHOLE}
        self._record([*share([*self._keys.items()], mine)] if phase == "records" else [*self._keys.items()])

    def _refer(self, name: str) -> None:
        """Load or make the references of a table, in a process of their own, as verify has them."""
        mine = _digest_of(self.references.TABLES[name], *_MADE_WITH)
        cases = [one for one in self.references.table(name) if not self._only or one.name in self._only]
        self.references.STORE[name] = (
            {one.name: self.references._of_case(self.torch, one) for one in cases}
            if self._only
            else self._stored(name, mine)
        )
        mine += _digest_of(*_RUN_WITH)
        self.cases |= {(name, one.name): one for one in cases}
        self._keys |= {(name, one.name): mine for one in cases}

    def _stored(self, name: str, mine: str) -> Any:
        stored = self.folder / f"{name}-{mine}.pt"
        if not stored.is_file():
            if time.monotonic() > self.end:
                raise OutOfTimeError
            made = self.references.references(self.new_context(), name)
            part = stored.with_suffix(f".{os.getpid()}.part")  # another process may make them too
            self.torch.save(made, part)
            part.rename(stored)
        return self.torch.load(stored, weights_only=True)

    def _record(self, keys: list[tuple[tuple[str, str], str]]) -> None:
        """Run everything once with operators as they are, and note what their mutants would change."""
        tool = digest(*(Path(__file__).with_name(f"{name}.py") for name in ("broken", "kernels")))
        with Recorder(self.torch, self.names, self.backend.dispatch_key) as recorder:
            for key, mine in keys:
                line = f"{'/'.join(key)} {mine} {tool}"
                self.lines.add(line, lambda key=key: self._recorded(recorder, key))
                found = self.lines.of[line]
                if not found or found["problem"]:
                    why = found["problem"] if found else "it ended the process"
                    sys.stderr.write(f"not used, it fails on the unbroken torch: {key}: {why}\n")
                else:
                    self._of[key] = found
        self.tool = tool

    def _recorded(self, recorder: Recorder, key: tuple[str, str]) -> dict[str, Any]:
        recorder.begin()
        began = time.monotonic()
        problem = self.run(*key)
        return {"problem": problem, "s": round(time.monotonic() - began, 3), "operators": recorder.found}

    def calling(self, name: str, mutation: str = "") -> list[tuple[str, str]]:
        """Return the cases that call an operator, in a way in which a mutation shows; quick ones first."""
        chosen = [
            key for key, found in self._of.items()
            if name in found["operators"] and (not mutation or mutation in found["operators"][name]["meets"])
        ]  # fmt: skip
        return sorted(chosen, key=lambda key: self._of[key]["s"])

    def cannot(self, name: str, mutation: str) -> str:
        """Return why no result of an operator can have a mutation, "" where it may.

        From the operator's schema, and from what its kernel makes of such operands.
        """
        if mutation in ("batch", "large"):
            most = [self._of[key]["operators"][name]["most"] for key in self.calling(name)]
            return "each of its results is one number" if most and max(most) == 1 else ""
        if mutation not in ("stride", "nan", "half"):
            return ""
        if mutation != "half" and self._without_operands(name):
            return "it takes no tensor"
        said = self._probed(name)[mutation] if self.calling(name) else []
        return "; ".join(said) if "taken" not in said else ""

    def _without_operands(self, name: str) -> bool:
        packet = getattr(self.torch.ops.aten, name)
        schemas = [getattr(packet, one)._schema for one in packet.overloads()]
        return not any(
            "Tensor" in str(one.type) and not (one.alias_info and one.alias_info.is_write)
            for schema in schemas for one in schema.arguments
        )  # fmt: skip

    def _probed(self, name: str) -> dict[str, list[str]]:
        keys = self.calling(name)[:_PROBED]
        line = f"{name} {keys} {self.tool} {digest(Path(__file__).with_name('probe.py'))}"

        def probe() -> dict[str, list[str]]:
            with Probe(self.torch, name, self.backend.dispatch_key) as one:
                for key in keys:
                    self.run(*key)
            return {what: sorted(said) for what, said in one.said.items()}

        self.lines.add(line, probe)
        return self.lines.of[line] or {"nan": [], "half": [], "stride": []}

    def healthy(self) -> bool:
        """Return whether the device still computes: after some errors not in this process."""
        try:
            return bool(self.torch.ones(2, device=self.context.device).tolist() == [1.0, 1.0])
        except RuntimeError:
            return False

    def run(self, table: str, name: str) -> str | None:
        """Run a case, or a whole check where there is no table; return what is wrong."""
        try:
            if not table:
                self.checks[f"operators.{name}"].function(self.new_context())
                return None
            case, expected = self.cases[table, name], self.references.STORE[table][name]
            if "absent" in expected or "fault" in expected:
                return expected.get("fault")
            for run in self.operators._runs(self.context, case, expected):
                try:
                    problem = self.operators._compare(self.context, case, run, expected[run[1]])
                except Exception as error:  # noqa: BLE001 - whatever it raises is seen by the check
                    if self.operators._lacks(error, run[0]):
                        continue
                    return f"{run}: {type(error).__name__}: {error}"[:200]
                if problem:
                    return f"{run}: {problem}"
        except Exception as error:  # noqa: BLE001 - as above
            return f"{type(error).__name__}: {error}"[:200]
        return None
