"""``check``: hashes what was installed, built and fetched, and names what is not what it was."""

from __future__ import annotations

import shlex
from collections import Counter
from pathlib import Path
from typing import Any

from packaging.utils import canonicalize_name

from xpubuild.artifacts import site_packages as packages
from xpubuild.artifacts.installed import content_problems, wheel_matches_installed
from xpubuild.engine.events import Sink
from xpubuild.engine.fingerprint import file_sha256
from xpubuild.engine.journal import Journal
from xpubuild.engine.lock import workspace_lock
from xpubuild.engine.places import sharing
from xpubuild.engine.process import Cancel
from xpubuild.engine.reporter import Teller
from xpubuild.engine.state import published_hashes
from xpubuild.engine.temporary import scratch_folder
from xpubuild.errors import AuditError, SourceIntegrityError, UsageError, XpuBuildError
from xpubuild.machine.envmark import altered
from xpubuild.supply.git.bare import RepositoryStore
from xpubuild.supply.git.edits import read_built
from xpubuild.supply.git.git import Git
from xpubuild.supply.git.worktree import Missing, Repository, find_git_dir, finished_ns, inspect, walk
from xpubuild.workspace.accounted import Found, Recorded, add_missing, add_unaccounted, recorded
from xpubuild.workspace.activation import read_receipt
from xpubuild.workspace.layout import Layout
from xpubuild.workspace.moved import require_in_place
from xpubuild.workspace.shared import closed
from xpubuild.workspace.status import last_plan

#: What was fetched and is kept; damage to anything else is damage to what was installed or built.
_KEPT = frozenset({"source", "repository"})
_SHOWN = 3
#: What nobody may have put there; it may be the user's, so it is never removed.
_PLANTED = frozenset({"start-up file", "shadowing file"})


def check_workspace(root: Path, cache: Path, sink: Sink, cancel: Cancel, *, opens: bool = False) -> Found:
    """Hash everything in a workspace; ``cache`` is the user's cache folder of xpubuild.

    What others shall use and cannot is a warning; with [share] or ``opens``, for a repair, it is damage.

    Raises:
        ToolchainError: the journal or the folder cannot be read.
        UsageError: the workspace was moved or copied.
        WorkspaceBusyError, InterruptedByUserError.
    """
    teller, layout, found = Teller(sink, cancel=cancel), Layout(root), Found()
    parts = [("packages", "installed packages"), ("wheels", "wheels"), ("sources", "sources")]
    with (
        workspace_lock(root, command="xpubuild check", shared=True, cancel=cancel),
        Journal(layout.journal, read_only=True) as journal,
        teller.run("check", str(root), parts),
    ):
        # The journal of a copy names the files of the workspace that it was copied from.
        require_in_place(root, journal)
        site = packages.site_packages_of(layout.env) if layout.env.is_dir() else None
        with teller.doing(*parts[0]):
            if site is not None:
                _environment(site, found, cancel, recorded(layout, journal))
        with teller.doing(*parts[1]):
            _wheels(layout, journal, found, site)
            if layout.receipt.exists():
                try:
                    read_receipt(root)
                except UsageError as error:
                    why = f"it cannot be read: {error.why}"
                    found.add("receipt", layout.receipt.name, layout.receipt, why)
            for place, why in closed(root):
                if opens or sharing().is_set:
                    found.add("permissions", place.name, place, why)
                else:
                    teller.notice(f"{place}: {why}", "warning")
        with teller.doing(*parts[2]):
            store = RepositoryStore(cache, Git.open(), offline=True, cancel=cancel)
            _sources(layout.src, store, found, cancel)
    return found


def require_installed(root: Path, cancel: Cancel) -> dict[str, Any]:
    """Hash what is installed in a workspace; a folder without an environment of xpubuild is not read.

    Raises:
        AuditError: a file is not what was installed, or runs at every start and nobody installed it.
    """
    env, found = Layout(root).env, Found()
    if not (env / "pyvenv.cfg").is_file() and not (env / "conda-meta").is_dir():
        return {}
    site = packages.site_packages_of(env)
    if packages.installed_dists(site):
        _environment(site, found, cancel, None)
    if (error := failure(found, root)) is not None:
        raise error
    return {"packages": found.checked.packages, "files": found.checked.files}


def require_accounted(root: Path) -> None:
    """Look in the environment of a workspace for what a build would run, import or include.

    Raises:
        AuditError: somebody put such a file there.
    """
    found = Found()
    add_unaccounted(packages.site_packages_of(Layout(root).env), None, found)
    if (error := failure(found, root)) is not None:
        raise error


def failure(found: Found, root: Path, *, repaired: bool = False) -> XpuBuildError | None:
    """Return the error of a check, None where nothing is damaged."""
    if not found.damaged:
        return None
    kinds = Counter(item.kind for item in found.damaged)
    error: type[XpuBuildError] = SourceIntegrityError if kinds.keys() <= _KEPT else AuditError
    planted = [item.path for item in found.damaged if item.kind in _PLANTED]
    fix = "read what each of them is"
    commands = [f"rm {shlex.quote(path)}" for path in planted]
    if kinds.keys() - _PLANTED and not repaired:
        fix = "recreate these parts"
        commands.insert(0, f"xpubuild check {shlex.quote(str(root))} --repair")
    elif planted:
        fix = "remove the files that you did not put there; check never removes what it did not install"
    more = f"; and {len(found.damaged) - _SHOWN} more" if len(found.damaged) > _SHOWN else ""
    return error(
        f"{root} is damaged: {', '.join(f'{count} x {kind}' for kind, count in kinds.items())}",
        why="; ".join(f"{item.name}: {item.why}" for item in found.damaged[:_SHOWN]) + more,
        fix=fix,
        commands=commands,
        evidence={"paths": [item.path for item in found.damaged]},
    )


