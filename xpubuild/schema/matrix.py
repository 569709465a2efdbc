"""``xpubuild recipes matrix --json``."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from xpubuild.schema.common import Document, Part

Answer = Literal["yes", "no", "unknown"]


class MatrixReason(Part):
    """One constraint that is not met, or not known to be met."""

    constraint: str = Field(description="Name of the constraint, such as oneapi or gcc.")
    concern: Literal["builds", "runs", "note"] = Field(description="What it decides; a note decides nothing.")
    answer: Literal["no", "unknown"]
    wanted: str = Field(description="What the release needs.")
    found: str = Field(description="What is here, or was asked for.")
    todo: str = Field(description="What to do about it.")
    source: str = Field(description="Where the constraint is known from.")
    confidence: str = Field(description="How sure we are: verified, inferred or unknown; empty: not stated.")


class MatrixLoss(Part):
    """A feature that the build would lack."""

    feature: str
    because: str = Field(description="The condition under which it is lacking, with what is here.")
    certain: bool = Field(description="False where it is not known whether the condition holds.")


class MatrixVerdict(Part):
    """What the constraint solver says of a release in the situation."""

    builds: Answer
    runs: Answer
    oneapi: str | None = Field(description="The installed oneAPI that would be used.")
    python: str | None = Field(description="The interpreter's version that would be used.")
    reasons: list[MatrixReason]
    loses: list[MatrixLoss]


class MatrixAbi(Part):
    """The C++11 ABI of a release."""

    default: Literal[0, 1]
    honoured: bool = Field(description="Whether upstream builds the other one when asked.")
    note: str


class MatrixComponent(Part):
    """What goes with a torch."""

    dist: str
    version: str | None
    requires: list[str] = Field(description="Upstream's declared requirements.")
    end_of_life: str | None


class MatrixCondition(Part):
    """A feature that is missing under a condition."""

    feature: str
    when: str = Field(description="The condition in words; empty where it always holds.")
    note: str


class MatrixRefusal(Part):
    """A combination that is known not to work."""

    when: str
    why: str


class MatrixRelease(Part):
    """One release; null is what upstream does not tell or the recipe makes no demand on."""

    release: str = Field(description="The torch version, or the name of the branch.")
    recipe: str = Field(description="What install takes.")
    oneapi: str | None
    drivers: list[str] = Field(description="Driver families it runs with, the tested one first.")
    gpus: list[str]
    python: str
    gcc: str | None
    host_compiler: str
    cmake: str | None
    cxx_standard: int | None
    cxx11_abi: MatrixAbi
    arch: list[str] = Field(description="AOT targets that upstream builds by default.")
    components: dict[str, MatrixComponent]
    loses: list[MatrixCondition]
    refuses: list[MatrixRefusal]
    unknown: list[str] = Field(description="Paths of the recipe's values that upstream does not tell.")
    verdict: MatrixVerdict | None = Field(description="Null where no situation was given.")


class MatrixSituation(Part):
    """The host and the wish that the verdicts are about; null is not known."""

    target: Literal["xpu", "cpu"]
    gpu: str | None
    gpu_targets: list[str] = Field(description="AOT targets of the GPU.")
    driver: str | None
    oneapi: list[str] | None
    python: list[str] | None
    gcc: str | None
    host_compiler: str | None
    cmake: str | None
    cxx11_abi: int | None
    versions: dict[str, str] = Field(description="Versions of other components, by name.")
    arch: list[str] | None
    components: list[str] | None


class MatrixDocument(Document):
    """The compatibility matrix, newest release first."""

    schema_: Literal["xpubuild.matrix/1"] = Field(alias="schema", description="Name and version.")
    situation: MatrixSituation | None
    releases: list[MatrixRelease]
