"""The lock as data, and how two of them differ: every input of a build, and the machine it was made on.

A lock has nothing incidental: no path, time, user or host name, no credentials. docs/how-to/lock.md explains
the policy "compatible": a build uses oneAPI and compilers of this machine; a lock cannot install them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from xpubuild.engine.fingerprint import digest
from xpubuild.frozen import frozen
from xpubuild.install.options import Policy

ObjectId = Annotated[str, Field(pattern=r"^([0-9a-f]{40}|[0-9a-f]{64})$")]
Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Hash = Annotated[str, Field(pattern=r"^[a-z0-9_]+:[0-9a-f]{32,128}$")]
_MOST_LISTED = 4


class Strict(BaseModel):
    """Base of all parts: no unknown key, no value of another type, nothing changed afterwards."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    @property
    def key(self) -> str:
        """The name of this part among others of a list."""
        return str(
            getattr(self, "component", None) or getattr(self, "path", None) or getattr(self, "url", "")
        )


class RecipePart(Strict):
    """Which recipe; ``parts`` are digests of its sections, so that a changed one can be named."""

    name: str
    digest: Sha256
    parts: dict[str, str]


class PythonChoice(Strict):
    """The interpreter: its version as major.minor, and the range that the recipe allows."""

    version: Annotated[str, Field(pattern=r"^[0-9]+\.[0-9]+$")]
    range: str


class Options(Strict):
    """What was asked for, nothing left open. ``flags`` keep their placeholders such as {env}."""

    target: Literal["xpu", "cpu"]
    variant: str | None
    arch: tuple[str, ...]
    cxx11_abi: Literal[0, 1]
    components: tuple[str, ...]
    env: Literal["venv", "conda"]
    python: PythonChoice
    flags: dict[str, dict[str, str]]


class Submodule(Strict):
    """One submodule at any depth; ``path`` is below the repository that the component is built from."""

    path: str
    url: str
    commit: ObjectId
    tree: ObjectId


class ConfigureTime(Strict):
    """A repository that the build clones while it configures; ``asked_for`` is the word it gives to git."""

    url: str
    path: str | None
    asked_for: str
    commit: ObjectId
    tree: ObjectId
    submodules: tuple[Submodule, ...]


class Repository(Strict):
    """The source of a component: from ``url``, or ``embedded`` in xpubuild."""

    url: str | None = None
    embedded: str | None = None
    ref: str | None
    commit: ObjectId
    tree: ObjectId
    submodules: tuple[Submodule, ...]
    configure_time: tuple[ConfigureTime, ...]


class Requirement(Strict):
    """One pin of a requirement file, with the hashes of all its files that an interpreter may pick."""

    name: str
    version: str
    marker: str | None = None
    hashes: tuple[Hash, ...]

    @property
    def key(self) -> str:
        """The name of the distribution, and its marker where it has one."""
        return f"{self.name}; {self.marker}" if self.marker else self.name


class RequirementFile(Strict):
    """A hashed requirement file: the sha256 of its text, and every pin in it."""

    sha256: Sha256
    pins: tuple[Requirement, ...]


class Wheel(Strict):
    """A prebuilt wheel that no requirement file pins; ``hashes`` is None where none are known."""

    component: str
    dist: str
    version: str
    hashes: tuple[Hash, ...] | None


class Python(Strict):
    """Everything that pip installs."""

    requirements: dict[str, RequirementFile]
    wheels: tuple[Wheel, ...]


class Archive(Strict):
    """An archive that the build of a component would download itself.

    Where upstream states no hash, ``sha256`` is that of what was downloaded first.
    """

    component: str
    name: str
    url: str
    sha256: Sha256
    size: int
    hash_from: Literal["upstream", "first download"]

    @property
    def key(self) -> str:
        """The component and the name of the archive."""
        return f"{self.component}.{self.name}"


