"""``xpubuild migrate --json``, and the baseline."""

from __future__ import annotations

from typing import Literal

from typing_extensions import TypedDict


class MigrateFinding(TypedDict):
    """A place that was left as it is."""

    path: str
    line: int
    """In the file as it was."""
    id: str
    level: Literal["finding", "note"]
    """A note needs no change: it has no effect on XPU."""
    text: str
    """The line."""
    reason: str
    alternative: str
    source: str
    """A page about it; may be empty."""


class MigrateFile(TypedDict):
    """A file with changes, or one that does not parse."""

    path: str
    state: Literal["changed", "not parsed"]
    edits: int
    diff: str


class MigrateDocument(TypedDict):
    """What was rewritten, and what is left."""

    schema: Literal["xpubuild.migrate/1"]
    """Name and version."""
    to: Literal["accelerator", "xpu"]
    torch: str
    """The release whose calls were written."""
    written: bool
    """Whether the files have been changed."""
    read: int
    """How many files were read."""
    files: list[MigrateFile]
    findings: list[MigrateFinding]
    """Without those of the baseline."""
    known: int
    """How many are in the baseline."""


class MigrateBaseline(TypedDict):
    """The findings that ``--baseline`` accepts."""

    schema: Literal["xpubuild.migrate-baseline/1"]
    """Name and version."""
    findings: list[str]
    """PATH: ID: TEXT of each; the number of the line is not part of it."""


class Trip(TypedDict):
    """A line of the program that asked for CUDA."""

    call: str
    path: str
    line: int
    count: int


class ProvedProcess(TypedDict):
    """What one process that imported torch did."""

    process: int
    torch: str
    device: str
    """xpu, cuda, or empty where this torch sees no device."""
    error: str
    """The exception that ended it, if one did."""
    memory_bytes: int
    """The most that was allocated on the device."""
    kernels: int
    """How many kernels ran on the device; 0 where it was not profiled."""
    kernel_names: list[str]
    profiled: bool
    """Whether this torch could record kernels; the program's own profile ends that."""
    fallbacks: list[str]
    """Operators that ran on the CPU, as torch warns about them."""
    to_host: int
    """Transfers from the device to the host."""
    trips: list[Trip]


class MigrateProof(TypedDict):
    """What a program did on the device, as ``--prove`` saw it."""

    schema: Literal["xpubuild.migrate-proof/1"]
    """Name and version."""
    command: list[str]
    status: int
    """With which it ended."""
    stand_in: bool
    """Whether the device was Intel's OpenCL CPU device in the place of a GPU."""
    processes: list[ProvedProcess]
