"""Solves specifications to a lock with py-rattler, which runs in a process of its own."""

from __future__ import annotations

import hashlib
import json
import shlex
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from xpubuild.engine.process import query
from xpubuild.engine.redact import Redactor
from xpubuild.errors import (
    FetchError,
    RecipeError,
    ToolchainError,
    UnsatisfiableError,
    XpuBuildError,
)
from xpubuild.frozen import frozen
from xpubuild.supply.conda import traps
from xpubuild.supply.conda.lockfile import (
    PLATFORM,
    VIRTUAL,
    CondaLock,
    CondaPackage,
    without_credentials,
    write_lock,
)

_SCRIPT = Path(__file__).with_name("rattler_child.py")
#: Repository data of a large channel has 50 MB and more.
_DEADLINE_S = 1800.0


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
    """What is asked for, and of whom."""

    specs: tuple[str, ...]
    channels: tuple[str, ...]

    def content_hash(self) -> str:
        """Return a hash of the request."""
        question = [sorted(self.specs), list(self.channels), VIRTUAL]
        return hashlib.sha256(json.dumps(question).encode()).hexdigest()


def make_lock(
    wanted: Wanted, *, environment: Mapping[str, str], cache: Path, report: Callable[[str], None]
) -> str:
    """Solve and return the text of a ``conda-lock.yml``.

    Raises:
        RecipeError: a specification or channel is invalid.
        UnsatisfiableError: no solution, or one with a harmful package.
        FetchError: a channel cannot be reached, or has no such folder.
        ToolchainError: py-rattler is missing, or failed.
    """
    cache.mkdir(parents=True, exist_ok=True)
    report("py-rattler solves")
    job = {
        "action": "solve", "channels": list(wanted.channels),
        "specs": list(wanted.specs), "platform": PLATFORM, "virtual": VIRTUAL,
        "cache": str(cache / "repodata"),
    }  # fmt: skip
    answer = ask_rattler(job, "solved", environment)
    if "ok" not in answer:
        raise _failed(answer["error"], wanted, Redactor()(str(answer["message"])).strip())
    packages = tuple(_package(record, wanted) for record in answer["ok"])
    traps.refuse(packages)
    return write_lock(CondaLock(packages, wanted.channels, wanted.content_hash()))


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


def _failed(kind: str, wanted: Wanted, why: str) -> XpuBuildError:
    """Return the error for one of the kinds that ``rattler_child`` knows."""
    kinds: dict[str, tuple[type[XpuBuildError], str]] = {
        "unsatisfiable": (
            UnsatisfiableError,
            "the recipe's conda packages cannot be installed together",
        ),
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
