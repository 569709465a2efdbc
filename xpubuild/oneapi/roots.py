"""Where oneAPI is installed on this machine, or in an unpacked image of one."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from xpubuild.errors import UsageError

COMPONENT_SCRIPT = Path("env") / "vars.sh"
UNIFIED_ENTRY = "oneapi-vars.sh"
SETVARS = "setvars.sh"
_LINK_LIMIT = 40
_SLASH = Path("/")


@dataclass(frozen=True)
class Root:
    """An installation: ``path`` as it was found, ``real`` without links, ``origin`` in words.

    ``toolkit`` is set where the folder of one toolkit of the unified layout was named instead of the root
    above it, which is also what ``ONEAPI_ROOT`` holds after such a toolkit's script has run.
    """

    path: Path
    real: Path
    origin: str
    toolkit: str | None = None


def resolve_inside(root_dir: Path, path: Path) -> Path:
    """Return ``path`` without links, where absolute links start at ``root_dir`` as they would in a chroot.

    ``path`` is a path of this machine below ``root_dir``. Never raises for missing files or link loops.
    """
    if root_dir == _SLASH:
        return Path(os.path.realpath(path))
    base = Path(os.path.realpath(root_dir))
    below = path.relative_to(base if path.is_relative_to(base) else root_dir)
    todo = list(reversed(below.parts))
    current, links = base, 0
    while todo:
        part = todo.pop()
        if part == "..":
            current = current.parent if current != base else base
            continue
        target = current / part
        if target.is_symlink() and links < _LINK_LIMIT:
            links += 1
            link = target.readlink()
            if link.is_absolute():
                current = base
            todo.extend(reversed([name for name in link.parts if name != "/"]))
        else:
            current = target
    return current


def folders(path: Path) -> tuple[Path, ...]:
    """Return the entries of a folder in order; none where it is missing, not a folder or not readable."""
    try:
        return tuple(sorted(path.iterdir()))
    except OSError:
        return ()


def has_component_layout(path: Path, root_dir: Path = _SLASH) -> bool:
    """Whether ``path`` holds ``<component>/<version>/env/vars.sh``."""
    return any(
        resolve_inside(root_dir, version / COMPONENT_SCRIPT).is_file()
        for component in folders(path)
        for version in folders(component)
    )


def has_unified_layout(path: Path, root_dir: Path = _SLASH) -> bool:
    """Whether ``path`` holds ``<version>/oneapi-vars.sh``."""
    return any(resolve_inside(root_dir, version / UNIFIED_ENTRY).is_file() for version in folders(path))


def is_root(path: Path, root_dir: Path = _SLASH) -> bool:
    """Whether a folder is the top of a oneAPI installation in either layout."""
    return (
        resolve_inside(root_dir, path / SETVARS).is_file()
        or has_unified_layout(path, root_dir)
        or has_component_layout(path, root_dir)
    )


def _recognise(path: Path, origin: str, root_dir: Path) -> Root | None:
    real = resolve_inside(root_dir, path)
    if resolve_inside(root_dir, real / UNIFIED_ENTRY).is_file():
        return Root(path.parent, real.parent, origin, toolkit=real.name)
    return Root(path, real, origin) if is_root(real, root_dir) else None


def _explicit(path: Path, root_dir: Path) -> Root:
    full = Path.cwd() / path
    found = _recognise(full, "--oneapi-root", root_dir)
    if found is not None:
        return found
    if not full.exists():
        why = "there is no such folder"
    elif not full.is_dir():
        why = "it is not a folder"
    elif not os.access(full, os.R_OK | os.X_OK):
        why = "its content cannot be listed by this user"
    else:
        why = (
            "nothing in it looks like oneAPI; looked for setvars.sh, COMPONENT/VERSION/env/vars.sh"
            " and VERSION/oneapi-vars.sh"
        )
    raise UsageError(
        f"{full} is not a oneAPI installation",
        why=why,
        fix="give the folder that holds 'compiler', 'mkl' and so on, usually /opt/intel/oneapi; without"
        " --oneapi-root the usual places are searched",
        commands=(shlex.join(["ls", str(full.parent)]),),
    )


def candidates(caller_env: Mapping[str, str]) -> tuple[tuple[Path, str], ...]:
    """Return where roots are looked for, best first, each with its name for messages."""
    places: list[tuple[Path, str]] = []
    if caller_env.get("ONEAPI_ROOT", "").startswith("/"):
        places.append((Path(caller_env["ONEAPI_ROOT"]), "ONEAPI_ROOT"))
    places.append((Path("/opt/intel/oneapi"), "the system's place"))
    if caller_env.get("HOME", "").startswith("/"):
        places.append((Path(caller_env["HOME"]) / "intel" / "oneapi", "the user's place"))
    return tuple(places)


def find_roots(
    explicit: Path | None, caller_env: Mapping[str, str], *, root_dir: Path = _SLASH
) -> tuple[Root, ...]:
    """Return the installations, best first: ``explicit`` alone where given, else the usual places.

    ``root_dir`` is put in front of the usual places, to look into an unpacked image; ``explicit`` is a
    path of this machine. Places that lead to the same folder are reported once.

    Raises:
        UsageError: ``explicit`` is not an installation.
    """
    if explicit is not None:
        inside = explicit.is_absolute() and explicit.is_relative_to(root_dir)
        return (_explicit(explicit, root_dir if inside else _SLASH),)
    found: dict[Path, Root] = {}
    for place, origin in candidates(caller_env):
        root = _recognise(root_dir / place.relative_to(_SLASH), origin, root_dir)
        if root is not None:
            found.setdefault(root.real, root)
    return tuple(found.values())
