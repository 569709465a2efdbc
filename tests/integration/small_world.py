"""A recipe that installs in seconds: a prebuilt wheel from an index, and one built from a git repository."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

from integration.gitserver import Upstream, git_server
from integration.test_components_held import pins, wheel
from support.cli import Result, here
from support.indexes import PackageIndex

RECIPE = """
schema: 1
name: small
title: two small packages
target: cpu
needs: {{disk_gib: 0.01}}
components:
  tiny:
    kind: wheel
    dist: tiny-wheel
    version: 1.0+cpu
    requirements: tiny.txt
    indexes: ["{index}"]
  mine:
    kind: source
    dist: mine
    needs: [tiny]
    audit: {{cxx11_abi: false}}
    source: {{url: "{url}", commit: {commit}}}
"""
PYPROJECT = """[build-system]
requires = []
build-backend = "backend"
backend-path = ["."]
"""
#: A build backend without dependencies: nothing has to be installed to build the tree.
BACKEND = """import base64, hashlib, pathlib, zipfile

def build_wheel(folder, config_settings=None, metadata_directory=None):
    return write(folder, {"mine.py": pathlib.Path("mine.py").read_bytes()})

def build_editable(folder, config_settings=None, metadata_directory=None):
    return write(folder, {"mine.pth": str(pathlib.Path.cwd()).encode()})

def write(folder, content):
    info = "mine-1.0.dist-info"
    files = {
        **content,
        f"{info}/METADATA": b"Metadata-Version: 2.1\\nName: mine\\nVersion: 1.0\\n"
            b"Requires-Dist: tiny-wheel>=1.0\\n",
        f"{info}/WHEEL": b"Wheel-Version: 1.0\\nGenerator: t\\nRoot-Is-Purelib: true\\n"
            b"Tag: py3-none-any\\n",
    }
    lines = []
    for name, data in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        lines.append(f"{name},sha256={digest},{len(data)}")
    files[f"{info}/RECORD"] = "\\n".join([*lines, f"{info}/RECORD,,", ""]).encode()
    with zipfile.ZipFile(pathlib.Path(folder) / "mine-1.0-py3-none-any.whl", "w") as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return "mine-1.0-py3-none-any.whl"
"""


@dataclass
class SmallWorld:
    """The recipe, and the workspace that it is installed in."""

    folder: Path
    recipe: Path
    workspace: Path

    def __call__(self, *words: str) -> Result:
        return here(*words)

    def install(self, *words: str) -> Result:
        """Install all but the test suite, which needs torch."""
        return self(
            "install", str(self.recipe), "--workspace", str(self.workspace), "--until", "mine.install", *words
        )

    @property
    def site(self) -> Path:
        (found,) = self.workspace.glob("env/lib/python3*/site-packages")
        return found

    @property
    def wheel(self) -> Path:
        return self.workspace / "wheels" / "mine-1.0-py3-none-any.whl"


@contextlib.contextmanager
def small_world(folder: Path, more: Mapping[str, str] | None = None) -> Iterator[SmallWorld]:
    """Serve and yield it; ``more`` are files of the git repository, or take the place of some."""
    upstream = Upstream.make(folder / "srv" / "mine.git")
    commit = upstream.commit(
        {
            "pyproject.toml": PYPROJECT,
            "backend.py": BACKEND,
            "mine.py": "import tiny\n",
            ".gitignore": "__pycache__/\n",
            **(more or {}),
        }
    )
    (folder / "built").mkdir()
    tiny = wheel(folder / "built", "tiny-wheel", "1.0+cpu", "tiny.py", "tiny_data.py")
    with (
        PackageIndex() as index,
        git_server(upstream.path.parent) as server,
        # The index of the user, too: pip is asked once, and no other machine is.
        mock.patch.dict(os.environ, PIP_CONFIG_FILE=os.devnull, PIP_INDEX_URL=index.url()),
    ):
        index.add(tiny.name, tiny.read_bytes())
        (folder / "tiny.txt").write_text(pins(tiny))
        recipe = folder / "small.yaml"
        recipe.write_text(RECIPE.format(index=index.url(), url=server.url("mine.git"), commit=commit))
        yield SmallWorld(folder, recipe, folder / "ws")
