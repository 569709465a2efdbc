"""Per-user bare mirrors of the repositories that sources come from, shared between workspaces.

A mirror holds the pinned commits only, each fetched shallow by its id and kept by a reference of its own, so
nothing depends on branches that move. Several xpubuilds may use one mirror at once: readers share its lock,
a fetch excludes.
"""

from __future__ import annotations

import contextlib
import math
import shlex
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import field
from pathlib import Path

from xpubuild.engine.files import explained, remove_tree, write_atomic
from xpubuild.engine.process import Cancel, ProcessResult
from xpubuild.errors import RecipeError
from xpubuild.frozen import frozen
from xpubuild.supply.depot.folder import Damage, damage_error
from xpubuild.supply.git.failures import Failure, diagnose, error_for, require
from xpubuild.supply.git.git import Git, Report, locked, object_format
from xpubuild.supply.git.pin import is_local, mirror_name

PINS = "refs/xpubuild/pins"
_TAG = b"Signature: 8a477f597d28d172789f06886806bc55\n# This folder is a cache made by xpubuild.\n"
_INCOMPLETE = Failure("damaged", cause="objects are missing after the fetch")
_FETCH = ("fetch", "--no-tags", "--no-write-fetch-head", "--progress")
_WHOLE = ("+refs/heads/*:refs/xpubuild/heads/*", "+refs/tags/*:refs/xpubuild/tags/*")
_ALL_HISTORY = "--depth=2147483647"  # what git's own --unshallow stands for
_LEFTOVERS = (
    "*.lock", "refs/**/*.lock", "objects/pack/tmp_*", "objects/pack/.tmp-*", "objects/??/tmp_obj_*",
    "objects/tmp_objdir-*/**/*",
)  # fmt: skip


_TICK_S = 0.05


@frozen
class Retry:
    """How often and how long to try. A command that says nothing for ``stall_s`` seconds is stopped.

    A server is asked for ``answer_s`` seconds where a tag or branch is.
    """

    attempts: int = 4
    first_delay_s: float = 1.0
    stall_s: float = 180.0
    answer_s: float = 60.0


def remove_leftovers(git_dir: Path) -> None:
    """Remove a killed git's lock files and temporary objects.

    Only for a repository that nobody else can be writing to: the caller holds the lock that every xpubuild
    process takes, and that its gits keep while they live.
    """
    for path in (path for pattern in _LEFTOVERS for path in git_dir.glob(pattern)):
        with contextlib.suppress(IsADirectoryError, FileNotFoundError):
            path.unlink()


@frozen
class RepositoryStore:
    """Where mirrors are and how they are filled; ``cache`` is xpubuild's cache folder, not ``git/`` in it.

    ``stocks`` are folders that ``xpubuild fetch`` has filled: asked before the network, and never written to.
    """

    cache: Path
    git: Git
    offline: bool = False
    stocks: tuple[Path, ...] = ()
    retry: Retry = field(default_factory=Retry)
    cancel: Cancel = field(default_factory=Cancel)

    def mirror(self, url: str, commit: str) -> BareRepository:
        """Return the mirror that holds, or will hold, ``commit`` of ``url``."""
        return BareRepository(self, url, self.cache / "git" / mirror_name(url, len(commit)))

    def stocked(self, url: str, commit: str) -> list[Path]:
        """Return the bare repositories of ``url`` in the stocks."""
        places = (folder / "git" / mirror_name(url, len(commit)) for folder in self.stocks)
        return [place for place in places if place.is_dir()]

    def copy(
        self, place: Path, wanted: str, into: Path, report: Report, hold: tuple[int, ...]
    ) -> Failure | None:
        """Fetch a commit or refspec from a repository of this machine into another; return what went wrong.

        The receiving git hashes every object that comes: damaged ones are rejected, whatever the source is.
        """
        # The cache of a container's user often belongs to another id outside; what comes is hashed anyway.
        serve = f"--upload-pack={shlex.quote(self.git.program)} -c 'safe.directory=*' upload-pack"
        words = [*_FETCH, "--depth=1", serve, "--", str(place), wanted]
        run = self.git.run(words, git_dir=into, report=report, cancel=self.cancel, hold=hold)
        return None if run.ok else diagnose(run)

    def persist(
        self, ask: Callable[[], ProcessResult], url: str, report: Report, end: float = math.inf
    ) -> Failure | None:
        """Ask a server again while that can help, until ``end`` by the clock; return how it failed at last.

        git itself gives up at the first interrupted connection or 503.

        Raises:
            InterruptedByUserError: ``cancel`` was set.
        """
        delay = self.retry.first_delay_s
        for attempt in range(1, self.retry.attempts + 1):
            run = ask()
            if run.ok:
                return None
            failure, next_try = diagnose(run), time.monotonic() + delay
            if not failure.transient or attempt == self.retry.attempts or next_try > end:
                return failure
            count = f"{attempt + 1} of {self.retry.attempts}"
            report(f"{url}: {failure.reason}; trying again in {delay:g} s ({count})")
            while time.monotonic() < next_try:
                self.cancel.stop_here()
                time.sleep(_TICK_S)
            delay *= 2
        return None


