"""Runs conda-lock with a conda executable, and reads the lock that it wrote."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import yaml

from xpubuild.engine.process import query
from xpubuild.errors import XpuBuildError
from xpubuild.supply.conda.channels import Channel
from xpubuild.supply.conda.engines import Engines, missing
from xpubuild.supply.conda.failures import tool_failed, unreachable, unsatisfiable
from xpubuild.supply.conda.lockfile import read_lock
from xpubuild.supply.conda.model import PLATFORM, VIRTUAL, CondaPackage
from xpubuild.supply.conda.urls import redactor

_DEADLINE_S = 1800.0
# Texts of conda, mamba and libcurl.
_UNREACHABLE = re.compile(
    r"CondaHTTPError|UnavailableInvalidChannel|ConnectionError|HTTP \d{3}|Could not resolve host|"
    r"Could not connect|Connection refused|Connection timed out|ProxyError|SSLError|"
    r"No such file or directory.*repodata|could not find subdir|download error",
    re.IGNORECASE,
)
_UNSATISFIABLE = re.compile(
    r"UnsatisfiableError|PackagesNotFoundError|ResolvePackageNotFound|LibMambaUnsatisfiable|"
    r"nothing provides|Could not solve|cannot be installed|incompatible|No candidates were found|conflict",
    re.IGNORECASE,
)
# conda-lock prints the command and the whole of both streams after the message itself.
_NOISE = re.compile(
    r"^\s*(\{\"error\"|Command:|STDOUT:|STDERR:|Traceback|File \"|subprocess\.|raise |\[?DEBUG|INFO)"
)
_MOST_LINES = 12


def solve(
    specs: Sequence[str],
    channels: Sequence[Channel],
    engines: Engines,
    environment: Mapping[str, str],
    scratch: Path,
) -> tuple[CondaPackage, ...]:
    """Return the packages of the lock that conda-lock writes.

    Raises:
        UnsatisfiableError, FetchError: there is no solution; a channel does not answer.
        ToolchainError: conda-lock is missing or failed.
    """
    if not engines.conda_lock or not engines.conda:
        raise missing("solved", engines)
    request, virtual, lock = (scratch / name for name in ("environment.yml", "virtual.yml", "conda-lock.yml"))
    document = {
        "channels": [item.address for item in channels],
        "dependencies": list(specs),
        "platforms": [PLATFORM],
    }
    _write_private(request, document)
    packages = {
        name: f"{version} {build}" if name == "__archspec" else version for name, version, build in VIRTUAL
    }
    _write_private(virtual, {"subdirs": {PLATFORM: {"packages": packages}}})
    argv = [
        engines.conda_lock, "lock", "--conda", engines.conda, "--file", str(request), "--lockfile", str(lock),
        "--platform", PLATFORM, "--virtual-package-spec", str(virtual), "--log-level", "ERROR",
    ]  # fmt: skip
    result = query(argv, env=_environment(environment, scratch), cwd=scratch, deadline_s=_DEADLINE_S)
    if result.ok and lock.is_file():
        return read_lock(lock.read_text("utf-8"), name="the lock that conda-lock wrote").packages
    said = redactor(item.address for item in channels)(result.stderr + result.stdout)
    raise _failure(said, specs, channels, late=result.timed_out)


def _environment(environment: Mapping[str, str], scratch: Path) -> dict[str, str]:
    """Return conda-lock's environment: its cache below ours, so that nothing is left in the user's home."""
    return {**environment, "XDG_CACHE_HOME": str(scratch / "cache"), "CONDA_OVERRIDE_CUDA": ""}


def _write_private(path: Path, document: object) -> None:
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as stream:
        yaml.safe_dump(document, stream, allow_unicode=True)


def _failure(said: str, specs: Sequence[str], channels: Sequence[Channel], *, late: bool) -> XpuBuildError:
    lines = [line.rstrip() for line in said.splitlines() if line.strip() and not _NOISE.match(line)]
    telling = [line for line in lines if _UNREACHABLE.search(line) or _UNSATISFIABLE.search(line)]
    why = "\n".join((telling or lines)[:_MOST_LINES])
    if late:
        return tool_failed("conda-lock", f"it timed out after {_DEADLINE_S / 60:.0f} minutes")
    # A channel that does not answer also leads to "nothing provides", so that is looked for first.
    if any(_UNREACHABLE.search(line) for line in telling):
        return unreachable(channels, why)
    return unsatisfiable(specs, channels, why) if telling else tool_failed("conda-lock", why)
