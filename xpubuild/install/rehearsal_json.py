"""``xpubuild rehearse --json``."""

from __future__ import annotations

from typing import Literal

from typing_extensions import TypedDict

from xpubuild.artifacts.cmake_build import SwitchFound
from xpubuild.errors_json import Error


class RehearsalWarning(TypedDict):
    """A warning of the XPU gate: the build would go on, without something that was requested."""

    id: str
    """The rule; docs/reference/gate.md lists them."""
    text: str
    lines: list[str]
    """Upstream's own."""


class SyclGroupPart(TypedDict):
    """The SYCL sources of one CMake target; they share their options."""

    name: str
    """The CMake target."""
    files: int
    sources: list[str]
    aot: list[str]
    """GPUs that device code is compiled for ahead of time, from the generated commands; empty for none."""
    formats: list[str]
    """What -fsycl-targets has: spir64_gen for the GPUs, spir64 for code that is compiled when first used."""
    compiler: str
    host_compiler: str
    host_standard: str | None
    """C++ standard of the host pass; null if no option sets one."""
    device_standard: str | None
    cxx11_abi: int | None
    """What the commands define; null for the compiler's default, 1."""
    preview: list[str]
    """Options that select the preview ABI of the SYCL library."""


class LargeUnitsPart(TypedDict):
    """Sources that need far more memory than the others, where this build compiles them."""

    what: str
    gib_each: float
    gib_largest: float
    files: int


class RehearsalDocument(TypedDict):
    """What a build would make, as its configure step says."""

    schema: Literal["xpubuild.rehearsal/1"]
    """Name and version."""
    xpubuild: str
    created: str
    recipe: str
    release: str | None
    target: str
    workspace: str
    component: str
    """The component that was configured."""
    verdict: Literal["ok", "warnings", "no-xpu", "failed"]
    """no-xpu: the XPU gate stopped it (exit code 53). failed: something else did."""
    error: Error | None
    warnings: list[RehearsalWarning]
    log: str
    build: str | None
    """The folder with what CMake wrote; null if it wrote no build files."""
    duration_s: float | None
    """Of the configure step; null if it did not run to its end."""
    switches: list[SwitchFound]
    """By name; empty if nothing was configured."""
    arch_requested: list[str]
    """The AOT targets of the recipe and of --arch."""
    sycl_files: int
    sycl_groups: list[SyclGroupPart]
    """Largest first."""
    cxx_files: int
    """How many C++ sources the host compiler compiles."""
    host_compiler: str | None
    jobs: int
    """Compile jobs that an install would start."""
    memory_gib_per_job: float
    large_units: list[LargeUnitsPart]
