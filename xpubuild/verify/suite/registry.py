"""The registry of checks: the decorator that declares one, and functions on all of them."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .context import SuiteContext

#: A check of the smoke suite is also part of the full suite.
SMOKE = ("smoke", "full")
FULL = ("full",)
SPEED = ("full", "speed")
DISTRIBUTED = ("full", "distributed")
#: For building images: no check needs a device.
IMAGE = ("image",)
SUITES = ("smoke", "full", "speed", "image", "operators", "distributed")

#: Groups in the order they run; one that is not named here comes last.
GROUPS = (
    "import", "device", "runtime", "aten", "operators", "onednn", "ops", "compile", "model", "workloads",
    "vision", "audio", "profiler", "distributed", "speed", "image", "database",
)  # fmt: skip

#: Groups that only compute run in lanes beside each other on a device with cores to spare, each lane in this
#: order; groups that look at streams, memory or speed have the device for themselves.
LANES = (
    ("operators",),
    ("workloads", "ops", "vision", "audio", "profiler", "distributed"),
    ("compile", "model"),
)
_CORES_FOR_LANES = 8

#: Optional part that ``--require`` may name -> patterns of its checks.
PARTS = {
    "ops": ("ops.*",), "vision": ("vision.*",), "audio": ("audio.*",), "triton": ("compile.triton_*",),
    "ipex": ("import.ipex",),
}  # fmt: skip

#: Group -> packages beside torch without which it cannot run; they are asked for before anything runs.
PACKAGES = {"database": ("numpy", "expecttest", "packaging")}

#: Texts for the status of a needed check.
OUTCOMES = {
    "fail": "which failed",
    "skip": "which was skipped",
    "crash": "which crashed",
    "timeout": "which timed out",
}

CheckFunction = Callable[["SuiteContext"], None]


@dataclass(frozen=True)
class Check:
    """One declared check.

    ``needs`` are ids of checks that must pass first. ``deadline_s`` is the timeout, long enough for a slow
    machine.
    """

    id: str
    title: str
    needs: tuple[str, ...]
    suites: tuple[str, ...]
    deadline_s: float
    function: CheckFunction

    @property
    def group(self) -> str:
        """Return the part of the id before the dot: checks of one group share a process."""
        return self.id.partition(".")[0]


_CHECKS: dict[str, Check] = {}


def check(
    identifier: str,
    title: str,
    *,
    needs: tuple[str, ...] = ("device.availability",),
    suites: tuple[str, ...] = FULL,
    deadline_s: float | None = None,
) -> Callable[[CheckFunction], CheckFunction]:
    """Declare a check; ids are ``group.name``. A second check of the same id is a ValueError.

    Without a deadline of its own it has a minute in the smoke suite, else four.
    """
    deadline = deadline_s or (60.0 if "smoke" in suites else 240.0)

    def register(function: CheckFunction) -> CheckFunction:
        if identifier in _CHECKS:
            raise ValueError(f"two checks have the id {identifier}")
        _CHECKS[identifier] = Check(identifier, title, needs, suites, deadline, function)
        return function

    return register


def forget(*identifiers: str) -> None:
    """Take checks away where they are declared, so that others may have their ids."""
    for identifier in identifiers:
        _CHECKS.pop(identifier, None)


def discover() -> dict[str, Check]:
    """Import every module ``check_*`` of this folder and return all checks by id, in the order to run them.

    A check follows what it needs; groups come in the order of ``GROUPS``, unknown ones last.
    """
    for module in pkgutil.iter_modules([str(Path(__file__).parent)]):
        if module.name.startswith("check_"):
            importlib.import_module(f".{module.name}", __package__)
    return dict(sorted(_CHECKS.items(), key=lambda pair: _rank(pair[1].function.__module__)))


def _rank(module: str) -> tuple[int, str]:
    name = module.rpartition("check_")[2].partition("_")[0]
    return (GROUPS.index(name) if name in GROUPS else len(GROUPS), module)


def closure(
    identifiers: Iterable[str], checks: Mapping[str, Check], left_out: Iterable[str] = ()
) -> list[str]:
    """Return the checks and all that they need but ``left_out``, in the order of ``checks``."""
    wanted: set[str] = set()
    never = set(left_out)
    frontier = list(identifiers)
    while frontier:
        identifier = frontier.pop()
        if identifier not in wanted and identifier not in never:
            wanted.add(identifier)
            frontier.extend(checks[identifier].needs)
    return [identifier for identifier in checks if identifier in wanted]


def turns(groups: Iterable[str], device: str, cores: int) -> list[list[list[str]]]:
    """Return the steps of a run: each has lanes that run at once, each lane groups that follow each other."""
    ordered = list(groups)
    lanes = [[group for group in lane if group in ordered] for lane in LANES]
    laned = {group for lane in lanes for group in lane}
    if device == "cpu" or cores < _CORES_FOR_LANES or not laned:
        return [[[group]] for group in ordered]
    last = max(map(GROUPS.index, laned))
    alone = [group for group in ordered if group not in laned]
    first = [group for group in alone if group in GROUPS and GROUPS.index(group) < last]
    after = [[[group]] for group in alone if group not in first]
    return [*([[group]] for group in first), [lane for lane in lanes if lane], *after]


def blocked_by(check: Check, statuses: Mapping[str, str]) -> str | None:
    """Return why a check cannot run, given the statuses so far; None if it can.

    In a chain of checks that were skipped because of each other, the first one is reported.
    """
    for need in check.needs:
        status = statuses.get(need)
        if status is None or status == "pass":
            continue
        deeper = blocked_by(_CHECKS[need], statuses) if need in _CHECKS else None
        return deeper or f"needs {need}, {OUTCOMES[status]}"
    return None
