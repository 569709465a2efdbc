"""Per-user bare mirrors of the repositories that sources come from, shared between workspaces.

A mirror holds the pinned commits only, each fetched shallow by its id and kept by a reference of its own, so
nothing depends on branches that move. Several xpubuilds may use one mirror at once: readers share its lock,
a fetch excludes.
"""

from __future__ import annotations

import contextlib
import shlex
import tempfile
from collections.abc import Iterator
from dataclasses import field
from pathlib import Path

from xpubuild.engine.files import explained, remove_tree, write_atomic
from xpubuild.engine.process import Cancel
from xpubuild.errors import RecipeError, SourceIntegrityError
from xpubuild.frozen import frozen
from xpubuild.supply.git.failures import Failure, diagnose, error_for, require
from xpubuild.supply.git.fetching import PINS, Fetch, Retry
from xpubuild.supply.git.git import Git, Report, object_format
from xpubuild.supply.git.gitconfig import add_settings
from xpubuild.supply.git.leftovers import remove_leftovers
from xpubuild.supply.git.locks import locked
from xpubuild.supply.git.remote import remote_commit
from xpubuild.supply.git.urls import is_local, mirror_name

_TAG = b"Signature: 8a477f597d28d172789f06886806bc55\n# This folder is a cache made by xpubuild.\n"
_INCOMPLETE = Failure("damaged", cause="objects are missing after the fetch")
_NAMED = "refs/xpubuild/named"
#: A repository's ids are taken to be SHA-1 as long as none of them is known.
_SOME_ID = "0" * 40


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
        serve = f"{shlex.quote(self.git.program)} -c 'safe.directory=*' upload-pack"
        words = ["fetch", "--no-tags", "--depth=1", "--no-write-fetch-head", "--progress"]
        run = self.git.run(
            [*words, f"--upload-pack={serve}", "--", str(place), wanted],
            git_dir=into,
            report=report,
            cancel=self.cancel,
            hold=hold,
        )
        return None if run.ok else diagnose(run)


