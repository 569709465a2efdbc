"""The embedded project as real git repositories with the same commits on every machine and for every user.

The sources of the smoke extension travel as git bundles, one for each of its repositories, beside the plain
files that ``scripts/pin-embedded.py`` makes them from. Here they become bare repositories, so that pins,
mirrors and submodules are exercised for real on a machine that reaches no git server.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator
from pathlib import Path

from xpubuild.engine.files import remove_tree
from xpubuild.errors import SourceIntegrityError
from xpubuild.supply.git.bare import make_bare, remove_leftovers
from xpubuild.supply.git.failures import require
from xpubuild.supply.git.git import Git, locked
from xpubuild.supply.git.pin import Pin

#: The repository that has the others as submodules.
TOP = "ops"
_BRANCH = "refs/heads/main"
#: The first two lines of a bundle of one branch without prerequisites.
_HEADER = re.compile(rb"# v2 git bundle\n([0-9a-f]{40}) refs/heads/main\n\n")
_LONGEST_HEADER = 200
_END = "XPUBUILD_END"


def expected_commit(project: Path, name: str = TOP) -> str:
    """Return the commit that a bundle contains, without running git.

    Raises:
        SourceIntegrityError: the installation is damaged.
    """
    bundle = project.parent / f"{name}.bundle"
    try:
        with bundle.open("rb") as stream:
            header = _HEADER.match(stream.read(_LONGEST_HEADER))
    except OSError as error:
        raise _damaged(bundle, str(error)) from error
    if header is None:
        raise _damaged(bundle, f"{bundle.name} is no bundle of one branch")
    return header[1].decode("ascii")


def root_url(into: Path) -> str:
    """Return the URL that the top repository has (or will have) below ``into``."""
    return (into.resolve() / f"{TOP}.git").as_uri()


def materialise(project: Path, into: Path) -> Pin:
    """Write ``into/NAME.git`` for every bundle beside ``project``, and return the pin of the top.

    Complete repositories stay as they are. Safe to call again after a kill and from several processes at
    once. Earlier commits stay in the repositories, so that an older pin can still be checked out.

    Raises:
        SourceIntegrityError: the installation is damaged.
        NoSpaceError, ToolchainError.
    """
    git, folder, commit = Git.open(), into.resolve(), expected_commit(project)
    with locked(folder / ".lock"):
        for bundle in _bundles(project):
            _write(git, bundle, expected_commit(project, bundle.stem), folder / f"{bundle.stem}.git")
    return Pin(root_url(into), commit, git.parse(folder / f"{TOP}.git", f"{commit}^{{tree}}"))


def _bundles(project: Path) -> list[Path]:
    return sorted(project.parent.glob("*.bundle"))


def _write(git: Git, bundle: Path, commit: str, place: Path) -> None:
    if place.is_dir():
        if git.parse(place, _BRANCH) == commit and git.is_whole(place, commit):
            return
        if git.query(["fsck", "--connectivity-only", "--no-dangling"], git_dir=place).ok:
            remove_leftovers(place)
        else:
            remove_tree(place)  # damaged; everything in it can be recreated
    if not place.is_dir():
        make_bare(git, place, commit)
    if not git.query(["bundle", "unbundle", str(bundle)], git_dir=place).ok:
        raise _damaged(bundle, f"git cannot unpack {bundle.name}")
    kept = ["update-ref", f"refs/xpubuild/embedded/{commit}", commit]
    for words in (kept, ["update-ref", _BRANCH, commit], ["symbolic-ref", "HEAD", _BRANCH]):
        require(git.query(words, git_dir=place), f"writing the embedded sources to {place}")


def shell_lines(project: Path, target_var: str) -> tuple[str, ...]:
    """Return bash lines that write the embedded repositories, with the same commits, below ``$target_var``.

    Plain git and base64 only. The lines contain here-documents: they must not be indented. Repositories that
    exist are not changed.

    Raises:
        SourceIntegrityError: the installation is damaged.
        ValueError: ``target_var`` is not the name of a shell variable.
    """
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", target_var):
        raise ValueError(f"'{target_var}' is not the name of a shell variable")
    lines = ["(", "set -euo pipefail", "unset $(git rev-parse --local-env-vars) GIT_DEFAULT_HASH"]
    # No configuration of the user, which could refuse or convert what is written.
    lines.append("export GIT_CONFIG_NOSYSTEM=1 GIT_CONFIG_GLOBAL=/dev/null")
    lines.append(f'mkdir -p "${target_var}"')
    for bundle in _bundles(project):
        lines += _bundle_lines(bundle, expected_commit(project, bundle.stem), target_var)
    return (*lines, ")")


def _bundle_lines(bundle: Path, commit: str, target_var: str) -> Iterator[str]:
    yield f'export GIT_DIR="${target_var}/{bundle.stem}.git"'
    yield f"if ! git cat-file -e {commit}^{{tree}} 2>/dev/null; then"
    yield 'git init --quiet --bare --template= "$GIT_DIR"'
    yield "git config uploadpack.allowAnySHA1InWant true"
    yield f"base64 -d >\"$GIT_DIR/new.bundle\" <<'{_END}'"
    yield from base64.encodebytes(bundle.read_bytes()).decode("ascii").splitlines()
    yield _END
    yield 'git bundle unbundle "$GIT_DIR/new.bundle" >/dev/null; rm -f "$GIT_DIR/new.bundle"'
    yield f"git update-ref {_BRANCH} {commit}; git symbolic-ref HEAD {_BRANCH}"
    yield "fi"


def _damaged(bundle: Path, why: str) -> SourceIntegrityError:
    return SourceIntegrityError(
        "the embedded sources are incomplete",
        why=why,
        fix="reinstall xpubuild",
        evidence={"bundle": str(bundle)},
    )
