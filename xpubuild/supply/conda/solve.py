"""Solves specifications to a lock: with conda-lock, or with py-rattler if there is no conda executable."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from xpubuild.engine.temporary import scratch_folder
from xpubuild.errors import RecipeError, UnsatisfiableError, UsageError
from xpubuild.frozen import frozen
from xpubuild.supply.conda import by_conda_lock, by_rattler, traps
from xpubuild.supply.conda.channels import Channel
from xpubuild.supply.conda.engines import Engines, missing
from xpubuild.supply.conda.libstdcxx import too_old
from xpubuild.supply.conda.lockfile import write_lock
from xpubuild.supply.conda.model import VIRTUAL, CondaLock


@frozen
class Wanted:
    """What is asked for. ``glibcxx`` is the newest symbol version that the machine's driver needs."""

    specs: tuple[str, ...]
    channels: tuple[Channel, ...]
    glibcxx: str | None = None

    def content_hash(self) -> str:
        """Return one number for the question, without credentials."""
        question = [sorted(self.specs), [item.shown for item in self.channels], VIRTUAL]
        return hashlib.sha256(json.dumps(question).encode()).hexdigest()


def spec_name(spec: str) -> str:
    """Return the package name of a specification such as 'conda-forge::cmake >=3.27,<4'.

    Raises:
        RecipeError: there is none.
    """
    name = spec.rpartition("::")[2].strip().split(" ")[0]
    for sign in "=<>!~[":
        name = name.partition(sign)[0]
    if not name:
        raise RecipeError(
            f"'{spec}' is not a conda specification",
            why="it has no package name",
            fix="write 'cmake >=3.27,<4'",
        )
    return name


def make_lock(
    wanted: Wanted,
    engines: Engines,
    *,
    environment: Mapping[str, str],
    cache: Path,
    report: Callable[[str], None],
) -> str:
    """Solve and return the text of a ``conda-lock.yml`` without harmful packages.

    Raises:
        RecipeError: a specification or channel is invalid.
        UnsatisfiableError: no solution, or one that only harmful packages make possible.
        FetchError: a channel cannot be reached, or has no such folder.
        ToolchainError: nothing on this machine can solve.
    """
    if not wanted.specs or not wanted.channels:
        raise UsageError(
            "there is nothing to solve",
            why="the recipe lists no conda packages or no channels",
            fix="add them to the recipe's toolchain.conda, or pass channels with --conda-channel",
        )
    names = [spec_name(spec) for spec in wanted.specs]
    lock = traps.keep_out(_solve(wanted, engines, environment, cache, report), names)
    old = too_old(lock.packages, wanted.glibcxx)
    if old is not None:
        package, gcc = old
        report(f"{package.title} is older than this machine's GPU driver needs: requesting {gcc}")
        more = replace(wanted, specs=(*wanted.specs, f"{package.name} >={gcc}"))
        try:
            again = _solve(more, engines, environment, cache, report)
        except UnsatisfiableError as error:
            raise _only_old(package.title, wanted.glibcxx or "", gcc, error) from error
        lock = traps.keep_out(again, [*names, package.name])
        lock = replace(lock, content_hash=wanted.content_hash())
    return write_lock(lock)


def _solve(
    wanted: Wanted,
    engines: Engines,
    environment: Mapping[str, str],
    cache: Path,
    report: Callable[[str], None],
) -> CondaLock:
    if engines.conda and engines.conda_lock:
        report(f"conda-lock solves with {Path(engines.conda).name}")
        solver = by_conda_lock.solve
    elif engines.rattler:
        report("py-rattler solves")
        solver = by_rattler.solve
    else:
        raise missing("solved", engines)
    cache.mkdir(parents=True, exist_ok=True)
    with scratch_folder("solve", cache) as scratch:
        packages = solver(wanted.specs, wanted.channels, engines, environment, scratch)
    return CondaLock(packages, tuple(item.shown for item in wanted.channels), wanted.content_hash())


def _only_old(title: str, needed: str, gcc: str, error: UnsatisfiableError) -> UnsatisfiableError:
    return UnsatisfiableError(
        f"the conda package {title} is older than this machine needs",
        why=(
            f"the GPU driver or the system's libstdc++ needs {needed}, which libstdc++ has since GCC "
            f"{gcc}; otherwise the Level Zero driver cannot be loaded. {error.why}"
        ),
        fix="add a channel that has a newer libstdcxx-ng, such as conda-forge, with --conda-channel or in"
        " toolchain.conda.channels",
        evidence={"needed": needed, "gcc": gcc},
    )
