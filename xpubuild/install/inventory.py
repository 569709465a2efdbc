"""Checks, before an install that uses a mirror, that all required files are present and valid.

An offline install must report a missing file before the first build, not after hours.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace

from xpubuild.engine.process import Cancel
from xpubuild.errors import FetchError
from xpubuild.install.fetch_packages import wheels_here
from xpubuild.install.inputs import Inputs, inputs_of, trees
from xpubuild.install.resolve import git_store
from xpubuild.install.target import Prepared
from xpubuild.supply import archives
from xpubuild.supply.archives import Archive, Supply
from xpubuild.supply.conda.lockfile import read_lock
from xpubuild.supply.depot.examine import require_sound
from xpubuild.supply.depot.folder import Depot, archives_in


def take_stock(
    prepared: Prepared, done: Collection[str], *, report: Callable[[str], None], cancel: Cancel
) -> None:
    """Prove that what the steps other than ``done`` will take from outside is here, as far as it must be.

    With a mirror, every byte of it that this recipe can use is compared with its index. Offline, all
    repositories are brought into the user's own mirrors, each object hashed, and all packages are looked up.

    Raises:
        FetchError: offline, the first thing that is missing.
        SourceIntegrityError: the mirror is damaged; everything damaged is named.
        RecipeError, NoSpaceError, ToolchainError, InterruptedByUserError.
    """
    downloads = prepared.target.downloads
    inputs, conda = _still_needed(prepared, done)
    if not (inputs.repositories or inputs.requirements or inputs.archives or conda):
        return
    if downloads.mirror is not None:
        mirror = Depot.open(downloads.mirror)
        report(f"checking the mirror {mirror.path}")
        sets = mirror.index().of(prepared.plan.recipe)
        # All of it where no fetch of this recipe is known here.
        require_sound(mirror, {name for one in sets for name in one.needs} if sets else None)
    if downloads.offline:
        report("looking up all required files")
        require_all(prepared, done, cancel=cancel)


def require_all(prepared: Prepared, done: Collection[str], *, cancel: Cancel, bring: bool = True) -> None:
    """Look up everything that the steps other than ``done`` will take from outside, offline.

    Without ``bring`` nothing is copied from the mirror into the user's own repositories, so those are looked
    up only where there is no mirror.

    Raises:
        FetchError: the first thing that is missing.
        SourceIntegrityError, RecipeError, NoSpaceError, ToolchainError, InterruptedByUserError.
    """
    target, folder = prepared.target, prepared.target.downloads.mirror
    mirror = Depot.open(folder) if folder is not None else None
    inputs, conda = _still_needed(prepared, done)
    try:
        if inputs.repositories and (bring or mirror is None):
            store = git_store(target, cancel=cancel)
            for tree in [tree for item in inputs.repositories for tree in trees(item, store, _silent)]:
                if tree.pin is None:
                    raise _unknown(tree.url, tree.note, f"{tree.component}.source.configure_time")
        if conda is not None:
            packages = (package.archive for package in read_lock(conda).packages)
            archives.require_here(packages, Supply(target.cache / "conda", archives_in(folder), offline=True))
        wheels_here(mirror, inputs, [inputs.python_version])
        supply = Supply(target.cache / "archives", archives_in(folder), True, cancel)
        for item in inputs.archives:
            if item.url is None:
                note = f"it is not known from where the build of {item.component} downloads it"
                raise _unknown(f"the {item.name}", note, f"{item.component}.build.archives.{item.name}.url")
            archives.require_here([Archive(item.name, item.url, item.sha256)], supply)
    except FetchError as error:
        if mirror is None:
            error.fix = (
                "fill a mirror with xpubuild fetch where there is a network, and pass it with --mirror;"
                " or remove --offline"
            )
            error.commands = (f"xpubuild fetch {prepared.plan.recipe} --mirror DIR", *error.commands)
        raise


def _unknown(what: str, note: str, key: str) -> FetchError:
    return FetchError(
        f"{what} cannot be in a mirror",
        why=note,
        fix=f"write a recipe that extends this one and sets components.{key}, then fetch again",
        evidence={"reason": "offline", "what": what},
    )


def _silent(_: str) -> None:
    """Say nothing: git tells the progress of every small repository."""


def _still_needed(prepared: Prepared, done: Collection[str]) -> tuple[Inputs, str | None]:
    """Return the inputs of the steps that will run, and the conda lock if the environment is to be made."""
    target, whole = prepared.target, inputs_of(prepared.target)
    todo = {step.id: step for step in prepared.plan.steps if step.id not in done}
    read = {path for step in todo.values() for path in step.inputs}

    def runs(component: str, *steps: str) -> bool:
        return any(f"{component}.{step}" in todo for step in steps)

    needed = replace(
        whole,
        repositories=tuple(i for i in whole.repositories if runs(i.component, "source", "repositories")),
        requirements=tuple(i for i in whole.requirements if str(target.requirement_path(i.name)) in read),
        archives=tuple(i for i in whole.archives if runs(i.component, "archives", "wheel", "install")),
    )
    return needed, target.conda_lock if "env" in todo else None
