"""The external inputs of a build: the list that fetch, lock and the offline check use. Pure."""

from __future__ import annotations

from xpubuild.frozen import frozen
from xpubuild.install import archive_steps
from xpubuild.install.context import Context
from xpubuild.install.planner import requirement_names
from xpubuild.install.source_steps import pin_of
from xpubuild.recipe.model import ConfigureTime
from xpubuild.supply.git.pin import Pin


@frozen
class Repository:
    """A pinned repository of a component; submodules and ``configure_time`` ones are found in its tree."""

    component: str
    pin: Pin
    configure_time: tuple[ConfigureTime, ...] = ()


@frozen
class RequirementFile:
    """A hashed requirement file; ``indexes`` are asked after the ones that pip is configured with."""

    name: str
    text: str
    indexes: tuple[str, ...] = ()


@frozen
class OpenWheel:
    """A prebuilt wheel whose hash nobody has written down: its own ``indexes`` alone are asked."""

    component: str
    dist: str
    version: str
    indexes: tuple[str, ...]


@frozen
class Archive:
    """An archive that a build would download itself.

    ``url`` is None where nobody knows it before the build, ``sha256`` where upstream states none.
    """

    component: str
    name: str
    url: str | None
    sha256: str | None = None

    @property
    def key(self) -> str:
        """The name of this archive in a mirror and a lock."""
        return f"{self.component}.{self.name}"


@frozen
class Inputs:
    """Everything a build takes from outside, but for the machine itself; ``embedded`` comes with xpubuild."""

    recipe: str
    python_version: str
    repositories: tuple[Repository, ...]
    embedded: tuple[Repository, ...]
    requirements: tuple[RequirementFile, ...]
    wheels: tuple[OpenWheel, ...]
    archives: tuple[Archive, ...] = ()


def inputs_of(context: Context) -> Inputs:
    """Return the external inputs of the build of ``context``.

    Raises:
        RecipeError: a source has no commit.
    """
    chosen = {name: context.component(name) for name in context.choice.components}
    sources = [(name, source) for name, item in chosen.items() if (source := item.source) is not None
               and item.kind == "source"]  # fmt: skip
    found = {
        name: Repository(
            name,
            pin_of(context, name),
            tuple(item for item in source.configure_time if item.when in ("always", context.choice.target)),
        )
        for name, source in sources
    }
    indexes = {item.requirements: tuple(item.indexes) for item in chosen.values() if item.requirements}
    return Inputs(
        recipe=context.recipe.name,
        python_version=context.facts.python_version,
        repositories=tuple(found[name] for name, source in sources if source.embedded is None),
        embedded=tuple(found[name] for name, source in sources if source.embedded is not None),
        requirements=tuple(
            RequirementFile(name, context.facts.requirements[name], indexes.get(name, ()))
            for name in requirement_names(context.request, context.choice)
        ),
        wheels=tuple(
            OpenWheel(name, item.dist, str(item.version), tuple(item.indexes))
            for name, item in chosen.items()
            if item.kind == "wheel" and item.requirements is None
        ),
        archives=tuple(
            Archive(name, key, item.url, item.sha256)
            for name, _ in sources
            for key, item in sorted(archive_steps.needed(context, name).items())
        ),
    )
