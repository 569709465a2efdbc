"""Package archives: found in a mirror, the cache or a channel, and put into one folder, each hash checked.

No byte of a package is used whose hash was not checked where it lies then, wherever it came from: rattler
checks what it downloads itself, and nothing of a ``file://`` channel.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Sequence
from dataclasses import field
from pathlib import Path
from urllib.parse import unquote, urlsplit

from xpubuild.engine.files import explained
from xpubuild.engine.fingerprint import file_sha256
from xpubuild.errors import FetchError, SourceIntegrityError
from xpubuild.frozen import frozen
from xpubuild.supply.conda.channels import Channel, with_access
from xpubuild.supply.conda.lockfile import CondaPackage
from xpubuild.supply.index.download import download
from xpubuild.supply.index.files import RemoteFile

#: Returns the archive of a package where there is one; nobody has looked at its hash yet.
Finder = Callable[[CondaPackage], Path | None]


@frozen
class Supply:
    """Where archives come from: ``find`` (a mirror) first, then the cache, then the channel.

    ``offline`` leaves out channels on the network; a channel that is a folder of this machine stays.
    """

    cache: Path
    find: Finder | None = None
    offline: bool = False
    channels: Sequence[Channel] = field(default=(), repr=False)


def in_folder(folder: Path) -> Finder:
    """Return a finder for a folder that holds archives by hash, ``SHA256/NAME``, or by name."""

    def find(package: CondaPackage) -> Path | None:
        name = package.filename
        places = (folder / package.sha256 / name, folder / package.subdir / name, folder / name)
        return next(filter(Path.is_file, places), None)

    return find


def bring(
    packages: Sequence[CondaPackage], folder: Path, supply: Supply, *, report: Callable[[str], None]
) -> None:
    """Put every archive into ``folder/SUBDIR/NAME``, each with its hash checked.

    Raises:
        FetchError: an archive is not available; the first one is listed, before anything is copied.
        SourceIntegrityError: one is not what the lock says.
        NoSpaceError, ToolchainError: the disk is full; a file cannot be read.
    """
    missing = missing_packages(packages, supply)
    if missing and supply.offline:
        raise nowhere(missing)
    for package in packages:
        place = _place(package, supply)
        if place is None:
            report(f"fetching {package.filename}")
            place = fetch(package, supply.cache, supply.channels)
        copy = folder / package.subdir / package.filename
        with explained(place, f"copying {package.filename}"):
            copy.parent.mkdir(parents=True, exist_ok=True)
            try:
                os.link(place, copy)
            except OSError:  # another file system, or a file of another user
                shutil.copyfile(place, copy)
            if (found := file_sha256(copy)) != package.sha256:
                raise _wrong(package, found, str(place))


def missing_packages(packages: Sequence[CondaPackage], supply: Supply) -> list[CondaPackage]:
    """Return what would have to be fetched."""
    return [package for package in packages if _place(package, supply) is None]


def fetch(package: CondaPackage, folder: Path, channels: Sequence[Channel] = ()) -> Path:
    """Fetch an archive from its channel into ``folder/SHA256/NAME`` and return that path.

    ``channels`` may know the credentials that its address needs; proxies, certificates and ``.netrc`` are
    those of pip. A download that was cut is resumed.

    Raises:
        FetchError: the channel does not answer or does not have it.
        SourceIntegrityError: what came is not what the lock says; nothing of it is kept.
        NoSpaceError: the disk is full.
    """
    origin = with_access(package.url, channels)
    file = RemoteFile(
        package.name, package.version, package.filename, package.sha256, None, package.url, origin=origin
    )
    try:
        return download(file, folder / package.sha256)
    except FetchError as error:
        raise FetchError(
            f"the conda package {package.filename} could not be fetched",
            why=f"{error.why} ({package.url})",
            fix="check the network and the proxy settings (HTTPS_PROXY), or run 'xpubuild fetch' first on a"
            " machine with a network",
            evidence={"package": package.name, "url": package.url, "sha256": package.sha256},
        ) from None
    except SourceIntegrityError as error:
        raise _wrong(package, str(error.evidence["got"]), package.url) from None


def _place(package: CondaPackage, supply: Supply) -> Path | None:
    if supply.find and (given := supply.find(package)) is not None:
        return given
    cached = supply.cache / package.sha256 / package.filename
    # What lies under its own hash and has another one is our own damaged copy: it is fetched again.
    if cached.is_file() and file_sha256(cached) == package.sha256:
        return cached
    parts = urlsplit(package.url)
    local = Path(unquote(parts.path))
    return local if parts.scheme == "file" and local.is_file() else None


def nowhere(missing: Sequence[CondaPackage]) -> FetchError:
    """Return the error of archives that no place on this machine has."""
    first = missing[0]
    more = f" and {len(missing) - 1} others" if len(missing) > 1 else ""
    return FetchError(
        f"the conda package {first.filename}{more} is not in the mirror",
        why="--offline: channels on the network are not used",
        fix="fill the mirror with 'xpubuild fetch' on a machine with a network",
        evidence={"missing": [item.filename for item in missing], "sha256": first.sha256},
    )


def _wrong(package: CondaPackage, found: str, origin: str) -> SourceIntegrityError:
    return SourceIntegrityError(
        f"the conda package {package.filename} does not match the lock",
        why=f"the lock says sha256 {package.sha256}, {origin} has {found}",
        fix="remove that file if it is damaged; if the channel replaced it, create the lock again and check"
        " the differences",
        evidence={"package": package.name, "expected": package.sha256, "found": found, "origin": origin},
    )
