"""Solves specifications to a lock: with conda-lock where it and conda are installed, else with py-rattler.

py-rattler runs in a process of its own. conda-lock itself searches for a conda executable for a minute, and
then downloads one: so it is run only if one was found, with its path.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
import json
import re
import shlex
import shutil
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

from xpubuild.engine.process import query
from xpubuild.engine.redact import Redactor
from xpubuild.engine.temporary import scratch_folder
from xpubuild.errors import (
    FetchError,
    RecipeError,
    ToolchainError,
    UnsatisfiableError,
    UsageError,
    XpuBuildError,
)
from xpubuild.frozen import frozen
from xpubuild.supply.conda import traps
from xpubuild.supply.conda.lockfile import (
    PLATFORM,
    VIRTUAL,
    CondaLock,
    CondaPackage,
    read_lock,
    split_filename,
    without_credentials,
    write_lock,
)

_SCRIPT = Path(__file__).with_name("rattler_child.py")
#: Repository data of a large channel has 50 MB and more.
_DEADLINE_S = 1800.0


@frozen
class Engines:
    """Paths of what was found; ``rattler`` is an interpreter that has py-rattler."""

    conda: str | None = None
    conda_lock: str | None = None
    rattler: str | None = None


def find_engines(environment: Mapping[str, str]) -> Engines:
    """Look for the programs; nothing is run.

    micromamba is taken first: it needs no Python of its own. An activated conda names its program in
    MAMBA_EXE or CONDA_EXE, also where it is a shell function.
    """
    path = environment.get("PATH", "")
    found = (shutil.which(name, path=path) for name in ("micromamba", "mamba", "conda"))
    named = (shutil.which(environment.get(name) or "/nonexistent") for name in ("MAMBA_EXE", "CONDA_EXE"))
    beside = Path(sys.executable).parent / "conda-lock"
    return Engines(
        conda=next(filter(None, (*found, *named)), None),
        conda_lock=shutil.which(str(beside)) or shutil.which("conda-lock", path=path),
        rattler=sys.executable if importlib.util.find_spec("rattler") else None,
    )


def missing(doing: str) -> ToolchainError:
    """Return the error for a machine that can neither solve nor install."""
    listed = (line.partition(";") for line in importlib.metadata.requires("xpubuild") or ())
    # xpubuild itself is usually installed from a checkout.
    extra = [name.strip() for name, _, marker in listed if "extra == 'conda'" in marker.replace('"', "'")]
    return ToolchainError(
        f"conda packages cannot be {doing} on this machine",
        why="py-rattler is not installed in xpubuild's environment",
        fix="install xpubuild's extra 'conda'; then no conda, mamba or micromamba is needed",
        commands=(shlex.join([sys.executable, "-m", "pip", "install", *extra]),),
    )


def rattler_failed(why: str) -> ToolchainError:
    """Return the error for an unexpected failure of py-rattler."""
    fix = "run the same command again; if it fails again, report it with this message"
    return ToolchainError("py-rattler failed", why=why or "py-rattler printed nothing", fix=fix)


def ask_rattler(
    job: Mapping[str, Any], doing: str, engines: Engines, environment: Mapping[str, str]
) -> dict[str, Any]:
    """Return the answer of ``rattler_child.py``: ``ok``, or ``error`` (a kind) and ``message``.

    Raises:
        ToolchainError: py-rattler is missing, or ended without an answer.
    """
    if engines.rattler is None:
        raise missing(doing)
    argv, given = [engines.rattler, "-I", str(_SCRIPT)], json.dumps(job).encode()
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
    """What is asked for. ``glibcxx`` is the newest symbol version that the machine's driver needs."""

    specs: tuple[str, ...]
    channels: tuple[str, ...]
    glibcxx: str | None = None

    def content_hash(self) -> str:
        """Return a hash of the request."""
        question = [sorted(self.specs), list(self.channels), VIRTUAL]
        return hashlib.sha256(json.dumps(question).encode()).hexdigest()


