"""The host compilers as a build for XPU gets them: under their plain names, and known to icpx.

oneDNN's GPU build takes ``g++`` by that name (DNNL_DPCPP_HOST_COMPILER in PyTorch's FindMKLDNN.cmake), and
icpx takes the newest GCC that the system has, with its headers, whatever CXX says.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping
from pathlib import Path

from xpubuild.engine.environment import base_environment
from xpubuild.engine.process import probe
from xpubuild.errors import ToolchainError
from xpubuild.install.request import Compilers, OneapiFacts
from xpubuild.machine.compilers import HostCompilers

_SELECTED = re.compile(r"^Selected GCC installation: (.+)$", re.MULTILINE)
_CONFIGURED = ("icx", "icpx")


def build_compilers(compilers: HostCompilers, oneapi: OneapiFacts | None) -> Compilers:
    """Return the compilers with what is needed so that a build uses no other GCC beside them."""
    found = Compilers(
        cc=compilers.cc.path,
        cxx=compilers.cxx.path,
        version=compilers.cxx.version,
        key=compilers.relevant(),
        kind=compilers.cxx.kind,
    )
    if oneapi is None or compilers.cxx.kind != "gcc":
        return found
    environment = {**base_environment(), **oneapi.env}
    environment["PATH"] = os.pathsep.join((*oneapi.path_prefix, environment["PATH"]))
    named = {"gcc": found.cc, "g++": found.cxx}
    differ = any(
        not _is_same(shutil.which(name, path=environment["PATH"]), path) for name, path in named.items()
    )
    own, selected = _install_dir(found.cxx, environment), _selected(environment)
    other = differ if selected is None else not _is_same(selected, own)
    config = _config(own, environment) if own and other else {}
    key = {**found.key, **({"icx": own} if config else {})}
    return Compilers(
        found.cc, found.cxx, found.version, key, found.kind, names=named if differ else {}, config=config
    )


def _is_same(one: str | None, other: str) -> bool:
    return one is not None and Path(one).resolve() == Path(other).resolve()


def _install_dir(cxx: str, environment: Mapping[str, str]) -> str:
    """Return lib/gcc/TRIPLE/VERSION of a GCC; empty where it does not say."""
    said = _output([cxx, "-print-libgcc-file-name"], environment).strip()
    folder = Path(said).parent
    return str(folder.resolve()) if folder.is_absolute() and (folder / "crtbegin.o").exists() else ""


def _selected(environment: Mapping[str, str]) -> str | None:
    icpx = shutil.which("icpx", path=environment["PATH"])
    found = _SELECTED.search(_output([icpx, "-v"], environment)) if icpx else None
    return found[1].strip() if found else None


def _output(argv: list[str], environment: Mapping[str, str]) -> str:
    try:
        result = probe(argv, env=environment)
    except ToolchainError:
        return ""
    return f"{result.stdout}\n{result.stderr}" if result.ok else ""


def _config(folder: str, environment: Mapping[str, str]) -> dict[str, str]:
    """Return program -> text of its configuration: what it reads by default, and the folder of GCC."""
    texts = {}
    for name in _CONFIGURED:
        program = shutil.which(name, path=environment["PATH"])
        default = Path(program).with_name(f"{name}.cfg") if program else None
        include = f"@{default}\n" if default is not None and default.is_file() else ""
        texts[name] = f'{include}--gcc-install-dir="{folder}"\n'
    return texts
