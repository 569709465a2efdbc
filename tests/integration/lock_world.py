"""Upstreams with nested submodules, a recipe that builds from them, and its lock."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from integration.gitserver import Nested, Upstream, git, gitmodules
from support.cli import Result, Xpubuild
from support.documents import check

HASH = "0123456789abcdef" * 4
RECIPE = """
schema: 1
name: mine
title: nested sources
target: cpu
targets: [cpu]
needs: {{disk_gib: 0.01}}
toolchain: {{requirements: [build.txt]}}
env: {{USE_XPU: "{{xpu}}", PREFIX: "{{env}}/x"}}
components:
  top:
    kind: source
    dist: top
    source:
      url: {url}top.git
      {pin}
      configure_time:
        - {{url: "{url}kernels.git", path: third_party/kernels, pin_file: kernels.txt, when: always}}
        - {{url: "{url}dnn.git", path: build/dnn, pin_file: dnn.cmake, when: always}}
        - {{url: "{url}none.git", when: xpu}}
  wheel:
    kind: wheel
    dist: pytorch-triton-xpu
    version: 3.4.0
    requirements: triton.txt
    targets: [cpu]
"""


@dataclass(frozen=True)
class Upstreams:
    """Repositories of this machine: made once, with the lock of the recipe that builds the top one."""

    root: Path
    nested: Nested
    dnn: Upstream
    pins: Mapping[str, str]
    text: str = ""

    @classmethod
    def make(cls, root: Path) -> Upstreams:
        nested = Nested.make(root)
        sub = Upstream.make(root / "sub.git").commit({"sub.h": "1\n"})
        kernel = Upstream.make(root / "kernels.git").commit(
            {".gitmodules": gitmodules(("third_party/sub", "../sub.git")), "k.cpp": "1\n"},
            links={"third_party/sub": sub},
        )
        dnn = Upstream.make(root / "dnn.git")
        tagged = dnn.commit({"dnn.h": "1\n"})
        git("tag", "v3.8.1", tagged, cwd=dnn.path)
        pins = {"sub": sub, "kernel": kernel, "dnn": tagged}
        made = cls(root, nested, dnn, pins)
        return replace(made, pins={**pins, "top": made.top(nested.first)})

    def url(self, name: str) -> str:
        return (self.root / name).as_uri()

    def top(self, base: str, **more: str) -> str:
        """Commit what names the configure-time pins beside the submodule of one of the two pins."""
        mid = git("rev-parse", f"{base}:third_party/mid", cwd=self.nested.top.path)
        files = {
            ".gitmodules": gitmodules(("third_party/mid", "../mid.git")),
            "kernels.txt": f"{self.pins['kernel']}\n",
            "dnn.cmake": f"GIT_REPOSITORY {self.url('dnn.git')}\nGIT_TAG v3.8.1)\n",
        }
        return self.nested.top.commit({**files, **more}, links={"third_party/mid": mid})


@dataclass(frozen=True)
class World:
    """A recipe and its lock, in a folder of one test."""

    upstreams: Upstreams
    folder: Path

    @property
    def commit(self) -> str:
        return self.upstreams.pins["top"]

    @property
    def recipe(self) -> str:
        return str(self.folder / "mine.yaml")

    @property
    def file(self) -> Path:
        return self.folder / "mine.lock.yaml"

    def url(self, name: str) -> str:
        return self.upstreams.url(name)

    def write(self, pin: str, url: str | None = None) -> None:
        for name, line in (("build", "cmake==3.31"), ("triton", "pytorch-triton-xpu==3.4.0")):
            (self.folder / f"{name}.txt").write_text(f"{line} --hash=sha256:{HASH}\n")
        text = RECIPE.format(url=url or self.upstreams.root.as_uri() + "/", pin=pin)
        (self.folder / "mine.yaml").write_text(text)


def verify(
    xpubuild: Xpubuild, world: World, *more: str, variables: Mapping[str, str] | None = None
) -> Result:
    argv = ("check", str(world.file), "--recipe", world.recipe, "--json", *more)
    return xpubuild(*argv, **(variables or {}))


def paths(result: Result, status: int = 21) -> list[str]:
    assert result.status == status, result.err
    document = check(result.document(), "verify-lock")
    return [item["path"] for item in document["differences"]]
