"""What a lock is for: the plan of ``--locked`` with proofs of its steps, and ``check LOCK``.

A plan is compared with its lock before anything is fetched: recipe, options, commits, requirements, machine.
Submodules, what a build clones and hashes that only the lock has are compared when they are there.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from xpubuild.documents import plain
from xpubuild.engine.model import Proof, Step
from xpubuild.engine.process import Cancel
from xpubuild.engine.temporary import scratch_folder
from xpubuild.errors import LockMismatchError, SourceIntegrityError, UsageError, XpuBuildError
from xpubuild.frozen import frozen
from xpubuild.install.conda_environment import file_name
from xpubuild.install.inputs import inputs_of
from xpubuild.install.lock import embedded_url, lock_of, make_lock
from xpubuild.install.lock_file import Difference, Lock, Tree, clean_url, compare, differences, read_lock
from xpubuild.install.options import Options, Policy, Resolved
from xpubuild.install.resolve import prepare
from xpubuild.install.target import Prepared
from xpubuild.recipe.load import load
from xpubuild.recipe.model import Recipe
from xpubuild.supply.archives import UnpackedProof
from xpubuild.supply.git.git import Report
from xpubuild.supply.git.integrity import TreeProof
from xpubuild.supply.git.serving import ServedProof

#: Stands for a commit and tree of a repository that the lock does not have.
_NOTHING = "0" * 40
_MOST_SHOWN = 12


def prepare_locked(options: Options, path: Path, *, cancel: Cancel | None = None) -> Prepared:
    """Return the plan of the lock at ``path``.

    Raises:
        LockMismatchError: lock, recipe, options or machine do not agree; everything that differs is named.
        XpuBuildError: see ``read_lock`` and ``prepare``.
    """
    lock, policy = read_lock(path), options.lock_policy
    asked = options_of(lock, options)
    _require_no_contradiction(lock, options)
    conda_lock = options.conda_lock or conda_lock_beside(path, lock)
    found = prepare(replace(asked, conda_lock=conda_lock), cancel=cancel)
    require_match(lock, found, policy)
    cache = found.target.compile_cache
    summary = {**found.plan.summary, "locked": f"by {path}, {lock.digest[:12]}; machine: {policy}"}
    steps = tuple(_proved(step, lock) for step in found.plan.steps)
    if cache is not None and cache.server:
        summary["network"] = f"builds have it: the compile cache is shared by {cache.server}"
    else:
        steps = tuple(_isolated(step) if step.id.endswith(".wheel") else step for step in steps)
    return replace(found, plan=replace(found.plan, steps=steps, summary=summary))


def check_lock(
    lock: Lock, options: Options, policy: Policy, *, report: Report, cancel: Cancel | None = None
) -> tuple[dict[str, Any], XpuBuildError | None]:
    """Make a lock again from its recipe and the sources, and compare the two and this machine.

    ``options`` have what a lock leaves open: recipe file, mirror, offline, python, oneapi_root and others.
    Returns the ``xpubuild.verify-lock/1`` document, and the error that differences mean.

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
    found = differences(lock, here, policy)
    document = {
        "schema": "xpubuild.verify-lock/1", "status": "differs" if found else "ok", "recipe": lock.name,
        "lock": lock.digest, "policy": policy, "differences": plain(found),
    }  # fmt: skip
    return document, mismatch(lock, found) if found else None


def options_of(lock: Lock, options: Options) -> Options:
    """Return the options that ask for what the lock says; what it leaves open is that of ``options``.

    The recipe is that of ``options``, a file, where it is not in the search path. The interpreter is that of
    ``options``, else the default, or the one on PATH with the lock's version in its name.

    Raises:
        RecipeError: the recipe is not found or not valid.
        LockMismatchError: the recipe has no such component or variant.
    """
    name, stated = options.recipe or lock.name, lock.options
    recipe = load(name, stated.components).recipe
    unknown = [f"component '{item}'" for item in stated.components if item not in recipe.components]
    if stated.variant is not None and stated.variant not in recipe.variants:
        unknown.append(f"variant '{stated.variant}'")
    if unknown:
        raise changed(lock, f"the lock has {' and '.join(unknown)}, recipe '{recipe.name}' does not")
    trees = [tree for top in lock.repositories.values() for tree in (top, *top.configure_time.values())]
    return replace(
        options, recipe=name, with_=tuple(stated.components),
        without=tuple(item for item in recipe.components if item not in stated.components),
        cxx11_abi=str(stated.cxx11_abi), target=stated.target, variant=stated.variant,
        # A build for the CPU may not ask for AOT targets; those in its lock are the recipe's.
        arch=tuple(stated.arch) if stated.target == "xpu" else (),
        python=options.python or _interpreter(lock), packages=stated.packages,
        resolved=resolved_of(lock, recipe),
        patches={tree.base: tree.patch for tree in trees if tree.base and tree.patch is not None},
    )  # fmt: skip


