"""Finds an archive: in a mirror, in the user's cache, or where upstream's build would download it.

Most upstreams state no hash. Then the first file that came from a URL is the one: its hash is kept beside it
in the cache, in the index of a mirror and in a lock, and another file from the same URL is refused.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import field
from pathlib import Path

from xpubuild.engine.files import write_atomic
from xpubuild.engine.fingerprint import file_sha256
from xpubuild.engine.process import Cancel
from xpubuild.errors import FetchError, SourceIntegrityError
from xpubuild.frozen import frozen
from xpubuild.supply.archives.model import Archive, Finder, Held, file_name
from xpubuild.supply.index.download import download
from xpubuild.supply.index.files import RemoteFile

#: Beside an archive in the cache: what came from its URL the first time.
FIRST = "first.json"
_DIGITS = 16


@frozen
class Supply:
    """Where archives come from: ``find`` (a mirror) first, then the cache, then the network."""

    cache: Path
    find: Finder | None = None
    offline: bool = False
    cancel: Cancel = field(default_factory=Cancel)


def remote_file(archive: Archive, component: str = "") -> RemoteFile:
    """Return an archive as a file to be fetched."""
    return RemoteFile(
        dist=f"{component}.{archive.name}" if component else archive.name,
        version="",
        filename=file_name(archive.url),
        sha256=archive.sha256,
        size=None,
        url=archive.url,
        is_archive=True,
    )


def look(archive: Archive, supply: Supply) -> Held | None:
    """Return an archive that is here already; nothing is downloaded.

    Raises:
        SourceIntegrityError: the mirror's copy is damaged.
    """
    found = supply.find(archive) if supply.find is not None else None
    if found is not None:
        return Held(archive, found, file_sha256(found), found.stat().st_size)
    folder = _folder(archive, supply)
    place, expected = folder / file_name(archive.url), archive.sha256 or _first(folder)
    if expected is None or not place.is_file() or file_sha256(place) != expected:
        return None
    return Held(archive, place, expected, place.stat().st_size)


def bring(archive: Archive, supply: Supply, report: Callable[[str], None]) -> Held:
    """Return an archive, downloaded into the cache where it is not here.

    Raises:
        FetchError: it cannot be downloaded; offline: it is not here.
        SourceIntegrityError: what came is not what upstream states, or not what came the first time.
        NoSpaceError, ToolchainError, InterruptedByUserError.
    """
    held = look(archive, supply)
    if held is not None:
        return held
    if supply.offline:
        raise nowhere(archive)
    report(f"fetching {archive.url}")
    folder = _folder(archive, supply)
    first = _first(folder)
    wanted = remote_file(Archive(archive.name, archive.url, archive.sha256 or first))
    try:
        place = download(wanted, folder, cancel=supply.cancel)
    except FetchError as error:
        error.fix = "check the network and the proxy settings (HTTPS_PROXY), then run the same command again"
        error.commands = ()
        raise
    except SourceIntegrityError as error:
        raise _replaced(archive, error, folder if archive.sha256 is None else None) from error
    sha256, size = file_sha256(place), place.stat().st_size
    if first is None:
        text = json.dumps({"url": archive.url, "sha256": sha256, "size": size}, indent=1)
        write_atomic(folder / FIRST, f"{text}\n".encode())
    return Held(archive, place, sha256, size)


def _folder(archive: Archive, supply: Supply) -> Path:
    return supply.cache / hashlib.sha256(archive.url.encode()).hexdigest()[:_DIGITS]


def _first(folder: Path) -> str | None:
    """Return the sha256 of what came from the URL the first time; None where that cannot be read."""
    try:
        found = json.loads((folder / FIRST).read_text("utf-8"))["sha256"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return found if isinstance(found, str) else None


def nowhere(archive: Archive) -> FetchError:
    """Return the error of an archive that is not here, in a run that may not download it."""
    return FetchError(
        f"the archive {file_name(archive.url)} is not in the mirror",
        why=f"the build would download it from {archive.url}, and the run is offline",
        fix="fill the mirror with 'xpubuild fetch' on a machine with a network, and pass it with --mirror",
        evidence={"reason": "offline", "url": archive.url, "sha256": archive.sha256},
    )


def _replaced(archive: Archive, error: SourceIntegrityError, first: Path | None) -> SourceIntegrityError:
    if first is None:
        why, fix = error.why, "check the proxy; if the file upstream was replaced, correct sha256 in a recipe"
    else:
        why = f"{error.why}, which came the first time; upstream states no hash of it"
        fix = f"if the file was replaced on purpose, remove {first}, then create a new lock"
    return SourceIntegrityError(
        f"{file_name(archive.url)} is another file than expected", why=why, fix=fix, evidence=error.evidence
    )
