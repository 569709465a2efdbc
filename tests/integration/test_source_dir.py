"""``--source-dir``: built from somebody's own checkout as it is, in which nothing is touched."""

from __future__ import annotations

import json
import os
import shutil
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from integration.gitserver import Nested, Upstream, git
from integration.small_world import BACKEND, RECIPE, SmallWorld, small_world
from support.cli import here

from xpubuild.errors import SourceIntegrityError
from xpubuild.recipe.model import ConfigureTime
from xpubuild.supply.git.git import Git
from xpubuild.supply.git.own_tree import own_tree, synchronise

_MID = "third_party/mid"


def everything(top: Path) -> dict[str, tuple[int, int, bytes]]:
    """Return mode, time and content of all files and folders, those in .git among them."""
    found = {}
    for path in (top, *sorted(top.rglob("*"))):
        status = path.lstat()
        link = os.fsencode(path.readlink()) if path.is_symlink() else b""
        data = path.read_bytes() if path.is_file() and not path.is_symlink() else link
        found[str(path.relative_to(top))] = (status.st_mode, status.st_mtime_ns, data)
    return found


def _conflict(top: Path, name: str) -> None:
    """Leave a merge with a conflict in one file."""
    git("switch", "--quiet", "-c", "mine", cwd=top)
    base = git("rev-parse", "HEAD", cwd=top)
    for branch, text in (("theirs", "zwei\n"), ("mine", "drei\n")):
        git("switch", "--quiet", "-C", branch, base, cwd=top)
        (top / name).write_text(text)
        git("commit", "--quiet", "-am", branch, cwd=top)
    with pytest.raises(AssertionError, match="git"):
        git("merge", "theirs", cwd=top)
    assert git("diff", "--name-only", "--diff-filter=U", "-z", cwd=top).strip("\0") == name


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """Return a checkout with everything that a day of work leaves."""
    nested = Nested.make(tmp_path / "srv")
    top, allow = tmp_path / "own", ("-c", "protocol.file.allow=always")
    git("clone", "--quiet", str(nested.top.path), str(top), cwd=tmp_path)
    git("checkout", "--quiet", nested.first, cwd=top)
    git(*allow, "submodule", "--quiet", "update", "--init", "--recursive", cwd=top)
    _conflict(top, "grüße.txt")
    (top / "staged.c").write_text("staged\n")
    git("add", "staged.c", cwd=top)
    (top / "staged.c").write_text("and changed\n")
    (top / "new.c").write_text("untracked\n")
    (top / "build").mkdir()
    (top / "build" / "CMakeCache.txt").write_text("elsewhere\n")
    (top / _MID / "mid.c").write_text("mine\n")
    ops = Upstream.make(tmp_path / "srv" / "ops.git")
    ops.commit({"kernel.cpp": "1\n"})
    git("clone", "--quiet", str(ops.path), str(top / "third_party/ops"), cwd=top)
    (top / "third_party/ops/kernel.cpp").write_text("2\n")
    git("config", "remote.origin.url", "https://me:planted@example.org/top.git", cwd=top)
    return top


def test_a_copy_has_what_the_tree_has_and_the_tree_is_untouched(own: Path, tmp_path: Path) -> None:
    items, into = [ConfigureTime(url="https://example.org/ops", path="third_party/ops")], tmp_path / "copy"
    before = everything(own)
    first = own_tree(own, git=Git.open(), items=items, whole=True)
    assert synchronise(own, into, items, ()) > 0
    assert everything(own) == before
    theirs, ours = everything(own), everything(into)

    def files(found: dict[str, tuple[int, int, bytes]]) -> dict[str, tuple[int, int, bytes]]:
        return {
            name: entry for name, entry in found.items()
            if ".git" not in name.split("/") and not name.startswith("build") and not (own / name).is_dir()
        }  # fmt: skip

    assert files(ours) == files(theirs)
    assert not (into / "build").exists()
    assert git("config", "remote.origin.url", cwd=into) == "https://example.org/top.git"
    for place in ("", _MID, "third_party/ops"):
        for words in (("rev-parse", "HEAD"), ("status", "--porcelain"), ("ls-files", "--stage")):
            said = git(*words, cwd=into / place).replace("HEAD", "")
            assert said == git(*words, cwd=own / place).replace("HEAD", "")
    before = everything(own)  # git status has written the index
    # Once more, nothing; then what was changed alone, and what builds of the copy have made stays.
    (into / "build").mkdir()
    (into / "build" / "object.o").write_text("1")
    assert synchronise(own, into, items, ()) == 0
    (own / "new.c").unlink()
    (own / _MID / "mid.c").write_text("mine again\n")
    assert synchronise(own, into, items, ()) == 2
    assert not (into / "new.c").exists()
    assert (into / "build" / "object.o").exists()
    second = own_tree(own, git=Git.open(), items=items, whole=True)
    assert first is not None
    assert second is not None
    assert first.digest != second.digest
    assert {"grüße.txt", "staged.c", f"{_MID}/mid.c", "third_party/ops/kernel.cpp"} <= set(second.files)
    assert "build/CMakeCache.txt" not in second.files
    # A git that writes in the copy writes there.
    git("commit", "--quiet", "--allow-empty", "-m", "of a build", cwd=into / _MID)
    after = everything(own)
    changed = {name for name in after.keys() | before.keys() if after.get(name) != before.get(name)}
    assert changed == {".", "new.c", f"{_MID}/mid.c"}


