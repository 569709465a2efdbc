"""What py-rattler does, in a process of its own: solving specifications, and linking archives into a prefix.

Run as a script, ``python -I rattler_child.py``, with the interpreter that has py-rattler. The job comes on
standard input. The answer is one JSON object on standard output: ``{"ok": …}`` or
``{"error": KIND, "message": TEXT}``. Standard library and rattler only.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

#: rattler's exceptions by what they mean to the user; anything else is a failure of the tool.
KINDS = {
    "SolverError": "unsatisfiable",
    "GatewayError": "unreachable",
    "FetchRepoDataError": "unreachable",
    "InvalidMatchSpecError": "invalid",
    "InvalidChannelError": "invalid",
    "InvalidUrlError": "invalid",
}


async def solve(job: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the packages of the solution as plain values."""
    import rattler
    from rattler.package import BuildString

    virtual = [
        rattler.GenericVirtualPackage(rattler.PackageName(name), rattler.Version(version), BuildString(build))
        for name, version, build in job["virtual"]
    ]
    records = await rattler.solve(
        sources=job["channels"],
        specs=job["specs"],
        platforms=[job["platform"], "noarch"],
        virtual_packages=virtual,
        # With the logins of .netrc.
        gateway=rattler.Gateway(cache_dir=Path(job["cache"]), client=rattler.Client.authenticated_client()),
    )
    found = []
    for record in records:
        hashes = {name: (getattr(record, name) or b"").hex() for name in ("sha256", "md5")}
        named = {"name": record.name.normalized, "version": str(record.version), "url": record.url}
        more = {"build": str(record.build), "filename": record.file_name, "depends": list(record.depends)}
        found.append({**hashes, **named, **more})
    return found


async def install(job: dict[str, Any]) -> list[str]:
    """Link the archives of a folder into a prefix; return the names of what was linked.

    What a package is, is read from the archives themselves: an index is made of the folder, which computes
    their hashes again.
    """
    import rattler
    from rattler.index import index_fs

    folder = Path(job["folder"])
    await index_fs(folder, write_zst=False, write_shards=False, force=True)
    channel = rattler.Channel(folder.as_uri())
    records = []
    for path in sorted(folder.glob("*/repodata.json")):
        records += rattler.RepoData.from_path(path).into_repo_data(channel)
    found = {record.file_name: (record.sha256 or b"").hex() for record in records}
    if found != job["sha256"]:
        wrong = sorted({name for name, _ in found.items() ^ job["sha256"].items()})
        raise ValueError(f"the index of the archives differs from the lock: {', '.join(wrong)}")
    await rattler.install(
        records,
        target_prefix=job["prefix"],
        cache_dir=Path(job["cache"]),
        installed_packages=[],
        execute_link_scripts=False,
        show_progress=False,
    )
    return sorted(record.name.normalized for record in records)


def _known_errors() -> tuple[type[Exception], ...]:
    """Return rattler's exceptions, which have no common base, and what files and values raise."""
    from rattler import exceptions

    classes = (item for item in vars(exceptions).values() if isinstance(item, type))
    return (OSError, ValueError, *(item for item in classes if issubclass(item, Exception)))


def main() -> int:
    """Do the job that standard input holds."""
    job = json.loads(sys.stdin.buffer.read())
    answer: dict[str, Any]
    try:
        answer = {"ok": asyncio.run(solve(job) if job["action"] == "solve" else install(job))}
    except ImportError as error:
        answer = {"error": "missing", "message": str(error)}
    except _known_errors() as error:
        kind = type(error).__name__
        answer = {"error": KINDS.get(kind, "failed"), "kind": kind, "message": str(error)}
    sys.stdout.write(json.dumps(answer))
    return 0


if __name__ == "__main__":
    status = main()
    sys.stdout.flush()
    # rattler's own threads now and then crash the interpreter while it ends; the answer is out by now.
    os._exit(status)
