"""Creates an environment from a lock: checks the archives, links them, marks it as ready; and proves it.

An environment cannot be renamed into place, since its path is written into its files. As for a virtual
environment (``machine.make_env``), a mark says ``making`` before the first file is there and ``ready``
after the last; one that is not ready is emptied and made again. py-rattler links: it needs no conda, reads no
settings of the user and runs no scripts of packages.
"""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from xpubuild.engine.files import explained, read_json, remove_tree, write_atomic, write_json
from xpubuild.errors import ToolchainError
from xpubuild.frozen import frozen
from xpubuild.machine.envmark import check_name, mark_and_empty, read_mark, require_ours, write_mark
from xpubuild.machine.python_environment import env_python
from xpubuild.machine.pythons import PATIENT_S, probe_python
from xpubuild.supply.archives import Supply, bring, require_here
from xpubuild.supply.conda.lockfile import CondaLock, CondaPackage
from xpubuild.supply.conda.solve import (
    STDLIB,
    ask_rattler,
    glibcxx,
    kind_of,
    machine_need,
    provided,
    rattler_failed,
    refuse,
)

# Where and when something was unpacked; another machine or run has other values.
_INCIDENTAL = ("extracted_package_dir", "indexed_timestamp", "link", "requested_spec")


def make_conda_env(
    env: Path, lock: CondaLock, supply: Supply, environment: Mapping[str, str], report: Callable[[str], None]
) -> bool:
    """Make the environment; return whether anything had to be done.

    Raises:
        UnsatisfiableError: a package of the lock harms an XPU build.
        FetchError, SourceIntegrityError: an archive cannot be had, or is not the one of the lock.
        ToolchainError, NoSpaceError: py-rattler is missing or failed, or the disk is full.
        UsageError: the folder holds something that xpubuild did not make, or has an unusable name.
    """
    packages, scratch = lock.packages, env.parent / f".{env.name}.conda"
    refuse(packages)
    wanted = {"conda": lock.digest, "python": lock.python}
    check_name(env)
    ready = read_mark(env) == {"state": "ready", **wanted} and not problems(env, packages)
    if ready and not probe_python(Path(env_python(env))).error:
        # A run that was killed after its mark left it.
        remove_tree(scratch)
        return False
    require_ours(env)
    with explained(env, "making the conda environment"):
        remove_tree(scratch)
        for name in ("linux-64", "noarch"):
            (scratch / "channel" / name).mkdir(parents=True)
    try:
        if supply.offline:
            require_here((package.archive for package in packages), supply)
        for package in packages:
            # Every hash is checked here, and once more by rattler's index of the folder.
            held = bring(package.archive, supply, report)
            with explained(scratch, f"copying {package.filename}"):
                shutil.copyfile(held.path, scratch / "channel" / package.subdir / package.filename)
        with explained(env, "making the conda environment"):
            mark_and_empty(env, wanted)
        report(f"py-rattler links {len(packages)} packages")
        _link(lock, scratch, env, environment)
        _tidy(env, packages)
        write_mark(env, {"state": "ready", **wanted})
    finally:
        remove_tree(scratch)
    return True


def _link(lock: CondaLock, scratch: Path, env: Path, environment: Mapping[str, str]) -> None:
    job = {
        "action": "install", "folder": str(scratch / "channel"), "prefix": str(env),
        "sha256": {item.filename: item.sha256 for item in lock.packages}, "cache": str(scratch / "unpacked"),
    }  # fmt: skip
    answer = ask_rattler(job, "installed", environment)
    if "ok" not in answer:
        message = str(answer.get("message", ""))
        with explained(env, "installing conda packages"):
            if "No space left on device" in message:
                raise OSError(errno.ENOSPC, message)
        raise rattler_failed(message)


def installed(env: Path) -> dict[str, dict[str, Any]]:
    """Return what ``conda-meta`` records, by name; a damaged record is left out."""
    records = map(read_json, sorted((env / "conda-meta").glob("*.json")))
    return {str(record["name"]): record for record in records if record.get("name")}


