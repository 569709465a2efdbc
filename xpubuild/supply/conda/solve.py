"""Solves specifications to a lock: with conda-lock where it and conda are installed, else with py-rattler.

py-rattler runs in a process of its own. conda-lock itself searches for a conda executable for a minute, and
then downloads one: so it is run only if one was found, with its path.
"""

from __future__ import annotations

import hashlib
import json
import shlex
import shutil
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import yaml

from xpubuild.engine.process import query
from xpubuild.engine.redact import Redactor
from xpubuild.engine.temporary import scratch_folder
from xpubuild.errors import FetchError, RecipeError, ToolchainError, UnsatisfiableError, XpuBuildError
from xpubuild.frozen import frozen
from xpubuild.supply.conda import traps
from xpubuild.supply.conda.lockfile import (
    PLATFORM,
    VIRTUAL,
    CondaLock,
    CondaPackage,
    read_lock,
    without_credentials,
    write_lock,
)

_SCRIPT = Path(__file__).with_name("rattler_child.py")
#: Repository data of a large channel has 50 MB and more.
_DEADLINE_S = 1800.0


@frozen
class CondaLocker:
    """The paths of conda-lock, and of the conda, mamba or micromamba that it runs."""

    program: str
    conda: str


def find_conda_lock(environment: Mapping[str, str]) -> CondaLocker | None:
    """Look for conda-lock and what it needs; nothing is run.

    micromamba is taken first: it needs no Python of its own. An activated conda names its program in
    MAMBA_EXE or CONDA_EXE, also where it is a shell function.
    """
    path = environment.get("PATH", "")
    names = ("micromamba", "mamba", "conda", environment.get("MAMBA_EXE"), environment.get("CONDA_EXE"))
    conda = next(filter(None, (shutil.which(name, path=path) for name in names if name)), None)
    beside = Path(sys.executable).with_name("conda-lock")
    program = shutil.which(str(beside)) or shutil.which("conda-lock", path=path)
    return CondaLocker(program, conda) if program and conda else None


def missing(doing: str) -> ToolchainError:
    """Return the error for a machine that can neither solve nor install."""
    return ToolchainError(
        f"conda packages cannot be {doing} on this machine",
        why="py-rattler is not installed in xpubuild's environment",
        fix="install xpubuild's extra 'conda'; then no conda, mamba or micromamba is needed",
        commands=(shlex.join([sys.executable, "-m", "pip", "install", "py-rattler"]),),
    )


def rattler_failed(why: str) -> ToolchainError:
    """Return the error for an unexpected failure of py-rattler."""
    fix = "run the same command again; if it fails again, report it with this message"
    return ToolchainError("py-rattler failed", why=why or "py-rattler printed nothing", fix=fix)


def ask_rattler(job: Mapping[str, Any], doing: str, environment: Mapping[str, str]) -> dict[str, Any]:
    """Return the answer of ``rattler_child.py``: ``ok``, or ``error`` (a kind) and ``message``.

    Raises:
        ToolchainError: py-rattler is missing, or ended without an answer.
    """
    argv, given = [sys.executable, "-I", str(_SCRIPT)], json.dumps(job).encode()
    result = query(argv, env=environment, deadline_s=_DEADLINE_S, stdin=given)
    try:
        answer = json.loads(result.stdout)
    except ValueError:
        printed = [line for line in result.stderr.splitlines() if line.strip()]
        late = f"it timed out after {_DEADLINE_S / 60:.0f} minutes" if result.timed_out else ""
        raise rattler_failed(late or (printed[-1] if printed else f"status {result.returncode}")) from None
    if answer.get("error") == "missing":
        raise missing(doing)
    return dict(answer)


@frozen
class Wanted:
    """What is asked for, and of which channels."""

    specs: tuple[str, ...]
    channels: tuple[str, ...]

    def content_hash(self) -> str:
        """Return a hash of the request."""
        question = [sorted(self.specs), list(self.channels), VIRTUAL]
        return hashlib.sha256(json.dumps(question).encode()).hexdigest()


