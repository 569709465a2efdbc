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
from dataclasses import dataclass, field
from pathlib import Path

from xpubuild import resources
from xpubuild.engine.process import QueryResult, query
from xpubuild.engine.redact import Redactor
from xpubuild.engine.temporary import scratch_folder
from xpubuild.errors import ToolchainError
from xpubuild.frozen import frozen
from xpubuild.machine.envdiff import EnvDiff, diff
from xpubuild.machine.oneapi_installed import SETVARS, UNIFIED_ENTRY
from xpubuild.machine.oneapi_trust import require_trusted

DEADLINE_S = 120.0
_UPPER = ("HTTP_PROXY", "HTTPS_PROXY", "FTP_PROXY", "ALL_PROXY", "NO_PROXY")
_KEPT = ("HOME", "USER", "TERM", *_UPPER, *map(str.lower, _UPPER))
_NOISE_LINES = 40
_UNBOUND = re.compile(r"line (?P<line>\d+): (?P<name>\w+): unbound variable")
_HEADER = b"#xpubuild-capture 1"
#: (of setvars.sh or oneapi-vars.sh, status) -> its meaning, and what to do where nothing usable is left.
#: Source: the public setvars.sh of 2025 and the compiler's env/vars.sh. 0 is no proof: an installation
#: without any component returns it too.
_STATUSES = {
    (True, 3): (
        "it has already run and was not forced to run again",
        "SETVARS_COMPLETED is set even in an empty environment: find out where, or use component scripts",
    ),
    (True, 4): ("its configuration file is missing or cannot be read", "correct the --config file"),
    (True, 7): (
        "its configuration file has a 'default=' line other than 'default=exclude'",
        "correct that line of the --config file",
    ),
    (True, 250): ("done, but a component's script reported a problem", ""),
    (True, 254): ("it printed its help and did nothing", "do not pass --help to the script"),
    (True, 255): (
        "it did not run: it was not sourced, does not support the shell, or was called with 'ia32'",
        "check that bash is GNU bash, and the arguments that are passed to the script",
    ),
    (False, 255): (
        "it did not run: it was not sourced, or does not support the shell",
        "scripts of the unified layout only run through oneapi-vars.sh; otherwise reinstall the component",
    ),
}
_OTHER = ("unknown exit code; only the variables that were set matter", "")


@frozen
class Capture:
    """The environment afterwards, what changed in it, and the output of the scripts."""

    after: Mapping[str, str]
    diff: EnvDiff
    warnings: tuple[str, ...] = ()
    output: tuple[str, ...] = ()


@dataclass
class _Records:
    """What capture.sh wrote; ``complete`` is False where a script ended the shell before the last record."""

    before: dict[str, str] = field(default_factory=dict)
    after: dict[str, str] = field(default_factory=dict)
    sources: list[str] = field(default_factory=list)
    statuses: list[int] = field(default_factory=list)
    complete: bool = False


def clean_environment(caller_env: Mapping[str, str]) -> dict[str, str]:
    """Return the whole environment of the capturing bash."""
    kept = {name: caller_env[name] for name in _KEPT if name in caller_env}
    return {**kept, "PATH": os.confstr("CS_PATH") or os.defpath}


def capture(
    scripts: Sequence[Path],
    caller_env: Mapping[str, str],
    root: Path,
    *,
    also_sourced: Sequence[Path] = (),
    owners: Collection[int] = (),
    deadline_s: float = DEADLINE_S,
) -> Capture:
    """Source the scripts of the installation ``root`` in a clean bash and return what they changed.

    ``also_sourced`` are those that an entry script sources by itself. A script's own failure becomes a
    warning where something usable may have been set. ``deadline_s`` is in seconds, for all scripts together.

    Raises:
        ToolchainError: a script is not to be trusted, hangs, ends the shell, or refuses to run.
    """
    require_trusted((*scripts, *also_sourced), root, owners)
    environment = clean_environment(caller_env)
    result, records = _run(scripts, environment, deadline_s)
    printed = Redactor.from_environment(environment)(result.stdout + result.stderr)
    output = tuple(line.rstrip() for line in printed.splitlines() if line.strip())[-_NOISE_LINES:]
    if not records.complete:
        raise _incomplete(result, records, output, deadline_s)
    warnings = []
    for script, status in zip(scripts, records.statuses, strict=True):
        meaning, fix = _STATUSES.get((script.name in (SETVARS, UNIFIED_ENTRY), status), _OTHER)
        if fix:
            raise ToolchainError(
                f"{script} exited with code {status}",
                why=meaning,
                fix=fix,
                commands=(_by_hand(script),),
                evidence={"output": list(output), "status": status},
            )
        warnings += [f"{script} exited with code {status}: {meaning}"] if status else []
    return Capture(records.after, diff(records.before, records.after), tuple(warnings), output)


