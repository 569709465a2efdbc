"""Creates an environment from a lock: checks the archives, links them, and marks the environment as ready at
the end.

An environment cannot be renamed into place, since its path is written into its files. As for a virtual
environment (``toolchain.make_env``), a mark says ``making`` before the first file is there and ``ready``
after the last; one that is not ready is emptied and made again.

The engine is py-rattler where it is installed: it needs no conda, reads no settings of the user and runs no
scripts of packages. Else a conda executable installs the same checked files from an ``@EXPLICIT`` list.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping
from pathlib import Path

from xpubuild.engine.files import explained, remove_tree, write_atomic
from xpubuild.engine.process import query
from xpubuild.errors import RecipeError, ToolchainError
from xpubuild.frozen import frozen
from xpubuild.machine.envmark import MARK, check_name, read_mark, require_ours, write_mark
from xpubuild.machine.python_environment import env_python
from xpubuild.machine.pythons import probe_python
from xpubuild.supply.conda import by_rattler, traps
from xpubuild.supply.conda.archives import Supply, bring, explicit_lines, hashes
from xpubuild.supply.conda.engines import Engines, missing
from xpubuild.supply.conda.failures import tool_failed
from xpubuild.supply.conda.lockfile import read_lock
from xpubuild.supply.conda.model import CondaLock
from xpubuild.supply.conda.prefix import mend_records, problems, tidy
from xpubuild.untrusted import read_text

_DEADLINE_S = 1800.0


@frozen
class Installation:
    """What is to be made and with what."""

    env: Path
    lock: CondaLock
    supply: Supply
    engines: Engines
    environment: Mapping[str, str]
    report: Callable[[str], None]

    @property
    def scratch(self) -> Path:
        """Beside the environment, on the same file system; gone when the installation has ended."""
        return self.env.parent / f".{self.env.name}.conda"


def lock_digest(lock: CondaLock) -> str:
    """Return one number for what a lock installs."""
    lines = sorted(f"{item.url.rpartition('/')[2]} {item.sha256}" for item in lock.packages)
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def python_version(lock: CondaLock) -> str:
    """Return the version of Python in a lock.

    Raises:
        RecipeError: it has none.
    """
    for package in lock.packages:
        if package.name == "python":
            return package.version
    raise RecipeError(
        "the conda lock has no python",
        why="everything else is installed into and built with the environment's Python",
        fix="add python to the recipe's toolchain.conda.packages",
    )


def make_conda_env(work: Installation) -> bool:
    """Make the environment; return whether anything had to be done.

    Raises:
        UnsatisfiableError: a package of the lock harms an XPU build.
        FetchError, SourceIntegrityError: an archive cannot be had, or is not the one of the lock.
        ToolchainError, NoSpaceError: nothing here can install it, or installing failed.
        UsageError: the folder holds something that xpubuild did not make, or has an unusable name.
    """
    traps.refuse(work.lock.packages)
    wanted = {"conda": lock_digest(work.lock), "python": python_version(work.lock)}
    check_name(work.env)
    if _is_ready(work, wanted):
        # A run that was killed after its mark left it.
        remove_tree(work.scratch)
        return False
    if not work.engines.rattler and not work.engines.conda:
        raise missing("installed", work.engines)
    require_ours(work.env)
    with explained(work.env, "making the conda environment"):
        if os.path.lexists(work.scratch):
            remove_tree(work.scratch)
        work.scratch.mkdir(parents=True)
    try:
        bring(work.lock.packages, work.scratch / "channel", work.supply, report=work.report)
        _empty(work.env, wanted)
        _link(work)
        tidy(work.env, work.lock.packages)
        mend_records(work.env)
        _require_whole(work)
        write_mark(work.env, {"state": "ready", **wanted})
    finally:
        remove_tree(work.scratch)
    return True


def read_lock_file(path: Path) -> CondaLock:
    """Return the lock in a file.

    Raises:
        RecipeError: it cannot be read, or is no usable lock.
    """
    try:
        text = read_text(path)
    except (OSError, ValueError) as error:
        raise RecipeError(
            f"{path} cannot be read", why=str(error), fix="pass the path of a conda-lock.yml"
        ) from error
    return read_lock(text, name=str(path))


def _link(work: Installation) -> None:
    channel = work.scratch / "channel"
    for name in ("linux-64", "noarch"):
        (channel / name).mkdir(parents=True, exist_ok=True)
    count = len(work.lock.packages)
    if work.engines.rattler:
        work.report(f"py-rattler links {count} packages")
        by_rattler.install(channel, work.env, hashes(work.lock.packages), work.engines, work.environment)
        return
    work.report(f"{Path(work.engines.conda or '').name} links {count} packages")
    file = work.scratch / "explicit.txt"
    file.write_text(explicit_lines(work.lock.packages, channel), "utf-8")
    # conda installs only into what it takes for an environment.
    write_atomic(work.env / "conda-meta" / "history", b"")
    environment = {
        **work.environment,
        "CONDA_PKGS_DIRS": str(work.scratch / "unpacked"),
        "MAMBA_ROOT_PREFIX": str(work.scratch / "root"),
    }
    argv = [
        str(work.engines.conda), "install", "--prefix", str(work.env), "--offline", "--yes", "--quiet",
        "--file", str(file),
    ]  # fmt: skip
    result = query(argv, env=environment, cwd=work.scratch, deadline_s=_DEADLINE_S)
    if not result.ok:
        said = [line for line in (result.stdout + result.stderr).splitlines() if line.strip()]
        late = "it timed out" if result.timed_out else ""
        raise tool_failed(Path(argv[0]).name, late or "\n".join(said[-5:]))


def _require_whole(work: Installation) -> None:
    wrong = problems(work.env, work.lock.packages)
    if wrong:
        raise ToolchainError(
            f"the conda environment {work.env} does not match the lock",
            why="; ".join(wrong[:3]),
            fix="run the same command again; it will be created again",
            evidence={"problems": wrong[:50]},
        )


def _is_ready(work: Installation, wanted: Mapping[str, str]) -> bool:
    if read_mark(work.env) != {"state": "ready", **wanted}:
        return False
    if problems(work.env, work.lock.packages):
        return False
    return not probe_python(Path(env_python(work.env))).error


def _empty(env: Path, wanted: Mapping[str, str]) -> None:
    with explained(env, "making the conda environment"):
        env.mkdir(parents=True, exist_ok=True)
        write_mark(env, {"state": "making", **wanted})
        for entry in env.iterdir():
            if entry.name != MARK:
                remove_tree(entry)
