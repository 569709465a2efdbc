"""What a depot lists: files, repositories, and sets, which are what one fetch needed. Pure.

``index.json`` has all of it with a digest of itself. Each set has its own file too, with all that is known of
its files, so the index can be made from what lies in the folder.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import Any, Literal

from packaging.utils import InvalidSdistFilename, InvalidWheelFilename
from packaging.utils import parse_sdist_filename as sdist_of
from packaging.utils import parse_wheel_filename as wheel_of

from xpubuild.documents import built, plain
from xpubuild.frozen import frozen
from xpubuild.supply.git.pin import is_id, is_ref, mirror_name
from xpubuild.untrusted import json_value

Kind = Literal["git", "wheel", "sdist", "conda", "archive"]

SCHEMA, SET_SCHEMA = "xpubuild.depot/1", "xpubuild.depot-set/1"
GIT, FILES, SETS, WHEELS = "git", "files", "sets", "wheels"
PAGE, INDEX = "wheels.html", "index.json"
PINS, NAMED = "refs/xpubuild/pins/", "refs/xpubuild/named/"

_SHA256 = re.compile(r"[0-9a-f]{64}")
#: One component of a path in a depot: nothing hidden, nothing that an option could be taken for.
_WORD = re.compile(r"(?![.-])[^/\x00-\x1f\x7f\\]{1,200}")
# Letters that the names of files have (PEP 427, PEP 625, conda's _openmp_mutex); nothing that a path could be
# made of.
_FILENAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._+!~-]*")
#: The files of a repository that are named by their content; git reads nothing else but what ``derived`` has.
OBJECT = re.compile(
    r"objects/pack/pack-(?:[0-9a-f]{40}|[0-9a-f]{64})\.(?:pack|idx|rev)"
    r"|objects/[0-9a-f]{2}/(?:[0-9a-f]{38}|[0-9a-f]{62})"
)
_CONFIG = (
    "[core]\n\trepositoryformatversion = {version}\n\tfilemode = true\n\tbare = true\n{more}"
    "[uploadpack]\n\tallowAnySHA1InWant = true\n[gc]\n\tauto = 0\n"
)
_DIGITS = 16


class EntryError(ValueError):
    """A document of a depot is not what xpubuild writes; the text says what is wrong."""


class OtherVersionError(EntryError):
    """The index was written by another version of xpubuild."""


@frozen
class FileRecord:
    """One file: its path below the depot, its size in bytes and its sha256."""

    path: str
    size: int
    sha256: str


@frozen
class Entry:
    """A repository or a file of a depot.

    ``name`` is the repository's folder or the file's name. Of a repository ``files`` are its objects,
    ``pins`` the commits that it keeps and ``named`` the tags that were looked up: (name, commit). ``dist``
    and ``version`` are a Python or conda package's; an archive that a build would download itself has
    COMPONENT.NAME there and no version.
    """

    kind: Kind
    name: str
    files: tuple[FileRecord, ...]
    url: str = ""
    dist: str = ""
    version: str = ""
    pins: tuple[str, ...] = ()
    named: tuple[tuple[str, str], ...] = ()

    @property
    def id(self) -> str:
        """The folder below the depot that belongs to this entry alone."""
        return f"{GIT}/{self.name}" if self.kind == "git" else f"{FILES}/{self.sha256}"

    @property
    def sha256(self) -> str:
        """The sha256 of a file."""
        return self.files[0].sha256

    @property
    def size(self) -> int:
        """All bytes of the entry's files."""
        return sum(record.size for record in self.files)

    def derived(self) -> dict[str, bytes]:
        """Return the files of a repository that follow from its pins, by path: other content is damage.

        Each pin was fetched without its parents, so all of them are listed in ``shallow``.
        """
        if self.kind != "git":
            return {}
        is_sha1 = len(self.pins[0]) == 40  # noqa: PLR2004
        more = "" if is_sha1 else "[extensions]\n\tobjectformat = sha256\n"
        texts = {
            "HEAD": "ref: refs/heads/main\n",
            "config": _CONFIG.format(version=0 if is_sha1 else 1, more=more),
            "shallow": "".join(f"{pin}\n" for pin in sorted(self.pins)),
            **{f"{PINS}{pin}": f"{pin}\n" for pin in self.pins},
            **{f"{NAMED}{ref}": f"{commit}\n" for ref, commit in self.named},
        }
        return {f"{self.id}/{inside}": text.encode() for inside, text in texts.items()}


