"""Hosts whose environment is under test: a folder with oneAPI, a Python with packages, a home, made of files.

``EnvHost`` makes the parts and then a ``Look`` of the running machine, with a report that says
what the test says. Everything is small: torch is a folder with a version.py and libraries of a few KB.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from integration import oneapi_standin as standin

from support.doctor_frame import a_check, a_host
from support.small_elf import library
from xpubuild.doctor.kit import Fix, Look, Outcome
from xpubuild.doctor.registry import arranged, select, shipped
from xpubuild.doctor.runner import run_checks
from xpubuild.machine.capacity import CpuFacts, MemoryFacts
from xpubuild.machine.compilers import CompilerFacts, ToolFacts
from xpubuild.machine.disk import DiskFacts, disk_facts
from xpubuild.machine.host_report import PythonReport
from xpubuild.machine.pythons import PythonFacts
from xpubuild.machine.system import OsFacts
from xpubuild.recipe.load import load
from xpubuild.recipe.model import Component, LoadedRecipe

GIB = 1 << 30
GROUPS = ("machine", "oneapi", "toolchain", "shadow", "python", "torch", "caches", "build", "network")
DEBIAN = OsFacts(id="debian", version="12", name="Debian GNU/Linux 12", machine="x86_64", libc="glibc 2.36")


TOOLS = (("cmake", "/usr/bin/cmake", "3.31.6"), ("ninja", "/usr/bin/ninja", "1.12.1"))
NO_GPU = Outcome("fail", "no Intel GPU", fix=Fix("run this on a machine with an Intel GPU"))


def offline(name: str, **urls: str) -> LoadedRecipe:
    """Return a recipe whose sources are folders, except those of the named components."""
    loaded = load(name)
    components = {
        key: _with_url(item, urls.get(key, f"file:///srv/{key}.git"), key in urls)
        for key, item in loaded.recipe.components.items()
    }
    return loaded.model_copy(update={"recipe": loaded.recipe.model_copy(update={"components": components})})


def _with_url(component: Component, url: str, named: bool) -> Component:
    if component.source is None or component.source.embedded:
        return component.model_copy(update={"indexes": [url] if named else []})
    clones = [item.model_copy(update={"url": url}) for item in component.source.configure_time]
    source = component.source.model_copy(update={"url": url, "configure_time": clones})
    return component.model_copy(update={"source": source})


@dataclass
class EnvHost:
    """A host below a folder. ``environ`` and ``facts`` may be changed before ``context`` is called.

    ``free_bytes`` is what its temporary folder has left, whatever the disk of the machine has.
    """

    folder: Path
    environ: dict[str, str] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)
    version: str = "python3.12"
    free_bytes: int = 800 * GIB

    def __post_init__(self) -> None:
        for name in ("home", "tmp", "work"):
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        standin.write(self.folder / "programs" / "git", "#!/bin/sh\necho git version 2.39.5\n", mode=0o755)
        self.environ = {
            "PATH": f"{self.folder / 'programs'}:/usr/bin:/bin",
            "HOME": str(self.folder / "home"),
            "USER": "someone",
            "TMPDIR": str(self.folder / "tmp"),
            "XDG_CONFIG_DIRS": str(self.folder / "etc"),
            # No test may reach an index of packages.
            "PIP_NO_INDEX": "1",
            **self.environ,
        }
        work = str(self.folder / "work")
        self.facts = {
            "os": DEBIAN,
            "cpu": CpuFacts(logical=32, usable=32),
            "memory": MemoryFacts(total_bytes=512 * GIB, usable_bytes=500 * GIB, swap_free_bytes=0),
            "disk": DiskFacts(work, 900 * GIB, 800 * GIB, 10**7, "ext4", "/", read_only=False, noexec=False),
            "compilers": (CompilerFacts("g++", "/usr/bin/g++", "gcc", "13.3.0", "x86_64-linux-gnu"),),
            "tools": tuple(ToolFacts(*tool) for tool in TOOLS),
            **self.facts,
        }
        if "python" not in self.facts:
            self.python()
        versions = ["GLIBCXX_3.4", "GLIBCXX_3.4.32"]
        library(self.system / "libstdc++.so.6", defines=versions)
        library(self.system / "libze_intel_gpu.so.1", wants={"libstdc++.so.6": versions})

    @property
    def system(self) -> Path:
        """The folder that its loader searches by itself: the machine's own libraries are none of its."""
        return self.folder / "system" / "lib"

    @property
    def prefix(self) -> Path:
        return self.folder / "env"

    @property
    def site(self) -> Path:
        return self.prefix / "lib" / self.version / "site-packages"

    @property
    def oneapi_root(self) -> Path:
        return self.folder / "oneapi"

    def python(self, version: str = "3.12.4", **changes: Any) -> None:
        """Make the environment, and report its interpreter."""
        base = self.folder / "base"
        for place in (base / "bin", self.prefix / "bin", self.site):
            place.mkdir(parents=True, exist_ok=True)
        (base / "bin" / "python3.12").write_bytes(b"")
        text = f"home = {base / 'bin'}\ninclude-system-site-packages = false\n"
        (self.prefix / "pyvenv.cfg").write_text(text)
        program = self.prefix / "bin" / "python3"
        program.unlink(missing_ok=True)
        program.symlink_to(base / "bin" / "python3.12")
        include = base / "include" / "python3.12"
        facts = PythonFacts(
            executable=str(program),
            version=version,
            implementation="CPython",
            bits=64,
            free_threaded=False,
            virtual=True,
            base_executable=str(base / "bin" / "python3.12"),
            include=str(include),
            headers=True,
            ensurepip=True,
        )
        self.facts["python"] = PythonReport(replace(facts, **changes), ())

    def real_python(self) -> None:
        """Make the environment's interpreter one that runs: the one that runs the tests."""
        program = Path(os.path.realpath(sys.executable))
        version = f"python3.{sys.version_info.minor}"
        shutil.rmtree(self.prefix)
        self.version = version
        (self.prefix / "bin").mkdir(parents=True)
        self.site.mkdir(parents=True)
        (self.prefix / "bin" / "python3").symlink_to(program)
        (self.prefix / "pyvenv.cfg").write_text(f"home = {program.parent}\n")

    def dist(self, name: str, version: str, *, requires: Iterable[str] = ()) -> Path:
        info = self.site / f"{name.replace('-', '_')}-{version}.dist-info"
        info.mkdir(parents=True)
        lines = [f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}"]
        lines += [f"Requires-Dist: {item}" for item in requires]
        (info / "METADATA").write_text("\n".join(lines) + "\n", "utf-8")
        return info

    def torch(
        self,
        version: str = "2.8.0+xpu",
        *,
        sycl: str = "libsycl.so.8",
        cuda: str = "",
        xpu: bool = True,
        requires: Sequence[str] = ("pytorch-triton-xpu==3.4.0", "intel-sycl-rt==2025.1.1"),
        needed: Sequence[str] = (),
    ) -> Path:
        """Install a torch; for XPU with the packages it requires. Return its folder."""
        folder = self.site / "torch"
        (folder / "lib").mkdir(parents=True)
        told = f"'{cuda}'" if cuda else "None"
        (folder / "version.py").write_text(f"__version__ = '{version}'\ncuda: Optional[str] = {told}\n")
        self.dist("torch", version, requires=requires if xpu else ())
        if not xpu:
            return folder
        up = "$ORIGIN/../../../.."
        library(folder / "lib" / "libc10_xpu.so", needed=[sycl], rpath=up)
        library(folder / "lib" / "libtorch_xpu.so", needed=[sycl, "libc10_xpu.so", *needed], rpath=up)
        library(self.prefix / "lib" / sycl, mark="of pip")
        if requires:
            self.dist("intel-sycl-rt", "2025.1.1")
            self.triton("pytorch-triton-xpu", "3.4.0")
        return folder

    def triton(self, name: str, version: str, *, intel: bool = True) -> None:
        self.dist(name, version)
        backends = self.site / "triton" / "backends"
        (backends / ("intel" if intel else "nvidia")).mkdir(parents=True, exist_ok=True)

    def vision(self, version: str, *, requires: str, cuda: str = "") -> None:
        self.dist("torchvision", version, requires=[requires])
        folder = self.site / "torchvision"
        folder.mkdir()
        told = f"'{cuda}'" if cuda else "None"
        (folder / "version.py").write_text(f"__version__ = '{version}'\ncuda = {told}\n")

    def oneapi(self, versions: Mapping[str, str]) -> Path:
        """Install oneAPI in the component layout, with what CMake looks for."""
        root = standin.build_root(self.oneapi_root, versions)
        self.environ["ONEAPI_ROOT"] = str(root)
        self.complete(root, versions)
        return root

    @staticmethod
    def complete(root: Path, versions: Mapping[str, str]) -> None:
        compiler = root / "compiler" / versions["compiler"]
        header = compiler / "include" / "sycl" / "sycl.hpp"
        header.parent.mkdir(parents=True, exist_ok=True)
        header.write_text("")
        major = {"2024": 7, "2025": 8, "2026": 9}[versions["compiler"][:4]]
        library(compiler / "lib" / f"libsycl.so.{major}", mark=f"of oneAPI {versions['compiler']}")
        (compiler / "lib" / "libsycl.so").symlink_to(f"libsycl.so.{major}")
        if "pti" in versions:
            config = root / "pti" / versions["pti"] / "lib" / "cmake" / "pti" / "PtiConfig.cmake"
            config.parent.mkdir(parents=True, exist_ok=True)
            config.write_text("")

    def source(self, root: Path, versions: Mapping[str, str]) -> None:
        """Set what component scripts of an installation leave in a shell."""
        compiler = root / "compiler" / versions["compiler"]
        self.environ.update(SETVARS_COMPLETED="1", ONEAPI_ROOT=str(root), CMPLR_ROOT=str(compiler))
        self.environ["PATH"] = f"{compiler / 'bin'}:{self.environ['PATH']}"
        before = self.environ.get("LD_LIBRARY_PATH", "")
        self.environ["LD_LIBRARY_PATH"] = f"{compiler / 'lib'}:{before}".rstrip(":")

    def context(self, recipe: LoadedRecipe | None = None, **changes: Any) -> Look:
        """Return the context of this host as the running machine."""
        changes.setdefault("measure", self.measured)
        changes.setdefault("loader", (self.system,))
        return Look(a_host(**self.facts), dict(self.environ), recipe=recipe, **changes)

    def measured(self, path: Path) -> DiskFacts:
        """Return the facts of a real file system, with the kind and the space this host is said to have."""
        return replace(disk_facts(path), free_bytes=self.free_bytes, filesystem="ext4")


def outcomes(context: Look, gpu: Outcome | None = None) -> dict[str, Outcome]:
    """Run the checks of the environment as doctor runs them, with an answer about the GPU (there: None).

    Return id -> what it answered.
    """
    checks = [a_check("gpu.present", gpu), *(check for check in shipped() if check.group in GROUPS)]
    results = run_checks(context, select(arranged(checks)))
    return {item.id: Outcome(item.status, item.detail, item.evidence, item.fix) for item in results}


def findings(context: Look, gpu: Outcome | None = None) -> dict[str, str]:
    """Return id -> status of every check that found something, or broke."""
    found = outcomes(context, gpu)
    return {name: item.status for name, item in found.items() if item.status not in ("ok", "skip")}
