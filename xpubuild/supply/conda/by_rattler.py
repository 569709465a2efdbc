"""Runs ``rattler_child.py``: solving and linking by py-rattler, outside this process."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from xpubuild.engine.places import existing_quoted
from xpubuild.engine.process import query
from xpubuild.errors import NoSpaceError, XpuBuildError
from xpubuild.supply.conda.channels import Channel
from xpubuild.supply.conda.engines import Engines, missing
from xpubuild.supply.conda.failures import of_kind, tool_failed
from xpubuild.supply.conda.model import PLATFORM, VIRTUAL, CondaPackage
from xpubuild.supply.conda.urls import redactor, without_credentials

_SCRIPT = Path(__file__).with_name("rattler_child.py")
#: Repository data of a large channel has 50 MB and more.
_SOLVE_S = 900.0
_INSTALL_S = 1800.0
_NO_SPACE = "No space left on device"


def solve(
    specs: Sequence[str],
    channels: Sequence[Channel],
    engines: Engines,
    environment: Mapping[str, str],
    scratch: Path,
) -> tuple[CondaPackage, ...]:
    """Return the packages that fulfil the specifications.

    Raises:
        UnsatisfiableError, FetchError, RecipeError: there is no solution; a channel does not answer; a
            specification is invalid.
        ToolchainError: py-rattler is missing or failed.
    """
    job = {
        "action": "solve", "channels": [item.address for item in channels], "specs": list(specs),
        "platform": PLATFORM, "virtual": VIRTUAL, "cache": str(scratch.parent / "repodata"),
    }  # fmt: skip
    answer = _ask(job, engines, environment, _SOLVE_S)
    if "ok" not in answer:
        why = _shown(str(answer["message"]), channels)
        raise (
            missing("solved", engines)
            if answer["error"] == "missing"
            else of_kind(str(answer["error"]), specs, channels, why)
        )
    return tuple(_package(record, channels) for record in answer["ok"])


def install(
    folder: Path, prefix: Path, sha256: Mapping[str, str], engines: Engines, environment: Mapping[str, str]
) -> None:
    """Link the archives in ``folder`` (a channel of two subfolders) into ``prefix``.

    ``sha256`` maps each file name to what its hash must be.

    Raises:
        ToolchainError: py-rattler is missing or failed.
        NoSpaceError: the disk is full.
    """
    job = {
        "action": "install", "folder": str(folder), "prefix": str(prefix), "sha256": dict(sha256),
        "cache": str(folder.parent / "unpacked"),
    }  # fmt: skip
    answer = _ask(job, engines, environment, _INSTALL_S)
    if "ok" in answer:
        return
    if answer["error"] == "missing":
        raise missing("installed", engines)
    message = str(answer["message"])
    if _NO_SPACE in message:
        raise NoSpaceError(
            f"no space left while conda packages were installed into {prefix}",
            why=message,
            fix="free some space, or choose a --workspace on a larger disk; then run the same command again",
            commands=(f"df -h {existing_quoted(prefix)}",),
        )
    raise _install_failed(message)


def _install_failed(message: str) -> XpuBuildError:
    return tool_failed("py-rattler", message)


def _ask(
    job: Mapping[str, Any],
    engines: Engines,
    environment: Mapping[str, str],
    deadline_s: float,
) -> dict[str, Any]:
    if engines.rattler is None:
        raise missing("installed" if job["action"] == "install" else "solved", engines)
    # No file and no argument has the job: channel addresses may carry credentials.
    given = json.dumps(job).encode()
    argv = [engines.rattler, "-I", str(_SCRIPT)]
    result = query(argv, env=environment, deadline_s=deadline_s, stdin=given)
    try:
        answer = json.loads(result.stdout)
    except ValueError:
        answer = None
    if not isinstance(answer, dict):
        said = [line for line in result.stderr.splitlines() if line.strip()]
        late = f"it timed out after {deadline_s / 60:.0f} minutes" if result.timed_out else ""
        raise tool_failed("py-rattler", late or (said[-1] if said else f"status {result.returncode}"))
    return answer


def _shown(message: str, channels: Sequence[Channel]) -> str:
    return redactor(item.address for item in channels)(message).strip()


def _package(record: Mapping[str, Any], channels: Sequence[Channel]) -> CondaPackage:
    lacking = [name for name in ("sha256", "md5") if not record[name]]
    if lacking:
        raise of_kind(
            "unreachable",
            [str(record["name"])],
            channels,
            f"the channel has no {lacking[0]} for {record['filename']}, so it could not be checked",
        )
    stem = str(record["filename"]).removesuffix(".conda").removesuffix(".tar.bz2")
    depends: dict[str, str] = {}
    for item in record["depends"]:
        # Version only, spelt as conda-lock does it: the lock is the same whoever solved.
        name, _, constraint = str(item).partition(" ")
        depends[name] = constraint.strip().partition(" ")[0].removeprefix("==")
    return CondaPackage(
        name=record["name"],
        version=record["version"],
        build=stem.rpartition("-")[2],
        filename=record["filename"],
        url=without_credentials(record["url"]),
        sha256=record["sha256"],
        md5=record["md5"],
        size=record["size"],
        dependencies=depends,
    )
