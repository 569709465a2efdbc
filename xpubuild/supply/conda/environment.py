"""Creates an environment from a lock: checks the archives, links them, and marks the environment as ready.

An environment cannot be renamed into place, since its path is written into its files. As for a virtual
environment (``machine.make_env``), a mark says ``making`` before the first file is there and ``ready``
after the last; one that is not ready is emptied and made again. py-rattler links: it needs no conda, reads no
settings of the user and runs no scripts of packages.
"""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import json
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from xpubuild.engine.files import explained, remove_tree, write_atomic
from xpubuild.engine.places import existing_quoted
from xpubuild.errors import NoSpaceError, RecipeError, ToolchainError
from xpubuild.frozen import frozen
from xpubuild.machine.envmark import MARK, check_name, read_mark, require_ours, write_mark
from xpubuild.machine.python_environment import env_python
from xpubuild.machine.pythons import probe_python
from xpubuild.supply.conda import traps
from xpubuild.supply.conda.archives import Supply, bring
from xpubuild.supply.conda.lockfile import read_lock
from xpubuild.supply.conda.model import CondaLock, CondaPackage
from xpubuild.supply.conda.tools import Engines, ask_rattler, missing, tool_failed
from xpubuild.untrusted import read_text

# Where and when something was unpacked; another machine or run has other values.
_INCIDENTAL = ("extracted_package_dir", "indexed_timestamp", "link", "requested_specs", "requested_spec")
_REMOVED = frozenset({"REQUESTED", "direct_url.json"})
_NO_SPACE = "No space left on device"


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


@frozen
class Installed:
    """One record of ``conda-meta``; ``files`` are relative to the prefix."""

    name: str
    version: str
    sha256: str
    files: tuple[str, ...]


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


def make_conda_env(work: Installation) -> bool:
    """Make the environment; return whether anything had to be done.

    Raises:
        UnsatisfiableError: a package of the lock harms an XPU build.
        FetchError, SourceIntegrityError: an archive cannot be had, or is not the one of the lock.
        ToolchainError, NoSpaceError: py-rattler is missing or failed, or the disk is full.
        UsageError: the folder holds something that xpubuild did not make, or has an unusable name.
    """
    env, packages = work.env, work.lock.packages
    traps.refuse(packages)
    wanted = {"conda": work.lock.digest, "python": work.lock.python}
    check_name(env)
    if (
        read_mark(env) == {"state": "ready", **wanted}
        and not problems(env, packages)
        and not probe_python(Path(env_python(env))).error
    ):
        # A run that was killed after its mark left it.
        remove_tree(work.scratch)
        return False
    if not work.engines.rattler:
        raise missing("installed")
    require_ours(env)
    with explained(env, "making the conda environment"):
        remove_tree(work.scratch)
        for name in ("linux-64", "noarch"):
            (work.scratch / "channel" / name).mkdir(parents=True)
    try:
        bring(packages, work.scratch / "channel", work.supply, report=work.report)
        with explained(env, "making the conda environment"):
            env.mkdir(parents=True, exist_ok=True)
            write_mark(env, {"state": "making", **wanted})
            for entry in env.iterdir():
                if entry.name != MARK:
                    remove_tree(entry)
        work.report(f"py-rattler links {len(packages)} packages")
        _link(work)
        tidy(env, packages)
        mend_records(env)
        if wrong := problems(env, packages):
            raise ToolchainError(
                f"the conda environment {env} does not match the lock",
                why="; ".join(wrong[:3]),
                fix="run the same command again; it will be created again",
                evidence={"problems": wrong[:50]},
            )
        write_mark(env, {"state": "ready", **wanted})
    finally:
        remove_tree(work.scratch)
    return True


def _link(work: Installation) -> None:
    job = {
        "action": "install", "folder": str(work.scratch / "channel"), "prefix": str(work.env),
        "sha256": {item.filename: item.sha256 for item in work.lock.packages},
        "cache": str(work.scratch / "unpacked"),
    }  # fmt: skip
    answer = ask_rattler(job, "installed", work.engines, work.environment)
    message = str(answer.get("message", ""))
    if _NO_SPACE in message:
        raise NoSpaceError(
            f"no space left while conda packages were installed into {work.env}",
            why=message,
            fix="free some space, or choose a --workspace on a larger disk; then run the same command again",
            commands=(f"df -h {existing_quoted(work.env)}",),
        )
    if "ok" not in answer:
        raise tool_failed("py-rattler", message)


