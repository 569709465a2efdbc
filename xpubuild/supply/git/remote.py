"""Looks up the commit of a tag or branch on a server; only for sources that a recipe does not pin."""

from __future__ import annotations

import re
import shlex
import time
from dataclasses import replace

from xpubuild.engine.process import Cancel
from xpubuild.engine.redact import recordable
from xpubuild.errors import FetchError, RecipeError
from xpubuild.supply.git.failures import Failure, diagnose, error_for
from xpubuild.supply.git.git import Git, pause
from xpubuild.supply.git.pin import is_ref
from xpubuild.supply.git.urls import problem_with

DEADLINE_S = 60.0
_ATTEMPTS = 3
_PAUSE_S = 1.0
_TICK_S = 0.05
_LINE = re.compile(r"([0-9a-f]{40}|[0-9a-f]{64})\t(\S+)")


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
    reason = problem_with(url)
    if reason is not None or not is_ref(ref):
        raise RecipeError(
            f"'{ref}' of {recordable(url)} cannot be looked up",
            why=reason or "it is not the name of a tag or branch",
            fix="correct url and ref of the source in the recipe",
        )
    names = _names(ref)
    found, failure = _ask(git, url, names, cancel, deadline_s)
    if failure is not None:
        raise error_for(replace(failure, lines=failure.lines[-3:]), url, ref)
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


def remote_tags(
    url: str, *, git: Git, cancel: Cancel | None = None, deadline_s: float = DEADLINE_S
) -> dict[str, str]:
    """Return the version tags (v and a digit) of the repository at ``url``, each with the commit it is about.

    Raises:
        RecipeError: git may not be given the URL.
        FetchError: the server cannot be asked.
        InterruptedByUserError: ``cancel`` was set.
    """
    reason = problem_with(url)
    if reason is not None:
        raise RecipeError(
            f"the tags of {recordable(url)} cannot be looked up",
            why=reason,
            fix="correct the url of the source in the recipe",
        )
    found, failure = _ask(git, url, ("refs/tags/v[0-9]*",), cancel, deadline_s)
    if failure is not None:
        raise error_for(replace(failure, lines=failure.lines[-3:]), url, "its tags")
    # Of an annotated tag, the commit follows under its name with ^{}.
    peeled = {name.removesuffix("^{}"): commit for name, commit in found.items() if name.endswith("^{}")}
    return {
        name.removeprefix("refs/tags/"): peeled.get(name, commit)
        for name, commit in found.items()
        if not name.endswith("^{}")
    }


def _names(ref: str) -> tuple[str, ...]:
    """Return the full names a ref may have, the one to take first."""
    if ref.startswith("refs/"):
        return (f"{ref}^{{}}", ref)
    return (f"refs/tags/{ref}^{{}}", f"refs/tags/{ref}", f"refs/heads/{ref}")


def _ask(
    git: Git, url: str, names: tuple[str, ...], cancel: Cancel | None, deadline_s: float
) -> tuple[dict[str, str], Failure | None]:
    """List the names at the server; a server that is only busy is asked again."""
    end = time.monotonic() + deadline_s
    failure = Failure("timeout", cause=f"no answer within {deadline_s:g} s")
    for attempt in range(_ATTEMPTS):
        found: dict[str, str] = {}

        def take(line: str, into: dict[str, str] = found) -> None:
            match = _LINE.fullmatch(line)
            if match is not None:
                into[match[2]] = match[1]

        left = max(end - time.monotonic(), _TICK_S)
        run = git.run(
            ["ls-remote", "--quiet", "--", url, *names], report=take, cancel=cancel, deadline_s=left
        )
        if run.ok:
            return found, None
        failure = diagnose(run)
        delay = _PAUSE_S * (attempt + 1)
        if not failure.transient or time.monotonic() + delay > end:
            break
        pause(delay, cancel)
    return {}, failure
