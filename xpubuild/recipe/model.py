"""The recipe schema. A recipe is data: what to build, from which pins, with which switches, and the source of
each value.

Unknown keys are errors: a misspelt switch must not be ignored for three hours of compiling. Null is a value
that upstream has but that is unknown: it is listed in ``facts`` with confidence ``unknown``.
"""

from __future__ import annotations

import graphlib
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from xpubuild.recipe.limits import Change, Check, FixedTargets, LargeUnits, Loss, Refusal, Toolkit, UnitMemory
from xpubuild.recipe.values import (
    Below,
    Commit,
    Dist,
    DriverFamily,
    Gib,
    GitUrl,
    GpuFamily,
    Index,
    Name,
    Ref,
    Sha256,
    Specifier,
    Strict,
    Switch,
    Target,
    Variable,
    VersionText,
    Word,
)

SCHEMA = 1


class Fact(Strict):
    """Where a value comes from: a path below the recipe's keys, its source and how sure we are."""

    source: str
    confidence: Literal["verified", "inferred", "unknown"] = "verified"
    note: str = ""


class ConfigureTime(Strict):
    """A repository that the build itself clones while it configures, and where its pin is written down."""

    url: GitUrl
    replaces: GitUrl | None = Field(
        None,
        description="URL that the build clones, for a fork: its pin file is made to name the commit of the"
        " recipe (default: the URL of the extended recipe at the same path, where that is another)",
    )
    path: Below | None = Field(None, description="path below the checkout where the build puts it")
    pin_file: Below | None = Field(None, description="file in the tree that has the commit")
    commit: Commit | None = None
    ref: Ref | None = Field(None, description="tag that the tree requests, if it has no commit")
    when: Literal["always", "xpu"] = "xpu"
    note: str = ""


class GitSource(Strict):
    """A pinned git repository, or sources embedded in xpubuild that are turned into one."""

    url: GitUrl | None = None
    embedded: Literal["ops"] | None = None
    commit: Commit | None = None
    ref: Ref | None = Field(None, description="tag or branch that contains the commit, for people and locks")
    tree: Commit | None = None
    submodules: bool = True
    skip_submodules: list[Below] = Field(
        default_factory=list,
        description="submodules, at any depth, that the build does not use and that are not fetched",
    )
    made_by_build: list[Below] = Field(
        default_factory=list,
        description="paths that the build itself creates in the tree; they do not count as local changes",
    )
    configure_time: list[ConfigureTime] = Field(
        default_factory=list, description="repositories that the build clones while it configures"
    )
    patches: list[Change] = Field(
        default_factory=list, description="changes that are made on the pinned tree, in this order"
    )
    version: VersionText | None = Field(None, description="content of the tree's version.txt")

    @model_validator(mode="after")
    def _one_origin(self) -> GitSource:
        if (self.url is None) == (self.embedded is None):
            raise ValueError("a source needs exactly one of 'url' and 'embedded'")
        if self.patches and (self.url is None or not all(change.known for change in self.patches)):
            raise ValueError("'patches' need a source with 'url', and a 'file' or 'commit' each")
        return self


class Archive(Strict):
    """A file that the build would download itself: fetched and unpacked before it, and handed over."""

    url: GitUrl | None = Field(
        None, description="where upstream's build downloads it; null if that is not known"
    )
    variable: Variable = Field(
        description="environment variable that names the unpacked folder to the build, or"
        " FETCHCONTENT_SOURCE_DIR_NAME, which CMake is told"
    )
    folder: Below = Field(".", description="folder of the archive that the variable names")
    sha256: Sha256 | None = Field(None, description="as upstream states it; null if upstream states none")
    pin_file: Below | None = Field(None, description="file in the tree that states commit or ref")
    commit: Commit | None = Field(None, description="commit that the archive was built from")
    ref: str | None = Field(None, description="version or tag that the tree asks for, if it states no commit")
    gone: str = Field("", description="why it can no longer be downloaded")


class Build(Strict):
    """How a checked-out tree becomes a wheel."""

    requirements: list[str] = Field(
        default_factory=list, description="hashed requirement files next to the recipe"
    )
    env: dict[Variable, Switch] = Field(
        default_factory=dict, description="environment variables of the build"
    )
    arch: dict[Variable, dict[Word, Word]] = Field(
        default_factory=dict,
        description="the build's own names of AOT targets: each table is a further placeholder, and a target"
        " that one of them lacks is refused",
    )
    against: list[Below] | None = Field(
        None,
        description="requirement files beside pyproject.toml; in a copy of the tree, requirements of both on"
        " torch, triton, torchvision and torchaudio are answered by what is installed; null: no copy",
    )
    config_settings: dict[str, str] = Field(default_factory=dict, description="PEP 517 config settings")
    archives: dict[Name, Archive] = Field(
        default_factory=dict, description="files that the build would download itself"
    )
    cxx11_abi: Literal[0, 1] | None = Field(
        None, description="C++ ABI that this build always has; null: that of the whole plan"
    )
    resume: bool = Field(False, description="keep a partly built tree, so that the build tool can resume")
    memory_gib_per_job: Gib = Field(2.0, description="memory that one compiler process may need")
    large_units: list[LargeUnits] = Field(
        default_factory=list, description="sources that need more; they limit the number of jobs"
    )
    unit_memory: list[UnitMemory] = Field(
        default_factory=list, description="what single compilations need; the first that matches counts"
    )
    launcher: list[Target] = Field(
        default_factory=list,
        description="targets for which the launchers of CMake reach all compilers and linkers that need much"
        " memory, so that they can wait for it",
    )
    source_dir: Below = Field(".", description="folder of pyproject.toml or setup.py inside the checkout")
    front_end: Literal["auto", "pip", "setup.py"] = Field(
        "auto", description="how the wheel is built; auto checks the tree: pyproject.toml means pip"
    )
    compile_cache: Literal["cmake", "links"] = Field(
        "cmake",
        description="how a compile cache gets in front of compilers: by CMake's launchers, or by links that"
        " CC and CXX name, for builds that call them without CMake",
    )


