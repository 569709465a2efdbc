"""Where oneAPI is installed on this machine, or in an unpacked image of one."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path

from xpubuild.errors import UsageError
from xpubuild.frozen import frozen
from xpubuild.machine.oneapi_paths import SLASH, folders, is_file, resolve_inside

COMPONENT_SCRIPT = Path("env") / "vars.sh"
UNIFIED_ENTRY = "oneapi-vars.sh"
SETVARS = "setvars.sh"


@frozen
class Root:
    """An installation: ``path`` as it was found, ``real`` without links, ``origin`` in words.

    ``toolkit`` is set where the folder of one toolkit of the unified layout was named instead of the root
    above it, which is also what ``ONEAPI_ROOT`` holds after such a toolkit's script has run.
    """

    path: Path
    real: Path
    origin: str
    toolkit: str | None = None


def has_component_layout(path: Path, root_dir: Path = SLASH) -> bool:
    """Whether ``path`` holds ``<component>/<version>/env/vars.sh``."""
    return any(
        is_file(resolve_inside(root_dir, version / COMPONENT_SCRIPT))
        for component in folders(path)
        for version in folders(component)
    )


def has_unified_layout(path: Path, root_dir: Path = SLASH) -> bool:
    """Whether ``path`` holds ``<version>/oneapi-vars.sh``."""
    return any(is_file(resolve_inside(root_dir, version / UNIFIED_ENTRY)) for version in folders(path))


def is_root(path: Path, root_dir: Path = SLASH) -> bool:
    """Whether a folder is the top of a oneAPI installation in either layout."""
    return (
        is_file(resolve_inside(root_dir, path / SETVARS))
        or has_unified_layout(path, root_dir)
        or has_component_layout(path, root_dir)
    )


def _recognise(path: Path, origin: str, root_dir: Path) -> Root | None:
    real = resolve_inside(root_dir, path)
    if is_file(resolve_inside(root_dir, real / UNIFIED_ENTRY)):
        return Root(path.parent, real.parent, origin, toolkit=real.name)
    return Root(path, real, origin) if is_root(real, root_dir) else None


def _explicit(path: Path, root_dir: Path) -> Root:
    full = Path.cwd() / path
    found = _recognise(full, "--oneapi-root", root_dir)
    if found is not None:
        return found
    commands: tuple[str, ...] = (shlex.join(["ls", str(full)]),)
    try:
        next(full.iterdir(), None)
        why = (
            "it has no oneAPI files; looked for setvars.sh, COMPONENT/VERSION/env/vars.sh and "
            "VERSION/oneapi-vars.sh"
        )
    except FileNotFoundError:
        why, commands = "the folder does not exist", ()
    except OSError as error:
        why = f"it cannot be listed: {error.strerror}"
    raise UsageError(
        f"{full} is not a oneAPI installation",
        why=why,
        fix=(
            "pass the folder that contains 'compiler', 'mkl' and so on, usually /opt/intel/oneapi; "
            "without --oneapi-root, the usual places are searched"
        ),
        commands=commands,
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
    explicit: Path | None, caller_env: Mapping[str, str], *, root_dir: Path = SLASH
) -> tuple[Root, ...]:
    """Return the installations, best first: ``explicit`` alone where given, else the usual places.

    ``root_dir`` is put in front of the usual places, to look into an unpacked image; ``explicit`` is a
    path of this machine. Places that lead to the same folder are reported once.

    Raises:
        UsageError: ``explicit`` is not an installation.
    """
    if explicit is not None:
        inside = explicit.is_absolute() and explicit.is_relative_to(root_dir)
        return (_explicit(explicit, root_dir if inside else SLASH),)
    found: dict[Path, Root] = {}
    for place, origin in candidates(caller_env):
        root = _recognise(root_dir / place.relative_to(SLASH), origin, root_dir)
        if root is not None:
            found.setdefault(root.real, root)
    return tuple(found.values())
