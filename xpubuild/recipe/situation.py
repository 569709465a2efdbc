"""A host and a wish, as the constraint solver sees them, and its verdict. Data only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from xpubuild.recipe.model import DriverFamily, GpuFamily, Target

Answer = Literal["yes", "no", "unknown"]
Concern = Literal["builds", "runs", "note"]


@dataclass(frozen=True)
class Situation:
    """What is there and what is wanted; None is "not known", an empty tuple is "none there".

    ``oneapi`` and ``python`` are the versions that could be used, in the order of preference where there is
    one. ``gcc`` is the version of the host compiler where that is GCC; ``host_compiler`` is what it is, in
    CMake's words (GNU, Clang, IntelLLVM). ``cmake`` is None where the build brings its own, which it does.
    ``gpu_targets`` are the AOT targets of the detected GPU. ``versions`` are versions of other components,
    present or wanted, by component name (triton, vision, audio). ``components`` and ``arch`` are None for
    the recipe's own choice.
    """

    target: Target = "xpu"
    gpu: GpuFamily | None = None
    gpu_targets: tuple[str, ...] = ()
    driver: DriverFamily | None = None
    oneapi: tuple[str, ...] | None = None
    python: tuple[str, ...] | None = None
    gcc: str | None = None
    host_compiler: str | None = None
    cmake: str | None = None
    cxx11_abi: int | None = None
    versions: Mapping[str, str] = field(default_factory=dict)
    arch: tuple[str, ...] | None = None
    components: tuple[str, ...] | None = None


@dataclass(frozen=True)
class Reason:
    """One constraint that is not met, or not known to be met.

    ``concern`` is what it decides: whether the release builds, whether it runs, or nothing (a note).
    ``source`` is where the constraint is known from and ``confidence`` how well.
    """

    constraint: str
    concern: Concern
    answer: Literal["no", "unknown"]
    wanted: str
    found: str
    todo: str = ""
    source: str = ""
    confidence: str = ""

    @property
    def text(self) -> str:
        """The reason as half a sentence."""
        return f"needs {self.wanted}; {self.found}" if self.wanted else self.found


@dataclass(frozen=True)
class Lost:
    """A feature that the build will lack; ``certain`` is False where its condition is not known to hold."""

    feature: str
    because: str
    certain: bool = True

    @property
    def text(self) -> str:
        """The loss as half a sentence."""
        because = f" ({self.because})" if self.because else ""
        return f"{'' if self.certain else 'perhaps '}{self.feature}{because}"


@dataclass(frozen=True)
class Verdict:
    """Whether a release can be built and run, why not, and what it would lack.

    ``oneapi`` and ``python`` are those of the installed versions that would be used.
    """

    builds: Answer
    runs: Answer
    reasons: tuple[Reason, ...] = ()
    loses: tuple[Lost, ...] = ()
    oneapi: str | None = None
    python: str | None = None

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
