"""Patches of a recipe: applied on the pin, in plan, lock and mirror; a wrong one names its hunk."""

from __future__ import annotations

import hashlib
import shutil
from dataclasses import dataclass, replace
from pathlib import Path

import platformdirs
import pytest
from integration.gitserver import Upstream, git
from integration.test_source_portable import _bash
from support import upstream
from support.cli import Xpubuild
from support.documents import check

from xpubuild.engine.environment import base_environment
from xpubuild.errors import SourceIntegrityError
from xpubuild.install.inputs import inputs_of
from xpubuild.install.lock_file import read_lock
from xpubuild.install.locked import options_of
from xpubuild.install.options import Options
from xpubuild.install.resolve import prepare
from xpubuild.supply.git.checkout import checkout
from xpubuild.supply.git.pin import mirror_name

RECIPE = """
schema: 1
name: mine
title: a tree with patches
target: cpu
targets: [cpu]
needs: {{disk_gib: 0.01}}
components:
  torch:
    kind: source
    dist: torch
    source:
      url: {root}/pytorch.git
      commit: {torch}
      patches: [{patches}]
      configure_time:
        - {{url: "{root}/ops.git", path: third_party/ops, pin_file: xpu.txt, commit: {ops}, when: always}}
"""
GUARD = "int a;\n#if OLD\nint guard;\n#endif\nint z;\n"
FIX = """\
diff --git a/README b/README
--- a/README
+++ b/README
@@ -1 +1 @@
-upstream
+ours
"""


@dataclass(frozen=True)
class Site:
    """A pretended PyTorch and the operators that its build clones: each dropped a guard before the pin."""

    root: Path
    folder: Path
    torch: Upstream
    ops: Upstream
    drops: dict[str, str]
    pins: dict[str, str]

    @classmethod
    def make(cls, root: Path) -> Site:
        folder = root / "recipes"
        folder.mkdir()
        ops, torch, drops, pins = Upstream.make(root / "ops.git"), Upstream.make(root / "pytorch.git"), {}, {}
        without = "int a;\nint z;\n"
        first = ops.commit({"k.cpp": GUARD})
        drops["ops"] = ops.commit({"k.cpp": without}, parent=first)
        pins["ops"] = ops.commit({"k.cpp": without, "later": "1\n"}, parent=drops["ops"])
        rest = {"README": "upstream\n", "xpu.txt": f"{pins['ops']}\n", "version.txt": "1.0\n"}
        first = torch.commit({"c.cpp": GUARD, **rest})
        drops["torch"] = torch.commit({"c.cpp": without, **rest}, parent=first)
        pins["torch"] = torch.commit({"c.cpp": without, **rest, "later": "1\n"}, parent=drops["torch"])
        return cls(root, folder, torch, ops, drops, pins)

    @property
    def recipe(self) -> str:
        return str(self.folder / "mine.yaml")

    def write(self, *patches: str) -> None:
        text = RECIPE.format(root=self.root.as_uri(), patches=", ".join(patches), **self.pins)
        Path(self.recipe).write_text(text)

    def write_all(self) -> None:
        """Name two reverts and a patch file."""
        (self.folder / "fix.patch").write_text(FIX)
        sha256 = hashlib.sha256(FIX.encode()).hexdigest()
        self.write(
            f"{{action: revert, commit: {self.drops['torch']}}}",
            f"{{file: fix.patch, sha256: {sha256}}}",
            f"{{action: revert, commit: {self.drops['ops']}, into: third_party/ops}}",
        )


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site.make(tmp_path)


def test_a_patched_tree_is_planned_checked_out_and_proved(site: Site, tmp_path: Path) -> None:
    site.write()
    plain = prepare(Options(site.recipe, workspace=tmp_path / "w"))
    site.write_all()
    made = prepare(Options(site.recipe, workspace=tmp_path / "w"))
    (item,) = inputs_of(made.target).repositories
    assert plain.plan.lock_digest != made.plan.lock_digest
    one, other = (
        next(step for step in plan.steps if step.id == "torch.source") for plan in (plain.plan, made.plan)
    )
    assert one.relevant["pin"] != other.relevant["pin"]  # so a store has two wheels
    assert any(f"with tree {item.pin.tree} is made of {site.pins['torch']}" in text
               for text in made.plan.summary["resolved"])  # fmt: skip
    into = tmp_path / "src"
    report = checkout(item.pin, into, cache=made.target.cache, jobs=2, env=base_environment(), report=print)
    assert report.evidence["tree"] == item.pin.tree == git("rev-parse", "HEAD^{tree}", cwd=into)
    assert (into / "c.cpp").read_text() == GUARD
    assert (into / "README").read_text() == "ours\n"
    assert (into / "later").exists()
    # The build clones what its pin file names: the patched operators.
    ops = (into / "xpu.txt").read_text().strip()
    assert ops == made.target.recipe.components["torch"].source.configure_time[0].commit
    assert made.target.patched[ops].base == site.pins["ops"]
    assert "+#if OLD" in made.target.patched[ops].patch
    # Exactly this tree: the pin as it is upstream is not accepted for it, nor an edit.
    (into / "c.cpp").write_text("int edited;\n")
    with pytest.raises(SourceIntegrityError, match=r"c\.cpp|edit|local"):
        checkout(item.pin, into, cache=made.target.cache, jobs=2, env=base_environment(), report=print)


