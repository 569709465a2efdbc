"""Local copies of the repositories that a build clones itself, at the pins of its tree; the commit of a tag.

PyTorch's CMake clones torch-xpu-ops, oneDNN and sycl-tla while it configures, by the URLs of their projects.
Which commit is wanted is read from the checked-out tree. Each becomes a bare repository in the workspace,
filled from the mirrors and hashed on arrival, and a git configuration leads those URLs to them
(``GIT_CONFIG_GLOBAL``, which reaches every git below the build). So a build clones what was pinned and
proved, with or without a network.
"""

from __future__ import annotations

import json
import re
import shlex
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

from xpubuild.documents import plain
from xpubuild.engine.files import write_json
from xpubuild.engine.model import SimpleProof
from xpubuild.engine.process import ProcessResult
from xpubuild.engine.redact import recordable
from xpubuild.errors import FetchError, RecipeError, SourceIntegrityError
from xpubuild.frozen import frozen
from xpubuild.supply.git.bare import RepositoryStore, make_bare
from xpubuild.supply.git.failures import Failure, error_for, require
from xpubuild.supply.git.git import Git, Report, without_filters
from xpubuild.supply.git.pin import Pin, is_id, is_ref, mirror_name, normalised, problem_with
from xpubuild.supply.git.submodules import Node, discover
from xpubuild.supply.git.worktree import require_git_dir

CONFIG, LIST = "gitconfig", "served.json"
#: With the commit after it. Not as a part of the path by itself: CMake asks "git show-ref COMMIT" whether its
#: GIT_TAG is a branch (Modules/ExternalProject/gitupdate.cmake.in), and that finds every ref that ends so.
_HEAD = "refs/heads/xpubuild-"
_PAIR = re.compile(r"GIT_REPOSITORY\s+\"?(?P<url>[^\s\")]+)\"?|GIT_TAG\s+\"?(?P<tag>[\w./+-]+)\"?(?=[\s)])")


class ConfigureItem(Protocol):
    """What a recipe says of such a repository (``recipe.model.ConfigureTime``)."""

    @property
    def url(self) -> str:
        """Where the build clones it from."""

    @property
    def replaces(self) -> str | None:
        """The URL that the build knows it by, where that is another."""

    @property
    def path(self) -> str | None:
        """Where the build puts it, below the checkout."""

    @property
    def pin_file(self) -> str | None:
        """The file of the tree that names the commit or tag."""

    @property
    def commit(self) -> str | None:
        """The commit, where the recipe knows it."""

    @property
    def ref(self) -> str | None:
        """The tag, where the recipe knows it."""


@frozen
class ConfigurePin:
    """A repository that the build will clone, and the commit or tag at which it will check it out.

    Neither is known where the tree does not say it plainly; ``note`` says so then.
    """

    url: str
    commit: str | None
    ref: str | None
    path: str | None = None
    note: str = ""
    replaces: str | None = None

    @property
    def asked_for(self) -> str | None:
        """The commit or tag by which the build checks it out; of a tag, somebody has to ask the commit."""
        return self.ref or self.commit


def configure_time_pins(
    git: Git, git_dir: Path, commit: str, items: Iterable[ConfigureItem]
) -> list[ConfigurePin]:
    """Return what the tree of ``commit`` in the repository ``git_dir`` asks for, one pin for each item.

    The pin file of the tree counts before the recipe: it is what the build will read. That the two agree is
    proved where the tree is checked out (``recipe.tree``).
    """
    found = []
    for item in items:
        pinned, ref = item.commit, item.ref
        stated: str | None = None
        if item.pin_file is not None:
            answer = git.query(["cat-file", "blob", f"{commit}:{item.pin_file}"], git_dir=git_dir)
            text = answer.stdout.decode("utf-8", "replace")
            stated = asked_by(text, item.replaces or item.url) if answer.ok else None
        if stated is not None and is_id(stated):
            pinned, ref = stated, None
        elif stated is not None and is_ref(stated):
            ref = stated
        note = f"{item.pin_file or 'the tree'} does not state which commit of {item.url} the build clones"
        note = "" if pinned or ref else note
        found.append(ConfigurePin(item.url, pinned, ref, item.path, note, item.replaces))
    return found


def asked_by(text: str, url: str) -> str | None:
    """Return the commit or tag that a pin file asks for: its only word, or the GIT_TAG of ``url`` in CMake.

    A CMake file that names one tag alone, and the repository by a variable, means that one. None where the
    text does not say it plainly.
    """
    words = text.split()
    if len(words) == 1:
        return words[0]
    tags: set[str] = set()
    every: set[str] = set()
    ours: bool | None = None
    for match in _PAIR.finditer(text):
        if match["url"] is not None:
            ours = None if "${" in match["url"] else normalised(match["url"]) == normalised(url)
            continue
        every.add(match["tag"])
        if ours:
            tags.add(match["tag"])
    found = tags or (every if ours is None else set())
    return found.pop() if len(found) == 1 else None


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
    replaces: str = ""


