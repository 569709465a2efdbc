"""Where a build gets what it takes from elsewhere: mirrors, indexes, uv or pip, commits of branches.

A branch such as main has new commits every day. If each run used the newest one, each run would build for
hours, so a workspace keeps its commit until ``--update`` is passed.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from pathlib import Path

import platformdirs

from xpubuild.documents import plain
from xpubuild.engine.answers import Answers
from xpubuild.engine.environment import base_environment
from xpubuild.engine.files import write_atomic
from xpubuild.engine.places import existing
from xpubuild.engine.process import Cancel
from xpubuild.errors import FetchError, UsageError
from xpubuild.install.options import Resolved
from xpubuild.install.target import Choice, Downloads, Installer, Target
from xpubuild.recipe.model import Recipe
from xpubuild.supply.depot.entries import PAGE
from xpubuild.supply.git.bare import RepositoryStore
from xpubuild.supply.git.git import Git
from xpubuild.supply.git.pin import is_id
from xpubuild.supply.git.remote import named_commit
from xpubuild.supply.index.pipconf import offline_environment, pip_settings
from xpubuild.untrusted import json_value, read_bytes
from xpubuild.workspace.layout import Layout


def remembered() -> Answers:
    """Return what the programs of this host said of themselves, kept in the user's cache."""
    return Answers(platformdirs.user_cache_path("xpubuild") / "answers")


def git_store(target: Target, *, cancel: Cancel | None = None) -> RepositoryStore:
    """Return the user's git mirrors, filled from where the target says.

    Raises:
        ToolchainError: git is missing or too old.
    """
    return RepositoryStore(
        target.cache,
        Git.open(answers=remembered()),
        offline=target.downloads.offline,
        stocks=() if target.downloads.mirror is None else (target.downloads.mirror,),
        cancel=cancel or Cancel(),
    )


def downloads_from(mirror: Path | None, *, offline: bool) -> Downloads:
    """Return what the options say; offline without a mirror, pip is left its configured wheel folders.

    Raises:
        FetchError: there is no mirror at this place.
        UsageError: the folder is something else.
    """
    if mirror is None:
        return Downloads(offline=offline, pip={"PIP_NO_INDEX": "1"} if offline else {})
    from xpubuild.supply.depot.folder import Depot  # noqa: PLC0415 - for few

    Depot.open(mirror)
    page = mirror / PAGE
    # pip splits this variable at blanks; a URL has none.
    links = f"{base_environment().get('PIP_FIND_LINKS', '')} {page.as_uri()}".strip()
    pip = offline_environment(page) if offline else {"PIP_FIND_LINKS": links}
    return Downloads(mirror=mirror, offline=offline, pip=pip)


def installer_for(choice: Choice, downloads: Downloads) -> Installer:
    """Return uv where it can be used and is not ruled out, else pip with the reason.

    Raises:
        UsageError: uv was asked for and cannot be used.
        ToolchainError: a configuration file of pip cannot be read.
    """
    options, remedy = choice.options, ""
    if options.installer == "pip":
        return Installer(why="--installer pip")
    if options.packages == "conda":
        why = "the environment is of conda"
    else:
        from xpubuild.supply.uv.cache import not_ours  # noqa: PLC0415 - for few
        from xpubuild.supply.uv.settings import find_uv, reason_for_pip  # noqa: PLC0415

        environment = base_environment()
        settings = pip_settings({**environment, **downloads.pip})
        if "PIP_NO_CACHE_DIR" in downloads.pip:
            settings.pop("no-cache-dir", None)  # what an offline build says of pip's own cache
        cache = platformdirs.user_cache_path("xpubuild") / "uv"
        program = find_uv()
        why, remedy = program.why or reason_for_pip(settings) or not_ours(cache), program.remedy
        if not why:
            links = existing(cache).stat().st_dev == existing(choice.layout.root).stat().st_dev
            return Installer(program.path, program.version, cache, links=links)
    if options.installer == "uv":
        raise UsageError(
            "--installer uv cannot be used here",
            why=why,
            fix=("install uv beside xpubuild, or " if remedy else "") + "omit --installer: then pip is used",
            commands=(remedy,) if remedy else (),
        )
    return Installer(why=why)


_VERSION = 1


def resolve_commits(choice: Choice, store: RepositoryStore) -> dict[str, Resolved]:
    """Return the commits of the sources that the recipe pins by ``ref`` alone.

    What a lock says is taken, then what the workspace found the first time, unless an update was asked for or
    URL or ref have changed. Else a stock of ``store`` that remembers the ref counts before upstream.

    Raises:
        FetchError: upstream cannot be asked, or has no such tag or branch.
    """
    kept = {} if choice.options.update else read_resolved(choice.layout.resolved)
    kept |= choice.options.resolved
    found: dict[str, Resolved] = {}
    for name in choice.components:
        source = choice.component(name).source
        if source is None or source.commit is not None or source.url is None or source.ref is None:
            continue
        known = kept.get(name)
        if known is None or (known.url, known.ref) != (source.url, source.ref):
            known = _look_up(choice.recipe, name, source.url, source.ref, store)
        found[name] = known
    return found


def _look_up(recipe: Recipe, name: str, url: str, ref: str, store: RepositoryStore) -> Resolved:
    try:
        commit = named_commit(store, url, ref)
    except FetchError as error:
        raise FetchError(
            f"the commit of {name} is unknown: {error.what}",
            why=(
                f"recipe '{recipe.name}' follows {ref}, whose commit must be looked up upstream: {error.why}"
            ),
            fix=(
                f"{error.fix}. Without a network, write a recipe that extends this one and has the full "
                f"commit id at components.{name}.source.commit"
            ),
            commands=error.commands,
            evidence=error.evidence,
        ) from error
    return Resolved(ref=ref, commit=commit, url=url, when=time.strftime("%Y-%m-%dT%H:%M:%S%z"))


def read_resolved(path: Path) -> dict[str, Resolved]:
    """Return what a workspace looked up before; nothing where that cannot be read: it is then asked again."""
    try:
        entries = json_value(read_bytes(path))["resolved"]
        found = {str(name): Resolved(**entry) for name, entry in entries.items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}
    return {name: item for name, item in found.items() if isinstance(item.commit, str) and is_id(item.commit)}


def keep_resolved(layout: Layout, resolved: Mapping[str, Resolved]) -> None:
    """Write down what was looked up, beside what other components of the workspace have."""
    if resolved:
        whole = {**read_resolved(layout.resolved), **resolved}
        text = json.dumps({"version": _VERSION, "resolved": plain(whole)}, indent=1, sort_keys=True)
        write_atomic(layout.resolved, f"{text}\n".encode())
