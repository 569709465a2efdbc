"""The embedded sources become the same repositories everywhere, and git agrees with the ids computed here."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from integration.gitserver import GIT_ENV, git, plain_clone, snapshot

from xpubuild.engine.environment import base_environment
from xpubuild.errors import SourceIntegrityError
from xpubuild.resources import ops_project_dir
from xpubuild.supply.git.checkout import checkout
from xpubuild.supply.git.embedded import expected_commit, materialise, root_url
from xpubuild.supply.git.pin import Pin
from xpubuild.supply.git.portable import shell_lines

_MANIFEST = """
repositories:
  - {name: top, path: .}
  - {name: mid, path: third_party/mid}
  - {name: inner, path: third_party/mid/deps/inner}
exclude: [build]
"""
_FILES: dict[str, bytes] = {
    "README.md": b"text\n",
    "run.sh": b"#!/bin/sh\necho\n",
    "empty": b"",
    "no newline": b"text without one",
    "crlf.txt": b"a\r\nb\r\n",
    "binary.bin": bytes(range(256)),
    "latin1.txt": b"caf\xe9\n",
    "src/\xfcml\xe4ut 'quote' $HOME `x`.txt".encode("latin-1").decode(
        "latin-1"
    ): "grüße $HOME `id` \\ \n".encode(),
    "mark.txt": b"XPUBUILD_END\nstill text\n",
    "src/a.b/x": b"1\n",
    "src/a/x": b"2\n",
    "src/a-b": b"3\n",
    ".gitattributes": b"* text=auto eol=crlf\n",
    ".gitignore": b"*.o\n",
    "third_party/mid/mid.c": b"mid\n",
    "third_party/mid/deps/inner/inner.h": b"inner\n",
}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return _write(tmp_path / "paket ü" / "project")


def _write(project: Path) -> Path:
    for name, data in _FILES.items():
        file = project / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)
    (project.parent / "embedded.yaml").write_text(_MANIFEST)
    return project


def _materialise(project: Path, into: Path) -> str:
    return materialise(project, into, base_environment()).commit


def test_git_makes_the_commit_that_was_computed(project: Path, tmp_path: Path) -> None:
    made = materialise(project, tmp_path / "git", base_environment())
    assert made.commit == expected_commit(project)
    assert made.root_url == root_url(project, tmp_path / "git")
    assert list(made.repos) == ["inner", "mid", "top"]
    for place in made.repos.values():
        git("fsck", "--full", "--strict", cwd=place)
        assert git("rev-list", "--count", "HEAD", cwd=place) == "1"
    assert git("rev-parse", "HEAD^{tree}", cwd=made.repos["top"]) == made.tree


def test_plain_git_and_our_checkout_give_the_files_back(project: Path, tmp_path: Path) -> None:
    (project / ".gitattributes").unlink()
    made = materialise(project, tmp_path / "git", base_environment())
    cloned = plain_clone(made.root_url, made.commit, tmp_path / "clone")
    pin = Pin(made.root_url, made.commit, made.tree)
    into = tmp_path / "ws"
    checkout(pin, into, cache=tmp_path / "cache", jobs=2, env=base_environment(), report=lambda _: None)
    assert snapshot(into) == cloned
    for name, data in _FILES.items():
        if name != ".gitattributes":
            assert (into / name).read_bytes() == data
    assert os.access(into / "run.sh", os.X_OK)
    assert not os.access(into / "README.md", os.X_OK)


def test_the_order_of_the_tree_is_gits(project: Path, tmp_path: Path) -> None:
    made = materialise(project, tmp_path / "git", base_environment())
    rebuilt = subprocess.run(
        ["git", "ls-tree", "-z", "HEAD:src"], cwd=made.repos["top"], capture_output=True, check=True
    ).stdout
    again = subprocess.run(
        ["git", "mktree", "-z"], cwd=made.repos["top"], input=rebuilt, capture_output=True, check=True
    )
    assert again.stdout.decode().strip() == git("rev-parse", "HEAD:src", cwd=made.repos["top"])


_ODD = """
[core]
\tautocrlf = true
\teol = crlf
\tfileMode = false
[commit]
\tgpgSign = true
[user]
\tname = Somebody Else
\temail = else@example.com
[init]
\tdefaultBranch = trunk
\ttemplateDir = /nonexistent/template
\tdefaultObjectFormat = sha256
[i18n]
\tcommitEncoding = ISO-8859-1
[fsck]
\tmissingEmail = error
"""

_CHILD = """
    import sys
    from pathlib import Path
    from xpubuild.engine.environment import base_environment
    from xpubuild.supply.git.embedded import materialise
    print(materialise(Path(sys.argv[1]), Path(sys.argv[2]), base_environment()).commit)