class Audit(Strict):
    """What the finished wheel must be."""

    cxx11_abi: bool = Field(True, description="compare the ABI found in the symbols with the requested one")
    forbid_needed: list[str] = Field(
        default_factory=list,
        description="libraries that must not be in NEEDED, of all objects or as OBJECT:LIBRARY",
    )
    allow_missing: list[str] = Field(
        default_factory=list, description="libraries the machine provides at run time"
    )
    require_strings: list[str] = Field(
        default_factory=list, description="the objects must contain one of these"
    )
    device_code: bool = Field(
        False,
        description="built for XPU, the objects must have SYCL kernels, with native code for the AOT targets",
    )


class Component(Strict):
    """One wheel: taken prebuilt, or built from a pinned source."""

    kind: Literal["wheel", "source"]
    dist: Dist
    version: VersionText | None = None
    commit: Commit | None = Field(None, description="commit that a prebuilt wheel was made from")
    requires: list[Word] = Field(
        default_factory=list,
        description="requirements on other distributions that upstream declares, such as torch==2.6.0",
    )
    end_of_life: str | None = Field(None, description="since when upstream no longer maintains it")
    needs: list[Name] = Field(default_factory=list)
    optional: bool = Field(False, description="only built if requested with --with")
    requirements: str | None = Field(
        None,
        description="hashed requirement file of a prebuilt wheel",
    )
    indexes: list[Index] = Field(
        default_factory=list, description="package indexes to use after the configured ones"
    )
    cxx11_abi: Literal[0, 1] | None = Field(None, description="ABI of a prebuilt wheel")
    source: GitSource | None = None
    build: Build = Field(default_factory=Build)
    audit: Audit = Field(default_factory=Audit)
    instead_of: Name | None = Field(
        None,
        description="component that this one is prebuilt in place of: it is taken by default, where its"
        " requirement file has a wheel for the Python, and that one is neither requested nor excluded",
    )
    gives: str = Field("", description="what a build for these targets lacks without the component")
    targets: tuple[Target, ...] = ("xpu", "cpu")
    check: Check | None = Field(None, description="what verify proves of it, where it is required")

    @model_validator(mode="after")
    def _complete(self) -> Component:
        if self.kind == "source" and self.source is None:
            raise ValueError("a component of kind 'source' needs 'source'")
        if self.kind == "wheel" and (self.version is None or self.requirements is None):
            raise ValueError("a component of kind 'wheel' needs 'version' and 'requirements'")
        if self.instead_of is not None and self.kind != "wheel":
            raise ValueError("'instead_of' needs kind 'wheel'")
        return self


class Needs(Strict):
    """What the host must have. Null means that the recipe makes no demand."""

    python: Specifier = ">=3.10"
    gcc: Specifier | None = None
    host_compiler: Literal["GNU", "any"] = "any"
    cmake: Specifier | None = None
    cxx_standard: int | None = Field(None, ge=0, le=99)
    drivers: list[DriverFamily] = Field(
        default_factory=list, description="driver families the release runs with, the tested one first"
    )
    gpus: list[GpuFamily] = Field(default_factory=list, description="GPU families that upstream supports")
    loader: Specifier | None = Field(
        None, description="loader of Level Zero that the SYCL runtime needs where there is a GPU"
    )
    oneapi: Specifier | None = None
    oneapi_components: list[Name] = Field(default_factory=list)
    oneapi_beside_compiler: list[Name] = Field(default_factory=list)
    oneapi_optional: list[Name] = Field(
        default_factory=list, description="components whose scripts are run last, where they are installed"
    )
    disk_gib: Gib = Field(5.0)


class Abi(Strict):
    """The C++ ABI rule: which one is built by default, and whether upstream honours the other."""

    default: Literal[0, 1] = 1
    honoured: bool = False
    note: str = ""


