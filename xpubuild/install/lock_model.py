"""The complete lock as data: every input of a build, and the machine that it was created on.

A lock has nothing incidental: no path, time, user or host name, no credentials. Lists have one order, which
is checked when a lock is made and when it is read. The digest is no part of the model: ``lock_file`` writes
and checks it.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

SCHEMA = "xpubuild.lock/1"
#: Keys of YAML end at 1024 characters; names are part of longer keys.
_LONGEST_NAME = 400

Policy = Literal["exact", "compatible", "ignore"]
ObjectId = Annotated[str, Field(pattern=r"^([0-9a-f]{40}|[0-9a-f]{64})$")]
Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Hash = Annotated[str, Field(pattern=r"^[a-z0-9_]+:[0-9a-f]{32,128}$")]
Name = Annotated[str, Field(min_length=1, max_length=_LONGEST_NAME)]
Short = Annotated[str, Field(pattern=r"^[0-9a-f]{12}$")]


def _sorted(values: tuple[str, ...]) -> tuple[str, ...]:
    _in_order(values)
    return values


def _in_order(keys: Sequence[object]) -> None:
    for one, other in itertools.pairwise(keys):
        if one == other:
            raise ValueError(f"{one!r} is listed twice")
        if str(one) > str(other):
            raise ValueError(f"{other!r} must come before {one!r}")


def _once(values: tuple[str, ...]) -> tuple[str, ...]:
    _in_order(sorted(values))
    return values


Once = Annotated[tuple[Name, ...], AfterValidator(_once)]
Sorted = Annotated[tuple[Name, ...], AfterValidator(_sorted)]
Hashes = Annotated[tuple[Hash, ...], AfterValidator(_sorted)]


class Strict(BaseModel):
    """Base of all parts: no unknown key, no value of another type, nothing changed afterwards."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class RecipePart(Strict):
    """Which recipe; ``parts`` are digests of its sections, so that a changed one can be named."""

    name: Name
    digest: Sha256
    parts: dict[Name, Short]


class PythonChoice(Strict):
    """The interpreter: its version as major.minor, and the range that the recipe allows."""

    version: Annotated[str, Field(pattern=r"^[0-9]+\.[0-9]+$")]
    range: str


class Options(Strict):
    """What was asked for, nothing left open. ``flags`` keep their placeholders such as {env}."""

    target: Literal["xpu", "cpu"]
    variant: Name | None
    arch: tuple[Name, ...]
    cxx11_abi: Literal[0, 1]
    components: Once
    env: Literal["venv", "conda"]
    python: PythonChoice
    flags: dict[Name, dict[Name, str]]


class Submodule(Strict):
    """One submodule at any depth; ``path`` is below the repository that the component is built from."""

    path: Name
    url: str
    commit: ObjectId
    tree: ObjectId

    @property
    def key(self) -> str:
        """The name of this entry."""
        return self.path


class ConfigureTime(Strict):
    """A repository that the build clones while it configures; ``asked_for`` is the word it gives to git."""

    url: Name
    path: Name | None
    asked_for: Name
    commit: ObjectId
    tree: ObjectId
    submodules: tuple[Submodule, ...]

    @property
    def key(self) -> str:
        """The name of this entry: its place in the tree, or its URL where the place is not known."""
        return self.path or self.url

    @model_validator(mode="after")
    def _ordered(self) -> ConfigureTime:
        _in_order([item.path for item in self.submodules])
        return self


class Repository(Strict):
    """The source of a component: from ``url``, or ``embedded`` in xpubuild."""

    url: str | None = None
    embedded: Name | None = None
    ref: Name | None
    commit: ObjectId
    tree: ObjectId
    submodules: tuple[Submodule, ...]
    configure_time: tuple[ConfigureTime, ...]

    @model_validator(mode="after")
    def _ordered(self) -> Repository:
        if (self.url is None) == (self.embedded is None):
            raise ValueError("a repository has exactly one of 'url' and 'embedded'")
        _in_order([item.path for item in self.submodules])
        _in_order([item.key for item in self.configure_time])
        return self


