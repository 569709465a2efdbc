"""Hashes the installed packages of an environment against their RECORD, and names what no RECORD has."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

from packaging.utils import canonicalize_name

from xpubuild.artifacts.doubt import installer_of
from xpubuild.artifacts.installed import content_problems
from xpubuild.artifacts.installed_repair import KEEP
from xpubuild.artifacts.site_packages import (
    InstalledDist,
    RecordEntry,
    installed_dists,
    prefix_of,
    quick_problem,
    record_entries,
)
from xpubuild.engine.journal import Journal
from xpubuild.engine.process import Cancel
from xpubuild.workspace.check_model import Damage, Found
from xpubuild.workspace.layout import Layout

#: How a line of a .pth file begins that is run.
_RUNS = (b"import ", b"import\t")
_BOM = b"\xef\xbb\xbf"
#: What Python runs at every start, by name; lines of a .pth file as well.
_AT_START = frozenset({"sitecustomize.py", "usercustomize.py", "sitecustomize", "usercustomize"})
_SHARED = "it is linked to the cache of uv, so other workspaces may have the same damage"
#: virtualenv, which made the environments of xpubuild 0.1 and 0.2, makes these two, without a RECORD.
_STARTER, _STARTED = "_virtualenv.pth", "_virtualenv.py"


def check_packages(site_packages: Path, found: Found, cancel: Cancel) -> None:
    """Hash every file of every distribution; those of conda packages are left out: conda rewrites them.

    Raises:
        InterruptedByUserError: ``cancel`` was set.
    """
    for dist in installed_dists(site_packages):
        cancel.stop_here()
        if _is_of_conda(dist):
            continue
        found.packages += 1
        # virtualenv listed folders of compiled files of pip that it did not make.
        is_seed = dist.name in KEEP
        problem = None if is_seed and (dist.info / "RECORD").is_file() else quick_problem(dist)
        if problem is not None:
            found.damaged.append(Damage("package", dist.name, str(dist.info), problem))
            continue
        entries = [entry for entry in record_entries(dist) if entry.checksum or not is_seed]
        found.files += len(entries)
        found.bytes += sum(entry.size or 0 for entry in entries)
        problems = content_problems(entries)
        if problems:
            more = f", and {len(problems) - 1} more files" if len(problems) > 1 else ""
            shared = f"; {_SHARED}" if _is_shared(dist, entries) else ""
            found.damaged.append(Damage("package", dist.name, str(dist.info), f"{problems[0]}{more}{shared}"))


def _is_shared(dist: InstalledDist, entries: Sequence[RecordEntry]) -> bool:
    """Whether uv made hard links to its cache: then the same file may be in other workspaces."""
    return installer_of(dist) == "uv" and any(
        entry.path.lstat().st_nlink > 1 for entry in entries if entry.path.exists()
    )


def check_missing(layout: Layout, journal: Journal, site_packages: Path, found: Found) -> None:
    """Name what pip installed in a step that is done and is gone: all of it, so that no RECORD tells."""
    here = {dist.name for dist in installed_dists(site_packages)}
    for record in journal.records():
        for report in layout.pip_reports(record.step) if record.status == "done" else ():
            for name in sorted(_reported(report) - here):
                here.add(name)
                why = "it was installed, and is not there any more"
                found.damaged.append(Damage("package", name, str(site_packages), why, record.step))


def _reported(report: Path) -> set[str]:
    """Return the normalised names in one of pip's own reports."""
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        items = json.loads(report.read_text("utf-8"))["install"]
        return {canonicalize_name(item["metadata"]["name"]) for item in items}
    return set()


def check_unowned(site_packages: Path, found: Found) -> None:
    """Name the files that no installed package has; those that Python runs at its start are damage."""
    owned = _owned(site_packages)
    for path in _files(site_packages):
        name = str(path.relative_to(site_packages))
        if str(path) in owned or _is_compiled(path) or _is_of_virtualenv(name, path):
            continue
        if _runs_at_start(name, path):
            why = "no installed package has it, and Python runs it at every start"
            found.damaged.append(Damage("start-up file", name, str(path), why))
        else:
            found.unowned.append(str(path))


def _owned(site_packages: Path) -> Collection[str]:
    prefix = prefix_of(site_packages)
    owned: set[str] = set()
    for dist in installed_dists(site_packages):
        with contextlib.suppress(OSError, ValueError):  # damaged, and named as such
            owned |= {os.path.normpath(entry.path) for entry in record_entries(dist)}
    for meta in prefix.glob("conda-meta/*.json"):
        with contextlib.suppress(OSError, ValueError):
            owned |= {str(prefix / name) for name in json.loads(meta.read_text("utf-8")).get("files", ())}
    return owned


def _files(folder: Path) -> Iterator[Path]:
    for place, folders, names in os.walk(folder):
        folders.sort()
        yield from (Path(place) / name for name in sorted(names))


def _is_compiled(path: Path) -> bool:
    return path.suffix == ".pyc" and path.parent.name == "__pycache__"


def _is_of_virtualenv(name: str, path: Path) -> bool:
    if name not in (_STARTER, _STARTED):
        return False
    with contextlib.suppress(OSError):
        if name == _STARTER:
            return path.read_bytes().strip() == b"import _virtualenv"
        found = importlib.util.find_spec("virtualenv")
        folder = Path(found.origin).parent if found is not None and found.origin else Path()
        return (folder / "create" / "via_global_ref" / _STARTED).read_bytes() == path.read_bytes()
    return False


def _runs_at_start(name: str, path: Path) -> bool:
    first, _, rest = name.partition(os.sep)
    if rest or not first.endswith(".pth"):
        return first in _AT_START
    try:
        # Other lines are folders, as old editable installs have them.
        return any(line.startswith(_RUNS) for line in path.read_bytes().removeprefix(_BOM).splitlines())
    except OSError:
        return True


def _is_of_conda(dist: InstalledDist) -> bool:
    return installer_of(dist) == "conda"
