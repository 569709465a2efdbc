"""Looks up the commits of branches and tags once per workspace and records them.

A branch such as main has new commits every day. If each run used the newest one, each run would build for
hours, so a workspace keeps its commit until ``--update`` is passed.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping
from pathlib import Path

from xpubuild.documents import plain
from xpubuild.engine.files import write_atomic
from xpubuild.errors import FetchError
from xpubuild.install.request import Resolved
from xpubuild.recipe.model import Recipe
from xpubuild.supply.git.bare import RepositoryStore, named_commit
from xpubuild.supply.git.pin import is_id
from xpubuild.untrusted import json_value, read_bytes
from xpubuild.workspace.layout import Layout

_VERSION = 1


def resolve(
    recipe: Recipe,
    components: Iterable[str],
    layout: Layout,
    *,
    store: RepositoryStore,
    update: bool = False,
) -> dict[str, Resolved]:
    """Return the commits of the sources that the recipe pins by ``ref`` alone.

    What the workspace found the first time is kept, unless ``update`` is set or URL or ref have changed. Else
    a stock of ``store`` that remembers the ref is believed before upstream is asked.

    Raises:
        FetchError: upstream cannot be asked, or has no such tag or branch.
    """
    kept = {} if update else read_resolved(layout.resolved)
    found: dict[str, Resolved] = {}
    for name in components:
        source = recipe.components[name].source
        if source is None or source.commit is not None or source.url is None or source.ref is None:
            continue
        known = kept.get(name)
        if known is not None and (known.url, known.ref) == (source.url, source.ref):
            found[name] = known
        else:
            found[name] = _look_up(recipe, name, source.url, source.ref, store)
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
