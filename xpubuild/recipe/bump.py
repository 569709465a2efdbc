"""``recipes bump``: the pins of a release as upstream has them now, beside those of the nearest recipe.

What upstream writes down is looked up: tags, their commits, and the pins in the files of these commits. What
no file states (archives of other commits, which torchvision belongs to a new line) is listed, and left open.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import yaml
from packaging.version import Version

from xpubuild.errors import UsageError
from xpubuild.frozen import frozen
from xpubuild.machine.versions import parse
from xpubuild.recipe.facts import look_up
from xpubuild.recipe.load import available, load
from xpubuild.recipe.model import Archive, Component, ConfigureTime, LoadedRecipe
from xpubuild.recipe.recipe_json import ProposedPin, RecipesBumpDocument
from xpubuild.recipe.releases import releases
from xpubuild.recipe.tree import TRITON_PIN, TRITON_VERSIONS, pinned_by
from xpubuild.supply.git.bare import RepositoryStore
from xpubuild.supply.git.pin import is_id
from xpubuild.supply.git.serving import remote_tags

_TAG = re.compile(r"v(\d+(?:\.\d+)+)")
_MOST_BYTES = 1 << 20
#: YAML that is written has no comments: one stands in as a key, which no recipe has.
_MARK = re.compile(r"^( +)renovate: (.+)$", re.MULTILINE)


@frozen
class Tree:
    """The tree of a commit in the user's own bare repository; its files are read, never checked out."""

    store: RepositoryStore
    url: str
    commit: str

    @classmethod
    def fetched(cls, store: RepositoryStore, url: str, commit: str) -> Tree:
        """Fetch the commit, unless it is there.

        Raises:
            FetchError, SourceIntegrityError, NoSpaceError, ToolchainError, InterruptedByUserError.
        """
        store.mirror(url, commit).ensure(commit, report=lambda _line: None)
        return cls(store, url, commit)

    def text(self, path: str) -> str:
        """Return a file of the tree; empty where there is none, or none that a pin could be in."""
        git_dir = self.store.mirror(self.url, self.commit).path
        name = f"{self.commit}:{path}"
        size = self.store.git.query(["cat-file", "-s", name], git_dir=git_dir)
        if not size.ok or int(size.text or 0) > _MOST_BYTES:
            return ""
        answer = self.store.git.query(["cat-file", "blob", name], git_dir=git_dir)
        return answer.text if answer.ok else ""


@dataclass
class _Bump:
    """The proposals for a release; ``release`` is the version of torch, ``base`` the recipe to extend."""

    release: str
    base: LoadedRecipe
    store: RepositoryStore
    proposals: dict[str, ProposedPin] = field(default_factory=dict)
    #: Sentences about what has to be looked up by a person.
    open: list[str] = field(default_factory=list)

    def add(self, key: str, upstream: str, source: str) -> None:
        """Note one value."""
        known = look_up(self.base.document, key)
        recipe = None if known is None else str(known)
        self.proposals[key] = {
            "key": key,
            "recipe": recipe,
            "upstream": upstream,
            "changed": recipe != upstream,
            "source": source,
        }

    def add_said(self, key: str, tree: Tree, *paths: str) -> str | None:
        """Note the first word of the first of some files that has one, and return it."""
        for path in paths:
            for word in tree.text(path).split()[:1]:
                self.add(key, word, _at(path, tree))
                return word
        return None


def bump(wanted: str, store: RepositoryStore) -> RecipesBumpDocument:
    """Look up the pins of a release line (2.13: its newest patch) or of one release (2.13.1).

    Raises:
        UsageError: it is no release, or upstream has no tag of it.
        FetchError, RecipeError, InterruptedByUserError: of the repositories.
    """
    version = parse(wanted)
    if version is None or len(version.release) not in (2, 3):
        raise UsageError(
            f"'{wanted}' is not a release of PyTorch", fix="pass a version, such as 2.13 or 2.13.1"
        )
    base = _nearest(f"{version.major}.{version.minor}", version)
    url = _url(base.recipe.components.get("torch")) or ""
    size = len(version.release)
    tags = _tags(store, url)
    tag = _newest(tags, lambda found: found.release[:size] == version.release)
    if tag is None:
        last = f"; its newest is v{max(tags)}" if tags else ""
        raise UsageError(
            f"there is no release {wanted} upstream",
            why=f"{url or 'the recipe ' + base.recipe.name} has no tag of it{last}",
            fix="pass a release that has a tag",
        )
    found = _Bump(str(tag), base, store)
    torch = _tagged(found, "torch", url, tag, tags[tag])
    found.add("release", str(tag), f"tag v{tag} of {url}")
    found.add_said("components.torch.source.version", torch, "version.txt")
    _triton(found, torch)
    for name in base.recipe.components:
        if name not in ("torch", "triton"):
            _companion(found, name)
    return {
        "schema": "xpubuild.recipes-bump/1",
        "release": found.release,
        "base": base.recipe.name,
        "proposals": [*found.proposals.values()],
        "open": found.open,
        "text": _recipe_text(found),
    }


