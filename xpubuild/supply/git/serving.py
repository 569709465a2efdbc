"""Prepares local copies of the repositories that a build clones itself, at the pins of its tree.

PyTorch's CMake clones torch-xpu-ops, oneDNN and sycl-tla while it configures, by the URLs of their projects.
Here each of them becomes a bare repository in the workspace, filled from the mirrors and hashed on arrival,
and a git configuration leads those URLs to them (``GIT_CONFIG_GLOBAL``, which reaches every git below the
build). So a build clones what was pinned and proved, with or without a network.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from xpubuild.documents import plain
from xpubuild.engine.files import explained, write_atomic
from xpubuild.errors import FetchError, SourceIntegrityError
from xpubuild.frozen import frozen
from xpubuild.supply.git.bare import RepositoryStore, named_commit, remember
from xpubuild.supply.git.configure_time import ConfigureItem, ConfigurePin, configure_time_pins
from xpubuild.supply.git.discover import Node, discover
from xpubuild.supply.git.failures import require
from xpubuild.supply.git.git import Git, Report, object_format
from xpubuild.supply.git.gitconfig import setting
from xpubuild.supply.git.hardening import without_filters
from xpubuild.supply.git.pin import Pin
from xpubuild.supply.git.urls import mirror_name, normalised
from xpubuild.supply.git.worktree import require_git_dir

CONFIG = "gitconfig"
LIST = "served.json"
#: With the commit after it. Not as a part of the path by itself: CMake asks "git show-ref COMMIT" whether its
#: GIT_TAG is a branch (Modules/ExternalProject/gitupdate.cmake.in), and that finds every ref that ends so.
_HEAD = "refs/heads/xpubuild-"


@frozen
class Served:
    """A repository that is served: the build's git gets ``commit`` for ``asked_for`` of ``url``.

    ``path`` is the place of a submodule below its top, "" for a repository that the build names itself.
    """

    url: str
    commit: str
    tree: str
    asked_for: str
    path: str
    folder: str


def serve_tree(
    store: RepositoryStore,
    tree: Path,
    commit: str,
    items: Iterable[ConfigureItem],
    into: Path,
    *,
    environ: Mapping[str, str],
    jobs: int,
    report: Report,
) -> list[Served]:
    """Make ``into`` serve what the checkout ``tree`` of ``commit`` asks for; see ``serve``."""
    pins = configure_time_pins(store.git, require_git_dir(tree), commit, items)
    return serve(store, pins, into, environ=environ, jobs=jobs, report=report)


def serve(
    store: RepositoryStore,
    pins: Iterable[ConfigurePin],
    into: Path,
    *,
    environ: Mapping[str, str],
    jobs: int,
    report: Report,
) -> list[Served]:
    """Make ``into`` serve ``pins`` and their submodules; return what is served.

    A pin that the tree does not say plainly is left to the build and the network. ``environ`` tells where the
    user's own git configuration is, which stays in force.

    Raises:
        FetchError: something cannot be had, or the store is offline and a pin is not known.
        SourceIntegrityError, RecipeError, NoSpaceError, ToolchainError, InterruptedByUserError.
    """
    served: list[Served] = []
    for pin in pins:
        if pin.asked_for is None:
            _leave_to_the_build(store, pin, report)
            continue
        commit = pin.commit or named_commit(store, pin.url, pin.ref or "")
        tree = discover(store, Pin(url=pin.url, commit=commit, ref=pin.ref), jobs=jobs, report=report)
        if pin.ref is not None:
            remember(store, pin.url, pin.ref, commit)
        for node in tree.nodes:
            asked_for = (pin.asked_for or commit) if node.parent is None else node.commit
            served.append(_serve_one(store, node, asked_for, into, report))
    # Last, and the list after it: what is in the list is there whole.
    text = _config(served, into, environ, store.git.filters())
    write_atomic(into / CONFIG, text.encode("utf-8", "surrogateescape"))
    write_atomic(into / LIST, json.dumps(plain(served), indent=1).encode() + b"\n")
    return served


def _leave_to_the_build(store: RepositoryStore, pin: ConfigurePin, report: Report) -> None:
    if store.offline:
        raise FetchError(
            f"{pin.url} is not in the mirror: it is unknown which commit the build will request",
            why=pin.note,
            fix=(
                "write a recipe that extends this one and sets the commit or tag of this repository at "
                "source.configure_time, then fetch again"
            ),
            evidence={"reason": "offline", "url": pin.url},
        )
    report(f"{pin.note}; the build clones it over the network")


def _serve_one(store: RepositoryStore, node: Node, asked_for: str, into: Path, report: Report) -> Served:
    git_dir = into / mirror_name(node.url, len(node.commit))
    git = store.git
    with explained(git_dir, "making a repository for the build"):
        into.mkdir(parents=True, exist_ok=True)
        if not (git_dir / "HEAD").exists():
            kind = f"--object-format={object_format(node.commit)}"
            made = git.query(["init", "--quiet", "--bare", "--template=", kind, str(git_dir)])
            require(made, f"making the repository {git_dir}")
    store.mirror(node.url, node.commit).deliver(node.commit, git_dir, ref=node.ref, report=report)
    head = f"{_HEAD}{node.commit}"
    changes = [["update-ref", head, node.commit], ["symbolic-ref", "HEAD", head]]
    if asked_for != node.commit:
        name = asked_for if asked_for.startswith("refs/") else f"refs/tags/{asked_for}"
        changes.append(["update-ref", name, node.commit])
    for change in changes:
        require(git.query(change, git_dir=git_dir), f"preparing {node.url}")
    tree = git.query(["rev-parse", f"{node.commit}^{{tree}}"], git_dir=git_dir).text
    return Served(node.url, node.commit, tree, asked_for, node.path, git_dir.name)


def _config(served: Sequence[Served], into: Path, environ: Mapping[str, str], filters: Sequence[str]) -> str:
    """Return the configuration by which git finds the repositories; the user's own is read first."""
    lines = [setting("include.path", str(path)) for path in _users(environ)]
    lines += [setting(key, value) for key, value in without_filters(filters)]
    # Of the user's own making both, but a container may show another owner.
    lines += [setting("safe.directory", "*"), setting("protocol.file.allow", "always")]
    known: set[str] = set()
    for item in served:
        plain = normalised(item.url)
        for url in (item.url, plain, f"{plain}.git"):
            if url not in known:
                known.add(url)
                lines.append(setting(f"url.{into / item.folder}.insteadOf", url))
    return "".join(lines)


