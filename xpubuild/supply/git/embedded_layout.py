"""The plain files of the embedded project, read as git objects: pure, the same for everybody.

``embedded.yaml`` beside the project names the repositories: ``repositories: [{name, path}, ...]``, the first
one with path ``.``; each other one is a submodule of the repository whose folder holds it. ``exclude``
(optional) lists names that are no source. Object ids are computed here, so that a plan can name the commit
without running git; ``embedded`` proves that git agrees.
"""

from __future__ import annotations

import fnmatch
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from xpubuild.errors import SourceIntegrityError
from xpubuild.frozen import frozen
from xpubuild.safe_yaml import read_yaml
from xpubuild.supply.git.gitmodules import GITLINK

MANIFEST = "embedded.yaml"
IDENTITY = "xpubuild <xpubuild@localhost>"
#: Seconds since the epoch of every embedded commit: 2026-01-01T00:00:00Z.
DATE = 1767225600
_MODULES = ".gitmodules"
# What installers, interpreters and editors add to a folder of sources.
_NEVER = (".git", "__pycache__", "*.py[co]", "*.egg-info", ".*_cache", ".DS_Store", "*~", "*.sw[op]")


@frozen
class FileEntry:
    """One file (or submodule, with its commit as ``data``) of an embedded repository."""

    path: str
    mode: str
    data: bytes


@frozen
class EmbeddedRepository:
    """One repository to be: ``path`` is its folder below the project, "" for the project itself."""

    name: str
    path: str
    entries: tuple[FileEntry, ...]
    tree: str
    commit: str

    @property
    def message(self) -> str:
        """The commit message."""
        return message_of(self.name)


def message_of(name: str) -> str:
    """Return the commit message of an embedded repository."""
    return f"{name}: sources embedded in xpubuild\n"


def read_repositories(project: Path) -> tuple[EmbeddedRepository, ...]:
    """Return the repositories of an embedded project, innermost first.

    Raises:
        SourceIntegrityError: the manifest or a file is not what it should be: the installation is damaged.
    """
    layout, exclude = _read_manifest(project)
    made: dict[str, EmbeddedRepository] = {}
    for path in sorted(layout, key=lambda path: path.count("/") + bool(path), reverse=True):
        below = {inner: layout[inner] for inner in layout if _holder(inner, layout) == path and inner}
        entries = list(_files(project, path, layout, exclude))
        if not entries:
            raise _damaged(project, f"the folder of '{layout[path]}' has no files")
        entries += _modules(project, path, entries, below)
        for inner in below:
            place = inner[len(path) + 1 :] if path else inner
            entries.append(FileEntry(place, GITLINK, made[inner].commit.encode()))
        ordered = tuple(sorted(entries, key=lambda entry: entry.path.encode()))
        tree = _tree_id(ordered)
        made[path] = EmbeddedRepository(layout[path], path, ordered, tree, _commit_id(tree, layout[path]))
    return tuple(made.values())


def _read_manifest(project: Path) -> tuple[dict[str, str], tuple[str, ...]]:
    try:
        document = read_yaml((project.parent / MANIFEST).read_text("utf-8"))
        layout = {_clean(item["path"]): str(item["name"]) for item in document["repositories"]}
        exclude = tuple(str(name) for name in document.get("exclude", ()))
    except (OSError, yaml.YAMLError, KeyError, TypeError, AttributeError) as error:
        raise _damaged(project, f"{MANIFEST} cannot be read: {error}") from error
    if next(iter(layout), None) != "" or len(set(layout.values())) != len(document["repositories"]):
        raise _damaged(project, f"{MANIFEST} must list '.' first and every repository once")
    return layout, exclude


def _clean(path: Any) -> str:
    text = str(path).strip("/")
    return "" if text == "." else text


def _holder(path: str, layout: Mapping[str, str]) -> str:
    """Return the innermost repository that holds the one at ``path``."""
    return max((other for other in layout if other != path and _is_below(path, other)), key=len, default="")