@frozen
class RepositoryUse:
    """One commit that a build needs. ``path`` is its place below ``component``'s tree, "" for the top.

    ``configure_time`` marks what the build clones itself; ``ref`` is the tag by which it asks for it.
    """

    component: str
    url: str
    commit: str
    path: str = ""
    ref: str | None = None
    configure_time: bool = False

    @property
    def id(self) -> str:
        """The id of the entry of its repository."""
        return f"{GIT}/{mirror_name(self.url, len(self.commit))}"


@frozen
class DepotSet:
    """What the build of ``recipe`` needs for these Python versions; ``inputs`` is a digest of the request."""

    recipe: str
    pythons: tuple[str, ...]
    repositories: tuple[RepositoryUse, ...]
    files: tuple[Entry, ...]
    inputs: str = ""

    @property
    def needs(self) -> frozenset[str]:
        """The ids of the entries of what it needs."""
        return frozenset((*(use.id for use in self.repositories), *(entry.id for entry in self.files)))

    @property
    def name(self) -> str:
        """The recipe's name and the digest of the content: the name of the set's file."""
        return f"{self.recipe}-{hashlib.sha256(self.text()).hexdigest()[:_DIGITS]}"

    @property
    def path(self) -> str:
        """Where its file is in a depot."""
        return f"{SETS}/{self.name}.json"

    def text(self) -> bytes:
        """Return the content of the set's file."""
        return _sealed({"schema": SET_SCHEMA, **plain(self)})


@frozen
class Index:
    """All that a depot lists: entries by id, sets by name."""

    entries: Mapping[str, Entry] = field(default_factory=dict)
    sets: Mapping[str, DepotSet] = field(default_factory=dict)

    def text(self) -> bytes:
        """Return the content of ``index.json``."""
        entries = [plain(entry) for _, entry in sorted(self.entries.items())]
        sets = [plain(one) for _, one in sorted(self.sets.items())]
        return _sealed({"schema": SCHEMA, "entries": entries, "sets": sets})

    def of(self, recipe: str) -> list[DepotSet]:
        """Return the sets of a recipe."""
        return [one for one in self.sets.values() if one.recipe == recipe]

    def has(self, use: RepositoryUse) -> bool:
        """Whether a commit is listed."""
        entry = self.entries.get(use.id)
        return entry is not None and use.commit in entry.pins

    def files(self) -> list[Entry]:
        """Return the entries of files, repositories left out."""
        return [entry for entry in self.entries.values() if entry.kind != "git"]


def index_of(entries: Iterable[Entry], sets: Iterable[DepotSet]) -> Index:
    """Return an index of these; of two with one id or name the later one stays."""
    return Index({entry.id: entry for entry in entries}, {one.name: one for one in sets})


def file_entry(name: str, sha256: str, size: int, **known: Any) -> Entry:
    """Return the entry of a file; what ``known`` does not have is taken from its name.

    Raises:
        EntryError: the name or sha256 is none that a file of a depot may have.
    """
    kind, dist, version = described(name)
    words = {"kind": kind, "dist": dist, "version": version, **known}
    entry = Entry(name=name, files=(FileRecord(f"{FILES}/{sha256}/{name}", size, sha256),), **words)
    _require_own(entry)
    return entry


def is_filename(name: str) -> bool:
    """Return whether ``name`` can be that of a wheel or archive: no path, not hidden."""
    return _FILENAME.fullmatch(name) is not None


def described(name: str) -> tuple[Kind, str, str]:
    """Return kind, distribution and version of a package's file, as far as its name states them."""
    for end in (".conda", ".tar.bz2"):
        if name.endswith(end):
            words = name.removesuffix(end).rsplit("-", 2)
            return "conda", words[0], words[1] if len(words) > 1 else ""
    kind: Kind = "wheel" if name.endswith(".whl") else "sdist"
    try:
        dist, version, *_ = wheel_of(name) if kind == "wheel" else sdist_of(name)
    except (InvalidWheelFilename, InvalidSdistFilename):
        return kind, "", ""
    return kind, dist, str(version)


