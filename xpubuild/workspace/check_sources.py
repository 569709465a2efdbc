"""Hashes the checkouts of a workspace against their commits, and the repositories they come from."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from xpubuild.engine.process import Cancel
from xpubuild.engine.temporary import scratch_folder
from xpubuild.errors import XpuBuildError
from xpubuild.frozen import frozen
from xpubuild.supply.git import notes
from xpubuild.supply.git.bare import RepositoryStore
from xpubuild.supply.git.built import read_built
from xpubuild.supply.git.git import Git
from xpubuild.supply.git.worktree import Missing, Repository, find_git_dir, inspect, walk
from xpubuild.workspace.check_model import Damage, Found


@frozen
class Sources:
    """The checkouts in ``folder``; ``store`` are the user's bare repositories, ``scratch`` a folder."""

    folder: Path
    store: RepositoryStore
    scratch: Path

    def check(self, found: Found, cancel: Cancel) -> None:
        """Hash every file of every checkout, and every object of the repositories that they come from.

        Raises:
            InterruptedByUserError: ``cancel`` was set.
        """
        commits: dict[str, str] = {}
        for place in sorted(self.folder.iterdir()) if self.folder.is_dir() else ():
            if place.name.startswith(".") or not (place / ".git").exists():
                continue
            found.sources += 1
            try:
                for item in self._repositories(place):
                    cancel.stop_here()
                    self._files(place, item, found)
                    url = self.store.git.query(["config", "--get", "xpubuild.url"], git_dir=item.git_dir).text
                    if url and item.head:
                        commits[url] = item.head
            except XpuBuildError as error:
                why = f"{error.what}: {error.why}"
                found.damaged.append(Damage("source", place.name, str(place), why, f"{place.name}.source"))
        for url, commit in commits.items():
            cancel.stop_here()
            mirror = self.store.mirror(url, commit)
            if mirror.path.is_dir() and not mirror.is_sound(lambda _: None):
                why = "git fsck finds objects that are damaged or missing"
                found.damaged.append(Damage("repository", url, str(mirror.path), why))

    def _repositories(self, place: Path) -> Iterator[Repository]:
        git_dir = find_git_dir(place)
        if git_dir is None:
            why = "it is no git repository any more"
            raise XpuBuildError(f"{place} is damaged", why=why)
        for item in walk(self.store.git, place, git_dir, submodules=True):
            if not isinstance(item, Missing):
                yield item

    def _files(self, place: Path, item: Repository, found: Found) -> None:
        """Compare contents: git takes a file of the same size and times for the same."""
        finished = notes.finished_ns(find_git_dir(place) or place)
        built = read_built(find_git_dir(place) or place)
        for change in self._without_the_index(item).changes:
            file = item.work_tree / change.path
            if change.extra and not built.explains(item.place(change.path), change.kind):
                found.edited.append(str(file))
            if change.kind != "modified" or change.path in item.links():
                continue
            named = item.place(change.path)
            if file.exists() and (finished is None or file.lstat().st_mtime_ns > finished):
                found.edited.append(str(place / named))
                continue
            why = f"{named} is not what the commit has" if file.exists() else f"{named} is missing"
            found.damaged.append(Damage("source", place.name, str(file), why, f"{place.name}.source"))

    def _without_the_index(self, item: Repository) -> Repository:
        """Look at a repository with an index that knows no sizes and times."""
        with scratch_folder("check", self.scratch) as folder:
            git = self.store.git.with_env({**self.store.git.env, "GIT_INDEX_FILE": f"{folder}/index"})
            answer = git.query(["read-tree", item.head or "HEAD"], git_dir=item.git_dir)
            if not answer.ok:
                raise XpuBuildError(
                    f"git cannot read the commit of {item.work_tree}", why=answer.stderr.strip()
                )
            return inspect(git, item.path, item.work_tree, item.git_dir)


def restore(git: Git, damage: Damage) -> bool:
    """Write a damaged file of a checkout anew from its commit; return whether that was possible.

    It is removed first: what may be linked to it elsewhere keeps its content.
    """
    file = Path(damage.path)
    work_tree = next((folder for folder in file.parents if (folder / ".git").exists()), None)
    git_dir = find_git_dir(work_tree) if work_tree is not None else None
    if work_tree is None or git_dir is None or (file.is_dir() and not file.is_symlink()):
        return False
    file.unlink(missing_ok=True)
    name = file.relative_to(work_tree).as_posix()
    words = ["checkout", "--force", "HEAD", "--", f":(literal){name}"]
    return git.query(words, git_dir=git_dir, work_tree=work_tree).ok
