"""Builds an editable install once more: what pip does, without pip and without asking for the metadata twice.

The environment's own Python runs this file, with the standard library and pip: ``rebuild.py DIST FOLDER
[NAME=VALUE...] -- PIP...``. It calls the hook that pip calls, and puts the files that are new in the wheel in
the place of the installed ones. Where DIST is not installed editable from FOLDER, or has other files or
scripts, it runs PIP.
"""

from __future__ import annotations

import base64
import csv
import hashlib
import importlib
import io
import json
import os
import runpy
import sys
import tempfile
import zipfile
from importlib import metadata
from pathlib import Path

_OF_PIP = ("INSTALLER", "REQUESTED", "direct_url.json")


def installed(dist: str, folder: Path) -> Path | None:
    """Return the dist-info folder of an editable install of a tree, None where there is none."""
    for found in metadata.distributions(name=dist):
        direct = json.loads(found.read_text("direct_url.json") or "{}")
        if direct.get("url") == folder.as_uri() and direct.get("dir_info", {}).get("editable"):
            return Path(str(found.locate_file(""))) / str(found._path.name)  # type: ignore[attr-defined]
    return None


def hook(folder: Path) -> object:
    """Return the build backend of a tree, as pip finds it."""
    toml = importlib.import_module("tomllib" if sys.version_info >= (3, 11) else "pip._vendor.tomli")
    file = folder / "pyproject.toml"
    said = toml.loads(file.read_text("utf-8")).get("build-system", {}) if file.is_file() else {}
    sys.path[:0] = [str(folder / item) for item in said.get("backend-path", ())]
    module, _, inside = said.get("build-backend", "setuptools.build_meta:__legacy__").partition(":")
    backend: object = importlib.import_module(module)
    return getattr(backend, inside) if inside else backend


def replace(wheel: Path, info: Path) -> bool:
    """Put what is new in a wheel in the place of what is installed; False where it has other files.

    Scripts that pip wrote outside of the folder are those of entry points, which have to be the same then.
    """
    site, record = info.parent, info / "RECORD"
    rows = {row[0]: row for row in csv.reader(io.StringIO(record.read_text("utf-8"), newline="")) if row}
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if not name.endswith("/")}
        own = {f"{info.name}/{name}" for name in _OF_PIP}
        there = {name for name in rows if not name.endswith(".pyc") and not name.startswith("../")} - own
        points = f"{info.name}/entry_points.txt"
        if names != there or any(".data/" in name for name in names):
            return False
        if points in names and archive.read(points) != (site / points).read_bytes():
            return False
        for name in sorted(names - {f"{info.name}/RECORD"}):
            data = archive.read(name)
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            if rows[name][1] == f"sha256={digest}":
                continue
            draft = site / f"{name}.new"
            draft.write_bytes(data)
            draft.chmod((site / name).stat().st_mode & 0o777)
            draft.replace(site / name)
            rows[name] = [name, f"sha256={digest}", str(len(data))]
            sys.stdout.write(f"replaced {name}\n")
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows.values())
    draft = record.with_name("RECORD.new")
    draft.write_text(text.getvalue(), "utf-8")
    draft.replace(record)
    return True


def main(words: list[str]) -> None:
    """Build and replace, or run pip."""
    del sys.path[0]  # the folder of this file
    given, pip = words[: words.index("--")], words[words.index("--") + 1 :]
    dist, folder, path = given[0], Path(given[1]), [*sys.path]
    info = installed(dist, folder)
    if info is not None:
        sys.stdout.write(f"building {dist} in place\n")
        sys.stdout.flush()
        os.chdir(folder)
        with tempfile.TemporaryDirectory() as stage:
            settings = dict(item.split("=", 1) for item in given[2:])
            name = hook(folder).build_editable(stage, settings or None, None)  # type: ignore[attr-defined]
            if replace(Path(stage) / name, info):
                return
        sys.stdout.flush()
        sys.path[:] = path
    sys.argv = pip[pip.index("pip") :]
    runpy.run_module("pip", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main(sys.argv[1:])
