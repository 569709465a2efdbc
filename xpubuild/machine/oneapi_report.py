"""The installed oneAPI components, for the host report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from xpubuild.errors import XpuBuildError
from xpubuild.machine.oneapi_components import Component, list_components
from xpubuild.machine.oneapi_paths import SLASH, real
from xpubuild.machine.oneapi_roots import find_roots


def _shown(path: Path, root_dir: Path) -> str:
    real_base = real(root_dir)
    if root_dir != SLASH and path.is_relative_to(real_base):
        return str(SLASH / path.relative_to(real_base))
    return str(path)


def _without_views(components: Sequence[Component]) -> list[Component]:
    """A toolkit's folder is usually a view of components that are listed with their own versions already."""
    own = {component.name for component in components if component.layout == "component"}
    return [item for item in components if item.layout == "component" or item.name not in own]


def installed(
    *, explicit_root: Path | None = None, caller_env: Mapping[str, str], root_dir: Path = SLASH
) -> list[dict[str, Any]]:
    """Return what is installed, ready for JSON: root, origin, layout, components.

    Never raises for what it finds: an unreadable place counts as empty. With ``root_dir`` an unpacked image
    is looked at, and paths are shown as they are inside it.
    """
    try:
        roots = find_roots(explicit_root, caller_env, root_dir=root_dir)
    except (XpuBuildError, OSError):
        return []
    report = []
    for root in roots:
        components = list_components(root, root_dir=root_dir)
        report.append(
            {
                "root": _shown(root.real, root_dir),
                "origin": root.origin,
                "layout": "+".join(sorted({component.layout for component in components})),
                "components": [
                    {"name": item.name, "version": item.version, "path": _shown(item.path, root_dir)}
                    for item in _without_views(components)
                ],
            }
        )
    return report
