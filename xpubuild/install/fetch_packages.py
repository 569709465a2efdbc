"""Downloads the Python and conda packages of a build into a mirror."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from packaging.specifiers import SpecifierSet
from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename
from packaging.version import InvalidVersion

from xpubuild.engine.environment import base_environment
from xpubuild.engine.files import explained, remove_tree
from xpubuild.engine.fingerprint import file_sha256
from xpubuild.engine.process import Cancel
from xpubuild.engine.reporter import Teller
from xpubuild.engine.temporary import scratch_folder
from xpubuild.errors import FetchError
from xpubuild.frozen import frozen
from xpubuild.install.conda_environment import file_name
from xpubuild.install.planner import Inputs
from xpubuild.supply.archives import Archive, remote_file
from xpubuild.supply.conda.lockfile import read_lock
from xpubuild.supply.index.choice import can_install, checked_pythons
from xpubuild.supply.index.download import download
from xpubuild.supply.index.files import RemoteFile
from xpubuild.supply.index.pip_download import Wheels, pip_download
from xpubuild.supply.index.pipconf import local_path, pip_settings
from xpubuild.supply.index.session import Session
from xpubuild.supply.index.threads import in_threads
from xpubuild.supply.mirror.archives import entry_of as archive_entry
from xpubuild.supply.mirror.entries import Entry, FileRecord, Kind, entry_id
from xpubuild.supply.mirror.naming import described
from xpubuild.supply.mirror.reading import digest_of
from xpubuild.supply.mirror.store import DOWNLOADS, Mirror
from xpubuild.supply.requirements import HashedPin, hashed_pins, require_hashes


@frozen
class Need:
    """A pin for one interpreter; a wheel without a known hash is asked of its own ``indexes`` alone."""

    pin: HashedPin
    python: str
    indexes: tuple[str, ...] = ()

    @property
    def line(self) -> str:
        """The pin as a line of a requirement file, without its marker."""
        hashes = " ".join(f"--hash=sha256:{digest}" for digest in sorted(self.pin.hashes))
        return f"{self.pin.name}=={self.pin.version} {hashes}".strip()

    def met_by(self, name: str, sha256: str) -> bool:
        """Return whether a wheel of this name and hash is what is needed."""
        try:
            dist, version, _, _ = parse_wheel_filename(name)
        except (InvalidWheelFilename, InvalidVersion):
            return False
        return (
            dist == canonicalize_name(self.pin.name)
            and self.pin.specifier.contains(version, prereleases=True)
            and (not self.pin.hashes or sha256 in self.pin.hashes)
            and can_install(name, self.python)
        )


def needs_of(inputs: Inputs, pythons: Sequence[str]) -> list[list[Need]]:
    """Return what pip has to install for ``pythons``: for each requirement file and interpreter a list.

    Raises:
        RecipeError: a requirement file is no list of pins with sha256.
        UsageError: one of ``pythons`` is no version.
    """
    found = []
    for python in checked_pythons(pythons):
        for file in inputs.requirements:
            pins = [pin for pin in hashed_pins(file.text) if pin.applies(python.removesuffix("t"))]
            require_hashes(pins)
            found.append([Need(pin, python, file.indexes) for pin in pins])
        for wheel in inputs.wheels:
            asked = SpecifierSet(f"=={wheel.version}")
            pin = HashedPin(wheel.dist, wheel.version, asked, None, frozenset())
            found.append([Need(pin, python, wheel.indexes)])
    return found


def lacking(mirror: Mirror | None, needs: Sequence[Need]) -> list[Need]:
    """Return what of ``needs`` the mirror does not have."""
    files = [(entry.name, entry.sha256) for entry in mirror.files()] if mirror is not None else []
    return [need for need in needs if not any(need.met_by(*file) for file in files)]


def wheels_here(mirror: Mirror | None, inputs: Inputs, pythons: Sequence[str]) -> set[str]:
    """Return the sha256 of the wheels that pip may pick for ``pythons`` without a network.

    They are those of the mirror; without one, those in pip's wheel folders on this machine.

    Raises:
        FetchError: one is not here; the message names the distribution.
        RecipeError, UsageError.
    """
    files = [(entry.name, entry.sha256) for entry in mirror.files()] if mirror is not None else None
    found: set[str] = set()
    for need in (need for needs in needs_of(inputs, pythons) for need in needs):
        here = {file[1] for file in (_local(need) if files is None else files) if need.met_by(*file)}
        if not here and (files is not None or not _has_pages()):
            raise _not_here(need, mirror)
        found |= here
    return found


def _link_places() -> list[Path]:
    settings = pip_settings(base_environment())
    places = map(local_path, settings.get("find-links", "").split())
    return [place for place in places if place is not None]


def _has_pages() -> bool:
    """Return whether only pip can tell what its wheel folders have: it reads pages of links there."""
    pages = (page for place in _link_places() for page in (place, *place.glob("*.htm*")))
    return any(page.suffix.startswith(".htm") for page in pages)


def _local(need: Need) -> Iterator[tuple[str, str]]:
    """Yield (name, sha256) of the wheels in pip's wheel folders; only what may fit is read."""
    for place in _link_places():
        for path in sorted(place.glob("*.whl")) if place.is_dir() else [place]:
            if path.is_file() and replace(need, pin=replace(need.pin, hashes=frozenset())).met_by(
                path.name, ""
            ):
                yield path.name, file_sha256(path)


