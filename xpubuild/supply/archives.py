"""Archives: of conda packages, and those that a build would download itself, such as triton's LLVM, which are
unpacked and proved.

They come from a mirror, the user's cache, or where they are published. Most upstreams of builds state no
hash. Then the first file that came from a URL is the one: its hash is kept beside it in the cache, in the
index of a mirror and in a lock, and another file from the same URL is refused.
"""

from __future__ import annotations

import functools
import hashlib
import lzma
import posixpath
import shlex
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterable
from dataclasses import field
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from xpubuild.engine.files import explained, read_json, write_json
from xpubuild.engine.fingerprint import file_sha256
from xpubuild.engine.model import SimpleProof
from xpubuild.engine.process import Cancel
from xpubuild.engine.redact import recordable
from xpubuild.errors import FetchError, SourceIntegrityError
from xpubuild.frozen import frozen
from xpubuild.supply.depot.entries import Entry
from xpubuild.supply.depot.folder import walk
from xpubuild.supply.index.pipconf import local_path

if TYPE_CHECKING:
    from xpubuild.supply.depot.folder import Depot

#: What is unpacked for a build, in the folder of the archives.
LIST = "archives.json"
ENDINGS = (".tar.gz", ".tgz", ".tar.xz", ".tar.bz2", ".zip")
#: Beside an archive in the cache whose upstream states no hash: what came from its URL the first time.
FIRST = "first.json"
_BROKEN = (tarfile.TarError, zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError)


@frozen
class Archive:
    """An archive that a build asks for, or a conda package, which has a ``version``.

    ``sha256`` is None where upstream states none. ``folder`` is the folder in it that is passed to the build.
    """

    name: str
    url: str
    sha256: str | None = None
    folder: str = "."
    version: str = ""


@frozen
class Held:
    """An archive that is here, at ``path``, and what it is."""

    path: Path
    sha256: str
    size: int


def file_name(url: str) -> str:
    """Return the name of the file that a URL names; "" where it names none."""
    return posixpath.basename(urlsplit(url).path)


@frozen
class Supply:
    """Where archives come from: the mirror first, then the cache, then the network.

    Offline, a URL of a file of this machine stays.
    """

    cache: Path
    mirror: Path | None = None
    offline: bool = False
    cancel: Cancel = field(default_factory=Cancel)

    @functools.cached_property
    def depot(self) -> Depot | None:
        """The mirror; None without one.

        Raises:
            FetchError, UsageError, SourceIntegrityError: there is none at its place, or a damaged one.
        """
        from xpubuild.supply.depot.folder import Depot  # noqa: PLC0415 - for few

        return Depot.open(self.mirror) if self.mirror is not None else None


def archive_entry(entries: Iterable[Entry], archive: Archive) -> Entry | None:
    """Return the entry of an archive: by its hash, or by where it came from if upstream states none."""
    files = (entry for entry in entries if entry.kind != "git")
    if archive.sha256 is not None:
        return next((entry for entry in files if entry.sha256 == archive.sha256), None)
    origin = ("archive", recordable(archive.url, tokens_in_path=True))
    return next((entry for entry in files if (entry.kind, entry.url) == origin), None)


def look(archive: Archive, supply: Supply) -> Held | None:
    """Return an archive that is here already; nothing is downloaded.

    Raises:
        SourceIntegrityError: the mirror's copy is damaged.
    """
    if supply.depot is not None and (entry := archive_entry(supply.depot.files(), archive)) is not None:
        return Held(supply.depot.file(entry), entry.sha256, entry.size)
    folder = _folder(archive, supply)
    expected = archive.sha256 or _first(folder)
    here = local_path(archive.url) if archive.sha256 else None
    for place in (folder / file_name(archive.url), here):
        if place is not None and _is_file(place) and file_sha256(place) == expected:
            return Held(place, expected, place.stat().st_size)
    return None


def require_here(archives: Iterable[Archive], supply: Supply) -> None:
    """Look for archives, of which nothing is downloaded; a file of this machine is compared when it is used.

    Raises:
        FetchError: some are not here; names the first.
        SourceIntegrityError: the mirror's copy of one is damaged.
    """
    elsewhere = (item for item in archives if not (item.sha256 and _is_file(local_path(item.url))))
    missing = [archive for archive in elsewhere if look(archive, supply) is None]
    if missing:
        more = f" and {len(missing) - 1} others" if len(missing) > 1 else ""
        raise FetchError(
            f"the archive {file_name(missing[0].url)}{more} is not in the mirror",
            why=f"it would be downloaded from {missing[0].url}, and the run is offline",
            fix="fill a mirror with 'xpubuild fetch' on a machine with a network; pass it with --mirror",
            evidence={"reason": "offline", "url": missing[0].url, "sha256": missing[0].sha256},
        )