@frozen
class BareRepository:
    """One bare mirror at ``path``. Nothing but the methods here writes to it."""

    store: RepositoryStore
    url: str
    path: Path

    def ensure(self, commit: str, *, ref: str | None, report: Report) -> bool:
        """Make ``commit`` and all its objects be here; return whether the network was used.

        Raises:
            FetchError: host, repository or commit cannot be had; ``evidence["reason"]`` says which.
            RecipeError: the id is that of a tag or tree.
            NoSpaceError, SourceIntegrityError, ToolchainError, InterruptedByUserError.
        """
        with self._locked(report, shared=True):
            if self._holds(commit):
                return False
        with self._locked(report) as fd:
            if self._holds(commit):
                return False
            self._fill(commit, ref, report, fd)
        return True

    def deliver(
        self, commit: str, git_dir: Path, *, ref: str | None, report: Report, hold: tuple[int, ...] = ()
    ) -> None:
        """Copy the commit's objects into another repository; git hashes every one on arrival.

        A mirror whose objects turn out damaged is set aside and filled again, once.

        Raises:
            FetchError, NoSpaceError, SourceIntegrityError, ToolchainError, InterruptedByUserError.
        """
        failure = self._deliver(commit, git_dir, report, hold)
        if failure is None:
            return
        if failure.reason == "no-space" or self.is_sound(report):
            raise error_for(failure, str(self.path), commit)
        with self._locked(report) as fd:
            self._set_aside(report)
            self._fill(commit, ref, report, fd)
        failure = self._deliver(commit, git_dir, report, hold)
        if failure is not None:
            raise error_for(failure, str(self.path), commit)

    def _deliver(self, commit: str, git_dir: Path, report: Report, hold: tuple[int, ...]) -> Failure | None:
        with self._locked(report, shared=True) as fd:
            return self.store.copy(self.path, commit, git_dir, report, (fd, *hold))

    def _holds(self, commit: str) -> bool:
        """Whether the commit was fetched to the end and every object of its tree is still here."""
        if not self.path.is_dir():
            return False
        if self._ask("rev-parse", "--quiet", "--verify", f"{PINS}/{commit}^{{commit}}") != commit:
            return False
        whole = ["rev-list", "--objects", "--quiet", "--no-walk", commit]
        return self.store.git.query(whole, git_dir=self.path).ok

    def _fill(self, commit: str, ref: str | None, report: Report, fd: int) -> None:
        if self._fill_from_stock(commit, report, fd):
            return
        # A folder of this machine needs no network: embedded sources are made in the workspace itself.
        if self.store.offline and not is_local(self.url):
            raise error_for(Failure("offline"), self.url, commit)
        failure = _INCOMPLETE
        for _ in range(2):
            is_old = self._make_usable(commit, report)
            fetch = Fetch(
                self.store.git, self.path, self.url, self.store.retry, report, self.store.cancel, hold=(fd,)
            )
            problem = fetch.commit(commit, ref)
            if problem is None:
                self._require_commit(commit)
                if self._holds(commit):
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
        for place in self.store.stocked(self.url, commit):
            self._make_usable(commit, report)
            pinned = f"{PINS}/{commit}"
            failure = self.store.copy(place, f"+{pinned}:{pinned}", self.path, report, (fd,))
            if failure is None and self._holds(commit):
                return True
            if failure is not None and failure.reason == "no-space":
                raise error_for(failure, str(place), commit)
            known = self.store.git.query(["rev-parse", "--quiet", "--verify", pinned], git_dir=place)
            if failure is not None and failure.reason == "commit" and not known.ok:
                continue
            if self.store.offline:
                raise _damaged_stock(place, self.url, commit, failure or _INCOMPLETE)
            report(f"{place} is damaged; {self.url} is used instead")
            self._set_aside(report)
        return False

    def _make_usable(self, commit: str, report: Report) -> bool:
        """Make the mirror, or set one aside that is known to be damaged; return whether it is an old one."""
        is_old = self.path.is_dir()
        if is_old:
            known = self._ask("rev-parse", "--quiet", "--verify", f"{PINS}/{commit}")
            bare = self._ask("rev-parse", "--is-bare-repository")
            # A known commit with missing objects is not mended by a fetch: git would tell the server that it
            # has them.
            if known or bare != "true":
                self._set_aside(report)
                is_old = False
        if not is_old:
            self._create(commit)
        remove_leftovers(self.path)
        return is_old

    def _create(self, commit: str) -> None:
        folder = self.path.parent
        with explained(folder, "making a mirror"):
            for leftover in folder.glob(f".{self.path.name}.*"):
                remove_tree(leftover)
            if not (folder / "CACHEDIR.TAG").exists():
                write_atomic(folder / "CACHEDIR.TAG", _TAG)
            made = Path(tempfile.mkdtemp(prefix=f".{self.path.name}.", dir=folder))
            git = self.store.git
            kind = f"--object-format={object_format(commit)}"
            answer = git.query(["init", "--quiet", "--bare", "--template=", kind, str(made)])
            require(answer, f"making the mirror {self.path}")
            add_settings(made, [("uploadpack.allowAnySHA1InWant", "true"), ("gc.auto", "0")])
            made.rename(self.path)

    def _require_commit(self, commit: str) -> None:
        kind = self._ask("cat-file", "-t", commit)
        if kind in ("tag", "tree", "blob"):
            named = self._ask("rev-parse", "--quiet", "--verify", f"{commit}^{{commit}}")
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

    def is_sound(self, report: Report) -> bool:
        """Whether git finds every object of the mirror whole."""
        with self._locked(report, shared=True) as fd:
            run = self.store.git.run(
                ["fsck", "--no-dangling", "--no-reflogs"],
                git_dir=self.path,
                cancel=self.store.cancel,
                hold=(fd,),
            )
        return run.ok

    def _ask(self, *args: str) -> str:
        return self.store.git.query(args, git_dir=self.path).text

    @contextlib.contextmanager
    def _locked(self, report: Report, *, shared: bool = False) -> Iterator[int]:
        def waiting() -> None:
            report(f"waiting for another xpubuild that uses the mirror of {self.url}")

        lock = self.path.with_suffix(".lock")
        with locked(lock, shared=shared, cancel=self.store.cancel, on_wait=waiting) as fd:
            yield fd


def _damaged_stock(place: Path, url: str, commit: str, failure: Failure) -> SourceIntegrityError:
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


def named_commit(store: RepositoryStore, url: str, ref: str) -> str:
    """Return the commit that ``ref`` of ``url`` is at: as a stock remembers it, else as the server says.

    Offline, what the user's own mirror remembers counts too.

    Raises:
        FetchError: offline, and no mirror remembers it; or the server cannot be asked.
        RecipeError: ``url`` or ``ref`` is not one that git may be given.
    """
    own = [store.mirror(url, _SOME_ID).path] if store.offline else []
    for place in (*store.stocked(url, _SOME_ID), *own):
        name = f"{_NAMED}/{ref}^{{commit}}"
        known = store.git.query(["rev-parse", "--quiet", "--verify", name], git_dir=place)
        if known.ok:
            return known.text
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
