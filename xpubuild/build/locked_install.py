"""``install --locked``: the plan of a lock, whose steps prove that what they make is what the lock says."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from xpubuild.build.conda_gather import file_name
from xpubuild.build.fetch_inputs import is_lock
from xpubuild.build.gather import PlanOptions, Prepared, prepare
from xpubuild.build.locked import mismatch, options_of, require_match, require_tree, resolved_of
from xpubuild.build.locking import read_lock
from xpubuild.build.open_wheels import LockedWheelProof
from xpubuild.engine.model import Proof, Step
from xpubuild.engine.process import Cancel
from xpubuild.errors import LockMismatchError, RecipeError, UsageError
from xpubuild.lock import model
from xpubuild.lock.canonical import lock_digest
from xpubuild.lock.compare import Difference
from xpubuild.lock.plain import clean_url
from xpubuild.recipe.load import load
from xpubuild.source.integrity import TreeProof
from xpubuild.source.serving import ServedProof

_SUFFIX = ".lock.yaml"


@dataclass(frozen=True)
class LockOptions:
    """How the command line names a lock: ``--locked``, ``--lock FILE`` and how the machine is compared."""

    locked: bool = False
    file: Path | None = None
    policy: model.Policy = "compatible"


def prepare_as_asked(options: PlanOptions, lock: LockOptions, *, cancel: Cancel | None = None) -> Prepared:
    """Return the plan of recipe and options, or of a lock where one is asked for or given as the recipe.

    Raises:
        RecipeError: the lock is missing or is no lock.
        LockMismatchError: lock, recipe, options or machine do not agree; everything that differs is named.
        XpuBuildError: see ``gather.prepare``.
    """
    given = options.recipe
    if given is not None and is_lock(given):
        if lock.file is not None:
            raise UsageError("two locks are given", fix="name the lock as RECIPE or with --lock, not both")
        return prepare_locked(replace(options, recipe=None), Path(given), lock.policy, cancel=cancel)
    if lock.locked or lock.file is not None:
        path = lock.file or _beside_recipe(options)
        return prepare_locked(options, path, lock.policy, cancel=cancel)
    return prepare(options, cancel=cancel)


def _beside_recipe(options: PlanOptions) -> Path:
    if options.recipe is None:
        raise UsageError(
            "--locked needs to know which lock",
            fix=f"name the recipe, whose lock is RECIPE{_SUFFIX} in this folder, or a lock with --lock FILE",
        )
    name = load(options.recipe).recipe.name
    path = Path(f"{name}{_SUFFIX}").absolute()
    if not path.is_file():
        raise RecipeError(
            f"there is no lock {path}",
            why="--locked takes RECIPE.lock.yaml of the current folder where --lock names no other",
            fix="write one with the first line below, or name one with --lock FILE",
            commands=(f"xpubuild lock {options.recipe}",),
        )
    return path


def prepare_locked(
    options: PlanOptions, path: Path, policy: model.Policy, *, cancel: Cancel | None = None
) -> Prepared:
    """Return the plan of the lock at ``path``; options that the lock leaves open are those of ``options``."""
    lock = read_lock(path)
    asked = options_of(lock, recipe=options.recipe, python=options.python)
    _require_no_contradiction(lock, options)
    recipe = asked.recipe or lock.recipe.name
    found = prepare(
        replace(
            options,
            recipe=recipe,
            with_=asked.with_,
            without=asked.without,
            cxx11_abi=asked.cxx11_abi,
            target=asked.target,
            variant=asked.variant,
            arch=asked.arch,
            python=asked.python,
            env=asked.env,
            conda_lock=options.conda_lock or _conda_lock_beside(path, lock),
            resolved=resolved_of(lock, load(recipe).recipe),
        ),
        cancel=cancel,
    )
    require_match(lock, found, policy)
    return replace(
        found,
        plan=replace(
            found.plan,
            steps=tuple(_proved(step, lock, found) for step in found.plan.steps),
            summary={
                **found.plan.summary,
                "locked": f"by {path}, {lock_digest(lock)[:12]}; machine: {policy}",
            },
        ),
    )


def _conda_lock_beside(path: Path, lock: model.Lock) -> Path | None:
    """Return the conda-lock.yml that ``xpubuild lock`` wrote beside a lock, where it is needed and there."""
    beside = path.with_name(file_name(lock.recipe.name))
    return beside if lock.options.env == "conda" and beside.is_file() else None


def _require_no_contradiction(lock: model.Lock, options: PlanOptions) -> None:
    said = lock.options
    pairs: Iterable[tuple[str, Any, Any]] = (
        ("--target", options.target, said.target),
        ("--variant", options.variant, said.variant),
        ("--cxx11-abi", options.cxx11_abi, str(said.cxx11_abi)),
        ("--arch", ",".join(options.arch) or None, ",".join(said.arch)),
    )
    found = [(name, asked, has) for name, asked, has in pairs if asked is not None and asked != has]
    found += [("--with", name, "it is not among its components") for name in options.with_
              if name not in said.components]  # fmt: skip
    found += [("--without", name, "it is among its components") for name in options.without
              if name in said.components]  # fmt: skip
    if options.editable or options.allow_dirty:
        found.append(("--editable or --allow-dirty", "edits", "commits alone"))
    if found:
        name, asked, has = found[0]
        raise LockMismatchError(
            f"{name} {asked} is not what the lock says: {has or 'none'}",
            why="a locked install builds what the lock says and nothing else",
            fix=f"leave {name} away, or write a lock of what you want",
            evidence={"options": [[item[0], item[1], item[2]] for item in found]},
        )


def _proved(step: Step, lock: model.Lock, prepared: Prepared) -> Step:
    component = step.id.partition(".")[0]
    proofs = [_locked(proof, lock, component) for proof in step.proofs]
    for wheel in lock.python.wheels:
        if wheel.component == step.id and wheel.hashes:
            report = prepared.context.layout.pip_report(step.id, step.id)
            proofs.append(LockedWheelProof(str(report), wheel.dist, wheel.hashes))
    # Also of what an install without the lock has left here.
    always = step.always_prove or len(proofs) > len(step.proofs)
    return replace(step, proofs=tuple(proofs), always_prove=always)


def _locked(proof: Proof, lock: model.Lock, component: str) -> Proof:
    return LockedProof(proof, lock, component) if isinstance(proof, TreeProof | ServedProof) else proof


@dataclass(frozen=True)
class LockedProof:
    """A proof of sources with one more sentence: it is what the lock says.

    It has the key of the proof that it stands for: a workspace that was made without the lock need not be
    made anew, only looked at.
    """

    proof: Proof
    lock: model.Lock
    component: str

    def describe(self) -> str:
        """Say what is proved."""
        return f"{self.proof.describe()}, as the lock says"

    def key(self) -> dict[str, Any]:
        """Return what the proof depends on."""
        return self.proof.key()

    def check(self) -> dict[str, Any]:
        """Return the evidence of the proof.

        Raises:
            SourceIntegrityError, LockMismatchError: a commit, tree or submodule is not the lock's.
        """
        evidence = self.proof.check()
        if isinstance(self.proof, TreeProof):
            require_tree(self.lock, self.component, evidence)
        else:
            _require_served(self.lock, self.component, evidence["served"])
        return evidence


def _require_served(lock: model.Lock, component: str, served: Iterable[Mapping[str, str]]) -> None:
    """Hold what a build will clone against the lock."""
    known = lock.repositories[component].configure_time
    old = {item.url: (item.commit, item.tree, item.asked_for) for item in known}
    old |= {
        below.url: (below.commit, below.tree, below.commit) for item in known for below in item.submodules
    }
    new = {clean_url(item["url"]): (item["commit"], item["tree"], item["asked_for"]) for item in served}
    found = []
    for url in sorted({*old, *new}):
        if old.get(url) != new.get(url):
            name = f"repositories.{component}.configure_time.{url}"
            here = new[url][0] if url in new else "not cloned"
            there = old[url][0] if url in old else "nothing"
            text = f"{name}: the lock has {there}, the tree asks for {here}"
            found.append(Difference(name, old.get(url), new.get(url), text))
    if found:
        raise mismatch(lock, found)
