"""Entries of a mirror: what each file of it must be, with a digest of the entry itself. Pure.

Each entry is a line of ``index.json``. It has the sha256 of its own content and one canonical form: any
other byte in it is damage.
"""

from __future__ import annotations

import functools
import hashlib
import json
import re
from collections.abc import Mapping
from typing import Any, Literal, TypeVar

from xpubuild.documents import built, plain
from xpubuild.frozen import frozen
from xpubuild.untrusted import json_value

Kind = Literal["git", "wheel", "sdist", "conda", "archive", "set"]

SCHEMA = "xpubuild.mirror-entry/1"
MARK = "mirror.json"
MARK_TEXT = b'{"schema":"xpubuild.mirror/1"}\n'
GIT, FILES, SETS = "git", "files", "sets"
#: Built wheels, which ``xpubuild.store`` keeps: a mirror and a store may be one folder.
WHEELS = "wheels"
PAGE = "wheels.html"
#: All entries, and what those who cannot list the folder read first.
INDEX = "index.json"

_SHA256 = re.compile(r"[0-9a-f]{64}")
_COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
#: One component of a path in a mirror: nothing hidden, nothing that an option could be taken for.
_WORD = re.compile(r"(?![.-])[^/\x00-\x1f\x7f\\]{1,200}")
_FILE_KINDS = frozenset({"wheel", "sdist", "conda", "archive"})
_REF = r"(?!.*(?:\.\.|//|/\.|\.lock(?:/|$)))[A-Za-z0-9._/+@-]{1,200}"
#: The files that a repository made by ``source.mirror`` may have; any other could change what git reads.
IN_REPOSITORY = re.compile(
    r"HEAD|config|shallow|objects/pack/pack-(?:[0-9a-f]{40}|[0-9a-f]{64})\.(?:pack|idx|rev)"
    r"|objects/[0-9a-f]{2}/(?:[0-9a-f]{38}|[0-9a-f]{62})"
    rf"|refs/xpubuild/(?:pins|heads|tags|named)/{_REF}"
)
PIN_FOLDER = "refs/xpubuild/pins/"


#: More than any file system holds in one file.
LARGEST_FILE = (1 << 63) - 1

_Item = TypeVar("_Item")


class EntryError(ValueError):
    """A manifest entry is not what xpubuild writes; the text says what is wrong."""


@frozen
class FileRecord:
    """One file: its path below the mirror, its size in bytes and its sha256."""

    path: str
    size: int
    sha256: str


@frozen
class Entry:
    """What belongs together in a mirror: a repository, a file or a set.

    ``name`` is the repository's folder or the file's name, ``pins`` the commits that a repository keeps;
    ``dist`` and ``version`` are a Python or conda package's; an archive that a build would download itself
    has COMPONENT.NAME there and no version.
    """

    kind: Kind
    name: str
    files: tuple[FileRecord, ...]
    url: str = ""
    dist: str = ""
    version: str = ""
    pins: tuple[str, ...] = ()

    @property
    def id(self) -> str:
        """The name of the entry's file in the manifest."""
        return entry_id(self.kind, self.files[0].sha256 if self.is_file else self.name)

    @property
    def is_file(self) -> bool:
        """Whether the entry is a package's file."""
        return self.kind in _FILE_KINDS

    @property
    def sha256(self) -> str:
        """The sha256 of a package's file."""
        return self.files[0].sha256

    @property
    def size(self) -> int:
        """All bytes of the entry's files."""
        return sum(record.size for record in self.files)

    @property
    def folder(self) -> str:
        """The folder below the mirror that belongs to this entry alone; "" where it has none."""
        if self.kind == "git":
            return f"{GIT}/{self.name}"
        return f"{FILES}/{self.sha256}" if self.is_file else ""


def entry_id(kind: Kind, what: str) -> str:
    """Return the id of the entry of a repository's folder, a file's sha256 or a set's name."""
    return f"file-{what}" if kind in _FILE_KINDS else f"{kind}-{what}"


def is_name(text: str) -> bool:
    """Whether a text can be the name of a file of a mirror."""
    return _WORD.fullmatch(text) is not None


def is_commit(text: str) -> bool:
    """Whether a text is a whole commit id in lower-case hexadecimal digits."""
    return _COMMIT.fullmatch(text) is not None


def is_sha256(text: str) -> bool:
    """Whether a text is a sha256 in lower-case hexadecimal digits."""
    return _SHA256.fullmatch(text) is not None


def canonical(document: Mapping[str, Any]) -> bytes:
    """Return the one form in which a document of a mirror is written."""
    text = json.dumps(document, indent=1, sort_keys=True, ensure_ascii=False)
    return text.encode("utf-8", "surrogateescape") + b"\n"


