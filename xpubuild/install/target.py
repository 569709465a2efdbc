"""The target of an install: what was chosen of a recipe, and all that is known of this machine for it.

``choose`` makes a ``Choice`` of options and recipe without a look at the machine; ``resolve`` adds what the
machine says, once. Everything after that, from the plan to the receipt, reads the ``Target`` alone.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import field
from pathlib import Path
from typing import Any

from xpubuild.engine.model import Plan
from xpubuild.frozen import frozen
from xpubuild.install.options import Options, Resolved
from xpubuild.recipe.model import Component, GitSource, LoadedRecipe, Recipe
from xpubuild.recipe.situation import Situation, Verdict
from xpubuild.recipe.values import Target as Device
from xpubuild.supply.caching import CompileCache
from xpubuild.supply.depot.keeping import Store
from xpubuild.supply.git.own_tree import OwnTree
from xpubuild.supply.git.patches import Patched
from xpubuild.workspace.layout import Layout


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

    def over(self, base: Mapping[str, str]) -> dict[str, str]:
        """Return an environment with that of oneAPI over it."""
        return {**base, **self.env, "PATH": os.pathsep.join((*self.path_prefix, base["PATH"]))}


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
class Downloads:
    """Where sources and packages come from: a mirror folder first, and the network unless ``offline``.

    ``pip`` is what that means for pip's environment. None of it changes what is built: no fingerprint has it.
    """

    mirror: Path | None = None
    offline: bool = False
    pip: Mapping[str, str] = field(default_factory=dict)

    def environment(self) -> dict[str, str]:
        """Return the options that pass it to xpubuild's own commands."""
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

    def summary(self) -> str:
        """Return it in words, "" where nothing is known of the host."""
        if self.uv is None:
            return f"pip ({self.why})" if self.why else ""
        how = "linked" if self.links else "copied, on another file system,"
        return f"uv {self.version} ({how} from {self.cache}), pip where it fails"


@frozen
class Choice:
    """The options applied to the recipe: complete and consistent."""

    options: Options
    loaded: LoadedRecipe
    layout: Layout
    device: Device
    cxx11_abi: int
    components: tuple[str, ...]
    variant: str | None
    arch: tuple[str, ...]
    switches: Mapping[str, Mapping[str, str]]

    @property
    def recipe(self) -> Recipe:
        """The recipe that is planned."""
        return self.loaded.recipe

    def component(self, name: str) -> Component:
        """Return a component of the recipe."""
        return self.recipe.components[name]

    def own(self, name: str) -> Path | None:
        """Return the folder of the user that a component is built from, None where it is its pin."""
        return self.options.source_dir.get(name)

    def tree(self, name: str) -> Path:
        """Return where a component is built: its checkout, or somebody's own tree, or the copy of that."""
        own = self.own(name)
        if own is None:
            return self.layout.src / name
        return own if self.options.editable else self.layout.build / "copies" / name

    def notes(self, name: str) -> Path | None:
        """Return the folder for notes about a tree of somebody's own that is used in place."""
        return self.layout.build / "in-place" / name if self.own(name) and self.options.editable else None

    def requirement_names(self) -> tuple[str, ...]:
        """Return the hashed requirement files that the chosen components and tools need."""
        chosen = map(self.component, self.components)
        own = [file for item in chosen for file in (item.requirements, *item.build.requirements) if file]
        return tuple(dict.fromkeys((*self.recipe.toolchain.requirements, *own)))


@frozen
class Target(Choice):
    """What is built, on this machine. Found once; the planner reads nothing else.

    ``requirements`` maps the names of hashed requirement files to their text; ``dirty`` maps a component to
    the digest of the user's edits in its checkout, where building with edits was asked for, and ``trees`` to
    what was found there. ``situation`` is
    what the constraint solver gets about the host and ``verdict`` its answer, ``why`` says why this recipe,
    where none was named. ``resolved`` maps a component to the commit that was looked up for it,
    ``patched`` a commit that patches of the recipe gave to its base.
    ``conda_lock`` is the text of the conda-lock.yml; None for a virtual environment. With
    ``admission``, compilers wait for memory. ``cores`` is how many this process may use, None where that is
    unknown. ``no_compile_cache`` says why builds get none though one is installed.
    ``host`` is the report of the host. ``stores`` of wheels are in the order they are asked.
    """

    python: str = ""
    python_version: str = ""
    compilers: Compilers = Compilers("", "", "0")
    jobs: int = 1
    jobs_reason: str = ""
    cache: Path = Path()
    requirements: Mapping[str, str] = field(default_factory=dict)
    oneapi: OneapiFacts | None = None
    dirty: Mapping[str, str] = field(default_factory=dict)
    trees: Mapping[str, OwnTree] = field(default_factory=dict)
    resolved: Mapping[str, Resolved] = field(default_factory=dict)
    patched: Mapping[str, Patched] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    situation: Situation = Situation()
    verdict: Verdict = Verdict("unknown", "unknown")
    why: str = ""
    downloads: Downloads = Downloads()
    installer: Installer = Installer()
    conda_lock: str | None = None
    compile_cache: CompileCache | None = None
    no_compile_cache: str = ""
    admission: Admission | None = None
    cores: int | None = None
    host: Mapping[str, Any] = field(default_factory=dict)
    stores: tuple[Store, ...] = ()

    @property
    def site_packages(self) -> Path:
        """The site-packages of the environment that is built into."""
        return self.layout.site_packages(self.python_version)

    def pinned(self, name: str) -> GitSource | None:
        """Return the source of a component, with the commit that was looked up where the recipe has none."""
        source = self.component(name).source
        found = self.resolved.get(name)
        if source is None or source.commit is not None or found is None:
            return source
        return source.model_copy(update={"commit": found.commit})

    def requirement_path(self, name: str) -> Path:
        """Return where the text of a requirement file is put for pip to read."""
        return self.layout.build / "requirements" / Path(name).name

    def fill(self, template: str, name: str) -> str:
        """Fill the placeholders that values of a component may carry, its own names of AOT targets too."""
        values = {
            "cxx11_abi": str(self.cxx11_abi),
            "env": str(self.layout.env),
            "arch": ",".join(self.arch),
            "build": str(self.layout.build),
            "xpu": "1" if self.device == "xpu" else "0",
            "target": self.device,
        }
        for key, words in self.component(name).build.arch.items():
            values[key] = ",".join(words[item] for item in self.arch if item in words)
        for key, value in values.items():
            template = template.replace("{" + key + "}", value)
        return template


@frozen
class Prepared:
    """A target and its plan, which needs so much room."""

    target: Target
    plan: Plan
    disk_gib: float
