"""All repositories of a pin, itself and its submodules: found without a work tree, validated, fetched.

``.gitmodules`` is written by whoever wrote the repository. git has needed several security fixes for names
with ``..``, URLs that are options or commands, and paths that lead elsewhere (CVE-2018-11235, CVE-2018-17456,
CVE-2020-5260 and later), so it is checked here before any of it reaches git or the file system.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import replace
from pathlib import Path

from xpubuild.engine.process import Cancel
from xpubuild.engine.redact import recordable
from xpubuild.errors import SourceIntegrityError
from xpubuild.frozen import frozen
from xpubuild.supply.git.bare import BareRepository, RepositoryStore
from xpubuild.supply.git.git import Git, Report
from xpubuild.supply.git.pin import Pin, is_local, is_relative, problem_with, resolve_relative, without_login

GITLINK = "160000"
SYMLINK = "120000"
_FILE = ".gitmodules"
# PyTorch 2.6 has 3 levels and some 80 repositories. A chain made to exhaust a machine ends here.
_DEEPEST = 12
_MOST = 1000


@frozen
class TreeEntry:
    """One line of a recursive tree listing; ``path`` is relative to the repository."""

    mode: str
    oid: str
    path: str


@frozen
class Node:
    """One repository. ``path`` is its place in the tree, "" for the top; ``name`` is from ``.gitmodules``.

    As ``read_links`` gives it, it is a submodule by itself: ``path`` is its place in its parent.
    """

    path: str
    name: str
    url: str
    commit: str
    parent: str | None = None
    depth: int = 0


@frozen
class SourceTree:
    """Every repository of a pin, parents first; ``fetched`` are the URLs that needed the network."""

    nodes: tuple[Node, ...]
    fetched: tuple[str, ...]


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
    found = []
    for head, _, path in (line.partition(b"\t") for line in answer.stdout.split(b"\0") if line):
        mode, _, oid = head.decode("ascii").split(" ")
        found.append(TreeEntry(mode, oid, os.fsdecode(path)))
    return tuple(found)


def read_links(git: Git, git_dir: Path, commit: str, url: str) -> tuple[Node, ...]:
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
    if SYMLINK in modes:
        raise _refused(where, _FILE, "it is a symbolic link")
    sections: dict[str, dict[str, str]] = {}
    if modes:
        listing = git.query(["config", "--blob", f"{commit}:{_FILE}", "-z", "--list"], git_dir=git_dir)
        if not listing.ok:
            raise _refused(where, _FILE, f"git cannot read it: {listing.stderr.strip()}")
        for key, _, value in (item.partition("\n") for item in os.fsdecode(listing.stdout).split("\0")):
            section, _, rest = key.partition(".")
            name, dot, variable = rest.rpartition(".")
            if section == "submodule" and dot:
                sections.setdefault(name, {})[variable] = value
    return links_of(links, sections, url, where)


def links_of(
    links: Mapping[str, str], sections: Mapping[str, Mapping[str, str]], url: str, where: str
) -> tuple[Node, ...]:
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
        parts, words = path.split("/"), name.replace("\\", "/").split("/")
        if path.startswith(("/", "-")) or {"", ".", ".."}.intersection(parts):
            raise _refused(
                where, name, f"its path '{path}' is outside the tree or would be read as an option"
            )
        if any(part.lower() == ".git" for part in parts):
            raise _refused(where, name, f"its path '{path}' is in a .git folder")
        if name.startswith("-") or {"", ".", ".."}.intersection(words) or not name.isprintable():
            raise _refused(where, name, "its name is outside .git/modules or would be read as an option")
        found.append(Node(path, name, _resolved(url, sections[name].get("url", ""), where, name), commit))
    # A name below another: git would put one repository inside the other's.
    for one, other in itertools.pairwise(sorted(f"{link.name}/" for link in found)):
        if other.startswith(one):
            raise _refused(where, other[:-1], f"its repository would be inside that of '{one[:-1]}'")
    return tuple(found)


def _resolved(base: str, url: str, where: str, name: str) -> str:
    shown = f"its URL '{recordable(url)}'"
    if not url:
        raise _refused(where, name, "it has no URL")
    try:
        resolved = without_login(resolve_relative(base, url))
    except ValueError as error:
        raise _refused(where, name, f"{shown}: {error}") from error
    reason = problem_with(resolved)
    if reason is not None:
        raise _refused(where, name, f"{shown}: {reason}")
    scheme, separator, _ = base.partition("://")
    if is_relative(url) and separator and not resolved.startswith(scheme + separator):
        raise _refused(where, name, f"{shown} goes above the host of {base}")
    if is_local(resolved) and not is_local(base):
        raise _refused(
            where, name, f"{shown} is a folder of this machine, but the repository is from another one"
        )
    return resolved


def _refused(where: str, entry: str, reason: str) -> SourceIntegrityError:
    return SourceIntegrityError(
        f"a submodule of {where} is not accepted",
        why=f"'{entry}': {reason}",
        fix="pin a commit with a valid .gitmodules, and report this to the maintainers of that repository",
        evidence={"repository": where, "submodule": entry, "reason": reason},
    )


def discover(store: RepositoryStore, pin: Pin, *, jobs: int, report: Report) -> SourceTree:
    """Fetch what the mirrors lack of ``pin`` and its recursive submodules.

    Raises:
        FetchError, NoSpaceError, RecipeError, ToolchainError, InterruptedByUserError: see
            ``BareRepository.ensure``.
        SourceIntegrityError: the tree is not ``pin.tree``, or a ``.gitmodules`` is not to be trusted.
    """
    fetched: list[str] = []

    def visit(node: Node) -> list[Node]:
        mirror = store.mirror(node.url, node.commit)
        if mirror.ensure(node.commit, report=_for(node, report)):
            fetched.append(node.url)
        if node.parent is None:
            require_tree(mirror, pin)
        below = _children(mirror, node) if pin.submodules else []
        return [child for child in below if child.path not in pin.skip]

    def progress(done: int, known: int, node: Node) -> None:
        if known > _MOST:
            raise _too_many(pin, f"it has more than {_MOST} submodules")
        if known > 1:
            report(f"Fetching repositories: {100 * done // known}% ({done}/{known}), {node.path or pin.url}")

    top = Node(path="", name="", url=pin.url, commit=pin.commit)
    nodes = visit_all(top, visit, jobs=jobs, cancel=store.cancel, on_progress=progress)
    return SourceTree(tuple(sorted(nodes, key=lambda node: (node.depth, node.path))), tuple(fetched))


def _children(mirror: BareRepository, node: Node) -> list[Node]:
    links = read_links(mirror.store.git, mirror.path, node.commit, node.url)
    if links and node.depth >= _DEEPEST:
        raise _too_many(node, f"its submodules are nested more than {_DEEPEST} deep")
    above = f"{node.path}/" if node.path else ""
    return [replace(it, path=above + it.path, parent=node.path, depth=node.depth + 1) for it in links]


def require_tree(mirror: BareRepository, pin: Pin) -> None:
    """Raise where the commit of a pin that a mirror holds has another tree than the pin."""
    tree = mirror.store.git.parse(mirror.path, f"{pin.commit}^{{tree}}")
    if pin.tree not in (None, tree):
        raise SourceIntegrityError(
            f"commit {pin.commit} of {pin.url} has another tree than in the lock",
            why=f"its tree is {tree}, the lock has {pin.tree}",
            fix="find out which of the two was changed; create a new lock with xpubuild lock",
            evidence={"commit": pin.commit, "tree": tree, "expected": pin.tree},
        )


def _for(node: Node, report: Report) -> Report:
    """Pass git's own progress on for the top only: percentages of several fetches at once mean nothing."""

    def quietly(line: str) -> None:
        if "%" not in line and not line.startswith(("remote: ", "From ", " * ")):
            report(f"{node.path}: {line}")

    return report if node.parent is None else quietly