def changed(lock: Lock, what: str, why: str = "") -> LockMismatchError:
    """Return the error of a recipe that is not the one of the lock any more."""
    return LockMismatchError(
        what,
        why=why or "the recipe was changed since the lock was created, or the lock belongs to another recipe",
        fix="use the recipe that the lock was created from, or create a new lock",
        commands=(f"xpubuild lock {lock.name}",),
    )


def _interpreter(lock: Lock) -> str | None:
    """Return --python for a lock: a version for conda, else a program, or None where the default will do."""
    version = lock.options.python
    if lock.options.packages == "conda":
        return version
    default = f"{sys.version_info.major}.{sys.version_info.minor}"
    return f"python{version}" if version != default and shutil.which(f"python{version}") else None


def resolved_of(lock: Lock, recipe: Recipe) -> dict[str, Resolved]:
    """Return the commits that the recipe leaves open and the lock has: upstream need not be asked."""
    found = {}
    for name, item in lock.repositories.items():
        source = recipe.components[name].source if name in recipe.components else None
        # Of a source that is pinned, or follows another ref by now, it is not used.
        if source is not None and source.url and item.ref and clean_url(source.url) == item.url:
            found[name] = Resolved(item.ref, item.base or item.commit, source.url, when="as the lock says")
    return found


def conda_lock_beside(path: Path, lock: Lock) -> Path | None:
    """Return the conda-lock.yml that ``xpubuild lock`` wrote beside a lock, where it is needed and there."""
    beside = path.with_name(file_name(lock.name))
    return beside if lock.options.packages == "conda" and beside.is_file() else None


def _require_no_contradiction(lock: Lock, options: Options) -> None:
    """Refuse options that ask for something else than a lock."""
    stated, edits = lock.options, options.editable or options.allow_dirty or options.source_dir
    pairs: tuple[tuple[str, Any, Any], ...] = (
        ("--target", options.target, stated.target),
        ("--variant", options.variant, stated.variant),
        ("--cxx11-abi", options.cxx11_abi, str(stated.cxx11_abi)),
        ("--arch", ",".join(options.named_arch) or None, ",".join(stated.arch)),
        ("--editable, --allow-dirty or --source-dir", "edits" if edits else None, "commits"),
        *(("--with", name, None) for name in options.with_ if name not in stated.components),
        *(("--without", name, "this component") for name in options.without if name in stated.components),
    )
    for name, asked, has in (pair for pair in pairs if pair[1] not in (None, pair[2])):
        why = "a locked install builds exactly what the lock says"
        fix = f"omit {name}, or create a new lock"
        raise LockMismatchError(f"{name} {asked} does not match the lock: {has or 'none'}", why=why, fix=fix)


def require_match(lock: Lock, prepared: Prepared, policy: Policy = "compatible") -> None:
    """Compare a plan with its lock before anything is fetched.

    Raises:
        LockMismatchError: with every difference in ``evidence``.
    """
    found, repositories = inputs_of(prepared.target), {}
    for item in (*found.repositories, *found.embedded):
        # What only the sources say, trees and submodules, is taken from the lock.
        known = lock.repositories.get(item.component, Tree(url="", commit=_NOTHING, tree=_NOTHING))
        url = embedded_url(item.pin.url) if item in found.embedded else clean_url(item.pin.url)
        here = {"url": url, "ref": item.pin.ref, "commit": item.pin.commit}
        repositories[item.component] = known.model_copy(update=here)
    planned = lock_of(prepared, repositories, lock.archives)
    if different := differences(lock, planned, policy):
        raise mismatch(lock, different)


def mismatch(lock: Lock, found: Sequence[Difference], *, downloaded: bool = False) -> XpuBuildError:
    """Return the error of a lock that is not what would be built.

    git's hashes rule out another tree of the same commit: one of the two was tampered with. So was a file
    that was ``downloaded`` from the address in the lock and is another one.
    """
    differ = {item.path for item in found if item.old and item.new}
    trees = {path.removesuffix(".tree") for path in differ if path.endswith(".tree")}
    tampered = any(f"{place}.commit" not in differ for place in trees) or downloaded
    # The digest of everything comes last: what it is of says more.
    ordered = sorted(found, key=lambda item: item.path == "plan")
    return (SourceIntegrityError if tampered else LockMismatchError)(
        f"the lock does not match: {ordered[0].path}" + (f" and {len(found) - 1} more" if found[1:] else ""),
        why="; ".join(item.text for item in ordered[:_MOST_SHOWN]),
        fix="build with the recipe, options and machine that the lock was created for, or create a new lock",
        commands=(f"xpubuild lock {lock.name}",),
        evidence={"lock": lock.digest, "differences": plain(found)},
    )


