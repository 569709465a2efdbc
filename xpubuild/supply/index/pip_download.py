"""Fetches wheels for other interpreters with ``pip download``; which of them an interpreter can install.

Every manylinux counts, whatever glibc it asks for: which of them can be installed depends on the C library of
the machine that installs. musllinux is left out, PyTorch for XPU needs glibc.

The pip is the one that virtualenv ships, run from its wheel: the interpreter that runs xpubuild may have
none, and the words of an older one would be others.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from packaging.tags import compatible_tags, cpython_tags
from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename
from packaging.version import InvalidVersion
from virtualenv.seed.wheels.embed import get_embed_wheel  # type: ignore[import-untyped]

from xpubuild.engine.environment import base_environment
from xpubuild.engine.process import Cancel, run
from xpubuild.errors import FetchError, SourceIntegrityError, ToolchainError, UnsatisfiableError
from xpubuild.frozen import frozen
from xpubuild.machine.pip_failures import explain_pip_failure
from xpubuild.supply.index.pipconf import pip_settings
from xpubuild.supply.requirements import HashedPin

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
class Need:
    """A pin for one interpreter ("3.11"); its ``indexes`` are asked after the configured ones have failed."""

    pin: HashedPin
    python: str
    indexes: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """What it is, in words."""
        return f"{self.pin.name}=={self.pin.version} for Python {self.python}"

    @property
    def line(self) -> str:
        """The pin as a line of a requirement file, without its marker."""
        hashes = " ".join(f"--hash=sha256:{digest}" for digest in sorted(self.pin.hashes))
        return f"{self.pin.name}=={self.pin.version} {hashes}\n"

    def met_by(self, name: str, sha256: str) -> bool:
        """Return whether a wheel of this name and hash is what pip may install for it."""
        try:
            dist, version, _, tags = parse_wheel_filename(name)
        except (InvalidWheelFilename, InvalidVersion):
            return False
        named = dist == canonicalize_name(self.pin.name) and self.pin.allows(version)
        return named and sha256 in self.pin.hashes and not tags.isdisjoint(_tags(self.python))


def pip_download(
    needs: Sequence[Need], into: Path, cache: Path, *, cancel: Cancel, on_line: Callable[[str], None]
) -> list[Path]:
    """Put a wheel for each need into the folder ``into``; all are of one requirement file and interpreter.

    ``cache`` keeps complete downloads for the next attempt.

    Raises:
        FetchError: one cannot be had.
        SourceIntegrityError: one has another hash than those of its line.
        NoSpaceError, ToolchainError, InterruptedByUserError.
    """
    requirements, env, first = into / "requirements.txt", _environment(cache), needs[0]
    requirements.write_text("".join(need.line for need in needs), "utf-8")
    argv = _argv(first.python, into, requirements)
    more: list[tuple[str, ...]] = [(), *(("--extra-index-url", url, *_EXTRA) for url in first.indexes)]
    for words in more:
        result = run([*argv, *words], env=env, cwd=into, cancel=cancel, on_line=on_line)
        cancel.stop_here()
        if result.ok:
            return sorted(into.glob("*.whl"))
        error = explain_pip_failure(result.tail, indexes=first.indexes)
        if isinstance(error, SourceIntegrityError):
            raise error
    if isinstance(error, (ToolchainError, UnsatisfiableError)):
        what, known = f"{error.what} (for Python {first.python})", {**error.evidence, "python": first.python}
        raise FetchError(what, why=error.why, fix=error.fix, commands=error.commands, evidence=known)
    raise error


def _argv(python: str, into: Path, requirements: Path) -> list[str]:
    pip = get_embed_wheel("pip", f"{sys.version_info.major}.{sys.version_info.minor}").path
    return [
        sys.executable, "-I", "-u", f"{pip}/pip", "download", "--no-deps", "--only-binary", ":all:",
        "--no-input", "--disable-pip-version-check", "--progress-bar", "raw", "--require-hashes",
        "--python-version", f"{python}.{_LAST_MICRO}", "--implementation", "cp", "--abi", _abi(python),
        *(word for platform in PLATFORMS for word in ("--platform", platform)),
        "--dest", str(into), "--requirement", str(requirements),
    ]  # fmt: skip


def _environment(cache: Path) -> dict[str, str]:
    """Return pip's environment: the settings of ``pip install``, which are not all those of ``download``."""
    env = base_environment()
    settings = pip_settings(env)
    for name in ("no-cache-dir", "no-binary", "only-binary", "dest"):
        settings.pop(name, None)
    plain = {name: value for name, value in env.items() if not name.startswith("PIP_")}
    variables = {f"PIP_{name.upper().replace('-', '_')}": value for name, value in settings.items()}
    return {**plain, **variables, "PIP_CONFIG_FILE": os.devnull, "PIP_CACHE_DIR": str(cache)}


@functools.cache
def _tags(python: str) -> frozenset[object]:
    """Return the tags of wheels that a Python ("3.11" or "3.11.2") on a glibc Linux of x86_64 can install."""
    abi, (major, minor) = _abi(python), map(int, python.removesuffix("t").split(".")[:2])
    return frozenset({
        *cpython_tags((major, minor), abis=[abi], platforms=PLATFORMS),
        *compatible_tags((major, minor), interpreter=abi.removesuffix("t"), platforms=PLATFORMS),
    })  # fmt: skip


def _abi(python: str) -> str:
    """Return the ABI tag of a CPython: cp313t for the free-threaded 3.13t."""
    return "cp" + "".join(python.split(".")[:2])