def test_the_script_makes_the_same_commit_with_plain_git(site: Site, tmp_path: Path) -> None:
    site.write(f"{{action: revert, commit: {site.drops['torch']}}}")
    made = prepare(Options(site.recipe, workspace=tmp_path / "w"))
    (pin,) = [item.pin for item in inputs_of(made.target).repositories]
    (step,) = [step for step in made.plan.steps if step.id == "torch.source"]
    done = _bash(tuple(step.commands[-1].portable or ()), tmp_path)
    assert done.returncode == 0, done.stderr
    assert git("rev-parse", "HEAD", cwd=tmp_path / "w/src/torch") == pin.commit


def test_a_lock_and_a_mirror_need_neither_history_nor_network(
    site: Site, tmp_path: Path, xpubuild: Xpubuild
) -> None:
    site.write_all()
    lock, mirror = tmp_path / "mine.lock.yaml", tmp_path / "mirror"
    xpubuild.ok("lock", site.recipe, "-o", str(lock))
    tree = read_lock(lock).repositories["torch"]
    ops = tree.configure_time["third_party/ops"]
    assert (tree.base, ops.base) == (site.pins["torch"], site.pins["ops"])
    for item in (tree, ops):
        assert item.patch_sha256 == hashlib.sha256((item.patch or "").encode()).hexdigest()
        assert "+int guard;" in (item.patch or "")
    xpubuild.ok("fetch", site.recipe, "--mirror", str(mirror))
    xpubuild.ok("check", str(mirror))
    # On another machine, where the repositories cannot be reached.
    shutil.rmtree(platformdirs.user_cache_path("xpubuild"))
    site.root.joinpath("pytorch.git").rename(tmp_path / "away")
    site.root.joinpath("ops.git").rename(tmp_path / "gone")
    offline = Options(site.recipe, workspace=tmp_path / "w", mirror=mirror, offline=True)
    target = prepare(offline).target
    assert {item.commit for item in target.patched.values()} == {tree.commit, ops.commit}
    result = xpubuild("check", str(lock), "--recipe", site.recipe, "--mirror", str(mirror), "--offline")
    assert result.status in (0, 2), result.err
    # With the lock alone, the pins suffice: the commits that were reverted may be gone.
    shutil.rmtree(platformdirs.user_cache_path("xpubuild"))
    for name, away in (("pytorch", "away"), ("ops", "gone")):
        pin = site.pins["torch" if name == "pytorch" else "ops"]
        shallow = tmp_path / f"{name}.shallow"
        git("clone", "--bare", "--depth=1", f"file://{tmp_path / away}", str(shallow), cwd=tmp_path)
        shallow.rename(site.root / f"{name}.git")
        assert git("rev-parse", "HEAD", cwd=site.root / f"{name}.git") == pin
    again = prepare(options_of(read_lock(lock), Options(site.recipe, workspace=tmp_path / "w"))).target
    assert inputs_of(again).repositories[0].pin.commit == tree.commit


def test_the_configuration_of_a_user_changes_no_patch(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.write_all()
    plain = prepare(Options(site.recipe, workspace=tmp_path / "w")).target.patched
    mine = tmp_path / "gitconfig"
    mine.write_text("[diff]\n\tnoprefix = true\n\tcontext = 0\n[apply]\n\tignoreWhitespace = change\n")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(mine))
    assert git("diff", site.pins["torch"], site.drops["torch"], cwd=site.root / "pytorch.git")
    shutil.rmtree(platformdirs.user_cache_path("xpubuild"))
    assert prepare(Options(site.recipe, workspace=tmp_path / "w")).target.patched == plain


