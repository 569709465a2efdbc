"""Folders of a site that builds search: those of modules, which the clean environment drops."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from xpubuild.errors import UsageError
from xpubuild.install.options import PlanOptions
from xpubuild.machine.envdiff import PathChange

PATH, LIBRARIES = "PATH", "LD_LIBRARY_PATH"
#: Option that names folders of a search path.
OPTIONS = {PATH: "--extra-path", LIBRARIES: "--extra-library-path"}


def site_folders(options: PlanOptions, target: str) -> dict[str, tuple[str, ...]]:
    """Return the folders to add to search paths, by variable; nothing for a search path without any.

    Raises:
        UsageError: a folder is not there, or the build is for the CPU, which uses none of them.
    """
    given = {PATH: options.extra_path, LIBRARIES: options.extra_library_path}
    found = {name: tuple(map(str, folders)) for name, folders in given.items() if folders}
    for name, folders in found.items():
        option = OPTIONS[name]
        missing = [folder for folder in folders if not Path(folder).is_dir()]
        if missing:
            raise UsageError(
                f"{option} {missing[0]} is not a folder",
                fix=f"correct {option} (XPUBUILD_{option[2:].upper().replace('-', '_')} is the same option)",
            )
    if found and target != "xpu":
        # They are for the GPU's driver and offline compiler; the variables may be set for all of a site.
        return {}
    return found


def extended(
    paths: Iterable[tuple[str, PathChange]], folders: dict[str, tuple[str, ...]]
) -> dict[str, PathChange]:
    """Return the changes of search paths with a site's folders behind those that are put in front."""
    found = dict(paths)
    for name, more in folders.items():
        change = found.get(name, PathChange())
        ours = tuple(item for item in more if item not in change.prepend)
        found[name] = PathChange((*change.prepend, *ours), change.append, change.remove)
    return found
