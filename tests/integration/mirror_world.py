"""A small world to fetch from: nested repositories on a real git server, and a folder of wheels."""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from unittest import mock

from integration.gitserver import GitServer, Upstream, git_server, gitmodules
from support.artifacts import wheel_files

from xpubuild.engine.events import NullSink
from xpubuild.engine.process import Cancel
from xpubuild.install.fetch import Fetch, Wanted
from xpubuild.install.inputs import Inputs, Repository, RequirementFile
from xpubuild.recipe.model import ConfigureTime
from xpubuild.supply.depot.folder import Depot
from xpubuild.supply.git.git import Git
from xpubuild.supply.git.pin import Pin


def _packed(name: str) -> bytes:
    """Return a wheel, the same bytes each time."""
    dist, version, tag = name.removesuffix(".whl").split("-", 2)
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for path, data in wheel_files(dist, version, {f"{dist}.py": b"x = 1\n"}, tag=tag).items():
            archive.writestr(zipfile.ZipInfo(path), data)
    return buffer.getvalue()


WHEELS = {
    name: _packed(name)
    for name in (
        "demo-1.0-py3-none-any.whl",
        "tool-2.0-cp311-cp311-manylinux_2_28_x86_64.whl",
        "old-0.1-py2.py3-none-any.whl",
    )
}


def repository_of(path: str) -> str:
    """Return the name of the repository that a request was about."""
    return path.lstrip("/").split(".git")[0]


@dataclass
class World:
    """``server`` has top.git > mid.git > inner.git, and ops.git, which the build of top clones by its pin."""

    root: Path
    server: GitServer
    commits: dict[str, str] = field(default_factory=dict)

    def inputs(self, *wheels: str, commit: str = "", recipe: str = "demo") -> Inputs:
        """Return what a build of top takes; ``wheels`` are those of its requirement file."""
        pin = Pin(self.server.url("top.git"), commit or self.commits["top"])
        ops = ConfigureTime(url=self.server.url("ops.git"), path="third_party/ops", pin_file="ops.txt")
        lines = []
        for name in wheels or WHEELS:
            dist, version = name.split("-")[:2]
            digest = hashlib.sha256(WHEELS[name]).hexdigest()
            lines.append(f"{dist}=={version} --hash=sha256:{digest}\n")
        return Inputs(
            recipe=recipe,
            python_version="3.11.2",
            repositories=(Repository("top", pin, (ops,)),),
            embedded=(),
            requirements=(RequirementFile("requirements/demo.txt", "".join(lines)),),
        )

    def fetch(self, mirror: Path, inputs: Inputs | None = None, *, offline: bool = False) -> Fetch:
        wanted = Wanted(inputs or self.inputs(), ("3.11",), {})
        return Fetch(mirror, wanted, NullSink(), Cancel(), offline=offline)

    def fetch_with(self, mirror: Path, git: Git) -> Fetch:
        """Return an offline fetch with a git that was found before: many of them take less time."""
        return replace(self.fetch(mirror, offline=True), git=git)

    def filled(self, mirror: Path, inputs: Inputs | None = None) -> Depot:
        """Return a mirror that was filled."""
        self.fetch(mirror, inputs).run()
        return Depot.open(mirror)

    def asked(self) -> set[str]:
        """Return the repositories that were asked for since the last call."""
        found = {repository_of(path) for path in self.server.requests}
        self.server.requests.clear()
        return found


@contextlib.contextmanager
def world(root: Path) -> Iterator[World]:
    served = root / "srv"
    inner, mid, ops, top = (Upstream.make(served / f"{name}.git") for name in ("inner", "mid", "ops", "top"))
    commits = {"inner": inner.commit({"inner.h": "inner\n"}), "ops": ops.commit({"ops.cpp": "int ops;\n"})}
    commits["mid"] = mid.commit(
        {".gitmodules": gitmodules(("deps/inner", "../inner.git")), "mid.c": "mid\n"},
        links={"deps/inner": commits["inner"]},
    )
    files: dict[str, str | bytes] = {
        ".gitmodules": gitmodules(("third_party/mid", "../mid.git")),
        "ops.txt": f"{commits['ops']}\n",
        "top.c": "top\n",
    }
    links = {"third_party/mid": commits["mid"]}
    commits["older"] = top.commit({**files, "top.c": "older\n"}, links=links)
    commits["top"] = top.commit(files, links=links, parent=commits["older"])
    commits["next"] = top.commit({**files, "top.c": "next\n"}, links=links, parent=commits["top"])
    (root / "wheels").mkdir()
    for name, data in WHEELS.items():
        (root / "wheels" / name).write_bytes(data)
    pip = {"PIP_CONFIG_FILE": os.devnull, "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": (root / "wheels").as_uri()}
    with git_server(served) as server, mock.patch.dict(os.environ, pip):
        yield World(root, server, commits)


def content(mirror: Path) -> dict[str, bytes]:
    """Return every file of a mirror that is not a lock."""
    return {
        path.relative_to(mirror).as_posix(): path.read_bytes()
        for path in sorted(mirror.rglob("*"))
        if path.is_file() and path.suffix != ".lock" and path.name != ".lock"
    }


def summary(document: dict[str, Any]) -> tuple[int, int]:
    """Return how many repositories and files were new."""
    found = document["summary"]
    return found["new_repositories"], found["new_files"]