def spec_name(spec: str) -> str:
    """Return the package name of a specification such as 'conda-forge::cmake >=3.27,<4'.

    Raises:
        RecipeError: there is none.
    """
    name = re.split(r"[ =<>!~\[]", spec.rpartition("::")[2].strip())[0]
    if not name:
        why, fix = "it has no package name", "write 'cmake >=3.27,<4'"
        raise RecipeError(f"'{spec}' is not a conda specification", why=why, fix=fix)
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

    cache.mkdir(parents=True, exist_ok=True)

    def solved(asked: Wanted) -> CondaLock:
        packages = None
        if engines.conda and engines.conda_lock:
            report(f"conda-lock solves with {Path(engines.conda).name}")
            with scratch_folder("solve", cache) as scratch:
                packages = _by_conda_lock(asked, engines, environment, scratch, report)
        if packages is None:
            report("py-rattler solves")
            packages = _by_rattler(asked, engines, environment, cache)
        return CondaLock(packages, asked.channels, wanted.content_hash())

    names = [spec_name(spec) for spec in wanted.specs]
    lock = traps.keep_out(solved(wanted), names)
    if (old := traps.too_old(lock.packages, wanted.glibcxx)) is not None:
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
        "action": "solve", "channels": list(wanted.channels),
        "specs": list(wanted.specs), "platform": PLATFORM, "virtual": VIRTUAL,
        "cache": str(cache / "repodata"),
    }  # fmt: skip
    answer = ask_rattler(job, "solved", engines, environment)
    if "ok" in answer:
        return tuple(_package(record, wanted) for record in answer["ok"])
    raise _failed(answer["error"], wanted, Redactor()(str(answer["message"])).strip())


def _package(record: Mapping[str, Any], wanted: Wanted) -> CondaPackage:
    filename, sha256, md5 = str(record["filename"]), record["sha256"], record["md5"]
    parts = split_filename(filename)
    if not sha256 or not md5 or parts is None:
        why = f"the channel has no sha256 or md5 for {filename}, so it could not be checked"
        raise _failed("unreachable", wanted, why)
    # Version only, in conda-lock's form: the lock does not depend on the solver.
    depends = (str(item).partition(" ") for item in record["depends"])
    needs = {name: text.strip().partition(" ")[0].removeprefix("==") for name, _, text in depends}
    url = without_credentials(record["url"])
    return CondaPackage(
        record["name"], record["version"], parts[2], filename, url, sha256, md5, record["size"], needs
    )


def _by_conda_lock(
    wanted: Wanted,
    engines: Engines,
    environment: Mapping[str, str],
    scratch: Path,
    report: Callable[[str], None],
) -> tuple[CondaPackage, ...] | None:
    """Return the solution of conda-lock; None where it has none: py-rattler then says why there is none."""
    request, virtual, lock = (scratch / name for name in ("environment.yml", "virtual.yml", "conda-lock.yml"))
    packages = {
        name: f"{version} {build}" if name == "__archspec" else version for name, version, build in VIRTUAL
    }
    channels = list(wanted.channels)
    asked = {"channels": channels, "dependencies": list(wanted.specs), "platforms": [PLATFORM]}
    for path, document in ((request, asked), (virtual, {"subdirs": {PLATFORM: {"packages": packages}}})):
        path.write_text(yaml.safe_dump(document, allow_unicode=True), "utf-8")
    argv = [
        str(engines.conda_lock), "lock", "--conda", str(engines.conda), "--file", str(request),
        "--lockfile", str(lock), "--platform", PLATFORM, "--virtual-package-spec", str(virtual),
        "--log-level", "ERROR",
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
    channels, specs = list(wanted.channels), list(wanted.specs)
    kinds: dict[str, tuple[type[XpuBuildError], str, str]] = {
        "unsatisfiable": (
            UnsatisfiableError,
            "the conda packages that the recipe requires cannot be installed together",
            "change toolchain.conda.packages of the recipe, or use other channels with --conda-channel",
        ),
        "unreachable": (
            FetchError,
            "a conda channel could not be read",
            "check the address and the proxy (HTTPS_PROXY), or use another channel with --conda-channel",
        ),
        "invalid": (
            RecipeError,
            "the recipe has invalid conda specifications",
            "write them as 'cmake >=3.27,<4' in toolchain.conda.packages",
        ),
    }
    if kind not in kinds:
        return rattler_failed(why)
    error, what, fix = kinds[kind]
    return error(what, why=why, fix=fix, evidence={"packages": specs, "channels": channels})