def serve_tree(
    store: RepositoryStore, tree: Path, commit: str, items: Iterable[ConfigureItem], into: Path, *,
    environ: Mapping[str, str], jobs: int, report: Report,
) -> list[Served]:  # fmt: skip
    """Make ``into`` serve what the checkout ``tree`` of ``commit`` asks for; return what is served.

    A pin that the tree does not state is left to the build and the network. ``environ`` shows where the
    user's own git configuration is, which stays in force.

    Raises:
        FetchError: something cannot be had, or the store is offline and a pin is not known.
        SourceIntegrityError, RecipeError, NoSpaceError, ToolchainError, InterruptedByUserError.
    """
    served: list[Served] = []
    for pin in configure_time_pins(store.git, require_git_dir(tree), commit, items):
        if pin.asked_for is None:
            if store.offline:
                raise FetchError(
                    f"{pin.url} is not in the mirror: it is unknown which commit the build will request",
                    why=pin.note,
                    fix="write a recipe that extends this one and sets the commit or tag of the repository at"
                    " source.configure_time, then fetch again",
                    evidence={"reason": "offline", "url": pin.url},
                )
            report(f"{pin.note}; the build clones it over the network")
            continue
        pinned = pin.commit or named_commit(store, pin.url, pin.ref or "")
        found = discover(store, Pin(url=pin.url, commit=pinned, ref=pin.ref), jobs=jobs, report=report)
        if pin.ref is not None:
            remember(store, pin.url, pin.ref, pinned)
        for node in found.nodes:
            asked_for = (pin.asked_for or pinned) if node.parent is None else node.commit
            one = _serve_one(store, node, asked_for, into, report)
            served.append(replace(one, replaces=pin.replaces or "") if node.parent is None else one)
    # Last, and the list after it: what is in the list is there whole.
    into.mkdir(parents=True, exist_ok=True)
    draft = into / f"{CONFIG}.new"
    draft.unlink(missing_ok=True)
    for key, value in _config(served, into, environ, store.git.filters()):
        words = ["config", "--file", str(draft.absolute()), "--add", key, value]
        require(store.git.query(words), "writing the configuration of git for the build")
    draft.replace(into / CONFIG)
    write_json(into / LIST, plain(served))
    return served


def _serve_one(store: RepositoryStore, node: Node, asked_for: str, into: Path, report: Report) -> Served:
    git, git_dir = store.git, into / mirror_name(node.url, len(node.commit))
    if not (git_dir / "HEAD").exists():
        make_bare(git, git_dir, node.commit)
    store.mirror(node.url, node.commit).deliver(node.commit, git_dir, report=report)
    head = f"{_HEAD}{node.commit}"
    changes = [["update-ref", head, node.commit], ["symbolic-ref", "HEAD", head]]
    if asked_for != node.commit:
        name = asked_for if asked_for.startswith("refs/") else f"refs/tags/{asked_for}"
        changes.append(["update-ref", name, node.commit])
    for change in changes:
        require(git.query(change, git_dir=git_dir), f"preparing {node.url}")
    tree = git.parse(git_dir, f"{node.commit}^{{tree}}")
    return Served(node.url, node.commit, tree, asked_for, node.path, git_dir.name)


def _config(
    served: Sequence[Served], into: Path, environ: Mapping[str, str], filters: Sequence[str]
) -> list[tuple[str, str]]:
    """Return the configuration by which git finds the repositories; the user's own is read first."""
    home, named = environ.get("HOME"), environ.get("GIT_CONFIG_GLOBAL")
    config = environ.get("XDG_CONFIG_HOME") or (f"{home}/.config" if home else "")
    users = [f"{config}/git/config"] if config else []
    users += [f"{home}/.gitconfig"] if home else []
    pairs = [("include.path", path) for path in (users if named is None else filter(None, [named]))]
    # Of the user's own making both, but a container may show another owner.
    pairs += [*without_filters(filters), ("safe.directory", "*"), ("protocol.file.allow", "always")]
    # No hook of the user's runs in what the build clones.
    pairs += [("init.templateDir", ""), ("core.hooksPath", "/dev/null")]
    folders: dict[str, str] = {}
    for item in served:
        for name in filter(None, (item.replaces, item.url)):
            bare = normalised(name)
            for url in (name, bare, f"{bare}.git"):
                folders.setdefault(url, item.folder)
    return pairs + [(f"url.{into / folder}.insteadOf", url) for url, folder in folders.items()]