def _not_here(need: Need, mirror: Mirror | None) -> FetchError:
    place = f"the mirror {mirror.path}" if mirror is not None else "the wheel folders of pip on this machine"
    return FetchError(
        f"{need.pin.name} {need.pin.version} for Python {need.python} is missing, and the run is offline",
        why=f"no wheel of it for this Python, with a hash of the recipe, is in {place}",
        fix="fetch the recipe on a machine with a network, and pass that mirror with --mirror",
        evidence={
            "reason": "offline", "dist": need.pin.name, "version": need.pin.version, "python": need.python
        },
    )  # fmt: skip


def bring_wheels(
    mirror: Mirror, inputs: Inputs, pythons: Sequence[str], teller: Teller, *, cancel: Cancel
) -> set[str]:
    """Fetch with pip what the mirror lacks; return the sha256 of all wheels that are needed.

    Raises:
        FetchError, SourceIntegrityError, RecipeError, NoSpaceError, ToolchainError, InterruptedByUserError.
    """
    waiting = mirror.path / DOWNLOADS
    for needs in needs_of(inputs, pythons):
        left = lacking(mirror, needs)
        if not left:
            continue
        lines, first = tuple(need.line for need in left), left[0]
        asked = Wheels(lines, first.python, first.indexes, hashed=bool(first.pin.hashes))
        with explained(waiting, "fetching Python packages"):
            waiting.mkdir(parents=True, exist_ok=True)
            with scratch_folder("wheels", waiting) as folder:
                for path in pip_download(asked, folder, waiting / "pip", cancel=cancel, on_line=teller.line):
                    kind, dist, version = described(path.name)
                    _, digest = digest_of(path)
                    mirror.add_file(
                        path, sha256=digest, name=path.name, kind=kind, dist=dist, version=version, move=True
                    )
    # What came whole is kept for a fetch that was interrupted.
    remove_tree(waiting / "pip")
    return wheels_here(mirror, inputs, pythons) if inputs.requirements or inputs.wheels else set()


def conda_files(conda_lock_text: str) -> list[RemoteFile]:
    """Return the package archives of a conda-lock.yml.

    Raises:
        RecipeError: it is no conda-lock.yml in which every package has a sha256.
    """
    return [
        RemoteFile(item.name, item.version, item.filename, item.sha256, item.size, item.url)
        for item in read_lock(conda_lock_text).packages
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
    """Return the entry of a remote file that is here: by its hash, of an archive without one by its URL."""
    if file.is_archive:
        return archive_entry(mirror_files, file.url, file.sha256)
    return next((entry for entry in mirror_files if entry.sha256 == file.sha256), None)


def missing_files(mirror: Mirror | None, files: Sequence[RemoteFile]) -> list[RemoteFile]:
    """Return what of ``files`` the mirror lacks."""
    present = [] if mirror is None else mirror.files()
    return [file for file in files if entry_of(present, file) is None]


def bring(mirror: Mirror, files: Sequence[RemoteFile], teller: Teller, *, cancel: Cancel) -> list[Entry]:
    """Download what the mirror lacks of ``files`` and put it in place; return the new entries.

    Raises:
        FetchError, SourceIntegrityError, NoSpaceError, ToolchainError, InterruptedByUserError.
    """
    lacking = missing_files(mirror, files)
    teller.expect(sum(file.size or 0 for file in lacking))
    waiting, session = mirror.path / DOWNLOADS, Session()

    def fetch(file: RemoteFile) -> Path:
        seen = 0

        def on_bytes(here: int) -> None:
            nonlocal seen
            teller.count(here - seen, file.filename)
            seen = here

        # A folder for each: two indexes may have files of one name.
        return download(file, waiting / _key(file), on_bytes=on_bytes, cancel=cancel, session=session)

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


def as_remote(entry: Entry) -> RemoteFile:
    """Return a file of the mirror as one that can be fetched again, where it came from."""
    record: FileRecord = entry.files[0]
    return RemoteFile(
        entry.dist, entry.version, entry.name, record.sha256, record.size, entry.url,
        is_archive=entry.kind == "archive",
    )  # fmt: skip