class CondaToolchain(Strict):
    """What an environment of conda packages is solved from, for ``--packages conda``."""

    channels: list[Index] = Field(
        default_factory=list, description="names or URLs without credentials, in order of priority"
    )
    packages: list[Word] = Field(
        default_factory=list,
        description="specifications; {python} is the minor version of Python",
    )


class Toolchain(Strict):
    """Python packages that build, installed with hashes into the workspace's environment."""

    requirements: list[str] = Field(default_factory=list)
    leave_out: list[Name] = Field(
        default_factory=list,
        description=(
            "distributions that are not installed although these files require them: their libraries "
            "would be found before those of oneAPI"
        ),
    )
    mkl: VersionText | None = None
    conda: CondaToolchain | None = None


Amount = Annotated[float, Field(ge=0, le=1e7, allow_inf_nan=False)]


class Cost(Strict):
    """What a step is expected to take before it was done here; without a value nothing is known."""

    core_minutes: dict[Target, Amount] = Field(
        default_factory=dict, description="minutes that one core compiles; divided by the number of jobs"
    )
    sycl_files: Amount | None = Field(None, description="SYCL files that are compiled for XPU beside these")
    sycl_core_minutes: Amount | None = Field(None, description="minutes that one core compiles a SYCL file")
    target_core_minutes: Amount | None = Field(
        None,
        description="minutes that one core compiles the kernels of a SYCL file for one GPU, ahead of time",
    )
    minutes: Amount | None = Field(None, description="minutes that more jobs do not make fewer")
    download_mb: Amount | None = Field(None, description="download in megabytes, with nothing cached")
    disk_mb: Amount | None = Field(None, description="megabytes that it adds to the workspace")


class Verify(Strict):
    """What ``install`` proves at its end."""

    suite: Literal["smoke", "full"] = "smoke"
    require: list[str] = Field(default_factory=list)


class Variant(Strict):
    """A named set of build switches, per component."""

    note: str = ""
    env: dict[Name, dict[Variable, Switch]] = Field(default_factory=dict)


class Recipe(Strict):
    """One line of PyTorch (or the quickstart) with everything a plan needs."""

    schema_: Literal[1] = Field(alias="schema")
    name: Name
    title: str
    extends: str | None = None
    abstract: bool = Field(False, description="can only be extended, not built")
    release: VersionText | None = Field(None, description="torch version; null for a branch")
    patches: dict[str, dict[str, Any]] = Field(
        default_factory=dict,
        description="older patch releases of the line, by version: the differences from the recipe",
    )
    target: Target = "xpu"
    targets: tuple[Target, ...] = ("xpu", "cpu")
    needs: Needs = Field(default_factory=Needs)
    abi: Abi = Field(default_factory=Abi)
    toolchain: Toolchain = Field(default_factory=Toolchain)
    components: dict[Name, Component] = Field(
        default_factory=dict, max_length=50, description="what is built or installed, by name"
    )
    env: dict[Variable, Switch] = Field(default_factory=dict, description="environment of every source build")
    variants: dict[Name, Variant] = Field(default_factory=dict)
    arch: list[Word] = Field(default_factory=list, description="default AOT targets")
    arch_upstream: list[Word] = Field(
        default_factory=list, description="AOT targets that upstream builds by default"
    )
    arch_fixed: list[FixedTargets] = Field(
        default_factory=list, description="kernels whose AOT targets cannot be chosen"
    )
    loses: list[Loss] = Field(default_factory=list)
    refuses: list[Refusal] = Field(default_factory=list)
    toolkits: list[Toolkit] = Field(default_factory=list)
    verify: Verify = Field(default_factory=Verify)
    costs: dict[Name, Cost] = Field(
        default_factory=dict, description="what steps are expected to take, by the id of the step"
    )
    facts: dict[str, Fact] = Field(default_factory=dict, description="source of each value, by dotted path")

    @model_validator(mode="after")
    def _known_names(self) -> Recipe:
        for name, component in self.components.items():
            for need in (*component.needs, component.instead_of or name):
                if need not in self.components:
                    raise ValueError(f"components.{name} needs '{need}', which is not a component")
        for name, variant in self.variants.items():
            for component_name in variant.env:
                if component_name not in self.components:
                    raise ValueError(
                        f"variants.{name}.env lists '{component_name}', which is not a component"
                    )
        _no_circle({name: component.needs for name, component in self.components.items()})
        for name in self.verify.require:
            if name not in self.components:
                raise ValueError(f"verify.require lists '{name}', which is not a component")
        if self.target not in self.targets:
            raise ValueError(f"target '{self.target}' is not among targets {self.targets}")
        return self


def _no_circle(needs: dict[str, list[str]]) -> None:
    try:
        graphlib.TopologicalSorter(needs).prepare()
    except graphlib.CycleError as error:
        raise ValueError(f"components need each other in a circle: {' -> '.join(error.args[1])}") from error


class LoadedRecipe(BaseModel):
    """A recipe with the places it was read from, nearest first; requirement files are looked up there."""

    model_config = ConfigDict(frozen=True)

    recipe: Recipe
    path: Path
    folders: tuple[Path, ...]
    document: dict[str, object]
