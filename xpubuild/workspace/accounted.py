"""Files in an environment that belong to no installed package, and missing parts of installed packages.

A file that nobody installed may be the user's. It is damage if Python runs it at start-up, if it would be
imported or run in place of a verified file, or if builds would find it: as a header, library or CMake file.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from packaging.utils import canonicalize_name
from typing_extensions import TypedDict

from xpubuild.artifacts.freeze import held_name
from xpubuild.artifacts.installed import name_of, sealed_again
from xpubuild.artifacts.installed_repair import KEEP
from xpubuild.artifacts.site_packages import installed_dists, prefix_of, readable_entries
from xpubuild.documents import plain
from xpubuild.engine.environment import base_environment
from xpubuild.engine.journal import Journal
from xpubuild.frozen import frozen
from xpubuild.workspace.layout import Layout
from xpubuild.workspace.status import last_plan

#: Beginnings of the lines of a .pth file that Python runs.
_RUNS = (b"import ", b"import\t")
_BOM = b"\xef\xbb\xbf"
#: What Python runs at every start, by name; lines of a .pth file as well.
_AT_START = frozenset({"sitecustomize.py", "usercustomize.py", "sitecustomize", "usercustomize"})
_IMPORTED = (".py", ".pyc", ".so")
#: What venv writes beside the interpreter, which ``machine.envmark`` looks at.
_OF_VENV = ("activate", "Activate.ps1", "python")
#: Where compilers, linkers and CMake look in an environment (CMAKE_PREFIX_PATH), outside of site-packages.
_FOR_BUILDS = ("include", "lib", "lib64", "share/cmake*", "share/pkgconfig")
#: In the folder of a package, such as torch/include.
_BUILD_FOLDERS = frozenset({"include", "cmake"})
_BUILDS_LOOK = "no installed package has it, and builds look for headers, libraries and packages there"


@frozen
class Recorded:
    """What the journal knows of an environment: distribution -> the step that installed it, and evidence.

    The step is "" if the last plan no longer has it.
    """

    installed: dict[str, str] = field(default_factory=dict)
    evidence: dict[str, Any] = field(default_factory=dict)

    @property
    def names(self) -> frozenset[str]:
        """What was installed here; a report of pip does not list what was installed before."""
        return KEEP | self.installed.keys() | self.evidence.keys()


Kind = Literal[
    "environment", "package", "start-up file", "shadowing file", "wheel", "receipt", "source", "repository",
    "permissions",
]  # fmt: skip


@frozen
class Damage:
    """Something that is not what was installed, built or fetched."""

    kind: Kind
    name: str
    """Name of the package, wheel or component."""
    path: str
    """The file, or the folder in which it is."""
    why: str
    step: str = ""
    """The step that made it, where the journal knows that."""


@dataclass
class Checked:
    """How much was hashed."""

    packages: int = 0
    """Installed distributions."""
    files: int = 0
    """Files that their RECORDs list."""
    bytes: int = 0
    """Size of these files and of the wheels."""
    wheels: int = 0
    """Wheels that were built here."""
    sources: int = 0
    """Checkouts; their repositories were checked too."""


@dataclass
class Found:
    """What a check looked at and found."""

    damaged: list[Damage] = field(default_factory=list)
    unowned: list[str] = field(default_factory=list)
    edited: list[str] = field(default_factory=list)
    checked: Checked = field(default_factory=Checked)

    def add(self, kind: Kind, name: str, path: object, why: str, step: str = "") -> None:
        """Add a damage."""
        self.damaged.append(Damage(kind, name, str(path), why, step))

    def document(self, workspace: str, repaired: tuple[Damage, ...] = ()) -> dict[str, Any]:
        """Return the ``xpubuild.check/1`` document."""
        return {
            "schema": "xpubuild.check/1", "status": "damaged" if self.damaged else "ok",
            "workspace": workspace, "checked": plain(self.checked), "damaged": plain(self.damaged),
            "repaired": plain(repaired), "unowned": self.unowned, "edited": self.edited,
        }  # fmt: skip


class CheckDocument(TypedDict):
    """What is damaged in a workspace, and what was repaired."""

    schema: Literal["xpubuild.check/1"]
    """Name and version."""
    status: Literal["ok", "damaged"]
    """After the repair, with --repair."""
    workspace: str
    checked: Checked
    damaged: list[Damage]
    """Installed, built or kept files that are not what they were."""
    repaired: list[Damage]
    """What was removed and recreated."""
    unowned: list[str]
    """Files that no installed package has, and wheels that were not built here."""
    edited: list[str]
    """Files in checkouts that were changed after the checkout; they are not damage."""


def recorded(layout: Layout, journal: Journal) -> Recorded:
    """Return what finished steps have installed; if two have installed a package, the later one's entry."""
    known, planned = Recorded(), last_plan(layout)
    done = [record for record in journal.records() if record.status == "done"]
    for record in sorted(done, key=lambda record: (record.step in planned, record.ended or 0.0)):
        # What a step of an earlier plan installed may have gone with its environment.
        step = record.step if record.step in planned else ""
        for package in layout.pip_installed(record.step):
            known.installed[canonicalize_name(package["metadata"]["name"])] = step
        for item in record.evidence:
            found = item.get("installed") or {}
            known.evidence.update({name_of(name): found[name] for name in found})
        constraint = layout.build / "held" / f"{record.step.removesuffix('.install')}.txt"
        if name := held_name(constraint):
            known.installed[name] = step
    return known


