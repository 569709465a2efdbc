"""Getting one commit over the network into a bare repository: by its id, by a hint, or with everything else.

git gives up at the first interrupted connection or 503, so the retries are here.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from xpubuild.engine.process import Cancel
from xpubuild.frozen import frozen
from xpubuild.supply.git.failures import Failure, diagnose
from xpubuild.supply.git.git import Git, Report, pause
from xpubuild.supply.git.leftovers import remove_leftovers

PINS = "refs/xpubuild/pins"
_COMMAND = ("fetch", "--no-tags", "--no-write-fetch-head", "--progress")
_HINT = "refs/xpubuild/hint"
_WHOLE = ("+refs/heads/*:refs/xpubuild/heads/*", "+refs/tags/*:refs/xpubuild/tags/*")
_ALL_HISTORY = "--depth=2147483647"  # what git's own --unshallow stands for


@frozen
class Retry:
    """How often and how long to try. A command that says nothing for ``stall_s`` seconds is stopped."""

    attempts: int = 4
    first_delay_s: float = 1.0
    stall_s: float = 180.0


@frozen
class Fetch:
    """A fetch from ``url`` into the bare repository ``git_dir``; ``hold`` is its lock, held by the caller."""

    git: Git
    git_dir: Path
    url: str
    retry: Retry
    report: Report
    cancel: Cancel | None = None
    hold: tuple[int, ...] = ()

    def commit(self, commit: str, ref: str | None) -> Failure | None:
        """Fetch ``commit`` and keep it by a reference of its own; return what went wrong, or None.

        Shallow by id where the server allows it. ``ref`` is tried next; then, for a server that gives no
        single commits at all, the whole repository.
        """
        failure = self._fetch(["--depth=1"], [f"+{commit}:{PINS}/{commit}"])
        if failure is None or failure.reason not in ("want", "commit", "shallow"):
            return failure
        if failure.reason != "shallow" and ref is not None and self._by_hint(commit, ref):
            return None
        if failure.reason == "commit":
            # The server looked for the commit and does not have it: everything else would not hold it either.
            return failure
        return self._whole(commit)

    def _by_hint(self, commit: str, ref: str) -> bool:
        if self._fetch(["--depth=1"], [f"+{ref}:{_HINT}"]) is not None:
            return False
        found = self._ask("rev-parse", "--quiet", "--verify", f"{_HINT}^{{commit}}")
        self._ask("update-ref", "-d", _HINT)
        if found != commit:
            self.report(f"{ref} of {self.url} is at {found} now, not at the pinned {commit}")
            return False
        self._ask("update-ref", f"{PINS}/{commit}", commit)
        return True

    def _whole(self, commit: str) -> Failure | None:
        self.report(f"{self.url} does not serve single commits; fetching the complete repository")
        depth = [_ALL_HISTORY] if (self.git_dir / "shallow").exists() else []
        failure = self._fetch(depth, _WHOLE)
        if failure is not None:
            return failure
        if self._ask("cat-file", "-t", commit) != "commit":
            return Failure("commit")
        self._ask("update-ref", f"{PINS}/{commit}", commit)
        return None

    def _fetch(self, options: Sequence[str], refspecs: Sequence[str]) -> Failure | None:
        delay = self.retry.first_delay_s
        for attempt in range(1, self.retry.attempts + 1):
            run = self.git.run(
                [*_COMMAND, *options, "--", self.url, *refspecs],
                git_dir=self.git_dir,
                report=self.report,
                cancel=self.cancel,
                stall_s=self.retry.stall_s,
                hold=self.hold,
            )
            if run.ok:
                return None
            remove_leftovers(self.git_dir)
            failure = diagnose(run)
            if not failure.transient or attempt == self.retry.attempts:
                return failure
            count = f"{attempt + 1} of {self.retry.attempts}"
            self.report(f"{self.url}: {failure.reason}; trying again in {delay:g} s ({count})")
            pause(delay, self.cancel)
            delay *= 2
        return None

    def _ask(self, *args: str) -> str:
        return self.git.query(args, git_dir=self.git_dir).text
