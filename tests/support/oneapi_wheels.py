"""oneAPI installations made of Intel's own wheels: real headers and libraries in the installer's layout.

The wheels come from the package index that this machine's pip uses, at the hashes of
``oneapi_wheels.yaml``. Two things in such a tree are not Intel's, since no wheel has them: the scripts
(``env/vars.sh``, those of ``oneapi_standin``) and the compiler ``icpx``, a stand-in that records its
arguments (``icpx_recorder.py``).

No wheel of intel-pti has headers or a CMake package, so that component has libraries alone.
"""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from integration import oneapi_standin as standin

from support.data_files import loaded
from support.shared import fetched, once

_RECORDER = Path(__file__).with_name("icpx_recorder.py")
_TABLE = Path(__file__).with_name("oneapi_wheels.yaml")


@dataclass(frozen=True)
class Wheel:
    """A wheel by distribution and version; ``only`` are patterns of the files of it that a tree has."""

    name: str
    version: str
    sha256: str
    only: str = "include/|lib/"
    tag: str = "manylinux_2_28_x86_64"

    @property
    def file(self) -> str:
        return f"{self.name.replace('-', '_')}-{self.version}-py2.py3-none-{self.tag}.whl"


@functools.cache
def lines() -> dict[str, Any]:
    table = loaded(_TABLE)
    assert isinstance(table, dict)
    return table


#: Without libOpenCL, whose wheel is by far the largest, and without oneCCL.
SMALL = ("compiler", "umf", "pti", "mkl")
_LARGE = frozenset({"intel-opencl-rt"})


@dataclass(frozen=True)
class Tree:
    """An installation; ``record`` is the file into which its icpx writes what it is asked for."""

    root: Path
    record: Path

    def component(self, name: str, version: str = "latest") -> Path:
        return (self.root / name / version).resolve()

    def calls(self) -> list[list[str]]:
        """Return the argument lists of every call of the compiler so far."""
        if not self.record.exists():
            return []
        return [line.split("\x1f") for line in self.record.read_text("utf-8").splitlines()]


def build(
    root: Path, shared: Path, names: Sequence[str], *, components: Iterable[str] = SMALL, opencl: bool = False
) -> Tree:
    """Install components of some lines below ``root``, side by side; ``latest`` leads to the last line.

    ``shared`` is where wheels are unpacked once. The files of the tree are links to these, so a test may
    remove any of them, but must not write into one. ``opencl`` adds libOpenCL.so.
    """
    tree = Tree(root, root.with_name(f"{root.name}.icpx"))
    for name in names:
        for component in components:
            if component in lines()[name]["components"]:
                version = add(tree, shared, name, component, opencl=opencl)
                standin.point_latest(root, component, version)
    standin.add_setvars(root)
    return tree


def add(tree: Tree, shared: Path, line: str, component: str, *, opencl: bool = False) -> str:
    """Install a component of a line; return the version that its folder is named after."""
    found = lines()[line]["components"][component]
    version = str(found["folder"])
    standin.add_component(tree.root, component, version, latest=False)
    folder = tree.root / component / version
    for wheel in (Wheel(**item) for item in found["wheels"]):
        if wheel.name not in _LARGE or opencl:
            _link(_unpacked(wheel, shared), folder)
    if component == "compiler":
        _add_compilers(folder / "bin", lines()[line]["icpx"], tree.record)
    return version


def _add_compilers(folder: Path, says: str, record: Path) -> None:
    for name in ("icx", "icpx"):
        program = folder / name
        program.unlink(missing_ok=True)
        text = _RECORDER.read_text("utf-8").replace("@SAYS@", says).replace("@RECORD@", str(record))
        standin.write(program, f"#!{sys.executable}\n{text}", mode=0o755)


def _link(source: Path, target: Path) -> None:
    """Put the files of an unpacked wheel into a component; links stay links, and lead nowhere else."""

    def link(old: str, new: str) -> None:
        if Path(old).is_symlink():
            Path(new).symlink_to(Path(old).readlink())
        else:
            os.link(old, new)

    shutil.copytree(source, target, copy_function=link, symlinks=False, dirs_exist_ok=True)


def _unpacked(wheel: Wheel, shared: Path) -> Path:
    return once(shared / "unpacked", f"{wheel.name}-{wheel.version}", lambda into: _unpack(wheel, into))


def _unpack(wheel: Wheel, into: Path) -> None:
    """Unpack what an installer would put below a component's folder; equal libraries become links again."""
    into.mkdir(parents=True)
    wanted = re.compile(rf"[^/]+\.data/data/((?:{wheel.only}).*[^/a])$")
    path = fetched("wheels", wheel.file, lambda into: _fetch(wheel, into))
    with zipfile.ZipFile(path) as archive:
        members = [(found[1], item) for item in archive.infolist() if (found := wanted.match(item.filename))]
        first: dict[tuple[str, int, int], str] = {}
        # The longest name is that of the file, the others are the links that a wheel cannot have.
        for name, item in sorted(members, key=lambda pair: -len(pair[0])):
            target = into / name
            target.parent.mkdir(parents=True, exist_ok=True)
            key = (name.split(".so")[0], item.CRC, item.file_size)
            if ".so" in name and key in first:
                target.symlink_to(Path(first[key]).name)
                continue
            first.setdefault(key, name)
            with archive.open(item) as source, target.open("wb") as sink:
                shutil.copyfileobj(source, sink, 1 << 20)
    for library in sorted(into.rglob("*.so.*")):
        plain = library.with_name(f"{library.name.split('.so.')[0]}.so")
        if not plain.exists() and "-gdb" not in library.name:
            plain.symlink_to(library.name)  # the installer's, for linking; some wheels leave it out


def _fetch(wheel: Wheel, into: Path) -> None:
    pins = into / "wheel.txt"
    pins.write_text(f"{wheel.name}=={wheel.version} --hash=sha256:{wheel.sha256}\n", "utf-8")
    argv = [
        sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:",
        "--no-cache-dir", "--disable-pip-version-check", "--require-hashes", "--dest", str(into),
        "--requirement", str(pins),
    ]  # fmt: skip
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stderr
