"""The packages of a conda prefix: the records of ``conda-meta``, normalised and compared with the lock."""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from xpubuild.engine.files import write_atomic
from xpubuild.frozen import frozen
from xpubuild.supply.conda.model import CondaPackage

# Where and when something was unpacked; another machine or run has other values.
_INCIDENTAL = ("extracted_package_dir", "indexed_timestamp", "link", "requested_specs", "requested_spec")

_REMOVED = frozenset({"REQUESTED", "direct_url.json"})


@frozen
class Installed:
    """One record of ``conda-meta``; ``files`` are relative to the prefix."""

    name: str
    version: str
    sha256: str
    files: tuple[str, ...]


def installed(env: Path) -> dict[str, Installed]:
    """Return what ``conda-meta`` records, by name; a damaged record is left out."""
    found = {}
    for path in sorted((env / "conda-meta").glob("*.json")):
        record = _load(path)
        name = record.get("name")
        if isinstance(name, str):
            files = tuple(str(item) for item in record.get("files") or ())
            version, digest = str(record.get("version", "")), str(record.get("sha256", ""))
            found[name] = Installed(name, version, digest, files)
    return found


def tidy(env: Path, packages: Sequence[CondaPackage]) -> None:
    """Write the records anew with the addresses and hashes of the lock and without what is incidental.

    The archives were linked from a folder that is gone afterwards. conda reads the result: ``conda list
    --prefix ENV`` works on it.
    """
    known = {package.name: package for package in packages}
    meta = env / "conda-meta"
    for path in sorted(meta.glob("*.json")):
        record = {key: value for key, value in _load(path).items() if key not in _INCIDENTAL}
        package = known.get(str(record.get("name")))
        if package is not None and record.get("version") == package.version:
            record |= {
                "fn": package.filename, "url": package.url, "channel": f"{package.channel}/",
                "sha256": package.sha256, "md5": package.md5, "requested_specs": [],
            }  # fmt: skip
        write_atomic(path, json.dumps(record, indent=1, sort_keys=True).encode() + b"\n")
    # conda takes a folder for an environment by this file; rattler writes the time into it.
    write_atomic(meta / "history", b"")


def mend_records(env: Path) -> None:
    """Make the RECORD of Python packages true: conda's builders change files after pip wrote it.

    They write ``conda`` into INSTALLER and remove what says where pip had the wheel from. Otherwise the
    packages would look like what an interrupted pip left.
    """
    for record in sorted((env / "lib").glob("python3*/site-packages/*.dist-info/RECORD")):
        rows = list(csv.reader(io.StringIO(record.read_text("utf-8"))))
        site = record.parent.parent
        kept = [_true_row(row, site) for row in rows if row and _belongs(row[0], site)]
        if kept != rows:
            out = io.StringIO()
            csv.writer(out, lineterminator="\n").writerows(kept)
            # A file of its own: the one there may be a second name of a file in a package cache.
            write_atomic(record, out.getvalue().encode())


def _belongs(name: str, site: Path) -> bool:
    return Path(name).name not in _REMOVED or (site / name).exists()


def _true_row(row: list[str], site: Path) -> list[str]:
    path = site / row[0]
    if path.name != "INSTALLER" or not path.is_file():
        return row
    data = path.read_bytes()
    checksum = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
    return [row[0], f"sha256={checksum}", str(len(data))]


def problems(env: Path, packages: Sequence[CondaPackage]) -> list[str]:
    """Say how the prefix differs from the lock, one line each; empty where it is whole.

    Python packages may be replaced by pip later, so files in ``site-packages`` are pip's matter and not
    looked at here.
    """
    there = installed(env)
    found = []
    for package in packages:
        record = there.get(package.name)
        if record is None:
            found.append(f"{package.title} is not installed")
        elif (record.version, record.sha256) != (package.version, package.sha256):
            found.append(f"{package.name} is {record.version} with sha256 {record.sha256[:12] or 'unknown'}")
        else:
            gone = [name for name in record.files if _must_be_there(name) and not os.path.lexists(env / name)]
            if gone:
                found.append(f"{package.title} lacks {len(gone)} files: {gone[0]}")
    extra = sorted(set(there) - {package.name for package in packages})
    return found + [f"{name} is installed, but not in the lock" for name in extra]


def activation_scripts(env: Path) -> list[str]:
    """Return the scripts that an activated conda would run; nothing here runs them."""
    return sorted(path.name for path in (env / "etc" / "conda" / "activate.d").glob("*"))


def _must_be_there(name: str) -> bool:
    return "/site-packages/" not in name and not name.endswith(".pyc")


def _load(path: Path) -> dict[str, Any]:
    try:
        document = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return document if isinstance(document, dict) else {}