def _environment(site_packages: Path, found: Found, cancel: Cancel, known: Recorded | None) -> None:
    """Look at what decides imports, at all packages, and at what is there beside them."""
    for path, why in altered(packages.prefix_of(site_packages)).items():
        found.add("environment", path.name, path, why, "env")
    check_packages(site_packages, found, cancel)
    if known is not None:
        add_missing(site_packages, known, found)
    add_unaccounted(site_packages, known, found)


def check_packages(site_packages: Path, found: Found, cancel: Cancel) -> None:
    """Hash every file of every distribution; those of conda packages are left out: conda rewrites them.

    Raises:
        InterruptedByUserError: ``cancel`` was set.
    """
    for dist in packages.installed_dists(site_packages):
        cancel.stop_here()
        if dist.installer == "conda":
            continue
        problem = packages.quick_problem(dist)
        entries = packages.record_entries(dist) if problem is None else ()
        found.checked.packages += 1
        found.checked.files += len(entries)
        found.checked.bytes += sum(entry.size or 0 for entry in entries)
        if problems := [problem] if problem is not None else content_problems(entries):
            more = f", and {len(problems) - 1} more files" if len(problems) > 1 else ""
            found.add("package", dist.name, dist.info, f"{problems[0]}{more}")


def _wheels(layout: Layout, journal: Journal, found: Found, site_packages: Path | None) -> None:
    """Hash the wheels of finished steps; what a step has installed of one must be that wheel."""
    records = {record.step: record for record in journal.records() if record.status == "done"}
    hashes = {step: published_hashes(record) for step, record in records.items()}
    sound: dict[str, list[Path]] = {}
    for step, published in hashes.items():
        for path, sha256 in ((Path(path), sha256) for path, sha256 in published.items()):
            found.checked.wheels += 1
            digest = file_sha256(path) if path.is_file() else "none: it is gone"
            if digest != sha256:
                why = f"its sha256 is {digest}, it was built as {sha256}"
                found.add("wheel", path.name, path, why, step)
            else:
                found.checked.bytes += path.stat().st_size
                sound.setdefault(step, []).append(path)
    for name, planned in last_plan(layout).items():
        # Of a workspace that was installed another way before, an editable one for example, other wheels are
        # left. What publishes something itself was not an installation.
        if name in records and not hashes[name] and site_packages is not None:
            for wheel in (wheel for need in planned["needs"] for wheel in sound.get(need, ())):
                _installed_as_built(wheel, site_packages, found)
    known = {path for published in hashes.values() for path in published}
    found.unowned += sorted({str(path) for path in layout.wheels.glob("*.whl")} - known)


def _installed_as_built(wheel: Path, site_packages: Path, found: Found) -> None:
    problems = wheel_matches_installed(wheel, site_packages)
    name = canonicalize_name(wheel.name.split("-")[0])
    if problems and not any(item.kind == "package" and item.name == name for item in found.damaged):
        found.add("package", name, site_packages, f"not the wheel that was built: {problems[0]}")


def _sources(src: Path, store: RepositoryStore, found: Found, cancel: Cancel) -> None:
    """Hash every file of every checkout, and every object of the repositories that they come from."""
    commits: dict[str, str] = {}
    for place in sorted(src.iterdir()) if src.is_dir() else ():
        if place.name.startswith(".") or not (place / ".git").exists():
            continue
        found.checked.sources += 1
        if (git_dir := find_git_dir(place)) is None:
            found.add("source", place.name, place, "it is no git repository any more")
            continue
        try:
            for item in walk(store.git, place, git_dir, submodules=True):
                cancel.stop_here()
                if isinstance(item, Missing):
                    continue
                _checkout(store.git, place, item, found)
                url = store.git.query(["config", "--get", "xpubuild.url"], git_dir=item.git_dir).text
                if url and item.head:
                    commits[url] = item.head
        except XpuBuildError as error:
            found.add("source", place.name, place, f"{error.what}: {error.why}")
    for url, commit in commits.items():
        cancel.stop_here()
        mirror = store.mirror(url, commit)
        if mirror.path.is_dir() and not mirror.is_sound(lambda _: None):
            found.add("repository", url, mirror.path, "git fsck finds objects that are damaged or missing")


def _checkout(git: Git, place: Path, item: Repository, found: Found) -> None:
    """Compare contents: git takes a file of the same size and times for the same."""
    top = find_git_dir(place) or place
    finished, built = finished_ns(top), read_built(top)
    for change in _without_the_index(git, item).changes:
        file, named = item.work_tree / change.path, item.place(change.path)
        if change.extra and not built.explains(named, change):
            found.edited.append(str(file))
        if change.extra or change.kind != "modified" or change.path in item.links():
            continue
        if file.exists() and (finished is None or file.lstat().st_mtime_ns > finished):
            found.edited.append(str(place / named))
            continue
        why = f"{named} is not what the commit has" if file.exists() else f"{named} is missing"
        found.add("source", place.name, file, why)


def _without_the_index(git: Git, item: Repository) -> Repository:
    """Look at a repository with an index that knows no sizes and times."""
    with scratch_folder("check") as folder:
        git = Git(git.program, {**git.env, "GIT_INDEX_FILE": f"{folder}/index"})
        answer = git.query(["read-tree", item.head or "HEAD"], git_dir=item.git_dir)
        if not answer.ok:
            raise XpuBuildError(f"git cannot read the commit of {item.work_tree}", why=answer.stderr.strip())
        return inspect(git, item.path, item.work_tree, item.git_dir)
