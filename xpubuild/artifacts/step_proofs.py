"""Proofs of steps: environment, compilers, wheel built and installed, XPU in both, ABI, verify."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import Any

from packaging.utils import canonicalize_name, parse_wheel_filename

from xpubuild.artifacts.abi import classify
from xpubuild.artifacts.audit_report import AuditPolicy, raise_for_findings
from xpubuild.artifacts.elf import read_shared_object
from xpubuild.artifacts.installed import wheel_matches_installed
from xpubuild.artifacts.installed_repair import KEEP
from xpubuild.artifacts.site_packages import content_key, installed_dists, quick_problem
from xpubuild.artifacts.wheel import read_wheel
from xpubuild.documents import plain
from xpubuild.engine.environment import base_environment
from xpubuild.engine.files import read_json
from xpubuild.engine.model import SimpleProof
from xpubuild.engine.process import probe
from xpubuild.errors import AuditError, NoXpuError, ToolchainError, VerifyError
from xpubuild.frozen import frozen
from xpubuild.machine.envmark import altered, settings_of


@frozen
class EnvironmentProof(SimpleProof):
    """The environment has its own interpreter of the planned version."""

    words = "environment has its own Python {version}"

    env: str
    version: str

    def check(self) -> dict[str, Any]:
        """Return the version found, and version and content of pip."""
        env = Path(self.env)
        settings = settings_of(env)
        found = next((settings[key][0] for key in ("version", "version_info") if settings.get(key)), "")
        why = f"its interpreter is {found}" if found else "its pyvenv.cfg cannot be read"
        if not (env / "bin" / "python").exists():
            found, why = "", "its interpreter is missing"
        for path, what in altered(env).items():
            found, why = "", f"{path}: {what}"
        if not found.startswith(self.version):
            raise ToolchainError(
                f"the environment {self.env} is not a Python {self.version} environment",
                why=why,
                fix="remove the folder and run the same command again",
                commands=(f"rm -r '{self.env}'",),
            )
        dists = [dist for site in env.glob("lib/python3*/site-packages") for dist in installed_dists(site)]
        pips = (dist for dist in dists if dist.name in KEEP and quick_problem(dist) is None)
        pip = {dist.name: {"version": dist.version, "content": content_key(dist)} for dist in pips}
        return {"python": found, **({"installed": pip} if pip else {})}


def find_wheel(folder: Path, dist: str) -> Path:
    """Return the one wheel of a distribution in a folder.

    Raises:
        AuditError: there is none, or several.
    """
    wanted = canonicalize_name(dist)
    found = [path for path in sorted(folder.glob("*.whl")) if parse_wheel_filename(path.name)[0] == wanted]
    fix = "remove the other files and run the same command again"
    return _only(found, f"{folder} should have one wheel of {dist}", fix)


def _only(found: Sequence[Path], what: str, fix: str) -> Path:
    if len(found) != 1:
        why = f"the folder has: {', '.join(path.name for path in found) or 'none'}"
        raise AuditError(what, why=why, fix=fix, evidence={"wheels": [str(path) for path in found]})
    return found[0]


@frozen
class SameWheelProof(SimpleProof):
    """The installed files are those of the wheel that was built."""

    words = "installed {dist} is the wheel that was built"
    places = frozenset(["wheels"])

    wheels: str
    dist: str
    site_packages: str

    def check(self) -> dict[str, Any]:
        """Return the wheel's name."""
        wheel = find_wheel(Path(self.wheels), self.dist)
        problems = wheel_matches_installed(wheel, Path(self.site_packages))
        if problems:
            raise AuditError(
                f"the installed {self.dist} is not the wheel {wheel.name}",
                why="; ".join(problems[:3]),
                fix="run the same command again to reinstall it",
                evidence={"problems": problems},
            )
        return {"wheel": wheel.name}


@frozen
class AbiOfInstalledProof(SimpleProof):
    """The C++ ABI of an installed distribution, read from the symbols of its libraries."""

    words = "{dist} has C++11 ABI {cxx11_abi} in its symbols"

    dist: str
    folder: str
    cxx11_abi: int

    def key(self) -> dict[str, Any]:
        """Return what the check depends on."""
        return {"proof": "abi", "folder": self.folder, "cxx11_abi": self.cxx11_abi}

    def check(self) -> dict[str, Any]:
        """Return the verdict and the symbol counts of the c10 libraries."""
        counts: Counter[str] = Counter()
        for path in sorted(Path(self.folder).glob("libc10*.so")):
            found = classify(read_shared_object(path))
            counts.update({"new": found.new, "old": found.old})
        verdict = None if not counts else int(counts["new"] > counts["old"])
        if verdict != self.cxx11_abi:
            raise AuditError(
                f"the installed {self.dist} has C++11 ABI {verdict}, the recipe requires {self.cxx11_abi}",
                why=f"{self.folder}: {counts['new']} symbols of the new ABI, {counts['old']} of the old one",
                fix="another build of it was installed: check the index and the wheel folder that pip uses",
            )
        return {"cxx11_abi": verdict, "symbols": dict(counts)}


