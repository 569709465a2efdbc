"""Captures the variables that oneAPI's scripts set, in a clean bash without the caller's environment.

The caller's arguments, ``SETVARS_COMPLETED``, ``BASH_ENV``, strict shell modes and search paths all change
what the scripts do; the child starts with HOME, USER, TERM, the proxies and the system's PATH alone.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from xpubuild import resources
from xpubuild.engine.process import QueryResult, query
from xpubuild.engine.redact import Redactor
from xpubuild.engine.temporary import scratch_folder
from xpubuild.errors import ToolchainError
from xpubuild.frozen import frozen
from xpubuild.machine.envdiff import EnvDiff, diff
from xpubuild.machine.oneapi_dump import Dump, parse_dump
from xpubuild.machine.oneapi_finding import Finding
from xpubuild.machine.oneapi_roots import SETVARS, UNIFIED_ENTRY
from xpubuild.machine.oneapi_selection import Mode
from xpubuild.machine.oneapi_statuses import ScriptStatus, by_hand
from xpubuild.machine.oneapi_trust import require_trusted

DEADLINE_S = 120.0
_UPPER = ("HTTP_PROXY", "HTTPS_PROXY", "FTP_PROXY", "ALL_PROXY", "NO_PROXY")
PROXIES = (*_UPPER, *map(str.lower, _UPPER))
_KEPT = ("HOME", "USER", "TERM", *PROXIES)
_NOISE_LINES = 40
_UNBOUND = re.compile(r"line (?P<line>\d+): (?P<name>\w+): unbound variable")


def clean_environment(caller_env: Mapping[str, str]) -> dict[str, str]:
    """Return the whole environment of the capturing bash."""
    kept = {name: caller_env[name] for name in _KEPT if name in caller_env}
    kept["PATH"] = os.confstr("CS_PATH") or os.defpath
    return kept


@frozen
class Request:
    """What is to be sourced. ``arguments`` go to the first script, which must then be an entry script.

    ``hashed`` are further scripts that the entry script sources by itself; they must be trusted too.
    """

    root: Path
    mode: Mode
    scripts: tuple[Path, ...]
    environment: Mapping[str, str]
    arguments: tuple[str, ...] = ()
    hashed: tuple[Path, ...] = ()
    owners: Collection[int] = ()

    def require_trusted(self) -> None:
        """Refuse scripts that others can change.

        Raises:
            ToolchainError: names the paths and the fix.
        """
        require_trusted((*self.scripts, *self.hashed), self.root, self.owners)


@frozen
class Capture:
    """The environment before and after, and how the scripts behaved."""

    before: Mapping[str, str]
    after: Mapping[str, str]
    diff: EnvDiff
    statuses: tuple[ScriptStatus, ...]
    warnings: tuple[Finding, ...] = ()
    noise: tuple[str, ...] = ()


def is_entry(script: Path) -> bool:
    """Whether a script is setvars.sh or oneapi-vars.sh rather than a component's."""
    return script.name in (SETVARS, UNIFIED_ENTRY)


def _bash(environment: Mapping[str, str]) -> str:
    found = shutil.which("bash", path=environment["PATH"]) or shutil.which("bash")
    if found is None:
        raise ToolchainError(
            "bash was not found",
            why="oneAPI's environment scripts are written for it",
            fix="install the package bash",
        )
    return found


def _run(request: Request, deadline_s: float) -> tuple[QueryResult, Dump]:
    with scratch_folder("oneapi") as folder:
        # A file, not standard output: values may hold bytes that are not text.
        target = folder / "environment"
        target.touch(mode=0o600)
        result = query(
            [
                _bash(request.environment),
                "--noprofile",
                "--norc",
                str(resources.setvars_dir() / "capture.sh"),
                "--keep-environment",
                "--file",
                str(target),
                *(word for argument in request.arguments for word in ("--argument", argument)),
                "--",
                *map(str, request.scripts),
            ],
            env=request.environment,
            cwd=folder,
            deadline_s=deadline_s,
        )
        return result, parse_dump(target.read_bytes())


def _noise(result: QueryResult, redact: Redactor) -> tuple[str, ...]:
    lines = [line.rstrip() for line in redact(result.stdout + result.stderr).splitlines() if line.strip()]
    return tuple(lines[-_NOISE_LINES:])


def _story(script: str, result: QueryResult, noise: Sequence[str], deadline_s: float) -> tuple[str, str, str]:
    """Return what, why and fix for a script that never came back."""
    if result.timed_out:
        return (
            f"the oneAPI script {script} timed out after {deadline_s:g} s",
            "it waits, for example for an unreachable network file system or licence server",
            "run it by hand with the command below and see where it stops",
        )
    unbound = next((found for line in reversed(noise) if (found := _UNBOUND.search(line))), None)
    if unbound is not None:
        name, line = unbound["name"], unbound["line"]
        return (
            f"the oneAPI script {script} stopped at the unset variable {name}",
            f"it enables 'set -u' and reads {name} in line {line}, which is not set",
            f"reinstall the component, or give {name} a default in that line of the script",
        )
    return (
        f"the oneAPI script {script} ended the shell that sourced it (exit code {result.returncode})",
        "it calls 'exit', or a command failed under its 'set -e'; its variables are lost",
        "reinstall the component; the command below shows the last line that ran",
    )


def _incomplete(result: QueryResult, dump: Dump, noise: Sequence[str], deadline_s: float) -> ToolchainError:
    """Return the error for a list of records without an end."""
    script = dump.unfinished
    evidence: dict[str, Any] = {"output": list(noise), "status": result.returncode}
    if script is None:
        return ToolchainError(
            "the oneAPI environment could not be read",
            why=noise[-1] if noise else f"capture.sh exited with code {result.returncode}",
            fix="run the command below by hand and read its messages",
            commands=(shlex.join(result.argv),),
            evidence=evidence,
        )
    what, why, fix = _story(script, result, noise, deadline_s)
    return ToolchainError(what, why=why, fix=fix, commands=(by_hand(Path(script)),), evidence=evidence)


def capture(request: Request, *, deadline_s: float = DEADLINE_S) -> Capture:
    """Source the scripts in a clean bash and return what they changed.

    A script's own failure becomes a warning where something usable may have been set; whether it was is for
    ``validate`` to say. ``deadline_s`` is in seconds, for all scripts together.

    Raises:
        ToolchainError: a script is not to be trusted, hangs, ends the shell, or refuses to run.
    """
    request.require_trusted()
    result, dump = _run(request, deadline_s)
    noise = _noise(result, Redactor.from_environment(request.environment))
    if not dump.complete:
        raise _incomplete(result, dump, noise, deadline_s)
    statuses = tuple(
        ScriptStatus(script, status, entry=is_entry(script))
        for script, status in zip(request.scripts, dump.statuses, strict=True)
    )
    for status in statuses:
        status.require_usable({"output": list(noise)})
    return Capture(
        before=dump.before,
        after=dump.after,
        diff=diff(dump.before, dump.after),
        statuses=statuses,
        warnings=status_warnings(statuses),
        noise=noise,
    )


def status_warnings(statuses: Sequence[ScriptStatus]) -> tuple[Finding, ...]:
    """Return a finding for every script that reported a problem."""
    return tuple(
        Finding(
            "oneapi-script-status",
            f"{status.script} exited with code {status.status}: {status.meaning.text}",
            status.to_json(),
        )
        for status in statuses
        if status.status != 0
    )
