"""The archives of a lock: what builds would download themselves, with hash and size."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

from xpubuild.engine.model import Proof
from xpubuild.engine.process import Cancel
from xpubuild.errors import RecipeError, SourceIntegrityError
from xpubuild.frozen import frozen
from xpubuild.install import lock_model as model
from xpubuild.install.lock_parts import clean_url
from xpubuild.install.planner import Archive as Wanted
from xpubuild.install.target import Target
from xpubuild.supply.archives import Archive, Supply, bring
from xpubuild.supply.depot.folder import archives_in
from xpubuild.supply.git.git import Report

_NO_HASH = "0" * 64


def locked_archives(
    wanted: Iterable[Wanted], target: Target, report: Report, cancel: Cancel
) -> tuple[model.Archive, ...]:
    """Return the archives of a plan; what neither mirror nor cache have is downloaded into the cache.

    Raises:
        RecipeError: it is not known from where one of them comes.
        FetchError, SourceIntegrityError, NoSpaceError, ToolchainError, InterruptedByUserError.
    """
    downloads = target.downloads
    supply = Supply(target.cache / "archives", archives_in(downloads.mirror), downloads.offline, cancel)
    found = []
    for item in wanted:
        if item.url is None:
            raise RecipeError(
                f"the lock of {item.component} would be incomplete: its build downloads {item.name} from an"
                " unknown URL",
                why="the recipe does not have it",
                fix=f"set components.{item.component}.build.archives.{item.name}.url in your own recipe",
                evidence={"component": item.component, "archive": item.name},
            )
        held = bring(Archive(item.name, item.url, item.sha256), supply, report)
        found.append(_archive(item, held.sha256, held.size))
    return _ordered(found)


def borrowed_archives(wanted: Iterable[Wanted], lock: model.Lock) -> tuple[model.Archive, ...]:
    """Return the archives of a plan, with the hashes that the lock has for what the recipe leaves open."""
    known = {(item.key, item.url): item for item in lock.archives}
    found = []
    for item in wanted:
        there = known.get((item.key, clean_url(item.url or "")))
        sha256 = item.sha256 or (there.sha256 if there is not None else _NO_HASH)
        found.append(_archive(item, sha256, there.size if there is not None else 0))
    return _ordered(found)


def _archive(item: Wanted, sha256: str, size: int) -> model.Archive:
    source: Literal["upstream", "first download"] = "upstream" if item.sha256 else "first download"
    return model.Archive(
        component=item.component,
        name=item.name,
        url=clean_url(item.url or "unknown"),
        sha256=sha256,
        size=size,
        hash_from=source,
    )


def _ordered(found: Iterable[model.Archive]) -> tuple[model.Archive, ...]:
    return tuple(sorted(found, key=lambda item: item.key))


@frozen
class LockedArchivesProof:
    """The check of what was unpacked for a build, and that it is what the lock has."""

    proof: Proof
    archives: tuple[model.Archive, ...]

    def describe(self) -> str:
        """Return what is checked."""
        return f"{self.proof.describe()}, as locked"

    def key(self) -> dict[str, Any] | None:
        """Return what the check depends on: the same as without a lock, see ``LockedProof``."""
        return self.proof.key()

    def check(self) -> dict[str, Any]:
        """Return the evidence of the proof.

        Raises:
            SourceIntegrityError: an archive has another hash than in the lock.
        """
        evidence = self.proof.check()
        known = {item.name: item for item in self.archives}
        for item in evidence["archives"]:
            locked = known.get(item["name"])
            if locked is None or locked.sha256 != item["sha256"]:
                has = locked.sha256 if locked is not None else "no such archive"
                raise SourceIntegrityError(
                    f"{item['url']} does not match the lock",
                    why=f"its sha256 is {item['sha256']}, the lock has {has}",
                    fix=(
                        "build with the mirror that the lock was created from; if the new file is right,"
                        " create a new lock"
                    ),
                    evidence={"archive": item["name"], "sha256": item["sha256"], "lock": has},
                )
        return evidence
