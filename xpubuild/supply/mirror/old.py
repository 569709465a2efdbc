"""Mirrors that 0.1 and 0.2 wrote: a file ``manifest/<id>.json`` for each entry, and an index of their hashes.

They are only read; whoever writes to such a mirror leaves an index of now and no manifest.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from xpubuild.supply.mirror.entries import (
    INDEX,
    MANIFEST,
    Entry,
    EntryError,
    is_name,
    is_sha256,
    parse,
    sealed,
    unsealed,
)
from xpubuild.supply.mirror.reading import Damage, scan
from xpubuild.untrusted import UntrustedError, read_bytes

SCHEMA = "xpubuild.mirror-index/1"
#: Only 0.1 had an entry of the page of links.
_PAGE = "page-wheels"
#: It is there while an earlier xpubuild writes, and after it was killed: the index may be behind.
_BEHIND = ".index.lock"


def is_old(index: bytes) -> bool:
    """Whether an index is one of hashes."""
    return f'"schema": "{SCHEMA}"'.encode() in index


def read_old_index(data: bytes) -> dict[str, str]:
    """Return the sha256 of each ``manifest/<id>.json`` by id.

    Raises:
        EntryError: a byte of the index is another, or it names what no manifest has.
    """
    entries = unsealed(data, SCHEMA).get("entries")
    if not isinstance(entries, dict):
        raise EntryError("it has no entries")
    for identifier, digest in entries.items():
        if not is_name(identifier) or not isinstance(digest, str) or not is_sha256(digest):
            raise EntryError(f"'{identifier}' is not an entry with a sha256")
    return {name: digest for name, digest in entries.items() if name != _PAGE}


def read_old(root: Path, index: bytes | None) -> tuple[dict[str, Entry], tuple[Damage, ...]]:
    """Return the entries below ``root/manifest`` by id, and what of it and of the ``index`` is damaged."""
    entries: dict[str, Entry] = {}
    hashes: dict[str, str] = {}
    damages: list[Damage] = []
    for item in scan(root / MANIFEST):
        if item.name.startswith("."):
            continue  # the draft of a writer that was killed
        identifier = item.name.removesuffix(".json")
        try:
            data = _content(Path(item.path))
            hashes[identifier] = hashlib.sha256(data).hexdigest()
            if identifier != _PAGE:
                entries[identifier] = parse(data, identifier)
        except (EntryError, UntrustedError, OSError) as error:
            why = error.strerror or str(error) if isinstance(error, OSError) else str(error)
            damages.append(Damage(f"{MANIFEST}/{item.name}", "is damaged", why, identifier))
    expected = sealed({"schema": SCHEMA, "entries": hashes})
    if index != expected and not (damages or (root / _BEHIND).exists()):
        what = "is missing" if index is None else "is damaged"
        damages.append(Damage(INDEX, what, "it does not match the manifest", INDEX))
    return entries, tuple(damages)


def _content(path: Path) -> bytes:
    if path.is_symlink() or not path.is_file() or path.suffix != ".json":
        raise EntryError("it is not a file that xpubuild writes")
    return read_bytes(path)
