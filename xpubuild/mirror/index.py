"""``index.json``: every entry of the manifest with the hash of its file, for readers that cannot list a
folder.

A web server gives files by name only. The index is derived from the manifest, so it is no entry itself: an
export does not carry it, and whoever writes to a mirror leaves one that fits.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

from xpubuild.engine.files import remove_tree, write_atomic
from xpubuild.mirror.entries import INDEX, EntryError, is_name, is_sha256, render, sealed, unsealed
from xpubuild.mirror.reading import Cached, Damage, Manifest, read_manifest

SCHEMA = "xpubuild.mirror-index/1"
#: It is here while somebody writes to the mirror, and after a kill until the next writer has finished: as
#: long as it is, the index may be behind the manifest.
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
    return entries


def hashes_of(manifest: Manifest) -> dict[str, str]:
    """Return the sha256 of each sound manifest file; a sound one is what ``render`` writes."""
    return {name: hashlib.sha256(render(entry)).hexdigest() for name, entry in manifest.entries.items()}


def write_index(root: Path, cache: Cached | None = None) -> None:
    """Write the index of the mirror at ``root`` where it is not what the manifest asks for.

    A damaged manifest file keeps the hash that the index has of it, so that readers find the damage.

    Raises:
        NoSpaceError, ToolchainError: the mirror cannot be written to.
    """
    manifest, path = read_manifest(root, cache), root / INDEX
    known: dict[str, str] = {}
    data = b""
    if path.is_symlink() or (path.exists() and not path.is_file()):
        remove_tree(path)  # a file belongs there, not a way to one
    with contextlib.suppress(OSError, EntryError):
        data = path.read_bytes()
        known = read_index(data)
    damaged = {damage.entry for damage in manifest.damages}
    hashes = {name: digest for name, digest in known.items() if name in damaged} | hashes_of(manifest)
    text = render_index(hashes)
    if data != text and (hashes or path.exists()):
        write_atomic(path, text)


def index_damage(
    root: Path, manifest: Manifest, reported: Collection[str], *, writes: bool = False
) -> Iterator[Damage]:
    """Yield what is wrong with the index; what is ``reported`` of entries already is not said twice.

    A mirror without any entry needs none. While somebody else than the caller writes, and after a kill until
    the next writer has ended, the manifest may be ahead of it.
    """
    path, is_behind = root / INDEX, not writes and (root / BEHIND).exists()
    if not manifest.entries and not path.exists():
        return
    try:
        found = read_index(b"" if path.is_symlink() or path.is_fifo() else path.read_bytes())
    except FileNotFoundError:
        if not is_behind:
            yield Damage(INDEX, "is missing", "readers over http find no files", INDEX)
    except EntryError as error:
        yield Damage(INDEX, "is damaged", str(error), INDEX)
    except OSError as error:
        yield Damage(INDEX, "is damaged", f"it cannot be read: {error.strerror}", INDEX)
    else:
        if not is_behind:
            yield from _behind(found, hashes_of(manifest), reported)


def _behind(found: Mapping[str, str], here: Mapping[str, str], reported: Collection[str]) -> Iterator[Damage]:
    differ = sorted(name for name in {*found, *here} - {*reported} if found.get(name) != here.get(name))
    if differ:
        why = f"it does not match the manifest: {differ[0]} differs" + (
            f", and {len(differ) - 1} more" if len(differ) > 1 else ""
        )
        yield Damage(INDEX, "is damaged", why, INDEX)
