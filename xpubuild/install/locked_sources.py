"""The repositories of a lock: a pin with all its submodules and what the build clones at configure time."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from xpubuild.engine.environment import base_environment
from xpubuild.engine.temporary import scratch_folder
from xpubuild.errors import RecipeError, SourceIntegrityError
from xpubuild.install import lock_model as model
from xpubuild.install.lock_parts import clean_text, clean_url
from xpubuild.install.planner import Repository
from xpubuild.install.target import Target
from xpubuild.resources import ops_project_dir
from xpubuild.supply.git.bare import RepositoryStore, named_commit, remember
from xpubuild.supply.git.configure_time import ConfigurePin, configure_time_pins
from xpubuild.supply.git.discover import Node, discover
from xpubuild.supply.git.embedded import materialise
from xpubuild.supply.git.git import Git, Report
from xpubuild.supply.git.gitmodules import read_links
from xpubuild.supply.git.pin import Pin
from xpubuild.supply.git.urls import repository_name

_EMBEDDED = "embedded://"


def fetched_repository(
    item: Repository, *, store: RepositoryStore, report: Report, jobs: int
) -> model.Repository:
    """Return what a component is built from; what the user's mirrors lack of it is fetched.

    Raises:
        RecipeError: the commit of a configure-time repository is not known.
        FetchError, SourceIntegrityError, NoSpaceError, ToolchainError, InterruptedByUserError.
    """
    pin = item.pin
    top, below = _tree(store, pin, report, jobs)
    pins = configure_time_pins(
        store.git, store.mirror(pin.url, pin.commit).path, pin.commit, item.configure_time
    )
    cloned = [_configure_time(item.component, found, store, report, jobs) for found in pins]
    return model.Repository(
        url=clean_url(pin.url),
        ref=pin.ref,
        commit=pin.commit,
        tree=top,
        submodules=below,
        configure_time=tuple(sorted(cloned, key=lambda one: one.key)),
    )


def _tree(
    store: RepositoryStore, pin: Pin, report: Report, jobs: int
) -> tuple[str, tuple[model.Submodule, ...]]:
    """Return the tree of a pin and its submodules at every depth."""
    found = discover(store, pin, jobs=jobs, report=report)

    def tree(node: Node) -> str:
        return _tree_id(store.git, found.mirror(store, node).path, node.commit)

    top, *rest = found.nodes
    below = [_submodule(node.path, clean_url(node.url), node.commit, tree(node)) for node in rest]
    return tree(top), _ordered(below)


def _configure_time(
    component: str, found: ConfigurePin, store: RepositoryStore, report: Report, jobs: int
) -> model.ConfigureTime:
    asked_for = found.asked_for
    if asked_for is None:
        url = clean_url(found.url)
        raise RecipeError(
            f"the lock of {component} would be incomplete: {url} is cloned at an unknown commit",
            why=found.note.replace(found.url, url) or "neither the tree nor the recipe has a commit or tag",
            fix="set 'commit' or 'ref' in that entry of configure_time in your own recipe",
            evidence={"component": component, "url": url},
        )
    commit = found.commit or named_commit(store, found.url, asked_for)
    ref = found.ref if found.ref != commit else None
    tree, below = _tree(store, Pin(url=found.url, commit=commit, ref=ref), report, jobs)
    if found.ref is not None:
        remember(store, found.url, found.ref, commit)
    return model.ConfigureTime(
        url=clean_url(found.url),
        path=found.path,
        asked_for=asked_for,
        commit=commit,
        tree=tree,
        submodules=below,
    )


def embedded_repository(item: Repository, target: Target) -> model.Repository:
    """Return the same for sources that are included in xpubuild; no files are kept.

    Raises:
        SourceIntegrityError: the recipe pins another commit than this xpubuild carries.
        NoSpaceError, ToolchainError.
    """
    source = target.component(item.component).source
    git = Git.open(base_environment())
    with scratch_folder("lock") as folder:
        made = materialise(ops_project_dir(), folder, env=base_environment())
        if made.commit != item.pin.commit:
            raise SourceIntegrityError(
                f"the embedded sources are at commit {made.commit}, but the recipe pins {item.pin.commit}",
                why="the recipe is for another version of xpubuild, or an embedded file was changed",
                fix="reinstall xpubuild, or pin that commit in the recipe",
            )
        below = _embedded_below(git, folder, made.root_url, made.commit, "")
    return model.Repository(
        embedded=source.embedded if source is not None else None,
        ref=item.pin.ref,
        commit=made.commit,
        tree=made.tree,
        submodules=_ordered(below),
        configure_time=(),
    )


def _embedded_below(git: Git, folder: Path, url: str, commit: str, path: str) -> list[model.Submodule]:
    found: list[model.Submodule] = []
    for link in read_links(git, folder / f"{repository_name(url)}.git", commit, url):
        place = f"{path}/{link.path}" if path else link.path
        tree = _tree_id(git, folder / f"{repository_name(link.url)}.git", link.commit)
        found.append(_submodule(place, embedded_url(link.url), link.commit, tree))
        found += _embedded_below(git, folder, link.url, link.commit, place)
    return found


def embedded_url(url: str) -> str:
    """Return the name of an embedded repository, whatever folder it was written to."""
    return f"{_EMBEDDED}{repository_name(url)}"


def _submodule(path: str, url: str, commit: str, tree: str) -> model.Submodule:
    return model.Submodule(path=clean_text(path), url=url, commit=commit, tree=tree)


def _ordered(found: Sequence[model.Submodule]) -> tuple[model.Submodule, ...]:
    return tuple(sorted(found, key=lambda item: item.path))


def _tree_id(git: Git, git_dir: Path, commit: str) -> str:
    answer = git.query(["rev-parse", "--verify", f"{commit}^{{tree}}"], git_dir=git_dir)
    if not answer.ok:
        raise SourceIntegrityError(
            f"the tree of commit {commit} cannot be read",
            why=answer.stderr.strip(),
            fix="run the same command again; damaged files are fetched again",
            evidence={"repository": str(git_dir), "commit": commit},
        )
    return answer.text