class CondaPackage(Strict):
    """One package of a conda environment; ``file`` is its URL below the channel."""

    manager: Literal["conda", "pip"]
    name: str
    version: str
    channel: str | None
    file: str
    md5: Annotated[str, Field(pattern=r"^[0-9a-f]{32}$")] | None
    sha256: Sha256 | None

    @property
    def key(self) -> str:
        """The name of the package and who installs it."""
        return self.name if self.manager == "conda" else f"{self.name} (pip)"


class Conda(Strict):
    """The packages of the environment, as conda-lock.yml has them for this platform."""

    packages: tuple[CondaPackage, ...]


class Compiler(Strict):
    """A host compiler by what it says of itself."""

    kind: str
    version: str
    target: str


class Drivers(Strict):
    """The GPU driver: Intel's stream, and the packages of it."""

    family: str | None
    packages: dict[str, str]


class Environment(Strict):
    """The environment difference that oneAPI makes, with {oneapi} for its root."""

    set: dict[str, str]
    unset: tuple[str, ...]
    paths: dict[str, dict[str, tuple[str, ...]]]


class Oneapi(Strict):
    """The oneAPI components that are used, by name, and what their scripts change."""

    components: dict[str, str]
    environment: Environment


class Machine(Strict):
    """What belongs to the machine and cannot be fetched; ``oneapi`` and ``drivers`` only for target xpu."""

    architecture: str
    glibc: str
    python: str
    compilers: dict[str, Compiler]
    drivers: Drivers | None
    oneapi: Oneapi | None


class Lock(Strict):
    """The closed lock. ``plan`` is the lock digest that plan, journal and receipt show."""

    recipe: RecipePart
    plan: Sha256
    options: Options
    repositories: dict[str, Repository]
    python: Python
    conda: Conda | None
    archives: tuple[Archive, ...] = ()
    machine: Machine

    @property
    def digest(self) -> str:
        """The digest of everything but the machine."""
        return digest(self.model_dump(mode="json", exclude={"machine"}))


@frozen
class Difference:
    """One thing that is not what a lock says."""

    path: str
    """Name of the thing, such as repositories.torch.submodules.NAME.commit."""
    old: Any
    """What the lock has; null where it has nothing."""
    new: Any
    """What there is now; null where there is nothing."""
    text: str
    """The difference as a sentence."""


def differences(old: Lock, new: Lock, policy: Policy) -> list[Difference]:
    """Return what differs in the order of the sections; of the machine what does not satisfy ``policy``."""
    one, other = _named(old), _named(new)
    machine, here = one.pop("machine"), other.pop("machine")
    found = list(compare("", one, other))
    if policy == "exact":
        return [*found, *compare("machine", machine, here)]
    return [*found, *_incompatible(old.machine, new.machine)] if policy == "compatible" else found


def compare(name: str, old: Any, new: Any) -> Iterator[Difference]:
    """Yield what differs between two trees of named values; None stands for what is not there."""
    if old is None or new is None or not (isinstance(old, Mapping) and isinstance(new, Mapping)):
        if old != new:
            yield Difference(name, old, new, _sentence(name, old, new))
        return
    for key in dict.fromkeys((*old, *new)):
        yield from compare(f"{name}.{key}" if name else key, old.get(key), new.get(key))


def _named(value: Any) -> Any:
    """Return a part of a lock as mappings: the items of a list by their key."""
    if isinstance(value, BaseModel):
        return {name: _named(getattr(value, name)) for name in type(value).model_fields}
    if isinstance(value, Mapping):
        return {name: _named(item) for name, item in value.items()}
    if isinstance(value, tuple) and any(isinstance(item, Strict) for item in value):
        return {item.key: _named(item) for item in value}
    return value or None if isinstance(value, tuple) else value


