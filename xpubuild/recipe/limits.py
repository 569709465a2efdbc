"""What a release lacks, refuses, does of its own accord or needs much memory for, and with which oneAPI
upstream builds it.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from xpubuild.recipe.values import (
    Commit,
    DriverFamily,
    Gib,
    GpuFamily,
    Index,
    Name,
    Sha256,
    Specifier,
    Strict,
    Target,
)


class Loss(Strict):
    """A feature that is missing where a condition holds; the build succeeds all the same."""

    when: dict[Literal["gcc", "oneapi", "python"], Specifier] = Field(default_factory=dict)
    driver: DriverFamily | None = None
    targets: tuple[Target, ...] = Field(("xpu",), description="targets that have the feature at all")
    gpu: GpuFamily | None = None
    feature: str
    note: str = ""


class Refusal(Strict):
    """A combination that is known not to work although each part alone satisfies ``needs``."""

    when: dict[Literal["gcc", "oneapi", "python"], Specifier] = Field(default_factory=dict)
    driver: DriverFamily | None = None
    gpu: GpuFamily | None = None
    targets: tuple[Target, ...] = ("xpu", "cpu")
    why: str


class FixedTargets(Strict):
    """Kernels that a build compiles for AOT targets of its own, whatever is requested."""

    what: str = Field(description="what they are")
    targets: list[str] = Field(description="the AOT targets that ocloc is given")
    when: dict[Literal["gcc", "oneapi", "python"], Specifier] = Field(
        default_factory=dict, description="versions with which they are compiled"
    )
    unless: list[str] = Field(
        default_factory=list, description="requested AOT targets with which they are compiled for these"
    )
    instead: str = Field("", description="how to build without them, and what is lost")


class Check(Strict):
    """What ``verify --require`` proves of an installed component."""

    package: str = Field(pattern=r"^[A-Za-z_]\w*$", description="Python package that is imported")
    run: list[str] = Field(
        default_factory=list,
        description="Python statements, of one line each, that run on the device with the names `torch` and"
        " `device`; one that raises an exception is a failure",
    )


class LargeUnits(Strict):
    """Sources of a build that need far more memory than the rest, and on which machines they are compiled."""

    what: str
    gib_each: Gib = Field(description="memory that most sources need")
    gib_largest: Gib = Field(description="memory that the largest source needs")
    targets: tuple[Target, ...] = ("xpu",)
    gcc: Specifier | None = Field(None, description="host compilers that can compile them")


class UnitMemory(Strict):
    """Memory of certain compilations and links, for as long as none of them was measured."""

    match: str = Field(min_length=1, description="part of the path of the object or library that is made")
    gib: Gib = Field(description="memory that one of them may need")


class Change(Strict):
    """A change of a source tree, made on its pin: a patch file beside the recipe, or a commit upstream."""

    what: str = Field("", description="what it does")
    action: Literal["apply", "revert"] = Field(
        "apply", description="whether the change is added or taken back"
    )
    commit: Commit | None = Field(None, description="commit of the repository that made the change upstream")
    file: str | None = Field(None, description="patch file beside the recipe, as git diff writes it")
    sha256: Sha256 | None = Field(None, description="hash of that file")
    into: str = Field(
        "",
        description="the tree it is for: the path of a repository that the build clones (configure_time)"
        " with its commit in a pin file; empty for the component's own",
    )

    @model_validator(mode="after")
    def _one_origin(self) -> Change:
        if (self.file is None) != (self.sha256 is None):
            raise ValueError("'file' and 'sha256' belong together")
        if self.file is not None and (self.commit or self.action == "revert"):
            raise ValueError("a change is a 'file', which is applied, or a 'commit'")
        if self.file is not None and (self.file.startswith("/") or ".." in self.file.split("/")):
            raise ValueError("'file' is a path below the folder of the recipe")
        return self

    @property
    def known(self) -> bool:
        """Whether it can be made: the recipe has its commit or file."""
        return self.commit is not None or self.file is not None


class Patch(Change):
    """A change without which a component does not build with a line of oneAPI."""

    component: Name = Field("torch", description="the component whose sources are changed")
    url: Index = Field(description="the change upstream")


class Toolkit(Strict):
    """How upstream stands to a line of oneAPI. Whether the driver runs the result is another question."""

    oneapi: Specifier = Field(description="versions of the line")
    standing: Literal["pairing", "tolerated", "patched"] = Field(
        description="upstream builds the release with it, it builds it too, or it does so only with patches"
    )
    source: str = Field(description="where upstream says or does so")
    note: str = Field("", description="what else is to know")
    patches: list[Patch] = Field(default_factory=list, description="the changes that it needs")

    @model_validator(mode="after")
    def _patches_where_needed(self) -> Toolkit:
        if (self.standing == "patched") != bool(self.patches):
            raise ValueError("'patches' belong to a toolkit with standing 'patched', and it needs them")
        return self
