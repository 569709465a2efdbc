"""Small wheels for the tests of ``check --repair``: an extension, and a runtime beside it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from support.artifacts import compile_shared, pack

#: In every object that the builder made, as RPATH: no machine has it.
BUILDER = "/opt/builder-of-tests/lib"
_INIT = b"""import ctypes, pathlib
value = ctypes.CDLL(str(pathlib.Path(__file__).with_name("ext.so"))).answer()
"""


@dataclass(frozen=True)
class Parts:
    """An extension that needs libacme.so.1, which needs libacme_core.so.1: each in a wheel of its own.

    The libraries of the two wheels are installed beside site-packages, as Intel's are. ``answer()`` is 42
    with them; the ``decoy`` folder has a libacme.so.1 with which it is 1.
    """

    wheels: Path
    extension: Path
    wheel: Path
    decoy: Path


def parts(folder: Path) -> Parts:
    wheels = folder / "wheels"
    core = library(folder, "libacme_core.so.1", "int core() { return 40; }")
    acme = library(folder, "libacme.so.1", "int core(); int acme() { return core() + 1; }", core)
    decoy = library(folder / "decoy", "libacme.so.1", "int acme() { return 0; }")
    for name, version, path in (("acme_core", "3.0", core), ("acme_rt", "1.2", acme)):
        pack(wheels, name, version, {f"{name}-{version}.data/data/lib/{path.name}": path.read_bytes()})
    extension = compile_shared(
        folder / "ext.so",
        'extern "C" { int acme(); int answer() { return acme() + 1; } }',
        flags=[f"-Wl,-rpath,{BUILDER}", f"-Wl,-rpath-link,{folder}"],
        libraries=[str(acme)],
    )
    wheel = extension_wheel(folder / "dist", extension)
    return Parts(wheels, extension, wheel, decoy.parent)


def library(folder: Path, name: str, source: str, *needs: Path) -> Path:
    return compile_shared(
        folder / name,
        source,
        flags=[f"-Wl,-soname,{name}", "-Wl,--no-as-needed"],
        libraries=[str(path) for path in needs],
        suffix=".c",
    )


def extension_wheel(folder: Path, extension: Path, more: Mapping[str, bytes] | None = None) -> Path:
    """Pack a package whose ``value`` is what the extension answers."""
    files = {"pkg/__init__.py": _INIT, "pkg/ext.so": extension.read_bytes(), **(more or {})}
    return pack(folder, "pkg", "1.0", files)


def environment(folder: Path) -> Path:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    return folder


def install(where: Path, *what: Path | str, wheels: Path, target: Path | None = None) -> None:
    """Install with pip from a folder of wheels alone, in an environment or with --target."""
    to = ["--target", str(target)] if target is not None else []
    argv = [sys.executable, "-m", "pip", "--python", str(where / "bin/python"), "--isolated", "install"]
    argv += ["--quiet", "--no-index", "--no-compile", "--find-links", str(wheels), *to, *map(str, what)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def answer(env: Path, *, path: Path | None = None, library_path: Path | None = None) -> str:
    """Import the package in an environment; return its value, or the last line of the error."""
    variables = {"LD_LIBRARY_PATH": str(library_path)} if library_path else {}
    variables |= {"PYTHONPATH": str(path)} if path else {}
    argv = [str(env / "bin/python"), "-B", "-c", "import pkg; print(pkg.value)"]
    done = subprocess.run(argv, env=variables, capture_output=True, text=True, check=False)
    return (done.stdout or done.stderr).strip().splitlines()[-1]


def site(env: Path) -> Path:
    (found,) = env.glob("lib/python3*/site-packages")
    return found
