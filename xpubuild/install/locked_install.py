"""``install --locked``: the plan of a lock, whose steps check that their results match the lock."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from xpubuild.engine.model import Proof, Step
from xpubuild.engine.process import Cancel
from xpubuild.errors import LockMismatchError
from xpubuild.frozen import frozen
from xpubuild.install import lock_model as model
from xpubuild.install.conda_environment import file_name
from xpubuild.install.lock_compare import Difference
from xpubuild.install.lock_file import lock_digest, read_lock
from xpubuild.install.lock_parts import clean_url
from xpubuild.install.locked_archives import LockedArchivesProof
from xpubuild.install.locked_options import mismatch, options_of, require_match, require_tree, resolved_of
from xpubuild.install.open_wheels import LockedWheelProof
from xpubuild.install.options import Options
from xpubuild.install.repair_locked import require_locked
from xpubuild.install.resolve import prepare
from xpubuild.install.target import Prepared
from xpubuild.recipe.load import load
from xpubuild.supply.archives import UnpackedProof
from xpubuild.supply.git.integrity import TreeProof
from xpubuild.supply.git.serving import ServedProof


def prepare_locked(
    options: Options, path: Path, policy: model.Policy, *, cancel: Cancel | None = None
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
            packages=asked.packages,
            conda_lock=options.conda_lock or _conda_lock_beside(path, lock),
            resolved=resolved_of(lock, load(recipe).recipe),
        ),
        cancel=cancel,
    )
    require_match(lock, found, policy)
    # Without --runtime, versions are those of the workspace, which come from the lock.
    if (runtime := found.target.runtime) is not None:
        require_locked(runtime, lock)
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


def _require_no_contradiction(lock: model.Lock, options: Options) -> None:
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
            f"{name} {asked} does not match the lock: {has or 'none'}",
            why="a locked install builds exactly what the lock says",
            fix=f"omit {name}, or create a new lock",
            evidence={"options": [[item[0], item[1], item[2]] for item in found]},
        )


def _proved(step: Step, lock: model.Lock, prepared: Prepared) -> Step:
    component = step.id.partition(".")[0]
    proofs = [_locked(proof, lock, component) for proof in step.proofs]
    for wheel in lock.python.wheels:
        if wheel.component == step.id and wheel.hashes:
            report = prepared.target.layout.pip_report(step.id, step.id)
            proofs.append(LockedWheelProof(str(report), wheel.dist, wheel.hashes))
    # Also of what an install without the lock has left here.
    archives = any(isinstance(proof, LockedArchivesProof) for proof in proofs)
    always = step.always_prove or archives or len(proofs) > len(step.proofs)
    # The stamp tells nothing about what the lock asks for.
    return replace(step, proofs=tuple(proofs), always_prove=always, guard_stamp=None)


def _locked(proof: Proof, lock: model.Lock, component: str) -> Proof:
    if isinstance(proof, UnpackedProof):
        return LockedArchivesProof(proof, tuple(i for i in lock.archives if i.component == component))
    return LockedProof(proof, lock, component) if isinstance(proof, TreeProof | ServedProof) else proof


@frozen
class LockedProof:
    """The check of a source, and that it matches the lock.

    It has the key of the check that it extends: a workspace that was made without the lock does not have to
    be rebuilt, only checked.
    """

    proof: Proof
    lock: model.Lock
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
            both = zip(old[url], new[url], strict=True) if url in old and url in new else ()
            there, here = next(
                (pair for pair in both if pair[0] != pair[1]),
                (old[url][0] if url in old else "nothing", new[url][0] if url in new else "no clone"),
            )
            text = f"{name}: the lock has {there}, the tree requires {here}"
            found.append(Difference(name, old.get(url), new.get(url), text))
    if found:
        raise mismatch(lock, found)
