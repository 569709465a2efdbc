"""Trip-wires in a program that another Python runs: ``migrate --prove`` puts this folder on PYTHONPATH.

When the program imports torch, the entry points of CUDA note who calls them, and verify's placement monitor
notes what runs on the device. At the end of the process one JSON line is added to the file of XPUBUILD_PROOF.
"""

from __future__ import annotations

import atexit
import collections
import contextlib
import functools
import importlib.machinery
import importlib.util
import json
import os
import sys
import types
from pathlib import Path
from typing import Any

_MOST_KERNELS = 20
#: These wires and the placement monitor; torch itself is added when it is known where it is.
_NOT_THE_PROGRAM = [__file__, os.environ.get("XPUBUILD_PROOF_SUITE", __file__)]


class Proof:
    """What one process did."""

    def __init__(self) -> None:
        self.trips: collections.Counter[tuple[str, str, int]] = collections.Counter()
        self.device = self.torch = self.error = ""
        self.record: Any = None
        self.module: Any = None
        self.stack = contextlib.ExitStack()
        self.installed = False

    def install(self, torch: Any) -> None:
        """Lay the wires in a torch that was just imported."""
        self.installed, self.torch = True, torch.__version__
        _NOT_THE_PROGRAM.append(str(Path(torch.__file__).parent) + os.sep)
        cuda = torch.cuda
        for name in cuda.__all__:
            value = getattr(cuda, name, None)
            if isinstance(value, types.FunctionType):
                setattr(cuda, name, self._wired(f"torch.cuda.{name}", value))
        for owner, name in (
            (torch.Tensor, "cuda"), (torch.nn.Module, "cuda"), (cuda.amp.autocast, "__init__"),
            (cuda.amp.GradScaler, "__init__"), (cuda.Stream, "__new__"), (cuda.Event, "__new__"),
        ):  # fmt: skip
            with contextlib.suppress(AttributeError, TypeError):
                setattr(owner, name, self._wired(f"{owner.__name__}.{name}", getattr(owner, name)))
        before = sys.excepthook

        def failed(kind: Any, value: Any, trace: Any) -> None:
            self.error = f"{kind.__name__}: {value}".splitlines()[0][:300]
            before(kind, value, trace)

        sys.excepthook = failed
        self._watch(torch)

    def _wired(self, name: str, function: Any) -> Any:
        @functools.wraps(function, updated=())
        def wire(*arguments: Any, **named: Any) -> Any:
            caller = sys._getframe(1)
            if not caller.f_code.co_filename.startswith(tuple(_NOT_THE_PROGRAM)):
                self.trips[name, caller.f_code.co_filename, caller.f_lineno] += 1
            return function(*arguments, **named)

        return wire

    def _watch(self, torch: Any) -> None:
        """Start the placement monitor on the device of this torch; a profile of the program's own ends it."""
        placement, backends = _suite("placement"), _suite("backends")
        name = next((word for word in ("xpu", "cuda") if getattr(torch, word).is_available()), "")
        if not name:
            return
        self.device, self.module = name, getattr(torch, name)
        context = types.SimpleNamespace(
            torch=torch, module=self.module, device=torch.device(name), backend=backends.BACKENDS[name]
        )
        self.record = self.stack.enter_context(placement.recording(context))
        profile, enter = torch.autograd.profiler.profile, torch.autograd.profiler.profile.__enter__

        def entered(own: Any) -> Any:
            self.stack.close()
            return enter(own)

        profile.__enter__ = entered

    def write(self) -> None:
        """Add the line of this process."""
        if not self.installed:
            return
        memory = 0
        with contextlib.suppress(Exception):  # whatever the device says now, the rest is to be reported
            memory = self.module.max_memory_allocated() if self.module else 0
        with contextlib.suppress(Exception):
            self.stack.close()
        names = collections.Counter(self.record.kernels if self.record else ())
        found = {
            "process": os.getpid(), "torch": self.torch, "device": self.device, "error": self.error,
            "memory_bytes": memory, "kernels": names.total(),
            "kernel_names": [name for name, _ in names.most_common(_MOST_KERNELS)],
            "profiled": bool(self.record and self.record.names is not None),
            "fallbacks": sorted(set(self.record.fallbacks)) if self.record else [],
            "to_host": len(self.record.to_host) if self.record else 0,
            "trips": [
                {"call": call, "path": path, "line": line, "count": count}
                for (call, path, line), count in sorted(self.trips.items())
            ],
        }  # fmt: skip
        with Path(os.environ["XPUBUILD_PROOF"]).open("a", encoding="utf-8") as file:
            file.write(json.dumps(found) + "\n")


def _suite(name: str) -> Any:
    """Return a module of verify's suite, which is a package of no name here."""
    package = "xpubuild_verify_suite"
    if package not in sys.modules:
        folder = Path(os.environ["XPUBUILD_PROOF_SUITE"])
        spec = importlib.util.spec_from_file_location(
            package, folder / "__init__.py", submodule_search_locations=[str(folder)]
        )
        sys.modules[package] = importlib.util.module_from_spec(spec)  # type: ignore[arg-type]
    return importlib.import_module(f"{package}.{name}")


class _Finder:
    """Lays the wires when torch has been imported."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        """Return the usual module, whose loader does one thing more."""
        if name != "torch":
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is not None and spec.loader is not None:
            run = spec.loader.exec_module

            def exec_module(module: types.ModuleType) -> None:
                run(module)
                proof.install(module)

            spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


if "XPUBUILD_PROOF" in os.environ:
    proof = Proof()
    sys.meta_path.insert(0, _Finder())
    atexit.register(proof.write)