# --- while the plan of a lock runs ------------------------------------------------------------------------


@frozen
class _LockedProof:
    """The check of a step's result, and that the result matches the lock.

    It has the key of the check that it extends: a workspace that was made without the lock does not have to
    be rebuilt, only checked.
    """

    proof: Proof
    lock: Lock
    component: str

    def describe(self) -> str:
        """Return what is checked."""
        return f"{self.proof.describe()}, as locked"

    def key(self) -> dict[str, Any] | None:
        """Return what the check depends on."""
        return self.proof.key()

    def check(self) -> dict[str, Any]:
        """Return the evidence of the proof.

        Raises:
            SourceIntegrityError, LockMismatchError: the result is not the lock's.
        """
        evidence = self.proof.check()
        require_as_locked(type(self.proof), self.lock, self.component, evidence)
        return evidence


def _proved(step: Step, lock: Lock) -> Step:
    """Return a step of a plan whose proofs also ask the lock."""
    component = step.id.partition(".")[0]
    proofs = [
        _LockedProof(proof, lock, component) if type(proof) in _SIDES else proof for proof in step.proofs
    ]
    # Also of what an install without the lock has left here; the stamp says nothing of a lock.
    always = step.always_prove or any(isinstance(proof, _LockedProof) for proof in proofs)
    return replace(step, proofs=tuple(proofs), always_prove=always, guard_stamp=None)


def _isolated(step: Step) -> Step:
    """Return a build whose commands have no network: what it needs was fetched before, as the lock says."""
    return replace(step, commands=tuple(replace(command, isolated=True) for command in step.commands))


def _trees(lock: Lock, component: str, evidence: Mapping[str, Any]) -> tuple[Any, Any]:
    """Return a checkout as the lock and as ``verify_checkout`` has it."""
    known = lock.repositories[component]
    url_of = embedded_url if known.url.startswith("embedded:") else clean_url
    here = {key: str(evidence[key]) for key in ("commit", "tree")}
    below = {
        clean_url(item["path"]): {"url": url_of(item["url"]), "commit": item["commit"]}
        for item in evidence["submodules"]
    }
    looked_at: Any = {"commit": True, "tree": True, "submodules": {"__all__": {"url", "commit"}}}
    return known.model_dump(include=looked_at), {**here, "submodules": below}


def _served(lock: Lock, component: str, evidence: Mapping[str, Any]) -> tuple[Any, Any]:
    """Return what a build will clone."""
    old: dict[str, Any] = {}
    for one in lock.repositories[component].configure_time.values():
        old[one.url] = {"commit": one.commit, "tree": one.tree, "ref": one.ref}
        for item in one.submodules.values():
            old[item.url] = {"commit": item.commit, "tree": item.tree, "ref": item.commit}
    return old, {
        clean_url(one["url"]): {"commit": one["commit"], "tree": one["tree"], "ref": one["asked_for"]}
        for one in evidence["served"]
    }


def _unpacked(lock: Lock, component: str, evidence: Mapping[str, Any]) -> tuple[Any, Any]:
    """Return the hashes of archives that were unpacked for a build."""
    here = {f"{component}.{item['name']}": item["sha256"] for item in evidence["archives"]}
    return {key: lock.archives[key].sha256 if key in lock.archives else None for key in here}, here


#: Proof -> where in the lock is what it looks at, and what returns that of the lock and of its evidence.
_SIDES: Mapping[type, tuple[str, Callable[[Lock, str, Mapping[str, Any]], tuple[Any, Any]]]] = {
    TreeProof: ("repositories.{}", _trees),
    ServedProof: ("repositories.{}.configure_time", _served),
    UnpackedProof: ("archives", _unpacked),
}


def require_as_locked(kind: type, lock: Lock, component: str, evidence: Mapping[str, Any]) -> None:
    """Compare the evidence of a proof with the lock.

    Raises:
        LockMismatchError, SourceIntegrityError: naming what differs; see ``mismatch``.
    """
    place, sides = _SIDES[kind]
    if found := list(compare(place.format(component), *sides(lock, component, evidence))):
        raise mismatch(lock, found, downloaded=kind is UnpackedProof)
