"""The files that a build downloads (Python and conda packages, archives), and how a depot gets them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import replace

from xpubuild.engine.files import explained, remove_tree, write_changed
from xpubuild.engine.process import Cancel
from xpubuild.engine.redact import recordable
from xpubuild.engine.reporter import Teller
from xpubuild.engine.temporary import scratch_folder
from xpubuild.install.conda_environment import file_name
from xpubuild.install.inputs import Inputs
from xpubuild.supply.archives import Archive, archive_entry
from xpubuild.supply.archives import file_name as name_in
from xpubuild.supply.conda.lockfile import read_lock
from xpubuild.supply.depot.entries import FILES, Entry, file_entry
from xpubuild.supply.depot.folder import DOWNLOADS, Depot
from xpubuild.supply.index.pip_download import Need, pip_download
from xpubuild.supply.index.transfer import Session, download, in_threads
from xpubuild.supply.requirements import hashed_pins, require_hashes


def needs_of(inputs: Inputs, pythons: Sequence[str]) -> list[list[Need]]:
    """Return what pip has to install for ``pythons``: for each requirement file and interpreter a list.

    Raises:
        RecipeError: a requirement file is no list of pins with sha256.
    """
    found = []
    for python in pythons:
        for file in inputs.requirements:
            pins = [pin for pin in hashed_pins(file.text) if pin.applies(python)]
            require_hashes(pins)
            found.append([Need(pin, python, file.indexes) for pin in pins])
    return found


def fetch_wheels(
    depot: Depot, needs: Sequence[Sequence[Need]], present: Iterable[Entry], teller: Teller, cancel: Cancel
) -> list[Entry]:
    """Return the entries of all wheels that are needed, after pip fetched what is not ``present``.

    Raises:
        FetchError, SourceIntegrityError, RecipeError, NoSpaceError, ToolchainError, InterruptedByUserError.
    """
    waiting, files = depot.path / DOWNLOADS, list(present)
    for some in needs:
        left = [need for need in some if not any(need.met_by(item.name, item.sha256) for item in files)]
        if not left:
            continue
        with explained(waiting, "fetching Python packages"):
            waiting.mkdir(parents=True, exist_ok=True)
            with scratch_folder("wheels", waiting) as folder:
                new = pip_download(left, folder, waiting / "pip", cancel=cancel, on_line=teller.line)
                files += map(depot.add_file, new)
    # Complete downloads are kept only while a fetch is interrupted.
    remove_tree(waiting / "pip")
    every = [need for some in needs for need in some]
    chosen = (item for item in files if any(need.met_by(item.name, item.sha256) for need in every))
    return sorted(chosen, key=lambda entry: (entry.name, entry.sha256))


def remote_files(inputs: Inputs, conda_lock: str | None) -> list[Archive]:
    """Return the packages of a conda-lock.yml, and the archives of builds whose URL is known.

    Raises:
        RecipeError: it is no conda-lock.yml in which every package has a sha256.
    """
    packages = read_lock(conda_lock).packages if conda_lock is not None else ()
    return [*(package.archive for package in packages), *inputs.archives]


def keep_conda_lock(depot: Depot, recipe: str, text: str) -> Entry:
    """Put a conda-lock.yml into a depot, for an install that has no other; return its entry."""
    data = text.encode()
    sha256 = hashlib.sha256(data).hexdigest()
    entry = file_entry(file_name(recipe), sha256, len(data), kind="conda", dist=f"{recipe}.conda-lock")
    write_changed(depot.path / entry.files[0].path, data)
    return entry


def fetch_files(
    depot: Depot, files: Sequence[Archive], present: Sequence[Entry], teller: Teller, cancel: Cancel
) -> list[Entry]:
    """Return the entries of ``files``, after what is not ``present`` was downloaded and put in place.

    Raises:
        FetchError, SourceIntegrityError, NoSpaceError, ToolchainError, InterruptedByUserError.
    """
    # Listed, or left by a fetch that was interrupted.
    here = [
        archive_entry(present, file)
        or (depot.found_file(f"{FILES}/{file.sha256}") if file.sha256 is not None else None)
        for file in files
    ]
    lacking = [file for file, entry in zip(files, here, strict=True) if entry is None]
    waiting, session = depot.path / DOWNLOADS, Session()

    def fetch(file: Archive) -> Entry:
        name = name_in(file.url)
        with scratch_folder("file", waiting) as folder:
            place = download(
                file.url, file.sha256, folder, name, on_bytes=lambda more: teller.count(more, name),
                cancel=cancel, session=session,
            )  # fmt: skip
            return depot.add_file(place)

    with explained(waiting, "fetching files"):
        waiting.mkdir(parents=True, exist_ok=True)
    new = iter(in_threads(fetch, lacking, cancel))
    remove_tree(waiting)
    return [_described(entry or next(new), file) for entry, file in zip(here, files, strict=True)]


def _described(entry: Entry, file: Archive) -> Entry:
    """Return an entry with the facts of its file: its name has fewer."""
    url = recordable(file.url, tokens_in_path=True)
    known = replace(entry, dist=file.name, version=file.version, url=url)
    return known if file.version else replace(known, kind="archive")
