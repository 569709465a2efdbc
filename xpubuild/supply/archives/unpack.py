"""Unpacks the archives of a build into one folder, with a list of what is there."""

from __future__ import annotations

import json
import lzma
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterable
from pathlib import Path, PurePosixPath
from typing import Any

from xpubuild.engine.files import explained, write_atomic
from xpubuild.errors import SourceIntegrityError
from xpubuild.supply.archives.model import LIST, Archive, Held, hash_from
from xpubuild.supply.archives.proof import files_below
from xpubuild.supply.archives.supply import Supply, bring

_BROKEN = (tarfile.TarError, zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError)


def provide(archives: Iterable[Archive], into: Path, supply: Supply, report: Callable[[str], None]) -> None:
    """Unpack every archive into a folder of its name below ``into``, and write the list of what is there.

    Raises:
        FetchError: one cannot be had.
        SourceIntegrityError: one is not what was expected, or cannot be unpacked.
        NoSpaceError, ToolchainError, InterruptedByUserError.
    """
    done = []
    for archive in archives:
        held = bring(archive, supply, report)
        report(f"unpacking {held.path.name}, {held.size} bytes, sha256 {held.sha256}")
        _unpack(held, into / archive.name)
        done.append(_entry(held))
    document = {"archives": done, "files": dict(files_below(into))}
    write_atomic(into / LIST, json.dumps(document, indent=0, sort_keys=True).encode() + b"\n")


def _entry(held: Held) -> dict[str, Any]:
    return {
        "name": held.archive.name,
        "url": held.archive.url,
        "sha256": held.sha256,
        "size": held.size,
        "hash_from": hash_from(held.archive.sha256),
    }


def _unpack(held: Held, folder: Path) -> None:
    with explained(folder, f"unpacking {held.path.name}"):
        folder.mkdir(parents=True, exist_ok=True)
        try:
            if held.path.name.endswith(".zip"):
                with zipfile.ZipFile(held.path) as archive:
                    archive.extractall(folder)  # noqa: S202 - zipfile leaves out what leads elsewhere
            else:
                with tarfile.open(held.path) as tar:
                    _extract(tar, folder)
        except _BROKEN as error:
            raise _unusable(held, str(error)) from error
    if not folder.joinpath(*PurePosixPath(held.archive.folder).parts).is_dir():
        raise _unusable(held, f"it has no folder {held.archive.folder}")


def _extract(tar: tarfile.TarFile, folder: Path) -> None:
    # Early patch releases of Python 3.10 have no filters; the file is one that a recipe names.
    if hasattr(tarfile, "data_filter"):
        tar.extractall(folder, filter="data")
    else:
        tar.extractall(folder)  # noqa: S202


def _unusable(held: Held, why: str) -> SourceIntegrityError:
    return SourceIntegrityError(
        f"{held.path} cannot be used",
        why=f"{why} (from {held.archive.url}, sha256 {held.sha256})",
        fix="remove it if it is damaged; otherwise correct 'url' or 'folder' of the archive in the recipe",
        evidence={"archive": held.archive.name, "sha256": held.sha256},
    )
