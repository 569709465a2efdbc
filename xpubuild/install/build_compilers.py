"""The host compilers as a build gets them: under their plain names, and known to icpx.

oneDNN's GPU build takes ``g++`` by that name (DNNL_DPCPP_HOST_COMPILER in PyTorch's FindMKLDNN.cmake), and
icpx takes the newest GCC that the system has, with its headers, whatever CXX says.
"""

from __future__ import annotations

import contextlib
import re
import shutil
from collections.abc import Mapping
from pathlib import Path

from xpubuild.artifacts.step_proofs import LinksProof
from xpubuild.engine.environment import base_environment
from xpubuild.engine.model import Command, Step
from xpubuild.engine.process import probe
from xpubuild.errors import ToolchainError
from xpubuild.install.target import Compilers, OneapiFacts, Target
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
    environment = oneapi.over(base_environment())
    named = {"gcc": found.cc, "g++": found.cxx}
    differ = any(
        not _is_same(shutil.which(name, path=environment["PATH"]), path) for name, path in named.items()
    )
    own, selected = _install_dir(found.cxx, environment), _selected(environment)
    other = differ if selected is None else not _is_same(selected, own)
    config = _config_files(own, environment) if own and other else {}
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
    with contextlib.suppress(ToolchainError):
        result = probe(argv, env=environment)
        return f"{result.stdout}\n{result.stderr}" if result.ok else ""
    return ""


def _config_files(folder: str, environment: Mapping[str, str]) -> dict[str, str]:
    """Return program -> text of its configuration: what it reads by default, and the folder of GCC."""
    texts = {}
    for name in _CONFIGURED:
        program = shutil.which(name, path=environment["PATH"])
        default = Path(program).with_name(f"{name}.cfg") if program else None
        include = f"@{default}\n" if default is not None and default.is_file() else ""
        texts[name] = f'{include}--gcc-install-dir="{folder}"\n'
    return texts


#: The step that puts the chosen GCC where builds look for it by name.
STEP = "compilers"
#: Variables that name a configuration file instead of the one beside icx and icpx (Intel's compiler guide).
_VARIABLES = {"icx": "ICXCFG", "icpx": "ICPXCFG"}


def compiler_links(target: Target) -> list[Step]:
    """Return the step that makes the links; nothing where PATH leads to the chosen compilers already."""
    names = target.compilers.names
    links = {str(_folder(target) / name): path for name, path in names.items()}
    return [links_step(STEP, f"link {' and '.join(names)} to the chosen compilers", links)] if names else []


def links_step(
    step: str, title: str, links: Mapping[str, str], portable: tuple[str, ...] | None = None
) -> Step:
    """Return a step that makes symbolic links (link -> program) in one folder."""
    folder = str(Path(next(iter(links))).parent)
    return Step(
        id=step,
        title=title,
        commands=(
            Command(argv=("mkdir", "-p", folder), portable=portable),
            *(Command(argv=("ln", "-sfn", path, link), portable=portable) for link, path in links.items()),
        ),
        proofs=(LinksProof(links),),
        outputs=tuple(links),
        witnesses=tuple(links),
    )


def path_prefix(target: Target) -> tuple[str, ...]:
    """Return the folder that builds search first."""
    return (str(_folder(target)),) if target.compilers.names else ()


def compiler_environment(target: Target) -> dict[str, str]:
    """Return what makes icx and icpx take the chosen GCC."""
    return {_VARIABLES[name]: str(_folder(target) / f"{name}.cfg") for name in target.compilers.config}


def compiler_files(target: Target) -> dict[str, str]:
    """Return the configuration files of icx and icpx: path -> text."""
    return {str(_folder(target) / f"{name}.cfg"): text for name, text in target.compilers.config.items()}


def _folder(target: Target) -> Path:
    return target.layout.build / "compilers"
