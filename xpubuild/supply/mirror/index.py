"""``index.json``, the entries of a mirror, and ``wheels.html``, which follows from them.

The index has one line for each entry, so damage costs the entries of its lines alone; the rest of a mirror
is named by its content, and what the index lost is found by looking. Readers over http, who cannot list a
folder, read it first.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path
from urllib.parse import quote

from xpubuild.engine.files import remove_tree, write_atomic
from xpubuild.frozen import frozen
from xpubuild.supply.index.offline import links_page
from xpubuild.supply.mirror.entries import (
    FILES,
    GIT,
    INDEX,
    PAGE,
    SETS,
    Entry,
    EntryError,
    entry_id,
    entry_in,
    line_of,
)
from xpubuild.supply.mirror.reading import COMMITTING, Damage, scan
from xpubuild.untrusted import UntrustedError, read_bytes

_SCHEMA = b'{"schema":"xpubuild.mirror-index/2","digest":"'
_END = b"]}"
#: The longest index that is read: far beyond that of a mirror of a million files.
MOST_BYTES = 256 << 20


@frozen
class Manifest:
    """The entries of a mirror by id, and what is wrong with where they are written."""

    entries: dict[str, Entry]
    damages: tuple[Damage, ...] = ()


def render_index(entries: Iterable[Entry]) -> bytes:
    """Return the index of these entries."""
    lines = (line_of(entry) for entry in sorted(entries, key=lambda entry: entry.id))
    body = b",\n".join(lines) + b"\n" + _END + b"\n"
    return _head(body) + b"\n" + body


def _head(body: bytes) -> bytes:
    return _SCHEMA + hashlib.sha256(body).hexdigest().encode() + b'","entries":['


def read_index(data: bytes) -> tuple[dict[str, Entry], str]:
    """Return the entries in the sound lines of an index by id, and what is wrong with it, "" for nothing."""
    head, _, body = data.partition(b"\n")
    why = "" if head == _head(body) else "its content does not match its digest"
    entries: dict[str, Entry] = {}
    for line in body.split(b"\n"):
        if line not in (b"", _END):
            try:
                entry = entry_in(line.removesuffix(b","))
                entries[entry.id] = entry
            except EntryError as error:
                why = str(error)
    return entries, why


def read_manifest(root: Path) -> Manifest:
    """Return all entries of the mirror at ``root``."""
    try:
        data = _content(root / INDEX)
    except FileNotFoundError:
        data = None
    except (OSError, UntrustedError) as error:
        why = error.strerror or "" if isinstance(error, OSError) else str(error)
        return Manifest({}, (Damage(INDEX, "is damaged", f"it cannot be read: {why}", INDEX),))
    entries, why = read_index(data) if data is not None else ({}, "")
    return Manifest(entries, (Damage(INDEX, "is damaged", why, INDEX),) if why else ())


def read_committing(root: Path) -> dict[str, list[Entry]]:
    """Return the entries that verified changes are about to put in place, by id."""
    found: dict[str, list[Entry]] = {}
    for folder in scan(root):
        if folder.name.startswith(COMMITTING):
            for identifier, entry in read_manifest(Path(folder.path)).entries.items():
                found.setdefault(identifier, []).append(entry)
    return found


def write_index(root: Path, entries: Iterable[Entry]) -> None:
    """Write index and page of the mirror at ``root``.

    Raises:
        NoSpaceError, ToolchainError: the mirror cannot be written to.
    """
    listed = list(entries)
    _replace(root / INDEX, render_index(listed))
    if _has_packages(listed) or (root / PAGE).exists():
        _replace(root / PAGE, page(listed))


def _replace(path: Path, text: bytes) -> None:
    if path.is_symlink() or (path.exists() and not path.is_file()):
        remove_tree(path)  # a file belongs there, not a way to one
    if not (path.exists() and path.read_bytes() == text):
        write_atomic(path, text)


def _content(path: Path) -> bytes:
    if not stat.S_ISREG(path.lstat().st_mode):
        raise UntrustedError("it is not a regular file")
    return read_bytes(path, MOST_BYTES)


def page(entries: Iterable[Entry]) -> bytes:
    """Return the page by which pip finds wheels and source distributions, with relative links and hashes."""
    python = [entry for entry in entries if entry.kind in ("wheel", "sdist")]
    return links_page((quote(item.files[0].path), item.name, item.sha256) for item in python).encode()


def _has_packages(entries: Iterable[Entry]) -> bool:
    return any(entry.kind in ("wheel", "sdist") for entry in entries)


def there(root: Path) -> Iterator[tuple[str, str]]:
    """Yield (id, path) of everything that must have an entry."""
    for item in scan(root / FILES):
        yield entry_id("wheel", item.name), f"{FILES}/{item.name}"
    for item in scan(root / GIT):
        if item.name.endswith(".git") and not item.name.startswith("."):
            yield entry_id("git", item.name), f"{GIT}/{item.name}"
    for item in scan(root / SETS):
        yield entry_id("set", item.name.removesuffix(".json")), f"{SETS}/{item.name}"


def derived_damage(root: Path, manifest: Manifest) -> Iterator[Damage]:
    """Yield that the index is lost, and what is wrong with the page; a mirror without packages needs none."""
    if not os.path.lexists(root / INDEX) and next(there(root), None):
        yield Damage(INDEX, "is missing", "there is something in the mirror", INDEX)
    path, entries = root / PAGE, manifest.entries.values()
    if _has_packages(entries) or os.path.lexists(path):
        try:
            why = "" if _content(path) == page(entries) else "its links are not those of the index"
        except FileNotFoundError:
            yield Damage(PAGE, "is missing", "there are packages in the mirror", PAGE)
            return
        except (OSError, UntrustedError) as error:
            why = f"it cannot be read: {error}"
        if why:
            yield Damage(PAGE, "is damaged", why, PAGE)
