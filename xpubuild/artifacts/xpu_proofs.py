"""Checks after a build for XPU: the wheel has kernels, the installed torch is compiled for XPU."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import field
from pathlib import Path
from typing import Any

from xpubuild.artifacts.elf import read_shared_object
from xpubuild.artifacts.step_proofs import find_wheel
from xpubuild.artifacts.wheel import read_wheel
from xpubuild.engine.environment import base_environment
from xpubuild.engine.process import probe
from xpubuild.errors import NoXpuError
from xpubuild.frozen import frozen

_LIBRARY = "torch/lib/libtorch_xpu.so"
# Up to 2.9 the kernels are in libraries of their own beside it; from 2.10 inside of it.
# Source: src/BuildOnLinux.cmake of torch-xpu-ops, branches release/2.5 to release/2.14.
_KERNEL_LIBRARIES = re.compile(r"torch/lib/libtorch[-_]xpu(?:[-_][\w.-]{1,200})?\.so")
# at::native::xpu::<something>_kernel: PyTorch's own part of libtorch_xpu has functions in that namespace, but
# none of that name.
_KERNEL = re.compile(r"_ZN2at6native3xpu\d{1,3}\w{0,200}?_kernel")
_DEADLINE_S = 300.0
_OTHER_VARIANTS = re.compile(r"\+(?:cpu|cu\d|rocm)")

_QUESTION = """
import json
import torch
xpu = getattr(torch, "xpu", None)
compiled = getattr(xpu, "_is_compiled", None)
flags = getattr(torch._C, "_xpu_getArchFlags", None)
print("\\x1e" + json.dumps({
    "version": torch.__version__,
    "compiled": bool(compiled()) if compiled else None,
    "sycl": getattr(torch.version, "xpu", None),
    "arch": (flags() or "").replace(",", " ").split() if flags else None,
    "file": torch.__file__,
}))
"""


@frozen
class XpuWheelProof:
    """The wheel has libtorch_xpu.so, and kernels of torch-xpu-ops in it or in other libraries."""

    folder: str

    def describe(self) -> str:
        """Return what is checked."""
        return "the wheel of torch has XPU kernels"

    def key(self) -> dict[str, Any]:
        """Return what the check depends on."""
        return {"proof": "xpu-wheel", "dist": "torch"}

    def check(self) -> dict[str, Any]:
        """Return the number of kernels by library.

        Raises:
            NoXpuError: there is no libtorch_xpu.so, or no kernel.
            AuditError: the wheel cannot be read.
            NoSpaceError: a library did not fit into the folder for temporary files.
        """
        wheel = find_wheel(Path(self.folder), "torch")
        kernels: dict[str, int] = {}

        def look(name: str, copy: Path) -> None:
            if _KERNEL_LIBRARIES.fullmatch(name):
                symbols = read_shared_object(copy, name=name).symbols.defined
                kernels[name] = sum(1 for symbol in symbols if _KERNEL.match(symbol))

        read_wheel(wheel, look)
        if _LIBRARY not in kernels:
            raise _no_xpu(f"{wheel.name} has no libtorch_xpu.so", "the build continued without XPU")
        if not sum(kernels.values()):
            names = ", ".join(kernels)
            raise _no_xpu(
                f"{wheel.name} has no XPU kernels",
                f"no library ({names}) defines a kernel of torch-xpu-ops: its sources were not compiled",
            )
        return {"xpu_kernels": kernels}


@frozen
class XpuInstalledProof:
    """The torch that the interpreter imports was compiled for XPU and the requested GPUs.

    ``arch`` are AOT targets, empty where none were named; ``version`` is what the build was asked to be, if
    anything; ``env`` and ``path_prefix`` are the oneAPI environment, which a torch built on it needs.
    """

    python: str
    arch: tuple[str, ...] = ()
    version: str | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    path_prefix: tuple[str, ...] = ()

    def describe(self) -> str:
        """Return what is checked."""
        return "installed torch is compiled for XPU"

    def key(self) -> dict[str, Any]:
        """Return what the check depends on."""
        return {"proof": "xpu-installed", "arch": list(self.arch), "version": self.version}

    def check(self) -> dict[str, Any]:
        """Return version, SYCL version and AOT targets as torch itself says them.

        Raises:
            NoXpuError: it cannot be imported, or is not what was asked for.
        """
        answer = self._ask()
        if not answer["compiled"]:
            raise _no_xpu(
                f"the installed torch {answer['version']} is not compiled for XPU",
                f"torch.xpu._is_compiled() of {answer['file']} is {answer['compiled']}",
            )
        wrong = _OTHER_VARIANTS.search(answer["version"]) is not None
        if wrong or (self.version is not None and answer["version"] != self.version):
            wanted = f", {self.version} was built" if self.version else ""
            raise _no_xpu(
                f"the installed torch is {answer['version']}{wanted}",
                f"another torch replaced it: {answer['file']}",
            )
        wanted_targets = {name for name in self.arch if name != "none"}
        missing = [] if answer["arch"] is None else sorted(wanted_targets - set(answer["arch"]))
        if missing:
            raise _no_xpu(
                f"the installed torch has no kernels for {', '.join(missing)}",
                f"it was compiled ahead of time for: {' '.join(answer['arch']) or 'no GPU'}",
            )
        return {"torch": answer}

    def _ask(self) -> dict[str, Any]:
        env = {**base_environment(), **self.env}
        env["PATH"] = ":".join((*self.path_prefix, env["PATH"]))
        # From a folder without files: a torch/ in the current one would be imported instead.
        result = probe((self.python, "-c", _QUESTION), env=env, deadline_s=_DEADLINE_S)
        _, mark, text = result.stdout.rpartition("\x1e")
        if result.ok and mark:
            answer: dict[str, Any] = json.loads(text)
            return answer
        lines = [line for line in result.stderr.splitlines() if line.strip()]
        how = f"timed out after {_DEADLINE_S:.0f} s" if result.timed_out else ""
        why = lines[-1] if lines else how or f"exited with code {result.returncode}"
        error = _no_xpu("the installed torch cannot be imported", why)
        error.commands = (f"'{self.python}' -c 'import torch; print(torch.xpu._is_compiled())'",)
        error.evidence = {"stderr": lines[-20:], "returncode": result.returncode}
        raise error


def _no_xpu(what: str, why: str) -> NoXpuError:
    return NoXpuError(
        what,
        why=why,
        fix="find the reason in the log of the build, fix it and run the same command again",
        commands=("xpubuild status",),
    )