def _is_file(path: Path | None) -> bool:
    return path is not None and path.is_file()


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
        require_here([archive], supply)
    from xpubuild.supply.index.transfer import download  # noqa: PLC0415 - requests, for few

    report(f"fetching {archive.url}")
    folder, name = _folder(archive, supply), file_name(archive.url)
    first = _first(folder)
    try:
        place = download(archive.url, archive.sha256 or first, folder, name, cancel=supply.cancel)
    except FetchError as error:
        error.fix = "check the network and the proxy settings (HTTPS_PROXY), then run the same command again"
        error.commands = ()
        raise
    except SourceIntegrityError as error:
        error.what = f"{name} is another file than expected"
        error.fix = "check the proxy; if the file upstream was replaced, correct sha256 in a recipe"
        if archive.sha256 is None:
            error.why += ", which came the first time; upstream states no hash of it"
            error.fix = f"if the file was replaced on purpose, remove {folder}, then create a new lock"
        raise
    sha256, size = file_sha256(place), place.stat().st_size
    if first is None and archive.sha256 is None:
        write_json(folder / FIRST, {"url": archive.url, "sha256": sha256, "size": size})
    return Held(place, sha256, size)


def _folder(archive: Archive, supply: Supply) -> Path:
    return supply.cache / hashlib.sha256(archive.url.encode()).hexdigest()[:16]


def _first(folder: Path) -> str | None:
    """Return the sha256 of what came from the URL the first time; None where that cannot be read."""
    found = read_json(folder / FIRST).get("sha256")
    return found if isinstance(found, str) else None


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
        _unpack(archive, held, into / archive.name)
        vouches = "upstream" if archive.sha256 is not None else "first download"
        done.append({"name": archive.name, "url": archive.url, "sha256": held.sha256, "size": held.size,
                     "hash_from": vouches})  # fmt: skip
    write_json(into / LIST, {"archives": done, "files": files_below(into)})


def _unpack(asked: Archive, held: Held, folder: Path) -> None:
    with explained(folder, f"unpacking {held.path.name}"):
        folder.mkdir(parents=True, exist_ok=True)
        try:
            if held.path.name.endswith(".zip"):
                with zipfile.ZipFile(held.path) as archive:
                    archive.extractall(folder)  # noqa: S202 - zipfile leaves out what leads elsewhere
            else:
                with tarfile.open(held.path) as tar:
                    # Early releases of Python 3.10 have no filters; the file is one that a recipe names.
                    safe: dict[str, Any] = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
                    tar.extractall(folder, **safe)  # noqa: S202
        except _BROKEN as error:
            raise _unusable(asked, held, str(error)) from error
    if not folder.joinpath(*PurePosixPath(asked.folder).parts).is_dir():
        raise _unusable(asked, held, f"it has no folder {asked.folder}")


def _unusable(asked: Archive, held: Held, why: str) -> SourceIntegrityError:
    return SourceIntegrityError(
        f"{held.path} cannot be used",
        why=f"{why} (from {asked.url}, sha256 {held.sha256})",
        fix="remove it if it is damaged; otherwise correct 'url' or 'folder' of the archive in the recipe",
        evidence={"archive": asked.name, "sha256": held.sha256},
    )


def files_below(into: Path) -> dict[str, int]:
    """Return path below ``into`` -> size of every file and link."""
    return {path: item.stat(follow_symlinks=False).st_size for path, item in walk(into)}


def unpacked_stamp(into: Path) -> int:
    """Return a number that changes when one of the files does, by size or time."""
    total = 0
    for path, item in walk(into):
        status = item.stat(follow_symlinks=False)
        mark = f"{path} {status.st_size} {status.st_mtime_ns}"
        total = zlib.crc32(mark.encode("utf-8", "surrogateescape"), total)
    return total


@frozen
class UnpackedProof(SimpleProof):
    """The proof that what was unpacked for a build is still there, file by file with its size."""

    words = "the archives that the build would download are unpacked, with all their files"

    into: str

    def check(self) -> dict[str, Any]:
        """Return the archives with their hashes.

        Raises:
            SourceIntegrityError: a file is missing or has another size.
        """
        into = Path(self.into)
        document = read_json(into / LIST)
        files, archives = document.get("files"), document.get("archives")
        if not isinstance(files, dict) or not isinstance(archives, list):
            raise self._broken(LIST, "it cannot be read")
        here = files_below(into)
        for path, size in files.items():
            if here.get(path) != size:
                found = f"it has {here[path]} bytes, not {size}" if path in here else "it is missing"
                raise self._broken(path, found)
        return {"archives": archives, "files": len(files)}

    def _broken(self, path: str, why: str) -> SourceIntegrityError:
        return SourceIntegrityError(
            f"{Path(self.into) / path} cannot be used for the build",
            why=why,
            fix="remove that folder, then run the same command again",
            commands=(f"rm -r -- {shlex.quote(self.into)}",),
            evidence={"folder": self.into},
        )
