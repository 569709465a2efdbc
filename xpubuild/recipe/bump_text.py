"""Proposals as a recipe that extends the nearest one, with comments by which Renovate finds the tags."""

from __future__ import annotations

import copy
import re
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import yaml
from packaging.version import Version

from xpubuild.recipe.bump import Bump, changed

if TYPE_CHECKING:
    from xpubuild.recipe.recipe_json import RecipesBumpDocument

#: YAML that is written has no comments: one stands in as a key, which no recipe has.
_MARK = re.compile(r"^( +)renovate: (.+)$", re.MULTILINE)
_GITHUB = "github.com"


def document(found: Bump) -> RecipesBumpDocument:
    """Return the ``xpubuild.recipes-bump/1`` document."""
    different = {item.key for item in changed(found)}
    return {
        "schema": "xpubuild.recipes-bump/1",
        "release": found.release,
        "base": found.base.recipe.name,
        "proposals": [
            {"key": item.key, "recipe": item.recipe, "upstream": item.upstream,
             "changed": item.key in different, "source": item.source}
            for item in found.proposals
        ],
        "open": found.open,
        "text": recipe_text(found),
    }  # fmt: skip


def recipe_text(found: Bump) -> str:
    """Return a recipe with all pins, those that stay among them: what it extends may change, it does not."""
    base = found.base.recipe
    values: dict[str, Any] = {"components": {}}
    for item in found.proposals:
        _put(found, values, item.key, item.upstream)
    _follow(found, values)
    line = ".".join(map(str, Version(found.release).release[:2]))
    name = found.release if line == base.name else line
    facts = {item.key: {"source": item.source} for item in changed(found) if item.key != "release"}
    head = {"schema": 1, "name": name, "title": f"PyTorch {found.release}, pins looked up upstream"}
    recipe = {**head, "extends": base.name, "release": found.release, "components": values["components"]}
    if facts:
        recipe["facts"] = facts
    text = yaml.safe_dump(recipe, sort_keys=False, allow_unicode=True, width=4096)
    return _MARK.sub(r"\1# renovate: \2", text)


def _put(found: Bump, values: dict[str, Any], key: str, value: str) -> None:
    """Set a value at a dotted key. A list replaces that of the base as a whole, so it is copied first."""
    *folders, last = key.split(".")
    place: Any = values
    for number, part in enumerate(folders):
        known = found.value(".".join(folders[: number + 1]))
        if isinstance(place, list):
            place = place[int(part)]
        else:
            place = place.setdefault(part, copy.deepcopy(known) if isinstance(known, list) else {})
    place[last] = value


def _follow(found: Bump, values: dict[str, Any]) -> None:
    """Change what repeats a version: requirements on torch, and variables that builds take it from."""
    old = found.base.recipe.release
    for name, component in found.base.recipe.components.items():
        mine = values["components"].get(name)
        if mine is None:
            continue
        _mark(found, name, mine["source"])
        renamed = {old: found.release} if old else {}
        if component.version and mine.get("version"):
            renamed[component.version] = mine["version"]
        requires = [
            f"torch=={found.release}" if item == f"torch=={old}" else item for item in component.requires
        ]
        if requires != component.requires:
            mine["requires"] = requires
        env = {
            key: renamed[value]
            for key, value in component.build.env.items()
            if isinstance(value, str) and renamed.get(value, value) != value
        }
        if env:
            mine.setdefault("build", {})["env"] = env


def _mark(found: Bump, name: str, source: dict[str, Any]) -> None:
    """Name the repository before its tag; a tag of another commit than the new one goes."""
    known = found.base.recipe.components[name].source
    if known is None or known.url is None:
        return
    if "ref" in source:
        rest = dict(source)
        source.clear()
        source.update({"renovate": _named(known.url), **rest})
    elif known.ref and source.get("commit", known.commit) != known.commit:
        source["ref"] = None


def _named(url: str) -> str:
    parts = urlsplit(url)
    if parts.hostname == _GITHUB:
        return f"datasource=github-tags depName={parts.path.strip('/').removesuffix('.git')}"
    return f"datasource=git-tags depName={url}"
