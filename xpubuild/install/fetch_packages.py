"""The files that a build downloads (Python and conda packages, archives), and how a depot gets them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace

from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename
from packaging.version import InvalidVersion

from xpubuild.engine.environment import base_environment
from xpubuild.engine.files import explained, remove_tree
from xpubuild.engine.fingerprint import file_sha256
from xpubuild.engine.process import Cancel
from xpubuild.engine.redact import recordable
from xpubuild.engine.reporter import Teller
from xpubuild.engine.temporary import scratch_folder
from xpubuild.errors import FetchError
from xpubuild.frozen import frozen
from xpubuild.install.conda_environment import file_name
from xpubuild.install.inputs import Inputs, inputs_of, trees
from xpubuild.install.resolve import git_store
from xpubuild.install.target import Prepared
from xpubuild.supply import archives
from xpubuild.supply.archives import Archive, Supply, remote_file
from xpubuild.supply.conda.lockfile import read_lock
from xpubuild.supply.depot.bytes import digest_of
from xpubuild.supply.depot.entries import Entry, Kind, described, file_entry
from xpubuild.supply.depot.examine import require_sound
from xpubuild.supply.depot.folder import DOWNLOADS, Depot, archive_entry, archives_in
from xpubuild.supply.index.files import RemoteFile
from xpubuild.supply.index.pip_download import Wheels, can_install, checked_pythons, pip_download
from xpubuild.supply.index.pipconf import local_path, pip_settings
from xpubuild.supply.index.transfer import Session, download, in_threads
from xpubuild.supply.requirements import HashedPin, hashed_pins, require_hashes


@frozen
class Need:
    """A pin for one interpreter; its ``indexes`` are asked after the configured ones have failed."""

    pin: HashedPin
    python: str
    indexes: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """What it is, in words."""
        return f"{self.pin.name}=={self.pin.version} for Python {self.python}"

    @property
    def line(self) -> str:
        """The pin as a line of a requirement file, without its marker."""
        hashes = " ".join(f"--hash=sha256:{digest}" for digest in sorted(self.pin.hashes))
        return f"{self.pin.name}=={self.pin.version} {hashes}"

    def met_by(self, name: str, sha256: str) -> bool:
        """Return whether a wheel of this name and hash is what is needed."""
        try:
            dist, version, _, _ = parse_wheel_filename(name)
        except (InvalidWheelFilename, InvalidVersion):
            return False
        return (
            dist == canonicalize_name(self.pin.name)
            and self.pin.specifier.contains(version, prereleases=True)
            and sha256 in self.pin.hashes
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
    return found


def lacking(files: Iterable[Entry], needs: Sequence[Need]) -> list[Need]:
    """Return what of ``needs`` is not among the files of a depot."""
    here = [(entry.name, entry.sha256) for entry in files]
    return [need for need in needs if not any(need.met_by(*file) for file in here)]


def wheels_here(
    depot: Depot | None, inputs: Inputs, pythons: Sequence[str], files: Iterable[Entry] | None = None
) -> set[str]:
    """Return the sha256 of the wheels that pip may pick for ``pythons`` without a network.

    They are those of the depot, or ``files`` of it; without one, those in pip's wheel folders here.

    Raises:
        FetchError: one is not here; the message names the distribution.
        RecipeError, UsageError.
    """
    listed = depot.files() if files is None and depot is not None else files
    if listed is not None:
        local, known = False, [(entry.name, entry.sha256) for entry in listed]
    else:
        places = map(local_path, pip_settings(base_environment()).get("find-links", "").split())
        every = [path for place in places if place is not None for path in (place, *place.glob("*"))]
        # Only pip knows the wheels of a page of links.
        local = any(path.suffix.startswith(".htm") for path in every)
        known = [(path.name, file_sha256(path)) for path in every if path.suffix == ".whl" and path.is_file()]
    found: set[str] = set()
    for need in (need for needs in needs_of(inputs, pythons) for need in needs):
        here = {sha256 for name, sha256 in known if need.met_by(name, sha256)}
        if not here and not local:
            where = f"the mirror {depot.path}" if depot is not None else "the wheel folders of pip here"
            raise FetchError(
                f"{need.name} is missing, and the run is offline",
                why=f"no wheel of it for this Python, with a hash of the recipe, is in {where}",
                fix="fetch the recipe on a machine with a network, and pass that mirror with --mirror",
                evidence={"reason": "offline"},
            )
        found |= here
    return found


def fetch_wheels(
    depot: Depot,
    inputs: Inputs,
    pythons: Sequence[str],
    present: Iterable[Entry],
    teller: Teller,
    *,
    cancel: Cancel,
) -> list[Entry]:
    """Return the entries of all wheels that are needed, after pip fetched what is not ``present``.

    Raises:
        FetchError, SourceIntegrityError, RecipeError, NoSpaceError, ToolchainError, InterruptedByUserError.
    """
    waiting, files = depot.path / DOWNLOADS, {entry.sha256: entry for entry in present}
    for needs in needs_of(inputs, pythons):
        left = lacking(files.values(), needs)
        if not left:
            continue
        lines, first = tuple(need.line for need in left), left[0]
        asked = Wheels(lines, first.python, first.indexes)
        with explained(waiting, "fetching Python packages"):
            waiting.mkdir(parents=True, exist_ok=True)
            with scratch_folder("wheels", waiting) as folder:
                for path in pip_download(asked, folder, waiting / "pip", cancel=cancel, on_line=teller.line):
                    size, digest = digest_of(path)
                    files[digest] = file_entry(path.name, digest, size)
                    depot.add_file(path, files[digest], move=True)
    # Complete downloads are kept only while a fetch is interrupted.
    remove_tree(waiting / "pip")
    chosen = wheels_here(depot, inputs, pythons, files.values())
    return sorted((files[digest] for digest in chosen), key=lambda entry: (entry.name, entry.sha256))


def remote_files(inputs: Inputs, conda_lock: str | None) -> list[RemoteFile]:
    """Return the packages of a conda-lock.yml, and the archives of builds whose URL is known.

    Raises:
        RecipeError: it is no conda-lock.yml in which every package has a sha256.
    """
    packages = read_lock(conda_lock).packages if conda_lock is not None else ()
    return [
        *(RemoteFile(i.name, i.version, i.filename, i.sha256, i.size, i.url) for i in packages),
        *(
            remote_file(Archive(item.name, item.url, item.sha256), item.component)
            for item in inputs.archives
            if item.url is not None
        ),
    ]


def keep_conda_lock(depot: Depot, recipe: str, text: str) -> Entry:
    """Put a conda-lock.yml into a depot, for an install that has no other; return its entry."""
    data = text.encode()
    sha256 = hashlib.sha256(data).hexdigest()
    known = {"kind": "conda", "dist": f"{recipe}.conda-lock", "version": sha256[:12]}
    entry = file_entry(file_name(recipe), sha256, len(data), **known)
    with scratch_folder("fetch") as folder:
        (folder / entry.name).write_bytes(data)
        depot.add_file(folder / entry.name, entry)
    return entry


def entry_of(entries: Iterable[Entry], file: RemoteFile) -> Entry | None:
    """Return the entry of a remote file, if present: by its hash, or by URL for an archive without a hash."""
    if file.is_archive:
        return archive_entry(entries, file.url, file.sha256)
    return next((entry for entry in entries if entry.sha256 == file.sha256), None)


def fetch_files(
    depot: Depot, files: Sequence[RemoteFile], present: Sequence[Entry], teller: Teller, *, cancel: Cancel
) -> list[Entry]:
    """Return the entries of ``files``, after what is not ``present`` was downloaded and put in place.

    Raises:
        FetchError, SourceIntegrityError, NoSpaceError, ToolchainError, InterruptedByUserError.
    """
    found = {number: entry_of(present, file) for number, file in enumerate(files)}
    here = {number: entry for number, entry in found.items() if entry is not None}
    lacking = [number for number in range(len(files)) if number not in here]
    teller.expect(sum(files[number].size or 0 for number in lacking))
    waiting, session = depot.path / DOWNLOADS, Session()

    def fetch(number: int) -> Entry:
        file, seen = files[number], 0

        def on_bytes(now: int) -> None:
            nonlocal seen
            teller.count(now - seen, file.filename)
            seen = now

        # A folder for each: two indexes may have files of one name.
        place = download(file, waiting / _key(file), on_bytes=on_bytes, cancel=cancel, session=session)
        size, digest = digest_of(place)
        entry = _entry(file, digest, size)
        depot.add_file(place, entry, move=True)
        remove_tree(place.parent)
        return entry

    here |= dict(zip(lacking, in_threads(fetch, lacking, cancel), strict=True))
    if waiting.is_dir() and not any(waiting.iterdir()):
        waiting.rmdir()
    return [_with_origin(here[number], file) for number, file in enumerate(files)]


def _with_origin(entry: Entry, file: RemoteFile) -> Entry:
    """Return an entry with the facts of its file: one that a repair listed again has only the name."""
    if entry.url or not file.url:
        return entry
    return replace(_entry(file, entry.sha256, entry.size), name=entry.name, files=entry.files)


def _entry(file: RemoteFile, sha256: str, size: int) -> Entry:
    kind: Kind = "archive" if file.is_archive else described(file.filename)[0]
    url = recordable(file.url, tokens_in_path=True)
    return file_entry(file.filename, sha256, size, kind=kind, dist=file.dist, version=file.version, url=url)


def _key(file: RemoteFile) -> str:
    if file.is_archive and file.sha256 is None:
        return f"{hashlib.sha256(file.url.encode()).hexdigest()}.unhashed"
    return file.sha256 or f"{file.filename}.unhashed"


# --- what an install that uses a mirror will find ---------------------------------------------------------


def take_stock(
    prepared: Prepared, done: Collection[str], *, report: Callable[[str], None], cancel: Cancel
) -> None:
    """Verify that what the steps other than ``done`` download is present, as far as it must be.

    With a mirror, every byte of it that this recipe can use is compared with its index. Offline, all
    repositories are fetched into the user's cache, each object hashed, and all packages are looked up.

    Raises:
        FetchError: offline, the first thing that is missing.
        SourceIntegrityError: the mirror is damaged; everything damaged is named.
        RecipeError, NoSpaceError, ToolchainError, InterruptedByUserError.
    """
    downloads = prepared.target.downloads
    inputs, conda = _still_needed(prepared, done)
    if not (inputs.repositories or inputs.requirements or inputs.archives or conda):
        return
    if downloads.mirror is not None:
        mirror = Depot.open(downloads.mirror)
        report(f"checking the mirror {mirror.path}")
        sets = mirror.index().of(prepared.plan.recipe)
        # Everything, if the mirror has no record of a fetch of this recipe.
        require_sound(mirror, {name for one in sets for name in one.needs} if sets else None)
    if downloads.offline:
        report("looking up all required files")
        require_all(prepared, done, cancel=cancel)


def require_all(prepared: Prepared, done: Collection[str], *, cancel: Cancel, fetch: bool = True) -> None:
    """Look up everything that the steps other than ``done`` download, offline.

    Without ``fetch`` nothing is copied from the mirror into the user's repositories, so these are looked
    up only if there is no mirror.

    Raises:
        FetchError: the first thing that is missing.
        SourceIntegrityError, RecipeError, NoSpaceError, ToolchainError, InterruptedByUserError.
    """
    target, folder = prepared.target, prepared.target.downloads.mirror
    mirror = Depot.open(folder) if folder is not None else None
    inputs, conda = _still_needed(prepared, done)
    try:
        if inputs.repositories and (fetch or mirror is None):
            store = git_store(target, cancel=cancel)
            for tree in [tree for item in inputs.repositories for tree in trees(item, store, _silent)]:
                if tree.pin is None:
                    raise _unknown(tree.url, tree.note, f"{tree.component}.source.configure_time")
        if conda is not None:
            packages = (package.archive for package in read_lock(conda).packages)
            archives.require_here(packages, Supply(target.cache / "conda", archives_in(folder), offline=True))
        wheels_here(mirror, inputs, [inputs.python_version])
        supply = Supply(target.cache / "archives", archives_in(folder), True, cancel)
        for item in inputs.archives:
            if item.url is None:
                note = f"it is not known from where the build of {item.component} downloads it"
                raise _unknown(f"the {item.name}", note, f"{item.component}.build.archives.{item.name}.url")
            archives.require_here([Archive(item.name, item.url, item.sha256)], supply)
    except FetchError as error:
        if mirror is None:
            error.fix = (
                "fill a mirror with xpubuild fetch where there is a network, and pass it with --mirror;"
                " or remove --offline"
            )
            error.commands = (f"xpubuild fetch {prepared.plan.recipe} --mirror DIR", *error.commands)
        raise


def _unknown(what: str, note: str, key: str) -> FetchError:
    return FetchError(
        f"{what} cannot be in a mirror",
        why=note,
        fix=f"write a recipe that extends this one and sets components.{key}, then fetch again",
        evidence={"reason": "offline", "what": what},
    )


def _silent(_: str) -> None:
    """Print nothing: git reports the progress of every small repository."""


def _still_needed(prepared: Prepared, done: Collection[str]) -> tuple[Inputs, str | None]:
    """Return the inputs of the steps that will run, and the conda lock if the environment is to be made."""
    target, whole = prepared.target, inputs_of(prepared.target)
    todo = {step.id: step for step in prepared.plan.steps if step.id not in done}
    read = {path for step in todo.values() for path in step.inputs}

    def runs(component: str, *steps: str) -> bool:
        return any(f"{component}.{step}" in todo for step in steps)

    needed = replace(
        whole,
        repositories=tuple(i for i in whole.repositories if runs(i.component, "source", "repositories")),
        requirements=tuple(i for i in whole.requirements if str(target.requirement_path(i.name)) in read),
        archives=tuple(i for i in whole.archives if runs(i.component, "archives", "wheel", "install")),
    )
    return needed, target.conda_lock if "env" in todo else None
