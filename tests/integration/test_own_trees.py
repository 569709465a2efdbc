"""Edits in what a build clones while it configures are seen, built and kept, where upstream resets them."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from integration.gitserver import Upstream, git
from integration.small_world import BACKEND, RECIPE, SmallWorld, small_world
from support.cli import Result

# As PyTorch's CMake does it at each configure.
_CONFIGURE = """
import subprocess
OPS = pathlib.Path("third_party/ops")
def configure():
    def run(*words):
        subprocess.run(["git", *words], check=True, cwd=OPS if OPS.exists() else None)
    if not OPS.exists():
        run("clone", "--quiet", "{url}", str(OPS))
    run("fetch", "--quiet")
    run("checkout", "--quiet", pathlib.Path("third_party/ops.txt").read_text().strip())
    return (OPS / "kernel.py").read_bytes()
"""
_PLACE = "third_party/ops"


@dataclass
class World:
    """A component that clones ``ops`` at the commit of a pin file."""

    small: SmallWorld
    ops: Upstream
    pin: str

    @property
    def tree(self) -> Path:
        return self.small.workspace / "src" / "mine"

    @property
    def clone(self) -> Path:
        return self.tree / _PLACE

    def install(self, *words: str) -> Result:
        return self.small.install(*words)

    def built(self, *words: str) -> tuple[list[str], str]:
        """Install; return the steps that ran and the kernel in the wheel."""
        done = self.install("--json", *words)
        assert done.status == 0, done.err
        with zipfile.ZipFile(self.small.wheel) as archive:
            return json.loads(done.out)["ran"], archive.read("mine.py").decode()


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    ops = Upstream.make(tmp_path / "srv" / "ops.git")
    pin, url = ops.commit({"kernel.py": "KERNEL = 1\n"}), ops.path.as_uri()
    source = f'source: {{{{url: "{{url}}", commit: {{commit}}, made_by_build: [{_PLACE}], configure_time: ['
    source += f'{{{{url: "{url}", path: {_PLACE}, pin_file: third_party/ops.txt, when: always, '
    source += f"commit: {pin}}}}}]}}}}"
    alone = RECIPE[: RECIPE.index("  tiny:")] + RECIPE[RECIPE.index("  mine:") :].replace(
        "    needs: [tiny]\n", ""
    )
    alone = alone.replace('source: {{url: "{url}", commit: {commit}}}', source)
    backend = BACKEND.replace('b"Requires-Dist: tiny-wheel>=1.0\\n"', 'b""')
    backend = backend.replace('pathlib.Path("mine.py").read_bytes()', "configure()")
    backend = backend.replace("    info = ", "    configure()\n    info = ") + _CONFIGURE.format(url=url)
    monkeypatch.setattr("integration.small_world.RECIPE", alone)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with small_world(tmp_path, {"backend.py": backend, "third_party/ops.txt": f"{pin}\n"}) as small:
        yield World(small, ops, pin)


def commit_in(clone: Path, text: str) -> str:
    (clone / "kernel.py").write_text(text)
    git("commit", "--quiet", "-am", "mine", cwd=clone)
    return git("rev-parse", "HEAD", cwd=clone)


def test_an_edit_in_what_the_build_clones_is_refused_or_built(world: World) -> None:
    assert world.built()[1] == "KERNEL = 1\n"
    (world.clone / "kernel.py").write_text("KERNEL = 2\n")
    where = ("--workspace", str(world.small.workspace))
    refused = world.small("install", str(world.small.recipe), *where, "--until", "mine.source")
    assert refused.status == 31
    assert f"{_PLACE}/kernel.py (modified)" in refused.err
    assert "--allow-dirty" in refused.err
    planned = world.small("plan", str(world.small.recipe), *where, "--allow-dirty")
    assert f"{_PLACE}/kernel.py" in planned.out
    # Upstream's configure would take the commit back, and the branch with it.
    git("switch", "--quiet", "-c", "work", cwd=world.clone)
    own = commit_in(world.clone, "KERNEL = 3\n")
    (world.clone / "kernel.py").write_text("KERNEL = 4\n")
    ran, wheel = world.built("--allow-dirty")
    assert "mine.wheel" in ran
    assert wheel == "KERNEL = 4\n"
    assert git("status", "--porcelain", "--branch", cwd=world.clone) == "## work\n M kernel.py"
    assert git("rev-parse", "HEAD", cwd=world.clone) == own
    assert (world.tree / "third_party" / "ops.txt").read_text() == f"{own}\n"
    assert world.built("--allow-dirty")[0] == []


def test_a_fork_of_what_the_build_clones_is_named_by_the_pin_file(world: World) -> None:
    fork = Upstream.make(world.small.folder / "srv" / "fork.git")
    commit = fork.commit({"kernel.py": "KERNEL = 7\n"})
    recipe = world.small.folder / "forked.yaml"
    recipe.write_text(
        "schema: 1\nname: forked\ntitle: a fork\nextends: small\n"
        f"components: {{mine: {{source: {{configure_time: [{{url: {fork.path.as_uri()}, path: {_PLACE}, "
        f"pin_file: third_party/ops.txt, commit: {commit}, when: always}}]}}}}}}\n"
    )
    checked = world.small("recipes", "check", str(recipe))
    assert checked.status == 0, checked.err
    world.small.recipe = recipe
    assert world.built()[1] == "KERNEL = 7\n"
    assert (world.tree / "third_party" / "ops.txt").read_text() == f"{commit}\n"
    assert git("rev-parse", "HEAD", cwd=world.clone) == commit
    where = ("--workspace", str(world.small.workspace))
    planned = json.loads(world.small("plan", str(recipe), *where, "--json").out)
    assert "is patched" in str(planned["summary"]["resolved"])