def sealed(document: Mapping[str, Any]) -> bytes:
    """Return a document with the digest of itself."""
    return canonical(_with_digest(document))


def _with_digest(document: Mapping[str, Any]) -> dict[str, Any]:
    body = {name: value for name, value in document.items() if name != "digest"}
    return {**body, "digest": hashlib.sha256(canonical(body)).hexdigest()}


def unsealed(data: bytes, schema: str) -> dict[str, Any]:
    """Return a document that ``sealed`` wrote.

    Raises:
        EntryError: a byte of it is another, or it is of another schema.
    """
    try:
        document = json_value(data.decode("utf-8", "surrogateescape"))
    except (ValueError, RecursionError) as error:
        raise EntryError("it is not a JSON document") from error
    if not isinstance(document, dict) or document.get("schema") != schema:
        raise EntryError(f"it is not a document of the schema {schema}")
    try:
        is_whole = sealed(document) == data
    except (ValueError, RecursionError) as error:
        # Half of a surrogate pair has no bytes, and what is nested too deep for the writer was never written.
        raise EntryError("it has unknown fields") from error
    if not is_whole:
        raise EntryError("its content does not match its digest")
    return document


def read_as(kind: type[_Item], value: Any) -> _Item:
    """Return a part of a document as the type that it was written from.

    Raises:
        EntryError: a field is missing, or of another type.
    """
    try:
        found: _Item = built(kind, value)
    except ValueError as error:
        raise EntryError(str(error)) from error
    return found


def render(entry: Entry) -> bytes:
    """Return an entry as a document of its own."""
    return sealed(_document(entry))


@functools.lru_cache(maxsize=1 << 14)
def line_of(entry: Entry) -> bytes:
    """Return an entry as a line of an index."""
    document = _with_digest(_document(entry))
    text = json.dumps(document, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return text.encode("utf-8", "surrogateescape")


def _document(entry: Entry) -> dict[str, Any]:
    document: dict[str, Any] = {"schema": SCHEMA, "id": entry.id, "kind": entry.kind, "name": entry.name}
    for field in ("url", "dist", "version"):
        if getattr(entry, field):
            document[field] = getattr(entry, field)
    if entry.pins:
        document["pins"] = list(entry.pins)
    return {**document, "files": plain(entry.files)}


@functools.lru_cache(maxsize=1 << 14)
def entry_in(line: bytes) -> Entry:
    """Return the entry in a line of an index.

    Raises:
        EntryError: the line is damaged, or names paths that are not its own.
    """
    try:
        document = json_value(line.decode("utf-8", "surrogateescape"))
        data, identifier = canonical(document), str(document["id"])
    except (ValueError, RecursionError, LookupError, TypeError) as error:
        raise EntryError("a line of it is not an entry") from error
    return parse(data, identifier)


def parse(data: bytes, identifier: str) -> Entry:
    """Return the entry of ``identifier`` from its document.

    Raises:
        EntryError: the file is damaged, belongs elsewhere, or names paths that are not its own.
    """
    entry = read_as(Entry, unsealed(data, SCHEMA))
    _require_own(entry, identifier)
    if render(entry) != data:
        raise EntryError("it has fields that an entry does not have")
    return entry


def require_record(record: FileRecord) -> None:
    """Raise EntryError where size or sha256 are none that a file has."""
    if not 0 <= record.size <= LARGEST_FILE or not is_sha256(record.sha256):
        raise EntryError("a file of it has no size or sha256")


def _require_own(entry: Entry, identifier: str) -> None:
    for record in entry.files:
        require_record(record)
    if not entry.files or not is_name(entry.name):
        raise EntryError("its name or files are not those of a mirror")
    if entry.id != identifier:
        raise EntryError(f"it is the entry of {entry.id}")
    if len({record.path for record in entry.files}) != len(entry.files):
        raise EntryError("it lists a file twice")
    for record in entry.files:
        if not _is_own(entry, record.path):
            raise EntryError(f"'{record.path}' is not a file of {entry.id}")
    if not all(map(is_commit, entry.pins)) or bool(entry.pins) != (entry.kind == "git"):
        raise EntryError("its pins are missing, or not commits")


def _is_own(entry: Entry, path: str) -> bool:
    if entry.kind == "git":
        head, _, inside = path.partition(f"{GIT}/{entry.name}/")
        return not head and entry.name.endswith(".git") and IN_REPOSITORY.fullmatch(inside) is not None
    if len(entry.files) != 1:
        return False
    if entry.kind == "set":
        return path == f"{SETS}/{entry.name}.json"
    return path == f"{FILES}/{entry.sha256}/{entry.name}"
