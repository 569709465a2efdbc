"""The oneAPI installations of a machine, or of an unpacked image of one, and their components.

Component layout: ``<root>/<component>/<version or latest>/env/vars.sh``.
Unified layout: ``<root>/<version>/etc/<component>/vars.sh``, usable only through
``<root>/<version>/oneapi-vars.sh``.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Literal

from packaging.version import Version

from xpubuild.errors import UsageError
from xpubuild.frozen import frozen
from xpubuild.machine.readers import LIVE_ROOT, entries, is_file, resolved
from xpubuild.machine.versions import parse

COMPONENT_SCRIPT = Path("env") / "vars.sh"
UNIFIED_ENTRY = "oneapi-vars.sh"
SETVARS = "setvars.sh"
LATEST = "latest"


@frozen
class Component:
    """One installed component.

    ``path`` has no links in it: the version's folder, or the toolkit's in the unified layout. ``version`` is
    the name of the folder that contains the files (usually two numbers). ``is_latest`` says whether the link
    ``latest`` leads here; in the unified layout there is no such link and it is False.
    """

    name: str
    version: str
    path: Path
    script: Path
    layout: Literal["component", "unified"]
    is_latest: bool = False

    def sort_key(self) -> tuple[bool, Version, str]:
        """Order by version; a folder name that is not a version comes first."""
        version = parse(self.version)
        return (version is not None, version or Version("0"), self.version)

    @property
    def root(self) -> Path:
        """The installation that contains its files."""
        return self.path.parent.parent if self.layout == "component" else self.path.parent


@frozen
class Installation:
    """``path`` as it was found, ``real`` without links, ``origin`` in words; its components, newest first.

    ``toolkit`` is set where the folder of one toolkit of the unified layout was named instead of the root
    above it, which is also the value of ``ONEAPI_ROOT`` after such a toolkit's script has run.
    """

    path: Path
    real: Path
    origin: str
    components: tuple[Component, ...]
    toolkit: str | None = None


def candidates(caller_env: Mapping[str, str]) -> tuple[tuple[Path, str], ...]:
    """Return where installations are looked for, best first, each with its name for messages."""
    named, home = caller_env.get("ONEAPI_ROOT", ""), caller_env.get("HOME", "")
    places = (
        (Path(named), "ONEAPI_ROOT"),
        (Path("/opt/intel/oneapi"), "the system's place"),
        (Path(home) / "intel" / "oneapi", "the user's place"),
    )
    return tuple((path, origin) for path, origin in places if path.is_absolute())


def find_installations(
    explicit: Path | None, caller_env: Mapping[str, str], *, root: Path = LIVE_ROOT
) -> tuple[Installation, ...]:
    """Return the installations, best first: ``explicit`` alone where given, else the usual places.

    ``root`` is put in front of the usual places, to look into an unpacked image; ``explicit`` is a path of
    this machine. Places that lead to the same folder are reported once, unreadable ones count as empty.

    Raises:
        UsageError: ``explicit`` is not an installation.
    """
    if explicit is not None:
        full = Path.cwd() / explicit
        found = _recognise(full, "--oneapi-root", root if full.is_relative_to(root) else LIVE_ROOT)
        if found is None:
            raise UsageError(
                f"{full} is not a oneAPI installation",
                why="it does not exist, cannot be read or has no oneAPI files; looked for setvars.sh,"
                " COMPONENT/VERSION/env/vars.sh and VERSION/oneapi-vars.sh",
                fix="pass the folder that contains 'compiler', 'mkl' and so on, usually /opt/intel/oneapi; "
                "without --oneapi-root, the usual places are searched",
                commands=(shlex.join(["ls", "-l", str(full)]),),
            )
        return (found,)
    by_place: dict[Path, Installation] = {}
    for path, origin in candidates(caller_env):
        found = _recognise(root / path.relative_to("/"), origin, root)
        if found is not None:
            by_place.setdefault(found.real, found)
    return tuple(by_place.values())


def enclosing(path: Path) -> tuple[str, Path, Path] | None:
    """Return component (empty for a toolkit), its folder and the installation that ``path`` lies in."""
    for folder in (path, *path.parents):
        if is_file(folder / COMPONENT_SCRIPT):
            return folder.parent.name, folder, folder.parent.parent
        if is_file(folder / UNIFIED_ENTRY):
            return "", folder, folder.parent
    return None


def _recognise(path: Path, origin: str, root: Path) -> Installation | None:
    real, toolkit = resolved(path, root), None
    if is_file(real / UNIFIED_ENTRY, root):
        path, real, toolkit = path.parent, real.parent, real.name
    components = _components(real, toolkit, root)
    known = components or is_file(real / SETVARS, root)
    return Installation(path, real, origin, components, toolkit) if known else None


def _components(real: Path, toolkit: str | None, root: Path) -> tuple[Component, ...]:
    """Return the components by name, the newest version first; of several toolkits those of the named one."""
    found: dict[tuple[str, Path], Component] = {}
    for entry in entries(real, root):
        more = [*_component_layout(entry, root)]
        if toolkit in (None, entry.name) and is_file(entry / UNIFIED_ENTRY, root):
            more += _unified_layout(real, resolved(entry, root), root)
        for component in more:
            found.setdefault((component.name, component.path), component)
    newest_first = sorted(found.values(), key=Component.sort_key, reverse=True)
    return tuple(sorted(newest_first, key=lambda component: component.name))


def _component_layout(folder: Path, root: Path) -> Iterator[Component]:
    versions = [entry for entry in entries(folder, root) if is_file(entry / COMPONENT_SCRIPT, root)]
    # A copy made without links has a real folder "latest": its version is not known from its name.
    latest = next((resolved(entry, root) for entry in versions if entry.name == LATEST), None)
    for path in dict.fromkeys(resolved(entry, root) for entry in versions):
        script = resolved(path / COMPONENT_SCRIPT, root)
        yield Component(folder.name, path.name, path, script, "component", is_latest=path == latest)


def _unified_layout(real: Path, toolkit: Path, root: Path) -> Iterator[Component]:
    for folder in entries(toolkit / "etc", root):
        script = folder / "vars.sh"
        if is_file(script, root):
            behind = resolved(script, root)
            own = real / folder.name
            # A toolkit's script is often a link into <root>/<component>/<version>.
            version = behind.relative_to(own).parts[0] if behind.is_relative_to(own) else toolkit.name
            yield Component(folder.name, version, toolkit, script, "unified")