def _tidy(env: Path, packages: Sequence[CondaPackage]) -> None:
    """Write the records with the addresses and hashes of the lock and without what is incidental.

    The archives were linked from a folder that is gone afterwards. conda reads the result: ``conda list
    --prefix ENV`` works on it.
    """
    meta, known = env / "conda-meta", {package.name: package for package in packages}
    for path in sorted(meta.glob("*.json")):
        record = {key: value for key, value in read_json(path).items() if key not in _INCIDENTAL}
        if (package := known.get(str(record.get("name")))) is not None:
            record |= {"fn": package.filename, "url": package.url, "channel": f"{package.channel}/"}
            record |= {"md5": package.md5, "requested_specs": []}
        write_json(path, record)
    # conda takes a folder for an environment by this file; rattler writes the time into it.
    write_atomic(meta / "history", b"")


def problems(env: Path, packages: Sequence[CondaPackage]) -> list[str]:
    """Say how the prefix differs from the lock, one line each; empty where it is whole.

    Python packages may be replaced by pip later, so files in ``site-packages`` are pip's matter and not
    looked at here.
    """
    there, found = installed(env), []
    for package in packages:
        record = there.get(package.name, {})
        version, sha256 = record.get("version"), str(record.get("sha256"))
        if not record:
            found.append(f"{package.title} is not installed")
        elif (version, sha256) != (package.version, package.sha256):
            found.append(f"{package.name} is {version} with sha256 {sha256[:12]}")
        else:
            names = map(str, record.get("files") or ())
            wanted = (name for name in names if "/site-packages/" not in name and name[-4:] != ".pyc")
            gone = [name for name in wanted if not os.path.lexists(env / name)]
            found += [f"{package.title} lacks {len(gone)} files: {gone[0]}"] if gone else []
    extra = sorted(set(there) - {package.name for package in packages})
    return found + [f"{name} is installed, but not in the lock" for name in extra]


@frozen
class CondaEnvironmentProof:
    """The environment matches the lock and can build for XPU. ``root`` is the root folder of the host."""

    env: str
    lock: CondaLock
    root: str = "/"

    def describe(self) -> str:
        """Return what is checked."""
        count = len(self.lock.packages)
        return f"environment has the {count} packages of the conda lock and no conflicting ones"

    def key(self) -> dict[str, Any]:
        """Return what the check depends on."""
        return {"proof": "conda-environment", "env": self.env, "lock": self.lock.digest}

    def check(self) -> dict[str, Any]:
        """Return Python's version, the hashes and what the packages would have run.

        Raises:
            ToolchainError: a package is missing, another or harmful, Python does not run, or libstdc++ is
                older than the machine needs.
        """
        env = Path(self.env)
        wrong = problems(env, self.lock.packages)
        harms = ((name, kind_of(name)) for name in installed(env))
        wrong += [f"{name} is installed: {reason}" for name, reason in harms if reason]
        facts = probe_python(env / "bin" / "python", deadline_s=PATIENT_S)
        if facts.error or not facts.version.startswith(self.lock.python):
            wrong.append(facts.error or f"its Python is {facts.version}, the lock says {self.lock.python}")
        if wrong:
            raise ToolchainError(
                f"the conda environment {env} does not match the lock",
                why="; ".join(wrong[:3]),
                fix="run the same command again: the step that creates it will run again",
                evidence={"env": self.env, "problems": wrong[:50]},
            )
        return {
            "python": facts.version,
            "packages": {item.filename: item.sha256 for item in self.lock.packages},
            "activation_scripts_not_run": sorted(path.name for path in env.glob("etc/conda/activate.d/*")),
            "libstdcxx": self._libstdcxx(env),
        }

    def _libstdcxx(self, env: Path) -> dict[str, str]:
        library = env / "lib" / STDLIB
        if not library.exists():
            return {}
        has, need = provided(library) or "no GLIBCXX version", machine_need(Path(self.root))
        if need is not None and glibcxx(has) < glibcxx(need.version):
            files = f"lib/{STDLIB}"
            owners = (item for item in installed(env).values() if files in (item.get("files") or ()))
            owner = next((f"{item['name']} {item['version']}" for item in owners), f"that has {files}")
            raise ToolchainError(
                f"the libstdc++ of the conda package {owner} is older than this machine needs",
                why=(
                    f"{library} has symbols up to {has}, {need.source} needs {need.version}; the "
                    "environment's Python loads its own libstdc++ first, and the Level Zero driver then "
                    "fails to load"
                ),
                fix="add a newer libstdcxx-ng to toolchain.conda.packages, and create the lock again",
                evidence={"package": owner, "has": has, "needs": need.version, "by": need.source},
            )
        return {"has": has, "needs": need.version if need else "", "by": need.source if need else ""}