@frozen
class ServedProof(SimpleProof):
    """The proof that what the build will clone is there, at the pins of its tree and whole."""

    words = "local copies of the repositories that the build clones are at the pins of its tree"

    into: str

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
            git_dir = into / item.folder
            if git.parse(git_dir, f"{item.asked_for}^{{commit}}") != item.commit:
                raise _broken(git_dir, f"{item.asked_for} of {item.url} is not at {item.commit}")
            # Of whatever name: a clone has what branches reach.
            branches = ["for-each-ref", f"--points-at={item.commit}", "refs/heads"]
            if not git.query(branches, git_dir=git_dir).text:
                raise _broken(git_dir, f"no branch of {item.url} is at {item.commit}")
            if not git.is_whole(git_dir, item.commit):
                raise _broken(git_dir, f"objects of {item.url} are missing")
        return {"served": plain(served)}


def _broken(place: Path, why: str) -> SourceIntegrityError:
    what, evidence = f"{place} cannot be used for the build", {"folder": str(place)}
    fix = "run the same command again; the local copies are created again"
    return SourceIntegrityError(what, why=why, fix=fix, evidence=evidence)


_LEAST_S = 0.05
_LISTED = re.compile(r"([0-9a-f]{40}|[0-9a-f]{64})\t(\S+)")
NAMED = "refs/xpubuild/named"
#: A repository's ids are taken to be SHA-1 as long as none of them is known.
_SOME_ID = "0" * 40


def named_commit(store: RepositoryStore, url: str, ref: str) -> str:
    """Return the commit that ``ref`` of ``url`` is at: as a stock remembers it, else as the server says now.

    Offline, what the user's own mirror remembers counts too. A tag counts before a branch of the same name,
    and of an annotated tag the commit it is about.

    Raises:
        FetchError: offline, and no mirror remembers it; or the server cannot be asked, or has no such ref.
        RecipeError: ``url`` or ``ref`` is not one that git may be given.
        InterruptedByUserError: the store's ``cancel`` was set.
    """
    own = [store.mirror(url, _SOME_ID).path] if store.offline else []
    for place in (*store.stocked(url, _SOME_ID), *own):
        if known := store.git.parse(place, f"{NAMED}/{ref}^{{commit}}"):
            return known
    if store.offline:
        raise error_for(Failure("offline"), url, ref)
    names: tuple[str, ...] = (f"refs/tags/{ref}^{{}}", f"refs/tags/{ref}", f"refs/heads/{ref}")
    if ref.startswith("refs/"):
        names = (f"{ref}^{{}}", ref)
    wrong = None if is_ref(ref) else "it is not the name of a tag or branch"
    found = _listed(store, url, names, f"'{ref}'", wrong)
    commit = next((found[name] for name in names if name in found), None)
    if commit is None:
        raise FetchError(
            f"{url} has no tag or branch '{ref}'",
            why="the server does not list it",
            fix="correct the ref of the source in the recipe",
            commands=(f"git ls-remote --tags --heads -- {shlex.quote(url)}",),
            evidence={"reason": "commit", "url": url, "ref": ref},
        )
    return commit


def remember(store: RepositoryStore, url: str, ref: str, commit: str) -> None:
    """Note in the mirror of ``url``, which holds ``commit``, that ``ref`` is at it.

    Raises:
        NoSpaceError, ToolchainError: it cannot be written.
    """
    git_dir = store.mirror(url, commit).path
    answer = store.git.query(["update-ref", f"{NAMED}/{ref}", commit], git_dir=git_dir)
    require(answer, f"noting {ref} of {url}")


def remote_tags(store: RepositoryStore, url: str) -> dict[str, str]:
    """Return the version tags (v and a digit) of the repository at ``url``, each with the commit it is about.

    Raises:
        RecipeError: git may not be given the URL.
        FetchError: the server cannot be asked.
        InterruptedByUserError: the store's ``cancel`` was set.
    """
    found = _listed(store, url, ("refs/tags/v[0-9]*",), "its tags")
    # Of an annotated tag, the commit follows under its name with ^{}.
    plain = {name: commit for name, commit in found.items() if not name.endswith("^{}")}
    return {name.removeprefix("refs/tags/"): found.get(f"{name}^{{}}", plain[name]) for name in plain}


def _listed(
    store: RepositoryStore, url: str, names: tuple[str, ...], what: str, wrong: str | None = None
) -> dict[str, str]:
    """List the names at the server; a server that is only busy is asked again."""
    reason = problem_with(url) or wrong
    if reason is not None:
        fix = "correct url and ref of the source in the recipe"
        raise RecipeError(f"{what} of {recordable(url)} cannot be looked up", why=reason, fix=fix)
    end, lines = time.monotonic() + store.retry.answer_s, list[str]()

    def ask() -> ProcessResult:
        lines.clear()
        words, left = ["ls-remote", "--quiet", "--", url, *names], max(end - time.monotonic(), _LEAST_S)
        return store.git.run(words, report=lines.append, cancel=store.cancel, deadline_s=left)

    failure = store.persist(ask, url, lambda _: None, end)
    if failure is not None:
        raise error_for(replace(failure, lines=failure.lines[-3:]), url, what.strip("'"))
    return {match[2]: match[1] for line in lines if (match := _LISTED.fullmatch(line))}
