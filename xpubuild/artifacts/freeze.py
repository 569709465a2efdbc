"""Keeps installed packages: later pip steps must not replace torch or triton.

After a component is installed, its version is written to a constraints file, with the hash of its RECORD in a
comment. Each later pip gets these files. pip can be made to ignore dependencies, and two distributions of
different names can contain the same package, so the installed packages are checked after each step as well.
"""

from __future__ import annotations

import contextlib
import re
import shlex
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from xpubuild.artifacts.installed_repair import remove_dist
from xpubuild.artifacts.site_packages import (
    InstalledDist,
    content_key,
    declared,
    installed_dists,
    readable_entries,
)
from xpubuild.engine.files import write_atomic
from xpubuild.engine.model import SimpleProof
from xpubuild.errors import AuditError
from xpubuild.frozen import frozen

#: Import packages that several distributions have under different names.
PACKAGES = ("torch", "triton")
#: The distributions with ``triton/``: CUDA's, and the XPU one under its names up to 2.9 and from 2.10.
TRITON = ("pytorch-triton", "pytorch-triton-rocm", "pytorch-triton-xpu", "triton", "triton-xpu")
_KEY = re.compile(r"^# RECORD sha256=([0-9a-f]{64})$", re.MULTILINE)
_PIN = re.compile(r"^([A-Za-z0-9._-]+)==(\S+)$", re.MULTILINE)
_AGAIN = "then run the same command again: damaged packages are reinstalled"


def hold(site_packages: Path, name: str, file: Path) -> str:
    """Write down what is installed under a distribution's name; return ``name==version``.

    Raises:
        AuditError: it is not installed, or not as a whole.
    """
    fix = f"run the same command again to reinstall {name}"
    dist = _find(site_packages, name)
    if dist is None:
        raise AuditError(f"{name} is not installed in {site_packages}", fix=fix)
    try:
        key = content_key(dist)
    except (OSError, ValueError) as error:
        raise AuditError(f"the RECORD of {name} cannot be used", why=str(error), fix=fix) from error
    pin = f"{name}=={dist.version}"
    write_atomic(file, f"# what later pip steps must leave alone\n# RECORD sha256={key}\n{pin}\n".encode())
    return pin


def let_go(site_packages: Path, file: Path) -> str | None:
    """Remove a distribution that is no longer the pinned one, so that pip installs it again; return a line.

    pip looks at the version alone, and takes another build of the same version for the right one.
    """
    if not file.exists():
        return None
    name, version, key = _read(file)
    dist = _find(site_packages, name)
    # What is not sound was repaired before.
    if dist is None or dist.version != version or _key_of(dist) in (key, None):
        return None
    count = remove_dist(site_packages, dist.name)
    return f"{_label(dist)} and {count} of its files: another build than the one that was installed"


def portable_hold(python: str, name: str, file: str) -> tuple[str, ...]:
    """Return shell lines that write the same constraint without xpubuild."""
    program = f'from importlib.metadata import version; print("{name}==" + version("{name}"))'
    write = f"{shlex.quote(python)} -I -c {shlex.quote(program)} > {shlex.quote(file)}"
    return f"mkdir -p -- {shlex.quote(str(Path(file).parent))}", write


