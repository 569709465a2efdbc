"""``conda-lock.yml`` (conda-lock's format, version 1, read and written) and the channels that it names.

Whatever wrote a lock, xpubuild keeps it in one normal form: sorted, without times, paths of input files and
credentials. conda-lock reads it (``conda-lock render``, ``conda-lock install``), and rattler does.
Format: conda-lock's ``lockfile/v1/models.py``.

conda knows two kinds of credentials in a URL: ``https://USER:PASSWORD@HOST/…`` and ``https://HOST/t/TOKEN/…``.
Here logins come from ``.netrc`` alone, and ``.condarc`` is not read.
"""

from __future__ import annotations

import hashlib
import itertools
import re
from collections.abc import Iterable, Mapping
from dataclasses import field
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import BaseModel, Field, ValidationError

from xpubuild.engine.redact import recordable
from xpubuild.errors import RecipeError
from xpubuild.frozen import frozen
from xpubuild.safe_yaml import read_yaml
from xpubuild.supply.archives import Archive

#: The platform of every lock: XPU builds are for 64-bit x86 Linux.
PLATFORM = "linux-64"
#: What a lock may count on, the same on every machine: glibc as in manylinux_2_28, no GPU of NVIDIA.
VIRTUAL = (
    ("__unix", "0", "0"), ("__linux", "5.10", "0"), ("__glibc", "2.28", "0"), ("__archspec", "1", "x86_64"),
)  # fmt: skip
_HEAD = "# conda-lock.yml, format version 1; kept in order by xpubuild, read by conda-lock and rattler.\n"
_FILENAME = r"(?P<name>[^/]+)-(?P<version>[^-/]+)-(?P<build>[^-/]+)(?:\.conda|\.tar\.bz2)"
_URL = re.compile(rf"(?:https?|file)://.*/(?:linux-64|noarch)/(?P<filename>{_FILENAME})")
_TOKEN = re.compile(r"/t/[^/]+(?=/|$)")
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*(/[A-Za-z0-9_.-]+)*")
_CHANNEL = re.compile(r"file:///\S+|https?://(?:[A-Za-z0-9_.-]+|\[[0-9a-fA-F:.]+\])(?::\d+)?(?:/\S*)?")


def without_credentials(url: str) -> str:
    """Return a URL without user, password, token, query and fragment."""
    bare = recordable(url)
    # A folder of this machine may well be named "t".
    return bare if bare.startswith("file:") else _TOKEN.sub("", bare, count=1)


def resolve(names: Iterable[str]) -> tuple[str, ...]:
    """Return the channels of a recipe or command line, in order, each once.

    Raises:
        RecipeError: one is neither name, folder nor URL, or has a login.
    """
    return tuple(dict.fromkeys(map(_address, names)))


def _address(text: str) -> str:
    """Return a channel as a tool is given it: a URL (of a folder too), or a name that the tool looks up."""
    given = text.strip()
    if given.startswith(("/", "./", "../", "~")):
        return Path(given).expanduser().absolute().as_uri()
    shown = without_credentials(given) if "://" in given else given
    if shown != given:
        raise RecipeError(
            f"the conda channel {shown} has a login or a token in its URL",
            why="it would be in locks, plans and logs",
            fix="put the login into .netrc, and pass the URL without it",
        )
    if _NAME.fullmatch(given) or _CHANNEL.fullmatch(given):
        return given.rstrip("/")
    raise RecipeError(
        f"'{shown}' is not a conda channel",
        why="a channel is a name such as conda-forge, a folder, or a URL with http, https or file",
        fix="correct it in the recipe's toolchain.conda.channels or in --conda-channel",
    )


@frozen
class CondaPackage:
    """One package archive of a lock.

    ``dependencies`` are package name -> version constraint ('' for any), virtual packages (``__glibc``)
    among them. ``url`` carries no credentials.
    """

    name: str
    version: str
    build: str
    filename: str
    url: str
    sha256: str
    md5: str
    dependencies: Mapping[str, str] = field(default_factory=dict, hash=False)

    @property
    def subdir(self) -> str:
        """``linux-64`` or ``noarch``."""
        return self.url.rsplit("/", 2)[-2]

    @property
    def channel(self) -> str:
        """URL of the channel, without a slash at its end."""
        return self.url.rsplit("/", 2)[0]

    @property
    def title(self) -> str:
        """Name and version, for messages."""
        return f"{self.name} {self.version}"

    @property
    def archive(self) -> Archive:
        """What is fetched."""
        return Archive(self.name, self.url, self.sha256, version=self.version)


