"""Makes a virtual environment with virtualenv, which works where ``ensurepip`` is missing too.

An environment cannot be renamed into place (its scripts name their interpreter), so a half-made one is told
by its mark: ``making`` is written before virtualenv starts, ``ready`` after it has ended well.
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path

from xpubuild.engine.environment import base_environment
from xpubuild.engine.files import explained, remove_tree, sync_filesystems
from xpubuild.engine.places import existing_quoted
from xpubuild.engine.process import query
from xpubuild.engine.temporary import scratch_folder
from xpubuild.errors import NoSpaceError, ToolchainError
from xpubuild.host.pythons import PATIENT_S, PythonFacts, probe_python
from xpubuild.toolchain.environment import env_python
from xpubuild.toolchain.envmark import MARK, check_name, read_mark, require_ours, write_mark
from xpubuild.toolchain.pip_failures import NO_SPACE

_DEADLINE_S = 300.0


def make_env(env: Path, python: Path) -> bool:
    """Make the environment ``env`` of the interpreter ``python``; return whether anything had to be done.

    One that is ready and of the same Python is left alone. One that is half made, of another Python, or whose
    Python has gone is made again, where it was made by xpubuild.

    Raises:
        UsageError: the folder holds something that xpubuild did not make, or has an unusable name.
        ToolchainError: the interpreter does not run, or virtualenv failed.
        NoSpaceError: the disk is full.
    """
    check_name(env)
    facts = probe_python(python, deadline_s=PATIENT_S)
    if facts.error:
        raise ToolchainError(
            f"no environment can be created with {python}",
            why=facts.error,
            fix="use another interpreter with --python",
            commands=(f"'{python}' --version",),
        )
    wanted = {"base": facts.base_executable, "version": _minor(facts)}
    if _is_ready(env, wanted):
        return False
    require_ours(env)
    with explained(env, "creating the Python environment"):
        env.mkdir(parents=True, exist_ok=True)
        write_mark(env, {"state": "making", **wanted})
        for entry in env.iterdir():
            if entry.name != MARK:
                remove_tree(entry)
    _run_virtualenv(env, python)
    # What was made is on the disk before the mark says so, else a power cut leaves a mark of empty files.
    sync_filesystems([env])
    write_mark(env, {"state": "ready", **wanted})
    return True


def _minor(facts: PythonFacts) -> str:
    """Return implementation and minor version: what decides whether installed packages still fit."""
    threads = "t" if facts.free_threaded else ""
    return f"{facts.implementation} {'.'.join(facts.version.split('.')[:2])}{threads}"


def _is_ready(env: Path, wanted: Mapping[str, str]) -> bool:
    mark = read_mark(env)
    if mark != {"state": "ready", **wanted} or not _has_settings(env):
        return False
    found = probe_python(Path(env_python(env)), deadline_s=PATIENT_S)
    return not found.error and _minor(found) == wanted["version"]


def _has_settings(env: Path) -> bool:
    """Whether pyvenv.cfg says anything: after a power cut it may be empty, and the interpreter still runs."""
    settings = env / "pyvenv.cfg"
    return settings.is_file() and settings.stat().st_size > 0


def _run_virtualenv(env: Path, python: Path) -> None:
    environment = base_environment()
    # The user's own virtualenv settings could change what is made (system packages, another seeder).
    environment["VIRTUALENV_CONFIG_FILE"] = os.devnull
    argv = [
        sys.executable, "-m", "virtualenv", "--python", str(python), "--no-download", "--no-periodic-update",
        "--no-vcs-ignore", "--no-setuptools", str(env),
    ]  # fmt: skip
    # virtualenv unpacks pip into a folder of the user; if it is killed meanwhile, half of it stays there,
    # and every later environment would fail.
    with scratch_folder("virtualenv") as data:
        result = query([*argv, "--app-data", str(data)], env=environment, deadline_s=_DEADLINE_S)
    if result.ok and (env / "pyvenv.cfg").is_file():
        return
    said = [line for line in (result.stdout + result.stderr).splitlines() if line.strip()]
    full = next((line for line in said if NO_SPACE.search(line)), None)
    if full is not None:
        raise NoSpaceError(
            f"no space left while the Python environment {env} was made",
            why=full.strip(),
            fix="free some space, or choose a --workspace on a larger disk; then run the same command again",
            commands=(f"df -h {existing_quoted(env)}",),
        )
    raise ToolchainError(
        f"the Python environment {env} could not be created with {python}",
        why="virtualenv timed out" if result.timed_out else (said[-1] if said else "virtualenv failed"),
        fix="run the command below to see the error of virtualenv, or use another interpreter with --python",
        commands=(shlex.join(argv),),
        evidence={"output": said[-20:]},
    )
