"""``install --locked``: a lock as the options of a plan, and the comparison of a plan with its lock."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from xpubuild.documents import plain
from xpubuild.errors import LockMismatchError, SourceIntegrityError
from xpubuild.install import lock_model as model
from xpubuild.install.lock import offline_part
from xpubuild.install.lock_compare import Difference, compare, differences, machine_differences
from xpubuild.install.lock_file import lock_digest
from xpubuild.install.lock_parts import clean_text, clean_url, refused
from xpubuild.install.locked_archives import borrowed_archives
from xpubuild.install.locked_sources import embedded_url
from xpubuild.install.options import EnvKind, Options, Resolved
from xpubuild.install.planner import Repository, inputs_of
from xpubuild.install.target import Prepared
from xpubuild.recipe.load import load
from xpubuild.recipe.model import Recipe

#: Stands for a tree that nobody has looked at, of a repository that the lock does not have.
_NO_TREE = "0" * 40
_MOST_TOLD = 12
_DERIVED = ("plan", "recipe.digest")


def options_of(lock: model.Lock, *, recipe: str | None = None, python: str | None = None) -> Options:
    """Return the options that ask for what the lock says.

    ``recipe`` is the file of the recipe, where it is not in the search path. The interpreter is ``python``,
    else the default, or the one on PATH with the lock's version in its name where the default is another.

    Raises:
        RecipeError: the recipe is not found or not valid.
        LockMismatchError: the recipe has no such component or variant.
    """
    found = load(recipe or lock.recipe.name).recipe
    options = lock.options
    unknown = [f"component '{name}'" for name in options.components if name not in found.components]
    if options.variant is not None and options.variant not in found.variants:
        unknown.append(f"variant '{options.variant}'")
    if unknown:
        raise LockMismatchError(
            f"the lock has {' and '.join(unknown)}, recipe '{found.name}' does not",
            why="the recipe was changed since the lock was created, or the lock belongs to another recipe",
            fix="use the recipe that the lock was created from, or create a new lock",
            commands=(f"xpubuild lock {recipe or found.name}",),
        )
    return Options(
        recipe=recipe or lock.recipe.name,
        with_=options.components,
        without=tuple(item for item in found.components if item not in options.components),
        cxx11_abi=str(options.cxx11_abi),
        target=options.target,
        variant=options.variant,
        # A build for the CPU may not ask for AOT targets; those in its lock are the recipe's.
        arch=options.arch if options.target == "xpu" else (),
        python=python or _interpreter(options),
        packages=options.env,
    )


def _interpreter(options: model.Options) -> str | None:
    """Return --python for a lock: a version for conda, else a program, or None where the default will do."""
    version = options.python.version
    if options.env == "conda":
        return version
    name = f"python{version}"
    default = f"{sys.version_info.major}.{sys.version_info.minor}"
    return name if version != default and shutil.which(name) else None


def resolved_of(lock: model.Lock, recipe: Recipe) -> dict[str, Resolved]:
    """Return the commits that the recipe leaves open and the lock has: upstream need not be asked."""
    found = {}
    for name, repository in lock.repositories.items():
        component = recipe.components.get(name)
        source = component.source if component is not None else None
        if source is None or source.commit is not None or source.url is None or source.ref is None:
            continue
        if (clean_url(source.url), source.ref) == (repository.url, repository.ref):
            found[name] = Resolved(source.ref, repository.commit, source.url, when="as the lock says")
    return found


def require_match(
    lock: model.Lock,
    prepared: Prepared,
    policy: model.Policy = "compatible",
    *,
    env: EnvKind | None = None,
    conda: model.Conda | None = None,
) -> None:
    """Compare a plan with its lock before anything is fetched.

    Recipe, options, commits, requirements and the machine are compared; submodules and what a build clones
    are held against the lock when they are there (``require_tree``). ``env`` and ``conda`` are the plan's own
    where they are not given.

    Raises:
        LockMismatchError: with every difference in ``evidence``.
    """
    try:
        archives = borrowed_archives(inputs_of(prepared.target).archives, lock)
        here = offline_part(prepared, _borrowed(lock, prepared), archives, env=env, conda=conda)
    except ValidationError as error:
        raise refused(error, f"recipe '{prepared.target.recipe.name}'") from error
    found = differences(lock, with_known_hashes(lock, here))
    found += machine_differences(lock.machine, here.machine, policy)
    if found:
        raise mismatch(lock, found)


def with_known_hashes(lock: model.Lock, here: model.Lock) -> model.Lock:
    """Return ``here`` with the hashes of open wheels that the lock has: only a fetch finds these."""
    known = {wheel.component: wheel.hashes for wheel in lock.python.wheels}
    wheels = tuple(
        wheel.model_copy(update={"hashes": known.get(wheel.component)}) if wheel.hashes is None else wheel
        for wheel in here.python.wheels
    )
    return here.model_copy(update={"python": here.python.model_copy(update={"wheels": wheels})})


def _borrowed(lock: model.Lock, prepared: Prepared) -> dict[str, model.Repository]:
    """Return the repositories of a plan, with the trees and submodules that the lock has for them."""
    found = inputs_of(prepared.target)
    borrowed = {}
    for item in (*found.repositories, *found.embedded):
        known = lock.repositories.get(item.component)
        borrowed[item.component] = model.Repository(
            **_origin(item, prepared),
            ref=item.pin.ref,
            commit=item.pin.commit,
            tree=item.pin.tree or (known.tree if known else _NO_TREE),
            submodules=known.submodules if known else (),
            configure_time=known.configure_time if known else (),
        )
    return borrowed


def _origin(item: Repository, prepared: Prepared) -> dict[str, str | None]:
    source = prepared.target.component(item.component).source
    if source is not None and source.embedded is not None:
        return {"embedded": source.embedded}
    return {"url": clean_url(item.pin.url)}


def mismatch(lock: model.Lock, found: Sequence[Difference], fix: str = "") -> LockMismatchError:
    """Return the error of a lock that is not what would be built."""
    # Digests of everything come last: what they are made of says more.
    ordered = sorted(found, key=lambda item: item.path in _DERIVED)
    told = [item.text for item in ordered[:_MOST_TOLD]]
    rest = len(found) - len(told)
    return LockMismatchError(
        f"the lock does not match: {ordered[0].path}" + (f" and {len(found) - 1} more" if found[1:] else ""),
        why="; ".join([*told, *([f"and {rest} more"] if rest > 0 else [])]),
        fix=fix
        or "build with the recipe, options and machine that the lock was created for, or create a new lock",
        commands=(f"xpubuild lock {lock.recipe.name}",),
        evidence={"lock": lock_digest(lock), "differences": plain(tuple(found))},
    )


def require_tree(lock: model.Lock, component: str, evidence: Mapping[str, Any]) -> None:
    """Compare a checkout with the lock; ``evidence`` is what ``source.integrity.verify_checkout`` returns.

    Raises:
        SourceIntegrityError: a commit has another tree than the lock says.
        LockMismatchError: another commit, or other submodules; the message names them.
    """
    known = lock.repositories.get(component)
    if known is None:
        raise LockMismatchError(
            f"the lock does not list the source repository of {component}",
            why="the recipe was changed since the lock was created",
            fix="create a new lock",
            commands=(f"xpubuild lock {lock.recipe.name}",),
        )
    place = f"repositories.{component}"
    if evidence["commit"] == known.commit and evidence["tree"] != known.tree:
        raise other_tree(lock, f"{place}.tree", known.tree, str(evidence["tree"]))
    url_of = embedded_url if known.embedded is not None else clean_url
    there = {item.path: {"url": item.url, "commit": item.commit} for item in known.submodules}
    here = {
        clean_text(item["path"]): {"url": url_of(item["url"]), "commit": item["commit"]}
        for item in evidence["submodules"]
    }
    found = list(
        compare(
            place,
            {"commit": known.commit, "submodules": there},
            {"commit": str(evidence["commit"]), "submodules": here},
        )
    )
    if found:
        raise mismatch(lock, found)


def other_tree(lock: model.Lock, path: str, old: str, new: str) -> SourceIntegrityError:
    """Return the error of a commit whose tree is not what the lock says, which git's hashes rule out."""
    return SourceIntegrityError(
        f"{path} does not match the lock",
        why=(
            f"the lock has the tree {old}, but the same commit has {new} here: one of the two was tampered "
            "with"
        ),
        fix="restore the lock from version control; compare the commit with another copy of the repository",
        evidence={"lock": lock_digest(lock), "path": path, "expected": old, "tree": new},
    )
