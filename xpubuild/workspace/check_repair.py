"""Makes damaged parts of a workspace anew: removes them, and lets the journal say that their steps must run.

Files are removed and never written over: a cache or another workspace may have a hard link to one.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from xpubuild.artifacts.installed_repair import KEEP, remove_dist
from xpubuild.artifacts.site_packages import site_packages_of
from xpubuild.engine.files import remove_tree
from xpubuild.engine.journal import Journal
from xpubuild.frozen import frozen
from xpubuild.machine.envmark import write_mark
from xpubuild.supply.git.bare import RepositoryStore
from xpubuild.workspace.check_model import Damage
from xpubuild.workspace.check_sources import restore
from xpubuild.workspace.layout import Layout

_WHY = "found damaged by xpubuild check"
#: What an install makes again after it was removed here.
BY_INSTALL = frozenset({"package", "wheel", "receipt"})


@frozen
class Repair:
    """Repairs the workspace at ``root``, whose lock the caller holds."""

    root: Path
    journal: Journal
    store: RepositoryStore

    def run(self, damaged: Sequence[Damage]) -> tuple[Damage, ...]:
        """Return what was removed or made anew."""
        return tuple(item for item in damaged if self._one(item))

    def _one(self, item: Damage) -> bool:
        if item.kind == "package":
            self._package(item.name)
        elif item.kind == "wheel":
            remove_tree(Path(item.path))
            self._again(item.step, item.step.replace(".wheel", ".install"))
        elif item.kind == "receipt":
            remove_tree(Path(item.path))
        elif item.kind == "source":
            return restore(self.store.git, item)
        elif item.kind == "repository":
            aside = Path(item.path).with_suffix(".damaged")
            remove_tree(aside)
            Path(item.path).rename(aside)
        else:
            return False
        return True

    def _package(self, name: str) -> None:
        env = Layout(self.root).env
        if name in KEEP:
            # Nothing can be installed without it: the environment is made again.
            write_mark(env, {"state": "damaged"})
            self._again("env")
            return
        # Its step sees that its files are gone, and pip installs them.
        remove_dist(site_packages_of(env), name)

    def _again(self, *steps: str) -> None:
        for step in steps:
            if step and self.journal.record(step) is not None:
                self.journal.failed(step, _WHY)
