"""Fetches wheels for other interpreters with ``pip download``; which of them an interpreter can install.

Every manylinux counts, whatever glibc it asks for: which of them can be installed depends on the C library of
the machine that installs. musllinux is left out, PyTorch for XPU needs glibc.

The pip is the one that virtualenv ships, run from its wheel: the interpreter that runs xpubuild may have
none, and the words of an older one would be others.
"""

from __future__ import annotations

import functools
import os
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from packaging.tags import compatible_tags, cpython_tags
from packaging.utils import InvalidWheelFilename, parse_wheel_filename
from packaging.version import InvalidVersion
from virtualenv.seed.wheels.embed import get_embed_wheel  # type: ignore[import-untyped]

from xpubuild.engine.environment import base_environment
from xpubuild.engine.process import Cancel, run
from xpubuild.errors import FetchError, SourceIntegrityError, ToolchainError, UnsatisfiableError, UsageError
from xpubuild.errors import XpuBuildError as AnyError
from xpubuild.frozen import frozen
from xpubuild.machine.pip_failures import explain_pip_failure
from xpubuild.supply.index.pipconf import pip_settings

_PYTHON = re.compile(r"3\.\d+(\.\d+)?t?")
_NEWEST_GLIBC = 50
#: Of the platforms that it is given, pip takes the first that has a file: the oldest C library first, so that
#: what is fetched can be installed on as many machines as possible.
PLATFORMS = (
    *(f"manylinux{name}_x86_64" for name in ("1", "2010", "2014")),
    *(f"manylinux_2_{minor}_x86_64" for minor in range(5, _NEWEST_GLIBC)),
    "linux_x86_64",
)
# A release of a Python that is named by its minor version only: no CPython line had as many.
_LAST_MICRO = 99
# An index that the user did not configure may be out of reach behind a firewall: that must show soon.
_EXTRA = ("--timeout", "15", "--retries", "1")


@frozen
class Wheels:
    """What is fetched at once for one interpreter: requirement lines without markers.

    ``indexes`` are the recipe's, each tried after the configured ones have failed.
    """

    lines: tuple[str, ...]
    python: str
    indexes: tuple[str, ...] = ()


def pip_download(
    wheels: Wheels, into: Path, cache: Path, *, cancel: Cancel, on_line: Callable[[str], None]
) -> list[Path]:
    """Put a wheel for each line into the folder ``into``; ``cache`` keeps what came whole for the next try.

    Raises:
        FetchError: one cannot be had.
        SourceIntegrityError: one has another hash than those of its line.
        NoSpaceError, ToolchainError, InterruptedByUserError.
    """
    into.mkdir(parents=True, exist_ok=True)
    requirements = into / "requirements.txt"
    requirements.write_text("".join(f"{line}\n" for line in wheels.lines), "utf-8")
    ahead: list[tuple[str, ...]] = [("--extra-index-url", url, *_EXTRA) for url in wheels.indexes]
    words: tuple[str, ...] = ()
    while True:
        argv = [*_argv(wheels, into, requirements), *words]
        result = run(argv, env=_environment(cache), cwd=into, cancel=cancel, on_line=on_line)
        cancel.stop_here()
        if result.ok:
            return sorted(into.glob("*.whl"))
        error = _explained(wheels, result.tail)
        if not ahead or isinstance(error, SourceIntegrityError):
            raise error
        words = ahead.pop(0)


def _argv(wheels: Wheels, into: Path, requirements: Path) -> Sequence[str]:
    release = wheels.python.removesuffix("t")
    full = release if release.count(".") > 1 else f"{release}.{_LAST_MICRO}"
    pip = get_embed_wheel("pip", f"{sys.version_info.major}.{sys.version_info.minor}").path
    return (
        sys.executable, "-I", "-u", f"{pip}/pip", "download", "--no-deps", "--only-binary", ":all:",
        "--no-input", "--disable-pip-version-check", "--progress-bar", "raw",
        "--require-hashes", "--python-version", full, "--implementation", "cp", "--abi", _abi(wheels.python),
        *(word for platform in PLATFORMS for word in ("--platform", platform)),
        "--dest", str(into), "--requirement", str(requirements),
    )  # fmt: skip


def _environment(cache: Path) -> dict[str, str]:
    """Return pip's environment: the settings of ``pip install``, which are not all those of ``download``."""
    env = base_environment()
    settings = pip_settings(env)
    for name in ("no-cache-dir", "no-binary", "only-binary", "dest"):
        settings.pop(name, None)
    plain = {name: value for name, value in env.items() if not name.startswith("PIP_")}
    variables = {f"PIP_{name.upper().replace('-', '_')}": value for name, value in settings.items()}
    return {**plain, **variables, "PIP_CONFIG_FILE": os.devnull, "PIP_CACHE_DIR": str(cache)}


def _explained(wheels: Wheels, tail: Sequence[str]) -> AnyError:
    found = explain_pip_failure(tail, indexes=wheels.indexes)
    if not isinstance(found, (ToolchainError, UnsatisfiableError)):
        return found
    return FetchError(
        f"{found.what} (for Python {wheels.python})", why=found.why, fix=found.fix, commands=found.commands,
        evidence={**found.evidence, "python": wheels.python},
    )  # fmt: skip


def checked_pythons(pythons: Iterable[str]) -> tuple[str, ...]:
    """Return the interpreters without repetition.

    Raises:
        UsageError: one is no version of CPython 3 ("3.11", "3.11.7", "3.13t").
    """
    found = tuple(dict.fromkeys(pythons))
    for python in found:
        if not _PYTHON.fullmatch(python):
            raise UsageError(
                f"'{python}' is not a version of Python",
                fix="write it as 3.11, 3.11.7, or 3.13t for a free-threaded build",
            )
    return found


def can_install(filename: str, python: str) -> bool:
    """Return whether ``python`` on a glibc Linux of x86_64 can install the wheel of this name."""
    try:
        tags = parse_wheel_filename(filename)[3]
    except (InvalidWheelFilename, InvalidVersion):
        return False
    return not tags.isdisjoint(_tags(python))


@functools.cache
def _tags(python: str) -> frozenset[object]:
    abi, (major, minor) = _abi(python), map(int, python.removesuffix("t").split(".")[:2])
    return frozenset({
        *cpython_tags((major, minor), abis=[abi], platforms=PLATFORMS),
        *compatible_tags((major, minor), interpreter=abi.removesuffix("t"), platforms=PLATFORMS),
    })  # fmt: skip


def _abi(python: str) -> str:
    """Return the ABI tag of a CPython: cp313t for 3.13t."""
    major, minor = python.removesuffix("t").split(".")[:2]
    return f"cp{major}{minor}{'t' if python.endswith('t') else ''}"
