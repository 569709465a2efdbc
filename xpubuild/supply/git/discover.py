"""Finds all repositories of a pin (itself and its submodules) and fetches them into their mirrors."""

from __future__ import annotations

from xpubuild.errors import SourceIntegrityError
from xpubuild.frozen import frozen
from xpubuild.supply.git.bare import BareRepository, RepositoryStore
from xpubuild.supply.git.git import Report
from xpubuild.supply.git.gitmodules import read_links
from xpubuild.supply.git.parallel import visit_all
from xpubuild.supply.git.pin import Pin

# PyTorch 2.6 has 3 levels and some 80 repositories. A chain made to exhaust a machine ends here.
_DEEPEST = 12
_MOST = 1000


@frozen
class Node:
    """One repository. ``path`` is its place in the tree, "" for the top; ``name`` is from ``.gitmodules``."""

    path: str
    name: str
    url: str
    commit: str
    parent: str | None = None
    depth: int = 0
    ref: str | None = None


@frozen
class SourceTree:
    """Every repository of a pin, parents first; ``fetched`` are the URLs that needed the network."""

    nodes: tuple[Node, ...]
    fetched: tuple[str, ...]

    def children(self, path: str) -> list[Node]:
        """Return the direct submodules of the repository at ``path``."""
        return [node for node in self.nodes if node.parent == path]

    def mirror(self, store: RepositoryStore, node: Node) -> BareRepository:
        """Return the mirror that holds a node's commit."""
        return store.mirror(node.url, node.commit)


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
        if mirror.ensure(node.commit, ref=node.ref, report=_for(node, report)):
            fetched.append(node.url)
        if node.parent is None:
            _require_tree(mirror, pin)
        below = _children(mirror, node) if pin.submodules else []
        return [child for child in below if child.path not in pin.skip]

    def progress(done: int, known: int, node: Node) -> None:
        if known > _MOST:
            raise _too_many(pin, f"it has more than {_MOST} submodules")
        if known > 1:
            report(f"Fetching repositories: {100 * done // known}% ({done}/{known}), {node.path or pin.url}")

    top = Node(path="", name="", url=pin.url, commit=pin.commit, ref=pin.ref)
    nodes = visit_all(top, visit, jobs=jobs, cancel=store.cancel, on_progress=progress)
    ordered = sorted(nodes, key=lambda node: (node.depth, node.path))
    return SourceTree(tuple(ordered), tuple(fetched))


def _children(mirror: BareRepository, node: Node) -> list[Node]:
    links = read_links(mirror.store.git, mirror.path, node.commit, node.url)
    if links and node.depth >= _DEEPEST:
        raise _too_many(node, f"its submodules are nested more than {_DEEPEST} deep")
    return [
        Node(
            path=f"{node.path}/{link.path}" if node.path else link.path,
            name=link.name,
            url=link.url,
            commit=link.commit,
            parent=node.path,
            depth=node.depth + 1,
        )
        for link in links
    ]


def _require_tree(mirror: BareRepository, pin: Pin) -> None:
    if pin.tree is None:
        return
    answer = mirror.store.git.query(["rev-parse", f"{pin.commit}^{{tree}}"], git_dir=mirror.path)
    if answer.text != pin.tree:
        raise SourceIntegrityError(
            f"commit {pin.commit} of {pin.url} has another tree than in the lock",
            why=f"its tree is {answer.text}, the lock has {pin.tree}",
            fix="find out which of the two was changed; create a new lock with xpubuild lock",
            evidence={"commit": pin.commit, "tree": answer.text, "expected": pin.tree},
        )


def _for(node: Node, report: Report) -> Report:
    """Pass git's own progress on for the top only: percentages of several fetches at once tell nothing."""
    if node.parent is None:
        return report

    def quietly(line: str) -> None:
        if "%" not in line and not line.startswith(("remote: ", "From ", " * ")):
            report(f"{node.path}: {line}")

    return quietly


def _too_many(what: Pin | Node, why: str) -> SourceIntegrityError:
    return SourceIntegrityError(
        f"the submodules of {what.url} at {what.commit} are not accepted",
        why=why,
        fix="no known PyTorch repository looks like this; check the URL and the commit",
    )
