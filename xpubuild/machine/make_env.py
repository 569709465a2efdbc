"""Makes a virtual environment with the ``venv`` of its interpreter, and puts pip into it.

The pip is the one that virtualenv ships, unpacked by installer: that takes a tenth of the time of ensurepip,
and works where ensurepip is missing, as on Debian without python3-venv.

An environment cannot be renamed into place (its scripts name their interpreter), so a half-made one is told
by its mark: ``making`` is written before venv starts, ``ready`` after pip is there.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping
from pathlib import Path

from installer import install
from installer.destinations import SchemeDictionaryDestination
from installer.sources import WheelFile
from virtualenv.seed.wheels.embed import BUNDLE_SUPPORT, get_embed_wheel  # type: ignore[import-untyped]

from xpubuild.engine.environment import base_environment
from xpubuild.engine.files import explained, remove_tree, sync_filesystems
from xpubuild.engine.places import existing_quoted
from xpubuild.engine.process import query
from xpubuild.errors import NoSpaceError, ToolchainError
from xpubuild.machine.envmark import altered, check_name, mark_and_empty, read_mark, require_ours, write_mark
from xpubuild.machine.pip_failures import NO_SPACE
from xpubuild.machine.python_environment import env_python
from xpubuild.machine.pythons import PATIENT_S, PythonFacts, probe_python

_DEADLINE_S = 300.0
#: The first whose venv writes a .gitignore.
_WITH_GITIGNORE = (3, 13)


def make_env(env: Path, python: Path) -> bool:
    """Make the environment ``env`` of the interpreter ``python``; return whether anything had to be done.

    One that is ready and of the same Python is left alone; settings and links of it that were changed are
    written again. One that is half made, of another Python, or whose Python has gone is made again, where it
    was made by xpubuild.

    Raises:
        UsageError: the folder holds something that xpubuild did not make, or has an unusable name.
        ToolchainError: the interpreter does not run, its venv failed, or no pip for it is known.
        NoSpaceError: the disk is full.
    """
    env = env.absolute()
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
    # An environment of an environment's Python would need that one: before 3.11 venv links to it.
    python = Path(facts.base_executable) if facts.virtual else python
    wrong = altered(env) if read_mark(env) == {"state": "ready", **wanted} else {}
    with explained(env, "restoring the Python environment"):
        for path in wrong:
            remove_tree(path)
    if wrong:
        _run_venv(env, python, facts)
        sync_filesystems([env])
    if _is_ready(env, wanted):
        return bool(wrong)
    require_ours(env)
    with explained(env, "creating the Python environment"):
        mark_and_empty(env, wanted)
    _run_venv(env, python, facts)
    with explained(env, "creating the Python environment"):
        _put_pip(env, facts)
    # What was made is on the disk before the mark says so, else a power cut leaves a mark of empty files.
    sync_filesystems([env])
    write_mark(env, {"state": "ready", **wanted})
    return True


def _minor(facts: PythonFacts) -> str:
    """Return implementation and minor version: what decides whether installed packages still fit."""
    threads = "t" if facts.free_threaded else ""
    return f"{facts.implementation} {_numbers(facts)}{threads}"


def _numbers(facts: PythonFacts) -> str:
    return ".".join(facts.version.split(".")[:2])


def _is_ready(env: Path, wanted: Mapping[str, str]) -> bool:
    if read_mark(env) != {"state": "ready", **wanted}:
        return False
    found = probe_python(Path(env_python(env)), deadline_s=PATIENT_S)
    return not found.error and _minor(found) == wanted["version"]


def _run_venv(env: Path, python: Path, facts: PythonFacts) -> None:
    argv = [str(python), "-I", "-m", "venv", "--without-pip"]
    if tuple(map(int, _numbers(facts).split("."))) >= _WITH_GITIGNORE:
        argv.append("--without-scm-ignore-files")
    # venv refuses a link.
    argv.append(str(env.resolve() if env.is_symlink() else env))
    result = query(argv, env=base_environment(), deadline_s=_DEADLINE_S)
    if result.ok and (env / "pyvenv.cfg").is_file():
        return
    printed = [line for line in (result.stdout + result.stderr).splitlines() if line.strip()]
    full = next((line for line in printed if NO_SPACE.search(line)), None)
    if full is not None:
        raise NoSpaceError(
            f"no space left while the Python environment {env} was made",
            why=full.strip(),
            fix="free some space, or choose a --workspace on a larger disk; then run the same command again",
            commands=(f"df -h {existing_quoted(env)}",),
        )
    raise ToolchainError(
        f"the Python environment {env} could not be created with {python}",
        why="venv timed out" if result.timed_out else (printed[-1] if printed else "venv failed"),
        fix="run the command below to see the error of venv, install what it lacks (the package python3-venv"
        " of Debian and Ubuntu), or use another interpreter with --python",
        commands=(shlex.join(argv),),
        evidence={"output": printed[-20:]},
    )


def _put_pip(env: Path, facts: PythonFacts) -> None:
    """Unpack the pip of virtualenv as pip itself would: files, RECORD and INSTALLER, and its scripts."""
    version = _numbers(facts)
    if version not in BUNDLE_SUPPORT:
        raise ToolchainError(
            f"there is no pip for Python {version}",
            why="the installed virtualenv, which brings pip along, does not know this release",
            fix="upgrade virtualenv, or use another interpreter with --python",
            commands=(shlex.join([sys.executable, "-m", "pip", "install", "--upgrade", "virtualenv"]),),
        )
    wheel = get_embed_wheel("pip", version)
    site_packages = str(next(env.glob("lib/*/site-packages")))
    places = dict.fromkeys(("purelib", "platlib"), site_packages)
    places |= {"scripts": str(env / "bin"), "data": str(env), "headers": str(env / "include")}
    destination = SchemeDictionaryDestination(places, env_python(env), "posix")
    with WheelFile.open(wheel.path) as source:
        install(source, destination, {"INSTALLER": b"pip\n"})