def test_a_submodule_that_is_not_there_is_named(own: Path, tmp_path: Path) -> None:
    shutil.rmtree(own / _MID)
    (own / _MID).mkdir()
    with pytest.raises(SourceIntegrityError, match="submodule third_party/mid"):
        synchronise(own, tmp_path / "copy", [], ())
    synchronise(own, tmp_path / "copy", [], (_MID,))


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SmallWorld]:
    alone = RECIPE[: RECIPE.index("  tiny:")] + RECIPE[RECIPE.index("  mine:") :]
    monkeypatch.setattr("integration.small_world.RECIPE", alone.replace("    needs: [tiny]\n", ""))
    monkeypatch.setenv("XPUBUILD_STORE", str(tmp_path / "store"))
    monkeypatch.setenv("XPUBUILD_STORE_READ_ONLY", "0")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "store").mkdir(mode=0o755)
    backend = BACKEND.replace('b"Requires-Dist: tiny-wheel>=1.0\\n"', 'b""')
    backend = backend.replace("    info = ", '    pathlib.Path("left.txt").write_text("1")\n    info = ')
    with small_world(tmp_path, {"backend.py": backend, "mine.py": "ANSWER = 42\n"}) as made:
        git("clone", "--quiet", str(tmp_path / "srv" / "mine.git"), str(tmp_path / "own"), cwd=tmp_path)
        _conflict(tmp_path / "own", "pyproject.toml")
        git("checkout", "--quiet", "--ours", "pyproject.toml", cwd=tmp_path / "own")
        shutil.copy(tmp_path / "own" / "backend.py", tmp_path / "own" / "new.py")
        yield made


def _own(world: SmallWorld) -> Path:
    top = world.folder / "own"
    shown = git("show", "HEAD~1:pyproject.toml", cwd=top)
    (top / "pyproject.toml").write_text(f"{shown}\n")
    (top / "mine.py").write_text("ANSWER = 43\n")
    return top


def test_a_wheel_of_the_own_tree(world: SmallWorld) -> None:
    own = _own(world)
    before = everything(own)
    planned = world(
        "plan", str(world.recipe), "--workspace", str(world.workspace), "--source-dir", f"mine={own}"
    )
    assert planned.status == 0, planned.err
    assert "ahead of the pin" in " ".join(planned.out.split())
    assert "mine.py" in planned.out
    done = world.install("--source-dir", f"mine={own}", "--quick")
    assert done.status == 0, done.err
    with zipfile.ZipFile(world.wheel) as archive:
        assert archive.read("mine.py") == b"ANSWER = 43\n"
    assert everything(own) == before
    assert not [*(world.folder / "store").rglob("*.whl"), *(world.folder / "cache").rglob("*.whl")]
    receipt = (world.workspace / "receipt.json").read_text()
    assert str(own) in receipt
    assert world("clean", "--workspace", str(world.workspace), "--yes").status == 0
    assert not world.workspace.exists(), "a copy is nobody's work"
    assert everything(own) == before


def test_an_editable_install_of_the_own_tree_names_what_appeared(world: SmallWorld) -> None:
    own, words = _own(world), ("--editable", "--quick", "--json")
    before = everything(own)
    done = world.install("--source-dir", f"mine={own}", *words)
    assert done.status == 0, done.err
    after = everything(own)
    assert {name for name in after if after[name] != before.get(name)} == {".", "left.txt"}
    assert before.keys() < after.keys()
    assert (world.site / "mine.pth").read_text() == str(own)
    proofs = json.loads((world("status", str(world.workspace), "--json")).out)
    assert "left.txt" in json.dumps(proofs) or "left.txt" in done.out
    assert json.loads(world.install("--source-dir", f"mine={own}", *words).out)["ran"] == []
    (own / "mine.py").write_text("ANSWER = 44\n")
    again = world.install("--source-dir", f"mine={own}", *words)
    assert json.loads(again.out)["ran"] == ["mine.source", "mine.install"]
    assert '"left.txt"' in (world.workspace / "receipt.json").read_text()


def test_what_is_no_checkout_is_refused(world: SmallWorld) -> None:
    for place in ("mine=/nowhere", f"other={world.folder / 'own'}"):
        assert world.install("--source-dir", place).status == 2
    # As every variable with several values.
    several = {"XPUBUILD_SOURCE_DIR": f"mine={world.folder / 'own'},other={world.folder}/my tree"}
    refused = here("plan", str(world.recipe), "--workspace", str(world.workspace), **several)
    assert "builds no 'other' from source" in refused.err
    # A copy of the tree would have the workspace in it, and itself.
    own = world.folder / "own"
    inside = ("--source-dir", f"mine={own}", "--workspace", str(own / "ws"))
    done = world("install", str(world.recipe), *inside)
    assert (done.status, (own / "ws").exists()) == (2, False), done.err
