"""The components of a oneAPI installation with their real versions, in both of its layouts.

Component layout: ``<root>/<component>/<version or latest>/env/vars.sh``.
Unified layout: ``<root>/<version>/etc/<component>/vars.sh``, usable only through
``<root>/<version>/oneapi-vars.sh``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Literal

from packaging.version import Version

from xpubuild.frozen import frozen
from xpubuild.machine.oneapi_bundles import parse_version
from xpubuild.machine.oneapi_finding import Finding
from xpubuild.machine.oneapi_paths import SLASH, folders, is_file, is_link, resolve_inside
from xpubuild.machine.oneapi_roots import COMPONENT_SCRIPT, UNIFIED_ENTRY, Root

Layout = Literal["component", "unified"]
COMPILER = "compiler"
LATEST = "latest"
_OLDEST = Version("0")


@frozen
class Component:
    """One installed component.

    ``path`` has no links in it: the version's folder, or the toolkit's in the unified layout. ``version`` is
    the name of the folder that holds the files (usually two numbers). ``is_latest`` says whether the link
    ``latest`` leads here; in the unified layout there is no such link and it is False.
    """

    name: str
    version: str
    path: Path
    script: Path
    layout: Layout
    is_latest: bool

    def sort_key(self) -> tuple[bool, Version, str]:
        """Order by version; a folder name that is not a version comes first."""
        version = parse_version(self.version)
        return (version is not None, version or _OLDEST, self.version)

    def to_json(self) -> dict[str, Any]:
        """Return the component as reports show it."""
        return {"name": self.name, "version": self.version, "path": str(self.path)}


def _component_layout(name: str, folder: Path, root_dir: Path) -> Iterator[Component]:
    found: dict[Path, Component] = {}
    latest: Path | None = None
    for entry in folders(folder):
        script = resolve_inside(root_dir, entry / COMPONENT_SCRIPT)
        if not is_file(script):
            continue
        real = resolve_inside(root_dir, entry)
        if entry.name == LATEST:
            latest = real
        # A copy made without links has a real folder "latest": its version is not known from its name.
        found.setdefault(real, Component(name, real.name, real, script, "component", is_latest=False))
    for real, component in found.items():
        yield Component(**{**component.__dict__, "is_latest": real == latest})


def _unified_layout(root: Path, toolkit: Path, root_dir: Path) -> Iterator[Component]:
    if not is_file(resolve_inside(root_dir, toolkit / UNIFIED_ENTRY)):
        return
    real = resolve_inside(root_dir, toolkit)
    for folder in folders(real / "etc"):
        script = folder / "vars.sh"
        target = resolve_inside(root_dir, script)
        if is_file(target):
            yield Component(
                folder.name,
                _behind(root, folder.name, target) or real.name,
                real,
                script,
                "unified",
                is_latest=False,
            )


def _behind(root: Path, name: str, script: Path) -> str | None:
    """Return the version of ``<root>/<name>/<version>/...`` where a toolkit's script is a link into it."""
    if script.is_relative_to(root / name):
        return script.relative_to(root / name).parts[0]
    return None


def list_components(root: Root, *, root_dir: Path = SLASH) -> tuple[Component, ...]:
    """Return every component of an installation, by name, the newest version first.

    Folders that cannot be read are taken as empty. Where ``root.toolkit`` names one toolkit, the others of
    the unified layout are left out.
    """
    found: dict[tuple[str, Path], Component] = {}
    for entry in folders(root.real):
        for component in _component_layout(entry.name, entry, root_dir):
            found.setdefault((component.name, component.path), component)
        if root.toolkit in (None, entry.name):
            for component in _unified_layout(root.real, entry, root_dir):
                found.setdefault((component.name, component.path), component)
    newest_first = sorted(found.values(), key=Component.sort_key, reverse=True)
    return tuple(sorted(newest_first, key=lambda component: component.name))


def latest_drift(root: Root, components: Iterable[Component], names: Iterable[str]) -> tuple[Finding, ...]:
    """Return what is odd about the ``latest`` links of the named components.

    Such a link leads nowhere, or not to the newest version that is installed (each component has its own).
    """
    by_name: dict[str, list[Component]] = {}
    for component in components:
        if component.layout == "component":
            by_name.setdefault(component.name, []).append(component)
    findings = []
    for name in names:
        installed = by_name.get(name, [])
        link = root.real / name / LATEST
        newest = max(installed, key=Component.sort_key, default=None)
        chosen = next((component for component in installed if component.is_latest), None)
        if newest is None or not is_link(link):
            continue
        versions = {"installed": [component.version for component in installed]}
        if chosen is None:
            message = (
                f"the link {link} has no usable target; installed versions: "
                f"{', '.join(versions['installed'])}"
            )
            findings.append(Finding("oneapi-latest-dangling", message, versions))
        elif chosen != newest:
            message = f"{link} points to {chosen.version} although {newest.version} is installed"
            findings.append(Finding("oneapi-latest-not-newest", message, versions))
    return tuple(findings)
