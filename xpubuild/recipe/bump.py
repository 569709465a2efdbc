"""``recipes bump``: the pins of a release as upstream has them now, beside those of the nearest recipe.

What upstream writes down is looked up: tags, their commits, and the pins in the files of these commits. What
no file states (archives of other commits, which torchvision belongs to a new line) is told, and left open.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from packaging.version import Version

from xpubuild.errors import UsageError
from xpubuild.frozen import frozen
from xpubuild.recipe.load import available, load
from xpubuild.recipe.model import Component, LoadedRecipe
from xpubuild.recipe.releases import releases
from xpubuild.recipe.tree_pins import TRITON_PIN, TRITON_VERSIONS
from xpubuild.recipe.tree_text import pinned_by
from xpubuild.recipe.upstream import Tag, Tree, newest, release_tags, version_of
from xpubuild.supply.git.bare import RepositoryStore
from xpubuild.supply.git.pin import is_id


@frozen
class Proposal:
    """One value: its key in the recipe, what the recipe has, what upstream has, and where that stands."""

    key: str
    recipe: str | None
    upstream: str
    source: str


@dataclass
class Bump:
    """The proposals for a release; ``release`` is the version of torch, ``base`` the recipe to extend."""

    release: str
    base: LoadedRecipe
    proposals: list[Proposal] = field(default_factory=list)
    #: Sentences about what has to be looked up by a person.
    open: list[str] = field(default_factory=list)

    def value(self, key: str) -> object:
        """Return what the recipe has at a dotted key; None where it has nothing."""
        found: Any = self.base.document
        for part in key.split("."):
            if isinstance(found, list):
                found = found[int(part)] if int(part) < len(found) else None
            else:
                found = found.get(part) if isinstance(found, Mapping) else None
        return found

    def add(self, key: str, upstream: str, source: str) -> None:
        """Note one value."""
        known = self.value(key)
        self.proposals.append(Proposal(key, None if known is None else str(known), upstream, source))


def bump(wanted: str, store: RepositoryStore) -> Bump:
    """Look up the pins of a release line (2.13: its newest patch) or of one release (2.13.1).

    Raises:
        UsageError: it is no release, or upstream has no tag of it.
        FetchError, RecipeError, InterruptedByUserError: of the repositories.
    """
    version = version_of(wanted)
    if version is None or len(version.release) not in (2, 3):
        raise UsageError(
            f"'{wanted}' is not a release of PyTorch", fix="pass a version, such as 2.13 or 2.13.1"
        )
    base = _nearest(f"{version.major}.{version.minor}", version)
    url = _url(base.recipe.components.get("torch"))
    tags = release_tags(store, url) if url else []
    size = len(version.release)
    tag = newest(tags, lambda found: found.release[:size] == version.release)
    if url is None or tag is None:
        last = f"; its newest is {tags[-1].name}" if tags else ""
        raise UsageError(
            f"there is no release {wanted} upstream",
            why=f"{url or 'the recipe ' + base.recipe.name} has no tag of it{last}",
            fix="pass a release that has a tag",
        )
    found = Bump(str(tag.version), base)
    torch = _tag_of(found, "torch", url, tag, store)
    found.add("release", str(tag.version), f"tag {tag.name} of {url}")
    said = torch.word("version.txt")
    if said:
        found.add("components.torch.source.version", said[1], _at("version.txt", torch))
    _triton(found, torch, store)
    for name in found.base.recipe.components:
        if name not in ("torch", "triton"):
            _companion(found, name, store)
    return found


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


def _tag_of(found: Bump, name: str, url: str, tag: Tag, store: RepositoryStore) -> Tree:
    """Note tag and commit of a component, and the pins in the files of that commit."""
    source = f"git ls-remote of {url}"
    found.add(f"components.{name}.source.ref", tag.name, source)
    found.add(f"components.{name}.source.commit", tag.commit, source)
    tree = Tree.fetched(store, url, tag.name, tag.commit)
    _pin_files(found, name, tree)
    return tree


def _pin_files(found: Bump, name: str, tree: Tree) -> None:
    component = found.base.recipe.components[name]
    entries = component.source.configure_time if component.source else []
    for number, entry in enumerate(entries):
        if entry.pin_file is not None:
            key = f"components.{name}.source.configure_time.{number}"
            said = _said(found, tree, entry.pin_file, key)
            if said is not None:
                found.add(f"{key}.{'commit' if is_id(said) else 'ref'}", said, _at(entry.pin_file, tree))
    for key, archive in component.build.archives.items():
        if archive.pin_file is not None:
            place = f"components.{name}.build.archives.{key}"
            said = _said(found, tree, archive.pin_file, place)
            if said is not None and said not in (archive.commit, archive.ref):
                found.open.append(f"{place}: {archive.pin_file} says {said}; look up its URL and folder")


def _said(found: Bump, tree: Tree, path: str, key: str) -> str | None:
    said = pinned_by(tree.text(path) or "")
    if said is None:
        found.open.append(f"{key}: {path} of {tree.url} does not state it")
    return said


def _triton(found: Bump, torch: Tree, store: RepositoryStore) -> None:
    url = _url(found.base.recipe.components.get("triton"))
    pin, version = torch.word(TRITON_PIN), torch.word(*TRITON_VERSIONS)
    if url is None:
        return
    if pin is None or not is_id(pin[1]):
        found.open.append(f"components.triton.source.commit: {TRITON_PIN} of {torch.url} does not state it")
        return
    found.add("components.triton.source.commit", pin[1], _at(pin[0], torch))
    if version:
        found.add("components.triton.version", version[1], _at(version[0], torch))
    _pin_files(found, "triton", Tree.fetched(store, url, None, pin[1]))


def _companion(found: Bump, name: str, store: RepositoryStore) -> None:
    """Note the newest tag of a component with versions of its own, such as torchvision."""
    component = found.base.recipe.components[name]
    url, known = _url(component), version_of(component.version)
    if (
        url is None
        or known is None
        or component.end_of_life
        or not component.source
        or not component.source.ref
    ):
        return
    line = version_of(found.base.recipe.release)
    same_line = line is not None and line.release[:2] == Version(found.release).release[:2]
    tags = release_tags(store, url)
    tag = newest(tags, lambda version: not same_line or version.release[:2] == known.release[:2])
    if tag is None:
        return
    if not same_line:
        found.open.append(
            f"components.{name}: {tag.name} is its newest release; check that it is for {found.release}"
        )
    _tag_of(found, name, url, tag, store)
    found.add(f"components.{name}.version", str(tag.version), f"tag {tag.name} of {url}")


def changed(found: Bump) -> Iterator[Proposal]:
    """Yield the proposals that differ from the recipe."""
    return (item for item in found.proposals if item.recipe != item.upstream)
