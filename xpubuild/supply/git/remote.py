"""The commit of a tag or branch: as a mirror remembers it, or as the server says."""

from __future__ import annotations

import re
import shlex
import time
from dataclasses import replace

from xpubuild.engine.process import Cancel
from xpubuild.engine.redact import recordable
from xpubuild.errors import FetchError, RecipeError
from xpubuild.supply.git.bare import RepositoryStore
from xpubuild.supply.git.failures import Failure, diagnose, error_for, require
from xpubuild.supply.git.git import Git, pause
from xpubuild.supply.git.pin import is_ref, problem_with

#: How long a server is asked for the commit of a tag or branch.
DEADLINE_S = 60.0
_ATTEMPTS = 3
_TICK_S = 0.05
_LISTED = re.compile(r"([0-9a-f]{40}|[0-9a-f]{64})\t(\S+)")
_NAMED = "refs/xpubuild/named"
#: A repository's ids are taken to be SHA-1 as long as none of them is known.
_SOME_ID = "0" * 40


def named_commit(store: RepositoryStore, url: str, ref: str) -> str:
    """Return the commit that ``ref`` of ``url`` is at: as a stock remembers it, else as the server says.

    Offline, what the user's own mirror remembers counts too.

    Raises:
        FetchError: offline, and no mirror remembers it; or the server cannot be asked.
        RecipeError: ``url`` or ``ref`` is not one that git may be given.
    """
    own = [store.mirror(url, _SOME_ID).path] if store.offline else []
    for place in (*store.stocked(url, _SOME_ID), *own):
        if known := store.git.parse(place, f"{_NAMED}/{ref}^{{commit}}"):
            return known
    if store.offline:
        raise error_for(Failure("offline"), url, ref)
    return remote_commit(url, ref, git=store.git, cancel=store.cancel)


def remember(store: RepositoryStore, url: str, ref: str, commit: str) -> None:
    """Note in the mirror of ``url``, which holds ``commit``, that ``ref`` is at it.

    Raises:
        NoSpaceError, ToolchainError: it cannot be written.
    """
    git_dir = store.mirror(url, commit).path
    answer = store.git.query(["update-ref", f"{_NAMED}/{ref}", commit], git_dir=git_dir)
    require(answer, f"noting {ref} of {url}")


def remote_commit(
    url: str, ref: str, *, git: Git, cancel: Cancel | None = None, deadline_s: float = DEADLINE_S
) -> str:
    """Return the commit that ``ref`` of the repository at ``url`` is at now.

    A tag counts before a branch of the same name, and of an annotated tag the commit it is about.

    Raises:
        RecipeError: URL or ref is not one that git may be given.
        FetchError: the server cannot be asked, or has no such tag or branch.
        InterruptedByUserError: ``cancel`` was set.
    """
    names: tuple[str, ...] = (f"refs/tags/{ref}^{{}}", f"refs/tags/{ref}", f"refs/heads/{ref}")
    if ref.startswith("refs/"):
        names = (f"{ref}^{{}}", ref)
    wrong = None if is_ref(ref) else "it is not the name of a tag or branch"
    found = _listed(git, url, names, f"'{ref}'", cancel=cancel, deadline_s=deadline_s, wrong=wrong)
    commit = next((found[name] for name in names if name in found), None)
    if commit is None:
        raise FetchError(
            f"{url} has no tag or branch '{ref}'",
            why="the server does not list it",
            fix="correct the ref of the source in the recipe",
            commands=(f"git ls-remote --tags --heads -- {shlex.quote(url)}",),
            evidence={"reason": "commit", "url": url, "ref": ref},
        )
    return commit


def remote_tags(url: str, *, git: Git, cancel: Cancel | None = None) -> dict[str, str]:
    """Return the version tags (v and a digit) of the repository at ``url``, each with the commit it is about.

    Raises:
        RecipeError: git may not be given the URL.
        FetchError: the server cannot be asked.
        InterruptedByUserError: ``cancel`` was set.
    """
    found = _listed(git, url, ("refs/tags/v[0-9]*",), "its tags", cancel=cancel)
    # Of an annotated tag, the commit follows under its name with ^{}.
    plain = {name: commit for name, commit in found.items() if not name.endswith("^{}")}
    return {name.removeprefix("refs/tags/"): found.get(f"{name}^{{}}", plain[name]) for name in plain}


def _listed(
    git: Git,
    url: str,
    names: tuple[str, ...],
    what: str,
    *,
    cancel: Cancel | None,
    deadline_s: float = DEADLINE_S,
    wrong: str | None = None,
) -> dict[str, str]:
    """List the names at the server; a server that is only busy is asked again."""
    reason = problem_with(url) or wrong
    if reason is not None:
        raise RecipeError(
            f"{what} of {recordable(url)} cannot be looked up",
            why=reason,
            fix="correct url and ref of the source in the recipe",
        )
    end = time.monotonic() + deadline_s
    for attempt in range(1, _ATTEMPTS + 1):
        lines: list[str] = []
        words = ["ls-remote", "--quiet", "--", url, *names]
        left = max(end - time.monotonic(), _TICK_S)
        run = git.run(words, report=lines.append, cancel=cancel, deadline_s=left)
        if run.ok:
            return {match[2]: match[1] for line in lines if (match := _LISTED.fullmatch(line))}
        failure = diagnose(run)
        if not failure.transient or attempt == _ATTEMPTS or time.monotonic() + attempt > end:
            break
        pause(attempt, cancel)
    raise error_for(replace(failure, lines=failure.lines[-3:]), url, what.strip("'"))
