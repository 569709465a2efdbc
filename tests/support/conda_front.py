"""A stand-in for conda: a conda-shaped front end over rattler, with what conda-lock and xpubuild ask of it.

    conda create --prefix P --dry-run --json [--override-channels] [--channel C]... SPEC...
    conda install --prefix P --offline --yes --quiet --file EXPLICIT

A real conda cannot be had where the tests run. This answers in conda's own form: the ``FETCH`` and ``LINK``
actions of a dry run, ``{"message": …}`` with status 1 where there is no solution.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
import os
import re
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit


def dry_run(options: argparse.Namespace) -> dict[str, Any]:
    import rattler

    records = asyncio.run(
        rattler.solve(
            sources=options.channel,
            # conda takes a bare version for an exact one, rattler asks for the sign.
            specs=[re.sub(r"^(\S+) ([\w.]+)$", r"\1 ==\2", spec) for spec in options.specs],
            platforms=["linux-64", "noarch"],
            gateway=rattler.Gateway(cache_dir=Path(tempfile.mkdtemp())),
        )
    )
    actions = [
        {
            "name": item.name.normalized, "version": str(item.version), "build": str(item.build),
            "build_string": str(item.build),
            "url": item.url, "fn": item.file_name, "channel": item.channel, "md5": (item.md5 or b"").hex(),
            "sha256": (item.sha256 or b"").hex(), "size": item.size, "depends": list(item.depends),
            "constrains": [], "subdir": item.subdir, "timestamp": 0,
        }
        for item in records
    ]  # fmt: skip
    return {"success": True, "dry_run": True, "actions": {"FETCH": actions, "LINK": actions}}


def create(prefix: Path, explicit: Path) -> None:
    """Install an @EXPLICIT file; as conda does, its hashes are compared."""
    import rattler
    from rattler.index import index_fs

    lines = explicit.read_text("utf-8").splitlines()
    assert "@EXPLICIT" in lines
    folder = Path(tempfile.mkdtemp()) / "channel"
    (folder / "noarch").mkdir(parents=True)
    for line in lines:
        if line.startswith(("#", "@")) or not line:
            continue
        url, _, wanted = line.partition("#")
        path = Path(unquote(urlsplit(url).path))
        if hashlib.md5(path.read_bytes()).hexdigest() != wanted.removeprefix("md5:"):  # noqa: S324
            raise SystemExit(f"ChecksumMismatchError: {url}")
        (folder / path.parent.name).mkdir(exist_ok=True)
        shutil.copyfile(path, folder / path.parent.name / path.name)

    async def work() -> None:
        await index_fs(folder, write_zst=False, write_shards=False)
        records = []
        for path in folder.glob("*/repodata.json"):
            records += rattler.RepoData.from_path(path).into_repo_data(rattler.Channel(folder.as_uri()))
        await rattler.install(
            records, target_prefix=prefix, cache_dir=folder.parent / "pkgs", show_progress=False
        )

    asyncio.run(work())
    shutil.rmtree(folder.parent)


def main() -> int:
    if log := os.environ.get("XDG_STATE_HOME"):
        with (Path(log) / "conda-front.log").open("a") as stream:
            stream.write(" ".join(sys.argv[1:]) + "\n")
    if sys.argv[1:] == ["--version"]:
        sys.stdout.write("conda 24.9.2\n")
        return 0
    parser = argparse.ArgumentParser()
    parser.add_argument("command", choices=["create", "install"])
    for name in ("--prefix", "--file"):
        parser.add_argument(name, type=Path)
    for name in ("--dry-run", "--json", "--override-channels", "--offline", "--yes", "--quiet"):
        parser.add_argument(name, action="store_true")
    parser.add_argument("--channel", action="append", default=[])
    parser.add_argument("specs", nargs="*")
    options = parser.parse_intermixed_args()
    if not options.dry_run:
        create(options.prefix, options.file)
        return 0
    from rattler.exceptions import GatewayError, SolverError

    try:
        sys.stdout.write(json.dumps(dry_run(options)))
    except (SolverError, GatewayError) as error:
        kind = "LibMambaUnsatisfiableError" if isinstance(error, SolverError) else "CondaHTTPError"
        sys.stdout.write(json.dumps({"error": kind, "message": f"{kind}: {error}"}))
        return 1
    return 0


if __name__ == "__main__":
    status = main()
    sys.stdout.flush()
    os._exit(status)  # rattler's threads now and then crash the interpreter while it ends