@frozen
class VerifyProof(SimpleProof):
    """The verify report exists and has no failure."""

    words = "verify found no failure"

    report: str

    def check(self) -> dict[str, Any]:
        """Return the counts by status."""
        document = read_json(Path(self.report))
        if not document:
            why, fix = f"{self.report} cannot be read", "run the same command again and read the log"
            raise VerifyError("verify wrote no report", why=why, fix=fix)
        counts = Counter(check["status"] for check in document["checks"])
        if document["status"] != "pass":
            bad = [check["id"] for check in document["checks"] if check["status"] not in ("pass", "skip")]
            raise VerifyError(
                f"verify found {len(bad)} failures", why=", ".join(bad), fix="read the report for the details"
            )
        return {"status": document["status"], "counts": dict(counts)}


@frozen
class LinksProof(SimpleProof):
    """Each link leads to its program: link -> program."""

    links: Mapping[str, str]

    def describe(self) -> str:
        """Return what is checked."""
        names = " and ".join(Path(link).name for link in self.links)
        return f"{names} are the chosen compilers"

    def check(self) -> dict[str, Any]:
        """Return where the links lead."""
        for link, program in self.links.items():
            if not Path(link).is_file() or Path(link).resolve() != Path(program).resolve():
                raise ToolchainError(
                    f"{link} does not lead to {program}",
                    why="builds would compile with another compiler than the plan says",
                    fix="remove it and run the same command again",
                    commands=(f"rm '{link}'",),
                )
        return {"links": dict(self.links)}


@frozen
class WheelProof(SimpleProof):
    """A step made exactly one wheel, and it passes the audit.

    ``stage`` is the folder the build wrote into, ``pattern`` the wheel's file name with wildcards, ``search``
    are folders with libraries (see ``audit_wheel``).
    """

    places = frozenset(["stage"])

    stage: str
    pattern: str
    policy: AuditPolicy
    search: tuple[str, ...] = ()

    def describe(self) -> str:
        """Return what is checked."""
        parts = ["RECORD", "linkage"]
        if self.policy.cxx11_abi is not None:
            parts.insert(0, f"C++11 ABI {self.policy.cxx11_abi}")
        if self.policy.device_targets is not None:
            parts.append(f"device code for {' '.join(self.policy.device_targets) or 'XPU'}")
        return f"one wheel {self.pattern}, audited: {', '.join(parts)}"

    def key(self) -> dict[str, Any]:
        """Return what the proof depends on."""
        return {**(super().key() or {}), "policy": self.policy.key()}

    def check(self) -> dict[str, Any]:
        """Return the audit as evidence, under ``audit``.

        Raises:
            AuditError: there is no such wheel, there are several, or the audit found an error.
        """
        what = f"the build should have created one wheel {self.pattern} in {self.stage}"
        fix = "run the same command again; if it fails again, the build log says what was packed"
        wheel = _only(sorted(Path(self.stage).rglob(self.pattern)), what, fix)
        # Not at the top: a plan only says that this will be proved.
        from xpubuild.artifacts.audit import audit_wheel  # noqa: PLC0415

        report = audit_wheel(wheel, self.policy, search=[Path(folder) for folder in self.search])
        raise_for_findings(report)
        return {"audit": plain(report)}


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
class XpuWheelProof(SimpleProof):
    """The wheel has libtorch_xpu.so, and kernels of torch-xpu-ops in it or in other libraries."""

    words = "the wheel of torch has XPU kernels"

    folder: str

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
class XpuInstalledProof(SimpleProof):
    """The torch that the interpreter imports was compiled for XPU and the requested GPUs.

    ``arch`` are AOT targets, empty where none were named; ``version`` is what the build was asked to be, if
    anything; ``env`` and ``path_prefix`` are the oneAPI environment, which a torch built on it needs.
    """

    words = "installed torch is compiled for XPU"
    places = frozenset(["python", "env", "path_prefix"])

    python: str
    arch: tuple[str, ...] = ()
    version: str | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    path_prefix: tuple[str, ...] = ()

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
    fix = "find the reason in the log of the build, fix it and run the same command again"
    return NoXpuError(what, why=why, fix=fix, commands=("xpubuild status",))
