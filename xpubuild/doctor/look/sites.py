"""The packages of the selected Python and its torch, read from files: neither is started."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from xpubuild.artifacts.site_packages import InstalledDist, installed_dists
from xpubuild.doctor.kit import Look, once, real
from xpubuild.frozen import frozen
from xpubuild.machine.pythons import PythonFacts, probe_python
from xpubuild.machine.readers import UNKNOWN, exists, read_text

if TYPE_CHECKING:
    from packaging.requirements import Requirement

_SHORT = re.compile(r"python(3\.\d+)t?")
_REQUIRES = re.compile(r"^Requires-Dist:\s*(.+?)\s*$", re.MULTILINE | re.IGNORECASE)
_SETTING = re.compile(r"^\s*([a-z-]+)\s*=\s*(.*?)\s*$", re.MULTILINE)


@frozen
class Site:
    """The folders that an interpreter imports from, the first first, and the distributions in them.

    ``prefixes`` are those of the environment and of its base installation. ``conda`` is the one created by
    conda, or None.
    """

    executable: Path
    prefixes: tuple[Path, ...]
    folders: tuple[Path, ...]
    dists: tuple[InstalledDist, ...]

    @property
    def conda(self) -> Path | None:
        """The prefix that conda manages, or None."""
        return next((prefix for prefix in self.prefixes if (prefix / "conda-meta").is_dir()), None)

    def get(self, name: str) -> InstalledDist | None:
        """Return a distribution by its normalised name: the one that is imported."""
        return next((dist for dist in self.dists if dist.name == name), None)

    def package(self, name: str) -> Path | None:
        """Return the folder of an import package: the first on the path."""
        return next((place for folder in self.folders if (place := folder / name).is_dir()), None)

    def module(self, name: str) -> Path | None:
        """Return the file of a module that is one file: the first on the path."""
        return next((place for folder in self.folders if (place := folder / f"{name}.py").is_file()), None)


def facts_of(look: Look) -> PythonFacts | None:
    """Return the host report's facts about the selected interpreter; in an image, about the first one."""
    report = look.host.python
    known = [*([report.selected] if report.selected else []), *report.found]
    if look.python is None:
        return known[0] if known else None
    wanted = {str(look.python), str(real(look.python))}
    return next((item for item in known if {item.executable, item.base_executable} & wanted), None)


@once
def interpreter(look: Look) -> PythonFacts | None:
    """Return the facts about the interpreter; one that is not in the report is run."""
    known = facts_of(look)
    return probe_python(look.python) if known is None and look.live and look.python is not None else known


@once
def site(look: Look) -> Site | None:
    """Return where the selected interpreter imports from; None without one."""
    facts = facts_of(look)
    place = look.python or (Path(facts.executable) if facts else None)
    if place is None:
        return None
    executable = look.path(place)
    own = executable.parent.parent
    settings = dict(_SETTING.findall(read_text(own / "pyvenv.cfg", look.root) or ""))
    behind = real(executable)
    if not settings and facts is not None and facts.base_executable != UNKNOWN:
        behind = look.path(facts.base_executable)
    base = look.path(settings["home"]).parent if settings.get("home") else behind.parent.parent
    version = _short_version(behind, facts)
    folders: list[Path] = list(look.listed("PYTHONPATH"))
    if settings:
        folders += _of_prefix(own, version)
    if not settings or settings.get("include-system-site-packages", "").lower() == "true":
        folders += [*_of_user(look, version), *_of_prefix(base, version)]
    found = tuple(dict.fromkeys(folder for folder in folders if folder.is_dir()))
    prefixes = tuple(dict.fromkeys([own, base] if settings else [base]))
    return Site(
        executable, prefixes, found, tuple(dist for folder in found for dist in installed_dists(folder))
    )


def _short_version(executable: Path, facts: PythonFacts | None) -> str:
    named = _SHORT.fullmatch(executable.name)
    if named:
        return named[1]
    if facts is not None and facts.version != UNKNOWN:
        return ".".join(facts.version.split(".")[:2])
    return "3*"


