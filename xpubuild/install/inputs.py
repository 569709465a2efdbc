"""What a build takes from outside, and its repositories: fetched into a store, listed where it lacks them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field
from pathlib import Path

from xpubuild.errors import SourceIntegrityError
from xpubuild.frozen import frozen
from xpubuild.install.choose import needed_archives
from xpubuild.install.source_steps import pin_of
from xpubuild.install.target import Target
from xpubuild.recipe.model import ConfigureTime
from xpubuild.resources import ops_project_dir
from xpubuild.supply.archives import Archive
from xpubuild.supply.depot.entries import RepositoryUse
from xpubuild.supply.git.bare import RepositoryStore
from xpubuild.supply.git.embedded import materialise
from xpubuild.supply.git.git import Report
from xpubuild.supply.git.pin import Pin
from xpubuild.supply.git.serving import ConfigurePin, configure_time_pins, named_commit, remember
from xpubuild.supply.git.submodules import Node, discover

_JOBS = 4


@frozen
class Repository:
    """A pinned repository of a component; submodules and ``configure_time`` ones are found in its tree."""

    component: str
    pin: Pin
    configure_time: tuple[ConfigureTime, ...] = ()
    bases: Mapping[str, str] = field(default_factory=dict)
    """Of patched commits, those they are based on."""


@frozen
class RequirementFile:
    """A hashed requirement file; ``indexes`` are asked after the ones that pip is configured with."""

    name: str
    text: str
    indexes: tuple[str, ...] = ()


@frozen
class Inputs:
    """Everything a build takes from outside, but for the machine itself; ``embedded`` comes with xpubuild.

    ``archives`` are those that a build would download itself, named COMPONENT.NAME; of ``unknown`` ones,
    (component, name), nobody knows the URL before the build.
    """

    recipe: str
    python_version: str
    repositories: tuple[Repository, ...]
    embedded: tuple[Repository, ...]
    requirements: tuple[RequirementFile, ...]
    archives: tuple[Archive, ...] = ()
    unknown: tuple[tuple[str, str], ...] = ()


def embedded(folder: Path, commit: str) -> Pin:
    """Make the repositories of the sources that are included in xpubuild, which are at ``commit``.

    Raises:
        SourceIntegrityError: they are at another.
    """
    made = materialise(ops_project_dir(), folder)
    if made.commit != commit:
        what = f"the embedded sources are at commit {made.commit}, but the recipe pins {commit}"
        why = "the recipe is for another version of xpubuild, or an embedded file was changed"
        raise SourceIntegrityError(what, why=why, fix="reinstall xpubuild, or pin that commit in the recipe")
    return made


def inputs_of(target: Target) -> Inputs:
    """Return the external inputs of the build of a target.

    Raises:
        RecipeError: a source has no commit.
    """
    repositories, carried = list[Repository](), list[Repository]()
    archives, unknown = list[Archive](), list[tuple[str, str]]()
    bases = {item.commit: item.base for item in target.patched.values()}
    indexes: dict[str, tuple[str, ...]] = {}
    for name in target.components:
        component = target.component(name)
        source = component.source
        if component.requirements:
            indexes[component.requirements] = tuple(component.indexes)
        if source is not None and component.kind == "source":
            clones = tuple(item for item in source.configure_time if item.when in ("always", target.device))
            kind = repositories if source.embedded is None else carried
            kind.append(Repository(name, pin_of(target, name), clones, bases))
            for key, item in sorted(needed_archives(target, name).items()):
                if item.url is None:
                    unknown.append((name, key))
                else:
                    archives.append(Archive(f"{name}.{key}", item.url, item.sha256))
    files = tuple(
        RequirementFile(name, target.requirements[name], indexes.get(name, ()))
        for name in target.requirement_names()
    )
    sources = tuple(repositories), tuple(carried), files, tuple(archives), tuple(unknown)
    return Inputs(target.recipe.name, target.python_version, *sources)


@frozen
class Tree:
    """A repository of a build, in the store with its submodules: a component's pin, or a clone of its build.

    ``asked`` is what a build asks for; without ``pin`` its commit is unknown, and ``note`` says why.
    ``fetched`` are the URLs for which the network was asked.
    """

    component: str
    url: str
    pin: Pin | None
    asked: ConfigurePin | None = None
    nodes: tuple[Node, ...] = ()
    fetched: tuple[str, ...] = ()
    base: str | None = None

    @property
    def note(self) -> str:
        """Why the commit is unknown."""
        return self.asked.note if self.asked is not None else ""

    def uses(self) -> Iterator[RepositoryUse]:
        """Yield this repository and its submodules as the set of a fetch names them."""
        asked, pin = self.asked, self.pin
        ref = asked.asked_for if asked and pin and asked.asked_for != pin.commit else None
        place = asked.path or "" if asked is not None else ""
        for node in self.nodes:
            path, own = f"{place}/{node.path}".strip("/"), ref if node.parent is None else None
            yield RepositoryUse(self.component, node.url, node.commit, path, own, asked is not None)
        if self.base is not None:
            yield RepositoryUse(self.component, self.url, self.base, place, None, asked is not None)


def trees(item: Repository, store: RepositoryStore, report: Report) -> Iterator[Tree]:
    """Make the store have a pin with its submodules, and what its build clones; yield one after the other.

    Raises:
        FetchError: one cannot be had; offline, the first one that is missing.
        SourceIntegrityError, RecipeError, NoSpaceError, ToolchainError, InterruptedByUserError.
    """

    def tree(pin: Pin, asked: ConfigurePin | None = None) -> Tree:
        found, base = discover(store, pin, jobs=_JOBS, report=report), item.bases.get(pin.commit)
        if base is not None:
            # Beside the base of a patched commit it shows what was changed.
            store.mirror(pin.url, base).ensure(base, report=report)
        return Tree(item.component, pin.url, pin, asked, found.nodes, found.fetched, base)

    url, commit = item.pin.url, item.pin.commit
    yield tree(item.pin)
    for asked in configure_time_pins(store.git, store.mirror(url, commit).path, commit, item.configure_time):
        if asked.asked_for is None:
            yield Tree(item.component, asked.url, None, asked)
            continue
        named = asked.commit or named_commit(store, asked.url, asked.asked_for)
        yield tree(Pin(url=asked.url, commit=named, ref=asked.ref if asked.ref != named else None), asked)
        if asked.ref is not None:
            remember(store, asked.url, asked.ref, named)


def unknown_archives(inputs: Inputs) -> list[str]:
    """Return what cannot be fetched because nobody knows from where it comes."""
    text = "it is not known from where the build of {} downloads its {}"
    return [text.format(*item) for item in inputs.unknown]