@frozen
class HeldProof(SimpleProof):
    """torch and triton are still what was installed, and no other distribution has their files.

    ``held`` are the constraints files that ``hold`` wrote in the steps before.
    """

    site_packages: str
    held: tuple[str, ...]

    def describe(self) -> str:
        """Return what is checked."""
        names = [Path(file).stem for file in self.held]
        kept = f", and {', '.join(names)} unchanged" if names else ""
        return f"one owner each of {' and '.join(f'{name}/' for name in PACKAGES)}{kept}"

    def check(self) -> dict[str, Any]:
        """Return the owner of each package and the versions that were pinned.

        Raises:
            AuditError: a package has two owners, a pinned one was replaced, or another distribution asks
                for another version of it.
        """
        dists = installed_dists(Path(self.site_packages))
        held = {name: (version, key) for name, version, key in map(_read, map(Path, self.held))}
        normal = {canonicalize_name(name): version for name, (version, _) in held.items()}
        owners: dict[str, list[str]] = {}
        for package in PACKAGES:
            found = [dist for dist in dists if _has(dist, package)]
            if len(found) > 1:
                raise self._two_owners(package, found, normal)
            owners |= {package: [_label(dist) for dist in found]} if found else {}
        for name, (version, key) in held.items():
            self._still(name, version, key)
        for dist in dists:
            for wanted in declared(dist):
                version = normal.get(canonicalize_name(wanted.name), "")
                if version and not wanted.specifier.contains(version, prereleases=True):
                    raise self._other_version(dist, wanted, version)
        return {"owners": owners, "held": {name: version for name, (version, _) in held.items()}}

    def _two_owners(self, package: str, found: Sequence[InstalledDist], held: Collection[str]) -> AuditError:
        names = [_label(dist) for dist in found]
        foreign = [dist.name for dist in found if dist.name not in held] or [found[-1].name]
        return AuditError(
            f"{len(found)} distributions contain {package}/: {', '.join(names)}",
            why="the one that was installed last has overwritten files of the other",
            fix=f"remove all of them, and make sure that {', '.join(foreign)} is not installed, {_AGAIN}",
            commands=(self._uninstall(*(dist.name for dist in found)),),
            evidence={"package": package, "owners": names},
        )

    def _still(self, name: str, version: str, key: str) -> None:
        dist = _find(Path(self.site_packages), name)
        found = "nothing" if dist is None else _label(dist)
        if dist is not None and dist.version == version:
            now = _key_of(dist)
            if now == key:
                return
            found = f"another build of {_label(dist)}" if now else f"a {name} with an unusable RECORD"
        raise AuditError(
            f"{name} {version} was replaced by a later pip step",
            why=f"{found} is installed; packages that use {name} were built for the one of xpubuild",
            fix=f"remove it, and do not install the package that requires it, {_AGAIN}",
            commands=(self._uninstall(name),),
            evidence={"name": name, "held": version, "found": found},
        )

    def _other_version(self, dist: InstalledDist, wanted: Requirement, held: str) -> AuditError:
        here = f"{wanted.name} {held}"
        return AuditError(
            f"{_label(dist)} requires {wanted.name}{wanted.specifier}, but this workspace uses {here}",
            why="the next pip command that resolves dependencies would replace it",
            fix=(
                f"use a version of {dist.name} that is compatible with {here}, or exclude it (--without); "
                "then run the same command again"
            ),
            commands=(self._uninstall(dist.name),),
            evidence={"distribution": _label(dist), "asks": str(wanted), "held": held},
        )

    def _uninstall(self, *names: str) -> str:
        python = Path(self.site_packages).parents[2] / "bin" / "python"
        return shlex.join([str(python), "-m", "pip", "uninstall", "--yes", *names])


def _label(dist: InstalledDist) -> str:
    return f"{dist.name} {dist.version}"


def _find(site_packages: Path, name: str) -> InstalledDist | None:
    wanted = canonicalize_name(name)
    return next((dist for dist in installed_dists(site_packages) if dist.name == wanted), None)


def _key_of(dist: InstalledDist) -> str | None:
    """Return ``content_key``, None without a usable RECORD."""
    with contextlib.suppress(OSError, ValueError):
        return content_key(dist)
    return None


def _has(dist: InstalledDist, package: str) -> bool:
    """Whether a distribution has files below ``package/``."""
    return any(entry.name.startswith(f"{package}/") for entry in readable_entries(dist))


def held_name(file: Path) -> str:
    """Return the normalised name of the distribution that a file of ``hold`` is about, "" without one."""
    with contextlib.suppress(AuditError):
        return canonicalize_name(_read(file)[0])
    return ""


def _read(file: Path) -> tuple[str, str, str]:
    """Return the name, version and RECORD key that ``hold`` wrote."""
    try:
        text = file.read_text("utf-8", "replace")
    except OSError as error:
        raise AuditError(
            f"{file} was removed", why=str(error), fix="run the same command again; it is written again"
        ) from error
    pin, key = _PIN.search(text), _KEY.search(text)
    if pin is None or key is None:
        fix, commands = "remove it and run the same command again", (f"rm {shlex.quote(str(file))}",)
        raise AuditError(f"{file} was changed", fix=fix, commands=commands)
    return pin[1], pin[2], key[1]