def _nearest(line: str, version: Version) -> LoadedRecipe:
    """Return the recipe of the line, else that of the newest release before it."""
    if line in available():
        return load(line)
    older = [item for item in releases() if item.recipe.release and Version(item.recipe.release) < version]
    if not older:
        raise UsageError(f"no recipe is older than {version}", fix="pass a newer release")
    return load(older[0].line)


def _url(component: Component | None) -> str | None:
    return component.source.url if component is not None and component.source is not None else None


def _at(path: str, tree: Tree) -> str:
    return f"{path} of {tree.url} at {tree.commit}"


def _tags(store: RepositoryStore, url: str) -> dict[Version, str]:
    """Return the commits of releases by version; release candidates are none."""
    found = remote_tags(url, git=store.git, cancel=store.cancel) if url else {}
    return {Version(name[1:]): commit for name, commit in found.items() if _TAG.fullmatch(name)}


def _newest(tags: dict[Version, str], wanted: Callable[[Version], bool]) -> Version | None:
    return max(filter(wanted, tags), default=None)


def _tagged(found: _Bump, name: str, url: str, tag: Version, commit: str) -> Tree:
    """Note tag and commit of a component, and the pins in the files of that commit."""
    source = f"git ls-remote of {url}"
    found.add(f"components.{name}.source.ref", f"v{tag}", source)
    found.add(f"components.{name}.source.commit", commit, source)
    tree = Tree.fetched(found.store, url, commit)
    _pin_files(found, name, tree)
    return tree


def _pin_files(found: _Bump, name: str, tree: Tree) -> None:
    component = found.base.recipe.components[name]
    entries = component.source.configure_time if component.source else []
    files: dict[str, ConfigureTime | Archive] = {
        f"source.configure_time.{number}": item for number, item in enumerate(entries)
    }
    files |= {f"build.archives.{key}": item for key, item in component.build.archives.items()}
    for part, item in files.items():
        key, file = f"components.{name}.{part}", item.pin_file
        said = pinned_by(tree.text(file)) if file is not None else None
        if file is not None and said is None:
            found.open.append(f"{key}: {file} of {tree.url} does not state it")
        elif file is not None and said is not None and isinstance(item, ConfigureTime):
            found.add(f"{key}.{'commit' if is_id(said) else 'ref'}", said, _at(file, tree))
        elif said is not None and said not in (item.commit, item.ref):
            found.open.append(f"{key}: {file} says {said}; look up its URL and folder")


def _triton(found: _Bump, torch: Tree) -> None:
    url = _url(found.base.recipe.components.get("triton"))
    if url is None:
        return
    key = "components.triton.source.commit"
    said = found.add_said(key, torch, TRITON_PIN)
    if said is None or not is_id(said):
        found.proposals.pop(key, None)
        found.open.append(f"{key}: {TRITON_PIN} of {torch.url} does not state it")
        return
    found.add_said("components.triton.version", torch, *TRITON_VERSIONS)
    _pin_files(found, "triton", Tree.fetched(found.store, url, said))


def _companion(found: _Bump, name: str) -> None:
    """Note the newest tag of a component with versions of its own, such as torchvision."""
    component = found.base.recipe.components[name]
    url, known = _url(component), parse(component.version)
    if not url or not known or component.end_of_life or not component.source or not component.source.ref:
        return
    line = parse(found.base.recipe.release)
    same_line = line is not None and line.release[:2] == Version(found.release).release[:2]
    tags = _tags(found.store, url)
    tag = _newest(tags, lambda version: not same_line or version.release[:2] == known.release[:2])
    if tag is None:
        return
    if not same_line:
        told = f"v{tag} is its newest release; check that it is for {found.release}"
        found.open.append(f"components.{name}: {told}")
    _tagged(found, name, url, tag, tags[tag])
    found.add(f"components.{name}.version", str(tag), f"tag v{tag} of {url}")


