"""Pinned checkouts: the exact tree of a pin with its submodules; local changes are never overwritten.

A new checkout is made in a temporary folder and renamed when it is complete, so an interrupted one is never
visible. An existing one is updated in place (``move``); after an interruption, the same call resumes.
"""

from __future__ import annotations

import shlex
import time
from collections.abc import Mapping
from dataclasses import field
from pathlib import Path
from typing import Any

from xpubuild.engine.files import explained, fsync_dir, remove_tree, sync_filesystems
from xpubuild.engine.process import Cancel
from xpubuild.errors import SourceIntegrityError
from xpubuild.frozen import frozen
from xpubuild.supply.git import notes
from xpubuild.supply.git.bare import RepositoryStore
from xpubuild.supply.git.discover import discover
from xpubuild.supply.git.fetching import Retry
from xpubuild.supply.git.git import Git, Report
from xpubuild.supply.git.integrity import verify
from xpubuild.supply.git.locks import locked
from xpubuild.supply.git.move import Move, Seen
from xpubuild.supply.git.parallel import LinkedCancel, one_at_a_time
from xpubuild.supply.git.pin import Pin
from xpubuild.supply.git.populate import Populate
from xpubuild.supply.git.untouched import is_untouched
from xpubuild.supply.git.worktree import find_git_dir


@frozen
class CheckoutReport:
    """What a checkout did. ``action`` is made, moved or unchanged; ``fetched`` are the URLs that went over
    the network; ``evidence`` is what ``verify_checkout`` returns.
    """

    into: str
    pin: Pin
    action: str
    fetched: tuple[str, ...]
    duration_s: float
    evidence: Mapping[str, Any] = field(default_factory=dict)


def checkout(
    pin: Pin,
    into: Path,
    *,
    cache: Path,
    jobs: int,
    env: Mapping[str, str],
    report: Report,
    cancel: Cancel | None = None,
    offline: bool = False,
    retry: Retry | None = None,
    stocks: tuple[Path, ...] = (),
) -> CheckoutReport:
    """Make ``into`` be the tree of ``pin``; the network is used for what the mirrors below ``cache`` lack.

    ``env`` is the whole environment (``base_environment()``). ``report`` gets lines to show, one at a time,
    from several threads. ``stocks`` are folders that ``xpubuild fetch`` has filled. Safe to
    call again after a kill at any moment, and from several processes at once.

    Raises:
        FetchError: something could not be fetched.
        SourceIntegrityError: the user's work is in the way, or what came is not what the pin says.
        RecipeError, NoSpaceError, ToolchainError, InterruptedByUserError.
    """
    started, place = time.monotonic(), into.resolve()
    say, linked = one_at_a_time(report), LinkedCancel(cancel)
    store = RepositoryStore(
        cache, Git.open(env), offline=offline, stocks=stocks, retry=retry or Retry(), cancel=linked
    )

    def waiting() -> None:
        say(f"waiting for another xpubuild that uses {place}")

    with locked(_beside(place, "lock"), cancel=linked, on_wait=waiting) as fd:
        git_dir = find_git_dir(place)
        move = Move(pin, place, git_dir, store, jobs, say, (fd,)) if git_dir else None
        seen = _seen(place, move, say)
        if move is not None and seen is not None:
            action, fetched = move.run(seen)
        else:
            action, fetched = "made", _make(pin, place, store=store, jobs=jobs, report=say, fd=fd)
        evidence = verify(store.git, place, pin)
    return CheckoutReport(str(place), pin, action, fetched, time.monotonic() - started, evidence)


def _seen(place: Path, move: Move | None, say: Report) -> Seen | None:
    """Return what is in the checkout that is there; None where one has to be made.

    A damaged one that nobody wrote to since it was finished goes out of the way.
    """
    try:
        if move is not None:
            return move.look()
        why = f"{place} is no git repository any more"
    except SourceIntegrityError as error:
        if not is_untouched(place):
            raise
        why = error.what
    if is_untouched(place):
        aside = _beside(place, "damaged")
        say(f"{why}; it is damaged and was not edited: it is kept as {aside} and made again")
        remove_tree(aside)
        with explained(place, "setting a damaged checkout aside"):
            place.rename(aside)
    return None


def _beside(place: Path, what: str) -> Path:
    return place.with_name(f".{place.name}.xpubuild-{what}")


def _make(
    pin: Pin, place: Path, *, store: RepositoryStore, jobs: int, report: Report, fd: int
) -> tuple[str, ...]:
    if place.exists() and not (place.is_dir() and not any(place.iterdir())):
        raise _not_a_checkout(place)
    tree = discover(store, pin, jobs=jobs, report=report)
    new = _beside(place, "new")
    remove_tree(new)
    with explained(new, "making a checkout"):
        new.mkdir(parents=True)
    Populate(store, tree, new, report, (fd,)).everything(jobs)
    # What the rename shows must be on the disk before it: git flushes none of the files.
    sync_filesystems([new, store.cache])
    notes.write_done(new / ".git", pin.commit)
    with explained(place, "putting a checkout in its place"):
        new.rename(place)  # over an empty folder, too
        fsync_dir(place.parent)
    return tree.fetched


def _not_a_checkout(place: Path) -> SourceIntegrityError:
    return SourceIntegrityError(
        f"{place} already exists and is not a checkout",
        why="it is not a git repository, so xpubuild does not overwrite it",
        fix="move it away, then run the same command again",
        commands=(f"mv {shlex.quote(str(place))} {shlex.quote(f'{place}.mine')}",),
        evidence={"folder": str(place)},
    )
