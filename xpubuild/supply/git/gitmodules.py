"""Reads the submodules of a commit without a work tree, and validates all of it.

``.gitmodules`` is written by whoever wrote the repository. git has needed several security fixes for names
with ``..``, URLs that are options or commands, and paths that lead elsewhere (CVE-2018-11235, CVE-2018-17456,
CVE-2020-5260 and later), so it is checked here before any of it reaches git or the file system.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from xpubuild.engine.redact import recordable
from xpubuild.errors import SourceIntegrityError
from xpubuild.frozen import frozen
from xpubuild.supply.git.git import Git
from xpubuild.supply.git.urls import is_local, is_relative, problem_with, resolve_relative, without_login

GITLINK = "160000"
_SYMLINK = "120000"
_FILE = ".gitmodules"


@frozen
class TreeEntry:
    """One line of a recursive tree listing; ``path`` is relative to the repository."""

    mode: str
    oid: str
    path: str


@frozen
class Link:
    """A submodule: the commit its parent names, and where that can be found."""

    path: str
    name: str
    url: str
    commit: str


def list_tree(git: Git, git_dir: Path, commit: str) -> tuple[TreeEntry, ...]:
    """Return every file, link and submodule of a commit's tree.

    Raises:
        SourceIntegrityError: the tree cannot be read.
    """
    answer = git.query(["ls-tree", "-r", "-z", "--full-tree", commit], git_dir=git_dir)
    if not answer.ok:
        raise SourceIntegrityError(
            f"the tree of commit {commit} cannot be read",
            why=answer.stderr.strip(),
            fix="remove this repository and run the same command again; it will be fetched again",
            evidence={"repository": str(git_dir)},
        )
    return tuple(_entries(answer.stdout))


def _entries(listing: bytes) -> Iterator[TreeEntry]:
    for line in listing.split(b"\0"):
        if line:
            head, _, path = line.partition(b"\t")
            mode, _, oid = head.decode("ascii").split(" ")
            yield TreeEntry(mode, oid, os.fsdecode(path))


def read_links(git: Git, git_dir: Path, commit: str, url: str) -> tuple[Link, ...]:
    """Return the submodules of ``commit``, their URLs resolved against ``url``, the repository's own.

    Raises:
        SourceIntegrityError: ``.gitmodules`` is missing, unreadable or not to be trusted; the message names
            the entry.
    """
    entries = list_tree(git, git_dir, commit)
    links = {entry.path: entry.oid for entry in entries if entry.mode == GITLINK}
    if not links:
        return ()
    where = f"{url} at {commit}"
    modes = {entry.mode for entry in entries if entry.path == _FILE}
    if modes & {_SYMLINK}:
        raise _refused(where, _FILE, "it is a symbolic link")
    sections = _sections(git, git_dir, commit, where) if modes else {}
    return links_of(links, sections, url, where)


def links_of(
    links: Mapping[str, str], sections: Mapping[str, Mapping[str, str]], url: str, where: str
) -> tuple[Link, ...]:
    """Join gitlinks (path -> commit) with the sections of ``.gitmodules`` (name -> keys), checking both.

    Raises:
        SourceIntegrityError: see ``read_links``.
    """
    named = {keys["path"].rstrip("/"): name for name, keys in sections.items() if "path" in keys}
    found = []
    for path, commit in sorted(links.items()):
        name = named.get(path)
        if name is None:
            raise _refused(where, path, "the tree has a submodule there that is not in .gitmodules")
        reason = _problem_with_path(path) or _problem_with_name(name)
        if reason is not None:
            raise _refused(where, name, reason)
        found.append(Link(path, name, _resolved(url, sections[name].get("url", ""), where, name), commit))
    _require_separate([link.name for link in found], where)
    return tuple(found)


def _sections(git: Git, git_dir: Path, commit: str, where: str) -> dict[str, dict[str, str]]:
    listing = git.query(["config", "--blob", f"{commit}:{_FILE}", "-z", "--list"], git_dir=git_dir)
    if not listing.ok:
        raise _refused(where, _FILE, f"git cannot read it: {listing.stderr.strip()}")
    sections: dict[str, dict[str, str]] = {}
    for item in os.fsdecode(listing.stdout).split("\0"):
        key, _, value = item.partition("\n")
        section, _, rest = key.partition(".")
        name, dot, variable = rest.rpartition(".")
        if section == "submodule" and dot:
            sections.setdefault(name, {})[variable] = value
    return sections


def _problem_with_path(path: str) -> str | None:
    parts = path.split("/")
    if path.startswith(("/", "-")) or any(part in ("", ".", "..") for part in parts):
        return f"its path '{path}' is outside the tree or would be read as an option"
    if any(part.lower() == ".git" for part in parts):
        return f"its path '{path}' is in a .git folder"
    return None


def _problem_with_name(name: str) -> str | None:
    parts = name.replace("\\", "/").split("/")
    if name.startswith("-") or any(part in ("", ".", "..") for part in parts) or not name.isprintable():
        return "its name is outside .git/modules or would be read as an option"
    return None


def _resolved(base: str, url: str, where: str, name: str) -> str:
    if not url:
        raise _refused(where, name, "it has no URL")
    try:
        resolved = without_login(resolve_relative(base, url))
    except ValueError as error:
        raise _refused(where, name, f"its URL '{recordable(url)}': {error}") from error
    reason = problem_with(resolved)
    if reason is not None:
        raise _refused(where, name, f"its URL '{recordable(url)}': {reason}")
    scheme, separator, _ = base.partition("://")
    if is_relative(url) and separator and not resolved.startswith(scheme + separator):
        raise _refused(where, name, f"its URL '{url}' goes above the host of {base}")
    if is_local(resolved) and not is_local(base):
        reason = "is a folder of this machine, but the repository is from another one"
        raise _refused(where, name, f"its URL '{url}' {reason}")
    return resolved


def _require_separate(names: list[str], where: str) -> None:
    """Refuse a name below another: git would put one repository inside the other's."""
    ordered = sorted(f"{name}/" for name in names)
    for one, other in itertools.pairwise(ordered):
        if other.startswith(one):
            raise _refused(where, other[:-1], f"its repository would be inside that of '{one[:-1]}'")


def _refused(where: str, entry: str, reason: str) -> SourceIntegrityError:
    return SourceIntegrityError(
        f"a submodule of {where} is not accepted",
        why=f"'{entry}': {reason}",
        fix="pin a commit with a valid .gitmodules, and report this to the maintainers of that repository",
        evidence={"repository": where, "submodule": entry, "reason": reason},
    )
