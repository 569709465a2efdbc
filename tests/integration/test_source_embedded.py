"""The embedded sources become the same repositories everywhere, and their bundles hold the plain files."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
from pathlib import Path
from types import ModuleType

import pytest
from integration.gitserver import GIT_ENV, git, plain_clone, snapshot
from support.imports import ROOT

from xpubuild.engine.environment import base_environment
from xpubuild.errors import SourceIntegrityError
from xpubuild.resources import ops_project_dir
from xpubuild.supply.git.checkout import checkout
from xpubuild.supply.git.embedded import expected_commit, materialise, root_url, shell_lines
from xpubuild.supply.git.pin import Pin

PROJECT = ops_project_dir()
NAMES = ("fused", "ops", "vecmath")


def pin_embedded() -> ModuleType:
    spec = importlib.util.spec_from_file_location("pin_embedded", ROOT / "scripts" / "pin-embedded.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def changed(tmp_path: Path) -> Path:
    """A copy of the project with another file, and its bundles."""
    project = shutil.copytree(PROJECT, tmp_path / "paket \xfc" / "project")
    (project / "third_party" / "fused" / "README.md").write_text("another\n")
    pin_embedded().make_bundles(project, project.parent)
    return Path(project)


def test_the_bundles_hold_the_plain_files(tmp_path: Path) -> None:
    pin_embedded().make_bundles(PROJECT, tmp_path)
    for name in NAMES:
        assert expected_commit(tmp_path / "project", name) == expected_commit(PROJECT, name), (
            "after a change of ops: scripts/pin-embedded.py"
        )


def test_plain_git_and_our_checkout_give_the_files_back(tmp_path: Path) -> None:
    made = materialise(PROJECT, tmp_path / "git")
    assert (made.commit, made.url) == (expected_commit(PROJECT), root_url(tmp_path / "git"))
    places = sorted((tmp_path / "git").glob("*.git"))
    assert tuple(place.stem for place in places) == NAMES
    for place in places:
        git("fsck", "--full", "--strict", cwd=place)
        assert git("rev-list", "--count", "HEAD", cwd=place) == "1"
        assert git("cat-file", "-p", "HEAD", cwd=place).count("1767225600 +0000") == 2
    cloned = plain_clone(made.url, made.commit, tmp_path / "clone")
    into = tmp_path / "ws"
    checkout(made, into, cache=tmp_path / "cache", jobs=2, env=base_environment(), report=lambda _: None)
    assert snapshot(into) == cloned
    plain = {path.relative_to(PROJECT) for path in PROJECT.rglob("*.[ch]*") if path.suffix != ".pyc"}
    for name in plain:
        assert (into / name).read_bytes() == (PROJECT / name).read_bytes()


_ODD = """
[core]
\tautocrlf = true
\teol = crlf
[commit]
\tgpgSign = true
[init]
\tdefaultBranch = trunk
\ttemplateDir = /nonexistent/template
\tdefaultObjectFormat = sha256
[fsck]
\tmissingEmail = error
"""

_CHILD = """
    import sys
    from pathlib import Path
    from xpubuild.supply.git.embedded import materialise
    print(materialise(Path(sys.argv[1]), Path(sys.argv[2])).commit)
"""


def test_again_nothing_is_written_and_a_new_commit_leaves_the_old_one(changed: Path, tmp_path: Path) -> None:
    into = tmp_path / "git"
    old = materialise(PROJECT, into).commit
    before = {path: path.stat().st_mtime_ns for path in into.rglob("*")}
    materialise(PROJECT, into)
    assert {path: path.stat().st_mtime_ns for path in into.rglob("*")} == before
    new = materialise(changed, into).commit
    assert new == expected_commit(changed) != old, "a file of a submodule changes the commit of the top"
    assert git("rev-parse", "HEAD", cwd=into / "ops.git") == new
    pin = Pin(root_url(into), old)
    env = base_environment()
    done = checkout(pin, tmp_path / "ws", cache=tmp_path / "cache", jobs=1, env=env, report=lambda _: None)
    assert done.evidence["commit"] == old


@pytest.mark.parametrize("damage", ["objects", "leftovers"])
def test_damaged_repositories_are_recreated(tmp_path: Path, damage: str) -> None:
    into = tmp_path / "git"
    commit = materialise(PROJECT, into).commit
    top = into / "ops.git"
    if damage == "leftovers":  # of a process that was killed
        shutil.copytree(top, into / ".ops.git.abc")
        shutil.rmtree(top)
    elif damage == "HEAD":
        (top / "HEAD").write_bytes(b"")
    else:
        for file in (top / "objects").rglob("*"):
            if file.is_file():
                file.chmod(0o644)
                file.write_bytes(b"")
    assert materialise(PROJECT, into).commit == commit
    git("fsck", "--full", cwd=top)
    assert not list(into.glob(".ops.git.*"))


@pytest.mark.parametrize("umask", ["077"])
def test_the_shell_lines_write_the_same_repositories(tmp_path: Path, umask: str) -> None:
    (tmp_path / ".gitconfig").write_text(_ODD)
    script = tmp_path / "script.sh"
    target = tmp_path / "von der Shell \xfc"
    text = "\n".join(["set -euo pipefail", f"umask {umask}", f"OUT='{target}'", *shell_lines(PROJECT, "OUT")])
    script.write_bytes(text.encode() + b'\necho "after: ${GIT_DIR-unset}"\n')
    env = {"PATH": GIT_ENV["PATH"], "HOME": str(tmp_path), "GIT_DEFAULT_HASH": "sha256"}
    for _ in range(2):
        done = subprocess.run(
            ["bash", str(script)], env=env, capture_output=True, text=True, check=False, cwd=tmp_path
        )
        assert done.returncode == 0, done.stderr
        assert done.stdout == "after: unset\n"
    for name in NAMES:
        assert git("rev-parse", "HEAD", cwd=target / f"{name}.git") == expected_commit(PROJECT, name)
        git("fsck", "--full", "--strict", cwd=target / f"{name}.git")


@pytest.mark.parametrize(
    ("damage", "word"),
    [("gone", "No such file"), ("text", "is no bundle"), ("cut", "git cannot unpack ops.bundle")],
)
def test_a_damaged_bundle_is_explained(changed: Path, tmp_path: Path, damage: str, word: str) -> None:
    bundle = changed.parent / "ops.bundle"
    if damage == "gone":
        bundle.unlink()
    else:
        bundle.write_bytes(b"text" if damage == "text" else bundle.read_bytes()[:-500])
    with pytest.raises(SourceIntegrityError, match="embedded sources are incomplete") as caught:
        materialise(changed, tmp_path / "git")
    assert word in caught.value.why
