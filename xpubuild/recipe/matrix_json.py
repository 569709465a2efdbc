"""``xpubuild recipes matrix --json``."""

from __future__ import annotations

from typing import Literal

from typing_extensions import TypedDict

from xpubuild.recipe.situation import Situation, Verdict


class MatrixAbi(TypedDict):
    """The C++11 ABI of a release."""

    default: Literal[0, 1]
    honoured: bool
    """Whether upstream builds the other one when asked."""
    note: str


class MatrixComponent(TypedDict):
    """What goes with a torch."""

    dist: str
    version: str | None
    requires: list[str]
    """Upstream's declared requirements."""
    end_of_life: str | None


class MatrixCondition(TypedDict):
    """A feature that is missing under a condition."""

    feature: str
    when: str
    """The condition in words; empty where it always holds."""
    note: str


class MatrixRefusal(TypedDict):
    """A combination that is known not to work."""

    when: str
    why: str


class MatrixToolkit(TypedDict):
    """How upstream stands to a line of oneAPI."""

    oneapi: str
    standing: Literal["pairing", "tolerated", "patched"]
    """What upstream builds the release with, what builds it too, or what builds it only with patches."""
    note: str
    source: str
    patches: list[str]


class MatrixRelease(TypedDict):
    """One release; null is what upstream does not state or the recipe does not require."""

    release: str
    """The torch version, or the name of the branch."""
    recipe: str
    """What install takes."""
    pinned: bool
    """Whether the commit of torch is in the recipe; otherwise it is looked up upstream, and only where the
    release is asked for by its name."""
    oneapi: str | None
    drivers: list[str]
    """Driver families it runs with, the tested one first."""
    gpus: list[str]
    python: str
    gcc: str | None
    host_compiler: str
    cmake: str | None
    cxx_standard: int | None
    cxx11_abi: MatrixAbi
    arch: list[str]
    """AOT targets that upstream builds by default."""
    components: dict[str, MatrixComponent]
    loses: list[MatrixCondition]
    refuses: list[MatrixRefusal]
    toolkits: list[MatrixToolkit]
    unknown: list[str]
    """Paths of the recipe's values that upstream does not state."""
    verdict: Verdict | None
    """Null where no situation was given."""


class MatrixDocument(TypedDict):
    """The compatibility matrix, newest release first."""

    schema: Literal["xpubuild.matrix/1"]
    """Name and version."""
    situation: Situation | None
    releases: list[MatrixRelease]
