"""Solves specifications to a lock: with conda-lock, or with py-rattler if there is no conda executable."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

from xpubuild.engine.process import query
from xpubuild.engine.temporary import scratch_folder
from xpubuild.errors import FetchError, RecipeError, UnsatisfiableError, UsageError, XpuBuildError
from xpubuild.frozen import frozen
from xpubuild.supply.conda import traps
from xpubuild.supply.conda.channels import Channel, redactor, without_credentials
from xpubuild.supply.conda.libstdcxx import too_old
from xpubuild.supply.conda.lockfile import read_lock, split_filename, write_lock
from xpubuild.supply.conda.model import PLATFORM, VIRTUAL, CondaLock, CondaPackage
from xpubuild.supply.conda.tools import Engines, ask_rattler, tool_failed

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
    name = re.split(r"[ =<>!~\[]", spec.rpartition("::")[2].strip())[0]
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

    def solved(asked: Wanted) -> CondaLock:
        cache.mkdir(parents=True, exist_ok=True)
        with scratch_folder("solve", cache) as scratch:
            if engines.conda and engines.conda_lock:
                report(f"conda-lock solves with {Path(engines.conda).name}")
                packages = _by_conda_lock(asked, engines, environment, scratch)
            else:
                report("py-rattler solves")
                packages = _by_rattler(asked, engines, environment, cache)
        return CondaLock(packages, tuple(item.shown for item in asked.channels), wanted.content_hash())

    names = [spec_name(spec) for spec in wanted.specs]
    lock = traps.keep_out(solved(wanted), names)
    old = too_old(lock.packages, wanted.glibcxx)
    if old is not None:
        package, gcc = old
        report(f"{package.title} is older than this machine's GPU driver needs: requesting {gcc}")
        try:
            again = solved(replace(wanted, specs=(*wanted.specs, f"{package.name} >={gcc}")))
        except UnsatisfiableError as error:
            raise UnsatisfiableError(
                f"the conda package {package.title} is older than this machine needs",
                why=f"the GPU driver or the system's libstdc++ needs {wanted.glibcxx}, which libstdc++ has"
                f" since GCC {gcc}; otherwise the Level Zero driver cannot be loaded. {error.why}",
                fix="add a channel that has a newer libstdcxx-ng, such as conda-forge, with --conda-channel"
                " or in toolchain.conda.channels",
                evidence={"needed": wanted.glibcxx, "gcc": gcc},
            ) from error
        lock = traps.keep_out(again, [*names, package.name])
    return write_lock(lock)


def _by_rattler(
    wanted: Wanted, engines: Engines, environment: Mapping[str, str], cache: Path
) -> tuple[CondaPackage, ...]:
    job = {
        "action": "solve", "channels": [item.address for item in wanted.channels],
        "specs": list(wanted.specs), "platform": PLATFORM, "virtual": VIRTUAL,
        "cache": str(cache / "repodata"),
    }  # fmt: skip
    answer = ask_rattler(job, "solved", engines, environment)
    if "ok" in answer:
        return tuple(_package(record, wanted) for record in answer["ok"])
    raise _failed(answer["error"], wanted, _redacted(str(answer["message"]), wanted).strip(), "py-rattler")


def _package(record: Mapping[str, Any], wanted: Wanted) -> CondaPackage:
    filename = str(record["filename"])
    parts = split_filename(filename)
    if not record["sha256"] or not record["md5"] or parts is None:
        why = f"the channel has no sha256 or md5 for {filename}, so it could not be checked"
        raise _failed("unreachable", wanted, why, "py-rattler")
    depends: dict[str, str] = {}
    for item in record["depends"]:
        # Version only, spelt as conda-lock does it: the lock is the same whoever solved.
        name, _, constraint = str(item).partition(" ")
        depends[name] = constraint.strip().partition(" ")[0].removeprefix("==")
    return CondaPackage(
        name=record["name"],
        version=record["version"],
        build=parts[2],
        filename=filename,
        url=without_credentials(record["url"]),
        sha256=record["sha256"],
        md5=record["md5"],
        size=record["size"],
        dependencies=depends,
    )


def _by_conda_lock(
    wanted: Wanted, engines: Engines, environment: Mapping[str, str], scratch: Path
) -> tuple[CondaPackage, ...]:
    request, virtual, lock = (scratch / name for name in ("environment.yml", "virtual.yml", "conda-lock.yml"))
    channels = [item.address for item in wanted.channels]
    _write_private(
        request, {"channels": channels, "dependencies": list(wanted.specs), "platforms": [PLATFORM]}
    )
    packages = {
        name: f"{version} {build}" if name == "__archspec" else version for name, version, build in VIRTUAL
    }
    _write_private(virtual, {"subdirs": {PLATFORM: {"packages": packages}}})
    argv = [
        str(engines.conda_lock), "lock", "--conda", str(engines.conda), "--file", str(request),
        "--lockfile", str(lock), "--platform", PLATFORM, "--virtual-package-spec", str(virtual),
        "--log-level", "ERROR",
    ]  # fmt: skip
    # Its cache is below ours, so that nothing is left in the user's home.
    env = {**environment, "XDG_CACHE_HOME": str(scratch / "cache"), "CONDA_OVERRIDE_CUDA": ""}
    result = query(argv, env=env, cwd=scratch, deadline_s=_DEADLINE_S)
    if result.ok and lock.is_file():
        return read_lock(lock.read_text("utf-8"), name="the lock that conda-lock wrote").packages
    if result.timed_out:
        raise tool_failed("conda-lock", f"it timed out after {_DEADLINE_S / 60:.0f} minutes")
    said = _redacted(result.stderr + result.stdout, wanted)
    lines = [line.rstrip() for line in said.splitlines() if line.strip() and not _NOISE.match(line)]
    telling = [line for line in lines if _UNREACHABLE.search(line) or _UNSATISFIABLE.search(line)]
    # A channel that does not answer also leads to "nothing provides", so that is looked for first.
    kind = "unsatisfiable" if telling else "failed"
    if any(_UNREACHABLE.search(line) for line in telling):
        kind = "unreachable"
    raise _failed(kind, wanted, "\n".join((telling or lines)[:_MOST_LINES]), "conda-lock")


def _write_private(path: Path, document: object) -> None:
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as stream:
        yaml.safe_dump(document, stream, allow_unicode=True)


def _redacted(text: str, wanted: Wanted) -> str:
    return redactor(item.address for item in wanted.channels)(text)


def _failed(kind: str, wanted: Wanted, why: str, tool: str) -> XpuBuildError:
    """Return the error for one of the kinds that ``rattler_child`` knows."""
    channels = [item.shown for item in wanted.channels]
    if kind == "unsatisfiable":
        return UnsatisfiableError(
            "the conda packages that the recipe requires cannot be installed together",
            why=why,
            fix="change toolchain.conda.packages of the recipe, or use other channels with --conda-channel",
            evidence={"packages": list(wanted.specs), "channels": channels, "platform": PLATFORM},
        )
    if kind == "unreachable":
        return FetchError(
            "a conda channel could not be read",
            why=why,
            fix="check the address and the proxy settings (HTTPS_PROXY), or use another channel with"
            " --conda-channel",
            evidence={"channels": channels},
        )
    if kind == "invalid":
        return RecipeError(
            "the recipe has invalid conda specifications",
            why=why,
            fix="write them as 'cmake >=3.27,<4' in toolchain.conda.packages",
            evidence={"packages": list(wanted.specs)},
        )
    return tool_failed(tool, why)
