"""What a lock is for: the plan of ``--locked``, ``check LOCK``, and the runtime that wheels may require."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from xpubuild.artifacts.repair_runtime import Runtime, component_of
from xpubuild.documents import plain
from xpubuild.engine.process import Cancel
from xpubuild.engine.temporary import scratch_folder
from xpubuild.errors import LockMismatchError, UsageError, XpuBuildError
from xpubuild.frozen import frozen
from xpubuild.install.lock import make_lock
from xpubuild.install.lock_file import read_lock
from xpubuild.install.lock_model import Difference, Lock, differences
from xpubuild.install.locked import (
    changed,
    conda_lock_beside,
    known_hashes,
    mismatch,
    options_of,
    other_tree,
    proved,
    require_match,
    require_no_contradiction,
)
from xpubuild.install.options import Options, Policy
from xpubuild.install.resolve import prepare
from xpubuild.install.target import Prepared
from xpubuild.supply.git.git import Report


def prepare_locked(options: Options, path: Path, policy: Policy, *, cancel: Cancel | None = None) -> Prepared:
    """Return the plan of the lock at ``path``.

    Raises:
        LockMismatchError: lock, recipe, options or machine do not agree; everything that differs is named.
        XpuBuildError: see ``read_lock`` and ``prepare``.
    """
    lock = read_lock(path)
    asked = options_of(lock, options)
    require_no_contradiction(lock, options)
    conda_lock = options.conda_lock or conda_lock_beside(path, lock)
    found = prepare(replace(asked, conda_lock=conda_lock), cancel=cancel)
    require_match(lock, found, policy)
    # Without --runtime, versions are those of the workspace, which come from the lock.
    if (runtime := found.target.runtime) is not None:
        require_locked(runtime, lock)
    summary = {**found.plan.summary, "locked": f"by {path}, {lock.digest[:12]}; machine: {policy}"}
    steps = tuple(proved(step, lock, found) for step in found.plan.steps)
    return replace(found, plan=replace(found.plan, steps=steps, summary=summary))


@frozen
class Verdict:
    """The result of checking a lock."""

    lock: Lock
    policy: Policy
    differences: tuple[Difference, ...]

    def document(self) -> dict[str, Any]:
        """Return the ``xpubuild.verify-lock/1`` document."""
        return {
            "schema": "xpubuild.verify-lock/1",
            "status": "differs" if self.differences else "ok",
            "recipe": self.lock.recipe.name,
            "lock": self.lock.digest,
            "policy": self.policy,
            "differences": plain(self.differences),
            "open": [wheel.component for wheel in self.lock.python.wheels if wheel.hashes is None],
        }

    def error(self) -> XpuBuildError | None:
        """Return the failure that the differences mean, or None where there are none."""
        if not self.differences:
            return None
        error: XpuBuildError = mismatch(self.lock, self.differences)
        paths = {item.path for item in self.differences}
        for item in self.differences:
            place, _, last = item.path.rpartition(".")
            if last == "tree" and item.old and item.new and f"{place}.commit" not in paths:
                error = other_tree(self.lock, item.path, str(item.old), str(item.new))
                break
        error.document = self.document()
        return error


def check_lock(
    lock: Lock, options: Options, policy: Policy, *, report: Report, cancel: Cancel | None = None
) -> Verdict:
    """Make a lock again from its recipe and the sources, and compare the two and this machine.

    ``options`` have what a lock leaves open: recipe file, mirror, offline, python, oneapi_root and others.

    Raises:
        LockMismatchError: the recipe does not have what the lock names.
        UnsatisfiableError, ToolchainError: this machine cannot build it at all.
        FetchError, SourceIntegrityError: a source cannot be had, or is damaged.
    """
    # A workspace of its own: the user's may follow a branch to another commit than the lock has.
    with scratch_folder("lock") as folder:
        try:
            prepared = prepare(replace(options_of(lock, options), workspace=folder), cancel=cancel)
        except UsageError as error:
            why = f"{error.what}. {error.why}" if error.why else error.what
            raise changed(lock, "the recipe cannot be built as locked", why) from error
        here = make_lock(prepared, report=report, cancel=cancel)
    if known := known_hashes(lock):
        wheels = tuple(
            wheel.model_copy(update={"hashes": wheel.hashes or known.get(wheel.component)})
            for wheel in here.python.wheels
        )
        here = here.model_copy(update={"python": here.python.model_copy(update={"wheels": wheels})})
    return Verdict(lock, policy, tuple(differences(lock, here, policy)))


def require_locked(site_packages: Path, lock: Lock) -> None:
    """Compare the packages with Intel's runtime in an environment with a lock.

    A package that the lock pins has that version; another one has major and minor of the oneAPI component
    that its libraries are of.

    Raises:
        LockMismatchError: a version differs; the message has both.
    """
    pinned: dict[str, set[str]] = {}
    for pin in (pin for file in lock.python.requirements.values() for pin in file.pins):
        pinned.setdefault(pin.name, set()).add(pin.version)
    for package in lock.conda.packages if lock.conda is not None else ():
        pinned.setdefault(canonicalize_name(package.name), set()).add(package.version)
    oneapi = lock.machine.oneapi.components if lock.machine.oneapi is not None else {}
    found = []
    for name, version, component in _of_intel(site_packages):
        whose, wanted = name, pinned.get(name, set())
        if not wanted and component in oneapi:
            whose, wanted = f"oneAPI's {component}", {oneapi[component]}
        if wanted and not any(_fits(version, item, exact=name in pinned) for item in wanted):
            found.append(f"{name} {version}, the lock {whose} {' or '.join(sorted(wanted))}")
    if found:
        raise LockMismatchError(
            f"the packages in {site_packages} do not match the lock",
            why="; ".join(f"it has {item}" for item in found),
            fix=(
                "install the version of the lock there, pass another environment with --runtime, or create a "
                "new lock"
            ),
            commands=(f"xpubuild lock {lock.recipe.name}",),
            evidence={"packages": found},
        )


def _of_intel(site_packages: Path) -> Iterator[tuple[str, str, str]]:
    """Yield name and version of each distribution with libraries of Intel's runtime, and their component."""
    runtime, seen = Runtime(site_packages), set()
    for owned in runtime.matching(("*",)):
        component, dist = component_of(owned.library), owned.dist
        # Intel's wheels have theirs beside site-packages; others, such as torch, may have copies inside.
        beside = runtime.site_packages not in owned.path.parents
        if component is not None and beside and dist.name not in seen:
            seen.add(dist.name)
            yield dist.name, dist.version, component


def _fits(here: str, there: str, *, exact: bool) -> bool:
    try:
        one, other = Version(here), Version(there)
    except InvalidVersion:
        return here == there
    return one == other if exact else one.release[:2] == other.release[:2]