def pinned_at(base: LoadedRecipe, name: str, commit: str, store: RepositoryStore) -> dict[str, Any]:
    """Return what a recipe changes to have a component at another commit, with the pins that belong to it.

    These are the pins and versions in the files of that commit; for torch, those of triton too.

    Raises:
        FetchError, RecipeError, InterruptedByUserError: of the repositories.
    """
    component = base.recipe.components[name]
    tree = Tree.fetched(store, _url(component) or "", commit)
    version = parse(next(iter(tree.text("version.txt").split()), None))
    found = _Bump(base.recipe.release or "", base, store)
    if version is not None and name == "torch" and base.recipe.release:
        found.release = version.base_version
        found.add("release", found.release, _at("version.txt", tree))
    elif version is not None and component.version:
        found.add(f"components.{name}.version", version.base_version, _at("version.txt", tree))
    found.add(f"components.{name}.source.commit", commit, f"a commit of {tree.url}")
    found.add_said(f"components.{name}.source.version", tree, "version.txt")
    _pin_files(found, name, tree)
    if name == "torch":
        _triton(found, tree)
    values = _values(found)
    for other, item in base.recipe.components.items():
        if other not in values["components"]:
            mine: dict[str, Any] = {"source": {}}
            _follow(found, item, mine)
            values["components"] |= {other: mine} if len(mine) > 1 else {}
    if commit != (component.source and component.source.commit):
        values["components"][name]["source"] |= dict.fromkeys(("ref", "tree"))
    return values


def _values(found: _Bump) -> dict[str, Any]:
    """Return the proposals as parts of a recipe, and what follows from them."""
    values: dict[str, Any] = {"components": {}}
    for key, item in found.proposals.items():
        _put(found, values, key, item["upstream"])
    for name, component in found.base.recipe.components.items():
        if name in values["components"]:
            _follow(found, component, values["components"][name])
    return values


def _recipe_text(found: _Bump) -> str:
    """Return a recipe with all pins, those that stay among them: what it extends may change, it does not."""
    base, values = found.base.recipe, _values(found)
    line = ".".join(map(str, Version(found.release).release[:2]))
    changed = {key: item for key, item in found.proposals.items() if item["changed"] and key != "release"}
    recipe = {
        "schema": 1,
        "name": found.release if line == base.name else line,
        "title": f"PyTorch {found.release}, pins looked up upstream",
        "extends": base.name,
        "release": found.release,
        "components": values["components"],
        **({"facts": {key: {"source": item["source"]} for key, item in changed.items()}} if changed else {}),
    }
    text = yaml.safe_dump(recipe, sort_keys=False, allow_unicode=True, width=4096)
    return _MARK.sub(r"\1# renovate: \2", text)


def _put(found: _Bump, values: dict[str, Any], key: str, value: str) -> None:
    """Set a value at a dotted key. A list replaces that of the base as a whole, so it is copied first."""
    *folders, last = key.split(".")
    place: Any = values
    for number, part in enumerate(folders):
        if isinstance(place, list):
            place = place[int(part)]
        else:
            known = look_up(found.base.document, ".".join(folders[: number + 1]))
            place = place.setdefault(part, copy.deepcopy(known) if isinstance(known, list) else {})
    place[last] = value


def _follow(found: _Bump, component: Component, mine: dict[str, Any]) -> None:
    """Change what repeats a version: requirements on torch, and variables that builds take it from."""
    old, source, known = found.base.recipe.release, mine["source"], component.source
    if known is not None and known.url is not None:
        if "ref" in source:
            # The repository is named before its tag, for Renovate.
            parts = urlsplit(known.url)
            github = f"datasource=github-tags depName={parts.path.strip('/').removesuffix('.git')}"
            mark = github if parts.hostname == "github.com" else f"datasource=git-tags depName={known.url}"
            mine["source"] = {"renovate": mark, **source}
        elif known.ref and source.get("commit", known.commit) != known.commit:
            source["ref"] = None
    requires = [f"torch=={found.release}" if item == f"torch=={old}" else item for item in component.requires]
    if requires != component.requires:
        mine["requires"] = requires
    renamed = {old: found.release, component.version: mine.get("version", component.version)}
    env = {
        key: renamed[value]
        for key, value in component.build.env.items()
        if isinstance(value, str) and renamed.get(value, value) != value
    }
    if env:
        mine.setdefault("build", {})["env"] = env