def _users(environ: Mapping[str, str]) -> list[Path]:
    """Return the files that git would read as the user's configuration, in its order."""
    if "GIT_CONFIG_GLOBAL" in environ:
        return [Path(environ["GIT_CONFIG_GLOBAL"])] if environ["GIT_CONFIG_GLOBAL"] else []
    home = environ.get("HOME")
    config = environ.get("XDG_CONFIG_HOME") or (f"{home}/.config" if home else None)
    found = [Path(config) / "git" / "config"] if config else []
    return [*found, Path(home) / ".gitconfig"] if home else found


@frozen
class ServedProof:
    """The proof that what the build will clone is there, at the pins of its tree and whole."""

    into: str

    def describe(self) -> str:
        """Return what is checked."""
        return "local copies of the repositories that the build clones are at the pins of its tree"

    def key(self) -> dict[str, Any]:
        """Return what the check depends on."""
        return {"proof": "served", "into": self.into}

    def check(self) -> dict[str, Any]:
        """Return the list of what is served.

        Raises:
            SourceIntegrityError: a repository is missing, at another commit, or not whole.
        """
        into, git = Path(self.into), Git.open()
        try:
            served = [Served(**item) for item in json.loads((into / LIST).read_text("utf-8"))]
        except (OSError, ValueError, TypeError) as error:
            raise _broken(into / LIST, str(error)) from error
        for item in served:
            _require_whole(git, into / item.folder, item)
        return {"served": plain(served)}


def _require_whole(git: Git, git_dir: Path, item: Served) -> None:
    found = git.query(["rev-parse", "--quiet", "--verify", f"{item.asked_for}^{{commit}}"], git_dir=git_dir)
    if found.text != item.commit:
        raise _broken(git_dir, f"{item.asked_for} of {item.url} is not at {item.commit}")
    # Of whatever name: a clone has what branches reach.
    heads = git.query(["for-each-ref", f"--points-at={item.commit}", "refs/heads"], git_dir=git_dir)
    if not heads.text:
        raise _broken(git_dir, f"no branch of {item.url} is at {item.commit}")
    whole = ["rev-list", "--objects", "--quiet", "--no-walk", item.commit]
    if not git.query(whole, git_dir=git_dir).ok:
        raise _broken(git_dir, f"objects of {item.url} are missing")


def _broken(place: Path, why: str) -> SourceIntegrityError:
    return SourceIntegrityError(
        f"{place} cannot be used for the build",
        why=why,
        fix="run the same command again; the local copies are created again",
        evidence={"folder": str(place)},
    )