def _too_many(what: Pin | Node, why: str) -> SourceIntegrityError:
    return SourceIntegrityError(
        f"the submodules of {what.url} at {what.commit} are not accepted",
        why=why,
        fix="no known PyTorch repository looks like this; check the URL and the commit",
    )


def visit_all(
    first: Node, visit: Callable[[Node], Iterable[Node]], *, jobs: int, cancel: Cancel,
    on_progress: Callable[[int, int, Node], None],
) -> list[Node]:  # fmt: skip
    """Call ``visit`` on ``first`` and on everything it returns; return all, in the order they ended.

    ``on_progress`` gets (done, known so far, the one that ended). The first exception sets ``cancel``, waits
    for what still runs, and is raised.
    """
    ended: list[Node] = []
    with ThreadPoolExecutor(max_workers=max(1, jobs)) as pool:
        running: dict[Future[list[Node]], Node] = {}

        def start(item: Node) -> None:
            running[pool.submit(lambda: list(visit(item)))] = item

        try:
            start(first)
            while running:
                for future in wait(running, return_when=FIRST_COMPLETED).done:
                    item = running.pop(future)
                    for child in future.result():
                        start(child)
                    ended.append(item)
                    on_progress(len(ended), len(ended) + len(running), item)
        except BaseException:
            cancel.set("another source failed")
            for future in running:
                future.cancel()
            raise
    return ended
