"""What an install is asked for, and what is known about the host: the two inputs of the planner."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from xpubuild.recipe.model import LoadedRecipe, Target
from xpubuild.recipe.situation import Situation

#: What the environment of a workspace is made of.
EnvKind = Literal["venv", "conda"]


@dataclass(frozen=True)
class Request:
    """The options of ``plan`` and ``install``, checked for form but not yet against the recipe."""

    loaded: LoadedRecipe
    workspace: Path
    with_: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    cxx11_abi: int | None = None
    target: Target | None = None
    variant: str | None = None
    arch: tuple[str, ...] = ()
    editable: bool = False
    allow_dirty: bool = False


@dataclass(frozen=True)
class OneapiFacts:
    """The oneAPI environment as captured: what it adds to a build's environment, and what it is.

    ``compiler_version`` is what icpx itself says, which counts more than the name of its folder.
    """

    env: Mapping[str, str] = field(default_factory=dict)
    path_prefix: tuple[str, ...] = ()
    difference: Mapping[str, Any] = field(default_factory=dict)
    digest: str = ""
    compiler_version: str | None = None
    components: tuple[Mapping[str, Any], ...] = ()
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True)
class Compilers:
    """The host compilers: full paths, the version to show, what fingerprints carry, gcc, clang or icx."""

    cc: str
    cxx: str
    version: str
    key: Mapping[str, str] = field(default_factory=dict)
    kind: str | None = None


@dataclass(frozen=True)
class Resolved:
    """A commit that the recipe leaves open, and where and when it was looked up."""

    ref: str
    commit: str
    url: str
    when: str

    def to_json(self) -> dict[str, str]:
        """Return it as the receipt shows it."""
        return {"ref": self.ref, "commit": self.commit, "url": self.url, "when": self.when}


@dataclass(frozen=True)
class Supply:
    """Where sources and packages come from: a mirror folder first, and the network unless ``offline``.

    ``pip`` is what that means for pip's environment. None of it changes what is built: no fingerprint has it.
    """

    mirror: Path | None = None
    offline: bool = False
    pip: Mapping[str, str] = field(default_factory=dict)

    def environment(self) -> dict[str, str]:
        """Return what tells xpubuild's own commands of it."""
        mirror = {"XPUBUILD_MIRROR": str(self.mirror)} if self.mirror is not None else {}
        return {**mirror, "XPUBUILD_OFFLINE": "1"} if self.offline else mirror


@dataclass(frozen=True)
class Facts:
    """What the planner may know of the host; gathered beforehand, so that planning does no I/O.

    ``requirements`` maps the names of hashed requirement files to their text; ``dirty`` maps a component to
    the digest of the user's edits in its checkout, where building with edits was asked for. ``situation`` is
    what the constraint solver is told of the host, ``chosen`` why this recipe, where none was named.
    ``resolved`` maps a component to the commit that was looked up for it; ``warnings`` are for the user.
    ``supply`` says where sources and packages come from, ``conda_lock`` of which conda packages the
    environment is made (the text of a conda-lock.yml); None for a virtual environment.
    """

    python: str
    python_version: str
    compilers: Compilers
    jobs: int
    jobs_reason: str
    cache: Path
    requirements: Mapping[str, str]
    oneapi: OneapiFacts | None = None
    dirty: Mapping[str, str] = field(default_factory=dict)
    embedded_commits: Mapping[str, str] = field(default_factory=dict)
    resolved: Mapping[str, Resolved] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    situation: Situation | None = None
    chosen: str = ""
    supply: Supply = Supply()
    conda_lock: str | None = None


@dataclass(frozen=True)
class Layout:
    """Where things are in a workspace (docs/reference/workspace.md)."""

    root: Path

    @property
    def env(self) -> Path:
        """The Python environment that is built into."""
        return self.root / "env"

    @property
    def python(self) -> Path:
        """The interpreter of that environment."""
        return self.env / "bin" / "python"

    @property
    def src(self) -> Path:
        """The checkouts, one folder per component."""
        return self.root / "src"

    @property
    def build(self) -> Path:
        """Build trees and scratch files."""
        return self.root / "build"

    @property
    def wheels(self) -> Path:
        """The finished, audited wheels."""
        return self.root / "wheels"

    @property
    def logs(self) -> Path:
        """One log per step, the one before as ``.log.1``."""
        return self.root / "logs"

    @property
    def journal(self) -> Path:
        """The journal database."""
        return self.root / "journal.db"

    @property
    def receipt(self) -> Path:
        """The receipt of the last install."""
        return self.root / "receipt.json"

    @property
    def resolved(self) -> Path:
        """Commits of branches and tags that were looked up for this workspace, and are kept for it."""
        return self.root / "resolved.json"

    @property
    def verify_report(self) -> Path:
        """The document of the last verify."""
        return self.build / "verify.json"

    def pip_report(self, step: str, requirements: str) -> Path:
        """Return where pip says what it installed of a requirements file in a step; that folder exists."""
        return self.build / "requirements" / f"{step}+{requirements}.installed.json"

    def pip_reports(self, step: str) -> list[Path]:
        """Return the reports of a step that are there."""
        return sorted((self.build / "requirements").glob(f"{step}+*.installed.json"))

    def site_packages(self, python_version: str) -> Path:
        """Return the site-packages of the environment for a version such as 3.11.7."""
        major, minor = python_version.split(".")[:2]
        return self.env / "lib" / f"python{major}.{minor}" / "site-packages"


@dataclass(frozen=True)
class Choice:
    """The request after it met the recipe: nothing left open, nothing contradictory."""

    target: Target
    cxx11_abi: int
    components: tuple[str, ...]
    variant: str | None
    arch: tuple[str, ...]
    switches: Mapping[str, Mapping[str, str]]
