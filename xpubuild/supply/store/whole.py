"""All that is in the folder of a store: repositories, files and sets of a mirror beside the built wheels."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from xpubuild.engine.process import Cancel
from xpubuild.supply.git.bare import BareRepository, RepositoryStore
from xpubuild.supply.git.git import Git
from xpubuild.supply.mirror.check import check as check_mirror
from xpubuild.supply.mirror.check import is_marked
from xpubuild.supply.mirror.entries import FILES, GIT, SETS
from xpubuild.supply.mirror.reading import Damage, scan, walk
from xpubuild.supply.store.collect import size_of, why_not
from xpubuild.supply.store.folder import FolderStore


def size_row(store: FolderStore) -> dict[str, Any]:
    """Return how much a store has of each kind, as ``xpubuild.store-size/1`` has it; sizes are bytes."""
    root = store.root
    sizes = [item.stat(follow_symlinks=False).st_size for name in (GIT, FILES, SETS)
             for _, item in walk(root / name)]  # fmt: skip
    return {
        "store": store.name,
        "wheels": sum(1 for _ in store.records()),
        "repositories": len(_repositories(store)),
        "files": len(scan(root / FILES)),
        "sets": len(scan(root / SETS)),
        "size_bytes": size_of(store) + sum(sizes),
        "why": why_not(store),
    }


def damages(store: FolderStore, cancel: Cancel) -> Iterator[Damage]:
    """Yield what is damaged in a store, every byte of it hashed; nothing is changed.

    Of a mirror every file is compared with its index, of the user's own repositories git hashes every object.

    Raises:
        InterruptedByUserError: ``cancel`` was set.
    """
    if is_marked(store.root):
        yield from check_mirror(store.root, progress=cancel.stop_here)
    else:
        repositories = RepositoryStore(store.root, Git.open(), offline=True, cancel=cancel)
        for name in _repositories(store):
            place = store.root / GIT / name
            if not BareRepository(repositories, "", place).is_sound(lambda _: None):
                yield Damage(f"{GIT}/{name}", "is damaged", "git finds objects that are missing or changed")
    for path, record in store.records():
        cancel.stop_here()
        why = record if isinstance(record, str) else store.wrong(record)
        if why:
            yield Damage(path.relative_to(store.root).as_posix(), "is damaged", why)


def _repositories(store: FolderStore) -> list[str]:
    return [item.name for item in scan(store.root / GIT) if item.name.endswith(".git")
            and not item.name.startswith(".")]  # fmt: skip
