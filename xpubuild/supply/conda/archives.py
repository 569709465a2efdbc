"""Package archives: found in a mirror, the cache or a channel, and copied with a check of their hash.

No byte of a package is used that was not hashed on its way into the staging folder, wherever it came from:
rattler checks what it downloads itself, and nothing of a ``file://`` channel.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from urllib.parse import unquote, urlsplit

from xpubuild.engine.files import explained, replacing
from xpubuild.engine.fingerprint import file_sha256
from xpubuild.errors import FetchError, SourceIntegrityError
from xpubuild.frozen import frozen
from xpubuild.supply.conda.channels import Channel, with_access
from xpubuild.supply.conda.model import CondaPackage
from xpubuild.supply.index.download import download
from xpubuild.supply.index.files import RemoteFile

#: Returns the archive of a package where there is one; nobody has looked at its hash yet.
Finder = Callable[[CondaPackage], Path | None]

_CHUNK = 1 << 20


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
    """Return a finder for a folder that holds archives by hash, ``SHA256/NAME`` or ``SHA256``, or by name."""

    def find(package: CondaPackage) -> Path | None:
        names = (
            f"{package.sha256}/{package.filename}",
            package.sha256,
            f"{package.subdir}/{package.filename}",
        )
        places = (folder / name for name in (*names, package.filename))
        return next((place for place in places if place.is_file()), None)

    return find


def bring(
    packages: Sequence[CondaPackage],
    folder: Path,
    supply: Supply,
    *,
    report: Callable[[str], None],
) -> None:
    """Put every archive into ``folder/SUBDIR/NAME``, each with its hash checked.

    Raises:
        FetchError: an archive is not available; the first one is listed, before anything is copied.
        SourceIntegrityError: one is not what the lock says.
        NoSpaceError: the disk is full.
    """
    places = {package: _place(package, supply) for package in packages}
    missing = [package for package, place in places.items() if place is None]
    if missing and supply.offline:
        raise nowhere(missing)
    for package in missing:
        report(f"fetching {package.filename}")
        places[package] = fetch(package, supply.cache, supply.channels)
    for package, place in places.items():
        if place is not None:
            _copy(package, place, folder / package.subdir)


def missing_packages(packages: Sequence[CondaPackage], supply: Supply) -> list[CondaPackage]:
    """Return what would have to be fetched."""
    return [package for package in packages if _place(package, supply) is None]


def fetch(package: CondaPackage, folder: Path, channels: Sequence[Channel] = ()) -> Path:
    """Fetch an archive from its channel into ``folder/SHA256/NAME`` and return that path.

    ``channels`` may know the credentials that its address needs; proxies, certificates and ``.netrc`` are
    those of pip. A cut download is carried on with.

    Raises:
        FetchError: the channel does not answer or does not have it.
        SourceIntegrityError: what came is not what the lock says; nothing of it is kept.
        NoSpaceError: the disk is full.
    """
    local, into = _local(package.url), folder / package.sha256
    if local is not None:
        if not local.is_file():
            raise _not_fetched(package, f"{local} does not exist")
        return _write(package, _read(local), into, package.url)
    file = RemoteFile(
        package.name, package.version, package.filename, package.sha256, None, package.url,
        origin=with_access(package.url, channels),
    )  # fmt: skip
    try:
        return download(file, into)
    except FetchError as error:
        raise _not_fetched(package, error.why) from None
    except SourceIntegrityError as error:
        raise _wrong(package, "sha256", package.sha256, str(error.evidence["got"]), package.url) from None


def _place(package: CondaPackage, supply: Supply) -> Path | None:
    given = supply.find(package) if supply.find else None
    if given is not None:
        return given
    cached = supply.cache / package.sha256 / package.filename
    # What lies under its own hash and has another one is our own damaged copy: it is fetched again.
    if cached.is_file() and file_sha256(cached) == package.sha256:
        return cached
    local = _local(package.url)
    return local if local is not None and local.is_file() else None


def _local(url: str) -> Path | None:
    parts = urlsplit(url)
    return Path(unquote(parts.path)) if parts.scheme == "file" else None


def _read(path: Path) -> Iterator[bytes]:
    with path.open("rb") as stream:
        while chunk := stream.read(_CHUNK):
            yield chunk


def _copy(package: CondaPackage, place: Path, folder: Path) -> None:
    try:
        _write(package, _read(place), folder, str(place))
    except PermissionError as error:
        raise FetchError(
            f"the conda package {package.filename} cannot be read",
            why=f"{place}: {error.strerror}",
            fix="correct the permissions of that file",
        ) from error


def _write(package: CondaPackage, chunks: Iterator[bytes], folder: Path, origin: str) -> Path:
    """Write and hash at once; the file has its name only after its hash was right."""
    total, second = hashlib.sha256(), hashlib.md5(usedforsecurity=False)
    with explained(folder, f"copying {package.filename}"):
        folder.mkdir(parents=True, exist_ok=True)
        with replacing(folder / package.filename) as stream:
            for chunk in chunks:
                total.update(chunk)
                second.update(chunk)
                stream.write(chunk)
            _require(package, total.hexdigest(), second.hexdigest(), origin)
    return folder / package.filename


def _require(package: CondaPackage, sha256: str, md5: str, origin: str) -> None:
    if sha256 != package.sha256:
        raise _wrong(package, "sha256", package.sha256, sha256, origin)
    if md5 != package.md5:
        # conda looks at this one only; a lock whose two hashes disagree was edited.
        raise _wrong(package, "md5", package.md5, md5, origin)


def _not_fetched(package: CondaPackage, why: str) -> FetchError:
    return FetchError(
        f"the conda package {package.filename} could not be fetched",
        why=f"{why} ({package.url})",
        fix=(
            "check the network and the proxy settings (HTTPS_PROXY), or run 'xpubuild fetch' first on a "
            "machine with a network"
        ),
        evidence={"package": package.name, "url": package.url, "sha256": package.sha256},
    )


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


def _wrong(package: CondaPackage, kind: str, expected: str, found: str, origin: str) -> SourceIntegrityError:
    return SourceIntegrityError(
        f"the conda package {package.filename} does not match the lock",
        why=f"the lock says {kind} {expected}, {origin} has {found}",
        fix=(
            "remove that file if it is damaged; if the channel replaced it, create the lock again and "
            "check the differences"
        ),
        evidence={"package": package.name, "expected": expected, "found": found, "origin": origin},
    )


def explicit_lines(packages: Sequence[CondaPackage], folder: Path) -> str:
    """Return an ``@EXPLICIT`` file for conda, mamba and micromamba that names the checked copies."""
    lines = [f"{(folder / item.subdir / item.filename).as_uri()}#{item.md5}" for item in packages]
    return "".join(f"{line}\n" for line in ("@EXPLICIT", *lines))


def hashes(packages: Sequence[CondaPackage]) -> Mapping[str, str]:
    """Return the hash of each file name."""
    return {item.filename: item.sha256 for item in packages}