def test_a_mirror_cannot_say_what_a_patch_file_gives(site: Site, tmp_path: Path, xpubuild: Xpubuild) -> None:
    (site.folder / "fix.patch").write_text(FIX)
    site.write(f"{{file: fix.patch, sha256: {hashlib.sha256(FIX.encode()).hexdigest()}}}")
    mirror = tmp_path / "mirror"
    xpubuild.ok("fetch", site.recipe, "--mirror", str(mirror))
    offline = Options(site.recipe, workspace=tmp_path / "w", mirror=mirror, offline=True)
    (made,) = prepare(offline).target.patched.values()
    place = mirror / "git" / mirror_name(made.url, 40)
    other = git("commit-tree", f"{made.base}^{{tree}}", "-p", made.base, "-m", made.message, cwd=place)
    git("update-ref", f"refs/xpubuild/named/{made.name}", other, cwd=place)
    git("update-ref", f"refs/xpubuild/pins/{other}", other, cwd=place)
    shutil.rmtree(platformdirs.user_cache_path("xpubuild"))
    assert [*prepare(offline).target.patched] == [made.commit]


def test_a_lock_decides_nothing_for_builds_without_it(site: Site, tmp_path: Path) -> None:
    (site.folder / "fix.patch").write_text(FIX)
    site.write(f"{{file: fix.patch, sha256: {hashlib.sha256(FIX.encode()).hexdigest()}}}")
    plain = Options(site.recipe, workspace=tmp_path / "w")
    locked = replace(plain, patches={site.pins["torch"]: FIX.replace("+ours", "+theirs")})
    (theirs,) = prepare(locked).target.patched.values()
    (ours,) = prepare(plain).target.patched.values()
    assert ("+theirs" in theirs.patch, "+ours" in ours.patch) == (True, True)


def test_a_pin_file_that_a_patch_changes_keeps_the_change(site: Site, tmp_path: Path) -> None:
    pin = site.pins["ops"]
    head = "diff --git a/xpu.txt b/xpu.txt\n--- a/xpu.txt\n+++ b/xpu.txt\n"
    revert = f"{{action: revert, commit: {site.drops['ops']}, into: third_party/ops}}"

    def written(hunk: str) -> Options:
        (site.folder / "pin.patch").write_text(head + hunk)
        sha256 = hashlib.sha256((head + hunk).encode()).hexdigest()
        site.write(f"{{file: pin.patch, sha256: {sha256}}}", revert)
        return Options(site.recipe, workspace=tmp_path / "w")

    made = prepare(written(f"@@ -1 +1,2 @@\n {pin}\n+\n")).target.patched
    ops, torch = made
    assert f"-{pin}\n+{ops}\n+\n" in made[torch].patch
    with pytest.raises(SourceIntegrityError, match="cannot name the patched commit"):
        prepare(written(f"@@ -1 +1 @@\n-{pin}\n+{'a' * 40}\n"))


def test_a_patch_that_does_not_apply_names_its_hunk(site: Site, xpubuild: Xpubuild) -> None:
    wrong = FIX.replace("-upstream", "-something else")
    (site.folder / "wrong.patch").write_text(wrong)
    site.write(f"{{file: wrong.patch, sha256: {hashlib.sha256(wrong.encode()).hexdigest()}}}")
    result = xpubuild("plan", site.recipe)
    assert result.status == 31
    assert "wrong.patch does not apply" in result.err
    assert "patch failed: README:1" in result.err
    site.write(f"{{file: wrong.patch, sha256: {'a' * 64}}}")
    result = xpubuild("plan", site.recipe)
    assert result.status == 31
    assert "not the one that the recipe names" in result.err


@pytest.mark.parametrize(
    ("patch", "why"),
    [
        ("{file: gone.patch, sha256: " + "a" * 64 + "}", "not beside the recipe"),
        ("{commit: " + "a" * 40 + ", into: elsewhere}", "no path of its configure_time"),
        ("{file: x.patch}", "belong together"),
        ("{file: ../x.patch, sha256: " + "a" * 64 + "}", "below the folder of the recipe"),
        ("{what: a wish}", "'file' or 'commit' each"),
    ],
)
def test_what_cannot_be_patched_is_refused(site: Site, xpubuild: Xpubuild, patch: str, why: str) -> None:
    site.write(patch)
    result = xpubuild("plan", site.recipe)
    assert result.status == 20
    assert why in result.err


# ---- The recipe of 2.6 against the real tree of PyTorch 2.6.0; what differs is named: test_recipe_tree.py.
# The tree is a distribution's source archive: without .git, submodules, .gitmodules and .ci.


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    without = (*upstream.NOT_BUILT, "aten", "torch")
    return upstream.source("pytorch", tmp_path_factory.mktemp("upstream"), without)


def test_the_recipe_agrees_with_the_tree(tree: Path, xpubuild: Xpubuild) -> None:
    document = xpubuild.json("recipes", "check", "2.6", "--tree", str(tree))
    check(document, "recipes-check")
    (result,) = document["recipes"]
    assert result["problems"] == []
    left_out = {text.split(": ")[1].rpartition("/")[2] for text in result["not_checked"]}
    assert left_out == {"triton-xpu.txt", "triton_version.txt", "commit"}