@frozen
class CondaLock:
    """A lock: packages by name, and the channels that were asked."""

    packages: tuple[CondaPackage, ...]
    channels: tuple[str, ...]
    content_hash: str

    @property
    def digest(self) -> str:
        """One number for what the lock installs."""
        lines = sorted(f"{item.filename} {item.sha256}" for item in self.packages)
        return hashlib.sha256("\n".join(lines).encode()).hexdigest()

    @property
    def python(self) -> str:
        """The version of Python in the lock.

        Raises:
            RecipeError: it has none.
        """
        for package in self.packages:
            if package.name == "python":
                return package.version
        raise RecipeError(
            "the conda lock has no python",
            why="everything else is installed into and built with the environment's Python",
            fix="add python to the recipe's toolchain.conda.packages",
        )


class _Hash(BaseModel):
    md5: str = Field(pattern="^[0-9a-f]{32}$")
    sha256: str = Field(pattern="^[0-9a-f]{64}$")


class _Package(BaseModel):
    name: str = Field(pattern=r"^[a-z0-9_][a-z0-9_.+-]*$")
    version: str = Field(pattern=r"^[A-Za-z0-9_.+!-]+$")
    manager: Literal["conda"]
    platform: str
    dependencies: dict[str, str] = Field(default_factory=dict)
    url: str
    hash: _Hash


class _Meta(BaseModel):
    content_hash: dict[str, str]
    channels: list[dict[str, Any]]
    platforms: list[str]


class _Document(BaseModel):
    version: Literal[1]
    metadata: _Meta
    package: list[_Package]


def read_lock(text: str, *, name: str = "conda-lock.yml") -> CondaLock:
    """Return what a lock holds for this platform, by name.

    Raises:
        RecipeError: it is no conda-lock.yml of version 1, is for other platforms only, has a package twice,
            without SHA-256 or of pip, or an address that names no package.
    """
    try:
        document = _Document.model_validate(read_yaml(text))
    except yaml.YAMLError as error:
        raise _invalid(name, str(error).replace("\n", " ")) from error
    except ValidationError as error:
        first = error.errors()[0]
        raise _invalid(name, f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from error
    packages = [_package(entry, name) for entry in document.package if entry.platform == PLATFORM]
    names = sorted(item.name for item in packages)
    if not packages:
        raise _invalid(name, f"it has no packages for {PLATFORM}")
    if twice := [one for one, other in itertools.pairwise(names) if one == other]:
        raise _invalid(name, f"{twice[0]} is listed twice")
    urls = [str(item.get("url", "")) for item in document.metadata.channels]
    return CondaLock(
        packages=tuple(sorted(packages, key=lambda item: item.name)),
        channels=tuple(without_credentials(url) if "://" in url else url for url in urls),
        content_hash=document.metadata.content_hash.get(PLATFORM, ""),
    )


def write_lock(lock: CondaLock) -> str:
    """Return the text of a lock; the same lock gives the same bytes."""
    metadata: dict[str, Any] = {
        "content_hash": {PLATFORM: lock.content_hash},
        "channels": [{"url": url, "used_env_vars": []} for url in lock.channels],
        "platforms": [PLATFORM], "sources": [],
    }  # fmt: skip
    packages = [
        {
            "name": item.name, "version": item.version, "manager": "conda", "platform": PLATFORM,
            "dependencies": dict(sorted(item.dependencies.items())), "url": item.url,
            "hash": {"md5": item.md5, "sha256": item.sha256}, "category": "main", "optional": False,
        }
        for item in sorted(lock.packages, key=lambda item: item.name)
    ]  # fmt: skip
    document = {"version": 1, "metadata": metadata, "package": packages}
    return _HEAD + yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=4096)


def _package(entry: _Package, name: str) -> CondaPackage:
    url = without_credentials(entry.url)
    found = _URL.fullmatch(url)
    if found is None:
        raise _invalid(name, f"{url} is not the address of a package archive")
    filename = found["filename"]
    if (found["name"], found["version"]) != (entry.name, entry.version):
        raise _invalid(name, f"{filename} is not {entry.name} {entry.version}, which the entry is for")
    parts = (entry.name, entry.version, found["build"], filename, url)
    return CondaPackage(*parts, entry.hash.sha256, entry.hash.md5, entry.dependencies)


def _invalid(name: str, why: str) -> RecipeError:
    fix = "create the lock again, with the SHA-256 of every package; pip's packages are for requirement files"
    return RecipeError(f"{name} cannot be used", why=why, fix=fix)