def installed(env: Path) -> dict[str, Installed]:
    """Return what ``conda-meta`` records, by name; a damaged record is left out."""
    found = {}
    for path in sorted((env / "conda-meta").glob("*.json")):
        record = _load(path)
        name = record.get("name")
        if isinstance(name, str):
            files = tuple(str(item) for item in record.get("files") or ())
            version, digest = str(record.get("version", "")), str(record.get("sha256", ""))
            found[name] = Installed(name, version, digest, files)
    return found


def tidy(env: Path, packages: Sequence[CondaPackage]) -> None:
    """Write the records with the addresses and hashes of the lock and without what is incidental.

    The archives were linked from a folder that is gone afterwards. conda reads the result: ``conda list
    --prefix ENV`` works on it.
    """
    known = {package.name: package for package in packages}
    meta = env / "conda-meta"
    for path in sorted(meta.glob("*.json")):
        record = {key: value for key, value in _load(path).items() if key not in _INCIDENTAL}
        package = known.get(str(record.get("name")))
        if package is not None and record.get("version") == package.version:
            record |= {
                "fn": package.filename, "url": package.url, "channel": f"{package.channel}/",
                "sha256": package.sha256, "md5": package.md5, "requested_specs": [],
            }  # fmt: skip
        write_atomic(path, json.dumps(record, indent=1, sort_keys=True).encode() + b"\n")
    # conda takes a folder for an environment by this file; rattler writes the time into it.
    write_atomic(meta / "history", b"")


def mend_records(env: Path) -> None:
    """Make the RECORD of Python packages true: conda's builders change files after pip wrote it.

    They write ``conda`` into INSTALLER and remove what says where pip had the wheel from. Otherwise the
    packages would look like what an interrupted pip left.
    """
    for record in sorted((env / "lib").glob("python3*/site-packages/*.dist-info/RECORD")):
        rows = list(csv.reader(io.StringIO(record.read_text("utf-8"))))
        site = record.parent.parent
        there = (
            row for row in rows if row and (Path(row[0]).name not in _REMOVED or (site / row[0]).exists())
        )
        kept = [_true_row(row, site / row[0]) for row in there]
        if kept != rows:
            out = io.StringIO()
            csv.writer(out, lineterminator="\n").writerows(kept)
            # A file of its own: the one there may be a second name of a file in a package cache.
            write_atomic(record, out.getvalue().encode())


def _true_row(row: list[str], path: Path) -> list[str]:
    if path.name != "INSTALLER" or not path.is_file():
        return row
    data = path.read_bytes()
    checksum = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
    return [row[0], f"sha256={checksum}", str(len(data))]


def problems(env: Path, packages: Sequence[CondaPackage]) -> list[str]:
    """Say how the prefix differs from the lock, one line each; empty where it is whole.

    Python packages may be replaced by pip later, so files in ``site-packages`` are pip's matter and not
    looked at here.
    """
    there = installed(env)
    found = []
    for package in packages:
        record = there.get(package.name)
        if record is None:
            found.append(f"{package.title} is not installed")
        elif (record.version, record.sha256) != (package.version, package.sha256):
            found.append(f"{package.name} is {record.version} with sha256 {record.sha256[:12] or 'unknown'}")
        else:
            wanted = (name for name in record.files if "/site-packages/" not in name and name[-4:] != ".pyc")
            gone = [name for name in wanted if not os.path.lexists(env / name)]
            if gone:
                found.append(f"{package.title} lacks {len(gone)} files: {gone[0]}")
    extra = sorted(set(there) - {package.name for package in packages})
    return found + [f"{name} is installed, but not in the lock" for name in extra]


def _load(path: Path) -> dict[str, Any]:
    try:
        document = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return document if isinstance(document, dict) else {}
