"""The input of the constraint solver (a host and what to build) and its verdict. Data only."""

from __future__ import annotations

from typing import Literal

from xpubuild.frozen import frozen
from xpubuild.machine.versions import Answer
from xpubuild.recipe.values import DriverFamily, GpuFamily, Target

Concern = Literal["builds", "runs", "note"]


@frozen
class Situation:
    """What is there and what is wanted; None (null) is "not known", an empty list is "none there"."""

    target: Target = "xpu"
    gpu: GpuFamily | None = None
    gpu_targets: tuple[str, ...] = ()
    """AOT targets of the detected GPU."""
    driver: DriverFamily | None = None
    loader: str | None = None
    """The version of Level Zero's loader where there is a GPU; each driver family provides a recent one."""
    oneapi: tuple[str, ...] | None = None
    """The versions that could be used, in the order of preference where there is one; so with `python`."""
    python: tuple[str, ...] | None = None
    gcc: str | None = None
    """The host compiler's version where that is GCC."""
    host_compiler: str | None = None
    """What it is, in CMake's words: GNU, Clang, IntelLLVM."""
    cxx11_abi: int | None = None
    arch: tuple[str, ...] | None = None
    """None for the recipe's own choice; so with `components`."""
    components: tuple[str, ...] | None = None
    ocloc_lacks: tuple[str, ...] | None = None
    """AOT targets of this build that the ocloc here does not compile; None where it was not tried."""


@frozen
class Reason:
    """One constraint that is not met, or not known to be met."""

    constraint: str
    """Name of the constraint, such as oneapi or gcc."""
    concern: Concern
    """What it decides; a note decides nothing."""
    answer: Literal["no", "unknown"]
    wanted: str
    """What the release needs."""
    found: str
    """What is here, or was asked for."""
    todo: str = ""
    """What to do about it."""
    source: str = ""
    """Where the constraint is known from."""
    confidence: str = ""
    """How sure we are: verified, inferred or unknown; empty: not stated."""

    @property
    def text(self) -> str:
        """The reason as half a sentence."""
        return f"needs {self.wanted}; {self.found}" if self.wanted else self.found


@frozen
class Lost:
    """A feature that the build would lack."""

    feature: str
    because: str
    """The condition under which it is lacking, with what is here."""
    certain: bool = True
    """False where it is not known whether the condition holds."""

    @property
    def text(self) -> str:
        """The loss as half a sentence."""
        because = f" ({self.because})" if self.because else ""
        return f"{'' if self.certain else 'perhaps '}{self.feature}{because}"


@frozen
class Standing:
    """How upstream stands to the oneAPI that would be used; ``Verdict.runs`` is about the driver."""

    kind: Literal["pairing", "tolerated", "patched"]
    text: str
    """The kind in words."""
    upstream: str
    """What upstream builds the release with; empty where that is not known."""
    note: str = ""
    source: str = ""
    patches: tuple[str, ...] = ()
    """Known changes of the sources without which it does not build."""


@frozen
class Verdict:
    """Whether a release can be built and run, why not, and what it would lack."""

    builds: Answer
    runs: Answer
    reasons: tuple[Reason, ...] = ()
    loses: tuple[Lost, ...] = ()
    oneapi: str | None = None
    """The installed oneAPI that would be used."""
    python: str | None = None
    """The interpreter's version that would be used."""
    toolkit: Standing | None = None
    """Null where there is no oneAPI, or nothing is known of its line."""

    @property
    def refused(self) -> bool:
        """Whether planning must not go on."""
        return "no" in (self.builds, self.runs)

    def against(self) -> tuple[Reason, ...]:
        """Return the reasons that say no."""
        return tuple(item for item in self.reasons if item.answer == "no" and item.concern != "note")

    def open_questions(self) -> tuple[Reason, ...]:
        """Return the reasons that say unknown."""
        return tuple(item for item in self.reasons if item.answer == "unknown" and item.concern != "note")

    def notes(self) -> tuple[Reason, ...]:
        """Return what is worth knowing and decides nothing."""
        return tuple(item for item in self.reasons if item.concern == "note")