def _sentence(name: str, old: Any, new: Any) -> str:
    if isinstance(old, Mapping) or isinstance(new, Mapping):
        return f"{name} is {'not' if old is None else 'only'} in the lock"
    if isinstance(old, tuple) and isinstance(new, tuple) and set(old) != set(new):
        gone = [item for item in old if item not in new]
        came = [item for item in new if item not in old]
        parts = [f"the lock has {_shown(gone)}"] if gone else []
        return f"{name}: {', '.join([*parts, *([f'now there is {_shown(came)}'] if came else [])])}"
    return f"{name}: the lock has {_shown(old)}, now it is {_shown(new)}"


def _shown(value: Any) -> str:
    if isinstance(value, (tuple, list)):
        rest = len(value) - _MOST_LISTED
        return ", ".join(value[:_MOST_LISTED]) + (f" and {rest} more" if rest > 0 else "")
    return "none" if value is None else f"'{value}'" if value == "" else str(value)


def _same(here: str, there: str) -> bool:
    return here == there


def not_older(here: str, there: str) -> bool:
    """Whether a version is the same or newer, by its numbers; an epoch (``1:2.3``) counts first."""
    return here == there or _numbers(here) >= _numbers(there)


def _numbers(version: str) -> tuple[int, ...]:
    epoch, colon, rest = version.rpartition(":")
    numbers = tuple(map(int, re.findall(r"\d+", rest)))
    return (int(epoch) if colon and epoch.isdigit() else 0, *numbers)


def _same_minor(here: str, there: str) -> bool:
    return re.findall(r"\d+", here)[:2] == re.findall(r"\d+", there)[:2]


def _same_compiler(here: str, there: str) -> bool:
    return here.split()[:1] == there.split()[:1] and _numbers(here)[:2] == _numbers(there)[:2]


#: Beginning of a name -> what must hold of (here, lock), and how that is reported.
_COMPATIBLE: Mapping[str, tuple[Callable[[str, str], bool], str]] = {
    "architecture": (_same, "it must be the same"),
    "glibc": (not_older, "it must not be older"),
    "python": (_same_minor, "major and minor version must be the same"),
    "compilers.": (_same_compiler, "kind and major version must be the same"),
    "drivers.family": (_same, "it must be the same"),
    "drivers.packages.": (not_older, "it must not be older"),
    "oneapi.components.": (_same_minor, "major and minor version must be the same"),
}


def _values(machine: Machine) -> dict[str, str]:
    """Return what the policy "compatible" compares, by name."""
    found = {"architecture": machine.architecture, "glibc": machine.glibc, "python": machine.python}
    found |= {f"compilers.{name}": f"{one.kind} {one.version}" for name, one in machine.compilers.items()}
    if machine.drivers is not None:
        found |= {"drivers.family": machine.drivers.family} if machine.drivers.family else {}
        found |= {f"drivers.packages.{name}": one for name, one in machine.drivers.packages.items()}
    if machine.oneapi is not None:
        found |= {f"oneapi.components.{name}": one for name, one in machine.oneapi.components.items()}
    return found


def _incompatible(lock: Machine, here: Machine) -> Iterator[Difference]:
    there = _values(here)
    for name, value in _values(lock).items():
        holds, rule = next(rule for start, rule in _COMPATIBLE.items() if name.startswith(start))
        found = there.get(name)
        if found is None or not holds(found, value):
            text = f"machine.{name}: the lock has {value}, this machine has {found or 'none'}; {rule}"
            yield Difference(f"machine.{name}", value, found, text)
    if lock.oneapi is not None:
        before, after = _variables(lock), _variables(here)
        for variable in sorted(before ^ after):
            place, old = f"machine.oneapi.environment.{variable}", variable if variable in before else None
            where = "in the lock, but not here" if old else "here, but not in the lock"
            text = f"{place} is changed by oneAPI {where}"
            yield Difference(place, old, None if old else variable, text)


def _variables(machine: Machine) -> set[str]:
    if machine.oneapi is None:
        return set()
    environment = machine.oneapi.environment
    return {*environment.set, *environment.unset, *environment.paths}
