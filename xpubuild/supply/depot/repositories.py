"""The repositories of a depot as files: their entry, what does not belong there, whether they are sound."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import replace
from pathlib import Path

from xpubuild.engine.files import explained, remove_tree, write_changed
from xpubuild.engine.process import Cancel
from xpubuild.supply.depot.bytes import digest_of, scan, walk
from xpubuild.supply.depot.entries import (
    GIT,
    NAMED,
    OBJECT,
    PINS,
    Entry,
    FileRecord,
    git_id,
    is_commit,
    is_ref,
)
from xpubuild.supply.git.git import Git
from xpubuild.supply.git.locks import locked

_PACK_AND_IDX = 2
_DEBRIS, _OURS = ("tmp_", ".tmp-"), "refs/xpubuild/"


def list_repository(root: Path, sketch: Entry, old: Entry | None) -> Entry | None:
    """Write the files of a repository that follow from its pins, and return its entry; None without objects.

    ``sketch`` is the entry without its objects. An object of ``old`` keeps the record that it has: damage is
    not made right by a second look.

    Raises:
        NoSpaceError, ToolchainError: it cannot be read or written.
    """
    folder = root / sketch.folder
    known = {record.path: record for record in old.files} if old is not None else {}
    with locked(folder.with_suffix(".lock")), explained(folder, "changing the mirror"):
        inside = [path for path, _ in walk(folder) if OBJECT.fullmatch(path)]
        # A pack and its index are one thing; half of it is a leftover.
        stems = Counter(path.rpartition(".")[0] for path in inside if path.endswith((".pack", ".idx")))
        whole = (
            path for path in inside if "." not in path or stems[path.rpartition(".")[0]] == _PACK_AND_IDX
        )
        records = [
            known.get(path) or FileRecord(path, *digest_of(root / path))
            for path in (f"{sketch.folder}/{path}" for path in whole)
        ]
        kept = tuple(sorted({*sketch.pins}))
        if not records or not kept:
            return None
        tags = {ref: commit for ref, commit in sketch.named if commit in kept and is_ref(ref)}
        entry = replace(sketch, files=tuple(records), pins=kept, named=tuple(sorted(tags.items())))
        write_derived(root, entry)
    return entry


def write_derived(root: Path, entry: Entry) -> None:
    """Write what follows from the pins of a repository, and remove what it must not have; under its lock."""
    wanted = entry.derived()
    listed = {record.path for record in entry.files}
    for path, _ in foreign(root, entry.folder, {*listed, *wanted}):
        remove_tree(root / path)
    for path, text in wanted.items():
        if (root / path).is_dir() and not (root / path).is_symlink():
            remove_tree(root / path)
        write_changed(root / path, text)


def foreign(root: Path, folder: str, known: Collection[str]) -> Iterator[tuple[str, bool]]:
    """Yield (path, is harmless) of what is in the folder of a repository and not ``known``.

    Objects and references of ours come before the index lists them; anything else may change what git reads.
    Leftovers that git ignores do not count.
    """
    for inside, item in walk(root / folder):
        path = f"{folder}/{inside}"
        is_debris = inside.startswith("objects/") and item.name.startswith(_DEBRIS)
        if path not in known and not is_debris:
            yield path, inside.startswith(_OURS) or OBJECT.fullmatch(inside) is not None


def repositories_in(root: Path) -> list[str]:
    """Return the names of the repositories in a depot."""
    names = (item.name for item in scan(root / GIT))
    return [name for name in names if name.endswith(".git") and not name.startswith(".")]


def pins_in(root: Path, name: str) -> list[str]:
    """Return the commits that the references of a repository keep."""
    return [item.name for item in scan(root / GIT / name / PINS) if is_commit(item.name)]


def named_in(root: Path, name: str) -> Iterator[tuple[str, str]]:
    """Yield (tag, commit) of what was looked up."""
    for ref, _ in walk(root / GIT / name / NAMED):
        with contextlib.suppress(OSError, UnicodeDecodeError):
            yield ref, (root / GIT / name / NAMED / ref).read_text("ascii").strip()


def holds(git: Git, git_dir: Path, commit: str) -> bool:
    """Whether a repository keeps ``commit`` with every object of its tree; nothing is written."""
    if not git_dir.is_dir():
        return False
    pin = git.query(["rev-parse", "--quiet", "--verify", f"{PINS}{commit}^{{commit}}"], git_dir=git_dir)
    return pin.text == commit and _is_complete(git, git_dir, commit)


def _is_complete(git: Git, git_dir: Path, commit: str) -> bool:
    return git.query(["rev-list", "--objects", "--quiet", "--no-walk", commit], git_dir=git_dir).ok


def rescued(root: Path, sketch: Entry, git: Git, cancel: Cancel) -> Entry | None:
    """Return the entry of a repository whose files are not those that were listed, where git finds it sound.

    ``sketch`` has pins and tags that it should keep. Objects are named by their content: where git hashes all
    of them, nothing else has to be trusted. Pins of which an object is lacking go; None where what remains is
    damaged.
    """
    folder, name = root / sketch.folder, sketch.name
    wanted = replace(
        sketch,
        pins=tuple({*sketch.pins, *pins_in(root, name)}),
        named=(*named_in(root, name), *sketch.named),
    )
    # git needs the settings and the ends of history before it can be asked.
    if list_repository(root, wanted, None) is None:
        return None
    whole = tuple(pin for pin in wanted.pins if _is_complete(git, folder, pin))
    entry = list_repository(root, replace(wanted, pins=whole), None)
    if entry is None:
        return None
    checked = git.run(["fsck", "--full", "--no-dangling", "--no-reflogs"], git_dir=folder, cancel=cancel)
    return entry if checked.ok else None


@contextlib.contextmanager
def set_aside(root: Path, listed: Collection[str]) -> Iterator[None]:
    """Move repositories away that are not ``listed`` after a repair; where the block fails, they return."""
    moved: list[tuple[Path, Path]] = []
    for name in repositories_in(root):
        place = root / GIT / name
        if git_id(name) not in listed and place.is_dir():
            aside = place.with_suffix(".damaged")
            remove_tree(aside)
            with explained(place, "setting a damaged repository aside"):
                place.rename(aside)
            moved.append((place, aside))
    try:
        yield
    except BaseException:
        for place, aside in moved:
            remove_tree(place)
            aside.rename(place)
        raise
    for _, aside in moved:
        remove_tree(aside)