def _is_below(path: str, folder: str) -> bool:
    return not folder or path.startswith(f"{folder}/")


def _files(
    project: Path, path: str, layout: Mapping[str, str], exclude: Sequence[str]
) -> Iterator[FileEntry]:
    top = project / path
    others = {project / other for other in layout if other != path}
    waiting = [top]
    while waiting:
        folder = waiting.pop()
        if not folder.is_dir():
            raise _damaged(project, f"the folder {folder} is missing")
        for file in sorted(folder.iterdir()):
            if any(fnmatch.fnmatchcase(file.name, pattern) for pattern in (*_NEVER, *exclude)):
                continue
            if file.is_symlink() or not (file.is_dir() or file.is_file()):
                raise _damaged(project, f"{file} is neither a file nor a folder")
            if any(character in '"\\' or not character.isprintable() for character in file.name):
                raise _damaged(project, f"{file} has a name that cannot be embedded")
            if file.is_file():
                yield _file_entry(file, file.relative_to(top).as_posix())
            elif file not in others:
                waiting.append(file)


def _file_entry(file: Path, path: str) -> FileEntry:
    """Take the executable bit from the content: wheels and file systems do not all keep it."""
    data = file.read_bytes()
    return FileEntry(path, "100755" if data.startswith(b"#!") else "100644", data)


def _modules(
    project: Path, path: str, entries: Sequence[FileEntry], below: Mapping[str, str]
) -> list[FileEntry]:
    """Return the ``.gitmodules`` that the files lack; one that is there must say the same."""
    sections = []
    for inner, name in sorted(below.items()):
        place = inner[len(path) + 1 :] if path else inner
        sections.append(f'[submodule "{place}"]\n\tpath = {place}\n\turl = ../{name}.git\n')
    present = next(
        (entry.data.decode("utf-8", "replace") for entry in entries if entry.path == _MODULES), None
    )
    if present is None:
        return [FileEntry(_MODULES, "100644", "".join(sections).encode())] if sections else []
    if any(f"url = ../{name}.git" not in present for name in below.values()):
        raise _damaged(project, f"{_MODULES} does not list the repositories of {MANIFEST}")
    return []


def _object_id(kind: str, data: bytes) -> str:
    header = f"{kind} {len(data)}\0".encode()
    return hashlib.sha1(header + data, usedforsecurity=False).hexdigest()


def _tree_id(entries: Sequence[FileEntry]) -> str:
    items: dict[bytes, tuple[str, str]] = {}
    folders: dict[str, list[FileEntry]] = {}
    for entry in entries:
        head, slash, rest = entry.path.partition("/")
        if slash:
            folders.setdefault(head, []).append(FileEntry(rest, entry.mode, entry.data))
        else:
            oid = entry.data.decode() if entry.mode == GITLINK else _object_id("blob", entry.data)
            items[head.encode()] = (entry.mode, oid)
    for name, inside in folders.items():
        items[name.encode()] = ("40000", _tree_id(inside))
    # git sorts a folder as if its name ended with a slash.
    ordered = sorted(items.items(), key=lambda item: item[0] + (b"/" if item[1][0] == "40000" else b""))
    data = b"".join(f"{mode} ".encode() + name + b"\0" + bytes.fromhex(oid) for name, (mode, oid) in ordered)
    return _object_id("tree", data)


def _commit_id(tree: str, name: str) -> str:
    who = f"{IDENTITY} {DATE} +0000"
    text = f"tree {tree}\nauthor {who}\ncommitter {who}\n\n{message_of(name)}"
    return _object_id("commit", text.encode())


def _damaged(project: Path, why: str) -> SourceIntegrityError:
    return SourceIntegrityError(
        "the embedded sources are incomplete",
        why=why,
        fix="reinstall xpubuild",
        evidence={"project": str(project)},
    )
