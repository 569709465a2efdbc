"""Finds what a recipe needs of a mirror on a server: sets, and their repositories and files."""

from __future__ import annotations

import contextlib
import hashlib
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from xpubuild.supply.mirror.entries import INDEX, MARK, MARK_TEXT, Entry, EntryError
from xpubuild.supply.mirror.index import read_index
from xpubuild.supply.mirror.remote.failures import damaged_there, no_mirror_there, not_brought
from xpubuild.supply.mirror.remote.transport import Remote
from xpubuild.supply.mirror.sets import MirrorSet, read_set
from xpubuild.untrusted import UntrustedError, read_bytes


def look(remote: Remote) -> dict[str, Entry]:
    """Return the entries of a served mirror by id.

    Raises:
        FetchError: the server does not answer, or there is no mirror with an index.
        SourceIntegrityError: mark or index are damaged.
    """
    location = remote.location
    found = remote.read([MARK, INDEX])
    mark, data = found.get(MARK), found.get(INDEX)
    if mark is None:
        raise no_mirror_there(location, f"it has no {MARK}")
    entries, why = read_index(data) if data is not None else ({}, "")
    if why and mark != MARK_TEXT:
        raise no_mirror_there(location, f"its {MARK} is not valid")
    if why:
        raise damaged_there(location, INDEX, why)
    if mark != MARK_TEXT:
        raise damaged_there(location, MARK, "it does not mark the folder as a mirror")
    if data is None:
        raise no_mirror_there(location, f"it has no {INDEX}, and over http nothing else lists it")
    return entries


def choose(remote: Remote, root: Path, index: Mapping[str, Entry], recipe: str | None) -> dict[str, Entry]:
    """Return the sets of ``recipe`` and what they need; everything where it has none.

    ``root`` is the copy: a set that it has is not asked for again.

    Raises:
        FetchError, SourceIntegrityError: a set cannot be had, or is damaged, or needs what is not there.
    """
    names = set_ids(index, recipe) if recipe is not None else []
    if not names:
        return dict(index)
    sets = {index[name].files[0].path: index[name].files[0].sha256 for name in names}
    here = {path: data for path, digest in sets.items() if (data := _kept(root / path, digest))}
    texts = here | remote.read([path for path in sets if path not in here])
    wanted = [_set(remote, path, texts.get(path)) for path in sets]
    needed = sorted(set().union(*(one.needs for one in wanted)))
    for name in needed:
        if name not in index:
            raise not_brought(remote.location, name, "a set of the mirror needs it, and its index lacks it")
    for one in wanted:
        for use in one.repositories:
            if use.commit not in index[use.id].pins:
                why = f"{one.name} needs commit {use.commit} of {use.url}"
                raise not_brought(remote.location, use.id, why)
    return {name: index[name] for name in (*names, *needed)}


def _set(remote: Remote, path: str, data: bytes | None) -> MirrorSet:
    if data is None:
        raise not_brought(remote.location, path, "the server does not have it")
    try:
        return read_set(data)
    except EntryError as error:
        raise damaged_there(remote.location, path, str(error)) from None


def _kept(path: Path, digest: str) -> bytes | None:
    """Return the content of a file of the copy, where it is there and has this hash."""
    with contextlib.suppress(OSError, UntrustedError):
        data = read_bytes(path) if path.is_file() else b""
        return data if hashlib.sha256(data).hexdigest() == digest else None
    return None


def set_ids(names: Iterable[str], recipe: str) -> list[str]:
    """Return which of the entries ``names`` are sets of ``recipe``; "demo" has none of those of "demo-2"."""
    form = re.compile(rf"set-{re.escape(recipe)}-[0-9a-f]{{16}}")
    return sorted(name for name in names if form.fullmatch(name))