class Requirement(Strict):
    """One pin of a requirement file, with the hashes of all its files that an interpreter may pick."""

    name: Name
    version: Name
    marker: Name | None = None
    hashes: Hashes

    @property
    def key(self) -> str:
        """The name of this entry: that of the distribution, and its marker where it has one."""
        return f"{self.name}; {self.marker}" if self.marker else self.name


class RequirementFile(Strict):
    """A hashed requirement file: the sha256 of its text, and every pin in it."""

    sha256: Sha256
    pins: tuple[Requirement, ...]

    @model_validator(mode="after")
    def _ordered(self) -> RequirementFile:
        _in_order([item.key for item in self.pins])
        return self


class Wheel(Strict):
    """A prebuilt wheel that no requirement file pins; ``hashes`` is None where none are known."""

    component: Name
    dist: Name
    version: Name
    hashes: Hashes | None

    @property
    def key(self) -> str:
        """The name of this entry."""
        return self.component


class Python(Strict):
    """Everything that pip brings."""

    requirements: dict[Name, RequirementFile]
    wheels: tuple[Wheel, ...]

    @model_validator(mode="after")
    def _ordered(self) -> Python:
        _in_order([item.component for item in self.wheels])
        return self


class Archive(Strict):
    """An archive that the build of a component would download itself.

    Where upstream states no hash, ``sha256`` is that of what was downloaded first.
    """

    component: Name
    name: Name
    url: Name
    sha256: Sha256
    size: Annotated[int, Field(ge=0)]
    hash_from: Literal["upstream", "first download"]

    @property
    def key(self) -> str:
        """The name of this entry."""
        return f"{self.component}.{self.name}"


class CondaPackage(Strict):
    """One package of a conda environment; ``file`` is its URL below the channel."""

    manager: Literal["conda", "pip"]
    name: Name
    version: Name
    channel: Name | None
    file: Name
    md5: Annotated[str, Field(pattern=r"^[0-9a-f]{32}$")] | None
    sha256: Sha256 | None

    @property
    def key(self) -> str:
        """The name of this entry."""
        return self.name if self.manager == "conda" else f"{self.name} (pip)"

    @model_validator(mode="after")
    def _hashed(self) -> CondaPackage:
        if self.md5 is None and self.sha256 is None:
            raise ValueError(f"the package {self.name} has neither md5 nor sha256")
        return self


class Conda(Strict):
    """The packages of the environment, as conda-lock.yml has them for this platform."""

    packages: tuple[CondaPackage, ...]

    @model_validator(mode="after")
    def _ordered(self) -> Conda:
        _in_order([item.key for item in self.packages])
        return self


class Compiler(Strict):
    """A host compiler by what it says of itself."""

    kind: Name
    version: Name
    target: Name


class Drivers(Strict):
    """The GPU driver: Intel's stream, and the packages of it."""

    family: Name | None
    packages: dict[Name, str]


class PathChange(Strict):
    """What oneAPI does to one search path."""

    prepend: tuple[str, ...]
    append: tuple[str, ...]
    remove: tuple[str, ...]


class Environment(Strict):
    """The environment difference that oneAPI makes, with {oneapi} for its root."""

    set: dict[Name, str]
    unset: Sorted
    paths: dict[Name, PathChange]


class Oneapi(Strict):
    """The oneAPI components that are used, by name, and what their scripts change."""

    components: dict[Name, str]
    environment: Environment


class Machine(Strict):
    """What belongs to the machine and cannot be fetched; ``oneapi`` and ``drivers`` only for target xpu."""

    architecture: Name
    glibc: str
    python: str
    compilers: dict[Name, Compiler]
    drivers: Drivers | None
    oneapi: Oneapi | None


class Lock(Strict):
    """The closed lock. ``plan`` is the lock digest that plan, journal and receipt show."""

    recipe: RecipePart
    plan: Sha256
    options: Options
    repositories: dict[Name, Repository]
    python: Python
    conda: Conda | None
    archives: tuple[Archive, ...] = ()
    machine: Machine

    @model_validator(mode="after")
    def _ordered(self) -> Lock:
        _in_order([item.key for item in self.archives])
        return self