def add_missing(site_packages: Path, known: Recorded, found: Found) -> None:
    """Add damage that RECORD does not show: a missing package, or a RECORD that was rewritten."""
    here = {dist.name for dist in installed_dists(site_packages)}
    damaged = {item.name for item in found.damaged}
    gone = {name for name, step in known.installed.items() if step and name not in here}
    resealed = sealed_again(site_packages, {"installed": known.evidence}).keys()
    for name in sorted((gone | resealed) - damaged):
        rewritten = "its RECORD is not the one of its installation"
        why = "it was installed, and is not there any more" if name in gone else rewritten
        found.add("package", name, site_packages, why, known.installed.get(name, ""))


def _levels(path: str, top: str) -> Iterator[tuple[str, str, str]]:
    """Yield for a file below ``top``, and each folder above it there: its folder, its import name, its name.

    What nothing can import has a name that no module has.
    """
    folder, parts = top, path.removeprefix(f"{top}/").split("/") if path.startswith(f"{top}/") else []
    for number, name in enumerate(parts, 1):
        stem, dot, _ = name.partition(".")
        can = name.endswith(_IMPORTED) if number == len(parts) else not dot
        yield folder, stem if can else f"{name}/", name
        folder = f"{folder}/{name}"


def add_unaccounted(site_packages: Path, known: Recorded | None, found: Found) -> None:
    """Add files that belong to no installed package, in site-packages and beside the interpreter.

    Without ``known`` every distribution counts as installed here.
    """
    prefix, known_files, others = prefix_of(site_packages), set[str](), dict[str, str]()
    for dist in installed_dists(site_packages):
        paths = {os.path.normpath(entry.location) for entry in readable_entries(dist)}
        if known is None or dist.name in known.names or dist.installer == "conda":
            known_files |= paths
        else:
            others.update(dict.fromkeys(paths, dist.name))
            found.unowned.append(str(dist.info))
    conda = sorted(prefix.glob("conda-meta/*.json"))
    for meta in conda:
        with contextlib.suppress(OSError, ValueError):
            files = json.loads(meta.read_text("utf-8")).get("files", ())
            known_files |= {str(prefix / name) for name in files}
    _in_packages(str(site_packages), known_files, others, found)
    if prefix != site_packages and not conda:
        owned = known_files | others.keys()
        _beside_the_interpreter(prefix / "bin", owned, found)
        _where_builds_look(prefix, owned, found)


def _in_packages(top: str, known: set[str], others: Mapping[str, str], found: Found) -> None:
    # (folder, import name) -> files of packages, or their folders, with that name.
    owners = dict[tuple[str, str], set[str]]()
    for folder, module, name in (level for path in known for level in _levels(path, top)):
        owners.setdefault((folder, module), set()).add(name)
    for place, folders, names in os.walk(top):
        folders.sort()
        for path in (f"{place}/{name}" for name in sorted(names)):
            if path in known or (path.endswith(".pyc") and place.endswith("/__pycache__")):
                continue
            name = path[len(top) + 1 :]
            hidden = [
                f"{folder}/{min(own)}"
                for folder, module, part in _levels(path, top)
                if part not in (own := owners.get((folder, module), {part}))
            ]
            if hidden:
                why = f"it would be imported in place of {hidden[0]}, which was installed"
                found.add("shadowing file", others.get(path, name), path, why)
            elif path not in others and _runs_at_start(name, Path(path)):
                why = "no installed package has it, and Python runs it at every start"
                found.add("start-up file", name, path, why)
            elif path in others:
                continue
            elif _BUILD_FOLDERS.intersection((parts := name.split("/"))[1:-1]) and (top, parts[0]) in owners:
                found.add("shadowing file", name, path, _BUILDS_LOOK)
            else:
                found.unowned.append(path)


def _beside_the_interpreter(folder: Path, owned: set[str], found: Found) -> None:
    """Add files without an owner in ``bin``, which is first on PATH and on the import path of scripts."""
    search = base_environment().get("PATH", os.defpath)
    for path in sorted(folder.glob("*")):
        if str(path) in owned or path.name.startswith(_OF_VENV) or path.name == "__pycache__":
            continue
        other = shutil.which(path.name, path=search)
        if path.is_dir() or path.name.endswith(_IMPORTED):
            why = "scripts of the environment would import it before any package"
        elif other is not None and Path(other).parent != folder:
            why = f"it would be run in place of {other}"
        else:
            found.unowned.append(str(path))
            continue
        found.add("shadowing file", path.name, path, why)


def _where_builds_look(prefix: Path, owned: set[str], found: Found) -> None:
    for top in (path for name in _FOR_BUILDS for path in sorted(prefix.glob(name)) if not path.is_symlink()):
        for place, folders, names in os.walk(top):
            # lib/python3.11 has site-packages alone.
            skipped = "python" if place == str(prefix / "lib") else "/"
            folders[:] = sorted(name for name in folders if not name.startswith(skipped))
            for path in sorted({f"{place}/{name}" for name in names} - owned):
                found.add("shadowing file", os.path.relpath(path, prefix), path, _BUILDS_LOOK)


def _runs_at_start(name: str, path: Path) -> bool:
    first, _, rest = name.partition(os.sep)
    if rest or not first.endswith(".pth"):
        return first in _AT_START
    try:
        # Other lines are folders, as old editable installs have them.
        return any(line.startswith(_RUNS) for line in path.read_bytes().removeprefix(_BOM).splitlines())
    except OSError:
        return True
