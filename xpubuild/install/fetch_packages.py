"""Downloads the Python and conda packages of a build into a mirror."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from xpubuild.engine.environment import base_environment
from xpubuild.engine.files import remove_tree
from xpubuild.engine.process import Cancel
from xpubuild.engine.reporter import Teller
from xpubuild.engine.temporary import scratch_folder
from xpubuild.errors import FetchError
from xpubuild.install.conda_packages import file_name
from xpubuild.install.inputs import Inputs, OpenWheel
from xpubuild.install.open_wheels import in_mirror as open_in_mirror
from xpubuild.supply.archives.model import Archive
from xpubuild.supply.archives.supply import remote_file
from xpubuild.supply.conda.lockfile import packages_of
from xpubuild.supply.index.config import IndexConfig, read_config
from xpubuild.supply.index.download import download
from xpubuild.supply.index.files import RemoteFile
from xpubuild.supply.index.threads import in_threads
from xpubuild.supply.index.wanted import wanted_files, wanted_open
from xpubuild.supply.mirror.archives import entry_of as archive_entry
from xpubuild.supply.mirror.entries import PAGE, Entry, FileRecord, Kind, entry_id
from xpubuild.supply.mirror.naming import described
from xpubuild.supply.mirror.reading import digest_of
from xpubuild.supply.mirror.store import DOWNLOADS, Mirror


def python_files(
    inputs: Inputs, pythons: Sequence[str], config: IndexConfig, *, cancel: Cancel
) -> list[RemoteFile]:
    """Return every file that pip may pick for ``pythons``, as the indexes offer it.

    Raises:
        FetchError, SourceIntegrityError, RecipeError, UsageError, InterruptedByUserError.
    """
    texts = [(item.text, item.indexes) for item in inputs.requirements]
    found = wanted_files(texts, pythons, config, cancel=cancel)
    for wheel in inputs.wheels:
        found += wanted_open(wheel.dist, wheel.version, pythons, wheel.indexes, config, cancel=cancel)
    return _once(found)


def files_here(
    mirror: Mirror | None, inputs: Inputs, pythons: Sequence[str], *, sdists: bool = True, cancel: Cancel
) -> list[RemoteFile]:
    """Return the files that pip may pick for ``pythons`` without a network: those of the mirror.

    Without a mirror, pip's wheel folders of this machine are looked at.

    Raises:
        FetchError: one is not here; the message names the distribution.
        SourceIntegrityError: the index is damaged, or there are other files than those pinned.
    """
    if mirror is None:
        config = read_config(base_environment())
        places = tuple(item for item in config.find_links if "://" not in item or item.startswith("file:"))
        config = replace(config, indexes=(), find_links=places)
    else:
        page = mirror.path / PAGE
        config = IndexConfig(indexes=(), find_links=(page.as_uri(),) if page.exists() else ())
    texts = [(item.text, ()) for item in inputs.requirements]
    texts += [(_hashed(wheel, mirror), ()) for wheel in inputs.wheels]
    return wanted_files(texts, pythons, config, sdists=sdists, cancel=cancel)


def _hashed(wheel: OpenWheel, mirror: Mirror | None) -> str:
    """Return a wheel whose hash the recipe does not know as a requirement, with the hashes of the mirror."""
    found = list(open_in_mirror(mirror, wheel))
    if not found:
        raise FetchError(
            f"{wheel.dist} {wheel.version} is missing, and the run is offline",
            why="the recipe has no hash of it, so it can only come from a mirror that fetch has filled",
            fix="fetch the recipe on a machine with a network, and pass that mirror with --mirror",
            evidence={"reason": "offline", "dist": wheel.dist, "version": wheel.version},
        )
    return f"{wheel.dist}=={wheel.version} " + " ".join(f"--hash=sha256:{digest}" for digest in found)


def conda_files(conda_lock_text: str) -> list[RemoteFile]:
    """Return the package archives of a conda-lock.yml.

    Raises:
        RecipeError: it is no conda-lock.yml in which every package has a sha256.
    """
    return [
        RemoteFile(item.name, item.version, item.filename, item.sha256, item.size, item.url)
        for item in packages_of(conda_lock_text)
    ]


def archive_files(inputs: Inputs) -> list[RemoteFile]:
    """Return the archives that builds would download themselves, as far as it is known from where."""
    return [
        remote_file(Archive(item.name, item.url, item.sha256), item.component)
        for item in inputs.archives
        if item.url is not None
    ]


def keep_conda_lock(mirror: Mirror, recipe: str, text: str | None) -> str | None:
    """Put a conda-lock.yml into the mirror, for an install that has no other; return its sha256."""
    if text is None:
        return None
    data = text.encode()
    sha256 = hashlib.sha256(data).hexdigest()
    with scratch_folder("fetch") as folder:
        path = folder / file_name(recipe)
        path.write_bytes(data)
        mirror.add_file(
            path,
            sha256=sha256,
            name=path.name,
            kind="conda",
            dist=f"{recipe}.conda-lock",
            version=sha256[:12],
        )
    return sha256


def entry_of(mirror_files: Iterable[Entry], file: RemoteFile) -> Entry | None:
    """Return the entry of a remote file that is here: by its hash, or by name where no index states one.

    Archives have common names: without a hash, one is known by its URL.
    """
    if file.is_archive:
        return archive_entry(mirror_files, file.url, file.sha256)
    for entry in mirror_files:
        if file.sha256 is not None:
            if entry.sha256 == file.sha256:
                return entry
        elif entry.name == file.filename and (not file.allowed or entry.sha256 in file.allowed):
            return entry
    return None


def missing_files(mirror: Mirror | None, files: Sequence[RemoteFile]) -> list[RemoteFile]:
    """Return what of ``files`` the mirror lacks."""
    present = [] if mirror is None else mirror.files()
    by_hash = {entry.sha256 for entry in present}
    return [
        file
        for file in files
        if file.sha256 not in by_hash and (file.sha256 is not None or entry_of(present, file) is None)
    ]


def bring(
    mirror: Mirror, files: Sequence[RemoteFile], config: IndexConfig, teller: Teller, *, cancel: Cancel
) -> list[Entry]:
    """Download what the mirror lacks of ``files`` and put it in place; return the new entries.

    Raises:
        FetchError, SourceIntegrityError, NoSpaceError, ToolchainError, InterruptedByUserError.
    """
    lacking = missing_files(mirror, files)
    teller.expect(sum(file.size or 0 for file in lacking))
    waiting = mirror.path / DOWNLOADS

    def fetch(file: RemoteFile) -> Path:
        seen = 0

        def on_bytes(here: int) -> None:
            nonlocal seen
            teller.count(here - seen, file.filename)
            seen = here

        # A folder for each: two indexes may have files of one name.
        return download(file, waiting / _key(file), config, on_bytes=on_bytes, cancel=cancel)

    def take(file: RemoteFile) -> str:
        place = fetch(file)
        _, digest = digest_of(place)
        kind: Kind = described(file.filename)[0]
        if file.is_archive:
            kind = "archive"
            _forget_unnamed(mirror, digest)
        mirror.add_file(
            place, sha256=digest, name=file.filename, kind=kind, dist=file.dist, version=file.version,
            url=file.url, move=True,
        )  # fmt: skip
        remove_tree(place.parent)
        return digest

    digests = in_threads(take, lacking, cancel)
    if waiting.is_dir() and not any(waiting.iterdir()):
        waiting.rmdir()
    entries = {entry.sha256: entry for entry in mirror.files()} if digests else {}
    return [entries[digest] for digest in digests]


def _forget_unnamed(mirror: Mirror, sha256: str) -> None:
    """Drop the entry of an archive that was lost and written anew: the file alone does not tell its URL."""
    entry = mirror.entry(entry_id("archive", sha256))
    if entry is not None and not entry.url:
        mirror.drop(entry.id, entry.folder)


def _key(file: RemoteFile) -> str:
    if file.is_archive and file.sha256 is None:
        return f"{hashlib.sha256(file.url.encode()).hexdigest()}.unhashed"
    return file.sha256 or f"{file.filename}.unhashed"


def _once(files: Iterable[RemoteFile]) -> list[RemoteFile]:
    return list({(file.sha256 or file.url, file.filename): file for file in files}.values())


def as_remote(entry: Entry) -> RemoteFile:
    """Return a file of the mirror as one that can be fetched again, where it came from."""
    record: FileRecord = entry.files[0]
    return RemoteFile(
        entry.dist, entry.version, entry.name, record.sha256, record.size, entry.url,
        is_archive=entry.kind == "archive",
    )  # fmt: skip
