"""What a release lacks, refuses or does of its own accord, and with which oneAPI upstream builds it."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from xpubuild.recipe.values import DriverFamily, GpuFamily, Index, Name, Specifier, Strict, Target


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


class Patch(Strict):
    """A change of a source tree with which sites build it with an older oneAPI; xpubuild does not make it."""

    component: Name = Field("torch", description="the component whose sources are changed")
    action: Literal["apply", "revert"] = Field(description="whether the change is added or taken back")
    url: Index = Field(description="the change upstream")
    what: str = Field(description="what it does")


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
