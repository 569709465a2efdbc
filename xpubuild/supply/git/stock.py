"""Fetches objects from a repository on this machine: a mirror of the user, or that of a site.

The receiving git hashes every object that comes: damaged objects are rejected, whatever the source is.
"""

from __future__ import annotations

import shlex
from pathlib import Path

from xpubuild.engine.process import Cancel
from xpubuild.errors import SourceIntegrityError
from xpubuild.frozen import frozen
from xpubuild.supply.git.failures import Failure, diagnose
from xpubuild.supply.git.fetching import PINS
from xpubuild.supply.git.git import Git, Report


@frozen
class Origin:
    """A repository of this machine that objects are taken from."""

    git: Git
    path: Path

    def give(
        self,
        wanted: str,
        into: Path,
        *,
        report: Report,
        cancel: Cancel | None = None,
        hold: tuple[int, ...] = (),
    ) -> Failure | None:
        """Fetch a commit or a refspec into the repository ``into``; return what went wrong, or None."""
        # The cache of a container's user often belongs to another id outside; what comes is hashed anyway.
        serve = f"{shlex.quote(self.git.program)} -c 'safe.directory=*' upload-pack"
        run = self.git.run(
            ["fetch", "--no-tags", "--depth=1", "--no-write-fetch-head", "--progress",
             f"--upload-pack={serve}", "--", str(self.path), wanted],
            git_dir=into,
            report=report,
            cancel=cancel,
            hold=hold,
        )  # fmt: skip
        return None if run.ok else diagnose(run)

    def knows(self, commit: str) -> bool:
        """Whether the stock says that it keeps a commit, be its objects there or not."""
        name = f"{PINS}/{commit}"
        return self.git.query(["rev-parse", "--quiet", "--verify", name], git_dir=self.path).ok

    def give_pinned(
        self, commit: str, into: Path, *, report: Report, cancel: Cancel | None, hold: tuple[int, ...]
    ) -> Failure | None:
        """Bring a commit that the stock keeps by a reference of its own."""
        ref = f"{PINS}/{commit}"
        return self.give(f"+{ref}:{ref}", into, report=report, cancel=cancel, hold=hold)


def damaged(place: Path, url: str, commit: str, failure: Failure) -> SourceIntegrityError:
    """Return the error of a stock that cannot give what it should hold."""
    folder = place.parent.parent
    return SourceIntegrityError(
        f"the mirror {folder} is damaged: {place.relative_to(folder)}",
        why=f"commit {commit} of {url} cannot be read from it: {failure.cause}",
        fix="with a network, fetch the same recipe again: only damaged files are downloaded again",
        commands=(f"xpubuild fetch --mirror {shlex.quote(str(folder))} --check",),
        evidence={"mirror": str(folder), "repository": place.name, "url": url, "commit": commit,
                  "git": list(failure.lines)},
    )  # fmt: skip