def read_index(data: bytes) -> Index:
    """Return the index in the content of ``index.json``.

    Raises:
        OtherVersionError: another version of xpubuild wrote it.
        EntryError: a byte of it is another, or it lists what is not in its own place.
    """
    found = _read(_Listed, data, SCHEMA)
    for entry in found.entries:
        _require_own(entry)
    for one in found.sets:
        _require_sound(one)
    return index_of(found.entries, found.sets)


def read_set(data: bytes) -> DepotSet:
    """Return the set in the content of its file.

    Raises:
        EntryError: a byte of it is another, or it needs what no depot has.
    """
    found: DepotSet = _read(DepotSet, data, SET_SCHEMA)
    _require_sound(found)
    return found


@frozen
class _Listed:
    entries: tuple[Entry, ...]
    sets: tuple[DepotSet, ...]


def _sealed(document: Mapping[str, Any]) -> bytes:
    """Return a document with the digest of the rest of it."""

    def text(found: Mapping[str, Any]) -> bytes:
        written = json.dumps(found, indent=1, sort_keys=True, ensure_ascii=False)
        return written.encode("utf-8", "surrogateescape") + b"\n"

    return text({**document, "digest": hashlib.sha256(text(document)).hexdigest()})


def _read(kind: Any, data: bytes, schema: str) -> Any:
    """Return a document that ``_sealed`` wrote, as the type that it was written from."""
    try:
        document = json_value(data.decode("utf-8", "surrogateescape"))
    except (ValueError, RecursionError) as error:
        raise EntryError("it is not a JSON document") from error
    written = document.get("schema") if isinstance(document, dict) else None
    if written != schema:
        known = isinstance(written, str) and written.startswith(("xpubuild.mirror", "xpubuild.depot"))
        raise (OtherVersionError if known else EntryError)(f"it is not a document of the schema {schema}")
    try:
        is_whole = _sealed({name: value for name, value in document.items() if name != "digest"}) == data
        found = built(kind, document)
    except (ValueError, RecursionError) as error:
        raise EntryError(f"it has fields that are not known: {error}") from error
    if not is_whole:
        raise EntryError("its content does not match its digest")
    return found


def _require_sound(one: DepotSet) -> None:
    for entry in one.files:
        _require_own(entry)
    for use in one.repositories:
        try:
            mirror_name(use.url, len(use.commit))
        except ValueError as error:
            raise EntryError(f"'{use.url}' is not a URL: {error}") from error
        if not is_id(use.commit):
            raise EntryError(f"'{use.commit}' is not a commit")
    if not _WORD.fullmatch(one.name):
        raise EntryError(f"'{one.recipe}' is not the name of a recipe")


def _require_own(entry: Entry) -> None:
    """Refuse an entry that names files of others, or what no file has."""
    is_git = entry.kind == "git"
    if not _WORD.fullmatch(entry.name) or not entry.files or not (is_git or len(entry.files) == 1):
        raise EntryError("its name or files are not those of a depot")
    for record in entry.files:
        inside = record.path.removeprefix(f"{entry.id}/")
        is_own = OBJECT.fullmatch(inside) if is_git else inside == entry.name
        if record.path != f"{entry.id}/{inside}" or not is_own:
            raise EntryError(f"'{record.path}' is not a file of {entry.id}")
        if record.size < 0 or not _SHA256.fullmatch(record.sha256):
            raise EntryError("a file of it has no size or sha256")
    if is_git and not (entry.name.endswith(".git") and entry.pins):
        raise EntryError(f"{entry.id} has no pins, or no name of a repository")
    commits = (*entry.pins, *(commit for _, commit in entry.named))
    if not all(map(is_id, commits)) or not all(is_ref(ref) for ref, _ in entry.named):
        raise EntryError(f"{entry.id} has pins that are not commits, or names that are not refs")
