"""``check`` and ``check --repair`` as a library."""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from xpubuild.artifacts.site_packages import installed_dists, site_packages_of
from xpubuild.engine.events import Sink
from xpubuild.engine.journal import Journal
from xpubuild.engine.lock import WorkspaceLock
from xpubuild.engine.process import Cancel
from xpubuild.engine.reporter import Teller
from xpubuild.engine.temporary import scratch_folder
from xpubuild.errors import AuditError, FetchError, SourceIntegrityError, UsageError, XpuBuildError
from xpubuild.frozen import frozen
from xpubuild.supply.depot.examine import check_depot
from xpubuild.supply.git.bare import RepositoryStore
from xpubuild.supply.git.git import Git
from xpubuild.workspace.check_installed import check_missing, check_packages, check_unowned
from xpubuild.workspace.check_model import KEPT, Damage, Found
from xpubuild.workspace.check_repair import Repair
from xpubuild.workspace.check_sources import Sources
from xpubuild.workspace.check_wheels import check_receipt, check_wheels
from xpubuild.workspace.layout import Layout

_SHOWN = 3


@frozen
class Check:
    """A check of the workspace at ``root``; ``cache`` is the user's cache folder of xpubuild."""

    root: Path
    cache: Path
    sink: Sink
    cancel: Cancel

    def look(self) -> Found:
        """Hash everything.

        Raises:
            ToolchainError: the journal or the folder cannot be read.
            WorkspaceBusyError, InterruptedByUserError.
        """
        teller = Teller(self.sink, cancel=self.cancel)
        parts = [("packages", "installed packages"), ("wheels", "wheels"), ("sources", "sources")]
        with (
            WorkspaceLock(self.root, command="xpubuild check", shared=True, cancel=self.cancel),
            Journal(Layout(self.root).journal, read_only=True) as journal,
            teller.run("check", str(self.root), parts),
        ):
            return self._look(journal, teller)

    def _look(self, journal: Journal, teller: Teller) -> Found:
        layout, found = Layout(self.root), Found()
        site = site_packages_of(layout.env) if layout.env.is_dir() else None
        with teller.doing("packages", "installed packages"):
            if site is not None:
                check_packages(site, found, self.cancel)
                check_missing(layout, journal, site, found)
                check_unowned(site, found)
        with teller.doing("wheels", "wheels"):
            check_wheels(layout, journal, found, site)
            check_receipt(layout, found)
        with teller.doing("sources", "sources"), scratch_folder("check") as scratch:
            self.sources(scratch).check(found, self.cancel)
            self._mirrors(found)
        return found

    def sources(self, scratch: Path) -> Sources:
        """Return the check of the checkouts."""
        store = RepositoryStore(self.cache, Git.open(), offline=True, cancel=self.cancel)
        return Sources(Layout(self.root).src, store, scratch)

    def _mirrors(self, found: Found) -> None:
        """Check the local copies of served mirrors: packages, and repositories."""
        folder = self.cache / "mirrors"
        for mirror in sorted(folder.iterdir()) if folder.is_dir() else ():
            with contextlib.suppress(UsageError, FetchError):  # none of this version, so nothing uses it
                for damage in check_depot(mirror, progress=self.cancel.stop_here, cancel=self.cancel):
                    found.damaged.append(Damage("mirror", mirror.name, str(mirror / damage.path), damage.why))

    def repair(self, found: Found) -> tuple[Damage, ...]:
        """Remove what is damaged, so that an install makes it anew; return what that is.

        Sources are made anew here. What nobody installed stays: it may be the user's.
        """
        with (
            WorkspaceLock(self.root, command="xpubuild check --repair", cancel=self.cancel),
            Journal(Layout(self.root).journal) as journal,
            scratch_folder("check") as scratch,
        ):
            return Repair(self.root, journal, self.sources(scratch).store).run(found.damaged)


def failure(found: Found, root: Path, *, repaired: bool = False) -> XpuBuildError | None:
    """Return the error of a check, None where nothing is damaged."""
    if not found.damaged:
        return None
    kinds = {item.kind for item in found.damaged}
    kind: type[XpuBuildError] = SourceIntegrityError if kinds <= KEPT else AuditError
    planted = [item.path for item in found.damaged if item.kind == "start-up file"]
    fix = "read what each of them is"
    commands = [f"rm {shlex.quote(path)}" for path in planted]
    if kinds - {"start-up file"} and not repaired:
        fix = "make these parts anew"
        commands.insert(0, f"xpubuild check {shlex.quote(str(root))} --repair")
    elif planted:
        fix = "remove the files that you did not put there; check never removes what it did not install"
    return kind(
        f"{root} is damaged: {_count(found.damaged)}",
        why="; ".join(f"{item.name}: {item.why}" for item in found.damaged[:_SHOWN]) + _more(found.damaged),
        fix=fix,
        commands=commands,
        evidence={"paths": [item.path for item in found.damaged]},
    )


def require_installed(root: Path, cancel: Cancel) -> dict[str, Any]:
    """Hash what is installed in a workspace; nothing is asked of a folder without an environment of ours.

    Raises:
        AuditError: a file is not what was installed, or runs at every start and nobody installed it.
    """
    env, found = Layout(root).env, Found()
    if not (env / "pyvenv.cfg").is_file() and not (env / "conda-meta").is_dir():
        return {}
    site = site_packages_of(env)
    if installed_dists(site):
        check_packages(site, found, cancel)
        check_unowned(site, found)
    error = failure(found, root)
    if error is not None:
        raise error
    return {"packages": found.packages, "files": found.files}


def _count(damaged: Iterable[Damage]) -> str:
    kinds = [item.kind for item in damaged]
    return ", ".join(f"{kinds.count(kind)} x {kind}" for kind in dict.fromkeys(kinds))


def _more(damaged: list[Damage]) -> str:
    return f"; and {len(damaged) - _SHOWN} more" if len(damaged) > _SHOWN else ""
