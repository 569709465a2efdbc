"""The two inputs of the planner: what an install should do, and what is known about the host."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from pathlib import Path
from typing import Any, Literal

from xpubuild.frozen import frozen
from xpubuild.recipe.model import LoadedRecipe
from xpubuild.recipe.situation import Situation
from xpubuild.recipe.values import Target
from xpubuild.supply.caching import CompileCache

#: What the environment of a workspace is made of.
EnvKind = Literal["venv", "conda"]
#: What is asked to install hashed requirement files.
InstallerKind = Literal["auto", "uv", "pip"]


@frozen
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
    portable: bool = False
    runtime: Path | None = None
    """The site-packages folder that portable wheels take their pins from; None for that of the workspace."""


@frozen
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


@frozen
class Compilers:
    """The host compilers: full paths, the version to show, what fingerprints carry, gcc, clang or icx.

    ``names`` are the programs that a build finds first under these names, where PATH has others; ``config``
    is the text of the configuration file of icx and icpx, where they would take another GCC.
    """

    cc: str
    cxx: str
    version: str
    key: Mapping[str, str] = field(default_factory=dict)
    kind: str | None = None
    names: Mapping[str, str] = field(default_factory=dict)
    config: Mapping[str, str] = field(default_factory=dict)


@frozen
class Resolved:
    """A commit that the recipe leaves open and that upstream was asked for."""

    ref: str
    """Tag or branch of the recipe."""
    commit: str
    url: str
    when: str
    """When it was asked; the workspace keeps it until --update."""


@frozen
class Downloads:
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


@frozen
class Admission:
    """What compilers are admitted by; ``program`` is the text of ``engine.admit``.

    ``own_group`` says that the memory is that of this process's control group, not of the machine.
    ``other_jobs`` is the number of jobs for builds whose compilers have no launcher.
    """

    budget_bytes: int
    own_group: bool
    other_jobs: int
    program: str


@frozen
class Installer:
    """What installs hashed requirement files: the program ``uv``, and pip where that fails; pip alone without
    it.

    ``cache`` is where uv keeps unpacked wheels, ``why`` the reason for pip. What is installed is the same: no
    fingerprint has it.
    """

    uv: str | None = None
    version: str = ""
    cache: Path = Path()
    links: bool = True
    """Whether cache and workspace are on one file system, so that files are linked and not copied."""
    why: str = ""

    def told(self) -> str:
        """Return it as the summary of a plan says it, "" where nothing is known of the host."""
        if self.uv is None:
            return f"pip ({self.why})" if self.why else ""
        how = "linked" if self.links else "copied, on another file system,"
        return f"uv {self.version} ({how} from {self.cache}), pip where it fails"


@frozen
class Facts:
    """What the planner knows about the host; gathered before, so that planning does no I/O.

    ``requirements`` maps the names of hashed requirement files to their text; ``dirty`` maps a component to
    the digest of the user's edits in its checkout, where building with edits was asked for. ``situation`` is
    what the constraint solver is told of the host, ``chosen`` why this recipe, where none was named.
    ``resolved`` maps a component to the commit that was looked up for it; ``warnings`` are for the user.
    ``downloads`` says where sources and packages come from, ``installer`` what installs the latter,
    ``conda_lock`` of which conda packages the environment is made (the text of a conda-lock.yml); None for a
    virtual environment. ``compile_cache_off`` says that builds were asked not to use one. With ``admission``,
    compilers wait for memory. ``makeflags`` tells builds of the jobserver that xpubuild runs below.
    ``cores`` is how many this process may use, None where that is unknown: more jobs wait for each other.
    ``compile_cache_why`` says why a cache that is installed is not used.
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
    resolved: Mapping[str, Resolved] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    situation: Situation | None = None
    chosen: str = ""
    downloads: Downloads = Downloads()
    installer: Installer = Installer()
    conda_lock: str | None = None
    compile_cache: CompileCache | None = None
    compile_cache_off: bool = False
    compile_cache_why: str = ""
    admission: Admission | None = None
    makeflags: str = ""
    cores: int | None = None


@frozen
class Choice:
    """The request resolved against the recipe: complete and consistent."""

    target: Target
    cxx11_abi: int
    components: tuple[str, ...]
    variant: str | None
    arch: tuple[str, ...]
    switches: Mapping[str, Mapping[str, str]]