@frozen
class BareRepository:
    """One bare mirror at ``path``. Nothing but the methods here writes to it."""

    store: RepositoryStore
    url: str
    path: Path

    def ensure(self, commit: str, *, report: Report) -> bool:
        """Make ``commit`` and all its objects be here; return whether the network was used.

        Raises:
            FetchError: host, repository or commit cannot be had; ``evidence["reason"]`` says which.
            RecipeError: the id is that of a tag or tree.
            NoSpaceError, SourceIntegrityError, ToolchainError, InterruptedByUserError.
        """
        with self.locked(report, shared=True):
            if self.holds(commit):
                return False
        with self.locked(report) as fd:
            if self.holds(commit):
                return False
            self._fill(commit, report, fd)
        return True

    def deliver(self, commit: str, git_dir: Path, *, report: Report, hold: tuple[int, ...] = ()) -> None:
        """Copy the commit's objects into another repository; git hashes every one on arrival.

        A mirror whose objects turn out damaged is set aside and filled again, once.

        Raises:
            FetchError, NoSpaceError, SourceIntegrityError, ToolchainError, InterruptedByUserError.
        """
        for again in (True, False):
            with self.locked(report, shared=True) as fd:
                failure = self.store.copy(self.path, commit, git_dir, report, (fd, *hold))
            if failure is None:
                return
            if not again or failure.reason == "no-space" or self.is_sound(report):
                raise error_for(failure, str(self.path), commit)
            with self.locked(report) as fd:
                self._set_aside(report)
                self._fill(commit, report, fd)

    def ensure_parents(self, commit: str, *, report: Report) -> None:
        """Make ``commit`` and its parents be here, which ``ensure`` does not fetch.

        Raises:
            FetchError: see ``ensure``.
        """
        with self.locked(report) as fd:
            if self.store.offline and not is_local(self.url):
                raise error_for(Failure("offline"), self.url, commit)
            self._make_usable(commit, report)
            failure = self._fetch(["--depth=2"], [f"+{commit}:{PINS}/{commit}"], report, fd)
            if failure is not None:
                raise error_for(failure, self.url, commit)

    def is_sound(self, report: Report) -> bool:
        """Whether git finds every object of the mirror whole."""
        words = ["fsck", "--no-dangling", "--no-reflogs"]
        with self.locked(report, shared=True) as fd:
            return self.store.git.run(words, git_dir=self.path, cancel=self.store.cancel, hold=(fd,)).ok

    def holds(self, commit: str) -> bool:
        """Whether the commit was fetched to the end and every object of its tree is still here."""
        git = self.store.git
        known = self.path.is_dir() and git.parse(self.path, f"{PINS}/{commit}^{{commit}}") == commit
        return known and git.is_whole(self.path, commit)

    def _fill(self, commit: str, report: Report, fd: int) -> None:
        if self._fill_from_stock(commit, report, fd):
            return
        # A folder of this machine needs no network: embedded sources are made in the workspace itself.
        if self.store.offline and not is_local(self.url):
            raise error_for(Failure("offline"), self.url, commit)
        failure = _INCOMPLETE
        for _ in range(2):
            is_old = self._make_usable(commit, report)
            problem = self._fetch_commit(commit, report, fd)
            if problem is None:
                self._require_commit(commit)
                if self.holds(commit):
                    return
            failure = problem or _INCOMPLETE
            # What git says of a damaged repository has many forms: an old mirror is recreated once.
            if failure.reason != "damaged" and not (is_old and failure.reason == "unknown"):
                break
            self._set_aside(report)
        raise error_for(failure, self.url, commit)

    def _fill_from_stock(self, commit: str, report: Report, fd: int) -> bool:
        """Take a commit from a stock, whole and every object hashed; False where none holds it soundly.

        Raises:
            NoSpaceError: the disk is full.
            SourceIntegrityError: a stock that should hold it is damaged, and there is no network to ask.
        """
        pinned = f"{PINS}/{commit}"
        for place in self.store.stocked(self.url, commit):
            self._make_usable(commit, report)
            failure = self.store.copy(place, f"+{pinned}:{pinned}", self.path, report, (fd,))
            if failure is None and self.holds(commit):
                return True
            if failure is not None and failure.reason == "no-space":
                raise error_for(failure, str(place), commit)
            if failure is not None and failure.reason == "commit" and not self.store.git.parse(place, pinned):
                continue
            if self.store.offline:
                cause, path = (failure or _INCOMPLETE).cause, f"git/{place.name}"
                why = f"commit {commit} of {self.url} cannot be read from it: {cause}"
                raise damage_error(place.parent.parent, [Damage(path, "is damaged", why, path)])
            report(f"{place} is damaged; {self.url} is used instead")
            self._set_aside(report)
        return False

    def _fetch_commit(self, commit: str, report: Report, fd: int) -> Failure | None:
        """Fetch ``commit`` and keep it by a reference of its own; return what went wrong, or None.

        Shallow by id where the server allows it; else, as one that gives no single commits, the whole
        repository.
        """
        pinned = f"{PINS}/{commit}"
        failure = self._fetch(["--depth=1"], [f"+{commit}:{pinned}"], report, fd)
        if failure is None or failure.reason not in ("want", "commit", "shallow"):
            return failure
        if failure.reason == "commit":
            # The server looked for the commit and does not have it: everything else would not hold it either.
            return failure
        report(f"{self.url} does not serve single commits; fetching the complete repository")
        depth = [_ALL_HISTORY] if (self.path / "shallow").exists() else []
        failure = self._fetch(depth, _WHOLE, report, fd)
        if failure is None and self._ask("cat-file", "-t", commit) != "commit":
            failure = Failure("commit")
        if failure is None:
            self._ask("update-ref", pinned, commit)
        return failure

    def _fetch(
        self, options: Sequence[str], refspecs: Sequence[str], report: Report, fd: int
    ) -> Failure | None:
        """Fetch over the network; return what went wrong."""

        def ask() -> ProcessResult:
            run = self.store.git.run(
                [*_FETCH, *options, "--", self.url, *refspecs], git_dir=self.path, report=report,
                cancel=self.store.cancel, stall_s=self.store.retry.stall_s, hold=(fd,),
            )  # fmt: skip
            if not run.ok:
                remove_leftovers(self.path)
            return run

        return self.store.persist(ask, self.url, report)

    def _make_usable(self, commit: str, report: Report) -> bool:
        """Make the mirror, or set one aside that is known to be damaged; return whether it is an old one."""
        is_old = self.path.is_dir()
        if is_old:
            known = self.store.git.parse(self.path, f"{PINS}/{commit}")
            # A known commit with missing objects is not mended by a fetch: git would tell the server that it
            # has them.
            if known or self._ask("rev-parse", "--is-bare-repository") != "true":
                self._set_aside(report)
                is_old = False
        if not is_old:
            with explained(self.path.parent, "making a mirror"):
                self.path.parent.mkdir(parents=True, exist_ok=True)
                if not (self.path.parent / "CACHEDIR.TAG").exists():
                    write_atomic(self.path.parent / "CACHEDIR.TAG", _TAG)
            make_bare(self.store.git, self.path, commit)
        remove_leftovers(self.path)
        return is_old

    def _require_commit(self, commit: str) -> None:
        kind = self._ask("cat-file", "-t", commit)
        if kind in ("tag", "tree", "blob"):
            named = self.store.git.parse(self.path, f"{commit}^{{commit}}")
            self._ask("update-ref", "-d", f"{PINS}/{commit}")
            raise RecipeError(
                f"{commit} of {self.url} is a {kind}, not a commit",
                why="a pin must be the commit itself",
                fix=f"use the commit of the tag: {named}" if named else "use the id of a commit",
            )

    def _set_aside(self, report: Report) -> None:
        aside = self.path.with_suffix(".damaged")
        report(f"the mirror of {self.url} is damaged; it is kept as {aside} and fetched again")
        remove_tree(aside)
        with explained(self.path, "setting a damaged mirror aside"):
            self.path.rename(aside)

    def _ask(self, *args: str) -> str:
        return self.store.git.query(args, git_dir=self.path).text

    def locked(self, report: Report, *, shared: bool = False) -> contextlib.AbstractContextManager[int]:
        """Keep others out; with ``shared`` those who would change or clean up the mirror alone."""
        lock, use = self.path.with_suffix(".lock"), f"uses the mirror of {self.url}"
        return locked(lock, shared=shared, cancel=self.store.cancel, report=report, use=use)


def make_bare(git: Git, place: Path, commit: str) -> None:
    """Make an empty bare repository for ids like ``commit``, visible when it is whole; under its lock.

    Raises:
        NoSpaceError, ToolchainError: it cannot be made.
    """
    with explained(place, "making a repository"):
        place.parent.mkdir(parents=True, exist_ok=True)
        for leftover in place.parent.glob(f".{place.name}.*"):
            remove_tree(leftover)
        made = Path(tempfile.mkdtemp(prefix=f".{place.name}.", dir=place.parent))
        kind = f"--object-format={object_format(commit)}"
        for words in (
            ["init", "--quiet", "--bare", "--template=", kind, str(made)],
            # For a git that still speaks protocol 0, which gives no single commits otherwise.
            ["--git-dir", str(made), "config", "uploadpack.allowAnySHA1InWant", "true"],
            ["--git-dir", str(made), "config", "gc.auto", "0"],
        ):
            require(git.query(words), f"making the repository {place}")
        made.rename(place)