def _of_prefix(prefix: Path, version: str) -> Iterator[Path]:
    for lib in ("lib", "lib64"):
        yield from sorted(prefix.glob(f"{lib}/python{version}/site-packages"))
    if prefix.name == "usr":
        # On Debian pip installs into /usr/local; Debian's packages are in one folder for all versions.
        yield from sorted((prefix / "local").glob(f"lib/python{version}/dist-packages"))
        yield prefix / "lib" / "python3" / "dist-packages"


def _of_user(look: Look, version: str) -> Iterator[Path]:
    mine = look.home
    if mine is not None and not look.environ.get("PYTHONNOUSERSITE"):
        yield from sorted(mine.glob(f".local/lib/python{version}/site-packages"))


def library_folders(python: Site | None) -> Iterator[Path]:
    """Yield the folders with libraries of an installed torch: its own, and lib of its environment."""
    torch = python.package("torch") if python else None
    if python is not None and torch is not None:
        yield torch / "lib"
        yield from (prefix / "lib" for prefix in python.prefixes if prefix.name != "usr")


def requirements(dist: InstalledDist) -> tuple[Requirement, ...]:
    """Return the requirements of a distribution, without extras; nothing if METADATA cannot be read."""
    # Few environments have a distribution whose requirements matter, and the parser takes its time.
    from packaging.markers import UndefinedComparison, UndefinedEnvironmentName  # noqa: PLC0415
    from packaging.requirements import InvalidRequirement, Requirement  # noqa: PLC0415

    headers = (read_text(dist.info / "METADATA") or "").partition("\n\n")[0]
    found = []
    for line in _REQUIRES.findall(headers):
        try:
            requirement = Requirement(line)
            if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
                found.append(requirement)
        except (InvalidRequirement, UndefinedComparison, UndefinedEnvironmentName):
            continue
    return tuple(found)


def required(dist: InstalledDist, name: str) -> Requirement | None:
    """Return a distribution's requirement for another one, or None."""
    from packaging.utils import canonicalize_name  # noqa: PLC0415 - as above

    return next((item for item in requirements(dist) if canonicalize_name(item.name) == name), None)


def public(version: str) -> str:
    """Return a version without its local part: 2.8.0+xpu is 2.8.0."""
    return version.partition("+")[0]


@frozen
class Torch:
    """The installed torch: ``version`` is that in version.py; ``cuda`` and ``hip`` are versions, or empty.

    ``xpu`` is whether there is a libtorch_xpu.so: version.py of XPU builds up to 2.6 does not show it.
    """

    folder: Path
    version: str
    cuda: str
    hip: str
    xpu: bool
    dist: InstalledDist | None
    python: Site

    @property
    def kind(self) -> str:
        """What it was built for, in words."""
        if self.xpu:
            return "XPU"
        return f"CUDA {self.cuda}" if self.cuda else f"ROCm {self.hip}" if self.hip else "the CPU"


@once
def torch_of(look: Look) -> Torch | None:
    """Return the torch that the selected Python would import, or None."""
    python = site(look)
    folder = python.package("torch") if python else None
    if python is None or folder is None:
        return None
    text = read_text(folder / "version.py", look.root) or ""
    version, cuda, hip = (_first(name, text) for name in ("__version__", "cuda", "hip"))
    dist = python.get("torch")
    return Torch(
        folder,
        version or (dist.version if dist else ""),
        cuda,
        hip,
        exists(folder / "lib" / "libtorch_xpu.so", look.root),
        dist,
        python,
    )


def cuda_of(folder: Path) -> str:
    """Return the CUDA version that a package such as torchvision was built with, or an empty text."""
    return _first("cuda", read_text(folder / "version.py") or "")


def _first(name: str, text: str) -> str:
    """Return a text that a module assigns to a name, or an empty one."""
    found = re.search(rf"^{name} *(?:: *[^=]+)?= *['\"]([^'\"]+)['\"]", text, re.MULTILINE)
    return found[1] if found else ""