"""


def test_the_commit_is_the_same_for_other_users_umasks_modes_and_times(project: Path, tmp_path: Path) -> None:
    script = tmp_path / "child.py"
    script.write_text(textwrap.dedent(_CHILD))
    commits = {expected_commit(project)}
    for number, umask in enumerate((0o022, 0o077, 0o002)):
        copy = tmp_path / f"copy {number}" / "project"
        os.umask(umask)
        try:
            _write(copy)
            if number:
                (copy / "run.sh").chmod(0o600)
                (copy / "README.md").chmod(0o700)
                os.utime(copy / "README.md", (1, 1))
            home = tmp_path / f"home {number}"
            home.mkdir()
            (home / ".gitconfig").write_text(_ODD if number else "")
            env = base_environment() | {
                "HOME": str(home),
                "XDG_CONFIG_HOME": str(home / ".config"),
                "GIT_AUTHOR_NAME": "leaks",
                "GIT_COMMITTER_DATE": "1234567890 +0500",
                "GIT_DEFAULT_HASH": "sha256",
                "GIT_DIR": str(home),
                "TZ": "Asia/Tokyo" if number else "UTC",
            }
            done = subprocess.run(
                [sys.executable, str(script), str(copy), str(tmp_path / f"git {number}")],
                env=env, capture_output=True, text=True, check=True,
            )  # fmt: skip
        finally:
            os.umask(0o022)
        commits.add(done.stdout.strip())
        place = tmp_path / f"git {number}" / "top.git"
        assert git("cat-file", "-p", "HEAD", cwd=place).count("1767225600 +0000") == 2
    assert len(commits) == 1


def test_what_installers_and_editors_add_does_not_count(project: Path) -> None:
    before = expected_commit(project)
    for name in ("__pycache__/x.pyc", "src/.DS_Store", "top.egg-info/PKG-INFO", "build/x.o", "README.md~"):
        (project / name).parent.mkdir(exist_ok=True)
        (project / name).write_bytes(b"x")
    assert expected_commit(project) == before


@pytest.mark.parametrize("name", ["README.md", "third_party/mid/mid.c", "third_party/mid/deps/inner/inner.h"])
def test_a_changed_file_anywhere_changes_the_commit(project: Path, name: str) -> None:
    before = expected_commit(project)
    (project / name).write_text("changed\n")
    assert expected_commit(project) != before


def test_again_nothing_is_written(project: Path, tmp_path: Path) -> None:
    into = tmp_path / "git"
    _materialise(project, into)
    before = {path: path.stat().st_mtime_ns for path in into.rglob("*")}
    _materialise(project, into)
    assert {path: path.stat().st_mtime_ns for path in into.rglob("*")} == before


def test_a_new_commit_is_added_and_the_old_one_stays(project: Path, tmp_path: Path) -> None:
    into = tmp_path / "git"
    old = _materialise(project, into)
    (project / "README.md").write_text("new\n")
    new = _materialise(project, into)
    assert new != old
    assert git("rev-parse", "HEAD", cwd=into / "top.git") == new
    pin = Pin(root_url(project, into), old)
    done = checkout(
        pin, tmp_path / "ws", cache=tmp_path / "cache", jobs=1, env=base_environment(), report=lambda _: None
    )
    assert done.evidence["commit"] == old


@pytest.mark.parametrize("damage", ["HEAD", "objects", "leftovers"])
def test_damaged_repositories_are_made_again(project: Path, tmp_path: Path, damage: str) -> None:
    into = tmp_path / "git"
    commit = _materialise(project, into)
    top = into / "top.git"
    if damage == "leftovers":  # of a process that was killed
        shutil.copytree(top, into / ".top.git.abc")
        shutil.rmtree(top)
    elif damage == "HEAD":
        (top / "HEAD").write_bytes(b"")
    else:
        for file in (top / "objects").rglob("*"):
            if file.is_file():
                file.chmod(0o644)
                file.write_bytes(b"")
    assert _materialise(project, into) == commit
    git("fsck", "--full", cwd=top)
    assert not list(into.glob(".top.git.*"))


def test_several_at_once_write_the_same(project: Path, tmp_path: Path) -> None:
    script = tmp_path / "child.py"
    script.write_text(textwrap.dedent(_CHILD))
    command = [sys.executable, str(script), str(project), str(tmp_path / "git")]
    children = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    said = {child.communicate(timeout=60)[0].strip() for child in children}
    assert said == {expected_commit(project)}
    git("fsck", "--full", cwd=tmp_path / "git" / "top.git")


@pytest.mark.parametrize("umask", ["022", "077"])
def test_the_shell_lines_write_the_same_repositories(project: Path, tmp_path: Path, umask: str) -> None:
    made = materialise(project, tmp_path / "git", base_environment())
    home = tmp_path / "home"
    home.mkdir()
    (home / ".gitconfig").write_text(_ODD.replace("\ttemplateDir = /nonexistent/template\n", ""))
    script = tmp_path / "script.sh"
    target = tmp_path / "von der Shell ü"
    text = "\n".join(["set -euo pipefail", f"umask {umask}", f"OUT='{target}'", *shell_lines(project, "OUT")])
    script.write_bytes(text.encode() + b'\necho "after: ${GIT_DIR-unset}"\n')
    env = {
        "PATH": GIT_ENV["PATH"],
        "HOME": str(home),
        "GIT_AUTHOR_NAME": "leaks",
        "GIT_DEFAULT_HASH": "sha256",
    }
    for _ in range(2):
        done = subprocess.run(
            ["bash", str(script)], env=env, capture_output=True, text=True, check=False, cwd=tmp_path
        )
        assert done.returncode == 0, done.stderr
        assert done.stdout == "after: unset\n"
    for name, place in made.repos.items():
        theirs = target / f"{name}.git"
        assert git("rev-parse", "HEAD", cwd=theirs) == git("rev-parse", "HEAD", cwd=place)
        git("fsck", "--full", "--strict", cwd=theirs)


def test_a_shell_variable_of_a_strange_name_is_an_error(project: Path) -> None:
    with pytest.raises(ValueError, match="not the name of a shell variable"):
        shell_lines(project, "x; rm -rf /")


@pytest.mark.parametrize(
    ("manifest", "word"),
    [
        ("", "cannot be read"),
        ("repositories: 5", "cannot be read"),
        ("repositories: [{name: top}]", "cannot be read"),
        ("repositories: [{name: mid, path: third_party/mid}]", "must list '.' first"),
        ("repositories: [{name: a, path: .}, {name: a, path: third_party/mid}]", "must list '.' first"),
        ("repositories: [{name: a, path: .}, {name: b, path: nowhere}]", "missing"),
    ],
)
def test_a_damaged_manifest_is_explained(project: Path, manifest: str, word: str) -> None:
    (project.parent / "embedded.yaml").write_text(manifest)
    with pytest.raises(SourceIntegrityError, match="embedded sources are incomplete") as caught:
        expected_commit(project)
    assert word in caught.value.why


def test_links_and_names_that_cannot_be_embedded_are_refused(project: Path) -> None:
    (project / "link").symlink_to("/etc/passwd")
    with pytest.raises(SourceIntegrityError):
        expected_commit(project)
    (project / "link").unlink()
    (project / "a\nb").write_text("x")
    with pytest.raises(SourceIntegrityError):
        expected_commit(project)


def test_a_gitmodules_that_is_there_is_kept_and_has_to_agree(project: Path, tmp_path: Path) -> None:
    text = '[submodule "mid"]\n\tpath = third_party/mid\n\turl = ../mid.git\n'
    (project / ".gitmodules").write_text(text)
    made = materialise(project, tmp_path / "git", base_environment())
    assert git("show", "HEAD:.gitmodules", cwd=made.repos["top"]) == text.strip()
    (project / ".gitmodules").write_text(text.replace("../mid", "../other"))
    with pytest.raises(SourceIntegrityError):
        expected_commit(project)


def test_the_sources_that_travel_with_xpubuild_can_be_embedded(tmp_path: Path) -> None:
    project = ops_project_dir()
    made = materialise(project, tmp_path / "git", base_environment())
    assert made.commit == expected_commit(project)
    assert len(made.repos) >= 2