def _run(
    scripts: Sequence[Path], environment: Mapping[str, str], deadline_s: float
) -> tuple[QueryResult, _Records]:
    bash = shutil.which("bash", path=environment["PATH"]) or shutil.which("bash")
    if bash is None:
        raise ToolchainError(
            "bash was not found",
            why="oneAPI's environment scripts are written for it",
            fix="install the package bash",
        )
    with scratch_folder("oneapi") as folder:
        # A file, not standard output: values may hold bytes that are not text.
        target = folder / "environment"
        target.touch(mode=0o600)
        argv = [
            bash, "--noprofile", "--norc", str(resources.setvars_dir() / "capture.sh"), "--keep-environment",
            "--file", str(target), "--", *map(str, scripts),
        ]  # fmt: skip
        result = query(argv, env=environment, cwd=folder, deadline_s=deadline_s)
        return result, _records(target.read_bytes())


def _records(data: bytes) -> _Records:
    """Read a list of records, whole or cut off; bytes that are not UTF-8 become surrogates."""
    found = _Records()
    current: dict[str, str] | None = None
    # A record that is not ended by NUL was cut off and is ignored.
    first, *records = data.split(b"\0")[:-1] or [b""]
    for record in records if first == _HEADER else ():
        word, _, rest = record.partition(b" ")
        if word in (b"#before", b"#after"):
            current = found.before if word == b"#before" else found.after
        elif word == b"#source":
            current = None
            found.sources.append(os.fsdecode(rest))
        elif word == b"#status":
            found.statuses.append(int(rest))
        elif word == b"#complete":
            found.complete = record is records[-1]
        elif current is not None and b"=" in record:
            name, _, value = record.partition(b"=")
            current[os.fsdecode(name)] = os.fsdecode(value)
    return found


def _incomplete(
    result: QueryResult, records: _Records, output: Sequence[str], deadline_s: float
) -> ToolchainError:
    """Return the error for a list of records without an end: a script that never came back."""
    evidence = {"output": list(output), "status": result.returncode}
    if len(records.sources) == len(records.statuses):
        return ToolchainError(
            "the oneAPI environment could not be read",
            why=output[-1] if output else f"capture.sh exited with code {result.returncode}",
            fix="run the command below by hand and read its messages",
            commands=(shlex.join(result.argv),),
            evidence=evidence,
        )
    script = records.sources[-1]
    unbound = next((found for line in reversed(output) if (found := _UNBOUND.search(line))), None)
    if result.timed_out:
        what = f"timed out after {deadline_s:g} s"
        why = "it waits, for example for an unreachable network file system or licence server"
        fix = "run it by hand with the command below and see where it stops"
    elif unbound is not None:
        name, line = unbound["name"], unbound["line"]
        what = f"stopped at the unset variable {name}"
        why = f"it enables 'set -u' and reads {name} in line {line}, which is not set"
        fix = f"reinstall the component, or give {name} a default in that line of the script"
    else:
        what = f"ended the shell that sourced it (exit code {result.returncode})"
        why = "it calls 'exit', or a command failed under its 'set -e'; its variables are lost"
        fix = "reinstall the component; the command below shows the last line that ran"
    return ToolchainError(
        f"the oneAPI script {script} {what}",
        why=why,
        fix=fix,
        commands=(_by_hand(Path(script)),),
        evidence=evidence,
    )


def _by_hand(script: Path) -> str:
    """Return a command line that runs one script in a clean bash and shows every line of it."""
    # The path is written out: handed over as $0 or $1, the script would see it.
    inner = shlex.quote(f'. {shlex.quote(str(script))}; echo "status $?"')
    return f'env -i HOME="$HOME" PATH=/usr/bin:/bin bash --noprofile --norc -xc {inner}'
