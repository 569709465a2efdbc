"""A recipe of one prebuilt wheel, and the index on loopback that has it, or has it for another Python."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from support.cli import Xpubuild
from support.documents import check
from support.indexes import PackageIndex

RECIPE = """
schema: 1
name: small
title: one prebuilt wheel
target: cpu
needs: {{disk_gib: {disk}}}
components:
  tiny: {{kind: wheel, dist: tiny, version: 1.0+cpu, {pin}}}
"""
THIS = f"cp3{sys.version_info[1]}"
OTHER = "cp39"
Told = Mapping[str, Any]


def wheel(python: str) -> str:
    return f"tiny-1.0+cpu-{python}-{python}-manylinux_2_28_x86_64.whl"


class World:
    """A recipe, the index that it names, and where it would be installed."""

    def __init__(self, folder: Path, index: PackageIndex, xpubuild: Xpubuild) -> None:
        self.recipe = folder / "small.yaml"
        self.workspace = folder / "ws"
        self.index = index
        self._folder = folder
        self._run = xpubuild
        self.write()

    def write(self, disk: float = 0.01, text: str | None = None) -> None:
        """Write the recipe, with a hashed requirement file where its text is given."""
        pin = f'indexes: ["{self.index.url()}"]'
        if text is not None:
            (self._folder / "requirements.txt").write_text(text)
            pin += ", requirements: requirements.txt"
        self.recipe.write_text(RECIPE.format(disk=disk, pin=pin))

    def planned(self, *words: str) -> list[Told]:
        """Return what plan says would stop the install, having downloaded nothing."""
        found = self._run("plan", str(self.recipe), "--workspace", str(self.workspace), "--json", *words)
        assert found.status == 0
        document = check(found.document(), "plan")
        assert not self.workspace.exists()
        obstacles: list[Told] = document["obstacles"]
        return obstacles

    def refused(self, *words: str) -> Told:
        """Return the error that install ends with before its first step."""
        found = self._run("install", str(self.recipe), "--workspace", str(self.workspace), "--json", *words)
        assert not (self.workspace / "env").exists()
        assert not [path for path in self.index.asked() if path.startswith("/files/")]
        error: Told = check(found.document(), "error")["error"]
        assert found.status == error["exit_code"]
        return error
