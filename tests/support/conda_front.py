"""A stand-in for conda: a conda-shaped front end over rattler, with what conda-lock asks of it.

    conda create --prefix P --dry-run --json [--override-channels] [--channel C]... SPEC...

A real conda cannot be had where the tests run. This answers in conda's own form: the ``FETCH`` and ``LINK``
actions of a dry run, ``{"message": …}`` with status 1 where there is no solution.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import sys
import tempfile
from pathlib import Path
from typing import Any


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


def main() -> int:
    if sys.argv[1:] == ["--version"]:
        sys.stdout.write("conda 24.9.2\n")
        return 0
    parser = argparse.ArgumentParser()
    parser.add_argument("command", choices=["create"])
    parser.add_argument("--prefix")
    for name in ("--dry-run", "--json", "--override-channels"):
        parser.add_argument(name, action="store_true")
    parser.add_argument("--channel", action="append", default=[])
    parser.add_argument("specs", nargs="*")
    options = parser.parse_intermixed_args()
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