def make_lock(
    wanted: Wanted,
    locker: CondaLocker | None,
    *,
    environment: Mapping[str, str],
    cache: Path,
    report: Callable[[str], None],
) -> str:
    """Solve and return the text of a ``conda-lock.yml``.

    Raises:
        RecipeError: a specification or channel is invalid.
        UnsatisfiableError: no solution, or one with a harmful package.
        FetchError: a channel cannot be reached, or has no such folder.
        ToolchainError: py-rattler is missing, or failed.
    """
    cache.mkdir(parents=True, exist_ok=True)
    packages = None
    if locker is not None:
        report(f"conda-lock solves with {Path(locker.conda).name}")
        with scratch_folder("solve", cache) as scratch:
            packages = _by_conda_lock(wanted, locker, environment, scratch, report)
    if packages is None:
        report("py-rattler solves")
        packages = _by_rattler(wanted, environment, cache)
    traps.refuse(packages)
    return write_lock(CondaLock(packages, wanted.channels, wanted.content_hash()))


def _by_rattler(wanted: Wanted, environment: Mapping[str, str], cache: Path) -> tuple[CondaPackage, ...]:
    job = {
        "action": "solve", "channels": list(wanted.channels),
        "specs": list(wanted.specs), "platform": PLATFORM, "virtual": VIRTUAL,
        "cache": str(cache / "repodata"),
    }  # fmt: skip
    answer = ask_rattler(job, "solved", environment)
    if "ok" not in answer:
        raise _failed(answer["error"], wanted, Redactor()(str(answer["message"])).strip())
    return tuple(_package(record, wanted) for record in answer["ok"])


def _package(record: Mapping[str, Any], wanted: Wanted) -> CondaPackage:
    filename, sha256, md5 = str(record["filename"]), record["sha256"], record["md5"]
    if not sha256 or not md5:
        why = f"the channel has no sha256 or md5 for {filename}, so it could not be checked"
        raise _failed("unreachable", wanted, why)
    # Version only, in conda-lock's form: the lock does not depend on the solver.
    depends = (str(item).partition(" ") for item in record["depends"])
    needs = {name: text.strip().partition(" ")[0].removeprefix("==") for name, _, text in depends}
    url = without_credentials(record["url"])
    return CondaPackage(record["name"], record["version"], record["build"], filename, url, sha256, md5, needs)


def _by_conda_lock(
    wanted: Wanted,
    locker: CondaLocker,
    environment: Mapping[str, str],
    scratch: Path,
    report: Callable[[str], None],
) -> tuple[CondaPackage, ...] | None:
    """Return the solution of conda-lock; None where it has none: py-rattler then says why there is none."""
    request, virtual, lock = (scratch / name for name in ("environment.yml", "virtual.yml", "conda-lock.yml"))
    packages = {name: version if build == "0" else f"{version} {build}" for name, version, build in VIRTUAL}
    channels = list(wanted.channels)
    asked = {"channels": channels, "dependencies": list(wanted.specs), "platforms": [PLATFORM]}
    for path, document in ((request, asked), (virtual, {"subdirs": {PLATFORM: {"packages": packages}}})):
        path.write_text(yaml.safe_dump(document, allow_unicode=True), "utf-8")
    argv = [
        locker.program, "lock", "--conda", locker.conda, "--file", str(request), "--lockfile", str(lock),
        "--platform", PLATFORM, "--virtual-package-spec", str(virtual), "--log-level", "ERROR",
    ]  # fmt: skip
    # Its cache is below that of xpubuild, so that nothing is left in the user's home.
    env = {**environment, "XDG_CACHE_HOME": str(scratch / "cache"), "CONDA_OVERRIDE_CUDA": ""}
    result = query(argv, env=env, cwd=scratch, deadline_s=_DEADLINE_S)
    if result.ok and lock.is_file():
        return read_lock(lock.read_text("utf-8"), name="the lock that conda-lock wrote").packages
    lines = [line for line in (result.stderr or result.stdout).splitlines() if line.strip()]
    report(f"conda-lock has no solution: {Redactor()((lines or ['no message'])[0])}")
    return None


def _failed(kind: str, wanted: Wanted, why: str) -> XpuBuildError:
    """Return the error for one of the kinds that ``rattler_child`` knows."""
    kinds: dict[str, tuple[type[XpuBuildError], str]] = {
        "unsatisfiable": (UnsatisfiableError, "the recipe's conda packages cannot be installed together"),
        "unreachable": (FetchError, "a conda channel could not be read"),
        "invalid": (RecipeError, "the recipe has invalid conda specifications"),
    }
    if kind not in kinds:
        return rattler_failed(why)
    error, what = kinds[kind]
    return error(
        what,
        why=why,
        fix="correct toolchain.conda.packages of the recipe ('cmake >=3.27,<4'), use other channels with"
        " --conda-channel, or check the proxy (HTTPS_PROXY)",
        evidence={"packages": list(wanted.specs), "channels": list(wanted.channels)},
    )
