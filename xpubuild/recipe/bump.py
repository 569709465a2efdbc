"""``recipes bump``: the pins of a release as upstream has them now, beside those of the nearest recipe.

What upstream writes down is looked up: tags, their commits, and the pins in the files of these commits. A
checkout of torch can be read instead, before the release has a tag. What no file states is listed, and is
unknown in the recipe: a pin of the base that may be of another release is removed.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml
from packaging.version import Version

from xpubuild.errors import UsageError
from xpubuild.machine.versions import parse
from xpubuild.recipe.commit_tree import Tree
from xpubuild.recipe.facts import look_up
from xpubuild.recipe.load import available, load
from xpubuild.recipe.model import Archive, Component, ConfigureTime, LoadedRecipe
from xpubuild.recipe.recipe_json import ProposedPin, RecipesBumpDocument
from xpubuild.recipe.releases import releases
from xpubuild.recipe.tree import TRITON_PIN, TRITON_VERSIONS, has_word, pinned_by
from xpubuild.supply.git.bare import RepositoryStore
from xpubuild.supply.git.pin import is_id
from xpubuild.supply.git.serving import remote_tags

_TAG = re.compile(r"v(\d+(?:\.\d+)+)")
#: YAML that is written has no comments: one stands in as a key, which no recipe has.
_MARK = re.compile(r"^( +)renovate: (.+)$", re.MULTILINE)


@dataclass
class _Bump:
    """The proposals for a release; ``release`` is the version of torch, ``base`` the recipe to extend."""

    release: str
    base: LoadedRecipe
    store: RepositoryStore
    proposals: dict[str, ProposedPin] = field(default_factory=dict)
    #: Sentences about what has to be looked up by a person.
    open: list[str] = field(default_factory=list)
    #: What the recipe then says to be unknown: key -> where it would be, and why it is not known.
    unknown: dict[str, tuple[str, str]] = field(default_factory=dict)
    #: Components that are prebuilt for another release.
    outdated: list[str] = field(default_factory=list)

    @property
    def same_line(self) -> bool:
        """Whether this is another patch of the line that the base is of."""
        line = parse(self.base.recipe.release)
        return line is not None and line.release[:2] == Version(self.release).release[:2]

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

    def doubt(self, key: str) -> dict[str, str]:
        """Return what a fact says of the newest release of a component beside a new line of torch."""
        sure = self.same_line or key.startswith(("components.torch.", "components.triton."))
        return {} if sure else {"confidence": "inferred", "note": "the newest release when it was looked up"}

    def leave_open(self, key: str, source: str, note: str) -> None:
        """Note a value that its source does not state: none of the base is left in its place."""
        self.open.append(f"{key}: {note}")
        self.unknown[key] = (source, note)

    def add_said(self, key: str, tree: Tree, *paths: str) -> str | None:
        """Note the first word of the first of some files that has one, and return it."""
        for path in paths:
            for word in tree.text(path).split()[:1]:
                self.add(key, word, _at(path, tree))
                return word
        return None


def bump(wanted: str, store: RepositoryStore, checkout: Path | None = None) -> RecipesBumpDocument:
    """Look up the pins of a release line (2.13: its newest patch) or of one release (2.13.1).

    With a checkout of PyTorch, they are those of its commit, and the release needs no tag.

    Raises:
        UsageError: it is no release, upstream has no tag of it, or the checkout is of another one.
        FetchError, RecipeError, InterruptedByUserError: of the repositories.
    """
    version = parse(wanted)
    if version is None or len(version.release) not in (2, 3):
        raise UsageError(
            f"'{wanted}' is not a release of PyTorch", fix="pass a version, such as 2.13 or 2.13.1"
        )
    base = _nearest(f"{version.major}.{version.minor}", version)
    url = _url(base.recipe.components.get("torch")) or ""
    found = _Bump(str(version), base, store)
    if checkout is not None:
        torch = _checked_out(found, Tree.of_checkout(store.git, checkout, url), version)
    else:
        torch = _released(found, url, version)
    found.add_said("components.torch.source.version", torch, "version.txt")
    if not found.same_line:
        found.open.append(f"needs, toolkits: as recipe {base.recipe.name} has them; no pin file states them")
    _triton(found, torch)
    for name, component in base.recipe.components.items():
        of = found.proposals.get(f"components.{component.instead_of}.version")
        if component.instead_of is None and name not in ("torch", "triton"):
            _companion(found, name)
        elif component.instead_of is not None and (of is None or of["upstream"] != component.version):
            found.outdated.append(name)
            found.open.append(
                f"components.{name}: hashes of other wheels than {component.version} are not known"
            )
    return {
        "schema": "xpubuild.recipes-bump/1",
        "release": found.release,
        "base": base.recipe.name,
        "proposals": [*found.proposals.values()],
        "open": found.open,
        "text": _recipe_text(found),
    }


def _released(found: _Bump, url: str, version: Version) -> Tree:
    """Return the tree of the newest tag of a release; its pins are noted."""
    tags, size = _tags(found.store, url), len(version.release)
    tag = _newest(tags, lambda item: item.release[:size] == version.release)
    if tag is None:
        last = f"; its newest is v{max(tags)}" if tags else ""
        raise UsageError(
            f"there is no release {version} upstream",
            why=f"{url or 'the recipe ' + found.base.recipe.name} has no tag of it{last}",
            fix="pass a release that has a tag, or a checkout with --tree",
        )
    found.release = str(tag)
    found.add("release", str(tag), f"tag v{tag} of {url}")
    return _tagged(found, "torch", url, tag, tags[tag])


def _checked_out(found: _Bump, torch: Tree, version: Version) -> Tree:
    """Return the tree of a checkout, which may have no tag yet; its pins are noted."""
    said = parse(next(iter(torch.text("version.txt").split()), None))
    if said is None or said.release[: len(version.release)] != version.release:
        raise UsageError(
            f"the checkout is not one of release {version}",
            why=f"its version.txt says {said or 'no version'}",
            fix="pass the release that is checked out",
        )
    found.release = said.base_version
    found.add("release", found.release, _at("version.txt", torch))
    found.add("components.torch.source.commit", torch.commit, f"a checkout of {torch.url}")
    found.leave_open("components.torch.source.ref", f"tags of {torch.url}", "a checkout has no tag yet")
    _pin_files(found, "torch", torch)
    return torch


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
    found = remote_tags(store, url) if url else {}
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
        text, known = tree.text(file) if file is not None else "", item.commit or item.ref
        said = known if known and has_word(text, known) else pinned_by(text)
        pin = "commit" if is_id(said or known or "") else "ref"
        if file is not None and said is not None and isinstance(item, ConfigureTime):
            found.add(f"{key}.{pin}", said, _at(file, tree))
        elif file is not None and said is not None and said not in (item.commit, item.ref):
            found.add(f"{key}.{pin}", said, _at(file, tree))
            found.leave_open(f"{key}.url", _at(file, tree), f"{file} says {said}; look up its URL and folder")
        elif said is None and (file is not None or not found.same_line):
            last = pin if isinstance(item, ConfigureTime) else "url"
            where = _at(file, tree) if file else tree.url
            note = f"{file} does not state it" if file else "no pin file states it"
            found.leave_open(f"{key}.{last}", where, note)


def _triton(found: _Bump, torch: Tree) -> None:
    url = _url(found.base.recipe.components.get("triton"))
    if url is None:
        return
    key, version = "components.triton.source.commit", "components.triton.version"
    if found.add_said(version, torch, *TRITON_VERSIONS) is None:
        found.leave_open(version, _at(TRITON_VERSIONS[0], torch), f"{TRITON_VERSIONS[0]} does not state it")
    said = found.add_said(key, torch, TRITON_PIN)
    if said is None or not is_id(said):
        found.proposals.pop(key, None)
        found.leave_open(key, _at(TRITON_PIN, torch), f"{TRITON_PIN} does not state it")
        return
    _pin_files(found, "triton", Tree.fetched(found.store, url, said))


def _companion(found: _Bump, name: str) -> None:
    """Note the newest tag of a component with versions of its own, such as torchvision."""
    component = found.base.recipe.components[name]
    url, known = _url(component), parse(component.version)
    if not url or not known or component.end_of_life or not component.source or not component.source.ref:
        return
    same_line = found.same_line
    tags = _tags(found.store, url)
    tag = _newest(tags, lambda version: not same_line or version.release[:2] == known.release[:2])
    if tag is None:
        return
    if not same_line:
        shown = f"v{tag} is its newest release; check that it is for {found.release}"
        found.open.append(f"components.{name}: {shown}")
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
    for name in found.outdated:
        values["components"][name] = None
    for key in found.unknown:
        _put(found, values, key, None)
        if key.endswith(".url"):  # of an archive; the rest is about the one at that URL
            rest = {f"{key.removesuffix('url')}{name}" for name in ("folder", "sha256", "commit", "ref")}
            for other in sorted(rest - found.proposals.keys()):
                _put(found, values, other, None)
    line = ".".join(map(str, Version(found.release).release[:2]))
    above: Any = found.base.document.get("facts", {})
    # A list is written as a whole, so what the base says of its other values has to be said again.
    lists = [f"components.{name}.source.configure_time" for name in values["components"]]
    facts: dict[str, Any] = {key: above[key] for key in lists if key in above and look_up(values, key)}
    facts |= {
        key: {"source": item["source"], **found.doubt(key)}
        for key, item in found.proposals.items() if item["changed"] and key != "release"
    }  # fmt: skip
    facts |= {
        key: {"source": source, "confidence": "unknown", "note": note}
        for key, (source, note) in found.unknown.items()
    }
    recipe = {
        "schema": 1,
        "name": found.release if line == base.name else line,
        "title": f"PyTorch {found.release}, pins looked up upstream",
        "extends": base.name,
        "release": found.release,
        "components": values["components"],
        **({"facts": facts} if facts else {}),
    }
    text = yaml.safe_dump(recipe, sort_keys=False, allow_unicode=True, width=4096)
    return _MARK.sub(r"\1# renovate: \2", text)


def _put(found: _Bump, values: dict[str, Any], key: str, value: str | None) -> None:
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
