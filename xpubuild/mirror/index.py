"""What follows from the manifest: ``index.json`` for readers that cannot list a folder, ``wheels.html`` for
pip.

A web server gives files by name only; the index has every entry of the manifest with the hash of its file.
Neither is an entry itself: an export does not carry them, and whoever writes to a mirror leaves ones that
fit.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

from xpubuild.engine.files import remove_tree, write_atomic
from xpubuild.mirror.entries import (
    INDEX,
    MANIFEST,
    OLD_PAGE,
    PAGE,
    EntryError,
    is_name,
    is_sha256,
    render,
    sealed,
    unsealed,
)
from xpubuild.mirror.page import page
from xpubuild.mirror.reading import Cached, Damage, Manifest, read_manifest

SCHEMA = "xpubuild.mirror-index/1"
#: It is here while somebody writes to the mirror, and after a kill until the next writer has finished: as
#: long as it is, index and page may be behind the manifest.
BEHIND = ".index.lock"


def render_index(hashes: Mapping[str, str]) -> bytes:
    """Return the index of entries: id -> sha256 of the bytes of ``manifest/<id>.json``."""
    return sealed({"schema": SCHEMA, "entries": dict(hashes)})


def read_index(data: bytes) -> dict[str, str]:
    """Return the hashes by id that an index holds.

    Raises:
        EntryError: a byte of it is another, or it names what no manifest has.
    """
    document = unsealed(data, SCHEMA)
    entries = document.get("entries")
    if not isinstance(entries, dict) or set(document) != {"schema", "entries", "digest"}:
        raise EntryError("it has fields that an index does not have")
    for identifier, digest in entries.items():
        if not is_name(identifier) or not isinstance(digest, str) or not is_sha256(digest):
            raise EntryError(f"'{identifier}' is not an entry with a sha256")
    entries.pop(OLD_PAGE, None)
    return entries


def hashes_of(manifest: Manifest) -> dict[str, str]:
    """Return the sha256 of each sound manifest file; a sound one is what ``render`` writes."""
    return {name: hashlib.sha256(render(entry)).hexdigest() for name, entry in manifest.entries.items()}


def write_index(root: Path, cache: Cached | None = None) -> None:
    """Write index and page of the mirror at ``root`` where they are not what the manifest asks for.

    A damaged manifest file keeps the hash that the index has of it, so that readers find the damage.

    Raises:
        NoSpaceError, ToolchainError: the mirror cannot be written to.
    """
    manifest = read_manifest(root, cache)
    known: dict[str, str] = {}
    with contextlib.suppress(OSError, EntryError):
        known = read_index(_content(root / INDEX))
    damaged = {damage.entry for damage in manifest.damages}
    hashes = {name: digest for name, digest in known.items() if name in damaged} | hashes_of(manifest)
    remove_tree(root / MANIFEST / f"{OLD_PAGE}.json")
    _replace(root / INDEX, render_index(hashes), needed=bool(hashes))
    _replace(root / PAGE, page(manifest.entries.values()), needed=_has_packages(manifest))


def _replace(path: Path, text: bytes, *, needed: bool) -> None:
    if path.is_symlink() or (path.exists() and not path.is_file()):
        remove_tree(path)  # a file belongs there, not a way to one
    if (needed or path.exists()) and not (path.exists() and path.read_bytes() == text):
        write_atomic(path, text)


def _has_packages(manifest: Manifest) -> bool:
    return any(entry.kind in ("wheel", "sdist") for entry in manifest.entries.values())


def _content(path: Path) -> bytes:
    return b"" if path.is_symlink() or path.is_fifo() else path.read_bytes()


def derived_damage(root: Path, manifest: Manifest, reported: Collection[str]) -> Iterator[Damage]:
    """Yield what is wrong with index and page; what is ``reported`` of entries already is not said twice.

    A mirror without entries, or without packages, needs none.
    """
    needed = {INDEX: bool(manifest.entries), PAGE: _has_packages(manifest)}
    for name, is_needed in needed.items():
        path = root / name
        why = _wrong(path, manifest, reported) if is_needed or path.exists() else ""
        if why:
            yield Damage(name, "is damaged" if os.path.lexists(path) else "is missing", why, name)


def _wrong(path: Path, manifest: Manifest, reported: Collection[str]) -> str:
    try:
        data = _content(path)
        if path.name == PAGE:
            return _other_links(data, page(manifest.entries.values()), reported)
        return _behind(read_index(data), hashes_of(manifest), reported)
    except EntryError as error:
        return str(error)
    except OSError as error:
        return f"it cannot be read: {error.strerror}"


def _behind(found: Mapping[str, str], here: Mapping[str, str], reported: Collection[str]) -> str:
    differ = sorted(name for name in {*found, *here} - {*reported} if found.get(name) != here.get(name))
    more = f", and {len(differ) - 1} more" if len(differ) > 1 else ""
    return f"it does not match the manifest: {differ[0]} differs{more}" if differ else ""


def _other_links(found: bytes, here: bytes, reported: Collection[str]) -> str:
    hidden = [name.removeprefix("file-").encode() for name in reported if name.startswith("file-")]

    def rest(text: bytes) -> list[bytes]:
        return [line for line in text.split(b"\n") if not any(digest in line for digest in hidden)]

    return "its links are not those of the manifest" if rest(found) != rest(here) else ""
