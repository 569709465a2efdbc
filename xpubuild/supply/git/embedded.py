"""The embedded project as real git repositories with the same commits on every machine and for every user.

The sources of the smoke extension travel as plain files. Here they become bare repositories, so that pins,
mirrors and submodules are exercised for real on a machine that reaches no git server.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from xpubuild.engine.files import explained, remove_tree
from xpubuild.errors import SourceIntegrityError
from xpubuild.frozen import frozen
from xpubuild.supply.git.embedded_layout import DATE, IDENTITY, EmbeddedRepository, read_repositories
from xpubuild.supply.git.failures import require
from xpubuild.supply.git.git import Answer, Git
from xpubuild.supply.git.gitconfig import add_settings
from xpubuild.supply.git.gitmodules import GITLINK
from xpubuild.supply.git.hardening import without_user_configuration
from xpubuild.supply.git.leftovers import remove_leftovers
from xpubuild.supply.git.locks import locked

_BRANCH = "refs/heads/main"


@frozen
class EmbeddedRepos:
    """Where the repositories are: ``commit`` and ``tree`` are the top's, ``repos`` is name -> folder."""

    root_url: str
    commit: str
    tree: str
    repos: Mapping[str, Path]


def expected_commit(project: Path) -> str:
    """Return the commit that ``materialise`` makes of a project, without running git.

    Raises:
        SourceIntegrityError: the installation is damaged.
    """
    return read_repositories(project)[-1].commit


def root_url(project: Path, into: Path) -> str:
    """Return the URL that the top repository has (or will have) below ``into``."""
    return (into.resolve() / f"{read_repositories(project)[-1].name}.git").as_uri()


def materialise(project: Path, into: Path, env: Mapping[str, str]) -> EmbeddedRepos:
    """Write ``into/NAME.git`` for every repository of the project; what is there and whole stays as it is.

    Safe to call again after a kill and from several processes at once. Earlier commits stay in the
    repositories, so that an older pin can still be checked out.

    Raises:
        SourceIntegrityError: the installation is damaged, or git made other objects than it should.
        NoSpaceError, ToolchainError.
    """
    repositories = read_repositories(project)
    git = Git.open(env).with_env(without_user_configuration(env))
    folder = into.resolve()
    with locked(folder / ".lock"):
        for repository in repositories:
            _write(git, repository, folder / f"{repository.name}.git")
    top = repositories[-1]
    repos = {repository.name: folder / f"{repository.name}.git" for repository in repositories}
    return EmbeddedRepos(repos[top.name].as_uri(), top.commit, top.tree, repos)


def _write(git: Git, repository: EmbeddedRepository, place: Path) -> None:
    if place.is_dir():
        if _is_whole(git, place, repository.commit):
            return
        if git.query(["fsck", "--connectivity-only", "--no-dangling"], git_dir=place).ok:
            remove_leftovers(place)
            _import(git, repository, place)
            return
        remove_tree(place)  # damaged; everything in it can be made again
    with explained(place, "writing the embedded sources"):
        for leftover in place.parent.glob(f".{place.name}.*"):
            remove_tree(leftover)
        new = Path(tempfile.mkdtemp(prefix=f".{place.name}.", dir=place.parent))
        _must(
            git.query(["init", "--quiet", "--bare", "--template=", "--object-format=sha1", str(new)]), place
        )
        # For a git that still speaks protocol 0, which gives no single commits otherwise.
        add_settings(new, [("uploadpack.allowAnySHA1InWant", "true")])
        _import(git, repository, new)
        new.rename(place)


def _is_whole(git: Git, place: Path, commit: str) -> bool:
    if git.query(["rev-parse", "--quiet", "--verify", _BRANCH], git_dir=place).text != commit:
        return False
    return git.query(["rev-list", "--objects", "--quiet", "--no-walk", commit], git_dir=place).ok


def _import(git: Git, repository: EmbeddedRepository, git_dir: Path) -> None:
    own_ref = f"refs/xpubuild/embedded/{repository.commit}"
    with tempfile.TemporaryFile(dir=git_dir) as stream:
        stream.writelines(_stream(repository, own_ref))
        stream.flush()
        stream.seek(0)
        command = ["fast-import", "--quiet", "--done", "--date-format=raw"]
        _must(git.query(command, git_dir=git_dir, stdin=stream), git_dir)
    made = git.query(["rev-parse", "--quiet", "--verify", own_ref], git_dir=git_dir).text
    if made != repository.commit:
        raise SourceIntegrityError(
            f"git created an unexpected commit of the embedded '{repository.name}'",
            why=f"{made} instead of {repository.commit}",
            fix="report this with the output of: git --version",
            evidence={"repository": repository.name, "made": made, "expected": repository.commit},
        )
    _must(git.query(["update-ref", _BRANCH, made], git_dir=git_dir), git_dir)


def _stream(repository: EmbeddedRepository, ref: str) -> Iterator[bytes]:
    """Write the commit in git's fast-import language: no filter, index or configuration can change a byte."""
    message = repository.message.encode()
    who = f"{IDENTITY} {DATE} +0000"
    yield f"commit {ref}\nauthor {who}\ncommitter {who}\ndata {len(message)}\n".encode() + message
    for entry in repository.entries:
        if entry.mode == GITLINK:
            yield f"M {GITLINK} {entry.data.decode()} {entry.path}\n".encode()
        else:
            yield f"M {entry.mode} inline {entry.path}\ndata {len(entry.data)}\n".encode()
            yield entry.data + b"\n"
    yield b"done\n"


def _must(answer: Answer, place: Path) -> None:
    require(answer, f"writing the embedded sources to {place}")
